#!/usr/bin/env python3
"""Activation patching of the program against forward hooks on HuggingFace's models, in float64.

    HEADSCOPE=build/headscope DIR/bin/python tests/reference/patching_hooks.py

A tiny checkpoint of each family gets values of another text. These are heads' outputs at some positions, and the hidden
state after the embeddings, an inner layer and the last layer. Prints the largest differences of maps, and of hidden
states as a part of their maximum. A language model then gets each head's output alone and each state at each position
alone. Prints the largest differences of the recovered fractions, over the maximum. Ends with 1 if a difference is over
1e-5, with 77 if torch or transformers is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import checkpoint
from transformers_check import LIMIT, SAVED, difference

# For each family, the layers, and the product in a layer that reads the outputs of all heads side by side.
PARTS = {
    "bert": ("encoder.layer", "attention.output.dense"),
    "modernbert": ("layers", "attn.Wo"),
    "gpt2": ("h", "attn.c_proj"),
    "llama": ("layers", "self_attn.o_proj"),
}
POSITIONS = [1, 4, 5]
PATCHES = {
    "heads": {"layers": [0, 1], "heads": [1, 2], "positions": POSITIONS},
    "all heads": {"layers": [1]},
    "embeddings": {"what": "hidden", "layers": [-1], "positions": POSITIONS},
    "inner state": {"what": "hidden", "layers": [0], "positions": POSITIONS},
    "last state": {"what": "hidden", "layers": [1], "positions": POSITIONS},
}


def program(folder, ids, output, *options):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(output), "--input-ids", ",".join(map(str, ids[0])), *options]
    subprocess.run(command, check=True)
    with np.load(output) as answer:
        return dict(answer)


class Hooks:
    """Records what heads and layers give, or replaces it by what another pass recorded."""

    def __init__(self, model, family, patch=None, source=None):
        self.seen, self.patch, self.source = {}, patch, source
        config = model.config
        self.width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        layers = model.base_model.get_submodule(PARTS[family][0])
        self.handles = [layers[0].register_forward_pre_hook(self.before("state", -1))]
        for number, layer in enumerate(layers):
            product = layer.get_submodule(PARTS[family][1])
            self.handles.append(product.register_forward_pre_hook(self.before("heads", number)))
            self.handles.append(layer.register_forward_hook(self.after(number)))

    def wants(self, kind, number):
        return self.patch and number in self.patch["layers"] and (kind == "state") == ("what" in self.patch)

    def change(self, kind, number, value):
        self.seen[kind, number] = value.clone()
        if not self.wants(kind, number):
            return value
        heads = self.patch.get("heads") if kind == "heads" else None
        columns = slice(None) if heads is None else torch.cat([torch.arange(self.width) + h * self.width for h in heads])
        rows = torch.tensor(self.patch.get("positions", range(value.shape[1])))[:, None]
        value = value.clone()
        other = self.source[kind, number]
        if isinstance(columns, slice):
            value[0, rows[:, 0]] = other[0, rows[:, 0]]
        else:
            value[0, rows, columns] = other[0, rows, columns]
        return value

    def before(self, kind, number):
        return lambda module, inputs: (self.change(kind, number, inputs[0]), *inputs[1:])

    def after(self, number):
        def hook(module, inputs, output):
            if isinstance(output, tuple):
                return (self.change("state", number, output[0]), *output[1:])
            return self.change("state", number, output)
        return hook

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self


def run(model, family, ids, patch=None, source=None):
    with Hooks(model, family, patch, source) as hooks, torch.no_grad():
        output = model(torch.tensor(ids)[None], output_attentions=True)
    return hooks.seen, np.array([maps[0].numpy() for maps in output.attentions]), output.last_hidden_state[0].numpy()


def check(family, scratch):
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(family))
    transformers.AutoModel.from_config(transformers.AutoConfig.for_model(family, **SAVED[family])).save_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    ids = np.random.default_rng(1).integers(5, 290, (2, 12)).tolist()
    source, _, _ = run(model, family, ids[1])
    worst = 0
    for name, patch in PATCHES.items():
        interventions = json.dumps([{"kind": "patch", "from": {"input_ids": ids[1]}, **patch}])
        answer = program(folder, ids, scratch / "answer.npz", "--outputs", "attentions,hidden_states",
                         "--interventions", interventions)
        _, maps, state = run(model, family, ids[0], patch, source)
        found = difference(answer["attentions"], maps), difference(answer["hidden_states"][-1], state) / np.abs(state).max()
        changed = difference(run(model, family, ids[0])[2], state)
        print(f"{family + ', ' + name:28} " + " ".join(f"{value:9.1e}" for value in found))
        worst = max(worst, *found) if changed > 1e-3 else np.inf  # a patch that changes nothing proves nothing
    return worst


def target(model, family, ids, patch=None, source=None):
    """The logit of token 7 minus that of token 9 after position 6, and what the hooks saw."""
    with Hooks(model, family, patch, source) as hooks, torch.no_grad():
        logits = model(torch.tensor(ids)[None]).logits[0, 6]
    return float(logits[7] - logits[9]), hooks.seen


def check_recovered(family, scratch):
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(family))
    config = transformers.AutoConfig.for_model(family, **SAVED[family])
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    ids = np.random.default_rng(2).integers(5, 290, (2, 9)).tolist()
    (clean, _), (other, source) = target(model, family, ids[0]), target(model, family, ids[1])
    answer = program(folder, ids, scratch / "answer.npz", "--outputs", "effects,patch_map", "--effects-of",
                     json.dumps({"kind": "patch", "from": {"input_ids": ids[1]}}), "--target",
                     json.dumps({"tokens": [7, 9], "position": 6}))
    n_layers, n_heads = answer["effects_recovered"].shape

    def recovered(**patch):
        return (target(model, family, ids[0], patch, source)[0] - clean) / (other - clean)

    heads = np.array([[recovered(layers=[l], heads=[h]) for h in range(n_heads)] for l in range(n_layers)])
    states = np.array([[recovered(what="hidden", layers=[l], positions=[t]) for t in range(9)] for l in range(-1, n_layers)])
    found = [np.abs(mine - expected).max() / np.abs(expected).max()
             for mine, expected in [(answer["effects_recovered"], heads), (answer["patch_map"], states)]]
    print(f"{family + ', recovered':28} " + " ".join(f"{value:9.1e}" for value in found))
    return max(found)


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    worst = 0
    for family in PARTS:
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check(family, Path(scratch)))
    for family in ["gpt2", "llama"]:
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check_recovered(family, Path(scratch)))
    sys.exit(not worst <= LIMIT)


if __name__ == "__main__":
    main()
