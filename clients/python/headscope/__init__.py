"""headscope from Python: texts in, the heads of a transformer out as NumPy arrays.

    import headscope

    with headscope.Client() as client:                 # a server of its own; or headscope.Client("http://host:8080")
        answer = client.analyze("The old bridge [MASK] closed after the war.", layers="all")
        answer.attentions.shape                        # (12, 12, 11, 11): layer, head, query, key
        answer.to_pandas()                             # the strongest pairs

Only NumPy is needed. Other libraries (BertViz, CircuitsVis, pandas) are imported by the methods that use them.
"""
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answer import Analysis as Analysis, Figure as Figure, Tokens as Tokens
    from .asynchronous import AsyncClient as AsyncClient
    from .client import Client as Client, start as start
    from .errors import HeadscopeError as HeadscopeError
    from .runs import Comparison as Comparison, Run as Run
    __version__: str

_MODULES = {"Analysis": "answer", "AsyncClient": "asynchronous", "Figure": "answer", "Tokens": "answer", "Client": "client",
            "Comparison": "runs", "HeadscopeError": "errors", "Run": "runs", "start": "client"}
__all__ = list(_MODULES)


def _version() -> str:
    """Returns the version of the package that is installed, or of the tree that this file is in."""
    import re
    from pathlib import Path

    header = Path(__file__).parents[3] / "server" / "base" / "version.h"
    if header.is_file():
        found = re.search(r'HS_VERSION "(.+)"', header.read_text())
        if found:
            return found[1]
    from importlib.metadata import version

    return version("headscope")


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: the command `headscope` starts without importing NumPy."""
    if name == "__version__":
        return _version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted(set(globals()) | set(__all__))
