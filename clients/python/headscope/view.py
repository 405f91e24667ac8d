"""The viewer in a notebook: a frame of the server's own page, at the view and text of an answer."""
from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

# Fields of a request and what the viewer's address calls them. "layers" and "heads" choose among what the view shows
# anyway, outputs and their form do not matter to it.
NAMES = {"text": "text", "text_pair": "pair", "model": "model", "max_tokens": "max", "window": "window",
         "split_special_tokens": "literal", "threshold": "tau", "attention_threshold": "atau"}
UNSEEN = {"layers", "heads", "outputs", "normalize", "max_pairs", "pool", "rows", "columns", "reduce", "digits", "dtype", "predictions",
          "head_scores", "effects_of", "target"}
VIEWS = ("overview", "head", "text", "pairs", "experiment", "compare", "trace", "corpus")


class View:
    """A frame that a notebook shows. `url` opens the same in a browser; `state` is what it says behind its #."""

    def __init__(self, url: str, state: Mapping[str, Any], height: int = 600):
        self.state = urlencode({name: _written(value) for name, value in state.items()})
        self.url = f"{url}/?embed#{self.state}"
        self.height = height

    def __repr__(self) -> str:
        return f"<headscope.View {self.url}>"

    def _repr_html_(self) -> str:
        return (f'<iframe src="{html.escape(self.url)}" title="headscope" width="100%" height="{self.height}" '
                f'style="border:0" loading="lazy"></iframe>')


def state_of(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the fragment of the viewer's address that shows the request; None if there is no such fragment."""
    state = {}
    for name, value in request.items():
        if name == "special_tokens":
            state["special"] = value == "keep"
        elif name == "center":
            state["center"] = value == "text"
        elif name == "prompt_name":
            state["prompt"] = f"={value}"
        elif name in NAMES:
            state[NAMES[name]] = value
        elif name not in UNSEEN:
            return None
    return state if "text" in state else None


def _written(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return ".".join(map(str, value)) if isinstance(value, (list, tuple)) else value
