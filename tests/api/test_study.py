"""`headscope study`: every model plain and centred, beside its controls, and what the page says of all runs together."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
from conftest import PATIENCE
from corpus_runs import arrays, command, corpus, ndjson, report, texts
from test_comparison import Page

NAMES = ["one-plain", "one-centred", "two-plain", "two-centred"]
RUNS = ["one, plain", "one, centred", "two, plain", "two, centred"]


def study(headscope, *arguments, **environment):
    return subprocess.run(command(headscope, "study", *arguments), capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env={**os.environ, **environment})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Texts, and two models of one shape."""
    root = tmp_path_factory.mktemp("inputs")
    for seed, name in enumerate(["one", "two"]):
        checkpoint.write_random(root / name, seed=seed)
    ndjson(root / "in.jsonl", texts(40, seed=5))
    return root


def arguments_of(inputs, folder):
    return [inputs / "in.jsonl", "-o", folder, "--max-tokens", "24", "--model", f"one={inputs / 'one'}", "--model", f"two={inputs / 'two'}"]


@pytest.fixture(scope="module")
def studied(headscope, inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "out"
    done = study(headscope, *arguments_of(inputs, folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*(str(folder / name / "report.html") for name in NAMES), str(folder / "comparison.html")]
    assert [line for line in done.stderr.splitlines() if line.startswith("run ")] == [
        f"run {k + 1} of 4: {name}" for k, name in enumerate(RUNS)]
    return folder


@pytest.fixture(scope="module")
def compared(studied):
    return json.loads((studied / "comparison.json").read_text())


def test_runs_are_those_of_corpus(headscope, inputs, studied, tmp_path):
    for name, center in [("two-plain", "none"), ("two-centred", "text")]:
        done = corpus(headscope, inputs / "in.jsonl", "-o", tmp_path / name, "--max-tokens", "24", "--model", f"two={inputs / 'two'}",
                      "--center", center, "--control", "untrained", small=False)
        assert done.returncode == 0, done.stderr
        found, expected = arrays(studied / name), arrays(tmp_path / name)
        assert list(found) == list(expected)
        for array in found:
            assert found[array].tobytes() == expected[array].tobytes(), array


def test_evidence_is_that_of_the_reports(studied, compared):
    assert [run["name"] for run in compared["runs"]] == RUNS
    assert compared["warnings"] == ['center differs: "none" in run 0, "text" in run 1.']
    for r, name in enumerate(NAMES):
        own = report(studied / name)
        assert [finding["evidence"][r] for finding in compared["findings"]] == [finding["evidence"] for finding in own["findings"]]
        assert [finding["verdict"][r] for finding in compared["findings"]] == [finding["verdict"] for finding in own["findings"]]
        assert all(finding["evidence"]["untrained"] for finding in own["findings"] if finding["evidence"] and finding["applies"])


def spearman(a, b):
    """Equal values have the mean of their ranks."""
    ranks = [np.array([((x < y).sum() + (x <= y).sum() - 1) / 2 for y in x]) for x in (a, b)]
    x, y = (rank - rank.mean() for rank in ranks)
    both = np.sqrt((x**2).sum() * (y**2).sum())
    return (x * y).sum() / both if both else np.nan


def test_rank_correlations(compared):
    assert set(compared["rank_correlations"]) == set(compared["head_figures"])
    values = []
    for name, rows in compared["rank_correlations"].items():
        heads = [np.array(run, float).ravel() for run in compared["head_figures"][name]]
        for a in range(4):
            for b in range(4):
                known = np.isfinite(heads[a]) & np.isfinite(heads[b])
                expected = spearman(heads[a][known], heads[b][known]) if known.sum() > 1 else np.nan
                np.testing.assert_allclose(np.array(rows[a][b], float), expected, atol=1e-9, err_msg=f"{name} of {a} and {b}")
                values.append(expected)
    assert np.nanmin(values) < 0.5 and np.isclose(np.nanmax(values), 1)


def test_the_page_shows_claims_beside_their_controls(studied, compared):
    page = (studied / "comparison.html").read_text(encoding="utf-8")
    assert ["Run", "Observed", "Chance", "Longest outputs", "Untrained", "Verdict"] in Page(page).rows
    evidence = page.split('id="evidence"')[1].split("</section>")[0]
    assert evidence.count('scope="rowgroup"') == len(compared["findings"]) and evidence.count("<tr>") == 1 + 5 * len(compared["findings"])
    for finding in compared["findings"]:
        for figures in finding["evidence"]:
            value = figures["untrained"]["value"] if figures and figures["untrained"] else None
            if value is not None:
                assert f"{value * (100 if figures['unit'] == '%' else 1):.3g}" in evidence
    terms = page.split('id="noise-terms"')[1].split("</section>")[0]
    assert terms.count('scope="rowgroup"') == 4 and all(run[0]["untrained"]["highest_db"] is not None for run in compared["signal_noise_terms"])
    agreement = page.split('id="agreement"')[1].split("</section>")[0]
    assert f"<td>{compared['rank_correlations']['mean_distance'][1][0]:.2f}</td>" in agreement
    methods = page.split('id="methods"')[1].split("</section>")[0]
    assert "2512.21956" in methods and "untrained:0" in methods and compared["runs"][0]["provenance"]["model"]["sha256"] in methods


def test_the_same_command_goes_on(headscope, inputs, studied, compared, tmp_path):
    folder = tmp_path / "out"
    first = study(headscope, inputs / "in.jsonl", "-o", folder, "--max-tokens", "24", "--model", f"one={inputs / 'one'}")
    assert first.returncode == 0, first.stderr
    seconds = report(folder / "one-plain")["provenance"]["seconds"]
    again = study(headscope, *arguments_of(inputs, folder), SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_TASK_COUNT="2")
    assert again.returncode == 0, again.stderr
    assert report(folder / "one-plain")["provenance"]["seconds"] == seconds
    resumed = json.loads((folder / "comparison.json").read_text())
    for name in ("findings", "rank_correlations", "layer_figures"):
        assert resumed[name] == compared[name]


@pytest.mark.parametrize("arguments, says", [
    (["--center", "text"], "no option '--center'"), (["--control", "none"], "no option '--control'"), (["--pairs", "x.csv"], "no option '--pairs'"),
    (["--shard", "0/2"], "no option '--shard'"), (["--model", "mini", "--model", "mini"], "two models are called 'mini'")])
def test_refusals(headscope, inputs, tmp_path, arguments, says):
    done = study(headscope, inputs / "in.jsonl", "-o", tmp_path / "out", *arguments)
    assert done.returncode == 2 and says in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_study_that_cannot_begin_leaves_no_folder(headscope, tmp_path):
    (tmp_path / "empty").touch()
    done = study(headscope, tmp_path / "empty", "-o", tmp_path / "out")
    assert done.returncode == 1 and "is empty: there is no text in it" in done.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert study(headscope, tmp_path / "empty", "-o", tmp_path / "out").returncode == 1
    assert (tmp_path / "out").is_dir()
