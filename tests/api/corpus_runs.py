"""Small corpus runs of the built-in model for the tests, and readers of their reports."""
import json
import os
import random
import subprocess
import zlib

import numpy as np
from conftest import PATIENCE

# Few layers and tokens: a text takes a fraction of a millisecond, a state a few hundred kilobytes. A control would take longer.
SMALL = ["--layers", "0,2", "--max-tokens", "24", "--control", "none"]
WORDS = "the river war old bridge of and in boat people crossed left , . ! ? it 1907 house ##s naïve 東京".split()


def texts(n, seed=0):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 30))) or "." for _ in range(n)]


def ndjson(path, lines):
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    return path


def command(headscope, *arguments):
    return [headscope, *map(str, arguments)]


def corpus(headscope, *arguments, stdin=None, environment=None, small=True):
    done = subprocess.run(command(headscope, "corpus", *(SMALL if small else []), *arguments), input=stdin,
                          capture_output=True, env={**os.environ, **(environment or {})}, check=False, timeout=PATIENCE)
    done.stderr = done.stderr.decode()
    return done


def report(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def arrays(folder):
    with np.load(folder / "report.npz") as file:
        return {name: file[name] for name in file if name != "provenance"}


def assert_same(folder, other):
    """All arrays, bit for bit; and what follows from them."""
    a, b = arrays(folder), arrays(other)
    assert list(a) == list(b)
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name
    a, b = report(folder), report(other)
    for name in ("head_figures", "layer_figures", "findings", "chance", "bad_lines", "examples"):
        assert a[name] == b[name], name


def changed(folder, change):
    """Writes what a function makes of the checkpoint in a folder."""
    head, rest = (folder / "state").read_bytes().split(b"\n", 1)
    size = int(head.split()[2])
    text = json.dumps(change(json.loads(rest[:size])), separators=(",", ":")).encode()
    assert text != rest[:size]
    head = f"headscope-corpus 1 {len(text)} {zlib.crc32(text):08x}\n".encode()
    (folder / "state").write_bytes(head + text + rest[size:])
