"""headscope beside ONNX Runtime and PyTorch, on the same checkpoint, alternating in one run.

    make bench-peers                     # or: run.py ENGINE_PEER HEADSCOPE [--tokens 32,128,512] [--rounds 9]

A random checkpoint of BERT-base's shape is made first. Each round runs every program once at each length, one after
another, so that all see the same machine; a ratio is the median over rounds of (theirs / ours). Pinned to one core,
then on all. Last the whole request, layers: "all" as JSON, against python_server.py.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import checkpoint  # noqa: E402

BERT_BASE = {"n_layers": 12, "n_heads": 12, "hidden": 768, "ffn": 3072, "vocab": 30522, "positions": 512}


class Peer:
    """A program that answers 'milliseconds checksum' to a line with T."""

    def __init__(self, name, command, cores):
        self.name = name
        env = dict(os.environ, OMP_NUM_THREADS=str(len(cores)), OPENBLAS_NUM_THREADS=str(len(cores)))
        self.process = subprocess.Popen(["taskset", "-c", ",".join(map(str, cores)), *map(str, command)], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{name} did not start")

    def run(self, tokens):
        self.process.stdin.write(f"{tokens}\n")
        self.process.stdin.flush()
        ms, checksum = self.process.stdout.readline().split()
        return float(ms), float(checksum)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peers_for(folder, graph, engine_peer, cores):
    n = len(cores)
    commands = {"headscope": [engine_peer, folder, n],
                "headscope openblas": [engine_peer, folder, n, "openblas"],
                "headscope bf16": [engine_peer, folder, n, "onednn", "bf16"],
                "ONNX Runtime": ["node", "onnx_peer.mjs", graph, n],
                "PyTorch": [sys.executable, "torch_peer.py", folder, n]}
    started = []
    for name, command in commands.items():
        try:
            started.append(Peer(name, command, cores))
        except (RuntimeError, OSError) as e:
            print(f"  left out: {e}")
    return started


def measure_engines(folder, graph, args, cores):
    """[{cores, tokens, name, ms, ratio}]; ratio is theirs / ours."""
    peers, rows = peers_for(folder, graph, args.engine_peer, cores), []
    for tokens in args.tokens:
        times, checksums = {p.name: [] for p in peers}, {}
        for peer in peers:
            peer.run(tokens)
        for _ in range(args.rounds):
            for peer in peers:
                ms, checksums[peer.name] = peer.run(tokens)
                times[peer.name].append(ms)
        ours = times["headscope"]
        for name, theirs in times.items():
            wrong = abs(checksums[name] - checksums["headscope"]) > 0.02 * abs(checksums["headscope"]) + 1e-6
            rows.append({"cores": len(cores), "tokens": tokens, "name": name, "ms": statistics.median(theirs),
                         "ratio": statistics.median(t / o for t, o in zip(theirs, ours)), "same_result": not wrong})
            print(f"{len(cores):5} {tokens:6}   {name:20} {rows[-1]['ms']:9.1f} ms   {rows[-1]['ratio']:6.2f}"
                  f"{'   RESULTS DIFFER' if wrong else ''}", flush=True)
    for peer in peers:
        peer.close()
    return rows


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        size = len(answer.read())
    return 1e3 * (time.perf_counter() - start), size


def measure_request(folder, args, cores):
    """The whole request over HTTP, all attentions and similarities as JSON, 128 tokens."""
    ours = subprocess.Popen([args.headscope, "serve", "--listen", "127.0.0.1:0", "--model", f"base={folder}"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    theirs = subprocess.Popen([sys.executable, "python_server.py", folder, str(len(cores))], cwd=HERE,
                              stdout=subprocess.PIPE, text=True)
    url = next(word for line in ours.stdout for word in line.split() if word.startswith("http://"))
    text = " ".join(["the"] * 126)
    ids = [101, *[1996] * 126, 102]
    requests = [(url.rstrip("/") + "/analyze",
                 {"text": text, "layers": "all", "outputs": ["attentions", "similarities"]}),
                (f"http://127.0.0.1:{int(theirs.stdout.readline())}/", {"input_ids": ids})]
    times = [[], []]
    for _ in range(args.rounds + 1):
        for n, (where, body) in enumerate(requests):
            times[n].append(post(where, body)[0])
    for process in (ours, theirs):
        process.terminate()
        process.wait()
    return {"headscope_ms": statistics.median(times[0][1:]), "python_ms": statistics.median(times[1][1:]),
            "ratio": statistics.median(t / o for t, o in zip(times[1][1:], times[0][1:]))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("engine_peer", type=Path)
    parser.add_argument("headscope", type=Path)
    parser.add_argument("--tokens", type=lambda s: [int(t) for t in s.split(",")], default=[32, 128, 512])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    args.engine_peer, args.headscope = args.engine_peer.resolve(), args.headscope.resolve()
    every = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as scratch:
        folder, graph = f"{scratch}/base", f"{scratch}/base.onnx"
        checkpoint.write_random(folder, **BERT_BASE)
        subprocess.run([sys.executable, HERE / "onnx_graph.py", folder, graph], check=True)
        print("cores tokens   program                   median      theirs / headscope")
        engines = [row for cores in ([every[:1], every] if len(every) > 1 else [every])
                   for row in measure_engines(folder, graph, args, cores)]
        request = measure_request(folder, args, every)
        print(f"whole request, 128 tokens, layers all, JSON: headscope {request['headscope_ms']:.0f} ms, Python with "
              f"PyTorch, NumPy and json {request['python_ms']:.0f} ms, ratio {request['ratio']:.1f}")
    if args.json:
        args.json.write_text(json.dumps({"engines": engines, "request": request}, indent=1))


if __name__ == "__main__":
    main()
