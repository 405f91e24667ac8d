"""A server of the client's own, which ends with the client or with Python."""
from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator
from typing import IO

from .errors import HeadscopeError
from .program import find_program


@contextlib.contextmanager
def _interrupts_held() -> Iterator[list[int]]:
    """Holds ^C back while the block runs, and gives the list of those held: Popen loses a process of an unknown number.

    Only the main thread handles it. A started process has handlers of its own."""
    held: list[int] = []
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if callable(handler):
        signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        yield held
    finally:
        if callable(handler):
            signal.signal(signal.SIGINT, handler)


class Server:
    """Starts `headscope serve` on a free port of this machine and waits until it is ready.

    options  those of the command line
    binary   the program; the default is find_program()
    token    whether the server gets a token of its own, `self.token`; not if options name a --token-file. All users of
             this machine reach a port of 127.0.0.1.

    The server ends with stop(), with this object or with Python, whichever comes first. A forked process has a copy of
    the object and does not end it. If a signal kills Python, the server keeps running.
    """

    def __init__(self, *options: str, binary: str | os.PathLike[str] | None = None, token: bool = True):
        program = str(binary or find_program() or "")
        if not program:
            raise HeadscopeError(0, "no server is given, this package came without the program, and no headscope is on the "
                                    "PATH: install a wheel that has it, give the program's path as binary= or in the "
                                    "environment as HEADSCOPE, or give the address of a server that runs")
        given = any("--token-file".startswith(name) and len(name) > 3 for name in (str(option).partition("=")[0] for option in options))
        self.token = secrets.token_hex(16) if token and not given else None
        # A file that only this user can read, while the server starts: arguments and environments are seen by others.
        with tempfile.TemporaryFile("w+") as log, tempfile.NamedTemporaryFile("w", prefix="headscope-token-") as secret:
            if self.token:
                secret.write(self.token + "\n")
                secret.flush()
                options = ("--token-file", secret.name, *options)
            try:  # in a session of its own: ^C and a notebook's interrupt reach only Python
                with _interrupts_held() as held:
                    self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE,
                                                    stderr=log, text=True, start_new_session=True)
                    # Ends it, once: at the latest when Python does, or if ^C comes while the server starts.
                    self.stop = weakref.finalize(self, _end, self.process, os.getpid())
            except OSError as error:
                raise HeadscopeError(0, f"cannot start {program}: {error.strerror}") from error
            try:
                if held:
                    signal.raise_signal(signal.SIGINT)
                self.url = self._address(program, log)
            except BaseException:
                self.stop()
                raise

    def _address(self, program: str, log: IO[str]) -> str:
        """Waits until the server is ready and returns its address."""
        assert self.process.stdout is not None
        ready = re.search(r" on (http://\S+|unix:.+)", self.process.stdout.readline())
        if not ready:
            self.process.wait()
            log.seek(0)
            raise HeadscopeError(0, f"{program} ended before it was ready: {log.read().strip()[-2000:]}")
        return ready.group(1)


def _end(process: subprocess.Popen[str], starter: int) -> None:
    """Ends the server of a process and waits for it."""
    if starter != os.getpid():
        return
    process.terminate()
    process.wait()
    if process.stdout:
        process.stdout.close()
