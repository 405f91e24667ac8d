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


def write_merged(folder, base, tensors, scale, transposed):
    """The base model with its weights changed."""
    weights = tensors_of(base)
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


def test_words_may_change(tmp_path):
    """The word embedding lies in memory then, and not in a file from which it could be read again."""
    base = family_llama.write_random(tmp_path / "base", seed=1)
    n_words, hidden = next(values.shape for name, values in tensors_of(base).items() if name.endswith("embed_tokens.weight"))
    words = "base_model.model.model.embed_tokens.lora_"
    rng = np.random.default_rng(2)
    pair = {words + "A.weight": rng.standard_normal((3, hidden)).astype(np.float32),
            words + "B.weight": rng.standard_normal((n_words, 3)).astype(np.float32)}
    tensors = write_adapter(tmp_path / "adapter", base, "llama", change=lambda tensors: tensors.update(pair))
    merged = write_merged(tmp_path / "merged", base, tensors, 2, False)
    found, expected = (analyze(folder, tmp_path / "answer.npz")["hidden_states"] for folder in (tmp_path / "adapter", merged))
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


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
    "alphas": ({"alpha_pattern": {"q_proj": 3}}, "alpha_pattern is not supported"),
    "DoRA": ({"use_dora": True}, "use_dora is not supported"),
    "biases": ({"bias": "all"}, 'bias must be "none"'),
    "head": ({"modules_to_save": ["score"]}, "modules_to_save is not supported"),
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
    assert f"{tmp_path / 'adapter'}: adapter_config.json: " in stderr and message in stderr


Q = "base_model.model.model.layers.0.self_attn.q_proj."
REFUSED_TENSORS = {
    "no other": (lambda t: t.pop(Q + "lora_B.weight"), "lora_A.weight is not one of a pair"),
    "magnitudes": (lambda t: t.update({Q + "lora_magnitude_vector": np.ones(4)}), "lora_magnitude_vector is not one of a pair"),
    "embedding": (lambda t: t.update({"base_model.model.model.embed_tokens.lora_embedding_A": np.ones((3, 4))}), "is not one of a pair"),
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
