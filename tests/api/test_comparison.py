"""Comparisons of several runs, beside the reports of the single runs."""
import csv
import io
import json
import random
import re
import shutil
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import predictor  # noqa: E402
from conftest import PATIENCE, Server, failing, until
from corpus_runs import command, corpus, ndjson, report, texts
from test_client_python import package as headscope_client
from test_corpora import body_of, send, wait
from test_syntax import sentence

NAMES = ["zero", "one", "two"]
OPTIONS = ["--max-tokens", "24", "--masked-share", "0.2"]
TOTALS = {"texts": "texts", "tokens": "tokens", "masked_accuracy": "masked.accuracy", "masked_loss": "masked.loss",
          "chance_repeated_share": "chance.repeated_share", "chance_mean_distance": "chance.mean_distance"}


def compare(headscope, *arguments):
    done = subprocess.run(command(headscope, "report", *arguments), capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def models_of(names=NAMES, root=None):
    return [f"--model={name}={root / name}" for name in names]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Three checkpoints of one shape with other weights, and one with fewer layers and more heads."""
    root = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(NAMES):
        predictor.add(checkpoint.write_random(root / name, seed=seed))
    checkpoint.write_random(root / "other", seed=9, n_layers=2, n_heads=6, hidden=48)
    return root


@pytest.fixture(scope="module")
def training(headscope, models, tmp_path_factory):
    """The folder of one command that ran three checkpoints."""
    folder = tmp_path_factory.mktemp("training")
    lines = ndjson(folder / "in.jsonl", texts(40, seed=5))
    done = corpus(headscope, lines, "-o", folder / "out", *OPTIONS, *models_of(root=models), small=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == [str(folder / "out" / name / "report.html") for name in NAMES] + [
        str(folder / "out" / "comparison.html")]
    assert [line for line in done.stderr.splitlines() if line.startswith("model")] == [
        f"model {k + 1} of 3: {name}" for k, name in enumerate(NAMES)]
    return folder / "out"


@pytest.fixture(scope="module")
def compared(training):
    return json.loads((training / "comparison.json").read_text())


def member(value, path):
    for name in path.split("."):
        value = value[name]
    return value


def test_every_figure_is_that_of_the_runs_own_report(training, compared):
    reports = [report(training / name) for name in NAMES]
    t = reports[0]["threshold_main"]
    assert compared["layers"] == [0, 1, 2] and compared["heads"] == 4 and compared["warnings"] == []
    assert compared["threshold"] == 0.3
    for r, own in enumerate(reports):
        assert compared["runs"][r] == {"name": NAMES[r], "provenance": own["provenance"]}
        for name, path in TOTALS.items():
            assert compared["run_figures"][name][r] == member(own, path), name
        for name, of_runs in compared["layer_figures"].items():
            if name in own["layer_figures"][t][0]:
                assert of_runs[r] == [layer[name] for layer in own["layer_figures"][t]], name
            else:
                means = np.array(compared["head_figures"][name][r], float).mean(axis=1)
                np.testing.assert_allclose(np.array(of_runs[r], float), means, rtol=1e-10)
        for name, of_runs in compared["head_figures"].items():
            if name.startswith("attention_"):
                expected = own["profiles_" + name.replace("attention_", "").replace("distance", "mean_distance")]
            else:
                expected = [[head[name]["value"] if isinstance(head[name], dict) else head[name] for head in layer]
                            for layer in own["head_figures"][t]]
            assert of_runs[r] == expected, name
        assert [finding["holds"][r] for finding in compared["findings"]] == [f["holds"] for f in own["findings"]]
        assert [finding["measured"][r] for finding in compared["findings"]] == [f["measured"] for f in own["findings"]]
    assert len(compared["layer_figures"]) == 27 and len(compared["head_figures"]) == 23
    assert compared["head_figures"]["mean_distance"][0] != compared["head_figures"]["mean_distance"][1]


def test_rows_hold_the_same_numbers(training, compared):
    rows = list(csv.DictReader(io.StringIO((training / "comparison.csv").read_text())))
    assert [*rows[0]] == ["run", "name", "figure", "layer", "head", "value"]
    count = 0
    for row in rows:
        kind = "head_figures" if row["head"] else "layer_figures" if row["layer"] else "run_figures"
        value = compared[kind][row["figure"]][int(row["run"])]
        assert row["name"] == NAMES[int(row["run"])]
        for index in (row["layer"], row["head"]):
            value = value[int(index)] if index else value
        assert (float(row["value"]) if row["value"] else None) == value
        count += 1
    assert count == 3 * (len(compared["run_figures"]) + 27 * 3 + 23 * 3 * 4)


class Page(HTMLParser):
    """Tags with their attributes, and the cells of tables. Each part of the page ends within the one it began in."""

    PARTS = ("main", "nav", "section", "div", "table")

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.cell, self.parts = [], [], None, []
        self.feed(text)
        assert not self.parts

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in self.PARTS:
            self.parts.append(tag)
        if tag == "tr":
            self.rows.append([])
        self.cell = [] if tag in ("td", "th") else self.cell

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)

    def handle_endtag(self, tag):
        if tag in self.PARTS:
            assert self.parts.pop() == tag
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1].append("".join(self.cell))
            self.cell = None


def test_the_page_has_a_column_for_each_run(training, compared):
    page = Page((training / "comparison.html").read_text())
    figures = [attrs["id"] for tag, attrs in page.tags if tag == "figure"]
    assert figures == [f"figure-{name}" for name in compared["layer_figures"]]
    assert sum(tag == "svg" for tag, _ in page.tags) == 2 * 27 + 23 + 2  # over layers and over runs; maps; whole runs
    assert ["Layer", *NAMES, "Last − first"] in page.rows and ["Claim", *NAMES] in page.rows
    loss = compared["run_figures"]["masked_loss"]
    assert ["Loss of masked tokens", *(f"{value:.3f}" for value in loss), f"{loss[-1] - loss[0]:+.3f}"] in page.rows
    shares = [100 * of_run[1][2] for of_run in compared["head_figures"]["attention_self"]]
    assert ["1·2", *(f"{share:.1f} %" for share in shares), f"{shares[-1] - shares[0]:+.1f} pp"] in page.rows
    assert any(attrs.get("data-head") == "1.2" for _, attrs in page.tags)


def test_figures_of_layers_have_the_intervals_of_their_reports(training, compared):
    page = Page((training / "comparison.html").read_text())
    assert {"mean_distance", "same_sentence_lift_same_distance"} < compared["layer_intervals"].keys()
    for r, name in enumerate(NAMES):
        own = report(training / name)
        for layer, figures in enumerate(own["layer_figures"][own["threshold_main"]]):
            for figure, of_runs in compared["layer_intervals"].items():
                ends = figures["intervals"].get(figure, {"low": None, "high": None})
                assert of_runs[r][layer] == (None if ends["low"] is None else [ends["low"], ends["high"]]), figure
    low, high = compared["layer_intervals"]["mean_distance"][0][1]
    value = compared["layer_figures"]["mean_distance"][0][1]
    assert any(row[1] == f"{value:.3f} ({low:.3g} to {high:.3g})" for row in page.rows if len(row) > 1)


def test_terms_and_pruning_curves_stand_side_by_side(headscope, models, tmp_path):
    lines = ndjson(tmp_path / "in.jsonl", texts(40, seed=5))
    for name, options in [("zero", ["--pruning-share", "0.8", "--masked-share", "0.2"]), ("one", ["--masked-share", "0.2"])]:
        done = corpus(headscope, lines, "-o", tmp_path / name, "--max-tokens", "24", *models_of([name], models), *options, small=False)
        assert done.returncode == 0, done.stderr
    for suffix in ("json", "html"):
        assert compare(headscope, tmp_path / "zero", tmp_path / "one", "-o", tmp_path / f"c.{suffix}")[0] == 0
    both, own = json.loads((tmp_path / "c.json").read_text()), [report(tmp_path / name) for name in ("zero", "one")]
    assert both["signal_noise_terms"] == [run["signal_noise"]["terms"] for run in own]
    assert both["pruning"] == [own[0]["pruning"], None]
    text = (tmp_path / "c.html").read_text()
    page, pruning = Page(text), text.split('<section id="pruning"')[1].split("</section>")[0]
    assert pruning.count("<svg") == 2 and pruning.count("<h3>") == 1 and "written norm" in pruning
    for terms in both["signal_noise_terms"]:
        for term in terms:
            shown = [term["term"], f"{term['layer']}·{term['head']}"]
            shown += ["–" if term[name] is None else f"{term[name]:.1f}" for name in ("highest_db", "low_db", "high_db", "median_db")]
            assert any(row[:6] == shown and row[-1] == str(term["untrained"]["heads_above"]) for row in page.rows), shown


def test_the_page_of_two_runs_has_their_difference(headscope, training, tmp_path):
    assert compare(headscope, training / "zero", training / "one", "-o", tmp_path / "c.html")[0] == 0
    assert compare(headscope, training / "zero", training / "one", "-o", tmp_path / "c.json")[0] == 0
    page, numbers = Page((tmp_path / "c.html").read_text()), json.loads((tmp_path / "c.json").read_text())
    assert ["Layer", "zero", "one", "First − second"] in page.rows
    first, second = [of_run[1][2] for of_run in numbers["head_figures"]["attention_entropy"]]
    assert ["1·2", f"{first:.3f}", f"{second:.3f}", f"{first - second:+.3f}"] in page.rows
    maps = [attrs for tag, attrs in page.tags if tag == "image" and attrs.get("data-name") == "heads"]
    assert len(maps) == 2 * 23
    external = [value for tag, attrs in page.tags for name, value in attrs.items()
                if name in ("src", "href", "xlink:href") and not re.match(r"#|data:", value or "")]
    assert external == []


def test_report_compares_folders_in_their_order(headscope, training, compared, tmp_path):
    folders = [training / name for name in reversed(NAMES)]
    for ending in ("json", "csv", "html"):
        code, said, errors = compare(headscope, *folders, "-o", tmp_path / f"c.{ending}")
        assert (code, said, errors) == (0, f"{tmp_path}/c.{ending}\n", "")
    turned = json.loads((tmp_path / "c.json").read_text())
    assert [run["name"] for run in turned["runs"]] == NAMES[::-1]
    assert turned["head_figures"]["auc"] == compared["head_figures"]["auc"][::-1]
    assert "3 runs compared" in (tmp_path / "c.html").read_text()


def test_runs_of_one_model_have_the_names_of_their_folders(headscope, training, tmp_path):
    shutil.copytree(training / "one", tmp_path / 'seed "1", <b>')
    code, _, _ = compare(headscope, training / "one", tmp_path / 'seed "1", <b>', "-o", tmp_path / "c.json")
    assert code == 0
    names = [run["name"] for run in json.loads((tmp_path / "c.json").read_text())["runs"]]
    assert names == [str(training / "one"), str(tmp_path / 'seed "1", <b>')]
    compare(headscope, training / "one", tmp_path / 'seed "1", <b>', "-o", tmp_path / "c.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text())))
    assert {row["name"] for row in rows} == set(names)
    compare(headscope, training / "one", tmp_path / 'seed "1", <b>', "-o", tmp_path / "c.html")
    page = Page((tmp_path / "c.html").read_text())
    assert ["Claim", *names] in page.rows


def test_models_of_other_shapes_are_compared_by_what_they_share(headscope, training, models, tmp_path):
    inputs = training.parent / "in.jsonl"
    assert corpus(headscope, inputs, "-o", tmp_path / "other", "--max-tokens", "20", f"--model={models / 'other'}",
                  small=False).returncode == 0
    code, _, errors = compare(headscope, training / "zero", tmp_path / "other", "-o", tmp_path / "c.json")
    both = json.loads((tmp_path / "c.json").read_text())
    assert code == 0 and both["layers"] == [0, 1] and both["heads"] is None and "head_figures" not in both
    expected = [
        "max_tokens differs: 24 in run 0, 20 in run 1.", "masked_share differs: 0.2 in run 0, 0.0 in run 1.",
        "mask_seed differs: 0 in run 0, null in run 1.", "The models have different numbers of layers; 2 layers have the same number in all.",
        "The models have different numbers of heads, so single heads are not compared."]
    assert both["warnings"] == expected
    assert errors == "".join(f"headscope report: {text}\n" for text in expected)
    own = report(tmp_path / "other")
    assert both["layer_figures"]["mean_distance"][1] == [
        layer["mean_distance"] for layer in own["layer_figures"][own["threshold_main"]]]
    assert both["run_figures"]["masked_loss"][1] is None
    code, _, _ = compare(headscope, training / "zero", tmp_path / "other", "-o", tmp_path / "c.html")
    text = (tmp_path / "c.html").read_text()
    assert code == 0 and "numbers of heads" in text
    assert both["depths"] == [[0, 0.5, 1], [0, 1]]
    reports = report(training / "zero"), own
    for name, of_runs in both["depth_figures"].items():
        for values, run in zip(of_runs, reports):
            layers = [layer.get(name) for layer in run["layer_figures"][run["threshold_main"]]]
            assert len(values) == len(layers) and (layers[0] is None or values == layers), name
    figure = text.split('<figure id="figure-mean_distance"')[1].split("</figure>")[0]
    zero, other = both["depth_figures"]["mean_distance"]
    shown = [[f"{depth:.2f}", *("–" if value is None else f"{value:.3f}" for value in values)]
             for depth, values in [(0, (zero[0], other[0])), (0.5, (zero[1], None)), (1, (zero[2], other[1]))]]
    assert [row[:3] for row in Page(figure).rows][1:] == shown and ">relative depth<" in figure


def test_models_of_one_depth_are_compared_by_layer(training, headscope, tmp_path):
    compare(headscope, training / "zero", training / "one", "-o", tmp_path / "c.json")
    compare(headscope, training / "zero", training / "one", "-o", tmp_path / "c.html")
    both, page = json.loads((tmp_path / "c.json").read_text()), (tmp_path / "c.html").read_text()
    assert "depths" not in both and "depth_figures" not in both and "elative depth" not in page


def test_other_texts_are_warned_of_and_other_thresholds_refused(headscope, training, models, tmp_path):
    lines = ndjson(tmp_path / "in.jsonl", texts(20, seed=8))
    model = f"--model={models / 'one'}"
    for name, more in (("texts", []), ("thresholds", ["--thresholds", "0.2,0.4"])):
        assert corpus(headscope, lines, "-o", tmp_path / name, *OPTIONS, model, *more, small=False).returncode == 0
    code, _, errors = compare(headscope, training / "zero", tmp_path / "texts", "-o", tmp_path / "c.json")
    assert code == 0 and errors == "headscope report: The runs read different texts, so figures differ for that reason too.\n"
    code, _, errors = compare(headscope, training / "zero", tmp_path / "thresholds", "-o", tmp_path / "d.json")
    assert code == 1 and not (tmp_path / "d.json").exists()
    assert "has no threshold 0.3, at which runs are shown; it has [0.2,0.4]. Run it again with --thresholds" in errors


def test_runs_of_other_layers_have_none_in_common(headscope, tmp_path):
    lines = ndjson(tmp_path / "in.jsonl", texts(3, seed=8))
    for layer in ("0", "2"):
        assert corpus(headscope, lines, "-o", tmp_path / layer, "--layers", layer, "--max-tokens", "24", small=False).returncode == 0
    code, _, errors = compare(headscope, tmp_path / "0", tmp_path / "2", "-o", tmp_path / "c.json")
    assert code == 0 and "The runs have no layer in common, so layers and heads are not compared." in errors
    assert json.loads((tmp_path / "c.json").read_text())["layers"] == []


def test_syntax_is_followed_over_runs(headscope, models, tmp_path):
    choose = random.Random(4)
    (tmp_path / "bank.conllu").write_text("\n".join(sentence(choose, n)[0] for n in range(12)))
    done = corpus(headscope, tmp_path / "bank.conllu", "-o", tmp_path / "out", *models_of(NAMES[:2], models), small=False)
    assert done.returncode == 0, done.stderr
    both = json.loads((tmp_path / "out" / "comparison.json").read_text())
    for r, name in enumerate(NAMES[:2]):
        rows = {row["relation"]: row for row in report(tmp_path / "out" / name)["syntax"]["relations"]}
        assert [row["relation"] for row in both["syntax"]] == list(rows)
        for row in both["syntax"]:
            own = rows[row["relation"]]["held_out"]
            for kind in ("attention_to_head", "attention_to_dependent"):
                due = own[kind]["right"] / own["count"] if own["count"] else None
                assert row[kind][r] == (due if due is None else pytest.approx(due, abs=1e-11))
    assert "Heads and syntax" in (tmp_path / "out" / "comparison.html").read_text()


def test_an_interrupted_command_goes_on_with_resume(headscope, preload, models, training, compared, tmp_path):
    arguments = [training.parent / "in.jsonl", "-o", tmp_path / "out", *OPTIONS, *models_of(root=models)]
    standing = tmp_path / "standing"
    environment = {**failing(preload, "open", 0, "wait", standing), "FAILING_CALL_PATH": "one/model.safetensors"}
    run = subprocess.Popen(command(headscope, "corpus", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    until(lambda: standing.exists() or run.poll() is not None)
    run.send_signal(signal.SIGINT)
    standing.unlink()
    said, errors = (text.decode() for text in run.communicate(timeout=PATIENCE))
    assert run.returncode == 128 + signal.SIGINT and "--resume" in errors
    assert said == f"{tmp_path}/out/zero/report.html\n"
    assert not (tmp_path / "out" / "two").exists() and not (tmp_path / "out" / "comparison.json").exists()
    again = corpus(headscope, *arguments, small=False)
    assert again.returncode == 1 and "--resume" in again.stderr
    done = corpus(headscope, *arguments, "--resume", small=False)
    assert done.returncode == 0, done.stderr
    resumed = json.loads((tmp_path / "out" / "comparison.json").read_text())
    for name in ("run_figures", "layer_figures", "head_figures", "findings"):
        assert resumed[name] == compared[name]


@pytest.mark.parametrize(("arguments", "code", "why"), [
    (["-"], 2, "standard input can be read for one model only"),
    (["{in}", "--pairs", "{tmp}/p.csv"], 2, "--pairs writes one FILE: run each model by itself"),
    (["{in}", "--model", "one={models}/two"], 2, "two models are called 'one'; give each a name, NAME=DIR"),
    (["{in}", "--model", "a/b={models}/two"], 2, "'a/b' cannot be a folder's name"),
    (["{in}", "--model", "..={models}/two"], 2, "'..' cannot be a folder's name"),
    (["{in}", "--model", "none={models}/none"], 1, "there is no folder"),
], ids=["stdin", "pairs", "same-name", "slash", "dots", "missing"])
def test_several_models_refuse_what_one_run_alone_can_do(headscope, models, training, tmp_path, arguments, code, why):
    filled = [text.format(models=models, tmp=tmp_path, **{"in": training.parent / "in.jsonl"}) for text in arguments]
    done = corpus(headscope, "-o", tmp_path / "out", "--max-tokens", "24", *models_of(["zero", "one"], models), *filled,
                  stdin=b"a text\n", small=False)
    assert done.returncode == code and why in done.stderr
    assert not (tmp_path / "out" / "comparison.json").exists()


def test_shards_of_several_models_are_left_to_merge(headscope, models, training, tmp_path):
    two = models_of(["zero", "one"], models)
    for shard in range(2):
        done = corpus(headscope, training.parent / "in.jsonl", "-o", tmp_path / f"part{shard}", *OPTIONS, "--shard", f"{shard}/2",
                      *two, small=False)
        assert done.returncode == 0 and "'merge' joins each model's shards" in done.stderr
        assert not (tmp_path / f"part{shard}" / "comparison.json").exists()
    for name in ("zero", "one"):
        subprocess.run(command(headscope, "merge", tmp_path / "part0" / name, tmp_path / "part1" / name, "-o", tmp_path / name),
                       check=True, capture_output=True, timeout=PATIENCE)
    code, _, errors = compare(headscope, tmp_path / "zero", tmp_path / "one", "-o", tmp_path / "c.json")
    assert (code, errors) == (0, "")
    code, _, errors = compare(headscope, tmp_path / "zero", tmp_path / "part1" / "one", "-o", tmp_path / "c.json")
    assert code == 0 and "Run 1 has not read all of its input." in errors


@pytest.mark.parametrize(("arguments", "code", "why"), [
    (["{a}", "{b}"], 2, "name the file to write with -o FILE.html"),
    (["{a}", "{b}", "-o", "x.npz"], 2, "name a file that ends in .html, .json or .csv"),
    (["{a}", "{b}", "-o", "{a}/report.json"], 1, "is a file of the run itself"),
    (["{a}", "{b}", "-o", "{b}/report.html"], 1, "is a file of the run itself"),
    (["{a}", "{tmp}", "-o", "{tmp}/c.json"], 1, "holds no finished run"),
    (["{a}"] * 101 + ["-o", "{tmp}/c.json"], 1, "at most 100 runs can be compared"),
    ([], 2, "name the folder of a run, or of several"),
], ids=["no-output", "ending", "report-json", "report-html", "no-run", "too-many", "nothing"])
def test_refused_comparisons(headscope, training, tmp_path, arguments, code, why):
    filled = [text.format(a=training / "zero", b=training / "one", tmp=tmp_path) for text in arguments]
    got = compare(headscope, *filled)
    assert got[0] == code and why in got[2]
    assert report(training / "one")["texts"] == 40


@pytest.mark.parametrize("change", [
    b"", b"{", b"[1]", lambda r: r.pop("provenance"), lambda r: r["provenance"].pop("model"), lambda r: r.update(layers=[2, 1]),
    lambda r: r.update(layers=[0] * 300), lambda r: r.update(heads=0), lambda r: r.update(heads="12"), lambda r: r.update(head_figures=7),
    lambda r: r["provenance"].update(options=[])],
    ids=["empty", "cut", "list", "no-provenance", "no-model", "layers", "many-layers", "no-heads", "text", "figures", "options"])
def test_a_damaged_report_is_named(headscope, training, tmp_path, change):
    data = report(training / "one")
    if not isinstance(change, bytes):
        change(data)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "report.json").write_bytes(change if isinstance(change, bytes) else json.dumps(data).encode())
    code, _, errors = compare(headscope, training / "zero", tmp_path / "bad", "-o", tmp_path / "c.json")
    assert code == 1 and f"the report of '{tmp_path}/bad' is damaged" in errors


def test_a_report_of_an_earlier_version_lacks_figures(headscope, training, tmp_path):
    data = report(training / "one")
    for name in [name for name in data if name.startswith("profiles_")] + ["layer_figures", "masked", "findings", "chance"]:
        del data[name]
    data["head_figures"] = data["head_figures"][:1]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "report.json").write_text(json.dumps(data))
    code, _, errors = compare(headscope, training / "zero", tmp_path / "old", "-o", tmp_path / "c.json")
    assert code == 0, errors
    both = json.loads((tmp_path / "c.json").read_text())
    assert both["head_figures"]["auc"][1] == [[None] * 4] * 3 and both["run_figures"]["masked_loss"][1] is None
    assert both["findings"] and {finding["holds"][1] for finding in both["findings"]} == {None}
    assert compare(headscope, tmp_path / "old", training / "zero", "-o", tmp_path / "c.html")[0] == 0


# ---- over HTTP ----

@pytest.fixture(scope="module")
def keeping(models, tmp_path_factory):
    running = Server("--state", str(tmp_path_factory.mktemp("served") / "state"), *models_of([*NAMES, "other"], models))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def runs(keeping):
    """Ids of a run of each model over the same texts."""
    def begin(name):
        masked = "" if name == "other" else "&masked_share=0.2"
        answer = send(keeping, body_of(texts(40, seed=5)), f"model={name}&max_tokens=24&name=run%20{name}{masked}")
        assert answer.status == 202, answer.body
        return answer.json()["id"]

    ids = {name: begin(name) for name in [*NAMES, "other"]}
    for run in ids.values():
        assert wait(keeping, f"/corpora/{run}")["state"] == "done"
    return ids


def test_the_service_compares_runs_as_the_command_does(keeping, runs, compared):
    others = ",".join(runs[name] for name in NAMES[1:])
    answer = keeping.get(f"/corpora/{runs['zero']}/comparison?with={others}")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    for name in ("run_figures", "layer_figures", "head_figures", "findings", "threshold", "layers", "heads", "warnings"):
        assert answer.json()[name] == compared[name], name
    page = keeping.get(f"/corpora/{runs['zero']}/comparison?with={others}&format=html")
    assert page.headers["Content-Type"] == "text/html" and "sandbox" in page.headers["Content-Security-Policy"]
    assert ["Claim", *NAMES] in Page(page.body.decode()).rows
    rows = keeping.get(f"/corpora/{runs['zero']}/comparison?with={others}", {"Accept": "text/csv"})
    assert rows.headers["Content-Type"] == "text/csv" and rows.body.startswith(b"run,name,figure,layer,head,value\n0,zero,")


@pytest.mark.parametrize("query", ["", "?with="])
def test_a_run_alone_is_its_own_comparison(keeping, runs, query):
    path = f"/corpora/{runs['zero']}/comparison{query}"
    alone = keeping.get(path).json()
    assert [run["name"] for run in alone["runs"]] == ["zero"] and alone["heads"] == 4
    assert [figure["name"] for figure in alone["figures"]] == list(alone["layer_figures"])
    assert {"name": "attention_entropy", "title": "Entropy of attention", "unit": "nats"} in alone["figures"]
    page = Page(keeping.get(path, {"Accept": "text/html"}).body.decode())
    assert sum(tag == "svg" for tag, _ in page.tags) == 27 + 23  # lines over layers, a map of layers and heads


@pytest.mark.parametrize(("query", "status", "pointer", "why"), [
    ("?with={one}&threshold=2", 422, "/threshold", "a number above 0 and below 1"),
    ("?with={one}&threshold=x", 422, "/threshold", "a number above 0 and below 1"),
    ("?with={one}&threshold=0.77", 422, "/with", "has no threshold 0.77"),
    ("?with={zero}", 422, "/with", "is named twice"),
    ("?with={one},{one}", 422, "/with", "is named twice"),
    ("?with=0123456789abcdef", 404, "/with", "There is no run '0123456789abcdef'"),
    ("?with={one},../{one}", 404, "/with", "There is no run"),
    ("?with={one}&format=npz", 406, None, "json, html, csv"),
    ("?with={one}&level=2", 422, "/level", "unknown query parameter"),
    ("?with={many}", 422, "/with", "less than 2048 bytes"),
])
def test_what_the_service_does_not_compare(keeping, runs, query, status, pointer, why):
    answer = keeping.get(f"/corpora/{runs['zero']}/comparison{query.format(**runs, many='a' * 2100)}")
    assert answer.status == status and answer.json().get("pointer") == pointer and why in answer.json()["detail"]


def test_unknown_and_unfinished_runs_are_not_compared(keeping, runs):
    answer = keeping.get(f"/corpora/0123456789abcdef/comparison?with={runs['one']}")
    assert answer.status == 404 and "pointer" not in answer.json()
    begun = send(keeping, body_of(texts(20000, seed=1)), "model=zero").json()["id"]
    answer = keeping.get(f"/corpora/{runs['zero']}/comparison?with={begun}")
    assert answer.status == 422 and re.search("is (queued|running); runs must be done", answer.json()["detail"])
    keeping.request("POST", f"/corpora/{begun}/cancel")
    assert wait(keeping, f"/corpora/{begun}")["state"] == "cancelled"
    answer = keeping.get(f"/corpora/{runs['zero']}/comparison?with={begun}")
    assert answer.status == 422 and "is cancelled; runs must be done" in answer.json()["detail"]


def test_models_of_other_shapes_over_http(keeping, runs):
    both = keeping.get(f"/corpora/{runs['zero']}/comparison?with={runs['other']}").json()
    assert both["heads"] is None and both["layers"] == [0, 1] and len(both["warnings"]) >= 2


def test_the_client_compares_runs(keeping, runs, compared):
    client = headscope_client.Client(keeping.url)
    first, *others = (client.run(runs[name]) for name in NAMES)
    mine = first.compare(*others)
    assert mine.names == NAMES and mine.warnings == [] and mine.layers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(mine.head_figures["auc"], np.array(compared["head_figures"]["auc"], float))
    assert mine.layer_figures["unique_focal"].shape == (3, 3) and mine.run_figures["masked_loss"].shape == (3,)
    alone = first.compare()
    np.testing.assert_array_equal(alone.head_figures["auc"][0], mine.head_figures["auc"][0])
    other = first.compare(*others, threshold=0.5)
    report = first.report()
    t = report["thresholds"].index(0.5)
    shares = [[head["repeated_share"]["value"] for head in layer] for layer in report["head_figures"][t]]
    np.testing.assert_array_equal(other.head_figures["repeated_share"][0], np.array(shares, float))
    assert other.fields["threshold"] == 0.5 != mine.fields["threshold"]


def test_a_comparison_as_tables_of_pandas(keeping, runs, compared):
    pytest.importorskip("pandas")
    client = headscope_client.Client(keeping.url)
    first, *others = (client.run(runs[name]) for name in NAMES)
    mine = first.compare(*others)
    table = mine.to_pandas("attention_previous")
    assert list(table.columns) == NAMES and table.loc[(2, 3), "one"] == compared["head_figures"]["attention_previous"][1][2][3]
    assert mine.to_pandas("unique_focal").shape == (3, 3)
