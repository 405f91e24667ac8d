"""The claims table of a report, recomputed from docs/reference/formulas.md in NumPy for 50 texts.

The program gives tokens, attention, outputs and similarities of each text, of mini and of random weights. All else
is tests/reference/claims.py: figures, controls, intervals and verdicts.
"""
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import MINI, Server
from corpus_runs import command, ndjson, report

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import claims  # noqa: E402

LAYERS, MAX_TOKENS, N_TEXTS, WIDTH, TAU, SEED = [1, 6, 11], 64, 50, 12, np.float32(0.3), 5
# Sums are in units of 2^-31, maps in float32, and the quantile of Student's distribution is a series.
EXACT = 1e-5
# Products of two lengths may be so near that float32 takes the other pair.
LENGTHS = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """mini without the claims that its training aimed at: they would have no verdict."""
    folder = tmp_path_factory.mktemp("claims") / "model"
    shutil.copytree(MINI, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config.pop("headscope_trained_for")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def networks(model):
    """A server of the model and of random weights."""
    running = Server(f"--model=trained={model}", f"--model=random={model}", f"--untrained={SEED}")
    yield running
    assert running.stop() == 0


def separators():
    words = (MINI / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return [words.index(word) for word in ("[SEP]", ".", "!", "?", ",")]


def maps_of(server, model, text, center):
    """Ids, flags, A and S [l][h][i][j] and the vectors that S is of."""
    answer = server.post("/analyze?format=npz", {
        "model": model, "text": text, "layers": LAYERS, "max_tokens": MAX_TOKENS, "center": center,
        "outputs": ["attentions", "similarities", "head_outputs"]})
    assert answer.status == 200, answer.body
    with np.load(io.BytesIO(answer.body)) as arrays:
        maps = dict(arrays)
    outputs = maps["head_outputs"].astype(float)
    maps["vectors"] = outputs - outputs.mean(-2, keepdims=True) * (center == "text")
    s = maps["vectors"] @ np.swapaxes(maps["vectors"], -1, -2) * (1 - np.eye(outputs.shape[-2]))
    np.testing.assert_allclose(maps["similarities"], s, rtol=0, atol=1e-5 * np.abs(s).max())
    return maps


def sums_of(text, maps):
    """Sums of one network's maps, and its high pairs."""
    s = maps["similarities"][:, :, text.i, text.j]
    n = s / s.max(-1, keepdims=True)
    high = n >= TAU
    return {**claims.high_sums(text, high), **claims.map_sums(text, n, maps["attentions"])}, high


def run_of(sums):
    return claims.Run(range(N_TEXTS), {name: [one[name] for one in sums] for name in sums[0]})


def table_of(server, texts, center):
    """The run itself, and {id: claim}."""
    trained, longest, random = [], [], []
    for number, line in enumerate(texts):
        maps, other = (maps_of(server, name, line, center) for name in ("trained", f"random-untrained-{SEED}"))
        text = claims.Text(number, maps["input_ids"], maps["special_tokens_mask"].astype(bool), maps["sentence_ids"], separators())
        shared = claims.text_sums(text, WIDTH, center == "text")
        own, high = sums_of(text, maps)
        n_high = high.sum(-1)
        trained.append({**shared, **own, **claims.chance_sums(text, n_high)})
        longest.append({**shared, **claims.high_sums(text, claims.longest(text, maps["vectors"], n_high))})
        random.append({**shared, **sums_of(text, other)[0]})
    run = run_of(trained)
    return run, claims.claims(run, run_of(longest), run_of(random))


def assert_is_figure(given, run, draws, accuracy):
    """Within so much of the largest of figure, low and high."""
    if draws is None:
        assert given is None
        return
    due = np.array([draws[0], *run.interval(draws)])
    np.testing.assert_allclose([given["value"], given["low"], given["high"]], due, rtol=0, atol=accuracy * np.abs(due).max())


# ---- the sentences about what was measured ----


def shown(run, draws, scale=1, unit=""):
    low, high = run.interval(draws)
    return f"{scale * draws[0]:.2f}{unit} ({scale * low:.2f} to {scale * high:.2f})"


def share(run, draws):
    return shown(run, draws, 100, " %")


def measured(run, table):
    """{id: the sentence}"""
    early, middle, last = LAYERS
    due = {name: claim.controls["chance"] for name, claim in table.items()}
    x = {name: claim.observed for name, claim in table.items()}
    attention = run.ratio("separators", "attention", claims.EARLY)
    low, high, _ = claims.extremes(run)
    heads = claims.head_ratios(run, "distance", "high")
    n_below = sum(run.interval(head)[1] < 50 for head in heads)
    lifts = claims.head_ratios(run, "same_sentence", "expected_same_sentence")
    p = claims.resampling.adjusted(np.array([run.p_value(lift, 1) for lift in lifts]))
    of_sentence = run.ratio("same_sentence", "high_ordinary", claims.LAST)[0]
    steps = [shown(run, layer) for layer in claims.distances(run)]
    near = [share(run, run.ratio("near", "positive", layer)) for layer in range(3)]
    return {
        "separators": f"{share(run, x['separators'])} in layer {last}, {share(run, attention)} in layer {early}, "
                      f"spread evenly {share(run, due['separators'])}",
        "repeated": f"{share(run, low)} to {share(run, high)} in layer {last}, {shown(run, x['repeated'], 100, ' points')} apart; "
                    f"pairs drawn at random: {share(run, run.ratio('all_repeated', 'all_pairs'))}",
        "distance": f"{n_below} of {len(heads)} heads of layer {last} are below 50; the longest mean is {heads[:, 0].max():.1f}, "
                    f"the layer's {shown(run, x['distance'])}, by chance {due['distance'][0]:.1f}",
        "sentence": f"{100 * of_sentence:.1f} % against {100 * of_sentence / x['sentence'][0]:.1f} % by chance at the same distance: "
                    f"lift {shown(run, x['sentence'])}; {((p < 0.05) & (lifts[:, 0] > 1)).sum()} of {len(heads)} heads of layer {last} "
                    f"above. Pairs drawn at random: {100 * run.ratio('all_same_sentence', 'all_ordinary')[0]:.1f} %",
        "focal": f"{shown(run, x['focal'])} of {len(heads)} heads ({100 * x['focal'][0] / len(heads):.0f} %) in layer {last}, "
                 f"by chance {shown(run, due['focal'])}",
        "evolution": f"{steps[0]} in layer {early}, {steps[1]} in layer {middle}, {steps[2]} in layer {last}, "
                     f"by chance {due['distance'][0]:.1f}",
        "diagonal": f"{near[0]} in layer {early}, {near[1]} in layer {middle}, {near[2]} in layer {last}; "
                    f"of all pairs {share(run, due['diagonal'])}",
        "threshold": f"{share(run, x['threshold'])} below 0.1, {share(run, claims.below(run, 'middle'))} from 0.1 to 0.6, layer {last}; "
                     f"Gaussian outputs: {share(run, due['threshold'])} below 0.1",
    }


def assert_says(given, due):
    """The same words, and numbers that differ by a rounding at most."""
    number = r"-?\d+(?:\.\d+)?"
    assert re.sub(number, "N", given) == re.sub(number, "N", due)
    for one, other in zip(re.findall(number, given), re.findall(number, due)):
        place = 10.0 ** -len(other.partition(".")[2]) if "." in other else 0
        assert abs(float(one) - float(other)) <= 1.01 * place, (given, due)


@pytest.mark.parametrize("center", ["none", "text"])
def test_the_claims_table_follows_from_the_formulas(headscope, networks, model, tmp_path, center):
    texts = (ROOT / "examples/paragraphs.txt").read_text(encoding="utf-8").splitlines()[:N_TEXTS]
    lines = ndjson(tmp_path / "texts.jsonl", texts)
    done = subprocess.run(command(headscope, "corpus", lines, "--model", model, "--control", f"untrained:{SEED}", "--center", center,
                                  "--layers", ",".join(map(str, LAYERS)), "--max-tokens", MAX_TOKENS, "-o", tmp_path / "out"),
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    run, table = table_of(networks, texts, center)
    found = {claim["id"]: claim for claim in report(tmp_path / "out")["findings"]}
    assert list(found) == list(table)
    for name, due in table.items():
        evidence = found[name]["evidence"]
        assert_is_figure(evidence["observed"], run, due.observed, EXACT)
        for control, draws in due.controls.items():
            assert_is_figure(evidence[control], run, draws, LENGTHS if control == "lengths" else EXACT)
        assert found[name]["verdict"] == due.verdict, name
    for name, sentence in measured(run, table).items():
        assert_says(found[name]["measured"], sentence)
