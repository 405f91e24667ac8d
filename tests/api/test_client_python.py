"""clients/python against the real server, and against the libraries that it hands its answers to, where they are
installed."""
import base64
import copy
import html
import http.server
import inspect
import io
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import threading
import zipfile
import zlib
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from conftest import occupied, unsanitized, until
from test_methods import documented

pytestmark = unsanitized
CLIENT = Path(__file__).parents[2] / "clients" / "python"
sys.path.insert(0, str(CLIENT))
import headscope as package  # noqa: E402
from headscope import program  # noqa: E402
from headscope.answer import readable  # noqa: E402

TEXT = "Paris is the [MASK] of France. The river is wide. The river is long."


@pytest.fixture(scope="module")
def client(server):
    with package.Client(server.url) as one:
        yield one


def test_arrays_are_those_of_the_contract(client, server):
    outputs = ["attentions", "similarities", "head_outputs", "hidden_states", "pairs", "summary"]
    answer = client.analyze(TEXT, layers=[0, -1], outputs=outputs)
    plain = server.post("/analyze", {"text": TEXT, "layers": [0, -1], "outputs": outputs, "digits": 9}).json()
    assert answer.tokens == plain["tokens"] and answer.word_ids == plain["word_ids"]
    assert answer.model == "mini" and answer.truncated is False
    assert answer.request["layers"] == [0, -1]
    for name in outputs[:4]:
        assert np.array_equal(answer[name], np.asarray(plain[name], np.float32)), name
    assert len(answer) == len(plain["tokens"])
    assert "attentions" in answer and "regions" not in answer
    assert np.array_equal(answer.attention(11, 3), answer.attentions[1, 3])
    assert np.array_equal(answer.similarity(-1, -1), answer.similarities[1, -1])
    with pytest.raises(KeyError, match="layers holds"):
        answer.attention(5, 0)
    with pytest.raises(AttributeError, match="it has .*attentions"):
        _ = answer.regions_runs


def test_a_busy_service_loses_no_text(start_server):
    """The only worker computes and one request waits. The others are refused with 503 and come again."""
    small = start_server("--workers", "1", "--queue", "1", "--cache", "0")
    refused = 'route="/analyze",status="503"'
    texts = [f"{n} " + TEXT for n in range(12)]
    blocking = occupied(small)

    def free():
        until(lambda: refused in small.request("GET", "/metrics").body.decode())
        blocking.close()

    freeing = threading.Thread(target=free)
    freeing.start()
    with package.Client(small.url) as one:
        answers = list(one.analyze_many(texts, parallel=6, outputs=["pairs"]))
    freeing.join()
    assert [answer.tokens[1] for answer in answers] == [str(n) for n in range(12)]


def test_many_texts_with_one_that_is_refused(client):
    answers = list(client.analyze_many(["a", "b", "c"], heads=[0], errors="keep"))
    assert [type(answer) for answer in answers] == [package.Analysis] * 3
    kept = list(client.analyze_many(["a", 7, "c"], errors="keep"))
    assert isinstance(kept[1], package.HeadscopeError) and kept[1].pointer == "/text" and kept[2].tokens
    with pytest.raises(package.HeadscopeError):
        list(client.analyze_many(["a", 7, "c"]))


def test_half_a_pair_is_named(client):
    with pytest.raises(package.HeadscopeError, match="half of a UTF-16 pair"):
        client.analyze("a \ud800 b")
    with pytest.raises(package.HeadscopeError, match="half of a UTF-16 pair"):
        list(client.analyze_batch(["a", "\udfff"]))


def test_types_name_every_array():
    from headscope.fields import AnswerArrays

    assert {*AnswerArrays.__annotations__, "tokens", "source_tokens", "word_ids", "request"} == set(documented("Answer"))


def python_with(folder, *packages):
    """Returns the Python of a new virtual environment with these packages of PyPI. Skips the test where pip installs none."""
    python = folder / "venv" / "bin" / "python"
    for command in ([sys.executable, "-m", "venv", folder / "venv"], [python, "-m", "pip", "install", "-q", *packages]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot install {', '.join(packages)} here: {(done.stdout + done.stderr)[-300:]}")
    return python


@pytest.mark.slow
def test_types_find_typing_errors(tmp_path):
    python = python_with(tmp_path, "mypy", "numpy", "typing_extensions", "pandas-stubs", "anywidget", "traitlets")
    (tmp_path / "use.py").write_text("""import headscope
with headscope.Client("http://x") as client:
    for answer in client.analyze_many(["a"], layers="all"):
        print(answer.attentions.shape, answer.pairs_total + 1, answer.tokens[0].upper())
        print(answer.atentions)
    client.analyze("a", layer="all")
""")
    done = subprocess.run([python, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", "headscope", tmp_path / "use.py"],
                          cwd=CLIENT, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+?):(\d+): error: (.*)", done.stdout, re.MULTILINE)
    assert [(Path(file).name, line) for file, line, _ in found] == [("use.py", "5"), ("use.py", "6")], done.stdout + done.stderr


def test_version(headscope):
    said = subprocess.run([headscope, "version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == package.__version__


def test_waiting_for_a_run_has_a_limit(start_server, tmp_path):
    running = start_server("--state", str(tmp_path), "--workers", "1")
    with package.Client(running.url) as one:
        run = one.start_run([TEXT * 4] * 20000, layers="all")
        with pytest.raises(TimeoutError, match="wait.. again"):
            run.wait(timeout=0.01)
        run.cancel()
        assert run.wait().state == "cancelled"


def test_fields_may_be_numpy_values(client):
    answer = client.analyze(TEXT, layers=np.array([1, 2]), heads=range(3), max_tokens=np.int64(9))
    assert answer.attentions.shape == (2, 3, 9, 9) and answer.truncated


def test_many_texts_come_in_order(client):
    texts = [f"number {i} " + "word " * (i % 7) for i in range(23)]
    seen = []
    answers = list(client.analyze_many(texts, progress=lambda *done: seen.append(done), outputs=["pairs"]))
    assert [a.tokens for a in answers] == [client.tokenize(t).tokens for t in texts]
    assert seen == [(i + 1, 23) for i in range(23)]
    assert len(list(client.analyze_many(iter(texts[:3])))) == 3


def test_a_batch_comes_in_order_with_its_refusals(client, server):
    texts = [f"number {i} " + "word " * (i % 5) for i in range(40)]
    texts[7:7] = [{"words": ["two", "words"], "max_pairs": 1}, {"text": "bad", "threshold": np.float32(3)}]
    seen = []
    answers = list(client.analyze_batch(texts, progress=lambda *done: seen.append(done), outputs=["pairs"], heads=range(2)))
    assert seen == [(i + 1, 42) for i in range(42)]
    assert isinstance(answers[8], package.HeadscopeError)
    assert (answers[8].status, answers[8].pointer) == (422, "/threshold")
    assert answers[7]["tokens"][1] == "two" and len(answers[7]["pairs"]) == 1
    assert answers[9] == server.post("/analyze", {"text": texts[9], "outputs": ["pairs"], "heads": [0, 1]}).json()
    assert len(list(client.analyze_batch(iter(texts[:3])))) == 3
    many = [f"text {i} " + "long " * 300 for i in range(200)]
    answers = client.analyze_batch(many, outputs=[])
    assert [next(answers)["truncated"] for _ in range(20)] == [True] * 20
    answers.close()
    server.wait_metric("workers_busy", lambda n: n == 0)
    with pytest.raises(package.HeadscopeError, match="headscope serve"):
        next(package.Client("http://127.0.0.1:9").analyze_batch(["a"]))


def test_tokens_and_models(client):
    tokens = client.tokenize("Hello world")
    assert tokens.tokens[0] == "[CLS]" and tokens.word_ids[0] is None and len(tokens) == len(tokens.input_ids)
    assert client.models()[0]["name"] == "mini"


def test_refusals_tell_their_field(client):
    with pytest.raises(package.HeadscopeError) as caught:
        client.analyze("a", threshold=2)
    error = caught.value
    assert (error.status, error.pointer) == (422, "/threshold") and "(0, 1]" in error.detail
    with pytest.raises(package.HeadscopeError) as caught:
        client.analyze("a", model="nobody")
    assert caught.value.status == 404


def test_nobody_there():
    with pytest.raises(package.HeadscopeError, match="headscope serve") as caught:
        package.Client("http://127.0.0.1:9").models()
    assert caught.value.status == 0
    with pytest.raises(ValueError):
        package.Client("127.0.0.1:8080")


def test_a_server_of_its_own(headscope, tmp_path):
    (tmp_path / "token").write_text("a-token-of-more-than-sixteen-characters\n")
    with package.start(binary=headscope) as client:
        client.analyze("a")
        process = client._server.process
    assert process.returncode == 0
    with pytest.raises(package.HeadscopeError, match="ended before it was ready.*no-such"):
        package.start("--model", "no-such=/no-such", binary=headscope)
    with pytest.raises(package.HeadscopeError, match="cannot start"):
        package.start(binary=tmp_path / "token")
    with package.start("--token-file", str(tmp_path / "token"), binary=headscope) as client:
        with pytest.raises(package.HeadscopeError) as caught:
            client.models()
        assert caught.value.status == 401
        with package.Client(client.url, token="a-token-of-more-than-sixteen-characters") as known:
            assert known.models()


def test_its_own_server_wants_a_token_that_only_this_user_can_read(headscope, monkeypatch):
    monkeypatch.setenv("HEADSCOPE", os.path.abspath(headscope))
    with package.Client() as client:
        process = client._server.process.pid
        command = Path(f"/proc/{process}/cmdline").read_bytes() + Path(f"/proc/{process}/environ").read_bytes()
        assert client.models() and client.token and client.token.encode() not in command
        assert not Path(re.search(rb"--token-file\0([^\0]+)", command)[1].decode()).exists()
        with pytest.raises(package.HeadscopeError) as caught:
            package.Client(client.url).models()
        assert caught.value.status == 401
        assert "<iframe" not in client.analyze("a")._repr_html_() and client.token not in repr(client)
    with package.start(token=False) as client:
        assert client.token is None and package.Client(client.url).models()
        assert "<iframe" in client.analyze("a")._repr_html_()


def test_serve_says_that_it_wants_no_token(start_server, tmp_path):
    (tmp_path / "token").write_text("a-token-of-more-than-sixteen-characters\n")
    (tmp_path / "token").chmod(0o600)
    for options, warns in ((), True), (("--token-file", str(tmp_path / "token")), False):
        server = start_server(*options)
        server.stop()
        assert ("no --token-file: every user of this machine can use this server" in server.log()) == warns


class Other(http.server.BaseHTTPRequestHandler):
    """Answers everything with `body` and `status`, as a server that is no headscope."""
    body, status, after = b"", 200, ""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.send_header("Retry-After", self.after)
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def other():
    """A server that is no headscope, and a client of it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with package.Client(f"http://127.0.0.1:{server.server_port}") as client:
            yield client
        server.shutdown()


CALLS = {
    "analyze": lambda c, run: c.analyze("a"), "batch": lambda c, run: list(c.analyze_batch(["a"])), "tokenize": lambda c, run: c.tokenize("a"),
    "many": lambda c, run: list(c.analyze_many(["a"])), "models": lambda c, run: c.models(), "start_run": lambda c, run: c.start_run(["a"]),
    "run": lambda c, run: c.run("x"),
    "refresh": lambda c, run: run.refresh(), "wait": lambda c, run: run.wait(), "report": lambda c, run: run.report(),
    "arrays": lambda c, run: run.arrays(), "compare": lambda c, run: run.compare(run), "search": lambda c, run: run.search(0, 0),
    "examples": lambda c, run: run.examples(0, 0, "previous"), "cancel": lambda c, run: run.cancel(),
}
BODIES = {"page": b"<!doctype html><p>Sign in", "nothing": b"", "null": b"null", "number": b"7", "text": b'"a"', "list": b"[{}]",
          "deep": b"[" * 200_000, "latin": b'{"a":"\xe9"}', "wrong": b'{"id":1,"state":[],"models":{"a":0},"examples":{},"runs":7,"model":0}',
          "zip": b"PK\x05\x06" + bytes(18), "cut": b"PK\x03\x04" + bytes(90), "no number": b'{"detail":"x","status":"y"}'}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("call", CALLS)
def test_answers_of_other_servers_are_headscope_errors(other, monkeypatch, call, body):
    run = package.Run(other, {"id": "0123", "state": "running"})
    monkeypatch.setattr(Other, "body", BODIES[body])
    if (call, body) in {("arrays", "zip"), ("batch", "nothing")}:
        assert not CALLS[call](other, run)  # no arrays, no lines
        return
    if (call in ("report", "search") and body in ("wrong", "no number")) or (call, body) == ("batch", "wrong"):
        CALLS[call](other, run)  # any object may be one
        return
    with pytest.raises(package.HeadscopeError, match="is not one of headscope") as caught:
        CALLS[call](other, run)
    assert caught.value.status == 0 and repr(BODIES[body][:9].decode(errors="replace"))[1:-1] in str(caught.value)


@pytest.mark.parametrize("body", [*BODIES.values(), b'{"detail":7,"title":[],"pointer":{},"position":"x"}'])
def test_refusals_of_other_servers_are_headscope_errors(other, monkeypatch, body):
    monkeypatch.setattr(Other, "body", body)
    monkeypatch.setattr(Other, "status", 502)
    monkeypatch.setattr(Other, "after", "\xb2")  # a digit, and no number
    with pytest.raises(package.HeadscopeError) as caught:
        other.models()
    error = caught.value
    assert (error.status, error.retry_after, error.pointer, error.position) == (502, None, None, None)
    assert isinstance(error.detail, str) and error.detail and isinstance(error.title, str)


def test_a_figure_in_a_notebook_runs_no_script(other, monkeypatch):
    """Also in the page that nbconvert makes: an image in a data address runs nothing."""
    nbformat, nbconvert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert")
    monkeypatch.setattr(Other, "body", b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>')
    figure = other.figure("a")
    assert not hasattr(figure, "_repr_svg_") and other.figure("a", format="pdf")._repr_html_() is None
    shown = nbformat.v4.new_output("display_data", {"text/html": figure._repr_html_(), "text/plain": repr(figure)})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("figure", outputs=[shown])])
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert "alert(" not in page and 'src="data:image/svg+xml;base64,' in page


def test_a_figure_is_shown_in_a_notebook_that_becomes_latex(server):
    """nbconvert takes what IPython's own display formatter keeps of it."""
    formatters, nbformat = pytest.importorskip("IPython.core.formatters"), pytest.importorskip("nbformat")
    nbconvert = pytest.importorskip("nbconvert")
    with package.Client(server.url) as client:
        figure = client.figure(TEXT, "layer", layers=[1])
        data, _ = formatters.DisplayFormatter().format(figure)
    assert data["application/pdf"].startswith(b"%PDF-") and "<img" in data["text/html"]
    data["application/pdf"] = base64.b64encode(data["application/pdf"]).decode()  # as the kernel sends it
    shown = nbformat.v4.new_output("display_data", data)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("figure", outputs=[shown])])
    text, resources = nbconvert.LatexExporter().from_notebook_node(notebook)
    (name, drawn), = resources["outputs"].items()
    assert drawn.startswith(b"%PDF-") and name in text and "headscope.answer.Figure" not in text
    figure._client = package.Client("http://127.0.0.1:1")  # its server is gone
    assert figure._repr_pdf_() is None


def test_without_an_address_it_starts_a_server(headscope, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADSCOPE", os.path.abspath(headscope))
    with package.Client() as client:
        assert client.models()[0]["name"] == "mini"
        process = client._server.process
    assert process.returncode == 0
    monkeypatch.delenv("HEADSCOPE")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(program, "BUNDLED", tmp_path / "bundled")
    monkeypatch.setattr(program, "TREE", tmp_path)
    with pytest.raises(package.HeadscopeError, match="no headscope is on the PATH"):
        package.Client()
    (tmp_path / "bundled").symlink_to(os.path.abspath(headscope))
    with package.Client() as client:
        assert client._server.process.args[0] == str(tmp_path / "bundled")


def test_the_module_is_the_program(headscope):
    """`python -m headscope` becomes the program: its output, its exit status, and NumPy is not imported."""
    environment = {**os.environ, "HEADSCOPE": os.path.abspath(headscope), "PYTHONPATH": str(Path(package.__file__).parents[1])}
    versions = [subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, env=environment).stdout
            for command in ([headscope], [sys.executable, "-m", "headscope"])]
    assert versions[0] == versions[1]
    refused = subprocess.run([sys.executable, "-m", "headscope", "no-such-command"], capture_output=True, check=False, env=environment)
    assert refused.returncode == 2 and b"no-such-command" in refused.stderr
    code = "import sys, headscope.__main__; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_kept_connection_that_was_closed_is_no_error(start_server):
    server = start_server()
    with package.Client(server.url) as client:
        client.models()
        client._connections._kept[1][0].sock.shutdown(2)
        assert client.models()


def test_a_corpus_run(start_server, tmp_path):
    server = start_server("--state", str(tmp_path))
    with package.Client(server.url) as client:
        seen = []
        run = client.start_run((TEXT + f" {i}" for i in range(20)), name="twenty", layers=[0, 1], thresholds=[0.2, 0.5],
                               split_special_tokens=True)
        run.wait(progress=lambda *done: seen.append(done), every=0.05)
        assert run.state == "done" and seen[-1] == (20, 20)
        assert client.run(run.id).fields["name"] == "twenty"
        assert run.arrays()["attention_sum"].shape[0] == 2
        assert run.report()["texts"] == 20
        run.delete()
        with pytest.raises(package.HeadscopeError) as caught:
            run.refresh()
        assert caught.value.status == 404


def test_options_of_a_run_may_be_lists_of_objects_and_numpy_values(start_server, tmp_path):
    server = start_server("--state", str(tmp_path))
    changes = [{"layers": [0], "heads": [1], "kind": "scale", "factor": 0.5}]
    with package.Client(server.url) as client:
        run = client.start_run([TEXT], layers=np.arange(2), max_tokens=np.int64(9), interventions=changes).wait()
        options = run.report()["provenance"]["options"]
        assert options["interventions"] == changes and options["max_tokens"] == 9
        for unknown in ("nope", "a b", "../x"):
            with pytest.raises(package.HeadscopeError) as caught:
                client.run(unknown)
            assert caught.value.status == 404


def test_one_text_in_place_of_several_is_refused(client):
    """Each of its characters would be a text."""
    for call in (client.start_run, lambda texts: next(client.analyze_many(texts)), lambda texts: next(client.analyze_batch(texts))):
        for one in ("a text", {"text": "a"}):
            with pytest.raises(TypeError, match="list or another iterable of texts"):
                call(one)


def test_a_table_in_place_of_texts_is_refused(client):
    """Its elements are the names of its columns."""
    frame = pytest.importorskip("pandas").DataFrame({"text": ["a b", "c d"]})
    for call in (client.start_run, lambda texts: next(client.analyze_many(texts)), lambda texts: next(client.analyze_batch(texts))):
        with pytest.raises(TypeError, match="texts is a table .DataFrame.; give one of its columns"):
            call(frame)
    assert [len(answer) for answer in client.analyze_many(frame["text"])] == [4, 4]


def test_a_text_that_is_none_is_refused(client):
    with pytest.raises(TypeError, match="a text is a int; it must be a str, or a dict"):
        next(client.analyze_batch([3]))


def test_a_view_is_one_of_the_viewers(client):
    sections = re.search(r"SECTIONS = \{(.*?)\}", (CLIENT.parents[1] / "static/src/app/state.ts").read_text(encoding="utf-8"), re.S)[1]
    views = re.findall(r'"(\w+)"', sections)
    answer = client.analyze(TEXT)
    for view in views:
        assert f"view={view}" in answer.view(view).state
    assert "center=1" in client.analyze(TEXT, center="text").view().state
    with pytest.raises(ValueError, match="view is 'nosuchview'; it must be one of overview, head") as caught:
        answer.view("nosuchview")
    assert str(caught.value).endswith("one of " + ", ".join(views))


def test_a_picture_for_notebooks(client):
    page = client.analyze(TEXT, layers="all", max_tokens=12)._repr_html_()
    assert "data:image/png;base64," in page and "layers 0 to 11" in page and "[MASK]" in page
    assert "<pre>" in client.analyze("<b>", outputs=["pairs"])._repr_html_()
    assert client.analyze("a", outputs=["pairs"])._repr_png_() is None


@pytest.mark.parametrize("heads, width", [("all", 12 * 60 - 4), ([1], 320), ([1, 2], 644)])
def test_pictures_fill_the_page(client, heads, width):
    answer = client.analyze(TEXT, layers=[0], heads=heads)
    assert struct.unpack(">I", answer._repr_png_()[16:20])[0] == width and f'width="{width}"' in answer._repr_html_()


def pixels_of(answer):
    png = answer._repr_png_()
    width, height = struct.unpack(">II", png[16:24])
    rows = zlib.decompress(png[41:41 + struct.unpack(">I", png[33:37])[0]])
    return np.frombuffer(rows, np.uint8).reshape(height, width + 1)[:, 1:]


def test_pictures_of_bytes_and_of_sums_show_the_same(client):
    """Bytes are 255ths; a sum over 12 heads is up to 12. Neither is black."""
    whole, small = (client.analyze(TEXT, layers="all", outputs=["attentions"], dtype=dtype) for dtype in ("f4", "u1"))
    assert np.abs(pixels_of(whole).astype(int) - pixels_of(small)).max() <= 16  # half of 1 / 255, and its root
    np.testing.assert_allclose(small.to_circuitsvis(3)["attention"], whole.attentions[3], atol=0.5 / 255 + 1e-6)
    summed = client.analyze(TEXT, layers=[11], outputs=["attentions"], reduce="sum")
    expected = 255 - 255 * np.sqrt(summed.attentions[0, 0] / summed.attentions.max())
    shown = pixels_of(summed)
    assert {round(float(value)) for value in expected.ravel()} == set(shown.ravel().tolist())
    assert "sum of heads 0 to 11" in summed._repr_html_()


def test_the_picture_comes_before_the_frame(client):
    """An exported notebook has no server: its frame would be an empty box."""
    page = client.analyze(TEXT)._repr_html_()
    assert page.index("data:image/png") < page.index("<details>") < page.index("<iframe")
    assert 'loading="lazy"' in page and "<details open" not in page


def framed(page):
    address = html.unescape(re.search('<iframe src="([^"]*)"', page).group(1))
    return address.split("#")[0], dict(parse_qsl(address.split("#")[1], strict_parsing=True))


def test_the_viewer_in_notebooks(client, server):
    answer = client.analyze(TEXT, layers=[1], heads=[7], threshold=0.4, special_tokens="mask", text_pair='"&<')
    where, state = framed(answer._repr_html_())
    assert where == f"{server.url}/?embed" and server.get("/?embed").status == 200
    assert state == {"view": "head", "layer": "1", "head": "7", "text": TEXT, "pair": '"&<', "tau": "0.4", "special": "0"}
    assert framed(client.analyze(TEXT, layers="all")._repr_html_())[1] == {"text": TEXT}
    view = answer.view("text", height=321, sel=[1, 2], arcs=False)
    assert 'height="321"' in view._repr_html_()
    assert framed(view._repr_html_())[1].items() >= {"view": "text", "sel": "1.2", "arcs": "0", "head": "7"}.items()


def test_tokens_are_read_as_text():
    assert readable(["<s>", "The", "\u0120caf\u00c3\u00a9", "\u010a", "\u00e2\u0122"]) == [
        "<s>", "The", "\u2423caf\u00e9", "\u240a", "\ufffd"]
    assert readable(["<s>", "\u2581the"]) == ["<s>", "\u2423the"]
    assert readable(["\u0120", "##\u0121", "\u010d"]) == ["\u0120", "##\u0121", "\u010d"]


def test_without_its_viewer_an_answer_is_a_picture(client, start_server, tmp_path):
    changed = client.analyze(TEXT, interventions=[{"layers": [0], "heads": [0], "kind": "zero"}])
    assert "<iframe" not in changed._repr_html_() and "data:image/png" in changed._repr_html_()
    with pytest.raises(ValueError, match="without interventions"):
        changed.view()
    assert "<iframe" not in client.analyze(words=["a", "dog"])._repr_html_()
    secret = tmp_path / "token"
    secret.write_text("open-sesame-1234")
    guarded = package.Client(start_server("--token-file", str(secret)).url, token="open-sesame-1234")
    assert "<iframe" not in guarded.analyze(TEXT)._repr_html_()
    server = start_server()
    answer = package.Client(server.url).analyze(TEXT)
    assert "<iframe" in answer._repr_html_()
    server.stop()
    assert "<iframe" not in answer._repr_html_() and "data:image/png" in answer._repr_html_()


def test_pandas(client):
    pandas = pytest.importorskip("pandas")
    answer = client.analyze(TEXT, layers=[9, 11], outputs=["pairs", "summary"])
    pairs = answer.to_pandas()
    assert isinstance(pairs, pandas.DataFrame) and len(pairs) == min(answer.pairs_total, 10000)
    assert list(pairs["token_i"]) == [answer.tokens[i] for i in pairs["i"]]
    heads = answer.to_pandas("summary")
    assert len(heads) == 24 and list(heads["layer"][:13]) == [9] * 12 + [11]


def test_pandas_of_experiments(client):
    pandas = pytest.importorskip("pandas")
    answer = client.analyze(TEXT, layers=[0, 3], heads=[1, 2], outputs=["profiles", "effects"],
                            interventions=[{"layers": [0], "heads": [1], "kind": "zero"}])
    profiles = answer.to_pandas("profiles")
    assert list(profiles["layer"]) == [0, 0, 3, 3] and list(profiles["head"]) == [1, 2, 1, 2]
    assert np.array_equal(profiles["previous"], answer.profiles_previous.ravel())
    assert set(profiles["label"]) <= {"position", "special", "broad", "other"}
    assert "hidden_change" in answer.to_pandas("effects") and "attentions" in answer.to_pandas("changes")
    assert isinstance(profiles, pandas.DataFrame)
    with pytest.raises(ValueError, match="nothing of each head"):
        answer.to_pandas("summary")


def test_predictions_become_words(client):
    answer = client.analyze(TEXT, outputs=[], predictions={"top_k": 2, "lens": True})
    assert answer.predictions_layers_top_ids.shape == (1, 13, 2)
    tokens = client.tokenize(input_ids=answer.predictions_top_ids[0]).tokens
    (entry,) = client.analyze_batch([TEXT], outputs=[], predictions={"top_k": 2})
    assert tokens == [guess["token"] for guess in entry["predictions"][0]["top"]]


def test_widget(client):
    pytest.importorskip("anywidget")
    answer = client.analyze(TEXT, layers=[1, 11], outputs=["attentions", "similarities"])
    shown = answer.widget(layer=1, head=7)
    T = len(answer)
    maps = np.frombuffer(shown.maps, np.uint8).reshape(2, 12, T, T)
    values = np.reshape(shown.scales, (2, 12))[:, :, None, None] * (maps / 255) ** 2
    assert np.abs(values - answer.attentions).max() < 0.005 and shown.tokens == answer.tokens
    shown.layer = 11
    with pytest.raises(Exception, match="layer is one of"):
        shown.layer = 5
    assert answer.widget("similarities").what == "similarities"
    with pytest.raises(ValueError, match="summed up"):
        client.analyze(TEXT, reduce="mean").widget()


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_widget_script_is_a_module(tmp_path):
    (tmp_path / "widget.mjs").write_text((Path(package.__file__).parent / "widget.js").read_text())
    code = f"import('{(tmp_path / 'widget.mjs').as_uri()}').then((m) => console.log(typeof m.default.render))"
    assert subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True).stdout == "function\n"


def test_bertviz(client):
    torch = pytest.importorskip("torch")
    arguments = client.analyze(TEXT, layers="all").to_bertviz()
    assert len(arguments["attention"]) == 12 and arguments["attention"][0].shape[:2] == (1, 12)
    assert torch.allclose(arguments["attention"][3].sum(-1), torch.tensor(1.0), atol=1e-5)
    bertviz = pytest.importorskip("bertviz")
    assert "[MASK]" in bertviz.head_view(**arguments, html_action="return").data


def test_circuitsvis(client):
    arguments = client.analyze(TEXT, layers="all").to_circuitsvis(3)
    assert arguments["attention"].shape[0] == 12 and set(arguments) == {"attention", "tokens"}
    attention = pytest.importorskip("circuitsvis.attention")
    for shown in (attention.attention_heads(**arguments, mask_upper_tri=False), attention.attention_patterns(**arguments)):
        assert "france" in str(shown)


def test_layers_outside_the_request(client):
    answer = client.analyze(TEXT, layers=[3, 5])
    np.testing.assert_array_equal(answer.to_circuitsvis(-1)["attention"], answer.to_circuitsvis(5)["attention"])
    for read in (answer.to_circuitsvis, lambda layer: answer.attention(layer, 0)):
        for layer in (4, -3):
            with pytest.raises(KeyError, match=r"layers holds \[3, 5\]"):
                read(layer)


def test_answers_are_saved_and_loaded(client, tmp_path, headscope):
    answer = client.analyze(TEXT, layers=[1], outputs=["attentions", "pairs"])
    answer.save(tmp_path / "answer.npz")
    again = package.Analysis.load(tmp_path / "answer.npz")
    assert set(again.arrays) == set(answer.arrays) and again.request == answer.request and again.tokens == answer.tokens
    for name, array in answer.arrays.items():
        np.testing.assert_array_equal(again[name], array)
    assert "<img" in again._repr_html_()
    with pytest.raises(ValueError, match="ends in .npz"):
        answer.save(tmp_path / "answer.json")
    subprocess.run([headscope, "analyze", "--layers", "1", "-o", tmp_path / "own.npz", "-"], input=TEXT, text=True, check=True)
    np.testing.assert_array_equal(package.Analysis.load(tmp_path / "own.npz")["attentions"], answer["attentions"])


class Hostile:
    """An object whose pickle makes the file `touched` when it is read."""

    def __init__(self, touched):
        self.touched = touched

    def __reduce__(self):
        return os.system, (f"touch '{self.touched}'",)


def npz_of(**members):
    file = io.BytesIO()
    np.savez(file, **members)
    return file.getvalue()


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def zip_of(header):
    """An archive whose member input_ids has this header in place of NumPy's."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        text = header.encode().ljust(117) + b"\n"
        archive.writestr("input_ids.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    return file.getvalue()


FORGED = {
    "empty": lambda saved, arrays, hostile: b"",
    "text": lambda saved, arrays, hostile: b"no answer",
    "half": lambda saved, arrays, hostile: saved[:len(saved) // 2],
    "end": lambda saved, arrays, hostile: saved[:-30],
    "flipped": lambda saved, arrays, hostile: saved[:len(saved) // 2] + bytes([saved[len(saved) // 2] ^ 255]) + saved[len(saved) // 2 + 1:],
    "pickle": lambda saved, arrays, hostile: pickle.dumps(hostile),
    "one array": lambda saved, arrays, hostile: npy_of(np.arange(3)),
    "one object": lambda saved, arrays, hostile: npy_of(np.array([hostile], object)),
    "objects": lambda saved, arrays, hostile: npz_of(**{**arrays, "attentions": np.array([hostile], object)}),
    "code": lambda saved, arrays, hostile: zip_of(f"{{'descr': __import__('os').system('touch {hostile.touched}'), 'shape': (1,)}}"),
    "huge": lambda saved, arrays, hostile: zip_of("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}"),
    "other arrays": lambda saved, arrays, hostile: npz_of(x=np.arange(3)),
    "no tokens": lambda saved, arrays, hostile: npz_of(**{name: array for name, array in arrays.items() if name != "tokens"}),
    "fewer tokens": lambda saved, arrays, hostile: npz_of(**{**arrays, "tokens": arrays["tokens"][1:]}),
    "numbers": lambda saved, arrays, hostile: npz_of(**{**arrays, "tokens": np.arange(len(arrays["tokens"]))}),
    "shape": lambda saved, arrays, hostile: npz_of(**{**arrays, "attentions": arrays["attentions"][:, :, 1:]}),
    "request": lambda saved, arrays, hostile: npz_of(**{**arrays, "request": np.array("{")}),
}


@pytest.mark.parametrize("name", FORGED)
def test_files_that_hold_no_answer_are_named_and_run_nothing(client, tmp_path, name):
    answer = client.analyze(TEXT, layers=[1])
    answer.save(tmp_path / "answer.npz")
    hostile = Hostile(tmp_path / "touched")
    (tmp_path / "forged.npz").write_bytes(FORGED[name]((tmp_path / "answer.npz").read_bytes(), answer.arrays, hostile))
    with pytest.raises(ValueError, match="forged.npz is no saved answer: "):
        package.Analysis.load(tmp_path / "forged.npz")
    assert not hostile.touched.exists()


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        package.Analysis.load(tmp_path / "none.npz")


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_reduced_answers_are_loaded(client, tmp_path, reduce):
    answer = client.analyze(TEXT, layers=[1, 2], reduce=reduce)
    answer.save(tmp_path / "answer.npz")
    assert package.Analysis.load(tmp_path / "answer.npz").attentions.shape == answer.attentions.shape
    for read in (answer.attention, answer.similarity):
        with pytest.raises(ValueError, match="summed up"):
            read(1, 0)


def test_words_of_a_loaded_answer_are_no_html(client, tmp_path):
    arrays = client.analyze(TEXT, layers=[1]).arrays
    words = np.array(["<script>"] * len(arrays["tokens"]))
    (tmp_path / "answer.npz").write_bytes(npz_of(**{**arrays, "tokens": words, "model": np.array("<img onerror=x>")}))
    page = package.Analysis.load(tmp_path / "answer.npz")._repr_html_()
    assert "&lt;script&gt;" in page and "<script" not in page and "<img onerror" not in page


def test_the_typed_fields_are_those_of_the_service(client):
    from headscope.fields import AnalyzeFields, Output
    request = json.loads(client.request("GET", "/openapi.json"))["components"]["schemas"]["AnalyzeRequest"]["properties"]
    assert set(AnalyzeFields.__annotations__) == set(request) - {"text", "figure"}
    assert list(Output.__args__) == request["outputs"]["items"]["enum"]
    documented_one_by_one = re.findall(r"(?m)^ {4}([a-z_]+)  ", inspect.getdoc(package.Client.analyze))
    assert documented_one_by_one == ["text", *AnalyzeFields.__annotations__]


def test_the_options_of_a_run_are_those_of_the_service(client):
    options = json.loads(client.request("GET", "/openapi.json"))["paths"]["/corpora"]["post"]["parameters"]
    of_other_formats = {"input_format", "no_quotes"}
    documented_one_by_one = re.findall(r"(?m)^ {4}([a-z_]+)  ", inspect.getdoc(package.Client.start_run))
    assert sorted(documented_one_by_one) == sorted({option["name"] for option in options} - of_other_formats)


def test_answers_and_errors_are_pickled(client):
    answer = client.analyze(TEXT, layers="all")
    for again in (pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer)):
        np.testing.assert_array_equal(again.attentions, answer.attentions)
        assert again.tokens == answer.tokens and "data:image/png" in again._repr_html_()
        with pytest.raises(ValueError, match="a client has asked"):
            again.view()
    with pytest.raises(package.HeadscopeError) as caught:
        client.analyze(TEXT, threshold=7)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.status, again.detail, again.pointer, str(again)) == (422, caught.value.detail, "/threshold", str(caught.value))


def test_its_readme(headscope, tmp_path):
    """The README's Python runs as it stands."""
    code = re.search(r"```python\n(.*?)```", (CLIENT / "README.md").read_text(), re.S)[1]
    environment = {**os.environ, "HEADSCOPE": os.path.abspath(headscope), "PYTHONPATH": str(CLIENT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "[MASK]" in done.stdout and "(12, 12, 11, 11)" in done.stdout
    assert json.dumps(done.stderr) == '""'
