"""Runs of one family at several steps and seeds: their order, what the seeds show beside NumPy, and the page."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import predictor  # noqa: E402
from conftest import PATIENCE, Server
from corpus_runs import command, corpus, ndjson, report, texts
from resampling import student_975
from test_comparison import Page, compare
from test_corpora import body_of, send, wait

DESCRIBED = json.loads((Path(__file__).resolve().parents[2] / "api/openapi.json").read_text())
SHUFFLED = [(20, 1), (3, 0), (20, 0), (3, 2), (20, 2), (3, 1)]  # "step3" is before "step20" by number only
ORDERED = [f"tiny-seed{seed}-step{step}" for step in (3, 20) for seed in (0, 1, 2)]
JUDGED = ["holds", "does not hold", "not decided", "no effect"]


def validated(comparison):
    schema = {"$ref": "#/components/schemas/CorpusComparison", "components": DESCRIBED["components"]}
    jsonschema.Draft202012Validator(schema).validate(comparison)
    return comparison


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(ORDERED):
        predictor.add(checkpoint.write_random(root / name, seed=seed, n_layers=4))
    return root


@pytest.fixture(scope="module")
def training(headscope, models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("training") / "out"
    names = [f"tiny-seed{seed}-step{step}" for step, seed in SHUFFLED]
    done = corpus(headscope, ndjson(folder.parent / "in.jsonl", texts(40, seed=5)), "-o", folder, "--max-tokens", "24", "--masked-share", "0.2",
                  *(f"--model={models / name}" for name in names), small=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def compared(training):
    return validated(json.loads((training / "comparison.json").read_text()))


def changed(training, folder, name, **changes):
    """The folder of a run as another model of that name would have it."""
    own = report(training / ORDERED[0])
    model = own["provenance"]["model"]
    model["name"] = name
    model.pop("training")
    for path, value in changes.items():
        *above, last = path.split("__")
        to = own
        for member in above:
            to = to[member]
        to[last] = value
    (folder / name).mkdir(parents=True)
    (folder / name / "report.json").write_text(json.dumps(own))
    return folder / name


def compared_runs(headscope, folder, *runs):
    code, _, errors = compare(headscope, *runs, "-o", folder / "c.json")
    assert code == 0, errors
    return validated(json.loads((folder / "c.json").read_text()))


def between(values):
    n, mean = len(values), np.mean(values)
    half = student_975(n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


def assert_spread(found, values):
    assert (found["seeds"], found["kind"]) == (len(values), "interval")
    np.testing.assert_allclose([found["mean"], found["low"], found["high"]], between(values), rtol=1e-6, atol=1e-8)


def test_runs_are_in_the_order_of_steps_and_seeds(training, compared):
    assert [run["name"] for run in compared["runs"]] == ORDERED
    assert compared["runs"][4]["provenance"]["model"]["training"] == {"family": "tiny", "step": 20, "seed": 1}
    (curve,) = compared["training"]
    assert (curve["family"], curve["center"], curve["steps"], curve["seeds"]) == ("tiny", "none", [3, 20], [0, 1, 2])
    assert curve["runs"] == [[0, 1, 2], [3, 4, 5]]
    assert compared["warnings"] == []


def test_the_order_of_the_command_line_does_not_matter(headscope, training, compared, tmp_path):
    again = compared_runs(headscope, tmp_path, *(training / name for name in reversed(ORDERED)))
    assert again == compared


def test_seeds_are_counted_and_their_spread_is_that_of_numpy(training, compared):
    reports = [report(training / name) for name in ORDERED]
    (curve,) = compared["training"]
    assert [claim["claim"] for claim in curve["claims"]] == [finding["claim"] for finding in reports[0]["findings"]]
    n_spreads = 0
    for step, of_seeds in enumerate(curve["runs"]):
        for k, claim in enumerate(curve["claims"]):
            findings = [reports[run]["findings"][k] for run in of_seeds]
            assert claim["judged"][step] == sum(finding["verdict"] in JUDGED for finding in findings)
            assert claim["holds"][step] == sum(finding["verdict"] == "holds" for finding in findings)
            values = [finding["evidence"]["observed"]["value"] for finding in findings if finding["evidence"]]
            if len(values) == 3:
                assert_spread(claim["between_seeds"][step], values)
                n_spreads += 1
        for name in ("accuracy", "loss"):
            assert_spread(curve["figures"][f"masked_{name}"][step], [reports[run]["masked"][name] for run in of_seeds])
    assert n_spreads > 8 and set(curve["figures"]) == {"masked_accuracy", "masked_loss"}


def test_the_page_counts_seeds_and_draws_a_line_for_each(training, compared):
    page = (training / "comparison.html").read_text()
    (curve,) = compared["training"]
    section = page.split('<section id="training"')[1].split("</section>")[0]
    assert ["Seeds in which the claim holds", "3", "20"] in Page(page).rows
    for claim in curve["claims"]:
        cells = [f"{hold} of {judged}" for hold, judged in zip(claim["holds"], claim["judged"]) if judged]
        assert not cells or [claim["claim"], *cells] in Page(page).rows
    assert curve["summary"] in section and section.count("<svg") == 8 + 2
    chart = section.split("<title>mean distance</title>")[1].split("</svg>")[0]
    assert all(f">{label}</text>" in chart for label in ("untrained", "3", "20", "seed 0", "seed 1", "seed 2"))
    assert ">untrained<" not in section.split("<title>Loss of masked tokens</title>")[1]


VERDICTS = {"step1": ["holds", "holds", "holds"], "step2": ["holds", "no effect", "trained for"]}


@pytest.fixture(scope="module")
def judged(headscope, training, tmp_path_factory):
    """A comparison of reports in which the first claim has these verdicts, and the others are not decided."""
    folder = tmp_path_factory.mktemp("judged")
    runs = []
    for step, verdicts in VERDICTS.items():
        for seed, verdict in enumerate(verdicts):
            findings = report(training / ORDERED[0])["findings"]
            for finding in findings:
                finding["verdict"] = "not decided"
            findings[0]["verdict"] = verdict
            findings[0]["evidence"]["observed"]["value"] = 0.25 + seed / 10
            runs.append(changed(training, folder, f"a-seed{seed}-{step}", findings=findings))
    return folder, runs


def test_seeds_that_were_trained_for_a_claim_are_not_counted(headscope, judged):
    folder, runs = judged
    (curve,) = compared_runs(headscope, folder, *runs)["training"]
    assert (curve["claims"][0]["judged"], curve["claims"][0]["holds"]) == ([3, 2], [3, 1])
    assert curve["summary"] == "Of 8 claims, 0 hold in all 3 seeds at step 2, 1 in some of them and 7 in none."
    (curve,) = compared_runs(headscope, folder, *runs[:3])["training"]
    assert curve["summary"] == "Of 8 claims, 1 holds in all 3 seeds at step 1, 0 in some of them and 7 in none."


def test_two_seeds_have_a_range_and_one_has_none(headscope, judged):
    folder, runs = judged
    (curve,) = compared_runs(headscope, folder, *runs[:2], runs[3])["training"]
    assert curve["runs"] == [[0, 1], [2, None]]
    first, second = curve["claims"][0]["between_seeds"]
    assert first == {"seeds": 2, "mean": pytest.approx(0.3), "low": 0.25, "high": 0.35, "kind": "range"} and second is None
    assert curve["summary"] == "Of 8 claims, 1 holds at step 2. One seed does not say how much another training would differ."
    (curve,) = compared_runs(headscope, folder, *runs[:2])["training"]
    assert curve["summary"] == (
        "Of 8 claims, 1 holds in both seeds at step 1, 0 in some of them and 7 in none. Two seeds show a range, no interval.")


@pytest.mark.parametrize("names", [
    ["timestep-100", "timestep-50"], ["seed-oss-36b", "seed-oss-7b"], ["a-step2", "b-step1"], ["a-step-2.5", "a-step-1.5"],
    ["a-step2-step3", "a-step1-step3"], ["a-step2", "a"], ["a-step2", "a-seed1"]], ids=" ".join)
def test_names_that_are_no_points_of_one_training_stay_in_the_order_given(headscope, training, tmp_path, names):
    both = compared_runs(headscope, tmp_path, *(changed(training, tmp_path, name) for name in names))
    assert [run["name"] for run in both["runs"]] == names and "training" not in both


def test_curves_come_first_and_have_one_choice_of_options(headscope, training, tmp_path):
    centred = {"provenance__options__center": "text"}
    runs = [changed(training, tmp_path, "other"), changed(training, tmp_path, "b-step2"), changed(training, tmp_path, "b-step1"),
            changed(training, tmp_path, "a-step10"), changed(training, tmp_path, "a-step9", **centred),
            changed(training, tmp_path, "a-step9-again"), changed(training, tmp_path, "a_step_9"), changed(training, tmp_path, "a-step10k"),
            changed(training, tmp_path, "a_step_10", **centred)]
    both = compared_runs(headscope, tmp_path, *runs)
    assert [run["name"] for run in both["runs"]] == ["a_step_9", "a-step9", "a-step10", "a_step_10", "a-step10k", "b-step1", "b-step2", "other",
                                                     "a-step9-again"]
    assert [(curve["family"], curve["center"], curve["steps"], curve["seeds"], curve["runs"]) for curve in both["training"]] == [
        ("a", "none", [9, 10, 10000], [None], [[0], [2], [4]]), ("a", "text", [9, 10], [None], [[1], [3]]),
        ("b", "none", [1, 2], [None], [[5], [6]])]


def test_a_second_run_of_a_point_is_named(headscope, training, tmp_path):
    runs = [changed(training, tmp_path, name) for name in ("a-step1", "a_step1", "a-step2")]
    both = compared_runs(headscope, tmp_path, *runs)
    assert [run["name"] for run in both["runs"]] == ["a-step1", "a-step2", "a_step1"]
    assert "Runs 0 and 2 have the same step and seed; curves show run 0." in both["warnings"]
    again = compared_runs(headscope, tmp_path, runs[0], runs[1])
    assert "training" not in again and again["warnings"] == []


def test_seeds_without_a_step(headscope, training, tmp_path):
    runs = [changed(training, tmp_path, name) for name in ("multiberts-seed_10", "multiberts-seed_2")]
    (curve,) = compared_runs(headscope, tmp_path, *runs)["training"]
    assert (curve["family"], curve["steps"], curve["seeds"], curve["runs"]) == ("multiberts", [None], [2, 10], [[0, 1]])
    assert " hold in both seeds, " in curve["summary"] or " holds in both seeds, " in curve["summary"]
    assert compare(headscope, *runs, "-o", tmp_path / "c.html")[0] == 0
    assert ["Seeds in which the claim holds", "trained"] in Page((tmp_path / "c.html").read_text()).rows


def test_shards_and_resumed_runs_keep_their_point(headscope, models, training, tmp_path):
    model = f"--model={models / ORDERED[0]}"
    for shard in range(2):
        done = corpus(headscope, training.parent / "in.jsonl", "-o", tmp_path / f"{shard}", "--shard", f"{shard}/2", model)
        assert done.returncode == 0, done.stderr
    subprocess.run(command(headscope, "merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "both"), check=True, timeout=PATIENCE)
    assert report(tmp_path / "both")["provenance"]["model"]["training"] == {"family": "tiny", "step": 3, "seed": 0}
    again = corpus(headscope, training.parent / "in.jsonl", "-o", tmp_path / "0", "--shard", "0/2", "--resume", f"--model=b-step9={models / ORDERED[0]}")
    assert again.returncode == 0, again.stderr
    assert report(tmp_path / "0")["provenance"]["model"]["training"] == {"family": "tiny", "step": 3, "seed": 0}


def test_revisions_of_one_repository_are_studied(headscope, models, training, tmp_path):
    repository = tmp_path / "hub" / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    for commit, revision in [("a" * 40, "step20"), ("b" * 40, "step3")]:
        (repository / "refs" / revision).write_text(commit)
        shutil.copytree(models / f"tiny-seed0-{revision}", repository / "snapshots" / commit)
    done = subprocess.run(
        command(headscope, "study", training.parent / "in.jsonl", "-o", tmp_path / "out", "--max-tokens", "24",
                "--model=org/tiny@step20", "--model=org/tiny@step3"),
        capture_output=True, text=True, check=False, timeout=PATIENCE, env={**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub")})
    assert done.returncode == 0, done.stderr
    both = validated(json.loads((tmp_path / "out" / "comparison.json").read_text()))
    assert [run["name"] for run in both["runs"]] == [f"tiny-step{step}, {word}" for step in (3, 20) for word in ("plain", "centred")]
    assert [(curve["center"], curve["steps"], curve["runs"]) for curve in both["training"]] == [
        ("none", [3, 20], [[0], [2]]), ("text", [3, 20], [[1], [3]])]
    assert "<h3>tiny, centred</h3>" in (tmp_path / "out" / "comparison.html").read_text()


def test_a_trainers_folder_says_its_step(headscope, models, training, tmp_path):
    for name, step in [("last", 30), ("checkpoint-20", 20)]:
        shutil.copytree(models / ORDERED[0], tmp_path / name)
        (tmp_path / name / "trainer_state.json").write_text(json.dumps({"epoch": 2.0, "global_step": step, "log_history": []}))
    done = corpus(headscope, training.parent / "in.jsonl", "-o", tmp_path / "out", f"--model=mine-seed1={tmp_path / 'last'}",
                  f"--model=mine_seed1={tmp_path / 'checkpoint-20'}")
    assert done.returncode == 0, done.stderr
    (curve,) = json.loads((tmp_path / "out" / "comparison.json").read_text())["training"]
    assert (curve["family"], curve["steps"], curve["seeds"], curve["runs"]) == ("mine", [20, 30], [1], [[0], [1]])


def test_the_service_keeps_the_order_of_the_request(models):
    running = Server("--state", str(models / "state"), *(f"--model={models / name}" for name in ORDERED[::3]))
    ids = []
    for name in (ORDERED[3], ORDERED[0]):
        answer = send(running, body_of(texts(20, seed=5)), f"model={name}&max_tokens=24")
        assert answer.status == 202, answer.body
        ids.append(answer.json()["id"])
        assert wait(running, f"/corpora/{ids[-1]}")["state"] == "done"
    both = validated(running.get(f"/corpora/{ids[0]}/comparison?with={ids[1]}").json())
    assert [run["name"] for run in both["runs"]] == [ORDERED[3], ORDERED[0]]
    (curve,) = both["training"]
    assert (curve["steps"], curve["seeds"], curve["runs"]) == ([3, 20], [0], [[1], [0]])
    assert running.stop() == 0
