"""The examples of the page /docs, run: those of all languages send the same request, and the service answers it."""
import html
import http.server
import json
import re
import shutil
import subprocess
import threading

import pytest
from conftest import unsanitized

pytestmark = unsanitized
EXAMPLE = re.compile(r'<pre tabindex="0" data-language="(\w+)">(.*?)</pre>', re.DOTALL)
# How the examples of a language become one program, and what runs it.
PROGRAMS = {
    "curl": ("sh", ["sh"], "{}\n"),
    "Python": ("py", ["/usr/bin/env", "python3"], "{}\n"),
    "R": ("R", ["Rscript", "--vanilla"], "{}\n"),
    "JavaScript": ("mjs", ["node"], "{{\n{}\n}}\n"),
}

# A server that may pull, a file that `view` opened, or a run that has not ended.
NEEDS_MORE = {("POST", "/models"), ("GET", "/pull"), ("GET", "/pull/events"), ("DELETE", "/models/{name}"), ("GET", "/opened/{name}"),
              ("POST", "/pull/cancel"), ("POST", "/corpora/{id}/cancel"), ("POST", "/corpora/{id}/restart")}


class Recorder(http.server.BaseHTTPRequestHandler):
    def record(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers.get("Content-Type") if body else None, body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_DELETE = record  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def recorder():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def examples(server):
    found = {}
    for language, text in EXAMPLE.findall(server.get("/docs").body.decode()):
        found.setdefault(language, []).append(html.unescape(text))
    return found


def sent(examples, language, recorder, folder):
    """The requests that the examples of a language send, one for each."""
    suffix, command, wrap = PROGRAMS[language]
    program = folder / f"examples.{suffix}"
    text = "".join(map(wrap.format, examples[language]))
    program.write_text(text.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{recorder.server_port}"), encoding="utf-8")
    done = subprocess.run([*command, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    seen, recorder.seen[:] = list(recorder.seen), []
    assert len(seen) == len(examples[language])
    return [(method, path, kind, json.loads(body) if kind == "application/json" else body) for method, path, kind, body in seen]


def test_each_operation_has_an_example(server, examples):
    assert list(examples) == list(PROGRAMS) and len(set(map(len, examples.values()))) == 1
    api = server.get("/openapi.json").json()
    operations = sum(method in ("get", "post", "delete") for item in api["paths"].values() for method in item)
    assert len(examples["curl"]) >= operations


@pytest.mark.parametrize("language", ["Python", "R", "JavaScript"])
def test_languages_send_what_curl_sends(language, examples, recorder, tmp_path):
    program = PROGRAMS[language][1][0]
    if not shutil.which(program) or (language == "R" and subprocess.run(
            [program, "-e", "library(httr2)"], capture_output=True, check=False).returncode):
        pytest.skip(f"{program} is not installed, or lacks httr2")
    assert sent(examples, language, recorder, tmp_path) == sent(examples, "curl", recorder, tmp_path)


def start_run(server):
    """The id of a run that is done."""
    answer = server.post("/corpora?layers=0,2&max_tokens=24&examples=1&search_texts=2", b"The war ended.\nTwo dogs.\n", {"Content-Type": "text/plain"})
    assert answer.status == 202
    path = answer.headers["Location"]
    server.get(f"{path}/events")  # until the run ends
    return path.rpartition("/")[2]


@pytest.mark.slow
def test_the_service_answers_what_examples_send(start_server, examples, recorder, tmp_path):
    """Each as documented. Each succeeds that needs no other state than a run that is done."""
    server = start_server("--state", tmp_path / "state")
    api = server.get("/openapi.json").json()["paths"]
    every = {(method.upper(), path) for path, item in api.items() for method in ("get", "post", "delete") if method in item}
    succeeded = set()
    run = start_run(server)
    requests = sent(examples, "curl", recorder, tmp_path)
    for method, path, kind, body in sorted(requests, key=lambda one: one[0] == "DELETE"):
        template = path.split("?")[0].replace("RUN", "{id}").replace("NAME", "{name}")
        data = json.dumps(body) if kind == "application/json" else body
        answer = server.request(method, path.replace("RUN", run), data, {"Content-Type": kind} if kind else {})
        assert str(answer.status) in api[template][method.lower()]["responses"], (method, path, answer.status)
        if answer.status < 300:
            succeeded.add((method, template))
    assert sorted(every - succeeded - NEEDS_MORE) == []
