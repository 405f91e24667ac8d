"""Requests that are too large, too slow or malformed are refused with a clear answer."""
import json
import re
import time
from pathlib import Path

import pytest
from conftest import SANITIZED, Clients, busy, read_all

HEAP_BYTES = 64 << 20
HEADERS = b"POST /analyze HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def status(answer):
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else None


def test_body_over_the_limit(start_server):
    server = start_server("--max-body", "1K")
    exactly = json.dumps({"text": ""})
    exactly = json.dumps({"text": "a" * (1024 - len(exactly))})
    assert len(exactly) == 1024 and server.post("/analyze", exactly).status == 200
    answer = server.post("/analyze", exactly + " ")
    assert answer.status == 413
    assert "1024 bytes" in answer.json()["detail"]


def test_chunked_body_over_the_limit(start_server):
    server = start_server("--max-body", "1K")
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    with server.socket() as client:
        client.sendall(HEADERS + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + 4 * chunk + b"0\r\n\r\n")
        assert status(read_all(client)) == (413 if server.reads_chunks() else 411)


def test_chunked_body(server):
    parts = [b'{"te', b'xt": "in', b' pieces"}']
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nX-Trailer: a\r\n\r\n"
    answer = server.send(HEADERS + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body)
    if server.reads_chunks():
        assert status(answer) == 200
    else:
        assert status(answer) == 411 and b"Content-Length" in answer and b"libmicrohttpd 0." in answer


def test_endless_body_is_cut_off(server):
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with server.socket() as client:
        client.sendall(HEADERS + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(4096):  # 256 MiB
                client.sendall(chunk)
    assert server.get("/health").status == 200


def test_announced_too_large_with_expect_is_refused_at_once(server):
    answer = server.send(HEADERS + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
    assert status(answer) == 413 and b"100 Continue" not in answer


def test_expect_continue(server):
    with server.socket() as client:
        client.sendall(HEADERS + b"Content-Length: 13\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 100 Continue")
        client.sendall(b'{"text": "a"}')
        assert status(read_all(client)) == 200


@pytest.mark.parametrize("headers", [b"X-Long: " + b"a" * 70000 + b"\r\n", b"X-Many: a\r\n" * 7000])
def test_headers_over_the_limit(server, headers):
    assert status(server.send(b"GET /health HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")) in (413, 431, None)
    assert server.get("/health").status == 200


def test_path_over_the_limit(server):
    assert status(server.send(b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")) in (413, 414, 431, None)


@pytest.mark.parametrize("framing", [
    b"Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
    b"Host: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
    b"Host: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    b"Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    b"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n",
    b"Host: x\r\nTransfer-Encoding: identity\r\n",
    b"Host: x\r\nTransfer-Encoding: xchunked\r\n",
    b"Host: x\r\nTransfer-Encoding : chunked\r\n",
    b"Host: x\r\nContent-Length : 5\r\n",
    b"Host: x\r\nContent-Length: +5\r\n",
    b"Host: x\r\nContent-Length: -5\r\n",
    b"Host: x\r\nContent-Length: 5, 5\r\n",
    b"Host: x\r\nContent-Length: 0x5\r\n",
    b"Host: x\r\nContent-Length: 99999999999999999999999\r\n",
    b"Host: x\r\nHost: y\r\nContent-Length: 5\r\n",
    b"Content-Length: 5\r\n",
])
def test_smuggling_is_refused(server, framing):
    answer = server.send(b"POST /tokenize HTTP/1.1\r\n" + framing + b"\r\n0\r\n\r\n"
                         b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    statuses = {int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", answer)}
    assert statuses in ({400}, {413}, {501}), "a 404 would be the answer to the smuggled request"


@pytest.mark.parametrize("line", [b"GET /health", b"GET", b"", b"\0\0\0\0", b"GET /health HTTP/9.9",
                                  b"GET\t/health HTTP/1.1", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"G\xffT /health HTTP/1.1"])
def test_nonsense_leaves_the_server_alone(server, line):
    with server.socket() as client:
        client.sendall(line + b"\r\n\r\n")
        client.shutdown(1)
        read_all(client)
    assert server.get("/health").status == 200


def send_slowly(server, head, byte):
    """Sends a byte now and then, which keeps no connection alive, until the server ends it."""
    with server.socket() as client:
        client.settimeout(0.2)
        client.sendall(head)
        ended = False
        while not ended:
            try:
                client.sendall(byte)
                ended = client.recv(1) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                ended = True


def test_slow_headers_are_cut_off(start_server):
    server = start_server("--header-timeout", "1")
    send_slowly(server, b"GET /health HTTP/1.1\r\nX-Slow: ", b"a")
    server.wait_metric("connections_cut_off_total", lambda n: n == 1)


def test_slow_body_is_cut_off(start_server):
    server = start_server("--body-timeout", "1")
    send_slowly(server, HEADERS + b"Content-Length: 1000\r\n\r\n", b" ")
    server.wait_requests(lambda n: n == 1, method="POST", route="/analyze", status="408")


def test_deadline(start_server):
    server = start_server("--deadline", "0.001", "--cache", "0")
    answer = server.post("/analyze", busy())
    assert answer.status == 504
    assert answer.headers.get_content_type() == "application/problem+json"
    assert "deadline" in answer.json()["detail"]
    server.wait_metric("workers_busy", lambda n: n == 0)


def test_an_answer_that_is_ready_at_the_deadline_arrives(start_server):
    """Either it or the deadline's refusal, and no closed connection: as many as possible end about then."""
    body = {"text": "attention is all you need " * 4, "layers": "all", "outputs": ["summary"]}
    server = start_server("--workers", "1", "--cache", "0")
    taken = []
    for _ in range(20):
        start = time.monotonic()
        answers = Clients(server, 8 * [("POST", "/analyze", json.dumps(body))]).join()
        taken.append((time.monotonic() - start) / 2)
        assert {answer.status for answer in answers} == {200}
    server = start_server("--workers", "1", "--cache", "0", "--deadline", f"{sorted(taken)[10]:.4f}")
    statuses = set()
    for _ in range(60):
        statuses |= {answer and answer.status for answer in Clients(server, 8 * [("POST", "/analyze", json.dumps(body))]).join()}
    assert statuses <= {200, 504}


def heaps(pid):
    """Heaps of the C library after its first: 64 MiB of addresses each, with a last part that was not used yet."""
    rows = [re.match(r"\w+-(\w+) (\S+)", line).groups() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return [end for end, may in rows if may == "---p" and int(end, 16) % HEAP_BYTES == 0]


@pytest.mark.skipif(SANITIZED, reason="the heaps of a sanitizer are its own")
def test_what_was_freed_is_not_kept_by_every_thread(start_server):
    """One computes; which of seven threads it is changes with every request."""
    server = start_server("--workers", "1")
    for _ in range(24):
        assert server.post("/analyze", {"text": "a b c"}).status == 200
    assert len(heaps(server.process.pid)) <= 2


def test_connections_over_the_limit(start_server):
    server = start_server("--connections", "4", "--header-timeout", "600")
    clients = [server.socket() for _ in range(4)]
    answer = server.get("/health")
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Connection"] == "close"
    clients.pop().close()
    while (answer := server.get("/health")).status == 503:
        pass
    assert answer.status == 200
    for client in clients:
        client.close()
