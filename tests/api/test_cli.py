"""The command line: usage, exit codes, environment, analyze."""
import io
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import pytest
from conftest import HEADSCOPE, MINI, PATIENCE, SANITIZER, failing, unsanitized

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import family_t5  # noqa: E402


def headscope(*arguments, text=None, environment=None):
    done = subprocess.run([HEADSCOPE, *arguments], input=text, capture_output=True,
                          env={**os.environ, **(environment or {})}, check=False, timeout=PATIENCE)
    assert not SANITIZER.search(done.stderr.decode(errors="replace")), done.stderr.decode()
    return done


def test_a_closed_output_is_an_error():
    """The answer must not go into a file that was given the number of standard output."""
    done = subprocess.run(["sh", "-c", 'exec "$0" analyze - >&-', HEADSCOPE], input=b"a text\n", capture_output=True,
                          check=False, timeout=PATIENCE)
    assert done.returncode == 1 and b"Bad file descriptor" in done.stderr


def test_errors_cannot_draw_on_the_terminal(tmp_path):
    """Bad records are quoted: their bytes must not move the cursor or begin lines of their own."""
    done = headscope("corpus", "-", "-o", str(tmp_path / "out"), "--input-format", "jsonl", "--field", "t\n\x1b[31m",
                     text=b'{"a": 1}\n')
    assert done.returncode == 1 and b"\x1b" not in done.stderr and rb"\u000a\u001b[31m" in done.stderr


def test_a_list_of_strings_may_be_json():
    done = headscope("analyze", "--words", '["a", ",", "b"]', "--outputs", "summary", "--format", "json")
    assert json.loads(done.stdout)["tokens"] == ["[CLS]", "a", ",", "b", "[SEP]"]
    assert json.loads(headscope("analyze", "--words", "a,b", "--format", "json").stdout)["tokens"][1:3] == ["a", "b"]
    done = headscope("analyze", "--words", '["a", 3]')
    assert done.returncode == 2 and b"--words" in done.stderr
    done = headscope("analyze", "--words", '["a"')
    assert done.returncode == 2 and b"expected JSON" in done.stderr


OPTIONS = Path(__file__).parents[2] / "docs/reference/options.md"
COMMANDS = ["serve", "view", "analyze", "corpus", "study", "merge", "report", "pull", "models", "scores", "search", "bench"]


def test_help_lists_the_commands():
    done = headscope("--help")
    assert done.returncode == 0 and done.stderr == b""
    for command in COMMANDS:
        assert f"  {command} ".encode() in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    done = headscope(command, "--help")
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout.startswith(f"usage: headscope {command} ".encode())
    assert max(len(line) for line in done.stdout.decode().splitlines()) <= 120


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_lists_every_option(command):
    parts = dict(re.findall(r"^## headscope (\w+)\n(.*?)(?=^## |\Z)", OPTIONS.read_text(encoding="utf-8"), re.M | re.S))
    documented = parts[command] + parts.get({"plot": "analyze", "view": "serve", "study": "corpus"}.get(command), "")
    for option in re.findall(r"^ {2,6}(?:-\w, )?(--[\w-]+)", headscope(command, "--help").stdout.decode(), re.M):
        assert option == "--help" or re.search(rf"{option}[ `]", documented), option


@pytest.mark.parametrize("command", COMMANDS)
def test_help_by_every_name(command):
    pages = {headscope(*arguments).stdout for arguments in ((command, "--help"), (command, "-h"), ("help", command))}
    assert len(pages) == 1
    assert {headscope(name).stdout for name in ("help", "-h", "--help")} == {headscope("--help").stdout}
    assert headscope("help", "help").stdout == headscope("help", "version").stdout == headscope("--help").stdout


@pytest.mark.parametrize("name", ["version", "--version", "-V"])
def test_version(name):
    done = headscope(name)
    assert done.returncode == 0 and re.match(rb"headscope [0-9.]+( and later changes, commit [0-9a-f]{12})?\n", done.stdout)
    assert b"compiler" in done.stdout and re.search(rb"products  native \((avx512|avx2|base|neon)(, int24 by amx)?(, bf16 by \w+)?(, int8 by \w+)?\), cblas \(OpenBLAS [0-9.]+\S*, \w+\)", done.stdout)


def products(**environment):
    """(native kernels, OpenBLAS's kernels) as `version` names them."""
    done = subprocess.run([HEADSCOPE, "version"], env={**os.environ, "OPENBLAS_CORETYPE": "", **environment}, capture_output=True,
                          text=True, check=True, timeout=PATIENCE)
    return re.search(r"native \((\w+)[^)]*\), cblas \(OpenBLAS \S+, (\w+)\)", done.stdout).groups()


def test_openblas_takes_kernels_of_the_same_instructions():
    """Versions older than a CPU would take their oldest kernels."""
    cores = {"avx512": "SkylakeX", "avx2": "Haswell"}
    best, core = products()
    assert core == cores.get(best, core)
    if best == "avx512":
        assert products(HEADSCOPE_KERNELS="avx2") == ("avx2", "Haswell")
    if best in cores:
        assert products(OPENBLAS_CORETYPE="Prescott") == (best, "Prescott"), "the user's choice stays"


def test_version_without_kernels():
    assert products(HEADSCOPE_KERNELS="sse9")[0] == "none"


@pytest.mark.parametrize("arguments,says", [
    (["serv"], b"did you mean serve?"), (["anlyze"], b"did you mean analyze?"), (["hlep"], b"did you mean help?"),
    (["serve", "--quue", "3"], b"did you mean --queue?"), (["analyze", "--max-token5=3"], b"did you mean --max-tokens?"),
    (["help", "modles"], b"did you mean models?"), (["serve", "--queue"], b"--queue needs a value"),
    (["serve", "--port", "8080"], b"no option '--port'; did you mean --listen?"), (["list"], b"did you mean models?"),
    (["analyze", "--dtyp", "f2"], b"did you mean --dtype?"), (["bench", "--threads", "2"], b"did you mean --cores?"),
    (["analyze", "--text", "A text."], b"no option '--text'; give the text itself, a file's name, or '-' for standard input"),
    (["corpus", "--file", "x"], b"no option '--file'; name the FILEs"), (["models", "--dir", "x"], b"name folders without"),
    (["pull", "--revision", "main", "a/b"], b"ORG/NAME@REVISION"), (["serve", "-zz"], b"there is no option '-z'"),
    (["analyze", "--split-special-tokens=1"], b"--split-special-tokens takes no value"), (["analyze", "-o"], b"-o needs a value"),
])
def test_typos_are_answered_with_what_was_meant(arguments, says):
    done = headscope(*arguments)
    assert done.returncode == 2 and says in done.stderr


@pytest.mark.parametrize("arguments", [
    ["analyze", "--sim", "head"], ["analyze", "--max-t", "9"], ["serve", "--listen-", "x"], ["serve", "--hel"],
    ["corpus", "--res", "-o", "x", "x"], ["serve", "--mode=mini"]])
def test_abbreviated_options_are_refused(arguments):
    done = headscope(*arguments, text=b"a")
    assert done.returncode == 2 and b"there is no" in done.stderr and b"did you mean" in done.stderr


@pytest.mark.parametrize("arguments,says", [
    (["analyze", "-o", "x.gif"], b".json, .npz, .safetensors, .svg, .pdf, .png or .csv"), (["analyze", "-o", "x.parquet"], b"'x.parquet'"),
    (["analyze", "-o", "x.NPZ"], b"--format"), (["corpus", "-o", "x", "--pairs", "x.parquet", "y"], b".sqlite"),
    (["report", "-o", "x.pdf", "y"], b".html")])
def test_files_of_a_format_that_there_is_not(tmp_path, arguments, says):
    done = subprocess.run([os.path.abspath(HEADSCOPE), *arguments], input=b"a", cwd=tmp_path, capture_output=True,
                          check=False, timeout=PATIENCE)
    assert done.returncode == 2 and says in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name, format", [("x", None), ("x.json", None), (".x", None), ("y.z/x", None), ("x.bin", "npz")])
def test_files_whose_format_is_known(tmp_path, name, format):
    (tmp_path / "y.z").mkdir()
    done = headscope("analyze", "-o", str(tmp_path / name), *(["--format", format] if format else []), text=b"a")
    assert done.returncode == 0 and (tmp_path / name).read_bytes()[:1] == (b"P" if format else b"{")


@pytest.mark.parametrize("arguments, says", [
    (["--layers", "0,99"], "--layers is 99; it must be a layer of the model: 0 to 11, or -12 to -1 from the end"),
    (["--max-tokens", "9999"], "--max-tokens is 9999; it must be an integer from 2 to 512"),
    (["--interventions", '[{"kind": "zero", "layers": [99], "heads": [1]}]'], "--interventions 0/layers/0 is 99; it must be"),
    (["--predictions", '{"x": 1}'], "--predictions: unknown member 'x'; allowed: positions"),
    (["--interventions", '[{"kind": "zero", "head": 1}]'], "--interventions: unknown member 'head'; allowed: stack, layers, heads"),
    (["--outputs", "scores_c2p"], "--outputs: the scores of mini have no term scores_c2p"),
])
def test_refused_values_are_named_once_and_by_their_option(arguments, says):
    done = headscope("analyze", *arguments, text=b"a")
    assert done.returncode == 2 and done.stderr.decode().startswith(f"headscope analyze: {says}")


def test_an_argument_is_a_file_or_the_text_itself(tmp_path):
    """One rule for analyze and plot."""
    file = tmp_path / "text"
    file.write_text("The war.\n", encoding="utf-8")
    answers = [json.loads(headscope("analyze", *arguments, "--outputs", "summary", text=text).stdout)
               for arguments, text in (([file], b""), (["The war."], b""), (["-"], b"The war."), ([], b"The war."))]
    for answer in answers:
        assert answer["tokens"][1:-1] == ["the", "war", "."] and answer["summary"] == answers[0]["summary"]
    figures = {headscope("plot", *arguments, text=text).stdout
               for arguments, text in (([file], b""), (["The war."], b""), (["-"], b"The war."))}
    assert len(figures) == 1
    for command in ("analyze", "plot"):
        for name in (tmp_path / "none", "none.txt"):
            done = headscope(command, name)
            assert done.returncode == 1 and b"if that is the text itself, pipe it, with - in its place" in done.stderr, name
        assert headscope(command, "war", text=b"").returncode == 0
        assert b"Is a directory" in headscope(command, tmp_path).stderr


@pytest.mark.parametrize("arguments, says", [
    (["scores", "--top", "3", "--format", "csv"], "--top is of the table; leave it out with --format csv"),
    (["corpus", "-o", "x", "--csv-safe", "y"], "--csv-safe is of CSV; add --pairs with a FILE that ends in .csv"),
    (["corpus", "-o", "x", "--csv-safe", "--pairs", "x.db", "y"], "--csv-safe is of CSV"),
    (["corpus", "-o", "x", "--pairs", "x.csv", "--pairs-seed", "3", "y"], "--pairs-seed is of --pairs-sample"),
    (["help", "serve", "extra"], "there is nothing to do with 'extra'"),
    (["--help", "--man", "extra"], "there is nothing to do with 'extra'"),
    (["version", "extra"], "there is nothing to do with 'extra'"),
    (["analyze", "--dtype", "f2"], "--dtype is of binary arrays; add --format npz"),
    (["analyze", "--names", "hooks", "-o", "x.svg"], "--names is of binary arrays; add --format npz"),
    (["analyze", "--outputs", "pairs", "-o", "x.pdf"], "--outputs is of arrays, and pdf has a figure or its numbers: leave it out"),
    (["analyze", "--figure", '{"kind": "none"}', "--format", "svg"], '--figure kind is "none"; it must be one of "head"'),
    (["plot", "a", "--kind", "none"], '--kind is "none"; it must be one of "head"'),
])
def test_what_would_have_no_effect_is_refused(tmp_path, arguments, says):
    done = subprocess.run([os.path.abspath(HEADSCOPE), *arguments], input=b"a", cwd=tmp_path, capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2 and done.stdout == b"" and says in done.stderr.decode() and not list(tmp_path.iterdir()), done.stderr


def test_folders_and_files_in_the_wrong_place_are_named(tmp_path):
    (tmp_path / "file").write_text("a")
    for arguments, says in ((["search", "file", "--head", "0.0"], "'file' is no folder; name the folder of a run"),
                            (["report", "file"], "'file' is no folder; name the folder of a run"),
                            (["merge", "file", "-o", "out"], "'file' is no folder; name the folder of a run"),
                            (["view", "."], ". is a folder; name one file of arrays, .npz or .safetensors")):
        done = subprocess.run([os.path.abspath(HEADSCOPE), *arguments], cwd=tmp_path, capture_output=True, check=False, timeout=PATIENCE)
        assert done.returncode == 1 and done.stdout == b"" and says in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("interventions, says", [
    ('[{"kind": "zero", "layers": [99]}]', "--interventions 0/layers/0 is 99; it must be a layer of the model"),
    ("{}", "--interventions is an object; it must be"), ("nonsense", '--interventions is "nonsense"; expected JSON: '),
    ('[{"kind": "zero", "factor": 2}]', "--interventions 0/factor: only scale and the intervention add take a factor")])
def test_a_corpus_names_wrong_interventions_once(tmp_path, interventions, says):
    (tmp_path / "changes.json").write_text(interventions)
    (tmp_path / "texts").write_text("A cat.\n")
    done = headscope("corpus", "-o", str(tmp_path / "run"), "--interventions", str(tmp_path / "changes.json"),
                     str(tmp_path / "texts"))
    assert done.returncode == 1 and done.stderr.decode().startswith(f"headscope corpus: {says}")


def test_advice_is_of_the_command_line(tmp_path):
    """Runs beside a server, which names its own requests."""
    folder = checkpoint.write_random(tmp_path / "bert")
    done = headscope("analyze", "--model", str(folder), "--predictions", "{}", text=b"a")
    assert done.returncode == 2 and b"'headscope models [DIR...]' shows" in done.stderr and b"GET" not in done.stderr
    done = headscope("analyze", "--figure", "{}", text=b"a")
    assert done.returncode == 2 and b"svg" in done.stderr and b"?" not in done.stderr


def model_name(*arguments):
    done = headscope("analyze", "--format", "json", "--outputs", "summary", *arguments, text=b"a")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)["model"]


def test_a_model_has_the_same_name_in_every_command(tmp_path, start_server, monkeypatch):
    folder = checkpoint.write_random(tmp_path / "bert-small")
    inside = shutil.copytree(folder, tmp_path / "run-7" / "model")
    hub = tmp_path / "models--org--some--bert" / "snapshots"
    snapshot = shutil.copytree(folder, hub / ("0123456789" * 4))
    odd = shutil.copytree(folder, tmp_path / "rate=3")
    names = {f"mine={folder}": "mine", str(folder): "bert-small", f"{folder}//": "bert-small", str(inside): "run-7",
             str(snapshot): "bert", str(odd): "rate=3", f"{inside}/../model": "run-7", "mini": "mini", "own=mini": "own"}
    server = start_server(*(part for value in names for part in ("--model", value) if value in
                            (f"mine={folder}", str(folder), str(inside), str(snapshot), str(odd), "mini", "own=mini")))
    assert {model["name"] for model in server.get("/models").json()["models"]} == set(names.values())
    for value, name in names.items():
        assert model_name("--model", value) == name
        for arguments in (["--model", value], [value]):
            assert headscope("models", *arguments).stdout.decode().split("\n")[1].split()[0] == name
    monkeypatch.chdir(inside)
    assert model_name("--model", ".") == "run-7" and model_name("--model", "../model/") == "run-7"


def test_a_corpus_report_names_the_model_as_it_was_given(tmp_path):
    folder = shutil.copytree(MINI, tmp_path / "model")
    (tmp_path / "texts").write_text("A cat.\nA dog.\n")
    for value, name in ((f"mine={folder}", "mine"), (str(folder), tmp_path.name)):
        done = headscope("corpus", "--layers", "last", "--model", value, "-o", str(tmp_path / name), str(tmp_path / "texts"))
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads((tmp_path / name / "report.json").read_text())["provenance"]["model"]["name"] == name
        assert f"model={name}" in (tmp_path / name / "report.html").read_text()


@pytest.mark.parametrize("arguments", [
    ["analyze", "--threads", "2"], ["plot", "--cores", "2"], ["report", "--memory", "1G"], ["analyze", "--token", "a"]])
def test_a_known_word_is_no_misspelling(arguments):
    """--threads is not --heads: what other programs call so, this command does not have."""
    done = headscope(*arguments)
    assert done.returncode == 2 and b"there is no option" in done.stderr and b"did you mean" not in done.stderr


def test_nothing_is_suggested_for_nonsense():
    assert b"did you mean" not in headscope("zzzzzzzz").stderr + headscope("serve", "--xyzzy-foo-bar").stderr


def test_install(tmp_path):
    """Program, manual page and completion, each of which knows every command and option."""
    (tmp_path / "bin").mkdir()
    page = headscope("help", "--man").stdout.decode()
    completion = headscope("help", "--completion").stdout.decode()
    assert page.startswith(".TH HEADSCOPE 1")
    for command in COMMANDS:
        assert f".SS headscope {command} " in page and f"    {command})" in completion
        for line in headscope(command, "--help").stdout.decode().splitlines():
            for option in re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", line):
                assert option in completion
                assert option.replace("-", "\\-") in page or option == "--help"
    script = completion + """
COMP_WORDS=(headscope serve --log ""); COMP_CWORD=3; _headscope; echo "${COMPREPLY[*]}"
COMP_WORDS=(headscope ser); COMP_CWORD=1; _headscope; echo "${COMPREPLY[*]}"
COMP_WORDS=(headscope analyze --max-t); COMP_CWORD=2; _headscope; echo "${COMPREPLY[*]}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["text json", "serve", "--max-tokens"] and not done.stderr


def on_a_terminal(*arguments, stdin=subprocess.DEVNULL):
    """Runs the command with a terminal as standard output and standard error. A shell marks the end of its output: on a busy
    machine a terminal that nobody holds open any more may drop what was not read yet."""
    ours, theirs = pty.openpty()
    script = '"$@"; code=$?; printf "\\000"; exit $code'
    process = subprocess.Popen(["sh", "-c", script, "sh", HEADSCOPE, *arguments], stdin=stdin, stdout=theirs, stderr=theirs)
    shown = b""
    while not shown.endswith(b"\0"):
        shown += os.read(ours, 65536)
    os.close(theirs)
    os.close(ours)
    return process.wait(), shown[:-1].decode()


def test_the_page_shows_the_requested_outputs(tmp_path):
    text = tmp_path / "text"
    text.write_text("He was born in [MASK] York.")
    code, shown = on_a_terminal("analyze", str(text), "--layers", "0,1", "--heads", "2,3")
    assert code == 0 and "Attention of layer 0, mean of heads 2 and 3." in shown
    assert "Attention of layer 1, mean of heads 2 and 3." in shown and "of the 4 heads of layers 0 and 1" in shown
    assert "redicted" not in shown and "interventions" not in shown
    code, shown = on_a_terminal("analyze", str(text), "--heads", "5")
    assert "Attention of layer 11, head 5." in shown and "tokens in layer 11, head 5" in shown
    assert "mean" not in shown and "1 heads" not in shown
    code, shown = on_a_terminal("analyze", str(text), "--predictions", "{}")
    predicted = json.loads(headscope("analyze", "--predictions", "{}", str(text)).stdout)["predictions"][0]
    assert re.search(f"{predicted['position']} \\[MASK\\] +\"{predicted['top'][0]['token']}\" {predicted['top'][0]['probability']:.3f}", shown)
    code, shown = on_a_terminal("analyze", str(text), "--predictions", '{"lens": true}')
    assert len(re.findall("(?:embeddings|after layer [0-9]+) +\"", shown)) == 13
    code, shown = on_a_terminal("analyze", os.devnull, "--predictions", "{}")
    assert code == 0 and "no mask token" in shown
    code, shown = on_a_terminal("analyze", str(text), "--interventions", '[{"kind":"zero","layers":[0],"heads":[1]}]')
    assert "is changed (--interventions)" in shown and '{"kind":"zero","layers":[0],"heads":[1]}' in shown


def test_analyze_on_a_terminal_prints_a_page(tmp_path):
    text = tmp_path / "text"
    text.write_text("The old bridge was closed after the war. The war had damaged the bridge.\x1b[2J")
    code, shown = on_a_terminal("analyze", str(text))
    assert code == 0 and "tokens" in shown and "[CLS] the old bridge" in shown
    profiles = json.loads(headscope("analyze", str(text), "--layers", "all", "--outputs", "profiles").stdout)["profiles"]
    share, layer, head = max((profile[name], l, h) for l, heads in enumerate(profiles) for h, profile in enumerate(heads)
                             for name in ("previous", "next", "same_token", "punctuation"))
    assert f"Layer {layer}, head {head} gives {100 * share:.0f} % of its attention to the token" in shown
    assert "the clearest of 144 heads" in shown and f"Attention of layer {layer}, head {head}." in shown
    assert "\x1b" not in shown and max(len(line) for line in shown.splitlines()[3:]) < 120
    code, centred = on_a_terminal("analyze", str(text), "--center", "text")
    assert code == 0 and "centred outputs (--center text)" in centred and "centred" not in shown
    assert centred.partition("Pairs of similar")[2] != shown.partition("Pairs of similar")[2]
    code, shown = on_a_terminal("analyze", os.devnull)
    assert code == 0 and "2 tokens" in shown and "none" in shown
    code, shown = on_a_terminal("analyze", str(text), "--format", "json", "--outputs", "pairs")
    assert code == 0 and json.loads(shown)["pairs_total"] > 0


def test_readme_shows_the_page():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    command, page = re.search(r'`build/headscope (analyze [^`]+)`.*?```text\n(.*?)```', readme, re.DOTALL).groups()
    code, shown = on_a_terminal(*shlex.split(command))
    lines = shown.replace("\r\n", "\n").splitlines()
    assert code == 0 and [line for line in page.splitlines() if line not in lines] == []


def test_what_the_page_leaves_out(tmp_path):
    text = tmp_path / "text"
    text.write_text("characteristics of electromagnetic")  # tokens that are longer than their column
    code, shown = on_a_terminal("analyze", str(text))
    rows = re.findall(r"^(\S+) *\|", shown, re.M)
    assert code == 0 and "characteristic" in rows and "electromagneti" in rows
    text.write_text("war")
    code, shown = on_a_terminal("analyze", str(text))
    assert code == 0 and "[CLS] war [SEP]" in shown and "  none\r\n" in shown  # special tokens have no pairs
    code, shown = on_a_terminal("analyze", str(text), "--outputs", "pairs")
    assert code == 0 and json.loads(shown)["pairs"] is not None  # for programs
    code, shown = on_a_terminal("analyze", str(text), "--outputs", "effects", "--target", '{"probability": "war", "position": 1}', "-o", str(tmp_path / "x.json"))
    assert code == 0 and shown.endswith("\reffects of 12 heads\r")
    for option in (["--format", "npz"], ["--format", "safetensors"], ["--format", "pdf"]):
        code, shown = on_a_terminal("analyze", str(text), *option)
        assert code == 2 and "this format is not for a terminal: name a file with -o FILE" in shown


def test_a_corpus_run_on_a_terminal_shows_a_bar(tmp_path):
    texts = tmp_path / "in.jsonl"
    texts.write_text('{"text": "The war."}\nno JSON\n{"text": ""}\n{"text": "A bridge."}\n')
    options = ("--layers", "0", "--max-tokens", "16")
    code, shown = on_a_terminal("corpus", str(texts), "-o", str(tmp_path / "out"), *options)
    last = re.findall(r"\r\[([# ]+)\] +(\d+) % +(\d+) texts, [\d.]+/s(.*?)\x1b\[K", shown)[-1]
    assert code == 0 and set(last[0]) == {"#"} and last[1:3] == ("100", "2") and last[3].endswith(", 1 bad lines, 1 empty")
    assert "\x1b[K\r\n" in shown  # what follows begins a line of its own
    read, write = os.pipe()  # its length is not known
    os.write(write, b"The war.\nA bridge.\n")
    os.close(write)
    code, shown = on_a_terminal("corpus", "-", "-o", str(tmp_path / "again"), *options, stdin=read)
    os.close(read)
    assert code == 0 and re.search(r"\r2 texts, [\d.]+/s\x1b\[K", shown) and "[#" not in shown


def test_the_page_of_cross_heads_has_tokens_of_both_texts(tmp_path):
    folder = family_t5.write_random(tmp_path / "t5", seed=3, decoder=True)
    text = tmp_path / "text"
    text.write_text("the war of the city was at the airport . " * 6)  # more tokens than the page has columns
    options = ("analyze", str(text), "--model", f"t5={folder}", "--text-target", "police were long", "--stack")
    answer = json.loads(headscope(*options, "cross", "--heads", "1", "--outputs", "attentions").stdout)
    rows, columns, (((*maps,),),) = answer["tokens"], answer["source_tokens"], answer["attentions"]
    assert len(columns) > 48 > len(rows)
    code, shown = on_a_terminal(*options, "cross", "--heads", "1", "--predictions", "{}")
    assert code == 0 and f"t5, cross heads: {len(columns)} tokens of the text, {len(rows)} of the target" in shown
    assert "Text:   " + " ".join(columns) in shown and "Target: " + " ".join(rows) in shown
    drawn = re.findall(r"^(\S+) +\|(.*)\| (\S+) +(\d+)  (0\.\d\d)\r$", shown, re.M)
    best = [max(range(len(columns)), key=row.__getitem__) for row in maps]
    assert [(token, int(at)) for token, _, _, at, _ in drawn] == list(zip(rows, best))
    assert all(len(cells) == 2 * 48 and token == columns[int(at)] for _, cells, token, at, _ in drawn)
    assert "Only the first tokens are shown." in shown and "next token after each" in shown
    code, shown = on_a_terminal(*options[:-3], "--stack", "decoder", "--max-new-tokens", "3")
    assert code == 0 and "t5, decoder heads" in shown and "written by the model" in shown and "strongest column" not in shown


@pytest.mark.parametrize("arguments", [
    [], ["nonsense"], ["--nonsense"], ["serve", "--nonsense"], ["serve", "extra"], ["serve", "--queue"],
    ["serve", "--queue", "many"], ["serve", "--queue", "-1"], ["serve", "--queue", "1.5"], ["serve", "--queue", ""],
    ["serve", "--workers", "0"], ["serve", "--deadline", "nan"], ["serve", "--max-body", "1X"],
    ["serve", "--max-body", "1MM"], ["serve", "--log", "xml"], ["serve", "--log", "t"], ["serve", "--log", ""],
    ["serve", "--model", "=dir"], ["serve", "--model", "name="],
    ["serve", "--model", "mini,"], ["serve", "--backend", "magic"], ["serve", "--backend", "onednn"],
    ["serve", "--precision", "half"], ["analyze", "--layers", "first"], ["analyze", "--layers", "1,"], ["analyze", "--heads", "1;2"],
    ["analyze", "--names", "hooks"], ["analyze", "--digits", "six"], ["analyze", "--format", "xml"], ["analyze", "one", "two"],
    ["analyze", "--words", '["a"]', "one"], ["analyze", "--input-ids", "[2, 3]", "-"],
    ["scores", "mini", "extra"], ["scores", "--model", "mini", "mini"], ["scores", "--length", "256"], ["scores", "--length", "1"],
    ["bench", "extra"], ["bench", "--cores", "0"], ["search", "--head", "0.0", "--by", "self", "--from", "pos=NOUN", "run"],
    ["plot", "--normalize", "max", "a"], ["plot", "--special-tokens", "mask", "a"],
])
def test_usage_errors(arguments):
    done = headscope(*arguments, text=b"")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"--help" in done.stderr


@pytest.mark.parametrize("arguments, says", [
    (["corpus", "texts"], "no output folder; name one with -o DIR"), (["corpus", "-o", "out"], "no input; name files"),
    (["corpus", "-o", "", "texts"], "expected a value, not an empty one"),
    (["corpus", "-o", "out", *["texts"] * 4097], "at most 4096 files"),
    (["merge", "run"], "no output folder; name one with -o DIR"), (["merge", "-o", "out"], "no shards; name their folders"),
    (["serve", "--help=html"], "--help has the forms man and bash"),
    (["pull"], "name one model, as in google-bert/bert-base-uncased"), (["pull", "a/b", "c/d"], "name one model"),
    (["search", "--head=0.0"], "name the folder of one run"), (["search", "--head=0", "run"], "--head must be a layer and a head"),
    (["search", "--head=00000000000000000000.1", "run"], "--head must be a layer and a head"),
    (["serve", "--root-path", "/a/../b"], "no dot behind a slash"),
])
def test_usage_errors_say_what_is_missing(arguments, says):
    done = headscope(*arguments, text=b"")
    assert done.returncode == 2 and done.stdout == b"" and says in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("shard", ["1", "4/4", "0/0", "a/4", "0/4x"])
def test_a_shard_that_is_none(tmp_path, shard):
    done = headscope("corpus", str(Path(__file__)), "-o", str(tmp_path / "run"), "--shard", shard, text=b"")
    says = "are numbered from 0 to N - 1" if re.fullmatch("[0-9]/[0-9]", shard) else f"--shard '{shard}': expected I/N, as in 0/4"
    assert done.returncode == 1 and says in done.stderr.decode(), done.stderr


def on_a_small_disk(folder, size, *arguments):
    """Runs headscope where the folder is a disk of this size; skips where an own mount is not permitted."""
    inside = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size={size} none "$0" && exec "$@"', str(folder)]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs unshare -rm and mount")
    return subprocess.run([*inside, HEADSCOPE, *arguments], capture_output=True, check=False, text=True)


def test_a_run_that_does_not_fit_on_its_disk_does_not_begin(tmp_path):
    (tmp_path / "disk").mkdir()
    done = on_a_small_disk(tmp_path / "disk", "1M", "corpus", __file__, "-o", tmp_path / "disk" / "run")
    assert done.returncode == 1 and re.search(r"the run needs \d+ MB in '.*/run'; [01] MB are free", done.stderr), done.stderr


def test_pairs_that_will_not_fit_on_their_disk_end_the_run_early(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "texts").write_text("The cat sat.\n" * 20000)
    done = on_a_small_disk(tmp_path / "disk", "1M", "corpus", tmp_path / "texts", "-o", tmp_path / "run", "--layers", "0",
                           "--pairs", tmp_path / "disk" / "pairs.csv", "--pairs-strongest", "1", "--workers", "1")
    assert done.returncode == 1 and re.search(r"--pairs: '.*' would take about \d+ MB; [01] MB are free", done.stderr), done.stderr
    assert "Choose fewer pairs with --pairs-strongest" in done.stderr


def test_a_folder_is_no_input(tmp_path):
    done = headscope("corpus", str(tmp_path), "-o", str(tmp_path / "run"), text=b"")
    assert done.returncode == 1 and f"'{tmp_path}' is a folder: name the files in it" in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("arguments,says", [
    (["serve", "--listen", "nowhere"], b"HOST:PORT"),
    (["serve", "--listen", "::1:80"], b"HOST:PORT"),
    (["serve", "--listen", "127.0.0.1:65536"], b"HOST:PORT"),
    (["serve", "--listen", "[::g]:80"], b"--listen '[::g]:80': "),
    (["serve", "--listen", "127.0.0.1:0", "--model", "x=/nonexistent"], b"/nonexistent"),
    (["serve", "--listen", "127.0.0.1:0", "--token-file", "/nonexistent"], b"/nonexistent"),
    (["serve", "--listen", "127.0.0.1:0", "--token-file", "/dev/null"], b"no token"),
    (["analyze", "/nonexistent"], b"/nonexistent"),
    (["analyze", "cat.txt"], b"pipe it, with - in its place"),
    (["analyze", "/"], b"'/'"),
    (["analyze", "--model", "/nonexistent"], b"/nonexistent"),
    (["analyze", "-o", "/nonexistent/file"], b"/nonexistent/file"),
    (["models", "--model", "x=/nonexistent"], b"/nonexistent"),
    (["models", "/nonexistent"], b"/nonexistent"),
    (["serve", "--listen", "127.0.0.1:0", "--model", "noname"], b"there is no folder 'noname'"),
    (["serve", "--listen", "127.0.0.1:0", "--model", f"x={MINI}", "--model", f"x={MINI}"], b"two models are named 'x': give one another name"),
    (["models", "--model", "x"], b"there is no folder 'x'"),

])
def test_failures_say_what_failed(arguments, says):
    done = headscope(*arguments, text=b"some text")
    assert done.returncode == 1
    assert says in done.stderr


def test_port_in_use(server):
    done = headscope("serve", "--listen", f"127.0.0.1:{server.port}")
    assert done.returncode == 1
    assert b"another port" in done.stderr


def test_too_many_connections_for_the_system():
    done = subprocess.run(["sh", "-c", f"ulimit -n 256; exec {HEADSCOPE} serve --listen 127.0.0.1:0 "
                           "--connections 500"], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"--connections" in done.stderr


def test_as_many_connections_as_the_system_allows():
    server = subprocess.Popen(["sh", "-c", f"ulimit -n 256; exec {HEADSCOPE} serve --listen 127.0.0.1:0 --log json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert server.stdout.readline().startswith(b"headscope is ready")
    server.terminate()
    started = next(line for line in map(json.loads, server.communicate()[1].splitlines()) if "connections" in line)
    assert 1 <= int(started["connections"]) < 256


def test_options_from_the_environment(start_server):
    server = start_server(environment={"HEADSCOPE_MAX_BODY": "100", "HEADSCOPE_LOG": "json",
                                       "HEADSCOPE_MODEL": "mini", "HEADSCOPE_QUEUE": "7"})
    assert server.post("/analyze", {"text": 200 * "a"}).status == 413
    assert server.metric("queue_limit") == 7
    assert server.stop() == 0
    assert 413 in [json.loads(line).get("status") for line in server.log().splitlines()]


def test_command_line_wins_over_the_environment(start_server):
    server = start_server("--queue", "5", environment={"HEADSCOPE_QUEUE": "7"})
    assert server.metric("queue_limit") == 5


def test_wrong_environment():
    done = headscope("serve", environment={"HEADSCOPE_QUEUE": "many"})
    assert done.returncode == 2
    assert b"HEADSCOPE_QUEUE" in done.stderr


@pytest.mark.parametrize("command", ["analyze", "plot", "corpus", "models", "scores", "bench", "serve", "view"])
def test_every_command_takes_its_model_from_the_environment(command, tmp_path):
    """None computes with another model than the one that is named."""
    (tmp_path / "in").write_text("a text\n")
    numpy.savez(tmp_path / "in.npz", attentions=numpy.full((1, 1, 2, 2), 0.5), tokens=numpy.array(["a", "b"]))
    operands = {"corpus": [tmp_path / "in", "-o", tmp_path / "out"], "analyze": [tmp_path / "in"], "plot": ["a text"],
                "view": [tmp_path / "in.npz"]}
    done = headscope(command, *operands.get(command, ()), environment={"HEADSCOPE_MODEL": "/no/such"})
    assert done.returncode == 1 and b"/no/such" in done.stderr and not (tmp_path / "out").exists()


def test_options_of_commands_from_the_environment(tmp_path):
    (tmp_path / "in").write_text("a text of words\n")
    answer = headscope("analyze", tmp_path / "in", environment={"HEADSCOPE_MAX_TOKENS": "4", "HEADSCOPE_LAYERS": "all",
                                                                "HEADSCOPE_SPLIT_SPECIAL_TOKENS": "no"})
    assert len(json.loads(answer.stdout)["tokens"]) == 4 and not answer.stderr
    assert len(json.loads(answer.stdout)["layers"]) == 12
    answer = headscope("analyze", tmp_path / "in", "--max-tokens", "5", environment={"HEADSCOPE_MAX_TOKENS": "4"})
    assert len(json.loads(answer.stdout)["tokens"]) == 5
    done = headscope("corpus", tmp_path / "in", "-o", tmp_path / "out", environment={"HEADSCOPE_RESTART": "1", "HEADSCOPE_RESUME": "1"})
    assert done.returncode == 2 and b"--resume continues a run and --restart begins it anew" in done.stderr
    done = headscope("corpus", tmp_path / "in", "-o", tmp_path / "out", environment={"HEADSCOPE_STRICT": "perhaps"})
    assert done.returncode == 2 and b"HEADSCOPE_STRICT='perhaps': expected 1, true, yes or on" in done.stderr


@pytest.mark.parametrize("command", ["models", "scores"])
def test_an_operand_wins_over_the_environment(command):
    environment = {"HEADSCOPE_MODEL": "/no/such", "HEADSCOPE_TOKENIZER": "/no/such/either"}
    for words in ((MINI,), ("--model", MINI)):
        assert headscope(command, *words, environment=environment).returncode == 0
    assert b"/no/such" in headscope(command, environment=environment).stderr


def test_variables_that_are_no_options_are_warned_of(tmp_path):
    (tmp_path / "in").write_text("a text\n")
    done = headscope("corpus", tmp_path / "in", "-o", tmp_path / "out", environment={
        "HEADSCOPE_MODLE": "bert", "HEADSCOPE_THRESHOLD": "0.5", "HEADSCOPE_\x1b[2J": "x", "HEADSCOPE_LISTEN": "127.0.0.1:0",
        "HEADSCOPE_KERNELS": "base", "HEADSCOPE": "x"})
    lines = [line for line in done.stderr.decode().splitlines() if "ignored" in line]
    assert done.returncode == 0 and len(lines) == 3 and "\x1b" not in done.stderr.decode()
    assert "headscope corpus: ignored HEADSCOPE_MODLE: this command has no option --modle; did you mean HEADSCOPE_MODEL?" in lines
    assert any("HEADSCOPE_THRESHOLDS?" in line for line in lines)


def test_several_models(start_server, tmp_path):
    mini = tmp_path / "copy"
    mini.symlink_to(os.path.join(os.path.dirname(__file__), "../../model/mini"))
    server = start_server("--model", f"first={mini},mini", "--model", f"third={mini}")
    assert [m["name"] for m in server.get("/models").json()["models"]] == ["first", "mini", "third"]
    assert server.post("/analyze", {"text": "a"}).json()["model"] == "first"
    assert server.post("/analyze", {"text": "a", "model": "mini"}).json()["model"] == "mini"


def test_ipv6(start_server):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    process = subprocess.Popen([HEADSCOPE, "serve", "--listen", "[::1]:0"], stdout=subprocess.PIPE)
    ready = process.stdout.readline()
    assert ready.startswith(b"headscope is ready on http://[::1]:"), ready
    with socket.create_connection(("::1", int(ready.rsplit(b":", 1)[1]))) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n")
        assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    process.stdout.close()


TEXT = "The cat sat on the mat. The dog sat on the cat."


def test_analyze_answers_as_the_server_does(server):
    done = headscope("analyze", "-", "--layers", "all", "--outputs", "pairs,segments", text=TEXT.encode())
    assert done.returncode == 0 and done.stderr == b""
    over_http = server.post("/analyze", {"text": TEXT, "layers": "all", "outputs": ["pairs", "segments"]}).json()
    assert json.loads(done.stdout) == over_http


def test_analyze_passes_every_option_on():
    done = headscope("analyze", "--text-pair", "Another.", "--max-tokens", "12", "--layers=0,-1", "--heads", "3,5",
                     "--outputs", "attentions,similarities,pairs", "--normalize", "max", "--threshold", "0.2",
                     "--attention-threshold", "0.4", "--max-pairs", "3", "--special-tokens", "mask",
                     "--split-special-tokens", "--digits", "3", "--reduce", "none",
                     text=b"Paris is the [MASK] of France")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["layers"] == [0, 11] and answer["heads"] == [3, 5]
    assert len(answer["tokens"]) == 12 and answer["truncated"]
    assert len(answer["pairs"]) <= 3
    assert "[MASK]" not in answer["tokens"]


@pytest.mark.parametrize("arguments", [["--format", "npz", "-o", "out"], ["-o", "out.npz"], ["--format", "npz"]])
def test_analyze_writes_npz(tmp_path, arguments):
    path = tmp_path / arguments[-1]
    arguments = [str(path) if a.startswith("out") else a for a in arguments]
    done = headscope("analyze", *arguments, text=TEXT.encode())
    assert done.returncode == 0, done.stderr
    data = path.read_bytes() if "-o" in arguments else done.stdout
    with numpy.load(io.BytesIO(data)) as arrays:
        n = len(arrays["tokens"])
        assert arrays["attentions"].shape == (1, 12, n, n)
        assert numpy.allclose(arrays["attentions"].sum(-1), 1, atol=1e-5)


def test_analyze_a_file_with_a_folder_as_model(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    model = os.path.join(os.path.dirname(__file__), "../../model/mini/")
    done = headscope("analyze", str(tmp_path / "text"), "--model", model, "--outputs", "pairs")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "mini"


@pytest.mark.parametrize("arguments", [["--layers", "99"], ["--heads", "12"], ["--threshold", "2"],
                                       ["--outputs", "nonsense"], ["--digits", "0"], ["--reduce", "median"]])
def test_analyze_refuses_impossible_values(arguments):
    done = headscope("analyze", *arguments, text=b"text")
    assert done.returncode == 2
    assert arguments[0].strip("-").encode() in done.stderr
    assert done.stdout == b""


def test_analyze_text_that_is_no_text():
    done = headscope("analyze", text=b"\xff\xfe")
    assert done.returncode == 1 and b"UTF-8" in done.stderr


@pytest.mark.parametrize("text", [b"", b"\0", "\U0010ffff".encode(), b"\n"])
def test_analyze_odd_texts(text):
    done = headscope("analyze", "--outputs", "pairs", text=text)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tokens"][0] == "[CLS]"


def test_analyze_says_when_it_cannot_write():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([HEADSCOPE, "analyze"], input=b"text", stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert b"cannot write" in done.stderr


@pytest.mark.parametrize("arguments", ["help", "--version", "models", "help --man", "serve --help", "scores --top 1"])
def test_every_command_says_when_it_cannot_write(arguments):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([HEADSCOPE, *arguments.split()], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"cannot write to standard output" in done.stderr, done.stderr


@pytest.mark.parametrize("command, cut", [
    (["report"], "/state': No data available"), (["merge", "-o", "out"], "/state': No data available"),
    (["search", "--head=0.0"], None), (["search", "--head=0.0", "--by=self"], None)])
def test_a_folder_without_a_run_is_named(tmp_path, command, cut):
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "state").write_bytes(b"")
    for name, why in [("empty", "there is no run in "), ("none", "there is no run in "), *([("cut", cut)] if cut else [])]:
        done = headscope(command[0], str(tmp_path / name), *(str(tmp_path / part) if part == "out" else part for part in command[1:]))
        assert done.returncode == 1 and why in done.stderr.decode() and f"/{name}" in done.stderr.decode(), done.stderr


def test_models():
    model = os.path.join(os.path.dirname(__file__), "../../model/mini")
    done = headscope("models", "--model", f"mini,copy={model}")
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.decode().splitlines()
    assert header.split()[:5] == ["NAME", "TYPE", "TOKENIZER", "LAYERS", "HEADS"]
    assert [row.split()[:5] for row in rows] == [[name, "bert", "WordPiece", "12", "12"] for name in ("mini", "copy")]
    done = headscope("models", "nowhere")
    assert done.returncode == 1 and not done.stdout


def small_files():
    """Writes past 4 KiB fail with EFBIG, as if the disk were full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_an_older_file_stays_when_the_answer_cannot_be_written(tmp_path):
    old = tmp_path / "answer.npz"
    old.write_text("precious")
    done = subprocess.run([HEADSCOPE, "analyze", "-o", old], input=b"Paris is the [MASK] of France.", capture_output=True,
                          preexec_fn=small_files, check=False, timeout=PATIENCE)
    assert done.returncode == 1 and b"File too large" in done.stderr
    assert old.read_text() == "precious" and list(tmp_path.iterdir()) == [old]


def test_an_answer_replaces_what_a_link_points_at_and_keeps_its_permissions(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    assert headscope("analyze", "-o", tmp_path / "link", text=b"a").returncode == 0
    assert (tmp_path / "link").is_symlink() and json.loads((tmp_path / "real").read_bytes())["tokens"]
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "real"]


@unsanitized
@pytest.mark.parametrize("mode", [0o600, 0o444, 0])
def test_what_replaces_a_file_is_never_readable_by_more_than_that_file(preload, tmp_path, mode):
    """Killed while it writes, the program leaves the new file as it is meanwhile."""
    old = tmp_path / "answer.npz"
    old.touch()
    old.chmod(mode)
    killed = subprocess.run([HEADSCOPE, "analyze", "-o", old], input=b"Paris is the [MASK] of France.", capture_output=True,
                            env={**os.environ, **failing(preload, "write", 0, "kill", tmp_path / "seen")},
                            preexec_fn=lambda: os.umask(0o022), check=False, timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    (tmp_path / "seen").unlink()
    (unfinished,) = set(tmp_path.iterdir()) - {old}
    assert unfinished.stat().st_mode & 0o777 == mode & 0o666 | 0o600
    assert headscope("analyze", "-o", old, text=b"a").returncode == 0
    assert old.stat().st_mode & 0o777 == mode and list(tmp_path.iterdir()) == [old]


def test_pipes_and_devices_are_written_to_as_they_are(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen([HEADSCOPE, "analyze", "-o", pipe], stdin=subprocess.DEVNULL)
    assert json.loads(pipe.read_bytes())["tokens"] == ["[CLS]", "[SEP]"]
    assert process.wait(PATIENCE) == 0 and list(tmp_path.iterdir()) == [pipe]
    done = headscope("analyze", "-o", "/dev/full", text=b"a")
    assert done.returncode == 1 and b"No space left" in done.stderr and os.path.exists("/dev/full")


def test_a_file_that_lost_its_name_is_written_to_and_the_link_to_it_stays(tmp_path):
    """/dev/stdout is such a file if standard output goes into a temporary file."""
    link = tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        file.write(100000 * b"x")
        file.flush()
        assert subprocess.run([HEADSCOPE, "analyze", "-o", link], input=b"a", stdout=file, check=False, timeout=PATIENCE).returncode == 0
        file.seek(0)
        assert json.loads(file.read())["tokens"]
    assert list(tmp_path.iterdir()) == [link] and link.is_symlink()


EVIL = "a\x1b[31m\u202eb\u009bc\nd"
SHOWN = r"a\u001b[31m\u202eb\u009bc\u000ad"


def test_names_cannot_drive_a_terminal(tmp_path):
    """Control characters and marks of direction in names of folders, files, models and commands are escaped."""
    (tmp_path / EVIL).symlink_to(Path(__file__).parents[2] / "model" / "mini")
    texts = tmp_path / f"{EVIL}.jsonl"
    texts.write_text('{"no": "text"}\n"A dog ran."\n')
    seen = [headscope("models", tmp_path / EVIL), headscope(EVIL), headscope("models", f"--{EVIL}"),
            headscope("search", tmp_path / f"no-{EVIL}", "--head=0.0"), headscope("analyze", "--model", tmp_path / f"none-{EVIL}", text=b"a"),
            headscope("corpus", "--layers=0", "-o", tmp_path / "out", texts)]
    for done in seen:
        said = done.stdout + done.stderr
        assert SHOWN.encode() in said and not any(c.encode() in said for c in "\x1b\u202e\u009b"), said
    assert seen[0].returncode == seen[-1].returncode == 0 and all(done.returncode for done in seen[1:-1])


def test_a_path_is_exact_for_programs_and_escaped_on_a_terminal(tmp_path):
    texts = tmp_path / "texts"
    texts.write_text("A dog ran.\n")
    command = [HEADSCOPE, "corpus", "--layers=0", "-o", tmp_path / EVIL, texts]
    piped = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=True)
    assert piped.stdout == f"{tmp_path}/{EVIL}/report.html\n".encode()
    shutil.rmtree(tmp_path / EVIL)
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=theirs, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=True)
    assert os.read(ours, 65536) == f"{tmp_path}/{SHOWN}/report.html\r\n".encode()
    os.close(ours), os.close(theirs)


@pytest.fixture
def no_tokenizer(tmp_path):
    """The built-in model's checkpoint, without the files of its tokenizer."""
    folder = tmp_path / "step-500"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(Path(MINI) / name)
    return folder


def test_the_tokenizer_of_another_folder(tmp_path, no_tokenizer):
    done = headscope("analyze", "--model", no_tokenizer, text=b"The war.")
    assert done.returncode == 1 and b"has neither. --tokenizer DIR reads" in done.stderr
    snapshot = tmp_path / "hub/models--org--small/snapshots/0123"
    (snapshot.parents[1] / "refs").mkdir(parents=True)
    (snapshot.parents[1] / "refs/main").write_text("0123")
    snapshot.mkdir(parents=True)
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        (snapshot / name).symlink_to(Path(MINI) / name)
    expected = headscope("analyze", "--format", "csv", text=b"The war.").stdout
    for tokenizer in (MINI, "org/small"):
        done = headscope("analyze", "--model", no_tokenizer, "--tokenizer", tokenizer, "--format", "csv",
                         text=b"The war.", environment={"HF_HUB_CACHE": str(tmp_path / "hub")})
        assert done.returncode == 0 and done.stdout == expected, done.stderr
    done = headscope("models", "--model", no_tokenizer, "--tokenizer", MINI, "--model", "mini")
    assert b"step-500" in done.stdout and b"(built in)" in done.stdout
    for command in (("models",), ("scores", "--sequences", "1")):
        assert headscope(*command, no_tokenizer, "--tokenizer", MINI).returncode == 0
        done = headscope(*command, "--tokenizer", MINI)
        assert done.returncode == 2 and b": expected with " in done.stderr
    done = headscope("models", MINI, no_tokenizer, "--tokenizer", MINI)
    assert done.returncode == 2 and b"with one folder, or behind its own: --model DIR" in done.stderr


def test_the_tokenizer_counts_before_that_of_the_model(tmp_path, no_tokenizer):
    (no_tokenizer / "vocab.txt").write_text("nothing")
    (tmp_path / "words").mkdir()
    done = headscope("analyze", "--model", no_tokenizer, "--tokenizer", MINI, text=b"The war.")
    assert done.returncode == 0 and b"war" in done.stdout
    (tmp_path / "words/vocab.txt").write_text("[PAD]\n[CLS]\n[SEP]\n[MASK]\n")
    done = headscope("analyze", "--model", no_tokenizer, "--tokenizer", tmp_path / "words", text=b"The war.")
    assert done.returncode == 1 and f"the tokenizer in {tmp_path / 'words'}: ".encode() in done.stderr


@pytest.mark.parametrize("arguments,says", [
    (["--tokenizer", "x", "--model", "y"], b"expected behind the folder of its model: --model DIR --tokenizer x"),
    (["--model", "mini", "--tokenizer", "x"], b"expected behind the folder of its model"),
    (["--model", "/tmp", "--tokenizer", ""], b"expected a folder, or org/name"),
    (["--model", "/tmp", "--tokenizer", "/nowhere/words"], b"--tokenizer: there is no folder '/nowhere/words'"),
    (["--model", "/tmp", "--tokenizer", "nobody/words"], b"headscope pull nobody/words")])
def test_a_tokenizer_that_cannot_be_found(arguments, says):
    done = headscope("analyze", *arguments, text=b"The war.")
    assert done.returncode in (1, 2) and says in done.stderr
