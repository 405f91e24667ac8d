"""`headscope pull` and models by name, against a stand-in for the hub (hub.py) and, where it is installed, side by side
with huggingface_hub itself."""
import contextlib
import fcntl
import itertools
import json
import os
import re
import struct
import subprocess
import termios
import threading
from pathlib import Path

import pytest
from hub import Hub, etag, git_sha1

MINI = Path(__file__).parents[2] / "model" / "mini"
FILES = {name: (MINI / name).read_bytes() for name in ("config.json", "vocab.txt", "tokenizer_config.json",
                                                       "model.safetensors")}
NAME = "org/mini-bert"


@pytest.fixture
def hub():
    running = Hub({NAME: {**FILES, "README.md": b"# card", "pytorch_model.bin": b"never fetched"}})
    yield running
    running.close()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "hub"


@pytest.fixture
def pull(headscope, hub, cache, tmp_path):
    def run(name=NAME, **environment):
        home = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        return subprocess.run([headscope, "pull", name], env={**home, **environment}, capture_output=True, text=True)
    return run


def folder(cache):
    return cache / "models--org--mini-bert"


def test_the_caches_own_layout(pull, hub, cache, headscope, start_server):
    done = pull()
    assert done.returncode == 0, done.stderr
    snapshot = folder(cache) / "snapshots" / hub.COMMIT
    assert sorted(os.listdir(snapshot)) == sorted(FILES)
    for name, data in FILES.items():
        assert os.readlink(snapshot / name) == f"../../blobs/{etag(name, data)}"
        assert (snapshot / name).read_bytes() == data
    assert (folder(cache) / "refs" / "main").read_text() == hub.COMMIT
    assert str(snapshot) in done.stdout and f"serve --model {NAME}" in done.stdout
    assert not any("README" in path or "pytorch" in path for _, _, path, _, _ in hub.requests)

    server = start_server("--model", NAME, environment={"HF_HUB_CACHE": str(cache)})
    assert server.get("/models").json()["models"][0]["name"] == "mini-bert"
    listed = subprocess.run([headscope, "models", "--model", f"mine={NAME}@{hub.COMMIT}"], text=True,
                            env={**os.environ, "HF_HUB_CACHE": str(cache)}, capture_output=True, check=True)
    assert "mine" in listed.stdout


def test_a_second_time_nothing_is_fetched(pull, hub):
    assert pull().returncode == 0
    hub.requests.clear()
    assert pull().returncode == 0
    assert not [r for r in hub.requests if r[0] == "store" or (r[1] == "GET" and "/resolve/" in r[2])]


def test_where_the_cache_is(headscope, hub, tmp_path):
    places = [({"HF_HOME": str(tmp_path / "a")}, "a/hub"), ({"XDG_CACHE_HOME": str(tmp_path / "b")}, "b/huggingface/hub"),
              ({}, "home/.cache/huggingface/hub")]
    for environment, where in places:
        subprocess.run([headscope, "pull", NAME], check=True, capture_output=True,
                       env={"HF_ENDPOINT": hub.url, "HOME": str(tmp_path / "home"), **environment})
        assert (folder(tmp_path / where) / "refs" / "main").exists()


def test_a_broken_connection_goes_on(pull, hub):
    hub.cut_after = 1 << 20
    assert pull().returncode == 0
    ranges = [r[4] for r in hub.requests if r[0] == "store"]
    assert ranges[0] is None and ranges[1] is not None and ranges[1].startswith("bytes=")


def test_an_interrupted_download_is_resumed(pull, hub, cache):
    blobs = folder(cache) / "blobs"
    blobs.mkdir(parents=True)
    data = FILES["model.safetensors"]
    (blobs / (etag("model.safetensors", data) + ".incomplete")).write_bytes(data[:3000000])
    assert pull().returncode == 0
    assert [r[4] for r in hub.requests if r[0] == "store"] == ["bytes=3000000-"]


def test_a_server_without_ranges_begins_again(pull, hub, cache):
    blobs = folder(cache) / "blobs"
    blobs.mkdir(parents=True)
    data = FILES["model.safetensors"]
    (blobs / (etag("model.safetensors", data) + ".incomplete")).write_bytes(b"x" * 3000000)
    hub.no_ranges = True
    assert pull().returncode == 0
    assert (blobs / etag("model.safetensors", data)).read_bytes() == data


def test_a_partial_file_that_is_too_long_begins_again(pull, hub, cache):
    blobs = folder(cache) / "blobs"
    blobs.mkdir(parents=True)
    data = FILES["model.safetensors"]
    (blobs / (etag("model.safetensors", data) + ".incomplete")).write_bytes(data + b"x")
    assert pull().returncode == 0
    assert [r[4] for r in hub.requests if r[0] == "store"] == [None]
    assert (blobs / etag("model.safetensors", data)).read_bytes() == data


@pytest.mark.parametrize("faster", [True, False])
def test_a_download_waits_for_another_of_the_same_file(headscope, hub, cache, tmp_path, faster):
    name, data = "model.safetensors", FILES["model.safetensors"]
    blob = folder(cache) / "blobs" / etag(name, data)
    lock = cache / ".locks" / folder(cache).name / f"{blob.name}.lock"
    blob.parent.mkdir(parents=True)
    lock.parent.mkdir(parents=True)
    with open(lock, "w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        environment = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        with subprocess.Popen([headscope, "pull", NAME], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            assert process.stderr.readline() == f"{name}: another download of it is under way, waiting\n"
            if faster:
                blob.write_bytes(data)
            fcntl.flock(held, fcntl.LOCK_UN)
            assert process.stderr.read() == ""
    assert process.returncode == 0 and blob.read_bytes() == data
    assert len([r for r in hub.requests if r[0] == "store"]) == (0 if faster else 1)


@pytest.mark.parametrize("there", [0, 3000000])
def test_a_body_longer_than_the_hub_announced_is_not_taken(pull, hub, cache, there):
    data = FILES["model.safetensors"]
    blobs = folder(cache) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / (etag("model.safetensors", data) + ".incomplete")).write_bytes(data[:there])
    hub.surplus = 50_000_000
    done = pull()
    assert done.returncode == 1 and f"more than the {len(data)} bytes" in done.stderr
    assert sum(file.stat().st_size for file in blobs.iterdir()) < 1_000_000
    hub.surplus = 0
    assert pull().returncode == 0


def test_a_server_that_begins_again_for_ever_is_given_up(pull, hub):
    """Each time it breaks off, it has sent more than the last time or less, but never more than ever before."""
    hub.no_ranges, lengths = True, itertools.cycle([2 << 20, 1 << 20])
    type(hub).cut_after = property(lambda self: next(lengths), lambda self, value: None)
    try:
        done = pull()
    finally:
        del type(hub).cut_after
    assert done.returncode == 1 and "try again" in done.stderr
    assert len([r for r in hub.requests if r[0] == "store"]) <= 10


@pytest.mark.slow
def test_a_hub_that_drips_is_given_up(pull, hub):
    hub.dripping.set()
    try:
        done = pull()
    finally:
        hub.dripping.clear()
    assert done.returncode == 1 and "too slow" in done.stderr and "try again" in done.stderr, done.stderr


def test_the_speed_shown_counts_what_came_also_when_a_server_begins_again(headscope, hub, cache, tmp_path):
    data = FILES["model.safetensors"]
    blobs = folder(cache) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / (etag("model.safetensors", data) + ".incomplete")).write_bytes(data[:len(data) - 1])
    hub.no_ranges, hub.slow_until = True, threading.Event()
    shown, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    environment = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with subprocess.Popen([headscope, "pull", NAME], env=environment, stdout=subprocess.DEVNULL, stderr=terminal) as process:
        os.close(terminal)
        text, speeds = "", []
        with contextlib.suppress(OSError):  # EIO: the program has ended
            while more := os.read(shown, 65536):
                text += more.decode()
                speeds = [float(speed) for speed in re.findall(r"([\d.]+) MB/s", text)]
                if any(speeds):
                    hub.slow_until.set()
    os.close(shown)
    assert process.returncode == 0 and any(speeds) and max(speeds) < 1e5, text


def test_damaged_bytes_are_thrown_away(pull, hub, cache):
    hub.damage = True
    done = pull()
    assert done.returncode == 1 and "damaged" in done.stderr and "try again" in done.stderr
    assert not [name for name in os.listdir(folder(cache) / "blobs") if "incomplete" in name]
    assert not (folder(cache) / "refs").exists()
    hub.damage = False
    assert pull().returncode == 0


def test_the_token_goes_to_the_hub_alone(pull, hub, tmp_path):
    hub.gated.add(NAME)
    done = pull()
    assert done.returncode == 1 and "gated" in done.stderr and "HF_TOKEN" in done.stderr and hub.url in done.stderr
    done = pull(HF_TOKEN="hf_wrong_but_long_enough")
    assert done.returncode == 1 and "gated" in done.stderr
    hub.requests.clear()
    assert pull(HF_TOKEN=hub.token).returncode == 0
    assert {r[3] for r in hub.requests if r[0] == "store"} == {None}
    assert {r[3] for r in hub.requests if r[0] == "hub"} == {f"Bearer {hub.token}"}
    (tmp_path / "token").write_text(hub.token + "\n")
    hub.requests.clear()
    assert pull(HF_TOKEN_PATH=str(tmp_path / "token")).returncode == 0
    assert {r[3] for r in hub.requests if r[0] == "hub"} == {f"Bearer {hub.token}"}


def test_revisions_and_renamed_repositories(pull, hub, cache):
    assert pull(f"{NAME}@v1").returncode == 0
    assert os.listdir(folder(cache) / "refs") == ["v1"]
    done = pull(f"{NAME}@nothing")
    assert done.returncode == 1 and "no revision 'nothing'" in done.stderr
    hub.renamed["old/name"] = NAME
    assert pull("hf://old/name").returncode == 0
    assert (cache / "models--old--name" / "refs" / "main").exists()


@pytest.mark.parametrize("name, said", [
    ("nobody/nothing", "does not exist"),
    ("org/no-weights", "no model.safetensors"),
    ("org/only-bin", "headscope.convert"),
    ("org/no-config", "no config.json"),
    ("org/adapter", "it is an adapter (PEFT)"),
])
def test_what_cannot_be_had(pull, hub, name, said):
    config = FILES["config.json"]
    hub.repositories["org/no-weights"] = {"config.json": config}
    hub.repositories["org/only-bin"] = {"config.json": config, "pytorch_model.bin": b"x"}
    hub.repositories["org/adapter"] = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}
    hub.repositories["org/no-config"] = {"model.safetensors": b"x"}
    done = pull(name)
    assert done.returncode == 1 and said in done.stderr


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_a_model_that_cannot_be_opened_costs_its_config_alone(pull, hub, cache, weights):
    config = b'{"model_type": "reformer", "auto_map": {"AutoModel": "modeling.Reformer"}}'
    hub.repositories["org/odd"] = {**FILES, "config.json": config, weights: b"x"}
    done = pull("org/odd")
    assert done.returncode == 1 and 'org/odd: the model has code of its own (auto_map), which is not run: config.json: model_type "reformer" is not supported; known: bert' in done.stderr
    assert "convert" not in done.stderr
    fetched = {path.rsplit("/", 1)[1] for _, _, path, _, _ in hub.requests if "/resolve/" in path}
    assert fetched == {"config.json"}
    assert not (cache / "models--org--odd" / "refs").exists()


LIST, CONFIG = f"/api/models/{NAME}/revision/main", f"/{NAME}/resolve/{Hub.COMMIT}/config.json"


@pytest.mark.parametrize("path, answer, said", [
    (LIST, (200, b"<html>Sign in</html>"), "does not answer as a HuggingFace hub does"),
    (LIST, (200, b""), "answered 200 for org/mini-bert"),
    (LIST, (200, b'{"sha": "../../evil", "siblings": []}'), "does not answer as a HuggingFace hub does"),
    (LIST, (200, b'{"sha": "", "siblings": []}'), "does not answer as a HuggingFace hub does"),
    (LIST, (200, b'{"sha": "%s", "siblings": []}' % (b"a" * 200)), "does not answer as a HuggingFace hub does"),
    (LIST, (200, b'{"sha": "c0ffee"}'), "does not answer as a HuggingFace hub does"),
    (LIST, (200, b" " * (17 << 20)), f"{LIST} answers with more than 16 MiB"),
    (LIST, (500, b"Internal Server Error"), "answered 500 for org/mini-bert; try again later"),
    (LIST, (307, b"", {"Location": LIST}), "Number of redirects"),
    (LIST, (307, b"", {"Location": "/" + "a" * 5000}), "answered 307 for org/mini-bert"),
    (LIST, (404, b"Not Found"), "org/mini-bert does not exist"),
    (CONFIG, (404, b"", {"X-Error-Code": "EntryNotFound"}), "org/mini-bert has no file config.json"),
    (CONFIG, (503, b""), "answered 503 for org/mini-bert; try again later"),
    (CONFIG, (200, b"{}"), "does not say what config.json is (no ETag)"),
    (CONFIG, (200, b"{}", {"ETag": '""'}), "does not say what config.json is (no ETag)"),
    (CONFIG, (200, b"{}", {"ETag": '"../../evil"'}), "does not say what config.json is (no ETag)"),
    (CONFIG, (200, b"{}", {"ETag": '"%s"' % ("a" * 200)}), "does not say what config.json is (no ETag)"),
    (CONFIG, (302, b"", {"ETag": '"a"', "X-Linked-ETag": '"a"', "X-Linked-Size": str(10**18), "Location": "http://127.0.0.1:9/"}),
     "config.json needs 1000000000000.0 MB, and the disk of"),
    (f"/{NAME}/model.safetensors", (403, b"Forbidden"), "the server of model.safetensors answered 403; the same command goes on"),
    (f"/{NAME}/model.safetensors", (429, b"Slow down"), "the server of model.safetensors answered 429; the same command goes on"),
    (f"/{NAME}/model.safetensors", (206, b"xxx"), "the server of model.safetensors answered 206; the same command goes on"),
])
def test_answers_of_a_hub_that_is_none(pull, hub, cache, path, answer, said):
    hub.instead[path] = answer
    done = pull()
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert not (folder(cache) / "refs").exists() and not list(cache.rglob("*evil*"))


def test_an_endpoint_with_slashes_and_a_weak_tag(pull, hub, cache):
    """As a proxy in front of the hub may have them."""
    tag = git_sha1(FILES["config.json"])
    hub.instead[CONFIG] = (200, FILES["config.json"], {"ETag": f'W/"{tag}" '})
    done = pull(HF_ENDPOINT=hub.url + "//", HF_TOKEN="")
    assert done.returncode == 0, done.stderr
    assert os.readlink(folder(cache) / "snapshots" / hub.COMMIT / "config.json") == f"../../blobs/{tag}"


def test_a_token_that_the_hub_does_not_know(pull):
    done = pull("nobody/nothing", HF_TOKEN="hf_unknown_but_long_enough")
    assert done.returncode == 1 and done.stderr.endswith("or is private\n")


@pytest.mark.parametrize("token", ["two words", "a\ttab"])
def test_a_token_with_spaces_is_not_sent(pull, hub, token):
    done = pull(HF_TOKEN=token)
    assert done.returncode == 1 and "look at HF_TOKEN" in done.stderr and hub.requests == []


@pytest.mark.parametrize("what, made, said", [
    ("blobs", "file", "blobs"), (".locks", "file", ".locks"), ("lock", "folder", "cannot open"),
    ("incomplete", "folder", "cannot write"), ("blob", "folder", "cannot rename"), ("link", "folder", "cannot link"),
    ("refs", "file", "refs"),
])
def test_what_stands_in_the_way_is_named(pull, hub, cache, what, made, said):
    config = etag("config.json", FILES["config.json"])
    path = {"blobs": folder(cache) / "blobs", ".locks": cache / ".locks", "refs": folder(cache) / "refs",
            "lock": cache / ".locks" / folder(cache).name / f"{config}.lock", "blob": folder(cache) / "blobs" / config,
            "incomplete": folder(cache) / "blobs" / f"{config}.incomplete",
            "link": folder(cache) / "snapshots" / hub.COMMIT / "config.json"}[what]
    path.parent.mkdir(parents=True, exist_ok=True)
    if made == "file":
        path.write_bytes(b"")
    else:
        path.mkdir()
    done = pull()
    assert done.returncode == 1 and said in done.stderr and str(path) in done.stderr, done.stderr
    if made == "file":
        path.unlink()
    else:
        path.rmdir()
    assert pull().returncode == 0


def test_a_commit_needs_no_ref(pull, hub, cache):
    assert pull(f"{NAME}@{hub.COMMIT}").returncode == 0
    assert not (folder(cache) / "refs").exists() and (folder(cache) / "snapshots" / hub.COMMIT).is_dir()


@pytest.mark.parametrize("value", ["", "0", "false", "No", "OFF"])
def test_values_of_offline_that_mean_no(pull, value):
    assert pull(HF_HUB_OFFLINE=value).returncode == 0


@pytest.mark.parametrize("path", ["/" + "a" * 5000, "/" + "/".join(["a" * 200] * 20)])
def test_a_cache_whose_path_is_too_long(pull, path):
    done = pull(HF_HUB_CACHE=path)
    assert done.returncode == 1 and "the path of the HuggingFace cache is too long" in done.stderr


def test_libcurl_is_missing_or_too_old(pull, hub, tmp_path):
    library = tmp_path / "libcurl.so.4"
    library.write_bytes(b"no library")
    done = pull(LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1 and "downloading needs libcurl" in done.stderr and "libcurl4" in done.stderr
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=b"void curl_easy_init(void) {}", check=True)
    done = pull(LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1 and "this libcurl has no curl_" in done.stderr and "newer" in done.stderr
    assert hub.requests == []


def test_a_name_without_an_organisation_is_what_the_hub_means(pull, hub, cache, headscope):
    hub.renamed["mini-bert"] = NAME
    done = pull("mini-bert")
    assert done.returncode == 0, done.stderr
    assert (cache / "models--mini-bert" / "refs" / "main").exists() and "serve --model hf://mini-bert\n" in done.stdout
    env = {**os.environ, "HF_HUB_CACHE": str(cache)}
    listed = subprocess.run([headscope, "models", "--model", "hf://mini-bert"], env=env, text=True, capture_output=True)
    assert listed.returncode == 0 and "mini-bert" in listed.stdout
    refused = subprocess.run([headscope, "models", "--model", "mini-bert"], env=env, text=True, capture_output=True)
    assert refused.returncode == 1 and "hf://name if it has no organisation" in refused.stderr


@pytest.mark.parametrize("name", ["", "../up", "a/b/c", "a//b", "-a/b", "a/..", "a/b@", "a/b@../x", "a/b@x/../../y",
                                  "org/na me", "a--b/c", "hf://", "a/" + "b" * 200])
def test_names_that_are_none(pull, hub, name):
    assert pull(name).returncode == 2
    assert hub.requests == []


def test_names_from_a_hostile_listing_stay_inside(pull, hub, cache, tmp_path):
    hub.repositories["org/evil"] = {"config.json": FILES["config.json"], "model.safetensors.index.json": b"{}",
                                    "model-../../../../evil.safetensors": b"x", "model-\n.safetensors": b"x"}
    pull("org/evil")
    assert not list(tmp_path.rglob("evil.safetensors"))
    assert not [r for r in hub.requests if "evil.safetensors" in r[2]]


def test_offline_and_unreachable(pull):
    done = pull(HF_HUB_OFFLINE="1")
    assert done.returncode == 1 and "HF_HUB_OFFLINE" in done.stderr
    done = pull(HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 1 and "cannot be reached" in done.stderr and "HF_ENDPOINT" in done.stderr
    done = pull(HF_ENDPOINT="ftp://elsewhere")
    assert done.returncode == 1 and "HF_ENDPOINT" in done.stderr


def test_a_full_disk(headscope, hub, tmp_path):
    """A limit on file sizes stands for the disk: write fails in the same place."""
    done = subprocess.run(["bash", "-c", f"ulimit -f 2048; trap '' XFSZ; exec {headscope} pull {NAME}"],
                          env={"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "c"), "PATH": os.environ["PATH"]},
                          capture_output=True, text=True)
    assert done.returncode == 1 and "cannot write model.safetensors" in done.stderr and "goes on" in done.stderr
    done = subprocess.run([headscope, "pull", NAME], capture_output=True, text=True,
                          env={"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "c")})
    assert done.returncode == 0
    assert [r[4] for r in hub.requests if r[0] == "store"][-1] is not None


def test_what_is_missing_is_named_with_the_command(headscope, tmp_path):
    for command in (["models", "--model", "some/model"], ["models", "--model", "x=some/model@v2"]):
        done = subprocess.run([headscope, *command], env={"HF_HOME": str(tmp_path)}, capture_output=True, text=True)
        assert done.returncode == 1 and "headscope pull some/model" in done.stderr


def test_shards(pull, hub, cache):
    hub.repositories["org/sharded"] = {
        "config.json": FILES["config.json"], "vocab.txt": FILES["vocab.txt"],
        "model.safetensors.index.json": json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}).encode(),
        "model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two"}
    assert pull("org/sharded").returncode == 0
    snapshot = cache / "models--org--sharded" / "snapshots" / hub.COMMIT
    assert {p.name for p in snapshot.iterdir()} == set(hub.repositories["org/sharded"])


def test_modules_of_a_sentence_encoder(pull, hub, cache):
    modules = {"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"}
    others = {"1", "1Pooling/config.json", "1_/config.json", "1_Pool2/config.json", "Pooling/config.json", "1_Pooling/README.md",
              "1_Pooling/deep/config.json", f"1_{62 * 'a'}/config.json", "onnx/model.safetensors"}
    hub.repositories["org/sentences"] = {**FILES, **{name: name.encode() for name in modules | others}}
    snapshot = cache / "models--org--sentences" / "snapshots" / hub.COMMIT
    for names in (set(), modules | {"modules.json"}):  # they are modules only if modules.json is there
        hub.repositories["org/sentences"].update({"modules.json": b"modules.json"} if names else {})
        assert pull("org/sentences").returncode == 0
        assert {str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()} == set(FILES) | names
        assert all((snapshot / name).read_bytes() == name.encode() for name in names)


APART = {
    "modules.json": json.dumps([{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"},
                                {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]).encode(),
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "config_sentence_transformers.json": b'{"prompts": {"query": "query: "}}',
    "config.json": b'{"__version__": "1.2.0"}',  # of sentence-transformers, not of a model
    "0_Transformer/sentence_bert_config.json": b'{"max_seq_length": 9}',
    **{f"0_Transformer/{name}": data for name, data in FILES.items()}}


def test_a_transformer_in_its_own_folder(pull, hub, cache, headscope):
    """0_Transformer/, as sentence-transformers before version 2 saved it. Other folders are left out, and what is pulled opens by its name."""
    hub.repositories["org/apart"] = {**APART, "README.md": b"# card", "vocab.txt": b"of nothing", "0_Transformer/pytorch_model.bin": b"x",
                                     "0_Transformer/deep/config.json": b"{}"}
    done = pull("org/apart")
    assert done.returncode == 0, done.stderr
    snapshot = cache / "models--org--apart" / "snapshots" / hub.COMMIT
    assert {str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()} == set(APART)
    assert all((snapshot / name).read_bytes() == data for name, data in APART.items())
    fetched = [line.split(" (")[0] for line in done.stdout.splitlines() if line.endswith(" bytes)")]
    assert sorted(fetched) == sorted(APART)
    done = subprocess.run([headscope, "analyze", "--model", "org/apart", "--outputs", "embedding", "-"], input=b"the war " * 9,
                          env={**os.environ, "HF_HUB_CACHE": str(cache)}, capture_output=True)
    assert done.returncode == 0 and len(json.loads(done.stdout)["tokens"]) == 9, done.stderr


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"])
def test_the_length_of_a_sentence_encoder(pull, hub, cache, family):
    """sentence-transformers names its file after a family. Without it, texts are cut at another length."""
    name = f"sentence_{family}_config.json"
    hub.repositories["org/length"] = {**FILES, name: b'{"max_seq_length": 9}'}
    assert pull("org/length").returncode == 0
    assert (cache / "models--org--length" / "snapshots" / hub.COMMIT / name).exists()


def test_shards_of_a_transformer_in_its_own_folder(pull, hub, cache):
    shards = {f"0_Transformer/{name}": data for name, data in {
        "model.safetensors.index.json": json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}).encode(),
        "model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two"}.items()}
    files = {name: data for name, data in APART.items() if name != "config.json" and not name.endswith("model.safetensors")} | shards
    hub.repositories["org/sharded"] = {**files, "model-00001-of-00002.safetensors": b"other"}
    assert pull("org/sharded").returncode == 0
    snapshot = cache / "models--org--sharded" / "snapshots" / hub.COMMIT
    assert {str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()} == set(files)


@pytest.mark.parametrize(("changes", "says"), [
    ({"0_Transformer/config.json": None}, "org/apart has no 0_Transformer/config.json, though its modules.json names that folder"),
    ({"0_Transformer/model.safetensors": None, "0_Transformer/pytorch_model.bin": b"x"},
     "org/apart has no 0_Transformer/model.safetensors, only pytorch_model.bin. Download it with huggingface_hub and convert it: "
     "python3 -m headscope.convert DIR/0_Transformer/"),
    ({"modules.json": b"[]"}, "org/apart: modules.json: must name a Transformer"),
    ({"modules.json": APART["modules.json"].replace(b"0_T", b"../T")}, "org/apart: modules.json: module 0 must have a type and a path"),
    ({"0_Transformer/config.json": b'{"model_type": "clip"}'}, "org/apart: "),
])
def test_a_transformer_in_its_own_folder_that_cannot_be_opened(pull, hub, changes, says):
    hub.repositories["org/apart"] = {name: data for name, data in {**APART, **changes}.items() if data is not None}
    done = pull("org/apart")
    assert done.returncode == 1 and says in done.stderr, done.stderr
    assert not [r for r in hub.requests if r[2].endswith((".safetensors", ".bin"))]


def test_python_finds_what_was_pulled_and_the_reverse(pull, hub, cache, tmp_path, monkeypatch, headscope):
    hub_library = pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    assert pull().returncode == 0
    for name, data in FILES.items():
        path = hub_library.hf_hub_download(NAME, name, cache_dir=cache, local_files_only=True)
        assert Path(path).read_bytes() == data
    theirs = tmp_path / "theirs"
    for name, data in FILES.items():
        path = hub_library.hf_hub_download(NAME, name, cache_dir=theirs, endpoint=hub.url)
        assert Path(path).read_bytes() == data
    ours = {str(p.relative_to(cache)) for p in cache.rglob("*") if ".locks" not in str(p)}
    assert ours == {str(p.relative_to(theirs)) for p in theirs.rglob("*") if ".locks" not in str(p) and p.name != "CACHEDIR.TAG"}
    subprocess.run([headscope, "models", "--model", NAME], env={"HF_HUB_CACHE": str(theirs)}, check=True,
                   capture_output=True)
