"""The files under deploy/ and the Dockerfile, as far as they can be checked without running them."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import HEADSCOPE

ROOT = Path(__file__).parents[2]


def documents(name):
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text()))


def test_kubernetes_probes_the_paths_that_there_are(server):
    deployment, service = documents("kubernetes.yaml")
    pod = deployment["spec"]["template"]["spec"]
    container, = pod["containers"]
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
        get = container[probe]["httpGet"]
        assert server.get(get["path"]).status == 200
        assert get["port"] == container["ports"][0]["name"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


def test_containers_are_confined():
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]
    container, = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert {"cpu", "memory"} == set(container["resources"]["limits"])
    compose = documents("compose.yaml")[0]["services"]["headscope"]
    assert compose["read_only"] and compose["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in compose["ports"])


@pytest.mark.parametrize("arguments", [
    pytest.param(documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]["containers"][0]["args"], id="kubernetes"),
    pytest.param(documents("compose.yaml")[0]["services"]["headscope"]["command"], id="compose"),
])
def test_commands_are_understood(start_server, arguments):
    assert arguments[0] == "serve"
    start_server(*arguments[1:])


def test_image_has_the_libraries_that_the_program_needs():
    runtime = (ROOT / "Dockerfile").read_text().split("\nFROM ")[-1]
    installed = set(re.search(r"--no-install-recommends([^&]*)&&", runtime)[1].replace("\\", " ").split())
    dynamic = subprocess.run(["objdump", "-p", HEADSCOPE], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"NEEDED +(\S+)", dynamic):
        if re.match(r"lib(asan|ubsan|tsan|c|m)\.so|ld-linux", library):
            continue
        owners = subprocess.run(["dpkg", "-S", f"*/{library}"], capture_output=True, text=True, check=False).stdout
        packages = {line.split(":")[0] for line in owners.splitlines()}
        if library == "libopenblas.so.0":  # an alternative that the package's script installs
            packages = {"libopenblas0-pthread"}
        assert packages & installed, f"{library} is of {packages}, the Dockerfile installs {installed}"


def test_image_runs_as_nobody_special():
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.M)
    assert documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 10001


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_unit_is_valid(tmp_path):
    unit = (ROOT / "deploy" / "headscope.service").read_text()
    (tmp_path / "headscope.service").write_text(unit.replace("/usr/local/bin/headscope", HEADSCOPE))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "headscope.service"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "headscope.service" not in done.stderr, done.stderr
