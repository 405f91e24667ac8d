"""Clients of several addresses: one of them can take at most half of the capacity. Each address is a network namespace."""
import contextlib
import ctypes
import http.client
import json
import os
import shutil
import socket
import subprocess

import pytest
from conftest import HEADSCOPE, PATIENCE, Answer, Server, post_bytes, until

CLONE_NEWNET = 0x40000000
# About 35 MB of JSON, for which 41 MB are held.
LARGE = {"text": "war and peace the old bridge closed " * 100, "max_tokens": 512, "layers": [0], "outputs": ["attentions"]}


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network name space can be made here: ip {' '.join(arguments)}: {done.stderr.strip()}")


@contextlib.contextmanager
def inside(space):
    """Lets this thread make sockets in the name space. They stay there."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as before, open(f"/run/netns/{space}", "rb") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            pytest.skip(f"no network name space can be entered here: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


class Network:
    """A name space for the server, and two for clients, each linked to it: addresses of no other network are used."""

    def __init__(self):
        if not shutil.which("ip"):
            pytest.skip("iproute2 is not installed")
        self.server = f"headscope-{os.getpid()}-s"
        self.clients = [f"headscope-{os.getpid()}-{i}" for i in range(2)]

    def __enter__(self):
        for space in (self.server, *self.clients):
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", self.server, "address", "add", "192.0.2.1/32", "dev", "lo")
        for i, space in enumerate(self.clients):
            ip("-n", self.server, "link", "add", f"to{i}", "type", "veth", "peer", "name", "out", "netns", space)
            for where, device, address in ((self.server, f"to{i}", 1), (space, "out", 2)):
                ip("-n", where, "address", "add", f"198.51.100.{i * 4 + address}/30", "dev", device)
                ip("-n", where, "link", "set", device, "up")
            ip("-n", space, "route", "add", "192.0.2.1", "via", f"198.51.100.{i * 4 + 1}")
        return self

    def __exit__(self, *_):
        for space in (self.server, *self.clients):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)


@pytest.fixture
def network():
    with Network() as made:
        yield made


class Distant(Server):
    """A server in the network's first name space."""

    def __init__(self, network, folder, *arguments):
        program = folder / "headscope"
        program.write_text(f'#!/bin/sh\nexec ip netns exec {network.server} "{HEADSCOPE}" "$@"\n', encoding="ascii")
        program.chmod(0o755)
        super().__init__("--listen", "192.0.2.1:0", *arguments, program=program)

    def socket_from(self, space):
        with inside(space):
            return socket.create_connection((self.host, self.port), PATIENCE)

    def ask(self, space, method, path, body=None):
        connection = http.client.HTTPConnection(self.host, self.port)
        with contextlib.closing(connection):
            connection.sock = self.socket_from(space)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            return Answer(connection.getresponse())


def test_answers_that_one_address_does_not_read_leave_others_half_of_what_is_held(network, tmp_path):
    server = Distant(network, tmp_path, "--max-held", "128M", "--cache", "0")
    greedy, other = network.clients
    with contextlib.ExitStack() as stalled:
        client = stalled.enter_context(server.socket_from(greedy))
        client.sendall(post_bytes(LARGE))
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        refused = server.ask(greedy, "POST", "/analyze", json.dumps(LARGE))
        assert refused.status == 503 and "Retry-After" in refused.headers, refused.body[:200]
        answer = server.ask(other, "POST", "/analyze", json.dumps(LARGE))
        assert answer.status == 200 and len(answer.json()["tokens"]) == 512
        assert server.ask(greedy, "GET", "/health").status == 200
    until(lambda: server.ask(greedy, "POST", "/analyze", json.dumps(LARGE)).status, lambda status: status == 200)
    assert server.stop() == 0


@pytest.mark.slow
def test_connections_of_one_address_leave_others_half(network, tmp_path):
    server = Distant(network, tmp_path, "--connections", "8")
    greedy, other = network.clients
    with contextlib.ExitStack() as idle:
        clients = [idle.enter_context(server.socket_from(greedy)) for _ in range(8)]
        for client in clients[4:]:  # refused as soon as they are accepted
            assert client.recv(15) in (b"HTTP/1.1 503 Se", b"")
        for _ in range(20):
            assert server.ask(other, "GET", "/health").status == 200
    assert server.stop() == 0
