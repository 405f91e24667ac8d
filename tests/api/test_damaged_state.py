"""A damaged or foreign --state folder harms nothing outside it, and the server starts."""
import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from conftest import Server
from corpus_runs import texts
from test_corpora import body_of, send, wait


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The state folder of a server that stopped, with two runs that ended."""
    state = tmp_path_factory.mktemp("finished") / "state"
    server = Server("--state", str(state))
    for seed in (1, 2):
        wait(server, send(server, body_of(texts(3, seed=seed))).headers["Location"])
    assert server.stop() == 0
    return state


@pytest.fixture
def kept(finished, tmp_path):
    """A copy of it to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "state"))


def row_add(state, name, what):
    with contextlib.closing(sqlite3.connect(state / "corpora.db")) as db, db:
        db.execute("INSERT INTO runs (id, name, model, max_tokens, layers, thresholds, state) VALUES (?, '', 'mini', 0, '', '', ?)",
                   (name, what))


FOREIGN = ["../../victim", "../aside", "..", "", "0123456789abcdef-and-more", "0123456789ABCDEF",
           "0123456789abcdef\0/../../../victim", b"0123456789abcdef"]


@pytest.mark.parametrize("what", ["deleting", "uploading", "queued", "done"])
def test_an_id_of_the_database_is_no_path(start_server, kept, what):
    victim = kept.parent / "victim"
    victim.mkdir()
    (victim / "precious").write_text("still here")
    for name in FOREIGN:
        row_add(kept, name, what)
    server = start_server("--state", str(kept))
    assert (victim / "precious").read_text() == "still here" and list(victim.iterdir()) == [victim / "precious"]
    assert len(server.get("/corpora").json()["corpora"]) == 2
    assert "ids that are not this server's" in server.log()
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"


def test_a_link_in_place_of_a_runs_folder_is_not_followed(start_server, kept):
    victim = kept.parent / "victim"
    victim.mkdir()
    (victim / "precious").write_text("still here")
    row_add(kept, "00112233445566ff", "deleting")
    (kept / "runs" / "00112233445566ff").symlink_to(victim)
    start_server("--state", str(kept))
    assert (victim / "precious").read_text() == "still here"


def test_numbers_of_a_damaged_row_take_no_space(start_server, kept):
    with contextlib.closing(sqlite3.connect(kept / "corpora.db")) as db, db:
        db.execute("UPDATE runs SET bytes = -5, reserved = -1, texts_total = -9, texts_done = 9223372036854775807")
    server = start_server("--state", str(kept))
    assert len(server.get("/corpora").json()["corpora"]) == 2
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"


@pytest.mark.parametrize("seed", range(12))
def test_a_database_with_flipped_bits_never_keeps_the_server_from_starting(start_server, kept, seed):
    draw = random.Random(seed)
    data = bytearray((kept / "corpora.db").read_bytes())
    for _ in range(1 << seed % 6):
        # Most of a small database is zeros that nobody reads: half of the flips go where something is.
        at = draw.choice([draw.randrange(len(data)), draw.choice([i for i, byte in enumerate(data) if byte])])
        data[at] ^= 1 << draw.randrange(8)
    (kept / "corpora.db").write_bytes(data)
    for extra in ("corpora.db-wal", "corpora.db-shm"):
        (kept / extra).unlink(missing_ok=True)
    folders = {folder.name for folder in (kept / "runs").iterdir()}
    server = start_server("--state", str(kept))
    assert server.get("/corpora").status == 200
    for run in server.get("/corpora").json()["corpora"]:
        server.get(f"/corpora/{run['id']}"), server.get(f"/corpora/{run['id']}/report")
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"
    aside = {folder.name for folder in (kept / "aside").iterdir()} if (kept / "aside").exists() else set()
    assert folders <= aside | {folder.name for folder in (kept / "runs").iterdir()}, "an accepted run is gone"


@pytest.mark.parametrize("where, byte", [(18, 9), (19, 9), (44, 9), ("state TEXT", b"stbte TEXT"), ("name TEXT", b"nbme TEXT"),
                                         ("CREATE TABLE runs", b"CREATE TABLE ruins")])
def test_a_database_whose_header_or_schema_is_damaged(start_server, kept, where, byte):
    data = bytearray((kept / "corpora.db").read_bytes())
    if isinstance(where, int):
        data[where] = byte
    else:
        at = data.index(where.encode())
        data[at:at + len(where)] = byte[:len(where)]
    (kept / "corpora.db").write_bytes(data)
    server = start_server("--state", str(kept))
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"


@pytest.mark.parametrize("cut", ["empty", "half", "zeros"])
@pytest.mark.parametrize("which", ["corpora.db", "corpora.db-wal"])
def test_a_database_that_lost_its_end_to_a_power_cut(start_server, kept, which, cut):
    file = kept / which
    data = file.read_bytes() if file.exists() else bytes(4096)
    file.write_bytes({"empty": b"", "half": data[:len(data) // 2], "zeros": bytes(len(data))}[cut])
    server = start_server("--state", str(kept))
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"
