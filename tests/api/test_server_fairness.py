"""Requests that wait, for a worker or for a disk: clients take turns, and what nobody waits for any more is dropped."""
import contextlib
import json
import resource
import shutil
import socket

import pytest
from conftest import PATIENCE, Server, busy, endless, failing, occupied, post_bytes, read_all, until
from test_corpora import send, wait

LARGEST_DISK_QUEUE = 1024


def socket_from(server, address):
    return socket.create_connection((server.host, server.port), PATIENCE, (address, 0))


def ask(client, request):
    client.sendall(request.replace(b"Host: x", b"Host: x\r\nConnection: close"))


def status(client):
    """The answer's status and its headers."""
    head = read_all(client).split(b"\r\n\r\n")[0].decode()
    return int(head.split()[1]), head


def get_bytes(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


# ---- workers ----

def test_a_client_that_fills_the_queue_keeps_nobody_out(start_server):
    """80 small requests of one client gave everybody 503 for a minute."""
    server = start_server("--workers", "1", "--queue", "4", "--cache", "0", "--together", "1")
    with contextlib.ExitStack() as sockets:
        blocker = occupied(server)
        greedy = []
        for number in range(4):
            greedy.append(sockets.enter_context(server.socket()))
            ask(greedy[-1], post_bytes(busy()))
            server.wait_metric("queue_depth", lambda n, waiting=number + 1: n == waiting)
        refused = server.post("/analyze", busy())
        assert refused.status == 503 and refused.headers["Retry-After"] and "queue is full" in refused.json()["detail"]
        other = sockets.enter_context(socket_from(server, "127.0.0.2"))
        ask(other, post_bytes({"text": "only one"}))
        dropped, head = status(greedy.pop())  # the newest one of the client with most
        assert dropped == 503 and "Retry-After: 1" in head
        assert server.metric("queue_dropped_total") == 1 and server.metric("queue_depth") == 4
        blocker.close()
        assert status(other)[0] == 200
        assert server.metric("queue_depth") >= 2  # it was not the last
        assert [status(client)[0] for client in greedy] == [200, 200, 200]


def test_lines_of_one_client_keep_nobody_out(start_server):
    """They are admitted once, so none of them is dropped."""
    server = start_server("--workers", "1", "--queue", "2", "--cache", "0")
    lines = b"\n".join(json.dumps({"text": f"line {i}"}).encode() for i in range(3)) + b"\n"
    with contextlib.ExitStack() as sockets:
        blocker = occupied(server)
        greedy = [sockets.enter_context(server.socket()) for _ in range(2)]
        for client in greedy:
            ask(client, b"POST /analyze HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"
                % len(lines) + lines)
        server.wait_metric("queue_depth", lambda n: n >= 2)
        other = sockets.enter_context(socket_from(server, "127.0.0.2"))
        ask(other, post_bytes({"text": "only one"}))
        before = server.metric("queue_depth")
        until(lambda: server.metric("requests_in_flight"), lambda n: n >= 4)
        blocker.close()
        assert status(other)[0] == 200 and before <= 4
        for client in greedy:
            answers = read_all(client)
            assert answers.startswith(b"HTTP/1.1 200") and answers.count(b'"tokens"') == 3


def test_running_requests_of_one_client_are_limited(start_server):
    server = start_server("--workers", "2", "--cache", "0", "--running-per-address", "1")
    with contextlib.ExitStack() as sockets:
        for _ in range(2):
            ask(sockets.enter_context(server.socket()), post_bytes(endless()))
        server.wait_metric("queue_depth", lambda n: n == 1)
        other = sockets.enter_context(socket_from(server, "127.0.0.2"))
        ask(other, post_bytes({"text": "only one"}))
        assert status(other)[0] == 200
        assert server.metric("workers_busy") == 1 and server.metric("queue_depth") == 1


# ---- batches ----

SHORT = {"text": "only one", "outputs": ["attentions"], "layers": "all", "heads": [0]}
CONTRADICTION = {**SHORT, "interventions": [{"kind": "uniform", "layers": [0], "heads": [0]},
                                            {"kind": "identity", "layers": [0], "heads": [0]}]}
MINUTES = {"head scores": {"text": "a", "outputs": ["head_scores"], "layers": "all", "head_scores": {"length": 250, "sequences": 1000}},
           "effects": {"text": "[MASK] " * 180, "outputs": ["effects"], "layers": "all"},
           "value zeroing": {"text": "[MASK] " * 180, "outputs": ["value_zeroing"], "layers": "all"},
           "map of patches": {"text": "[MASK] " * 90, "outputs": ["patch_map"], "target": {"token": "cat", "position": 1},
                              "effects_of": {"kind": "patch", "from": {"text": "cat " * 90}}}}


def lines_bytes(*bodies):
    lines = b"\n".join(json.dumps(body).encode() for body in bodies)
    return (b"POST /analyze HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(lines)
            + lines)


def test_a_request_that_is_refused_leaves_those_of_other_clients(start_server):
    """It shared their pass, which failed, and all of them got its error."""
    server = start_server("--workers", "1", "--cache", "0")
    with contextlib.ExitStack() as sockets:
        blocker = occupied(server)
        clients = [sockets.enter_context(socket_from(server, f"127.0.0.{2 + i}")) for i in range(5)]
        for number, (client, body) in enumerate(zip(clients, [SHORT, CONTRADICTION, SHORT, {**SHORT, "input_ids": [99999]}, SHORT])):
            ask(client, post_bytes(body))
            server.wait_metric("queue_depth", lambda n, waiting=number + 1: n == waiting)
        blocker.close()
        assert [status(client)[0] for client in clients] == [200, 422, 200, 422, 200]


def test_a_line_that_is_refused_leaves_the_others(start_server):
    server = start_server("--workers", "1", "--cache", "0")
    with server.socket() as client:
        ask(client, lines_bytes(SHORT, CONTRADICTION, SHORT))
        answers = [json.loads(line) for line in read_all(client).split(b"\n") if line.startswith(b"{")]
    assert ["tokens" in answer for answer in answers] == [True, False, True]
    assert answers[1]["line"] == 2 and answers[1]["pointer"] == "/interventions"
    assert "head 0 of layer 0 is asked to be uniform and the identity" in answers[1]["detail"]


@pytest.mark.parametrize("form", ["requests", "lines"])
@pytest.mark.parametrize("kind", MINUTES)
def test_a_short_request_waits_for_no_batch_of_long_ones(start_server, kind, form):
    """A worker took up to eight requests with short bodies and answered none of them before the last one was done."""
    server = start_server("--workers", "1", "--cache", "0", "--deadline", "600")
    with contextlib.ExitStack() as sockets:
        blocker = occupied(server)
        long = [sockets.enter_context(server.socket()) for _ in range(6)]
        for number, client in enumerate(long):
            ask(client, post_bytes(MINUTES[kind]) if form == "requests" else lines_bytes(*3 * [MINUTES[kind]]))
            server.wait_metric("queue_depth", lambda n, waiting=number + 1: n >= waiting)
        other = sockets.enter_context(socket_from(server, "127.0.0.2"))
        before = server.metric("queue_depth")
        ask(other, post_bytes(SHORT))
        server.wait_metric("queue_depth", lambda n: n == before + 1)
        blocker.close()
        assert status(other)[0] == 200
        assert [server.requests(route="/analyze", status=number) for number in ("200", "422")] == [1, 0]
        for client in long[1:]:  # those that wait; the first one is running or next
            client.close()
        again = sockets.enter_context(socket_from(server, "127.0.0.2"))
        ask(again, post_bytes(SHORT))
        long[0].close()
        assert status(again)[0] == 200


def test_requests_that_share_no_pass_are_answered_as_if_alone(start_server):
    """Short and long ones, of several kinds, in one batch: each keeps its answer, and those of one pass share it."""
    server = start_server("--workers", "1", "--cache", "0", "--deadline", "600")
    bodies = [SHORT, {**SHORT, "layers": [2]}, {"text": "a [MASK]", "outputs": ["effects"]}, SHORT,
              {"text": "a [MASK]", "outputs": ["predictions"]}, {**SHORT, "layers": [2]},
              {**SHORT, "interventions": [{"kind": "zero", "layers": [0], "heads": [0]}]}, {"text": "a", "outputs": ["embedding"]}]
    alone = [server.post("/analyze", body).body for body in bodies]
    with contextlib.ExitStack() as sockets:
        blocker = occupied(server)
        clients = [sockets.enter_context(server.socket()) for _ in bodies]
        for number, (client, body) in enumerate(zip(clients, bodies)):
            ask(client, post_bytes(body))
            server.wait_metric("queue_depth", lambda n, waiting=number + 1: n == waiting)
        blocker.close()
        for client, body in zip(clients, alone):
            assert read_all(client).endswith(b"\r\n\r\n" + body)
    assert server.metric("packed_requests_total") >= 4
    assert server.metric("queue_depth") == 0 and server.metric("workers_busy") == 0


# ---- disks ----

@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A state folder with two runs, and the path that compares them."""
    state = tmp_path_factory.mktemp("compared")
    server = Server("--state", str(state))
    paths = [send(server, b'"The bridge was closed."\n', "layers=0&max_tokens=16").headers["Location"] for _ in range(2)]
    assert [wait(server, path)["state"] for path in paths] == ["done", "done"]
    assert server.stop() == 0
    return state, f"{paths[0]}/comparison?with={paths[1].rsplit('/', 1)[1]}"


def release(gate):
    """Lets the calls go on. A slow machine may not have begun the first one, which makes the file."""
    until(gate.exists)
    gate.unlink()


@pytest.fixture
def standing(compared, preload, start_server, tmp_path):
    """standing(*options): a server whose disk calls wait where they open a report, until the file is removed."""
    gate, state = tmp_path / "gate", tmp_path / "state"
    shutil.copytree(compared[0], state)

    def start(*arguments):
        environment = {**failing(preload, "open", -1, "wait", gate), "FAILING_CALL_PATH": "report.json"}
        return start_server("--state", str(state), *arguments, environment=environment), gate, compared[1]

    yield start
    gate.unlink(missing_ok=True)


def test_one_client_leaves_a_disk_thread_to_others(standing):
    server, gate, comparison = standing()
    with contextlib.ExitStack() as sockets:
        clients = [sockets.enter_context(server.socket()) for _ in range(5)]
        for client in clients:
            ask(client, get_bytes(comparison))
        server.wait_metric("disk_queue_depth", lambda n: n == 2)
        other = sockets.enter_context(socket_from(server, "127.0.0.2"))
        ask(other, get_bytes("/corpora"))
        assert status(other)[0] == 200
        assert server.metric("disk_queue_depth") == 2
        release(gate)
        assert [status(client)[0] for client in clients] == [200] * 5


def test_calls_for_clients_that_left_are_dropped(standing):
    """40 comparisons for nobody kept /corpora unanswered for minutes, and SIGTERM waited for them."""
    server, gate, comparison = standing()
    clients = [server.socket() for _ in range(20)]
    for client in clients:
        ask(client, get_bytes(comparison))
    server.wait_metric("disk_queue_depth", lambda n: n == 17)
    for client in clients:
        client.close()
    server.wait_metric("disk_queue_depth", lambda n: n == 0)
    server.wait_requests(lambda n: n == 17, route="/corpora/{id}/comparison", status="499")
    release(gate)
    server.wait_requests(lambda n: n == 20, route="/corpora/{id}/comparison", status="499")
    assert server.get("/corpora").status == 200
    assert server.get(comparison).status == 200
    assert server.stop() == 0


def test_calls_have_a_deadline(standing):
    server, gate, comparison = standing("--deadline", "1")
    with contextlib.ExitStack() as sockets:
        clients = [sockets.enter_context(server.socket()) for _ in range(5)]
        for client in clients:
            ask(client, get_bytes(comparison))
        server.wait_requests(lambda n: n == 2, route="/corpora/{id}/comparison", status="504")  # those that waited
        release(gate)
        answers = [read_all(client) for client in clients]  # the others stop where they look
        assert all(answer.startswith(b"HTTP/1.1 504") and b"deadline of 1 s" in answer for answer in answers)
    assert server.get("/corpora").status == 200


def test_waiting_disk_calls_are_bounded(standing):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, LARGEST_DISK_QUEUE + 200), hard))
    server, gate, comparison = standing("--connections", str(LARGEST_DISK_QUEUE + 100))
    with contextlib.ExitStack() as sockets:
        clients = [sockets.enter_context(server.socket()) for _ in range(LARGEST_DISK_QUEUE + 3)]
        for client in clients:
            ask(client, get_bytes(comparison))
        server.wait_metric("disk_queue_depth", lambda n: n == LARGEST_DISK_QUEUE)
        refused = server.get("/corpora")
        assert refused.status == 503 and refused.headers["Retry-After"] == "1" and "wait for the disk" in refused.json()["detail"]
        upload = send(server, b'"One text."\n')
        assert upload.status == 503 and upload.headers["Retry-After"] == "1"
        for client in clients:
            client.close()
        server.wait_metric("disk_queue_depth", lambda n: n == 0)
        release(gate)
    assert server.get("/corpora").status == 200
