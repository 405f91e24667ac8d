"""Errors that the service reports (problem+json, RFC 9457)."""
from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import Message
from typing import Any, Callable, TypeVar

T = TypeVar("T")
# Errors of reading JSON that is not headscope's.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


class HeadscopeError(Exception):
    """A refusal or failure of the service.

    status    HTTP status; 0 when the service could not be reached, or what answers is no headscope
    detail    one sentence: what is wrong and what to do
    pointer   JSON pointer to the field of the request, or None
    position  {"line", "column", "byte"} where a body stops being JSON, or None
    retry_after  seconds after which to try again, or None
    """

    def __init__(self, status: int, detail: str, title: str = "", pointer: str | None = None,
                 position: Mapping[str, int] | None = None, retry_after: float | None = None):
        super().__init__(detail if not pointer else f"{pointer}: {detail}")
        self.status = status
        self.title = title
        self.detail = detail
        self.pointer = pointer
        self.position = position
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.detail, self.title, self.pointer, self.position, self.retry_after)

    @classmethod
    def from_answer(cls, status: int, body: bytes, headers: Mapping[str, str] | Message) -> HeadscopeError:
        try:
            problem: Any = json.loads(body)
        except (ValueError, RecursionError):
            problem = {}
        if not isinstance(problem, dict):
            problem = {}

        def member(name: str, kind: type) -> Any:
            return problem[name] if isinstance(problem.get(name), kind) else None

        after = headers.get("Retry-After") or ""
        return cls(status, member("detail", str) or body[:500].decode(errors="replace") or f"HTTP {status}",
                   member("title", str) or "", member("pointer", str), member("position", dict),
                   float(after) if after.isdecimal() else None)


def read_answer(body: bytes, read: Callable[[Any], T]) -> T:
    """Returns what `read` makes of the JSON of an answer. Raises HeadscopeError with the beginning of the answer if it
    is not JSON, or lacks what `read` takes from it."""
    try:
        return read(json.loads(body))
    except UNREADABLE as error:
        raise not_ours(body, error) from error


def not_ours(body: bytes, error: BaseException) -> HeadscopeError:
    """The error for an answer that no headscope gives."""
    reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
    return HeadscopeError(0, f"the answer is not one of headscope ({reason}): {body[:200].decode(errors='replace')!r}; "
                             "check the address, and that client and server have the same version")


def instance(value: Any, kind: type[T]) -> T:
    """Returns the value; TypeError if it is of another kind."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value
