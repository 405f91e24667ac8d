"""Decoders and cross heads of encoder-decoder models, over HTTP: arrays against the float64 references, what a request
must say, what is refused, sizes and formats."""
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
import family_bart  # noqa: E402
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


@pytest.mark.parametrize("name", ["t5", "bart", "mbart"])
@pytest.mark.parametrize("stack, block", [("decoder", {"t5": "0.SelfAttention.o", "bart": "self_attn.out_proj"}),
                                          ("cross", {"t5": "1.EncDecAttention.o", "bart": "encoder_attn.out_proj"})])
def test_a_zeroed_head_is_one_that_writes_nothing(served, folders, tmp_path, name, stack, block):
    """Against the same checkpoint with the head's columns of W_O set to 0."""
    family = "t5" if name == "t5" else "bart"
    layer = f"decoder.block.1.layer.{block[family]}" if family == "t5" else f"decoder.layers.1.{block[family]}"
    module, shape = MODELS[name]
    changed = module.write_random(tmp_path / name, **shape)
    weights = checkpoint.read_safetensors(changed / "model.safetensors")
    width = weights[layer + ".weight"].shape[1] // 4
    weights[layer + ".weight"][:, 2 * width : 3 * width] = 0
    checkpoint.write_safetensors(changed / "model.safetensors", weights)
    request = {**PAIR, "stack": stack, "layers": [2], "outputs": ["attentions", "hidden_states"], "digits": 9}
    zeroed = served.analyze({**request, "model": name,
                             "interventions": [{"kind": "zero", "layers": [1], "heads": [2]}]})
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
    "target of the encoder": ({"text_target": "war"}, "/text_target", "add stack"),
    "ids of the encoder": ({"stack": "encoder", "target_ids": [5]}, "/target_ids", "add stack"),
    "two targets": ({"stack": "cross", "text_target": "war", "target_ids": [5]}, "/target_ids", "exclude each other"),
    "unknown stack": ({"stack": "both", "text_target": "war"}, "/stack", "must be one of"),
    "stack of a wrong type": ({"stack": 1, "text_target": "war"}, "/stack", "must be one of"),
    "no ids": ({"stack": "cross", "target_ids": []}, "/target_ids", "1 to"),
    "too many ids": ({"stack": "cross", "target_ids": [5] * 2048}, "/target_ids", "1 to 2047 token ids"),
    "ids of a wrong type": ({"stack": "cross", "target_ids": "war"}, "/target_ids", "1 to 2047 token ids"),
    "strange id": ({"stack": "cross", "target_ids": [300]}, "/target_ids/0", "from 0 to 299"),
    "text of a wrong type": ({"stack": "cross", "text_target": 3}, "/text_target", "must be"),
    "too few tokens": ({"stack": "cross", "text_target": "war", "max_tokens": 2}, "/max_tokens", "from 3"),
    "window": ({"stack": "cross", "text_target": "war", "window": 0}, "/window", 'stack "encoder" only'),
    "layer": ({"stack": "cross", "text_target": "war", "layers": [3]}, "/layers/0", "0 to 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(served, case):
    fields, pointer, detail = REFUSED[case]
    answer = served.post("/analyze", {"text": TEXT, "model": "t5", **fields})
    problem = answer.json()
    assert answer.status == 422 and problem["pointer"] == pointer and detail in problem["detail"], problem


CROSS_ONLY = ["rollout", "effective_attentions", "regions", "segments", "summary", "profiles"]
BOTH = ["effects", "patch_map", "value_zeroing", "contributions", "alti", "head_scores", "embedding"]
PATCH = [{"kind": "patch", "layers": [0], "heads": [0], "from": {"text": TARGET}}]


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
    ("cross", {"outputs": ["head_distances"], "head_distance": "js"}, "/head_distance", "head_distance js"),
    ("cross", {"interventions": [{"kind": "identity", "layers": [0], "heads": [0]}]}, "/interventions", "identity"),
    ("cross", {"interventions": PATCH}, "/interventions/0/from", "a patch"),
    ("decoder", {"interventions": PATCH}, "/interventions/0/from", "a patch"),
])
def test_what_else_is_refused_by_name(served, stack, fields, pointer, name):
    answer = served.post("/analyze", {**PAIR, "model": "bart", "stack": stack, **fields})
    problem = answer.json()
    assert answer.status == 422 and problem["pointer"] == pointer and name in problem["detail"], problem


def test_figures_and_hooks(served):
    request = {**PAIR, "model": "t5", "stack": "cross"}
    refused = served.post("/analyze?format=svg", request)
    assert refused.status == 422 and "figures of cross heads are not drawn" in refused.json()["detail"]
    assert served.post("/analyze?format=svg", {**request, "stack": "decoder"}).status == 200
    refused = served.post("/analyze?format=npz&names=hooks", {**request, "stack": "decoder"})
    assert refused.status == 422 and "names=hooks" in refused.json()["detail"]


def test_head_distances_of_cross_heads(served):
    distances = served.analyze({**PAIR, "model": "t5", "stack": "cross", "outputs": ["head_distances"],
                                "layers": "all"})["head_distances"]
    assert np.shape(distances) == (12, 12) and np.abs(np.diag(distances)).max() < 1e-6


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
