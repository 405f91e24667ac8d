"""/corpora: a run over HTTP, from its upload to its report, through restarts."""
import contextlib
import gzip
import io
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
from conftest import HEADSCOPE
from corpus_runs import arrays, corpus, ndjson, texts

OPTIONS = "layers=0,2&max_tokens=24"
NDJSON = {"Content-Type": "application/x-ndjson"}
PATIENCE = 120


def body_of(lines):
    return "".join(json.dumps({"text": line}) + "\n" for line in lines).encode()


def send(server, body, query=OPTIONS, headers=None):
    return server.request("POST", f"/corpora?{query}", body, NDJSON if headers is None else headers)


def wait(server, path, until=("done", "failed", "cancelled")):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        run = server.get(path).json()
        if run["state"] in until:
            return run
        time.sleep(0.05)
    pytest.fail(f"still {run}")


@pytest.fixture
def keeping(start_server, tmp_path):
    return start_server("--state", str(tmp_path / "state"))


def test_a_run_from_upload_to_report(keeping, headscope, tmp_path):
    lines = texts(300, seed=11)
    answer = send(keeping, body_of(lines[:200]) + b"not JSON\n\n" + body_of(lines[200:]), OPTIONS + "&name=first%20one")
    assert answer.status == 202, answer.body
    run = answer.json()
    path = answer.headers["Location"]
    assert path == f"/corpora/{run['id']}" and run["name"] == "first one" and run["texts_total"] == 301
    run = wait(keeping, path)
    assert run["state"] == "done" and run["texts_done"] == 300 and run["bad_lines"] == [201] and run["error"] is None
    assert keeping.get("/corpora").json() == {"corpora": [run]}

    (tmp_path / "in").write_bytes(body_of(lines[:200]) + b"not JSON\n\n" + body_of(lines[200:]))
    corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    answer = keeping.get(f"{path}/report?format=npz")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-npz"
    with np.load(io.BytesIO(answer.body)) as file:
        for name, array in arrays(tmp_path / "out").items():
            assert file[name].tobytes() == array.tobytes(), name
    said = keeping.get(f"{path}/report").json()
    assert said["texts"] == 300 and said["provenance"]["input"]["files"] == ["upload"]
    assert said["provenance"]["input"]["complete"] is True
    page = keeping.get(f"{path}/report", {"Accept": "text/html,*/*;q=0.1"})
    assert page.headers.get_content_type() == "text/html" and b"</html>" in page.body
    assert "'unsafe-inline'" in page.headers["Content-Security-Policy"]
    for accept, kind in (("application/json;q=0.1, text/html", "text/html"), ("text/*", "text/html"), ("*/*", "application/json"),
                         ("application/json;q=0, application/*", "application/x-npz")):
        assert keeping.get(f"{path}/report", {"Accept": accept}).headers.get_content_type() == kind, accept
    assert keeping.get(f"{path}/report", {"Accept": "image/png"}).status == 406
    assert keeping.get(f"{path}/report?format=pdf").status == 406 and keeping.get(f"{path}/report?colour=red").status == 422
    assert keeping.get(f"{path}/report?&format=n%70z").headers.get_content_type() == "application/x-npz"

    assert keeping.request("DELETE", path).status == 204
    assert keeping.get(path).status == 404 and keeping.get(f"{path}/report").status == 404
    assert not list((tmp_path / "state" / "runs").iterdir())


@pytest.mark.parametrize(("query", "status", "pointer"), [
    ("model=nobody", 404, "/model"), ("model=%ff", 404, "/model"), ("max_tokens=1", 422, "/max_tokens"),
    ("max_tokens=x", 422, "/max_tokens"), ("max_tokens=%2B8", 422, "/max_tokens"), ("max_tokens=513", 422, "/max_tokens"),
    ("max_tokens=99999999999999999999", 422, "/max_tokens"), ("max_tokens=-1", 422, "/max_tokens"),
    ("layers=12", 422, "/layers"), ("layers=0,2&layers=1", 422, "/layers"), ("thresholds=0.3,0.2", 422, "/thresholds"),
    ("thresholds=" + "0" * 300 + ".1", 422, "/thresholds"), ("name=%zz", 400, None), ("name", 422, "/name"),
    ("name=" + "n" * 201, 422, "/name"), ("name=" + "n" * 5000, 422, "/name"), ("name=%ff", 422, "/name"),
    ("colour=red", 422, "/colour"), ("a/b=1", 422, None),
])
def test_an_option_that_is_wrong_is_pointed_at(keeping, query, status, pointer):
    answer = send(keeping, b'"a"\n', query)
    problem = answer.json()
    assert answer.status == status and problem["status"] == status and problem.get("pointer") == pointer
    assert keeping.get("/corpora").json() == {"corpora": []}


@pytest.mark.parametrize("headers", [{"Content-Type": "application/json"}, {}])
def test_other_media_types_are_refused(keeping, headers):
    assert send(keeping, b'"a"\n', "", headers).status == 415
    assert keeping.get("/corpora").json() == {"corpora": []}


@pytest.mark.parametrize(("kind", "body", "texts_done", "bad_lines"), [
    ("text/plain; charset=utf-8", b'"To be," he said.\n"Not to be."\n{braces}\n\nprose\n', 4, []),
    ("text/plain", b'"quoted"\nprose\n', 2, []), ("application/x-ndjson", b'prose\n{"text": "a"}\n"b"\n', 2, [1]),
])
def test_the_media_type_says_what_the_lines_are(keeping, kind, body, texts_done, bad_lines):
    run = wait(keeping, send(keeping, body, headers={"Content-Type": kind}).headers["Location"])
    assert (run["state"], run["texts_done"], run["bad_lines"]) == ("done", texts_done, bad_lines)


def test_a_window_smaller_than_the_papers_is_the_default_then(start_server, tmp_path):
    checkpoint.write_random(tmp_path / "model", positions=20)
    server = start_server("--state", str(tmp_path / "state"), "--model", f"small={tmp_path / 'model'}")
    run = wait(server, send(server, body_of(["one two three " * 20]), "").headers["Location"])
    assert run["state"] == "done" and run["model"] == "small"
    assert server.get(f"/corpora/{run['id']}/report").json()["provenance"]["options"]["max_tokens"] == 20


def test_unknown_runs_and_methods(keeping):
    for path in ("/corpora/0123456789abcdef", "/corpora/..%2f..", "/corpora/" + "x" * 300):
        assert keeping.get(path).status == 404
        assert keeping.get(path + "/report").status == 404
        assert keeping.get(path + "/events").status == 404
        assert keeping.request("POST", path + "/cancel", b"").status == 404
        assert keeping.request("DELETE", path).status == 404
    answer = keeping.request("PUT", "/corpora", b"")
    assert answer.status == 405 and "POST" in answer.headers["Allow"] and "GET" in answer.headers["Allow"]


def test_a_server_without_a_folder_says_so(server):
    answer = send(server, b'"a"\n')
    assert answer.status == 501 and "--state" in answer.json()["detail"]


def test_limits_leave_nothing_behind(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"), "--max-corpus", "10K", "--max-state", "15K")
    assert send(server, b'"a"\n' * 5000).status == 413
    answer = server.request("POST", f"/corpora?{OPTIONS}", iter([b'"a text"\n' * 500] * 4), NDJSON)
    assert answer.status == 413
    answer = send(server, b'"some text"\n' * 800)
    assert answer.status == 202
    wait(server, answer.headers["Location"])
    assert send(server, b'"some text"\n' * 800).status == 507
    assert len(list((tmp_path / "state" / "runs").iterdir())) == 1
    assert server.request("DELETE", answer.headers["Location"]).status == 204
    assert send(server, b'"some text"\n' * 800).status == 202


def test_uploads_at_the_same_time_share_the_room(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"), "--max-state", "1M")
    head = b"POST /corpora HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % 700_000 + b"a text\n" * 100_000 + b"\r\n"
    with server.socket() as first, server.socket() as second:
        first.sendall(head + chunk)
        deadline = time.monotonic() + PATIENCE
        while sum(f.stat().st_size for f in (tmp_path / "state" / "runs").glob("*/input")) < 500_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        second.sendall(head + chunk + b"0\r\n\r\n")
        assert b" 507 " in second.recv(4096).split(b"\r\n")[0]
        first.sendall(b"0\r\n\r\n")
        assert b" 202 " in first.recv(4096).split(b"\r\n")[0]


def test_what_a_crash_left_is_removed(start_server, tmp_path):
    runs = tmp_path / "state" / "runs"
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(10))).headers["Location"]
    wait(server, path)
    with server.socket() as client:
        client.sendall(b"POST /corpora HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\na text\n")
        deadline = time.monotonic() + PATIENCE
        while len(list(runs.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        server.process.kill()
        server.process.wait(PATIENCE)
    kept = runs / path.rsplit("/", 1)[1]
    (kept / ".state.12345").write_bytes(b"half a save")
    (runs / "notes").mkdir()
    again = start_server("--state", str(tmp_path / "state"))
    assert sorted(runs.iterdir()) == sorted([kept, runs / "notes"])
    assert again.request("DELETE", path).status == 204
    assert list(runs.iterdir()) == [runs / "notes"]


def test_the_number_of_runs_is_bounded(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, b'"a"\n').headers["Location"]
    wait(server, path)
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.executemany("INSERT INTO runs (id, name, model, max_tokens, layers, thresholds, state) "
                       "VALUES (?, '', 'mini', 24, 'all', '0.3', 'done')", [(f"{n:016x}",) for n in range(999)])
    db.close()
    server = start_server("--state", str(tmp_path / "state"))
    answer = send(server, b'"a"\n')
    assert answer.status == 507 and "1000" in answer.json()["detail"]
    assert server.request("DELETE", path).status == 204
    assert send(server, b'"a"\n').status == 202


def test_client_that_leaves_in_the_middle(keeping, tmp_path):
    with keeping.socket() as client:
        client.sendall(b"POST /corpora HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n" + b"a text\n" * 99)
        time.sleep(0.2)
    end = time.monotonic() + PATIENCE
    while list((tmp_path / "state" / "runs").iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list((tmp_path / "state" / "runs").iterdir())
    assert keeping.get("/corpora").json() == {"corpora": []}


def test_events_tell_the_run_to_its_end(keeping):
    answer = send(keeping, body_of(texts(3000, seed=12)))
    connection = keeping.connect()
    connection.request("GET", answer.headers["Location"] + "/events")
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    runs = [json.loads(line[6:]) for line in response.read().decode().splitlines() if line.startswith("data: ")]
    connection.close()
    assert runs[-1]["state"] == "done" and runs[-1]["texts_done"] == 3000
    done = [run["texts_done"] for run in runs]
    assert done == sorted(done) and len({json.dumps(run) for run in runs}) == len(runs)


def test_bad_lines_are_told_as_they_are_found(keeping):
    path = send(keeping, b"{}\n" * 1200 + body_of(texts(20000, seed=15))).headers["Location"]
    end = time.monotonic() + PATIENCE
    while (run := keeping.get(path).json())["bad_lines_total"] < 1200 and time.monotonic() < end:
        time.sleep(0.05)
    assert run["state"] == "running" and run["bad_lines"] == list(range(1, 1001)) and run["bad_lines_total"] == 1200
    keeping.request("POST", f"{path}/cancel", b"")
    ended = wait(keeping, path)
    assert ended["bad_lines"] == run["bad_lines"] and ended["bad_lines_total"] == 1200


def test_what_was_counted_before_a_restart_is_told_after_it(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, b"{}\n" + body_of(texts(40))).headers["Location"]
    before = wait(server, path)
    server.stop()
    # As if the program had ended between the last text and the report, in a version that kept no total.
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("UPDATE runs SET state = 'running', texts_done = 0, bad_lines = '[]'")
        db.execute("ALTER TABLE runs DROP COLUMN bad_lines_total")
    db.close()
    again = start_server("--state", str(tmp_path / "state"))
    assert wait(again, path) == before and before["texts_done"] == 40 and before["bad_lines"] == [1]


def test_cancel_ends_a_run_and_delete_wants_that(keeping):
    path = send(keeping, body_of(texts(20000, seed=13))).headers["Location"]
    waiting = send(keeping, body_of(texts(10))).headers["Location"]
    wait(keeping, path, ("running",))
    assert keeping.request("DELETE", path).status == 409
    assert keeping.request("POST", f"{path}/cancel", b"").status == 202
    assert keeping.request("POST", f"{waiting}/cancel", b"").status == 202
    assert wait(keeping, path)["state"] == wait(keeping, waiting)["state"] == "cancelled"
    assert keeping.get(f"{waiting}/report").status == 404
    assert keeping.request("DELETE", path).status == 204


def test_a_cancelled_run_keeps_a_report_of_what_it_counted(keeping, headscope, tmp_path):
    lines = texts(20000, seed=16)
    path = send(keeping, body_of(lines)).headers["Location"]
    end = time.monotonic() + PATIENCE
    while keeping.get(path).json()["texts_done"] < 200 and time.monotonic() < end:
        time.sleep(0.05)
    keeping.request("POST", f"{path}/cancel", b"")
    run = wait(keeping, path)
    said = keeping.get(f"{path}/report").json()
    assert run["state"] == "cancelled" and 200 <= run["texts_done"] < 20000 and said["texts"] == run["texts_done"]
    assert said["provenance"]["input"]["complete"] is False and said["provenance"]["input"]["lines"] == run["texts_done"]
    assert {str(n) for layer in said["focus_ids"] for n in layer if n >= 0} == set(said["focus_tokens"])
    assert b"</html>" in keeping.get(f"{path}/report?format=html").body

    ndjson(tmp_path / "in", lines[:run["texts_done"]])
    corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    with np.load(io.BytesIO(keeping.get(f"{path}/report?format=npz").body)) as file:
        for name, array in arrays(tmp_path / "out").items():
            assert file[name].tobytes() == array.tobytes(), name


def test_cancel_does_not_wait_for_the_end_of_what_gzip_made_small(keeping):
    path = send(keeping, gzip.compress(b"a text\n") + gzip.compress(b"\n" * (8 << 20)) * 400).headers["Location"]
    wait(keeping, path, ("running",))
    time.sleep(0.3)
    began = time.monotonic()
    assert keeping.request("POST", f"{path}/cancel", b"").status == 202
    assert wait(keeping, path)["state"] == "cancelled" and time.monotonic() - began < 10


def test_a_cancelled_run_does_not_come_back_after_a_crash(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(20000, seed=23))).headers["Location"]
    wait(server, path, ("running",))
    assert server.request("POST", f"{path}/cancel", b"").status == 202
    server.process.kill()
    server.process.wait()
    server = start_server("--state", str(tmp_path / "state"))
    assert server.get(path).json()["state"] == "cancelled"
    assert server.request("DELETE", path).status == 204


def test_the_run_that_was_begun_goes_on_first_and_can_be_cancelled(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    first, second = (send(server, body_of(texts(20000, seed=n))).headers["Location"] for n in (17, 18))
    wait(server, first, ("running",))
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:  # as if the second's upload had been the quicker one
        db.execute("UPDATE runs SET state = CASE number WHEN 1 THEN 'queued' ELSE 'running' END")
    db.close()
    server = start_server("--state", str(tmp_path / "state"))
    for path in (second, first):
        assert wait(server, path, ("running",))["id"] in path
        assert server.get(first if path == second else second).json()["state"] != "running"
        assert server.request("POST", f"{path}/cancel", b"").status == 202
        assert wait(server, path)["state"] == "cancelled"


def test_a_database_that_cannot_be_written_is_tried_again_now_and_then(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(3000, seed=19))).headers["Location"]
    wait(server, path, ("running",))
    db = sqlite3.connect(tmp_path / "state" / "corpora.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    end = time.monotonic() + PATIENCE
    while "could not be written down" not in server.log() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1)
    assert server.log().count("could not be written down") == 1
    db.rollback()
    db.close()
    assert wait(server, path)["texts_done"] == 3000


def test_an_upload_while_a_server_ends_that_never_got_ready(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mini = Path(__file__).resolve().parents[2] / "model" / "mini"
    process = subprocess.Popen([HEADSCOPE, "serve", "--listen", f"127.0.0.1:{port}", "--state", tmp_path / "state", "--model",
                                ",".join(f"m{i}={mini}" for i in range(12))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    client = None
    while not client:
        with contextlib.suppress(ConnectionRefusedError):
            client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    with client:
        client.sendall(b"POST /corpora HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n")
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as other:  # once answered, the first's headers were read
            other.sendall(b"GET /ready HTTP/1.1\r\nHost: a\r\n\r\n")
            assert other.recv(4096).startswith(b"HTTP/1.1 503")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        client.sendall(b"\r\na")
        assert client.recv(4096).startswith(b"HTTP/1.1 503")
    assert process.wait(PATIENCE) == 0 and process.stdout.read() == b""
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_goes_on_after_a_restart(start_server, headscope, tmp_path, number):
    lines = texts(15000, seed=14)
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, gzip.compress(body_of(lines))).headers["Location"]
    wait(server, path, ("running",))
    time.sleep(0.4)
    server.process.send_signal(number)
    server.process.wait(PATIENCE)
    again = start_server("--state", str(tmp_path / "state"))
    run = wait(again, path)
    assert run["state"] == "done" and run["texts_done"] == 15000 and run["texts_total"] is None
    ndjson(tmp_path / "in", lines)
    corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    with np.load(io.BytesIO(again.get(f"{path}/report?format=npz").body)) as file:
        for name, array in arrays(tmp_path / "out").items():
            assert file[name].tobytes() == array.tobytes(), name


def test_analyze_is_answered_while_a_run_goes_on(keeping):
    def median(n=15):
        took = []
        for k in range(n):
            began = time.monotonic()
            assert keeping.post("/analyze", {"text": f"The river flows past the old house number {k}."}).status == 200
            took.append(time.monotonic() - began)
        return sorted(took)[n // 2]
    alone = median()
    path = send(keeping, body_of(["the old river and the bridge " * 8] * 4000), "max_tokens=128").headers["Location"]
    wait(keeping, path, ("running",))
    time.sleep(0.5)
    beside = median()
    assert keeping.get(path).json()["state"] == "running"
    keeping.request("POST", f"{path}/cancel", b"")
    assert beside < 10 * alone + 0.1, (alone, beside)
    wait(keeping, path)
