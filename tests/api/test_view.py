"""headscope view FILE: the file's bytes are offered under its name, and files that cannot be shown are refused."""
import io
import os
import subprocess
import urllib.error
import urllib.request

import numpy as np
import pytest

HEADSCOPE = os.environ.get("HEADSCOPE", "build/headscope")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "other maps.npz"
    np.savez(path, tokens=["a", "b"], attentions=np.full((1, 1, 2, 2), 0.5, "f4"))
    return path


def test_the_file_is_offered_under_its_name(arrays):
    server = subprocess.Popen([HEADSCOPE, "view", "--listen", "127.0.0.1:0", arrays], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        home = server.stdout.readline().split()[-1]
        assert server.stdout.readline() == f"Open {home}/#model=file%3Aother%20maps.npz\n"
        with urllib.request.urlopen(f"{home}/opened/other%20maps.npz") as answer:
            assert answer.headers.get_content_type() == "application/octet-stream"
            data = answer.read()
        assert data == arrays.read_bytes()
        assert np.load(io.BytesIO(data))["attentions"].shape == (1, 1, 2, 2)
        for other in ("other", "..%2Fother%20maps.npz", "other%20maps.npz%00"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{home}/opened/{other}")
            assert refused.value.code in (400, 404)
    finally:
        server.terminate()
        assert server.wait() == 0


def test_another_server_has_no_file(server):
    answer = server.get("/opened/other.npz")
    assert answer.status == 404 and "headscope view FILE" in answer.json()["detail"]


@pytest.mark.parametrize("content,says", [
    (None, b"No such file"), (b"words in a file", b"neither .npz nor .safetensors"), (b"", b"neither .npz nor"),
    ("folder", b"is a folder; name one file of arrays"), (1 << 31, b"larger than 1 GiB"),
])
def test_files_that_cannot_be_shown(tmp_path, content, says):
    path = tmp_path / "file.npz"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, int):
        path.touch()
        os.truncate(path, content)
    elif content is not None:
        path.write_bytes(content)
    done = subprocess.run([HEADSCOPE, "view", "--listen", "127.0.0.1:0", path], capture_output=True)
    assert done.returncode == 1 and says in done.stderr


@pytest.mark.parametrize("arguments,says", [
    ([], b"name the FILE to show"), (["a.npz", "b.npz"], b"one FILE at a time"), (["--file", "a"], b"name the FILE without"),
])
def test_usage(arguments, says):
    done = subprocess.run([HEADSCOPE, "view", *arguments], capture_output=True)
    assert done.returncode == 2 and says in done.stderr
