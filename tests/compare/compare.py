#!/usr/bin/env python3
"""Compares the answers of two builds of headscope to the bit, and their speed.

    python3 tests/compare/compare.py OLD NEW [--models mini,distilbert] [--keep DIR]
    python3 tests/compare/compare.py OLD NEW --time [--alternations 9] [--base DIR]

The first form sends both the same requests, for the built-in model and for random checkpoints of odd shapes
(tests/reference/checkpoint.py). They cover every output of several texts in every format, options one by one, refusals,
tokens, models, other backends, and corpus runs. Numbers are compared as they are spelled and arrays byte for byte.
VOLATILE lists fields that may differ, and ADDED fields that only the new build may have. Prints every difference, and
exits with 1 if there is any.

The second form, in timing.py, measures them alternating. Run by hand: it needs two builds.
"""
import argparse
import ast
import contextlib
import gzip
import io
import json
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("reference", "bench")]
import checkpoint  # noqa: E402
import timing  # noqa: E402
from run import Server  # noqa: E402

# Names of fields whose values say when or by whom, not what.
VOLATILE = {"headscope", "date", "seconds", "instance", "detail", "id", "created", "started", "finished",
            "texts_per_second", "eta_seconds"}
# Names of fields that NEW may have in addition, at any depth, and new members of archives.
ADDED = {"precision", "causal"}  # of corpus runs and of models
HEADERS = ("Content-Type", "Content-Encoding", "Vary", "Allow", "Cache-Control", "Retry-After")

OUTPUTS = ["attentions", "similarities", "head_outputs", "hidden_states", "pairs", "regions", "segments", "summary"]
SENTENCES = ("The war ended in the city. The police were at the airport! Was the city at war? "
             "It was; the police of the city, on the whole, were for it.")
TEXTS = {
    "empty": {"text": ""},
    "letter": {"text": "a"},
    "sentences": {"text": SENTENCES},
    "unicode": {"text": "Naïve café — “東京” İstanbul ΣΑΣ 😀 e\u0301 \u00ad x\u0000y\u200b.\tÅngström ﬁn\r\n2²"},
    "pair": {"text": "The city was at war.", "text_pair": "Police, police! An airport is a city in it."},
    "mask": {"text": "Paris is the [MASK] of France. [SEP] was [CLS] [UNK] [PAD] [mask]"},
    "cut": {"text": SENTENCES, "max_tokens": 7},
    "long word": {"text": "a" * 101 + " " + "b" * 100},
}
WINDOW = {"text": (SENTENCES + " ") * 40, "max_tokens": 128}
# Each beside the sentences, all layers, and maps, pairs and figures.
OPTIONS = [
    {"normalize": "max"}, {"reduce": "sum"}, {"reduce": "mean"}, {"reduce": "sum", "normalize": "max"},
    {"reduce": "mean", "outputs": ["attentions", "head_outputs", "segments"]},
    {"special_tokens": "mask"}, {"split_special_tokens": True}, {"threshold": 0.05}, {"threshold": 1},
    {"attention_threshold": 0.9}, {"max_pairs": 0}, {"max_pairs": 7}, {"digits": 1}, {"digits": 9},
    {"outputs": ["mean_pooled_attentions", "max_pooled_similarities", "sliced_attentions"], "pool": 3, "rows": [1, 4]},
    {"layers": "last"}, {"layers": [0]}, {"layers": [-1, 0]}, {"heads": [0]}, {"heads": [-1, 0]},
    {"layers": [0], "outputs": ["hidden_states"]}, {"outputs": ["segments"]}, {"outputs": ["pairs"]}, {"outputs": []},
    {"max_tokens": 2}, {"model": None},
]
# Outputs of passes of their own, of figures of heads, and of predictions.
EXPERIMENTS = [
    {"outputs": ["profiles", "effects", "head_scores", "value_zeroing"]},
    {"outputs": ["contributions", "alti", "rollout", "head_distances", "weighted_norms"]},
    {"outputs": ["effects", "changes"], "interventions": [{"kind": "zero", "layers": [0], "heads": [0]}]},
    {"outputs": ["effects", "patch_map"], "effects_of": {"kind": "patch", "from": {"text": SENTENCES.replace("war", "city")}},
     "target": {"tokens": ["city", "war"], "position": 2}, "layers": [0]},
    {"predictions": {"positions": "all", "lens": True}}, {"outputs": ["effects", "changes"]},
]
BINARY_OPTIONS = [
    {"dtype": "f2"}, {"dtype": "u1"}, {"dtype": "u1", "normalize": "max"}, {"dtype": "f2", "normalize": "max"},
    {"dtype": "f2", "reduce": "mean"}, {"dtype": "u1", "special_tokens": "mask", "normalize": "max"},
]
REFUSED = [b"", b"{", b'{"text": 1}', b'{"text": "a", "text": "b"}', b'{"txt": "a"}', b'{"text": "\xff"}', b"[]",
           b'{"text": "a", "layers": [99]}', b'{"text": "a", "heads": [-99]}', b'{"text": "a", "outputs": ["x"]}',
           b'{"text": "a", "threshold": 0}', b'{"text": "a", "max_tokens": 1}', b'{"text": "a", "max_tokens": 9999}',
           b'{"text": "a", "model": "nobody"}', b'{"text": "a", "digits": 10}', b'{"text": "\\ud800"}',
           b'{"text": "a"} b', b'{"text_pair": "a"}', b'{"text": "a", "reduce": "max", "dtype": "i8"}']
CORPUS = ["The war ended. The war of the city ended in the city, and the war went on.", "", "a", "Naïve 東京, café!",
          SENTENCES, SENTENCES * 9, "[MASK] [SEP] is text.", "it it it it it, it.", "Police. Police! Police?"]


# ---- requests ----


def analyses(model):
    """(label, path, body or None, headers) of all requests about one model."""
    def one(label, query, **fields):
        return f"{model}: {label}{query}", "/analyze" + query, json.dumps({"model": model, **fields}).encode(), {}

    for name, text in TEXTS.items():
        yield f"{model}: tokens of {name}", "/tokenize", json.dumps({"model": model, **text}).encode(), {}
        for query in ("", "?format=npz", "?format=safetensors"):
            yield one(name, query, **text, layers="all", outputs=OUTPUTS)
    for query in ("?format=npz", "?format=safetensors"):
        yield one("window", query, **WINDOW, layers="all", outputs=OUTPUTS)
    yield one("window", "", **WINDOW)
    yield one("the window's last head", "", **WINDOW, heads=[-1], outputs=OUTPUTS)
    few = {"layers": "all", "outputs": ["attentions", "similarities", "pairs", "regions", "segments", "summary"]}
    for option in OPTIONS:
        yield one(option, "", **{**TEXTS["sentences"], **few, **option})
        yield one(option, "?format=safetensors", **{**TEXTS["pair"], **few, **option})
    for option in BINARY_OPTIONS:
        for query in ("?format=npz", "?format=safetensors"):
            yield one(option, query, **{**TEXTS["sentences"], **few, "outputs": OUTPUTS, **option})
    for option in EXPERIMENTS:
        for query in ("", "?format=npz"):
            yield one(option, query, **{**TEXTS["sentences"], "layers": "all", "outputs": [], **option})


def others():
    """Requests that are about no model in particular."""
    for path in ("/health", "/ready", "/nowhere", "/analyze", "/corpora"):
        yield path, path, None, {}
    for body in REFUSED:
        yield f"refused: {body}", "/analyze", body, {}
        yield f"tokens refused: {body}", "/tokenize", body, {}
    text = json.dumps(TEXTS["sentences"]).encode()
    yield "an unknown format", "/analyze?format=xml", text, {}
    for name, value in (("Accept", "application/x-npz"), ("Accept", "image/png"), ("Accept", "*/*;q=0.1, text/html"),
                        ("Accept", "application/x-safetensors;q=0.4, application/json;q=0.3"),
                        ("Accept-Encoding", "gzip"), ("Accept-Encoding", "gzip;q=0"), ("Content-Type", "text/plain")):
        yield f"{name}: {value}", "/analyze", text, {name: value}
    # After answers that have the models' hashes, which are not waited for here.
    yield "/models", "/models", None, {}


# ---- answers ----


def ask(server, path, body, headers):
    """(status, headers, body) of one answer."""
    request = urllib.request.Request(server.url + path, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


def differences(old, new, at=""):
    """Paths at which two parsed JSON values differ; numbers are compared as they were spelled."""
    if isinstance(old, dict) and isinstance(new, dict):
        order = [name for name in new if name in old]
        if order != [name for name in old if name in new]:
            yield f"{at}: the fields' order"
        for name in {**old, **new}:
            if name in VOLATILE or name in ADDED and name not in old:
                continue
            if name not in old or name not in new:
                yield f"{at}/{name}: only in {'NEW' if name in new else 'OLD'}"
            else:
                yield from differences(old[name], new[name], f"{at}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new)):
            yield from differences(*pair, f"{at}/{number}")
    elif old != new:
        yield f"{at}: {str(old)[:60]} | {str(new)[:60]}"


class Spelled(str):
    """A number as it was written: 1 and 1.0 differ, and so do a number and a string."""

    def __eq__(self, other):
        return isinstance(other, Spelled) and str.__eq__(self, other)

    __hash__ = str.__hash__


def parsed(text):
    text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text  # where it was quick enough
    return json.loads(text, parse_float=Spelled, parse_int=Spelled)


def npy_fields(member):
    """The contents of a .npy, without the spacing of its header."""
    header = ast.literal_eval(member[10:member.index(b"\n")].decode())
    return {**header, "bytes": member[member.index(b"\n") + 1:]}


def npz_fields(body):
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        members = {name.removesuffix(".npy"): npy_fields(archive.read(name)) for name in archive.namelist()}
    if "provenance" in members:
        members["provenance"] = parsed(members["provenance"]["bytes"].decode("utf-32-le").rstrip("\0"))
    return members


def safetensors_fields(body):
    (size,) = struct.unpack("<Q", body[:8])
    header, data = parsed(body[8:8 + size]), body[8 + size:]
    fields = {"__metadata__": header.pop("__metadata__")}
    for name, entry in header.items():
        begin, end = map(int, entry.pop("data_offsets"))
        fields[name] = {**entry, "bytes": data[begin:end]}
    return fields


def fields(kind, body):
    if "json" in kind:
        return parsed(body)
    if "npz" in kind:
        return npz_fields(body)
    if "safetensors" in kind:
        return safetensors_fields(body)
    return body


def answer_differences(old, new):
    """Yields the differences of two answers of ask()."""
    if old[0] != new[0]:
        yield f"status: {old[0]} | {new[0]}"
        return
    for name in HEADERS:
        if old[1][name] != new[1][name]:
            yield f"{name}: {old[1][name]} | {new[1][name]}"
    old_body, new_body = (gzip.decompress(answer[2]) if answer[1]["Content-Encoding"] == "gzip" else answer[2]
                          for answer in (old, new))
    if old_body != new_body:
        kind = old[1]["Content-Type"] or ""
        yield from differences(fields(kind, old_body), fields(kind, new_body))


# ---- the two side by side ----


class Tally:
    """Counts what was compared and prints what differs."""

    def __init__(self):
        self.compared = self.different = 0

    def add(self, label, found):
        found = list(found)
        self.compared += 1
        self.different += bool(found)
        for line in found[:5]:
            print(f"{label}\n    {line}" + (f"    ({len(found)} differences)" if line is found[0] else ""), flush=True)


def write_models(folder, chosen):
    """name -> folder of mini and the random checkpoints, those that were chosen; made when not there."""
    made = {"mini": Path(__file__).resolve().parents[2] / "model/mini"}
    for seed, (name, variant) in enumerate(checkpoint.VARIANTS.items()):
        made[name] = folder / name
        if not made[name].exists():
            checkpoint.write_random(made[name], seed=seed, **variant)
    return {name: folder for name, folder in made.items() if chosen is None or name in chosen}


def served(binary, models, cores, *options):
    named = [f"{name}={folder}" for name, folder in models.items()]
    return Server(binary, None, cores, *(part for one in named for part in ("--model", one)), *options)


def compare_answers(tally, binaries, models, requests, cores, *options):
    with contextlib.ExitStack() as stack:
        old, new = (stack.enter_context(served(binary, models, cores, *options)) for binary in binaries)
        for label, *request in requests:
            tally.add(" ".join((*options[:2], label)), answer_differences(ask(old, *request), ask(new, *request)))


def compare_backends(tally, binaries, models):
    """Products of other libraries depend on how a pass was shared out, so these have one core."""
    some = {name: folder for name, folder in models.items() if name in ("mini", "wide_heads", "distilbert", "bf16")}
    for options in (("--backend", "openblas"), ("--precision", "bf16"), ("--precision", "int8")):
        if all(subprocess.run([binary, "analyze", *options, "/dev/null"], capture_output=True).returncode == 0
               for binary in binaries):
            requests = [request for name in some for request in analyses(name) if "safetensors" in request[1]]
            compare_answers(tally, binaries, some, requests, timing.CORES[:1], *options)
        else:
            print(f"not compared: {' '.join(options)}, which one of them refuses here")


def run(binary, *arguments, folder=None):
    return subprocess.run([binary, *map(str, arguments)], cwd=folder, check=True, capture_output=True).stdout


def report_files(folder):
    return {"report.npz": npz_fields((folder / "report.npz").read_bytes()),
            "report.json": parsed((folder / "report.json").read_bytes())}


def compare_runs(tally, binaries, models, scratch):
    """Runs on the command line, whole and in shards."""
    texts = scratch / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in CORPUS * 5) + "{bad\n")
    sides = [scratch / side for side in ("old", "new")]
    for name, model in models.items():
        for way in ("whole", "shards"):
            reports = []
            for side, binary in zip(sides, binaries):
                folder = side / f"{name}-{way}"
                folder.mkdir(parents=True)
                options = [texts, "--model", model, "--max-tokens", 64]
                if way == "whole":
                    run(binary, "corpus", *options, "-o", "out", folder=folder)
                else:
                    for shard in range(3):
                        run(binary, "corpus", *options, "--workers", 1, "--shard", f"{shard}/3", "-o", shard,
                            "--thresholds", "0.2,0.5", folder=folder)
                    run(binary, "merge", 2, 0, 1, "-o", "out", folder=folder)
                reports.append(report_files(folder / "out"))
            tally.add(f"{name}: corpus, {way}", differences(*reports))


def corpus_over_http(binary, state):
    with Server(binary, None, timing.CORES, "--state", str(state)) as server:
        body = "".join(json.dumps(text) + "\n" for text in CORPUS * 5).encode()
        _, headers, _ = ask(server, "/corpora?name=one&max_tokens=32", body, {"Content-Type": "application/x-ndjson"})
        at = headers["Location"]
        while json.loads(ask(server, at, None, {})[2])["state"] in ("queued", "running"):
            time.sleep(0.05)
        return [ask(server, at + path, None, {}) for path in ("", "/report", "/report?format=npz")]


def compare_uploads(tally, binaries, scratch):
    old, new = (corpus_over_http(binary, scratch / f"state-{side}") for side, binary in enumerate(binaries))
    for label, *pair in zip(("its row", "its report", "its arrays"), old, new):
        tally.add(f"corpus over HTTP, {label}", answer_differences(*pair))


def compare_commands(tally, binaries, scratch):
    text = scratch / "text.txt"
    text.write_text(SENTENCES)
    for format in ("json", "npz", "safetensors"):
        out = [run(binary, "analyze", text, "--layers", "0,-1", "--outputs", ",".join(OUTPUTS), "--format", format)
               for binary in binaries]
        tally.add(f"headscope analyze --format {format}", differences(*(fields(format, answer) for answer in out)))


def compare(binaries, chosen, scratch):
    """The number of differences."""
    tally = Tally()
    models = write_models(scratch, chosen)
    requests = [*(request for name in models for request in analyses(name)), *others()]
    compare_answers(tally, binaries, models, requests, timing.CORES, "--max-answer", "1G")
    compare_answers(tally, binaries, {}, others(), timing.CORES)
    compare_backends(tally, binaries, models)
    compare_commands(tally, binaries, scratch)
    with tempfile.TemporaryDirectory() as runs:
        compare_runs(tally, binaries, models, Path(runs))
        compare_uploads(tally, binaries, Path(runs))
    print(f"{tally.compared} compared, {tally.different} differ")
    return tally.different


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("old", type=lambda path: str(Path(path).resolve()))
    options.add_argument("new", type=lambda path: str(Path(path).resolve()))
    options.add_argument("--models", type=lambda names: names.split(","), help="mini and the names of VARIANTS; all")
    options.add_argument("--keep", type=Path, help="where random checkpoints are made and left")
    options.add_argument("--time", action="store_true", help="how fast, not what")
    options.add_argument("--alternations", type=int, default=9)
    options.add_argument("--base", type=Path, default=Path("build/bench/base"), help="BERT-base's shape, for --time")
    options = options.parse_args()
    binaries = (options.old, options.new)
    if options.time:
        return timing.compare(binaries, options.alternations, options.base)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep.resolve() if options.keep else Path(scratch)
        folder.mkdir(exist_ok=True)
        return 1 if compare(binaries, options.models, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
