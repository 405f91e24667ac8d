"""LoRA adapters: a folder as PEFT saves it, against the same model with merged weights, and every refusal."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import family_bert  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402
import task_head  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
TEXT = "the war of the city was at the airport for many police"
# Family, settings, the base model's prefix in PEFT's names, modules, and whether its weights are stored [in][out].
MODELS = {
    "llama": (family_llama, {"n_shards": 3}, "model.", ["layers.0.self_attn.q_proj", "layers.1.self_attn.o_proj", "layers.1.mlp.up_proj"],
              False),
    "llama of a base model": (family_llama, {"prefix": ""}, "model.", ["layers.0.self_attn.k_proj", "layers.0.mlp.down_proj"], False),
    "bf16": (family_llama, {"dtype": "BF16"}, "", ["layers.0.self_attn.v_proj", "layers.0.mlp.gate_proj"], False),
    "gpt2": (family_gpt2, {}, "transformer.", ["h.0.attn.c_attn", "h.0.attn.c_proj", "h.1.mlp.c_fc", "h.1.mlp.c_proj"], True),
    "bert": (family_bert, {}, "bert.", ["encoder.layer.0.attention.self.query", "encoder.layer.1.output.dense"], False),
}
# Keys as PEFT 0.21 writes them.
CONFIG = {
    "alora_invocation_tokens": None, "alpha_pattern": {}, "arrow_config": None, "auto_mapping": {"parent_library": "x"}, "bias": "none",
    "corda_config": None, "ensure_weight_tying": False, "eva_config": None, "exclude_modules": None, "inference_mode": True,
    "init_lora_weights": True, "kasa_config": None, "layer_replication": None, "layers_pattern": None, "layers_to_transform": None,
    "loftq_config": {}, "lora_alpha": 6, "lora_bias": False, "lora_dropout": 0.1, "lora_ga_config": None, "megatron_config": None,
    "megatron_core": "megatron.core", "modules_to_save": None, "peft_type": "LORA", "peft_version": "0.21.2", "qalora_group_size": 16,
    "r": 3, "rank_pattern": {}, "revision": None, "target_modules": ["q_proj"], "target_parameters": None, "task_type": "CAUSAL_LM",
    "trainable_token_indices": None, "use_bdlora": None, "use_dora": False, "use_qalora": False, "use_rslora": False,
}


def write_adapter(folder, base, name, seed=0, change=None, **config):
    """An adapter of a model of the table; change edits its tensors."""
    _, _, prefix, modules, transposed = MODELS[name]
    rng, weights, tensors = np.random.default_rng(seed), tensors_of(base), {}
    for module in modules:
        shape = next(values.shape for key, values in weights.items() if key.endswith(module + ".weight"))
        n_out, n_in = shape[::-1] if transposed else shape
        tensors[f"base_model.model.{prefix}{module}.lora_A.weight"] = rng.normal(0, 0.3, (3, n_in)).astype(np.float32)
        tensors[f"base_model.model.{prefix}{module}.lora_B.weight"] = rng.normal(0, 0.3, (n_out, 3)).astype(np.float32)
    if change:
        change(tensors)
    folder.mkdir()
    checkpoint.write_safetensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {**CONFIG, "fan_in_fan_out": transposed, "base_model_name_or_path": str(base), **config}))
    return tensors


def tensors_of(folder):
    return {name: values for file in sorted(folder.glob("*.safetensors"))
            for name, values in checkpoint.read_safetensors(file).items()}


def write_merged(folder, base, tensors, scale, transposed, replaced=None):
    """The base model with its weights changed, and some of them replaced."""
    weights = {**tensors_of(base), **(replaced or {})}
    for name, a in tensors.items():
        if name.endswith(".lora_A.weight"):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            (key,) = [key for key in weights if f".{module}.weight".endswith("." + key) or key.endswith("." + module + ".weight")]
            change = scale * tensors[name.replace("lora_A", "lora_B")].astype(float) @ a.astype(float)
            weights[key] = weights[key] + (change.T if transposed else change)
    return checkpoint.save(folder, json.loads((base / "config.json").read_text()), weights)


def analyze(folder, output):
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(folder), "--layers", "all", "--outputs", "attentions,hidden_states",
                           "--format", "npz", "-o", str(output), "-"], input=TEXT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    with np.load(output) as answer:
        return dict(answer)


def losses(folder):
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(folder), "--outputs", "loss", "--digits", "9", "-"], input=TEXT,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return np.abs(np.array(json.loads(done.stdout)["loss"]["tokens"], dtype=float)[1:]).sum()


def refusal(folder):
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(folder), "-"], input=TEXT, capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_an_adapter_is_its_merged_model(tmp_path, name, rslora):
    family, settings, _, _, transposed = MODELS[name]
    base = family.write_random(tmp_path / "base", seed=1, **settings)
    tensors = write_adapter(tmp_path / "adapter", base, name, use_rslora=rslora)
    merged = write_merged(tmp_path / "merged", base, tensors, 6 / (np.sqrt(3) if rslora else 3), transposed)
    found, expected = analyze(tmp_path / "adapter", tmp_path / "a.npz"), analyze(merged, tmp_path / "b.npz")
    plain = analyze(base, tmp_path / "c.npz")
    for array in ("attentions", "hidden_states"):
        limit = 1e-5 * max(1, np.abs(expected[array]).max())
        assert np.abs(found[array] - expected[array]).max() <= limit
        assert np.abs(plain[array] - expected[array]).max() > 100 * limit


def classes(folder):
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(folder), "--outputs", "classes", "--digits", "9", "-"], input=TEXT,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["classes"]


@pytest.mark.parametrize("base_has_head", [True, False])
@pytest.mark.parametrize("name, module, task", [("bert", "classifier", "SequenceClassification"), ("bert", "classifier", "TokenClassification"),
                                                ("llama of a base model", "score", "SequenceClassification")])
def test_a_classifier_that_was_trained_whole(tmp_path, name, module, task, base_has_head):
    """PEFT saves the head beside the pairs (modules_to_save). It replaces that of the base model, which may have none."""
    family, settings, _, _, transposed = MODELS[name]
    base = family.write_random(tmp_path / "base", seed=1, **settings)
    merged_head = task_head.add(family.write_random(tmp_path / "head", seed=1, **settings), task, 2, seed=5)
    if base_has_head:
        task_head.add(base, task, 2, seed=3)
    saved = {key: values for key, values in tensors_of(merged_head).items() if key.startswith(module + ".") or ".pooler." in key}
    kind = {"SequenceClassification": "SEQ_CLS", "TokenClassification": "TOKEN_CLS"}[task]
    tensors = write_adapter(tmp_path / "adapter", base, name, task_type=kind, modules_to_save=["classifier", "score", "pooler"],
                            change=lambda tensors: tensors.update({f"base_model.model.{key}": values.astype(np.float32)
                                                                   for key, values in saved.items()}))
    merged = write_merged(tmp_path / "merged", merged_head, tensors, 2, transposed)
    found, expected = classes(tmp_path / "adapter"), classes(merged)
    assert np.abs(np.array(found["logits"]) - expected["logits"]).max() <= 1e-5 * np.abs(expected["logits"]).max()
    assert found["task"] == expected["task"]


def compare_states(found, expected, scratch):
    found, expected = (analyze(folder, scratch / "answer.npz")["hidden_states"] for folder in (found, expected))
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("module", ["model.embed_tokens", "model.norm", "model.layers.1.input_layernorm"])
def test_other_modules_that_were_trained_whole(tmp_path, module):
    """modules_to_save names the ends of modules' names: "norm" is also that of the layers."""
    base = family_llama.write_random(tmp_path / "base", seed=1)
    (key,) = [name for name in tensors_of(base) if name.endswith(module + ".weight")]
    saved = tensors_of(base)[key] + np.random.default_rng(2).normal(0, 0.3, tensors_of(base)[key].shape)
    tensors = write_adapter(tmp_path / "adapter", base, "llama", modules_to_save=["embed_tokens", "norm"],
                            change=lambda tensors: tensors.update({f"base_model.model.{module}.weight": saved.astype(np.float32)}))
    merged = write_merged(tmp_path / "merged", base, tensors, 2, False, {key: saved})
    compare_states(tmp_path / "adapter", merged, tmp_path)


def test_biases_that_were_trained(tmp_path):
    base = family_bert.write_random(tmp_path / "base", seed=1)
    saved = {key: values + 0.3 for key, values in tensors_of(base).items() if key.endswith("query.bias") or key.endswith("intermediate.dense.bias")}
    below = MODELS["bert"][3][0]  # a module with factors

    def add(tensors):
        for key, values in saved.items():
            name = f"base_model.model.{key if key.startswith('bert.') else 'bert.' + key}"
            tensors[name.replace(".bias", ".base_layer.bias") if below in name else name] = values.astype(np.float32)

    tensors = write_adapter(tmp_path / "adapter", base, "bert", bias="all", change=add)
    compare_states(tmp_path / "adapter", write_merged(tmp_path / "merged", base, tensors, 2, False, saved), tmp_path)
    write_adapter(tmp_path / "untrained", base, "bert", change=add)
    assert "is not one of a pair" in refusal(tmp_path / "untrained")


@pytest.mark.parametrize("own_base", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_words_may_change(tmp_path, tied, own_base):
    """A table of words has factors of other names. A decoder that is tied to it keeps the base model's table."""
    base = family_llama.write_random(tmp_path / "base", seed=1)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": tied}))
    weights = tensors_of(base)
    (key,) = [name for name in weights if name.endswith("embed_tokens.weight")]
    if tied:
        checkpoint.write_safetensors(base / "model.safetensors", {name: values for name, values in weights.items() if name != "lm_head.weight"})
    words, rng = "base_model.model.model.embed_tokens.", np.random.default_rng(2)
    a, b = rng.normal(0, 0.3, (3, weights[key].shape[0])), rng.normal(0, 0.3, (weights[key].shape[1], 3))
    table = weights[key] + 0.1 if own_base else weights[key]

    def add(tensors):
        tensors |= {words + "lora_embedding_A": a.astype(np.float32), words + "lora_embedding_B": b.astype(np.float32)}
        if own_base:
            tensors[words + "base_layer.weight"] = table.astype(np.float32)

    tensors = write_adapter(tmp_path / "adapter", base, "llama", change=add)
    changed = {key: table + 2 * (b @ a).T, "lm_head.weight": table if tied else weights["lm_head.weight"]}
    merged = write_merged(tmp_path / "merged", base, tensors, 2, False, changed)
    compare_states(tmp_path / "adapter", merged, tmp_path)
    found, expected = (losses(folder) for folder in (tmp_path / "adapter", merged))
    assert abs(found - expected) <= 1e-5 * expected


@pytest.mark.parametrize("tied", [False, True])
def test_the_decoder_may_change(tmp_path, tied):
    base = family_llama.write_random(tmp_path / "base", seed=1)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": tied}))
    weights = tensors_of(base)
    (key,) = [name for name in weights if name.endswith("embed_tokens.weight")]
    if tied:
        checkpoint.write_safetensors(base / "model.safetensors", {name: values for name, values in weights.items() if name != "lm_head.weight"})
    n_words, hidden = weights[key].shape
    head, rng = "base_model.model.lm_head.lora_", np.random.default_rng(2)
    pair = {head + "A.weight": rng.normal(0, 0.3, (3, hidden)).astype(np.float32), head + "B.weight": rng.normal(0, 0.3, (n_words, 3)).astype(np.float32)}
    tensors = write_adapter(tmp_path / "adapter", base, "llama", change=lambda tensors: tensors.update(pair))
    decoder = weights[key] if tied else weights["lm_head.weight"]
    rest = {name: values for name, values in tensors.items() if name not in pair}
    merged = write_merged(tmp_path / "merged", base, rest, 2, False,
                          {"lm_head.weight": decoder + 2 * pair[head + "B.weight"].astype(float) @ pair[head + "A.weight"]})
    compare_states(tmp_path / "adapter", merged, tmp_path)
    found, expected = (losses(folder) for folder in (tmp_path / "adapter", merged))
    assert abs(found - expected) <= 1e-5 * expected
    if tied:
        assert abs(losses(base) - expected) > 1e-3


@pytest.mark.parametrize("pattern, n_scaled", [("q_proj", 1), ("layers.0.self_attn.q_proj", 1), ("^model.layers.0.self_attn.q_proj", 1),
                                               ("^layers.0.self_attn.q_proj", 0), ("proj", 0)])
def test_modules_with_another_alpha(tmp_path, pattern, n_scaled):
    base = family_llama.write_random(tmp_path / "base", seed=1)
    tensors = write_adapter(tmp_path / "adapter", base, "llama", alpha_pattern={"absent": 1, pattern: 12, "q_proj": 12 if n_scaled else 6})
    scaled = [name for name in tensors if "q_proj.lora_A" in name]
    tensors |= {name: tensors[name] * (2 if n_scaled else 1) for name in scaled}
    compare_states(tmp_path / "adapter", write_merged(tmp_path / "merged", base, tensors, 2, False), tmp_path)


def test_an_adapter_beside_a_model_is_refused(tmp_path):
    base = family_llama.write_random(tmp_path / "base", seed=1)
    write_adapter(tmp_path / "adapter", base, "llama")
    for file in (tmp_path / "adapter").iterdir():
        (base / file.name).write_bytes(file.read_bytes())
    assert "the folder has config.json and adapter_config.json" in refusal(base)


def test_the_kind_of_the_weights_counts(tmp_path):
    """PEFT corrects fan_in_fan_out where the module says otherwise."""
    base = family_llama.write_random(tmp_path / "base", seed=1)
    write_adapter(tmp_path / "adapter", base, "llama")
    write_adapter(tmp_path / "other", base, "llama", fan_in_fan_out=True)
    found, expected = (analyze(tmp_path / name, tmp_path / "answer.npz")["hidden_states"] for name in ("other", "adapter"))
    assert np.array_equal(found, expected)


def test_each_module_has_its_own_rank(tmp_path):
    base = family_llama.write_random(tmp_path / "base", seed=1)

    def narrow(tensors):
        for name in list(tensors)[:2]:
            tensors[name] = tensors[name][:2] if "lora_A" in name else tensors[name][:, :2]

    tensors = write_adapter(tmp_path / "adapter", base, "llama", change=narrow, rank_pattern={"q_proj": 2})
    names = list(tensors)
    tensors[names[0]] = tensors[names[0]] * 3 / 2  # alpha / 2 in place of alpha / 3
    merged = write_merged(tmp_path / "merged", base, tensors, 2, False)
    found, expected = (analyze(folder, tmp_path / "answer.npz")["hidden_states"] for folder in (tmp_path / "adapter", merged))
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_a_base_model_of_the_hub(tmp_path, monkeypatch):
    base = family_llama.write_random(tmp_path / "hub" / "models--org--base" / "snapshots" / "1234", seed=1)
    (tmp_path / "hub" / "models--org--base" / "refs").mkdir()
    (tmp_path / "hub" / "models--org--base" / "refs" / "main").write_text("1234")
    write_adapter(tmp_path / "adapter", base, "llama", base_model_name_or_path="org/base")
    write_adapter(tmp_path / "same", base, "llama")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    found, expected = (analyze(tmp_path / name, tmp_path / "a.npz")["hidden_states"] for name in ("adapter", "same"))
    assert np.array_equal(found, expected)
    (tmp_path / "hub" / "models--org--adapter" / "snapshots").mkdir(parents=True)
    (tmp_path / "adapter").rename(tmp_path / "hub" / "models--org--adapter" / "snapshots" / "main")
    assert np.array_equal(analyze("org/adapter", tmp_path / "a.npz")["hidden_states"], expected)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    for name, revision, command in (("org/base", None, "org/base"), ("org/base", "v2", "org/base@v2"), ("base", None, "hf://base")):
        write_adapter(tmp_path / command.replace("/", "-"), base, "llama", base_model_name_or_path=name, revision=revision)
        said = refusal(tmp_path / command.replace("/", "-"))
        assert f'base_model_name_or_path is "{name}", which is neither a folder' in said
        assert f"Download it: headscope pull {command}, or write" in said


REFUSED_KEYS = {
    "kind": ({"peft_type": "IA3"}, 'peft_type must be "LORA"; not supported: "IA3"'),
    "no kind": ({"peft_type": None}, "peft_type is missing"),
    "no alpha": ({"lora_alpha": None}, "lora_alpha is missing"),
    "alpha": ({"lora_alpha": "6"}, "lora_alpha must be a number"),
    "alphas": ({"alpha_pattern": {".*q_proj": 3}}, "alpha_pattern: .*q_proj is a regular expression"),
    "no alphas": ({"alpha_pattern": {"q_proj": "3"}}, "alpha_pattern: the value of q_proj must be a number"),
    "list of alphas": ({"alpha_pattern": [3]}, "alpha_pattern must be an object"),
    "DoRA": ({"use_dora": True}, "use_dora is not supported"),
    "biases": ({"bias": "some"}, 'bias must be "none", "all" or "lora_only"; not supported: "some"'),
    "head": ({"modules_to_save": "score"}, "modules_to_save must be a list of names of modules, or null"),
    "heads": ({"modules_to_save": [1]}, "modules_to_save must be a list of names of modules, or null"),
    "untrained head": ({"task_type": "SEQ_CLS"}, "no tensor score.weight"),
    "PiSSA": ({"init_lora_weights": "pissa"}, 'init_lora_weights is "pissa"'),
    "tokens": ({"trainable_token_indices": [3]}, "trainable_token_indices is not supported"),
    "later kind": ({"use_new": {"a": 1}}, "use_new is not supported"),
    "no base": ({"base_model_name_or_path": None}, "base_model_name_or_path is missing"),
    "base": ({"base_model_name_or_path": 7}, "base_model_name_or_path must be a string"),
    "strange base": ({"base_model_name_or_path": "/nowhere/base"}, "neither a folder nor a model in the cache"),
}


@pytest.mark.parametrize("case", REFUSED_KEYS)
def test_refused_keys(tmp_path, case):
    keys, message = REFUSED_KEYS[case]
    base = family_llama.write_random(tmp_path / "base", seed=1)
    write_adapter(tmp_path / "adapter", base, "llama", **keys)
    stderr = refusal(tmp_path / "adapter")
    where = "" if case == "untrained head" else "adapter_config.json: "
    assert f"{tmp_path / 'adapter'}: {where}" in stderr and message in stderr


Q = "base_model.model.model.layers.0.self_attn.q_proj."
REFUSED_TENSORS = {
    "no other": (lambda t: t.pop(Q + "lora_B.weight"), "lora_A.weight is not one of a pair"),
    "magnitudes": (lambda t: t.update({Q + "lora_magnitude_vector": np.ones(4)}), "lora_magnitude_vector is not one of a pair"),
    "embedding": (lambda t: t.update({"base_model.model.model.embed_tokens.lora_embedding_A": np.ones((3, 4))}), "is not one of a pair"),
    "base alone": (lambda t: t.update({"base_model.model.model.norm.base_layer.weight": np.ones(48)}), "is not one of a pair"),
    "unknown module": (lambda t: t.update({Q.replace("0", "90") + "lora_A.weight": t[Q + "lora_A.weight"],
                                           Q.replace("0", "90") + "lora_B.weight": t[Q + "lora_B.weight"]}),
                       "the base model has no tensor model.layers.90.self_attn.q_proj.weight"),
    "ambiguous": (lambda t: t.update({"base_model.model.q_proj.lora_A.weight": t[Q + "lora_A.weight"],
                                      "base_model.model.q_proj.lora_B.weight": t[Q + "lora_B.weight"]}), "has more than one tensor q_proj.weight"),
    "twice": (lambda t: t.update({Q.replace("model.model.model", "model.model") + "lora_A.weight": t[Q + "lora_A.weight"],
                                  Q.replace("model.model.model", "model.model") + "lora_B.weight": t[Q + "lora_B.weight"]}),
              "two modules change model.layers.0.self_attn.q_proj.weight"),
    "shape": (lambda t: t.update({Q + "lora_A.weight": t[Q + "lora_A.weight"][:, 1:]}), "must have the shapes [r, 48]"),
    "rank": (lambda t: t.update({Q + "lora_A.weight": t[Q + "lora_A.weight"][1:]}), "must have the shapes [r, 48]"),
    "huge": (lambda t: t.update({Q + "lora_A.weight": np.zeros((97, 48), np.float32), Q + "lora_B.weight": np.zeros((48, 97), np.float32)}),
             "layers.0.self_attn.q_proj is 97; at most 96 is allowed"),
    "vector": (lambda t: t.update({Q + "lora_A.weight": np.ones(48)}), "lora_A.weight must be a matrix"),
    "NaN": (lambda t: t.update({Q + "lora_A.weight": t[Q + "lora_A.weight"] * np.nan}), "has a NaN or an infinity"),
    "nothing": (lambda t: t.clear(), "no tensor ends with .lora_A.weight"),
}


@pytest.mark.parametrize("case", REFUSED_TENSORS)
def test_refused_tensors(tmp_path, case):
    change, message = REFUSED_TENSORS[case]
    base = family_llama.write_random(tmp_path / "base", seed=1)
    write_adapter(tmp_path / "adapter", base, "llama", change=change)
    assert message in refusal(tmp_path / "adapter")


def test_missing_and_damaged_files(tmp_path):
    base = family_llama.write_random(tmp_path / "base", seed=1)
    write_adapter(tmp_path / "adapter", base, "llama")
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    assert "adapter_model.safetensors: the data has" in refusal(tmp_path / "adapter")
    path.unlink()
    assert "adapter_model.safetensors" in refusal(tmp_path / "adapter")
    (tmp_path / "adapter" / "adapter_config.json").write_text("{")
    assert "adapter_config.json: not valid JSON" in refusal(tmp_path / "adapter")
