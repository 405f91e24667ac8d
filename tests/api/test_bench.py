"""headscope bench, and the benchmark of passes that `make bench` runs: their figures are complete and consistent."""
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("reference", "bench")]
import checkpoint  # noqa: E402
import families  # noqa: E402

STEPS = ("products", "plain", "capture", "analysis")


PASSES = os.environ.get("BENCH_PASSES", str(Path(HEADSCOPE).parent / "bench" / "passes"))


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.slow
def test_command_prints_the_rate_of_each_length(tmp_path):
    """The model takes 140 tokens."""
    checkpoint.write_random(tmp_path / "model", n_layers=2, n_heads=4, hidden=48, ffn=100, positions=140)
    done = run(HEADSCOPE, "bench", "--model", tmp_path / "model", "--cores", 2)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 layers, 4 heads, hidden 48; ")
    rows = [[float(cell) for cell in line.split()] for line in lines[3:]]
    assert [row[:2] for row in rows] == [[128, 1], [128, 2], [140, 1], [140, 2]]
    assert all(ms > 0 and rate > 0 for _, _, ms, rate in rows)


def test_command_names_a_model_that_is_not_there(tmp_path):
    done = run(HEADSCOPE, "bench", "--model", tmp_path / "none")
    assert done.returncode == 1 and "none" in done.stderr


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    checkpoint.write_random(folder / "model", n_layers=2, n_heads=4, hidden=48, ffn=100, positions=140)
    done = run(PASSES, "--model", folder / "model", "--quick", "--cores", 2, "--json", folder / "figures.json")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "figures.json").read_text()), done.stdout


def test_says_what_was_measured(figures):
    figures, table = figures
    assert figures["machine"]["cores"] == 2 and figures["machine"]["date"] and figures["machine"]["cpu"]
    model = figures["model"]
    assert (model["layers"], model["heads"], model["hidden"], model["ffn"]) == (2, 4, 48, 100)
    assert 0 < model["resident_bytes"] <= figures["resident_bytes_max"]
    assert figures["machine"]["cpu"] in table


def test_lengths_beyond_the_model_are_left_out(figures):
    assert [(row["tokens"], row["cores"]) for row in figures[0]["passes"]] == [(32, 1), (32, 2), (128, 1), (128, 2)]


def test_floor_is_operations_over_peak(figures):
    layers, hidden, ffn = 2, 48, 100
    for row in figures[0]["passes"]:
        tokens = row["tokens"]
        flops = layers * (6 * tokens * hidden**2 + 4 * tokens**2 * hidden + tokens * (tokens - 1) * hidden)
        flops += (layers - 1) * (2 * tokens * hidden**2 + 4 * tokens * hidden * ffn)
        assert math.isclose(row["floor_ms"], flops / row["peak_gflops"] / 1e6, rel_tol=1e-3)
        assert all(row[step]["ms"] > 0 and row[step]["over_floor"] > 0 for step in STEPS)


def test_answers_of_every_format(figures):
    rows = {row["format"]: row for row in figures[0]["encoding"]}
    arrays = 2 * 2 * 4 * 128 * 128 * 4
    assert arrays < rows["npz"]["bytes"] < 1.1 * arrays and arrays < rows["safetensors"]["bytes"] < 1.1 * arrays
    assert rows["json"]["bytes"] > rows["json, last layer"]["bytes"] >= rows["the same, gzip"]["bytes"]


def test_experiments_in_passes(figures):
    """The random model has no head for masked tokens."""
    experiments = figures[0]["experiments"]
    assert set(experiments) == {"norms", "residual", "centred", "effects", "alti", "effective"}
    assert experiments["effects"] > 1 and str(round(experiments["effects"], 1)) in figures[1]


@pytest.mark.slow
def test_experiments_with_predictions(tmp_path):
    done = run(PASSES, "--quick", "--cores", 1, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    experiments = json.loads((tmp_path / "figures.json").read_text())["experiments"]
    assert 0 < experiments["predictions"] and 0 < experiments["lens"]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_every_family_is_measured(tmp_path, monkeypatch, family):
    monkeypatch.setitem(families.SHAPES["mini"], "n_layers", 2)
    row = families.measure(PASSES, families.write(family, tmp_path / family, "mini"))
    assert row["floor_ms"] > 0 and all(row[step] > 0 for step in families.STEPS)


def test_wrong_options_of_passes():
    assert run(PASSES, "--cores", "0").returncode == 2 and run(PASSES, "extra").returncode == 2


def test_figures_are_written_whole_or_not_at_all(tmp_path):
    done = run(PASSES, "--quick", "--json", tmp_path / "nowhere" / "figures.json")
    assert done.returncode == 1 and "nowhere" in done.stderr and not done.stdout
    (tmp_path / "figures.json").write_text("old")
    done = run(PASSES, "--model", tmp_path / "none", "--quick", "--json", tmp_path / "figures.json")
    assert done.returncode == 1 and [p.read_text() for p in tmp_path.iterdir()] == ["old"]
