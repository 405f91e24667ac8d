"""A map of heads in a notebook, made of an answer's own arrays: needs anywidget, and no server any more."""
from __future__ import annotations

from typing import TYPE_CHECKING

import anywidget
import traitlets

from .page import WIDGET, state_of_maps

if TYPE_CHECKING:
    from .answer import Analysis


class HeadMap(anywidget.AnyWidget):
    """Every head small, one large. layer, head and pair (query and key, empty for none) follow clicks and arrow
    keys, can be set, and can be observed: map.observe(print, "pair")."""

    _esm = WIDGET
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
    return HeadMap(**state_of_maps(answer, what, layer, head))
