"""`corpus --resume`, `merge` and `report` refuse states that are damaged, truncated or of another shape, with a reason."""
import json
import random
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from corpus_runs import command, corpus, texts

REASONS = ("damaged", "not a corpus run", "corpus statistics", "cannot read", "input changed", "has another", "checksum")


@pytest.fixture(scope="module")
def runs(headscope, tmp_path_factory):
    """A folder with the texts, a run of all layers and one of a single layer."""
    top = tmp_path_factory.mktemp("runs")
    (top / "t.txt").write_text("\n".join(texts(40, seed=5)))
    for name, layers in (("all", "0,2"), ("one", "0")):
        assert corpus(headscope, top / "t.txt", "-o", top / name, "--layers", layers, "--max-tokens", "24", "--control", "none",
                      small=False).returncode == 0
    return top


def parts(folder):
    data = (folder / "state").read_bytes()
    head, rest = data.split(b"\n", 1)
    n = int(head.split()[2])
    return json.loads(rest[:n]), rest[n:]


def write(folder, tree, statistics):
    text = json.dumps(tree).encode()
    folder.mkdir(exist_ok=True)
    (folder / "state").write_bytes(b"headscope-corpus 1 %d %08x\n" % (len(text), zlib.crc32(text)) + text + statistics)
    return folder


def commands(headscope, runs, folder, out):
    yield corpus(headscope, runs / "t.txt", "-o", folder, "--resume")
    for arguments in (("merge", "-o", out / "whole", folder), ("report", folder)):
        done = subprocess.run(command(headscope, *arguments), capture_output=True, text=True)
        yield done


def unfinished(tree):
    return {**tree, "sample": [], "done": False, "place": {**tree["place"], "lines": 0, "bytes": 0}}


@pytest.mark.parametrize("change", [
    lambda tree: {**tree, "bad": {"count": 1, "lines": [{"file": 99999999, "line": 1, "why": "x"}]}},
    lambda tree: {**tree, "bad": {"count": 1, "lines": [{"file": -1, "line": 1, "why": "x"}]}},
    lambda tree: {**tree, "bad": {"count": -1, "lines": []}},
    lambda tree: {**tree, "bad": {"count": 0, "lines": [{"file": 0, "line": 1, "why": "x"}]}},
    lambda tree: {**tree, "bad": {"count": 1, "lines": [7]}},
    lambda tree: {**tree, "sample": [{**tree["sample"][0], "file": 1}]},
    lambda tree: {**tree, "sample": [{**tree["sample"][0], "figures": []}]},
    lambda tree: {**tree, "sample": {}},
    *(lambda tree, name=name: {key: value for key, value in tree.items() if key != name}
      for name in ("same_distance", "resampling", "signal_noise", "strata")),
    *(lambda tree, name=name: {**tree, name: {**tree[name], "words": tree[name]["words"][:-4]}}
      for name in ("same_distance", "signal_noise", "strata")),
    lambda tree: {**tree, "resampling": {**tree["resampling"], "shift": 58}},
    lambda tree: {**tree, "resampling": {**tree["resampling"], "blocks": ""}},
    lambda tree: {**tree, "names": {**tree["names"], "inputs": []}},
    lambda tree: {**tree, "names": {**tree["names"], "inputs": [1]}},
    lambda tree: {**tree, "names": {**tree["names"], "model": None}},
    lambda tree: {**tree, "shards": []},
    lambda tree: {**tree, "shards": [1]},
    lambda tree: {**tree, "identity": {}},
    lambda tree: {**tree, "identity": {**tree["identity"], "input_files": "1"}},
    lambda tree: {**tree, "place": {**tree["place"], "lines": -1}},
    lambda tree: [],
])
def test_a_state_whose_members_are_damaged_is_refused(headscope, runs, tmp_path, change):
    tree, statistics = parts(runs / "all")
    for done in commands(headscope, runs, write(tmp_path / "damaged", change(tree), statistics), tmp_path):
        assert done.returncode == 1 and ("damaged" in done.stderr or "no saved example" in done.stderr), done.stderr
    assert [file.name for file in (tmp_path / "damaged").iterdir()] == ["state"]


def test_statistics_of_another_shape_than_their_options_are_refused(headscope, runs, tmp_path):
    tree, statistics = parts(runs / "one")  # the counters are those of the statistics: they would find a difference first
    write(tmp_path / "shape", unfinished({**tree, "identity": parts(runs / "all")[0]["identity"]}), statistics)
    done = corpus(headscope, runs / "t.txt", "-o", tmp_path / "shape", "--resume")
    assert done.returncode == 1 and "another shape" in done.stderr


@pytest.mark.parametrize("how", ["empty", "half", "header only", "zeros behind the first page", "all zeros", "a byte more"])
def test_a_state_that_a_power_cut_left_is_refused(headscope, runs, tmp_path, how):
    data = (runs / "all" / "state").read_bytes()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "state").write_bytes({"empty": b"", "half": data[:len(data) // 2], "header only": data.split(b"\n")[0] + b"\n",
                                              "zeros behind the first page": data[:4096] + bytes(len(data) - 4096),
                                              "all zeros": bytes(len(data)), "a byte more": data + b"\0"}[how])
    for done in commands(headscope, runs, tmp_path / "cut", tmp_path):
        assert done.returncode == 1 and any(reason in done.stderr for reason in REASONS), done.stderr


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bits_of_a_state_are_found(headscope, runs, tmp_path, seed):
    draw = random.Random(seed)
    data = bytearray((runs / "all" / "state").read_bytes())
    at = draw.randrange(2000) if seed % 2 else draw.randrange(len(data))
    data[at] ^= 1 << draw.randrange(8)
    folder = Path(shutil.copytree(runs / "all", tmp_path / "flipped"))
    (folder / "state").write_bytes(data)
    for done in commands(headscope, runs, folder, tmp_path):
        assert done.returncode == 1 and any(reason in done.stderr for reason in REASONS), (at, done.stderr)
