"""Writes checkpoints for the browser tests into a folder. Most are mini with a random task head or as a sentence encoder.
Three are random models with mini's vocabulary: two causal ones, one of them for 32 tokens, and an encoder-decoder one,
which writes no token twice."""

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reference"))
import family_gpt2  # noqa: E402
import family_t5  # noqa: E402
import task_head  # noqa: E402

MINI = ROOT / "model/mini"
FILES = ("config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt")
HEADS = {
    "moods": ("SequenceClassification", ("angry", "calm", "merry")),
    "tagger": ("TokenClassification", ("O", "B-PER", "B-LOC")),
    "reader": ("QuestionAnswering", ("start", "end")),
}


def encoder(folder):
    """Writes mini as a sentence encoder whose prompts are left out of the mean."""
    (folder / "1_Pooling").mkdir(parents=True)
    for file in FILES:
        shutil.copy(MINI / file, folder)
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "mean", "include_prompt": False}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(
        {"prompts": {"query": "find this: ", "passage": "read this: "}, "default_prompt_name": "query"}))


def main(target):
    for name, (task, labels) in HEADS.items():
        folder = target / name
        folder.mkdir(parents=True)
        for file in FILES:
            shutil.copy(MINI / file, folder)
        task_head.add(folder, task, len(labels), id2label=dict(enumerate(labels)))
    encoder(target / "encoder")
    vocabulary = (MINI / "vocab.txt").read_text().splitlines()
    causal = family_gpt2.write_random(target / "causal", n_layers=4, n_heads=4, vocab=len(vocabulary), positions=2560)
    short = family_gpt2.write_random(target / "short", n_layers=2, n_heads=4, vocab=len(vocabulary), positions=32)
    writer = family_t5.write_random(target / "writer", seed=3, decoder=True, vocab=len(vocabulary))
    (writer / "generation_config.json").write_text(json.dumps(
        {"no_repeat_ngram_size": 1, "suppress_tokens": list(range(200))}))
    for folder in (causal, short, writer):
        shutil.copy(MINI / "vocab.txt", folder)


main(Path(sys.argv[1]))
