"""The files under deploy/ and the Dockerfile, as far as they can be checked without running them."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import HEADSCOPE, Server, unsanitized

pytestmark = unsanitized
ROOT = Path(__file__).parents[2]


def documents(name):
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text()))


def pods():
    """The workloads of kubernetes.yaml, each with the Service that selects it."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in documents("kubernetes.yaml")}
    return [(one, found["Service", name]) for (kind, name), one in found.items() if kind in ("Deployment", "StatefulSet")]


def compose():
    return documents("compose.yaml")[0]


@pytest.mark.parametrize(("workload", "service"), pods(), ids=lambda one: one["metadata"]["name"])
def test_kubernetes_probes_the_paths_that_there_are(server, workload, service):
    container, = workload["spec"]["template"]["spec"]["containers"]
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
        get = container[probe]["httpGet"]
        assert server.get(get["path"]).status == 200
        assert get["port"] == container["ports"][0]["name"]
    assert service["spec"]["selector"] == workload["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"].items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


def test_containers_are_confined():
    for workload, _ in pods():
        pod = workload["spec"]["template"]["spec"]
        container, = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                "capabilities": {"drop": ["ALL"]}}
        assert {"cpu", "memory"} == set(container["resources"]["limits"]) == set(container["resources"]["requests"])
    service = compose()["services"]["headscope"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["mem_limit"] and service["pids_limit"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_a_network_policy_covers_every_pod():
    policy, = (one["spec"] for one in documents("kubernetes.yaml") if one["kind"] == "NetworkPolicy")
    selected, = policy["podSelector"]["matchExpressions"]
    assert set(selected["values"]) == {workload["metadata"]["name"] for workload, _ in pods()}
    assert policy["policyTypes"] == ["Ingress", "Egress"] and "egress" not in policy


def arguments_of(command, tmp_path):
    """The options of the container, with its folders in tmp_path."""
    (tmp_path / "token").write_text("0123456789abcdef" * 4 + "\n")
    (tmp_path / "token").chmod(0o600)
    return [re.sub(r"^/.*/(token|headscope)$", lambda path: str(tmp_path / path[1]), argument) for argument in command]


COMMANDS = [pytest.param(workload["spec"]["template"]["spec"]["containers"][0]["args"], id=workload["metadata"]["name"])
            for workload, _ in pods()] + [pytest.param(compose()["services"]["headscope"]["command"], id="compose")]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood_and_want_a_token(start_server, tmp_path, command):
    assert command[0] == "serve"
    server = start_server(*arguments_of(command[1:], tmp_path))
    assert server.post("/analyze", {"text": "a"}).status == 401
    runs = server.get("/corpora", {"Authorization": "Bearer " + "0123456789abcdef" * 4})
    assert runs.status == (200 if "--state" in command else 501)


def test_state_lies_in_a_volume():
    workload, = (one for one, _ in pods() if one["kind"] == "StatefulSet")
    container, = workload["spec"]["template"]["spec"]["containers"]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    folder = container["args"][container["args"].index("--state") + 1]
    assert mounted[folder] == workload["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    assert workload["spec"]["replicas"] == 1 and workload["spec"]["template"]["spec"]["securityContext"]["fsGroup"] == 10001
    command = compose()["services"]["headscope"]["command"]
    volume, path = compose()["services"]["headscope"]["volumes"][0].split(":")
    assert volume in compose()["volumes"] and path == command[command.index("--state") + 1] == folder
    assert f"install -d -o 10001 -g 10001 -m 0700 {folder}" in (ROOT / "Dockerfile").read_text()
    unit = (ROOT / "deploy" / "headscope.service").read_text()
    for line in ["StateDirectory=headscope", "MemoryMax=", "TasksMax=", "SystemCallFilter=sched_setscheduler"]:
        assert f"\n{line}" in unit


@pytest.mark.slow
def test_image_has_the_libraries_that_the_program_needs():
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert stages[-1].startswith("libraries\n") and "packages.sh runtime" in stages[1] and stages[1].startswith("${BASE} AS libraries")
    listed = subprocess.run([ROOT / "deploy" / "packages.sh", "list", "runtime"], capture_output=True, text=True, check=True)
    installed = set(listed.stdout.split())
    dynamic = subprocess.run(["objdump", "-p", HEADSCOPE], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"NEEDED +(\S+)", dynamic):
        if re.match(r"lib(asan|ubsan|tsan|c|m)\.so|ld-linux", library):
            continue
        owners = subprocess.run(["dpkg", "-S", f"*/{library}"], capture_output=True, text=True, check=False).stdout
        packages = {line.split(":")[0] for line in owners.splitlines()}
        assert packages & installed, f"{library} is of {packages}, packages.sh lists {installed}"


# ---- licences and components ----

def scripts():
    """Also in a release, which has no git."""
    return sorted(str(path.relative_to(ROOT)) for folder in ("deploy", "tests/deploy", "tests/platforms")
                  for path in (ROOT / folder).glob("*.sh") if path.read_text().startswith("#!/bin/sh"))


@pytest.mark.parametrize("name", scripts())
def test_scripts_of_sh_know_no_braces(name):
    """Debian's sh takes {a,b} for a name. So the licences of libraries were missing in wheels."""
    text = re.sub(r"'[^']*'", "", re.sub(r"#.*", "", (ROOT / name).read_text()))
    assert not re.search(r"(?<![$\\])\{[^{}\s]*,[^{}\s]*\}", text)


def viewer_packages():
    """The npm packages that files of the viewer import."""
    sources = [path.read_text() for folder in ("src", "report") for path in (ROOT / "static" / folder).rglob("*.*") if path.suffix in (".ts", ".tsx", ".css")]
    names = {found for text in sources for found in re.findall(r"""(?:(?:from|import)\s+["']|node_modules/)((?:@[\w.-]+/)?[\w.-]+)(?=["'/])""", text)}
    lock = json.loads((ROOT / "static" / "package-lock.json").read_text())["packages"]
    return {name for name in names if f"node_modules/{name}" in lock and name != "vite"}


@pytest.fixture(scope="module")
def portable(tmp_path_factory):
    """A folder as deploy/portable.sh leaves it, by its own lines for licences over made-up sources."""
    top = tmp_path_factory.mktemp("portable")
    script = (ROOT / "deploy" / "portable.sh").read_text()
    libraries = re.search(r'^libraries="(.+)"$', script, re.M)[1].split()
    for name, file in zip(libraries, ["README", "debian/copyright", "COPYING", "LICENSE"] * 2):
        path = top / "work" / "source" / name / f"{name}-1.0" / file
        path.parent.mkdir(parents=True)
        path.write_text(f"licence of {name}: see /usr/share/common-licenses/GPL-3.\n")
        (top / "work" / "source" / name / "version").write_text("1.0-2\n")
    (top / "out" / "licenses").mkdir(parents=True)
    begin, end = script.index("for name in $libraries; do"), script.index("deploy/licences.sh")
    common = script[script.index("grep -rhoE"):script.index("# Every Linux with glibc")]
    done = subprocess.run(["/bin/sh", "-euc", f'libraries="{" ".join(libraries)}"; work={top}/work; out={top}/out\n'
                           f'{script[begin:end]}\ndeploy/licences.sh "$out/licenses"\n{common}'], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return libraries, top / "out"


@pytest.mark.skipif(not (ROOT / "static" / "node_modules" / "preact").is_dir(), reason="the viewer was not built here")
def test_licences_are_of_everything_that_is_in(portable):
    libraries, out = portable
    for name in libraries:
        assert (out / "licenses" / name).read_text().startswith(f"licence of {name}")
    assert viewer_packages() >= {"preact", "@fontsource/ibm-plex-sans"}
    for name in [*viewer_packages(), "fonts-dejavu-core", "headscope"]:
        assert "opyright" in (out / "licenses" / name.split("/")[-1]).read_text()
    assert "GNU GENERAL PUBLIC LICENSE" in (out / "licenses" / "GPL-3").read_text()


@pytest.mark.skipif(not (ROOT / "static" / "node_modules" / "preact").is_dir(), reason="the viewer was not built here")
def test_components_are_those_of_what_is_delivered(portable, tmp_path):
    libraries, out = portable
    status = tmp_path / "status"
    status.write_text("Package: libc6\nStatus: install ok installed\nSource: glibc\nVersion: 2.36-9\n\n"
                      "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
                      "Package: libnettle8\nStatus: install ok installed\nSource: nettle (3.8.1-2)\nVersion: 3.8.1-2\n")
    found = {}
    for kind, options in ("here", []), ("portable", ["--portable", out]), ("image", ["--image", status]):
        listed = subprocess.run([ROOT / "deploy" / "sbom.py", HEADSCOPE, *options], capture_output=True, text=True, check=True).stdout
        document = json.loads(listed)
        assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
        found[kind] = {one["name"]: (one["version"], one.get("licenses")) for one in document["components"]}
        assert found[kind].keys() >= viewer_packages() | {"fonts-dejavu-core", "mini"}
    assert all(found["portable"][name] == ("1.0-2", found["portable"][name][1]) and found["portable"][name][1] for name in libraries)
    assert all(licences for _, licences in found["portable"].values())
    assert found["image"]["libnettle8"] == ("3.8.1-2", [{"expression": "LGPL-3.0-or-later OR GPL-2.0-or-later"}])
    assert "libc6" in found["image"] and "gone" not in found["image"]
    assert all(licences for _, licences in found["here"].values())


@pytest.fixture(scope="module")
def debian_package(tmp_path_factory):
    if not shutil.which("dpkg-shlibdeps"):
        pytest.skip("no dpkg-dev here")
    folder = tmp_path_factory.mktemp("package")
    subprocess.run([ROOT / "deploy" / "debian-package.sh", folder], check=True, capture_output=True)
    package, = folder.glob("*.deb")
    return package


@pytest.mark.slow
def test_the_debian_package_leaves_the_mode_of_folders_and_names_versions(debian_package, tmp_path):
    subprocess.run(["dpkg-deb", "-x", debian_package, tmp_path / "tree"], check=True)
    for folder in [tmp_path / "tree", *(path for path in (tmp_path / "tree").rglob("*") if path.is_dir())]:
        assert folder.stat().st_mode & 0o777 == 0o755, folder
    needed = subprocess.run(["dpkg-deb", "-f", debian_package, "Depends"], check=True, capture_output=True, text=True).stdout
    for library in ("libc6", "libjansson4", "libmicrohttpd12", "libsqlite3-0"):
        assert re.search(rf"\b{library}(t64)? \(>= [\d.]+", needed), needed
    assert re.search(r"\blibopenblas0-pthread\b", needed) and re.search(r"\blibcurl4", needed)


@pytest.mark.slow
def test_the_debian_package_names_what_is_linked_in(debian_package, tmp_path):
    subprocess.run(["dpkg-deb", "-x", debian_package, tmp_path / "tree"], check=True)
    text = (tmp_path / "tree/usr/share/doc/headscope/copyright").read_text()
    assert all(line.strip() for line in text.split("\n") if line.startswith(" "))
    for name in ("preact", "zip.js", "ibm-plex-mono", "ibm-plex-sans", "DejaVuSans.ttf"):
        assert re.search(rf"^Files: .*{name}", text, re.M)
    for words in ("Jason Miller", "Gildas Lormeau", "SIL Open Font License", "Bitstream"):
        assert words in text


def test_image_runs_as_nobody_special():
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.M)
    assert all(workload["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 10001 for workload, _ in pods())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_unit_is_valid(tmp_path):
    unit = (ROOT / "deploy" / "headscope.service").read_text()
    (tmp_path / "headscope.service").write_text(unit.replace("/usr/local/bin/headscope", HEADSCOPE))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "headscope.service"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "headscope.service" not in done.stderr, done.stderr


# ---- monitoring ----


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """The text of /metrics of a server that keeps runs and has answered."""
    server = Server("--state", str(tmp_path_factory.mktemp("state")))
    server.post("/analyze", {"text": "a b"})
    text = server.get("/metrics").body
    server.stop()
    return text


def expressions():
    rules = [rule["expr"] for group in documents("alerts.yaml")[0]["groups"] for rule in group["rules"]]
    board = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())
    return rules + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_alerts_and_dashboard_name_metrics_that_there_are(scraped, expression):
    there = set(re.findall(rb"^(\w+)", scraped, re.M))
    named = re.findall(r"\b(?:headscope|process)_\w+", re.sub(r"\{[^}]*\}", "", expression))
    assert named or "up" in expression
    assert {name.encode() for name in named} <= there


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not here")
def test_promtool_takes_the_metrics_the_alerts_and_the_configuration(scraped, tmp_path):
    subprocess.run(["promtool", "check", "metrics"], input=scraped, check=True)
    subprocess.run(["promtool", "test", "rules", ROOT / "tests" / "deploy" / "alerts-test.yaml"], check=True)
    (tmp_path / "token").write_text("0123456789abcdef")
    shutil.copy(ROOT / "deploy" / "alerts.yaml", tmp_path)
    configuration, = documents("prometheus.yaml")
    job, = configuration["scrape_configs"]
    job["authorization"]["credentials_file"] = str(tmp_path / "token")
    del job["kubernetes_sd_configs"]  # Debian's promtool does not know it
    job["static_configs"] = [{"targets": ["127.0.0.1:8080"]}]
    (tmp_path / "prometheus.yaml").write_text(yaml.dump(configuration))
    subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yaml"], check=True)


def test_prometheus_sends_the_token_to_the_pods_that_there_are(start_server, tmp_path):
    job, = documents("prometheus.yaml")[0]["scrape_configs"]
    keep, = (rule for rule in job["relabel_configs"] if rule.get("action") == "keep")
    for workload, _ in pods():
        template = workload["spec"]["template"]
        container, = template["spec"]["containers"]
        assert "annotations" not in template["metadata"]  # they would be scraped without a token
        name = template["metadata"]["labels"]["app.kubernetes.io/name"]
        assert re.fullmatch(keep["regex"], f"{name};{container['ports'][0]['name']}")
        assert job["authorization"]["credentials_file"] in container["args"]
    (tmp_path / "token").write_text("0123456789abcdef" * 4 + "\n")
    (tmp_path / "token").chmod(0o600)
    server = start_server("--token-file", tmp_path / "token")
    path = job.get("metrics_path", "/metrics")
    assert server.get(path).status == 401
    assert server.get(path, {"Authorization": "Bearer " + "0123456789abcdef" * 4}).status == 200


@pytest.mark.parametrize("git", [True, False])
def test_sources_hold_the_viewer_as_it_was_built(tmp_path, git):
    """A release builds without npm, until somebody changes the viewer."""
    if git and not (shutil.which("git") and (ROOT / ".git").exists()):
        pytest.skip("needs a clone")
    tree = tmp_path / "tree"
    if git:
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, tree], check=True)
    else:
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", "build", "dist", "node_modules", "__pycache__"))
    shutil.copytree(ROOT / "build/viewer", tree / "build/viewer")
    shutil.copy(ROOT / "build/viewer_files.c", tree / "build")
    make = ["make", "--no-print-directory"]
    subprocess.run([*make, "-o", "all", "sources"], cwd=tree, check=True, capture_output=True)
    packed, = (tree / "dist").iterdir()
    subprocess.run(["tar", "-xzf", packed, "-C", tmp_path], check=True)
    unpacked, = tmp_path.glob("headscope-*")
    assert {path.name for path in (unpacked / "build").iterdir()} == {"viewer", "viewer_files.c"}
    assert subprocess.run([*make, "-q", "build/viewer_files.c"], cwd=unpacked, check=False).returncode == 0
    (unpacked / "static/index.html").touch()
    assert subprocess.run([*make, "-q", "build/viewer_files.c"], cwd=unpacked, check=False).returncode == 1
