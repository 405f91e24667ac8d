"""Every path, method and header of the server itself; what /analyze computes is tested elsewhere."""
import gzip
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from conftest import PATIENCE

MINI = os.path.join(os.path.dirname(__file__), "../../model/mini")


def test_health_and_ready(server):
    assert server.get("/health").json()["status"] == "ok"
    assert server.get("/ready").json() == {"status": "ready"}


def test_analyze_tells_its_stages(server):
    answer = server.post("/analyze", {"text": "the cat sat on the mat"})
    assert answer.status == 200
    assert answer.json()["tokens"][0] == "[CLS]"
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", answer.headers["Server-Timing"]))
    assert list(stages) == ["queue", "tokenize", "forward", "analyze", "encode"]
    assert float(stages["forward"]) > 0


@pytest.mark.parametrize("path", ["/models", "/openapi.json"])
def test_json_documents(server, path):
    answer = server.get(path)
    assert answer.status == 200
    assert answer.headers.get_content_type() == "application/json"
    assert answer.json()


def test_unknown_path_is_a_problem(server):
    answer = server.get("/attention")
    assert answer.status == 404
    assert answer.headers.get_content_type() == "application/problem+json"
    assert answer.json()["status"] == 404


def test_a_slash_at_the_end_changes_nothing(server):
    assert server.get("/models/").json()["models"][0]["name"] == server.get("/models").json()["models"][0]["name"]
    assert server.post("/analyze/", {"text": "a b"}).json() == server.analyze({"text": "a b"})
    assert server.get("/models//").status == server.get("//models").status == 404


def test_a_root_path_is_left_out(start_server, tmp_path):
    server = start_server("--root-path", "/lab/headscope", "--state", tmp_path)
    moved = server.get("/lab/headscope")
    assert (moved.status, moved.headers["Location"]) == (308, "/lab/headscope/")
    assert b"<!doctype html>" in server.get("/lab/headscope/").body.lower()
    assert server.get("/lab/headscope/models").json()["models"][0]["name"] == "mini"
    assert server.get("/lab/headscopes/models").status == server.get("/lab/headscope/lab/headscope/models").status == 404
    started = server.request("POST", "/lab/headscope/corpora", b"a b\nc d\n", {"Content-Type": "text/plain"})
    assert started.headers["Location"] == f"/lab/headscope/corpora/{started.json()['id']}"
    assert server.get(started.headers["Location"]).status == 200


@pytest.mark.parametrize("path", ["", "lab", "/lab/", "//lab", "/lab/../x", "/a b", "/lab?x", "/" + 200 * "a"])
def test_root_paths_that_are_none_are_refused(headscope, path):
    done = subprocess.run([headscope, "serve", "--root-path", path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--root-path" in done.stderr


@pytest.mark.parametrize("name", ["application/x-ndjson", "application/jsonl", "Application/NDJSON; charset=utf-8"])
def test_lines_have_several_names(server, name):
    body = '{"text": "a"}\n{"text": "b"}\n'
    assert len(server.post("/analyze", body, {"Content-Type": name}).body.splitlines()) == 2


@pytest.mark.parametrize("method,path,allow", [
    ("GET", "/analyze", "POST, OPTIONS"),
    ("DELETE", "/health", "GET, HEAD, OPTIONS"),
    ("POST", "/", "GET, HEAD, OPTIONS"),
])
def test_wrong_method_names_the_right_ones(server, method, path, allow):
    answer = server.request(method, path)
    assert answer.status == 405
    assert answer.headers["Allow"] == allow
    assert answer.json()["status"] == 405


def test_options_names_the_methods(server):
    answer = server.request("OPTIONS", "/analyze")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Allow"] == "POST, OPTIONS"


@pytest.mark.parametrize("path", ["/health", "/models", "/", "/metrics"])
def test_head_is_get_without_the_body(server, path):
    server.known_models()
    get, head = server.get(path), server.request("HEAD", path)
    assert (head.status, head.body) == (get.status, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    if path != "/metrics":
        assert head.headers["Content-Length"] == get.headers["Content-Length"]


def test_body_of_a_get_is_not_the_next_request(server):
    smuggled = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
    answers = server.send(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                          b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                          % (len(smuggled), smuggled))
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200"]


def test_absolute_target(server):
    answers = server.send(b"GET http://localhost/ready?a=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answers.startswith(b"HTTP/1.1 200") and b'"ready"' in answers


def test_requests_share_a_connection(server):
    connection = server.connect()
    for path, status in [("/health", 200), ("/nowhere", 404), ("/analyze", 405), ("/ready", 200)]:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    for _ in range(3):
        connection.request("POST", "/tokenize", '{"text":"one two"}', {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()


def test_pipelined_requests_are_answered_in_order(server):
    one = b'POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' \
          b'X-Request-Id: %d\r\nContent-Length: 13\r\n\r\n{"text": "a"}'
    last = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = server.send(one % 1 + one % 2 + one % 3 + last)
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * 4
    assert re.findall(rb"X-Request-Id: (\d)\r", answers) == [b"1", b"2", b"3"]


def test_request_id_is_echoed_or_made(server):
    assert server.get("/health", {"X-Request-Id": "trace-1.a_B"}).headers["X-Request-Id"] == "trace-1.a_B"
    for bad in ["a b", "x" * 65, 'quote"', "<script>"]:
        assert re.fullmatch("[0-9a-f]{16}", server.get("/health", {"X-Request-Id": bad}).headers["X-Request-Id"])
    made = {server.get("/health").headers["X-Request-Id"] for _ in range(20)}
    assert len(made) == 20


def test_every_answer_is_guarded(server):
    for answer in [server.get("/"), server.get("/health"), server.get("/nowhere"),
                   server.post("/analyze", "{")]:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy
        assert "Access-Control-Allow-Origin" not in answer.headers


def ancestors(answer):
    return answer.headers["Content-Security-Policy"].split("frame-ancestors ")[1].split()


def test_a_view_may_be_framed_by_its_own_machine(server):
    host = server.url.split("//")[1].split(":")[0]
    for path in ["/?embed", "/?embed=1", "/index.html?a=b&embed"]:
        answer = server.get(path)
        assert "X-Frame-Options" not in answer.headers
        assert ancestors(answer)[0] == "'self'"
        assert f"http://{host}:*" in ancestors(answer) and "http://localhost:*" in ancestors(answer)
        assert "*" not in ancestors(answer)
    assert "http://lab.localhost:*" in ancestors(server.get("/?embed", {"Host": "lab.localhost:80"}))
    assert "lab;x" not in " ".join(ancestors(server.get("/?embed", {"Host": "lab;x"})))
    for path in ["/?embedded", "/?x=embed", "/health?embed", viewer_paths(server)[0] + "?embed", "/?"]:
        answer = server.get(path)
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert ancestors(answer) == ["'none'"]


def test_an_origin_that_may_ask_may_frame(start_server):
    server = start_server("--cors", "https://hub.example")
    assert "https://hub.example" in ancestors(server.get("/?embed"))
    assert ancestors(server.get("/")) == ["'none'"]


def viewer_paths(server):
    page = server.get("/").body.decode()
    paths = ["/" + path for path in re.findall(r'(?:src|href)="\.?/?(assets/[^"]+)"', page)]
    assert {path.rsplit(".", 1)[1] for path in paths} >= {"css", "js"}
    return paths


def test_viewer_is_served(server):
    answer = server.get("/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert server.get("/index.html").body == answer.body
    assert viewer_paths(server)


def test_the_interface_as_a_page(server, start_server):
    """It has every operation, type and error of openapi.json, and needs nothing that the policy refuses."""
    page = server.get("/docs")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = page.body.decode()
    api = server.get("/openapi.json").json()
    places = re.findall(r' id="([^"]+)"', text)
    operations = [one["operationId"] for item in api["paths"].values() for one in item.values() if "operationId" in one]
    assert len(set(places)) == len(places)
    assert set(places) == {*operations, *api["components"]["schemas"], *api["components"]["responses"], "errors"}
    assert set(re.findall(r' href="#([^"]+)"', text)) <= set(places)
    linked = set(re.findall(r' (?:href|src)="([^#"]+)"', text))
    assert linked == {"./", "openapi.json", "docs.css"}
    assert all(server.get("/" + link.removeprefix("./")).status == 200 for link in linked)
    assert not re.search(r"<script|<style|<iframe|<object| style=| on[a-z]+=\"|javascript:", text)
    assert server.get("/docs.css").headers["Content-Type"] == "text/css; charset=utf-8"
    for name in api["components"]["schemas"]["AnalyzeRequest"]["properties"]:
        assert f"<code>{name}</code>" in text
    assert (server.get("/docs/").status, server.get("/docs/").headers["Location"]) == (308, "/docs")
    moved = start_server("--root-path", "/lab").get("/lab/docs/")
    assert (moved.status, moved.headers["Location"]) == (308, "/lab/docs")


def test_hashed_assets_are_immutable(server):
    for path in viewer_paths(server):
        answer = server.get(path)
        assert answer.status == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_viewer_files_are_compressed_for_clients_that_accept_it(server):
    for path in viewer_paths(server):
        plain, packed = server.get(path), server.get(path, {"Accept-Encoding": "br, gzip;q=0.5"})
        assert "Content-Encoding" not in plain.headers
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        assert "Accept-Encoding" in packed.headers["Vary"]
        refused = server.get(path, {"Accept-Encoding": "gzip;q=0"})
        assert refused.body == plain.body


def test_unchanged_viewer_files_are_not_sent_again(server):
    etag = server.get("/").headers["ETag"]
    for known in [etag, f'"other", {etag}', "*"]:
        answer = server.get("/", {"If-None-Match": known})
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["ETag"] == etag
    assert server.get("/", {"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/", "/assets/..%2f",
                                  "//", "/index.html/", "/%ff%fe"])
def test_no_path_reaches_anything_else(server, path):
    assert server.get(path).status in (200, 308, 404)
    assert b"root:" not in server.get(path).body


def test_metrics_are_those_of_the_reference(server, start_server, tmp_path):
    """docs/reference/metrics.md has the name, the type and the meaning of each, and a star where it needs --state."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)`( \*)? \| (\w+) \| [^|]* \| (.+) \|$", page, re.M)
    keeping = start_server("--state", str(tmp_path / "state"))
    for one, starred in [(server, [""]), (keeping, ["", " *"])]:
        text = one.get("/metrics").body.decode()
        types, meanings = (dict(re.findall(rf"^# {kind} (\w+) (.+)$", text, re.M)) for kind in ("TYPE", "HELP"))
        assert {(name, types[name], meanings[name]) for name in types} == \
            {(name, kind, meaning) for name, star, kind, meaning in rows if star in starred}


def test_metrics_are_prometheus_text(server):
    server.get("/health")
    server.post("/analyze", {"text": "count me"})
    answer = server.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'(?:headscope|process)_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+.\deE]+(inf|nan)?')
    names = set()
    for text in answer.body.decode().splitlines():
        if text.startswith("# "):
            assert re.fullmatch(r"# (HELP (headscope|process)_\w+ .+|TYPE (headscope|process)_\w+ (counter|gauge|histogram))", text)
        else:
            assert line.fullmatch(text), text
            names.add(text)
    assert len(names) == len(answer.body.decode().splitlines()) - len(
        [t for t in answer.body.decode().splitlines() if t.startswith("#")])
    metrics = server.metrics()
    assert metrics['headscope_requests_total{method="GET",route="/health",status="200",model=""}'] >= 1
    assert metrics['headscope_requests_total{method="POST",route="/analyze",status="200",model="mini"}'] >= 1
    server.wait_metric("loop_lag_seconds_count", lambda count: count >= 1)
    assert [name for name in metrics if name.startswith('headscope_build_info{version="')]
    assert metrics["headscope_tokens_total"] >= 4
    assert metrics['headscope_stage_seconds_count{stage="forward"}'] >= 1
    assert metrics["headscope_requests_in_flight"] == 1  # this one
    assert metrics["process_resident_memory_bytes"] > 0 and metrics["process_max_fds"] >= metrics["process_open_fds"]
    assert 0 < time.time() - metrics["process_start_time_seconds"] < PATIENCE * 100


def test_made_up_methods_and_names_of_models_make_no_odd_series(start_server):
    server = start_server("--model", f'a"b\\c={MINI}')
    for method in ["FOO", "BAR", "TRACE"]:
        assert server.request(method, "/nowhere").status == 404
    assert server.post("/tokenize", {"text": "a"}).status == 200
    assert server.requests(method="other", route="none", status="404") == 3
    assert server.requests(model='a\\"b\\\\c', route="/tokenize", status="200") == 1


def test_names_of_models_are_escaped_in_metrics(start_server):
    name = 'a"\\\n}'
    server = start_server("--model", f"{name}={MINI}")
    assert server.post("/analyze", {"text": "a", "model": name}).status == 200
    assert '{method="POST",route="/analyze",status="200",model="a\\"\\\\\\n}"} 1\n' in server.get("/metrics").body.decode()


def test_histograms_add_up(server):
    metrics = server.metrics()
    name = "headscope_request_seconds"
    buckets = [value for key, value in metrics.items() if key.startswith(name + "_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == metrics[name + "_count"]


@pytest.mark.parametrize("path", ["/analyze", "/tokenize", "/models"])
def test_compressed_bodies_are_refused_by_name(server, path):
    """They would be called malformed JSON else. An upload's format is detected, so /corpora takes them."""
    packed = gzip.compress(json.dumps({"text": "a"}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused = server.request("POST", path, packed, headers)
    assert refused.status == 415 and "Content-Encoding 'gzip'" in refused.json()["detail"], refused.body
    plain = server.request("POST", "/tokenize", b'{"text": "a"}', {**headers, "Content-Encoding": "identity"})
    assert plain.status == 200
