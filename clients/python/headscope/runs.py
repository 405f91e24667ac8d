"""Corpus runs: a whole collection of texts counted by the service."""
from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar
from urllib.parse import quote, urlencode

import numpy as np

from .answer import read_arrays
from .errors import HeadscopeError, instance, read_answer

if TYPE_CHECKING:
    import pandas

    from .client import Client


T = TypeVar("T")


class Comparison:
    """Figures of several runs. `fields` is the service's answer; the first axis of every array is the run.

        compared = runs[0].compare(*runs[1:])
        compared.head_figures["attention_previous"][:, 2, 7]    # layer 2, head 7 over all runs
    """

    def __init__(self, fields: dict[str, Any]):
        self.fields = fields
        self.names: list[str] = [instance(run["name"], str) for run in fields["runs"]]
        self.warnings: list[str] = instance(fields["warnings"], list)
        self.layers = np.array(fields["layers"], int)
        self.run_figures = _arrays(fields["run_figures"])
        self.layer_figures = _arrays(fields["layer_figures"])
        self.head_figures = _arrays(fields.get("head_figures", {}))

    def __repr__(self) -> str:
        return f"<headscope.Comparison of {', '.join(self.names)}>"

    def to_pandas(self, figure: str) -> pandas.DataFrame:
        """A figure with a column for each run and a row for each layer and head. Figures that heads do not have get
        a row for each layer."""
        import pandas
        by_head = figure in self.head_figures
        values = (self.head_figures if by_head else self.layer_figures)[figure]
        rows = (pandas.MultiIndex.from_product([self.layers, range(values.shape[2])], names=["layer", "head"])
                if by_head else pandas.Index(self.layers, name="layer"))
        return pandas.DataFrame(values.reshape(len(self.names), -1).T, rows, self.names)


def _arrays(figures: dict[str, Any]) -> dict[str, np.ndarray]:
    """Lists as arrays, null as NaN."""
    return {name: np.array(values, float) for name, values in figures.items()}


def _checked(fields: Any) -> dict[str, Any]:
    """The fields of a run; TypeError or KeyError if they are none."""
    checked: dict[str, Any] = instance(fields, dict)
    for name in ("id", "state"):
        instance(checked[name], str)
    return checked


class Run:
    """A corpus run. `fields` is what GET /corpora/{id} said last: state, texts_done, texts_total, eta_seconds, ..."""

    def __init__(self, client: Client, fields: dict[str, Any]):
        self._client = client
        self.fields = _checked(fields)

    @property
    def id(self) -> str:
        return str(self.fields["id"])

    @property
    def state(self) -> str:
        """queued, running, done, failed or cancelled, as of the last refresh."""
        return str(self.fields["state"])

    def __repr__(self) -> str:
        return f"<headscope.Run {self.id}: {self.state}, {self.fields.get('texts_done', 0)} texts>"

    def refresh(self) -> Run:
        self.fields = read_answer(self._client.request("GET", self._path), _checked)
        return self

    def wait(self, progress: Callable[[int, int | None], None] | None = None, every: float = 0.5,
             timeout: float | None = None) -> Run:
        """Returns when the run has ended; HeadscopeError when it failed. progress(texts_done, texts_total) is called
        at every look; texts_total is None until it is known. After `timeout` seconds a run that goes on raises
        TimeoutError; it can be waited for again."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self.refresh()
            if progress:
                progress(self.fields.get("texts_done", 0), self.fields.get("texts_total"))
            if self.state == "failed":
                raise HeadscopeError(0, self.fields.get("error") or "the run failed")
            if self.state not in ("queued", "running"):
                return self
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"run {self.id} is {self.state} after {timeout} s; wait() again, or cancel() it")
            time.sleep(every if end is None else max(0, min(every, end - time.monotonic())))

    def report(self) -> dict[str, Any]:
        """Figures and findings: report.json."""
        return read_answer(self._client.request("GET", f"{self._path}/report"), lambda fields: instance(fields, dict))

    def arrays(self) -> dict[str, np.ndarray]:
        """Every sum of the run: report.npz."""
        return read_arrays(self._client.request("GET", f"{self._path}/report?format=npz"))

    def compare(self, *others: Run, threshold: float | None = None) -> Comparison:
        """Figures of this run and others, in this order: checkpoints of one training, seeds, or models.

        They are those at a threshold that all runs counted at, by default this run's main one.
        """
        query: dict[str, Any] = {"with": ",".join(run.id for run in others)}
        return self._ask("comparison", query if threshold is None else {**query, "threshold": threshold}, Comparison)

    def search(self, layer: int, head: int, **conditions: Any) -> dict[str, Any]:
        """Pairs of tokens of a head, the strongest first. conditions: from_, to, of, min, distance, limit.

            run.search(5, 3, from_="pos=PRON", to="pos=NOUN", min=0.2)["pairs"]

        The run must have been started with search_texts=N.
        """
        return self._ask("search", {"layer": layer, "head": head, **conditions}, lambda fields: instance(fields, dict))

    def examples(self, layer: int, head: int, by: str, limit: int = 100) -> list[dict[str, Any]]:
        """The texts where a figure of a head is highest: by="previous" and others. The run must have been started
        with examples=N."""
        return self._ask("examples", {"layer": layer, "head": head, "by": by, "limit": limit},
                         lambda fields: instance(fields["examples"], list))

    @property
    def _path(self) -> str:
        return "/corpora/" + quote(self.id, safe="")

    def _ask(self, what: str, parameters: dict[str, Any], read: Callable[[Any], T]) -> T:
        query = urlencode({name.rstrip("_"): value for name, value in parameters.items()})
        return read_answer(self._client.request("GET", f"{self._path}/{what}?{query}"), read)

    def cancel(self) -> Run:
        self._client.request("POST", f"{self._path}/cancel")
        return self.refresh()

    def restart(self) -> Run:
        """Continues a failed or cancelled run, or begins it anew if its model has changed."""
        self._client.request("POST", f"/corpora/{self.id}/restart")
        return self.refresh()

    def delete(self) -> None:
        self._client.request("DELETE", self._path)
