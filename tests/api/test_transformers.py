"""Checkpoints saved by HuggingFace's code, compared with that code. Optional: it needs a Python that has torch and
transformers, this one or the one that TRANSFORMERS_PYTHON names:

    python3 -m venv DIR; DIR/bin/pip install numpy torch transformers
    TRANSFORMERS_PYTHON=DIR/bin/python make api-test
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE

CHECK = Path(__file__).resolve().parents[1] / "reference" / "transformers_check.py"
NOT_INSTALLED = 77


@pytest.mark.parametrize("what", ["--saved", *(pytest.param(name, marks=pytest.mark.slow) for name in ("--keys", "--values"))])
def test_what_transformers_saved(what):
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    done = subprocess.run([python, CHECK, what], env={**os.environ, "HEADSCOPE": os.path.abspath(HEADSCOPE)},
                          capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == NOT_INSTALLED:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stdout + done.stderr
