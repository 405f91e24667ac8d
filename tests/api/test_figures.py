"""Figures: SVG, PDF and PNG of POST /analyze, `headscope plot` and the Python client, and how readers render them."""
import base64
import csv
import importlib.util
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest
from conftest import HEADSCOPE, MINI, post_bytes, slow_if, until

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python"))
import headscope  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
import analysis  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
TEXT = "The cat <sat> on the mat & it \"slept\". Then the dog came to the mat."
KINDS = ("head", "layer", "overview", "distances", "predictions", "lens", "effects", "regions", "pairs")


def draw(server, format="svg", figure=None, status=200, **fields):
    request = {"text": TEXT, **({} if figure is None else {"figure": figure}), **fields}
    answer = server.post(f"/analyze?format={format}", request)
    assert answer.status == status, answer.body
    return answer.body


def texts(svg):
    return [(e.text, float(e.get("font-size"))) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def pixels(image):
    """The rows of colours of an image of an SVG."""
    data = base64.b64decode(image.get(LINK).partition(",")[2])
    chunks, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunks[kind] = data[at + 8:at + 8 + size]
        assert zlib.crc32(data[at + 4:at + 8 + size]) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
        at += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    packed = zlib.decompress(chunks[b"IDAT"])
    palette = [tuple(chunks[b"PLTE"][3 * i:3 * i + 3]) for i in range(256)]
    rows = []
    for y in range(height):
        kind, row = packed[y * (width + 1)], packed[y * (width + 1) + 1:(y + 1) * (width + 1)]
        assert kind == 0 or (kind == 2 and not any(row))  # no filter, or "up" by which a row is that above
        rows.append([palette[i] for i in row] if kind == 0 else rows[-1])
    return rows


def png(data):
    """The pixels of a PNG, 0 to 1."""
    return matplotlib.image.imread(io.BytesIO(data))[:, :, :3]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(server, kind):
    more = {"predictions": {"positions": "all"}} if kind in ("predictions", "lens") else {"heads": [0]} if kind == "pairs" else {}
    svg = draw(server, "svg", {"kind": kind}, **more)
    root = ElementTree.fromstring(svg)
    assert root.get("width") == "85.00mm"
    sizes = [size for _, size in texts(svg)]
    assert sizes and min(sizes) >= 5
    page_width, page_height = map(float, root.get("viewBox").split()[2:])
    ends = []
    for mark in (m for m in root.iter() if m.get("y")):
        x, y, width, height = (float(mark.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= page_width and 0 <= y <= y + height <= page_height
        ends.append(y + height)
    assert 5 < page_height - max(ends) < 9
    assert draw(server, "pdf", {"kind": kind}, **more).startswith(b"%PDF-")
    shown = png(draw(server, "png", {"kind": kind, "dpi": 100}, **more))
    assert np.abs(np.array(shown.shape[:2]) - np.array([page_height, page_width]) * 100 / 72).max() <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind(server, kind):
    more = {"predictions": {"positions": "all"}} if kind in ("predictions", "lens") else {"heads": [0]} if kind == "pairs" else {}
    rows = list(csv.DictReader(io.StringIO(draw(server, "csv", {"kind": kind}, **more).decode(), newline="")))
    assert rows and list(rows[0]) == ["panel", "row", "column", "row_label", "column_label", "cell_label", "value"]
    assert all(None not in row and None not in row.values() for row in rows)
    assert all(row["row"].isdigit() and row["column"].isdigit() and (row["value"] == "" or float(row["value"]) is not None) for row in rows)
    shown = {text for text, _ in texts(draw(server, "svg", {"kind": kind, "width_mm": 300}, **more))}
    assert {row["panel"] for row in rows} <= shown or kind == "overview"


@pytest.mark.parametrize("safe", [False, True])
def test_numbers_for_spreadsheets_hold_no_formulas(server, safe):
    """As tokens, cells that begin with =, +, - or @ are exact; csv_safe puts an apostrophe before them."""
    text = "=1 + 2 - @ , \" a"
    rows = list(csv.DictReader(io.StringIO(draw(server, "csv", {"csv_safe": safe}, text=text).decode(), newline="")))
    tokens = server.post("/tokenize", {"text": text}).json()["tokens"]
    assert {"=", "+", "-", ",", '"'} <= set(tokens)
    expected = ["'" + token if safe and token in "=+-@" else token for token in tokens]
    assert [rows[j]["column_label"] for j in range(len(tokens))] == expected
    assert [row["row_label"] for row in rows[::len(tokens)]][:len(tokens)] == expected


def test_numbers_are_those_of_the_answer(server):
    answer = json.loads(server.post("/analyze", {"text": TEXT, "layers": [1], "heads": [6], "digits": 9}).body)
    rows = list(csv.DictReader(io.StringIO(draw(server, "csv", {}, layers=[1], heads=[6]).decode(), newline="")))
    values, tokens = answer["attentions"][0][0], answer["tokens"]
    assert len(rows) == len(tokens) ** 2
    for row in rows:
        i, j = int(row["row"]), int(row["column"])
        assert (row["row_label"], row["column_label"]) == (tokens[i], tokens[j])
        assert float(row["value"]) == values[i][j]
    assert {'"', "&", "<"} <= {row["row_label"] for row in rows}


@pytest.mark.parametrize("figure", [{"kind": "overview"}, {"kind": "layer", "scale": "shared"}])
def test_panels_of_both_quantities_have_names_of_their_own(server, figure):
    rows = csv.DictReader(io.StringIO(draw(server, "csv", {**figure, "show": "both"}, layers=[1], heads=[6, 7]).decode(), newline=""))
    assert {row["panel"] for row in rows} == {f"1.{head}, {name}" for head in (6, 7) for name in ("attention", "similarity")}


def grids(rows):
    """{panel: its values [row][column]}"""
    found = {}
    for row in rows:
        found.setdefault(row["panel"], {})[int(row["row"]), int(row["column"])] = float(row["value"])
    return {panel: np.array([[cells[i, j] for j in range(size)] for i in range(size)])
            for panel, cells in found.items() for size in [round(len(cells) ** 0.5)]}


@pytest.mark.parametrize("more", [{}, {"attention_threshold": 0.6}, {"special_tokens": "mask", "center": "text"}])
def test_regions_are_those_of_the_formulas(server, more):
    """Figure 5 of the paper: marked maps, the mask, and the mean similarity of each two regions, in NumPy."""
    fields = {"layers": [0, 11], "heads": [0, 5], "attention_threshold": 0.3, **more}
    answer = server.analyze({"text": TEXT, "digits": 9, "outputs": ["attentions", "similarities"], **fields})
    keep = np.ones(len(answer["tokens"]), bool)
    if "special_tokens" in more:
        keep = np.array(answer["special_tokens_mask"]) == 0
    found = grids(csv.DictReader(io.StringIO(draw(server, "csv", {"kind": "regions"}, **fields).decode(), newline="")))
    assert len(found) == 16
    n_high = 0
    for l, layer in enumerate(fields["layers"]):
        for h, head in enumerate(fields["heads"]):
            a, s = (np.array(answer[name][l][h]) for name in ("attentions", "similarities"))
            high = analysis.high_tokens(analysis.profile(a, keep), fields["attention_threshold"])
            cells = analysis.runs(high, len(keep))
            means = analysis.region_means(s, keep, cells)
            of_token = np.repeat(np.arange(len(cells)), [end - start for start, end in cells])
            name = "centred similarity" if "center" in more else "similarity"
            np.testing.assert_array_equal(found[f"{layer}.{head}, attention"], a)
            np.testing.assert_array_equal(found[f"{layer}.{head}, {name}"], s)
            is_high = np.isin(np.arange(len(keep)), high)
            np.testing.assert_array_equal(found[f"{layer}.{head}, mask"], is_high[:, None] | is_high)
            np.testing.assert_allclose(found[f"{layer}.{head}, regions"], means[np.ix_(of_token, of_token)], rtol=0,
                                       atol=1e-5 * np.abs(s).max())
            n_high += len(high)
    assert n_high > 4


@pytest.mark.parametrize("more", [{}, {"threshold": 0.02}, {"threshold": 0.9}, {"special_tokens": "mask", "center": "text"}])
def test_pairs_are_the_strongest_of_the_answer(server, more):
    """Figure 9 of the paper: their tokens are marked, and the numbers are those of these pairs."""
    fields = {"layers": [11], "heads": [0], **more}
    answer = server.analyze({"text": TEXT, "digits": 9, "outputs": ["pairs"], **fields})
    due = {(pair["i"], pair["j"]): pair for pair in answer["pairs"][:12]}
    rows = list(csv.DictReader(io.StringIO(draw(server, "csv", {"kind": "pairs"}, **fields).decode(), newline="")))
    assert [(int(row["row"]), int(row["column"])) for row in rows] == sorted(due)
    for row in rows:
        pair = due[int(row["row"]), int(row["column"])]
        assert float(row["value"]) == pytest.approx(pair["normalized"], rel=1e-6)
        assert (row["row_label"], row["column_label"]) == (answer["tokens"][pair["i"]], answer["tokens"][pair["j"]])
    svg = draw(server, "svg", {"kind": "pairs", "footer": True}, **fields)
    shown = [text for text, _ in texts(svg)]
    assert shown[0].startswith(f"layer 11, head 0: strongest pairs: {len(due)}, N ") and shown[1:-1] == answer["tokens"]
    assert shown[-1].startswith("headscope: strongest pairs" + (", centred outputs" if "center" in more else ""))
    places = {i for pair in due for i in pair}
    grounds = re.findall(r"#(?:ffd28a|b9d4f5|b8e6cd|e6c8ee|f3b8ae|e5e08a|a9e3ea|d9cbb8)", svg.decode())
    assert len(grounds) == len(places) and len(set(grounds)) == min(8, len({answer["tokens"][i] for i in places}))


def test_pairs_are_of_one_head(server):
    for fields, pointer in (({"layers": [11]}, "/heads"), ({"layers": [10, 11], "heads": [0]}, "/layers")):
        refused = json.loads(draw(server, "svg", {"kind": "pairs"}, status=422, **fields))
        assert refused["pointer"] == pointer and "one layer and one head" in refused["detail"]


def test_regions_of_one_head_are_four_labelled_panels(server):
    shown = {text for text, _ in texts(draw(server, "svg", {"kind": "regions", "width_mm": 200}, layers=[11], heads=[0]))}
    titles = ("layer 11, head 0: attention, max", "layer 11, head 0: similarity, ", "Mask of the tokens of high attention",
              "Mean similarity of the regions, ")
    assert all(any(text.startswith(title) for text in shown) for title in titles)
    assert {"[CLS]", "[SEP]", "cat"} <= shown
    assert draw(server, "svg", {"kind": "regions", "show": "attention"}, heads=[0]) == draw(server, "svg", {"kind": "regions"}, heads=[0])


def test_regions_are_of_tokens(server):
    refused = json.loads(draw(server, "svg", {"kind": "regions", "merge_words": True}, status=422))
    assert refused["pointer"] == "/figure/merge_words"
    heads = {"layers": "all"}
    assert len(grids(csv.DictReader(io.StringIO(draw(server, "csv", {"kind": "regions"}, text="a", **heads).decode(), newline="")))) == 576


def test_a_map_of_zeros_has_no_maximum_but_zero(server):
    off = {"layers": [11], "heads": [0], "interventions": [{"kind": "zero", "layers": [11], "heads": [0]}]}
    shown = [text for text, _ in texts(draw(server, "svg", {"show": "similarity"}, **off))]
    assert "layer 11, head 0: similarity, max 0" in shown
    panels = {text for text, _ in texts(draw(server, "svg", {"kind": "effects"}, layers=[11]))}
    assert "change of similarity, 0 to 0" in panels  # of later layers, of which there are none


def test_a_figure_that_is_too_large_has_no_dtype_to_make_it_smaller(server):
    refused = server.post("/analyze?format=csv", {"text": "a " * 200, "max_tokens": 200, "layers": "all", "figure": {"kind": "layer"}})
    assert refused.status == 422 and "fewer layers" in refused.json()["detail"] and "dtype" not in refused.json()["detail"]


def test_numbers_beside_a_figure(tmp_path):
    done = subprocess.run([HEADSCOPE, "plot", "A cat, a \"dog\".", "--layers", "0", "--heads", "0", "-o", tmp_path / "fig.svg",
                           "--data", tmp_path / "fig.csv"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    alone = subprocess.run([HEADSCOPE, "plot", "A cat, a \"dog\".", "--layers", "0", "--heads", "0", "-o", tmp_path / "alone.csv"])
    assert alone.returncode == 0 and (tmp_path / "alone.csv").read_bytes() == (tmp_path / "fig.csv").read_bytes()
    assert (tmp_path / "fig.svg").read_bytes().startswith(b"<svg")
    rows = list(csv.DictReader((tmp_path / "fig.csv").open(newline="")))
    assert [row["column_label"] for row in rows[:4]] == ["[CLS]", "a", "cat", ","]


@pytest.mark.skipif(not importlib.util.find_spec("pandas"), reason="needs pandas")
def test_pandas_reads_the_numbers(server):
    table = importlib.import_module("pandas").read_csv(io.BytesIO(draw(server, "csv", {"kind": "layer"}, layers=[1])), keep_default_na=False)
    assert table["value"].dtype == float and table["panel"].nunique() == 12


@pytest.mark.skipif(not shutil.which("Rscript"), reason="needs R")
def test_r_reads_the_numbers(server, tmp_path):
    (tmp_path / "fig.csv").write_bytes(draw(server, "csv", {}, layers=[1], heads=[6]))
    code = f'd <- read.csv("{tmp_path}/fig.csv"); cat(is.numeric(d$value), nrow(d) == (max(d$row) + 1)^2)'
    assert subprocess.run(["Rscript", "-e", code], capture_output=True, check=True, text=True).stdout == "TRUE TRUE"


def test_text_stays_text_and_is_escaped(server):
    svg = draw(server, "svg", {"width_mm": 200, "labels": "all"}, heads=[0])
    shown = [text for text, _ in texts(svg)]
    assert {"<", "&", '"', "cat", "[CLS]"} <= set(shown)
    colours = re.findall(rb'(?:fill|stroke)="([^"]*)"', svg)
    assert colours and all(re.fullmatch(rb"none|#[0-9a-f]{6}", colour) for colour in colours)


def test_labels_of_any_characters(server):
    words = ["ab\u202ecd", "\u0001x", "שלום", "中文", "\U0001f600", "\u2028", "</text>"]
    svg, pdf = (draw(server, format, {"width_mm": 200, "labels": "all"}, heads=[0], text=" ".join(words)) for format in ("svg", "pdf"))
    assert {text for text, _ in texts(svg)} >= {"[CLS]", "[SEP]"} and pdf.startswith(b"%PDF-")
    assert "\u202e" not in svg.decode() and "\u2028" not in svg.decode()


def test_labels_fit_or_are_numbers(server):
    long = {"text": TEXT * 20, "max_tokens": 128, "layers": [0], "heads": [0]}
    shown = texts(draw(server, "svg", {"width_mm": 85}, **long))
    assert "[CLS]" not in [text for text, _ in shown] and "20" in [text for text, _ in shown]
    problem = json.loads(draw(server, "svg", {"labels": "all"}, status=422, **long))
    assert "need a width of" in problem["detail"] and "128 labels" in problem["detail"]
    needed = int(re.search(r"about (\d+)", problem["detail"])[1])
    assert "[CLS]" in [text for text, _ in texts(draw(server, "svg", {"labels": "all", "width_mm": needed}, **long))]


def test_a_shared_scale_has_one_bar(server):
    own = draw(server, "svg", {"kind": "layer"}, layers=[0])
    shared = draw(server, "svg", {"kind": "layer", "scale": "shared"}, layers=[0])
    assert [len(list(ElementTree.fromstring(svg).iter(f"{SVG}image"))) for svg in (own, shared)] == [13, 13]
    assert "max" in own.decode() and "max" not in shared.decode()
    assert words(own)[-3:] == ["0", "max", "attention, linear, each map to its own maximum"]
    largest = np.max(attentions(server, layers=[0]))
    assert words(shared)[-4:] == ["0", f"{largest / 2:.3g}", f"{largest:.3g}", f"attention, linear, 0 to {largest:.3g}"]


def words(svg):
    return [text for text, _ in texts(svg)]


def attentions(server, what="attentions", **fields):
    answer = server.post("/analyze", {"text": TEXT, "outputs": [what], "digits": 9, **fields})
    return np.array(json.loads(answer.body)[what])


def in_oklab(rgb):
    """The colours [n][3] in OKLab (Ottosson 2020)."""
    c = np.asarray(rgb) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    cones = linear @ np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                               [0.0883024619, 0.2817188376, 0.6299787005]]).T
    return np.cbrt(cones) @ np.array([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
                                      [0.0259040371, 0.7827717662, -0.808675766]]).T


def test_a_palette_has_the_viewers_colours(server):
    """A palette goes through the colours of palettes.json, which the viewer reads too, with even steps of lightness."""
    names = json.loads((Path(__file__).parents[2] / "api/figures/palettes.json").read_text())
    figures = {"attention": {"show": "attention"}, "similarity": {"show": "similarity"}, "figure": {"kind": "distances"}}
    for name, figure in figures.items():
        bar = list(ElementTree.fromstring(draw(server, "svg", figure, layers=[1], heads=[6])).iter(f"{SVG}image"))[-1]
        colours = in_oklab([row[0] for row in pixels(bar)][::-1])  # from the bottom up
        sides = [colours] if name != "similarity" else [colours[127:], colours[127::-1]]
        for side, ramp in zip(sides, [name] if name != "similarity" else ["similarity", "below"]):
            anchors = in_oklab([[int(c[at:at + 2], 16) for at in (1, 3, 5)] for c in names[ramp]])
            assert np.abs(side[:, 0] - np.linspace(anchors[0, 0], anchors[-1, 0], len(side))).max() < 0.004
            assert np.abs(side[[0, -1]] - anchors[[0, -1]]).max() < 0.004
            assert all(np.abs(side - anchor).max(axis=1).min() < 0.008 for anchor in anchors)


def test_similarity_goes_to_both_sides_of_0(server):
    svg = draw(server, "svg", {"show": "similarity", "labels": "none"}, layers=[1], heads=[6])
    values = attentions(server, "similarities", layers=[1], heads=[6])[0, 0]
    low, high = values.min(), values.max()
    assert low < 0 < high
    top = max(-low, high)
    assert words(svg)[-4:] == [f"{top:.3g}", "0", f"-{top:.3g}", f"similarity, linear, {low:.3g} to {high:.3g}"]
    cells, bar = (pixels(image) for image in ElementTree.fromstring(svg).iter(f"{SVG}image"))
    n, side = len(values), len(cells) // len(values)
    for i in range(n):
        for j in range(n):
            at = 127 - round(127 * values[i, j] / top)  # the bar's row, from the top
            colour = cells[i * side + side // 2][j * side + side // 2]
            assert any(bar[k][0] == colour for k in range(max(0, at - 1), min(255, at + 2))), (i, j)


def test_similarity_that_is_nowhere_below_0_goes_to_one_side(server):
    # The heads with no similarity below 0 depend on the weights.
    lowest = attentions(server, "similarities", text="The cat sat.", layers="all").min((2, 3))
    layer = (lowest == 0).sum(1).argmax()
    fields = {"text": "The cat sat.", "layers": [int(layer)], "heads": np.flatnonzero(lowest[layer] == 0)[:2].tolist()}
    values = attentions(server, "similarities", **fields)
    said = words(draw(server, "svg", {"show": "similarity", "labels": "none"}, **fields))
    assert values.min() == 0 and f"{values.max():.3g}" in said
    assert not any(word.startswith("-") for word in said)


@pytest.mark.parametrize("scale, share, middle, name", [
    ("linear", lambda x: x, 0.5, "linear"), ("square_root", np.sqrt, 0.25, "square root"),
    ("log", lambda x: np.maximum(0, 1 + np.log10(np.maximum(x, 1e-30)) / 4), 0.01, "log, four decades"),
])
def test_scales_of_colours(server, scale, share, middle, name):
    svg = draw(server, "svg", {"labels": "none", "colour_scale": scale}, layers=[1], heads=[6])
    values = attentions(server, layers=[1], heads=[6])[0, 0]
    top = values.max()
    lowest = "0" if scale != "log" else f"{top * 1e-4:.3g}"
    assert words(svg)[-4:] == [f"{top:.3g}", f"{top * middle:.3g}", lowest, f"attention, {name}, 0 to {top:.3g}"]
    cells, bar = (pixels(image) for image in ElementTree.fromstring(svg).iter(f"{SVG}image"))
    n, side = len(values), len(cells) // len(values)
    for i in range(n):
        for j in range(n):
            at = 254 - int(round(254 * float(share(values[i, j] / top))))
            colour = cells[i * side + side // 2][j * side + side // 2]
            assert any(bar[k][0] == colour for k in range(max(0, at - 1), min(255, at + 2))), (i, j)


def test_a_scale_of_rows_gives_each_row_its_darkest_colour(server):
    svg = draw(server, "svg", {"labels": "none", "colour_scale": "row"}, layers=[1], heads=[2])
    values = attentions(server, layers=[1], heads=[2])[0, 0]
    cells, bar = (pixels(image) for image in ElementTree.fromstring(svg).iter(f"{SVG}image"))
    side = len(cells) // len(values)
    assert all(cells[i * side + side // 2][row.argmax() * side + side // 2] == bar[0][0] for i, row in enumerate(values))
    assert words(svg)[-3] == "row max" and words(svg)[-1].startswith("attention, linear in each row")


def test_an_overview_names_its_scales(server):
    bars = words(draw(server, "svg", {"kind": "overview", "show": "both", "width_mm": 170}, layers=[0, 1]))
    most = attentions(server, layers=[0, 1]).max()
    assert {f"attention, square root, 0 to {most:.3g}", f"{most * 0.25:.2g}", "similarity, square root, each map to its own maximum", "-max", "max"} <= set(bars)


@pytest.mark.parametrize(("width", "said"), [
    (170, "similarity, square root, each map to its own maximum"), (85, "square root, each its own"), (50, "square root")])
def test_a_narrow_bar_says_less(server, width, said):
    svg = draw(server, "svg", {"kind": "overview", "show": "both", "width_mm": width}, layers=[0, 1])
    assert [text for text in words(svg) if "square root" in text][-1] == said


def test_maps_of_different_ranges_have_a_bar_each(server):
    svg = draw(server, "svg", {"show": "both", "width_mm": 170}, layers=[1], heads=[6])
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}image"))) == 4
    low, high = (f(attentions(server, "similarities", layers=[1], heads=[6])) for f in (np.min, np.max))
    most = attentions(server, layers=[1], heads=[6]).max()
    assert {f"attention, linear, 0 to {most:.3g}", f"similarity, linear, {low:.3g} to {high:.3g}"} <= set(words(svg))


@pytest.mark.parametrize(("center", "show", "said"), [
    ("text", "both", True), ("text", "attention", False), ("none", "both", False)])
def test_a_figure_says_that_it_is_centred(server, center, show, said):
    figure = {"kind": "head", "show": show, "footer": True, "width_mm": 170}
    shown = " ".join(text for text, _ in texts(draw(server, "svg", figure, layers=[11], heads=[2], center=center)))
    assert ("head 2: centred similarity" in shown) == ("centred outputs, model" in shown) == said
    assert ("centred similarity, linear" in shown) == said


def test_footer_only_when_requested(server):
    assert not [text for text, _ in texts(draw(server, "svg", {})) if "headscope" in text]
    assert [text for text, _ in texts(draw(server, "svg", {"footer": True})) if "headscope" in text]


@pytest.mark.parametrize("figure, pointer", [
    (3, "/figure"), ({"kind": "pie"}, "/figure/kind"), ({"show": 1}, "/figure/show"),
    ({"width_mm": 29}, "/figure/width_mm"), ({"width_mm": "85"}, "/figure/width_mm"),
    ({"font_pt": 4.9}, "/figure/font_pt"), ({"footer": 1}, "/figure/footer"), ({"size": 1}, "/figure"),
])
def test_bad_figures_are_refused(server, figure, pointer):
    assert json.loads(draw(server, "svg", figure, status=422))["pointer"] == pointer


def test_a_figure_needs_its_format(server):
    assert json.loads(draw(server, "json", {}, status=422))["pointer"] == "/figure"


def test_nothing_to_predict(server):
    problem = json.loads(draw(server, "svg", {"kind": "predictions"}, status=422))
    assert "positions" in problem["detail"]


def test_accept_chooses_the_figure(server):
    for media_type, begin in (("image/svg+xml", b"<svg"), ("application/pdf", b"%PDF"), ("image/png", b"\x89PNG\r\n\x1a\n")):
        answer = server.post("/analyze", {"text": TEXT, "heads": [0]}, headers={"Accept": media_type})
        assert answer.status == 200 and answer.headers["Content-Type"] == media_type
        assert answer.body.startswith(begin)


def test_the_client_shows_figures(server, tmp_path):
    client = headscope.Client(server.url)
    figure = client.figure(TEXT, "layer", options={"width_mm": 60}, layers=[0])
    assert base64.b64encode(figure.data).decode() in figure._repr_html_() and 'width="60.00mm"' in figure.data.decode()
    figure.save(tmp_path / "fig.pdf")
    assert (tmp_path / "fig.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match=r"\.svg, \.pdf, \.png or \.csv"):
        figure.save(tmp_path / "fig.gif")
    for dpi, width in ((None, 709), (72, 171)):
        figure.save(tmp_path / "fig.png", dpi=dpi)
        assert png((tmp_path / "fig.png").read_bytes()).shape[1] == width
    with pytest.raises(ValueError, match="dpi is of a PNG; svg has none"):
        figure.save(tmp_path / "fig.svg", dpi=100)
    assert client.figure(TEXT, format="png")._repr_png_().startswith(b"\x89PNG") and figure._repr_png_() is None


def test_lens_names_the_tokens_of_narrow_cells(server):
    answer = json.loads(server.post("/analyze", {"text": TEXT, "predictions": {"positions": [3], "top_k": 1, "lens": True}}).body)
    best = [layer["top"][0]["token"] for layer in answer["predictions"][0]["layers"]]
    shown = [text for text, _ in texts(draw(server, "svg", {"kind": "lens"}, predictions={"positions": [3], "top_k": 1}))]
    assert len(best) == 13 and all(shown.count(token) >= best.count(token) for token in best)


@pytest.mark.parametrize("show", ["attention", "both"])
def test_overview_numbers_its_layers_and_heads(server, show):
    svg = draw(server, "svg", {"kind": "overview", "show": show}, layers=[0, 3, 11], heads=[2, 5])
    shown = [text for text, _ in texts(svg)]
    assert shown[-7:] == ["layer", "head", "0", "3", "11", "2", "5"]


def test_a_page_too_tall_for_pdf_is_refused_with_its_size(server):
    request = {"figure": {"kind": "predictions", "width_mm": 200, "font_pt": 24}, "predictions": {"positions": "all", "top_k": 50}, "text": "the " * 200}
    height = float(ElementTree.fromstring(draw(server, **request)).get("viewBox").split()[3])
    assert height > 14400
    detail = json.loads(draw(server, "pdf", status=422, **request))["detail"]
    assert f"{height:.0f} tall" in detail and "at most 14400" in detail and "svg" in detail


def test_a_png_of_too_many_pixels_is_refused_with_its_size(server):
    detail = json.loads(draw(server, "png", {"width_mm": 1000, "dpi": 1200}, status=422, heads=[0]))["detail"]
    assert re.search(r"47245 × \d+ pixels", detail) and "at most 50 million" in detail and "dpi" in detail
    assert json.loads(draw(server, "png", {"dpi": 35}, status=422))["pointer"] == "/figure/dpi"


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
def test_the_same_request_has_the_same_bytes(server, format):
    first, other = (draw(server, format, {"footer": True}, heads=[0]) for _ in range(2))
    assert first == other


# ---- the command line ----


def plot(*arguments):
    return subprocess.run([HEADSCOPE, "plot", *arguments], capture_output=True, check=False)


def test_plot(tmp_path):
    for name, begin in (("fig.pdf", b"%PDF"), ("fig.svg", b"<svg"), ("fig.png", b"\x89PNG\r\n\x1a\n")):
        done = plot("The cat sat.", "--layers", "1", "--heads", "6", "--show", "attention", "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).read_bytes().startswith(begin)
    assert plot("The cat sat.", "--kind", "overview").stdout.startswith(b"<svg")
    one, other = (plot("The cat sat. It slept.", "--kind", "regions", "--heads", "3", "--attention-threshold", tau).stdout for tau in ("0.01", "1"))
    assert one.startswith(b"<svg") and other.startswith(b"<svg") and one != other


@pytest.mark.parametrize("arguments, message", [
    (["-o", "fig.gif"], b".svg, .pdf, .png or .csv"), (["--dpi", "99", "-o", "fig.pdf"], b"--dpi is of a PNG"),
    (["--dpi", "9", "-o", "fig.png"], b"--dpi is 9; it must be a number from 36 to 1200"), (["--width-mm", "x"], b"expected a number"),
    (["--width-mm", "1"], b"--width-mm is 1; it must be a number from 30 to 1000"), (["--width-mm", "nan"], b"expected a number"),
    (["--kind", "pie"], b"--kind is"), (["--font-pt", "99"], b"--font-pt is 99"), (["--labels", "all", "--width-mm", "30"], b"width of about"),
    (["--kind", "lens"], b"predictions of all positions"), (["--dtype", "f2"], b"dtype"),
])
def test_plot_refuses(arguments, message):
    done = plot("The cat sat.", *arguments)
    assert done.returncode == 2 and message in done.stderr


# ---- readers ----


@pytest.mark.skipif(not shutil.which("pdffonts"), reason="needs poppler-utils")
def test_the_pdf_embeds_its_fonts(server, tmp_path):
    (tmp_path / "fig.pdf").write_bytes(draw(server, "pdf", {}, heads=[0]))
    done = subprocess.run(["pdffonts", str(tmp_path / "fig.pdf")], capture_output=True, check=True, text=True)
    lines = done.stdout.splitlines()
    assert done.stderr == "" and len(lines) >= 3
    assert all("DejaVuSans" in line and re.search(r"yes yes yes +\d+ +\d+$", line) for line in lines[2:])


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="needs poppler-utils")
@pytest.mark.parametrize("word", ["Größe", "λόγος", "שלום", "مرحبا", "中", "नमस्ते", "🦀"])
def test_words_of_all_scripts_stay_text(tmp_path, word):
    """In a PDF as far as this machine has a font: DejaVu Sans has letters of the first four."""
    for path in Path(MINI).iterdir():
        (tmp_path / path.name).symlink_to(path.resolve())
    vocabulary = (tmp_path / "vocab.txt").read_text()
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "vocab.txt").write_text(vocabulary.replace("\ncat\n", f"\n{word}\n"))
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": false, "strip_accents": false}')
    for format in ("pdf", "svg"):
        command = [HEADSCOPE, "plot", word, "--model", str(tmp_path), "--layers", "0", "--heads", "0", "-o", str(tmp_path / f"fig.{format}")]
        subprocess.run(command, check=True)
    done = subprocess.run(["pdftotext", str(tmp_path / "fig.pdf"), "-"], capture_output=True, check=True, text=True)
    assert done.stderr == "" and (word in done.stdout or word in "中नमस्ते🦀")  # letters in the order in which they are read
    assert f">{word}</text>" in (tmp_path / "fig.svg").read_text()


def test_without_the_program_that_converts_pdf_and_png_are_refused(tmp_path):
    for name, code, message in (("fig.svg", 0, ""), ("fig.pdf", 1, "install Debian's packages librsvg2-bin"), ("fig.png", 1, "or take svg")):
        done = subprocess.run([HEADSCOPE, "plot", "The cat sat.", "-o", tmp_path / name], env={**os.environ, "PATH": "/nowhere"},
                              capture_output=True, text=True)
        assert done.returncode == code and message in done.stderr and (tmp_path / name).exists() == (code == 0)


def test_a_server_without_that_program_answers_501(start_server):
    server = start_server(environment={"PATH": "/nowhere"})
    for format in ("pdf", "png"):
        assert "install Debian's packages librsvg2-bin" in json.loads(draw(server, format, status=501))["detail"]
    assert draw(server, "svg").startswith(b"<svg")


@pytest.fixture
def converter(tmp_path):
    """converter(body): environment in which rsvg-convert is a shell script with this body."""
    def make(body):
        program = tmp_path / "rsvg-convert"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    return make


@pytest.mark.parametrize("code, body, message", [
    (1, "echo no letters left >&2; exit 3", "cannot write the figure (no letters left): choose svg"),
    (1, "kill -9 $$", "ended by signal 9"),
    (2, "exec head -c 50000000 /dev/zero", "more than 22 MB as PDF or PNG: choose fewer pixels per inch"),
])
def test_a_conversion_that_fails_says_why(tmp_path, converter, code, body, message):
    done = subprocess.run([HEADSCOPE, "plot", "The cat sat.", "-o", tmp_path / "fig.png"], capture_output=True, text=True,
                          env={**os.environ, **converter(body)})
    assert done.returncode == code and message in done.stderr and not (tmp_path / "fig.png").exists()


@pytest.mark.parametrize("format", ["pdf", "png"])
def test_a_cancelled_request_ends_its_conversion(start_server, tmp_path, converter, format):
    started = tmp_path / "started"
    server = start_server("--workers", "1", "--cache", "0", environment=converter(f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 1000"))
    client = server.socket()
    client.sendall(post_bytes({"text": TEXT}, f"/analyze?format={format}"))
    process = int(until(lambda: started.exists() and started.read_text()))
    client.close()
    until(lambda: not Path(f"/proc/{process}").exists())
    assert draw(server, "svg").startswith(b"<svg")  # the only worker is free again


@pytest.mark.skipif(not shutil.which("pdftotext"), reason="needs poppler-utils")
@pytest.mark.parametrize("figure, fields", [
    ({}, {"heads": [0]}), ({"kind": "layer"}, {}), ({"kind": "distances"}, {}), ({"kind": "effects"}, {}),
    ({"show": "both", "width_mm": 170}, {"heads": [0]}), ({"font_pt": 9, "kind": "lens"}, {"predictions": {"positions": "all"}}),
])
def test_no_texts_overlap(server, tmp_path, figure, fields):
    (tmp_path / "fig.pdf").write_bytes(draw(server, "pdf", figure, **fields))
    page = subprocess.run(["pdftotext", "-bbox", str(tmp_path / "fig.pdf"), "-"], capture_output=True, check=True, text=True).stdout
    boxes = [(*map(float, box[:4]), box[4]) for box in
             re.findall(r'<word xMin="([-.\d]+)" yMin="([-.\d]+)" xMax="([-.\d]+)" yMax="([-.\d]+)">(.*?)</word>', page)]
    assert boxes
    for i, (ax, ay, bx, by, a) in enumerate(boxes):
        for cx, cy, dx, dy, b in boxes[:i]:
            width, height = min(bx, dx) - max(ax, cx), min(by, dy) - max(ay, cy)
            # A line's box has the font's ascent and descent, which may meet those of the next line.
            least = min(bx - ax, dx - cx), min(by - ay, dy - cy)
            assert width < 0.3 * least[0] or height < 0.3 * least[1], (a, b)


DOTS = 150  # per inch
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or "chromium"
READERS = {
    "pdftoppm": ["pdftoppm", "-png", "-singlefile", "-r", str(DOTS), "fig.pdf", "page"],
    "rsvg-convert": ["rsvg-convert", "-d", str(DOTS), "-p", str(DOTS), "-o", "page.png", "fig.svg"],
    "inkscape": ["inkscape", f"--export-dpi={DOTS}", "--export-filename=page.png", "fig.svg"],
    "chromium": [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--force-device-scale-factor={DOTS / 96}",
                 "--window-size=600,600", "--user-data-dir=profile", "--screenshot=page.png", "fig.svg"],
}


# The browser takes seconds to start.
@pytest.mark.parametrize("reader", [slow_if(reader == "chromium", reader) for reader in READERS])
def test_every_reader_shows_the_same_cells(server, tmp_path, reader):
    command = READERS[reader]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    for format in ("svg", "pdf"):
        (tmp_path / f"fig.{format}").write_bytes(draw(server, format, layers=[1], heads=[6]))
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    check_cells(matplotlib.image.imread(tmp_path / "page.png")[:, :, :3], (tmp_path / "fig.svg").read_bytes(), 0.02)


def test_a_png_has_the_colours_of_the_svg(server):
    shown = png(draw(server, "png", {"dpi": DOTS}, layers=[1], heads=[6]))
    check_cells(shown, draw(server, "svg", {}, layers=[1], heads=[6]), 0.003)


def check_cells(shown, svg, tolerance):
    """Compares the pixels of a page with the first image of an SVG."""
    image = next(ElementTree.fromstring(svg).iter(f"{SVG}image"))
    expected = np.array(pixels(image)) / 255
    left, top, width, height = (float(image.get(name)) * DOTS / 72 for name in ("x", "y", "width", "height"))
    # Away from edges, where readers mix colours: pixels of the image that lie inside a cell of one colour.
    rows, columns = (np.linspace(8, n - 9, 40).astype(int) for n in expected.shape[:2])
    compared = 0
    for i in rows:
        for j in columns:
            around = expected[i - 6:i + 7, j - 6:j + 7]
            if np.ptp(around, axis=(0, 1)).max() == 0:
                x, y = left + (j + 0.5) * width / expected.shape[1], top + (i + 0.5) * height / expected.shape[0]
                assert np.abs(shown[int(y), int(x)] - expected[i, j]).max() < tolerance, (i, j)
                compared += 1
    assert compared > 100
