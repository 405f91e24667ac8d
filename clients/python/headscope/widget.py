"""A map of heads in a notebook, made of an answer's own arrays: needs anywidget, and no server any more."""
from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import anywidget
import numpy as np
import traitlets

from .answer import weights

if TYPE_CHECKING:
    from .answer import Analysis


class HeadMap(anywidget.AnyWidget):
    """Every head small, one large. layer, head and pair (query and key, empty for none) follow what is clicked, can be
    set, and can be observed: map.observe(print, "pair")."""

    _esm = pathlib.Path(__file__).with_name("widget.js")
    name = traitlets.Unicode().tag(sync=True)
    what = traitlets.Unicode().tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    layers = traitlets.List(traitlets.Int()).tag(sync=True)
    heads = traitlets.List(traitlets.Int()).tag(sync=True)
    maps = traitlets.Bytes().tag(sync=True)
    scales = traitlets.List(traitlets.Float()).tag(sync=True)
    layer = traitlets.Int().tag(sync=True)
    head = traitlets.Int().tag(sync=True)
    pair = traitlets.List(traitlets.Int()).tag(sync=True)

    @traitlets.validate("layer", "head")
    def _chosen(self, proposal: traitlets.Bunch) -> int:
        chosen = getattr(self, proposal["trait"].name + "s")
        if proposal["value"] not in chosen:
            raise traitlets.TraitError(f"{proposal['trait'].name} is one of {chosen}")
        return int(proposal["value"])


def head_map(answer: Analysis, what: str = "attentions", layer: int | None = None,
             head: int | None = None) -> HeadMap:
    maps, scales = _bytes_of(answer[what])
    layers, heads = answer["layers"].tolist(), answer["heads"].tolist()
    if maps.shape[1] != len(heads):
        raise ValueError('the answer has its heads summed up: ask for it with reduce="none"')
    return HeadMap(name=answer.model, what=what, tokens=answer.tokens, layers=layers, heads=heads, maps=maps.tobytes(),
                   scales=scales, layer=layers[-1] if layer is None else layer, head=heads[0] if head is None else head)


def _bytes_of(maps: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """255 times the square root of each value over its map's largest; what is negative is 0."""
    values = np.clip(weights(maps), 0, None)
    scales = values.max((2, 3))
    shares = values / np.where(scales > 0, scales, 1)[:, :, None, None]
    return np.rint(255 * np.sqrt(shares)).astype(np.uint8), scales.ravel().tolist()
