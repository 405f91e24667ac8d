"""Limits of the process (ulimit), at the start and lowered during service. Each gives an error that names it. Spares and caches
are given back first. Nothing acknowledged is lost."""
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import PATIENCE, unsanitized, until
from corpus_runs import SMALL, command, ndjson, texts
from test_corpora import body_of, send, wait

SPARE_BYTES = 8 << 20  # given back at the limit (spares.c)
ANALYZE = b"POST /analyze HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{\"text\": \"hi\"}\n"


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def address_space(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmSize:")[2].split()[0]) << 10


def limit(server, kind, value):
    """Lowers a limit of the running server, or raises it again: None."""
    hard = resource.prlimit(server.process.pid, kind)[1]
    resource.prlimit(server.process.pid, kind, (hard if value is None else value, hard))


def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def test_idle_connections_give_way_when_descriptors_are_short(start_server):
    """They may stay for 75 seconds otherwise, and nobody else is answered."""
    server = start_server()
    idle = []
    for _ in range(5):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        idle.append(connection)
    limit(server, resource.RLIMIT_NOFILE, descriptors(server))
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")
    assert all(connection.sock.recv(1) == b"" for connection in idle)
    server.wait_log("Too many open files (this process is limited to ")
    limit(server, resource.RLIMIT_NOFILE, None)
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")


def test_spare_descriptors_give_way(start_server):
    server = start_server()
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")
    server.wait_metric("connections", lambda n: n == 1)
    limit(server, resource.RLIMIT_NOFILE, descriptors(server))
    for _ in range(3):
        assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")


@unsanitized
def test_uploads_and_runs_without_descriptors(start_server, tmp_path):
    """An upload is refused, with the limit's name. An acknowledged run waits."""
    server = start_server("--state", str(tmp_path / "state"))
    first = send(server, body_of(texts(4000, seed=1))).headers["Location"]
    second = send(server, body_of(texts(5, seed=2))).headers["Location"]
    wait(server, first, ("running",))
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    connection.connect()
    server.wait_metric("connections", lambda n: n == 2)  # it is accepted; the other one asks for the metric
    limit(server, resource.RLIMIT_NOFILE, 3)
    connection.request("POST", "/corpora?layers=0", b'"a"\n', {"Content-Type": "application/x-ndjson"})
    answer = connection.getresponse()
    assert answer.status == 503 and "(this process is limited to 3 descriptors: ulimit -n)" in json.loads(answer.read())["detail"]
    server.wait_log("waits: ")
    limit(server, resource.RLIMIT_NOFILE, None)
    assert wait(server, first)["state"] == wait(server, second)["state"] == "done"


def test_a_server_without_any_descriptor_sleeps(start_server):
    """A client in the backlog cannot be accepted. The loop sleeps meanwhile and answers once there are descriptors."""
    server = start_server()
    server.wait_metric("connections", lambda n: n == 1)
    limit(server, resource.RLIMIT_NOFILE, 3)
    server.wait_log("a limit is reached: Too many open files")
    client = socket.create_connection((server.host, server.port), timeout=PATIENCE)
    client.sendall(ANALYZE)

    def sleeps():
        status = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])

    before = sleeps()
    until(sleeps, lambda n: n > before + 30)
    limit(server, resource.RLIMIT_NOFILE, None)
    assert client.recv(12) == b"HTTP/1.1 200"


@unsanitized
def test_little_address_space_refuses_requests_one_by_one(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(300, seed=3))).headers["Location"]
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")
    assert server.metric("cache_bytes")

    def lowered():
        """Limits the process to the addresses that it has now. Returns its log."""
        limit(server, resource.RLIMIT_AS, address_space(server))
        return server.log()

    # The run gives addresses back meanwhile, so one limit may never be reached.
    until(lowered, lambda log: "a limit is reached: Cannot allocate memory (this process is limited to " in log)
    limit(server, resource.RLIMIT_AS, address_space(server) + SPARE_BYTES)
    server.wait_metric("cache_bytes", lambda n: n == 0)
    large = server.post("/analyze", {"text": "the old bridge " * 160, "outputs": ["attentions", "similarities"]})
    assert large.status in (200, 503)
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200") and server.get("/health").status == 200
    limit(server, resource.RLIMIT_AS, None)
    assert wait(server, path)["state"] == "done"


@unsanitized
def test_a_small_stack_is_raised_or_named(headscope):
    def analyze(prepare):
        return subprocess.run([headscope, "analyze"], input=b"a text", capture_output=True, preexec_fn=prepare, check=False)
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    assert analyze(lambda: resource.setrlimit(resource.RLIMIT_STACK, (65536, hard))).returncode == 0
    refused = analyze(limited(resource.RLIMIT_STACK, 65536))
    assert refused.returncode == 1 and b"ulimit -s" in refused.stderr


@unsanitized
def test_too_few_addresses_are_named_at_the_start(headscope):
    done = subprocess.run([headscope, "serve", "--listen", "127.0.0.1:0"], capture_output=True, check=False,
                          preexec_fn=limited(resource.RLIMIT_AS, 50 << 20))
    assert done.returncode == 1 and b"ulimit -v" in done.stderr


def test_a_command_meets_the_largest_file_and_goes_on(headscope, tmp_path):
    """The signal of this limit (SIGXFSZ) ends a program that does not ignore it."""
    lines = ndjson(tmp_path / "in.jsonl", texts(40, seed=4))
    def run(*more, prepare=None):
        return subprocess.run(command(headscope, "corpus", lines, "-o", tmp_path / "out", *SMALL, *more), text=True, capture_output=True,
                              preexec_fn=prepare, check=False)
    first = run(prepare=limited(resource.RLIMIT_FSIZE, 65536))
    assert first.returncode == 1 and "(this process is limited to 65536 bytes in a file: ulimit -f)" in first.stderr
    assert run().returncode == 0
    (tmp_path / "out" / "report.json").unlink()
    again = run("--resume", prepare=limited(resource.RLIMIT_FSIZE, 65536))
    assert again.returncode == 1 and "--resume to continue" in again.stderr
    assert run("--resume").returncode == 0 and (tmp_path / "out" / "report.json").exists()


def test_a_run_is_saved_when_its_cpu_time_is_over(headscope, tmp_path):
    lines = ndjson(tmp_path / "in.jsonl", texts(400, seed=5) * 100)
    with subprocess.Popen(command(headscope, "corpus", lines, "-o", tmp_path / "out", "--save", "0.1", *SMALL), stderr=subprocess.PIPE) as run:
        until(lambda: (tmp_path / "out" / "state").exists())
        run.send_signal(signal.SIGXCPU)
        run.send_signal(signal.SIGXCPU)
        said = run.stderr.read()
    assert run.returncode == 128 + signal.SIGXCPU and b"ulimit -t" in said and b"--resume" in said


def test_a_server_stops_in_order_when_its_cpu_time_is_over(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(8000, seed=6))).headers["Location"]
    wait(server, path, ("running",))
    server.signal(signal.SIGXCPU)
    assert server.wait() == 0 and "ulimit -t" in server.log()
    server = start_server("--state", str(tmp_path / "state"))
    assert wait(server, path, ("running", "done"))["error"] is None


@pytest.fixture
def threads_group():
    """A control group whose threads can be limited: of version 1, or of version 2 if there is no other."""
    v1 = Path("/sys/fs/cgroup/pids")
    folder = (v1 if v1.is_dir() else v1.parent) / f"headscope-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "pids.max").write_text("max")
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        pytest.skip(f"no control group for threads can be made here: {error}")
    yield folder
    until(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


@unsanitized
def test_too_few_threads_are_named(headscope, threads_group, tmp_path):
    def ended(*arguments, prepare):
        return subprocess.run(command(headscope, *arguments), input="a text\n", capture_output=True, text=True, check=False, preexec_fn=prepare)

    def enter():
        (threads_group / "cgroup.procs").write_text(str(os.getpid()))

    def become_another_user():
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setuid(54321)  # no limit of threads holds for root

    (threads_group / "pids.max").write_text("2")
    serve = "serve", "--listen", "127.0.0.1:0"
    assert "(its control group is limited to 2 threads: pids.max)" in ended(*serve, prepare=enter).stderr
    run = ended("corpus", "-", "-o", tmp_path / "out", *SMALL, "--workers", "2", prepare=enter)
    assert run.returncode == 1 and "1 of 2 workers can be started: " in run.stderr and "limited to 2 threads: pids.max" in run.stderr
    assert "(this process is limited to 1 threads of its user: ulimit -u)" in ended(*serve, prepare=become_another_user).stderr


@unsanitized
def test_a_run_waits_for_threads(threads_group, start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    (threads_group / "cgroup.procs").write_text(str(server.process.pid))
    (threads_group / "pids.max").write_text("1")
    path = send(server, body_of(texts(5, seed=7))).headers["Location"]
    until(lambda: server.get(path).json()["error"], lambda error: error and "limited to 1 threads: pids.max" in error)
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")
    (threads_group / "pids.max").write_text("max")
    assert wait(server, path)["state"] == "done"


@pytest.mark.parametrize("kind", [resource.RLIMIT_MEMLOCK, resource.RLIMIT_STACK])
def test_limits_that_do_not_matter_during_service(start_server, kind):
    server = start_server()
    limit(server, kind, 0)
    assert server.send(ANALYZE).startswith(b"HTTP/1.1 200")
