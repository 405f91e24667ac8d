#!/usr/bin/python3
"""Runs the service for an hour at twice its capacity: soak.py BINARY [--minutes N] [--json FILE] [--plot FILE]

An open loop: questions come whether or not earlier ones were answered, twice as many as were answered in the last ten
seconds, however fast the machine is just then. Among them are clients that stall, vanish, read a few bytes a second
or send nonsense, and corpora that are uploaded and deleted. Once a second another process asks /health and /metrics
as anybody would. In the end it judges; each line of it is a promise of docs/explanation/reliability.md:

- what the program says to honest clients is an answer or a refusal: no 500, no broken answer;
- memory and descriptors do not grow: after a quarter of the time (caches fill, and the allocator's arenas) a line
  through the medians of 60 parts of the rest (Theil and Sen: the median of all slopes) rises by at most 5 % of
  memory, and of descriptors beside those of connections by less than one, over that rest (memory: of half an hour
  at least);
- when the clients are gone all descriptors are back, no byte is held, nothing waits;
- every corpus that was acknowledged and not deleted is there, done, also after SIGTERM, which ends it with 0.
"""
import argparse
import asyncio
import collections
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

WORKERS = 1
CACHE, HELD, STATE = "32M", "256M", "2G"
RATE_FIRST, RATE_LEAST, RATE_MOST = 20, 2, 400  # requests a second
CLIENTS_MOST = 800  # below the limit of connections, for those are another test's
PERIOD = 10  # s, after which the rate is set anew
PATIENCE = 120  # s
RUNS_KEPT = 40  # of those that were acknowledged; older ones are deleted, some at once
SLOW_MOST = 60  # s; nobody cuts a reader who takes his bytes, so he leaves
MINUTES_LEAST = 30  # for memory: the allocator's arenas fill for the first ten
STRICT = os.environ.get("SOAK_TRENDS", "1") == "1"  # a sanitizer keeps freed memory on purpose: 0

WORDS = "the war ended in 1945 and a treaty was signed by central powers who had lost more than they could tell".split()


# ---- clients ----


def text(rng, n_words):
    return " ".join(rng.choices(WORDS, k=n_words))


def post(path, body, kind="application/json", more=""):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n{more}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def analyze(rng, query="", **fields):
    return post("/analyze" + query, json.dumps({"text": text(rng, rng.choice([5, 20, 60, 120])), **fields}).encode())


def summary(rng):
    return analyze(rng, layers="all", outputs=["summary", "segments"])


def maps(rng):
    return analyze(rng, layers="all", max_tokens=128)


def npz(rng):
    return analyze(rng, "?format=npz", layers="all", outputs=["attentions", "similarities", "pairs"])


def lines(rng):
    body = "\n".join(json.dumps({"text": text(rng, 15), "outputs": ["summary"]}) for _ in range(20))
    return post("/analyze", body.encode(), "application/x-ndjson")


def follow_up(rng):
    """Uses few texts, so that the cache has something to do."""
    return analyze(random.Random(rng.randrange(30)), layers=[rng.randrange(4)], outputs=["pairs"])


def corpus(rng):
    body = "\n".join(json.dumps({"text": text(rng, 8)}) for _ in range(rng.choice([1, 20, 100])))
    return post("/corpora?layers=0,2&max_tokens=24", body.encode(), "application/x-ndjson")


NONSENSE = [post("/analyze", b'{"text": 3}'), post("/analyze", b'{"text": "a"'), post("/analyze", b"\xff\xfe"),
            post("/nowhere", b"{}"), post("/analyze", b"{}", "text/html"), b"\x16\x03\x01\x00\xa5\x01\x00\x00",
            b"GET / HTTP/1.1\r\n\r\n", b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            post("/analyze", b"{}", more="Content-Length: 9\r\n"), b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            post("/corpora?layers=99", b"{}", "application/x-ndjson"), b"DELETE /corpora/none HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /" + b"y" * 60000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"]


class Starved(Exception):
    pass


class Load:
    """One round is a kind of client, drawn by its weight."""

    def __init__(self, port, end, seed):
        self.port, self.end, self.rng = port, end, random.Random(seed)
        self.counts, self.faults = collections.Counter(), []
        self.held_up = -PATIENCE  # when these clients themselves last got no turn for a second
        self.runs, self.doubtful = [], set()  # acknowledged; those with an unanswered deletion
        self.kinds = {self.ask: 70, self.upload: 2, self.stall: 6, self.vanish: 8, self.read_slowly: 4, self.nonsense: 10}

    @contextlib.asynccontextmanager
    async def connection(self, buffer_bytes=None):
        client = socket.socket()
        client.setblocking(False)
        if buffer_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
            yield client
        finally:
            client.close()

    async def exchange(self, request):
        """(status, head, body); what is no whole answer is a fault."""
        loop, data = asyncio.get_running_loop(), b""
        async with self.connection() as client:
            try:
                await loop.sock_sendall(client, request)
            except ConnectionError:
                pass  # refused before all of it was sent: the answer is there
            parts = []
            while part := await loop.sock_recv(client, 1 << 18):
                parts.append(part)
            data = b"".join(parts)
        head, _, body = data.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
        length = re.search(rb"\r\nContent-Length: (\d+)", head, re.IGNORECASE)
        if not status or length and int(length[1]) != len(body):
            # The server cuts off clients that read nothing for 8 seconds. A starved client cannot avoid that.
            starved = status and time.monotonic() - self.held_up < PATIENCE
            raise (Starved if starved else ValueError)(f"no whole answer: {head[:200]} and {len(body)} bytes")
        return int(status[1]), head, body

    async def honest(self, name, request, allowed=(200, 503, 504)):
        try:
            status, head, body = await asyncio.wait_for(self.exchange(request), PATIENCE)
        except Starved:
            self.counts[f"{name} cut, these clients had no CPU"] += 1
            return 0, b"", b""
        except (OSError, ValueError, TimeoutError) as fault:
            self.counts[f"{name} cut"] += 1
            self.faults.append(f"{name}: {type(fault).__name__}: {fault}"[:300])
            return 0, b"", b""
        self.counts[f"{name} {status}"] += 1
        if status not in allowed:
            self.faults.append(f"{name}: {status}: {body[:200]}")
        return status, head, body

    async def ask(self):
        kind = self.rng.choices([summary, maps, npz, lines, follow_up], [40, 10, 10, 5, 25])[0]
        status, _, body = await self.honest(kind.__name__, kind(self.rng))
        if status == 200 and not (body.startswith(b"PK\x03\x04") if kind is npz else body.endswith(b"}\n\r\n0\r\n\r\n" if kind is lines else b"}")):
            self.faults.append(f"{kind.__name__}: {body[:50]}...{body[-50:]}")

    async def upload(self):
        status, _, body = await self.honest("corpus", corpus(self.rng), (202, 503, 507))
        if status == 202:
            self.runs.append(json.loads(body)["id"])
        while len(self.runs) > RUNS_KEPT or status == 202 and self.rng.random() < 0.2:
            await self.delete(self.runs.pop(self.rng.randrange(len(self.runs))))
            status = 0

    async def delete(self, run):
        self.doubtful.add(run)
        status, _, _ = await self.honest("delete", f"DELETE /corpora/{run} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), (204, 409, 503))
        if status:
            self.doubtful.discard(run)
        if status not in (0, 204):
            self.runs.append(run)

    async def until_cut(self, client, pause):
        """Reads a few bytes now and then; how long that lasts is the server's to say."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while await loop.sock_recv(client, 64):
                await asyncio.sleep(pause)

    async def stall(self):
        request = maps(self.rng)
        async with self.connection() as client:
            await asyncio.get_running_loop().sock_sendall(client, request[:self.rng.randrange(1, len(request))])
            await self.until_cut(client, 0)
            self.counts["stall ended"] += 1

    async def vanish(self):
        request = self.rng.choice([maps, npz, lines, corpus])(self.rng)
        async with self.connection() as client:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, request)
            if self.rng.random() < 0.5:
                await loop.sock_recv(client, 100)
            if self.rng.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.counts["vanish ended"] += 1

    async def read_slowly(self):
        async with self.connection(buffer_bytes=4096) as client:
            await asyncio.get_running_loop().sock_sendall(client, maps(self.rng))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.until_cut(client, self.rng.choice([0.2, 1, 5])), self.rng.uniform(1, SLOW_MOST))
            self.counts["slow reader ended"] += 1

    async def nonsense(self):
        async with self.connection() as client:
            await asyncio.get_running_loop().sock_sendall(client, self.rng.choice(NONSENSE))
            await asyncio.get_running_loop().sock_recv(client, 1000)
            self.counts["nonsense ended"] += 1

    async def client(self, kind):
        try:
            await kind()
        except OSError:
            self.counts[f"{kind.__name__} refused"] += 1

    def answered(self):
        return sum(n for name, n in self.counts.items() if name.endswith(" 200"))

    async def watch_ourselves(self):
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.1)
            if time.monotonic() - before > 1:
                self.held_up = time.monotonic()

    async def run(self):
        watch = asyncio.create_task(self.watch_ourselves())
        await self.send_all()
        watch.cancel()

    async def send_all(self):
        rate, tasks = RATE_FIRST, set()
        asking = self.kinds[self.ask] / sum(self.kinds.values())
        start = at = time.monotonic()
        set_anew, before = start + PERIOD, 0
        while (now := time.monotonic()) < self.end:
            if now > set_anew:
                answered = self.answered()
                rate = max(RATE_LEAST, min(RATE_MOST, 2 * (answered - before) / asking / (now - set_anew + PERIOD)))
                set_anew, before = now + PERIOD, answered
            at = max(at + self.rng.expovariate(rate), now - 1)
            await asyncio.sleep(max(0, at - now))
            self.counts["sent"] += 1
            if len(tasks) >= CLIENTS_MOST:
                self.counts["not sent, for too many wait"] += 1
                continue
            task = asyncio.create_task(self.client(self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.wait(tasks, timeout=PATIENCE) if tasks else None
        self.counts["still there"] = len(tasks)
        for task in list(tasks):
            task.cancel()


def load(port, end, seed, pipe):
    one = Load(port, end, seed)
    asyncio.run(one.run())
    pipe.send({"counts": dict(sorted(one.counts.items())), "faults": one.faults, "runs": sorted(set(one.runs) - one.doubtful)})


# ---- the server, and what is seen of it ----


class Server:
    def __init__(self, binary, state, log):
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--workers", str(WORKERS), "--state", state, "--cache", CACHE,
             "--max-held", HELD, "--max-state", STATE, "--log", "json"], stdout=subprocess.PIPE, stderr=log)
        ready = re.search(rb":(\d+)\n$", self.process.stdout.readline())
        if not ready:
            sys.exit("the server did not start")
        self.port = int(ready[1])

    def get(self, path, method="GET", body=None):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request(method, path, body)
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()

    def metrics(self):
        rows = self.get("/metrics")[1].decode().splitlines()
        return {name: float(value) for name, value in (row.rsplit(" ", 1) for row in rows if not row.startswith("#"))}

    def sample(self, start):
        now = time.monotonic()
        self.get("/health")
        health = time.monotonic() - now
        seen = self.metrics()
        lag = {name: seen[f"headscope_loop_lag_seconds_{name}"] for name in ("sum", "count")}
        return {"at": now - start, "health_ms": 1e3 * health, "rss": seen["process_resident_memory_bytes"],
                "descriptors": seen["process_open_fds"],
                "own_descriptors": seen["process_open_fds"] - seen["headscope_connections"], "connections": seen["headscope_connections"],
                "held": seen["headscope_held_bytes"], "queue": seen["headscope_queue_depth"], "lag": lag,
                "cpu": seen["process_cpu_seconds_total"],
                "answered": sum(value for name, value in seen.items() if name.startswith("headscope_requests_total") and 'status="200"' in name),
                "refused": sum(value for name, value in seen.items() if name.startswith("headscope_requests_total") and 'status="503"' in name)}

    def at_rest(self):
        """Waits until nobody is served and no run is under way, as long as that comes nearer."""
        least, give_up = None, time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            seen = self.metrics()
            runs = [run for run in self.runs().values() if run["state"] in ("queued", "running")]
            left = (len(runs), sum(run["texts_total"] - run["texts_done"] for run in runs), seen["headscope_requests_in_flight"], seen["headscope_held_bytes"])
            if left == (0, 0, 1, 0):
                return seen
            if least is None or left < least:
                least, give_up = left, time.monotonic() + PATIENCE
            time.sleep(0.5)
        return self.metrics()

    def runs(self):
        runs, query = {}, ""
        while True:
            page = json.loads(self.get("/corpora" + query)[1])
            runs.update((run["id"], run) for run in page["corpora"])
            if not page["next"]:
                return runs
            query = page["next"].removeprefix("/corpora")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


# ---- judging ----


def parts_of(samples, name, n=60, middle=statistics.median):
    """Medians of n equal parts: (time, value)."""
    size = max(1, len(samples) // n)
    parts = [samples[i:i + size] for i in range(0, len(samples) - size + 1, size)]
    return [(statistics.fmean(s["at"] for s in part), middle(s[name] for s in part)) for part in parts]


def rise(samples, name):
    """The growth by the median slope over the time of the samples, in the unit of the samples."""
    parts = parts_of(samples, name)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(parts) for b in parts[i + 1:]]
    return statistics.median(slopes) * (samples[-1]["at"] - samples[0]["at"])


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def judge(samples, report, before, after, runs, runs_again, code):
    late = samples[len(samples) // 4:]
    grown = {name: rise(late, name) for name in ("rss", "own_descriptors")}
    middle = statistics.median(s["rss"] for s in late)
    judged = STRICT and samples[-1]["at"] > 60 * MINUTES_LEAST - 10
    lost = [run for run in report["runs"] if runs.get(run, {}).get("state") != "done"]
    lost_again = [run for run in report["runs"] if runs_again.get(run, {}).get("state") != "done"]
    promises = {
        "honest clients got answers or refusals": (not report["faults"], f"{len(report['faults'])} faults {report['faults'][:5]}"),
        "memory does not grow": (not judged or grown["rss"] <= 0.05 * middle, f"{'' if judged else 'not judged: '}{grown['rss'] / 2**20:+.1f} MiB of {middle / 2**20:.1f}"),
        "descriptors do not grow": (not STRICT or grown["own_descriptors"] < 1, f"{grown['own_descriptors']:+.2f}"),
        "all descriptors are back": (after["process_open_fds"] <= before["process_open_fds"], f"{before['process_open_fds']:.0f}, then {after['process_open_fds']:.0f}"),
        "no byte is held": (after["headscope_held_bytes"] == 0, f"{after['headscope_held_bytes']:.0f}"),
        "nothing waits": (after["headscope_queue_depth"] == 0 and after["headscope_requests_in_flight"] == 1, f"{after['headscope_requests_in_flight'] - 1:.0f} under way"),
        "every acknowledged run is done": (not lost and report["runs"], f"{len(report['runs'])} runs, missing {lost[:5]}"),
        "and after a restart": (not lost_again, f"missing {lost_again[:5]}"),
        "SIGTERM ends it with 0": (code == 0, f"{code}"),
    }
    return {name: {"kept": bool(kept), "seen": seen} for name, (kept, seen) in promises.items()}


def summed_up(samples, report, promises):
    late = samples[len(samples) // 4:]
    lag = [1e3 * (b["lag"]["sum"] - a["lag"]["sum"]) / n for a, b in zip(late, late[1:]) if (n := b["lag"]["count"] - a["lag"]["count"])]
    seconds = samples[-1]["at"] - samples[0]["at"]
    return {"minutes": seconds / 60, "cpu_share": (samples[-1]["cpu"] - samples[0]["cpu"]) / seconds, "counts": report["counts"],
            "health_ms": {str(share): percentile([s["health_ms"] for s in late], share) for share in (0.5, 0.9, 0.99, 1)},
            "lag_ms": {str(share): percentile(lag, share) for share in (0.5, 0.9, 0.99, 1)},
            "rss_mib": {"median": statistics.median(s["rss"] for s in late) / 2**20, "most": max(s["rss"] for s in samples) / 2**20},
            "promises": promises,
            "course": {name: [[round(at), round(value, 2)] for at, value in parts_of(samples, name)]
                       for name in ("rss", "descriptors", "connections", "held", "queue", "health_ms", "answered", "refused")}}


def plot(samples, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "headscope"
    import matplotlib.pyplot as plt
    parts = {name: list(zip(*parts_of(samples, name, 120))) for name in ("rss", "held", "descriptors", "connections", "health_ms", "answered", "refused")}
    minutes = [at / 60 for at in parts["rss"][0]]
    sheet, (memory, open_things, rates, health) = plt.subplots(4, 1, figsize=(7, 8), sharex=True, layout="constrained")
    memory.plot(minutes, [v / 2**20 for v in parts["rss"][1]], color="#1f6fb4", label="resident memory")
    memory.plot(minutes, [v / 2**20 for v in parts["held"][1]], color="#c2571a", label="held bodies and answers")
    open_things.plot(minutes, parts["descriptors"][1], color="#1f6fb4", label="descriptors")
    open_things.plot(minutes, parts["connections"][1], "--", color="#c2571a", label="connections")
    for name, colour in (("answered", "#1f6fb4"), ("refused", "#c2571a")):
        values, times = parts[name][1], parts[name][0]
        rates.plot(minutes[1:], [(b - a) / (t - s) for a, b, s, t in zip(values, values[1:], times, times[1:])], color=colour, label=name)
    health.plot(minutes, [worst for _, worst in parts_of(samples, "health_ms", 120, max)], color="#c2571a", label="longest")
    health.plot(minutes, parts["health_ms"][1], color="#1f6fb4", label="median")
    memory.set(ylabel="MiB", ylim=(0, None))
    open_things.set(ylabel="open", ylim=(0, None))
    rates.set(ylabel="requests a second", ylim=(0, None))
    health.set(ylabel="/health, ms", yscale="log", xlabel="minutes")
    for axes in (memory, open_things, rates, health):
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
    sheet.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="figures and the course of them")
    parser.add_argument("--plot", help="an SVG file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak") as state, tempfile.TemporaryFile() as log:
        server = Server(options.binary, state, log)
        first = Load(server.port, 0, 0)
        for kind in (maps, corpus):
            asyncio.run(first.honest(kind.__name__, kind(first.rng), (200, 202)))
        before = server.at_rest()
        start = time.monotonic()
        ours, theirs = multiprocessing.Pipe(False)
        clients = multiprocessing.Process(target=load, args=(server.port, start + 60 * options.minutes, options.seed, theirs))
        clients.start()
        samples = []
        while not ours.poll():
            samples.append(server.sample(start))
            if not clients.is_alive() and not ours.poll():
                sys.exit("the clients broke down")
            time.sleep(max(0, start + len(samples) - time.monotonic()))
        report = ours.recv()
        clients.join()
        after, runs = server.at_rest(), server.runs()
        code = server.stop()
        again = Server(options.binary, state, log)
        runs_again = again.runs()
        code = code or again.stop()
        log.seek(0)
        said = log.read()
    samples = [s for s in samples if s["at"] < 60 * options.minutes]
    figures = summed_up(samples, report, judge(samples, report, before, after, runs, runs_again, code))
    if report := re.search(rb"(ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadSanitizer)(?s:.{,6000})", said):
        figures["promises"]["no sanitizer's report"] = {"kept": False, "seen": report[0].decode(errors="replace")}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)
    if options.plot:
        plot(samples, options.plot)
    print(json.dumps({name: value for name, value in figures.items() if name not in ("course", "promises")}, indent=1))
    for name, promise in figures["promises"].items():
        print(f"{'kept  ' if promise['kept'] else 'BROKEN'} {name}: {promise['seen']}")
    sys.exit(not all(promise["kept"] for promise in figures["promises"].values()))


if __name__ == "__main__":
    main()
