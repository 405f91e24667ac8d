"""Errors that the service reports (problem+json, RFC 9457)."""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class HeadscopeError(Exception):
    """A refusal or failure of the service.

    status    HTTP status; 0 when the service could not be reached
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
    def from_answer(cls, status: int, body: bytes, headers: Mapping[str, str]) -> HeadscopeError:
        try:
            problem: Any = json.loads(body)
        except ValueError:
            problem = {}
        if not isinstance(problem, dict):
            problem = {}
        after = headers.get("Retry-After") or ""
        return cls(status, problem.get("detail") or body.decode(errors="replace")[:500] or f"HTTP {status}",
                   problem.get("title", ""), problem.get("pointer"), problem.get("position"),
                   float(after) if after.isdigit() else None)
