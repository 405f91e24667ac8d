"""Calls to the system that fail, one after the other, and kill -9 at each of them. Nothing acknowledged is lost, no
partial file counts as complete, and each failure is reported. tests/faults/failing_calls.c is preloaded. `make test`
takes some calls of a few kinds, `make sanitize` some calls of every kind, `make test-slow` each call of every kind."""
import concurrent.futures
import contextlib
import errno
import hashlib
import http.client
import os
import random
import re
import signal

import pytest
from conftest import HEADSCOPE, SANITIZED, Server, failing, unsanitized, until
from corpus_runs import assert_same, corpus, ndjson, texts

NDJSON = {"Content-Type": "application/x-ndjson"}
OPTIONS = "layers=0,2&max_tokens=24"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A corpus and the run of it that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    ndjson(folder / "texts.jsonl", texts(40, seed=5))
    assert corpus(HEADSCOPE, folder / "texts.jsonl", "-o", folder / "run").returncode == 0
    return folder


def each_call(seen, most, some=False):
    """Yields 0, 1, 2, ... until a call was not reached; from the 12th on the steps grow. Some: 0, 3, 9, 21, 45, ..."""
    nth = 0
    while nth < most:
        yield nth
        if not seen.exists():
            assert nth, "no call of this group was made, so none has failed"
            return
        nth += nth + 3 if some else nth // 5 if nth >= 12 else 1
    assert seen.exists()


def calls_of(kinds, quick):
    """Parametrizes a test: some calls of the kinds in `quick`, or of all kinds under a sanitizer; and in `make test-slow` each
    call of every kind."""
    def param(kind, some):
        parts = kind if isinstance(kind, tuple) else (kind,)
        name = "-".join([*(errno.errorcode.get(part, part) for part in parts), "some" if some else "each"])
        return pytest.param(*parts, some, marks=() if some else pytest.mark.slow, id=name)

    names = ("group", "error", "some") if isinstance(kinds[0], tuple) else ("group", "some")
    sampled = kinds if SANITIZED else quick
    return pytest.mark.parametrize(names, [*(param(kind, True) for kind in sampled), *(param(kind, False) for kind in kinds)])


SAVING = ["write", "fsync", "rename", "truncate", "open"]
FAILURES = [("write", errno.ENOSPC), ("write", errno.EIO), ("write", errno.EINTR), ("fsync", errno.EIO), ("rename", errno.EIO),
            ("truncate", errno.EFBIG), ("open", errno.EMFILE), ("read", errno.EIO), ("read", errno.EINTR)]


def resumed_is_whole(whole, folder):
    done = corpus(HEADSCOPE, whole / "texts.jsonl", "-o", folder, "--resume")
    assert done.returncode == 0, done.stderr
    assert_same(folder, whole / "run")
    assert not [name for name in os.listdir(folder) if "unfinished" in name]


@unsanitized
@calls_of(SAVING, quick=["rename"])
def test_a_run_goes_on_after_kill_at_every_call(preload, whole, tmp_path, group, some):
    seen = tmp_path / "seen"
    killed = 0
    for nth in each_call(seen, 400, some):
        folder = tmp_path / f"run-{nth}"
        done = corpus(HEADSCOPE, whole / "texts.jsonl", "-o", folder, "--workers", "1", "--save", "0.01",
                      environment=failing(preload, group, nth, "kill", seen))
        assert done.returncode == (-signal.SIGKILL if seen.exists() else 0), done.stderr
        killed += seen.exists()
        resumed_is_whole(whole, folder)
    assert killed


@calls_of(FAILURES, quick=[("fsync", errno.EIO), ("open", errno.EMFILE)])
def test_a_run_whose_calls_fail_says_so_and_goes_on(preload, whole, tmp_path, group, error, some):
    seen = tmp_path / "seen"
    for nth in each_call(seen, 400, some):
        folder = tmp_path / f"run-{nth}"
        done = corpus(HEADSCOPE, whole / "texts.jsonl", "-o", folder, "--workers", "1", "--save", "0.01",
                      environment=failing(preload, group, nth, error, seen))
        assert done.returncode in (0, 1, 127), (nth, done.returncode, done.stderr)  # 127: the loader could not read a library
        if done.returncode == 0:
            assert_same(folder, whole / "run")
        else:
            assert done.stderr.strip(), nth
            resumed_is_whole(whole, folder)


# ---- the service ----


def served(server, path="/tokenize", body=b'{"text": "hi"}', tries=3):
    for _ in range(tries):  # a connection may be the one that fails
        try:
            return server.post(path, body)
        except OSError:
            continue
    return pytest.fail("nobody is answered any more")


@calls_of([("accept", errno.EMFILE), ("accept", errno.ENFILE), ("accept", errno.ECONNABORTED), ("accept", errno.EINTR),
           ("receive", errno.ECONNRESET), ("receive", errno.EINTR), ("send", errno.EPIPE), ("send", errno.EINTR),
           ("mmap", errno.ENOMEM), ("open", errno.EMFILE)],
          quick=[("accept", errno.EMFILE), ("receive", errno.ECONNRESET), ("send", errno.EPIPE), ("mmap", errno.ENOMEM)])
def test_a_service_answers_on_after_a_call_failed(preload, tmp_path, group, error, some):
    """Those of the start may keep it from starting, with a word; those after it cost one connection at most."""
    seen = tmp_path / "seen"
    for nth in each_call(seen, 60, some):
        try:
            server = Server(environment=failing(preload, group, nth, error, seen))
        except pytest.fail.Exception as failed:
            assert seen.exists() and re.search(r"'' .*\S", str(failed), re.S), nth  # nothing on standard output, a word beside it
            continue
        for _ in range(4):
            served(server)
        assert server.stop() == 0, (nth, server.log())


@calls_of([("write", errno.ENOSPC), ("fsync", errno.EIO), ("truncate", errno.EIO), ("open", errno.EMFILE)],
          quick=[("write", errno.ENOSPC)])
def test_an_upload_is_acknowledged_or_refused(preload, tmp_path, group, error, some):
    seen = tmp_path / "seen"
    for nth in each_call(seen, 60, some):
        state = tmp_path / f"state-{nth}"
        try:
            server = Server("--state", str(state), environment=failing(preload, group, nth, error, seen))
        except pytest.fail.Exception:
            assert seen.exists()
            continue
        answer = server.request("POST", f"/corpora?{OPTIONS}", ndjson_body(5), NDJSON)
        assert answer.status in (202, 500, 503, 507), answer.body
        if nth % 2 and answer.status == 202:
            ended(server, answer.json()["id"])
        server.process.kill()
        server.process.wait()
        if answer.status == 202:
            again = Server("--state", str(state))
            run = ended(again, answer.json()["id"])
            # The call that failed may have been the run's own: then it has failed, and says why.
            assert run["state"] == "done" or os.strerror(error) in run["error"]
            assert again.stop() == 0


def ndjson_body(n, seed=0):
    return "".join(f'{{"text": "{text}"}}\n' for text in (one.replace('"', "") for one in texts(n, seed=seed))).encode()


def ended(server, run):
    """Returns the run once it is no longer under way."""
    return until(lambda: server.get(f"/corpora/{run}").json(), lambda now: now["state"] not in ("queued", "running"))


def finished(server, runs):
    """All of these come to their end; then the server is stopped."""
    for run in runs:
        assert (now := ended(server, run))["state"] == "done", now
        assert server.get(f"/corpora/{run}/report").status == 200
    return server.stop() == 0


class Client:
    """Sends, cancels, restarts and deletes runs, and keeps what was acknowledged. A request without an answer may have had
    its effect or not: nothing is expected of its run any more."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lengths, self.ends, self.deleted = {}, set(), set()  # texts of each run; runs that no longer go on; runs that are gone
        self.reports, self.answers = {}, 0

    def ask(self, server, method, path, body=None):
        answer = server.request(method, path, body, NDJSON)
        self.answers += 1
        return answer

    def send(self, server):
        length = self.rng.choice([3, 200])
        answer = self.ask(server, "POST", f"/corpora?{OPTIONS}", ndjson_body(length, seed=self.answers))
        assert answer.status == 202, answer.body
        self.lengths[answer.json()["id"]] = length

    def change(self, server, run):
        what = self.rng.choice(["cancel", "restart", "delete"] if len(self.lengths) < 20 else ["cancel", "delete"])
        length, ends = self.lengths.pop(run), run in self.ends
        self.ends.discard(run)
        answer = self.ask(server, *(("DELETE", f"/corpora/{run}") if what == "delete" else ("POST", f"/corpora/{run}/{what}")))
        assert answer.status in (202, 204, 409), answer.body  # 409: it runs, or has ended
        if answer.status == 204:
            self.deleted.add(run)
            return
        self.lengths[run] = length
        if what == "cancel" or (ends and answer.status == 409):
            self.ends.add(run)

    def go_on(self, server):
        with contextlib.suppress(OSError, http.client.HTTPException):  # the server is gone
            while True:
                if self.rng.random() < (0.9 if len(self.lengths) > 20 else 0.5) and self.lengths:
                    self.change(server, self.rng.choice(sorted(self.lengths)))
                else:
                    self.send(server)

    def check(self, server):
        """Everything acknowledged is as it was, and reports do not change."""
        runs = {run["id"]: run for run in runs_of(server)}
        assert not self.lengths.keys() - runs.keys() and not self.deleted & runs.keys()
        assert all(runs[run]["state"] in ("cancelled", "done", "failed") for run in self.ends)
        for run in self.lengths:
            if runs[run]["state"] == "done":
                assert runs[run]["texts_done"] + runs[run]["empty_texts"] == self.lengths[run]
                report = hashlib.sha256(server.get(f"/corpora/{run}/report").body).digest()
                assert self.reports.setdefault(run, report) == report


@unsanitized
@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_in_kills(tmp_path, kills):
    state, client, rng = tmp_path / "state", Client(14), random.Random(15)
    for _ in range(kills):
        server = Server("--state", str(state))
        client.check(server)
        goal = client.answers + rng.randrange(1, 10)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            requests = pool.submit(client.go_on, server)
            until(lambda: client.answers >= goal or requests.done())
            server.process.kill()
            server.process.wait()
            requests.result()
    server = Server("--state", str(state))
    client.check(server)
    for run in client.lengths.keys() - client.ends:
        if "the server was killed " in (ended(server, run)["error"] or ""):  # it may be what kills the server
            assert server.request("POST", f"/corpora/{run}/restart", b"").status == 202
    assert finished(server, client.lengths.keys() - client.ends)


def runs_of(server):
    page = server.get("/corpora").json()
    while True:
        yield from page["corpora"]
        if not page["next"]:
            return
        page = server.get(page["next"]).json()
