"""Acknowledged runs, saved states and pulled models survive a loss of power. Each folder is synced after a name was
made in it. A file system that drops unsynced data keeps everything acknowledged.
"""
import contextlib
import fcntl
import os
import random
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import MINI, Server, preloading, until
from corpus_runs import SMALL, assert_same, command, corpus, ndjson, texts
from hub import Hub
from test_corpora import body_of, send, wait
from test_faults import ended, finished, runs_of


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    return preloading(Path(__file__).parents[1] / "faults" / "synced_names.c", tmp_path_factory.mktemp("names") / "synced_names.so")


@pytest.fixture
def recording(recorder, tmp_path):
    return {**recorder, "SYNCED_NAMES": str(tmp_path / "names")}


def unsynced(tmp_path, below):
    """Names in `below` whose folder was not synced after they were made."""
    lost = set()
    for line in (tmp_path / "names").read_text().splitlines():
        what, path = line.split(" ", 1)
        path = os.path.normpath(path)
        if what == "made" and path.startswith(str(below) + "/"):
            lost.add(path)
        elif what == "synced":
            lost = {name for name in lost if os.path.dirname(name) != path}
    return lost


def test_of_a_run(headscope, recording, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(texts(20)))
    subprocess.run([headscope, "corpus", "t.txt", "-o", "deep/er/out", "--pairs", "pairs.csv", "--layers", "0", "--max-tokens", "16"],
                   cwd=tmp_path, env={**os.environ, **recording}, check=True, capture_output=True)
    assert "made " in (tmp_path / "names").read_text() and not unsynced(tmp_path, tmp_path)


def test_of_an_upload_that_was_acknowledged(start_server, recording, tmp_path):
    server = start_server("--state", str(tmp_path / "state"), environment=recording)
    answer = send(server, body_of(texts(3)))
    run = tmp_path / "state" / "runs" / answer.json()["id"]
    said = (tmp_path / "names").read_text()
    assert f"synced {run / 'input'}\n" in said and f"synced {run}\n" in said and not unsynced(tmp_path, tmp_path / "state")
    wait(server, answer.headers["Location"])


def test_of_a_model_that_was_pulled(headscope, recording, tmp_path):
    files = {name: (MINI / name).read_bytes() for name in ("config.json", "vocab.txt", "model.safetensors")}
    hub = Hub({"org/mini": files})
    subprocess.run([headscope, "pull", "org/mini"], check=True, capture_output=True,
                   env={**os.environ, **recording, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "cache" / "hub")})
    hub.close()
    folder = tmp_path / "cache" / "hub" / "models--org--mini"
    locks = tmp_path / "cache" / "hub" / ".locks"
    assert not {name for name in unsynced(tmp_path, tmp_path / "cache") if not name.startswith(str(locks))}
    said = (tmp_path / "names").read_text()
    blobs = list((folder / "blobs").iterdir())
    assert len(blobs) == len(files) and all(f"/blobs/{blob.name}.incomplete\n" in said for blob in blobs)
    assert f"{folder / 'refs'}/.main." in said and f"made {folder / 'refs' / 'main'}\n" in said


# ---- a file system that drops what was not synced ----

SHUTDOWN, WITHOUT_LOG = 0x8004587D, 2  # EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH


class Disk:
    """An ext4 file system in a file, which loses its power on request: nothing more reaches the file then."""

    def __init__(self, folder):
        memory = Path("/dev/shm")  # a sync of the disk waits for no other disk there
        self.file = tempfile.NamedTemporaryFile(dir=memory if memory.is_dir() else folder)
        self.file.truncate(4 << 30)
        self.image, self.path = self.file.name, folder / "mounted"
        self.path.mkdir()
        self.servers = []
        self.run("mkfs.ext4", "-q", "-F", self.image)
        self.mount()

    def run(self, *arguments):
        if not shutil.which(arguments[0]):
            pytest.skip(f"{arguments[0]} is not installed")
        return subprocess.run(arguments, check=True, capture_output=True)

    def mount(self):
        try:
            self.run("mount", "-o", "loop", self.image, self.path)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no file system can be mounted here: {error.stderr.decode()}")

    def cut_power(self):
        root = os.open(self.path, os.O_RDONLY)
        fcntl.ioctl(root, SHUTDOWN, struct.pack("I", WITHOUT_LOG))
        os.close(root)

    def restore_power(self):
        self.run("umount", self.path)
        # A mount namespace of another test has a copy of the mount. The file system without power lives until it ends.
        until(lambda: not self.run("losetup", "--associated", self.image).stdout)
        self.mount()

    def serve(self):
        """A server that keeps runs on this disk. It ends with the disk at the latest."""
        self.servers.append(Server("--state", str(self.path / "state")))
        return self.servers[-1]

    def cut_shortly(self):
        self.cut_power()
        self.restore_power()


@pytest.fixture
def disk(tmp_path):
    one = Disk(tmp_path)
    yield one
    for server in one.servers:
        server.process.kill()
        server.process.wait()
    with contextlib.suppress(subprocess.CalledProcessError):
        one.run("umount", one.path)
    one.file.close()


def test_the_disk_drops_what_was_not_synced(disk):
    (disk.path / "unsynced").write_bytes(b"a")
    disk.cut_shortly()
    assert not (disk.path / "unsynced").exists()


@pytest.mark.parametrize("cuts", [3, pytest.param(15, marks=pytest.mark.slow)])
def test_acknowledged_runs_are_there_when_power_is_back(disk, cuts):
    """Power is lost while runs are taken and counted."""
    rng = random.Random(24)
    acknowledged = []
    for _ in range(cuts):
        server = disk.serve()
        for number in range(rng.randrange(1, 4)):
            answer = send(server, body_of(texts(rng.choice([3, 200]), seed=number)))
            assert answer.status == 202, answer.body
            acknowledged.append(answer.json()["id"])
        if rng.random() < 0.5:
            ended(server, acknowledged[-1])
        disk.cut_power()
        server.process.kill()
        server.process.wait()
        disk.restore_power()
    server = disk.serve()
    assert {run["id"] for run in runs_of(server)} == set(acknowledged)
    # A run under way at two ends without a save between them fails on purpose: it may be what ends the server.
    killed = [run for run in acknowledged if (ended(server, run).get("error") or "").startswith("the server was killed ")]
    assert len(killed) <= cuts // 2
    assert finished(server, [run for run in acknowledged if run not in killed])


def saved(state):
    """The inode and the time of a state, which change with every save."""
    try:
        return state.stat().st_ino, state.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [15])
def test_a_run_goes_on_when_power_is_back(disk, headscope, tmp_path, cuts):
    """Power is lost after a save, or in the next one. The results are those of a run in one piece."""
    lines = ndjson(tmp_path / "in.jsonl", texts(3000))
    out = disk.path / "out"
    assert corpus(headscope, "-o", tmp_path / "whole", lines).returncode == 0
    begin = command(headscope, "corpus", *SMALL, "--save", "0.01", "-o", out, lines)
    for _ in range(cuts):
        before = saved(out / "state")
        with subprocess.Popen([*begin, *(["--resume"] if before else [])], stderr=subprocess.DEVNULL) as running:
            until(lambda: running.poll() is not None or saved(out / "state") != before)
            disk.cut_power()
        disk.restore_power()
        assert saved(out / "state") or not before, "a state that was there is gone"
    done = corpus(headscope, "-o", out, *(["--resume"] if saved(out / "state") else []), lines)
    assert done.returncode == 0, done.stderr
    assert_same(out, tmp_path / "whole")


def test_a_model_that_was_pulled_is_there_when_power_is_back(disk, headscope):
    hub = Hub({"org/mini": {name: (MINI / name).read_bytes() for name in ("config.json", "vocab.txt", "model.safetensors")}})
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(disk.path / "hub")}
    subprocess.run([headscope, "pull", "org/mini"], check=True, capture_output=True, env=environment)
    hub.close()
    disk.cut_shortly()
    done = subprocess.run([headscope, "analyze", "--model", "org/mini"], input=b"a", check=False, capture_output=True,
                          env={**environment, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
