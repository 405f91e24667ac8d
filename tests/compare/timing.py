"""Compares the speed of two builds, with start-up and memory; see compare.py.

The builds alternate, because the load of the machine changes. Each alternation measures both, in turn first, and gives
one ratio NEW / OLD. The median of the ratios is printed with its quartiles. Below 1 the new one is faster, or smaller.
The CPU time of the program stands beside the time on the clock: other programs disturb it least. """
import contextlib
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import models  # noqa: E402
import texts  # noqa: E402
from run import CORES, Server  # noqa: E402

EVERYTHING = {"max_tokens": 128, "layers": "all", "outputs": ["pairs"], "max_pairs": 10}
MAPS = {"max_tokens": 128, "layers": "all", "outputs": ["attentions", "similarities"]}
# name, path and body, query
WORK = [("analysis", EVERYTHING, ""), ("maps, JSON", MAPS, ""), ("maps, npz", MAPS, "?format=npz")]


def cpu_ms(server):
    """All threads' time on a core until now."""
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def take(server, fields, query, text, times):
    """{figure: milliseconds} a request, over some with distinct texts."""
    wall, forward, before = [], [], cpu_ms(server)
    for number in range(times):
        whole, stages = server.ask({"text": f"{number} {text}", **fields}, query)
        wall.append(whole)
        forward.append(stages["forward"])
    return {"clock": statistics.median(wall), "of it forward": statistics.median(forward),
            "CPU": (cpu_ms(server) - before) / times}


def tell(label, unit, pairs):
    """pairs: [(old, new)]"""
    low, middle, high = statistics.quantiles([new / old for old, new in pairs], n=4)
    old, new = (statistics.median(side) for side in zip(*pairs))
    print(f"{label:44} {old:9.2f} {new:9.2f} {unit:3} {middle:8.3f}   {low:.3f} .. {high:.3f}", flush=True)


def alternate(label, alternations, measure):
    """measure(side) -> {figure: value}; tells each figure."""
    taken = []
    for number in range(alternations):
        sides = {side: measure(side) for side in ((0, 1), (1, 0))[number % 2]}
        taken.append((sides[0], sides[1]))
    for figure in taken[0][0]:
        unit = "MB" if "memory" in figure else "ms"
        tell(f"{label}, {figure}", unit, [(old[figure], new[figure]) for old, new in taken])


def compare_work(binaries, name, model, cores, alternations):
    times = 3 if model else 20
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(binary, model, cores, "--cache", "0")) for binary in binaries]
        words = texts.make(alternations + 1, 128)
        for work, *request in WORK:
            for server in servers:
                take(server, *request, words[-1], 1)
            left = [iter(words), iter(words)]
            alternate(f"{name}, {len(cores)} cores, {work}", alternations,
                      lambda side: take(servers[side], *request, next(left[side]), times))
        most = [server.memory("VmHWM") / 1e6 for server in servers]
        tell(f"{name}, {len(cores)} cores, most memory", "MB", [most] * 2)


def compare_start(binaries, name, model, alternations):
    def start(side):
        with Server(binaries[side], model, CORES) as server:
            return {"clock": server.ready_ms, "CPU": cpu_ms(server), "memory": server.memory("VmRSS") / 1e6}

    alternate(f"{name}, start to /ready", alternations, start)


def compare_corpus(binaries, name, model, alternations):
    options, count = ["--model", str(model)] if model else [], itertools.count()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "texts.txt"
        file.write_text("\n".join(texts.make(10 if model else 200, 128)) + "\n")

        def corpus(side):
            begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([binaries[side], "corpus", file, "-o", f"{scratch}/{next(count)}", *options],
                           capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return {"clock": 1e3 * (time.perf_counter() - begin),
                    "CPU": 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)}

        alternate(f"{name}, corpus run", alternations, corpus)


def compare(binaries, alternations, base):
    """Prints the table."""
    print(f"load average before: {os.getloadavg()}")
    print(f"{'NEW / OLD, ' + str(alternations) + ' alternations':44} {'OLD':>9} {'NEW':>9}      median   quartiles")
    for name, model in (("mini", None), ("BERT-base", models.random_checkpoint(base))):
        compare_start(binaries, name, model, alternations)
        for cores in (CORES[:1], CORES):
            compare_work(binaries, name, model, cores, alternations)
        compare_corpus(binaries, name, model, alternations)
    return 0
