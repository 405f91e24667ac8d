"""Executes the notebooks of examples/ and compares what they print with the outputs that are committed.

    python3 tests/api/notebooks.py build/headscope [NAME...]     executes notebooks and writes their outputs in place
"""
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# A number of a text, with its sign unless the sign joins two words ("[1, 7]", "-0.25", "layer-7").
NUMBER = re.compile(r"(?:(?<![\w.])[-+])?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# IPython runs this before the first cell. Figures append to LABELS which of their texts cover each other or other axes.
WATCH_LABELS = """
import functools, json, os
from itertools import combinations
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

def _watch(drawn=[]):
    draw_text, draw_figure = Text.draw, FigureCanvasAgg.draw

    @functools.wraps(draw_text)
    def text_draw(self, renderer, *args, **kwargs):
        draw_text(self, renderer, *args, **kwargs)
        if self.get_visible() and self.get_text().strip():
            drawn.append((self, self.get_window_extent(renderer)))

    def meet(one, other):
        return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1

    @functools.wraps(draw_figure)
    def figure_draw(self, *args, **kwargs):
        drawn.clear()
        draw_figure(self, *args, **kwargs)
        covered = [(a.get_text(), b.get_text()) for (a, one), (b, other) in combinations(drawn, 2) if meet(one, other)]
        for axes in self.figure.axes:
            own = set(map(id, axes.findobj(Text)))
            covered += [(text.get_text(), "the axes " + axes.get_title()) for text, box in drawn
                        if id(text) not in own and meet(box, axes.get_window_extent())]
        with open(os.environ["LABELS"], "a") as file:
            file.write(json.dumps({"texts": len(drawn), "covered": covered}) + "\\n")

    Text.draw, FigureCanvasAgg.draw = text_draw, figure_draw

_watch()
"""


def execute(notebook, headscope, folder, **variables):
    """Returns the executed notebook as a dictionary, and what WATCH_LABELS wrote of its figures. Needs no server,
    network or model from outside."""
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "labels.py").write_text(WATCH_LABELS)
    (folder / "labels").write_text("")
    env = dict(os.environ, HEADSCOPE=os.path.abspath(headscope), IPYTHONDIR=str(folder / "ipython"), HF_HUB_OFFLINE="1",
               HF_HUB_CACHE=str(folder / "empty"), LABELS=str(folder / "labels"), **variables)
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", folder,
         "--ExecutePreprocessor.startup_timeout=1800", "--ExecutePreprocessor.timeout=-1", notebook],
        env=env, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    executed = json.loads((folder / notebook.name).read_text(encoding="utf-8"))
    return executed, [json.loads(line) for line in (folder / "labels").read_text().splitlines()]


def outputs_of(notebook):
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def printed(notebook):
    """The texts that cells print, and the values that they end with, one string for each cell of code."""
    return ["".join("".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
                    for output in cell["outputs"]
                    if output.get("name") == "stdout" or output["output_type"] == "execute_result")
            for cell in notebook["cells"] if cell["cell_type"] == "code"]


def pictures(notebook):
    return [base64.b64decode("".join(output["data"]["image/png"])) for output in outputs_of(notebook)
            if "image/png" in output.get("data", ())]


def differences(found, committed):
    """Lines of a cell that differ: in a word, or in a number by more than two units of its last digit and by 0.5 %."""
    lines, expected = found.splitlines(), committed.splitlines()
    if len(lines) != len(expected):
        return [f"{len(lines)} lines for {len(expected)}"]
    return [f"{line!r} for {other!r}" for line, other in zip(lines, expected) if not _same(line, other)]


def _same(line, other):
    if re.sub(r"\s+", " ", NUMBER.sub("#", line)) != re.sub(r"\s+", " ", NUMBER.sub("#", other)):
        return False
    for a, b in zip(NUMBER.findall(line), NUMBER.findall(other)):
        unit = 10.0 ** -len(b.partition(".")[2]) if "." in b and "e" not in b else 0
        if abs(float(a) - float(b)) > max(2 * unit, 0.005 * abs(float(b)) if unit else 0):
            return False
    return True


def tidy(notebook):
    """The notebook as it is committed: without times, with pictures in place of pages that need a running server."""
    notebook["metadata"] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                            "language_info": {"name": "python"}}
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                data.pop("text/html", None)
            output.pop("metadata", None) if output["output_type"] == "stream" else output.update(metadata={})
    return notebook


def main(headscope, *names):
    for notebook in sorted(EXAMPLES.glob("*.ipynb")):
        if names and notebook.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            executed, figures = execute(notebook, headscope, Path(folder))
        for figure in figures:
            for a, b in figure["covered"]:
                print(f"{notebook.name}: {a!r} covers {b!r}")
        notebook.write_text(json.dumps(tidy(executed), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{notebook.name}: {notebook.stat().st_size >> 10} kB, {len(figures)} figures")


if __name__ == "__main__":
    main(*sys.argv[1:])
