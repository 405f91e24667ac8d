"""POST /analyze with application/x-ndjson: each line a request, each answer a line, in order, as they are ready."""
import json
import socket
import struct

import pytest
from conftest import Clients, busy, endless

LINES = {"Content-Type": "application/x-ndjson"}
BODIES = [
    {"text": "The war ended in 1945."}, {"text": "", "outputs": ["pairs"]},
    {"text": "Paris is the [MASK] of France.", "outputs": ["predictions", "summary"], "layers": "all"},
    {"words": ["two", "words"], "outputs": ["attentions"], "heads": [3]}, {"input_ids": [2, 50, 3], "outputs": []},
    {"text": "One head.", "outputs": ["effects"], "heads": [1]}, {"text": "twin", "model": "twin", "outputs": ["regions"]},
    {"text": "changed", "outputs": ["pairs"], "interventions": [{"kind": "zero", "layers": [5]}]},
    {"text": "word " * 300, "max_tokens": 300, "outputs": ["segments"]}, {"text": "bad", "threshold": 7}, ["not a request"],
    {"text": "nobody's", "model": "nobody"},
]


def joined(bodies):
    return "\n".join(json.dumps(body) for body in bodies)


def post(server, data, **headers):
    return server.request("POST", "/analyze", data, {**LINES, **headers})


def read(answer):
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.body.endswith(b"\n") or not answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


@pytest.fixture(scope="module")
def twins():
    from conftest import Server
    running = Server("--model", "mini", "--model", "twin=model/mini", "--workers", "3", "--cache", "0")
    yield running
    assert running.stop() == 0


def test_lines_are_answered_as_if_alone(twins):
    alone = [twins.post("/analyze", body).json() for body in BODIES]
    for number in range(9, 12):
        alone[number]["line"] = number + 1
    assert read(post(twins, joined(BODIES))) == alone
    many = read(post(twins, joined(BODIES * 7)))
    for at, got in enumerate(many):
        assert got == ({**alone[at % 12], "line": at + 1} if at % 12 >= 9 else alone[at % 12])


def test_no_line_is_lost_when_the_queue_is_full(start_server):
    """The first lines take several turns of the only worker, and what is computed ahead stands before them."""
    server = start_server("--workers", "1", "--queue", "0", "--cache", "0")
    texts = [f"{i} " + "word " * 90 for i in range(40)]
    answers = read(post(server, joined([{"text": text, "outputs": ["segments"]} for text in texts])))
    assert [answer["tokens"][1] for answer in answers] == [str(i) for i in range(40)]


def test_short_lines_are_those_of_single_requests(server):
    bodies = [{"text": f"number {i} " + "word " * (i % 9), "outputs": ["similarities", "pairs"]} for i in range(200)]
    answers = read(post(server, joined(bodies)))
    for i in [0, 1, 15, 16, 17, 99, 199]:
        assert answers[i] == server.post("/analyze", bodies[i]).json()
    assert [answer["input_ids"] for answer in answers] == \
        [server.post("/tokenize", {"text": body["text"]}).json()["input_ids"] for body in bodies]


def test_bad_lines_tell_their_number_and_stop_nothing(server):
    good = '{"text": "a", "outputs": []}'
    data = "\n".join(["{", good, "", " \t", "[1]", good + "\r", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
                      '{"text": "a", "nonsense": 1}', good])
    answers = read(post(server, data.encode("latin-1")))
    assert [(answer.get("line"), answer.get("status")) for answer in answers] == \
        [(1, 400), (None, None), (5, 422), (None, None), (7, 400), (8, 422), (None, None)]
    assert answers[0]["position"] and answers[5]["pointer"] == "/nonsense"


@pytest.mark.parametrize("data", ["", "\n", "\n\r\n  \n"])
def test_nothing_is_answered_with_nothing(server, data):
    assert read(post(server, data)) == []


def test_a_last_line_needs_no_end(server):
    one = json.dumps({"text": "a", "outputs": []})
    assert len(read(post(server, one))) == len(read(post(server, one + "\n"))) == 1


@pytest.mark.parametrize("path, headers, status", [
    ("/analyze", {"Accept": "application/json"}, 406), ("/analyze", {"Accept": "application/x-npz"}, 406),
    ("/analyze?format=npz", {}, 406), ("/analyze?format=ndjson", {"Accept": "nothing"}, 200),
    ("/analyze", {"Accept": "application/x-ndjson, application/json;q=0.5"}, 200), ("/analyze", {"Accept": "*/*"}, 200),
    ("/analyze", {"Content-Type": "application/x-ndjson; charset=latin1"}, 415),
    ("/analyze", {"Content-Type": "application/x-ndjson; charset=UTF-8", "Accept-Encoding": "gzip"}, 200),
    ("/tokenize", {}, 415),
])
def test_forms(server, path, headers, status):
    answer = server.request("POST", path, '{"text": "a", "outputs": []}', {**LINES, **headers})
    assert answer.status == status
    if status == 200:
        assert len(read(answer)) == 1 and "Content-Encoding" not in answer.headers


def test_a_connection_is_kept(server):
    connection = server.connect()
    for _ in range(3):
        connection.request("POST", "/analyze", joined(BODIES[:2] * 40), LINES)
        assert len(connection.getresponse().read().splitlines()) == 80
    connection.close()


def test_lines_come_as_they_are_ready(start_server):
    """The first ones are there while the last is computed, which would take until somebody leaves."""
    server = start_server("--workers", "1", "--cache", "0", "--deadline", "600")
    connection = server.connect()
    connection.request("POST", "/analyze", joined([{"text": "first", "outputs": []}, busy(), busy(), endless()]), LINES)
    answer = connection.getresponse()
    assert json.loads(answer.readline())["tokens"][1] == "first"
    assert [len(json.loads(answer.readline())["tokens"]) for _ in range(2)] == [300, 300]
    server.wait_metric("workers_busy", lambda n: n == 1)
    answer.close()
    connection.close()
    server.wait_metric("workers_busy", lambda n: n == 0)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_ends_it(start_server, how):
    server = start_server("--workers", "2", "--cache", "0")
    data = joined([busy()] * 200).encode()
    client = server.socket()
    client.sendall(b"POST /analyze HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
                   b"Content-Length: %d\r\n\r\n" % len(data) + data)
    assert client.recv(100).startswith(b"HTTP/1.1 200")
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    server.wait_metric("workers_busy", lambda n: n == 0)
    server.wait_metric("held_bytes", lambda n: n == 0)
    assert server.metric("tokens_total") < 300 * 200
    assert server.post("/analyze", {"text": "still here"}).status == 200


def test_what_is_computed_ahead_is_bounded(start_server):
    """A client that reads next to nothing for a while: the server holds half of what it may, and all comes in the end."""
    server = start_server("--workers", "2", "--max-answer", "8M", "--max-held", "32M", "--cache", "0")
    large = {"text": "word " * 100, "layers": "all", "heads": [0, 1], "outputs": ["attentions"], "digits": 3}
    data = joined([large] * 40).encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect((server.host, server.port))
        client.sendall(b"POST /analyze HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(data) + data)
        server.wait_metric("held_bytes", lambda n: n > 1 << 20)
        body = b""
        while server.metric("workers_busy"):
            body += client.recv(4096)  # who took nothing at all would be cut off after some seconds
        assert server.metric("held_bytes") <= 20 << 20
        with client.makefile("rb") as stream:
            body += stream.read()
    assert body.count(b'"attentions":') == 40 and b'"status":' not in body
    server.wait_metric("held_bytes", lambda n: n == 0)


def test_the_deadline_is_a_lines_own(start_server):
    server = start_server("--deadline", "0.001", "--workers", "1", "--cache", "0")
    answers = read(post(server, joined([busy()] * 20)))
    statuses = [answer.get("status", 200) for answer in answers]
    assert len(statuses) == 20 and 504 in statuses and set(statuses) <= {200, 504}
    for number, answer in enumerate(answers):
        assert "status" not in answer or (answer["line"] == number + 1 and "deadline" in answer["detail"])
    server.wait_metric("workers_busy", lambda n: n == 0)


def test_a_full_queue_refuses_all_of_it_at_once(start_server):
    server = start_server("--workers", "1", "--queue", "1", "--cache", "0", "--deadline", "600")
    clients = Clients(server, [("POST", "/analyze", joined([busy()] * 3), LINES) for _ in range(12)])
    statuses = [answer.status for answer in clients.join()]
    assert set(statuses) == {200, 503}
    for answer in clients.answers:
        assert answer.status == 503 or [line.get("status", 200) for line in read(answer)] == [200] * 3
    assert server.metric("queue_depth") == 0


def test_a_stop_answers_what_was_begun(start_server):
    server = start_server("--workers", "1", "--cache", "0")
    clients = Clients(server, [("POST", "/analyze", joined([busy()] * 10), LINES)])
    server.wait_metric("tokens_total", lambda n: n > 0)
    assert server.stop() == 0
    assert len(read(clients.join()[0])) == 10
