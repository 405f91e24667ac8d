"""A stand-in for the HuggingFace hub on this machine, which answers as the real one does. It lists revisions and
answers HEAD with a file's commit, etag and size. It sends small files itself and redirects to another host for large
ones. It serves ranges, and names gated and missing repositories in X-Error-Code. tests/api/test_pull.py also has
huggingface_hub download from it.

    hub = Hub({"org/model": {"config.json": b"{}", "model.safetensors": b"..."}})
    os.environ["HF_ENDPOINT"] = hub.url
"""
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin")


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_large(name):
    return name.endswith(LARGE)


def etag(name, data):
    return hashlib.sha256(data).hexdigest() if is_large(name) else git_sha1(data)


class Hub:
    COMMIT = "c0ffee" * 6 + "c0ff"

    def __init__(self, repositories):
        self.repositories = repositories
        self.gated = set()            # names that need TOKEN
        self.renamed = {}             # old name -> new name
        self.token = "hf_sixteen_letters_at_least"
        self.cut_after = None         # bytes of a large file after which the connection breaks, once
        self.no_ranges = False
        self.damage = False           # flip a byte of large files
        self.surplus = 0              # bytes that a large file has beyond its announced size
        self.slow_until = None        # an event: large files come in small pieces until it is set
        self.dripping = threading.Event()  # set: a list comes in two bytes at a time, without an end
        self.drips = 0                # lists that began to come so
        self.instead = {}             # path on the hub or its store -> (status, body, headers) that it answers instead
        self.requests = []            # (host, method, path, authorization, range)
        self.servers = [self._serve("hub"), self._serve("store")]
        self.url, self.store = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def _serve(self, host):
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = unquote(urlsplit(self.path).path)
                hub.requests.append((host, self.command, path, self.headers.get("Authorization"),
                                     self.headers.get("Range")))
                if path in hub.instead:
                    self.reply(*hub.instead[path])
                else:
                    getattr(hub, "_" + host)(self, path)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

            def reply(self, status, body=b"", headers=(), cut=None):
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                if "Content-Length" not in dict(headers):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    at = 0
                    while hub.slow_until and is_large(self.path.split("?")[0]) and at < len(body) // 2:
                        self.wfile.write(body[at:at + 4096])
                        at += 4096
                        if hub.slow_until.wait(0.01):
                            break
                    self.wfile.write(body[at:] if cut is None else body[at:cut])
                    if cut is not None:
                        self.wfile.flush()
                        self.connection.close()
                        self.close_connection = True

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # clients that leave are no news
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def _refuse(self, request, status, code, message):
        request.reply(status, json.dumps({"error": message}).encode(),
                      {"X-Error-Code": code, "X-Error-Message": message})

    def _hub(self, request, path):
        listing = re.fullmatch(r"/api/models/((?:[^/]+/)?[^/]+)/revision/(.+)", path)
        resolve = re.fullmatch(r"/((?:[^/]+/)?[^/]+)/resolve/([^/]+)/(.+)", path)
        found = listing or resolve
        name = found[1] if found else ""
        if name in self.renamed:
            request.reply(307, b"", {"Location": path.replace(name, self.renamed[name], 1)})
        elif name not in self.repositories:
            self._refuse(request, 401, "RepoNotFound", "Repository not found")
        elif found[2] not in ("main", "v1", self.COMMIT):
            self._refuse(request, 404, "RevisionNotFound", "Invalid rev id")
        elif listing and self.dripping.is_set():
            self._drip(request)
        elif listing:
            request.reply(200, json.dumps({"id": name, "sha": self.COMMIT, "siblings": [
                {"rfilename": file} for file in self.repositories[name]]}).encode(),
                {"Content-Type": "application/json"})
        elif name in self.gated and request.headers.get("Authorization") != f"Bearer {self.token}":
            self._refuse(request, 401 if "Authorization" not in request.headers else 403, "GatedRepo",
                         f"Access to model {name} is restricted")
        elif found[3] not in self.repositories[name]:
            self._refuse(request, 404, "EntryNotFound", "Entry not found")
        else:
            self._file(request, name, found[3])

    def _drip(self, request):
        request.send_response(200)
        request.send_header("Content-Length", "10000000")
        request.end_headers()
        request.wfile.write(b"  ")
        self.drips += 1
        while self.dripping.is_set():
            time.sleep(0.1)
            request.wfile.write(b"  ")

    def _file(self, request, name, file):
        data = self.repositories[name][file]
        headers = {"X-Repo-Commit": self.COMMIT, "Accept-Ranges": "bytes"}
        if is_large(file):
            request.reply(302, b"Found", {**headers, "X-Linked-ETag": f'"{etag(file, data)}"', "ETag": '"other"',
                                          "X-Linked-Size": str(len(data)),
                                          "Location": f"{self.store}/{name}/{file}?signature=secret"})
        else:
            headers["ETag"] = f'W/"{etag(file, data)}"' if file == "vocab.txt" else f'"{etag(file, data)}"'
            self._bytes(request, data, headers)

    def _store(self, request, path):
        _, organisation, name, file = path.split("/", 3)
        if "Authorization" in request.headers:  # a presigned address refuses a second way to authorise
            request.reply(400, b"Only one auth mechanism allowed")
            return
        data = self.repositories[f"{organisation}/{name}"][file]
        data += bytes(self.surplus)
        if self.damage:
            data = data[:-1] + bytes([data[-1] ^ 1])
        cut, self.cut_after = self.cut_after, None
        self._bytes(request, data, {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}, cut)

    def _bytes(self, request, data, headers, cut=None):
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range") or "")
        if not match or self.no_ranges:
            request.reply(200, data, {**headers, "Content-Length": str(len(data))}, cut)
            return
        start, end = int(match[1]), int(match[2] or len(data) - 1)
        part = data[start:end + 1]
        request.reply(206, part, {**headers, "Content-Length": str(len(part)),
                                  "Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(data)}"}, cut)
