"""A server of one's own, for as long as a `with` block or the program lasts."""
from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from typing import Optional, Union

from .client import Client
from .errors import HeadscopeError


class LocalClient(Client):
    """A client whose server is its own: closing it ends both."""

    def __init__(self, process: "subprocess.Popen[str]", url: str):
        super().__init__(url)
        self._process = process
        atexit.register(self.close)

    def close(self) -> None:
        super().close()
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


def start(*options: str, binary: Optional[Union[str, "os.PathLike[str]"]] = None) -> LocalClient:
    """Starts `headscope serve` on a free port of this machine and returns a client of it.

        with headscope.start("--model", "bert=/models/bert-base-uncased") as client: ...

    options are those of the command line; binary is the program, else $HEADSCOPE, else `headscope` on the PATH.
    """
    program = str(binary or os.environ.get("HEADSCOPE") or shutil.which("headscope") or "")
    if not program:
        raise HeadscopeError(0, "the program headscope is not on the PATH: build it with `make`, then give its path as "
                                "binary= or in the environment as HEADSCOPE")
    with tempfile.TemporaryFile("w+") as log:
        try:
            process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", *options],
                                       stdout=subprocess.PIPE, stderr=log, text=True)
        except OSError as error:
            raise HeadscopeError(0, f"cannot start {program}: {error.strerror}") from error
        assert process.stdout is not None
        ready = re.search(r"http://\S+", process.stdout.readline())
        if ready:
            return LocalClient(process, ready.group())
        process.wait()
        process.stdout.close()
        log.seek(0)
        raise HeadscopeError(0, f"{program} ended before it was ready: {log.read().strip()[-2000:]}")
