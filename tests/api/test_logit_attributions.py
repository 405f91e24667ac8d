"""Direct logit attribution: against NumPy on the checkpoint's weights, and as a sum of parts."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE, served_models
from test_formats import npz, safetensors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import encoder  # noqa: E402
import family_bart  # noqa: E402
import family_bert  # noqa: E402
import family_cohere  # noqa: E402
import family_esm  # noqa: E402
import family_gemma  # noqa: E402
import family_gpt2  # noqa: E402
import family_gpt_neox  # noqa: E402
import family_llama  # noqa: E402
import family_t5  # noqa: E402
import predictor  # noqa: E402
import task_head  # noqa: E402

TEXT, TARGET = "the war was at the airport", "An airport, many office police were long in war."
TOKENS = {"tokens": [20, 9], "position": 3}
# Serial and parallel blocks, grouped keys, norms of parts, scaled and capped logits, classes of tokens and texts, decoders.
REQUESTS = {
    "gpt2": {"target": {"token": "war", "position": 4}},
    **{name: {"target": TOKENS} for name in ("neox", "llama", "gemma", "capped", "cohere")},
    "tagger": {"target": {"class": 2, "position": 3}},
    "classes": {},
    **{f"t5 {stack}": {"text_target": TARGET, "stack": stack, "target": TOKENS} for stack in ("decoder", "cross")},
}
SUMS = ("value", "embedding", "bias", "other", "sum", "rest")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("logits")
    return {
        "gpt2": family_gpt2.write_random(root / "gpt2"),
        "neox": family_gpt_neox.write_random(root / "neox"),
        "llama": family_llama.write_random(root / "llama"),
        "gemma": family_gemma.write_random(root / "gemma", caps=(50.0, None)),
        "capped": family_gemma.write_random(root / "capped", caps=(50.0, 0.5)),
        "cohere": family_cohere.write_random(root / "cohere", logit_scale=0.5),
        "tagger": task_head.add(family_llama.write_random(root / "tagger"), "TokenClassification", 5),
        "classes": task_head.add(family_gpt2.write_random(root / "classes"), "SequenceClassification", 4),
        "t5": family_t5.write_random(root / "t5", decoder=True),
        "bart": family_bart.write_random(root / "bart", decoder=True),
        "bert": predictor.add(family_bert.write_random(root / "bert")),
        "esm": predictor.add(family_esm.write_random(root / "esm")),
        "pooled": task_head.add(family_bert.write_random(root / "pooled"), "SequenceClassification", 3),
        "plain": family_t5.write_random(root / "plain"),
    }


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def body(name, **fields):
    return {"model": name.split()[0], "text": TEXT, "layers": "all", "digits": 9, "outputs": ["logit_attributions"], **REQUESTS[name],
            **fields}


def logits(server, name, **fields):
    return server.analyze(body(name, **fields))["logit_attributions"]


def scale(parts):
    return max(np.abs(parts["heads"]).max(), np.abs(parts["feed_forward"]).max(), *(abs(parts[name]) for name in SUMS))


def test_parts_are_those_of_the_weights(served, folders):
    """GPT-2: the state behind the last layer is computed from the heads' outputs, and so is what the final norm does to it."""
    found = npz(served, body("gpt2", outputs=["logit_attributions", "head_outputs", "hidden_states"]))
    config, weights = checkpoint.read(folders["gpt2"], "transformer.")
    family_gpt2.transpose(weights)
    outputs, states = found["head_outputs"].astype(float)[:, :, 4], found["hidden_states"].astype(float)[:, 4]
    n_layers, n_heads, width = outputs.shape
    projections = [weights[f"h.{layer}.attn.c_proj.weight"].T.reshape(n_heads, width, -1) for layer in range(n_layers)]
    biases = [weights[f"h.{layer}.attn.c_proj.bias"] for layer in range(n_layers)]
    written = np.stack([np.einsum("hd,hdk->hk", outputs[layer], projections[layer]) for layer in range(n_layers)])
    last = f"h.{n_layers - 1}."
    middle = states[-2] + written[-1].sum(0) + biases[-1]
    wide = encoder.dense(weights, last + "mlp.c_fc", encoder.layer_norm(weights, last + "ln_2", middle, config["layer_norm_epsilon"]))
    x = middle + encoder.dense(weights, last + "mlp.c_proj", encoder.ACTIVATIONS[config["activation_function"]](wide))
    np.testing.assert_allclose(encoder.layer_norm(weights, "ln_f", x, config["layer_norm_epsilon"]), states[-1], atol=1e-4)
    token = found["target_token"]
    h = weights["wte.weight"][token] * weights["ln_f.weight"]
    u = (h - h.mean()) / np.sqrt(x.var() + config["layer_norm_epsilon"])
    fed = [after - before - written[layer].sum(0) - biases[layer]
           for layer, (before, after) in enumerate(zip(states, [*states[1:-1], x]))]
    most = np.abs(written @ u).max()
    for name, expected in {"heads": written @ u, "feed_forward": fed @ u, "embedding": states[0] @ u, "other": 0,
                           "bias": sum(biases) @ u + weights["wte.weight"][token] @ weights["ln_f.bias"], "rest": 0,
                           "value": states[-1] @ weights["wte.weight"][token]}.items():
        np.testing.assert_allclose(found[f"logit_attributions_{name}"], expected, rtol=0, atol=1e-5 * most, err_msg=name)


@pytest.mark.parametrize("name", REQUESTS)
def test_parts_sum_up_to_the_target(served, name):
    answer = served.analyze(body(name))
    parts = answer["logit_attributions"]
    total = np.sum(parts["heads"]) + np.sum(parts["feed_forward"]) + parts["embedding"] + parts["bias"] + parts["other"]
    close = {"rel": 0, "abs": 1e-5 * scale(parts)}
    assert total == pytest.approx(parts["sum"], **close)
    assert parts["sum"] + parts["rest"] == pytest.approx(parts["value"], **close) and parts["rest"] == pytest.approx(0, **close)
    assert (answer["target"]["value"] == pytest.approx(parts["value"], **close)) == (name != "capped")
    assert (parts["other"] == 0) == (not name.startswith("t5"))


def test_a_cap_is_left_out(served):
    """The logit before the cap is that of the model without one; the target's value is behind it."""
    before, capped = (served.analyze(body(name, target={"token": "war", "position": 3})) for name in ("gemma", "capped"))
    assert capped["logit_attributions"]["value"] == pytest.approx(before["target"]["value"], rel=1e-4)
    assert capped["target"]["value"] == pytest.approx(0.5 * np.tanh(before["target"]["value"] / 0.5), rel=1e-4)
    np.testing.assert_allclose(capped["logit_attributions"]["heads"], before["logit_attributions"]["heads"], atol=1e-4)


def test_a_difference_is_that_of_two_logits(served):
    first, second = (npz(served, body("llama", target={"token": token, "position": 3})) for token in TOKENS["tokens"])
    both = npz(served, body("llama"))
    for name in ("heads", "feed_forward", "embedding", "value"):
        name = f"logit_attributions_{name}"
        np.testing.assert_allclose(both[name], first[name] - second[name], rtol=0, atol=1e-5 * max(np.abs(first[name]).max(), 1))


def test_own_and_cross_heads_are_each_others_rest(served):
    own, cross = logits(served, "t5 decoder"), logits(served, "t5 cross")
    assert own["other"] == pytest.approx(np.sum(cross["heads"]), abs=1e-5) and cross["other"] == pytest.approx(np.sum(own["heads"]), abs=1e-5)
    assert own["feed_forward"] == cross["feed_forward"] and own["sum"] == pytest.approx(cross["sum"], abs=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "t5 cross"])
def test_a_selection_is_part_of_all(served, name):
    whole, part = logits(served, name), logits(served, name, layers=[0, -1], heads=[1, 3])
    assert part["heads"] == np.array(whole["heads"])[[0, -1]][:, [1, 3]].tolist()
    assert part["feed_forward"] == np.array(whole["feed_forward"])[[0, -1]].tolist()
    left = np.sum(whole["heads"]) + np.sum(whole["feed_forward"]) - np.sum(part["heads"]) - np.sum(part["feed_forward"])
    assert part["other"] - whole["other"] == pytest.approx(left, abs=1e-5 * scale(whole))
    assert part["sum"] == pytest.approx(whole["sum"], abs=1e-5 * scale(whole))


def test_interventions_apply_before(served):
    """A head that is off adds nothing; a patched state hides all parts below it."""
    plain = logits(served, "gpt2")
    off = logits(served, "gpt2", interventions=[{"kind": "zero", "layers": [1], "heads": [2]}])
    assert off["heads"][1][2] == 0 != plain["heads"][1][2] and off["value"] != plain["value"]
    patch = {"kind": "patch", "what": "hidden", "layers": [1], "positions": [4], "from": {"text": "the police was at the airport"}}
    patched = logits(served, "gpt2", interventions=[patch])
    heads = np.array(patched["heads"])
    assert not heads[0].any() and heads[-1].all() and patched["embedding"] == 0 != patched["other"]
    for parts in (off, patched):
        assert parts["rest"] == pytest.approx(0, abs=1e-5 * scale(parts))


def test_beside_other_outputs(served):
    """They add a pass of their own and change nothing."""
    alone = logits(served, "llama")
    answer = served.analyze(body("llama", outputs=["logit_attributions", "head_attributions", "token_attributions", "attentions"]))
    assert answer["logit_attributions"] == alone and answer["target"]["value"] == alone["value"]


@pytest.mark.parametrize("name", ["gpt2", "t5 cross"])
def test_formats_hold_the_same(served, name):
    said, arrays = logits(served, name), npz(served, body(name))
    tensors = safetensors(served, body(name))[1]
    for part, value in said.items():
        np.testing.assert_array_equal(np.float32(value), arrays[f"logit_attributions_{part}"])
        np.testing.assert_array_equal(np.squeeze(arrays[f"logit_attributions_{part}"]), np.squeeze(tensors[f"logit_attributions_{part}"]))
    assert list(said) == ["value", "heads", "feed_forward", "embedding", "bias", "other", "sum", "rest"]


@pytest.mark.parametrize("fields, pointer, parts", [
    ({"model": "bert", "target": TOKENS}, "/outputs", ("bert", "norms the state after each part", "head_attributions")),
    ({"model": "bert"}, "/outputs", ("norms the state after each part",)),
    ({"model": "pooled"}, "/outputs", ("norms the state after each part",)),
    ({"model": "bart", "text_target": TARGET, "stack": "decoder", "target": TOKENS}, "/outputs", ("norms the state after each part",)),
    ({"model": "esm", "target": TOKENS}, "/outputs", ("an activation or a norm of its own", "head_attributions")),
    ({"model": "esm"}, "/outputs", ("an activation or a norm of its own",)),  # a logit would be refused, too
    ({"model": "gpt2"}, "/target", ("the default target is no logit", '{"token"', "head_attributions")),
    ({"model": "gpt2", "target": {"loss": True}}, "/target", ("the target is no logit", '{"token"')),
    ({"model": "gpt2", "target": {"log_probability": "war", "position": 1}}, "/target", ("the target is no logit", '{"token"')),
    ({"model": "gpt2", "target": {"probability": "war", "position": 1}}, "/target", ("the target is no logit",)),
    ({"model": "tagger", "target": {"cosine": [1.0] * 48}}, "/target", ("the target is no logit", '{"class": "LABEL", "position": 1}')),
    ({"model": "plain", "target": {"cosine": [1.0] * 48}}, "/outputs", ("the checkpoint has no logits",)),
    ({"model": "t5", "text_target": TARGET, "target": TOKENS}, "/stack", ("heads of the encoder", '"decoder" or "cross"')),
])
def test_refusals(served, fields, pointer, parts):
    answer = served.post("/analyze", {"text": TEXT, "outputs": ["logit_attributions"], **fields})
    problem = answer.json()
    assert answer.status == 422 and problem["pointer"] == pointer, problem
    assert problem["detail"].startswith("logit_attributions: ") and all(part in problem["detail"] for part in parts), problem


def test_the_command_line_says_what_the_service_does(served, folders):
    done = subprocess.run([HEADSCOPE, "analyze", "--model", folders["gpt2"], "--outputs", "logit_attributions", "--layers", "all", "--digits",
                           "9", "--target", json.dumps(REQUESTS["gpt2"]["target"]), TEXT], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["logit_attributions"] == logits(served, "gpt2")
