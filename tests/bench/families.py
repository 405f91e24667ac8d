"""Compares each family's pass, relative to its floor, with BERT's. The checkpoints are random, of the same shape.

    python3 tests/bench/families.py build/bench/passes [FAMILY...]      # --shape mini, base; --rounds N

Families alternate, and a figure is the median over the rounds.
"""
import argparse
import importlib
import inspect
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
sys.path.insert(0, str(REFERENCE))
FAMILIES = {path.stem.removeprefix("family_"): importlib.import_module(path.stem)
            for path in sorted(REFERENCE.glob("family_*.py"))}
# mini's, and BERT-base's with a third of its layers.
SHAPES = {"mini": {"n_layers": 12, "n_heads": 12, "hidden": 144, "ffn": 576},
          "base": {"n_layers": 4, "n_heads": 12, "hidden": 768, "ffn": 3072}}
# As published, where it is not what the tests' small checkpoints have.
PUBLISHED = {"albert": {"embedding": 128}, "electra": {"embedding": 128}, "modernbert": {"window": 128},
             "deberta_v2": {"buckets": 256},
             # Not 0.25: mini's heads are 12 wide, and rotary positions need an even width.
             "gpt_neox": {"fraction": 0.5}, "gemma": {"window": 512}}
STEPS = ("products", "plain", "capture", "analysis")


def measure(passes, folder):
    """Returns how many times its floor each step took, for a text of 128 tokens on one core."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([passes, "--model", folder, "--quick", "--tokens", "128", "--cores", "1", "--json", file.name],
                       check=True, capture_output=True)
        row, = json.loads(Path(file.name).read_text())["passes"]  # passes replaces the file
    return {"floor_ms": row["floor_ms"], **{step: row[step]["over_floor"] for step in STEPS}}


def write(family, folder, shape):
    """Writes a random checkpoint of a shape: with heads that share the hidden size, and 514 positions where a family has
    a table of them. A family without `ffn` has four times the hidden size, as both shapes have."""
    write_random, width = FAMILIES[family].write_random, SHAPES[shape]["hidden"] // SHAPES[shape]["n_heads"]
    sizes = {"vocab": 1000, "positions": 514, "head_dim": width, "d_kv": width, **SHAPES[shape], **PUBLISHED.get(family, {})}
    known = inspect.signature(write_random).parameters
    return write_random(folder, **{name: size for name, size in sizes.items() if name in known})


def compare(passes, shape, rounds, families=tuple(FAMILIES)):
    """family -> medians; prints them as a table."""
    families = dict.fromkeys(["bert", *families])
    with tempfile.TemporaryDirectory() as scratch:
        folders = {family: write(family, Path(scratch) / family, shape) for family in families}
        taken = [{family: measure(passes, folder) for family, folder in folders.items()} for _ in range(rounds)]
    figures = {family: {key: statistics.median(one[family][key] for one in taken) for key in ("floor_ms", *STEPS)}
               for family in families}
    print(f"\n{shape + ', 128 tokens, 1 core':28} {'floor ms':>9} " + " ".join(f"{step + ' x':>11}" for step in STEPS)
          + f" {'of BERT':>8}")
    for family, row in figures.items():
        print(f"{family:28} {row['floor_ms']:9.2f} " + " ".join(f"{row[step]:11.2f}" for step in STEPS)
              + f" {row['analysis'] / figures['bert']['analysis']:8.2f}", flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("passes", type=lambda path: str(Path(path).resolve()), help="passes.c, built")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--shape", choices=SHAPES, action="append", help="all")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_intermixed_args()
    for shape in args.shape or SHAPES:
        compare(args.passes, shape, args.rounds, args.families or FAMILIES)


if __name__ == "__main__":
    main()
