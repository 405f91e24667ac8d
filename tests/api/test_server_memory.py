"""A server with a memory limit below that of the machine stays within it."""
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE, SANITIZED, Clients, Server, until

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
from checkpoint import write_safetensors  # noqa: E402

MEGABYTES = 512
WORKERS = 8

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is not the server's")


class Small(Server):
    """Sees a machine of so much memory: another /proc/meminfo in a mount name space of its own."""

    def __init__(self, *arguments, folder):
        meminfo = folder / "meminfo"
        with open("/proc/meminfo", encoding="ascii") as lines:
            meminfo.write_text("".join(f"MemTotal: {MEGABYTES << 10} kB\n" if line.startswith("MemTotal:") else line
                                       for line in lines), encoding="ascii")
        program = folder / "headscope"
        unshare = "unshare -m" if os.geteuid() == 0 else "unshare -rm"
        program.write_text(f'#!/bin/sh\nexec {unshare} sh -c \'mount --bind {meminfo} /proc/meminfo && exec "$@"\' - '
                           f'"{HEADSCOPE}" "$@"\n', encoding="ascii")
        program.chmod(0o755)
        done = subprocess.run([program, "version"], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"no mount name space can be made here: {done.stderr.decode()}")
        super().__init__(*arguments, program=program)

    def peak_megabytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) >> 10


@pytest.mark.parametrize("name", ["memory.max", "memory.high"])
def test_limits_of_control_groups_of_version_2_count(tmp_path, name):
    """The answers that clients may hold are a third of what is left. Above memory.high the kernel slows a process down."""
    groups, program = tmp_path / "groups", tmp_path / "headscope"
    groups.mkdir()
    files = {"memory.max": "max", "memory.high": "max", "memory.current": "0", "memory.stat": "", name: str(MEGABYTES << 20)}
    for file, text in files.items():
        (groups / file).write_text(text + "\n", encoding="ascii")
    unshare = "unshare -m" if os.geteuid() == 0 else "unshare -rm"
    program.write_text(f'#!/bin/sh\nexec {unshare} sh -c \'mount --bind {groups} /sys/fs/cgroup && exec "$@"\' - "{HEADSCOPE}" "$@"\n',
                       encoding="ascii")
    program.chmod(0o755)
    done = subprocess.run([program, "version"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no mount name space can be made here: {done.stderr.decode()}")
    server = Server("--log", "json", program=program)
    ready = json.loads(next(line for line in server.log().splitlines() if '"ready"' in line))
    assert (MEGABYTES << 20) / 4 < ready["max_held"] < (MEGABYTES << 20) / 3
    assert server.stop() == 0


@pytest.mark.parametrize("backend", ["native", "cblas"])
def test_a_command_ends_where_addresses_are_limited(backend):
    """As under ulimit -v: OpenBLAS got no memory while it was loaded, tried again for ever, and the program never ended."""
    def limit():
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        resource.setrlimit(resource.RLIMIT_AS, (150 << 20, 150 << 20))

    done = subprocess.run([HEADSCOPE, "analyze", "-", "--outputs", "summary", "--backend", backend], input=b"One cat.",
                          capture_output=True, check=False, preexec_fn=limit, timeout=PATIENCE)
    if backend == "cblas":
        assert done.returncode == 1 and b"use the native backend" in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tokens"] == ["[CLS]", "one", "cat", ".", "[SEP]"]


def test_more_workers_than_threads_are_refused_by_name():
    """Each has a stack of 8 MB, and libuv ends a process without a message that cannot start one of its threads."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run([HEADSCOPE, "serve", "--listen", "127.0.0.1:0", "--workers", "500"], capture_output=True, text=True,
                          check=False, preexec_fn=limit, timeout=PATIENCE)
    assert done.returncode == 1 and "threads can be started" in done.stderr and "lower --workers" in done.stderr, done.stderr


@pytest.mark.slow
def test_what_all_workers_compute_in_is_bounded_together(tmp_path):
    """More workers than memory for what each may ask: some wait, all are answered."""
    server = Small("--workers", str(WORKERS), folder=tmp_path)
    asks = [("POST", "/analyze", json.dumps({
        "text": f"{i} " + "war and peace the old bridge closed " * 100, "max_tokens": 212, "layers": "all",
        "outputs": ["effects", "head_distances", "summary"],
        "interventions": [{"kind": "zero", "layers": [i % 12], "heads": [3]}]})) for i in range(WORKERS)]
    assert [answer.status for answer in Clients(server, asks).join()] == [200] * WORKERS
    assert server.peak_megabytes() < MEGABYTES
    assert server.stop() == 0


@pytest.fixture(params=[512, 256])
def group(request):
    """A control group with so many megabytes, in the first version's hierarchy for memory."""
    folder = Path(f"/sys/fs/cgroup/memory/headscope-test-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(request.param << 20), encoding="ascii")
    except OSError as error:
        pytest.skip(f"no control group for memory (version 1) can be made here: {error}")
    yield folder
    folder.rmdir()


@pytest.mark.parametrize("fields", [
    {"max_tokens": 512, "layers": "all", "outputs": ["attentions", "similarities"]},
    {"max_tokens": 512, "layers": [0], "outputs": ["attentions"]},
    {"max_tokens": 512, "layers": [0, 1, 2], "outputs": ["head_outputs", "queries", "keys"]},
    {"max_tokens": 128, "layers": "all", "outputs": ["attentions", "similarities"]},
], ids=["all maps", "maps of a layer", "vectors", "all maps of 128 tokens"])
def test_a_control_group_is_never_too_small(group, tmp_path, fields):
    """24 heavy requests at once. Each is answered or refused with a reason; the kernel ends no process."""
    program = tmp_path / "headscope"
    program.write_text(f'#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec "{HEADSCOPE}" "$@"\n', encoding="ascii")
    program.chmod(0o755)
    server = Server("--workers", str(WORKERS), program=program)
    text = "war and peace the old bridge closed " * 100
    answers = Clients(server, [("POST", "/analyze", json.dumps({**fields, "text": f"{i} {text}"})) for i in range(24)]).join()
    for answer in answers:
        body = answer.json()
        assert answer.status in (200, 422, 503), body
        assert len(body["tokens"]) == fields["max_tokens"] if answer.status == 200 else body["detail"]
    assert "oom_kill 0\n" in (group / "memory.oom_control").read_text(encoding="ascii")
    assert server.post("/analyze", {"text": "hello"}).status == 200
    assert server.stop() == 0


HIDDEN, LAYERS, WIDE = 512, 12, 2048  # 151 MB of weights


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A checkpoint that takes most of the smaller group."""
    folder, random = tmp_path_factory.mktemp("large"), np.random.default_rng(1)
    shapes = {"embeddings.word_embeddings.weight": (100, HIDDEN), "embeddings.position_embeddings.weight": (512, HIDDEN),
              "embeddings.token_type_embeddings.weight": (2, HIDDEN)}
    for layer in range(LAYERS):
        for name, n_out, n_in in (("attention.self.query", HIDDEN, HIDDEN), ("attention.self.key", HIDDEN, HIDDEN),
                                  ("attention.self.value", HIDDEN, HIDDEN), ("attention.output.dense", HIDDEN, HIDDEN),
                                  ("intermediate.dense", WIDE, HIDDEN), ("output.dense", HIDDEN, WIDE)):
            shapes |= {f"encoder.layer.{layer}.{name}.weight": (n_out, n_in), f"encoder.layer.{layer}.{name}.bias": (n_out,)}
    norms = ["embeddings", *(f"encoder.layer.{layer}.{part}" for layer in range(LAYERS) for part in ("attention.output", "output"))]
    shapes |= {f"{norm}.LayerNorm.{part}": (HIDDEN,) for norm in norms for part in ("weight", "bias")}
    write_safetensors(folder / "model.safetensors",
                      {name: random.uniform(-.05, .05, shape).astype("f4") for name, shape in shapes.items()})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(95))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="ascii")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": 8, "intermediate_size": WIDE, "vocab_size": 100, "max_position_embeddings": 512,
        "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12}), encoding="ascii")
    return folder


def test_requests_share_what_a_large_model_leaves_of_a_control_group(group, large, tmp_path):
    """Limits were fractions of all memory, so requests within them let the kernel end the server."""
    program = tmp_path / "headscope"
    program.write_text(f'#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec "{HEADSCOPE}" "$@"\n', encoding="ascii")
    program.chmod(0o755)
    server = Server("--workers", "2", "--model", f"large={large}", program=program)
    asks = [("POST", "/analyze?format=npz", json.dumps({"input_ids": [5 + (i * (7 + k)) % 90 for i in range(n)], **fields}))
            for k in range(3) for n, fields in (
                (500, {"layers": [0, 1, 2, 3, 4], "outputs": ["attentions"]}), (500, {"layers": "all", "outputs": ["rollout"]}),
                (250, {"layers": [0, 1, 2], "outputs": ["attentions"]}), (128, {"layers": "all", "outputs": ["attentions"]}),
                (512, {"layers": "all", "outputs": ["hidden_states"]}), (60, {"layers": [k], "outputs": ["attentions"]}))]
    statuses = [answer.status for answer in Clients(server, asks).join()]
    assert set(statuses) <= {200, 422, 503} and 200 in statuses, statuses
    assert "oom_kill 0\n" in (group / "memory.oom_control").read_text(encoding="ascii")
    assert server.post("/analyze", {"text": "w1 w2"}).status == 200
    assert server.stop() == 0


@pytest.mark.slow
def test_maps_of_all_heads_at_512_tokens_answer_by_default(start_server):
    """302 MB. The blocks of pass and answer are kept for the next such request, for a minute."""
    server = start_server("--cache", "0", "--workers", "1")
    body = {"text": "the old bridge " * 200, "max_tokens": 512, "layers": "all", "outputs": ["attentions", "similarities"]}
    n_bytes = 2 * 144 * 512 * 512 * 4
    answer = server.post("/analyze", body, headers={"Accept": "application/x-npz"})
    assert answer.status == 200
    assert len(answer.body) > n_bytes
    while "headscope_held_bytes 0\n" not in server.get("/metrics").body.decode():
        pass

    def resident():
        return float(re.search(r"^process_resident_memory_bytes (\S+)", server.get("/metrics").body.decode(), re.M)[1])

    assert resident() > 2 * n_bytes
    until(lambda: resident() < n_bytes / 2)  # unused for a minute
