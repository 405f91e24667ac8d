#!/usr/bin/python3
"""Measures the time of /health under ten times the capacity: overload.py BINARY LOAD [--times N]

Clients that ask as fast as they are answered measure the capacity first (load.c). Then so many times that rate is sent,
answered or not, while corpora are uploaded and deleted. /health is asked fifty times a second, each time on a new
connection. The clients run on the last core, the server on all. The client of /health gets real-time priority where
that is allowed, as if it ran on another machine."""
import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CORES = sorted(os.sched_getaffinity(0))
CLIENTS = 300
WORDS = "the war ended in 1945 and a treaty was signed by central powers who had lost more than they could tell".split()
PATIENCE = 60  # s


def ask(port, method, path, body=None, kind="application/json"):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    client.request(method, path, body, {"Content-Type": kind})
    answer = client.getresponse()
    content = answer.read()
    client.close()
    return answer.status, content


def load(args, port, bodies, clients, seconds, rate=0):
    command = ["nice", "-n", "5", "taskset", "-c", str(CORES[-1]), args.load, port, "/analyze", clients, seconds, bodies, rate]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)


def corpora(port, end, counts):
    """Uploads one, deletes one: four a second."""
    runs = []
    body = "\n".join(json.dumps({"text": " ".join(WORDS[i % 7:])}) for i in range(500)).encode()
    while time.monotonic() < end:
        status, content = ask(port, "POST", "/corpora?layers=0&max_tokens=24", body, "application/x-ndjson")
        counts[f"upload {status}"] = counts.get(f"upload {status}", 0) + 1
        runs += [json.loads(content)["id"]] if status == 202 else []
        if len(runs) > 5:
            status, _ = ask(port, "DELETE", f"/corpora/{runs.pop(0)}")
            counts[f"delete {status}"] = counts.get(f"delete {status}", 0) + 1
        time.sleep(0.25)


def probe(port, end):
    """In a process of its own."""
    with multiprocessing.Pool(1) as pool:
        return pool.apply(probed, (port, end))


def probed(port, end):
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    taken = []
    while time.monotonic() < end:
        start = time.monotonic()
        status, _ = ask(port, "GET", "/health")
        taken.append(1e3 * (time.monotonic() - start) if status == 200 else float("inf"))
        time.sleep(max(0, start + 0.02 - time.monotonic()))
    return sorted(taken)


def lag(port):
    rows = dict(row.rsplit(" ", 1) for row in ask(port, "GET", "/metrics")[1].decode().splitlines() if not row.startswith("#"))
    return {re.search('le="([^"]+)', name)[1]: int(value) for name, value in rows.items() if name.startswith("headscope_loop_lag_seconds_bucket")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("load")
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="overload") as folder:
        bodies = os.path.join(folder, "bodies")
        with open(bodies, "w") as file:
            for i in range(200):
                fields = [{"layers": "all", "outputs": ["summary"]}, {"layers": "all"}, {"outputs": ["pairs"]}][i % 3]
                file.write(json.dumps({"text": " ".join(rng.choices(WORDS, k=rng.choice([20, 60, 100]))), **fields}) + "\n")
        server = subprocess.Popen([args.binary, "serve", "--listen", "127.0.0.1:0", "--state", os.path.join(folder, "state"), "--cache", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        idle = probe(port, time.monotonic() + 2)
        able = json.loads(load(args, port, bodies, 2 * len(CORES), 5).communicate()[0])
        rate = args.times * able["per_second"]
        clients = load(args, port, bodies, CLIENTS, args.seconds, rate)
        time.sleep(args.seconds / 5)
        before, counts, end = lag(port), {}, time.monotonic() + 0.9 * args.seconds
        writer = threading.Thread(target=corpora, args=(port, end, counts))
        writer.start()
        taken = probe(port, end)
        writer.join()
        after = lag(port)
        report = json.loads(clients.communicate()[0])
        server.terminate()
        code = server.wait()
    print(f"can be answered: {able['per_second']:.0f}/s; sent {rate:.0f}/s: answered {report['per_second'] - report['failures'] / args.seconds:.0f}/s, "
          f"refused {report['failures'] / args.seconds:.0f}/s, not sent {report['unsent'] / args.seconds:.0f}/s; clients took {report['own_cpu']:.0%} of a core")
    for name, values in (("at rest", idle), ("overloaded", taken)):
        print(f"/health {name}: p50 {statistics.median(values):.1f} ms, p99 {values[int(0.99 * len(values))]:.1f} ms, most {values[-1]:.1f} ms of {len(values)}")
    print("loop lag, up to s:", {bound: after[bound] - before[bound] for bound in after}, counts)
    sys.exit(code)


if __name__ == "__main__":
    main()
