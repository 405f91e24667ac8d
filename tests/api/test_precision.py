"""--precision bf16: close to fp32, told in the answer's origin, refused where the CPU cannot."""
import io
import subprocess

import numpy
import pytest
from conftest import HEADSCOPE, PATIENCE


def maps(precision):
    done = subprocess.run([HEADSCOPE, "analyze", "--precision", precision, "--layers", "all", "--format", "npz"],
                          input=b"The old bridge was closed after the war. The war had damaged the bridge.",
                          capture_output=True, check=False, timeout=PATIENCE)
    if precision == "bf16" and done.returncode == 1 and b"AVX512_BF16" in done.stderr:
        pytest.skip("this CPU has no AVX512_BF16")
    assert done.returncode == 0, done.stderr
    return numpy.load(io.BytesIO(done.stdout))


def test_bf16_is_close_but_not_the_same():
    exact, short = maps("fp32"), maps("bf16")
    difference = numpy.abs(exact["attentions"] - short["attentions"])
    assert 0 < difference.max() < 0.05 and difference.mean() < 1e-3
    numpy.testing.assert_allclose(short["similarities"], exact["similarities"],
                                  atol=0.05 * numpy.abs(exact["similarities"]).max())


def test_bf16_and_openblas_do_not_go_together():
    done = subprocess.run([HEADSCOPE, "analyze", "--precision", "bf16", "--backend", "openblas"], input=b"text",
                          capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1 and b"headscope analyze: " in done.stderr
