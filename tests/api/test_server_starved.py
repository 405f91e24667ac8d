"""One client, one disk, one signal at a bad moment: the others are answered all the same."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import HEADSCOPE, PATIENCE, read_all

TOKENIZE = (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: 13\r\n\r\n{\"text\":\"hi\"}")


@pytest.mark.parametrize("request_", [
    b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"a" * 100_000,
    b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 100_000,
    b"POST /corpora HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"a" * 100_000,  # suspended before
    b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 100_000,
])
def test_a_chunk_line_that_never_ends(start_server, request_):
    server = start_server()
    with server.socket() as client:
        try:
            client.sendall(request_)
        except ConnectionError:
            pass
        assert server.send(TOKENIZE).startswith(b"HTTP/1.1 200")
        before = cpu_seconds(server)
        time.sleep(1)
        assert cpu_seconds(server) - before < 0.5, "the loop spins"
    assert server.send(TOKENIZE).startswith(b"HTTP/1.1 200")
    server.wait_metric("connections", lambda n: n == 1)  # gone with its client, long before the body's deadline
    assert server.stop() == 0


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_uploads_at_full_speed_leave_turns_to_others(start_server, tmp_path):
    server = start_server("--state", str(tmp_path), "--max-corpus", "100G", "--max-state", "1G")
    body = (b"x" * 63 + b"\n") * 16384
    over = threading.Event()

    def upload():
        with server.socket() as client:
            client.sendall(b"POST /corpora HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
            try:
                while not over.is_set():
                    client.sendall(b"%x\r\n%s\r\n" % (len(body), body))
            except ConnectionError:
                pass

    uploads = [threading.Thread(target=upload) for _ in range(2)]
    for thread in uploads:
        thread.start()
    try:
        # The more is answered before the room for uploads is used up the better; one at a time was the defect.
        for _ in range(20):
            assert server.send(TOKENIZE).startswith(b"HTTP/1.1 200")
        beside = [thread.is_alive() for thread in uploads]
    finally:
        over.set()
        for thread in uploads:
            thread.join()
    assert any(beside), "the uploads were over before the short questions"


# Slow as long as the file is there that SLOW_WHILE names: while somebody looks.
SLOW_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#define SLOW(ret, name, params, args) ret name params { static ret (*real) params; \
    if (!real) real = (ret (*) params)dlsym(RTLD_NEXT, #name); \
    if (access(getenv("SLOW_WHILE"), F_OK) == 0) usleep(1500000); return real args; }
SLOW(int, fsync, (int fd), (fd))
SLOW(int, fdatasync, (int fd), (fd))
SLOW(int, unlink, (const char *name), (name))
SLOW(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))
"""


def test_a_slow_disk_holds_up_nobody_else(start_server, tmp_path):
    (tmp_path / "slow.c").write_text(SLOW_DISK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "slow.so", tmp_path / "slow.c", "-ldl"], check=True)
    libraries = subprocess.run(["ldd", HEADSCOPE], capture_output=True, text=True, check=True).stdout
    runtime = re.findall(r"(/\S*/lib[at]san\S*)", libraries)  # a sanitizer's wants to be the first of all
    preload = ":".join(filter(None, [*runtime, os.environ.get("LD_PRELOAD"), str(tmp_path / "slow.so")]))
    server = start_server("--state", str(tmp_path / "state"), environment={"LD_PRELOAD": preload, "SLOW_WHILE": str(tmp_path / "slowly")})

    def while_waiting(method, path, body=None):
        """The answer, and how many probes were answered before it."""
        answers = []
        (tmp_path / "slowly").touch()

        def ask():
            answers.append(server.request(method, path, body, {"Content-Type": "text/plain"}))
        asking = threading.Thread(target=ask)
        asking.start()
        probes = 0
        while asking.is_alive():
            assert server.get("/health").status == 200
            probes += 1
        asking.join()
        (tmp_path / "slowly").unlink()
        return answers[0], probes

    answer, probes = while_waiting("POST", "/corpora?layers=0&max_tokens=4", b"a text\n")
    assert answer.status == 202 and probes > 10
    run = answer.json()["id"]
    while server.get(f"/corpora/{run}").json()["state"] not in ("done", "failed"):
        time.sleep(0.1)
    answer, probes = while_waiting("DELETE", f"/corpora/{run}")
    assert answer.status == 204 and probes > 10


# ---- while the models load ----


def listening(*arguments):
    """A server whose models are still to be loaded, and its port: the socket is there before they are."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([HEADSCOPE, "serve", "--listen", f"127.0.0.1:{port}", *arguments],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while True:
        try:
            # Not from 127.0.0.1: before the server listens, a client there can be given the very port and meet itself.
            return process, port, socket.create_connection(("127.0.0.1", port), PATIENCE, ("127.0.0.2", 0))
        except ConnectionRefusedError:
            assert process.poll() is None


MINI = os.path.join(os.path.dirname(__file__), "../../model/mini")


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/models", "/corpora"])
def test_a_request_in_flight_when_the_models_fail_to_load(tmp_path, path):
    models = ",".join([f"m{i}={MINI}" for i in range(8)] + [f"none={tmp_path}/nowhere"])
    process, port, client = listening("--model", models, "--state", str(tmp_path / "state"), "--header-timeout", "600")
    with client:
        client.sendall(b"GET %s HTTP/1.1\r\n" % path.encode())
        while True:  # until it drains: then new connections are refused
            try:
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
                time.sleep(0.02)
            except OSError:
                break
        client.sendall(b"Host: x\r\n\r\n")
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 200" if path == "/metrics" else b"HTTP/1.1 503"), answer[:200]
    error = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 1 and b"nowhere" in error


def test_metrics_and_a_signal_while_the_models_load():
    models = ",".join(f"m{i}={MINI}" for i in range(12))
    for attempt in range(20):  # the first as soon as it listens
        process, port, client = listening("--model", models)
        with client:
            time.sleep(0.004 * attempt)
            process.send_signal(signal.SIGTERM)
            try:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                read_all(client)
            except ConnectionError:
                pass
        error = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0, error.decode()[-4000:]
        assert b"Sanitizer" not in error, error.decode()[-4000:]
