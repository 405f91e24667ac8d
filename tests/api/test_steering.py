"""Steering: vectors added to hidden states, against the states themselves, gradients, patches and PyTorch's forward hooks."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, MINI, PATIENCE, served_models
from test_formats import npz

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
sys.path.insert(0, str(REFERENCE))
import family_bart  # noqa: E402
import family_deberta_v2  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402
import family_t5  # noqa: E402
import predictor  # noqa: E402

NOT_INSTALLED = 77
TEXT, OTHER, LONGER = "the war was at the airport", "the police was old", "the old police was at the airport in the war"
MASKED = "the war was at the [MASK] ."
TARGET, OTHER_TARGET = "An airport, many office police were long in war.", "An office police."
# A model of each kind of position, norm and block, and the stacks of two encoder-decoder models.
REQUESTS = {
    "mini": {"model": "mini", "text": MASKED},
    "deberta": {"model": "deberta", "text": MASKED},
    "gpt2": {"model": "gpt2"},
    "llama": {"model": "llama"},
    **{f"{name} {stack}": {"model": name, "text_target": TARGET, "stack": stack} for name in ("t5", "bart") for stack in ("decoder", "cross")},
    **{f"{name} encoder": {"model": name} for name in ("t5", "bart")},
}
FOLLOWED = [name for name in REQUESTS if not name.endswith("encoder")]  # those with a target
ARRAYS = ["attentions", "similarities", "head_outputs", "hidden_states"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("steering")
    folders = {
        "deberta": predictor.add(family_deberta_v2.write_random(root / "deberta")),
        "gpt2": family_gpt2.write_random(root / "gpt2"),
        "llama": family_llama.write_random(root / "llama"),
        "t5": family_t5.write_random(root / "t5", decoder=True),
        "bart": family_bart.write_random(root / "bart", decoder=True),
    }
    yield from served_models(folders, "--model=mini")


def request(server, name, interventions=(), **fields):
    body = {"text": TEXT, "layers": "all", "outputs": ARRAYS, **REQUESTS[name], "interventions": list(interventions), **fields}
    return npz(server, body)


def add(layers, vector=None, **members):
    given = {} if vector is None else {"vector": np.asarray(vector, float).tolist()}
    return {"kind": "add", "what": "hidden", "layers": layers, **given, **members}


def some(size, seed=1):
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def close(found, expected, part=1e-5):
    """Within a part of the largest number."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.abs(expected).max())


@pytest.mark.parametrize("name", REQUESTS)
def test_the_vector_is_in_the_state_of_these_layers_and_positions(served, name):
    plain = request(served, name)
    states = plain["hidden_states"]
    vector = some(states.shape[2])
    for layer in range(-1, states.shape[0] - 1):
        changed = request(served, name, [add([layer], vector, positions=[1, 3], factor=-0.5)])
        expected = states[layer + 1].copy()
        expected[[1, 3]] -= np.float32(0.5) * vector
        np.testing.assert_allclose(changed["hidden_states"][layer + 1], expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(changed["hidden_states"][:layer + 1], states[:layer + 1])
        np.testing.assert_array_equal(changed["attentions"][:layer + 1], plain["attentions"][:layer + 1])
        if layer + 2 < states.shape[0]:
            assert not np.allclose(changed["hidden_states"][layer + 2], states[layer + 2])


@pytest.mark.parametrize("name", REQUESTS)
def test_factor_0_changes_no_bit(served, name):
    plain = request(served, name)
    vector = some(plain["hidden_states"].shape[2])
    changed = request(served, name, [add([-1, 0, 1], vector, factor=0)])
    for array in ARRAYS:
        np.testing.assert_array_equal(changed[array].view(np.uint32), plain[array].view(np.uint32))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_vector_and_its_opposite_restore_the_pass(served, name):
    plain = request(served, name)
    vector = some(plain["hidden_states"].shape[2])
    changed = request(served, name, [add([-1, 1], vector), add([-1, 1], -vector)])
    for array in ARRAYS:
        close(changed[array], plain[array])


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("pooling", [None, "mean", "last"])
def test_two_texts_give_the_difference_of_their_states(served, name, pooling):
    decodes = "text_target" in REQUESTS[name]
    causal = decodes or name in ("gpt2", "llama")
    texts = [{"text": OTHER}, {"text": LONGER}]
    if decodes:
        texts = [{**text, "text_target": target} for text, target in zip(texts, (OTHER_TARGET, TARGET), strict=True)]
    pooled = []
    for text in texts:
        states = request(served, name, **text)["hidden_states"].astype(float)
        pooled.append(states[:, -1] if (pooling or ("last" if causal else "mean")) == "last" else states.mean(1))
    difference = pooled[0] - pooled[1]
    layers = [-1, 1] if name != "mini" else [-1, 4, 11]
    named = {} if pooling is None else {"pooling": pooling}
    found = request(served, name, [add(layers, **{"from": texts}, factor=2.5, **named)])
    expected = request(served, name, [add([layer], difference[layer + 1], factor=2.5) for layer in layers])
    for array in ARRAYS:
        close(found[array], expected[array])
    assert np.abs(difference).max() > 1e-2


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_text_less_itself_changes_nothing(served, pooling):
    plain = request(served, "gpt2")
    changed = request(served, "gpt2", [add([-1, 0, 1], **{"from": [{"text": LONGER}] * 2}, factor=1e6, pooling=pooling)])
    for array in ARRAYS:
        np.testing.assert_array_equal(changed[array], plain[array])


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_small_vector_changes_the_target_by_its_product_with_the_gradient(served, name):
    predicts = {"target": {"token": 20, "position": 2}}
    gradients = request(served, name, outputs=["hidden_state_gradients"], **predicts)["hidden_state_gradients"].astype(float)
    vector = some(gradients.shape[2])
    for layer, positions in [(-1, None), (0, [2]), (1, [0, 2])]:
        named = {} if positions is None else {"positions": positions}
        sides = [request(served, name, [add([layer], vector, factor=factor, **named)], outputs=[], **predicts)["changes_target"][1].astype(float)
                 for factor in (1e-3, -1e-3)]
        products = gradients[layer + 1][slice(None) if positions is None else positions] * vector
        assert abs((sides[0] - sides[1]) / 2e-3 - products.sum()) <= 5e-3 * np.abs(products).sum() + 1e-3


@pytest.mark.parametrize("name", FOLLOWED)
def test_gradients_are_those_of_the_steered_pass(served, name):
    """And effects of heads, which each start from a steered state, add the vector once."""
    follows = {"target": {"token": 20, "position": 2}}
    size = request(served, name)["hidden_states"].shape[2]
    steering, along = add([-1, 0, 1], some(size)), some(size, 2)
    gradients = request(served, name, [steering], outputs=["hidden_state_gradients"], **follows)["hidden_state_gradients"].astype(float)
    sides = [request(served, name, [steering, add([0], along, factor=factor)], outputs=[], **follows)["changes_target"][1].astype(float)
             for factor in (1e-3, -1e-3)]
    products = gradients[1] * along
    assert abs((sides[0] - sides[1]) / 2e-3 - products.sum()) <= 5e-3 * np.abs(products).sum() + 1e-3
    heads = [0, 1]
    effects = request(served, name, [steering], outputs=["effects"], heads=heads, layers=[0, 1], **follows)["effects_target_change"]
    for layer in (0, 1):
        for head in heads:
            both = [steering, {"kind": "zero", "layers": [layer], "heads": [head]}]
            off, on = (request(served, name, list(changes), outputs=[], **follows)["changes_target"][1] for changes in (both, both[:1]))
            assert abs(effects[layer, head] - (off - on)) <= 1e-4 * max(1, abs(on))


@pytest.mark.parametrize("name", FOLLOWED)
def test_estimates_are_those_of_the_steered_pass(served, name):
    size = request(served, name)["hidden_states"].shape[2]
    options = {"outputs": ["effects"], "target": {"token": 20, "position": 2}, "interventions": [add([-1, 0, 1], some(size))]}
    exact, estimated = (request(served, name, **{**options, "effects_of": {"kind": "scale", "factor": 0.99, **more}})["effects_target_change"]
                        for more in ({}, {"estimate": "gradient"}))
    close(estimated, exact, 0.05)
    whole = request(served, name, options["interventions"], outputs=["token_attributions"], target=options["target"],
                  attribution="integrated_gradients", steps=50, baseline="zero")
    assert 0 < abs(whole["target_completeness_gap"]) < 0.05 * np.abs(whole["token_attributions"]).sum()


def test_parts_of_a_logit_include_what_is_added(served):
    size = request(served, "gpt2")["hidden_states"].shape[2]
    changes = [add([-1, 0, 1], some(size)), add([0], some(size, 2), positions=[2, 4], factor=-2)]
    parts = request(served, "gpt2", changes, outputs=["logit_attributions"], target={"token": 20, "position": 4})
    total = parts["logit_attributions_heads"].sum() + parts["logit_attributions_feed_forward"].sum()
    total += sum(parts[f"logit_attributions_{name}"] for name in ("embedding", "bias", "other"))
    assert parts["logit_attributions_other"] != 0
    np.testing.assert_allclose([total, parts["logit_attributions_sum"]], parts["changes_target"][1], rtol=1e-4, atol=1e-4)


def test_the_map_of_patched_states_keeps_what_is_added(served):
    other = {"text": TEXT.replace("war", "police")}
    vector = some(request(served, "gpt2")["hidden_states"].shape[2])
    options = {"outputs": ["patch_map"], "target": {"token": 20, "position": 5}, "effects_of": {"kind": "patch", "from": other}}
    steering = add([0], vector)
    found = request(served, "gpt2", [steering], **options)["patch_map"]

    def target(*changes):
        return request(served, "gpt2", changes, outputs=[], target=options["target"])["changes_target"][1].astype(float)

    def patch(layer, *positions):
        return {"kind": "patch", "what": "hidden", "layers": [layer], "from": other, **({"positions": list(positions)} if positions else {})}

    base, to = target(steering), target(patch(1))
    for layer, position in [(-1, 1), (0, 1), (0, 4), (1, 5)]:
        np.testing.assert_allclose(found[layer + 1, position], (target(steering, patch(layer, position)) - base) / (to - base), atol=2e-3)


def test_changes_of_a_state_apply_in_the_order_of_the_list(served):
    patch = {"kind": "patch", "what": "hidden", "layers": [0], "from": {"text": TEXT.replace("war", "police")}}
    vector = some(request(served, "gpt2")["hidden_states"].shape[2])
    patched, before, after = (request(served, "gpt2", changes)["hidden_states"]
                              for changes in ([patch], [add([0], vector), patch], [patch, add([0], vector)]))
    np.testing.assert_array_equal(before, patched)
    np.testing.assert_allclose(after[1], patched[1] + vector, rtol=1e-6, atol=1e-6)


def test_head_scores_of_a_steered_model(served):
    texts = [{"text": OTHER}, {"text": LONGER}]
    options = {"outputs": [], "head_scores": {"length": 20, "sequences": 2, "seed": 0}}

    def scores(*changes):
        return request(served, "gpt2", changes, **options)["head_scores_induction"]

    last = [request(served, "gpt2", **text)["hidden_states"][1, -1] for text in texts]
    made = scores(add([0], **{"from": texts}, factor=20))
    np.testing.assert_array_equal(made, scores(add([0], **{"from": texts}, factor=20)))  # the text's heads are in the cache
    close(made, scores(add([0], last[0] - last[1], factor=20)), 1e-4)
    assert np.abs(made - scores()).max() > 1e-3
    refused = served.post("/analyze", {**options, "model": "gpt2", "text": TEXT, "interventions": [add([0], last[0], positions=[1])]})
    assert refused.status == 422 and "positions" in refused.json()["detail"]


def test_servers_with_and_without_a_cache_give_the_same(server, start_server):
    fresh = start_server("--cache", "0")
    vector = some(144).tolist()
    texts = [{"text": OTHER}, {"text": LONGER}]
    lists = [[add([4], vector)], [add([4], vector, factor=2)], [add([4], vector[::-1])], [add([4, 7], **{"from": texts})],
             [add([4, 7], **{"from": texts}, pooling="last")], [add([4, 7], **{"from": texts[::-1]})], [add([-1], vector)]]
    answers = []
    for changes in lists * 2:
        body = {"text": TEXT, "layers": "all", "outputs": ["hidden_states", "effects"], "heads": [0], "digits": 9, "interventions": changes}
        answers.append(server.post("/analyze", body).json())
        assert answers[-1] == fresh.post("/analyze", body).json()
    assert answers[:len(lists)] == answers[len(lists):]
    assert len({str(answer["hidden_states"]) for answer in answers}) == len(lists)


def test_texts_of_a_vector_are_not_cut_into_windows(server):
    """A text to patch from is cut as the request's text is; a vector is of whole texts."""
    words = " ".join(["war"] * 30)
    options = {"outputs": ["hidden_states"], "layers": "all", "max_tokens": 20, "stride": 4, "window": 1, "text": words}
    states = [npz(server, {"text": text, "outputs": ["hidden_states"], "layers": "all"})["hidden_states"].mean(1) for text in (OTHER, LONGER)]
    made, given = (npz(server, {**options, "interventions": [add([4], **members)]})["hidden_states"] for members in (
        {"from": [{"text": OTHER}, {"text": LONGER}]}, {"vector": states[0][5] - states[1][5]}))
    close(made, given)


VECTOR = [1.0] * 144
TEXTS = [{"text": "a"}, {"text": "b"}]
REFUSALS = [
    (add([1], VECTOR[1:]), "/vector", "vector has 143 numbers; it must be a list of 144, the hidden size of mini"),
    ({**add([1]), "vector": 3}, "/vector", "a list of 144"),
    ({**add([1]), "vector": [*VECTOR[1:], "1"]}, "/vector/143", "in the range of floats"),
    (add([1], [1e39, *VECTOR[1:]]), "/vector/0", "in the range of floats"),
    (add([1], [1, 1e30, *VECTOR[2:]], factor=1e10), "/vector/1", "also times factor"),
    (add([1], VECTOR, factor=1e39), "/factor", "in the range of floats"),
    (add([1], VECTOR, factor="2"), "/factor", "in the range of floats"),
    (add([1], VECTOR, **{"from": TEXTS}), "/vector", "either vector, 144 numbers, or from, two texts"),
    (add([1]), "/vector", "either vector, 144 numbers, or from, two texts"),
    (add([1], **{"from": TEXTS[:1]}), "/from", "a list of two texts"),
    (add([1], **{"from": TEXTS[0]}), "/from", "a list of two texts"),
    (add([1], **{"from": ["a", "b"]}), "/from/0", "a text, such as"),
    (add([1], **{"from": [{"text": "a"}, {"input_ids": [-1]}]}), "/from/1/input_ids/0", "an integer from 0"),
    (add([1], **{"from": TEXTS}, pooling="max"), "/pooling", '"mean" or "last"'),
    (add([1], VECTOR, pooling="mean"), "/pooling", "only add with from takes 'pooling'"),
    (add([12], VECTOR), "/layers/0", "an integer from -1 to 11"),
    (add([-2], VECTOR), "/layers/0", "an integer from -1 to 11"),
    (add([], VECTOR), "/layers", "-1 for the embeddings"),
    (add("all", VECTOR), "/layers", "-1 for the embeddings"),
    (add([1], VECTOR, heads=[0]), "", "has no heads"),
    (add([1], VECTOR, positions=[99]), "/positions", "position 99 is outside the text"),
    (add([1], VECTOR, positions=[]), "/positions", "at least one position"),
    ({"kind": "add", "layers": [1], "vector": VECTOR}, "/what", 'add requires what: "hidden"'),
    (add([1], VECTOR, what="heads"), "/what", 'add requires what: "hidden"'),
    ({"kind": "zero", "vector": VECTOR}, "/vector", "only add takes 'vector'"),
    ({"kind": "patch", "from": TEXTS}, "/from", "patch requires from: the text"),
]


@pytest.mark.parametrize(("intervention", "member", "detail"), REFUSALS)
def test_what_no_addition_can_be_is_refused(server, intervention, member, detail):
    got = server.post("/analyze", {"text": TEXT, "interventions": [intervention]})
    assert got.status == 422 and got.json()["pointer"] == "/interventions/0" + member and detail in got.json()["detail"], got.body


def test_two_texts_of_another_stack_are_refused(served):
    body = {"text": TEXT, **REQUESTS["t5 decoder"]}
    got = served.post("/analyze", {**body, "interventions": [add([0], stack="encoder", **{"from": TEXTS})]})
    assert got.status == 422 and "or vector in place of from" in got.json()["detail"], got.body
    size = request(served, "t5 encoder")["hidden_states"].shape[2]
    assert served.post("/analyze", {**body, "interventions": [add([0], some(size), stack="encoder")]}).status == 200


@pytest.mark.parametrize("name", ["t5 decoder", "bart cross"])
def test_the_cache_tells_vectors_in_the_encoder_apart(served, name):
    """Also if the decoder's first intervention takes values from texts."""
    size = request(served, name)["hidden_states"].shape[2]
    own = add([0], **{"from": [{"text": OTHER, "text_target": TARGET}, {"text": LONGER, "text_target": TARGET}]})
    encoders = [add([0], some(size, seed) * 30, stack="encoder") for seed in (1, 2)]
    found = [request(served, name, [own, encoder])["hidden_states"] for encoder in encoders]
    nothing = add([-1], np.zeros(size))  # the encoder's pass is the same, and the decoder's key another
    again = [request(served, name, [nothing, own, encoder])["hidden_states"] for encoder in encoders]
    assert np.abs(found[0] - found[1]).max() > 1e-2
    close(again, found)


def test_positions_in_the_encoder_are_those_of_its_text(served):
    body = {**REQUESTS["bart decoder"], "outputs": ["hidden_states"]}
    size = request(served, "bart encoder")["hidden_states"].shape[2]
    last = len(served.post("/tokenize", {"model": "bart", "text": LONGER}).json()["tokens"]) - 1

    def answer(position, **texts):
        change = add([0], some(size), stack="encoder", positions=[position])
        return served.post("/analyze", {**body, **texts, "interventions": [change]})

    assert answer(last, text=LONGER, text_target="a").status == 200
    for text, target in ((LONGER, "a"), ("a", TARGET)):
        got = answer(last + 1, text=text, text_target=target)
        assert got.status == 422 and got.json()["pointer"] == "/interventions/0/positions", got.body
        assert f"position {last + 1} is outside the text, which has" in got.json()["detail"]
    got = served.post("/analyze", {**body, "text": LONGER, "text_target": "a", "interventions": [add([0], some(size), positions=[last])]})
    assert got.status == 422 and "is outside the target" in got.json()["detail"], got.body


def test_the_difference_times_factor_stays_in_the_range_of_floats(served):
    texts = [{"text": OTHER}, {"text": LONGER}]
    scaled = [request(served, "gpt2", **text)["hidden_states"][2, -1] for text in texts]
    assert np.abs(scaled[0] - scaled[1]).max() > 2
    got = served.post("/analyze", {"text": TEXT, "model": "gpt2", "interventions": [add([1], **{"from": texts}, factor=3e38)]})
    assert got.status == 422 and "send a smaller factor" in got.json()["detail"], got.body


def test_a_corpus_run_refuses_additions(tmp_path):
    (tmp_path / "corpus.txt").write_text(TEXT + "\n")
    (tmp_path / "add.json").write_text(json.dumps([add([1], VECTOR)]))
    done = subprocess.run([HEADSCOPE, "corpus", tmp_path / "corpus.txt", "-o", tmp_path / "out", "--interventions", tmp_path / "add.json"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "patch and add, which change one text" in done.stderr, done.stderr


def test_a_corpus_run_names_its_model_in_what_it_says_of_the_encoder(tmp_path):
    model = family_bart.write_random(tmp_path / "bart", decoder=True)
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"text": TEXT, "text_target": TARGET}) + "\n")
    (tmp_path / "add.json").write_text(json.dumps([add([1], [1], stack="encoder")]))
    done = subprocess.run([HEADSCOPE, "corpus", tmp_path / "corpus.jsonl", "-o", tmp_path / "out", "--model", f"bart={model}", "--stack", "decoder",
                           "--interventions", tmp_path / "add.json"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "a list of 48, the hidden size of this model" in done.stderr, done.stderr


def test_the_command_line_takes_additions():
    shown = [json.loads(subprocess.run([HEADSCOPE, "analyze", "--model", f"mini={MINI}", "--outputs", "hidden_states", "--layers", "all",
                                        "--format", "json", "--digits", "9", "--interventions", json.dumps(changes), TEXT], check=True,
                                       capture_output=True, timeout=PATIENCE).stdout)["hidden_states"] for changes in ([], [add([5], VECTOR)])]
    states = np.array(shown)
    np.testing.assert_allclose(states[1][6], states[0][6] + 1, rtol=1e-6, atol=1e-6)


def test_hooks_in_pytorch_give_the_same():
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    done = subprocess.run([python, REFERENCE / "steering_hooks.py"], env={**os.environ, "HEADSCOPE": os.path.abspath(HEADSCOPE)},
                          capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == NOT_INSTALLED:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stdout + done.stderr
