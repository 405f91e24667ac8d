"""A --state folder that the server's user may not write to: refused with a reason, and nothing else is harmed."""
import os
import shutil
import subprocess

import pytest
from conftest import HEADSCOPE, PATIENCE, Server
from corpus_runs import texts
from test_corpora import body_of, send, wait

NOBODY = 65534


@pytest.fixture
def as_nobody(tmp_path):
    """Returns the program as a script that runs it as an ordinary user, who may look into the test's folder."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can run the program as another user, with util-linux's setpriv")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest", "popen", "test")):
            folder.chmod(0o755)
    shutil.copy(HEADSCOPE, tmp_path / "binary")
    script = tmp_path / "headscope"
    script.write_text(f'#!/bin/sh\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "{tmp_path}/binary" "$@"\n',
                      encoding="ascii")
    script.chmod(0o755)
    if (done := subprocess.run([script, "version"], capture_output=True, check=False)).returncode:
        pytest.skip(f"the program does not run as another user here: {done.stderr.decode()}")
    return script


@pytest.fixture
def kept(tmp_path):
    """A state folder of root's with a run that is done. Others may write everything but what a test takes from them."""
    state = tmp_path / "state"
    server = Server("--state", str(state))
    run = wait(server, send(server, body_of(texts(3))).headers["Location"])["id"]
    assert server.stop() == 0
    for path in (state, *state.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return state, run


@pytest.mark.parametrize("what", ["new", ".", "lock", "corpora.db"])
def test_a_folder_that_cannot_be_written_is_named(as_nobody, kept, what):
    state, _ = kept
    if what == "new":
        shutil.rmtree(state)
        state.parent.chmod(0o755)
    else:
        (state / what).chmod(0o555 if what == "." else 0o444)
    done = subprocess.run([as_nobody, "serve", "--listen", "127.0.0.1:0", "--state", state], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"headscope serve: cannot use the state folder '{state}': "), done.stderr
    assert len(done.stderr.splitlines()) == 1  # no attempt to put the database aside


def test_a_run_that_cannot_be_removed_is_not_called_deleted(as_nobody, kept):
    """Its row stays, so that the next start removes it: otherwise the folder would be a stranger's."""
    state, run = kept
    (state / "runs" / run).chmod(0o555)
    server = Server("--state", str(state), program=as_nobody)
    assert server.request("DELETE", f"/corpora/{run}").status == 500
    assert f"runs/{run} cannot be removed: " in server.log()
    assert server.get(f"/corpora/{run}").status == 404
    assert server.stop() == 0
    (state / "runs" / run).chmod(0o777)
    server = Server("--state", str(state), program=as_nobody)
    assert server.stop() == 0
    assert not (state / "runs" / run).exists() and not (state / "aside").exists()


def test_uploads_that_cannot_be_kept_are_refused(as_nobody, kept):
    state, _ = kept
    (state / "runs").chmod(0o555)
    server = Server("--state", str(state), program=as_nobody)
    assert send(server, body_of(texts(3))).status == 500
    assert "Permission denied" in server.log()
    assert server.post("/tokenize", {"text": "hi"}).status == 200
    assert server.stop() == 0


def test_a_server_without_state_needs_no_folder(as_nobody):
    server = Server(program=as_nobody)
    assert server.post("/analyze", {"text": "hi"}).status == 200
    assert server.stop() == 0
