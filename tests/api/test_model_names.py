"""Models by name while the server runs: fetched from a stand-in of the hub, loaded again, removed; and at the start."""
import fcntl
import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import HEADSCOPE, MINI, PATIENCE, occupied, until
from hub import Hub, etag

FILES = {name: (Path(MINI) / name).read_bytes() for name in ("config.json", "vocab.txt", "tokenizer_config.json", "model.safetensors")}
NAME = "org/small-bert"
TEXT = {"text": "The old bridge [MASK] closed.", "outputs": ["predictions"]}


@pytest.fixture(scope="module")
def hub():
    running = Hub({NAME: dict(FILES), "org/empty": {"README.md": b""}})
    yield running
    running.close()


@pytest.fixture
def place(hub, tmp_path):
    return {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path)}


@pytest.fixture
def server(start_server, place):
    return start_server("--pull", environment=place)


def names(server):
    return [model["name"] for model in server.get("/models").json()["models"]]


def events(server):
    lines = server.get("/pull/events").body.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def fetch(server, name):
    answer = server.post("/models", {"name": name})
    assert answer.status == 202, answer.body
    assert answer.headers["Location"] == "/pull"
    return events(server)[-1]


def test_a_model_is_fetched_served_and_removed(server):
    assert server.get("/pull").json()["state"] == "none"
    last = fetch(server, NAME)
    assert last["state"] == "done" and last["model"] == "small-bert" and last["error"] is None
    assert last["bytes_received"] >= len(FILES["model.safetensors"])
    assert names(server) == ["mini", "small-bert"]
    said = [server.post("/analyze", {**TEXT, "model": model}).json()["predictions"] for model in names(server)]
    assert said[0] == said[1]
    assert server.request("DELETE", "/models/small-bert").status == 204
    assert names(server) == ["mini"]
    assert server.post("/analyze", {**TEXT, "model": "small-bert"}).status == 404
    assert server.request("DELETE", "/models/small-bert").status == 404
    assert fetch(server, NAME)["bytes_received"] == 0  # the files stayed
    assert names(server) == ["mini", "small-bert"]


def test_models_change_while_requests_run(server):
    statuses, over = [[], [], []], threading.Event()

    def ask(mine):
        while not over.is_set():
            mine.append(server.post("/analyze", TEXT).status)

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in statuses]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            answered = sum(map(len, statuses))
            assert fetch(server, NAME)["state"] == "done"
            assert fetch(server, "mini")["state"] == "done"  # the default, loaded again
            assert server.request("DELETE", "/models/small-bert").status == 204
            until(lambda: sum(map(len, statuses)) > answered)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert all(set(mine) == {200} for mine in statuses), statuses


def test_a_change_does_not_wait_for_a_long_request(start_server, place):
    server = start_server("--pull", "--workers", "2", environment=place)
    with occupied(server) as client:  # by the default model, which is loaded again meanwhile
        assert fetch(server, NAME)["state"] == "done"
        assert fetch(server, "mini")["state"] == "done"
        assert server.request("DELETE", "/models/small-bert").status == 204
        assert server.post("/analyze", TEXT).status == 200
        client.setblocking(False)
        with pytest.raises(BlockingIOError):  # no answer yet
            client.recv(1)
        assert server.metric("workers_busy") == 1
    server.wait_metric("workers_busy", lambda n: n == 0)
    assert server.post("/analyze", TEXT).status == 200
    assert names(server) == ["mini"]


def test_one_change_at_a_time_and_cancelled(server, hub):
    hub.slow_until = threading.Event()
    try:
        assert server.post("/models", {"name": NAME}).status == 202
        refused = server.post("/models", {"name": "org/other"})
        assert refused.status == 409 and "Retry-After" in refused.headers
        assert server.request("DELETE", "/models/mini").status == 409
        assert server.post("/pull/cancel", b"").status == 200
        assert events(server)[-1]["state"] == "cancelled"
    finally:
        hub.slow_until.set()
        hub.slow_until = None
    assert names(server) == ["mini"]


def test_a_hub_that_drips_can_be_left(start_server, place, hub):
    """Nothing looked at the request to stop while the list of files came, and no signal ended the server."""
    before = hub.drips
    hub.dripping.set()
    try:
        server = start_server("--pull", environment=place)
        assert server.post("/models", {"name": NAME}).status == 202
        until(lambda: hub.drips > before)
        assert server.post("/pull/cancel", b"").status == 200
        assert events(server)[-1]["state"] == "cancelled"
        before = hub.drips
        assert server.post("/models", {"name": NAME}).status == 202
        until(lambda: hub.drips > before)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    finally:
        hub.dripping.clear()


def test_a_wait_for_the_download_of_another_program_can_be_left(server, place, hub):
    cache = Path(place["HF_HUB_CACHE"])
    blob = etag("model.safetensors", FILES["model.safetensors"])
    lock = cache / ".locks" / "models--org--small-bert" / f"{blob}.lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert server.post("/models", {"name": NAME}).status == 202
        until(lambda: server.get("/pull").json().get("file") == "model.safetensors")
        assert server.post("/pull/cancel", b"").status == 200
        assert events(server)[-1]["state"] == "cancelled"
    assert names(server) == ["mini"] and not list((cache / "models--org--small-bert" / "blobs").glob(f"{blob}*"))


def test_a_stop_ends_the_download_of_the_start(place, hub):
    before = hub.drips
    hub.dripping.set()
    try:
        with subprocess.Popen([HEADSCOPE, "serve", "--listen", "127.0.0.1:0", "--pull", "--model", NAME],
                              env=place, stdout=subprocess.DEVNULL) as process:
            until(lambda: hub.drips > before)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
    finally:
        hub.dripping.clear()


@pytest.mark.parametrize("name, said", [("org/missing", "org/missing"), ("org/empty", "config.json")])
def test_what_cannot_be_fetched_says_why(server, name, said):
    last = fetch(server, name)
    assert last["state"] == "failed" and said in last["error"]
    assert names(server) == ["mini"]


def test_what_is_refused(server):
    for body, status, pointer in [({"name": "no name"}, 422, "/name"), ({"name": 3}, 422, "/name"), ({}, 422, ""),
                                  ({"name": NAME, "more": 1}, 422, "/name"), (b"{", 400, None)]:
        answer = server.post("/models", body)
        assert answer.status == status, answer.body
        if pointer is not None:
            assert answer.json()["pointer"] == pointer
    assert server.post("/models", b'{"name": "org/name"}', headers={"Content-Type": "text/plain"}).status == 415
    stays = server.request("DELETE", "/models/mini")
    assert stays.status == 409 and "default" in stays.json()["detail"]


def test_without_pull_nothing_changes(start_server, place, hub):
    server = start_server(environment=place)
    before = len(hub.requests)
    for method, path in [("POST", "/models"), ("DELETE", "/models/mini"), ("GET", "/pull"), ("GET", "/pull/events"), ("POST", "/pull/cancel")]:
        answer = server.request(method, path, b'{"name": "org/small-bert"}', {"Content-Type": "application/json"})
        assert answer.status == 501 and "--pull" in answer.json()["detail"]
    assert len(hub.requests) == before


def test_no_model_is_fetched_while_the_server_loads(start_loading):
    server = start_loading("--pull", "--model", f"m={MINI}")
    answer = server.post("/models", {"name": NAME})
    assert answer.status == 503 and "loading" in answer.json()["detail"]
    server.go_on()


def test_a_request_for_a_model_is_short(start_server, place):
    server = start_server("--pull", environment=place)
    answer = server.post("/models", {"name": NAME, "more": "x" * 4096})
    assert answer.status == 413 and "at most 4096 are allowed" in answer.json()["detail"]



def test_the_models_need_the_token(start_server, place, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("a-secret-of-some-letters\n")
    server = start_server("--pull", "--token-file", str(tokens), environment=place)
    assert server.post("/models", {"name": NAME}).status == 401
    assert server.request("DELETE", "/models/mini").status == 401


def test_a_name_on_the_command_line_is_fetched_at_the_start(start_server, place):
    server = start_server("--pull", "--model", NAME, environment=place)
    assert names(server) == ["small-bert"]


def test_a_tokenizer_on_the_command_line_is_fetched_at_the_start(start_server, place, tmp_path):
    folder = tmp_path / "step-500"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(FILES[name])
    server = start_server("--pull", "--model", str(folder), "--tokenizer", NAME, environment=place)
    assert names(server) == ["step-500"]
