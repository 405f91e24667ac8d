"""Writes random checkpoints for measurements. Speed does not depend on the values of weights."""
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import family_gpt2  # noqa: E402

SHAPES = {
    "base": {"n_layers": 12, "n_heads": 12, "hidden": 768, "ffn": 3072, "vocab": 30522, "positions": 512},
    "minilm": {"n_layers": 6, "n_heads": 12, "hidden": 384, "ffn": 1536, "vocab": 30522, "positions": 512},
    "gpt2": {"n_layers": 12, "n_heads": 12, "hidden": 768, "vocab": 50257, "positions": 1024},
}
WRITERS = {"gpt2": family_gpt2.write_random}  # of shapes that are not BERT's


def random_checkpoint(folder, shape="base"):
    """Returns the folder. Writes the checkpoint if it is not there: completely or not at all."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            write = WRITERS.get(shape, checkpoint.write_random)
            write(Path(scratch) / shape, **SHAPES[shape]).rename(folder)
    return folder
