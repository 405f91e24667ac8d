"""Clients of clients/python cross processes, threads, event loops, the garbage collector, and exceptions between a request and
its answer. Everybody gets the answer to their own text: its number of tokens says whose it is."""
import asyncio
import gc
import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import occupied, unsanitized, until
from test_client_python import CLIENT, package

pytestmark = unsanitized
FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")


def text_of(length):
    return "a " * length


def is_own(client, number):
    length = 1 + number % 40
    return len(client.analyze(text_of(length), outputs=["summary"])) == length + 2  # [CLS], [SEP]


def is_own_of_the_one(number):
    return is_own(the_one, number)


def take(client):
    """Makes the client that of this process."""
    global the_one
    the_one = client


def python(script, *arguments, **more):
    """A Python that runs a script about the client."""
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(CLIENT)},
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)


def test_forked_processes_get_their_own_answers(server):
    with package.Client(server.url) as client:
        assert is_own(client, 0)  # its connection is open
        take(client)
        with FORK.Pool(4) as pool:
            assert Counter(pool.map(is_own_of_the_one, range(400), chunksize=1)) == {True: 400}
        assert is_own(client, 1)


def test_spawned_processes_get_a_pickled_client(headscope):
    with package.start(binary=headscope) as client:
        assert is_own(client, 0)
        with SPAWN.Pool(2, take, (client,)) as pool:
            assert all(pool.map(is_own_of_the_one, range(20), chunksize=1))
        assert is_own(client, 1)  # the server has not ended with the copies


def test_a_pickled_client_keeps_its_options(server):
    client = package.Client(server.url, token="a-token", timeout=7, public_url="https://hub.example/8080")
    for again in (pickle.loads(pickle.dumps(client)), pickle.loads(pickle.dumps(package.AsyncClient(
            server.url, "a-token", 7, None, "https://hub.example/8080"))).blocking):
        assert (again.url, again.token, again._timeout, again.public_url) == (client.url, "a-token", 7, client.public_url)


def test_threads_get_their_own_answers(server):
    with package.Client(server.url) as client, ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda number: is_own(client, number), range(200)))


def test_event_loops_get_their_own_answers(server):
    client = package.AsyncClient(server.url, parallel=3)

    async def ask(lengths):
        return [len(answer) for answer in await asyncio.gather(*(client.analyze(text_of(n), outputs=["summary"]) for n in lengths))]

    with ThreadPoolExecutor(2) as threads:  # one loop after the other, and two at a time
        for lengths, got in zip(2 * [range(1, 20), range(20, 40)], threads.map(lambda n: asyncio.run(ask(n)), 2 * [range(1, 20), range(20, 40)])):
            assert got == [n + 2 for n in lengths]
    asyncio.run(client.close())
    assert asyncio.run(ask([5])) == [7]
    asyncio.run(client.close())


def ask_in_a_loop(lengths):
    async def ask():
        return [len(answer) for answer in await asyncio.gather(*(the_one.analyze(text_of(n), outputs=["summary"]) for n in lengths))]

    return asyncio.run(ask())


def test_a_client_for_asyncio_is_forked(server):
    """Its threads do not run in the child."""
    take(package.AsyncClient(server.url, parallel=2))
    assert ask_in_a_loop([3]) == [5]
    with FORK.Pool(2) as pool:
        assert pool.map(ask_in_a_loop, [[n, n + 1] for n in range(1, 20)], chunksize=1) == [[n + 2, n + 3] for n in range(1, 20)]
    asyncio.run(the_one.close())


def test_a_cancelled_coroutine_leaves_its_answer_to_nobody(start_server):
    """The only worker is occupied, so no answer can come before the coroutine is cancelled."""
    server = start_server("--workers", "1", "--cache", "0")
    blocking = occupied(server)

    async def ask():
        async with package.AsyncClient(server.url, parallel=2) as client:
            waiting = asyncio.ensure_future(client.analyze(text_of(9)))
            many = asyncio.ensure_future(first(client.analyze_many([text_of(n) for n in range(9, 20)], parallel=1)))
            await asyncio.to_thread(server.wait_metric, "queue_depth", lambda n: n >= 2)
            for one in (waiting, many):
                one.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await one
            blocking.close()
            return [len(await client.analyze(text_of(n))) for n in range(1, 5)]

    assert asyncio.run(ask()) == [3, 4, 5, 6]


async def first(answers):
    async for answer in answers:
        return answer


INTERRUPTED = """
import headscope, sys
with headscope.Client(sys.argv[1]) as client:
    client.models()
    print("a connection is open", flush=True)
    input()
    try:
        client.analyze("a b c d e f g", outputs=["summary"])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    input()
    print(len(client.analyze("a", outputs=["summary"])))
"""


def test_an_interrupted_request_leaves_its_answer_to_nobody(start_server):
    server = start_server("--workers", "1", "--cache", "0")
    process = python(INTERRUPTED, server.url)
    assert process.stdout.readline() == "a connection is open\n"
    blocking = occupied(server)
    process.stdin.write("\n")
    process.stdin.flush()
    server.wait_metric("queue_depth", lambda n: n == 1)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    blocking.close()
    assert process.communicate("\n")[0] == "3\n"


def test_an_answer_that_nobody_requested_is_not_read():
    """A proxy may say 408 on an idle connection before it closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    turn = threading.Semaphore(0)

    def answer(body):
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def serve():
        for body in (b"first", b"second"):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer(body))
                turn.acquire()
                connection.sendall(answer(b"of nobody"))
                turn.release()
                turn.acquire()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = package.Client(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert client.request("GET", "/models") == b"first"
    kept = client._connections._kept[1][0].sock
    turn.release()
    until(lambda: kept.recv(1, socket.MSG_PEEK))
    turn.release()
    assert client.request("GET", "/models") == b"second"
    turn.release(2)
    thread.join()
    listener.close()
    client.close()


def test_what_starts_a_run_is_sent_once():
    """The server may have started the run before the connection was lost."""
    listener = socket.create_server(("127.0.0.1", 0))
    seen = []

    def serve():
        while True:
            connection, _ = listener.accept()
            with connection:
                while head := connection.recv(65536):
                    seen.append(head.split()[0])
                    if seen[-1] != b"GET":
                        break
                    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"models":[]}')
            if seen[-1] == b"STOP":
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = package.Client(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert client.models() == []
    client.close()
    with pytest.raises(package.HeadscopeError):
        client.start_run(["a text"])
    with socket.create_connection(listener.getsockname()) as last:
        last.sendall(b"STOP / HTTP/1.1\r\n\r\n")
    thread.join()
    listener.close()
    assert seen == [b"GET", b"POST", b"STOP"]


class Late:
    """Sends a request when it is collected. It is in a circle, so only the garbage collector finds it."""

    def __init__(self, client, lengths):
        self.client, self.lengths, self.circle = client, lengths, self

    def __del__(self):
        self.lengths.append(len(self.client.tokenize(text_of(5)).tokens))


def test_the_garbage_collector_runs_a_request_within_another(server):
    lengths = []
    with package.Client(server.url) as client:
        client.models()
        Late(client, lengths)

        def body():
            yield b'{"text": '
            gc.collect()
            yield b'"a a"}'

        answer = client.request("POST", "/tokenize", body(), {"Content-Type": "application/json", "Content-Length": "15"})
        assert lengths == [7] and len(json.loads(answer)["tokens"]) == 4
        assert len(client.tokenize(text_of(3)).tokens) == 5


def test_a_server_ends_with_the_last_mention_of_its_client(headscope):
    client = package.start(binary=headscope)
    process = client._server.process
    answer = client.analyze("a b")
    del client
    gc.collect()
    assert process.poll() is None and answer.view()  # the answer shows it
    del answer
    gc.collect()
    assert process.returncode == 0


FORKED = """
import headscope, os, sys
client = headscope.start(binary=sys.argv[1])
client.models()
child = os.fork()
if not child:
    with client:
        client.models()
    sys.exit(0)  # Python ends as ever
assert os.waitpid(child, 0)[1] == 0
client.models()
process = client._server.process
client.close()
print(process.returncode)
"""


def test_a_forked_process_does_not_stop_the_server(headscope):
    assert python(FORKED, headscope).communicate()[0] == "0\n"


STARTING = """
import headscope, sys
headscope.start(binary=sys.argv[1])
"""


@pytest.mark.parametrize("attempt", range(10))
def test_a_server_that_starts_ends_with_an_interrupt(tmp_path, attempt):
    """It may arrive before Popen has stored the number of the process."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/number\nmv {tmp_path}/number {tmp_path}/process\nexec sleep 100000\n")
    program.chmod(0o755)
    starting = python(STARTING, program, stderr=subprocess.DEVNULL)
    until((tmp_path / "process").exists)
    number = (tmp_path / "process").read_text().strip()
    starting.send_signal(signal.SIGINT)
    starting.communicate()
    until(lambda: not Path(f"/proc/{number}").exists())  # as soon as its parent, or process 1, has noticed


def test_an_interrupt_of_the_terminal_leaves_the_server(headscope):
    """It goes to all processes of the group, as ^C and "Interrupt" of a notebook do."""
    script = ("import headscope, sys\nclient = headscope.Client()\n"
              "try:\n print('ready', flush=True)\n sys.stdin.readline()\n"
              "except KeyboardInterrupt:\n print(len(client.analyze('a a', outputs=['summary'])))")
    with python(script, start_new_session=True) as user:
        assert user.stdout.readline() == "ready\n"
        os.killpg(user.pid, signal.SIGINT)
        assert user.stdout.read() == "4\n"
    assert user.returncode == 0


@pytest.mark.parametrize("method", ["analyze_many", "analyze_batch"])
def test_answers_are_read_by_the_process_that_sent_the_texts(server, method):
    with package.Client(server.url) as client:
        answers = getattr(client, method)([text_of(n) for n in range(1, 30)], outputs=["summary"])
        next(answers)
        with FORK.Pool(1, take, (answers,)) as pool:
            with pytest.raises(RuntimeError, match=f"process {os.getpid()} sent these texts"):
                pool.apply(next_of_the_one)
        assert len(list(answers)) == 28


def next_of_the_one():
    return next(the_one)
