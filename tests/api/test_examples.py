"""The notebooks of examples/ run from top to bottom against a real server."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.skipif(not shutil.which("jupyter-nbconvert"), reason="jupyter-nbconvert is not installed")
@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_runs(notebook, server, tmp_path):
    env = dict(os.environ, HEADSCOPE_URL=server.url, IPYTHONDIR=str(tmp_path / "ipython"))
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", tmp_path, notebook],
        env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"image/png"' in (tmp_path / notebook.name).read_text()
