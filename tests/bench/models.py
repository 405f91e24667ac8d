"""Writes random checkpoints for measurements. Speed does not depend on the values of weights."""
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402

BERT_BASE = {"n_layers": 12, "n_heads": 12, "hidden": 768, "ffn": 3072, "vocab": 30522, "positions": 512}


def base(folder):
    """Its folder, made when it is not there: whole or not at all."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            checkpoint.write_random(f"{scratch}/base", **BERT_BASE).rename(folder)
    return folder
