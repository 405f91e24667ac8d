"""A slow client, a slow disk or a signal does not delay the other clients."""
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import HEADSCOPE, MINI, PATIENCE, Clients, preloading, read_all, reserved_port, until

TOKENIZE = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: 13\r\n\r\n{\"text\":\"hi\"}")


@pytest.mark.parametrize("request_", [
    b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"a" * 100_000,
    b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 100_000,
    b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"a" * 100_000,  # suspended before
    b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 100_000,
])
def test_a_chunk_line_that_never_ends(start_server, request_):
    server = start_server()
    with server.socket() as client:
        try:
            client.sendall(request_)
        except ConnectionError:
            pass
        assert server.send(TOKENIZE).startswith(b"HTTP/1.1 200")
        until(lambda: all(sleeps(server) for _ in range(20)))  # a loop that spins never does
    assert server.send(TOKENIZE).startswith(b"HTTP/1.1 200")
    server.wait_metric("connections", lambda n: n == 1)  # gone with its client, long before the body's deadline
    assert server.stop() == 0


def sleeps(server):
    """Returns whether the server's main thread waits for something at this moment."""
    return Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def test_uploads_at_full_speed_leave_turns_to_others(start_server, tmp_path):
    server = start_server("--state", str(tmp_path), "--max-corpus", "2G", "--max-state", "5G")
    piece = (b"x" * 63 + b"\n") * 16384
    over = threading.Event()

    def upload():
        with server.socket() as client:
            client.sendall(b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
                           b"Content-Length: %d\r\n\r\n" % (1 << 31))
            try:
                while not over.is_set():
                    client.sendall(piece)
            except ConnectionError:
                pass

    uploads = [threading.Thread(target=upload) for _ in range(2)]
    for thread in uploads:
        thread.start()
    try:
        # Many answers must come before the space for uploads is used up. One at a time was the defect.
        for _ in range(20):
            assert server.send(TOKENIZE).startswith(b"HTTP/1.1 200")
        beside = [thread.is_alive() for thread in uploads]
    finally:
        over.set()
        for thread in uploads:
            thread.join()
    assert any(beside), "the uploads were over before the short questions"


# Stands still as long as the file is there that STANDS_WHILE names, and makes another when it comes to that.
STANDING_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void stand(void)
{
    const char *name = getenv("STANDS_WHILE");
    char reached[4096];
    if (access(name, F_OK))
        return;
    snprintf(reached, sizeof reached, "%s-reached", name);
    close(open(reached, O_CREAT | O_WRONLY, 0600));
    while (access(name, F_OK) == 0)
        usleep(5000);
}
#define STANDING(ret, name, params, args) ret name params { static ret (*real) params; \
    if (!real) real = (ret (*) params)dlsym(RTLD_NEXT, #name); \
    stand(); return real args; }
STANDING(int, fsync, (int fd), (fd))
STANDING(int, fdatasync, (int fd), (fd))
STANDING(int, unlink, (const char *name), (name))
STANDING(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))
"""


def test_a_slow_disk_holds_up_nobody_else(start_server, tmp_path):
    (tmp_path / "disk.c").write_text(STANDING_DISK)
    preload = preloading(tmp_path / "disk.c", tmp_path / "disk.so")
    standing, reached = tmp_path / "stands", tmp_path / "stands-reached"
    server = start_server("--state", str(tmp_path / "state"), environment={**preload, "STANDS_WHILE": str(standing)})

    def while_it_stands(method, path, body=None):
        """The answer, which came only after others had theirs."""
        asking = Clients(server, [(method, path, body, {"Content-Type": "text/plain"})])
        until(reached.exists)
        for _ in range(11):
            assert server.get("/health").status == 200
        assert not asking.order
        standing.unlink()
        reached.unlink()
        return asking.join()[0]

    try:
        standing.touch()
        answer = while_it_stands("POST", "/corpora?layers=0&max_tokens=4", b"a text\n")
        assert answer.status == 202
        run = answer.json()["id"]
        until(lambda: server.get(f"/corpora/{run}").json()["state"], lambda state: state in ("done", "failed"))
        standing.touch()
        assert while_it_stands("DELETE", f"/corpora/{run}").status == 204
    finally:
        standing.unlink(missing_ok=True)


# ---- while the models load ----


def listening(*arguments):
    """A server whose models are still to be loaded, and a connection to it: the socket is there before they are."""
    with reserved_port() as reserved:
        address = reserved.getsockname()
        process = subprocess.Popen([HEADSCOPE, "serve", "--listen", f"{address[0]}:{address[1]}", *arguments],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while True:
            try:
                return process, socket.create_connection(address, PATIENCE)
            except ConnectionRefusedError:
                assert process.poll() is None


def refuses(server):
    """Returns whether new connections are refused."""
    try:
        server.socket().close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/models", "/corpora"])
def test_a_request_in_flight_when_the_models_fail_to_load(start_loading, tmp_path, path):
    server = start_loading("--model", f"m={MINI},none={tmp_path}/nowhere", "--state", str(tmp_path / "state"),
                           "--header-timeout", "600")
    with server.socket() as client:
        client.sendall(b"GET %s HTTP/1.1\r\n" % path.encode())
        server.go_on()
        until(lambda: refuses(server))  # it drains
        client.sendall(b"Host: localhost\r\n\r\n")
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 200" if path == "/metrics" else b"HTTP/1.1 503"), answer[:200]
    assert server.wait() == 1 and "nowhere" in server.log()


def test_metrics_and_a_signal_while_the_models_load():
    models = ",".join(f"m{i}={MINI}" for i in range(12))
    for attempt in range(20):  # the first as soon as it listens
        process, client = listening("--model", models)
        with client:
            for _ in range(3 * attempt):  # each attempt's signal comes a little later
                with socket.create_connection(client.getpeername(), PATIENCE) as asking:
                    asking.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    assert read_all(asking).startswith(b"HTTP/1.1 200")
            process.send_signal(signal.SIGTERM)
            try:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                read_all(client)
            except ConnectionError:
                pass
        error = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0, error.decode()[-4000:]
        assert b"Sanitizer" not in error, error.decode()[-4000:]
