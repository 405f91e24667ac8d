"""--precision int24, bf16 and int8: close to fp32, named by /models, runs and reports, never mixed, refused if the CPU lacks them."""
import importlib
import io
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from conftest import HEADSCOPE, PATIENCE, until

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
sys.path.insert(0, str(REFERENCE))
FAMILIES = sorted(path.stem for path in REFERENCE.glob("family_*.py"))
TEXT = b"The old bridge was closed after the war. The war had damaged the bridge."
NEEDS = {"int24": b"int24 needs AMX, and this CPU has none, the system does not permit it or HEADSCOPE_KERNELS forbids it: use fp32",
         "bf16": b"this CPU has no AVX512_BF16, which bf16 needs: use fp32",
         "int8": b"int8 needs AVX512_VNNI or AVX-VNNI, and this CPU has neither or HEADSCOPE_KERNELS forbids it: use fp32"}

ROUNDED = {"int24": ": weights and activations of 24 bits",
           "bf16": ": weights and activations rounded to bfloat16, good for exploring and for large corpora; "
                   "figures for a paper should be computed in fp32",
           "int8": ": weights and activations rounded to bytes, good for exploring, not for figures"}


def headscope(*arguments, text=TEXT, kernels=""):
    return subprocess.run([HEADSCOPE, *map(str, arguments)], input=text, capture_output=True, check=False,
                          env={**os.environ, "HEADSCOPE_KERNELS": kernels or os.environ.get("HEADSCOPE_KERNELS", "")},
                          timeout=PATIENCE)


def maps(precision, model="mini", kernels=""):
    done = headscope("analyze", "--model", model, "--precision", precision, "--layers", "all", "--format", "npz", kernels=kernels)
    if precision in NEEDS and done.returncode == 1 and NEEDS[precision] in done.stderr:
        pytest.skip(NEEDS[precision].decode())
    assert done.returncode == 0, done.stderr
    return numpy.load(io.BytesIO(done.stdout))


def send(server, n):
    """The path of a run of n texts."""
    sent = server.request("POST", "/corpora?layers=0&max_tokens=24", n * (TEXT + b"\n"), {"Content-Type": "text/plain"})
    return sent.headers["Location"]


@pytest.mark.parametrize(("precision", "most", "mean"), [("int24", 1e-5, 1e-7), ("bf16", 0.05, 1e-3), ("int8", 0.1, 3e-3)])
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
    for precision, mean in (("bf16", 2e-3), ("int8", 8e-3), ("int24", 1e-6)):
        difference = numpy.abs(maps(precision, model)["attentions"] - exact["attentions"])
        assert 0 < difference.mean() < mean


@pytest.mark.parametrize("precision", ["int24", "bf16", "int8"])
def test_openblas_refuses_other_precisions(precision):
    done = headscope("analyze", "--precision", precision, "--backend", "cblas")
    assert done.returncode == 1 and b"headscope analyze: " in done.stderr


@pytest.mark.parametrize(("backend", "code", "said"), [
    ("native", 0, b""), *((name, 1, b"install Debian's package libopenblas0-pthread, or use native")
                          for name in ("cblas", "openblas"))])
def test_openblas_is_loaded_when_it_is_used(tmp_path, backend, code, said):
    (tmp_path / "libopenblas.so.0").touch()  # as if it were damaged or not there
    done = subprocess.run([HEADSCOPE, "analyze", "-", "--outputs", "summary", "--backend", backend], input=TEXT, capture_output=True,
                          check=False, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, timeout=PATIENCE)
    assert done.returncode == code and said in done.stderr, done.stderr


@pytest.mark.parametrize("precision", ["int24", "bf16", "int8"])
def test_models_tell_it(start_server, precision):
    maps(precision)
    server = start_server("--precision", precision)
    model, = server.get("/models").json()["models"]
    assert model["precision"] == precision
    assert f"{precision} by {model['kernels']}".encode() in headscope("version").stdout


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_amx_may_be_forbidden(precision):
    """int8 has exact sums: the same bits by any instructions. bf16 adds in another order."""
    if f"{precision} by amx".encode() not in headscope("version", kernels="amx").stdout:
        assert b"leave it unset" in headscope("analyze", kernels="amx").stderr
        pytest.skip("this machine has no AMX")
    taken, other = maps(precision, kernels="amx"), maps(precision, kernels="avx512")
    assert b"by amx" not in headscope("version", kernels="avx512").stdout
    difference = numpy.abs(taken["attentions"] - other["attentions"]).max()
    assert difference == 0 if precision == "int8" else 0 < difference < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int24", "bf16", "int8"])
def test_a_corpus_run_keeps_to_one(tmp_path, precision):
    maps(precision)
    (tmp_path / "texts.txt").write_bytes(TEXT)
    run = ("corpus", tmp_path / "texts.txt", "-o")
    assert headscope(*run, tmp_path / "exact").returncode == 0
    assert headscope(*run, tmp_path / "short", "--precision", precision).returncode == 0
    for folder, made, said in (("exact", "fp32", ""), ("short", precision, ROUNDED[precision])):
        report = json.loads((tmp_path / folder / "report.json").read_text(encoding="utf-8"))
        assert report["provenance"]["model"]["precision"] == made
        page = (tmp_path / folder / "report.html").read_text(encoding="utf-8")
        assert f" native {made}{said}</dd>" in page
    done = headscope(*run, tmp_path / "exact", "--precision", precision, "--resume")
    assert done.returncode == 1 and b"another precision" in done.stderr
    done = headscope("merge", tmp_path / "exact", tmp_path / "short", "-o", tmp_path / "both")
    assert done.returncode == 1 and b"another precision" in done.stderr


@pytest.mark.parametrize("precision", ["fp32", "int24", "bf16", "int8"])
def test_a_run_tells_it(start_server, tmp_path, precision):
    maps(precision)
    server = start_server("--state", tmp_path / "state", "--precision", precision)
    path = send(server, 5)
    run = until(lambda: server.get(path).json(), lambda run: run["state"] not in ("queued", "running"))
    assert run["state"] == "done" and run["precision"] == precision
    assert [run["precision"] for run in server.get("/corpora").json()["corpora"]] == [precision]
    server.stop()
    with sqlite3.connect(tmp_path / "state" / "corpora.db") as db:  # as a version left it that did not keep it
        db.execute("ALTER TABLE runs DROP COLUMN precision")
    db.close()
    server = start_server("--state", tmp_path / "state")
    assert server.get(path).json() == {**run, "precision": None}


@pytest.mark.parametrize("precision", ["int24", "bf16", "int8"])
def test_a_run_keeps_its_precision_and_its_id_names_it(start_server, tmp_path, precision):
    maps(precision)
    server = start_server("--state", tmp_path / "state")
    path = send(server, 30000)
    until(lambda: server.get(path).json()["texts_done"])
    server.stop()
    server = start_server("--state", tmp_path / "state", "--precision", precision)
    run = until(lambda: server.get(path).json(), lambda run: run["state"] not in ("queued", "running"))
    assert run["state"] == "failed" and run["texts_done"] and run["precision"] == "fp32"
    assert run["error"] == f"the run in '{run['id']}' has another precision: \"fp32\" there, \"{precision}\" here"
