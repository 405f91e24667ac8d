#!/usr/bin/env python3
"""pytorch_model.bin, or its shards, to model.safetensors beside it: what headscope and everybody else opens safely.

    python3 convert.py FOLDER

Needs PyTorch alone. Every tensor is kept as it is, prediction heads too. The pickle is read with weights_only, so
that nothing in it is run.
"""
import json
import struct
import sys
from pathlib import Path

import torch

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}


def read(folder):
    """Tensors of the pickle or of all its shards, by name."""
    index = folder / "pytorch_model.bin.index.json"
    files = ["pytorch_model.bin"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    tensors = {}
    for file in files:
        tensors.update(torch.load(folder / file, map_location="cpu", weights_only=True))
    return {name: value for name, value in tensors.items() if isinstance(value, torch.Tensor)}


def write(path, tensors):
    """u64 length of the header, the header in JSON, then the tensors' bytes one after the other."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    unfinished = folder / "model.safetensors.part"
    write(unfinished, read(folder))
    unfinished.rename(folder / "model.safetensors")


if __name__ == "__main__":
    main()
