"""Clients that generators write from openapi.json compile strictly and work with the real server."""
import json
import shutil
import subprocess
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parents[1] / "clients"


@pytest.fixture(scope="module")
def compiled(server, tmp_path_factory):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    where = tmp_path_factory.mktemp("clients")
    for file in CLIENTS.iterdir():
        if file.is_file():
            shutil.copy(file, where)
    installed = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"], cwd=where,
                               capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"npm cannot install the generators: {installed.stderr[-300:]}")
    (where / "openapi.json").write_bytes(server.get("/openapi.json").body)
    for command in (["openapi-typescript", "openapi.json", "-o", "made/types.ts", "--default-non-nullable=false"],
                    ["openapi-ts", "-i", "openapi.json", "-o", "made/sdk"], ["tsc", "-p", "."]):
        done = subprocess.run([where / "node_modules" / ".bin" / command[0], *command[1:]], cwd=where, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return where / "made" / "js"


@pytest.mark.slow
@pytest.mark.parametrize("program", ["fetch", "sdk"])
def test_generated_client(compiled, server, program):
    done = subprocess.run(["node", compiled / f"{program}.js", server.url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["tokens"][1:3] == ["the", "river"] and answer["maps"] == 2
    assert bytes(answer["npz"]) == b"PK" and answer["pointer"] == "/threshold" and answer["model"] == "mini"
