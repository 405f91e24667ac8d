"""Writes files of attention arrays as other programs do, with numpy alone: arrays.py FOLDER"""

import sys
from pathlib import Path

import numpy as np

TOKENS = ["[CLS]", "The", "cat", "sat", ".", "The", "cat", "ran", "##s", ".", "[SEP]"]


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(48)
    n = len(TOKENS)
    attentions = softmax(3 * random.standard_normal((3, 1, 4, n, n))).astype("f4")  # as transformers' tuple
    outputs = (random.standard_normal((3, 4, n, 8)) + 2).astype("f4")
    np.savez(folder / "other.npz", tokens=TOKENS, attentions=attentions, head_outputs=outputs)
    np.savez_compressed(folder / "packed.npz", tokens=np.array(TOKENS), attentions=attentions[:, 0].astype("f2"))
    np.savez(folder / "nameless.npz", attentions=np.tril(np.ones((1, 1, 5, 5))) / np.arange(1, 6)[:, None])
    hostile = ['<img src=x onerror="document.title=1">', "\u202egnp.exe", "__proto__", "</script><b>", "\x1b[2J", "[SEP]"]
    np.savez(folder / "hostile<b>.npz", tokens=hostile, attentions=attentions[..., :6, :6] / attentions[..., :6, :6].sum(-1, keepdims=True))
    hooks = {f"blocks.{n}.attn.hook_pattern": attentions[n, 0] for n in range(3)}
    np.savez(folder / "hooks.npz", tokens=TOKENS, **hooks, **{f"blocks.{n}.attn.hook_z": outputs[n].swapaxes(0, 1) for n in range(3)})
    np.savez(folder / "hooks_some.npz", **{f"blocks.{n}.attn.hook_pattern": attentions[n] for n in (2, 1)})
    np.savez(folder / "hooks_uneven.npz", **{**hooks, "blocks.1.attn.hook_pattern": attentions[1, 0, :, 1:, 1:]})
    np.savez(folder / "tuple.npz", *attentions)
    np.savez(folder / "whole.npz", attentions)
    scores = np.zeros((1, 1, 5, 5))
    scores[0, 0, 2, 3] = -4.5
    np.savez(folder / "scores.npz", attentions=scores)
    np.savez(folder / "objects.npz", tokens=np.array(["a", None], dtype=object), attentions=scores[..., :2, :2] + 0.5)
    np.savez(folder / "short.npz", tokens=TOKENS[:4], attentions=attentions)
    np.savez(folder / "batch.npz", attentions=np.repeat(attentions, 2, 1))
    np.savez(folder / "elsewhere.npz", weights=attentions)
    cross = softmax(3 * random.standard_normal((2, 3, 4, 6))).astype("f4")
    both = {"attentions": cross, "stack": "cross", "tokens": ["<pad>", "▁Ein", "▁Haus", "</s>"]}
    source = {"source_tokens": ["▁A", "▁green", "▁ho", "use", ".", "</s>"]}
    np.savez(folder / "cross.npz", **both, **source, head_outputs=random.standard_normal((2, 3, 4, 5)).astype("f4"))
    np.savez(folder / "cross_plain.npz", **both)
    np.savez(folder / "wide.npz", attentions=cross)
    np.savez(folder / "cross_short.npz", **both, source_tokens=["a", "b"])
    np.savez(folder / "cross_long.npz", attentions=np.full((1, 1, 1, 513), 1 / 513), stack="cross")
    (folder / "cut.npz").write_bytes((folder / "other.npz").read_bytes()[:-40])
    (folder / "words.npz").write_text("no archive at all")
    np.save(folder / "single.npy", attentions)


main(Path(sys.argv[1]))
