"""Runs every output of one layer on a text of 8,192 tokens: processor time, peak memory and size, or why it is refused.

    python3 tests/bench/long_outputs.py build/headscope SHAPE [OUTPUT...]     # modernbert or gpt_neox; --tokens N

The models are random, with 12 heads and hidden size 768: ModernBERT-base's shape with one layer of full attention, and
Pythia-160M's with two layers.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {"modernbert": {"n_layers": 1, "ffn": 1152, "window": 128}, "gpt_neox": {"n_layers": 2, "ffn": 3072}}
WRITE = f"""import importlib, pathlib, sys
more = {SHAPES}[sys.argv[1]]
importlib.import_module("family_" + sys.argv[1]).write_random(
    pathlib.Path(sys.argv[2]), n_heads=12, hidden=768, positions=int(sys.argv[3]), vocab=8192, **more)"""
ONE_HEAD = ["--heads", "0"]
SLICE = ["--rows", "0,200", "--columns", "0,200"]
CHANGED = ["--interventions", '[{"layers": [0], "heads": [0], "kind": "zero"}]']
# A row is a name, its outputs and options. Outputs that are maps are of one head: 268 MB each.
ROWS = [(f"{name}, 1 head", name, ONE_HEAD)
        for name in ("attentions", "similarities", "scores", "weighted_norms", "effective_attentions")]
ROWS += [("attentions", "attentions", [])]
ROWS += [(name, name, []) for name in (
    "mean_pooled_attentions", "max_pooled_attentions", "mean_pooled_similarities", "max_pooled_similarities",
    "head_outputs", "hidden_states", "queries", "keys", "values", "value_norms", "pairs", "summary", "profiles",
    "segments", "contributions", "head_distances", "effects", "embedding")]
ROWS += [("regions, 1 head", "regions", ONE_HEAD), ("sliced_attentions", "sliced_attentions", SLICE),
         ("sliced_similarities", "sliced_similarities", SLICE),
         ("head_distances, js", "head_distances", ["--head-distance", "js"]),
         ("rollout", "rollout", []), ("rollout, --max-maps 2G", "rollout", ["--max-maps", "2G"]),
         ("alti", "alti", []), ("alti, --max-maps 2G", "alti", ["--max-maps", "2G"]),
         ("summary and changes", "summary", CHANGED), ("summary and changes, 1 head", "summary", CHANGED + ONE_HEAD),
         ("predictions", "predictions", ["--predictions", '{"positions": "all"}']), ("loss", "loss", []),
         ("value_zeroing", "value_zeroing", [])]


def run(program, model, text, tokens, layer, outputs, more, limit):
    """Returns processor seconds, peak MB, answer MB and what the program said."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.npz"
        command = [program, "analyze", "--model", model, "--layers", str(layer), "--max-tokens", str(tokens),
                   "--outputs", outputs, "-o", answer, *more, text]
        with open(Path(folder) / "said", "w+b") as said:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
            signal.signal(signal.SIGALRM, lambda *_: process.kill())
            signal.alarm(limit)
            _, status, usage = os.wait4(process.pid, 0)
            signal.alarm(0)
            process.returncode = status
            said.seek(0)
            words = said.read().decode().strip().splitlines()
        if status == signal.SIGKILL:
            words = [f"stopped after {limit} s"]
        size = answer.stat().st_size / 1e6 if answer.exists() else 0
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, size, words[0] if status and words else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--limit", type=int, default=600, help="seconds of an output")
    options = parser.parse_args()
    vocabulary = ROOT / "model/mini/vocab.txt"
    layer = SHAPES[options.shape]["n_layers"] - 1
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        # By another process: the peak memory of a process counts its parent's.
        subprocess.run([sys.executable, "-c", WRITE, options.shape, model, str(options.tokens)], check=True,
                       cwd=ROOT / "tests/reference")
        shutil.copy(vocabulary, model)
        text = Path(folder) / "text.txt"
        pages = [page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))]
        text.write_text("\n\n".join(pages)[:12 * options.tokens])
        for name, outputs, more in ROWS:
            if options.names and name.split(",")[0] not in options.names:
                continue
            seconds, peak, size, said = run(options.program, model, text, options.tokens, layer,
                                            outputs, more, options.limit)
            print(f"| {name} | {seconds:.1f} s | {peak:.0f} MB | {said or f'{size:.1f} MB'} |", flush=True)


main()
