#!/usr/bin/env python3
"""Logit attributions of the program against HuggingFace's own code: hooks, eager attention, float64.

    python3 -m venv DIR; DIR/bin/pip install numpy torch transformers
    HEADSCOPE=build/headscope DIR/bin/python tests/reference/logit_attributions_check.py [MODEL_TYPE...]

Tiny random checkpoints of every supported model_type, which save_pretrained wrote, with the head that predicts tokens,
those for classes, and decoders. A head's part is its rows through the weights of the output product, the feed-forward
part what is left of a layer's change of the state. Factors and means of norms are measured at the norms themselves. Prints
the largest differences as a part of the largest number, or the program's refusal. Ends with 1 if a difference exceeds
1e-5, or a refusal is not expected or missing; with 77 if torch or transformers is not installed.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from gradients_check import IDS, SOURCE, TARGET, saved
from transformers_check import CAUSAL, ENCODERS, SAVED, head_kinds, save_head, torch, transformers

LIMIT = 1e-5
NORMS_AFTER = {"openai-gpt", "bert", "roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text", "electra", "albert", "distilbert",
               "nomic_bert", "deberta", "deberta-v2", "bart", "marian", "opt 350m", "encoder-decoder"}
# Heads with an activation or a norm.
OF_TOKENS, OF_CLASSES = {"roberta-prelayernorm", "xlm-roberta-xl", "modernbert", "esm"}, {"modernbert"}
# Norms of what the heads write, before it is added.
OUT_NORMS = {"olmo2": "post_attention_layernorm", "olmo3": "post_attention_layernorm", "gemma2": "post_attention_layernorm",
             "gemma3_text": "post_attention_layernorm", "glm4": "post_self_attn_layernorm"}
CROSS = re.compile(r"(EncDecAttention\.o|encoder_attn\.out_proj)$")
OWN = re.compile(r"\.(attn\.c_proj|attention\.dense|self_attention\.dense|self_attn\.(o_proj|out_proj|dense)|attn\.out_proj|"
                 r"attn\.attention\.out_proj|SelfAttention\.o|attention\.output\.dense|attn\.Wo)$")


class Kept:
    """A model of transformers, with what enters and leaves its modules in a pass."""

    def __init__(self, kind, folder):
        self.model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        self.model.get_input_embeddings().weight.requires_grad_(True)  # autograd reaches all states
        self.modules, self.inputs, self.outputs, self.order, self.done = dict(self.model.named_modules()), {}, {}, [], False
        for name, module in self.modules.items():
            module.register_forward_hook(lambda _, inputs, named, result, name=name: self.keep(name, inputs, named, result),
                                         with_kwargs=True)

    def keep(self, name, inputs, named, result):
        if self.done:
            return
        self.inputs[name] = inputs[0] if inputs else named.get("hidden_states")
        self.outputs[name] = result[0] if isinstance(result, tuple) else result
        self.order.append(name)

    def run(self, **inputs):
        output = self.model(**{key: torch.tensor(value)[None] for key, value in inputs.items()})
        self.done = True
        return output

    def final_norm(self):
        """The last norm that is in no layer."""
        return [name for name in self.order if type(self.modules[name]).__name__.endswith("Norm") and not re.search(r"\.\d+\.", name)][-1]

    def through(self, norm, position, g):
        """(u, what the norm's bias adds): g = dy/dnorm(x) taken before the norm, whose deviation stays as it is."""
        x = self.inputs[norm][0, position].detach()
        apply = lambda row: self.modules[norm](row[None, None])[0, 0].detach()  # noqa: E731
        bias, centered = apply(0 * x), torch.allclose(apply(x + 3), apply(x), rtol=1e-3, atol=1e-3)
        factors = (apply(x) - bias) / (x - (x.mean() if centered else 0))
        return g * factors - ((g * factors).mean() if centered else 0), (g * bias).sum()


def parts_of(kind, folder, name, position, read, **inputs):
    """The program's numbers for y = read(output), which reads the state at one position."""
    kept = Kept(kind, folder)
    y = read(kept.run(**inputs))
    norm, inside, outside = kept.final_norm(), kept.inputs, kept.outputs
    g = torch.autograd.grad(y, outside[norm])[0][0, position]
    u, bias = kept.through(norm, position, g)
    bias = bias + y - (g * outside[norm][0, position]).sum()
    decodes = name.split()[0] in ENCODERS
    projections = [each for each in kept.modules if (OWN.search(each) or CROSS.search(each)) and not (decodes and "encoder." in each)]
    layers = sorted({re.match(r"(.*?\.\d+)\.", each)[1] for each in projections}, key=lambda each: int(each.rsplit(".", 1)[1]))
    config, found = kept.model.config, {"decoder": [], "cross": [], "feed_forward": []}
    n_heads = getattr(config, "decoder_attention_heads", None) or config.num_attention_heads
    factor = getattr(config, "residual_multiplier", 1)
    for layer in layers:
        change = (outside[layer] - inside[layer])[0, position]
        for each in [each for each in projections if each.startswith(layer + ".")]:
            direction, out_norm = u, OUT_NORMS.get(name.split()[0])
            written = outside[each][0, position] * factor
            if out_norm:
                direction, added = kept.through(f"{layer}.{out_norm}", position, u)
                bias = bias + added
                written = outside[f"{layer}.{out_norm}"][0, position]
            module = kept.modules[each]
            weight = module.weight if type(module).__name__ == "Conv1D" else module.weight.T
            rows = inside[each][0, position].reshape(n_heads, -1)
            heads = torch.einsum("hd,hdk,k->h", rows, weight.reshape(n_heads, -1, weight.shape[1]), direction) * factor
            found["cross" if CROSS.search(each) else "decoder"].append(heads)
            bias = bias + (0 if getattr(module, "bias", None) is None else (module.bias * direction).sum() * factor)
            change = change - written
        found["feed_forward"].append((u * change).sum())
    embedding = (u * inside[layers[0]][0, position]).sum()
    stacks = {stack: torch.stack(heads).detach().numpy() for stack, heads in found.items() if heads}
    return {**stacks, "embedding": embedding.item(), "bias": bias.item(), "value": y.item()}


def is_among(names, name):
    return name in names or name.split()[0] in names


def compare(title, folder, expected, stack, *options):
    """expected None: the program refuses."""
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(folder / "logits.npz"), "--outputs", "logit_attributions", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.split("\n")[0]
        wrong = expected is not None or "logit_attributions" not in reason
        print(f"{title:50} {reason[-130:]}{' WRONG' if wrong else ''}", flush=True)
        return np.inf if wrong else 0
    if expected is None:
        print(f"{title:50} is not refused: WRONG", flush=True)
        return np.inf
    with np.load(folder / "logits.npz") as answer:
        found = {name.removeprefix("logit_attributions_"): answer[name] for name in answer}
    heads = expected[stack]
    scale = max(np.abs(heads).max(), np.abs(expected["feed_forward"]).max(), abs(expected["embedding"]), abs(expected["value"]))
    pairs = {"heads": heads, **{name: expected[name] for name in ("feed_forward", "embedding", "bias", "value")},
             "sum": expected["value"], "rest": 0}
    errors = {name: float(np.abs(found[name] - value).max() / scale) for name, value in pairs.items()}
    if len(found["heads"].shape) != 2 or (stack == "decoder" and "cross" not in expected and found["other"] != 0):
        errors["other"] = np.inf
    print(f"{title:50} " + " ".join(f"{name} {error:.1e}" for name, error in errors.items()), flush=True)
    return max(errors.values())


def check_tokens(name, scratch):
    causal = name.split()[0] in CAUSAL
    folder, kind = saved(name, transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM, scratch)
    options = ["--input-ids", ",".join(map(str, IDS)), "--target", json.dumps({"tokens": [30, 41], "position": 20})]
    config = json.loads((folder / "config.json").read_text())
    if is_among(NORMS_AFTER | OF_TOKENS, name):
        return compare(name, folder, None, "decoder", *options)
    cap = config.get("final_logit_softcapping")

    def read(output):
        logits = output.logits[0, 20]
        logits = torch.atanh(logits / cap) * cap if cap else logits
        return logits[30] - logits[41]
    expected = parts_of(kind, folder, name, 20, read, input_ids=IDS, attention_mask=[1] * len(IDS))
    return compare(name, folder, expected, "decoder", *options)


def check_classes(name, scratch):
    worst = 0
    for kind, numbers in head_kinds(name):
        if not kind.__name__.endswith("TokenClassification") or name.split()[0] in ENCODERS:
            continue
        folder, _ = save_head(name, kind, numbers[-1], scratch / "classes")
        options = ["--input-ids", ",".join(map(str, IDS)), "--target", json.dumps({"class": 1, "position": 6})]
        expected = None if is_among(NORMS_AFTER | OF_CLASSES, name) else parts_of(kind, folder, name, 6, lambda output: output.logits[0, 6, 1], input_ids=IDS,
                                                 attention_mask=[1] * len(IDS))
        worst = max(worst, compare(f"{name} {kind.__name__}", folder, expected, "decoder", *options))
    return worst


def check_decoder(name, scratch):
    folder, kind = saved(name, transformers.AutoModelForSeq2SeqLM, scratch, decoder_start_token_id=0)
    start = json.loads((folder / "config.json").read_text())["decoder_start_token_id"]
    options = ["--input-ids", ",".join(map(str, SOURCE)), "--target-ids", ",".join(map(str, TARGET)), "--target",
               json.dumps({"token": 33, "position": 9})]
    if is_among(NORMS_AFTER, name):
        return compare(name, folder, None, "decoder", "--stack", "decoder", *options)
    expected = parts_of(kind, folder, name, 9, lambda output: output.logits[0, 9, 33], input_ids=SOURCE,
                        decoder_input_ids=[start, *TARGET], attention_mask=[1] * len(SOURCE))
    return max(compare(f"{name} {stack}", folder, expected, stack, "--stack", stack, *options) for stack in ("decoder", "cross"))


def check(name):
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        if name.split()[0] in ENCODERS:
            return check_decoder(name, Path(scratch))
        if "bidirectional" not in name and "both ways" not in name:
            worst = check_tokens(name, Path(scratch))
        return max(worst, check_classes(name, Path(scratch)))


def main():
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    worst = max(check(name) for name in SAVED if not sys.argv[1:] or name.split()[0] in sys.argv[1:])
    sys.exit(not worst <= LIMIT)


if __name__ == "__main__":
    main()
