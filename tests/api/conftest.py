"""Starts servers for the tests on free ports, stops them with SIGTERM and checks their output for sanitizer reports.

    def test_it(server):                 one server for the whole run, default options
        answer = server.post("/analyze", {"text": "hello"})
        assert answer.status == 200 and answer.json()["tokens"][0] == "[CLS]"

    def test_other(start_server):        one of this test's own
        server = start_server("--workers", "1", "--cache", "0")

    def test_early(start_loading):       one that stands still before its first model, until server.go_on()
        server = start_loading("--model", f"m={MINI}")
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import zlib
from pathlib import Path

import pytest

HEADSCOPE = os.environ.get("HEADSCOPE", str(Path(__file__).parents[2] / "build" / "headscope"))
MINI = Path(__file__).resolve().parents[2] / "model" / "mini"
SANITIZED = not re.search(r"build/(coverage/)?headscope$", HEADSCOPE)  # slow, and memory of its own
unsanitized = pytest.mark.skipif(SANITIZED, reason="a sanitizer finds nothing here: the program is killed, or does what it does in other tests")
SANITIZER = re.compile(r"(ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadSanitizer).*")
# Tests run in a process for each core: NumPy's products take one core each. It reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Limits for what would otherwise hang for ever: one wait, and one test. No test measures time with them.
PATIENCE, TEST_PATIENCE = 600, 1800


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: a proof that takes minutes; `make test-slow` runs it, `make test` does not")
    # Shells let what they run in the background ignore ^C, and programs of tests would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A thread that raises fails the test that it serves.
    for warning in ("PytestUnhandledThreadExceptionWarning", "PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"error::pytest.{warning}")


def pytest_collection_modifyitems(config, items):
    """Leaves a part of the tests, half of them with API_SHARD=2/2. Names decide, so one that failed stays when it runs again."""
    if shard := os.environ.get("API_SHARD"):
        nth, of = map(int, shard.split("/"))
        parts = [zlib.crc32(item.nodeid.encode()) % of + 1 for item in items]
        config.hook.pytest_deselected(items=[item for item, part in zip(items, parts, strict=True) if part != nth])
        items[:] = [item for item, part in zip(items, parts, strict=True) if part == nth]


def skip_without_int24():
    """Skips a test of --precision int24 where AMX is not there or not permitted."""
    said = subprocess.run([HEADSCOPE, "version"], capture_output=True, check=True, timeout=PATIENCE).stdout
    if b"int24 by amx" not in said:
        pytest.skip("this machine has no AMX")


def slow_if(condition, *values):
    """Parameters of a test, which only `make test-slow` runs if the condition holds."""
    return pytest.param(*values, marks=pytest.mark.slow if condition else ())


def slow_unless_sanitized(test):
    """Marks a slow test that `make sanitize` runs, too: floods, kills and damage are where memory errors hide."""
    return test if SANITIZED else pytest.mark.slow(test)


def limited(item):
    """Runs a part of a test; fails it where it waits once TEST_PATIENCE is over."""
    if threading.current_thread() is not threading.main_thread():  # xdist may choose another, which takes no signal
        yield
        return

    def give_up(_number, _frame):
        pytest.fail(f"{item.name} took more than {TEST_PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TEST_PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    yield from limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    yield from limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from limited(item)


def until(measure, holds=bool, patience=PATIENCE):
    """Returns the first value of measure() that holds. Fails the test if none does while patience lasts.

    It looks after each twentieth of the time that it has waited, since looking takes the cores from what it waits for."""
    began = time.monotonic()
    while not holds(value := measure()):
        waited = time.monotonic() - began
        assert waited < patience, f"it stayed {value}"
        time.sleep(min(max(waited / 20, 0.005), 0.1))
    return value


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Server:
    def __init__(self, *arguments, environment=None, stderr=None, program=HEADSCOPE):
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE, stderr=stderr or self.stderr,
            # A loaded machine may take longer than the default deadline. Tests of the deadline give their own.
            # Raw requests of the tests name the host x.
            env={"HEADSCOPE_DEADLINE": "600", "HEADSCOPE_ALLOW_HOST": "x", **os.environ, **(environment or {})})
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"headscope is ready on http://([^/\s]+):(\d+)(?:/\S*)?\n", line)
        if not found:
            self.process.wait(PATIENCE)
            pytest.fail(f"the server did not get ready: {line!r} {self.log()}")
        self.host, self.port = found[1], int(found[2])
        self.url = f"http://{self.host}:{self.port}"

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def socket(self):
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def request(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        return self.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})

    def analyze(self, body):
        """The answer of /analyze, which must be one."""
        answer = self.post("/analyze", body)
        assert answer.status == 200, answer.body
        return answer.json()

    def reads_chunks(self):
        """Returns true if the server reads bodies in chunks (libmicrohttpd 1.0 and newer), false if it answers 411."""
        found = re.match(rb"HTTP/1\.1 (200|411) ", self.send(
            b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nd\r\n{\"text\":\"hi\"}\r\n0\r\n\r\n"))
        return found[1] == b"200"

    def send(self, data):
        """Raw bytes in, everything until the server closes out."""
        with self.socket() as client:
            client.sendall(data)
            return read_all(client)

    def metrics(self):
        """{'headscope_ready': 1.0, ...}"""
        lines = self.get("/metrics").body.decode().splitlines()
        return {key: float(value) for key, value in
                (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def metric(self, name):
        return self.metrics()["headscope_" + name]

    def requests(self, **labels):
        """The number of requests with these labels: requests(route="/analyze", status="499")."""
        return sum(value for key, value in self.metrics().items() if key.startswith("headscope_requests_total{")
                   and all(f'{label}="{text}"' in key for label, text in labels.items()))

    wait_for = staticmethod(until)

    def known_models(self):
        """Returns the list of /models once it has every checksum: they come just after the start."""
        return until(lambda: self.get("/models").json()["models"], lambda models: all(model["sha256"] for model in models))

    def wait_metric(self, name, holds):
        until(lambda: self.metric(name), holds)

    def wait_requests(self, holds, **labels):
        until(lambda: self.requests(**labels), holds)

    def wait_log(self, text):
        until(self.log, lambda log: text in log)

    def wait_read(self, client):
        """Waits until the server has read everything that this socket sent."""
        def unread():
            ends = f":{self.port:04X} ", f":{client.getsockname()[1]:04X} "
            for line in Path("/proc/net/tcp").read_text().splitlines():
                _, own, other, _, queues, *_ = line.split()
                if (own + " ").endswith(ends[0]) and (other + " ").endswith(ends[1]):
                    return int(queues.split(":")[1], 16)
            return 0

        until(unread, lambda n: n == 0)

    def log(self):
        """Read beside the server's own place in the file, which seek() would move: it would write over what it said."""
        return os.pread(self.stderr.fileno(), os.fstat(self.stderr.fileno()).st_size, 0).decode(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """The exit code, after a look at what the sanitizers say."""
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        report = SANITIZER.search(self.log())
        assert not report, self.log()[report.start():][:4000]
        return code

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()


def served(*arguments, **more):
    """For fixtures: yields a server with these options, and sees that it stops in order, also where the loop is left early."""
    running = Server(*arguments, **more)
    try:
        yield running
    finally:
        assert running.stop() == 0


def served_models(folders, *arguments):
    """The same for {name: folder}."""
    yield from served(*(f"--model={name}={folder}" for name, folder in folders.items()), *arguments)


def reserved_port():
    """A socket whose port nobody else is given before a server listens there, nor a client's end of a connection."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


class Loading(Server):
    def __init__(self, *arguments, environment, standing):
        self.standing = standing
        self.stderr = tempfile.TemporaryFile()
        self.reserved = reserved_port()
        self.host, self.port = self.reserved.getsockname()
        self.process = subprocess.Popen([HEADSCOPE, "serve", "--listen", f"{self.host}:{self.port}", *arguments],
                                        stdout=subprocess.PIPE, stderr=self.stderr,
                                        env={"HEADSCOPE_ALLOW_HOST": "x", **os.environ, **environment})
        # It listens before it loads.
        until(lambda: standing.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()

    def go_on(self):
        self.standing.unlink()


def read_all(client):
    data = b""
    try:
        while chunk := client.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def busy():
    """A request that keeps a worker computing for a while and has a small answer."""
    return {"text": "attention is all you need " * 60, "max_tokens": 300, "layers": "all",
            "outputs": ["summary", "segments"]}


def endless():
    """A request to be given up: every head is switched off alone, every token predicted each time; 20 s of CPU time."""
    return {"text": "[MASK] " * 600, "max_tokens": 512, "layers": "all", "outputs": ["effects"]}


def post_bytes(body, path="/analyze"):
    data = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (path.encode(), len(data))) + data


def occupied(server):
    """The only worker computes until the socket is closed that this returns: what comes meanwhile waits."""
    client = server.socket()
    client.sendall(post_bytes(endless()))
    server.wait_metric("workers_busy", lambda n: n == 1)
    return client


class Clients(list):
    """Requests sent at the same time, each on a thread of its own; `order` lists them as they end."""

    def __init__(self, server, requests):
        self.answers = [None] * len(requests)
        self.order = []

        def run(number, method, path, body, headers=None):
            self.answers[number] = server.request(method, path, body,
                                                  {"Content-Type": "application/json", **(headers or {})})
            self.order.append(number)

        super().__init__(threading.Thread(target=run, args=(i, *r)) for i, r in enumerate(requests))
        for thread in self:
            thread.start()

    def join(self):
        for thread in self:
            thread.join()
        return self.answers


def preloading(source, library):
    """The environment with a library made of this C file in it; a sanitizer's runtime wants to be the first of all."""
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, source, "-ldl"], check=True)
    libraries = subprocess.run(["ldd", HEADSCOPE], capture_output=True, text=True, check=True).stdout
    runtime = re.findall(r"(/\S*/lib[at]san\S*)", libraries)
    return {"LD_PRELOAD": ":".join(filter(None, [*runtime, os.environ.get("LD_PRELOAD"), str(library)]))}


@pytest.fixture(scope="session")
def preload(tmp_path_factory):
    """The environment with tests/faults/failing_calls.c in it."""
    return preloading(Path(__file__).parents[1] / "faults" / "failing_calls.c", tmp_path_factory.mktemp("faults") / "failing_calls.so")


def failing(preload, group, nth, how, seen):
    seen.unlink(missing_ok=True)
    return {**preload, "FAILING_CALL": f"{group}:{nth}:{how}", "FAILING_CALL_SEEN": str(seen)}


@pytest.fixture(scope="session")
def headscope():
    """The program."""
    return HEADSCOPE


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running
    assert running.stop() == 0


@pytest.fixture
def start_server():
    """start_server(*options, environment={...}); stopped after the test, unless that did it itself."""
    running = []

    def start(*arguments, **more):
        running.append(Server(*arguments, **more))
        return running[-1]

    yield start
    for one in running:
        if one.process.returncode is None:
            assert one.stop() == 0


@pytest.fixture
def start_loading(preload, tmp_path):
    """start_loading(*options); stopped after the test, unless that did it itself."""
    running, standing = [], tmp_path / "loading"

    def start(*arguments):
        environment = {**failing(preload, "open", 0, "wait", standing), "FAILING_CALL_PATH": "config.json"}
        running.append(Loading(*arguments, environment=environment, standing=standing))
        return running[-1]

    yield start
    for one in running:
        standing.unlink(missing_ok=True)
        if one.process.returncode is None:
            assert one.stop() == 0
        one.reserved.close()
