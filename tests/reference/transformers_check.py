#!/usr/bin/env python3
"""The program, and the references of this folder, against HuggingFace's own code: eager attention, float64.

    python3 -m venv DIR; DIR/bin/pip install numpy torch transformers
    HEADSCOPE=build/headscope DIR/bin/python tests/reference/transformers_check.py [FAMILY...]

Every random checkpoint of every family is opened by AutoModel, in the layout it has, and by the program; the
program's token ids go through both. Prints the versions and the largest differences, of maps as they are and of
hidden states as a part of their maximum; ends with 1 where one is over 1e-5. Ends with 0 where transformers is not
installed.
"""
import importlib
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
    sys.exit(0)

import checkpoint

TEXT = "the police at the airport were new \u6f22 the war was [MASK] long [PAD] an old office of the city as many said " * 4
FAMILIES = {path.stem.removeprefix("family_"): importlib.import_module(path.stem)
            for path in sorted(Path(__file__).parent.glob("family_*.py"))}
FAMILIES["bert"].VARIANTS |= checkpoint.VARIANTS
# What transformers 5 does not open: BERT under "model.", as another class saved it; NomicBERT's config as its authors
# wrote it, which came with their own code; a null that only version 4 understood.
UNREAD = {"bert model_prefix", "nomic_bert authors", "nomic_bert authors_pretraining", "nomic_bert authors_no_types",
          "modernbert null_theta_bf16"}
LIMIT = 1e-5


def huggingface(folder, ids, types):
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64)
    more = {"token_type_ids": torch.tensor(types)[None]} if "token_type_ids" in model.forward.__code__.co_varnames else {}
    with torch.no_grad():
        output = model.eval()(torch.tensor(ids)[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                              output_attentions=True, output_hidden_states=True, **more)
    states = [state[0].numpy() for state in output.hidden_states]
    states[-1] = output.last_hidden_state[0].numpy()  # before version 5 the list ends before the last norm
    return np.array([maps[0].numpy() for maps in output.attentions]), np.array(states)


def program(folder, output):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(output), "--outputs", "attentions,hidden_states", "-"]
    subprocess.run(command, input=TEXT.encode(), check=True)
    with np.load(output) as answer:
        return dict(answer)


def difference(found, expected):
    return np.abs(found - expected).max()


def check(module, variant, scratch):
    """Largest differences: program's maps and states, reference's maps and states."""
    folder = module.write_random(scratch / "model", seed=len(variant), **module.VARIANTS[variant])
    answer = program(folder, scratch / "answer.npz")
    ids, types = answer["input_ids"].astype(int), answer["token_type_ids"].astype(int)
    maps, states = huggingface(folder, ids, types)
    heads = module.forward(folder, ids, types)
    scale = max(1, np.abs(states).max())
    return (difference(answer["attentions"], maps), difference(answer["hidden_states"], states) / scale,
            difference(heads.attentions, maps), difference(heads.hidden_states, states) / scale)


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    print(f"{'':32} {'program':>9} {'states':>9} {'reference':>9} {'states':>9}")
    worst = 0
    every = [(family, variant) for family in sys.argv[1:] or FAMILIES for variant in FAMILIES[family].VARIANTS]
    for family, variant in every:
        if f"{family} {variant}" in UNREAD:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            found = check(FAMILIES[family], variant, Path(scratch))
        print(f"{family + ' ' + variant:32} " + " ".join(f"{value:9.1e}" for value in found))
        worst = max(worst, *found)
    sys.exit(not worst <= LIMIT)


if __name__ == "__main__":
    main()
