"""Corpus runs with interventions or masks, compared with a run without: shards, resuming, HTTP."""
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
from corpus_runs import arrays, assert_same, command, corpus, ndjson, report, texts
from test_corpora import body_of, send, wait

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402

OFF = [{"layers": [0], "heads": [0, 1, 2, 3], "kind": "zero"}]
OPTIONS = ["--similarity-space", "residual", "--center", "text", "--head-distances", "cka", "--masked-share", "0.2",
           "--mask-seed", "3"]


@pytest.fixture
def off(tmp_path):
    path = tmp_path / "off.json"
    path.write_text(json.dumps(OFF))
    return path


def run_of(headscope, *arguments):
    done = corpus(headscope, *arguments)
    assert done.returncode == 0, done.stderr


def test_shards_and_workers_do_not_matter(headscope, tmp_path, off):
    lines = ndjson(tmp_path / "texts.jsonl", texts(60, seed=5))
    changed = [*OPTIONS, "--interventions", off]
    run_of(headscope, lines, "-o", tmp_path / "whole", *changed, "--workers", 1)
    for shard in (0, 1):
        run_of(headscope, lines, "-o", tmp_path / f"part{shard}", *changed, "--shard", f"{shard}/2", "--workers", 2)
    merged = command(headscope, "merge", tmp_path / "part0", tmp_path / "part1", "-o", tmp_path / "merged")
    subprocess.run(merged, check=True, capture_output=True)
    assert_same(tmp_path / "whole", tmp_path / "merged")
    whole = report(tmp_path / "whole")
    assert whole["masked"] == report(tmp_path / "merged")["masked"] and 0 < whole["masked"]["loss"] < 20
    options = whole["provenance"]["options"]
    assert options["interventions"] == OFF and (options["similarity_space"], options["center"]) == ("residual", "text")
    assert options["head_distances"] == "cka" and (options["masked_share"], options["mask_seed"]) == (0.2, 3)


@pytest.mark.parametrize("other", [["--mask-seed", "4"], ["--head-distances", "js"], ["--similarity-space", "head"],
                                   ["--center", "none"]])
def test_a_run_goes_on_with_its_own_options_only(headscope, tmp_path, off, other):
    lines = ndjson(tmp_path / "texts.jsonl", texts(9))
    run_of(headscope, lines, "-o", tmp_path / "run", *OPTIONS, "--interventions", off)
    run_of(headscope, lines, "-o", tmp_path / "run", *OPTIONS, "--interventions", off, "--resume")
    done = corpus(headscope, lines, "-o", tmp_path / "run", *OPTIONS, "--interventions", off, *other, "--resume")
    assert done.returncode == 1 and "has another" in done.stderr
    done = corpus(headscope, lines, "-o", tmp_path / "run", *OPTIONS, "--resume")
    assert done.returncode == 1 and "interventions" in done.stderr


def test_a_scale_of_1_changes_no_count(headscope, tmp_path):
    lines = ndjson(tmp_path / "texts.jsonl", texts(20))
    (tmp_path / "same.json").write_text('[{"kind": "scale", "factor": 1}]')
    run_of(headscope, lines, "-o", tmp_path / "plain")
    run_of(headscope, lines, "-o", tmp_path / "same", "--interventions", tmp_path / "same.json")
    assert_same(tmp_path / "plain", tmp_path / "same")


def test_centred_runs_do_not_mix(headscope, tmp_path):
    """By merge and comparison, and by who reads the report. One that an earlier version made has no such option."""
    lines = ndjson(tmp_path / "texts.jsonl", texts(20, seed=2))
    run_of(headscope, lines, "-o", tmp_path / "plain", "--shard", "0/2")
    run_of(headscope, lines, "-o", tmp_path / "centred", "--shard", "1/2", "--center", "text")
    merge = command(headscope, "merge", tmp_path / "plain", tmp_path / "centred", "-o", tmp_path / "merged")
    done = subprocess.run(merge, capture_output=True, text=True)
    assert done.returncode == 1 and "another center" in done.stderr
    said = "of centred outputs"
    assert said in (tmp_path / "centred" / "report.html").read_text()
    assert said not in (tmp_path / "plain" / "report.html").read_text()
    old = report(tmp_path / "plain")
    del old["provenance"]["options"]["center"]
    (tmp_path / "plain" / "report.json").write_text(json.dumps(old))
    compare = command(headscope, "report", tmp_path / "plain", tmp_path / "centred", "-o", tmp_path / "both.json")
    subprocess.run(compare, capture_output=True, check=True)
    warnings = json.loads((tmp_path / "both.json").read_text())["warnings"]
    assert 'center differs: "none" in run 0, "text" in run 1.' in warnings


def test_reports_hold_only_requested_figures(headscope, tmp_path):
    run_of(headscope, ndjson(tmp_path / "texts.jsonl", texts(5)), "-o", tmp_path / "run")
    found, reported = arrays(tmp_path / "run"), report(tmp_path / "run")
    for name in ("head_distances", "masked_tokens", "masked_right", "masked_loss_sum"):
        assert name not in found and name not in reported
    assert "masked" not in reported and reported["provenance"]["options"]["interventions"] == []
    layer = reported["layer_figures"][0][0]
    assert layer["attention_first"] == pytest.approx(np.mean(reported["profiles_first"][0]), rel=1e-5)
    listed = {str(i) for ids in reported["focal_ids"] for i in ids if i >= 0}
    assert listed and listed <= set(reported["focus_tokens"])


@pytest.mark.parametrize("text, why", [
    ("", "JSON"), ("{}", "a list"), ('[{"kind": "off"}]', "kind"), ('[{"kind": "zero", "heads": [12]}]', "head"),
    ('[{"kind": "uniform"}, {"kind": "identity"}]', "choose one"), ("[" * 70000, "cannot read"),
    ('[{"kind": "zero", "stack": "cross"}]', "leave stack out"),
])
def test_wrong_interventions_are_refused(headscope, tmp_path, text, why):
    (tmp_path / "wrong.json").write_text(text)
    done = corpus(headscope, ndjson(tmp_path / "texts.jsonl", texts(1)), "-o", tmp_path / "run",
                  "--interventions", tmp_path / "wrong.json")
    assert done.returncode == 1 and "--interventions" in done.stderr and why in done.stderr


@pytest.mark.parametrize("query, name", [
    ("masked_share=1.5", "masked_share"), ("mask_seed=-1", "mask_seed"), ("head_distances=all", "head_distances"),
    ("similarity_space=all", "similarity_space"), ("center=layer", "center"), ("interventions=%5B%7B%7D%5D", "interventions"),
])
def test_wrong_options_over_http(start_server, tmp_path, query, name):
    server = start_server("--state", str(tmp_path / "state"))
    answer = send(server, body_of(["A text."]), query)
    assert answer.status == 422 and answer.json()["pointer"] == "/" + name


def test_over_http_the_counts_are_the_same(start_server, headscope, tmp_path, off):
    lines = texts(40, seed=8)
    server = start_server("--state", str(tmp_path / "state"))
    query = urllib.parse.urlencode({"layers": "0,2", "max_tokens": "24", "interventions": json.dumps(OFF),
                                    "masked_share": "0.2", "mask_seed": "3", "head_distances": "cka",
                                    "similarity_space": "residual", "center": "text", "control": "none"})
    sent = send(server, body_of(lines), query)
    assert sent.status == 202, sent.body
    run = wait(server, sent.headers["Location"])
    assert run["state"] == "done", run
    found = server.get(sent.headers["Location"] + "/report").json()
    run_of(headscope, ndjson(tmp_path / "texts.jsonl", lines), "-o", tmp_path / "run", *OPTIONS, "--interventions", off)
    expected = report(tmp_path / "run")
    for name in ("head_figures", "layer_figures", "masked", "head_distances", "profiles_offsets", "focal_counts"):
        assert found[name] == expected[name], name
    assert found["provenance"]["options"] == expected["provenance"]["options"]


def test_a_model_without_the_head_predicts_nothing(headscope, tmp_path):
    folder = checkpoint.write_random(tmp_path / "plain")
    lines = ndjson(tmp_path / "texts.jsonl", texts(2))
    done = corpus(headscope, lines, "-o", tmp_path / "run", "--model", folder, "--masked-share", "0.1")
    assert done.returncode == 1 and "no head that predicts" in done.stderr


def test_runs_lose_what_a_cut_takes(headscope, tmp_path):
    """A cut beyond the longest text changes no count, and shorter ones cost more."""
    lines = ndjson(tmp_path / "texts.jsonl", texts(60, seed=8))
    losses = {}
    for distance in (None, 511, 6, 1):
        changes = [] if distance is None else [{"kind": "cut", "distance": distance}]
        (tmp_path / "cut.json").write_text(json.dumps(changes))
        run_of(headscope, lines, "-o", tmp_path / str(distance), "--masked-share", "0.3", "--interventions", tmp_path / "cut.json")
        losses[distance] = report(tmp_path / str(distance))["masked"]["loss"]
    assert losses[None] == losses[511] < losses[6] < losses[1]
    everywhere = {"layers": list(range(12)), "heads": list(range(12))}
    assert report(tmp_path / "6")["provenance"]["options"]["interventions"] == [{**everywhere, "kind": "cut", "distance": 6}]
    done = corpus(headscope, lines, "-o", tmp_path / "6", "--masked-share", "0.3", "--interventions", tmp_path / "cut.json", "--resume")
    assert done.returncode == 1 and "interventions" in done.stderr  # the file has the distance 1
    assert_same(tmp_path / "None", tmp_path / "511")
