"""Runs wait, requests are refused and commands use fewer workers where the system says that little memory is free."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import MINI, SANITIZED, preloading
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

    def free(self, megabytes, total=PLENTY):
        other = self.path.with_suffix(".new")
        other.write_text(f"MemTotal:       {total * 1024} kB\nMemAvailable:   {megabytes * 1024} kB\n")
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
    server.wait_log(f"corpus run {second.rpartition('/')[2]} waits: the run needs ")
    server.request("POST", second + "/cancel", b"")
    assert wait(server, second)["state"] == "cancelled"
    server.wait_log(f"corpus run {third.rpartition('/')[2]} waits: the run needs ")
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
    assert refused.returncode == 1 and "Choose fewer layers, a smaller max_tokens or control none, or free memory" in refused.stderr
    memory.free(needed(refused.stderr) + 2)
    done = run()
    assert done.returncode == 0 and "headscope corpus: using 1 of 4 workers: memory is short\n" in done.stderr


exact = pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is not the server's")
LIMITS = "max_answer", "max_maps", "max_held", "cache"


def limits(server):
    """The limits of requests that the log names at the start, in megabytes."""
    server.wait_log(" ready ")
    return [int(re.search(rf" {name}=(\d+)", server.log())[1]) / 1e6 for name in LIMITS]


def refused(headscope, memory, *arguments):
    done = subprocess.run([headscope, "serve", "--listen", "127.0.0.1:0", *arguments], env={**os.environ, **memory.environment},
                          capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout
    return done.stderr


@exact
def test_requests_share_the_memory_that_models_leave(start_server, memory):
    memory.free(PLENTY, total=320)
    one = start_server("--workers", "2", environment=memory.environment)
    many = start_server("--workers", "2", *[word for name in "abcd" for word in ("--model", f"{name}={MINI}")],
                        environment=memory.environment)
    few, little = limits(one), limits(many)
    assert all(less < more for less, more in zip(little, few))
    answer, maps, held, cache = few
    assert 2 * answer <= held * 1.001 and maps + held + cache < 0.75 * 335
    assert many.post("/analyze", {"text": "hello"}).status == 200
    for server in (one, many):
        assert server.stop() == 0


@exact
def test_limits_that_were_given_are_lowered_to_the_memory_that_there_is(start_server, memory):
    memory.free(PLENTY, total=320)
    server = start_server("--workers", "2", "--max-held", "1G", "--max-maps", "1G", "--cache", "1G", "--max-answer", "1G",
                          environment=memory.environment)
    answer, maps, held, cache = limits(server)
    assert answer + maps + held + cache < 335
    for option in ("--max-held", "--max-maps", "--cache"):
        assert re.search(rf"warning {option} is 1073\.7 MB; the models leave memory for [\d.]+ MB", server.log())
    long = {"text": "war " * 600, "max_tokens": 512, "layers": "all", "outputs": ["attentions"]}
    assert server.post("/analyze", long, headers={"Accept": "application/x-npz"}).status == 422
    assert server.stop() == 0
    server = start_server("--workers", "2", "--max-held", "32M", "--max-maps", "8M", "--cache", "4M", environment=memory.environment)
    assert [round(n * 1e6 / 2**20) for n in limits(server)] == [16, 8, 32, 4] and "leave memory" not in server.log()
    assert server.stop() == 0


def test_a_model_of_the_command_line_that_does_not_fit_is_refused(headscope, memory):
    memory.free(LITTLE)
    said = refused(headscope, memory)
    assert re.search(r"the model needs [\d.]+ MB of memory: .*; 1\.\d MB are available\. Remove another model, start the server with "
                     r"fewer --workers", said), said
    one = float(re.search(r"needs ([\d.]+) MB", said)[1])
    memory.free(int(1.5 * one / 1.05) + 1)  # MiB, for one and not for two: its scratch memory is not used yet
    assert "MB are available" in refused(headscope, memory, "--workers", "8", "--model", f"a={MINI}", "--model", f"b={MINI}",
                                         "--model", f"c={MINI}", "--model", f"d={MINI}")


@exact
def test_models_that_leave_nothing_for_requests_are_refused(headscope, memory):
    memory.free(PLENTY, total=40)
    said = refused(headscope, memory)
    assert re.search(r"the models leave [\d.]+ MB of memory for requests, which need 50\.3 MB at least: name fewer models, or lower "
                     r"--workers", said), said


@exact
def test_a_later_model_takes_nothing_that_requests_were_promised(start_server, memory, tmp_path):
    hub = Hub({"org/small-bert": FILES})
    place = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path)}
    events = b"GET /pull/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    try:
        memory.free(PLENTY, total=100)
        server = start_server("--pull", "--workers", "8", environment={**memory.environment, **place})
        assert server.post("/models", {"name": "org/small-bert"}).status == 202
        ended = server.send(events).decode()
        assert '"state":"failed"' in ended and "MB are left for models beside --max-held, --max-maps and --cache" in ended, ended
        assert server.post("/analyze", {"text": "hello"}).status == 200
        assert server.stop() == 0
        memory.free(PLENTY, total=320)
        server = start_server("--pull", "--workers", "2", environment={**memory.environment, **place})
        for _ in range(4):  # each takes the place of the one before it
            assert server.post("/models", {"name": "org/small-bert"}).status == 202
            assert '"state":"done"' in server.send(events).decode()
        assert server.request("DELETE", "/models/small-bert").status == 204
        assert server.stop() == 0
    finally:
        hub.close()


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
