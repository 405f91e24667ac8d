"""A damaged or foreign --state folder harms nothing outside it, and the server starts."""
import contextlib
import os
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


COMPUTED = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)"


@pytest.mark.parametrize("statement", [
    f"CREATE TRIGGER t AFTER UPDATE ON runs BEGIN SELECT {COMPUTED}; END",
    f"CREATE VIEW v AS SELECT {COMPUTED} AS x",
    "CREATE INDEX i ON runs(hex(zeroblob(length(id) + 100000)))",
    "ALTER TABLE runs ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))",
    "CREATE TABLE other(x)"], ids=["trigger", "view", "index", "generated", "table"])
def test_a_database_with_more_than_the_servers_tables_is_put_aside(start_server, kept, statement):
    folders = {folder.name for folder in (kept / "runs").iterdir()}
    with contextlib.closing(sqlite3.connect(kept / "corpora.db")) as db, db:
        db.execute("UPDATE runs SET state = 'cancelling'")
        db.execute(statement)
    server = start_server("--state", str(kept))
    assert "corpora.db: the file is damaged or not headscope's; moved to" in server.log()
    assert server.get("/corpora").json()["corpora"] == [] and folders <= {folder.name for folder in (kept / "aside").iterdir()}
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"


@pytest.mark.parametrize("columns", [[], ["created", "lines", "bad_lines_total"]], ids=["first", "later"])
def test_a_database_of_an_earlier_version_is_kept(start_server, kept, columns):
    """Its table lacks columns, or has them in another order."""
    with contextlib.closing(sqlite3.connect(kept / "corpora.db")) as db, db:
        sql = db.execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
        base, _, rest = sql.partition(", error TEXT")
        definitions = {part.split()[0]: part for part in rest.rstrip(")").split(", ") if part}
        rows = db.execute("SELECT id, name, model, max_tokens, layers, thresholds, state, bytes, texts_done FROM runs").fetchall()
        db.execute("DROP TABLE runs")
        db.execute(base + ", error TEXT)")
        for name in columns:
            db.execute(f"ALTER TABLE runs ADD COLUMN {definitions[name]}")
        db.executemany("INSERT INTO runs (id, name, model, max_tokens, layers, thresholds, state, bytes, texts_done)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    server = start_server("--state", str(kept))
    runs = server.get("/corpora").json()["corpora"]
    assert {run["id"] for run in runs} == {row[0] for row in rows} and not (kept / "aside").exists()
    assert server.get(f"/corpora/{runs[0]['id']}/report").status == 200
    assert wait(server, send(server, b'"a"\n').headers["Location"])["state"] == "done"


def replace(file, kind):
    """Puts a link to a secret, or a pipe, in place of a file."""
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(file.parents[2] / "secret")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_files_of_a_run_are_sent(start_server, kept, kind):
    (kept / "secret").write_text('{"secret": 1}')
    run = sorted((kept / "runs").iterdir())[0]
    for name in ("report.json", "report.npz", "report.html"):
        replace(run / name, kind)
    server = start_server("--state", str(kept))
    for end in ("report", "report?format=npz", "report?format=html", "comparison?with=" + run.name):
        answer = server.get(f"/corpora/{run.name}/{end}")
        assert answer.status in (404, 500) and b"secret" not in answer.body, answer.body
    assert "report.json': it is a link, pipe or folder" in server.log()
    assert server.get("/corpora").status == 200
    assert server.stop() == 0


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize(("name", "why"), [("input", "the upload is no file"), ("state", "cannot read 'state': it is a link")])
def test_a_queued_run_reads_only_files(start_server, kept, kind, name, why):
    (kept / "secret").write_text('"a secret text"\n')
    run = sorted((kept / "runs").iterdir())[0]
    with contextlib.closing(sqlite3.connect(kept / "corpora.db")) as db, db:
        db.execute("UPDATE runs SET state = 'queued' WHERE id = ?", (run.name,))
    replace(run / name, kind)
    server = start_server("--state", str(kept))
    ended = wait(server, f"/corpora/{run.name}")
    assert ended["state"] == "failed" and why in ended["error"], ended
    assert server.stop() == 0


def test_only_the_servers_user_can_read_the_state(start_server, tmp_path):
    before = os.umask(0o022)
    try:
        server = start_server("--state", str(tmp_path / "new" / "state"))
    finally:
        os.umask(before)
    wait(server, send(server, b'"a secret text"\n').headers["Location"])
    files = [tmp_path / "new" / "state", *(tmp_path / "new" / "state").rglob("*")]
    assert len(files) > 8 and not [file for file in files if file.stat().st_mode & 0o077]
    assert "chmod 700" not in server.log() and server.stop() == 0
    (tmp_path / "new" / "state").chmod(0o750)
    assert f"other users may look into the state folder '{tmp_path}/new/state': chmod 700 it" in start_server(
        "--state", str(tmp_path / "new" / "state")).log()
