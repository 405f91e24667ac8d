"""Inference of corpus runs, against NumPy from the service's own similarities: chance at the same distance."""
import io
import json
import shutil
import subprocess
import zlib

import numpy as np
import pytest
from corpus_runs import SMALL, arrays, assert_same, command, corpus, ndjson, report, texts

N_TEXTS, WINDOW, TAUS = 36, 24, np.float32([0.1, 0.2, 0.3, 0.4, 0.5])
KINDS = ("repeated", "same_sentence", "repeated_same_sentence")


class Text:
    """Pairs i < j of a text, what they are, and N of each [l][h][pair]."""

    def __init__(self, headscope, text):
        done = subprocess.run(command(headscope, "analyze", *SMALL, "--outputs", "similarities", "--format", "npz", "-"),
                              input=text.encode(), capture_output=True, check=True)
        with np.load(io.BytesIO(done.stdout)) as maps:
            self.ids, sentences, similarity = maps["input_ids"], maps["sentence_ids"], maps["similarities"]
        self.i, self.j = np.triu_indices(len(self.ids), 1)
        self.distance = self.j - self.i
        repeated, same = self.ids[self.i] == self.ids[self.j], sentences[self.i] == sentences[self.j]
        self.kinds = dict(zip(KINDS, (repeated, same, repeated & same)))
        s = similarity[:, :, self.i, self.j]
        self.n = s / s.max(-1, keepdims=True)

    def high(self, tau):
        return self.n >= tau

    def share_at(self, kind):
        """Returns the share of a kind among all pairs at the same distance, by pair."""
        size = np.bincount(self.distance, minlength=WINDOW)
        return (np.bincount(self.distance, self.kinds[kind], WINDOW) / np.maximum(size, 1))[self.distance]


@pytest.fixture(scope="module")
def run(headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inference")
    lines = texts(N_TEXTS, seed=42)
    done = corpus(headscope, ndjson(folder / "texts.jsonl", lines), "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder, [Text(headscope, line) for line in lines]


def head_sums(maps, weigh):
    """[t][l][h]: sums over the texts' high pairs of a weight."""
    return np.array([sum(text.high(tau) @ weigh(text).astype(float) for text in maps) for tau in TAUS])


# ---- chance at the same distance ----


def test_expected_numbers_are_sums_of_shares_at_the_pairs_distances(run):
    folder, maps = run
    data = arrays(folder / "out")
    np.testing.assert_array_equal(data["high"], head_sums(maps, lambda text: text.distance > 0))
    for kind in KINDS:
        np.testing.assert_array_equal(data[kind], head_sums(maps, lambda text, kind=kind: text.kinds[kind]))
        expected = head_sums(maps, lambda text, kind=kind: text.share_at(kind))
        np.testing.assert_allclose(data["expected_" + kind], expected, rtol=1e-8)


def test_figures_have_chance_and_lift_at_the_same_distance(run):
    said, data = report(run[0] / "out"), arrays(run[0] / "out")
    for kind in KINDS:
        expected, high, number = data["expected_" + kind], data["high"], data[kind]
        for t, l, h in [(2, 1, 5), (0, 0, 3), (4, 1, 11)]:
            head = said["head_figures"][t][l][h]
            chance = head[f"{kind}_share"]["chance_same_distance"] if kind != KINDS[2] else head[f"{kind}_chance_same_distance"]
            assert chance == pytest.approx(expected[t, l, h] / high[t, l, h], rel=1e-9)
            assert head[f"{kind}_lift_same_distance"] == pytest.approx(number[t, l, h] / expected[t, l, h], rel=1e-9)
        layer = said["layer_figures"][2][1]
        assert layer[f"{kind}_chance_same_distance"] == pytest.approx(expected[2, 1].sum() / high[2, 1].sum(), rel=1e-9)
        assert layer[f"{kind}_lift_same_distance"] == pytest.approx(number[2, 1].sum() / expected[2, 1].sum(), rel=1e-9)


def test_the_same_sentence_is_judged_by_chance_at_the_same_distance(run):
    said, data = report(run[0] / "out"), arrays(run[0] / "out")
    finding, = (f for f in said["findings"] if "same sentence" in f["claim"])
    above = int((data["same_sentence"][2, 1] > data["expected_same_sentence"][2, 1]).sum())
    assert f"{above} of 12 heads" in finding["measured"] and "at the same distance" in finding["criterion"]


def test_shards_and_an_interrupted_run_have_the_same_inference(headscope, run, tmp_path):
    folder = run[0]
    parts = [tmp_path / str(n) for n in range(3)]
    for n, part in enumerate(parts):
        assert corpus(headscope, folder / "texts.jsonl", "-o", part, "--shard", f"{n}/3").returncode == 0
    done = subprocess.run(command(headscope, "merge", *parts[::-1], "-o", tmp_path / "all"), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(folder / "out", tmp_path / "all")


# ---- runs of earlier versions ----


def without(folder, *members):
    """The checkpoint in a folder, as a version wrote it that did not know some members."""
    head, rest = (folder / "state").read_bytes().split(b"\n", 1)
    size = int(head.split()[2])
    saved = json.loads(rest[:size])
    text = json.dumps({name: value for name, value in saved.items() if name not in members}, separators=(",", ":")).encode()
    assert len(text) < size
    head = f"headscope-corpus 1 {len(text)} {zlib.crc32(text):08x}\n".encode()
    (folder / "state").write_bytes(head + text + rest[size:])


def test_a_run_of_an_earlier_version_lacks_the_inference(headscope, run, tmp_path):
    shutil.copytree(run[0] / "out", tmp_path / "old")
    without(tmp_path / "old", "same_distance")
    done = corpus(headscope, run[0] / "texts.jsonl", "-o", tmp_path / "old", "--resume")
    assert done.returncode == 0, done.stderr
    said = report(tmp_path / "old")
    assert "expected_repeated" not in said and "repeated_lift_same_distance" not in said["head_figures"][2][1][5]
    finding, = (f for f in said["findings"] if "same sentence" in f["claim"])
    assert finding["holds"] is None
