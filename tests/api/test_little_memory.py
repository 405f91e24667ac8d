"""Runs wait, requests are refused and commands use fewer workers where the system says that little memory is free."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import MINI, preloading
from corpus_runs import SMALL, command, ndjson, texts
from hub import Hub
from test_corpora import body_of, send, wait

LITTLE, PLENTY = 1, 8192  # megabytes
FILES = {name: (Path(MINI) / name).read_bytes() for name in ("config.json", "vocab.txt", "tokenizer_config.json", "model.safetensors")}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return preloading(Path(__file__).parents[1] / "faults" / "little_memory.c", tmp_path_factory.mktemp("faults") / "little_memory.so")


class Memory:
    def __init__(self, path, library):
        self.path, self.environment = path, {**library, "MEMINFO": str(path)}
        self.free(PLENTY)

    def free(self, megabytes):
        other = self.path.with_suffix(".new")
        other.write_text(f"MemTotal:       {PLENTY * 1024} kB\nMemAvailable:   {megabytes * 1024} kB\n")
        other.replace(self.path)  # never half of it


@pytest.fixture
def memory(tmp_path, library):
    return Memory(tmp_path / "meminfo", library)


def needed(said):
    """The megabytes of one worker, with those that are kept for other purposes."""
    return sum(int(n) for n in re.search(r"the run needs (\d+) MB of memory; \d+ MB are free, and (\d+) MB are kept", said).groups())


def test_runs_wait_while_little_memory_is_free(start_server, memory, tmp_path):
    server = start_server("--state", str(tmp_path / "state"), environment=memory.environment)
    first, second, third = [send(server, body).headers["Location"] for body in (body_of(texts(300, seed=1)) * 20, b'"a"\n', b'"b"\n')]
    wait(server, first, ["running"])
    memory.free(LITTLE)
    server.request("POST", first + "/cancel", b"")
    server.wait_log(f"corpus run {second.rpartition('/')[2]} waits for memory: the run needs ")
    server.request("POST", second + "/cancel", b"")
    assert wait(server, second)["state"] == "cancelled"
    server.wait_log(f"corpus run {third.rpartition('/')[2]} waits for memory: the run needs ")
    assert server.stop() == 0
    memory.free(PLENTY)
    server = start_server("--state", str(tmp_path / "state"), environment=memory.environment)
    assert wait(server, third)["state"] == "done"


def test_an_upload_is_refused_while_little_memory_is_free(start_server, memory, tmp_path):
    server = start_server("--state", str(tmp_path / "state"), "--workers", "4", environment=memory.environment)
    memory.free(LITTLE)
    answer = send(server, b'"a"\n')
    assert answer.status == 503 and "Retry-After" in answer.headers
    memory.free(needed(answer.json()["detail"]) + 2)
    run = wait(server, send(server, b'"a"\n').headers["Location"])
    assert run["state"] == "done"


def test_a_command_uses_the_workers_that_memory_suffices_for(headscope, memory, tmp_path):
    lines = ndjson(tmp_path / "in.jsonl", texts(3))
    def run():
        return subprocess.run(command(headscope, "corpus", lines, "-o", tmp_path / "out", "--workers", "4", *SMALL),
                              env={**os.environ, **memory.environment}, capture_output=True, text=True)
    memory.free(LITTLE)
    refused = run()
    assert refused.returncode == 1 and "Choose fewer layers or a smaller max_tokens, or free memory" in refused.stderr
    memory.free(needed(refused.stderr) + 2)
    done = run()
    assert done.returncode == 0 and "headscope corpus: using 1 of 4 workers: memory is short\n" in done.stderr


def test_a_model_that_does_not_fit_is_not_taken(start_server, memory, tmp_path):
    hub = Hub({"org/small-bert": FILES})
    place = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path)}
    try:
        server = start_server("--pull", environment={**memory.environment, **place})
        memory.free(LITTLE)
        assert server.post("/models", {"name": "org/small-bert"}).status == 202
        ended = server.send(b"GET /pull/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").decode()
    finally:
        hub.close()
    assert '"state":"failed"' in ended and re.search(r"the model needs [\d.]+ MB of memory: .*; 1\.\d MB are available", ended), ended
    assert [model["name"] for model in server.get("/models").json()["models"]] == ["mini"]
