#!/usr/bin/env python3
"""Checkpoints that transformers saved and whose files were then edited, against transformers' own reading of them.

    HEADSCOPE=build/headscope python tests/reference/edited_files_check.py [NAME...]

Other programs, older versions and hands make such files. A tensor that config.json ties to another one is there too, with other
values. It is there under another of its names alone. The config ties or does not tie. Frequencies of rotation are saved, or follow
from rope_theta, which may stand beside rope_parameters. The config does not say how long a text may be.

Ends with 1 if the program computes something else than transformers, or answers where transformers fills in random weights. Ends with
77 without transformers.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import checkpoint
import numpy as np
from transformers_check import CAUSAL, ENCODERS, SAVED, WRONG, difference, torch, transformers

IDS = [2, *range(20, 60), 3]
TARGET = [9, *range(40, 60), 9, 3]
UNEVEN = {"opt 350m", "opt narrow"}  # their last states are projected, to another width


def class_of(name):
    kind = name.split()[0]
    if kind in ENCODERS:
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForCausalLM if kind in CAUSAL else transformers.AutoModelForMaskedLM


def analyze(folder, outputs, *options):
    """The program's arrays, or None if it refuses them."""
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(folder / "answer.npz"), "--outputs", outputs, "--input-ids", ",".join(map(str, IDS)), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None
    with np.load(folder / "answer.npz") as answer:
        return dict(answer)


def found_by_program(folder, name):
    """Arrays by transformers' names; those that the program refuses are missing."""
    kind = name.split()[0]
    first = analyze(folder, "attentions,hidden_states")
    if first is None:
        return {}
    if kind in ENCODERS:
        found = {"encoder_attentions": first["attentions"], "encoder_hidden_states": first["hidden_states"]}
        target = "--stack", "decoder", "--target-ids", ",".join(map(str, TARGET))
        if decoder := analyze(folder, "attentions,hidden_states", *target):
            found |= {"decoder_attentions": decoder["attentions"], "decoder_hidden_states": decoder["hidden_states"]}
        if loss := analyze(folder, "loss", *target):
            found["loss"] = loss["loss"]
        return found
    found = {"attentions": first["attentions"], "hidden_states": first["hidden_states"]}
    if kind in CAUSAL:
        if loss := analyze(folder, "loss"):
            found["loss"] = loss["loss"]
    elif predictions := analyze(folder, "predictions", "--predictions", json.dumps({"positions": "all", "top_k": 20})):
        found["predictions"] = predictions
    return found


def expected_of(folder, name):
    """transformers' arrays by name, and the tensors that it filled in at random."""
    model, info = class_of(name).from_pretrained(folder, attn_implementation="eager", dtype=torch.float64, output_loading_info=True)
    ids = torch.tensor([IDS])
    more = {"decoder_input_ids": torch.tensor([[model.config.decoder_start_token_id, *TARGET]])} if name.split()[0] in ENCODERS else {}
    with torch.no_grad():
        output = model.eval()(ids, attention_mask=torch.ones_like(ids), output_attentions=True, output_hidden_states=True, **more)
    arrays = {key: np.array([part[0].numpy() for part in output[key]]) for key in output
              if key.endswith(("attentions", "hidden_states")) and not key.startswith("cross")}
    if name.split()[0] not in ENCODERS and name.split()[0] not in CAUSAL:
        arrays["predictions"] = torch.softmax(output.logits[0], -1).numpy()
    else:
        labels = torch.tensor(TARGET if more else IDS[1:])
        arrays["loss"] = torch.nn.functional.cross_entropy(output.logits[0, :-1], labels, reduction="none").numpy()
    return arrays, set(info["missing_keys"])


def compare(folder, name):
    """The largest difference as a part of each array's maximum, and what the program refused."""
    found = found_by_program(folder, name)
    if not found:
        return 0, {"all"}
    expected, random = expected_of(folder, name)
    worst, refused = 0, expected.keys() - found.keys()
    for key in expected.keys() & found.keys():
        if key == "predictions":
            tokens, probabilities = found[key]["predictions_top_ids"], found[key]["predictions_top_probability"]
            worst = max(worst, difference(probabilities, np.take_along_axis(expected[key], tokens.astype(int), -1)))
        else:
            worst = max(worst, difference(found[key], expected[key]) / max(1, np.abs(expected[key]).max()))
    return worst, refused


def subsets(names):
    return [[name for i, name in enumerate(names) if number >> i & 1] for number in range(1 << len(names))]


def edits(tensors, tied):
    """Yields a name of each edit, and the tensors with it. tied: the names of tensors that are one, with that one."""
    generator = torch.Generator().manual_seed(7)
    for source in sorted(set(tied.values())):
        names = sorted([name for name, other in tied.items() if other == source] + [source])
        values = next(tensors[name] for name in names if name in tensors)
        rest = {name: tensor for name, tensor in tensors.items() if name not in names}
        other = {name: values + 0.3 * torch.randn(values.shape, generator=generator) for name in names}
        for there in subsets(names):
            yield "only " + ", ".join(there), {**rest, **{name: other[name] for name in there}}
        yield "all equal " + ", ".join(names), {**rest, **{name: values.clone() for name in names}}


def frequency_edits(tensors):
    """Yields a name of each edit of ESM's frequencies of rotation, and the tensors with it."""
    star = next(name for name in tensors if name.endswith("inv_freq"))
    rest = {name: values for name, values in tensors.items() if name != star}
    values = tensors[star]
    layers = {i: star.replace("*", str(i)) for i in (0, 1, 10)}
    newer = star[:star.index("encoder.")] + "rotary_embeddings.inv_freq"
    for what, more in {"none": {}, "half": {star: values.half()}, "bfloat16": {star: values.bfloat16()}, "newer name": {newer: values * 0.8},
                       "layers": {layers[1]: values * 0.7, layers[0]: values * 0.6}, "a late layer": {layers[10]: values * 0.9, layers[1]: values},
                       "both names": {newer: values * 0.8, layers[1]: values * 0.7}, "an asterisk and a layer": {star: values, layers[1]: values / 2},
                       "short": {star: values[1:]}, "double": {star: values.double() * 0.9}}.items():
        yield f"frequencies: {what}", {**rest, **more}


def theta_edits(saved):
    """Yields changes of the config: rope_theta beside rope_parameters, in place of them, and with parts of them."""
    rope = saved.get("rope_parameters")
    if rope is None:
        return
    parts = {key: {k: v for k, v in part.items() if k != "rope_theta"} for key, part in rope.items() if isinstance(part, dict)}
    without = {key: value for key, value in {**rope, **parts}.items() if key != "rope_theta"}
    yield from ({"rope_parameters": value, "rope_theta": 77.0} for value in (rope, without, {}, None))
    yield {"rope_parameters": without}


ABSENT = object()  # a key that the config lacks


def changed(saved, change):
    """The config with a change, which joined models have in that of their decoder."""
    if "decoder" in saved:
        return {**saved, "decoder": changed(saved["decoder"], change)}
    return {key: value for key, value in {**saved, **change}.items() if value is not ABSENT}


def length_edits(saved):
    """Yields changes of the config of rotary positions, which need no table: no length, and a key of the training."""
    if "rope_parameters" in saved:
        yield {"max_position_embeddings": ABSENT}
        yield {"pretraining_tp": 2}


def check(name, scratch):
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    more = {"decoder_start_token_id": 0} if name.split()[0] in ENCODERS else {}
    config = transformers.AutoConfig.for_model(name.split()[0], **{**SAVED[name], **more, "tie_word_embeddings": True})
    model = class_of(name).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    tied = model.get_expanded_tied_weights_keys(all_submodels=True)
    tensors = transformers.modeling_utils.load_state_dict(folder / "model.safetensors")
    of_classes = {key: values for key, values in model.state_dict().items() if key not in tied}
    saved = json.loads((folder / "config.json").read_text())
    files = [(what, edited, {"tie_word_embeddings": is_tied}) for what, edited in edits(tensors, tied) for is_tied in (True, False)]
    files += [("the names of the classes", of_classes, {})]
    files += [("as saved", tensors, {"is_causal": causal}) for causal in (False, None) if more]
    files += [("as saved", tensors, change) for change in theta_edits(saved)]
    files += [("as saved", tensors, change) for change in length_edits(saved)]
    if name == "esm":
        files += [(what, edited, {}) for what, edited in frequency_edits(tensors)]
    worst = 0
    for what, edited, change in files:
        transformers.modeling_utils.safe_save_file(edited, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(changed(saved, change)))
        found, refused = compare(folder, name)
        worst = max(worst, found)
        if found > WRONG or refused:
            print(f"  {what}; {change}: {found:.1e}{' refused ' if refused else ''}{', '.join(sorted(refused))}", flush=True)
    print(f"{name}: {len(files)} files, {worst:.1e}", flush=True)
    return worst


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    worst = 0
    for name in sys.argv[1:] or sorted(SAVED.keys() - UNEVEN):
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check(name, Path(scratch)))
    sys.exit(not worst <= WRONG)


if __name__ == "__main__":
    main()
