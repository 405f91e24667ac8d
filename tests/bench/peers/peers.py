"""headscope beside ONNX Runtime and PyTorch, on the same checkpoint, alternating in one run.

    make bench-peers        # or: peers.py ENGINE_PEER HEADSCOPE [--shapes base,minilm,gpt2] [--tokens 32,128,512] [--rounds 9]

The checkpoints are random ones of the shapes in models.py; of GPT-2's only fp32 is compared with ONNX Runtime. Every
program gets the same token ids and keeps all attentions and similarities. headscope and "ONNX Runtime, pairs" also find
the high-similarity pairs. A program gets the number of threads, and is pinned to as many cores. The results are
compared as two sums over all of them, and as the number of pairs. Then rounds. In each, every program runs twice in a
row at each length, one program after another. The second run counts, so all see the same machine with their own
weights in the cache. A pause before lets the threads of the one before fall asleep. A ratio is the median over rounds
of theirs / ours.

Last the whole request, layers: "all" as JSON, against python_server.py, on texts never seen before.

The protocol: a line "T" is answered with the milliseconds of a pass over T tokens with ids (7919 i + 13) mod 1000. A
line "T check" is answered with the sum of A squared, the sum of |S| off the diagonal and, by those who find the pairs,
their number.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "reference")]
import machine  # noqa: E402
import models  # noqa: E402
import texts  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))
PAUSE = 0.03


class Peer:
    """A program that speaks the protocol."""

    def __init__(self, name, command, cores):
        self.name = name
        env = dict(os.environ, OMP_NUM_THREADS=str(len(cores)), OPENBLAS_NUM_THREADS=str(len(cores)))
        self.process = subprocess.Popen(["taskset", "-c", ",".join(map(str, cores)), *map(str, command)], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, cwd=HERE)
        if self.process.stdout.readline().strip() != "ready":
            reason = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(f"{name}: {reason[-1] if reason else 'did not start'}")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def run(self, tokens):
        time.sleep(PAUSE)
        self.ask(f"{tokens}")
        return self.ask(f"{tokens}")[0]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start_peers(folder, graphs, engine_peer, cores):
    """Without an int8 graph also PyTorch is left out: both read BERT alone."""
    n = len(cores)
    commands = {"headscope": [engine_peer, folder, n],
                "headscope, OpenBLAS": [engine_peer, folder, n, "openblas"],
                "headscope, bf16": [engine_peer, folder, n, "native", "bf16"],
                "headscope, int8": [engine_peer, folder, n, "native", "int8"],
                "ONNX Runtime": ["node", "onnx_peer.mjs", graphs["fp32"], n],
                "ONNX Runtime, pairs": ["node", "onnx_peer.mjs", graphs["pairs"], n]}
    if "int8" in graphs:
        commands |= {"ONNX Runtime, int8": ["node", "onnx_peer.mjs", graphs["int8"], n],
                     "PyTorch": [sys.executable, "torch_peer.py", folder, n]}
    started = []
    for name, command in commands.items():
        try:
            started.append(Peer(name, command, cores))
        except (RuntimeError, OSError) as e:
            print(f"  left out: {e}")
    if not started or started[0].name != "headscope":
        sys.exit("headscope itself did not start")
    return started


def check(peers, tokens):
    """Checks that each peer has the first one's results: within 1e-4, or 2 % if its products have fewer bits."""
    ours = peers[0].ask(f"{tokens} check")
    agree = {}
    for peer in peers:
        expected = ours if peer.name.startswith("headscope") or peer.name.endswith("pairs") else ours[:2]
        tolerance = 0.02 if peer.name.endswith(("bf16", "int8")) else 1e-4
        agree[peer.name] = all(math.isclose(a, b, rel_tol=tolerance)
                               for a, b in zip(peer.ask(f"{tokens} check"), expected, strict=True))
    return agree


def ratio(theirs, ours):
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True)) if ours else None


def measure_engines(folder, graphs, args, cores):
    """[{cores, tokens, name, ms, ratio, ratio_int8, same_result}]; ratios are theirs / ours, and theirs / ours in int8
    where the CPU has that."""
    peers, rows = start_peers(folder, graphs, args.engine_peer, cores), []
    for tokens in args.tokens:
        agree, times = check(peers, tokens), {peer.name: [] for peer in peers}
        for _ in range(args.rounds):
            for peer in peers:
                times[peer.name].append(peer.run(tokens))
        for name, theirs in times.items():
            rows.append({"cores": len(cores), "tokens": tokens, "name": name, "ms": statistics.median(theirs),
                         "best_ms": min(theirs), "same_result": agree[name],
                         "ratio": ratio(theirs, times["headscope"]),
                         "ratio_int8": ratio(theirs, times.get("headscope, int8"))})
            print(f"{len(cores):5} {tokens:6}   {name:20} {rows[-1]['ms']:9.1f} {min(theirs):9.1f} "
                  f"{rows[-1]['ratio']:9.2f} {rows[-1]['ratio_int8'] or math.nan:9.2f}"
                  f"{'' if agree[name] else '   RESULTS DIFFER'}", flush=True)
    for peer in peers:
        peer.close()
    return rows


def measure_shape(shape, args):
    """The rows of measure_engines on one core and on all, with the shape as `model`."""
    folder = models.random_checkpoint(args.models / shape, shape).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        graphs = {kind: f"{scratch}/{shape}-{kind}.onnx" for kind in ("fp32", "pairs", "int8")
                  if kind != "int8" or shape not in models.WRITERS}
        for kind, graph in graphs.items():
            subprocess.run([sys.executable, HERE / "onnx_graph.py", folder, graph,
                            *([kind] if kind != "fp32" else [])], check=True)
        print(f"\n{shape}\ncores tokens   program                 median      best theirs / ours, / ours in int8")
        return [{"model": shape, **row} for cores in ([CORES[:1], CORES] if len(CORES) > 1 else [CORES])
                for row in measure_engines(folder, graphs, args, cores)]


def post(url, body):
    """Milliseconds until the answer is read, and the answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        data = answer.read()
    return 1e3 * (time.perf_counter() - start), data


def alike(ours, theirs):
    """The largest difference of the attentions, which both gave."""
    import numpy as np
    a, b = (np.array(json.loads(data)["attentions"]) for data in (ours, theirs))
    return float(np.abs(a - b).max()) if a.shape == b.shape else math.inf


def measure_request(folder, args):
    """The whole request over HTTP, all attentions and similarities as JSON, 128 tokens, each text once."""
    ours = subprocess.Popen([args.headscope, "serve", "--listen", "127.0.0.1:0", "--model", f"base={folder}"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    theirs = subprocess.Popen([sys.executable, "python_server.py", folder, str(len(CORES))], cwd=HERE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = ours.stdout.readline().split()[-1]
        port = theirs.stdout.readline().strip()
        if not port:
            print("whole request left out: no PyTorch")
            return None
        for _ in range(1000):
            try:
                urllib.request.urlopen(url + "/ready")
                break
            except urllib.error.HTTPError:
                time.sleep(0.01)
        times, difference = [[], []], 0.0
        for text in texts.make(args.rounds + 1, 128):
            body = {"text": text, "max_tokens": 128, "layers": "all", "outputs": ["attentions", "similarities"]}
            ms, answer = post(url + "/analyze", body)
            other_ms, other = post(f"http://127.0.0.1:{port}/", {"input_ids": json.loads(answer)["input_ids"]})
            difference = max(difference, alike(answer, other))
            times[0].append(ms)
            times[1].append(other_ms)
    finally:
        for process in (ours, theirs):
            process.terminate()
            process.wait()
    ours, theirs = (t[1:] for t in times)
    figures = {"headscope_ms": statistics.median(ours), "python_ms": statistics.median(theirs),
               "ratio": statistics.median(t / o for t, o in zip(theirs, ours)), "attentions_differ_by": difference}
    print(f"whole request, 128 tokens, layers all, JSON: headscope {figures['headscope_ms']:.0f} ms, Python with PyTorch, "
          f"NumPy and json {figures['python_ms']:.0f} ms, ratio {figures['ratio']:.1f}; attentions differ by at most "
          f"{difference:.1e}")
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("engine_peer", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("headscope", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--models", type=Path, default=Path("build/bench"), help="where the checkpoints are, or are made")
    parser.add_argument("--shapes", type=lambda s: s.split(","), default=list(models.SHAPES))
    parser.add_argument("--tokens", type=lambda s: [int(t) for t in s.split(",")], default=[32, 128, 512])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    print("load average before:", *os.getloadavg())
    engines = [row for shape in args.shapes for row in measure_shape(shape, args)]
    request = measure_request(models.random_checkpoint(args.models / "base").resolve(), args)
    if args.json:
        args.json.write_text(json.dumps({"machine": machine.describe(len(CORES)), "engines": engines, "request": request}, indent=1))
    if not all(row["same_result"] for row in engines):
        sys.exit("results differ")


if __name__ == "__main__":
    main()
