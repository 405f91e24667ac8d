"""The server under load: many clients, clients that disconnect, signals."""
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest
from conftest import (
    HEADSCOPE,
    MINI,
    PATIENCE,
    SANITIZED,
    Clients,
    busy,
    endless,
    occupied,
    post_bytes,
    read_all,
    reserved_port,
    slow_unless_sanitized,
    until,
)

BUSY = ("POST", "/analyze", json.dumps(busy()))


def test_many_clients_see_only_answers_and_refusals(start_server):
    server = start_server("--workers", "2", "--queue", "16", "--cache", "0", "--deadline", "600")
    answers = Clients(server, 64 * [BUSY]).join()
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 18  # the queue and the workers were full before the first refusal
    for answer in answers:
        if answer.status == 503:
            assert answer.headers["Retry-After"] == "1"
            assert answer.headers.get_content_type() == "application/problem+json"
    assert server.metric("queue_depth") == 0


def threads(server):
    """Ticks of CPU time and nice value of each."""
    folder = f"/proc/{server.process.pid}/task"
    fields = {int(task): Path(folder, task, "stat").read_text().rsplit(")", 1)[1].split() for task in os.listdir(folder)}
    return {task: (int(of[11]) + int(of[12]), int(of[16])) for task, of in fields.items()}


def slices(server):
    """The time slice of each thread, where the system shows it."""
    folder = f"/proc/{server.process.pid}/task"
    files = {int(task): Path(folder, task, "sched") for task in os.listdir(folder)}
    found = {task: re.search(r"se\.slice\s*:\s*(\d+)", file.read_text()) for task, file in files.items() if file.exists()}
    return {task: int(match[1]) for task, match in found.items() if match}


def test_whoever_computes_has_the_ordinary_priority(start_server):
    """A lower one would starve them beside other programs. A lone request is computed by the worker and helpers."""
    server = start_server("--workers", "1", "--cache", "0", "--deadline", "600")
    assert server.post("/analyze", busy()).status == 200  # what loading the models left to do goes before it
    before, loop = threads(server), server.process.pid

    def computing():
        """Nice values of the threads that have worked, after one more request. On a busy machine it may be one thread for a while."""
        assert server.post("/analyze", busy()).status == 200
        after = threads(server)
        return [after[task][1] for task in after if task != loop and after[task][0] - before.get(task, (0, 0))[0] >= 5]

    until(computing, lambda found: len(found) >= min(2, len(os.sched_getaffinity(0))))
    assert set(computing()) == {threads(server)[loop][1]}


def test_only_the_loop_has_a_short_time_slice(start_server):
    server = start_server("--workers", "1", "--cache", "0")
    assert server.post("/analyze", {"text": "a b c"}).status == 200
    found = slices(server)
    loop = found.pop(server.process.pid, None)
    release = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
    if loop is None or release < (6, 12) or os.sched_getscheduler(0) != os.SCHED_OTHER or os.getpriority(os.PRIO_PROCESS, 0) < 0:
        pytest.skip("this system has or shows no time slices of threads")
    assert loop == 100_000
    assert min(found.values()) > loop


def test_health_overtakes_busy_workers(start_server):
    server = start_server("--workers", "1", "--cache", "0", "--deadline", "600")
    blocker = occupied(server)
    clients = Clients(server, 7 * [BUSY])
    server.wait_metric("queue_depth", lambda n: n == 7)
    for path in ["/health", "/ready", "/", "/metrics"]:
        assert server.get(path).status == 200
    assert server.metric("queue_depth") == 7, "something was answered before the short questions"
    blocker.close()
    assert {answer.status for answer in clients.join()} == {200}


def short_requests():
    """Bodies of several models, depths and kinds. Some are refused, and one has a longer text."""
    bodies = [{"text": f"request {i} of many, each a little longer {'than the last ' * (i % 4)}",
               "layers": [[0], [3], "all"][i % 3], "outputs": ["pairs", "summary", "attentions", "similarities"]}
              for i in range(18)]
    for body in bodies[::4]:
        body["model"] = "twin"
    bodies[3:3] = [{"text": 3}, {"text": "word " * 200, "max_tokens": 200}, {"text": "no such", "layers": [99]}]
    return [("POST", "/tokenize" if i == 5 else "/analyze", json.dumps(body)) for i, body in enumerate(bodies)]


def test_waiting_short_requests_share_passes_and_answer_as_if_alone(start_server):
    server = start_server("--workers", "1", "--cache", "0", "--together", "8", "--deadline", "600",
                          "--model", f"one={MINI}", "--model", f"twin={MINI}")
    requests = short_requests()
    headers = [{"Content-Type": "application/json", "X-Request-Id": f"r{i}"} for i in range(len(requests))]
    alone = [server.request(*request, own) for request, own in zip(requests, headers)]
    assert server.metric("packed_requests_total") == 0, "a lone request waits for nobody"
    blocker = occupied(server)
    clients = Clients(server, [(*request, own) for request, own in zip(requests, headers)])
    server.wait_metric("queue_depth", lambda n: n == len(requests))
    blocker.close()
    assert [(answer.status, answer.body) for answer in clients.join()] == [(a.status, a.body) for a in alone]
    assert {answer.status for answer in alone} == {200, 422}
    assert server.metric("packed_requests_total") >= 4


@pytest.mark.parametrize("leaving", [[0], [2, 3], range(6)])
def test_leaving_a_batch_leaves_the_others(start_server, leaving):
    server = start_server("--workers", "1", "--cache", "0", "--together", "8", "--deadline", "600")
    slow = {**busy(), "text": "a " * 300}
    bodies = [slow] + [{"text": f"short {i}"} for i in range(5)]
    alone = [server.post("/analyze", body).body for body in bodies]
    for _ in range(10):
        blocker = occupied(server)
        clients = [server.socket() for _ in bodies]
        for client, body in zip(clients, bodies):
            client.sendall(post_bytes(body).replace(b"Host: x", b"Host: x\r\nConnection: close"))
        server.wait_metric("queue_depth", lambda n: n == len(bodies))
        blocker.close()
        server.wait_metric("queue_depth", lambda n: n == 0)
        for i in leaving:
            clients[i].close()
        for i, client in enumerate(clients):
            if i not in leaving:
                assert read_all(client).endswith(b"\r\n\r\n" + alone[i])
        server.wait_metric("workers_busy", lambda n: n == 0)
    assert server.requests(route="/analyze", status="499") > 0
    assert server.metric("packed_requests_total") > 0 or len(leaving) == 6


@pytest.mark.parametrize("how", ["close", "reset"])
def test_vanished_client_frees_its_worker_and_its_place(start_server, how):
    server = start_server("--workers", "1", "--queue", "2", "--cache", "0")
    clients = []
    for _ in range(3):
        clients.append(server.socket())
        clients[-1].sendall(post_bytes(endless()))
    server.wait_metric("queue_depth", lambda n: n == 2)
    for client in clients:
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    server.wait_metric("workers_busy", lambda n: n == 0)
    assert server.metric("queue_depth") == 0
    server.wait_requests(lambda n: n >= 2, route="/analyze", status="499")
    assert server.post("/analyze", {"text": "still here"}).status == 200


def test_drain_answers_what_was_begun(start_server):
    server = start_server("--workers", "1", "--cache", "0", "--deadline", "600")
    idle = server.socket()
    blocker = occupied(server)
    clients = Clients(server, 4 * [BUSY])
    server.wait_metric("queue_depth", lambda n: n == 4)
    kept = server.connect()
    kept.request("GET", "/health")
    kept.getresponse().read()
    server.signal(signal.SIGTERM)
    assert idle.recv(1) == b"", "a connection without a request is closed at once"
    blocker.close()
    answers = clients.join()
    assert [answer.status for answer in answers] == [200] * 4
    assert server.wait() == 0
    with pytest.raises(ConnectionError):
        server.socket()


def test_drain_says_that_it_is_not_ready(start_server):
    server = start_server("--workers", "1", "--cache", "0", "--header-timeout", "600")
    waiting = server.socket()
    waiting.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n")  # begun, not finished
    blocker = occupied(server)
    server.signal(signal.SIGTERM)
    server.wait_log("finishing")
    waiting.sendall(b"\r\n")
    answer = read_all(waiting)
    assert answer.startswith(b"HTTP/1.1 503") and b"Connection: close" in answer
    blocker.close()
    assert server.wait() == 0


def test_alive_but_not_ready_while_loading(start_loading):
    server = start_loading("--model", f"m={MINI}")
    assert server.get("/health").status == 200
    for path in ["/ready", "/models"]:
        answer = server.get(path)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    server.go_on()
    assert server.process.stdout.readline().startswith(b"headscope is ready")
    assert server.get("/ready").status == 200
    assert server.stop() == 0


def test_signal_while_loading(start_loading):
    server = start_loading("--model", f"m={MINI}")
    assert server.get("/ready").status == 503
    server.signal(signal.SIGTERM)
    server.wait_log("finishing")
    server.go_on()
    assert server.process.stdout.read() == b""
    assert server.wait() == 0


def test_interrupt_drains_too(start_server):
    server = start_server()
    server.signal(signal.SIGINT)
    assert server.wait() == 0


@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_a_server_without_standard_descriptors_stops_in_order(closed):
    """Else its own descriptors get their numbers, log lines go there, and libuv aborts as it closes them."""
    redirections = " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in closed)
    with reserved_port() as reserved:
        host, port = reserved.getsockname()
        process = subprocess.Popen(["sh", "-c", f'exec "$0" serve --listen {host}:{port} {redirections}', HEADSCOPE],
                                   stdout=subprocess.DEVNULL)
        while not ready(host, port):
            assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def ready(host, port):
    connection = http.client.HTTPConnection(host, port)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_second_signal_stops_at_once(start_server):
    server = start_server("--workers", "1", "--cache", "0")
    clients = [server.socket() for _ in range(12)]
    for client in clients:
        client.sendall(post_bytes(endless()))
    server.wait_metric("queue_depth", lambda n: n == 11)
    server.signal(signal.SIGTERM)
    server.wait_log("finishing")
    later = time.monotonic() + 0.2
    until(lambda: time.monotonic() > later)  # else it counts as the first one
    server.signal(signal.SIGTERM)
    assert server.wait() == 1
    assert not [client for client in clients if b"200 OK" in read_all(client)]


def test_a_signal_that_comes_twice_at_once_is_one(start_server):
    """timeout signals its command and then the whole group."""
    server = start_server("--workers", "1", "--cache", "0")
    with server.socket() as client:
        client.sendall(post_bytes(busy()))
        server.wait_metric("workers_busy", lambda n: n == 1)
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGINT)
        assert b"200 OK" in read_all(client)
    assert server.wait() == 0


def test_hammering_leaves_nothing_behind(start_server):
    server = start_server("--cache", "0", "--log", "json")

    def hammer(times):
        for i in range(times):
            texts = [{"text": f"request {i}"}, {"text": ""}, {"text": 1}, {"nonsense": i}]
            for body in texts:
                server.post("/analyze", body)
            server.get("/nowhere")
            server.get("/")
            with server.socket() as client:
                client.sendall(b"POST /analyze HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
            with server.socket() as client:
                client.sendall(post_bytes({"text": "gone before the answer"}))

    hammer(30)
    before = server.metrics()
    hammer(150)
    server.wait_metric("requests_in_flight", lambda n: n == 1)
    after = server.metrics()
    assert after["process_open_fds"] <= before["process_open_fds"] + 2
    assert after["headscope_held_bytes"] <= before["headscope_held_bytes"]
    growth = after["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
    assert growth < 8 << 20 or SANITIZED  # which keeps freed memory on purpose


def test_json_log_has_a_line_for_each_request(start_server):
    server = start_server("--log", "json")
    server.get('/nowhere"\\', {"X-Request-Id": "find-me"})
    server.post("/analyze", {"text": "a"}, {"X-Request-Id": "find-me-too"})
    assert server.stop() == 0
    lines = list(map(json.loads, server.log().splitlines()))
    start = next(line for line in lines if line["message"] == "ready")
    assert start["version"] and start["address"] == server.url and start["models"] == "mini" and start["max_body"] == 1 << 20
    lines = {line["id"]: line for line in lines if "id" in line}
    assert lines["find-me"]["status"] == 404 and lines["find-me"]["method"] == "GET"
    found = lines["find-me-too"]
    assert found["bytes_in"] == 13 and found["bytes_out"] > 0 and found["ms"] > 0
    assert found["forward_ms"] > 0 and found["queue_ms"] >= 0 and found["model"] == "mini"
    assert found["client"] == "127.0.0.1" and found["path"] == "/analyze"


def test_json_log_from_the_first_line(start_server, tmp_path):
    (tmp_path / "tokens").write_text("shorty\n")
    server = start_server("--log", "json", "--token-file", str(tmp_path / "tokens"))
    assert server.send(b"GET / HTTP/0.1\r\n\r\n").startswith(b"HTTP/1.1 505")  # by libmicrohttpd 1.0 itself, without a line
    assert server.get("/models").status == 401
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.log().splitlines()]
    assert {"time", "level", "message"} <= set.intersection(*(set(line) for line in lines))
    assert [line["level"] for line in lines][:2] == ["warning", "warning"] and any(line.get("status") == 401 for line in lines)
    done = subprocess.run([HEADSCOPE, "serve", "--log", "json", "--listen", server.url.removeprefix("http://"), "--token-file", "/nowhere"],
                          capture_output=True, timeout=PATIENCE)
    failed = json.loads(done.stderr)
    assert done.returncode == 1 and failed["level"] == "error" and "/nowhere" in failed["message"]


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_requests_are_logged_with_their_traces(start_server):
    headers = [
        (f"00-{TRACE}-{PARENT}-01", True), (f"00-{TRACE}-{PARENT}-00", True), (f"cc-{TRACE}-{PARENT}-01-what-is-to-come", True),
        (f"00-{TRACE}-{PARENT}-01-more", False), (f"ff-{TRACE}-{PARENT}-01", False), (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False), (f"00-{TRACE.upper()}-{PARENT}-01", False), (f"00-{TRACE}-{PARENT}", False),
        (f"00-{TRACE[1:]}-{PARENT}0-01", False), ('"' * 55, False), ("", False),
    ]
    server = start_server("--log", "json")
    for number, (header, _) in enumerate(headers):
        assert server.get("/models", {"traceparent": header, "X-Request-Id": f"n{number}"}).status == 200
    assert server.stop() == 0
    lines = {line.get("id"): line for line in map(json.loads, server.log().splitlines())}
    for number, (header, known) in enumerate(headers):
        line = lines[f"n{number}"]
        assert (line.get("trace_id"), line.get("parent_id")) == ((TRACE, PARENT) if known else (None, None)), header


def test_a_request_cannot_write_lines_of_the_log(start_server, tmp_path):
    """The reason of a failed run quotes the name of the field that its client gave."""
    server = start_server("--state", str(tmp_path))
    field = urllib.parse.quote("t\n2026-01-01T00:00:00.000Z info forged \x1b[31m\u009b")
    run = server.request("POST", f"/corpora?max_tokens=8&layers=0&field={field}", b'{"a":1}\n' * 10050,
                         {"Content-Type": "application/x-ndjson"}).json()["id"]
    server.wait_for(lambda: server.get(f"/corpora/{run}").json()["state"], lambda state: state == "failed")
    assert server.stop() == 0
    line = next(line for line in server.log().splitlines() if "forged" in line)
    assert f"corpus run {run}" in line and r"\u000a2026" in line and r"\u001b[31m\u009b" in line


def test_unread_log_does_not_stop_the_server(start_server):
    """Nobody reads the pipe: lines are dropped and counted, requests are answered."""
    reading, writing = os.pipe()
    server = start_server(stderr=writing)
    os.close(writing)
    connection = server.connect()
    for _ in range(1500):
        connection.request("GET", "/health")
        assert connection.getresponse().read()
    connection.close()
    assert server.metric("log_lines_dropped_total") > 0
    assert server.stop() == 0
    os.close(reading)


LARGE = {"text": "word " * 300, "max_tokens": 220, "layers": "all", "outputs": ["attentions"], "dtype": "f2"}


def unread(server):
    """A client that asks for a large answer and takes none of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((server.host, server.port))
    client.sendall(post_bytes(LARGE, "/analyze?format=npz"))
    return client


@slow_unless_sanitized
def test_clients_that_do_not_read(start_server):
    """The memory of slow readers is bounded, other clients are answered, and slow readers are disconnected after some seconds."""
    server = start_server("--max-answer", "16M", "--max-held", "64M", "--cache", "0")
    size = len(server.post("/analyze?format=npz", LARGE).body)
    assert size > 12 << 20
    slow = unread(server)  # it reads, but slowly; the first, or there might be no memory left for it
    server.wait_metric("held_bytes", lambda n: n >= size)
    clients = [unread(server) for _ in range(11)]
    server.wait_metric("held_bytes", lambda n: n >= 2 * size)
    server.wait_metric("workers_busy", lambda n: n == 0)
    refused = server.post("/analyze?format=npz", LARGE)
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    taken = 0

    def cut_off():
        nonlocal taken
        assert server.post("/analyze", {"text": "a short one"}).status == 200
        assert server.metric("held_bytes") <= 32 << 20, "half of it is the most for one client"
        taken += len(slow.recv(4096))  # each look takes a little
        return server.metric("connections_cut_off_total")

    until(cut_off)
    server.wait_metric("held_bytes", lambda n: n <= size)
    taken += len(read_until(slow, size - taken))
    slow.close()
    assert taken > size, "the slow reader was left in peace"
    server.wait_metric("held_bytes", lambda n: n == 0)
    assert len(server.post("/analyze?format=npz", LARGE).body) == size
    for client in clients:
        client.close()


def read_until(client, n_bytes):
    data = b""
    while len(data) < n_bytes or not data:
        chunk = client.recv(1 << 20)
        if not chunk:
            break
        data += chunk
    return data


def test_an_answer_that_can_never_be_held_is_too_large(start_server):
    server = start_server("--max-held", "8M")
    answer = server.post("/analyze?format=npz", LARGE)
    assert answer.status == 422 and "the limit is 4.2 MB" in answer.json()["detail"]


def test_connections_of_one_address(start_server):
    server = start_server("--connections-per-address", "3")
    clients = [server.socket() for _ in range(3)]
    for client in clients:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(20).startswith(b"HTTP/1.1 200")
    with server.socket() as more:
        answer = read_all(more)
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 503") and json.loads(body)["status"] == 503
    assert int(re.search(rb"Content-Length: (\d+)", head)[1]) == len(body)
    other = socket.create_connection((server.host, server.port), timeout=PATIENCE, source_address=("127.0.0.2", 0))
    with other:
        other.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"headscope_connections_refused_total 1\n" in read_all(other)
    for client in clients:
        client.close()
    health = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    until(lambda: server.send(health), lambda answer: not answer.startswith(b"HTTP/1.1 503"))
