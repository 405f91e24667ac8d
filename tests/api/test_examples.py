"""The notebooks of examples/ run from top to bottom and start what they need; convert.py makes what headscope opens."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import unsanitized

pytestmark = unsanitized
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES, MINI = ROOT / "examples", ROOT / "model" / "mini"
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import checkpoint  # noqa: E402


def execute(notebook, headscope, tmp_path, **variables):
    """The executed notebook's text. It must need no server, no network and no model from outside."""
    env = dict(os.environ, HEADSCOPE=os.path.abspath(headscope), IPYTHONDIR=str(tmp_path / "ipython"), HF_HUB_OFFLINE="1",
               HF_HUB_CACHE=str(tmp_path / "empty"), **variables)
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", tmp_path, notebook],
        env=env, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return (tmp_path / notebook.name).read_text()


@pytest.mark.skipif(not shutil.which("jupyter-nbconvert"), reason="jupyter-nbconvert is not installed")
@pytest.mark.parametrize("notebook", [
    pytest.param(path, marks=() if path.stem == "quick-start" else pytest.mark.slow, id=path.name)
    for path in sorted(EXAMPLES.glob("*.ipynb"))])
def test_notebook_runs(notebook, headscope, tmp_path):
    if notebook.stem == "why-this-class":
        pytest.importorskip("torch", reason="python3-torch is not installed")
    assert '"image/png"' in execute(notebook, headscope, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("jupyter-nbconvert"), reason="jupyter-nbconvert is not installed")
@pytest.mark.parametrize("notebook, variable", [("experiments", "MODEL"), ("two-models", "OTHER_MODEL")])
def test_notebook_with_a_model_of_ones_own(notebook, variable, headscope, tmp_path):
    """One without the head for masked tokens, and with another number of heads."""
    folder = checkpoint.write_random(tmp_path / "bert", n_layers=3, n_heads=4, hidden=48)
    assert '"image/png"' in execute(EXAMPLES / f"{notebook}.ipynb", headscope, tmp_path, **{variable: str(folder)})


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
    assert refused.returncode != 0 and "examples/convert.py" in refused.stderr
    done = subprocess.run([sys.executable, EXAMPLES / "convert.py", tmp_path], capture_output=True, text=True, check=False)
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
    done = subprocess.run([sys.executable, EXAMPLES / "convert.py", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pytorch_model.bin"]
