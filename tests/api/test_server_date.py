"""The date jumps by hours while the server works. Deadlines and streams use the monotonic clock and do not notice."""
import email.utils
import time
from pathlib import Path

import pytest
from conftest import Clients, endless, occupied, post_bytes, preloading, read_all, slow_unless_sanitized, until

HOURS_5 = 5 * 3600
LINE = b"the war, the last war of the old bridge. the war, the last war of the old bridge.\n"
TEXT = {"Content-Type": "text/plain"}

pytestmark = pytest.mark.parametrize("jump", [-HOURS_5, HOURS_5], ids=["back", "forward"])


@pytest.fixture
def start_dated(start_server, tmp_path):
    """Returns a server and set_date(seconds), which puts its date so far off."""
    shift = tmp_path / "shift"
    source = Path(__file__).parents[1] / "faults" / "shifted_date.c"
    environment = {**preloading(source, tmp_path / "shifted_date.so"), "SHIFTED_DATE": str(shift)}

    def set_date(seconds):
        shift.with_suffix(".new").write_text(f"{seconds}\n", encoding="ascii")
        shift.with_suffix(".new").replace(shift)

    set_date(0)
    return lambda *options: (start_server(*options, environment=environment), set_date)


def seconds_off(server):
    """Returns how far the server's date is from this machine's."""
    stamp = server.get("/health").headers["Date"]
    return email.utils.parsedate_to_datetime(stamp).timestamp() - time.time()


def test_requests_that_wait_are_answered_in_their_turn(start_dated, jump):
    server, set_date = start_dated("--workers", "1")
    with occupied(server):
        waiting = Clients(server, [("POST", "/analyze", '{"text": "hello"}')] * 3)
        server.wait_metric("queue_depth", lambda n: n == 3)
        set_date(jump)
        until(lambda: seconds_off(server), lambda off: abs(off - jump) < 600)
        assert server.metric("queue_depth") == 3  # none was called late
    assert [answer.status for answer in waiting.join()] == [200] * 3


@slow_unless_sanitized
def test_a_deadline_comes_when_it_should(start_dated, jump):
    server, set_date = start_dated("--workers", "1", "--deadline", "2")
    with server.socket() as client:
        started = time.monotonic()
        client.sendall(post_bytes(endless()))
        server.wait_metric("workers_busy", lambda n: n == 1)
        set_date(jump)
        assert client.recv(15) == b"HTTP/1.1 504 Ga"
        assert time.monotonic() - started >= 2
    assert server.post("/analyze", {"text": "hello"}).status == 200


@pytest.mark.slow
def test_a_run_and_its_events_go_on(start_dated, tmp_path, jump):
    server, set_date = start_dated("--workers", "1", "--state", str(tmp_path / "state"))
    first = server.request("POST", "/corpora?layers=0&max_tokens=8", LINE, TEXT).json()["id"]
    run = server.request("POST", "/corpora?max_tokens=64", LINE * 300, TEXT).json()["id"]
    with server.socket() as events:
        events.sendall(f"GET /corpora/{run}/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert events.recv(15) == b"HTTP/1.1 200 OK"
        set_date(jump)
        assert b'"state":"done"' in read_all(events)
    assert [one["id"] for one in server.get("/corpora").json()["corpora"]] == [run, first]  # by number, not by date


def test_a_run_is_saved_when_the_server_stops(start_dated, tmp_path, jump):
    """The server waits three seconds for the run, whatever the date is then."""
    server, set_date = start_dated("--workers", "1", "--state", str(tmp_path / "state"))
    run = server.request("POST", "/corpora?max_tokens=64", LINE * 20_000, TEXT).json()["id"]
    until(lambda: server.get(f"/corpora/{run}").json()["texts_done"])
    set_date(jump)
    begin = time.monotonic()
    assert server.stop() == 0
    waited = time.monotonic() - begin
    was_saved = f"corpus run {run}: stopped" in server.log()
    assert was_saved != ("did not stop in time" in server.log())
    assert was_saved or waited >= 3  # on a loaded machine
