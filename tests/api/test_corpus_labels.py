"""Corpora of labelled texts: predictions, figures and effects by label, against single answers of /analyze."""
import csv
import json
import random
import signal
import subprocess
import sys
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models, unsanitized, until
from corpus_runs import arrays, assert_same, command, corpus, report
from test_corpora import send, wait
from test_methods import documented

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import encoder  # noqa: E402
import family_bert  # noqa: E402
import family_gpt2  # noqa: E402
import task_head  # noqa: E402

LABELS = ["gut", "плохо", "中立的"]
WORDS = "the war was at airport police came for city office . , ! many said long new".split()
WINDOW, N_TEXTS = 24, 60
RUN = ["--max-tokens", WINDOW, "--label-field", "label", "--effects-share", "0.4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labels follow from the last token, so all of them are predicted."""
    folder = family_gpt2.write_random(tmp_path_factory.mktemp("model") / "x")
    return task_head.add(folder, "SequenceClassification", 3, id2label=dict(enumerate(LABELS)))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Labels by name, by number and as a number's text."""
    draw = random.Random(4)
    texts = [(" ".join(draw.choices(WORDS, k=draw.randint(2, 20))), draw.randrange(3)) for _ in range(N_TEXTS)]
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": (LABELS[label], label, str(label))[i % 3]}) + "\n"
                            for i, (text, label) in enumerate(texts)))
    return path, texts


def run(headscope, folder, path, output, *more):
    done = corpus(headscope, path, "--model", folder, "-o", output, *RUN, *more, small=False)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def whole(headscope, folder, texts, tmp_path_factory):
    return run(headscope, folder, texts[0], tmp_path_factory.mktemp("whole") / "out", "--workers", "2")


@pytest.fixture(scope="module")
def answers(folder, texts):
    """Answers of /analyze for every text: logits, and the effects on the logit of its label."""
    for server in served_models({"x": folder}):
        def ask(text, label):
            return server.analyze({"text": text, "model": "x", "layers": "all", "outputs": ["classes", "effects"],
                                   "target": {"class": label}, "max_tokens": WINDOW, "digits": 9})
        return [ask(text, label) for text, label in texts[1]]


def test_predictions(whole, texts, answers):
    labels, said = np.array([label for _, label in texts[1]]), report(whole)["labels"]
    logits = np.array([answer["classes"]["logits"] for answer in answers])
    p, predicted = encoder.softmax(logits), logits.argmax(1)
    assert len(set(predicted)) > 1
    confusion = np.zeros((3, 3), int)
    np.add.at(confusion, (labels, predicted), 1)
    assert (arrays(whole)["label_confusion"] == confusion).all() and said["names"] == LABELS
    assert (said["texts"], said["right"]) == (N_TEXTS, np.trace(confusion))
    assert said["accuracy"] == pytest.approx(np.trace(confusion) / N_TEXTS)
    losses = -np.log(p[np.arange(N_TEXTS), labels])
    assert said["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    for c, entry in enumerate(said["classes"]):
        assert entry["label"] == LABELS[c] and entry["loss"] == pytest.approx(losses[labels == c].mean(), rel=1e-5)
        for name, n in (("recall", confusion[c].sum()), ("precision", confusion[:, c].sum())):
            assert entry[name] == (pytest.approx(confusion[c, c] / n) if n else None)
    bins, right = np.minimum((p.max(1) * 10).astype(int), 9), predicted == labels
    error = sum(abs(p.max(1)[bins == b].mean() - right[bins == b].mean()) * (bins == b).sum() for b in set(bins)) / N_TEXTS
    assert [entry["texts"] for entry in said["calibration"]] == np.bincount(bins, minlength=10).tolist()
    assert [(entry["from"], entry["to"]) for entry in said["calibration"]] == [(b / 10, (b + 1) / 10) for b in range(10)]
    assert said["calibration_error"] == pytest.approx(error, rel=1e-5)


def test_effects(whole, texts, answers):
    """Means and spreads over some of the texts; which ones follows from the number of a text alone."""
    labels, got = np.array([label for _, label in texts[1]]), arrays(whole)
    every = np.array([[[head["target_change"] for head in layer] for layer in answer["effects"]] for answer in answers])
    n = got["label_effect_texts"]
    assert 12 <= n.sum() <= 36
    for c in range(3):
        squares, mean = got["label_effect_squares"][c], got["label_effect_sum"][c] / n[c]
        of_label = every[labels == c]
        assert (mean > of_label.min(0) - 1e-5).all() and (mean < of_label.max(0) + 1e-5).all()
        heads = report(whole)["labels"]["classes"][c]["heads"]
        assert heads and heads == sorted(heads, key=lambda head: head["change"])
        for head in heads:
            at = head["layer"], head["head"]
            assert head["change"] == pytest.approx(mean[at])
            assert head["spread"] == pytest.approx(np.sqrt((squares[at] - n[c] * mean[at] ** 2) / (n[c] - 1)), rel=1e-4)


def test_one_text_has_no_deviation(headscope, folder, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": LABELS[label]}) + "\n"
                            for text, label in (("a war", 0), ("the city", 0), ("police came", 1))))
    output = run(headscope, folder, path, tmp_path / "out", "--effects-share", "1")
    two, one, none = report(output)["labels"]["classes"]
    assert two["heads"] and all(head["spread"] > 0 for head in two["heads"])
    assert one["heads"] and {head["spread"] for head in one["heads"]} == {None}
    assert none["effect_texts"] == 0
    # text 1 is the odd one of the first label; text 2 is even, so its label has no odd text
    assert two["held_out"]["effect_texts"] == 1 and one["held_out"]["effect_texts"] == 0
    assert two["held_out"]["heads"]
    assert all(head["change"] is not None and head["low"] is None for head in two["held_out"]["heads"])
    assert one["held_out"]["heads"] and {head["change"] for head in one["held_out"]["heads"]} == {None}
    page = (output / "report.html").read_text().split("Heads that matter for a label")[1].split("</table>")[0]
    rows = {label: next(row for row in page.split("<tr>") if label in row) for label in LABELS[:2]}
    assert "data-head" in rows[LABELS[0]] and "muted" not in rows[LABELS[0]] and "data-head" not in rows[LABELS[1]]


def test_copies_of_a_few_texts_have_no_interval(headscope, folder, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": 0}) + "\n" for text in ("a war", "the city") for _ in range(20)))
    held = report(run(headscope, folder, path, tmp_path / "out", "--effects-share", "1"))["labels"]["classes"][0]["held_out"]
    assert held["effect_texts"] == 20 and held["heads"]
    assert {(head["low"], head["high"]) for head in held["heads"]} == {(None, None)}
    assert "nor have those of a run with fewer than 8 different texts" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def effects(headscope, folder, texts, tmp_path_factory):
    """A run with the effects of all texts."""
    return run(headscope, folder, texts[0], tmp_path_factory.mktemp("effects") / "out", "--effects-share", "1")


def test_heads_are_chosen_in_even_texts_and_measured_in_odd_ones(effects, texts, answers):
    stats = pytest.importorskip("scipy.stats")
    got, said = arrays(effects), report(effects)["labels"]["classes"]
    labels, odd = np.array([label for _, label in texts[1]]), np.arange(N_TEXTS) % 2 == 1
    every = np.array([[[head["target_change"] for head in layer] for layer in answer["effects"]] for answer in answers])
    n_intervals = 0
    for c in range(3):
        even_mean, of_odd = every[(labels == c) & ~odd].mean(0), every[(labels == c) & odd]
        n, mean = len(of_odd), of_odd.mean(0)
        held = said[c]["held_out"]
        assert held["effect_texts"] == got["label_effect_odd_texts"][c] == n
        assert got["label_effect_odd_sum"][c] == pytest.approx(of_odd.sum(0), rel=1e-4, abs=1e-4 * np.abs(of_odd).max())
        assert got["label_effect_odd_squares"][c] == pytest.approx((of_odd**2).sum(0), rel=1e-3, abs=1e-4 * np.abs(of_odd).max())
        order = np.argsort(even_mean, axis=None)[:10]
        assert [head["chosen_change"] for head in held["heads"]] == pytest.approx(
            [x for x in even_mean.ravel()[order] if x < 0], rel=1e-3, abs=1e-6)
        for head in held["heads"]:
            at = head["layer"], head["head"]
            assert head["change"] == pytest.approx(mean[at], rel=1e-3, abs=1e-6)
            if n < 8:
                assert head["low"] is None and head["high"] is None
                continue
            reach = stats.t.ppf(0.975, n - 1) * of_odd[(slice(None), *at)].std(ddof=1) / np.sqrt(n)
            assert (head["low"], head["high"]) == pytest.approx((mean[at] - reach, mean[at] + reach), rel=0, abs=2e-3 * reach + 1e-5)
            n_intervals += 1
    assert n_intervals


def test_shards_have_the_same_held_out_heads(headscope, folder, texts, effects, tmp_path):
    parts = [run(headscope, folder, texts[0], tmp_path / str(n), "--effects-share", "1", "--shard", f"{n}/3") for n in range(3)]
    done = subprocess.run(command(headscope, "merge", *parts[::-1], "-o", tmp_path / "all"), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(effects, tmp_path / "all")
    assert report(tmp_path / "all")["labels"] == report(effects)["labels"]


def test_the_effects_of_all_texts(effects, texts, answers):
    got = arrays(effects)
    for c in range(3):
        of_label = [answer["effects"] for answer, (_, label) in zip(answers, texts[1], strict=True) if label == c]
        assert got["label_effect_texts"][c] == len(of_label)
        for name, figure in (("label_effect_sum", "target_change"), ("label_effect_kl_sum", "class_kl")):
            sums = np.array([[[head[figure] for head in layer] for layer in effects] for effects in of_label]).sum(0)
            assert got[name][c] == pytest.approx(sums, rel=1e-4, abs=1e-4 * np.abs(sums).max())


def test_the_paper_s_figures_add_up(whole):
    got, said = arrays(whole), report(whole)
    main = said["threshold_main"]
    for name in ("high", "repeated", "same_sentence", "texts_with_high", "focal_share_sum"):
        assert got["label_" + name].sum((0, 1)) == pytest.approx(got[name][main], rel=1e-6)
    assert (got["label_distance_sum"].sum((0, 1)) == got["part_distance_sum"][:, main].sum(0)).all()
    groups = said["labels"]["groups"]
    assert [(group["label"], group["right"]) for group in groups[:5]] == [
        (None, True), (None, False), (LABELS[0], None), (LABELS[0], True), (LABELS[0], False)]
    assert sum(group["texts"] for group in groups if group["label"] and group["right"] is None) == N_TEXTS
    share = got["label_repeated"][:, 1].sum((0, 2)) / got["label_high"][:, 1].sum((0, 2))
    assert [layer["repeated_share"] for layer in groups[0]["layers"]] == pytest.approx(share)


def test_shards_workers_and_resumed_runs_give_the_same(headscope, folder, texts, whole, tmp_path):
    for shard in (0, 1):
        run(headscope, folder, texts[0], tmp_path / f"part{shard}", "--shard", f"{shard}/2", "--workers", "1")
    merged = command(headscope, "merge", tmp_path / "part0", tmp_path / "part1", "-o", tmp_path / "merged")
    subprocess.run(merged, check=True, capture_output=True)
    assert_same(whole, tmp_path / "merged")
    assert report(whole)["labels"] == report(tmp_path / "merged")["labels"]
    run(headscope, folder, texts[0], tmp_path / "merged_not", "--workers", "1")
    run(headscope, folder, texts[0], tmp_path / "merged_not", "--resume")
    assert_same(whole, tmp_path / "merged_not")


def test_tables_and_the_server_give_the_same(start_server, headscope, folder, texts, whole, tmp_path):
    with open(tmp_path / "texts.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "class", "body"), *((i, LABELS[c], text) for i, (text, c) in enumerate(texts[1]))])
    done = corpus(headscope, tmp_path / "texts.csv", "--model", folder, "-o", tmp_path / "out", "--max-tokens", WINDOW,
                  "--field", "body", "--label-field", "class", "--effects-share", "0.4", small=False)
    assert done.returncode == 0, done.stderr
    assert {name: array.tolist() for name, array in arrays(tmp_path / "out").items() if name.startswith("label_")} == {
        name: array.tolist() for name, array in arrays(whole).items() if name.startswith("label_")}
    server = start_server("--model", f"x={folder}", "--state", str(tmp_path / "state"))
    query = urllib.parse.urlencode({"label_field": "label", "effects_share": 0.4, "max_tokens": WINDOW})
    sent = send(server, texts[0].read_bytes(), query)
    path = sent.headers["Location"]
    assert wait(server, path)["state"] == "done"
    got = server.get(f"{path}/report").json()
    assert got["labels"] == report(whole)["labels"]


def test_the_page_shows_the_tables(whole):
    page = (whole / "report.html").read_text()
    for part in ("Labelled texts", "Confusion matrix", "Calibration", "Heads that matter for a label", LABELS[1]):
        assert part in page


def test_the_arrays_are_documented(whole):
    described = {name for name in documented("Report") if name.startswith("label_")}
    with np.load(whole / "report.npz") as file:
        got = {name: file[name] for name in file if name.startswith("label_")}
    assert set(got) == described and got["label_names"].tolist() == LABELS
    said = report(whole)["arrays"]
    assert all(len(said[name]["axes"]) == array.ndim for name, array in got.items())


def test_bad_labels_are_listed(headscope, folder, tmp_path):
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": "the war", **label}) + "\n" for label in (
        {"label": 2}, {}, {"label": "neither"}, {"label": 3}, {"label": 0.5}, {"label": "-1"}, {"label": LABELS[0] + "\0"})) + '"the war"\n')
    done = corpus(headscope, tmp_path / "t.jsonl", "--model", folder, "-o", tmp_path / "out", *RUN, small=False)
    assert done.returncode == 0
    lines = report(tmp_path / "out")["bad_lines"]["lines"]
    assert [line["line"] for line in lines] == [2, 3, 4, 5, 6, 7, 8] and report(tmp_path / "out")["labels"]["texts"] == 1
    assert lines[0]["why"] == "no label: label must be a string or an integer"
    assert lines[1]["why"] == "the label \"neither\" is none of the model's 3 labels"


@pytest.mark.parametrize("data, options, said", [
    ("text,other\nthe war,gut\n", ["--label-field", "label"], "has no column 'label' for the label_field"),
    ("the war\n", ["--label-field", "label", "--input-format", "text"], "is read as text, which has no labels"),
    ("the war\n", ["--effects-share", "0.5"], "it must be 0 without a label_field"),
    ("the war\n", ["--label-field", "label", "--effects-share", "2"], "it must be a number in [0, 1]"),
])
def test_wrong_options(headscope, folder, tmp_path, data, options, said):
    (tmp_path / "t.csv").write_text(data)
    done = corpus(headscope, tmp_path / "t.csv", "--model", folder, "-o", tmp_path / "out", *options, small=False)
    assert done.returncode in (1, 2) and said in done.stderr, done.stderr


@pytest.mark.parametrize("task, n, more", [
    ("TokenClassification", 3, {}), ("SequenceClassification", 1, {}), ("SequenceClassification", 129, {}),
    ("SequenceClassification", 3, {"problem_type": "multi_label_classification"}),
])
def test_models_that_give_no_single_label(headscope, tmp_path, task, n, more):
    folder = task_head.add(family_bert.write_random(tmp_path / "m"), task, n, **more)
    (tmp_path / "t.jsonl").write_text('{"text": "the war", "label": 0}\n')
    done = corpus(headscope, tmp_path / "t.jsonl", "--model", folder, "-o", tmp_path / "out", "--label-field", "label",
                  small=False)
    assert done.returncode in (1, 2) and "one of 2 to 128 labels" in done.stderr


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A model and texts of which a block's effects take minutes."""
    folder = tmp_path_factory.mktemp("endless")
    task_head.add(family_bert.write_random(folder / "m", n_layers=12, n_heads=24, hidden=192, positions=512),
                  "SequenceClassification", 2)
    lines = "".join(json.dumps({"text": "war " * 600, "label": 0}) + "\n" for _ in range(16))
    (folder / "t.jsonl").write_text(lines)
    return folder


@pytest.mark.slow
@unsanitized
def test_cancel_does_not_wait_for_effects(start_server, endless, tmp_path):
    server = start_server("--model", f"x={endless / 'm'}", "--state", str(tmp_path / "state"), "--workers", "1")
    options = "model=x&max_tokens=512&label_field=label&effects_share=1"
    path = send(server, (endless / "t.jsonl").read_bytes(), options).headers["Location"]
    wait(server, path, ("running",))
    until(lambda: server.get(path).json()["precision"])
    assert server.request("POST", f"{path}/cancel", b"").status == 202
    said = wait(server, path)
    assert said["state"] == "cancelled" and said["texts_done"] == 0
    assert server.get(f"{path}/report").status == 404


@pytest.mark.slow
@unsanitized
def test_an_interrupt_does_not_wait_for_effects(headscope, endless, tmp_path):
    run = subprocess.Popen(command(headscope, "corpus", endless / "t.jsonl", "--model", endless / "m", "-o", tmp_path / "out",
                                   "--max-tokens", 512, "--label-field", "label", "--effects-share", 1, "--workers", 1),
                           stderr=subprocess.PIPE, text=True)
    assert "texts" in run.stderr.readline()  # of the progress
    run.send_signal(signal.SIGINT)
    assert "stopped before the first checkpoint" in run.communicate()[1] and run.returncode == 128 + signal.SIGINT
    assert not (tmp_path / "out" / "state").exists()
