"""A real checkpoint of BERT's shape: headscope's arrays beside those of HuggingFace's own forward pass in float64.

    python3 tests/reference/real_model.py build/headscope MODEL_DIR TEXTS.jsonl [N]

Needs torch and transformers, for example in a virtual environment, and prints their versions. Compares N texts (20),
cut at 128 and at 256 tokens. Prints the largest difference of any head's attention map and of any hidden state, over
its maximum. Exits 1 above 1e-5, or when a token differs.
"""
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python"))
import headscope  # noqa: E402


def worst_of(ours, theirs):
    """The largest difference over the maximum, map by map."""
    theirs = np.stack([t[0].numpy() for t in theirs])
    axes = (-2, -1)
    return float((np.abs(theirs - ours).max(axes) / np.abs(theirs).max(axes)).max())


def main(binary, folder, texts_path, n_texts=20):
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with open(texts_path, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in itertools.islice(lines, int(n_texts))]
    worst = {"attentions": 0.0, "hidden_states": 0.0}
    with headscope.start("--model", f"real={folder}", binary=binary) as client:
        for text, n_tokens in itertools.product(texts, (128, 256)):
            answer = client.analyze(text, layers="all", max_tokens=n_tokens, outputs=list(worst))
            encoded = tokenizer(text, truncation=True, max_length=n_tokens, return_tensors="pt")
            if encoded["input_ids"][0].tolist() != answer.input_ids.tolist():
                sys.exit(f"other tokens: {text!r}")
            with torch.no_grad():
                reference = model(**encoded, output_attentions=True, output_hidden_states=True)
            for name in worst:
                worst[name] = max(worst[name], worst_of(answer[name], getattr(reference, name)))
    print(f"transformers {transformers.__version__}, torch {torch.__version__}:", worst)
    sys.exit(max(worst.values()) > 1e-5)


if __name__ == "__main__":
    main(*sys.argv[1:])
