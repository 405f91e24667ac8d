"""Runs every command of README and docs: each block of sh and of python, in order, in a folder like a fresh checkout with a
build. A server listens at the address of `make run`, and a local server stands in for the hub. A block that cannot run
has a comment before it with the reason: <!-- not pasted: it takes a day -->. The output
that a page has behind "It prints" is compared."""
import http.client
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE, Server, unsanitized
from corpus_runs import corpus, ndjson, texts
from hub import Hub

pytestmark = unsanitized
ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"  # its blocks need what those before them have written
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), ROOT / "clients" / "python" / "README.md"]
BLOCK = re.compile(r"(?:<!-- not pasted: ([^\n]+) -->\n)?```(sh|python)\n(.*?)```(?:\n\nIt prints\n\n```text\n(.*?)```)?", re.DOTALL)
HUB_MODEL = "google-bert/bert-base-uncased"
SENTENCE = """# text = The war ended in %d .
1 The the DET DT _ 2 det _ _
2 war war NOUN NN _ 3 nsubj _ _
3 ended end VERB VBD _ 0 root _ _
4 in in ADP IN _ 3 prep _ _
5 %d _ NUM CD _ 4 pobj _ _
6 . . PUNCT . _ 3 punct _ _
"""


def blocks():
    for page in (page for page in PAGES if page != TUTORIAL):
        for number, (reason, language, text, printed) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            name = f"{page.relative_to(ROOT)}:{number}"
            yield pytest.param(language, text, printed, id=name, marks=pytest.mark.skip(reason=reason) if reason else ())


def spans():
    """The text between backticks of each line, with the page that has it."""
    found = {}
    for page in PAGES:
        for span in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
            found.setdefault(span, page)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkout as far as the pages go, and its environment."""
    folder = tmp_path_factory.mktemp("pasted")
    shutil.copytree(ROOT / "clients", folder / "clients")  # pip builds in place
    for name in ("examples", "docs", "tests", "model"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    (folder / "build" / "headscope").symlink_to(Path(HEADSCOPE).resolve())
    (folder / "path" / "to").mkdir(parents=True)
    (folder / "path" / "to" / "checkpoint").symlink_to(ROOT / "model" / "mini")
    ndjson(folder / "texts.jsonl", texts(20))
    (folder / "treebank.conllu").write_text("\n".join(
        re.sub(r"(?m)^\d.*$", lambda row: row[0].replace(" ", "\t"), SENTENCE % (1900 + n, 1900 + n)) for n in range(12)))
    (folder / "ckpt").mkdir()
    for step in ("1000", "8000", "64000"):
        (folder / "ckpt" / step).symlink_to(ROOT / "model" / "mini")
    for seed in ("0", "1", "2"):
        assert corpus(HEADSCOPE, folder / "texts.jsonl", "-o", folder / "seeds" / seed).returncode == 0
    hub = Hub({HUB_MODEL: {file.name: file.read_bytes() for file in (ROOT / "model" / "mini").iterdir()
                           if file.suffix in (".json", ".txt", ".safetensors")}})
    server = Server("--state", str(folder / "state"))
    yield folder, server, {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf"), "HEADSCOPE_LISTEN": "127.0.0.1:0"}
    server.stop()
    hub.close()


def served_by(process):
    """A server that was pasted: what it serves, once it is ready."""
    address = re.fullmatch(r"headscope is ready on http://(\S+)\n", process.stdout.readline().decode())[1]
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)

    def ask(path, body=None):
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    return ask


def run(command, place):
    folder, server, environment = place
    command = command.replace("127.0.0.1:8080", f"{server.host}:{server.port}")
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True,
                          timeout=PATIENCE * 5, check=False)
    assert done.returncode == 0, (command, done.stderr.decode())
    assert b'"status": 4' not in done.stdout and b'"status":4' not in done.stdout, done.stdout  # a problem, which curl thinks fine
    return done.stdout.decode()


def serve(command, place):
    """Runs what does not end, and sees that it shows heads."""
    folder, _, environment = place
    process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=folder, env=environment, stdout=subprocess.PIPE)
    try:
        ask = served_by(process)
        assert ask("/")[0] == 200 and b"<!doctype html" in ask("/")[1].lower()
        status, models = ask("/models")
        assert status == 200
        name = json.loads(models)["models"][0]["name"]
        status, answer = ask("/analyze", {"text": "The old bridge.", "model": name})
        assert status == 200 and json.loads(answer)["attentions"]
        return name
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def pip_works():
    """Returns true if pip can install the client's packages. Debian may lack pip and venv."""
    looked = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "numpy"], capture_output=True, check=False)
    return looked.returncode == 0 and shutil.which("python3") and importlib.util.find_spec("ensurepip") is not None


def run_block(place, language, text, printed):
    if language == "python":
        program = text.replace("127.0.0.1:8080", f"{place[1].host}:{place[1].port}")
        python = place[0] / "venv" / "bin" / "python"  # of the block before; else as if it had been there
        environment = {**place[2], **({} if python.exists() else {"PYTHONPATH": str(ROOT / "clients" / "python")})}
        done = subprocess.run([python if python.exists() else sys.executable, "-c", program], cwd=place[0], env=environment,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not printed or done.stdout == printed
        return
    if "pip install" in text and not pip_works():
        pytest.skip("pip installs nothing here")
    for command in re.split(r"\n(?! )", text.replace("\\\n", " ").replace("|\n", "| ").strip()):
        if " serve " in command + " ":
            serve(command, place)
        elif command.startswith("sqlite3 ") and not shutil.which("sqlite3"):
            pytest.skip("sqlite3 is not installed, so the last command is not run")
        else:
            assert run(command, place) or "-o " in command


@pytest.mark.parametrize(("language", "text", "printed"), blocks())
def test_block(place, language, text, printed):
    run_block(place, language, text, printed)


def test_the_tutorial_from_start_to_end(place):
    found = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    assert len(found) == 5 and not any(reason for reason, *_ in found)
    for _, language, text, printed in found:
        run_block(place, language, text, printed)


def test_nothing_to_a_heatmap_in_three_commands(place):
    """The first builds (make run, make); these are the other two, as README has them."""
    block, = (text for page in PAGES[:1] for _, _, text, _ in BLOCK.findall(page.read_text(encoding="utf-8")) if " pull " in text)
    pull, command = block.strip().split("\n")
    run(pull, place)
    assert serve(command, place) == HUB_MODEL.split("/")[1] or HUB_MODEL in command


def test_the_first_request_prints_a_page(place):
    curl, = (text for _, _, text, _ in BLOCK.findall(PAGES[0].read_text(encoding="utf-8")) if text.startswith("curl"))
    lines = run(curl, place).split("\n")
    assert 10 < len(lines) < 200 and max(map(len, lines)) < 120


@pytest.mark.parametrize("command", sorted(span for span in spans() if re.match(r"build/headscope \w", span)))
def test_command_in_a_line(place, command):
    if " serve " in command and "--help" not in command:
        serve(command, place)
    else:
        assert run(command, place)


def test_names_in_lines_are_there(place):
    """Commands, options, make's targets."""
    manual = subprocess.run([HEADSCOPE, "help", "--man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
    makefiles = "".join((ROOT / name).read_text() for name in ("Makefile", "tests/tests.mk", "tests/checks.mk", "deploy/packages.mk"))
    targets = set(re.findall(r"^(?:\.PHONY: )?([\w -]+?):?(?= |:|$)", makefiles, re.MULTILINE))
    wrong = []
    for span, page in spans().items():
        of_users = page.name == "README.md" or page.parent.name == "guide"
        if of_users and (option := re.match(r"(--[a-z-]+)", span)) and f"{option[1]}\\fR" not in manual:
            wrong.append((page.name, span))
        if (command := re.match(r"(?:build/)?headscope (\w+)", span)) and f"headscope {command[1]} " not in manual + "headscope help headscope version ":
            wrong.append((page.name, span))
        if re.match(r"make [a-z0-9-]+", span):
            for target in re.findall(r" ([a-z0-9-]+)\b(?![=/])", span):
                if not any(target in line.split() for line in targets):
                    wrong.append((page.name, span))
    assert not wrong
