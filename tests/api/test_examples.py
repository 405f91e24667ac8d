"""The notebooks of examples/ run from top to bottom, start what they need and print what is committed; the package's
convert.py makes what headscope opens."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import notebooks
import pytest
from conftest import unsanitized

pytestmark = unsanitized
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES, MINI = ROOT / "examples", ROOT / "model" / "mini"
CONVERT = ROOT / "clients" / "python" / "headscope" / "convert.py"
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import checkpoint  # noqa: E402


def heads_of(printed, pattern):
    """The lines of a ranking, [(layer, head, value)], the largest first."""
    found = [(int(layer), int(head), float(value)) for layer, head, value in re.findall(pattern, printed)]
    assert found == sorted(found, key=lambda one: -one[2])
    return found


def check_quick_start(printed, server):
    """The pairs of each head that it names are the service's, the largest first."""
    for part in printed.split("layer ")[2:]:
        layer, head = map(int, re.match(r"(\d+), head (\d+)", part).groups())
        answer = server.analyze({"text": BRIDGE, "layers": [layer], "heads": [head], "outputs": ["pairs"]})
        tokens = answer["tokens"]
        expected = [one for one in answer["pairs"] if tokens[one["i"]].isalpha() and tokens[one["j"]].isalpha()][:6]
        found = re.findall(r"N (\d\.\d\d)  S +(\d+\.\d+) .*?([A-Z]{2,})\W.*\W([A-Z]{2,})", part)
        assert [float(n) for n, *_ in found] == pytest.approx([one["normalized"] for one in expected], abs=6e-3)
        assert [float(s) for _, s, *_ in found] == pytest.approx([one["similarity"] for one in expected], abs=2e-4)
        words = [(tokens[one["i"]].upper(), tokens[one["j"]].upper()) for one in expected]
        assert [(i, j) for *_, i, j in found] == words


def check_paper_figures(printed, _):
    texts, tokens = map(int, re.search(r"(\d+) texts, (\d+) tokens, 12 layers x 12 heads", printed).groups())
    assert texts > 200 and 60 * texts < tokens <= 128 * texts
    assert len(re.findall(r"^(?:holds|does not hold|not decided|no effect|trained for) .*\d", printed, re.M)) == 8


def check_experiments(printed, server):
    """The heads of most effect are the service's, and so is what is predicted."""
    text = "The old bridge was closed after the [MASK]. The war had damaged the bridge."
    found = heads_of(printed, r"layer +(\d+) head +(\d+)  state (\d+\.\d+)")
    answer = server.analyze({"text": text, "layers": "all", "outputs": ["effects"], "predictions": {"top_k": 5}})
    effects = [(layer, head, one["hidden_change"]) for layer, row in enumerate(answer["effects"]) for head, one in enumerate(row)]
    expected = sorted(effects, key=lambda one: -one[2])[:5]
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert [one[2] for one in found] == pytest.approx([one[2] for one in expected], abs=6e-4)
    words = [one["token"] for one in answer["predictions"][0]["top"]]
    assert re.search("before: " + " ".join(map(re.escape, words)), printed), words


def check_two_models(printed, _):
    """The other model is mini with noise, so it has heads that look alike: the strongest correlations, the largest first."""
    found = [float(r) for r in re.findall(r"mini \d+\.\d+  ~  other \d+\.\d+   r = (\d\.\d\d)", printed)]
    assert len(found) == 10 and found == sorted(found, reverse=True) and 0.8 < found[-1] <= found[0] <= 1


def check_why_this_class(printed, _):
    """It learns, and the heads that it names carry what it has learnt."""
    whole, *_, least = map(float, re.search(r"heads off: \[(.+)\]", printed)[1].split(", "))
    assert float(re.search(r"^accuracy (\S+)", printed, re.M)[1]) == whole > 0.9 and least < 0.7


CHECKS = {"quick-start": check_quick_start, "paper-figures": check_paper_figures, "experiments": check_experiments,
          "two-models": check_two_models, "why-this-class": check_why_this_class}
BRIDGE = ("The old bridge was closed after the war. The war had damaged the bridge. "
          "People crossed the river by boat, and the boat left every hour.")


# Numbers of a training depend on PyTorch's version; check_why_this_class says what they must show.
TRAINED = {"why-this-class"}


@pytest.mark.skipif(not shutil.which("jupyter-nbconvert"), reason="jupyter-nbconvert is not installed")
@pytest.mark.parametrize("notebook", [
    pytest.param(path, marks=() if path.stem == "quick-start" else pytest.mark.slow, id=path.name)
    for path in sorted(EXAMPLES.glob("*.ipynb"))])
def test_notebook_prints_what_is_committed(notebook, headscope, server, tmp_path):
    """Word for word, each number to its last digit. No label of a figure covers another."""
    if notebook.stem in TRAINED:
        pytest.importorskip("torch", reason="python3-torch is not installed")
    executed, figures = notebooks.execute(notebook, headscope, tmp_path)
    committed = json.loads(notebook.read_text(encoding="utf-8"))
    CHECKS[notebook.stem]("".join(notebooks.printed(executed)), server)
    assert len(notebooks.pictures(executed)) == len(notebooks.pictures(committed)) > 0
    assert figures and all(figure["texts"] for figure in figures)
    assert not [covered for figure in figures for covered in figure["covered"]]
    assert [cell["source"] for cell in executed["cells"]] == [cell["source"] for cell in committed["cells"]]
    if notebook.stem not in TRAINED:
        for found, expected in zip(notebooks.printed(executed), notebooks.printed(committed)):
            assert not notebooks.differences(found, expected)


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_is_committed_with_its_outputs(notebook):
    """Run once from top to bottom, without an error, with pictures below 300 kB."""
    committed = json.loads(notebook.read_text(encoding="utf-8"))
    counts = [cell["execution_count"] for cell in committed["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert all(len(picture) < 300_000 for picture in notebooks.pictures(committed))
    outputs = notebooks.outputs_of(committed)
    assert not [one for one in outputs if one["output_type"] == "error" or one.get("name") == "stderr"]
    assert not [one for one in outputs if "text/html" in one.get("data", ())]  # it would need a server


def test_differences_of_printed_lines():
    """The comparison finds another word, number or line, and allows another last digit."""
    committed = "head 7: 0.940 nats\nN 1.00  S  18.1858"
    assert not notebooks.differences("head 7: 0.941 nats\nN 1.00  S 18.1859", committed)
    for first in ("head 8: 0.940 nats", "head 7: 0.950 nats", "head 7: -0.940 nats", "heads 7: 0.940 nats"):
        assert notebooks.differences(f"{first}\nN 1.00  S 18.1858", committed) == [f"{first!r} for 'head 7: 0.940 nats'"]
    assert notebooks.differences("head 7: 0.940 nats", committed)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("jupyter-nbconvert"), reason="jupyter-nbconvert is not installed")
@pytest.mark.parametrize("notebook, variable", [("experiments", "MODEL"), ("two-models", "OTHER_MODEL")])
def test_notebook_with_a_model_of_ones_own(notebook, variable, headscope, tmp_path):
    """One without the head for masked tokens, and with another number of heads."""
    folder = checkpoint.write_random(tmp_path / "bert", n_layers=3, n_heads=4, hidden=48)
    executed, _ = notebooks.execute(EXAMPLES / f"{notebook}.ipynb", headscope, tmp_path, **{variable: str(folder)})
    printed = "".join(notebooks.printed(executed))
    pattern = {"experiments": r"layer +[0-2] head +[0-3]  state \d+\.\d+", "two-models": r"~  other [0-2]\.[0-3]   r = \d\.\d\d"}[notebook]
    assert len(re.findall(pattern, printed)) == {"experiments": 5, "two-models": 10}[notebook]


def pickle_of(folder, dtype, n_files):
    """mini's folder with its weights in pytorch_model.bin, or in shards of it."""
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(MINI / name, folder)
    weights = {f"bert.{name}": torch.tensor(values, dtype=getattr(torch, dtype))
               for name, values in checkpoint.read(MINI, "bert.")[1].items()}
    weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"]  # shared memory
    weights["bert.embeddings.position_ids"] = torch.arange(512)[None]
    names = sorted(weights)
    files = ["pytorch_model.bin"] if n_files == 1 else [f"pytorch_model-{k}.bin" for k in range(n_files)]
    for k, file in enumerate(files):
        torch.save({name: weights[name] for name in names[k::n_files]}, folder / file)
    if n_files > 1:
        weight_map = {name: files[k % n_files] for k, name in enumerate(names)}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize("dtype, n_files", [("float32", 1), ("float32", 2), ("float16", 1), ("bfloat16", 1)])
def test_convert(headscope, tmp_path, dtype, n_files):
    pickle_of(tmp_path, dtype, n_files)
    refused = subprocess.run([headscope, "models", tmp_path], capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "headscope.convert" in refused.stderr
    done = subprocess.run([sys.executable, CONVERT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    subprocess.run([headscope, "models", tmp_path], capture_output=True, check=True)
    converted, original = (checkpoint.read(folder, "bert.")[1] for folder in (tmp_path, MINI))
    assert set(converted) - {"embeddings.position_ids", "cls.predictions.decoder.weight"} == set(original)
    if dtype == "float32":
        assert all((converted[name] == original[name]).all() for name in original)


def test_convert_runs_no_code(tmp_path):
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")

    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"weight": Hostile()}, tmp_path / "pytorch_model.bin")
    done = subprocess.run([sys.executable, CONVERT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pytorch_model.bin"]
