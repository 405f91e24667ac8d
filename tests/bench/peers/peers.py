"""headscope beside ONNX Runtime, OpenVINO and PyTorch, on the same checkpoint, alternating in one run.

    make bench-peers        # or: peers.py ENGINE_PEER HEADSCOPE [--shapes base,minilm,gpt2] [--tokens 32,128,512] [--rounds 5]

The checkpoints are random ones of the shapes in models.py: BERT-base's at all lengths, the others at 128 tokens. Every
program gets the same token ids and keeps all attentions and similarities. headscope and those named "pairs" also find
the high-similarity pairs. A program gets the number of threads, and is pinned to as many cores. OpenVINO and PyTorch run
in the interpreter --python, for which `make bench-peers` makes an environment. Absent programs are left out. The
results are compared as two sums over all of them, and as the number of pairs. Then rounds. In each, every program runs twice in a
row at each length, one program after another. The second run counts, so all see the same machine with their own
weights in the cache. A pause before the first lets the threads of the one before fall asleep. A ratio is the median over rounds
of theirs / ours. A round beside which other programs took more than machine.LIMIT of the machine is thrown away. The
figures say how much others took beside the rounds that are left. --cpu-time is for a machine in use. It measures one
core, in CPU time in place of the clock, so that a program does not pay for those that it waits for. It keeps all rounds.
--quick runs one round and keeps it.

Last the whole request, layers: "all" as JSON, against python_server.py, on texts never seen before.

The protocol: a line "T" is answered with the milliseconds of a pass over T tokens with ids (7919 i + 13) mod 1000. A
line "T check" is answered with the sum of A squared, the sum of |S| off the diagonal and, by those who find the pairs,
their number.
"""
import argparse
import json
import math
import os
import re
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

    def run(self, tokens, cpu_time=False):
        """(milliseconds of the second of two runs, seconds of the machine's cores that others took beside both, seconds that
        there were). Nothing stands between the two: what the first left in the caches must stay."""
        time.sleep(PAUSE)
        watch = machine.Watch()
        self.ask(f"{tokens}")
        before = machine.cpu_seconds(self.process.pid)
        ms, = self.ask(f"{tokens}")
        cpu_ms = 1e3 * (machine.cpu_seconds(self.process.pid) - before)
        return cpu_ms if cpu_time else ms, *watch.taken()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def programs(folder, graphs, args, n):
    """(our programs, [those of one engine]), each a name -> command. Without an int8 graph also PyTorch is left out: both
    read BERT alone."""
    ours = {"headscope": [args.engine_peer, folder, n],
            "headscope, OpenBLAS": [args.engine_peer, folder, n, "openblas"],
            "headscope, bf16": [args.engine_peer, folder, n, "native", "bf16"],
            "headscope, int8": [args.engine_peer, folder, n, "native", "int8"]}
    onnx = {"ONNX Runtime": ["node", "onnx_peer.mjs", graphs["fp32"], n],
            "ONNX Runtime, pairs": ["node", "onnx_peer.mjs", graphs["pairs"], n]}
    openvino = {f"OpenVINO{label}{more}": [args.python, "openvino_peer.py", graphs[graph], n, precision]
                for label, precision in (("", "f32"), (", bf16", "bf16"))
                for more, graph in (("", "fp32"), (", pairs", "pairs"))}
    torch = {}
    if "int8" in graphs:
        onnx["ONNX Runtime, int8"] = ["node", "onnx_peer.mjs", graphs["int8"], n]
        torch = {", ".join(["PyTorch", *options]): [args.python, "torch_peer.py", folder, n, *options]
                 for options in ([], ["pairs"], ["bf16"], ["bf16", "pairs"])}
    return ours, [engine for engine in (onnx, openvino, torch) if engine]


def start(commands, cores):
    """Starts what can be started."""
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
        tolerance = 0.02 if "bf16" in peer.name or "int8" in peer.name else 1e-4
        agree[peer.name] = all(math.isclose(a, b, rel_tol=tolerance)
                               for a, b in zip(peer.ask(f"{tokens} check"), expected, strict=True))
    return agree


def ours_beside(name):
    """Our program of the same precision."""
    return "".join(["headscope", *(f", {precision}" for precision in ("bf16", "int8") if precision in name)])


def ratio(theirs, ours):
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True)) if ours else None


def measure_rounds(peers, tokens, args):
    """(name -> milliseconds, the part of the machine that others took) of rounds that were not disturbed. Gives up after
    three times as many."""
    kept = []
    for _ in range(3 * args.rounds):
        runs = {peer.name: peer.run(tokens, args.cpu_time) for peer in peers}
        times = {name: ms for name, (ms, _, _) in runs.items()}
        others = max(0.0, sum(taken for _, taken, _ in runs.values()) / sum(seconds for _, _, seconds in runs.values()))
        if args.cpu_time or args.quick or others <= machine.LIMIT:
            kept.append((times, others))
        if len(kept) == args.rounds:
            break
    else:
        print(f"{tokens} tokens left out: other programs took more than {machine.LIMIT:.0%} of the machine beside all "
              f"but {len(kept)} of {3 * args.rounds} rounds")
        return {}, 0
    return ({peer.name: [times[peer.name] for times, _ in kept] for peer in peers},
            statistics.median(others for _, others in kept))


def measure_group(peers, cores, lengths, args):
    """The rows of programs that run side by side: {cores, tokens, name, ms, ratio, same_result, others}.
    A ratio is theirs / ours in the same precision, None where the CPU lacks that."""
    rows = []
    for tokens in lengths:
        agree = check(peers, tokens)
        times, others = measure_rounds(peers, tokens, args)
        rows += [{"cores": len(cores), "tokens": tokens, "name": name, "ms": statistics.median(theirs),
                  "best_ms": min(theirs), "same_result": agree[name], "others": others,
                  "ratio": ratio(theirs, times.get(ours_beside(name)))}
                 for name, theirs in times.items()]
    return rows


def measure_engines(folder, graphs, args, cores, lengths):
    """The rows of all programs. One other engine after the other runs beside ours, for all at once take more than 23 GB
    at 512 tokens. Rows of our own programs were measured beside the first one."""
    ours, engines = programs(folder, graphs, args, len(cores))
    rows = []
    for engine in engines:
        peers, known = start(ours | engine, cores), {row["name"] for row in rows}
        if not rows or any(peer.name in engine for peer in peers):
            rows += [row for row in measure_group(peers, cores, lengths, args) if row["name"] not in known]
        for peer in peers:
            peer.close()
    rows.sort(key=lambda row: row["tokens"])
    for row in rows:
        print(f"{row['cores']:5} {row['tokens']:6}   {row['name']:21} {row['ms']:9.1f} {row['best_ms']:9.1f} "
              f"{row['ratio'] or math.nan:9.2f}"
              f"{'' if row['same_result'] else '   RESULTS DIFFER'}", flush=True)
    return rows


def measure_shape(shape, args):
    """The rows of measure_engines on one core and on all, with the shape as `model`."""
    folder = models.random_checkpoint(args.models / shape, shape).resolve()
    lengths = args.tokens if shape == "base" else [tokens for tokens in args.tokens if tokens == 128]
    with tempfile.TemporaryDirectory() as scratch:
        graphs = {kind: f"{scratch}/{shape}-{kind}.onnx" for kind in ("fp32", "pairs", "int8")
                  if kind != "int8" or shape not in models.WRITERS}
        for kind, graph in graphs.items():
            subprocess.run([sys.executable, HERE / "onnx_graph.py", folder, graph,
                            *([kind] if kind != "fp32" else [])], check=True)
        print(f"\n{shape}\ncores tokens   program                  median      best theirs / ours in the same precision")
        return [{"model": shape, **row} for cores in ([CORES[:1], CORES] if len(CORES) > 1 and not args.cpu_time else [CORES[:1]])
                for row in measure_engines(folder, graphs, args, cores, lengths)]


def openblas(headscope):
    """OpenBLAS's version and kernels, as `headscope version` names them."""
    said = subprocess.run([headscope, "version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"cblas \((.*)\)$", said, re.M)[1]


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
    theirs = subprocess.Popen([args.python, "python_server.py", folder, str(len(CORES))], cwd=HERE,
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round, disturbed or not")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has OpenVINO and PyTorch")
    parser.add_argument("--cpu-time", action="store_true", help="for a machine in use: CPU time of one core")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    if args.quick:
        args.rounds = 1
    print("load average before:", *os.getloadavg())
    figures = {"machine": machine.describe(len(CORES)), "cpu_time": args.cpu_time, "cblas": openblas(args.headscope)}
    print(figures["cblas"])
    engines = [row for shape in args.shapes for row in measure_shape(shape, args)]
    base = models.random_checkpoint(args.models / "base").resolve()
    request, others = (None, 0) if args.cpu_time else machine.undisturbed(lambda: measure_request(base, args), 1 if args.quick else 3)
    if others > machine.LIMIT and not args.quick:
        print("the whole request is left out: it was disturbed every time")
        request = None
    if args.json:
        args.json.write_text(json.dumps({**figures, "engines": engines, "request": request and {**request, "others": others}}, indent=1))
    if not all(row["same_result"] for row in engines):
        sys.exit("results differ")


if __name__ == "__main__":
    main()
