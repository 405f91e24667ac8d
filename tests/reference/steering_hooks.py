#!/usr/bin/env python3
"""Vectors that the program adds to hidden states against forward hooks on HuggingFace's models, in float64.

    HEADSCOPE=build/headscope DIR/bin/python tests/reference/steering_hooks.py

Tiny random checkpoints get a vector, or the difference of two texts' states, at some positions or all. It goes to the
embeddings, an inner state or the last one, which is behind the final norm where there is one. Encoder-decoder models get it in the
decoder, and in the encoder that the decoder reads. Compares maps, states, the target, its gradients and the attributions
of tokens. Prints the largest differences as parts of the maxima. Ends with 1 if one exceeds both 2e-5 and four times the
error of torch in float32, with 77 if torch or transformers is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# Ends with 77 if torch or transformers is not installed.
from gradients_check import IDS, SOURCE, TARGET, Pass, arrays_of, compare, follow, saved
from transformers_check import CAUSAL, torch, transformers

# For each family, the layers of a stack and the norm behind them.
PARTS = {
    "bert": ("encoder.layer", None),
    "roberta-prelayernorm": ("encoder.layer", "LayerNorm"),
    "modernbert": ("layers", "final_norm"),
    "deberta": ("encoder.layer", None),
    "deberta-v2": ("encoder.layer", None),
    "gpt2": ("h", "ln_f"),
    "gpt_neox": ("layers", "final_layer_norm"),
    "llama": ("layers", "norm"),
    "gemma2": ("layers", "norm"),
    "t5": ("block", "final_layer_norm"),
    "bart": ("layers", None),
}
STACKS = {"t5", "bart"}
OTHER, LONGER = [2, 70, 71, 72, 3], [2, *range(80, 92), 3]
OUTPUTS = "attentions,hidden_states,attention_gradients,hidden_state_gradients,token_attributions"


def program(folder, interventions, *options):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(folder / "answer.npz"), "--outputs", OUTPUTS, "--interventions", json.dumps(interventions), *options]
    subprocess.run(command, check=True)
    with np.load(folder / "answer.npz") as answer:
        return dict(answer)


def steer(stack, family, change):
    """Adds change(state), state -1 the embeddings, to what the modules of a stack give. DeBERTa's first layer reads another
    copy of the embeddings than those that it answers."""
    layers, norm = PARTS[family]
    layers = stack.get_submodule(layers)

    def after(number):
        def hook(module, inputs, output):
            return (output[0] + change(number), *output[1:]) if isinstance(output, tuple) else output + change(number)
        return hook

    def before(module, inputs, named):
        if inputs:
            return (inputs[0] + change(-1), *inputs[1:]), named
        return inputs, {**named, "hidden_states": named["hidden_states"] + change(-1)}

    if family.startswith("deberta"):
        stack.embeddings.register_forward_hook(after(-1))
    else:
        layers[0].register_forward_pre_hook(before, with_kwargs=True)
    for number, layer in enumerate(layers):
        is_last = number + 1 == len(layers)
        (stack.get_submodule(norm) if is_last and norm else layer).register_forward_hook(after(number))


def rows(additions, number, n_tokens, dtype):
    """[n_tokens][H]: what is added to a state. An addition has layers, positions, factor and a vector of each state."""
    total = 0
    for addition in additions:
        for layer, vector in zip(addition["layers"], addition["vectors"], strict=True):
            placed = torch.zeros(n_tokens, len(vector), dtype=dtype)
            placed[addition["positions"] or slice(None)] = addition["factor"] * torch.tensor(vector, dtype=dtype)
            total = total + placed * (layer == number)
    return total


def states_of(model, ids, **more):
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]), output_hidden_states=True, **more)
    states = output.decoder_hidden_states if more else output.hidden_states
    return np.array([state[0].double().numpy() for state in states])


def difference(pooling, states):
    """[n_layers][H], behind each layer."""
    a, b = (one[1:, -1] if pooling == "last" else one[1:].mean(1) for one in states)
    return a - b


def make_additions(texts, differences, n_layers):
    """The additions to a stack for the hooks, and the same for the program. The second one is made of two texts."""
    last, width = n_layers - 1, differences.shape[1]
    vector = np.random.default_rng(3).normal(size=width).round(3).tolist()
    plans = [{"layers": [-1, 0], "positions": [1, 4], "factor": -1.5}, {"layers": sorted({0, last}), "positions": None, "factor": 0.75},
             {"layers": [last], "positions": [2, 3], "factor": 1.0}]
    hooks = [{**plans[0], "vectors": [vector] * 2}, {**plans[1], "vectors": [differences[layer] for layer in plans[1]["layers"]]},
             {**plans[2], "vectors": [vector]}]
    named = [{"kind": "add", "what": "hidden", **{key: value for key, value in plan.items() if value is not None}} for plan in plans]
    return hooks, [{**named[0], "vector": vector}, {**named[1], "from": texts}, {**named[2], "vector": vector}]


def arrays(y, maps, states, words):
    """The arrays of gradients, and the maps and states."""
    return {"attentions": np.array([one[0].detach().double().numpy() for one in maps]),
            "hidden_states": np.array([one[0].detach().double().numpy() for one in states]), **arrays_of(y, maps, states, words)}


def check_tokens(family, scratch):
    causal = family in CAUSAL
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    folder, kind = saved(family, kind, scratch)
    pooling = "last" if causal else "mean"
    plain = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    states = [states_of(plain, ids) for ids in (OTHER, LONGER)]
    hooks, named = make_additions([{"input_ids": OTHER}, {"input_ids": LONGER}], difference(pooling, states), plain.config.num_hidden_layers)
    answer = program(folder, named, "--input-ids", ",".join(map(str, IDS)))

    def run(dtype):
        passed = Pass(kind, folder, dtype)
        steer(passed.model.base_model, family, lambda number: rows(hooks, number, len(IDS), dtype))
        output = passed.run(input_ids=IDS, attention_mask=[1] * len(IDS))
        return arrays(follow(answer, causal)(output), output.attentions, output.hidden_states, passed.words[0])
    return compare(family, answer, run(torch.float64), run(torch.float32))


def check_stacks(family, scratch, in_encoder):
    """A request about the decoder; the additions are in it, or in the encoder."""
    folder, kind = saved(family, transformers.AutoModelForSeq2SeqLM, scratch, decoder_start_token_id=0)
    start = json.loads((folder / "config.json").read_text())["decoder_start_token_id"]
    plain = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    texts = [{"input_ids": OTHER, "target_ids": [9, 44, 3]}, {"input_ids": LONGER, "target_ids": [9, 50, 51, 52, 3]}]
    states = [states_of(plain.get_encoder(), text["input_ids"]) if in_encoder else
              states_of(plain, text["input_ids"], decoder_input_ids=torch.tensor([[start, *text["target_ids"]]])) for text in texts]
    stack = plain.get_encoder() if in_encoder else plain.get_decoder()
    hooks, named = make_additions(texts, difference("last", states), len(stack.get_submodule(PARTS[family][0])))
    if in_encoder:  # texts are read by the request's stack
        hooks, named = hooks[::2], [{**one, "stack": "encoder"} for one in named[::2]]
    answer = program(folder, named, "--stack", "decoder", "--input-ids", ",".join(map(str, SOURCE)), "--target-ids",
                     ",".join(map(str, TARGET)))

    def run(dtype):
        passed = Pass(kind, folder, dtype)
        stack = passed.model.get_encoder() if in_encoder else passed.model.get_decoder()
        n_tokens = len(SOURCE) if in_encoder else 1 + len(TARGET)
        steer(stack, family, lambda number: rows(hooks, number, n_tokens, dtype))
        output = passed.run(input_ids=SOURCE, decoder_input_ids=[start, *TARGET], attention_mask=[1] * len(SOURCE))
        y = torch.nn.functional.cross_entropy(output.logits[0, :-1], torch.tensor(TARGET))
        _, target = sorted(passed.words, key=lambda words: words.shape[1] != len(SOURCE))
        return arrays(y, output.decoder_attentions, output.decoder_hidden_states, target)
    return compare(f"{family}, {'encoder' if in_encoder else 'decoder'}", answer, run(torch.float64), run(torch.float32))


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"{'':58} maps, states, target, dy/dA, dy/dh, tokens")
    worst = 0
    for family in PARTS:
        for checked in [(True,), (False,)] if family in STACKS else [()]:
            with tempfile.TemporaryDirectory() as scratch:
                check = check_stacks if family in STACKS else check_tokens
                worst = max(worst, check(family, Path(scratch), *checked))
    sys.exit(not worst <= 1)


if __name__ == "__main__":
    main()
