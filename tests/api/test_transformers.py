"""Checkpoints saved by HuggingFace's code, compared with that code. Optional: it needs a Python that has torch and
transformers, this one or the one that TRANSFORMERS_PYTHON names:

    python3 -m venv DIR; DIR/bin/pip install numpy torch transformers sentencepiece protobuf peft accelerate \
        fugashi ipadic unidic_lite gguf
    TRANSFORMERS_PYTHON=DIR/bin/python make api-test
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
NOT_INSTALLED = 77


def run(script, *arguments):
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    done = subprocess.run([python, REFERENCE / script, *arguments], env={**os.environ, "HEADSCOPE": os.path.abspath(HEADSCOPE)},
                          capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == NOT_INSTALLED:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["--saved", *(pytest.param(name, marks=pytest.mark.slow) for name in ("--keys", "--values"))])
def test_what_transformers_saved(what):
    run("transformers_check.py", what)


@pytest.mark.parametrize("names", [["t5", "bart", "bert", "esm", "phi", "nomic_bert", "encoder-decoder"], pytest.param([], marks=pytest.mark.slow)])
def test_files_that_were_edited(names):
    run("edited_files_check.py", *names)


def test_adapters_that_peft_saved():
    run("adapters_check.py")


def test_tokenizers_as_published():
    run("published_tokenizers_check.py")


def test_japanese_tokenizers():
    run("japanese_check.py")


def test_gguf_files():
    run("gguf_check.py")
