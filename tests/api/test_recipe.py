"""The pretraining recipe of the embedded model, run for a moment on text made here."""
import json
import pathlib
import random
import re
import subprocess
import sys

import pytest

from conftest import HEADSCOPE

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "model" / "mini"


def python(*arguments, folder):
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_recipe_makes_a_checkpoint_that_headscope_opens(tmp_path):
    pytest.importorskip("torch", reason="python3-torch is not installed")
    rng = random.Random(0)
    words = ["the", "river", "bridge", "boat", "war", "old", "people", "crossed", "left", "closed", "hour", "it"]
    with open(tmp_path / "articles.jsonl", "w", encoding="utf-8") as f:
        for _ in range(60):
            f.write(json.dumps([" ".join(rng.choices(words, k=120)) + "."]) + "\n")
    python(RECIPE / "prepare.py", tmp_path / "data", tmp_path / "articles.jsonl", folder=tmp_path)
    said = python(RECIPE / "pretrain.py", tmp_path / "data", tmp_path / "out", "--device", "cpu", "--hidden", 24,
                  "--heads", 2, "--ffn", 48, "--positions", 64, "--batch-tokens", 512, "--rate", 0.003,
                  "--unit", "steps", "--plan", "1:32:250,2:32:150", folder=tmp_path)
    losses = [float(loss) for loss in re.findall(r"held-out loss ([\d.]+)", said)]
    assert len(losses) == 2 and losses[-1] < 2.8  # a guess among all pieces costs 4.4, among the twelve words 2.5
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(tmp_path / "out"), "-"], input=b"the old bridge",
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["tokens"] == ["[CLS]", "the", "old", "bridge", "[SEP]"]
    assert len(answer["heads"]) == 2
