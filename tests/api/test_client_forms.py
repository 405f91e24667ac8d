"""Forms that clients/python gives an answer for other programs, and its calls for asyncio, against the real server."""
import asyncio
import base64
import html
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from test_client_python import CLIENT, package, python_with
from test_methods import documented

TEXT = "The old bridge closed </script> after the war."
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.fixture(scope="module")
def answer(server):
    with package.Client(server.url) as client:
        yield client.analyze(TEXT, text_pair="A ferry came.", layers=[1, 3],
                             outputs=["attentions", "similarities", "summary", "profiles", "pairs", "hidden_states", "keys"])


def test_a_page_holds_the_maps(answer, tmp_path):
    answer.save(tmp_path / "answer.html")
    page = (tmp_path / "answer.html").read_text()
    assert html.escape(f"{TEXT} | A ferry came.") in page and page.count("</script>") == 3
    assert not re.search(r"(?:src|href)=|https?://", page)  # nothing is fetched
    for name in ("attentions", "similarities"):
        state = json.loads(re.search(rf'id="{name}">(.*?)</script>', page)[1])
        maps = np.frombuffer(base64.b64decode(state["maps"]), np.uint8).reshape(answer[name].shape)
        values = np.reshape(state["scales"], (2, 12))[:, :, None, None] * (maps / 255) ** 2
        assert np.abs(values - np.clip(answer[name], 0, None)).max() < 0.005 * max(state["scales"])
        assert state["layers"] == [1, 3]


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_page_shows_its_maps_without_a_server(answer, tmp_path):
    answer.save(tmp_path / "answer.html")
    shown = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                            (tmp_path / "answer.html").as_uri()], capture_output=True, text=True, check=True).stdout
    for name in ("attentions", "similarities"):
        assert f"{name} of mini, layer 3, head 0" in shown
    assert shown.count('title="layer 1, head ') == 2 * 12


def test_pages_without_maps_are_refused(server, tmp_path):
    with package.Client(server.url) as client:
        with pytest.raises(ValueError, match="has no maps"):
            client.analyze("a", outputs=["summary"]).save(tmp_path / "a.html")
        with pytest.raises(ValueError, match="summed up"):
            client.analyze("a", reduce="sum").save(tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


def test_xarray_names_every_axis(answer, server):
    pytest.importorskip("xarray")
    data = answer.to_xarray()
    np.testing.assert_array_equal(data.attentions.sel(layer=3, head=7), answer.attention(3, 7))
    assert data.attentions.dims == ("layer", "head", "query", "key") and data.hidden_states.dims == ("state", "token", "feature")
    assert data.summary_high_pairs.dims == ("layer", "head") and data.profiles_offsets.sel(offset=-1).shape == (2, 12)
    assert list(data.key_token.values) == answer.tokens and data.attrs["model"] == "mini"
    with package.Client(server.url) as client:
        assert client.analyze("a b", reduce="sum").to_xarray().attentions.dims == ("layer", "query", "key")


def test_an_xarray_is_saved_as_netcdf(answer, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    data = answer.to_xarray()
    data.to_netcdf(tmp_path / "a.nc")
    again = xarray.open_dataset(tmp_path / "a.nc")
    np.testing.assert_array_equal(again.attentions, data.attentions)
    assert again.attrs["truncated"] == 0 and again.attrs["model"] == "mini"


def test_axes_are_those_of_the_contract():
    from headscope.labelled import _AXES

    contract = documented("Answer")
    assert set(_AXES) <= set(contract)


def test_bertviz_knows_where_the_second_text_begins(answer):
    pytest.importorskip("torch")
    second = answer.to_bertviz()["sentence_b_start"]
    assert answer.tokens[second - 1:second + 1] == ["[SEP]", "a"]


def test_a_browser_has_an_address_of_its_own(server):
    with package.Client(server.url, public_url="https://hub.example/proxy/8080/") as client:
        answer = client.analyze("a b", layers=[1])
        assert answer.view().url.startswith("https://hub.example/proxy/8080/?embed#")
        assert "https://hub.example/proxy/8080/?embed" in answer._repr_html_()


def test_asyncio_gets_the_same_answers(answer, server):
    texts = [f"text {n}" for n in range(6)]

    async def ask():
        async with package.AsyncClient(server.url, parallel=3) as client:
            together = await asyncio.gather(*(client.analyze(text) for text in texts))
            many = [one async for one in client.analyze_many(texts)]
            lines = [one async for one in client.analyze_batch(texts, outputs=["summary"])]
            async for _ in client.analyze_many(["again"] * 50):
                break  # the rest is not computed
            with pytest.raises(package.HeadscopeError, match="threshold"):
                await client.analyze("a", threshold=7)
            assert (await client.tokenize("a b")).tokens == ["[CLS]", "a", "b", "[SEP]"]
            assert (await client.models())[0]["name"] == "mini"
            assert (await client.figure("a b")).data.startswith(b"<svg")
            return together, many, lines

    together, many, lines = asyncio.run(ask())
    assert len(together) == len(many) == len(lines) == len(texts)
    for one, other, line, text in zip(together, many, lines, texts):
        assert one.request["text"] == other.request["text"] == text
        np.testing.assert_array_equal(one.attentions, other.attentions)
        assert line["input_ids"] == one.input_ids.tolist()


@pytest.mark.slow
def test_forms_for_packages_of_pypi(tmp_path):
    """The tests that need pandas, anywidget or xarray, none of them skipped. Those for PyTorch are left out: PyPI's has gigabytes."""
    python = python_with(tmp_path, "pytest", "matplotlib", "jsonschema", "pandas", "anywidget", "xarray")
    tests = ["test_client_python.py::test_pandas", "test_client_python.py::test_pandas_of_experiments",
             "test_client_python.py::test_a_table_in_place_of_texts_is_refused",
             "test_client_python.py::test_widget", "test_client_forms.py::test_xarray_names_every_axis",
             "test_comparison.py::test_a_comparison_as_tables_of_pandas", "test_figures.py::test_pandas_reads_the_numbers"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "inside", *tests],
                          cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, check=False)
    assert re.search(rf"(?m)^{len(tests)} passed(?:, \d+ warnings?)? in ", done.stdout), done.stdout + done.stderr


@pytest.mark.slow
def test_the_distribution_is_ready_to_publish(tmp_path):
    """A source distribution and the wheel made from it, checked as PyPI does, and installed."""
    python = python_with(tmp_path, "build", "twine")
    shutil.copytree(CLIENT, tmp_path / "tree" / "clients" / "python", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    (tmp_path / "tree" / "server" / "base").mkdir(parents=True)
    shutil.copy(Path(CLIENT).parents[1] / "server" / "base" / "version.h", tmp_path / "tree" / "server" / "base")
    subprocess.run([python, "-m", "build", "--outdir", tmp_path / "dist", tmp_path / "tree" / "clients" / "python"], check=True)
    made = sorted((tmp_path / "dist").iterdir())
    subprocess.run([python, "-m", "twine", "check", "--strict", *made], check=True)
    [source] = [file for file in made if file.name.endswith(".tar.gz")]
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "headscope/page.html", "headscope/widget.js", "headscope/py.typed", "pyproject.toml"} <= names
    subprocess.run([python, "-m", "pip", "install", "-q", source], check=True)
    said = subprocess.run([python, "-c", "import headscope; print(headscope.__version__, headscope.Analysis.__name__)"],
                          cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == f"{package.__version__} Analysis\n"
