"""The connections that a client keeps between requests."""
from __future__ import annotations

import http.client
import os
import selectors
from collections import deque


class Connections:
    """Open connections that are idle: each was made in this process, and every answer on it was read to its end.

    take() gives a connection away and put() brings it back. An exchange that ends early, by an error, by ^C or because
    nobody wants its answer, does not bring it back, so no other request reads that answer.

    There is no lock. A process may fork at any moment, and a fork copies locks that no thread of the child opens. The
    garbage collector may send a request between any two steps of another.
    """

    def __init__(self) -> None:
        self._kept: tuple[int, deque[http.client.HTTPConnection]] = (os.getpid(), deque())

    def take(self) -> http.client.HTTPConnection | None:
        """Returns a connection that nobody else uses; None if there is none."""
        idle = self._of_this_process()
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread was faster
                return None
            if _is_silent(connection):
                return connection
            connection.close()
        return None

    def put(self, connection: http.client.HTTPConnection, process: int) -> None:
        """Keeps a connection whose answer was read, for the process that sent the request."""
        if connection.sock is not None and process == os.getpid():
            self._of_this_process().append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Closes the idle connections. Those that are taken are kept when they come back."""
        process, idle = self._kept
        self._kept = (process, deque())
        for connection in idle:
            connection.close()

    def _of_this_process(self) -> deque[http.client.HTTPConnection]:
        """A forked process leaves its parent's connections alone: it closes its copies, which ends no connection."""
        if self._kept[0] != os.getpid():
            self.close()
            self._kept = (os.getpid(), deque())
        return self._kept[1]


def _is_silent(connection: http.client.HTTPConnection) -> bool:
    """Returns whether nothing arrived since the last answer: neither the connection's end nor bytes of some other answer."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.sock, selectors.EVENT_READ)
            return not selector.select(0)
    except (OSError, ValueError):  # closed on this side
        return False
