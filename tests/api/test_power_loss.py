"""Names that must last over a loss of power: each folder in which a name was made is synced after that."""
import os
import subprocess
from pathlib import Path

import pytest

from conftest import MINI, preloading
from corpus_runs import texts
from hub import Hub
from test_corpora import body_of, send, wait


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
    assert all(f"/blobs/{blob.name}.incomplete\n" in said for blob in (folder / "blobs").iterdir())
    assert f"{folder / 'refs'}/.main." in said and f"made {folder / 'refs' / 'main'}\n" in said
