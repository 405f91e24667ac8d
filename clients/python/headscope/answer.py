"""The result of an analysis: arrays under HuggingFace's names, and the forms in which other tools want them."""
from __future__ import annotations

import base64
import html
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UNREADABLE, HeadscopeError, instance, not_ours
from .view import VIEWS, View, state_of

if TYPE_CHECKING:
    import pandas
    import xarray

    from .client import Client
    from .fields import AnswerArrays
    from .widget import HeadMap
else:
    AnswerArrays = object

FIGURES = ("max_similarity", "high_pairs", "repeated_share", "same_sentence_share", "repeated_same_sentence_share",
           "mean_distance", "focal_position", "focal_share", "attention_entropy", "separator_attention",
           "snr_dprime", "longest_overlap", "participation_ratio")
LABELS = ("position", "special", "broad", "other")  # profiles_label counts them


class Tokens:
    """The tokens of a text.

    tokens, input_ids, token_type_ids, special_tokens_mask, offset_mapping, sentence_ids, word_ids: [T], as in
    HuggingFace; word_ids holds None for special tokens. stack is that of an encoder-decoder model, and source_tokens
    are the text's if the others are what the decoder reads; else None.
    """

    def __init__(self, fields: Mapping[str, Any]):
        self.model: str = instance(fields["model"], str)
        self.truncated: bool = instance(fields["truncated"], bool)
        self.tokens: list[str] = instance(fields["tokens"], list)
        self.input_ids = np.asarray(fields["input_ids"], np.int64)
        self.token_type_ids = np.asarray(fields["token_type_ids"], np.int64)
        self.special_tokens_mask = np.asarray(fields["special_tokens_mask"], np.int64)
        self.offset_mapping = np.asarray(fields["offset_mapping"])  # None for input_ids
        self.sentence_ids = np.asarray(fields["sentence_ids"], np.int64)
        self.word_ids: list[int | None] = instance(fields["word_ids"], list)
        self.stack: str | None = fields.get("stack")
        self.source_tokens: list[str] | None = fields.get("source_tokens")

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"<headscope.Tokens of {self.model}: {' '.join(self.tokens)}>"


class Figure:
    """A figure of one text, drawn by the server. `data` are its bytes, SVG unless the request says "pdf" or "png"."""

    def __init__(self, client: Client, request: Mapping[str, Any], format: str = "svg"):
        self._client = client
        self._request = dict(request)
        self.format = format
        self.data = client.draw(self._request, format)

    def save(self, path: Any, dpi: float | None = None) -> None:
        """Writes the figure to a file whose ending, .svg, .pdf or .png, is the format; with .csv its numbers.

        dpi: pixels per inch of a PNG, 300 unless the figure's options have another."""
        format = str(path).rpartition(".")[2].lower()
        if format not in ("svg", "pdf", "png", "csv"):
            raise ValueError(f"{path}: the name of a figure's file ends in .svg, .pdf, .png or .csv")
        if dpi is not None and format != "png":
            raise ValueError(f"{path}: dpi is of a PNG; {format} has none")
        request = self._request if dpi is None else {**self._request, "figure": {**self._request.get("figure", {}), "dpi": dpi}}
        data = self.data if format == self.format and dpi is None else self._client.draw(request, format)
        with open(path, "wb") as file:
            file.write(data)

    def _repr_png_(self) -> bytes | None:
        return self.data if self.format == "png" else None

    def _repr_html_(self) -> str | None:
        """For notebooks: an <img>, in which no script of an SVG runs and no link of it is followed."""
        if self.format != "svg":
            return None
        return f'<img alt="figure of headscope" src="data:image/svg+xml;base64,{base64.b64encode(self.data).decode()}">'

    def _repr_pdf_(self) -> bytes | None:
        """The same figure for notebooks that are exported to LaTeX and PDF; None once the server is gone."""
        try:
            return self.data if self.format == "pdf" else self._client.draw(self._request, "pdf")
        except HeadscopeError:
            return None


class Analysis(AnswerArrays):
    """One analysed text.

    Every array of the answer is an attribute and an item under its name in the contract: attentions and
    similarities [l][h][T][T], head_outputs [l][h][T][d], hidden_states [l + 1][T][H], pairs_layer, ... ;
    l and h count the selected `layers` and `heads`.
    """

    def __init__(self, arrays: dict[str, np.ndarray], client: Client | None = None):
        self.arrays = arrays
        self._client = client

    def save(self, path: Any) -> None:
        """Writes the answer to an .npz file, which Analysis.load and numpy.load read. Writes its maps to an .html file: a
        page to click in that needs no server and no network."""
        if str(path).endswith(".html"):
            from .page import page_of
            page = page_of(self)
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
            return
        if not str(path).endswith(".npz"):
            raise ValueError(f"{path}: the name of an answer's file ends in .npz or .html")
        np.savez_compressed(path, **self.arrays)  # type: ignore[arg-type, unused-ignore]

    @classmethod
    def load(cls, path: Any) -> Analysis:
        """An answer from a file of save(), or of `headscope analyze -o FILE.npz`. It has no server: see view().

        Runs nothing that is in the file. ValueError says what is wrong with a file that holds no answer.
        """
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError(f"{path} is no saved answer: it is no npz file, or its end is missing")
            file.seek(0)
            try:
                arrays = _members(file)
                check_answer(arrays)
            except _NO_ARRAYS as error:
                raise ValueError(f"{path} is no saved answer: {error}") from error
        return cls(arrays)

    def __getstate__(self) -> dict[str, Any]:
        """A pickled or copied answer keeps its arrays, not its connection: view() then has no server to show."""
        return {"arrays": self.arrays, "_client": None}

    if not TYPE_CHECKING:  # a type checker knows the names of AnswerArrays, and reports others
        def __getattr__(self, name: str) -> Any:
            if name != "arrays" and name in self.arrays:
                value = self.arrays[name]
                return value.item() if value.ndim == 0 else value
            there = ", ".join(sorted(self.__dict__.get("arrays", ())))
            raise AttributeError(f"the answer has no {name!r}; it has {there}")

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.arrays])

    def __repr__(self) -> str:
        large = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items() if array.ndim >= 3)
        return f"<headscope.Analysis of {len(self)} tokens with {self.model}: {large or 'no maps'}>"

    def __len__(self) -> int:
        return len(self.arrays["input_ids"])

    @property
    def tokens(self) -> list[str]:
        return [str(token) for token in self.arrays["tokens"]]

    @property
    def source_tokens(self) -> list[str]:
        """The tokens of the text whose states a decoder and its cross heads read."""
        if "source_tokens" not in self.arrays:
            raise AttributeError('only answers with stack="decoder" or "cross" have source_tokens')
        return [str(token) for token in self.arrays["source_tokens"]]

    @property
    def word_ids(self) -> list[int | None]:
        return [None if word < 0 else int(word) for word in self.arrays["word_ids"]]

    @property
    def request(self) -> dict[str, Any]:
        """The request that this answers, as it was sent."""
        return instance(json.loads(self.arrays["request"].item()), dict)

    def attention(self, layer: int, head: int) -> np.ndarray:
        """[T][T] of a head by the model's own numbers; negative ones count from the end of the selection."""
        return self._of_head("attentions", layer, head)

    def similarity(self, layer: int, head: int) -> np.ndarray:
        """[T][T], as attention."""
        return self._of_head("similarities", layer, head)

    def _of_head(self, name: str, layer: int, head: int) -> np.ndarray:
        if self.arrays[name].shape[1] != len(self.arrays["heads"]):
            raise ValueError('the answer has its heads summed up: ask for it with reduce="none"')
        one: np.ndarray = self.arrays[name][self._index("layers", layer), self._index("heads", head)]
        return one

    def _index(self, axis: str, number: int) -> int:
        """The place of a layer or head of the model in the selection; KeyError if it was not selected."""
        chosen = self.arrays[axis]
        found = np.flatnonzero(chosen == (chosen[number] if -len(chosen) <= number < 0 else number))
        if not len(found):
            raise KeyError(f"{axis} holds {chosen.tolist()}, not {number}")
        return int(found[0])

    # ---- for other tools ----

    def to_bertviz(self) -> dict[str, Any]:
        """Keyword arguments of bertviz.head_view and model_view: head_view(**answer.to_bertviz()).

        Needs PyTorch. Layers are numbered by their place in the selection, so ask for layers="all". A pair of texts says
        where the second begins, so that BertViz can show attention within and between them. One view takes
        the arguments of all three stacks of an encoder-decoder model: head_view(**(encoder | decoder | cross)).
        """
        import torch
        maps = tuple(torch.from_numpy(layer)[None] for layer in weights(self.arrays["attentions"]))
        stack = str(self.arrays.get("stack", ""))
        if stack == "cross":
            return {"cross_attention": maps, "encoder_tokens": self.source_tokens, "decoder_tokens": self.tokens}
        if stack:
            return {f"{stack}_attention": maps, f"{stack}_tokens": self.tokens}
        second = np.flatnonzero(self.arrays["token_type_ids"])
        return {"attention": maps, "tokens": self.tokens, **({"sentence_b_start": int(second[0])} if len(second) else {})}

    def to_circuitsvis(self, layer: int = -1) -> dict[str, Any]:
        """Keyword arguments of circuitsvis.attention.attention_heads and attention_patterns for one layer.

        Give attention_heads also mask_upper_tri=False: it takes models for decoders.
        """
        return {"attention": weights(self.arrays["attentions"][self._index("layers", layer)]), "tokens": self.tokens}

    def to_pandas(self, what: str = "pairs") -> pandas.DataFrame:
        """A table: "pairs", one row a pair with its tokens; or what is said of each head, one row a head: "summary",
        "profiles", "effects", "changes"."""
        import pandas
        if what == "pairs":
            columns = {name[len("pairs_"):]: array for name, array in self.arrays.items()
                       if name.startswith("pairs_") and array.ndim == 1}
            tokens = self.arrays["tokens"]
            table = pandas.DataFrame(columns)
            table.insert(4, "token_i", tokens[columns["i"]])
            table.insert(5, "token_j", tokens[columns["j"]])
            return table
        layers, heads = self.arrays["layers"], self.arrays["heads"]
        found = {name[len(what) + 1:]: array.ravel() for name, array in self.arrays.items()
                 if name.startswith(what + "_") and array.shape == (len(layers), len(heads))}
        if not found:
            raise ValueError(f'the answer says nothing of each head under {what!r}: ask for outputs=["summary", ...]')
        names = [name for name in FIGURES if name in found] if what == "summary" else list(found)
        table = pandas.DataFrame({name: found[name] for name in names})
        table.insert(0, "layer", np.repeat(layers, len(heads)))
        table.insert(1, "head", np.tile(heads, len(layers)))
        if "label" in found:
            table["label"] = np.array(LABELS)[found["label"]]
        if "focal_position" in found:
            focal = found["focal_position"]
            tokens = self.arrays["tokens"].astype(object)
            table.insert(8, "focal_token", [None if position < 0 else tokens[position] for position in focal])
        return table

    def to_xarray(self) -> xarray.Dataset:
        """All arrays with named axes: answer.to_xarray().attentions.sel(layer=3, head=7). Needs xarray."""
        from .labelled import dataset_of
        return dataset_of(self)

    # ---- in a notebook ----

    def view(self, view: str | None = None, height: int = 600, **state: Any) -> View:
        """The server's viewer at this text, in a frame: answer.view("text", layer=1, head=7, relation="to").

        A server with a token asks for it there; client.token is that of the client's own server.

        view is overview, head, text, pairs, compare, corpus, experiment or trace; without it the head where the answer
        is of one, else the overview. state is what else the viewer's address says behind its #.
        """
        if view is not None and view not in VIEWS:
            raise ValueError(f"view is {view!r}; it must be one of {', '.join(VIEWS)}")
        known = state_of(self.request)
        if self._client is None or known is None:
            raise ValueError("the viewer shows texts that a client has asked its server for, without interventions")
        if self._client.public_url.startswith("unix:"):
            raise ValueError("no browser opens a socket file: start the server on a port, or give the client a public_url")
        layers, heads = self.arrays["layers"], self.arrays["heads"]
        if len(layers) == len(heads) == 1:
            known = {"view": "head", "layer": int(layers[0]), "head": int(heads[0]), **known}
        return View(self._client.public_url, {**known, **({"view": view} if view else {}), **state}, height)

    def widget(self, what: str = "attentions", layer: int | None = None, head: int | None = None) -> HeadMap:
        """A map of heads to click in, of this answer's attentions or similarities; needs anywidget, and no server.

        Its layer, head and pair follow what is clicked.
        """
        from .widget import head_map
        return head_map(self, what, layer, head)

    def _repr_html_(self) -> str:
        """For notebooks: a picture, which stays when the server is gone or the notebook is exported. A click below it
        loads the server's viewer in a frame, if the server lets it be framed."""
        if self._client is None or state_of(self.request) is None or not self._client.shows_views():
            return self._picture()
        url = html.escape(self._client.public_url)
        return (f"{self._picture()}<details><summary>Open this text in the viewer (while {url} runs)</summary>"
                f"{self.view()._repr_html_()}</details>")

    def _repr_png_(self) -> bytes | None:
        """The same picture for pages that show no HTML, and for papers."""
        return _sheet(self.arrays["attentions"])[0] if "attentions" in self.arrays else None

    def _picture(self) -> str:
        """Every head's attention, layers from top to bottom."""
        if "attentions" not in self.arrays:
            return f"<pre>{html.escape(repr(self))}</pre>"
        maps = self.arrays["attentions"]
        picture, width, height = _sheet(maps)
        data = base64.b64encode(picture).decode()
        layers, heads = self.arrays["layers"], self.arrays["heads"]
        columns = (f"heads {_span(heads)} from left to right" if maps.shape[1] == len(heads) else
                   f"{self.request.get('reduce', 'sum')} of heads {_span(heads)}")
        caption = (f"attention of {self.model}: layers {_span(layers)} from top to bottom, {columns}; "
                   f"rows are queries, darker is more (square root)")
        return (f'<figure style="margin:0"><img alt="{html.escape(caption)}" src="data:image/png;base64,{data}" '
                f'width="{width}" height="{height}" style="image-rendering:pixelated;background:#fff">'
                f"<figcaption>{html.escape(caption)}<br>{html.escape(' '.join(readable(self.tokens)))}</figcaption></figure>")


# Errors of reading a forged or damaged npz file.
_NO_ARRAYS = (*UNREADABLE, OSError, EOFError, MemoryError, RuntimeError, zlib.error, zipfile.BadZipFile)


def _members(file: Any) -> dict[str, np.ndarray]:
    with np.load(file, allow_pickle=False) as members:
        return {name: members[name] for name in members.files}


def read_arrays(body: bytes, check: Callable[[dict[str, Any]], None] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an answer as npz; HeadscopeError if they cannot be read, or do not pass the check."""
    try:
        arrays = _members(io.BytesIO(body))
        if check:
            check(arrays)
    except _NO_ARRAYS as error:
        raise not_ours(body, error) from error
    return arrays


def check_answer(arrays: dict[str, Any]) -> None:
    """Raises ValueError for arrays that are no answer's: a member that every answer has is missing, or shapes differ."""
    for name, kinds, axes in (("input_ids", "iu", 1), ("tokens", "U", 1), ("layers", "iu", 1), ("heads", "iu", 1),
                              ("model", "U", 0), ("request", "U", 0)):
        array = arrays.get(name)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds or array.ndim != axes:
            raise ValueError(f"it has no array {name!r} of an answer")
    n_tokens = len(arrays["input_ids"])
    if len(arrays["tokens"]) != n_tokens:
        raise ValueError(f"it has {n_tokens} ids and {len(arrays['tokens'])} tokens")
    n_layers, n_heads = len(arrays["layers"]), len(arrays["heads"])
    n_keys = len(np.atleast_1d(arrays.get("source_tokens", ()))) if arrays.get("stack") == "cross" else n_tokens
    for name, n_columns in (("attentions", n_keys), ("similarities", n_tokens)):
        shapes = [(n_layers, n, n_tokens, n_columns) for n in (n_heads, 1)]  # 1: reduced over the heads
        if name in arrays and arrays[name].shape not in shapes:
            raise ValueError(f"{name!r} has the shape {arrays[name].shape}, not {shapes[0]}")
    if not isinstance(json.loads(arrays["request"].item()), dict):
        raise ValueError("its request is not a JSON object")


_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # that stand for themselves
_BYTE_OF = {**{chr(byte): byte for byte in _BYTES},
            **{chr(0x100 + n): byte for n, byte in enumerate(byte for byte in range(256) if byte not in _BYTES)}}


def readable(tokens: Iterable[str]) -> list[str]:
    """Tokens as people read them: "\u2423the" for the "\u0120the" of a byte-level tokenizer and the "\u2581the" of a
    Unigram. A text's tokens are taken for byte-level ones when one begins with \u0120 and none is a word piece."""
    tokens = [token.replace("\u2581", "\u2423") for token in tokens]
    if not any(token.startswith("\u0120") for token in tokens) or any(token.startswith("##") for token in tokens):
        return tokens
    return [bytes(map(_BYTE_OF.__getitem__, token)).decode(errors="replace").replace(" ", "\u2423").replace("\n", "\u240a")
            if set(token) <= set(_BYTE_OF) else token for token in tokens]


def _span(numbers: np.ndarray) -> str:
    listed = numbers.tolist()
    whole = len(listed) > 2 and listed == list(range(listed[0], listed[-1] + 1))
    return f"{listed[0]} to {listed[-1]}" if whole else ", ".join(map(str, listed))


def weights(maps: np.ndarray) -> np.ndarray:
    """Maps as float32. Bytes of dtype "u1" are 255ths."""
    return np.ascontiguousarray(maps, np.float32) / (255 if maps.dtype == np.uint8 else 1)


def _sheet(maps: np.ndarray, width: int = 720, gap: int = 4) -> tuple[bytes, int, int]:
    """All maps of [l][h][T][K] as one grey PNG of about that width, with its width and height. A pixel takes the
    largest weight under it, so that no thin line is lost. Sums over heads are divided by their largest."""
    maps = weights(maps)
    maps /= max(1, maps.max())
    n_layers, n_heads = maps.shape[:2]
    cell = min(max(width // n_heads - gap, 24), 320)
    edges = [np.arange(cell + 1) * n // cell for n in maps.shape[2:]]
    sheet = np.full((n_layers * (cell + gap) - gap, n_heads * (cell + gap) - gap), 255, np.uint8)
    rows_of, columns_of = ([*zip(edge[:-1], np.maximum(edge[1:], edge[:-1] + 1))] for edge in edges)
    for layer in range(n_layers):
        for head in range(n_heads):
            rows = np.stack([maps[layer, head, a:b].max(0) for a, b in rows_of])
            pixels = np.stack([rows[:, a:b].max(1) for a, b in columns_of], 1)
            y, x = layer * (cell + gap), head * (cell + gap)
            sheet[y:y + cell, x:x + cell] = 255 - np.rint(255 * np.sqrt(np.clip(pixels, 0, 1))).astype(np.uint8)
    return _png(sheet), sheet.shape[1], sheet.shape[0]


def _png(grey: np.ndarray) -> bytes:
    """An 8-bit grey image as PNG."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    size = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
