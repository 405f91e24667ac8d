#!/usr/bin/env python3
"""Gradients of the program against torch.autograd on HuggingFace's own code: eager attention, float64.

    python3 -m venv DIR; DIR/bin/pip install numpy torch transformers captum
    HEADSCOPE=build/headscope DIR/bin/python tests/reference/gradients_check.py [MODEL_TYPE...]

Tiny random checkpoints of every supported model_type, which save_pretrained wrote: with the head that predicts tokens,
every head for classes and answers, and all stacks of models with a decoder. Compares the target, dy/dA, dy/dh, the
attributions of tokens and relevance. Integrated gradients are compared with Captum's LayerIntegratedGradients if that
is installed. Prints the largest differences as a part of each array's maximum. Ends with 1 if one exceeds both 2e-5 and
four times the error of torch in float32, with 77 if torch or transformers is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import checkpoint
import numpy as np

try:
    from captum.attr import LayerIntegratedGradients
except ImportError:
    LayerIntegratedGradients = None  # then integrated gradients are not compared
# Ends with 77 if torch or transformers is not installed.
from transformers_check import CAUSAL, ENCODERS, SAVED, head_kinds, save_head, torch, transformers

LIMIT, FLOAT32 = 2e-5, 4
MASK, IDS = 4, [2, *range(20, 40), 4, *range(60, 68), 3]
SOURCE, TARGET = [2, *range(20, 40), 3], [9, *range(40, 52), 9, 3]
OUTPUTS = "attention_gradients,hidden_state_gradients,token_attributions,relevance"


def program(folder, *options):
    """The program's answer."""
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(folder / "gradients.npz"), "--outputs", OUTPUTS, *options]
    subprocess.run(command, check=True)
    with np.load(folder / "gradients.npz") as answer:
        return dict(answer)


class Pass:
    """A pass of a model of transformers, whose word rows and attention maps are kept with the graph."""

    def __init__(self, kind, folder, dtype):
        self.model = kind.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        self.words = []
        owners = [self.model] + [self.model.decoder] * isinstance(self.model, transformers.EncoderDecoderModel)
        tables = {id(owner.get_input_embeddings().weight) for owner in owners}
        embeddings = {id(module): module for module in self.model.modules() if isinstance(module, torch.nn.Embedding)
                      and id(module.weight) in tables}
        for module in embeddings.values():
            module.register_forward_hook(self.keep_words)

    def keep_words(self, module, inputs, result):
        self.words.append(result.detach().requires_grad_())
        return self.words[-1]

    def run(self, **inputs):
        self.words.clear()
        return self.model(output_attentions=True, output_hidden_states=True,
                          **{name: torch.tensor(value)[None] for name, value in inputs.items()})


def gradients(y, tensors):
    return [np.zeros(tensor.shape[1:]) if found is None else found[0].double().numpy()
            for tensor, found in zip(tensors, torch.autograd.grad(y, tensors, allow_unused=True, retain_graph=True))]


def of_maps(y, maps):
    """Where a key is hidden, the program has 0."""
    return np.array([found * (attention[0].detach().numpy() > 0) for attention, found in zip(maps, gradients(y, maps))])


def of_states(y, states):
    """States that transformers projects to another width (OPT) are not compared."""
    found = gradients(y, states)
    return np.array([one if one.shape == found[1].shape else np.full(found[1].shape, np.nan) for one in found])


def relevance(maps, found):
    """R of Chefer et al. (2021) for one text."""
    product = np.eye(maps[0].shape[-1])
    for attention, gradient in zip(maps, found):
        product = product + np.maximum(attention[0].detach().double().numpy() * gradient, 0).mean(0) @ product
    return product


def arrays_of(y, maps, states, words):
    """The program's arrays from one pass."""
    return {"target_value": np.array(y.item()), "attention_gradients": of_maps(y, maps),
            "hidden_state_gradients": of_states(y, states),
            "token_attributions": (gradients(y, [words])[0] * words[0].detach().double().numpy()).sum(-1)}


def compare(name, found, exact, single):
    """Prints the largest differences as parts of the maxima. Returns the largest one as a part of its bar."""
    worst, texts = 0, []
    for array, expected in exact.items():
        scale = np.nanmax(np.abs(expected)) or 1
        error, rounding = (np.nanmax(np.abs(other[array] - expected)) / scale for other in (found, single))
        bar = max(LIMIT, FLOAT32 * rounding)
        worst = max(worst, error / bar)
        texts.append(f"{error:.1e}{'' if error <= bar else ' WRONG'}")
    print(f"{name:58} " + " ".join(texts), flush=True)
    return worst if np.isfinite(worst) else np.inf


def one_text(kind, folder, dtype, ids, read):
    """Arrays of a model of one text; read(output) is y."""
    passed = Pass(kind, folder, dtype)
    output = passed.run(input_ids=ids, attention_mask=[1] * len(ids))
    found = arrays_of(read(output), output.attentions, output.hidden_states, passed.words[0])
    found["relevance"] = relevance(output.attentions, found["attention_gradients"])
    return found


def follow(answer, causal):
    """y of an output with logits of tokens, as the program's answer says what it followed."""
    token, position = int(answer["target_token"]), int(answer["target_position"])

    def read(output):
        if causal:
            return torch.nn.functional.cross_entropy(output.logits[0, :-1], torch.tensor(IDS[1:]))
        return torch.log_softmax(output.logits[0, position], -1)[token]
    return read


def saved(name, kind, scratch, **more):
    """A random model, saved."""
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    model = kind.from_config(transformers.AutoConfig.for_model(name.split()[0], **{**more, **SAVED[name]}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder, type(model)


def check_tokens(name, scratch):
    causal = name.split()[0] in CAUSAL
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    folder, kind = saved(name, kind, scratch)
    answer = program(folder, "--input-ids", ",".join(map(str, IDS)))
    exact, single = (one_text(kind, folder, dtype, IDS, follow(answer, causal)) for dtype in (torch.float64, torch.float32))
    return compare(f"{name} tokens", answer, exact, single)


def check_heads(name, scratch):
    worst = 0
    for kind, numbers in head_kinds(name):
        if kind.__name__.endswith("NextSentencePrediction") or name.split()[0] in ENCODERS:
            continue
        folder, _ = save_head(name, kind, numbers[-1], scratch / kind.__name__)
        span = kind.__name__.endswith("QuestionAnswering")
        each = kind.__name__.endswith("TokenClassification")
        target = {"span": [5, 8]} if span else {"class": 1, "position": 6} if each else {"class": 2}

        def read(output, span=span, each=each):
            return (output.start_logits[0, 5] + output.end_logits[0, 8] if span
                    else output.logits[0, 6, 1] if each else output.logits[0, 2])

        answer = program(folder, "--input-ids", ",".join(map(str, IDS)), "--target", json.dumps(target))
        exact, single = (one_text(kind, folder, dtype, IDS, read) for dtype in (torch.float64, torch.float32))
        worst = max(worst, compare(f"{name} {kind.__name__}", answer, exact, single))
    return worst


def both_texts(kind, folder, dtype, start):
    """Arrays of the three stacks, for the loss of the target."""
    passed = Pass(kind, folder, dtype)
    output = passed.run(input_ids=SOURCE, decoder_input_ids=[start, *TARGET], attention_mask=[1] * len(SOURCE))
    y = torch.nn.functional.cross_entropy(output.logits[0, :-1], torch.tensor(TARGET))
    source, target = sorted(passed.words, key=lambda words: words.shape[1] != len(SOURCE))
    return {"encoder": arrays_of(y, output.encoder_attentions, output.encoder_hidden_states, source),
            "decoder": arrays_of(y, output.decoder_attentions, output.decoder_hidden_states, target),
            "cross": arrays_of(y, output.cross_attentions, output.decoder_hidden_states, target)}


def check_stacks(name, scratch):
    folder, kind = saved(name, transformers.AutoModelForSeq2SeqLM, scratch, decoder_start_token_id=0)
    start = json.loads((folder / "config.json").read_text())["decoder_start_token_id"]
    exact, single = (both_texts(kind, folder, dtype, start) for dtype in (torch.float64, torch.float32))
    worst = 0
    for stack in exact:
        answer = program(folder, "--stack", stack, "--input-ids", ",".join(map(str, SOURCE)), "--target-ids", ",".join(map(str, TARGET)))
        worst = max(worst, compare(f"{name} {stack}", answer, exact[stack], single[stack]))
    return worst


def check_integrated(scratch):
    """Integrated gradients of a classifier, with Captum's own."""
    kind, steps = transformers.BertForSequenceClassification, 12
    folder, _ = save_head("bert", kind, 4, scratch)
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    baseline = [2, *[MASK] * (len(IDS) - 2), 3]
    layer = LayerIntegratedGradients(lambda ids: model(ids).logits[:, 2], model.get_input_embeddings())
    expected = layer.attribute(torch.tensor([IDS]), torch.tensor([baseline]), n_steps=steps, method="gausslegendre")
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--outputs", "token_attributions", "--attribution",
               "integrated_gradients", "--steps", str(steps), "--baseline", "mask", "--digits", "9", "--target", '{"class": 2}',
               "--input-ids", ",".join(map(str, IDS))]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    expected = expected[0].sum(-1).detach().numpy()
    error = np.abs(np.array(answer["token_attributions"]) - expected).max() / np.abs(expected).max()
    print(f"{'bert integrated gradients, Captum':58} {error:.1e}")
    return error / LIMIT


def check_name(name):
    worst = 0
    for check in (check_stacks,) if name.split()[0] in ENCODERS else (check_tokens, check_heads):
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check(name, Path(scratch)))
    return worst


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    print(f"{'':58} target, dy/dA, dy/dh, tokens, relevance")
    worst = np.max([check_name(name) for name in SAVED if not sys.argv[1:] or name.split()[0] in sys.argv[1:]])
    if LayerIntegratedGradients:
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check_integrated(Path(scratch)))
    sys.exit(not worst <= 1)


if __name__ == "__main__":
    main()
