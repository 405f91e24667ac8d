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
def test_notebook_runs(notebook, server, headscope, tmp_path):
    env = dict(os.environ, HEADSCOPE_URL=server.url, HEADSCOPE=os.path.abspath(headscope), IPYTHONDIR=str(tmp_path / "ipython"),
               OTHER_MODEL=str(EXAMPLES.parent / "model" / "mini"))
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", tmp_path, notebook],
        env=env, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"image/png"' in (tmp_path / notebook.name).read_text()
