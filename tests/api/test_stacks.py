"""Decoders and cross heads of encoder-decoder models, over HTTP: arrays against the float64 references, what a request
must say, what is refused, sizes and formats."""
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, served_models
from test_client_python import package
from test_formats import npz, safetensors
from test_reference import assert_close

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import encoder  # noqa: E402
import experiments  # noqa: E402
import family_bart  # noqa: E402
import family_encoder_decoder  # noqa: E402
import family_t5  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MODELS = {
    "t5": (family_t5, dict(seed=3, decoder=True)),
    "mt5": (family_t5, dict(seed=4, decoder=True, kind="mt5", feed="gated-gelu")),
    "t5_few_buckets": (family_t5, dict(seed=5, decoder=True, buckets=10, distances=20, prefix="transformer.", n_layers=1)),
    "bart": (family_bart, dict(seed=3, decoder=True)),
    "bart_scaled": (family_bart, dict(seed=6, decoder=True, scaled=True, prefix="model.", activation="swish")),
    "mbart": (family_bart, dict(seed=7, decoder=True, kind="mbart", scaled=True)),
    "marian": (family_bart, dict(seed=9, decoder=True, kind="marian", scaled=True, activation="swish")),
    "m2m_100": (family_bart, dict(seed=8, decoder=True, kind="m2m_100", scaled=True)),
    "t5_own_tables": (family_t5, dict(seed=10, decoder=True, own=("encoder", "decoder"))),
    "t5_both_ways": (family_t5, dict(seed=11, decoder=True, causal=False, buckets=10, distances=20)),
    "bart_own_table": (family_bart, dict(seed=12, decoder=True, own=("decoder",), prefix="model.")),
    "mbart_own_tables": (family_bart, dict(seed=13, decoder=True, kind="mbart", own=("encoder", "decoder"), causal=False)),
    "bert2bert": (family_encoder_decoder, dict(seed=14)),
    "bert2bert_untied": (family_encoder_decoder, dict(seed=15, tied=False, activation="relu", causal=False)),
    "bert2bert_of_the_encoder": (family_encoder_decoder, dict(seed=16, shared="encoder")),
    "bert2bert_of_the_decoder": (family_encoder_decoder, dict(seed=17, shared="decoder", dtype="BF16")),
    "roberta2roberta": (family_encoder_decoder, dict(seed=18, kind="roberta", padding=1, activation="relu")),
    "generation2generation": (family_encoder_decoder, dict(seed=19, kind="bert-generation")),
}
TEXT = "The war of the city was at the airport for many police. " * 4
TARGET = "An airport, many office police were long in war."
ARRAYS = ["attentions", "similarities", "head_outputs", "hidden_states", "weighted_norms", "keys", "values", "scores"]
PAIR = {"text": TEXT, "text_target": TARGET}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("stacks")
    return {name: module.write_random(root / name, **shape) for name, (module, shape) in MODELS.items()}


@pytest.fixture(scope="module")
def served(folders, tmp_path_factory):
    alone = family_t5.write_random(tmp_path_factory.mktemp("alone") / "t5")
    mute = family_bart.write_random(tmp_path_factory.mktemp("mute") / "mbart", decoder=True, kind="mbart")
    config = json.loads((mute / "config.json").read_text())
    del config["decoder_start_token_id"]
    (mute / "config.json").write_text(json.dumps(config))
    yield from served_models({**folders, "alone": alone, "mute": mute})


def arrays_of(server, **fields):
    return npz(server, {**PAIR, "layers": "all", "outputs": ARRAYS, **fields})


def expected(folders, name, source, target):
    module, folder = MODELS[name][0], folders[name]
    return module.decode(folder, module.forward(folder, source).hidden_states[-1], target)


def source_ids(server, name):
    return server.post("/tokenize", {"text": TEXT, "model": name}).json()["input_ids"]


@pytest.mark.parametrize("stack", ["decoder", "cross"])
@pytest.mark.parametrize("name", MODELS)
def test_maps_states_and_similarities(served, folders, name, stack):
    answer, source = arrays_of(served, model=name, stack=stack), source_ids(served, name)
    own, cross, _ = expected(folders, name, source, answer["input_ids"])
    heads = cross if stack == "cross" else own
    n_target, n_source = len(answer["input_ids"]), len(source)
    assert n_target != n_source == len(answer["source_tokens"]) and answer["stack"] == stack
    assert answer["attentions"].shape[2:] == (n_target, n_source if stack == "cross" else n_target)
    assert_close(answer["attentions"], heads.attentions, 1e-5)
    assert_close(answer["hidden_states"], heads.hidden_states, 1e-5 * np.abs(heads.hidden_states).max())
    similarities = analysis.similarity(heads.outputs)
    for l, h in np.ndindex(heads.outputs.shape[:2]):
        assert_close(answer["head_outputs"][l, h], heads.outputs[l, h], 1e-5 * np.abs(heads.outputs[l, h]).max())
        assert_close(answer["similarities"][l, h], similarities[l, h], 1e-5 * np.abs(similarities[l, h]).max())
    assert answer["keys"].shape == answer["values"].shape == (*heads.attentions.shape[:2], heads.attentions.shape[3],
                                                              heads.outputs.shape[3])
    assert_close(answer["attentions"] @ answer["values"], heads.outputs, 1e-5 * np.abs(heads.outputs).max())
    assert_close(encoder.softmax(answer["scores"].astype(float)), heads.attentions, 1e-5)
    assert answer["weighted_norms"].shape == heads.attentions.shape


@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_loss_are_of_the_target(served, folders, name):
    answer = served.analyze({**PAIR, "model": name, "stack": "decoder", "outputs": ["loss"], "digits": 9,
                             "predictions": {"positions": "all", "top_k": 3}})
    ids = answer["input_ids"]
    _, _, logits = expected(folders, name, source_ids(served, name), ids)
    chances = encoder.softmax(logits)
    losses = -np.log(chances)[np.arange(len(ids) - 1), ids[1:]]
    assert answer["loss"]["tokens"] == pytest.approx(losses, rel=2e-5, abs=1e-6)
    assert answer["loss"]["mean"] == pytest.approx(losses.mean(), rel=1e-5)
    for t, entry in enumerate(answer["predictions"]):
        assert [top["probability"] for top in entry["top"]] == pytest.approx(
            np.sort(chances[t])[::-1][:3].tolist(), rel=2e-4, abs=1e-7)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_tokens_of_both_texts(served, folders, name):
    answer = served.analyze({**PAIR, "model": name, "stack": "cross", "outputs": []})
    target = served.post("/tokenize", {"text": TARGET, "model": name}).json()
    start = json.loads((folders[name] / "config.json").read_text())["decoder_start_token_id"]
    assert answer["input_ids"] == [start, *target["input_ids"]]
    assert answer["tokens"][1:] == target["tokens"]
    assert answer["special_tokens_mask"] == [1, *target["special_tokens_mask"]]
    assert answer["offset_mapping"] == [[0, 0], *target["offset_mapping"]]
    assert answer["word_ids"] == [None, *target["word_ids"]]
    source = served.post("/tokenize", {"text": TEXT, "model": name}).json()
    assert answer["source_tokens"] == source["tokens"] and source["stack"] == "encoder"
    tokens = served.post("/tokenize", {**PAIR, "model": name, "stack": "cross"}).json()
    assert {**tokens, "layers": answer["layers"], "heads": answer["heads"]} == answer
    ids = served.analyze({"input_ids": source["input_ids"], "target_ids": target["input_ids"], "model": name,
                          "stack": "cross", "outputs": ["attentions"], "digits": 9})
    assert ids["offset_mapping"] is None and ids["input_ids"] == answer["input_ids"]
    again = served.analyze({**PAIR, "model": name, "stack": "cross", "outputs": ["attentions"], "digits": 9})
    assert ids["attentions"] == again["attentions"]


@pytest.mark.parametrize("text, target", [(TEXT, "war"), ("war", TARGET * 3), ("", "")])
def test_texts_of_any_length(served, folders, text, target):
    answer = served.analyze({"text": text, "text_target": target, "model": "t5", "stack": "cross", "outputs": ["attentions"],
                             "digits": 9, "layers": "all"})
    source = served.post("/tokenize", {"text": text, "model": "t5"}).json()["input_ids"]
    _, cross, _ = expected(folders, "t5", source, answer["input_ids"])
    assert_close(np.array(answer["attentions"]), cross.attentions, 1e-5)


def test_max_tokens_cuts_both_texts(served):
    answer = served.analyze({**PAIR, "model": "t5", "stack": "cross", "max_tokens": 6, "outputs": ["attentions"]})
    assert len(answer["tokens"]) == len(answer["source_tokens"]) == 6 and answer["truncated"]
    assert np.shape(answer["attentions"])[2:] == (6, 6)
    whole = served.analyze({"text": "war", "text_target": TARGET, "model": "t5", "stack": "cross", "max_tokens": 6})
    assert len(whole["source_tokens"]) == 3 and whole["truncated"]
    assert not served.analyze({"text": "war", "text_target": "war", "model": "t5", "stack": "cross"})["truncated"]


def test_formats_agree(served):
    request = {**PAIR, "model": "bart", "stack": "cross", "layers": "all", "outputs": ["attentions", "similarities", "pairs"],
               "digits": 9}
    answer, arrays = served.analyze(request), npz(served, request)
    metadata, tensors = safetensors(served, request)
    assert metadata["stack"] == answer["stack"] == arrays["stack"] == "cross"
    assert json.loads(metadata["source_tokens"]) == answer["source_tokens"] == arrays["source_tokens"].tolist()
    for name in ("attentions", "similarities"):
        assert_close(arrays[name], np.array(answer[name]), 1e-6 * np.abs(arrays[name]).max())
        assert np.array_equal(arrays[name], tensors[name])
    assert answer["pairs_total"] == arrays["pairs_total"]
    request_some = {**request, "pool": 2, "rows": [1, 3], "columns": [0, 2],
                    "outputs": ["max_pooled_attentions", "mean_pooled_similarities", "sliced_attentions", "sliced_similarities"]}
    some, reduced = served.analyze(request_some), npz(served, request_some)
    maps = arrays["attentions"]
    assert_close(reduced["max_pooled_attentions"][..., -1, -1], maps[..., (maps.shape[2] - 1) // 2 * 2:,
                                                                    (maps.shape[3] - 1) // 2 * 2:].max((2, 3)), 0)
    assert_close(reduced["mean_pooled_similarities"][..., 0, 1], arrays["similarities"][..., :2, 2:4].mean((2, 3)), 1e-5)
    for name, array in safetensors(served, request_some)[1].items():
        assert np.array_equal(array, reduced[name]) and (name not in some or np.shape(some[name]) == array.shape)
    for name in ("attentions", "similarities"):
        assert np.array_equal(reduced[f"sliced_{name}"], arrays[name][..., 1:3, :2])
    words = npz(served, {**request, "outputs": ["word_attentions", "word_similarities"]})
    rows, columns = words["word_tokens"], words["source_word_tokens"]
    assert len(rows) < maps.shape[2] and len(columns) < maps.shape[3]
    expected = np.stack([maps[..., a:b, :].mean(-2) for a, b in rows], -2)
    assert_close(words["word_attentions"], np.stack([expected[..., a:b].sum(-1) for a, b in columns], -1), 1e-6)
    assert words["word_similarities"].shape[2:] == (len(rows), len(rows))
    for dtype, step in (("f2", 1e-3), ("u1", 1 / 255)):
        small = npz(served, {**request, "outputs": ["attentions"], "dtype": dtype})["attentions"]
        assert_close(small / (255 if dtype == "u1" else 1), arrays["attentions"], step)
    mean = npz(served, {**request, "outputs": ["attentions"], "reduce": "mean"})["attentions"]
    assert_close(mean[:, 0], arrays["attentions"].mean(1), 1e-6)


def test_slices_of_cross_heads_end_in_both_maps(served):
    """A short text and a long target: attention has fewer columns than similarity."""
    request = {"text": "war", "text_target": TARGET, "model": "t5", "stack": "cross"}
    whole = served.analyze({**request, "outputs": ["attentions"]})
    sources, targets = len(whole["source_tokens"]), len(whole["tokens"])
    assert sources < targets
    for outputs, most in ((["sliced_attentions"], sources), (["sliced_similarities"], targets),
                          (["sliced_attentions", "sliced_similarities"], sources)):
        assert len(served.analyze({**request, "outputs": outputs, "columns": [0, most]})[outputs[0]][0][0][0]) == most
        answer = served.post("/analyze", {**request, "outputs": outputs, "columns": [0, most + 1]})
        assert (answer.status, answer.json()["pointer"]) == (422, "/columns")


def test_stacks_do_not_share_cached_heads(served):
    """The same texts, requested in turn and with the texts exchanged, keep their own maps."""
    requests = [{"text": text, "text_target": target, "model": "t5", "stack": stack, "outputs": ["attentions"]}
                for text, target in ((TEXT, TARGET), (TARGET, TARGET), (TARGET, TEXT)) for stack in ("decoder", "cross")]
    first = [served.analyze(request)["attentions"] for request in requests]
    assert [served.analyze(request)["attentions"] for request in requests] == first
    assert len({json.dumps(maps) for maps in first}) == len(first)
    own = served.analyze({"text": TARGET, "model": "t5", "outputs": ["attentions"]})["attentions"]
    assert own not in first


O_MATRICES = {"t5": {"encoder": "encoder.block.1.layer.0.SelfAttention.o", "decoder": "decoder.block.1.layer.0.SelfAttention.o",
                     "cross": "decoder.block.1.layer.1.EncDecAttention.o"},
              "bart": {"encoder": "encoder.layers.1.self_attn.out_proj", "decoder": "decoder.layers.1.self_attn.out_proj",
                       "cross": "decoder.layers.1.encoder_attn.out_proj"}}


@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
@pytest.mark.parametrize("stack, changed_stack", [("decoder", None), ("cross", None), ("decoder", "cross"), ("cross", "decoder"),
                                                  ("decoder", "encoder")])
def test_a_zeroed_head_is_one_that_writes_nothing(served, folders, tmp_path, name, stack, changed_stack):
    """Against the same checkpoint with the head's columns of W_O set to 0."""
    layer = O_MATRICES["t5" if name == "t5" else "bart"][changed_stack or stack]
    module, shape = MODELS[name]
    changed = module.write_random(tmp_path / name, **shape)
    weights = checkpoint.read_safetensors(changed / "model.safetensors")
    width = weights[layer + ".weight"].shape[1] // 4
    weights[layer + ".weight"][:, 2 * width : 3 * width] = 0
    checkpoint.write_safetensors(changed / "model.safetensors", weights)
    request = {**PAIR, "stack": stack, "layers": [2], "outputs": ["attentions", "hidden_states"], "digits": 9}
    zeroed = served.analyze({**request, "model": name,
                             "interventions": [{"kind": "zero", "layers": [1], "heads": [2],
                                                **({"stack": changed_stack} if changed_stack else {})}]})
    for server in served_models({"changed": changed}):
        expected = server.analyze(request)
    plain = served.analyze({**request, "model": name})
    assert_close(np.array(zeroed["attentions"]), np.array(expected["attentions"]), 1e-5)
    states = np.array(expected["hidden_states"])
    assert_close(np.array(zeroed["hidden_states"]), states, 1e-5 * np.abs(states).max())
    maps, before = np.array(zeroed["attentions"]), np.array(plain["attentions"])
    norms = np.linalg.norm(maps - before, axis=(2, 3)) / np.linalg.norm(before, axis=(2, 3))
    assert_close(np.array(zeroed["changes"]["attentions"]), norms, 1e-5)
    assert norms.min() > 1e-3


def test_interventions_of_several_stacks_keep_their_own_heads(served):
    """In any order, together and alone, with the cache; effects are above all of them."""
    request = {**PAIR, "model": "bart", "stack": "cross", "layers": "all", "outputs": ["hidden_states", "loss"], "digits": 9}
    each = [{"kind": "zero", "layers": [1], "heads": [2], "stack": stack} for stack in ("encoder", "decoder", "cross")]
    answers = [served.analyze({**request, "interventions": changes})
               for changes in ([each[0]], [each[1]], [each[2]], each, each[::-1])]
    assert answers[3]["hidden_states"] == answers[4]["hidden_states"]
    assert len({json.dumps(answer["hidden_states"]) for answer in answers}) == 4
    assert len({json.dumps(answer["changes"]["loss"]) for answer in answers}) == 1
    effects = served.analyze({**request, "outputs": ["effects"], "interventions": each[:1], "target": {"loss": True}})["effects"]
    both = served.analyze({**request, "interventions": [each[2], each[0]]})
    assert effects[1][2]["target_change"] == pytest.approx(both["loss"]["mean"] - answers[0]["loss"]["mean"], abs=2e-5)


@pytest.mark.parametrize("stack", ["decoder", "cross"])
@pytest.mark.parametrize("name", ["t5", "bart", "mbart", "bert2bert"])
def test_effects_are_what_interventions_change(served, name, stack):
    """Interventions are compared with changed checkpoints above."""
    request = {**PAIR, "model": name, "stack": stack, "layers": "all", "digits": 9, "target": {"loss": True}}
    for change in ({"kind": "zero"}, {"kind": "mean"}, {"kind": "scale", "factor": -1.5}):
        effects = served.analyze({**request, "outputs": ["effects"], "effects_of": change})["effects"]
        for layer, head in ((0, 1), (1, 3), (2, 0)):
            changes = served.analyze({**request, "outputs": [], "interventions": [
                {**change, "layers": [layer], "heads": [head]}]})["changes"]
            effect, difference = effects[layer][head], changes["target"]["after"] - changes["target"]["before"]
            assert effect["target_change"] == pytest.approx(difference, abs=2e-5)
            assert effect["logprob_change"] == pytest.approx(-difference, abs=2e-5)
            assert effect["hidden_change"] == pytest.approx(np.mean(changes["hidden"][-1]), rel=1e-4)
            assert effect["similarity_change"] == (pytest.approx(np.mean(changes["similarities"][layer + 1:]), rel=1e-4)
                                                   if layer < 2 else 0)
            assert effect["prediction_kl"] > 0


@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
def test_effects_of_the_encoder_on_what_the_decoder_predicts(served, name):
    request = {**PAIR, "model": name, "layers": "all", "digits": 9, "target": {"loss": True}}
    changes_of = {**request, "stack": "decoder", "outputs": []}
    for change in ({"kind": "zero"}, {"kind": "patch", "from": {"text": TEXT.replace("war", "airport")}}):
        got = served.analyze({**request, "outputs": ["effects"], "effects_of": change})
        assert got["stack"] == "encoder" and len(got["effects"]) == 3
        for effect in (row[0] for row in got["effects"]):
            assert effect["logprob_change"] == pytest.approx(-effect["target_change"], abs=2e-5)
            assert effect["prediction_kl"] > 0
        if change["kind"] == "patch":
            assert all(effect["recovered"] is not None for row in got["effects"] for effect in row)
            continue
        for layer, head in ((0, 1), (2, 3)):
            target = served.analyze({**changes_of, "interventions": [
                {**change, "stack": "encoder", "layers": [layer], "heads": [head]}]})["changes"]["target"]
            assert got["effects"][layer][head]["target_change"] == pytest.approx(target["after"] - target["before"], abs=2e-5)
    alone = served.analyze({"text": TEXT, "model": name, "layers": "all", "outputs": ["effects"], "digits": 9})["effects"]
    following = served.analyze({**request, "outputs": ["effects"]})["effects"]
    assert list(alone[0][0]) == ["hidden_change", "similarity_change"]
    assert [[alone[l][h][key] for key in alone[l][h]] for l, h in np.ndindex(3, 4)] == \
        [[following[l][h][key] for key in alone[l][h]] for l, h in np.ndindex(3, 4)]
    figure = served.post("/analyze?format=svg", {**request, "figure": {"kind": "effects"}})
    assert figure.status == 200 and b"change of the target" in figure.body


@pytest.mark.parametrize("fields", [{}, {"stack": "decoder"}])
def test_a_target_that_is_cut_is_said_to_be(served, fields):
    request = {"text": "war", "text_target": TARGET, "model": "bart", "outputs": ["effects"], **fields}
    assert served.analyze({**request, "max_tokens": 8})["truncated"] is True
    assert served.analyze(request)["truncated"] is False


def test_effects_above_an_intervention_and_on_a_token(served):
    request = {**PAIR, "model": "bart", "stack": "cross", "layers": "all", "digits": 9, "target": {"token": 7, "position": 2}}
    first = {"kind": "zero", "layers": [1], "heads": [2]}
    effects = served.analyze({**request, "outputs": ["effects"], "interventions": [first]})["effects"]
    assert effects[1][2]["hidden_change"] == effects[1][2]["target_change"] == 0
    both = [served.analyze({**request, "outputs": [], "interventions": changes})["changes"]["target"]["after"]
            for changes in ([first], [first, {"kind": "zero", "layers": [1], "heads": [3]}])]
    assert effects[1][3]["target_change"] == pytest.approx(both[1] - both[0], abs=2e-5)


OTHER = {"text": "Two long wars.", "text_target": "An airport, long office police were many in war."}


def patched(server, stack, *interventions, **fields):
    return arrays_of(server, model="t5", stack=stack, interventions=[{"kind": "patch", "from": OTHER, **members}
                                                                     for members in interventions], **fields)


@pytest.mark.parametrize("stack", ["decoder", "cross"])
def test_patches_take_both_texts(served, stack):
    """Texts of other lengths, and targets of the same length."""
    own, other = arrays_of(served, model="t5", stack=stack), arrays_of(served, model="t5", stack=stack, **OTHER)
    assert len(own["tokens"]) == len(other["tokens"]) and len(own["source_tokens"]) > len(other["source_tokens"])
    some = patched(served, stack, {"layers": [1], "heads": [2], "positions": [3]})
    expected = own["head_outputs"][1].copy()
    expected[2, 3] = other["head_outputs"][1][2, 3]
    assert_close(some["head_outputs"][1], expected, 1e-6 * np.abs(expected).max())
    assert np.array_equal(some["attentions"][0], own["attentions"][0])
    states = patched(served, stack, {"what": "hidden", "layers": [3 - 1]})["hidden_states"]
    assert np.array_equal(states[3], other["hidden_states"][3]) and np.array_equal(states[2], own["hidden_states"][2])
    itself = patched(served, stack, {"from": PAIR})
    for name in ARRAYS:
        assert np.array_equal(itself[name], own[name])
    third = patched(served, stack, {"from": {**OTHER, "text": "The airport."}, "layers": [1]})
    assert not np.array_equal(third["head_outputs"], patched(served, stack, {"layers": [1]})["head_outputs"])
    ids = {"input_ids": source_ids(served, "t5"), "target_ids": own["input_ids"].tolist()[1:]}
    assert np.array_equal(patched(served, stack, {"from": ids})["hidden_states"], own["hidden_states"])


def test_states_of_the_encoder_patched_under_a_decoder(served, folders, monkeypatch):
    """Each state at each token of the text, by the target's loss, against the reference with that state replaced."""
    first, second = "the war of the city .", "the airport of the police ."
    request = {"text": first, "text_target": TARGET, "model": "t5", "digits": 9, "target": {"loss": True}}
    got = served.analyze({**request, "outputs": ["effects", "patch_map"], "layers": [1],
                          "effects_of": {"kind": "patch", "from": {"text": second}}})
    assert got["stack"] == "encoder" and np.shape(got["patch_map"]) == (4, len(got["tokens"]))
    ids, others = (served.analyze({"text": text, "model": "t5", "outputs": []})["input_ids"] for text in (first, second))
    target = served.analyze({**PAIR, "model": "t5", "stack": "decoder", "outputs": []})["input_ids"]
    other, run = family_t5.forward(folders["t5"], others).hidden_states, family_t5.run_layers

    def loss(memory):
        logits = family_t5.decode(folders["t5"], memory, target)[-1][:-1]
        return -np.mean([row[token] - np.log(np.exp(row).sum()) for row, token in zip(logits, target[1:])])

    def patched(state, position):
        def replaced(at, x):
            x = np.array(x)
            if at == state:
                x[position] = other[state][position]
            return x
        monkeypatch.setattr(family_t5, "run_layers", lambda x, n, layer: run(
            x, n, lambda number, states: layer(number, replaced(number, states))))
        return loss(replaced(3, family_t5.forward(folders["t5"], ids).hidden_states[-1]))

    clean, end = loss(family_t5.forward(folders["t5"], ids).hidden_states[-1]), loss(other[-1])
    for state, position in ((0, 1), (1, 4), (2, 1), (3, 2), (3, 0)):
        assert got["patch_map"][state][position] == pytest.approx((patched(state, position) - clean) / (end - clean), abs=1e-4)


@pytest.mark.parametrize("stack", ["decoder", "cross"])
def test_effects_of_patches_recover_the_target(served, stack):
    request = {**PAIR, "model": "bart", "stack": stack, "layers": "all", "digits": 9, "target": {"tokens": [7, 9], "position": 2}}
    change = {"kind": "patch", "from": OTHER}

    def target(*interventions):
        return served.analyze({**request, "outputs": [], "interventions": interventions})["changes"]["target"]

    before = target({**change, "layers": [0], "heads": [0]})["before"]
    end = target({**change, "what": "hidden", "layers": [2]})["after"]
    got = served.analyze({**request, "outputs": ["effects", "patch_map"], "effects_of": change})
    after = target({**change, "layers": [1], "heads": [2]})["after"]
    assert got["effects"][1][2]["target_change"] == pytest.approx(after - before, abs=1e-4)
    assert got["effects"][1][2]["recovered"] == pytest.approx((after - before) / (end - before), abs=1e-4)
    for state, position in ((0, 1), (1, 2), (3, 2), (3, 3)):
        after = target({**change, "what": "hidden", "layers": [state - 1], "positions": [position]})["after"]
        assert got["patch_map"][state][position] == pytest.approx((after - before) / (end - before), abs=1e-4)


@pytest.mark.parametrize("stack", ["decoder", "cross"])
@pytest.mark.parametrize("name", ["t5", "bart", "mbart", "bert2bert"])
def test_value_zeroing(served, folders, name, stack):
    request = {"text": "The war of the city.", "text_target": TARGET, "model": name, "stack": stack, "layers": [0, 2]}
    answer = npz(served, {**request, "outputs": ["value_zeroing"]})
    module, folder = MODELS[name][0], folders[name]
    source = served.post("/tokenize", {"text": request["text"], "model": name}).json()["input_ids"]
    memory, ids = module.forward(folder, source).hidden_states[-1], answer["input_ids"]
    for l, layer in enumerate(request["layers"]):
        before = module.decode(folder, memory, ids)[0].hidden_states[layer + 1]
        columns = []
        for j in range(len(source) if stack == "cross" else len(ids)):
            after = module.decode(folder, memory, ids, (layer, stack, j))[0].hidden_states[layer + 1]
            columns.append(1 - (before * after).sum(-1) / np.linalg.norm(before, axis=-1) / np.linalg.norm(after, axis=-1))
        changed = np.array(columns).T
        assert_close(answer["value_zeroing"][l], changed / changed.sum(-1, keepdims=True), 2e-5)


@pytest.mark.parametrize("stack", ["decoder", "cross"])
@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
def test_contributions(served, folders, monkeypatch, name, stack):
    """The state of a token of the target is a term of its own beside the tokens of the text, and has no column."""
    module, folder = MODELS[name][0], folders[name]
    answer = arrays_of(served, model=name, stack=stack, outputs=["attentions", "values", "contributions"])
    calls, attention_of = [], module.attention_of

    def record(config, weights, *args, **named):
        got = attention_of(config, weights, *args, **named)
        calls.append((weights, next(x for x in args if np.ndim(x) == 2), args[0], got[0]))
        return got

    memory = module.forward(folder, source_ids(served, name)).hidden_states[-1]
    monkeypatch.setattr(module, "attention_of", record)
    module.decode(folder, memory, answer["input_ids"])
    for layer, (weights, x, block, output) in enumerate(calls[stack == "cross" :: 2]):
        values, maps = answer["values"][layer].astype(float), answer["attentions"][layer].astype(float)
        weight = weights[block + ("o.weight" if name == "t5" else ".out_proj.weight")]
        written = np.einsum("htd,ohd->hto", values, weight.reshape(len(weight), len(values), -1))
        parts = np.concatenate([np.einsum("hij,hjo->ijo", maps, written), x[:, None]], 1)
        if name == "bart":
            whole = parts.sum(1) + weights[block + ".out_proj.bias"]
            gamma = weights[block + "_layer_norm.weight"]
            parts = (parts - parts.mean(-1, keepdims=True)) * gamma / np.sqrt(whole.var(-1) + 1e-5)[:, None, None]
        if stack == "decoder":
            parts[:, :-1][np.eye(len(x), dtype=bool)] += parts[:, -1]
            parts = parts[:, :-1]
        found = np.maximum(np.abs(output).sum(-1)[:, None] - np.abs(output[:, None] - parts).sum(-1), 0)
        found = (found / found.sum(-1, keepdims=True))[:, : maps.shape[2]]
        assert_close(answer["contributions"][layer], found, 2e-5)


def test_rollout_of_cross_heads(served):
    for change in ([], [{"kind": "uniform", "layers": [1], "heads": [2]}]):
        request = {"model": "t5", "outputs": ["attentions", "rollout"], "interventions": change}
        own, cross = (arrays_of(served, stack=stack, **{**request, "interventions": [
            {**each, "stack": "cross"} for each in change]})["attentions"].mean(1) for stack in ("decoder", "cross"))
        weights = np.zeros_like(cross[0])
        found = arrays_of(served, stack="cross", **{**request, "layers": [0, 2]})["rollout"]
        for layer in range(3):
            weights = ((own[layer] + np.eye(len(weights))) / 2 @ weights + cross[layer]) / 2
            if layer != 1:
                assert_close(found[layer // 2], weights, 1e-6)


@pytest.mark.parametrize("pair", [PAIR, {"text": "war", "text_target": TARGET}])
def test_effective_attention_of_cross_heads(served, pair):
    answer = arrays_of(served, model="bart", stack="cross", outputs=["attentions", "values", "effective_attentions"], **pair)
    for l, h in np.ndindex(answer["attentions"].shape[:2]):
        expected = experiments.effective_attention(answer["attentions"][l, h].astype(float), answer["values"][l, h].astype(float))
        assert_close(answer["effective_attentions"][l, h], expected, 2e-5)


def test_joined_models_start_with_what_their_files_name(start_server, tmp_path):
    """As in transformers' generate: decoder_start_token_id of config.json, of generation_config.json, bos_token_id of either, and
    that of the decoder's config. eos_token_id is read from the same places."""
    def write(name, whole, decoder, generation=None):
        folder = family_encoder_decoder.write_random(tmp_path / name, n_layers=1)
        config = json.loads((folder / "config.json").read_text())
        for key in ("decoder_start_token_id", "eos_token_id"):
            del config[key]
        config["decoder"] |= decoder
        (folder / "config.json").write_text(json.dumps({**config, **whole}))
        if generation is not None:
            (folder / "generation_config.json").write_text(json.dumps(generation))
        return f"{name}={folder}"

    bos = {"bos_token_id": 8}
    models = {
        "whole": (7, write("whole", {"decoder_start_token_id": 7, **bos}, {"decoder_start_token_id": 9})),
        "generation": (11, write("generation", bos, bos, {"decoder_start_token_id": 11, "bos_token_id": 10})),
        "bos": (8, write("bos", {**bos, "eos_token_id": None}, {"bos_token_id": 9})),
        "decoder": (9, write("decoder", {}, {"bos_token_id": 9})),
    }
    server = start_server(*(argument for _, model in models.values() for argument in ("--model", model)))
    request = {"text": TEXT, "stack": "decoder", "outputs": [], "max_new_tokens": 12}
    for name, (start, _) in models.items():
        assert server.analyze({**request, "model": name})["input_ids"][0] == start, name
    ids = server.analyze({**request, "model": "decoder"})["input_ids"]
    ended = start_server("--model", write("ended", {"eos_token_id": None}, {"bos_token_id": 9, "eos_token_id": ids[4]}))
    found = ended.analyze(request)["input_ids"]
    assert found == ids[: ids.index(ids[4], 1) + 1]


def test_joined_models_without_a_tokenizer_class_have_that_of_the_encoder(start_server, tmp_path):
    folder = family_encoder_decoder.write_random(tmp_path / "model")
    request = {"text": "the war", "text_target": "a city", "stack": "cross"}
    known = start_server("--model", folder).post("/tokenize", request).json()
    (folder / "tokenizer_config.json").unlink()
    found = start_server("--model", folder).post("/tokenize", request).json()
    assert found == known and known["tokens"] == ["[CLS]", "[CLS]", "a", "city", "[SEP]"]


@pytest.mark.parametrize("shared, missing", [("encoder", "decoder.bert.embeddings.word_embeddings.weight"),
                                             ("decoder", "encoder.embeddings.word_embeddings.weight")])
def test_a_stack_that_is_missing_and_not_tied_is_refused(tmp_path, shared, missing):
    folder = family_encoder_decoder.write_random(tmp_path / "model", shared=shared)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_encoder_decoder": False}))
    done = subprocess.run([HEADSCOPE, "models", folder], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1 and f"no tensor {missing}" in done.stderr


def test_models_list_their_stacks(served):
    models = {model["name"]: model for model in served.get("/models").json()["models"]}
    sizes = {"num_layers": 3, "num_heads": 4}
    assert models["t5"]["stacks"] == {"encoder": sizes, "decoder": sizes, "cross": sizes}
    assert models["alone"]["stacks"] == {}


REFUSED = {
    "stack of another model": ({"model": "alone", "stack": "cross", "text_target": "war"}, "/stack", "leave stack out"),
    "target of another model": ({"model": "alone", "text_target": "war"}, "/text_target", "no decoder to read text_target"),
    "no start token": ({"model": "mute", "stack": "cross", "text_target": "war"}, "/stack", "add decoder_start_token_id"),
    "no target": ({"stack": "cross"}, "/text_target", "send text_target, or target_ids"),
    "target of the encoder": ({"text_target": "war"}, "/text_target", "ask for effects, patch_map or gradients"),
    "ids of the encoder": ({"stack": "encoder", "target_ids": [5]}, "/target_ids", "add stack"),
    "interventions beside a reader": ({"text_target": "war", "outputs": ["effects"], "interventions": [{"kind": "zero"}]},
                                      "/interventions", 'stack "decoder" with interventions'),
    "vector of a reader": ({"text_target": "war", "outputs": ["effects"], "target": {"embedding": True}}, "/text_target",
                           "no sentence vector"),
    "position of a reader": ({"text_target": "war", "outputs": ["effects"], "target": {"token": 5, "position": 9}},
                             "/target/position", "0 to"),
    "predictions of the encoder": ({"outputs": ["predictions"]}, "/outputs", "for the target's next tokens"),
    "two targets": ({"stack": "cross", "text_target": "war", "target_ids": [5]}, "/target_ids", "exclude each other"),
    "unknown stack": ({"stack": "both", "text_target": "war"}, "/stack", "must be one of"),
    "stack of a wrong type": ({"stack": 1, "text_target": "war"}, "/stack", "must be one of"),
    "no ids": ({"stack": "cross", "target_ids": []}, "/target_ids", "1 to"),
    "too many ids": ({"stack": "cross", "target_ids": [5] * 2048}, "/target_ids", "1 to 2047 token ids"),
    "ids of a wrong type": ({"stack": "cross", "target_ids": "war"}, "/target_ids", "1 to 2047 token ids"),
    "strange id": ({"stack": "cross", "target_ids": [300]}, "/target_ids/0", "from 0 to 299"),
    "text of a wrong type": ({"stack": "cross", "text_target": 3}, "/text_target", "must be"),
    "too few tokens": ({"stack": "cross", "text_target": "war", "max_tokens": 2}, "/max_tokens", "from 3"),
    "too few tokens of a reader": ({"text_target": "war", "outputs": ["effects"], "max_tokens": 2}, "/max_tokens", "from 3"),
    "window": ({"stack": "cross", "text_target": "war", "window": 0}, "/window", 'stack "encoder" only'),
    "layer": ({"stack": "cross", "text_target": "war", "layers": [3]}, "/layers/0", "0 to 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(served, case):
    fields, pointer, detail = REFUSED[case]
    answer = served.post("/analyze", {"text": TEXT, "model": "t5", **fields})
    problem = answer.json()
    assert answer.status == 422 and problem["pointer"] == pointer and detail in problem["detail"], problem


CROSS_ONLY = ["regions", "segments", "summary", "profiles"]
BOTH = ["alti", "head_scores", "embedding"]


def patch_from(**texts):
    return [{"kind": "patch", "layers": [0], "heads": [0], "from": texts}]


@pytest.mark.parametrize("stack", ["decoder", "cross"])
@pytest.mark.parametrize("output", CROSS_ONLY + BOTH)
def test_outputs_without_a_meaning_are_refused_by_name(served, stack, output):
    answer = served.post("/analyze", {**PAIR, "model": "bart", "stack": stack, "outputs": [output], "layers": "all"})
    if output in CROSS_ONLY and stack == "decoder":
        assert answer.status == 200 and output in answer.json()
    else:
        heads = "cross heads" if stack == "cross" else "the decoder"
        assert answer.status == 422 and answer.json()["pointer"] == "/outputs"
        assert answer.json()["detail"].startswith(f"{output} is not computed for {heads}: ")


@pytest.mark.parametrize("stack, fields, pointer, name", [
    ("cross", {"interventions": [{"kind": "identity", "layers": [0], "heads": [0]}]}, "/interventions", "identity"),
    ("cross", {"interventions": patch_from(text=TEXT)}, "/interventions/0/from", "text_target or target_ids"),
    ("decoder", {"interventions": patch_from(text_target=TEXT)}, "/interventions/0/from", "text or input_ids"),
    ("decoder", {"interventions": patch_from(text=TEXT, text_target="war")}, "/interventions/0/from", "a target of as many tokens"),
    ("decoder", {"interventions": [{**patch_from(text=TEXT)[0], "stack": "encoder"}]}, "/interventions/0", "the request's stack"),
    ("encoder", {"interventions": [{"kind": "zero", "stack": "cross"}]}, "/interventions/0/stack", "no decoder changes"),
    ("cross", {"interventions": [{"kind": "zero", "stack": "all"}]}, "/interventions/0/stack", "one of"),
    ("decoder", {"interventions": [{"kind": "zero"}, {"kind": "zero", "stack": "encoder", "layers": [7]}]},
     "/interventions/1/layers/0", "0 to 2"),
    ("decoder", {"interventions": [{"kind": "identity", "stack": "cross"}]}, "/interventions", "identity"),
    ("encoder", {"interventions": patch_from(**PAIR)}, "/interventions/0/from", "from has a target"),
])
def test_what_else_is_refused_by_name(served, stack, fields, pointer, name):
    pair = PAIR if stack != "encoder" else {"text": TEXT}
    answer = served.post("/analyze", {**pair, "model": "bart", "stack": stack, **fields})
    problem = answer.json()
    assert answer.status == 422 and problem["pointer"] == pointer and name in problem["detail"], problem


def test_figures(served):
    request = {**PAIR, "model": "t5", "stack": "cross", "heads": [1]}
    answer = served.analyze({**request, "outputs": ["attentions", "similarities"]})
    for show, columns in (("attention", answer["source_tokens"]), ("similarity", answer["tokens"])):
        figure = served.post("/analyze?format=csv", {**request, "figure": {"show": show}}).body.decode()
        cells = list(csv.DictReader(figure.splitlines()))
        assert [cell["row_label"] for cell in cells[:: len(columns)]] == answer["tokens"]
        assert [cell["column_label"] for cell in cells[: len(columns)]] == columns
        maps = np.array(answer["attentions" if show == "attention" else "similarities"])
        assert_close(np.array([float(cell["value"]) for cell in cells]), maps.ravel(), 1e-5 * maps.max())
    for kind in ("layer", "overview", "distances", "effects", "predictions"):
        figure = served.post("/analyze?format=svg", {**request, "figure": {"kind": kind}, "predictions": {"top_k": 2}})
        assert figure.status == 200 and b"stack cross" in figure.body, figure.body
    short = {**request, "text": "the war of the city", "text_target": "an airport", "figure": {"show": "attention"}}
    drawn = served.post("/analyze?format=svg", short).body
    assert b"cross head 1" in drawn and b"from target" in drawn and b"to text" in drawn
    drawn = served.post("/analyze?format=svg", {**short, "stack": "decoder"}).body
    assert b"decoder head 1" in drawn and b"from target" not in drawn
    assert served.post("/analyze?format=pdf", request).body.startswith(b"%PDF")
    refused = served.post("/analyze?format=svg", {**request, "figure": {"show": "both"}})
    assert refused.status == 422 and refused.json()["pointer"] == "/figure/show"
    assert served.post("/analyze?format=svg", {**request, "layers": [1], "figure": {"kind": "pairs"}}).status == 200
    refused = served.post("/analyze?format=svg", {**request, "figure": {"kind": "regions"}})
    assert refused.status == 422 and refused.json()["pointer"] == "/figure/kind"


def test_hooks_are_named_as_those_of_an_encoder_decoder_model(served):
    """TransformerLens: HookedEncoderDecoder."""
    body = {**PAIR, "model": "t5", "layers": [1], "outputs": ["attentions", "keys", "head_outputs", "hidden_states"]}
    for stack, attention in (("decoder", "decoder.1.attn"), ("cross", "decoder.1.cross_attn")):
        plain, named = npz(served, {**body, "stack": stack}), npz(served, {**body, "stack": stack}, "&names=hooks")
        assert np.array_equal(named[f"{attention}.hook_pattern"], plain["attentions"][0])
        assert np.array_equal(named[f"{attention}.hook_k"], plain["keys"][0].swapaxes(0, 1))
        assert np.array_equal(named[f"{attention}.hook_z"], plain["head_outputs"][0].swapaxes(0, 1))
        assert np.array_equal(named["decoder.1.hook_resid_post"], plain["hidden_states"][1])
        assert np.array_equal(named["decoder.0.hook_resid_pre"], plain["hidden_states"][0])
    encoder = npz(served, {"text": TEXT, "model": "t5", "layers": [1], "outputs": ["attentions"]}, "&names=hooks")
    assert "encoder.1.attn.hook_pattern" in encoder


def test_head_distances_of_cross_heads(served):
    request = {**PAIR, "model": "t5", "stack": "cross", "outputs": ["head_distances", "attentions"], "layers": "all", "digits": 9}
    distances = served.analyze(request)["head_distances"]
    assert np.shape(distances) == (12, 12) and np.abs(np.diag(distances)).max() < 1e-6
    answer = served.analyze({**request, "head_distance": "js"})
    maps = np.array(answer["attentions"]).reshape(12, *np.shape(answer["attentions"])[2:])

    def entropy(p):
        return -(p * np.log(p)).sum(-1).mean()

    expected = [[entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2 for q in maps] for p in maps]
    assert_close(np.array(answer["head_distances"]), np.array(expected), 1e-5)


def test_command_line(folders):
    command = [HEADSCOPE, "analyze", "--model", folders["t5"], "--stack", "cross", "--outputs", "attentions"]
    done = subprocess.run([*command, "--text-target", TARGET, "-"], input=TEXT.encode(), capture_output=True, check=True,
                          timeout=PATIENCE)
    answer = json.loads(done.stdout)
    assert np.shape(answer["attentions"])[2:] == (len(answer["tokens"]), len(answer["source_tokens"]))
    done = subprocess.run([*command, "-"], input=TEXT.encode(), capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2 and b"--text-target" in done.stderr


def test_python_client(served, tmp_path):
    with package.Client(served.url) as client:
        answer = client.analyze(TEXT, text_target=TARGET, model="t5", stack="cross", layers="all")
        tokens = client.tokenize(TEXT, text_target=TARGET, model="t5", stack="cross")
        encoder = client.analyze(TEXT, model="t5")
    assert answer.stack == tokens.stack == "cross" and encoder.stack == "encoder"
    assert answer.source_tokens == tokens.source_tokens == encoder.tokens and answer.tokens == tokens.tokens
    assert answer.attention(2, 1).shape == (len(answer.tokens), len(answer.source_tokens))
    assert answer._repr_png_().startswith(b"\x89PNG")
    answer.save(tmp_path / "answer.npz")
    assert package.Analysis.load(tmp_path / "answer.npz").source_tokens == answer.source_tokens
    with pytest.raises(ValueError, match="to_bertviz"):
        answer.save(tmp_path / "answer.html")
    with pytest.raises(AttributeError, match="source_tokens"):
        _ = encoder.source_tokens


def test_stacks_for_bertviz_and_xarray(served):
    """The arguments of three answers fill one view; the axes of rectangular maps have names and tokens."""
    with package.Client(served.url) as client:
        fields = {"model": "t5", "layers": "all"}
        answers = {"encoder": client.analyze(TEXT, **fields),
                   **{stack: client.analyze(TEXT, text_target=TARGET, stack=stack, **fields) for stack in ("decoder", "cross")}}
    pytest.importorskip("xarray")
    data = answers["cross"].to_xarray()
    assert data.attentions.dims == ("layer", "head", "query", "key")
    assert list(data.key_token.values) == answers["cross"].source_tokens
    assert list(data.query_token.values) == answers["cross"].tokens
    assert answers["decoder"].to_xarray().source_tokens.dims == ("source",)
    pytest.importorskip("torch")
    view = {}
    for answer in answers.values():
        view |= answer.to_bertviz()
    assert set(view) == {"encoder_attention", "decoder_attention", "cross_attention", "encoder_tokens", "decoder_tokens"}
    assert tuple(view["cross_attention"][0].shape[2:]) == (len(view["decoder_tokens"]), len(view["encoder_tokens"]))
