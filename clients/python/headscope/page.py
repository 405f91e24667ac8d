"""An answer as one HTML file: its maps to click in, which need neither a server nor a network."""
from __future__ import annotations

import base64
import html
import json
import pathlib
import string
from typing import TYPE_CHECKING, Any

import numpy as np

from .answer import readable, weights

if TYPE_CHECKING:
    from .answer import Analysis

WIDGET = pathlib.Path(__file__).with_name("widget.js")
_PAGE = pathlib.Path(__file__).with_name("page.html")
_TITLES = {"attentions": "Attention: rows are queries, columns keys",
           "similarities": "Context similarity: what is negative is white"}

# Stands in for a notebook's model: widget.js asks it for values, and to hear of changes.
_MODEL = """
for (const place of document.querySelectorAll("[data-state]")) {
  const state = JSON.parse(document.getElementById(place.dataset.state).textContent);
  const bytes = Uint8Array.from(atob(state.maps), (c) => c.charCodeAt(0));
  const values = new Map(Object.entries({ ...state, maps: new DataView(bytes.buffer) }));
  const heard = [];
  const model = {
    get: (name) => values.get(name),
    set(name, value) {
      for (const [key, one] of Object.entries(typeof name === "string" ? { [name]: value } : name)) values.set(key, one);
    },
    save_changes: () => heard.forEach((call) => call()),
    on: (_names, call) => heard.push(call),
    off: (_names, call) => heard.splice(heard.indexOf(call), 1),
  };
  render({ model, el: place });
}
"""

def state_of_maps(answer: Analysis, what: str, layer: int | None, head: int | None) -> dict[str, Any]:
    """Returns what widget.js shows: the maps as bytes, their scales, and which head is large at first. ValueError if the
    answer is of cross heads, or has its heads summed up."""
    maps, scales = _bytes_of(answer[what])
    layers, heads = answer["layers"].tolist(), answer["heads"].tolist()
    if maps.shape[2] != maps.shape[3]:
        raise ValueError("maps of cross heads are not shown here: to_bertviz() shows them")
    if maps.shape[1] != len(heads):
        raise ValueError('the answer has its heads summed up: ask for it with reduce="none"')
    return {"name": answer.model, "what": what, "tokens": answer.tokens, "layers": layers, "heads": heads,
            "maps": maps.tobytes(), "scales": scales, "layer": layers[-1] if layer is None else layer,
            "head": heads[0] if head is None else head}


def page_of(answer: Analysis) -> str:
    """Returns the page. ValueError if the answer holds no maps, is of cross heads, or has its heads summed up."""
    shown = [what for what in _TITLES if what in answer]
    if not shown:
        raise ValueError('the answer has no maps to show: ask for outputs=["attentions", "similarities"]')
    parts = []
    for what in shown:
        state = state_of_maps(answer, what, None, None)
        state.update(maps=base64.b64encode(state["maps"]).decode(), tokens=readable(answer.tokens), pair=[])
        data = json.dumps(state).replace("<", "\\u003c")  # no text of a user ends the script
        parts.append(f'<h2>{_TITLES[what]}</h2>\n<div data-state="{what}"></div>\n'
                     f'<script type="application/json" id="{what}">{data}</script>')
    texts = [answer.request[name] for name in ("text", "text_pair") if name in answer.request]
    text = " | ".join(texts) or " ".join(readable(answer.tokens))
    page = string.Template(_PAGE.read_text(encoding="utf-8"))
    return page.substitute(title=html.escape(f"headscope: {answer.model}"), text=html.escape(text.replace("\0", "␀")), maps="\n".join(parts),
                           script=WIDGET.read_text(encoding="utf-8") + _MODEL)


def _bytes_of(maps: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """255 times the square root of each value over its map's largest; what is negative is 0."""
    values = np.clip(weights(maps), 0, None)
    scales = values.max((2, 3))
    shares = values / np.where(scales > 0, scales, 1)[:, :, None, None]
    return np.rint(255 * np.sqrt(shares)).astype(np.uint8), scales.ravel().tolist()
