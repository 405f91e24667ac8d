"""Runs all measurements of `make bench`: passes and formats, start-up, throughput, follow-up requests, corpus runs,
batches of lines, families.

    make bench              # ten minutes; QUICK=1: a few minutes
    python3 tests/bench/run.py build/headscope build/bench/passes build/bench/load --json build/bench.json

Measures the built-in model and a random BERT-base, which is made on first use. Compared programs alternate in one run,
and a figure is a median. A part beside which other programs took more than a tenth of the machine is measured again, up
to three times. The clients (load.c) run on the same cores as the server; their share of the time is printed.
"""
import argparse
import functools
import json
import os
import resource
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import families
import machine
import models
import texts

CORES = sorted(os.sched_getaffinity(0))


class Server:
    """headscope serve on some cores, one worker on each."""

    def __init__(self, headscope, model, cores, *options):
        start = time.perf_counter()
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, cores)), headscope, "serve", "--listen", "127.0.0.1:0",
             "--workers", str(len(cores)), *(["--model", f"base={model}"] if model else []), *options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])
        while not self.is_ready():
            time.sleep(0.002)
        self.ready_ms = 1e3 * (time.perf_counter() - start)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"{self.url}/ready").status == 200
        except urllib.error.HTTPError:
            return False

    def memory(self, field):
        """VmRSS, VmHWM: in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
        return 0

    def ask(self, body, query=""):
        """Milliseconds until the answer is read, and the milliseconds of its stages."""
        request = urllib.request.Request(f"{self.url}/analyze{query}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        start = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            answer.read()
            ms = 1e3 * (time.perf_counter() - start)
            stages = dict(part.strip().split(";dur=") for part in answer.headers["Server-Timing"].split(","))
        return ms, {stage: float(duration) for stage, duration in stages.items()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stdout.close()


def run_passes(args, model, *options, **how):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([args.passes, "--model", model or "mini", "--json", file.name, *options], check=True, **how)
        return json.loads(Path(file.name).read_text())  # passes replaces the file


def measure_passes(args, model, name):
    print(f"\n== {name}: passes\n", flush=True)
    return run_passes(args, model, *(["--quick"] if args.quick else []))


def measure_start(args, model):
    """Exec to /ready, and memory then; the checkpoint is in the page cache after the first of them."""
    ready, resident = [], 0
    for _ in range(2 if args.quick else 4):
        with Server(args.headscope, model, CORES) as server:
            ready.append(server.ready_ms)
            resident = server.memory("VmRSS")
    figures = {"ready_ms": statistics.median(ready[1:]), "resident_bytes": resident}
    print(f"ready after {figures['ready_ms']:.0f} ms with {resident / 1e6:.1f} MB resident")
    return figures


def load(args, server, clients, seconds, bodies):
    done = subprocess.run([args.load, str(server.port), "/analyze", str(clients), str(seconds), bodies],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


# name, tokens, clients on all cores
WORKLOADS = [("128 tokens", 128, (1, 2, 8, 64)), ("16 tokens", 16, (1, 64))]


def measure_throughput(args, model, scratch):
    """Every head of every layer, answered with its strongest pairs, so that computing is what takes the time. The
    single-core rate is that of one worker and one client on one core, the clients' own CPU time on another."""
    rows, seconds, rounds = [], (1 if args.quick else 2), (1 if args.quick else 3)
    with Server(args.headscope, model, CORES[:1], "--cache", "0") as one, \
            Server(args.headscope, model, CORES, "--cache", "0") as every:
        for workload, tokens, counts in WORKLOADS:
            bodies = f"{scratch}/{tokens}.jsonl"
            Path(bodies).write_text("".join(
                json.dumps({"text": text, "max_tokens": tokens, "layers": "all", "outputs": ["pairs"],
                            "max_pairs": 10}) + "\n" for text in texts.make(32, tokens)))
            runs = [(one, 1, 1)] + [(every, len(CORES), clients) for clients in counts]
            taken = [[load(args, server, clients, seconds, bodies) for server, _, clients in runs]
                     for _ in range(rounds)]
            for n, (_, cores, clients) in enumerate(runs):
                mine = [one_round[n] for one_round in taken]
                row = {key: statistics.median(run[key] for run in mine)
                       for key in ("per_second", "p50_ms", "p99_ms", "own_cpu")}
                row |= {"workload": workload, "cores": cores, "clients": clients,
                        "failures": sum(run["failures"] for run in mine),
                        "efficiency": statistics.median(
                            one_round[n]["per_second"] / one_round[0]["per_second"] / cores for one_round in taken)}
                rows.append(row)
        peak = every.memory("VmHWM")
    print(f"\n{'texts of':>10} {'cores':>5} {'clients':>7} {'texts/s':>9} {'p50 ms':>9} {'p99 ms':>9} {'of ideal':>8} "
          f"{'driver':>7} {'failed':>6}")
    for row in rows:
        print(f"{row['workload']:>10} {row['cores']:5} {row['clients']:7} {row['per_second']:9.1f} {row['p50_ms']:9.1f} "
              f"{row['p99_ms']:9.1f} {row['efficiency']:8.2f} {row['own_cpu']:6.1%} {row['failures']:6.0f}")
    print(f"at most {peak / 1e6:.1f} MB were resident in the server")
    return {"rows": rows, "resident_bytes_max": peak}


def measure_follow_up(args, model):
    """Measures the viewer's requests: an overview of every head, then single heads of the same text."""
    first, later, forward = [], [], []
    with Server(args.headscope, model, CORES) as server:
        for text in texts.make(4 if args.quick else 12, 128):
            everything = {"text": text, "max_tokens": 128, "layers": "all", "normalize": "max", "dtype": "u1",
                          "outputs": ["attentions", "similarities", "summary"]}
            first.append(server.ask(everything, "?format=safetensors")[0])
            for head in range(4):
                one = {"text": text, "max_tokens": 128, "layers": [head], "heads": [head], "dtype": "f4",
                       "outputs": ["attentions", "similarities", "head_outputs"]}
                ms, stages = server.ask(one, "?format=safetensors")
                later.append(ms)
                forward.append(stages.get("forward", 0.0))
    figures = {"overview_ms": statistics.median(first), "head_ms": statistics.median(later),
               "head_forward_ms": statistics.median(forward)}
    print(f"\noverview of a new text {figures['overview_ms']:.1f} ms, one head of it afterwards "
          f"{figures['head_ms']:.1f} ms, {figures['head_forward_ms']:.1f} ms of them in a pass")
    return figures


def corpus_seconds(args, model, file, out, cores):
    start = time.perf_counter()
    subprocess.run(["taskset", "-c", ",".join(map(str, cores)), args.headscope, "corpus", file, "-o", out,
                    *(["--model", str(model)] if model else [])], capture_output=True, check=True)
    return time.perf_counter() - start


def one_core_analysis_ms(args, model):
    """Milliseconds of a text of 128 tokens, pairs included."""
    only = run_passes(args, model, "--quick", "--tokens", "128", "--cores", "1", stdout=subprocess.DEVNULL)
    return only["passes"][0]["analysis"]["ms"]


def measure_corpus(args, model, scratch, name):
    """headscope corpus over texts of 128 tokens on all cores. A long run beside a short one tells what a text takes
    without start and report. The rate is compared with one core's complete analyses of such texts, measured before
    and after them, for neighbours come and go."""
    short = (20 if args.quick else 40) if model else 400
    rates, shares = [], []
    for _ in range(1 if args.quick else 3):
        seconds, alone = [], [one_core_analysis_ms(args, model)]
        for count in (short, 3 * short):
            file = Path(f"{scratch}/{name}-{count}.jsonl")
            file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts.make(count, 128)))
            seconds.append(corpus_seconds(args, model, file, tempfile.mkdtemp(dir=scratch) + "/out", CORES))
        alone.append(one_core_analysis_ms(args, model))
        rates.append(2 * short / (seconds[1] - seconds[0]))
        shares.append(rates[-1] / (len(CORES) * 1e3 / statistics.mean(alone)))
    rate, of_ideal = statistics.median(rates), statistics.median(shares)
    print(f"corpus: {rate:.1f} texts of 128 tokens a second, {of_ideal:.2f} of cores x one core's complete analyses "
          f"({', '.join(f'{share:.2f}' for share in sorted(shares))})")
    return {"texts_per_second": rate, "of_ideal": of_ideal}


def cpu_seconds(process):
    """User and system time so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def corpus_cpu_seconds(args, model, scratch, made):
    file = Path(f"{scratch}/short.jsonl")
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in made))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    corpus_seconds(args, model, file, tempfile.mkdtemp(dir=scratch) + "/out", CORES)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_lines(args, model, scratch):
    """A batch of short texts, each head in figures, beside a corpus run over as many: by CPU time, which neighbours
    stretch little. A long run beside a short one tells what the texts of a corpus take without start and report."""
    count = (100 if model else 1000) // (5 if args.quick else 1)
    made, ratios = texts.make(3 * count, 14), []
    body = "".join(json.dumps({"text": text, "layers": "all", "outputs": ["summary"]}) + "\n" for text in made[:count])
    with Server(args.headscope, model, CORES, "--cache", "0") as server:
        for _ in range(1 if args.quick else 3):
            request = urllib.request.Request(f"{server.url}/analyze", body.encode(),
                                             {"Content-Type": "application/x-ndjson"})
            before = cpu_seconds(server.process)
            with urllib.request.urlopen(request) as answer:
                answer.read()
            batch = cpu_seconds(server.process) - before
            short, long = (corpus_cpu_seconds(args, model, scratch, some) for some in (made[:count], made))
            ratios.append((long - short) / 2 / batch)
    print(f"a batch of {count} short texts runs at {statistics.median(ratios):.2f} times a corpus' rate, by CPU time")
    return {"texts": count, "of_corpus_rate": statistics.median(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("headscope", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("passes", type=lambda path: str(Path(path).resolve()), help="passes.c, built")
    parser.add_argument("load", type=lambda path: str(Path(path).resolve()), help="load.c, built")
    parser.add_argument("--models", type=Path, default=Path("build/bench"), help="where the checkpoints are, or are made")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print("load average before:", *os.getloadavg())
    figures = {"machine": machine.describe(len(CORES)), "others": {}}

    def keep(part, value):
        """Writes all figures so far, so that an error later loses none."""
        figures[part] = value
        if args.json:
            args.json.write_text(json.dumps(figures, indent=1))

    def measure(name, parts):
        """Calls the parts of a model or of the families, and keeps what they give."""
        for part, call in parts.items():
            made, others = machine.undisturbed(call, 1 if args.quick else 3)
            figures["others"][f"{name} {part}"] = others
            keep(name, {**figures.get(name, {}), **(made if part == "passes" else {part: made})})
            print(f"other programs took {others:.1%} of the machine: {name} {part}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        for name, shape in (("mini", None), ("base", "base"), ("minilm", "minilm")):
            model = shape and models.random_checkpoint(args.models / shape, shape)
            measure(name, {"passes": lambda: measure_passes(args, model, name)})
            print(f"\n== {name}: headscope serve\n", flush=True)
            parts = {"start": lambda: measure_start(args, model),
                     "throughput": lambda: measure_throughput(args, model, scratch),
                     "follow_up": lambda: measure_follow_up(args, model),
                     "lines": lambda: measure_lines(args, model, scratch),
                     "corpus": lambda: measure_corpus(args, model, scratch, name)}
            measure(name, parts if name != "minilm" else {"corpus": parts["corpus"]})
    print("\n== families\n", flush=True)
    measure("families", {shape: functools.partial(families.compare, args.passes, shape, 1 if args.quick else 3)
                         for shape in families.SHAPES})


if __name__ == "__main__":
    main()
