"""A server that listens on a socket file: only this user reaches it, and clients speak the same HTTP."""
import fcntl
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE, unsanitized, until
from test_client_python import package

LARGE = {"text": "war and peace the old bridge closed " * 60, "max_tokens": 300, "outputs": ["attentions"]}


@pytest.fixture
def start(tmp_path):
    """Returns start(path, *options): a server of this test's own that listens on the path."""
    processes = []

    def one(path, *options):
        log = open(tmp_path / f"log-{len(processes)}", "wb")  # the server's, until it ends
        process = subprocess.Popen([HEADSCOPE, "serve", "--listen", f"unix:{path}", *options], stdout=subprocess.PIPE, stderr=log)
        processes.append(process)
        log.close()
        assert process.stdout.readline().decode() == f"headscope is ready on unix:{path}\n"
        return process

    yield one
    for process in processes:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


class Local(http.client.HTTPConnection):
    def __init__(self, path, host="localhost"):
        super().__init__(host, timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self.path))

    def ask(self, method, path, body=None):
        self.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self.getresponse()
        return answer.status, answer.read()


def refused(path):
    done = subprocess.run([HEADSCOPE, "serve", "--listen", f"unix:{path}"], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0 and not done.stdout
    return done.stderr.decode()


def test_requests_are_answered_as_on_a_port(start, server, tmp_path):
    path = tmp_path / "socket"
    process = start(path)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    local = Local(path)
    status, body = local.ask("POST", "/analyze", json.dumps(LARGE))
    assert status == 200 and json.loads(body)["attentions"] == server.post("/analyze", LARGE).json()["attentions"]
    assert local.ask("GET", "/models")[0] == 200  # on the same connection
    assert Local(path, "evil.example").ask("GET", "/models")[0] == 421
    late = Local(path)
    late.connect()
    late.send(b"POST /analyze HTTP/1.1\r\nHost: localhost\r\n")  # and no more
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0 and not path.exists()
    log = (tmp_path / "log-0").read_text()
    assert re.search(r"request 200 client=unix method=POST path=/analyze", log) and "no --token-file" not in log


def test_a_path_that_is_taken(start, tmp_path):
    path = tmp_path / "socket"
    first = start(path)
    assert "another server listens there: choose another path" in refused(path)
    assert Local(path).ask("GET", "/health")[0] == 200
    first.kill()
    first.wait(PATIENCE)
    assert path.exists()
    second = start(path)  # takes the place of what was left behind
    path.unlink()
    start(path)
    second.terminate()
    second.wait(PATIENCE)
    assert Local(path).ask("GET", "/health")[0] == 200  # the file was not the second server's any more
    (tmp_path / "texts").write_text("kept")
    assert "a file that is no socket is there" in refused(tmp_path / "texts") and (tmp_path / "texts").read_text() == "kept"
    assert "No such file" in refused(tmp_path / "none" / "socket")
    assert "a path has 1 to 107 bytes, not 200" in refused("a" * 200)
    assert "a path has 1 to 107 bytes, not 0" in refused("")


def test_a_path_that_another_server_is_about_to_take(tmp_path):
    """Between bind and listen a socket file refuses connections, as one that was left behind does."""
    path, folder = tmp_path / "socket", os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        own = path.lstat().st_ino
        with subprocess.Popen([HEADSCOPE, "serve", "--listen", f"unix:{path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as late:
            waits = re.compile(rf"-> FLOCK .* {late.pid} ")
            line = until(lambda: waits.search(Path("/proc/locks").read_text()) or not path.exists() or path.lstat().st_ino != own)
            other.listen()
            os.close(folder)
            if line is True:  # it has deleted the file
                late.kill()
            assert b"another server listens there" in late.communicate()[1] and late.returncode != 0
        assert path.lstat().st_ino == own


def test_the_viewer_needs_an_address(tmp_path):
    done = subprocess.run([HEADSCOPE, "view", "--listen", f"unix:{tmp_path}/socket", "x.npz"], capture_output=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 2 and b"no browser opens a socket file" in done.stderr


@unsanitized
def test_the_client_in_python(start, tmp_path):
    path = tmp_path / "socket"
    start(path)
    with package.Client(f"unix:{path}") as client:
        answer = client.analyze("The old bridge closed.")
        assert answer.attentions.shape[2:] == (7, 7) and client.url == f"unix:{path}"
        assert [a["tokens"][1] for a in client.analyze_batch(["war", "peace"])] == ["war", "peace"]
        assert "<iframe" not in answer._repr_html_()
        with pytest.raises(ValueError, match="no browser opens a socket file"):
            answer.view()
    with pytest.raises(package.HeadscopeError, match="headscope serve"):
        package.Client(f"unix:{tmp_path}/none").models()
    with package.start("--listen", f"unix:{tmp_path}/own", binary=os.path.abspath(HEADSCOPE)) as own:
        assert own.url == f"unix:{tmp_path}/own" and own.models()
    assert not (tmp_path / "own").exists()
