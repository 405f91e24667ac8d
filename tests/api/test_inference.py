"""Inference of corpus runs, against NumPy from the service's own maps.

Chance at the same distance, sums over blocks of neighbouring texts, 95 % intervals, verdicts on the paper's claims.
"""
import io
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import MINI
from corpus_runs import WORDS, arrays, assert_same, command, corpus as corpus_of, ndjson, report, texts

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import resampling  # noqa: E402
from resampling import BLOCKS, DRAWS, drawn, interval  # noqa: E402

SMALL = ["--layers", "0,11", "--max-tokens", "24"]  # most claims are about the model's last layer
N_TEXTS, WINDOW, MAIN, TAUS = 36, 24, 2, np.float32([0.1, 0.2, 0.3, 0.4, 0.5])
KINDS = ("repeated", "same_sentence", "repeated_same_sentence")


def corpus(headscope, *arguments, small=True):
    return corpus_of(headscope, *(SMALL if small else []), *arguments, small=False)


class Text:
    """Pairs i < j of a text, what they are, and N of each [l][h][pair]."""

    def __init__(self, headscope, number, text):
        self.number = number
        done = subprocess.run(command(headscope, "analyze", *SMALL, "--outputs", "similarities,attentions", "--format", "npz", "-"),
                              input=text.encode(), capture_output=True, check=True)
        with np.load(io.BytesIO(done.stdout)) as maps:
            self.ids, sentences, similarity = maps["input_ids"], maps["sentence_ids"], maps["similarities"]
            self.columns = maps["attentions"].sum(2, dtype=float)
        self.i, self.j = np.triu_indices(len(self.ids), 1)
        self.distance = self.j - self.i
        self.ordinary = (self.i > 0) & (self.j < len(self.ids) - 1)  # neither [CLS] nor [SEP], which are in no sentence
        repeated, same = self.ids[self.i] == self.ids[self.j], self.ordinary & (sentences[self.i] == sentences[self.j])
        self.kinds = dict(zip(KINDS, (repeated, same, repeated & same)))
        s = similarity[:, :, self.i, self.j]
        self.n = s / s.max(-1, keepdims=True)

    def high(self, tau):
        return self.n >= tau

    def share_at(self, kind):
        """Returns the share of a kind among all pairs at the same distance, by pair; of sentences among ordinary pairs."""
        counted = self.counted(kind)
        size = np.bincount(self.distance, counted, WINDOW)
        return (np.bincount(self.distance, self.kinds[kind], WINDOW) / np.maximum(size, 1))[self.distance] * counted

    def counted(self, kind):
        """The pairs that shares of a kind are of."""
        return self.distance > 0 if kind == "repeated" else self.ordinary


@pytest.fixture(scope="module")
def run(headscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inference")
    lines = texts(N_TEXTS, seed=42)
    done = corpus(headscope, ndjson(folder / "texts.jsonl", lines), "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder, [Text(headscope, number, line) for number, line in enumerate(lines)]


def head_sums(maps, weigh):
    """[t][l][h]: sums over the texts' high pairs of a weight."""
    return np.array([sum(text.high(tau) @ weigh(text).astype(float) for text in maps) for tau in TAUS])


# ---- chance at the same distance ----


def test_expected_numbers_are_sums_of_shares_at_the_pairs_distances(run):
    folder, maps = run
    data = arrays(folder / "out")
    np.testing.assert_array_equal(data["high"], head_sums(maps, lambda text: text.distance > 0))
    np.testing.assert_array_equal(data["high_ordinary"], head_sums(maps, lambda text: text.ordinary))
    for kind in KINDS:
        np.testing.assert_array_equal(data[kind], head_sums(maps, lambda text, kind=kind: text.kinds[kind]))
        expected = head_sums(maps, lambda text, kind=kind: text.share_at(kind))
        np.testing.assert_allclose(data["expected_" + kind], expected, rtol=1e-8)


def test_figures_have_chance_and_lift_at_the_same_distance(run):
    said, data = report(run[0] / "out"), arrays(run[0] / "out")
    for kind in KINDS:
        expected, number = data["expected_" + kind], data[kind]
        high = data["high" if kind == "repeated" else "high_ordinary"]
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
    lift = data["same_sentence"][MAIN, 1].sum() / data["expected_same_sentence"][MAIN, 1].sum()
    assert f"lift {lift:.2f} (" in finding["measured"] and "at the same distance" in finding["criterion"]


def test_shards_and_an_interrupted_run_have_the_same_inference(headscope, run, tmp_path):
    folder = run[0]
    parts = [tmp_path / str(n) for n in range(3)]
    for n, part in enumerate(parts):
        assert corpus(headscope, folder / "texts.jsonl", "-o", part, "--shard", f"{n}/3").returncode == 0
    done = subprocess.run(command(headscope, "merge", *parts[::-1], "-o", tmp_path / "all"), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(folder / "out", tmp_path / "all")


# ---- blocks and intervals ----


def blocks_of(maps, weigh):
    """Sums over the texts of each block; 128 blocks hold them all, each with one text."""
    return np.array([weigh(text) for text in maps] + [np.zeros_like(weigh(maps[0]))] * (BLOCKS - len(maps)))


def pair_sums(text, weights):
    return text.high(TAUS[MAIN]) @ weights.astype(float)


def focal(text):
    """The focal token's share of E [l][h], and the number of different focal tokens [l]."""
    holding = np.stack([pair_sums(text, (text.ids[text.i] == token) | (text.ids[text.j] == token)) for token in text.ids], -1)
    high = pair_sums(text, text.distance > 0)
    first = np.where(high > 0, text.ids[holding.argmax(-1)], -1)
    return holding.max(-1) / np.maximum(high, 1), np.array([len(set(heads) - {-1}) for heads in first])


def focal_by_chance(text):
    """As focal(), of as many pairs drawn at random as each head has in E."""
    high, size, tokens = pair_sums(text, text.distance > 0).astype(int), len(text.ids), list(text.ids)
    shares, ids = np.zeros(high.shape), np.full(high.shape, -1)
    for head, n in enumerate(high.ravel()):
        pairs = list(zip(*resampling.pairs_at_random(text.number, head, size, n)))
        if pairs:
            holding = [sum(token in (tokens[i], tokens[j]) for i, j in pairs) for token in tokens]
            shares.flat[head], ids.flat[head] = max(holding) / n, tokens[int(np.argmax(holding))]
    return shares, np.array([len(set(heads) - {-1}) for heads in ids])


def band(text, reach):
    summed = np.maximum(text.n.sum(1, dtype=float), 0)
    return (summed * (text.distance <= reach)).sum(-1)


def gaussian_below(number, n_tokens, width, centred=False):
    """Returns the pairs with N below 0.1, and those within 1e-5 of it, if a text had Gaussian outputs."""
    outputs = resampling.gaussian_outputs(number, n_tokens, width)
    outputs -= outputs.mean(0) if centred else 0
    s = (outputs @ outputs.T)[np.triu_indices(n_tokens, 1)]
    return (s / s.max() < 0.1).sum(), (abs(s / s.max() - 0.1) < 1e-5).sum()


def test_sums_of_blocks(run):
    folder, maps = run
    data = arrays(folder / "out")
    words = (MINI / "vocab.txt").read_text().split("\n")
    separators = [words.index(word) for word in ("[SEP]", ".", "!", "?", ",")]
    exact = {
        "texts": lambda text: 1, "all_pairs": lambda text: len(text.i), "all_distance_sum": lambda text: text.distance.sum(),
        "all_near": lambda text: (text.distance <= 5).sum(), "tokens": lambda text: len(text.ids),
        "separators": lambda text: np.isin(text.ids, separators).sum(), "all_repeated": lambda text: text.kinds["repeated"].sum(),
        "all_ordinary": lambda text: text.ordinary.sum(), "high_ordinary": lambda text: pair_sums(text, text.ordinary),
        "all_same_sentence": lambda text: text.kinds["same_sentence"].sum(),
        "all_repeated_same_sentence": lambda text: text.kinds["repeated_same_sentence"].sum(),
        "unique_focal_sum": lambda text: focal(text)[1],
        "unique_focal_chance_sum": lambda text: focal_by_chance(text)[1], "high": lambda text: pair_sums(text, text.distance > 0),
        "distance_sum": lambda text: pair_sums(text, text.distance),
        "texts_with_high": lambda text: pair_sums(text, text.distance > 0) > 0,
        **{kind: lambda text, kind=kind: pair_sums(text, text.kinds[kind]) for kind in KINDS},
    }
    for name, weigh in exact.items():
        np.testing.assert_array_equal(data["block_" + name], blocks_of(maps, weigh), err_msg=name)
    close = {
        "separator_sum": lambda text: text.columns[:, :, np.isin(text.ids, separators)].sum((1, 2)),
        "attention_sum": lambda text: text.columns.sum((1, 2)), "focal_share_sum": lambda text: focal(text)[0],
        "focal_chance_sum": lambda text: focal_by_chance(text)[0],
        "near_sum": lambda text: band(text, 5), "positive_sum": lambda text: band(text, WINDOW),
        **{"expected_" + kind: lambda text, kind=kind: pair_sums(text, text.share_at(kind)) for kind in KINDS},
    }
    for name, weigh in close.items():
        np.testing.assert_allclose(data["block_" + name], blocks_of(maps, weigh), rtol=1e-6, atol=1e-6, err_msg=name)
    due, near = (blocks_of(maps, lambda text, at=at: gaussian_below(text.number, len(text.ids), 12)[at]) for at in range(2))
    assert (abs(data["block_all_gaussian_below"] - due) <= near).all() and data["block_all_gaussian_below"].sum() > 0
    # a value within 1e-6 of an edge may fall on either side of it
    for name, low, high in [("below", -np.inf, 0.1), ("middle", 0.1, 0.6)]:
        due = blocks_of(maps, lambda text, low=low, high=high: ((text.n >= low) & (text.n < high)).sum(-1))
        near = blocks_of(maps, lambda text: ((abs(text.n - 0.1) < 1e-6) | (abs(text.n - 0.6) < 1e-6)).sum(-1))
        assert (abs(data["block_" + name] - due) <= near).all()


def test_intervals_are_those_of_drawn_blocks(run):
    said, data = report(run[0] / "out"), arrays(run[0] / "out")
    used = data["block_texts"] > 0
    n = int(used.sum())
    times, length = drawn(n)
    assert said["blocks"] == n == N_TEXTS
    draws = {name[6:]: np.tensordot(times, values[used].astype(float), 1) for name, values in data.items()
             if name.startswith("block_")}
    for l, h in [(0, 3), (1, 5)]:
        head = said["head_figures"][MAIN][l][h]
        of = lambda name, l=l, h=h: draws[name][:, l, h]
        due = {
            "repeated_share": of("repeated") / of("high"), "same_sentence_share": of("same_sentence") / of("high_ordinary"),
            "mean_distance": of("distance_sum") / of("high"), "focal_share": of("focal_share_sum") / of("texts_with_high"),
        }
        for name, values in due.items():
            assert head[name]["value"] == pytest.approx(values[0], rel=1e-6)
            assert (head[name]["low"], head[name]["high"]) == pytest.approx(interval(values, n, length), rel=1e-3)
        anywhere = draws["all_repeated"] / draws["all_pairs"]
        due = {
            "repeated_lift": of("repeated") / of("high") / anywhere,
            "same_sentence_lift_same_distance": of("same_sentence") / of("expected_same_sentence"),
            "repeated_same_sentence_share": of("repeated_same_sentence") / of("high_ordinary"),
            "focal_lift": of("focal_share_sum") / of("focal_chance_sum"),
        }
        for name, values in due.items():
            given = head["intervals"][name]
            assert (given["low"], given["high"]) == pytest.approx(interval(values, n, length), rel=1e-3)
            assert given["low"] < head[name] < given["high"]
        assert head["focal_share"]["chance"] == pytest.approx((of("focal_chance_sum") / of("texts_with_high"))[0], rel=1e-6)
        layer = said["layer_figures"][MAIN][l]
        unique, chance = (draws[f"unique_focal_{name}"][:, l] / draws["texts"] for name in ("sum", "chance_sum"))
        assert (layer["unique_focal"], layer["unique_focal_chance"]) == pytest.approx((unique[0], chance[0]), rel=1e-6)
        given = layer["intervals"]["unique_focal"]
        assert (given["low"], given["high"]) == pytest.approx(interval(unique, n, length), rel=1e-3)


def test_focal_tokens_are_judged_by_chance(run):
    finding, = (f for f in report(run[0] / "out")["findings"] if "focal tokens" in f["claim"])
    assert f"by chance {report(run[0] / 'out')['layer_figures'][MAIN][1]['unique_focal_chance']:.2f} (" in finding["measured"]
    assert "drawn at random" in finding["criterion"]


def test_p_values_of_all_heads_are_adjusted_together(run):
    said, data = report(run[0] / "out"), arrays(run[0] / "out")
    times, length = drawn(N_TEXTS)
    same, expected = (np.tensordot(times, data["block_" + name][:N_TEXTS].astype(float), 1).reshape(DRAWS + 1, -1)
                      for name in ("same_sentence", "expected_same_sentence"))
    lifts = same / expected
    due = resampling.adjusted(resampling.p_value(lifts, 1, N_TEXTS, length))
    given = [head["intervals"]["same_sentence_lift_same_distance"]["p_adjusted"]
             for heads in said["head_figures"][MAIN] for head in heads]
    np.testing.assert_allclose(given, due, rtol=1e-2, atol=1e-6)


# ---- verdicts ----


def verdicts(folder):
    return {finding["claim"].split(":")[0]: finding for finding in report(folder)["findings"]}


def test_verdicts_follow_from_intervals_and_chance(run):
    found = verdicts(run[0] / "out")
    assert {f["verdict"] for f in found.values()} <= {"holds", "does not hold", "not decided", "no effect", "does not apply", "trained for"}
    for f in found.values():
        assert f["holds"] == {"holds": True, "does not hold": False}.get(f["verdict"])
    # 24 tokens: pairs drawn at random are 8 apart in the mean
    distance = found["High similarities of the last layer are short"]
    assert "12 of 12 heads" in distance["measured"] and distance["verdict"] in ("no effect", "not decided", "holds")


def test_copies_of_a_text_decide_nothing(headscope, tmp_path):
    words = texts(1, seed=5)[0]
    done = corpus(headscope, ndjson(tmp_path / "texts", [words] * 60), "-o", tmp_path / "out", "--model", cut_to(12, tmp_path / "model"),
                  small=False)
    assert done.returncode == 0, done.stderr
    assert {f["verdict"] for f in verdicts(tmp_path / "out").values()} == {"not decided"}
    head = report(tmp_path / "out")["head_figures"][MAIN][3][0]
    assert head["mean_distance"]["low"] is None and head["intervals"]["auc_within_distances"]["low"] is None


def test_gaussian_outputs_meet_the_criterion_about_low_similarities(headscope, tmp_path):
    done = corpus(headscope, ndjson(tmp_path / "texts", texts(60, seed=6)), "-o", tmp_path / "out", "--center", "text",
                  "--model", cut_to(12, tmp_path / "model"))
    assert done.returncode == 0, done.stderr
    claim, = (f for f in verdicts(tmp_path / "out").values() if "below 0.1" in f["criterion"])
    data, evidence = arrays(tmp_path / "out"), claim["evidence"]
    assert evidence["chance"]["value"] == pytest.approx(data["block_all_gaussian_below"].sum() / data["block_all_pairs"].sum(), rel=1e-9)
    assert evidence["chance"]["value"] > 0.5 and evidence["chance"]["low"] < evidence["chance"]["value"] < evidence["chance"]["high"]
    observed, chance = evidence["observed"], evidence["chance"]
    assert claim["verdict"] == "holds" or observed["low"] <= 1.1 * chance["high"]
    assert claim["verdict"] != "holds" or observed["value"] > 1.05 * chance["value"]


@pytest.fixture(scope="module")
def commas(headscope, tmp_path_factory):
    """Texts of which most tokens are separators and commas, so that chance meets the criterion about them."""
    folder = tmp_path_factory.mktemp("commas")
    done = corpus(headscope, ndjson(folder / "texts", commas_behind_words(60, 3)), "--layers", "0,1,6,11", "-o", folder / "out",
                  "--model", cut_to(12, folder / "model"), small=False)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_attention_to_separators_is_judged_by_how_many_there_are(commas):
    found = verdicts(commas)["The final layers attend to separators"]
    data = arrays(commas)
    spread = data["block_separators"].sum() / data["block_tokens"].sum()
    given = float(re.search("spread evenly (.*?) %", found["measured"])[1])
    assert spread > 0.6 and given == pytest.approx(100 * spread, abs=0.01)
    last, early = (data["block_separator_sum"].sum(0) / data["block_attention_sum"].sum(0))[[3, 1]]
    assert last > 0.5  # the paper's words are met
    assert found["verdict"] == ("does not hold" if last < early else "no effect" if last < 1.04 * spread else found["verdict"])


def layer_shares(data):
    """Each layer's attention on separators, part of N near the diagonal and mean distance, and what chance gives."""
    total = {name: data[name].sum(0) for name in data if name.startswith("block_")}
    layers = (total["block_separator_sum"] / total["block_attention_sum"], total["block_near_sum"] / total["block_positive_sum"],
              total["block_distance_sum"].sum(-1) / total["block_high"].sum(-1))
    return layers, (total["block_separators"] / total["block_tokens"], total["block_all_near"] / total["block_all_pairs"],
                    total["block_all_distance_sum"] / total["block_all_pairs"])


def cut_to(n_layers, folder):
    """The built-in model's first layers, as a model of its own."""
    config = json.loads((MINI / "config.json").read_text(encoding="utf-8"))
    weights = {name: values for name, values in checkpoint.read_safetensors(MINI / "model.safetensors").items()
               if ".layer." not in name or int(name.split(".layer.")[1].split(".")[0]) < n_layers}
    folder.mkdir()
    checkpoint.write_safetensors(folder / "model.safetensors", weights, "F16")
    config.pop("headscope_trained_for")  # its claims would have no other verdict
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": n_layers}))
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(MINI / name, folder)
    return folder


def few_words(n, length):
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=length)) for _ in range(n)]


def commas_behind_words(n, least):
    return [" ".join([word, *"," * (least + i % 5)]) for i, word in enumerate(n * ["war", "boat", "the", "river"])]


@pytest.mark.parametrize("which, model, lines, claim, margins", [
    (0, lambda folder: cut_to(12, folder), commas_behind_words(30, 30), "The final layers attend to separators",
     lambda early, middle, last, due: (last - 0.5, 1.05 * due - last, last - early)),
    (1, lambda folder: cut_to(9, folder), few_words(40, 4), "Summed similarity gathers along the diagonal in the middle layers",
     lambda early, middle, last, due: (middle - early, middle - last, 1.05 * due - middle)),
    (2, lambda folder: checkpoint.write_random(folder, seed=9, n_layers=4), few_words(1500, 6), "Early layers are long-range, middle ones short, the last in between",
     lambda early, middle, last, due: (early - last, last - middle, middle - 0.95 * due, 1.05 * due - early)),
], ids=["separators", "diagonal", "evolution"])
def test_claims_that_chance_meets_have_no_effect(headscope, tmp_path, which, model, lines, claim, margins):
    """Texts and a model that meet the paper's words, but by no more than chance does."""
    center = "text" if which == 1 else "none"
    done = corpus(headscope, ndjson(tmp_path / "texts", lines), "--layers", "all", "-o", tmp_path / "out", "--center", center,
                  "--model", model(tmp_path / "model"), small=False)
    assert done.returncode == 0, done.stderr
    shares, due = (part[which] for part in layer_shares(arrays(tmp_path / "out")))
    layers = [1, len(shares) // 2, len(shares) - 1]
    assert min(margins(*shares[layers], due)) > 0, (shares, due)
    found = verdicts(tmp_path / "out")[claim]
    assert found["verdict"] == "no effect", found


def test_attention_to_separators_beyond_chance_holds(headscope, tmp_path):
    done = corpus(headscope, ndjson(tmp_path / "texts", few_words(40, 8)), "--layers", "1,11", "-o", tmp_path / "out",
                  "--model", cut_to(12, tmp_path / "model"), small=False)
    assert done.returncode == 0, done.stderr
    data = arrays(tmp_path / "out")
    early, last = data["block_separator_sum"].sum(0) / data["block_attention_sum"].sum(0)
    assert early < 0.5 < last and last > 1.06 * data["block_separators"].sum() / data["block_tokens"].sum()
    assert verdicts(tmp_path / "out")["The final layers attend to separators"]["verdict"] == "holds"


def test_claims_speak_of_layers_of_the_model(headscope, tmp_path):
    """A claim does not depend on which other layers a run counts."""
    lines = ndjson(tmp_path / "texts", texts(60, seed=3))
    found = {}
    for layers in ("all", "11", "0,11", "1,6,11", "1,11", "0,1,2,3", "3,4,5,6,7"):
        folder = tmp_path / layers
        assert corpus(headscope, lines, "--layers", layers, "-o", folder, small=False).returncode == 0
        found[layers] = report(folder)["findings"]
    # separators, repeated, distance, sentence, focal, evolution, diagonal, threshold
    applies = {"all": 8 * [True], "11": [False, *4 * [True], False, False, True], "0,11": [False, *4 * [True], False, False, True],
               "1,6,11": 8 * [True], "1,11": [*5 * [True], False, False, True], "0,1,2,3": 8 * [False], "3,4,5,6,7": 8 * [False]}
    for layers, claims in found.items():
        assert [claim["applies"] for claim in claims] == applies[layers], layers
        for claim, whole in zip(claims, found["all"]):
            if claim["applies"]:
                for one in (claim, whole):  # which focal tokens chance draws depends on the layers
                    one["measured"] = re.sub("in layer 11, by chance .*", "", one["measured"])
                    one["evidence"].pop("chance" if "focal tokens" in one["claim"] else "unit", None)
                assert claim == whole
            else:
                assert claim["verdict"] == "does not apply" and claim["holds"] is claim["evidence"] is None
                assert re.fullmatch(r"layer \d+( was|(, layer \d+)+ were) not counted in this run", claim["measured"])
    assert found["3,4,5,6,7"][0]["measured"] == "layer 1, layer 11 were not counted in this run"
    assert found["0,1,2,3"][1]["measured"] == "layer 11 was not counted in this run"


def test_the_head_of_a_report_names_its_layers(headscope, tmp_path):
    lines = ndjson(tmp_path / "texts", texts(5))
    for layers, said in ("all", "all, 0 to 11"), ("1,2", "1, 2 of 0 to 11; claims about other layers do not apply"):
        assert corpus(headscope, lines, "--layers", layers, "-o", tmp_path / layers, small=False).returncode == 0
        assert f"<dt>Layers</dt><dd>{said}</dd>" in (tmp_path / layers / "report.html").read_text(encoding="utf-8")


def test_the_diagonal_has_chance_beside_it(commas):
    data, found = arrays(commas), verdicts(commas)["Summed similarity gathers along the diagonal in the middle layers"]
    due = 100 * data["block_all_near"].sum() / data["block_all_pairs"].sum()
    assert float(re.search("of all pairs (.*?) %", found["measured"])[1]) == pytest.approx(due, abs=0.01)
    assert found["verdict"] != "holds"  # nearly all pairs are near


def test_heads_that_differ_are_corrected_for_the_number_of_heads(run):
    """The p-value of the two extreme heads, times the number of pairs of heads."""
    data, found = arrays(run[0] / "out"), verdicts(run[0] / "out")["Heads differ in how much they find repeated tokens"]
    times, length = drawn(N_TEXTS)
    repeated, high = (np.tensordot(times, data["block_" + name][:N_TEXTS, 1].astype(float), 1) for name in ("repeated", "high"))
    shares = repeated / high
    span = shares[:, shares[0].argmax()] - shares[:, shares[0].argmin()]
    p = resampling.p_value(span, 0.1, N_TEXTS, length) * 66
    top = interval(span, N_TEXTS, length)[1]
    assert f"{100 * span[0]:.2f} points" in found["measured"]
    assert found["verdict"] == ("holds" if span[0] > 0.1 and p < 0.05 else "does not hold" if top < 0.1 else "not decided")


def test_a_few_texts_decide_nothing(headscope, tmp_path):
    done = corpus(headscope, ndjson(tmp_path / "few", texts(5)), "-o", tmp_path / "out", "--model", cut_to(12, tmp_path / "model"))
    assert done.returncode == 0
    assert [f["verdict"] for f in report(tmp_path / "out")["findings"]] == \
        ["does not apply", *4 * ["not decided"], *2 * ["does not apply"], "not decided"]
    assert not re.search("nan|inf", json.dumps(report(tmp_path / "out")["findings"]))


# ---- strata of distances ----


def stratum(distance):
    return np.minimum(np.ceil(np.log2(distance)), 7).astype(int)


def area(signal, noise):
    """The ROC area from two histograms."""
    below = np.cumsum(noise) - noise / 2
    return (signal * below).sum() / signal.sum() / noise.sum()


def apart(signal, noise):
    """d' from pairs' N."""
    return (signal.mean() - noise.mean()) / np.sqrt((signal.var() + noise.var()) / 2)


def test_signal_and_noise_within_distances(run):
    folder, maps = run
    said, data = report(folder / "out"), arrays(folder / "out")
    kinds = [("noise", False), ("signal", True)]
    of = [stratum(text.distance) for text in maps]
    signal = [text.kinds["repeated"] | text.kinds["same_sentence"] for text in maps]
    for l, h in [(0, 3), (1, 5)]:
        weights, areas, distances = [], [], []
        for s in range(8):
            n = [np.concatenate([text.n[l, h][(at == s) & (is_signal == kind) & text.ordinary] for text, at, is_signal in zip(maps, of, signal)])
                 for _, kind in kinds]
            bins = [np.concatenate([[(values < 0).sum()], np.histogram(values[values >= 0], 100, (0, 1))[0]]) for values in n]
            for k, (name, _) in enumerate(kinds):
                given = data[name + "_strata_hist"][l, h, s]
                assert given.sum() == len(n[k]) and abs(given - bins[k]).sum() <= 2  # values on the edge of a bin
                np.testing.assert_allclose(data[name + "_strata_sums"][l, h, s], [n[k].sum(dtype=float), (n[k].astype(float) ** 2).sum()],
                                           rtol=1e-6, atol=1e-6)
            if len(n[0]) and len(n[1]):
                weights.append(len(n[1]))
                areas.append(area(*(data[name + "_strata_hist"][l, h, s].astype(float) for name in ("signal", "noise"))))
                distances.append(apart(n[1].astype(float), n[0].astype(float)))
        head = said["head_figures"][MAIN][l][h]
        assert head["auc_within_distances"] == pytest.approx(np.average(areas, weights=weights), rel=1e-9)
        assert head["dprime_within_distances"] == pytest.approx(np.average(distances, weights=weights), rel=1e-5)


GROUPS = [0, 1, 2, 3, 5, 8, 11, 16, 21, 26, 31, 37, 44, 53, 64, 79]  # bins of N are put together from each on


def test_figures_within_distances_have_intervals(run):
    """From 16 blocks at most: four neighbouring texts are one of the 9 blocks."""
    folder, maps = run
    said, n = report(folder / "out"), N_TEXTS // 4
    times, length = drawn(n)
    for l, h in [(0, 3), (1, 5)]:
        sums = np.zeros((n, 2, 8, 3))  # pairs, N, N^2
        groups = np.zeros((n, 2, 8, 16))
        for number, text in enumerate(maps):
            values = text.n[l, h].astype(float)
            kind, at = (text.kinds["repeated"] | text.kinds["same_sentence"]).astype(int), stratum(text.distance)
            bins = np.where(values < 0, 0, 1 + np.minimum((text.n[l, h] * np.float32(100)).astype(int), 99))
            for power in range(3):
                np.add.at(sums[number // 4, ..., power], (kind, at), values**power * text.ordinary)
            np.add.at(groups[number // 4], (kind, at, np.searchsorted(GROUPS, bins, "right") - 1), text.ordinary)
        sums, groups = np.tensordot(times, sums, 1), np.tensordot(times, groups, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            pairs, mean = sums[..., 0], sums[..., 1] / sums[..., 0]
            variance = sums[..., 2] / pairs - mean**2
            apart_by = (mean[:, 1] - mean[:, 0]) / np.sqrt((variance[:, 1] + variance[:, 0]) / 2)
            noise = groups[:, 0]
            areas = (groups[:, 1] * (np.cumsum(noise, -1) - noise / 2)).sum(-1) / pairs[:, 0] / pairs[:, 1]
        head = said["head_figures"][MAIN][l][h]
        for name, values in (("dprime_within_distances", apart_by), ("auc_within_distances", areas)):
            weights = np.where(np.isfinite(values), pairs[:, 1], 0)
            draws = (weights * np.where(weights > 0, values, 0)).sum(-1) / weights.sum(-1)
            draws += head[name] - draws[0]
            given = head["intervals"][name]
            assert given["low"] < head[name] < given["high"]
            reach = given["high"] - given["low"]
            assert (given["low"], given["high"]) == pytest.approx(interval(draws, n, length), abs=0.02 * reach)


def test_strata_add_up_to_all_distances(run):
    data = arrays(run[0] / "out")
    for kind in ("noise", "signal"):
        np.testing.assert_array_equal(data[kind + "_strata_hist"].sum(2), data[kind + "_hist"])
