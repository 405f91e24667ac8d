"""Clients that read slowly, stall or leave while the server sends."""
import json
import resource
import signal
import socket
import time

import pytest
from conftest import post_bytes, read_all, slow_unless_sanitized

LINES = {"Content-Type": "application/x-ndjson"}
SLOWEST = 262144  # bytes a second that a reader must take


def reader(server, data, receive_buffer):
    """A client with a small receive buffer that has sent its request."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.connect((server.host, server.port))
    client.sendall(data)
    return client


def read_at(client, rate, seconds):
    """Reads for so many seconds at that rate, in bytes a second. Returns less if the server closes the connection."""
    data, began = b"", time.monotonic()
    while time.monotonic() - began < seconds and (piece := client.recv(16384)):
        data += piece
        time.sleep(max(0, len(data) / rate - (time.monotonic() - began)))
    return data


@pytest.mark.slow
def test_a_steady_reader_of_lines_gets_them_all(start_server):
    """It reads a little faster than it must, and slower than the server computes, for longer than an answer's grace."""
    server = start_server()
    line = {"text": "one two three cat dog war last bridge", "outputs": ["attentions"], "layers": [0, 1, 2, 3]}
    body = "".join(json.dumps({**line, "text": f"{i} {line['text']}"}) + "\n" for i in range(1000)).encode()
    head = (b"POST /analyze HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
    with reader(server, head + body, 65536) as client:
        data = read_at(client, 1.2 * SLOWEST, 40) + read_all(client)
    assert data.endswith(b"\r\n0\r\n\r\n") and data.count(b'"attentions":') == 1000
    assert server.metric("connections_cut_off_total") == 0


def watched(server, run):
    """A client that watches a run and got one event of it."""
    client = server.socket()
    client.sendall(b"GET /corpora/%s/events HTTP/1.1\r\nHost: x\r\n\r\n" % run.encode())
    data = b""
    while b"\n\n" not in data.partition(b"\r\n\r\n")[2]:
        data += client.recv(4096)
    return client


def test_a_client_that_stops_watching_a_run_leaves_its_place(start_server, tmp_path):
    """At once, not with the next event. A client that stays shows when that comes: it watches for longer."""
    server = start_server("--state", str(tmp_path))
    text = b"the war, the last war of the old bridge. " * 12 + b"\n"
    _, waiting = [server.request("POST", "/corpora", text * n, {"Content-Type": "text/plain"}).json()["id"]
                  for n in (20000, 1)]
    stays, leaves = watched(server, waiting), watched(server, waiting)
    n = server.metric("connections")
    leaves.close()
    server.wait_metric("connections", lambda now: now < n)
    stays.setblocking(False)
    try:
        assert stays.recv(4096) == b"", "the server noticed only as it wrote to both"
    except BlockingIOError:
        pass
    stays.close()
    server.wait_metric("connections", lambda now: now == 1)


def test_a_server_that_stops_ends_what_its_clients_watch(start_server, tmp_path):
    server = start_server("--state", str(tmp_path))
    text = b"the war, the last war of the old bridge. " * 12 + b"\n"
    _, waiting = [server.request("POST", "/corpora", text * n, {"Content-Type": "text/plain"}).json()["id"]
                  for n in (20000, 1)]
    with watched(server, waiting) as client:
        server.signal(signal.SIGTERM)
        assert read_all(client).endswith(b"0\r\n\r\n")
    assert server.wait() == 0


def test_readers_of_reports_leave_descriptors_to_others(start_server, tmp_path):
    """Each that stalls keeps its connection and the report's file open: the server has both for every connection."""
    n_readers = 300
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # inherited: the server raises it to what it needs
    try:
        server = start_server("--state", str(tmp_path), "--connections", str(n_readers + 10))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n_readers + 100), hard))
    text = {"Content-Type": "text/plain"}
    run = server.request("POST", "/corpora?max_tokens=16", b"One text.\nTwo texts.\n", text).json()["id"]
    server.wait_for(lambda: server.get(f"/corpora/{run}").json()["state"], lambda state: state == "done")
    ask = b"GET /corpora/%s/report?format=npz HTTP/1.1\r\nHost: x\r\n\r\n" % run.encode()
    readers = [reader(server, ask, 4096) for _ in range(n_readers)]
    assert all(client.recv(12) == b"HTTP/1.1 200" for client in readers)
    assert server.metric("connections_cut_off_total") == 0, "the last ones were answered beside the first"
    assert server.metrics()["process_open_fds"] > 2 * n_readers
    other = server.request("POST", "/corpora?max_tokens=16", b"A third text.\n", text).json()["id"]
    server.wait_for(lambda: server.get(f"/corpora/{other}").json()["state"], lambda state: state in ("done", "failed"))
    assert server.get(f"/corpora/{other}").json()["state"] == "done"
    for client in readers:
        client.close()
    server.wait_metric("held_bytes", lambda n: n == 0)


def in_send_queues(server):
    """Bytes that the system holds for the server's clients, closed connections included."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        rows = [line.split() for line in lines][1:]
    return sum(int(row[4].split(":")[0], 16) for row in rows if int(row[1].split(":")[1], 16) == server.port)


@slow_unless_sanitized
def test_answers_in_the_systems_queues_are_held_and_end(start_server):
    """A megabyte goes into the system's queue at once: the exchange is over, the client has read nothing."""
    held_max = 16 << 20
    server = start_server("--max-held", str(held_max), "--cache", "0")
    ask = post_bytes({"text": "one two three cat dog war last bridge " * 6, "outputs": ["attentions"],
                      "layers": list(range(11))}, "/analyze?format=npz")
    clients = [reader(server, ask, 2048) for _ in range(60)]
    for client in clients:
        client.recv(1)  # answered, or refused
    assert in_send_queues(server) <= held_max
    server.wait_metric("held_bytes", lambda n: n == 0)
    server.wait_for(lambda: in_send_queues(server), lambda n: n == 0)
    assert server.metric("connections_cut_off_total") > 0, "nobody read, nobody left"
    for client in clients:
        client.close()


def test_what_a_small_answer_leaves_in_the_queue_is_held(start_server):
    """It fits there as a whole. Its reader has as long as any other, and is let go of after the last byte."""
    server = start_server("--cache", "0")
    ask = post_bytes({"text": "one two three cat dog", "outputs": ["attentions"], "layers": "all"}, "/analyze?format=npz")
    size = len(server.send(ask.replace(b"Host: x", b"Host: x\r\nConnection: close")))
    client = reader(server, ask, 2048)
    server.wait_requests(lambda n: n == 2, route="/analyze", status="200")
    server.wait_for(lambda: abs(server.metric("held_bytes") - in_send_queues(server)), lambda n: n < 4096)
    assert server.metric("held_bytes") > 4096
    n = 0
    while n < size - 64:
        n += len(client.recv(65536))
    server.wait_metric("held_bytes", lambda n: n == 0)
    assert server.metric("connections_cut_off_total") == 0
    client.close()
