"""The client for asyncio: the calls of Client as coroutines, each in a thread of its own pool."""
from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, Literal, TypeVar, overload

from .answer import Analysis, Figure, Tokens
from .client import Client, Progress
from .errors import HeadscopeError
from .runs import Run
from .server import Server

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .fields import AnalyzeFields

T = TypeVar("T")


class AsyncClient:
    """A headscope service for asyncio.

        async with headscope.AsyncClient("http://127.0.0.1:8080") as client:
            answers = await asyncio.gather(*(client.analyze(text) for text in texts))

    url, token, timeout, server, public_url  as of Client, which is `client.blocking`
    parallel  requests that are under way at a time; others wait for their turn

    A coroutine that is cancelled returns at once. Its request ends by itself, in its thread. Event loops, threads and
    processes may share a client, as they may share a Client.
    """

    def __init__(self, url: str | None = None, token: str | None = None, timeout: float = 120,
                 server: Server | None = None, public_url: str | None = None, parallel: int = 8):
        self.blocking = Client(url, token, timeout, server, public_url)
        self._parallel = parallel
        self._threads: tuple[int, ThreadPoolExecutor] | None = None  # and the process that they run in

    def __reduce__(self) -> tuple[Any, ...]:
        maker, arguments = self.blocking.__reduce__()
        return type(self), (*arguments, self._parallel)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"headscope.AsyncClient({self.blocking.url!r})"

    async def close(self) -> None:
        """Waits for requests that are under way, closes the connections and stops the client's own server. A client of
        another server can be used again."""
        threads, self._threads = self._threads, None

        def end() -> None:
            if threads and threads[0] == os.getpid():
                threads[1].shutdown()
            self.blocking.close()

        await asyncio.get_running_loop().run_in_executor(None, end)

    def _pool(self) -> ThreadPoolExecutor:
        """The threads of this process: those of the process that forked it do not run here."""
        if self._threads is None or self._threads[0] != os.getpid():
            self._threads = (os.getpid(), ThreadPoolExecutor(self._parallel, "headscope"))
        return self._threads[1]

    async def _call(self, function: Callable[..., T], *arguments: Any, **fields: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._pool(), functools.partial(function, *arguments, **fields))

    async def analyze(self, text: str | None = None, **fields: Unpack[AnalyzeFields]) -> Analysis:
        """One text analysed, as Client.analyze."""
        return await self._call(self.blocking.analyze, text, **fields)

    async def figure(self, text: str | None = None, kind: str = "head", format: str = "svg",
                     options: Mapping[str, Any] | None = None, **fields: Any) -> Figure:
        """A figure to print, as Client.figure."""
        return await self._call(self.blocking.figure, text, kind, format, options, **fields)

    async def tokenize(self, text: str | None = None, **fields: Any) -> Tokens:
        """The tokens of a text, as Client.tokenize."""
        return await self._call(self.blocking.tokenize, text, **fields)

    async def models(self) -> list[dict[str, Any]]:
        """The served models, as Client.models."""
        return await self._call(self.blocking.models)

    async def start_run(self, texts: Iterable[str | Mapping[str, Any]], **options: Any) -> Run:
        """Starts a corpus run, as Client.start_run. The run's own calls block: await asyncio.to_thread(run.wait)."""
        return await self._call(self.blocking.start_run, texts, **options)

    async def run(self, id: str) -> Run:
        """A corpus run by its id."""
        return await self._call(self.blocking.run, id)

    @overload
    def analyze_many(self, texts: Iterable[str], progress: Progress | None = None, parallel: int = 4, *,
                     errors: Literal["raise"] = "raise", **fields: Unpack[AnalyzeFields]) -> AsyncIterator[Analysis]: ...

    @overload
    def analyze_many(self, texts: Iterable[str], progress: Progress | None = None, parallel: int = 4, *,
                     errors: Literal["keep"],
                     **fields: Unpack[AnalyzeFields]) -> AsyncIterator[Analysis | HeadscopeError]: ...

    def analyze_many(self, texts: Iterable[str], progress: Progress | None = None, parallel: int = 4, *,
                     errors: Any = "raise", **fields: Any) -> AsyncIterator[Any]:
        """The answers of many texts in their order, as Client.analyze_many: `async for answer in ...`."""
        return self._each(self.blocking.analyze_many(texts, progress, parallel, errors=errors, **fields))

    def analyze_batch(self, texts: Iterable[str | Mapping[str, Any]], progress: Progress | None = None,
                      **fields: Any) -> AsyncIterator[dict[str, Any] | HeadscopeError]:
        """JSON answers of many short texts, as Client.analyze_batch: `async for answer in ...`."""
        return self._each(self.blocking.analyze_batch(texts, progress, **fields))

    async def _each(self, answers: Generator[T, None, None]) -> AsyncIterator[T]:
        """Yields what a generator of Client gives. Its steps run in threads, one at a time. Nobody waits for its end: a
        step that is under way when the coroutine is cancelled may last."""
        step = threading.Lock()  # a step that nobody awaits any more may still run when the generator is closed
        end = object()

        def locked(function: Callable[..., Any], *arguments: Any) -> Any:
            with step:
                return function(*arguments)

        try:
            while (answer := await self._call(locked, next, answers, end)) is not end:
                yield answer
        finally:
            self._pool().submit(locked, answers.close)
