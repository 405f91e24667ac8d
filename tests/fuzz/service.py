#!/usr/bin/python3
"""Fuzzes the running service through its socket: `service.py BINARY http|json [--requests N] [--seconds N] [--seed N]`.

http: requests that know HTTP's framing, most of them broken in one place or two: lengths that lie, chunks, folded and
    doubled headers, NULs, long lines, bytes flipped; sent in pieces, read or not, closed or reset in the middle.
json: bodies for /analyze made from the schema in openapi.json, valid ones and ones that break a rule of it; what is
    answered must be what openapi.json says.
Between them somebody else is answered, and in the end the service has let go of its connections and stops when told.
Each request follows from the seed and its number alone; a failure names both, and --first begins there.
"""
import argparse
import copy
import http.client
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jsonschema

ROOT = Path(__file__).parents[2]
API = json.loads((ROOT / "api/openapi.json").read_text())
TOKEN = "fuzzing-token"
PATIENCE = 60  # s; for what would otherwise hang for ever
PROBE_EVERY = 50
RSS_MAX = 1 << 30


class Service:
    def __init__(self, binary):
        self.log = tempfile.TemporaryFile()
        token = tempfile.NamedTemporaryFile("w", suffix=".token")
        token.write(TOKEN + "\n")
        token.flush()
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--token-file", token.name, "--body-timeout", "3",
             "--header-timeout", "3", "--max-answer", "8M"], stdout=subprocess.PIPE, stderr=self.log)
        ready = re.search(rb":(\d+)\n$", self.process.stdout.readline())
        assert ready, self.said()
        self.port = int(ready[1])
        self.descriptors = self.n_descriptors()

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def open_descriptors(self):
        return [link.readlink() for link in Path(f"/proc/{self.process.pid}/fd").iterdir()]

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def rss(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, body, accept="application/json"):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request("POST", "/analyze", body, {"Authorization": f"Bearer {TOKEN}", "Accept": accept,
                                                      "Content-Type": "application/json", "Connection": "close"})
        except BrokenPipeError:
            pass  # the server refuses a body that is too large before all of it is sent: its answer is there
        answer = client.getresponse()
        content = answer.read()
        client.close()
        return answer.status, answer.headers.get_content_type(), content

    def answers_others(self):
        status, _, content = self.ask('{"text": "a", "outputs": ["pairs"], "heads": [0]}')
        assert status == 200, f"somebody else was answered {status}: {content[:200]}"
        assert self.rss() < RSS_MAX, f"{self.rss()} bytes of memory"

    def stop(self):
        end = time.monotonic() + PATIENCE
        while self.n_descriptors() > self.descriptors and time.monotonic() < end:
            time.sleep(0.05)
        assert self.n_descriptors() <= self.descriptors, f"not let go of: {self.open_descriptors()}"
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(PATIENCE) == 0, f"it ended with {self.process.returncode}"
        except subprocess.TimeoutExpired:
            raise AssertionError("SIGTERM did not end it") from None
        assert not re.search(r"Sanitizer|runtime error:", self.said()), self.said()


# ---- http ----

BODY = b'{"text": "hi there", "outputs": ["pairs"]}'
PATHS = ["/analyze", "/tokenize", "/models", "/health", "/ready", "/metrics", "/corpora", "/corpora/1", "/", "/nothing",
         "/%00", "/%2e%2e/x", "*", "http://x/health", "/analyze?" + "&".join(f"a{i}=1" for i in range(500)), "/" + "y" * 9000]
LENGTHS = ["0", "1", "-1", "+5", "0x10", "99999999999999999999", "18446744073709551615", "5, 5", "", " 7 ", "1e3"]
CODINGS = ["chunked", "identity", "gzip", "chunked, chunked", "gzip, chunked", "Chunked", " chunked", "xchunked", ""]


def line_end(rng):
    return rng.choices([b"\r\n", b"\n", b"\r", b"\r\n "], [30, 1, 1, 1])[0]


def chunk(rng, data):
    size = rng.choice([b"%x", b"%X", b"0%x", b"000000000000%x", b" %x", b"+%x", b"%x "]) if rng.random() < 0.3 else b"%x"
    size = size % (len(data) + rng.choice([0] * 12 + [1, -1, 1 << 31, 1 << 63, 1 << 64]) & ((1 << 68) - 1))
    extension = rng.choices([b"", b";a=b", b';a="b\r\nc"', b";" + b"a" * rng.choice([100, 33000, 70000])], [12, 1, 1, 1])[0]
    return size + extension + line_end(rng) + data + line_end(rng)


def chunked(rng, body):
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randrange(4)))
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)])]
    trailer = rng.choices([b"", b"X: y\r\n", b"Content-Length: 3\r\n", b"Z: " + b"z" * 40000 + b"\r\n"], [12, 1, 1, 1])[0]
    return b"".join(chunk(rng, part) for part in parts if part) + rng.choice([b"0", b"0", b"00", b""]) + b"\r\n" + trailer + b"\r\n"


def headers(rng, body, use_chunks):
    fields = [("Host", rng.choice(["127.0.0.1", "localhost", "127.0.0.1", "evil.example", "", "a b", "x" * 300]))]
    if rng.random() < 0.7:
        fields.append(("Authorization", f"Bearer {TOKEN}"))
    if use_chunks:
        fields.append(("Transfer-Encoding", "chunked" if rng.random() < 0.85 else rng.choice(CODINGS)))
    if not use_chunks or rng.random() < 0.1:
        fields.append(("Content-Length", str(len(body)) if rng.random() < 0.85 else rng.choice(LENGTHS)))
    extra = [("Content-Type", rng.choice(["application/json", "text/plain", "application/x-ndjson", ""])), ("Expect", "100-continue"),
             ("Content-Encoding", "gzip"), ("Connection", rng.choice(["close", "keep-alive", "upgrade"])),
             ("Origin", rng.choice(["null", "http://localhost", "http://evil.example"])), ("", "x"), ("Accept", "*/*;q=" + "9" * 50),
             ("Cookie", "; ".join(f"a{i}=b" for i in range(rng.choice([1, 3000])))), ("X", "y" * rng.choice([1, 8000, 70000])),
             ("Range", "bytes=0-"), ("traceparent", "00-" + "0" * 32 + "-0-00"), ("Accept-Encoding", "gzip;q=0, *"), ("Host", "second")]
    fields += rng.sample(extra, rng.randrange(5))
    if rng.random() < 0.3:
        rng.shuffle(fields)
    colon = ": " if rng.random() < 0.95 else rng.choice([" : ", ":", "", ":\t"])
    return b"".join(f"{name}{colon}{value}".encode() + line_end(rng) for name, value in fields)


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.choices([0, 1, 2, 8], [6, 2, 1, 1])[0]):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = rng.choice([0, 10, 13, 32, 255, rng.randrange(256)])
        elif kind == 1:
            data[at:at] = rng.choice([b"\0", b"\r\n\r\n", b"\n", bytes(rng.randrange(64)), data[at:at + 40]])
        elif kind == 2:
            del data[at:at + rng.randrange(1, 30)]
        else:
            del data[at:]
    return bytes(data)


def http_request(rng):
    use_chunks = rng.random() < 0.5
    method = rng.choice(["POST"] * 6 + ["GET", "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post", "", "X" * 500])
    version = rng.choice(["HTTP/1.1"] * 12 + ["HTTP/1.0", "HTTP/2.0", "HTTP/1.9", "", "HTTP/1.1 "])
    start = f"{method} {rng.choice(PATHS[:3] if rng.random() < 0.5 else PATHS)} {version}".encode() + line_end(rng)
    one = start + headers(rng, BODY, use_chunks) + b"\r\n" + (chunked(rng, BODY) if use_chunks else BODY)
    return mutate(rng, one * rng.choice([1, 1, 1, 1, 3]))


def answers_well_formed(data):
    """Every answer in data, as far as it came, is one that a client can tell the end of."""
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.[01] ([1-5]\d\d) ", head)
        assert status, f"this is no answer: {data[:200]}"
        if not rest and not data.endswith(b"\r\n\r\n") or status[1] == b"100":
            data = rest
            continue
        length = re.search(rb"\r\n(?i:content-length): (\d+)(?=\r\n|$)", head)
        if not length:
            return  # chunks, or a body that ends with the connection
        body, data = rest[:int(length[1])], rest[int(length[1]):]
        if body.startswith(b"HTTP/"):
            data = body + data  # to a HEAD: a length without a body
        elif b"problem+json" in head and len(body) == int(length[1]):
            assert json.loads(body)["status"] == int(status[1]), body


def http_one(service, rng, held):
    request = http_request(rng)
    client = service.connect()
    data = b""
    try:
        for piece in range(pieces := rng.choice([1, 1, 1, 2, 5])):
            client.sendall(request[len(request) * piece // pieces:len(request) * (piece + 1) // pieces])
        ending = rng.choice(["read", "read", "read", "half", "close", "reset", "hold"])
        if ending == "half":
            client.shutdown(socket.SHUT_WR)
        if ending in ("read", "half"):
            client.settimeout(0.05)
            while part := client.recv(1 << 16):
                data += part
        if ending == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        ending = "close"  # the server may end what it refused before all of it is there
    answers_well_formed(data)
    if ending == "hold":
        held.append(client)
        if len(held) > 20:
            held.pop(0).close()
    else:
        client.close()


# ---- json ----

ODD = [None, True, "", "a", -1, 0, 1, 2**31, 2**63, -2**63, 10**400, 1e308, -0.0, [], {}, [[]], [None], {"a": 1}, "\0", "\ud800", "𝔸́ﬁ"]
TEXTS = ["", "hi", "The war ended in 1945. It changed [MASK].", "a " * 200, "𝔸́ﬁ\u202e", "[SEP][CLS]", "\0"]


def example(rng, schema, name=""):
    schema = resolve(schema)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "oneOf" in schema and "properties" not in schema:
        return example(rng, rng.choice(schema["oneOf"]), name)
    kind = schema.get("type")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        chosen = [key for key in schema.get("properties", {}) if key in schema.get("required", []) or rng.random() < 0.15]
        if "oneOf" in schema:
            chosen += rng.choice(schema["oneOf"]).get("required", [])
        return {key: example(rng, schema["properties"][key], key) for key in dict.fromkeys(chosen)}
    if kind == "array":
        n = max(schema.get("minItems", 0), rng.choice([0, 1, 1, 2, 5]))
        return [example(rng, schema.get("items", {}), name) for _ in range(n)]
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", 0), schema.get("maximum", 30)
        return rng.randint(low, min(high, low + 30)) if kind == "integer" else rng.uniform(low, high)
    if kind == "boolean":
        return rng.random() < 0.5
    return "mini" if name == "model" else rng.choice(TEXTS)


def resolve(schema):
    while "$ref" in schema:
        schema = API["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def places(value, at=()):
    yield at
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(child, (*at, key))


def spoil(rng, body):
    """One thing in it is not what the schema says, most likely. Odd values are copied: a second change may be inside one."""
    at = rng.choice(list(places(body)))
    if not at:
        return copy.deepcopy(rng.choice([*ODD, {**body, rng.choice(["texts", "", "a" * 300]): 1}]))
    parent = body
    for key in at[:-1]:
        parent = parent[key]
    kind = rng.randrange(4)
    if kind == 0 and isinstance(parent, dict):
        del parent[at[-1]]
    elif kind == 1 and isinstance(parent, list):
        parent.extend(parent * rng.choice([1, 300]))
    else:
        parent[at[-1]] = copy.deepcopy(rng.choice(ODD))
    return body


def json_request(rng):
    body = example(rng, {"$ref": "#/components/schemas/AnalyzeRequest"})
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        body = spoil(rng, body) if isinstance(body, dict) else body
    text = json.dumps(body, allow_nan=True)
    if rng.random() < 0.1:
        text = rng.choice([text[:rng.randrange(len(text) + 1)], text + text, "[" * 5000 + text, text.replace(":", ":" * 2, 1),
                           text.replace("{", '{"text": "twice",', 1)])
    return text.encode(errors="surrogatepass")


ANALYZE = API["paths"]["/analyze"]["post"]["responses"]
ANSWER = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/AnalyzeAnswer", "components": API["components"]})


def json_one(service, rng, _held):
    accept = rng.choice(["application/json"] * 3 + [kind for kind in ANALYZE["200"]["content"] if "ndjson" not in kind])
    status, kind, content = service.ask(json_request(rng), accept)
    assert status != 500 and str(status) in ANALYZE, f"{status}: {content[:300]}"
    if status != 200:
        problem = json.loads(content)
        assert kind == "application/problem+json" and problem["status"] == status and problem["detail"], content
    elif kind == "application/json":
        ANSWER.validate(json.loads(content))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("kind", choices=["http", "json"])
    parser.add_argument("--requests", type=int, default=0, help="0: no end")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    one = {"http": http_one, "json": json_one}[options.kind]
    service, held, n = Service(options.binary), [], options.first
    end = time.monotonic() + options.seconds
    try:
        while n - options.first < options.requests if options.requests else time.monotonic() < end:
            one(service, random.Random(f"{options.seed} {n}"), held)
            n += 1
            if n % PROBE_EVERY == 0:
                service.answers_others()
        for client in held:
            client.close()
        service.answers_others()
        service.stop()
    except (AssertionError, OSError, http.client.HTTPException, jsonschema.ValidationError, ValueError) as fault:
        service.process.kill()
        sys.exit(f"{options.kind}: {type(fault).__name__}: {str(fault)[:2000]}\nBefore request {n} of seed {options.seed}: "
                 f"--seed {options.seed} --first {n // PROBE_EVERY * PROBE_EVERY - PROBE_EVERY if n >= PROBE_EVERY else 0}")
    print(f"{options.kind}: {n - options.first} requests of seed {options.seed}")


if __name__ == "__main__":
    main()
