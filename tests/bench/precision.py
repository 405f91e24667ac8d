"""What bf16 products change, beside fp32: python3 tests/bench/precision.py build/headscope

Attention maps, normalised similarities N = S / max, and the pairs with N >= 0.3, over every layer and head of some
texts, of the built-in model and of the random BERT-base.
"""
import argparse
import io
import subprocess
from pathlib import Path

import models
import numpy as np
import texts

THRESHOLD = 0.3


def analyze(headscope, model, text, precision):
    done = subprocess.run([headscope, "analyze", "--model", model, "--layers", "all", "--format", "npz", "--precision",
                           precision, "--outputs", "attentions,similarities"],
                          input=text.encode(), check=True, capture_output=True)
    maps = np.load(io.BytesIO(done.stdout))
    tokens = maps["similarities"].shape[-1]
    upper = maps["similarities"].astype(np.float64)[..., *np.triu_indices(tokens, 1)]
    return maps["attentions"].astype(np.float64), upper / upper.max(axis=-1, keepdims=True)


def compare(headscope, model, count):
    attention, similarity, changed, pairs = [], [], 0, 0
    for text in texts.make(count, 128):
        (a, n), (a16, n16) = (analyze(headscope, model, text, precision) for precision in ("fp32", "bf16"))
        attention.append(np.abs(a16 - a))
        similarity.append(np.abs(n16 - n))
        high, high16 = n >= THRESHOLD, n16 >= THRESHOLD
        changed += np.count_nonzero(high != high16)
        pairs += np.count_nonzero(high)
    return {"attention": np.concatenate([e.ravel() for e in attention]),
            "similarity": np.concatenate([e.ravel() for e in similarity]), "changed": changed / pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headscope")
    parser.add_argument("--model", type=Path, default=Path("build/bench/base"), help="made when it is not there")
    parser.add_argument("--texts", type=int, default=8)
    args = parser.parse_args()
    print(f"{'':18} {'attention':^27} {'normalised similarity':^27} {'pairs':>8}")
    print(f"{'model':18} {'mean':>8} {'99.9 %':>8} {'max':>8}   {'mean':>8} {'99.9 %':>8} {'max':>8}   {'changed':>8}")
    for name, model in (("mini", "mini"), ("random BERT-base", models.base(args.model))):
        found = compare(args.headscope, model, args.texts)
        print(f"{name:18}", end="")
        for kind in ("attention", "similarity"):
            errors = found[kind]
            print(f" {errors.mean():8.1e} {np.quantile(errors, 0.999):8.1e} {errors.max():8.1e}  ", end="")
        print(f" {found['changed']:8.2%}")


if __name__ == "__main__":
    main()
