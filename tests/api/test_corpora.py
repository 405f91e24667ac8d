"""/corpora: a run over HTTP, from its upload to its report, through restarts."""
import contextlib
import gzip
import http.client
import io
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
from conftest import HEADSCOPE, MINI, PATIENCE, SANITIZED, TEST_PATIENCE, served, slow_if, slow_unless_sanitized, until
from corpus_runs import arrays, corpus, ndjson, texts

OPTIONS = "layers=0,2&max_tokens=24&control=none"  # a control takes longer than so few texts
NDJSON = {"Content-Type": "application/x-ndjson"}
NO_RUNS = {"corpora": [], "next": None}


def body_of(lines):
    return "".join(json.dumps({"text": line}) + "\n" for line in lines).encode()


def send(server, body, query=OPTIONS, headers=None):
    return server.request("POST", f"/corpora?{query}", body, NDJSON if headers is None else headers)


def wait(server, path, states=("done", "failed", "cancelled")):
    """Returns the run once it is in one of these states."""
    return until(lambda: server.get(path).json(), lambda run: run["state"] in states, TEST_PATIENCE)


def limit_files(server, size):
    """Writes of the server past so many bytes of a file fail with EFBIG, as if the disk were full."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def wait_reading(server, path):
    """Waits until the server has read something of this run's input."""
    name = path.rsplit("/", 1)[1] + "/input"

    def position():
        process = Path(f"/proc/{server.process.pid}")
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(link).endswith(name):
                    return int((process / "fdinfo" / link.name).read_text().split()[1])
        return 0

    until(position)


@pytest.fixture
def keeping(start_server, tmp_path):
    return start_server("--state", str(tmp_path / "state"))


def with_state(folder):
    for server in served("--state", str(folder / "state")):
        server.state = folder / "state"
        yield server


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A server of all tests whose uploads are refused: it never has a run."""
    yield from with_state(tmp_path_factory.mktemp("refusing"))


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    """A server of all tests that look at runs of their own, which have ended when they return."""
    yield from with_state(tmp_path_factory.mktemp("sharing"))


def test_a_run_from_upload_to_report(keeping, headscope, tmp_path):
    lines = texts(300, seed=11)
    answer = send(keeping, body_of(lines[:200]) + b"not JSON\n\n" + body_of(lines[200:]), OPTIONS + "&name=first%20one")
    assert answer.status == 202, answer.body
    run = answer.json()
    path = answer.headers["Location"]
    assert path == f"/corpora/{run['id']}" and run["name"] == "first one" and run["texts_total"] == 301
    run = wait(keeping, path)
    assert run["state"] == "done" and run["texts_done"] == 300 and run["bad_lines"] == [201] and run["error"] is None
    short = {name: value for name, value in run.items() if name != "bad_lines"}
    assert keeping.get("/corpora").json() == {"corpora": [short], "next": None}

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
    policy = page.headers["Content-Security-Policy"]
    assert "'unsafe-inline'" in policy and "allow-modals" in policy  # figures are printed
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
    ("thresholds=" + "0" * 3000 + ".1", 422, "/thresholds"), ("name=%zz", 400, None), ("name", 422, "/name"),
    ("name=" + "n" * 201, 422, "/name"), ("name=" + "n" * 5000, 422, "/name"), ("name=%ff", 422, "/name"),
    ("colour=red", 422, "/colour"), ("attention_threshold=0", 422, "/attention_threshold"), ("field=" + "f" * 200, 422, "/field"),
    ("special_tokens=drop", 422, "/special_tokens"), ("split_special_tokens=perhaps", 422, "/split_special_tokens"), ("sentence_ends=nowordofit", 422, "/sentence_ends"),
    ("input_format=xml", 422, "/input_format"), ("field=%ff", 422, "/field"), ("a/b=1", 422, None),
    ("interventions=" + "%09" * 2040 + "[]&sentence_ends=" + "the," * 510 + "the&thresholds=0." + "3" * 2000, 422, None),  # all together too long
])
def test_an_option_that_is_wrong_is_pointed_at(refusing, query, status, pointer):
    answer = send(refusing, b'"a"\n', query)
    problem = answer.json()
    assert answer.status == status and problem["status"] == status and problem.get("pointer") == pointer
    assert refusing.get("/corpora").json() == NO_RUNS


@pytest.mark.parametrize("headers", [{"Content-Type": "image/png"}, {}])
def test_other_media_types_are_refused(refusing, headers):
    assert send(refusing, b'"a"\n', "", headers).status == 415
    assert refusing.get("/corpora").json() == NO_RUNS


@pytest.mark.parametrize(("kind", "body", "texts_done", "bad_lines"), [
    ("text/plain; charset=utf-8", b'"To be," he said.\n"Not to be."\n{braces}\n\nprose\n', 4, []),
    ("text/plain", b'"quoted"\nprose\n', 2, []), ("application/x-ndjson", b'prose\n{"text": "a"}\n"b"\n', 2, [1]),
])
def test_the_media_type_says_what_the_lines_are(sharing, kind, body, texts_done, bad_lines):
    run = wait(sharing, send(sharing, body, headers={"Content-Type": kind}).headers["Location"])
    assert (run["state"], run["texts_done"], run["bad_lines"]) == ("done", texts_done, bad_lines)


@pytest.mark.parametrize(("kind", "query", "body", "named"), [
    ("application/json", "", b'[{"text": "one"}, "two"]', "json"), ("text/csv", "field=t", b't,n\n"one\nmore",2\ntwo,3\n', "csv"),
    ("text/tab-separated-values", "", b"n\ttext\n1\tone\n2\ttwo\n", "tsv"),
    ("application/octet-stream", "field=a.b", b'{"a": {"b": "one"}}\n{"a": {"b": "two"}}\n', "jsonl"),
    ("application/gzip", "", gzip.compress(b"n,text\n1,one\n2,two\n", mtime=0), "csv, gzip"),
    ("application/octet-stream", "input_format=paragraphs", b"one\nmore\n\ntwo\n", "paragraphs"),
    ("text/plain", "input_format=conllu", b"# text = one\n1\t_\n\n# text = two\n1\t_\n", "conllu"),
])
def test_uploads_have_every_format(sharing, kind, query, body, named):
    run = wait(sharing, send(sharing, body, f"{OPTIONS}&{query}", {"Content-Type": kind}).headers["Location"])
    assert (run["state"], run["texts_done"], run["bad_lines"]) == ("done", 2, [])
    assert sharing.get(f"/corpora/{run['id']}/report").json()["provenance"]["input"]["formats"] == [named]


@pytest.mark.parametrize(("kind", "body", "why"), [
    ("application/octet-stream", b"", "empty"), ("text/plain", b"\n\n", "empty"), ("application/octet-stream", bytes(range(200)), "not text"),
    ("application/x-ndjson", b"no JSON\n" * 3, "line 1: not JSON"), ("text/csv", b"a,b\n1,2\n", "no column 'text'"),
    ("application/zstd", b"\x28\xb5\x2f\xfd", "cut short"),
])
def test_uploads_without_a_text_are_refused(refusing, kind, body, why):
    answer = send(refusing, body, headers={"Content-Type": kind})
    assert answer.status == 422 and why in answer.json()["detail"] and str(refusing.state.parent) not in answer.json()["detail"]
    assert refusing.get("/corpora").json() == NO_RUNS and not list((refusing.state / "runs").iterdir())


def test_an_unclosed_quotation_mark_costs_its_own_line(sharing):
    rows = ["id,text", *(f"{n},the river" for n in range(1, 100))]
    rows[5] = '5,"never closed'
    for query, done, bad in (("", 98, [6]), ("&no_quotes=true", 99, []), ("&no_quotes=false", 98, [6])):
        sent = send(sharing, "\n".join(rows).encode(), OPTIONS + query, {"Content-Type": "text/csv"})
        run = wait(sharing, sent.headers["Location"])
        assert (run["state"], run["texts_done"], run["bad_lines"], run["bad_lines_total"]) == ("done", done, bad, len(bad))
    assert send(sharing, b"text\na", OPTIONS + "&no_quotes=no", {"Content-Type": "text/csv"}).json()["pointer"] == "/no_quotes"


def test_a_bad_record_counts_with_all_its_lines(sharing):
    body = b'["one text",\n{"text":\n"a second",\n"never closed: 3\n}, {"text": "lost"}\n]\n'
    run = wait(sharing, send(sharing, body, OPTIONS, {"Content-Type": "application/json"}).headers["Location"])
    assert (run["texts_done"], run["bad_lines"], run["bad_lines_total"]) == (1, [2], 5)


def test_what_all_lines_are_is_not_looked_for_without_end(sharing):
    body = gzip.compress(b"bad\n" * 20000)
    run = wait(sharing, send(sharing, body).headers["Location"])
    assert run["state"] == "failed" and "none with a text" in run["error"]


@pytest.mark.parametrize(("query", "key", "value"), [
    ("sentence_ends=of,the", "sentence_ends", ["the", "of"]), slow_if(True, "attention_threshold=0.5", "attention_threshold", 0.5),
    slow_if(True, "special_tokens=mask", "special_tokens", "mask"), slow_if(True, "split_special_tokens=true", "split_special_tokens", True),
])
def test_settings_change_figures_and_are_reported(sharing, query, key, value):
    body, said = body_of(texts(60, seed=30) + ["the [MASK] of the boat. and [MASK], the boat."] * 9), []
    for settings in (OPTIONS, f"{OPTIONS}&{query}"):
        run = wait(sharing, send(sharing, body, settings).headers["Location"])
        said.append(sharing.get(f"/corpora/{run['id']}/report").json())
    assert said[0]["provenance"]["options"][key] != value == said[1]["provenance"]["options"][key]
    assert said[0]["layer_figures"] != said[1]["layer_figures"]


def test_a_window_smaller_than_the_papers_is_the_default_then(start_server, tmp_path):
    checkpoint.write_random(tmp_path / "model", positions=20)
    server = start_server("--state", str(tmp_path / "state"), "--model", f"small={tmp_path / 'model'}")
    run = wait(server, send(server, body_of(["one two three " * 20]), "").headers["Location"])
    assert run["state"] == "done" and run["model"] == "small"
    assert server.get(f"/corpora/{run['id']}/report").json()["provenance"]["options"]["max_tokens"] == 20


def test_unknown_runs_and_methods(refusing):
    for path in ("/corpora/0123456789abcdef", "/corpora/..%2f..", "/corpora/" + "x" * 300):
        assert refusing.get(path).status == 404
        assert refusing.get(path + "/report").status == 404
        assert refusing.get(path + "/events").status == 404
        assert refusing.request("POST", path + "/cancel", b"").status == 404
        assert refusing.request("DELETE", path).status == 404
    answer = refusing.request("PUT", "/corpora", b"")
    assert answer.status == 405 and "POST" in answer.headers["Allow"] and "GET" in answer.headers["Allow"]


def test_a_server_without_a_folder_says_so(server):
    answer = send(server, b'"a"\n')
    assert answer.status == 501 and "--state" in answer.json()["detail"]
    for method, path in (("GET", ""), ("GET", "/a"), ("GET", "/a/report"), ("GET", "/a/events"), ("GET", "/a/comparison?with=b"), ("GET", "/a/examples"), ("GET", "/a/search"),
                         ("POST", "/a/cancel"), ("POST", "/a/restart"), ("DELETE", "/a")):
        answer = server.request(method, "/corpora" + path, b"" if method == "POST" else None)
        assert answer.status == 501 and "--state" in answer.json()["detail"], (method, path, answer.body)


def test_limits_leave_nothing_behind(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"), "--max-corpus", "10K", "--max-state", "1G")
    assert send(server, b'"a"\n' * 5000).status == 413
    answer = server.send(f"POST /corpora?{OPTIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: {NDJSON['Content-Type']}\r\n"
                         "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
                         + 4 * (b"1194\r\n%s\r\n" % (b'"a text"\n' * 500)) + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 " if server.reads_chunks() else b"HTTP/1.1 411 "), answer[:200]
    assert server.get("/corpora").json() == NO_RUNS and not list((tmp_path / "state" / "runs").iterdir())


def megabytes_needed(start_server, state, *options):
    """Returns the megabytes that a run with these options reserves. A server with less says so."""
    server = start_server("--state", str(state), "--max-state", "1M")
    answer = send(server, b'"a"\n', *options)
    assert answer.status == 507 and server.get("/corpora").json() == NO_RUNS and not list((state / "runs").iterdir())
    server.stop()
    return int(re.search(r"takes up to (\d+) MB", answer.json()["detail"])[1])


def test_space_is_reserved_for_all_files_of_a_run(start_server, tmp_path):
    state = tmp_path / "state"
    needed = megabytes_needed(start_server, state)
    server = start_server("--state", str(state), "--max-state", f"{needed * 3 // 2}M")
    first = send(server, body_of(texts(20000, seed=25)))
    assert first.status == 202 and send(server, b'"a"\n').status == 507
    assert server.request("POST", first.headers["Location"] + "/cancel", b"").status == 202
    wait(server, first.headers["Location"])
    second = send(server, b'"a"\n')  # what the first had reserved and did not use is free again
    assert second.status == 202 and wait(server, second.headers["Location"])["state"] == "done"
    with contextlib.closing(sqlite3.connect(state / "corpora.db")) as db:
        rows = db.execute("SELECT id, bytes FROM runs").fetchall()
    for run, size in rows:
        on_disk = sum(file.stat().st_size for file in (state / "runs" / run).iterdir())
        assert size == on_disk <= needed << 20


def test_uploads_at_the_same_time_share_the_space(start_server, tmp_path):
    needed = megabytes_needed(start_server, tmp_path / "state", "", {"Content-Type": "text/plain"})
    server = start_server("--state", str(tmp_path / "state"), "--max-state", f"{2 * needed + 8}M")
    last = b"a text\n"
    most = last * 1_000_000
    head = b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % (
        len(most) + len(last))
    with server.socket() as first, server.socket() as second:
        first.sendall(head + most)
        runs = tmp_path / "state" / "runs"
        until(lambda: sum(file.stat().st_size for file in runs.glob("*/input")), lambda size: size >= 5_900_000)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            second.sendall(head + most + last)
        assert b" 202 " in second.recv(4096).split(b"\r\n")[0]  # what its run takes is reserved when all its bytes are there
        first.sendall(last)
        assert b" 507 " in first.recv(4096).split(b"\r\n")[0]
    until(lambda: len(list(runs.iterdir())), lambda n: n == 1)


def zstd_of_one_letter(n_blocks):
    """A text, then n_blocks * 128 KiB of one line in four bytes each (RFC 8878, 3.1.1.2)."""
    text, repeated = b"One text.\n", ((131072 << 3) | 2).to_bytes(3, "little") + b"a"
    return b"\x28\xb5\x2f\xfd\x00\x38" + (len(text) << 3).to_bytes(3, "little") + text + repeated * n_blocks + b"\x01\x00\x00"


PACKED = {
    "zstd": (lambda: zstd_of_one_letter(2_000_000), "200 times"),  # 8 MB, 262 GB unpacked
    "gzip": (lambda: gzip.compress(b"One text.\n" + b"a" * 300_000_000, 1), "200 times"),
    "zstd in gzip": (lambda: gzip.compress(zstd_of_one_letter(1000)), "packed twice"),
    "small zstd": (lambda: zstd_of_one_letter(100), None),  # 13 MB unpacked: a text, and a line that is too long
}


@pytest.mark.parametrize("name", PACKED)
def test_an_upload_that_unpacks_without_end_is_given_up(start_server, tmp_path, name):
    make, said = PACKED[name]
    body = make()
    server = start_server("--state", str(tmp_path / "state"))
    answer = send(server, body, "max_tokens=8&layers=0", {"Content-Type": "application/octet-stream"})
    if answer.status == 202:
        run = wait(server, answer.headers["Location"])
        assert run["state"] == ("failed" if said else "done") and (said or "") in (run["error"] or ""), run
    else:
        assert answer.status == 422 and said in answer.json()["detail"]


def test_empty_texts_are_counted(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    run = wait(server, send(server, b'"a"\n""\n\n{"text": " "}\n"b"\n').headers["Location"])
    assert (run["texts_total"], run["texts_done"], run["empty_texts"], run["bad_lines_total"]) == (4, 2, 3, 0)
    assert server.get(f"/corpora/{run['id']}/report").json()["empty_texts"] == 3
    server.stop()
    again = start_server("--state", str(tmp_path / "state"))
    assert again.get("/corpora").json()["corpora"][0]["empty_texts"] == 3


def test_the_thread_that_reads_a_run_gives_way(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    wait(server, send(server, b'"a"\n').headers["Location"])
    stats = [stat.read_text().rsplit(")", 1)[1].split() for stat in Path(f"/proc/{server.process.pid}/task").glob("*/stat")]
    assert [fields[16] for fields in stats].count("10") == 1


def test_uploads_that_send_nothing_take_no_space_from_others(start_server, tmp_path):
    needed = megabytes_needed(start_server, tmp_path / "state", "", {"Content-Type": "text/plain"})
    server = start_server("--state", str(tmp_path / "state"), "--max-state", f"{needed + 8}M")
    head = b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"
    with contextlib.ExitStack() as idle:
        for k in range(12):
            client = idle.enter_context(server.socket())
            client.sendall(head + (b"a tex" if k % 2 else b""))
        until(lambda: len(list((tmp_path / "state" / "runs").iterdir())), lambda n: n >= 12)
        answer = send(server, b"an honest text\n", "", {"Content-Type": "text/plain"})
        assert answer.status == 202, answer.body
        assert wait(server, answer.headers["Location"])["state"] == "done"


def test_a_run_that_memory_can_never_be_enough_for_is_refused_at_once(start_server, tmp_path):
    checkpoint.write_random(tmp_path / "model", n_layers=12, n_heads=128, hidden=256, positions=4096)
    server = start_server("--state", str(tmp_path / "state"), "--model", f"wide={tmp_path / 'model'}")
    answer = send(server, b'"a"\n', "max_tokens=4096&map_bins=4096")  # hundreds of gigabytes
    assert answer.status == 422 and "memory" in answer.json()["detail"]
    assert server.get("/corpora").json() == NO_RUNS
    assert send(server, b'"a"\n', "max_tokens=16&layers=0").status == 202


def kill(server):
    server.process.kill()
    server.process.wait(PATIENCE)


def test_what_a_crash_left_is_removed(start_server, tmp_path):
    runs = tmp_path / "state" / "runs"
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(10))).headers["Location"]
    wait(server, path)
    with server.socket() as client:
        client.sendall(b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\na text\n")
        until(lambda: len(list(runs.iterdir())), lambda n: n >= 2)
        kill(server)
    kept = runs / path.rsplit("/", 1)[1]
    (kept / ".state.0123456789abcdef.unfinished").write_bytes(b"half a save")
    (runs / "notes").mkdir()
    again = start_server("--state", str(tmp_path / "state"))
    assert sorted(runs.iterdir()) == sorted([kept, runs / "notes"])
    assert not [file for file in kept.iterdir() if file.name.startswith(".")]
    assert again.request("DELETE", path).status == 204
    assert list(runs.iterdir()) == [runs / "notes"]


@pytest.mark.parametrize("what", ["lost", "damaged", "restored from another day"])
def test_no_run_is_deleted_because_the_database_does_not_know_it(start_server, tmp_path, what):
    state = tmp_path / "state"
    server = start_server("--state", str(state))
    path = send(server, body_of(texts(10))).headers["Location"]
    wait(server, path)
    server.stop()
    name = path.rsplit("/", 1)[1]
    files = sorted(file.name for file in (state / "runs" / name).iterdir())
    if what == "restored from another day":
        with contextlib.closing(sqlite3.connect(state / "corpora.db")) as db, db:
            db.execute("DELETE FROM runs")
    else:
        for file in state.glob("corpora.db*"):
            file.unlink()
    if what == "damaged":
        (state / "corpora.db").write_bytes(b"no database " * 1000)
    again = start_server("--state", str(state))
    assert again.get("/corpora").json() == NO_RUNS
    assert sorted(file.name for file in (state / "aside" / name).iterdir()) == files
    assert f"runs/{name}" in again.log()
    if what == "damaged":
        assert (state / "aside" / "corpora.db").read_bytes().startswith(b"no database")
    answer = send(again, b'"a"\n')
    assert wait(again, answer.headers["Location"])["state"] == "done"


def test_a_run_cancelled_before_it_begins_gives_its_space_back(start_server, tmp_path):
    """Also after a restart."""
    state = ["--state", str(tmp_path / "state"), "--max-state"]
    needed = megabytes_needed(start_server, tmp_path / "state")
    server = start_server(*state, f"{needed * 5 // 2}M")
    begun = send(server, body_of(texts(50000, seed=26))).headers["Location"]
    wait(server, begun, ("running",))
    for _ in range(3):
        waiting = send(server, b'"a"\n')
        assert waiting.status == 202, waiting.body
        assert server.request("POST", waiting.headers["Location"] + "/cancel", b"").status == 202
        assert wait(server, waiting.headers["Location"])["state"] == "cancelled"
    server.process.kill()
    server.process.wait()
    server = start_server(*state, f"{needed * 5 // 2}M")
    assert send(server, b'"a"\n').status == 202
    server.request("POST", begun + "/cancel", b"")
    wait(server, begun)


def test_a_failed_run_can_be_restarted(start_server, tmp_path):
    """Its model has changed in between, as the built-in one may in an upgrade."""
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(40, seed=28)), OPTIONS + "&examples=2").headers["Location"]
    assert wait(server, path)["state"] == "done"
    first = server.get(f"{path}/report?format=npz").body
    assert server.request("POST", f"{path}/restart", b"").status == 409
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("UPDATE runs SET state = 'running'")
    db.close()
    model = checkpoint.write_random(tmp_path / "m")
    server = start_server("--state", str(tmp_path / "state"), "--model", f"mini={model}")
    run = wait(server, path)
    assert run["state"] == "failed" and "model" in run["error"]
    again = server.request("POST", f"{path}/restart", b"")
    assert again.status == 202 and again.json()["state"] in ("queued", "running", "done") and again.json()["error"] is None
    run = wait(server, path)
    assert (run["state"], run["texts_done"] + run["empty_texts"], run["bad_lines_total"]) == ("done", 40, 0)
    assert server.get(f"{path}/report?format=npz").body != first
    server.stop()
    server = start_server("--state", str(tmp_path / "state"))
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("UPDATE runs SET state = 'failed', error = 'killed'")
    db.close()
    assert server.request("POST", f"{path}/restart", b"").status == 202
    assert wait(server, path)["state"] == "done"
    with np.load(io.BytesIO(first)) as before, np.load(io.BytesIO(server.get(f"{path}/report?format=npz").body)) as now:
        assert all(before[name].tobytes() == now[name].tobytes() for name in before if name != "provenance")
    assert server.request("POST", "/corpora/0123456789abcdef/restart", b"").status == 404


def test_a_restart_that_is_refused_leaves_the_report(start_server, tmp_path):
    """Its disk space is checked first."""
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(20000, seed=32))).headers["Location"]
    until(lambda: server.get(path).json()["texts_done"])
    server.request("POST", f"{path}/cancel", b"")
    assert wait(server, path)["state"] == "cancelled"
    report = server.get(f"{path}/report").body
    server.stop()
    server = start_server("--state", str(tmp_path / "state"), "--max-state", "8M")
    refused = server.request("POST", f"{path}/restart", b"")
    assert refused.status == 507 and "--max-state" in refused.json()["detail"]
    assert server.get(path).json()["state"] == "cancelled" and server.get(f"{path}/report").body == report


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_restarted_run_goes_on_from_its_last_save(start_server, tmp_path, state):
    lines = texts(2000, seed=33)
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(lines)).headers["Location"]
    until(lambda: server.get(path).json()["texts_done"])
    server.request("POST", f"{path}/cancel", b"")
    run = wait(server, path)
    assert run["state"] == "cancelled" and run["texts_done"]
    whole = send(server, body_of(lines)).headers["Location"]
    assert wait(server, whole)["state"] == "done"
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("UPDATE runs SET state = ? WHERE state = 'cancelled'", [state])
    db.close()
    server = start_server("--state", str(tmp_path / "state"))
    assert server.request("POST", f"{path}/restart", b"").status == 202
    assert (now := wait(server, path))["state"] == "done"
    assert server.metric("corpus_texts_total") == now["texts_done"] - run["texts_done"], "it counted texts again"
    with np.load(io.BytesIO(server.get(f"{path}/report?format=npz").body)) as one, \
         np.load(io.BytesIO(server.get(f"{whole}/report?format=npz").body)) as other:
        assert all(one[name].tobytes() == other[name].tobytes() for name in other if name != "provenance")


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS + "&search_texts=50"])
def test_a_run_waits_while_the_disk_is_full(start_server, tmp_path, options):
    """A limit of the sizes of files is full at once, and has space again when it is raised."""
    lines = texts(2000, seed=34)
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(lines), options).headers["Location"]
    wait(server, path, ("running",))
    limit_files(server, 65536)
    until(lambda: server.get(path).json()["error"], lambda error: error and "File too large" in error)
    assert server.get(path).json()["state"] in ("running", "queued")
    refused = send(server, body_of(lines))
    assert refused.status == 507 and "File too large" in refused.json()["detail"]
    limit_files(server, resource.RLIM_INFINITY)
    run = wait(server, path)
    assert (run["state"], run["error"], run["texts_done"] + run["empty_texts"]) == ("done", None, 2000)
    assert server.log().count(f"corpus run {run['id']} waits: ") == 1
    again = send(server, body_of(lines), options).headers["Location"]
    assert wait(server, again)["state"] == "done"
    with np.load(io.BytesIO(server.get(f"{path}/report?format=npz").body)) as one, \
         np.load(io.BytesIO(server.get(f"{again}/report?format=npz").body)) as other:
        assert all(one[name].tobytes() == other[name].tobytes() for name in other if name != "provenance")


def test_a_run_that_waits_lets_others_go_first_and_can_be_cancelled(start_server, tmp_path):
    """The state file of the first is larger than the limit, that of the second is not."""
    server = start_server("--state", str(tmp_path / "state"))
    large = send(server, body_of(texts(4000, seed=35)), "max_tokens=128&control=none").headers["Location"]
    wait(server, large, ("running",))
    limit_files(server, 8 << 20)
    until(lambda: server.get(large).json()["error"])
    small = send(server, b'"a text"\n', "layers=0&max_tokens=4").headers["Location"]
    assert wait(server, small)["state"] == "done" and server.get(large).json()["state"] in ("queued", "running")
    assert server.request("POST", f"{large}/cancel", b"").status == 202
    run = wait(server, large)
    assert (run["state"], run["error"]) == ("cancelled", None)
    assert server.get(f"{large}/report").status == 404
    folder = tmp_path / "state" / "runs" / run["id"]
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "corpora.db")) as db:
        bytes_kept = db.execute("SELECT bytes FROM runs WHERE id = ?", [run["id"]]).fetchone()[0]
    assert bytes_kept == sum(file.stat().st_size for file in folder.iterdir())


def test_a_run_of_before_map_bins_keeps_a_cell_for_each_position(start_server, tmp_path):
    """Its row has no map_bins; a row of today always has."""
    server = start_server("--state", str(tmp_path / "state"))
    paths = [send(server, body_of(texts(3)), f"max_tokens=256&control=none{bins}").headers["Location"] for bins in ("", "&map_bins=256")]
    for path in paths:
        assert wait(server, path)["state"] == "done"
    server.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "corpora.db")) as db, db:
        settings = [json.loads(text) for text, in db.execute("SELECT settings FROM runs ORDER BY number")]
        assert [row["map_bins"] for row in settings] == ["128", "256"]
        db.execute("UPDATE runs SET state = 'running', settings = json_remove(settings, '$.map_bins') WHERE number = "
                   "(SELECT max(number) FROM runs)")
        db.execute("UPDATE runs SET state = 'running'")
    server = start_server("--state", str(tmp_path / "state"))
    for path, step in zip(paths, (2, 1), strict=True):
        run = wait(server, path)
        assert (run["state"], run["error"]) == ("done", None)
        with np.load(io.BytesIO(server.get(f"{path}/report?format=npz").body)) as arrays:
            assert arrays["map_step"] == step


def test_what_cannot_be_restarted_stays(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(40, seed=29))).headers["Location"]
    wait(server, path)
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("UPDATE runs SET state = 'failed', error = 'why'")
    db.close()
    folder = tmp_path / "state" / "runs" / path.rsplit("/", 1)[1]
    (folder / "input").rename(folder / "elsewhere")
    (folder / "input").symlink_to(folder / "elsewhere")
    assert server.request("POST", f"{path}/restart", b"").status == 404
    run = server.get(path).json()
    assert (run["state"], run["error"]) == ("failed", "why") and (folder / "report.json").exists()


@pytest.mark.parametrize("what", ["link", "pipe", "gone"])
def test_a_queued_run_reads_its_upload_and_nothing_else(start_server, tmp_path, what):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(texts(40, seed=31))).headers["Location"]
    wait(server, path)
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("UPDATE runs SET state = 'queued', restarted = 1")
    db.close()
    folder = tmp_path / "state" / "runs" / path.rsplit("/", 1)[1]
    file = folder / "input"
    file.rename(tmp_path / "elsewhere")
    if what == "link":
        file.symlink_to(tmp_path / "elsewhere")
    elif what == "pipe":
        os.mkfifo(file)
    server = start_server("--state", str(tmp_path / "state"))
    run = wait(server, path)
    assert run["state"] == "failed" and "the upload" in run["error"] and (folder / "state").exists() and (folder / "report.json").exists()


def test_orderly_stops_do_not_count_as_kills(start_server, tmp_path):
    path = None
    for _ in range(4):
        server = start_server("--state", str(tmp_path / "state"))
        path = path or send(server, body_of(texts(50000, seed=27))).headers["Location"]
        wait(server, path, ("running",))
        assert server.stop() == 0
    server = start_server("--state", str(tmp_path / "state"))
    assert wait(server, path, ("running", "failed"))["state"] == "running"
    server.request("POST", path + "/cancel", b"")
    wait(server, path)


@pytest.mark.slow
def test_a_stop_does_not_wait_for_texts_that_are_still_to_be_counted(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, body_of(["the cat sat on the mat. " * 90] * 3000), "max_tokens=512").headers["Location"]
    wait(server, path, ("running",))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        wait_reading(server, path)
        assert server.stop() == 0
    finally:
        for process in busy:
            process.kill()
            process.wait()
    server = start_server("--state", str(tmp_path / "state"))
    assert wait(server, path, ("running", "failed"))["state"] == "running"
    server.request("POST", path + "/cancel", b"")
    wait(server, path)


def test_answers_hide_where_the_server_keeps_its_files(sharing):
    run = wait(sharing, send(sharing, gzip.compress(b'"a"\n' * 99)[:-6]).headers["Location"])
    assert run["state"] == "failed" and str(sharing.state.parent) not in run["error"] and "'input'" in run["error"]
    problem = send(sharing, gzip.compress(b"no JSON\n" * 99)[:-6]).json()
    assert problem["status"] == 422 and str(sharing.state.parent) not in problem["detail"] and "cut short" in problem["detail"]


@pytest.mark.parametrize("n_path", [180, 300, 440, 480])
def test_nor_where_that_is_so_far_down_that_messages_are_cut(start_server, tmp_path, n_path):
    """SQLite's longest path has 512 bytes."""
    state = str(tmp_path)
    while len(state) < n_path:
        state += "/" + "d" * min(200, max(1, n_path - len(state) - 1))
    server = start_server("--state", state)
    run = wait(server, send(server, gzip.compress(b'"a"\n' * 99)[:-6]).headers["Location"])
    problem = send(server, gzip.compress(b"no JSON\n" * 99)[:-6]).json()
    assert run["error"].startswith("cannot read '") and problem["detail"].startswith("cannot read '"), (run, problem)
    assert not [text for text in (run["error"], problem["detail"]) if str(tmp_path)[:20] in text]


@pytest.mark.parametrize("first", [1, 2, 100])
def test_gzip_is_known_however_its_bytes_come(sharing, first):
    packed = gzip.compress(b"\n".join(b"%d" % (n * 7919) for n in range(300)))
    with sharing.socket() as client:
        client.sendall(b"POST /corpora?%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" %
                       (OPTIONS.encode(), len(packed)) + packed[:first])
        sharing.wait_read(client)
        client.sendall(packed[first:])
        answer = b""
        while b"}" not in answer:
            answer += client.recv(65536)
    run = json.loads(answer.split(b"\r\n\r\n")[1])
    assert run["texts_total"] is None and wait(sharing, f"/corpora/{run['id']}")["texts_done"] == 300


def small_files():
    """Writes past 4 KiB fail with EFBIG, as if the disk were full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk_refuses_runs_and_not_the_start(tmp_path):
    process = subprocess.Popen([HEADSCOPE, "serve", "--listen", "127.0.0.1:0", "--state", tmp_path / "state"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=small_files)
    port = int(re.search(rb":(\d+)\s*$", process.stdout.readline())[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/analyze", '{"text": "a"}', {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read()
    connection.request("POST", "/corpora", b'"a"\n', NDJSON)
    answer = connection.getresponse()
    detail = json.loads(answer.read())["detail"]
    assert answer.status == 503 and answer.headers["Retry-After"] and "full" in detail and str(tmp_path) not in detail
    connection.close()
    process.terminate()
    said = process.communicate()[1].decode()
    assert process.returncode == 0 and "File too large" in said


def test_the_list_comes_in_pages(start_server, tmp_path):
    start_server("--state", str(tmp_path / "state")).stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "corpora.db")) as db, db:
        db.executemany("INSERT INTO runs (id, name, model, max_tokens, layers, thresholds, state, bad_lines) "
                       "VALUES (?, '', 'mini', 24, 'all', '0.3', 'done', '[1,2,3]')", [(f"{n:016x}",) for n in range(120)])
    server = start_server("--state", str(tmp_path / "state"))
    seen, path, pages = [], "/corpora?limit=50", []
    while path:
        page = server.get(path).json()
        pages.append(len(page["corpora"]))
        seen += [int(run["id"], 16) for run in page["corpora"]]
        assert all("bad_lines" not in run for run in page["corpora"])
        path = page["next"]
    assert seen == list(range(119, -1, -1)) and pages == [50, 50, 20]
    assert len(server.get("/corpora").json()["corpora"]) == 50
    assert server.get(f"/corpora/{119:016x}").json()["bad_lines"] == [1, 2, 3]
    for query in ("limit=0", "limit=201", "limit=x", "limit=", "before=0", "before=-1", "before=99999999999999999999",
                  "state=done", "limit=1&limit=2", "after=%0a"):
        answer = server.get("/corpora?" + query)
        assert answer.status == 422 and answer.json()["pointer"] == "/" + query.split("=")[0], query


def test_client_that_leaves_in_the_middle(refusing):
    with refusing.socket() as client:
        client.sendall(b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n" + b"a text\n" * 99)
        until(lambda: list((refusing.state / "runs").iterdir()))
    until(lambda: not list((refusing.state / "runs").iterdir()))
    assert refusing.get("/corpora").json() == NO_RUNS


def test_head_of_events_has_no_body(sharing):
    path = send(sharing, b'"a"\n').headers["Location"]
    answer = sharing.send(f"HEAD {path}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 ") and b"text/event-stream" in answer
    assert answer.endswith(b"\r\n\r\n") and answer.count(b"\r\n\r\n") == 1
    wait(sharing, path)


def test_events_tell_the_run_to_its_end(sharing):
    answer = send(sharing, body_of(texts(3000, seed=12)))
    connection = sharing.connect()
    connection.request("GET", answer.headers["Location"] + "/events")
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    runs = [json.loads(line[6:]) for line in response.read().decode().splitlines() if line.startswith("data: ")]
    connection.close()
    assert runs[-1]["state"] == "done" and runs[-1]["texts_done"] == 3000
    done = [run["texts_done"] for run in runs]
    assert done == sorted(done) and len({json.dumps(run) for run in runs}) == len(runs)


def test_bad_lines_are_reported_as_they_are_found(sharing):
    path = send(sharing, b"{}\n" * 1200 + body_of(texts(20000, seed=15))).headers["Location"]
    run = until(lambda: sharing.get(path).json(), lambda run: run["bad_lines_total"] >= 1200)
    assert run["state"] == "running" and run["bad_lines"] == list(range(1, 1001)) and run["bad_lines_total"] == 1200
    sharing.request("POST", f"{path}/cancel", b"")
    ended = wait(sharing, path)
    assert ended["bad_lines"] == run["bad_lines"] and ended["bad_lines_total"] == 1200


def test_metrics_count_runs_and_their_texts(keeping):
    wait(keeping, send(keeping, b"{}\n" + body_of(texts(40, seed=16))).headers["Location"])
    cancelled = send(keeping, body_of(texts(20000, seed=17))).headers["Location"]
    wait(keeping, cancelled, ("running",))
    keeping.wait_metric("corpus_running", lambda n: n == 1)
    reserved = keeping.metric("state_bytes")
    keeping.request("POST", f"{cancelled}/cancel", b"")
    wait(keeping, cancelled)
    keeping.wait_metric("corpus_running", lambda n: n == 0)
    assert keeping.metric("corpus_runs_done_total") == keeping.metric("corpus_runs_cancelled_total") == 1
    assert keeping.metric("corpus_runs_failed_total") == 0 and keeping.metric("corpus_bad_lines_total") == 1
    assert keeping.metric("corpus_texts_total") >= 40
    assert 0 < keeping.metric("state_bytes") < reserved < keeping.metric("state_limit_bytes")


def test_counts_survive_a_restart(start_server, tmp_path):
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


def test_a_run_says_when_it_was_sent(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    before = datetime.now(timezone.utc).replace(microsecond=0)
    path = send(server, body_of(texts(3))).headers["Location"]
    created = wait(server, path)["created"]
    assert before <= datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc) <= datetime.now(timezone.utc)
    assert server.get("/corpora").json()["corpora"][0]["created"] == created
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:
        db.execute("ALTER TABLE runs DROP COLUMN created")
    db.close()
    again = start_server("--state", str(tmp_path / "state"))
    assert again.get(path).json()["created"] is None


def test_cancel_ends_a_run_and_delete_wants_that(sharing):
    path = send(sharing, body_of(texts(20000, seed=13))).headers["Location"]
    waiting = send(sharing, body_of(texts(10))).headers["Location"]
    wait(sharing, path, ("running",))
    assert sharing.request("DELETE", path).status == 409
    assert sharing.request("POST", f"{path}/cancel", b"").status == 202
    assert sharing.request("POST", f"{waiting}/cancel", b"").status == 202
    assert wait(sharing, path)["state"] == wait(sharing, waiting)["state"] == "cancelled"
    assert sharing.get(f"{waiting}/report").status == 404
    assert sharing.request("DELETE", path).status == 204


def test_a_cancelled_run_keeps_a_report_of_what_it_counted(sharing, headscope, tmp_path):
    lines = texts(20000, seed=16)
    path = send(sharing, body_of(lines)).headers["Location"]
    until(lambda: sharing.get(path).json()["texts_done"], lambda n: n >= 200)
    sharing.request("POST", f"{path}/cancel", b"")
    run = wait(sharing, path)
    said = sharing.get(f"{path}/report").json()
    assert run["state"] == "cancelled" and 200 <= run["texts_done"] < 20000 and said["texts"] == run["texts_done"]
    assert said["provenance"]["input"]["complete"] is False and said["provenance"]["input"]["lines"] == run["texts_done"]
    assert {str(n) for layer in said["focus_ids"] for n in layer if n >= 0} == set(said["focus_tokens"])
    assert b"</html>" in sharing.get(f"{path}/report?format=html").body

    ndjson(tmp_path / "in", lines[:run["texts_done"]])
    corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    with np.load(io.BytesIO(sharing.get(f"{path}/report?format=npz").body)) as file:
        for name, array in arrays(tmp_path / "out").items():
            assert file[name].tobytes() == array.tobytes(), name


def test_cancel_does_not_wait_for_the_end_of_what_gzip_made_small(sharing):
    path = send(sharing, gzip.compress(b"a text\n") + gzip.compress(b"\n" * (8 << 20)) * 400).headers["Location"]
    wait_reading(sharing, path)
    began = time.monotonic()
    assert sharing.request("POST", f"{path}/cancel", b"").status == 202
    assert wait(sharing, path)["state"] == "cancelled" and time.monotonic() - began < 10


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


@slow_unless_sanitized
def test_a_database_that_cannot_be_written_is_tried_again_now_and_then(start_server, tmp_path):
    server = start_server("--state", str(tmp_path / "state"))
    count = 1500 if SANITIZED else 4000  # not done before the database is held
    path = send(server, body_of(texts(count, seed=19))).headers["Location"]
    db = sqlite3.connect(tmp_path / "state" / "corpora.db", timeout=PATIENCE, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")

    def tries():
        lines = [line for line in server.log().splitlines() if "outcome could not be saved" in line]
        return [datetime.fromisoformat(line.split("Z ")[0]) for line in lines]
    until(tries, lambda found: len(found) >= 3)
    first, *later = tries()
    db.rollback()
    db.close()
    assert (later[1] - first).total_seconds() >= 2, "again at once"
    assert wait(server, path)["texts_done"] == count


def test_an_upload_while_a_server_ends_that_never_got_ready(start_loading, tmp_path):
    server = start_loading("--state", str(tmp_path / "state"), "--model", f"m={MINI}", "--header-timeout", "600")
    with server.socket() as client:
        client.sendall(b"POST /corpora HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n")
        assert server.get("/ready").status == 503  # once answered, the first's headers were read
        server.signal(signal.SIGTERM)
        server.wait_log("finishing")
        client.sendall(b"\r\na")
        assert client.recv(4096).startswith(b"HTTP/1.1 503")
    server.go_on()
    assert server.process.stdout.read() == b"" and server.wait() == 0


@slow_unless_sanitized
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_goes_on_after_a_restart(start_server, headscope, tmp_path, number):
    count = 2000 if SANITIZED else 8000  # not done before the signal
    lines = texts(count, seed=14)
    server = start_server("--state", str(tmp_path / "state"))
    path = send(server, gzip.compress(body_of(lines))).headers["Location"]
    until(lambda: server.get(path).json()["texts_done"])
    server.process.send_signal(number)
    server.process.wait(PATIENCE)
    again = start_server("--state", str(tmp_path / "state"))
    run = wait(again, path)
    assert run["state"] == "done" and run["texts_done"] == count and run["texts_total"] is None
    ndjson(tmp_path / "in", lines)
    corpus(headscope, tmp_path / "in", "-o", tmp_path / "out")
    with np.load(io.BytesIO(again.get(f"{path}/report?format=npz").body)) as file:
        for name, array in arrays(tmp_path / "out").items():
            assert file[name].tobytes() == array.tobytes(), name


def test_analyze_is_answered_while_a_run_goes_on(sharing):
    """Often, while the run gets a little further (it is the more polite): its texts are the clock, which a busy machine slows as well."""
    path = send(sharing, body_of(["the old river and the bridge " * 8] * 20000), "max_tokens=128").headers["Location"]
    until(lambda: sharing.get(path).json()["texts_done"], lambda n: n > 0)
    first, now, answers = sharing.get(path).json()["texts_done"], 0, 0
    while now < first + 5 or answers < 50:
        assert sharing.post("/analyze", {"text": f"The river flows past the old house number {answers}."}).status == 200
        answers += 1
        now = sharing.get(path).json()["texts_done"]
    assert sharing.request("POST", f"{path}/cancel", b"").status == 202
    assert (now - first) / answers < 50
    wait(sharing, path)


@pytest.fixture
def small_group():
    """A memory control group of 500 MB, a little more than a run of the default settings needs beside the server."""
    v1 = Path("/sys/fs/cgroup/memory")
    group = (v1 if v1.is_dir() else v1.parent) / f"headscope-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")).write_text(str(500 << 20))
    except OSError as error:
        pytest.skip(f"no memory control group can be made: {error}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


@pytest.mark.slow
def test_a_run_fits_the_container_or_is_refused(tmp_path, small_group):
    process = subprocess.Popen([HEADSCOPE, "serve", "--listen", "127.0.0.1:0", "--state", tmp_path / "state"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: (small_group / "cgroup.procs").write_text(str(os.getpid())))
    connection = http.client.HTTPConnection("127.0.0.1", int(re.search(rb":(\d+)\s*$", process.stdout.readline())[1]), timeout=PATIENCE)

    def ask(method, path, body=None):
        connection.request(method, path, body, NDJSON)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    try:
        status, problem = ask("POST", "/corpora?max_tokens=512&map_bins=512", b'"a"\n')
        assert status == 422 and "MB of memory" in problem["detail"]
        status, run = ask("POST", "/corpora", body_of(texts(60, seed=28)))
        assert status == 202, run
        run = until(lambda: ask("GET", f"/corpora/{run['id']}")[1], lambda now: now["state"] not in ("queued", "running"))
        assert run["state"] == "done" and process.poll() is None
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
