"""The built program against tests/reference: the paper's formulas in float64, written without looking at the C.

Tolerances: attentions 1e-5, hidden states 1e-4, head outputs and similarities 1e-5 of their maximum, the same
pairs and high-attention tokens wherever a value is not within 1e-5 of its threshold. Figures over the pairs are
those of the reference over the program's pairs, so that all of them are compared.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, skip_without_int24, slow_if

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import experiments  # noqa: E402
import family_bert  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MINI = Path(__file__).resolve().parents[2] / "model" / "mini"
NEAR = 1e-5
OUTPUTS = "attentions,similarities,head_outputs,hidden_states,queries,keys,values,scores,value_norms,weighted_norms," \
          "effective_attentions,rollout,pairs,regions,segments,summary,profiles,head_distances"

PARAGRAPH = (
    "The police at the airport were new. The airport was built after the war, and the war was long: the city "
    "had no money, no police and no airport! Who was in charge of it? An old office of the city, as many said. "
    "It was closed in 1974, when a national police force took over the airports, the ports and the borders."
)
TEXTS = {
    "paragraph": (PARAGRAPH, None),
    "pair": ("The war was long. The war is over!", "Was the war long? It was."),
    "word": ("war", None),
    "empty": ("", None),
}


# ---- one run of the program and of the reference ----


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Every model by name."""
    root = tmp_path_factory.mktemp("checkpoints")
    made = {
        name: checkpoint.write_random(root / name, seed=k, **variant)
        for k, (name, variant) in enumerate(checkpoint.VARIANTS.items())
    }
    return made | {"mini": MINI}


@pytest.fixture(scope="session")
def analyze(folders, tmp_path_factory):
    """analyze(model, text, options...) -> arrays of the npz."""
    folder = tmp_path_factory.mktemp("answers")

    def run(model, text, *options):
        first, second = TEXTS[text]
        output = folder / "answer.npz"
        pair = ["--text-pair", second] if second is not None else []
        command = [HEADSCOPE, "analyze", "--model", str(folders[model]), "--layers", "all", "--outputs", OUTPUTS,
                   "--max-pairs", "1000000", "--format", "npz", "-o", str(output), *pair, *options, "-"]
        done = subprocess.run(command, input=first.encode(), capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr.decode()
        with np.load(output) as answer:
            return dict(answer)

    return run


@cache
def reference_heads(folder, ids, types):
    heads = family_bert.forward(checkpoint.load(folder), ids, types)
    return heads, analysis.similarity(heads.outputs)


class Case:
    """An answer beside what it should be."""

    def __init__(self, folder, answer, masks=False):
        self.answer = answer
        self.ids, types = answer["input_ids"], answer["token_type_ids"]
        self.special = answer["special_tokens_mask"].astype(bool)
        # An empty text has no pairs, by contract.
        self.keep = ~self.special if masks or self.special.all() else np.ones(len(self.ids), bool)
        self.folder, self.model = folder, checkpoint.load(folder)
        self.heads, self.similarities = reference_heads(folder, tuple(self.ids), tuple(types))
        self.vectors = self.heads.outputs  # what similarities are of, before centring
        self.centered = None  # the vectors less their mean, if the answer has their similarities
        vocab = (folder / "vocab.txt").read_text().split("\n")
        self.ends = {vocab.index(token) for token in ".!?"}
        self.sentence_ids = analysis.sentences(self.ids, types, self.special, self.ends)
        separators = self.special | np.isin(self.ids, list(self.ends))
        self.text = analysis.Text(self.ids, self.sentence_ids, separators, self.special, self.keep)

    def maps(self):
        """(l, h, A, S) of every head."""
        for l, h in np.ndindex(self.similarities.shape[:2]):
            yield l, h, self.heads.attentions[l, h], self.similarities[l, h]


def assert_close(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def listed_pairs(case, l, h):
    """The program's E of one head, as a grid."""
    mine = (case.answer["pairs_layer"] == l) & (case.answer["pairs_head"] == h)
    found = np.zeros((len(case.ids), len(case.ids)), bool)
    found[case.answer["pairs_i"][mine], case.answer["pairs_j"][mine]] = True
    assert found.sum() == mine.sum(), "a pair is listed twice"
    return found


# ---- the checks ----


def check_maps(case):
    assert_close(case.answer["attentions"], case.heads.attentions, 1e-5)
    assert_close(case.answer["attentions"].sum(-1), np.ones(case.heads.attentions.shape[:3]), 1e-5)
    assert_close(case.answer["hidden_states"], case.heads.hidden_states, 1e-4)
    for name, expected in (("head_outputs", case.heads.outputs), ("similarities", case.similarities)):
        for l, h in np.ndindex(expected.shape[:2]):
            assert_close(case.answer[name][l, h], expected[l, h], 1e-5 * scale(case, name, l, h, expected))


def scale(case, name, l, h, expected):
    """The largest value of a head's array. Two or three tokens have so few similarities that the terms of all may
    cancel. The largest squared norm of an output bounds them (Cauchy-Schwarz), so it is their scale."""
    longest = np.sqrt(np.square(case.vectors[l][h]).sum(-1).max())
    if name == "similarities" and len(case.ids) <= 3:
        return longest**2
    if name == "similarities" and case.centered is not None:  # vectors are as exact as their length lets them be
        return max(np.abs(expected[l, h]).max(), longest * np.sqrt(np.square(case.centered[l][h]).sum(-1).max()))
    return np.abs(expected[l, h]).max()


def check_projections(case):
    for l, state in enumerate(case.heads.hidden_states[:-1]):
        queries, keys, values = experiments.projections(case.model, l, state)
        norms = experiments.value_norms(case.model, l, values)
        for name, expected in [("queries", queries), ("keys", keys), ("values", values),
                               ("scores", experiments.scores(queries, keys)), ("value_norms", norms),
                               ("weighted_norms", case.heads.attentions[l] * norms[:, None])]:
            assert_close(case.answer[name][l], expected, 1e-5 * np.abs(expected).max())


def check_profiles(case):
    vocab = (case.folder / "vocab.txt").read_text().split("\n")
    kinds = [np.isin(case.ids, [vocab.index(token) for token in tokens if token in vocab])
             for tokens in (["[CLS]"], ["[SEP]"], [".", "!", "?", ","])]
    ordinary = ~case.special
    own = np.outer(ordinary, ordinary) & np.equal.outer(case.sentence_ids, case.sentence_ids)
    for l, h, a, _ in case.maps():
        expected, label = experiments.profile(a, case.ids, *kinds, own)
        for name, figure in expected.items():
            assert_close(case.answer["profiles_" + name][l, h], figure, 2e-5 * max(1, np.abs(figure).max()))
        assert case.answer["profiles_label"][l, h] == label


def check_flows(case):
    assert_close(case.answer["rollout"], experiments.rollout(case.heads.attentions), 1e-5)
    assert_close(case.answer["rollout"].sum(-1), np.ones(case.heads.attentions.shape[::2][:1] + (len(case.ids),)), 1e-5)
    for l, state in enumerate(case.heads.hidden_states[:-1]):
        values = experiments.projections(case.model, l, state)[2]
        for h, attention in enumerate(case.heads.attentions[l]):
            found = case.answer["effective_attentions"][l, h]
            assert_close(found, experiments.effective_attention(attention, values[h]), 1e-4)
            assert_close(found @ values[h], attention @ values[h], 1e-5 * np.abs(values[h]).max())


def check_distances(case, measure=experiments.cka_distances, maps=None):
    maps = (case.similarities if maps is None else maps).reshape(-1, len(case.ids), len(case.ids))
    # If tokens' outputs hardly differ, centring cancels most of the digits of S.
    spread = np.array([np.abs(one).max() / np.sqrt(max(experiments.hsic(one, one), 1e-300)) for one in maps])
    tolerance = 1e-5 + 2e-7 * (spread + spread[:, None])
    found = case.answer["head_distances"]
    expected = measure(maps)
    assert (np.abs(found - expected)[~np.isnan(expected)] <= tolerance[~np.isnan(expected)]).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(found, found.T)
    assert not np.nan_to_num(found.diagonal()).any()


def check_sentences(case):
    np.testing.assert_array_equal(case.answer["sentence_ids"], case.sentence_ids)


def check_pairs(case, tau=0.3):
    columns = {name[6:]: case.answer[name] for name in case.answer if name.startswith("pairs_") and name != "pairs_total"}
    assert case.answer["pairs_total"] == len(columns["layer"])
    order = np.lexsort((columns["j"], columns["i"], -columns["normalized"], columns["head"], columns["layer"]))
    np.testing.assert_array_equal(order, np.arange(len(order)))
    np.testing.assert_array_equal(columns["distance"], columns["j"] - columns["i"])
    np.testing.assert_array_equal(columns["same_token"], case.ids[columns["i"]] == case.ids[columns["j"]])
    np.testing.assert_array_equal(columns["same_sentence"],
                                  (case.sentence_ids[columns["i"]] == case.sentence_ids[columns["j"]])
                                  & ~case.special[columns["i"]] & ~case.special[columns["j"]])
    for l, h, _, s in case.maps():
        n, m = analysis.normalized(s, case.keep)
        mine = (columns["layer"] == l) & (columns["head"] == h)
        i, j = columns["i"][mine], columns["j"][mine]
        differs = listed_pairs(case, l, h) != analysis.high_elements(n, case.keep, tau)
        assert (np.abs(n[differs] - tau) <= NEAR).all()
        cancels = len(case.ids) <= 3 or case.centered is not None
        largest = max(abs(m), scale(case, "similarities", l, h, case.similarities)) if cancels else abs(m)
        assert_close(columns["similarity"][mine], s[i, j], 1e-5 * max(largest, 1e-30))
        assert_close(columns["normalized"][mine], n[i, j], 2e-5)


def check_regions(case, tau=0.3):
    def slices(name, index):
        offsets = case.answer[f"regions_{name}_offsets"]
        return case.answer[f"regions_{name}"][offsets[index] : offsets[index + 1]]

    n_heads = case.similarities.shape[1]
    for l, h, a, s in case.maps():
        c = analysis.profile(a, case.keep)
        if (np.abs(c - tau) <= NEAR).any():
            continue
        high = analysis.high_tokens(c, tau)
        runs = analysis.runs(high, len(c))
        np.testing.assert_array_equal(slices("high_attention", l * n_heads + h), high)
        np.testing.assert_array_equal(slices("runs", l * n_heads + h), runs)
        means = analysis.region_means(s, case.keep, runs)
        largest = np.abs(s).max() if case.centered is None else scale(case, "similarities", l, h, case.similarities)
        assert_close(slices("means", l * n_heads + h), means.ravel(), 2e-5 * largest)


def check_segments(case, tau=0.3):
    for l in range(len(case.similarities)):
        maps, similarities = case.heads.attentions[l], case.similarities[l]
        if (np.abs(analysis.profile(maps.sum(0), case.keep) - tau) <= NEAR).any():
            continue
        expected = analysis.segments(maps, similarities, case.special, case.keep, tau)
        mine = case.answer["segments_layer"] == l
        np.testing.assert_array_equal(case.answer["segments_tokens"][mine], [e[:2] for e in expected])
        # Means of N, which is below -1 where the largest similarity is smaller than the negative ones.
        largest = max(1, *(np.abs(analysis.normalized(s, case.keep)[0]).max() for s in similarities))
        assert_close(case.answer["segments_cohesion"][mine], [e[2] for e in expected], 2e-5 * largest)
        assert_close(case.answer["segments_contrast"][mine], [e[3] for e in expected], 2e-5 * largest)


def check_summaries(case):
    for l, h, a, s in case.maps():
        expected = analysis.summary(a, s, case.text, listed_pairs(case, l, h))
        expected["focal_position"] = expected.pop("focal_token")
        n = analysis.normalized(s, case.keep)[0][analysis.pair_grid(case.keep)]
        spread = n.std() if len(n) and n.std() > 0 else 1
        scales = {"max_similarity": np.abs(s).max(), "snr_dprime": 1 / spread}  # d' divides by the spread of N
        for name, value in expected.items():
            tolerance = 2e-5 * max(1, scales.get(name, np.nan_to_num(value)))
            np.testing.assert_allclose(case.answer["summary_" + name][l, h], value, rtol=0, atol=tolerance,
                                       err_msg=f"{name} of layer {l}, head {h}")


def check_all(case):
    check_maps(case)
    check_projections(case)
    check_profiles(case)
    check_flows(case)
    check_distances(case)
    check_sentences(case)
    check_pairs(case)
    check_regions(case)
    check_segments(case)
    check_summaries(case)


# ---- the tests ----

MODELS = [*checkpoint.VARIANTS, "mini"]


# The portable backend computes these, too, and all others in `make test-slow`.
PORTABLE = ["distilbert", "no_prefix"]
# The reference takes seconds for their many heads; `make test-slow` runs what smaller models show as well.
LARGE = ["mini", "deep"]


@pytest.mark.parametrize(("model", "backend"), [
    *(slow_if(model in LARGE, model, "default") for model in MODELS),
    *(slow_if(model not in PORTABLE, model, "cblas") for model in MODELS),
    *(slow_if(model in LARGE, model, "int24") for model in MODELS)])
def test_every_figure(analyze, folders, model, backend):
    if backend == "int24":
        skip_without_int24()
    options = {"default": [], "int24": ["--precision", "int24"]}.get(backend, ["--backend", backend])
    case = Case(folders[model], analyze(model, "paragraph", *options))
    assert len(case.ids) > 70
    check_all(case)


@pytest.mark.parametrize("text", ["pair", "word", "empty"])
@pytest.mark.parametrize("model", ["mini", "distilbert", "one_layer"])
def test_short_texts_and_pairs(analyze, folders, model, text):
    check_all(Case(folders[model], analyze(model, text)))


@pytest.mark.parametrize(("model", "text"), [
    slow_if((model, text) == ("mini", "paragraph"), model, text)
    for model in ("mini", "no_prefix") for text in ("paragraph", "pair", "word", "empty")])
def test_special_tokens_masked(analyze, folders, model, text):
    case = Case(folders[model], analyze(model, text, "--special-tokens", "mask"), masks=True)
    check_all(case)


@pytest.mark.parametrize("tau", [slow_if(True, 0.05), 0.5, 1.0])
def test_thresholds(analyze, folders, tau):
    case = Case(folders["mini"], analyze("mini", "paragraph", "--threshold", str(tau),
                                         "--attention-threshold", str(tau)))
    check_pairs(case, tau)
    check_regions(case, tau)
    check_segments(case, tau)
    check_summaries(case)


@pytest.mark.parametrize("special", ["keep", "mask"])
def test_normalized(analyze, folders, special):
    answer = analyze("mini", "paragraph", "--normalize", "max", "--special-tokens", special)
    case = Case(folders["mini"], answer, masks=special == "mask")
    for l, h, _, s in case.maps():
        assert_close(answer["similarities"][l, h], analysis.normalized(s, case.keep)[0], 2e-5)


@pytest.mark.parametrize("model", [slow_if(model in LARGE, model) for model in MODELS])
def test_divergence_of_attention(analyze, folders, model):
    case = Case(folders[model], analyze(model, "paragraph", "--head-distance", "js"))
    check_distances(case, experiments.js_distances, case.heads.attentions)
    assert case.answer["head_distances"].max() <= np.log(2)


@pytest.mark.parametrize(("model", "text"), [
    *(slow_if(model in LARGE, model, "paragraph") for model in MODELS), slow_if(True, "mini", "pair"), ("mini", "empty")])
def test_residual_space(analyze, folders, model, text):
    """Similarities of what heads write, and all that is made of them."""
    case = Case(folders[model], analyze(model, text, "--similarity-space", "residual"))
    case.similarities = np.array([experiments.residual_similarity(case.model, l, outputs)
                                  for l, outputs in enumerate(case.heads.outputs)])
    check_all(case)


@pytest.mark.parametrize(("model", "text", "space"), [
    *(slow_if(model in LARGE, model, "paragraph", "head") for model in MODELS), ("mini", "word", "head"), ("mini", "empty", "head"),
    ("one_layer", "paragraph", "residual"), slow_if(True, "mini", "pair", "head"), slow_if(True, "mini", "pair", "residual")])
def test_centred_similarity(analyze, folders, model, text, space):
    """Similarities of outputs less their mean over the text, in either space, and all that is made of them."""
    case = Case(folders[model], analyze(model, text, "--center", "text", "--similarity-space", space))
    plain, outputs = case.similarities, case.heads.outputs - case.heads.outputs.mean(-2, keepdims=True)
    if space == "residual":
        case.vectors, case.centered = ([experiments.written(case.model, l, one) for l, one in enumerate(of)]
                                       for of in (case.heads.outputs, outputs))
    else:
        case.centered = outputs
    case.similarities = (analysis.similarity(outputs) if space == "head" else
                         np.array([experiments.residual_similarity(case.model, l, one) for l, one in enumerate(outputs)]))
    # head_outputs too, which stay as they are. Those of "deep" are nearly all mean: what is left of float32 has too few
    # digits for the figures made of it.
    (check_maps if model == "deep" else check_all)(case)
    if space == "head" and len(case.ids) > 3:  # centring changes no CKA, which centres by itself
        check_distances(case, experiments.cka_distances, plain)


@pytest.mark.parametrize("how", ["sum", "mean"])
def test_reduced_over_heads(analyze, folders, how):
    answer = analyze("mini", "paragraph", "--reduce", how, "--heads", "0,3,11", "--outputs", "attentions,similarities")
    case = Case(folders["mini"], answer)
    for name, maps in (("attentions", case.heads.attentions), ("similarities", case.similarities)):
        expected = getattr(maps[:, [0, 3, 11]], how)(axis=1, keepdims=True)
        assert answer[name].shape == expected.shape
        assert_close(answer[name], expected, 3e-5 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("pool, options", [(7, ()), (1, ()), (500, ("--normalize", "max")),
                                           (3, ("--normalize", "max", "--special-tokens", "mask", "--reduce", "sum"))])
def test_reduced_maps_are_those_of_the_whole_ones(analyze, pool, options):
    """Text of the paragraph has no multiple of 7 tokens, so the last blocks are smaller."""
    names = [f"{way}_{of}" for of in ("attentions", "similarities") for way in ("mean_pooled", "max_pooled", "sliced")]
    whole = analyze("mini", "paragraph", "--outputs", "attentions,similarities", *options[:4])
    some = analyze("mini", "paragraph", "--outputs", ",".join(names), "--pool", str(pool), "--rows", "3,20",
                   "--columns", "1,17", *options)
    sums = (lambda maps: maps.sum(1, keepdims=True)) if "sum" in options else (lambda maps: maps)
    for of in ("attentions", "similarities"):
        maps = whole[of].astype(float)
        n = -(-maps.shape[2] // pool)
        blocks = [[maps[:, :, i * pool:(i + 1) * pool, j * pool:(j + 1) * pool] for j in range(n)] for i in range(n)]
        for way in ("mean", "max"):
            expected = np.moveaxis([[getattr(block, way)((2, 3)) for block in row] for row in blocks], (0, 1), (2, 3))
            assert_close(some[f"{way}_pooled_{of}"], sums(expected), 2e-7 * max(1, np.abs(maps).max()) * maps.shape[1])
        assert_close(some[f"sliced_{of}"], sums(maps[:, :, 3:20, 1:17]), 2e-7 * max(1, np.abs(maps).max()) * maps.shape[1])


def test_strongest_pairs_are_kept(analyze, folders):
    every = Case(folders["mini"], analyze("mini", "paragraph")).answer
    some = Case(folders["mini"], analyze("mini", "paragraph", "--max-pairs", "100")).answer
    assert some["pairs_total"] == every["pairs_total"] and len(some["pairs_i"]) == 100
    strongest = np.sort(every["pairs_normalized"])[::-1][:100]
    np.testing.assert_array_equal(np.sort(some["pairs_normalized"])[::-1], strongest)


@pytest.mark.parametrize("model", ["mini", "distilbert"])
def test_padding_changes_nothing(folders, model):
    """The reference, padded to 128 with a mask as in the paper, equals itself unpadded."""
    ids = np.array([2, 7, 30, 31, 30, 40, 18, 3])
    padded = np.concatenate([ids, np.zeros(120, int)])
    loaded = checkpoint.load(folders[model])
    short, long = family_bert.forward(loaded, ids), family_bert.forward(loaded, padded, mask=np.arange(128) < len(ids))
    n = len(ids)
    assert_close(long.attentions[..., :n, :n], short.attentions, 1e-12)
    assert_close(long.attentions[..., :n, n:], np.zeros(long.attentions[..., :n, n:].shape), 1e-30)
    assert_close(long.outputs[..., :n, :], short.outputs, 1e-12)
