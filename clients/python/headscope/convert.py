"""pytorch_model.bin, or its shards, to model.safetensors beside it: what headscope and everybody else opens safely.

    python3 -m headscope.convert FOLDER

Needs PyTorch alone. Every tensor is kept as it is, prediction heads too. The pickle is read with weights_only, so
that nothing in it is run.
"""
import json
import struct
import sys
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError:
    sys.exit("headscope.convert needs PyTorch, which reads the file: pip install torch")

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}


def read(folder: Path) -> "dict[str, Any]":
    """Tensors of the pickle or of all its shards, by name."""
    index = folder / "pytorch_model.bin.index.json"
    files = ["pytorch_model.bin"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    tensors: dict[str, Any] = {}
    for file in files:
        tensors.update(torch.load(folder / file, map_location="cpu", weights_only=True))
    return {name: value for name, value in tensors.items() if isinstance(value, torch.Tensor)}


def write(path: Path, tensors: "dict[str, Any]") -> None:
    """u64 length of the header, the header in JSON, then the tensors' bytes one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
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


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    if not (folder / "pytorch_model.bin").is_file() and not (folder / "pytorch_model.bin.index.json").is_file():
        sys.exit(f"{folder} has no pytorch_model.bin")
    unfinished = folder / "model.safetensors.part"
    write(unfinished, read(folder))
    unfinished.rename(folder / "model.safetensors")


if __name__ == "__main__":
    main()
