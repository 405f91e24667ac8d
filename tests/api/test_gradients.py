"""Gradients, attributions and estimated effects: against small interventions, the arrays of the pass, and themselves."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE, served_models
from test_formats import npz, safetensors
from test_precision import NEEDS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import family_bart  # noqa: E402
import family_bert  # noqa: E402
import family_deberta_v2  # noqa: E402
import family_encoder_decoder  # noqa: E402
import family_gemma  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402
import family_modernbert  # noqa: E402
import family_t5  # noqa: E402
import predictor  # noqa: E402
import task_head  # noqa: E402

TEXT, OTHER, MASKED = "the war was at the airport", "the police was at the airport", "the war was at the [MASK] ."
TARGET, OTHER_TARGET = "An airport, many office police were long in war.", "An office, many airport police were old in war."
# Requests about every kind of attention, block and target; a decoder's are of each of its stacks.
REQUESTS = {
    "mask": {"model": "mini", "text": MASKED},
    "token": {"model": "mini", "text": MASKED, "target": {"tokens": ["war", "the"], "position": 6}},
    "class": {"model": "classes"},
    "pooled": {"model": "mean"},
    "label": {"model": "tagger", "target": {"class": 2, "position": 3}},
    "span": {"model": "answers", "text_pair": "the police came for the war", "target": {"span": [9, 11]}},
    "terms": {"model": "deberta", "text": MASKED},
    "loss": {"model": "gpt2"},
    "rotary": {"model": "llama"},
    "caps": {"model": "gemma"},
    "next": {"model": "gpt2", "target": {"probability": "war", "position": 2}},
    **{f"{name} {stack}": {"model": name, "text_target": TARGET, "stack": stack}
       for name in ("t5", "bart", "bert2bert") for stack in ("encoder", "decoder", "cross")},
}
ARRAYS = ["attention_gradients", "head_output_gradients", "hidden_state_gradients", "head_attributions"]


def without_mask(folder):
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text().replace("[MASK]", "none"))
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("gradients")
    folders = {
        "classes": task_head.add(family_bert.write_random(root / "classes"), "SequenceClassification", 3),
        "mean": task_head.add(family_modernbert.write_random(root / "mean"), "SequenceClassification", 4, classifier_pooling="mean"),
        "tagger": task_head.add(family_bert.write_random(root / "tagger"), "TokenClassification", 5),
        "answers": task_head.add(family_bert.write_random(root / "answers"), "QuestionAnswering", 2),
        "deberta": predictor.add(family_deberta_v2.write_random(root / "deberta")),
        "gpt2": without_mask(family_gpt2.write_random(root / "gpt2")),
        "llama": family_llama.write_random(root / "llama"),
        "gemma": family_gemma.write_random(root / "gemma"),
        "bert": family_bert.write_random(root / "bert"),
        "t5": family_t5.write_random(root / "t5", decoder=True),
        "bart": family_bart.write_random(root / "bart", decoder=True),
        "bert2bert": family_encoder_decoder.write_random(root / "bert2bert"),
    }
    yield from served_models(folders, "--model=mini")


def body(name, **fields):
    return {"text": TEXT, "layers": "all", "digits": 9, **REQUESTS[name], **fields}


def close(found, expected, part=1e-5):
    """Within a part of the largest number."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.abs(expected).max())


def value_with(server, name, factor, target, layer, head):
    """The target with one head times a factor. Effects have it for an encoder under a decoder, without interventions."""
    if name.endswith("encoder"):
        effects = server.analyze(body(name, outputs=["effects"], layers=[layer], heads=[head], target=target,
                                      effects_of={"kind": "scale", "factor": factor}))["effects"]
        return effects[0][0]["target_change"]
    change = {"kind": "scale", "factor": factor, "layers": [layer], "heads": [head]}
    if "stack" in REQUESTS[name]:
        change["stack"] = REQUESTS[name]["stack"]
    return server.analyze(body(name, outputs=[], target=target, interventions=[change]))["changes"]["target"]["after"]


def named(target):
    """The target of an answer as a request names it."""
    if target["kind"] == "class":
        return {"class": target["class"]} if target["position"] is None else {"class": target["class"], "position": target["position"]}
    if target["kind"] == "loss":
        return {"loss": True}
    return {target["kind"]: target["token"], "position": target["position"]}


# ---- against interventions ----

@pytest.mark.parametrize("name", REQUESTS)
def test_head_attributions_say_how_the_target_changes_with_a_head(served, name):
    """The derivative by the factor of a head, with a step at which neither curvature nor rounding counts."""
    answer = served.analyze(body(name, outputs=["head_attributions"]))
    target = REQUESTS[name].get("target") or named(answer["target"])
    sums, step = np.sum(answer["head_attributions"], -1), 0.01
    heads = [(0, 0), (sums.shape[0] // 2, 1), (sums.shape[0] - 1, sums.shape[1] - 1)]
    for layer, head in heads:
        up, down = (value_with(served, name, factor, target, layer, head) for factor in (1 + step, 1 - step))
        assert abs((up - down) / (2 * step) - sums[layer, head]) < 2e-3 * np.abs(sums).max() + 2e-4 * abs(answer["target"]["value"])


@pytest.mark.parametrize("name", REQUESTS)
def test_gradients_fit_to_the_arrays_of_the_pass(served, name):
    """A head's output is A V, so dy/dA is dy/dO V'; attributions are the products of O and dy/dO."""
    found = npz(served, body(name, outputs=[*ARRAYS, "attentions", "values", "head_outputs", "scores"]))
    close(found["head_attributions"], (found["head_outputs"] * found["head_output_gradients"]).sum(-1))
    values = np.repeat(found["values"], found["attentions"].shape[1] // found["values"].shape[1], 1)
    expected = found["head_output_gradients"] @ values.swapaxes(-1, -2)
    close(found["attention_gradients"], np.where(np.isinf(found["scores"]), 0, expected), 2e-5)
    assert found["hidden_state_gradients"].shape == (len(found["layers"]) + 1, *found["hidden_state_gradients"].shape[1:])


@pytest.mark.parametrize("kind", [{"kind": "zero"}, {"kind": "scale", "factor": 0.5}, {"kind": "mean"}])
@pytest.mark.parametrize("name", ["mask", "class", "loss", "t5 cross", "bart decoder", "t5 encoder"])
def test_estimated_effects_are_the_first_order(served, name, kind):
    found = npz(served, body(name, outputs=["head_output_gradients", "head_outputs"]))
    outputs, gradients = found["head_outputs"], found["head_output_gradients"]
    changed = {"zero": 0 * outputs, "scale": 0.5 * outputs, "mean": outputs.mean(2, keepdims=True)}[kind["kind"]]
    answer = served.analyze(body(name, outputs=["effects"], effects_of={**kind, "estimate": "gradient"}))
    close([[effect["target_change"] for effect in row] for row in answer["effects"]],
          ((changed - outputs) * gradients).sum((-1, -2)))
    assert all(effect.keys() == {"target_change", "estimated"} and effect["estimated"] for row in answer["effects"] for effect in row)
    assert answer["target"]["estimated"] is True


@pytest.mark.parametrize("name", ["class", "loss", "span"])
def test_an_estimate_is_near_the_effect_of_a_small_change(served, name):
    small = {"kind": "scale", "factor": 0.99}
    exact = served.analyze(body(name, outputs=["effects"], effects_of=small, target=REQUESTS[name].get("target") or named(
        served.analyze(body(name, outputs=["head_attributions"]))["target"])))["effects"]
    estimates = served.analyze(body(name, outputs=["effects"], effects_of={**small, "estimate": "gradient"}))["effects"]
    exact, estimates = (np.array([[effect["target_change"] for effect in row] for row in rows]) for rows in (exact, estimates))
    assert np.abs(exact - estimates).max() < 0.03 * np.abs(exact).max() + 2e-6


@pytest.mark.parametrize("name", ["mask", "class", "loss", "t5 decoder", "bart cross", "t5 encoder"])
def test_estimated_patches_from_another_text(served, name):
    other = {"text": MASKED.replace("war", "police")} if name == "mask" else {"text": OTHER}
    if "text_target" in REQUESTS[name] and not name.endswith("encoder"):
        other["text_target"] = OTHER_TARGET
    patch = {"kind": "patch", "from": other}
    own = npz(served, body(name, outputs=["head_output_gradients", "head_outputs", "hidden_states", "hidden_state_gradients"]))
    target = REQUESTS[name].get("target") or named(served.analyze(body(name, outputs=["head_attributions"]))["target"])
    read = {key: value for key, value in body(name).items() if key not in ("stack", "text_target") or "text_target" in other}
    theirs = npz(served, {**read, "outputs": ["head_outputs", "hidden_states"], **other})
    found = served.analyze(body(name, outputs=["effects", "patch_map"], effects_of={**patch, "estimate": "gradient"}))
    exact = served.analyze(body(name, outputs=["patch_map", "effects"], effects_of=patch, target=target))
    changes = ((theirs["head_outputs"] - own["head_outputs"]) * own["head_output_gradients"]).sum((-1, -2))
    close([[effect["target_change"] for effect in row] for row in found["effects"]], changes, 2e-5)
    # recovered of the exact effects tells how far the targets of both texts are apart.
    ratios = np.array([[effect["target_change"] / effect["recovered"] for effect in row] for row in exact["effects"]])
    between = np.median(ratios)
    close([[effect["recovered"] for effect in row] for row in found["effects"]], changes / between, 1e-3)
    states = ((theirs["hidden_states"] - own["hidden_states"]) * own["hidden_state_gradients"]).sum(-1)
    close(found["patch_map"], states / between, 1e-3)
    assert np.shape(found["patch_map"]) == np.shape(exact["patch_map"])


def test_a_patch_from_the_same_text_recovers_nothing(served):
    patch = {"kind": "patch", "from": {"text": body("loss")["text"]}, "estimate": "gradient"}
    found = served.analyze(body("loss", outputs=["effects", "patch_map"], effects_of=patch))
    assert all(effect["recovered"] is None for row in found["effects"] for effect in row)
    assert set(np.array(found["patch_map"]).flat) == {None}


def test_figures_mark_estimates(served):
    for estimate, title in (("gradient", b">change of the target, estimated, "), ("none", b">change of the target, ")):
        fields = body("mask", outputs=["effects"], effects_of={"kind": "zero", "estimate": estimate},
                      target={"probability": "police", "position": 6}, figure={"kind": "effects", "width_mm": 170})
        drawn = served.post("/analyze", fields, {"Content-Type": "application/json", "Accept": "image/svg+xml"})
        assert drawn.status == 200 and title in drawn.body and (b"estimated" in drawn.body) == (estimate == "gradient"), drawn.body


def test_interventions_apply_before(served):
    """The target stays the baseline's, and its value is that of the changed pass."""
    changes = [{"kind": "uniform", "layers": [1], "heads": [2]}, {"kind": "zero", "layers": [2], "heads": [0]}]
    plain = served.analyze(body("mask", outputs=["head_attributions"]))
    target = named(plain["target"])
    answer = npz(served, body("mask", outputs=[*ARRAYS, "token_attributions"], interventions=changes))
    again = served.analyze(body("mask", outputs=["head_attributions"], interventions=changes, target=target))
    assert again["changes"]["target"]["after"] == pytest.approx(answer["target_value"], abs=1e-5)
    assert again["changes"]["target"]["before"] == pytest.approx(plain["target"]["value"], abs=1e-5)
    close(again["head_attributions"], answer["head_attributions"])
    assert (answer["head_attributions"][2, 0] == 0).all() and answer["head_output_gradients"][2, 0].any()


# ---- tokens ----

@pytest.mark.parametrize("name", REQUESTS)
def test_integrated_gradients_sum_to_the_difference(served, name):
    fields = {"outputs": ["token_attributions"], "attribution": "integrated_gradients", "steps": 100}
    answer = served.analyze(body(name, **fields))
    target = answer["target"]
    for prefix in ("", "source_") if "source_token_attributions" in answer else ("",):
        difference = target["value"] - target[prefix + "baseline"]
        tokens = answer[prefix + "token_attributions"]
        assert sum(tokens) - difference == pytest.approx(target[prefix + "completeness_gap"], abs=1e-5)
        assert abs(target[prefix + "completeness_gap"]) < 0.02 * max(np.abs(tokens).sum(), 1e-3)
    special = np.array(answer["special_tokens_mask"], bool) & (np.array(answer["tokens"]) != "[MASK]")
    assert not np.array(answer["token_attributions"])[special].any()


def test_methods_of_token_attributions(served):
    """Along the row itself, the derivative of a gradient's length and of its product with the row have one sign or none."""
    answers = {method: served.analyze(body("class", outputs=["token_attributions"], attribution=method))
               for method in ("gradient_x_input", "gradient")}
    default = served.analyze(body("class", outputs=["token_attributions"]))
    assert default["token_attributions"] == answers["gradient_x_input"]["token_attributions"]
    assert min(answers["gradient"]["token_attributions"]) > 0
    assert "completeness_gap" not in default["target"] and "source_token_attributions" not in default


def test_baselines(served):
    """By default it is the mask, else the padding, else zeros."""
    fields = {"outputs": ["token_attributions"], "attribution": "integrated_gradients"}
    zeros, pads, default = (served.analyze(body("loss", **baseline, **fields))["target"]
                            for baseline in ({"baseline": "zero"}, {"baseline": "pad"}, {}))
    assert zeros["baseline"] != pads["baseline"] and default == pads  # this vocabulary has no mask
    masks = served.analyze(body("mask", **fields))
    assert masks["token_attributions"] == served.analyze(body("mask", baseline="mask", **fields))["token_attributions"]
    pads = served.analyze(body("mask", baseline="pad", **fields))
    assert pads["target"]["baseline"] != masks["target"]["baseline"] and pads["target"]["value"] == masks["target"]["value"]


def test_a_decoders_tokens_and_those_of_its_text(served):
    answer = served.analyze(body("t5 decoder", outputs=["token_attributions"]))
    assert len(answer["token_attributions"]) == len(answer["tokens"])
    assert len(answer["source_token_attributions"]) == len(answer["source_tokens"])
    encoder = served.analyze(body("t5 encoder", outputs=["token_attributions"]))
    close(answer["source_token_attributions"], encoder["token_attributions"])
    assert encoder["target"] == answer["target"] and "source_token_attributions" not in encoder


@pytest.mark.parametrize("name", ["mask", "class", "loss", "terms"])
def test_relevance_is_chefers(served, name):
    found = npz(served, body(name, outputs=["relevance", "attentions", "attention_gradients"]))
    expected = np.eye(len(found["input_ids"]))
    for attention, gradient in zip(found["attentions"], found["attention_gradients"]):
        expected = expected + np.maximum(attention * gradient, 0).mean(0) @ expected
    close(found["relevance"], expected)
    assert found["relevance"].dtype == np.float32


@pytest.mark.parametrize("stack, shape", [("encoder", (7, 7)), ("decoder", None), ("cross", None)])
def test_relevance_of_both_texts(served, stack, shape):
    answer = npz(served, body(f"t5 {stack}", outputs=["relevance"]))
    T = len(answer["input_ids"])
    assert answer["relevance"].shape == (T, len(answer["source_tokens"]) if stack == "cross" else T)
    assert (answer["relevance"] >= 0).all() and answer["relevance"].any()
    if stack != "cross":
        assert (np.diag(answer["relevance"]) >= 1).all()


# ---- targets ----

@pytest.mark.parametrize("name, kind", [("class", "class"), ("pooled", "class"), ("mask", "log_probability"),
                                        ("terms", "log_probability"), ("loss", "loss"), ("t5 decoder", "loss"), ("bart encoder", "loss")])
def test_the_default_target(served, name, kind):
    answer = served.analyze(body(name, outputs=["token_attributions"], **({"predictions": {}} if kind == "log_probability" else {})))
    target = answer["target"]
    assert target["kind"] == kind
    if kind == "log_probability":
        mask = answer["predictions"][0]
        assert (target["position"], target["token"]) == (mask["position"], mask["top"][0]["token"])
        assert target["value"] == pytest.approx(np.log(mask["top"][0]["probability"]), rel=1e-4)
    elif kind == "class":
        classes = served.analyze(body(name, outputs=["classes"]))["classes"]
        assert target["class"] == classes["predicted"] and target["value"] == pytest.approx(max(classes["logits"]), rel=1e-5)
        assert target["position"] is None and target["token"] is None
    else:
        loss = served.analyze(body(name, **({"stack": "decoder"} if "text_target" in REQUESTS[name] else {}), outputs=["loss"]))
        assert target["value"] == pytest.approx(loss["loss"]["mean"], rel=1e-5)
    assert served.analyze(body(name, outputs=["token_attributions"], target=named(target)))["token_attributions"] == \
        pytest.approx(answer["token_attributions"], abs=1e-6 * max(map(abs, answer["token_attributions"])))


def test_a_cosine_with_another_text(served):
    other = served.analyze({"model": "mean", "text": OTHER, "outputs": ["embedding"], "digits": 9})["embedding"]["vector"]
    answer = served.analyze(body("pooled", target={"cosine": other}, outputs=["token_attributions", "head_attributions"]))
    own = served.analyze(body("pooled", outputs=["embedding"]))["embedding"]["vector"]
    assert answer["target"]["kind"] == "cosine" and answer["target"]["class"] is None
    assert answer["target"]["value"] == pytest.approx(np.dot(own, other) / np.linalg.norm(own) / np.linalg.norm(other), abs=1e-6)


@pytest.mark.parametrize("fields, pointer, part", [
    ({"model": "bert"}, "/target", "gradients require target"),
    ({"model": "bert"}, "/target", '{"cosine"'),
    ({"model": "tagger"}, "/target", '{"class": "LABEL", "position": 1}'),
    ({"model": "answers"}, "/target", '{"span"'),
    ({"model": "mini"}, "/target", '{"log_probability"'),
    ({"model": "t5"}, "/target", "gradients require target"),
    ({"model": "mean", "target": {"embedding": True}}, "/target/embedding", "is 0: send cosine"),
    ({"model": "gpt2", "outputs": ["attentions"], "attribution": "gradient"}, "/attribution", "token_attributions"),
    ({"model": "gpt2", "attribution": "lime"}, "/attribution", "one of"),
    ({"model": "gpt2", "steps": 8}, "/steps", "integrated_gradients"),
    ({"model": "gpt2", "attribution": "gradient", "baseline": "zero"}, "/baseline", "integrated_gradients"),
    ({"model": "gpt2", "attribution": "integrated_gradients", "steps": 0}, "/steps", "from 1 to 1000"),
    ({"model": "gpt2", "attribution": "integrated_gradients", "baseline": "mask"}, "/baseline", "has no mask token"),
    ({"model": "gpt2", "outputs": ["effects"], "effects_of": {"kind": "zero", "estimate": "exact"}}, "/effects_of/estimate",
     '"none" or "gradient"'),
    ({"model": "gpt2", "outputs": ["summary"], "effects_of": {"kind": "zero", "estimate": "gradient"}}, "/effects_of", "effects"),
    ({"model": "gpt2", "outputs": ["patch_map"], "effects_of": {"kind": "zero", "estimate": "gradient"}}, "/effects_of", "patch"),
    ({"model": "gpt2", "outputs": ["head_attributions", "target"]}, "/outputs/1", "one of"),
    ({"model": "gpt2", "outputs": ["patch_map", "token_attributions"], "effects_of": {"kind": "patch", "from": {"text": OTHER}}},
     "/target", "patch_map requires target"),
])
def test_refusals(served, fields, pointer, part):
    answer = served.post("/analyze", {"text": TEXT, "outputs": ["token_attributions"], **fields})
    assert answer.status == 422, answer.body
    problem = answer.json()
    assert problem["pointer"] == pointer and part in problem["detail"], problem


# ---- formats, selections, memory ----

@pytest.mark.parametrize("name", ["class", "t5 cross"])
def test_formats_hold_the_same(served, name):
    fields = body(name, outputs=[*ARRAYS, "token_attributions", "relevance"], attribution="integrated_gradients", steps=4)
    said, arrays = served.analyze(fields), npz(served, fields)
    tensors = safetensors(served, fields)[1]
    for array in [*ARRAYS, "token_attributions", "relevance"]:
        np.testing.assert_array_equal(np.array(said[array], np.float32), arrays[array])
    for array in set(arrays) & set(tensors):
        np.testing.assert_array_equal(np.squeeze(arrays[array]), np.squeeze(tensors[array]))
    target = said["target"]
    assert arrays["target_value"] == np.float32(target["value"]) and arrays["target_baseline"] == np.float32(target["baseline"])
    assert arrays["target_completeness_gap"] == np.float32(target["completeness_gap"])
    assert ("target_source_baseline" in arrays) == name.startswith("t5")
    assert arrays["target_kind"] == (0 if name == "class" else 6)


@pytest.mark.parametrize("name, prefix", [("loss", "blocks.1."), ("t5 cross", "decoder.1.cross_"), ("t5 encoder", "encoder.1.")])
def test_hooks_have_transformer_lens_names(served, name, prefix):
    fields = body(name, outputs=ARRAYS)
    plain, hooks = npz(served, fields), npz(served, fields, "&names=hooks")
    block = prefix.split(".")[0]
    np.testing.assert_array_equal(hooks[prefix + "attn.hook_pattern_grad"], plain["attention_gradients"][1])
    np.testing.assert_array_equal(hooks[prefix + "attn.hook_z_grad"], plain["head_output_gradients"][1].swapaxes(0, 1))
    np.testing.assert_array_equal(hooks[block + ".1.hook_resid_post_grad"], plain["hidden_state_gradients"][2])
    np.testing.assert_array_equal(hooks[block + ".0.hook_resid_pre_grad"], plain["hidden_state_gradients"][0])


@pytest.mark.parametrize("name", ["mask", "rotary", "bart cross"])
def test_a_selection_is_part_of_all(served, name):
    whole = npz(served, body(name, outputs=[*ARRAYS, "attentions"]))
    part = npz(served, body(name, outputs=[*ARRAYS, "attentions"], layers=[0, -1], heads=[1, 3]))
    layers = [0, len(whole["layers"]) - 1]
    for array in ("attention_gradients", "head_output_gradients", "head_attributions"):
        close(part[array], whole[array][layers][:, [1, 3]], 1e-6)
    close(part["hidden_state_gradients"], whole["hidden_state_gradients"][[0, 1, -1]], 1e-6)
    summed = npz(served, body(name, outputs=["attention_gradients"], reduce="sum", dtype="f2"))["attention_gradients"]
    close(summed[:, 0], whole["attention_gradients"].sum(1), 1e-3)


def test_lines_of_requests(served):
    lines = [body("class", outputs=["token_attributions"]), {"text": TEXT, "model": "bert", "outputs": ["relevance"]},
             body("loss", outputs=["head_attributions"]), body("class", outputs=["token_attributions"])]
    answer = served.post("/analyze", "\n".join(map(json.dumps, lines)), {"Content-Type": "application/x-ndjson"})
    first, refused, loss, again = map(json.loads, answer.body.splitlines())
    assert first == again == served.analyze(lines[0]) and loss == served.analyze(lines[2])
    assert refused["status"] == 422 and refused["pointer"] == "/target" and refused["line"] == 2


def test_weights_count_in_the_memory_of_the_first_request(start_server):
    """12 layers of 144 columns have 0.25 million floats each."""
    small = start_server("--max-maps", "8M", "--cache", "0")
    answer = small.post("/analyze", {"text": MASKED, "outputs": ["head_attributions"]})
    assert answer.status == 422 and "of which the transposed weights of mini take" in answer.json()["detail"]
    assert "--max-maps" in answer.json()["detail"]
    large = start_server("--max-maps", "64M", "--cache", "0")
    for _ in range(3):
        assert large.post("/analyze", {"text": MASKED, "outputs": ["head_attributions"]}).status == 200
    assert large.post("/analyze", {"text": MASKED, "outputs": ["attentions"], "layers": "all"}).status == 200


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_other_precisions_are_refused(precision):
    done = subprocess.run([HEADSCOPE, "analyze", "--precision", precision, "--outputs", "token_attributions", MASKED],
                          capture_output=True, timeout=PATIENCE)
    assert done.returncode in (1, 2)
    if NEEDS[precision] in done.stderr:
        pytest.skip(NEEDS[precision].decode())
    assert b"gradients are computed in fp32" in done.stderr


def test_the_command_line_says_what_the_service_does(served):
    done = subprocess.run([HEADSCOPE, "analyze", "--outputs", "token_attributions,head_attributions", "--attribution",
                           "integrated_gradients", "--steps", "8", "--baseline", "pad", "--layers", "all", "--digits", "9", MASKED],
                          capture_output=True, timeout=PATIENCE, env={**os.environ})
    assert done.returncode == 0, done.stderr
    said = served.analyze(body("mask", outputs=["token_attributions", "head_attributions"], attribution="integrated_gradients",
                               steps=8, baseline="pad"))
    found = json.loads(done.stdout)
    close(found["token_attributions"], said["token_attributions"])
    close(found["head_attributions"], said["head_attributions"])
