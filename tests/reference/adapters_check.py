#!/usr/bin/env python3
"""LoRA adapters that PEFT saved, against PEFT's own reading of them.

    HEADSCOPE=build/headscope python tests/reference/adapters_check.py [WORD...]

Each adapter changes other modules, or the same ones by another key of adapter_config.json. The program must compute the
same states, losses and logits, or refuse the adapter and name the key. Ends with 1 if it does neither, with 77 without
transformers or PEFT. tests/api/test_transformers.py runs it.
"""
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import checkpoint
import numpy as np
from transformers_check import SAVED, WRONG, torch, transformers

try:
    import peft
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

IDS = list(range(5, 45))
CAUSAL, CLASSES, MASKED = (transformers.AutoModelForCausalLM, transformers.AutoModelForSequenceClassification, transformers.AutoModelForMaskedLM)
Q, V, WORDS, HEAD = "q_proj", "v_proj", "embed_tokens", "lm_head"


def lora(*modules, **more):
    return {"r": 4, "lora_alpha": 6, "target_modules": list(modules), **more}


# what it is: a model of transformers_check.py, its class, keys of LoraConfig, and the key that a refusal names
ADAPTERS = {
    "queries": ("llama", CAUSAL, lora(Q, V), None),
    "words": ("llama", CAUSAL, lora(Q, WORDS), None),
    "decoder": ("llama", CAUSAL, lora(Q, HEAD), None),
    "words and decoder": ("llama", CAUSAL, lora(WORDS, HEAD), None),
    "tied words": ("qwen3", CAUSAL, lora(Q, WORDS), None),
    "tied decoder": ("qwen3", CAUSAL, lora(Q, HEAD), None),
    "tied words and decoder": ("qwen3", CAUSAL, lora(WORDS, HEAD), None),
    "tied words that stay tied": ("qwen3", CAUSAL, lora(Q, WORDS, ensure_weight_tying=True), None),
    "biased decoder": ("phi", CAUSAL, lora(Q, HEAD), None),
    "masked decoder": ("bert", MASKED, lora("query", "decoder"), None),
    "words of GPT-2": ("gpt2", CAUSAL, lora("c_attn", "wte"), None),
    "positions": ("gpt2", CAUSAL, lora("c_attn", "wpe"), None),
    "words and decoder saved": ("llama", CAUSAL, lora(Q, modules_to_save=[WORDS, HEAD]), None),
    "tied words saved": ("qwen3", CAUSAL, lora(Q, modules_to_save=[WORDS]), None),
    "tied words saved, and stay tied": ("qwen3", CAUSAL, lora(Q, modules_to_save=[WORDS], ensure_weight_tying=True), None),
    "norms saved": ("llama", CAUSAL, lora(Q, modules_to_save=["norm"]), None),
    "all": ("llama", CAUSAL, {**lora(), "target_modules": "all-linear"}, None),
    "an expression": ("llama", CAUSAL, {**lora(), "target_modules": ".*self_attn.(q|k)_proj"}, None),
    "one layer": ("llama", CAUSAL, lora(Q, V, layers_to_transform=[1], layers_pattern="layers"), None),
    "all but one": ("llama", CAUSAL, lora(Q, V, exclude_modules=["layers.0.self_attn.q_proj"]), None),
    "ranks": ("llama", CAUSAL, lora(Q, V, rank_pattern={Q: 8}), None),
    "alphas": ("llama", CAUSAL, lora(Q, V, alpha_pattern={"^model.layers.0.self_attn.q_proj": 3, Q: 8}), None),
    "alphas by an expression": ("llama", CAUSAL, lora(Q, V, alpha_pattern={".*q_proj": 8}), "alpha_pattern"),
    "ranks, alphas and roots": ("llama", CAUSAL, lora(Q, V, alpha_pattern={Q: 8}, rank_pattern={V: 2}, use_rslora=True), None),
    "biases": ("llama biased", CAUSAL, lora(Q, V, bias="all"), None),
    "biases of modules": ("llama biased", CAUSAL, lora(Q, V, bias="lora_only"), None),
    "a bias of factors": ("llama", CAUSAL, lora(Q, lora_bias=True), "lora_bias"),
    "magnitudes": ("llama", CAUSAL, lora(Q, use_dora=True), "use_dora"),
    "some words": ("llama", CAUSAL, lora(Q, trainable_token_indices=[6, 7]), "trainable_token_indices"),
    "parameters": ("llama", CAUSAL, lora(Q, target_parameters=["layers.0.mlp.up_proj.weight"]), "target_parameters"),
    "classes of BERT": ("bert", CLASSES, lora("query", "word_embeddings", task_type="SEQ_CLS"), None),
    "classes of RoBERTa": ("roberta", CLASSES, lora("query", task_type="SEQ_CLS"), None),
    "classes of DistilBERT": ("distilbert", CLASSES, lora("q_lin", task_type="SEQ_CLS", modules_to_save=["pre_classifier", "classifier"]), None),
    "norms and classes": ("bert", CLASSES, lora("query", task_type="SEQ_CLS", modules_to_save=["LayerNorm", "classifier"]), None),
}


def write(folder, base, name, cls, keys):
    """Saves a model and an adapter of it, and returns PEFT's reading of both."""
    torch.manual_seed(len(name))
    cls.from_config(transformers.AutoConfig.for_model(name.split()[0], **SAVED[name])).save_pretrained(base)
    tuned = peft.get_peft_model(cls.from_pretrained(base), peft.LoraConfig(**keys))
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
    tuned.save_pretrained(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(base)}))
    return peft.PeftModel.from_pretrained(cls.from_pretrained(base, attn_implementation="eager"), folder).double().eval()


def program(folder, *options):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--input-ids", ",".join(map(str, IDS)), "--digits", "9", *options]
    return subprocess.run(command, capture_output=True, text=True)


def relative(found, expected):
    return np.abs(np.array(found) - expected).max() / np.abs(expected).max()


def compare(folder, model, cls):
    """The largest difference as a part of an array's maximum, or the message of a refusal."""
    ids = torch.tensor([IDS])
    with torch.no_grad():
        output = model(ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
    done = program(folder, "--layers", "all", "--outputs", "hidden_states", "-o", str(folder / "answer.npz"))
    if done.returncode:
        return done.stderr
    with np.load(folder / "answer.npz") as answer:
        worst = relative(answer["hidden_states"], np.array([states[0].numpy() for states in output.hidden_states]))
    if cls is CAUSAL:
        losses = torch.nn.functional.cross_entropy(output.logits[0, :-1], ids[0, 1:], reduction="none").numpy()
        found = json.loads(program(folder, "--outputs", "loss").stdout)["loss"]["tokens"]
        return max(worst, relative([loss for loss in found if loss is not None], losses))
    if cls is CLASSES:
        found = json.loads(program(folder, "--outputs", "classes").stdout)["classes"]["logits"]
        return max(worst, relative(np.ravel(found), output.logits.numpy().ravel()))
    found = json.loads(program(folder, "--outputs", "predictions", "--predictions", '{"positions": "all", "top_k": 3}').stdout)["predictions"]
    top = torch.softmax(output.logits[0], -1).topk(3).values.numpy()
    return max(worst, relative([[entry["probability"] for entry in row["top"]] for row in found], top))


def main():
    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    n_wrong = 0
    for what, (name, cls, keys, refused) in ADAPTERS.items():
        if sys.argv[1:] and not any(word in what for word in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            base = checkpoint.write_random(Path(scratch) / "base")
            folder = Path(scratch) / "adapter"
            found = compare(folder, write(folder, base, name, cls, keys), cls)
        is_right = refused is not None and refused in found if isinstance(found, str) else refused is None and found <= WRONG
        n_wrong += not is_right
        print(f"{'' if is_right else 'WRONG '}{what}: {found.strip()[-120:] if isinstance(found, str) else f'{found:.1e}'}", flush=True)
    print(f"peft {peft.__version__}: {n_wrong} adapters are read differently")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
