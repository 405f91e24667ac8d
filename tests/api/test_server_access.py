"""Access: bearer tokens, and pages of other sites."""
import pytest
from conftest import served

TOKEN = "s3cret-token-of-the-tests"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    tokens = tmp_path_factory.mktemp("guarded") / "tokens"
    tokens.write_text(f"{TOKEN}\nanother-one\n")
    yield from served("--token-file", str(tokens))


@pytest.mark.parametrize("path", ["/models", "/metrics", "/analyze", "/tokenize"])
@pytest.mark.parametrize("authorization", [
    None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}",
    f"Bearer {TOKEN}\tanother-one", TOKEN,
])
def test_without_the_token(guarded, path, authorization):
    headers = {"Authorization": authorization} if authorization is not None else {}
    method = "POST" if path in ("/analyze", "/tokenize") else "GET"
    answer = guarded.request(method, path, headers=headers)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.headers.get_content_type() == "application/problem+json"


def test_with_the_token(guarded):
    for token in [TOKEN, "another-one"]:
        headers = {"Authorization": f"Bearer {token}"}
        assert guarded.get("/models", headers).status == 200
        assert guarded.post("/analyze", {"text": "a"}, headers).status == 200
    assert guarded.get("/models", {"Authorization": f"bearer {TOKEN}"}).status == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/", "/docs", "/openapi.json"])
def test_what_needs_no_token(guarded, path):
    assert guarded.get(path).status == 200


def test_refused_body_is_read_before_the_answer(guarded):
    assert guarded.post("/analyze", '{"text": "%s"}' % ("a" * 4_000_000)).status == 401


ORIGIN = "https://lab.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}


@pytest.fixture(scope="module")
def shared():
    """A server that pages of ORIGIN may use."""
    yield from served("--cors", ORIGIN)


def test_preflight(shared):
    answer = shared.request("OPTIONS", "/analyze", headers={"Origin": ORIGIN, **PREFLIGHT})
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert "Content-Type" in answer.headers["Access-Control-Allow-Headers"]
    assert "Origin" in answer.headers["Vary"]


def test_cors_answers_and_refusals(shared):
    for body in [{"text": "a"}, {"text": 1}]:
        answer = shared.post("/analyze", body, {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"})
        assert answer.status in (200, 422)
        assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert "Server-Timing" in answer.headers["Access-Control-Expose-Headers"]


def test_cors_for_all(start_server):
    server = start_server("--cors", "*")
    assert server.get("/models", {"Origin": ORIGIN}).headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("origin", ["https://evil.example", "https://lab.example.evil.example", "null", ""])
def test_other_origins_get_nothing(shared, origin):
    answer = shared.request("OPTIONS", "/analyze", headers={"Origin": origin, **PREFLIGHT})
    assert "Access-Control-Allow-Origin" not in answer.headers
    answer = shared.post("/analyze", {"text": "a"}, {"Origin": origin, "Sec-Fetch-Site": "cross-site"})
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_own_page_may_post(server):
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.post("/analyze", {"text": "a"}, headers).status == 200
