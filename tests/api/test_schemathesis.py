"""Tests the service against its OpenAPI document with requests that Schemathesis generates: examples, every value at its
limits, random ones, and runs followed by the links of POST /corpora. Optional: it needs the program schemathesis, on the
PATH or named by SCHEMATHESIS:

    python3 -m venv DIR; DIR/bin/pip install schemathesis
    SCHEMATHESIS=DIR/bin/schemathesis make test-slow
"""
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import PATIENCE

HERE = Path(__file__).parent
PROGRAM = os.environ.get("SCHEMATHESIS") or shutil.which("schemathesis")


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM, reason="schemathesis is not installed; SCHEMATHESIS may name it")
def test_the_service_does_what_its_description_says(start_server, tmp_path):
    # Models may be requested, but the hub is not: every fetch fails at once.
    server = start_server("--state", str(tmp_path / "state"), "--pull", environment={"HF_HUB_OFFLINE": "1"})
    done = subprocess.run(
        [PROGRAM, "--config-file", HERE / "schemathesis.toml", "run", f"{server.url}/openapi.json",
         "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "10", "--seed", "1", "--no-color",
         "--continue-on-failure"],
        cwd=tmp_path, env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)},
        capture_output=True, text=True, timeout=PATIENCE)
    report = "\n".join(line[:400] for line in (done.stdout + done.stderr).splitlines())
    assert done.returncode == 0, report[-8000:]
    assert "Stateful" in report and server.get("/health").status == 200
