"""--precision bf16 and int8: close to fp32, told by /models, never mixed, refused where the CPU cannot."""
import importlib
import io
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
from conftest import HEADSCOPE, PATIENCE

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
sys.path.insert(0, str(REFERENCE))
FAMILIES = sorted(path.stem for path in REFERENCE.glob("family_*.py"))
TEXT = b"The old bridge was closed after the war. The war had damaged the bridge."
NEEDS = {"bf16": b"this CPU has no AVX512_BF16, which bf16 needs: use fp32",
         "int8": b"int8 needs AVX512_VNNI or AVX-VNNI, and this CPU has neither or HEADSCOPE_KERNELS forbids it: use fp32"}


def headscope(*arguments, text=TEXT):
    return subprocess.run([HEADSCOPE, *map(str, arguments)], input=text, capture_output=True, check=False,
                          timeout=PATIENCE)


def maps(precision, model="mini"):
    done = headscope("analyze", "--model", model, "--precision", precision, "--layers", "all", "--format", "npz")
    if precision in NEEDS and done.returncode == 1 and NEEDS[precision] in done.stderr:
        pytest.skip(NEEDS[precision].decode())
    assert done.returncode == 0, done.stderr
    return numpy.load(io.BytesIO(done.stdout))


@pytest.mark.parametrize(("precision", "most", "mean"), [("bf16", 0.05, 1e-3), ("int8", 0.1, 3e-3)])
def test_it_is_close_but_not_the_same(precision, most, mean):
    exact, short = maps("fp32"), maps(precision)
    difference = numpy.abs(exact["attentions"] - short["attentions"])
    assert 0 < difference.max() < most and difference.mean() < mean
    numpy.testing.assert_allclose(short["similarities"], exact["similarities"],
                                  atol=most * numpy.abs(exact["similarities"]).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_close_in_every_family(tmp_path, family):
    """A product that rounds the wrong rows, or rows by another's scale, moves attention by tenths."""
    module = importlib.import_module(family)
    model = module.write_random(tmp_path / "model", **next(iter(module.VARIANTS.values()), {}))
    exact = maps("fp32", model)
    for precision, mean in (("bf16", 2e-3), ("int8", 8e-3)):
        difference = numpy.abs(maps(precision, model)["attentions"] - exact["attentions"])
        assert 0 < difference.mean() < mean


@pytest.mark.parametrize(("precision", "backend"), [("bf16", "openblas"), ("int8", "openblas"), ("int8", "onednn")])
def test_libraries_refuse_what_they_cannot(precision, backend):
    done = headscope("analyze", "--precision", precision, "--backend", backend)
    assert done.returncode == 1 and b"headscope analyze: " in done.stderr


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_models_tell_it(start_server, precision):
    maps(precision)
    server = start_server("--precision", precision)
    assert [model["precision"] for model in server.get("/models").json()["models"]] == [precision]


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_corpus_run_keeps_to_one(tmp_path, precision):
    maps(precision)
    (tmp_path / "texts.txt").write_bytes(TEXT)
    run = ("corpus", tmp_path / "texts.txt", "-o")
    assert headscope(*run, tmp_path / "exact").returncode == 0
    assert headscope(*run, tmp_path / "short", "--precision", precision).returncode == 0
    done = headscope(*run, tmp_path / "exact", "--precision", precision, "--resume")
    assert done.returncode == 1 and b"another precision" in done.stderr
    done = headscope("merge", tmp_path / "exact", tmp_path / "short", "-o", tmp_path / "both")
    assert done.returncode == 1 and b"another precision" in done.stderr


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_run_under_way_keeps_to_one_and_is_told_by_its_id(start_server, tmp_path, precision):
    maps(precision)
    server = start_server("--state", tmp_path / "state")
    run = server.request("POST", "/corpora?layers=0&max_tokens=24", 30000 * (TEXT + b"\n"), {"Content-Type": "text/plain"}).json()
    path, end = f"/corpora/{run['id']}", time.monotonic() + PATIENCE
    while not server.get(path).json()["texts_done"] and time.monotonic() < end:
        time.sleep(0.02)
    server.stop()
    server = start_server("--state", tmp_path / "state", "--precision", precision)
    while (run := server.get(path).json())["state"] in ("queued", "running") and time.monotonic() < end:
        time.sleep(0.02)
    assert run["state"] == "failed"
    assert run["error"] == f"the run in '{run['id']}' has another precision: \"fp32\" there, \"{precision}\" here"
