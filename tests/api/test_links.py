"""/links: views of the viewer under short names, kept in the folder of --state."""
import hashlib
import os

import pytest
from conftest import Server

STATE = "view=head&layer=5&head=3&text=A+dog+ran.+%F0%9F%90%95"
MOST, BYTES_MOST = 10000, 256 << 10


def id_of(state):
    return hashlib.sha256(state.encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    running = Server("--state", str(tmp_path_factory.mktemp("links") / "state"))
    yield running
    assert running.stop() == 0


def test_a_link_is_kept_under_the_hash_of_its_view(keeping):
    made = keeping.post("/links", {"state": STATE})
    assert made.status == 201 and made.json() == {"id": id_of(STATE), "state": STATE}
    assert made.headers["Location"] == f"/links/{id_of(STATE)}"
    assert keeping.post("/links", {"state": STATE}).json()["id"] == id_of(STATE)
    assert keeping.get(f"/links/{id_of(STATE)}").json() == {"id": id_of(STATE), "state": STATE}


def test_the_largest_view_and_one_byte_more(keeping):
    largest = "é" * (BYTES_MOST // 2)
    made = keeping.post("/links", {"state": largest})
    assert made.status == 201
    assert keeping.get(made.headers["Location"]).json()["state"] == largest
    answer = keeping.post("/links", {"state": largest + "x"})
    assert answer.status == 422 and answer.json()["pointer"] == "/state"
    assert f"{BYTES_MOST + 1} bytes; it must have 1 to {BYTES_MOST}" in answer.json()["detail"]
    answer = keeping.post("/links", {"state": "x" * (6 * BYTES_MOST)})
    assert answer.status == 413 and "larger than" in answer.json()["detail"]


@pytest.mark.parametrize("body, status, pointer", [
    ({"state": ""}, 422, "/state"), ({"state": 3}, 422, "/state"), ({"state": "a\0b"}, 400, None), ({}, 422, ""),
    ({"state": "x", "more": 1}, 422, "/state"), (b"{", 400, None), (b"", 400, None), (b'{"state": "\xff"}', 400, None)])
def test_what_is_no_view_is_refused(keeping, body, status, pointer):
    answer = keeping.post("/links", body)
    assert answer.status == status, answer.body
    if pointer is not None:
        assert answer.json()["pointer"] == pointer


def test_other_media_types_are_refused(keeping):
    assert keeping.post("/links", b'{"state": "x"}', headers={"Content-Type": "text/plain"}).status == 415


@pytest.mark.parametrize("name", ["0123456789abcdef", "..%2fcorpora.db", "0123456789abcde", "0123456789ABCDEF", "x" * 200])
def test_unknown_names_say_how_many_links_are_kept(keeping, name):
    answer = keeping.get(f"/links/{name}")
    assert answer.status == 404, answer.body


def test_an_unknown_link_says_that_old_ones_are_removed(keeping):
    assert "the newest 10000 links" in keeping.get("/links/0123456789abcdef").json()["detail"]


def test_links_outlast_a_restart_and_the_oldest_go_first(start_server, tmp_path):
    folder = tmp_path / "state" / "links"
    folder.mkdir(parents=True)
    for n in range(MOST):
        (folder / f"{n:016x}").write_text("x")
        os.utime(folder / f"{n:016x}", (1000 + n, 1000 + n))
    (folder / "notes.txt").write_text("not a link")
    server = start_server("--state", str(tmp_path / "state"))
    assert server.get(f"/links/{0:016x}").json()["state"] == "x"
    assert server.post("/links", {"state": STATE}).status == 201
    assert server.get(f"/links/{0:016x}").status == 404
    assert server.get(f"/links/{1:016x}").status == 200
    assert sum(1 for _ in folder.iterdir()) == MOST + 1
    assert server.stop() == 0
    again = start_server("--state", str(tmp_path / "state"))
    assert again.get(f"/links/{id_of(STATE)}").json()["state"] == STATE


def test_another_view_of_the_same_name_is_refused(start_server, tmp_path):
    folder = tmp_path / "state" / "links"
    folder.mkdir(parents=True)
    (folder / id_of(STATE)).write_text("another view")
    server = start_server("--state", str(tmp_path / "state"))
    answer = server.post("/links", {"state": STATE})
    assert answer.status == 409 and id_of(STATE) in answer.json()["detail"]


def test_without_a_state_folder_or_with_a_damaged_one(start_server, server, tmp_path):
    for method, path in [("POST", "/links"), ("GET", "/links/0123456789abcdef")]:
        answer = server.request(method, path, b'{"state": "x"}', {"Content-Type": "application/json"})
        assert answer.status == 501 and "--state" in answer.json()["detail"]
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "links").write_text("a file in place of the folder")
    damaged = start_server("--state", str(tmp_path / "state"))
    assert damaged.post("/links", {"state": "x"}).status == 507
    assert damaged.get("/corpora").status == 200


def test_links_need_the_token(start_server, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("a-secret-of-some-letters\n")
    server = start_server("--token-file", str(tokens), "--state", str(tmp_path / "state"))
    assert server.post("/links", {"state": "x"}).status == 401
    assert server.get("/links/0123456789abcdef").status == 401
