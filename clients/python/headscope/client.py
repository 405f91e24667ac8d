"""The HTTP side: requests out, answers and errors back, on connections that are kept alive."""
from __future__ import annotations

import http.client
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Literal,
    Optional,
    overload,
)
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from .answer import Analysis, Figure, Tokens, check_answer, read_arrays
from .connections import Connections
from .errors import HeadscopeError, instance, read_answer
from .runs import Run
from .server import Server

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .fields import AnalyzeFields

_BATCH_BYTES = 1 << 16  # of lines in a request
_PATIENCE_S = 600  # with a service that is busy
_MEMORY_BYTES = 16 << 20  # of a corpus that is sent; a larger one waits in a temporary file

Progress = Callable[[int, Optional[int]], None]


class Client:
    """A headscope service.

    url      its address, or unix:PATH of a socket file; without one, the client starts a server of its own
    token    of a service that was started with --token-file; that of its own server is known
    timeout  seconds to wait for the connection and between parts of an answer
    server   a server to use in place of url; close() stops it
    public_url  the address by which a browser reaches the service, where that is another one than Python's: behind the
             proxy of JupyterHub, Colab or a remote editor. Frames of the viewer use it

    Threads may share a client. Processes may, too, forked or with a pickled copy: each has connections of its own.
    The server that a client started ends with that client, in the process that started it, never with a copy.
    """

    def __init__(self, url: str | None = None, token: str | None = None, timeout: float = 120,
                 server: Server | None = None, public_url: str | None = None):
        if url is None:
            server = server or Server()
            url = server.url
        self._server = server
        parts = urlsplit(url)
        self._socket_file = url[len("unix:"):] if url.startswith("unix:") else None
        if not self._socket_file and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError(f"neither an http address nor unix:PATH: {url!r}")
        self.url = url.rstrip("/")
        self.public_url = (public_url or url).rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "localhost", parts.port
        self._prefix = "" if self._socket_file else parts.path.rstrip("/")
        self.token = token or (server.token if server else None)
        self._timeout = timeout
        self._connections = Connections()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url, self.token, self._timeout, None, self.public_url)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"headscope.Client({self.url!r})"

    def close(self) -> None:
        """Closes the connections and stops the client's own server. A client of another server can be used again."""
        self._connections.close()
        if self._server:
            self._server.stop()

    def analyze(self, text: str | None = None, **fields: Unpack[AnalyzeFields]) -> Analysis:
        """One text analysed: POST /analyze, whose fields are the keyword arguments.

            client.analyze("a text", layers="all", outputs=["attentions", "pairs"], threshold=0.5)

        Arrays come as float32; dtype="f2" halves the transfer. Raises HeadscopeError. The
        server's page /docs describes every argument in full.

            text                  the text; or words or input_ids in place of it
            text_pair             a second segment, of token type 1
            prompt_name           the prompt of a sentence encoder before the text, by its name in models(); "": none
            words                 in place of text: words that are already split, each tokenized alone
            input_ids             in place of text: token ids, special ones included
            token_type_ids        with input_ids: the segment of each token; by default all 0
            stack                 of an encoder-decoder model: the heads of the encoder, the decoder, or between both (cross)
            text_target           with stack decoder or cross, effects or gradients: the text that the decoder reads
            target_ids            in place of text_target: its token ids without the start token
            source_language       of NLLB, M2M100 and mBART: the language of the text, one of languages in models()
            target_language       the language of text_target, or of what the decoder writes
            model                 a name of models(); by default the first
            max_tokens            cuts the text to this many tokens, special ones included
            max_new_tokens        lets the model write up to so many tokens, behind the text or as the decoder's target
            window                cuts a longer text into windows of max_tokens and answers this one, from 0
            stride                with window: tokens that neighbouring windows share
            split_special_tokens  True: "[MASK]" and others in the text are ordinary text
            sentence_ends         tokens that end a sentence, for regions and segments
            layers                "last", "all" or numbers from 0; negative ones count from the end
            heads                 "all" or numbers from 0; negative ones count from the end
            outputs               what to compute and return; tokens are always there
            interventions         changes to heads and hidden states; all outputs describe the changed pass
            predictions           what the model's head predicts, and where
            pooling               of the output embedding: "mean", "cls" or "max"; by default the checkpoint's
            truncate_dim          of the output embedding: keeps so many dimensions, the first ones
            normalize_embeddings  True: the output embedding is divided by its length, after truncate_dim
            head_scores           the sequences on which the scores of heads are computed
            target                the number that effects, changes and gradients follow: of a class, a token, a loss and others
            effects_of            the change that effects make to each head, and the text that patch_map takes states from
            attribution           of token_attributions: "gradient_x_input", "gradient" or "integrated_gradients"
            steps                 of integrated gradients
            baseline              of integrated gradients: "mask", "pad" or "zero"
            similarity_space      of all similarities: the head's output ("head") or what it adds to the state ("residual")
            center                "text": similarities of outputs without their mean over the text
            head_distance         of head_distances: "cka" or "js", between outputs or between attentions
            normalize             "max": similarities are divided by their largest one off the diagonal
            threshold             least normalised similarity of a pair
            attention_threshold   least column sum of a high-attention token, of the largest one
            max_pairs             most pairs; the strongest are kept, and pairs_total counts all
            pool                  of pooled maps: rows and columns of a block
            rows                  of sliced maps: the first row, and the one behind the last
            columns               of sliced maps: the first column, and the one behind the last
            reduce                "sum" or "mean" of every array over the heads
            special_tokens        "mask": special tokens count in no maximum, pair or figure
            digits                significant digits of numbers in JSON, which analyze_batch() reads
            dtype                 of arrays that are sent: "f4", "f2" or "u1" (bytes)
        """
        request = {**({} if text is None else {"text": text}), **_plain(fields)}
        return Analysis(read_arrays(self._post("/analyze?format=npz", request), check_answer), self)

    def draw(self, request: Mapping[str, Any], format: str = "svg") -> bytes:
        """The figure of a whole request, as the bytes of an SVG, PDF or PNG file, or of a CSV file with its numbers."""
        return self._post(f"/analyze?format={format}", request)

    def figure(self, text: str | None = None, kind: str = "head", format: str = "svg",
               options: Mapping[str, Any] | None = None, **fields: Any) -> Figure:
        """A figure to print: shown by notebooks as SVG, written by save("fig.pdf") or save("fig.png").

            client.figure("a text", "layer", options={"width_mm": 170}, layers=[1])

        options are the other members of the field figure: show, width_mm, font_pt, dpi, labels, scale, footer.
        """
        request = {**({} if text is None else {"text": text}), **_plain(fields),
                   "figure": {**_plain(options or {}), "kind": kind}}
        return Figure(self, request, format)

    @overload
    def analyze_many(self, texts: Iterable[str], progress: Progress | None = None, parallel: int = 4, *,
                     errors: Literal["raise"] = "raise", **fields: Unpack[AnalyzeFields]) -> Generator[Analysis, None, None]: ...

    @overload
    def analyze_many(self, texts: Iterable[str], progress: Progress | None = None, parallel: int = 4, *,
                     errors: Literal["keep"],
                     **fields: Unpack[AnalyzeFields]) -> Generator[Analysis | HeadscopeError, None, None]: ...

    def analyze_many(self, texts: Iterable[str], progress: Progress | None = None, parallel: int = 4, *,
                     errors: Literal["raise", "keep"] = "raise",
                     **fields: Unpack[AnalyzeFields]) -> Generator[Analysis | HeadscopeError, None, None]:
        """Yields the answers of many texts in their order, as they are ready. Computes `parallel` at a time.

        progress(done, total) is called after each; total is None when texts has no length. A busy service (503) is
        asked again when it says, for ten minutes a text at most. With errors="keep", a text that is refused gives its
        HeadscopeError in place of an answer, and the others continue.
        """
        total = len(texts) if isinstance(texts, Sequence) else None
        source = iter(_several(texts))
        over = threading.Event()
        process = os.getpid()
        pool = ThreadPoolExecutor(parallel)

        def submit(n: int) -> list[Future[Analysis]]:
            return [pool.submit(self._analyze_when_free, over, text, fields) for _, text in zip(range(n), source)]

        try:
            waiting = submit(2 * parallel)
            done = 0
            while waiting:
                answer = _result(waiting.pop(0), errors)
                waiting += submit(1)
                done += 1
                if progress:
                    progress(done, total)
                yield answer
                _check_process(process)
        finally:  # nobody wants more; the garbage collector may say so in a thread of the pool, which cannot wait for itself
            if process == os.getpid():
                over.set()
                pool.shutdown(wait=False, cancel_futures=True)

    def _analyze_when_free(self, over: threading.Event, text: str, fields: AnalyzeFields) -> Analysis:
        """analyze(), again and again while the service is busy, until `over` is set."""
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self.analyze(text, **fields)
            except HeadscopeError as error:
                pause = 1 if error.retry_after is None else error.retry_after
                if error.status != 503 or time.monotonic() + pause > end or over.wait(pause):
                    raise

    def analyze_batch(self, texts: Iterable[str | Mapping[str, Any]], progress: Progress | None = None,
                      **fields: Any) -> Generator[dict[str, Any] | HeadscopeError, None, None]:
        """Yields JSON answers for many short texts and small outputs. The texts are sent as lines and answered in
        order, as they are ready. Short ones share passes.

            for answer in client.analyze_batch(texts, layers="all", outputs=["summary"]): ...

        A text may be a whole request instead ({"words": [...], "threshold": 0.5}); fields apply to all. A refused
        text gives a HeadscopeError in its place, and the others continue. progress(done, total) as in
        analyze_many.
        """
        total = len(texts) if isinstance(texts, Sequence) else None
        common = _plain(fields)
        lines = (_encoded({**common, **_request(text)}) + b"\n" for text in _several(texts))
        done = 0
        for body in _batches(lines):
            for line in self._lines(body):
                done += 1
                if progress:
                    progress(done, total)
                yield read_answer(line, _answer_or_error)

    def tokenize(self, text: str | None = None, **fields: Any) -> Tokens:
        """The tokens of a text: POST /tokenize. input_ids=[...] instead gives the tokens of these ids."""
        request = {**({} if text is None else {"text": text}), **_plain(fields)}
        return read_answer(self._post("/tokenize", request), Tokens)

    def models(self) -> list[dict[str, Any]]:
        """The answer of GET /models: one entry per model, the first is the default."""
        return read_answer(self.request("GET", "/models"), lambda fields: [instance(one, dict) for one in fields["models"]])

    def start_run(self, texts: Iterable[str | Mapping[str, Any]], **options: Any) -> Run:
        """Starts a corpus run over texts (strings, or objects with a `text`) and returns it at once.

        Options are those of POST /corpora. Follow the run with Run.wait().

            name                  of the run, in lists and reports
            model                 a name of models(); by default the first
            stack                 whose heads: "decoder" and "cross" of an encoder-decoder model read the texts' `text_target`
            max_tokens            cuts each text to this many tokens, special ones included
            windows               True: longer texts become windows of max_tokens, each counted as a text
            stride                with windows: tokens that neighbouring windows share
            layers                "last", "all" or numbers from 0
            thresholds            least normalised similarity of a pair, several: every figure has them all
            attention_threshold   least column sum of a high-attention token, of the largest one
            map_bins              most rows of the report's maps over positions
            special_tokens        "mask": every figure leaves out the special tokens around a text
            split_special_tokens  True: "[MASK]" and others in a text are ordinary text
            source_language       language of the texts, for NLLB, M2M100 and mBART
            target_language       language of `text_target`
            prompt_name           the prompt of a sentence encoder before each text, by its name in models()
            sentence_ends         tokens that end a sentence
            similarity_space      the head's output ("head") or what it adds to the state ("residual")
            center                "text": similarities of outputs without their mean over the text
            head_distances        "cka" or "js": the report has the distances between all heads
            interventions         changes to heads, in every text
            control               "untrained:SEED": count a network with random weights, too; "none": do not
            masked_share          fraction of the tokens that are masked and predicted in a second pass
            mask_seed             chooses the masked tokens
            field                 the member of each object that holds the text: "text"
            pair_field            the member with a second text, which becomes a second segment, or a decoder's text
            label_field           the member with the text's class, for accuracy
            effects_share         fraction of the labelled texts in which each head is switched off in turn
            importance            True: gradient importance of the heads, by a backward pass over each text
            pruning_share         fraction of the texts for the curve of what the lowest heads cost
            cut_attention         a distance: the report also has the loss without attention beyond so many tokens
            examples              texts kept for each head and figure where it is highest
            search_texts          texts whose strongest pairs are kept, for searches
        """
        query = urlencode({name: _option(value) for name, value in _plain(options).items()})
        with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as body:  # for not every server reads chunks
            for text in _several(texts):
                body.write(json.dumps(text, ensure_ascii=False).encode() + b"\n")
            answer = self.request("POST", "/corpora" + ("?" + query if query else ""), body,
                                  {"Content-Type": "application/x-ndjson", "Content-Length": str(body.tell())})
        return read_answer(answer, lambda fields: Run(self, fields))

    def run(self, id: str) -> Run:
        """A corpus run by its id."""
        return read_answer(self.request("GET", "/corpora/" + quote(id, safe="")), lambda fields: Run(self, fields))

    def shows_views(self) -> bool:
        """Returns whether a notebook can show the server's viewer in a frame: it answers at once, lets it be framed and wants
        no token, for a frame has none. A browser opens no socket file."""
        if self.token or self.public_url.startswith("unix:"):
            return False
        connection = self._open(timeout=min(2, self._timeout))
        try:
            connection.request("GET", self._prefix + "/?embed")
            response = connection.getresponse()
            return response.status == 200 and "X-Frame-Options" not in response.headers
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # ---- HTTP ----

    def _post(self, path: str, fields: Mapping[str, Any]) -> bytes:
        return self.request("POST", path, _encoded(fields), {"Content-Type": "application/json"})

    def request(self, method: str, path: str, body: Any = None,
                headers: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer of 2xx; HeadscopeError for every other one."""
        headers = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **(headers or {})}
        status, data, answered = self._exchange(method, self._prefix + path, body, headers)
        if status // 100 != 2:
            raise HeadscopeError.from_answer(status, data, answered)
        return data

    def _lines(self, body: bytes) -> Iterator[bytes]:
        """A connection of its own, closed when nobody wants more: the server ends what it computes ahead."""
        connection = self._open(self._timeout)
        process = os.getpid()
        headers = {"Content-Type": "application/x-ndjson",
                   **({"Authorization": f"Bearer {self.token}"} if self.token else {})}
        try:
            connection.request("POST", self._prefix + "/analyze", body, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise HeadscopeError.from_answer(response.status, response.read(), response.headers)
            while line := response.readline():
                yield line
                _check_process(process)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _exchange(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, bytes, Any]:
        """A kept connection may have been closed meanwhile: the request is then sent again on a new one. A request that
        starts or changes a run is sent once, for the server may have done it already."""
        repeatable = method == "GET" or not path.startswith(self._prefix + "/corpora")
        try:
            kept = self._connections.take() if repeatable else None
            if kept:
                try:
                    return self._answer(kept, method, path, body, headers)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    pass
            return self._answer(self._open(self._timeout), method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _answer(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any,
                headers: Mapping[str, str]) -> tuple[int, bytes, Any]:
        """One exchange on a connection, which is kept only if the answer was read to its end."""
        process = os.getpid()
        try:
            if hasattr(body, "seek"):
                body.seek(0)
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            data = response.read()
        except BaseException:
            connection.close()
            raise
        self._connections.put(connection, process)
        return response.status, data, response.headers

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        if self._socket_file:
            return _SocketFileConnection(self._socket_file, timeout)
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout)

    def _unreachable(self, error: Exception) -> HeadscopeError:
        return HeadscopeError(0, f"no answer from {self.url} ({error}): is `headscope serve` running there?")


class _SocketFileConnection(http.client.HTTPConnection):
    """A connection to a server of this machine that listens on a socket file."""

    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def start(*options: str, binary: str | os.PathLike[str] | None = None, token: bool = True) -> Client:
    """Starts `headscope serve` with options of its command line and returns a client of it.

        with headscope.start("--model", "bert=/models/bert-base-uncased") as client: ...

    binary is the program; the default is $HEADSCOPE, the one in this package, or `headscope` on the PATH. The server
    wants a token, which the client knows (client.token), for all users of this machine reach its port. With
    token=False it wants none, and notebooks can show its viewer.
    """
    return Client(server=Server(*options, binary=binary, token=token))


def _check_process(process: int) -> None:
    """Raises RuntimeError in a process forked after the texts were sent: only the sender reads their answers."""
    if process != os.getpid():
        raise RuntimeError(f"process {process} sent these texts, and process {os.getpid()} was forked since: read the answers "
                           "in the process that sent the texts, or send them again in this one")


def _result(one: Future[Analysis], errors: str) -> Analysis | HeadscopeError:
    try:
        return one.result()
    except HeadscopeError as error:
        if errors == "raise":
            raise
        return error


def _encoded(fields: Mapping[str, Any]) -> bytes:
    """Fields as JSON in UTF-8, which has no form for half a UTF-16 pair."""
    try:
        return json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise HeadscopeError(0, f"the request holds {error.object[error.start]!r}, half of a UTF-16 pair, which is no "
                                "character: replace it, for example by text.encode('utf-8', 'replace').decode()") from error


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Joins lines to bodies of about _BATCH_BYTES."""
    gathered = bytearray()
    for line in lines:
        gathered += line
        if len(gathered) >= _BATCH_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _several(texts: Iterable[Any]) -> Iterable[Any]:
    """Refuses one text in place of several, whose characters would each be a text, and a table, which gives the names of
    its columns."""
    if isinstance(texts, (str, bytes, Mapping)):
        raise TypeError(f"texts is a {type(texts).__name__}; it must be a list or another iterable of texts")
    if hasattr(texts, "columns"):
        raise TypeError(f"texts is a table ({type(texts).__name__}); give one of its columns, or its rows, as in pandas by "
                        "texts.to_dict('records')")
    return texts


def _answer_or_error(fields: Any) -> dict[str, Any] | HeadscopeError:
    """A line of a batch: an answer, or why there is none."""
    checked: dict[str, Any] = instance(fields, dict)
    if "detail" not in checked:
        return checked
    return HeadscopeError.from_answer(instance(checked["status"], int), json.dumps(checked).encode(), {})


def _request(text: Any) -> dict[str, Any]:
    """A text, or a whole request, as the request that it stands for."""
    if isinstance(text, str):
        return {"text": text}
    if not isinstance(text, Mapping):
        raise TypeError(f"a text is a {type(text).__name__}; it must be a str, or a dict with the fields of a request")
    return _plain(text)


def _option(value: Any) -> Any:
    """A corpus run's option as the query has it: JSON for objects, commas between other elements."""
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value)):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Request fields as JSON has them: NumPy numbers, arrays, tuples and ranges become numbers and lists."""
    def convert(value: Any) -> Any:
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        if isinstance(value, (list, tuple, range, set)):
            return [convert(item) for item in value]
        if isinstance(value, Mapping):
            return {name: convert(item) for name, item in value.items()}
        return value
    return {name: convert(value) for name, value in fields.items() if value is not None}
