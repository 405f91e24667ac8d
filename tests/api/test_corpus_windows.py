"""Corpus texts longer than max_tokens, cut into windows: each counts as a text, and all belong to one document."""
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpus_runs import WORDS, arrays, assert_same, command, corpus, ndjson, report
from test_corpora import OPTIONS, body_of, send, wait

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import corpus as reference  # noqa: E402
import family_bert  # noqa: E402

MINI = ROOT / "model" / "mini"
LAYERS, WINDOW = [0, 2], 24


def texts(n):
    rng = random.Random(8)
    return [" ".join(rng.choices(WORDS, k=rng.choice([3, 12, 40, 90]))) for _ in range(n)]


def windows_of(ids, stride, n_before=1, n_after=1):
    """The windows as HuggingFace's tokenizers cut them, each with the tokens around it."""
    before, text, after = ids[:n_before], ids[n_before:len(ids) - n_after], ids[len(ids) - n_after:]
    size = WINDOW - n_before - n_after
    made = []
    for start in range(0, len(text), size - stride):
        made.append(before + text[start:start + size] + after)
        if start + size >= len(text):
            break
    return made


def counts(server, sequences):
    """Counts of the pairs that /analyze finds in these sequences of ids, with types."""
    sums = {name: np.zeros((2, 12), np.int64) for name in ("high", "repeated", "same_sentence")}
    for ids, types in sequences:
        answer = server.analyze({"input_ids": ids, "token_type_ids": types, "layers": LAYERS, "outputs": ["pairs"], "max_pairs": 1000000})
        for pair in answer["pairs"]:
            at = LAYERS.index(pair["layer"]), pair["head"]
            sums["high"][at] += 1
            sums["repeated"][at] += pair["same_token"]
            sums["same_sentence"][at] += pair["same_sentence"]
    return sums


@pytest.mark.parametrize("stride", [0, 7])
def test_windows_count_as_texts(headscope, server, tmp_path, stride):
    lines = texts(12)
    done = corpus(headscope, ndjson(tmp_path / "in", lines), "-o", tmp_path / "out", "--windows", "--stride", stride)
    assert done.returncode == 0, done.stderr
    cut = [windows_of(server.analyze({"text": line, "max_tokens": 512, "outputs": []})["input_ids"], stride) for line in lines]
    expected = counts(server, [(ids, [0] * len(ids)) for windows in cut for ids in windows])
    said, data = report(tmp_path / "out"), arrays(tmp_path / "out")
    assert said["windows"] == {"texts": 12, "windows": sum(map(len, cut)), "cut": sum(len(windows) > 1 for windows in cut)}
    assert said["texts"] == data["texts"] == sum(map(len, cut)) and said["tokens"] == sum(len(ids) for windows in cut for ids in windows)
    for name, value in expected.items():
        assert np.array_equal(data[name][2], value), name
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"<dt>Windows</dt><dd>{said['texts']} of 12 texts" in page


def test_the_second_text_of_a_pair_is_cut(headscope, server, tmp_path):
    record = {"text": "the old bridge", "text_pair": " ".join(texts(40)[-3:])}
    (tmp_path / "in").write_text(json.dumps(record) + "\n")
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--windows", "--stride", "4").returncode == 0
    answer = server.analyze({**record, "max_tokens": 512, "outputs": []})
    n_before = answer["token_type_ids"].index(1)
    cut = windows_of(answer["input_ids"], 4, n_before)
    assert len(cut) > 2
    expected = counts(server, [(ids, [0] * n_before + [1] * (len(ids) - n_before)) for ids in cut])
    data = arrays(tmp_path / "out")
    assert np.array_equal(data["high"][2], expected["high"]) and np.array_equal(data["repeated"][2], expected["repeated"])


def test_windows_of_a_text_are_one_document(headscope, server, tmp_path):
    lines = texts(30)
    assert corpus(headscope, ndjson(tmp_path / "in", lines), "-o", tmp_path / "out", "--windows").returncode == 0
    n_windows = [len(windows_of(server.analyze({"text": line, "max_tokens": 512, "outputs": []})["input_ids"], 0)) for line in lines]
    blocks = arrays(tmp_path / "out")["block_texts"]
    assert blocks[:30].tolist() == n_windows and not blocks[30:].any()


def test_shards_and_resumed_runs_are_the_whole(headscope, tmp_path):
    lines = texts(40)
    ndjson(tmp_path / "in", lines)
    options = ["--windows", "--stride", "3", "--masked-share", "0.2"]
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "whole", *options).returncode == 0
    folders = [tmp_path / f"shard{k}" for k in range(3)]
    for k, folder in enumerate(folders):
        assert corpus(headscope, tmp_path / "in", "-o", folder, "--shard", f"{k}/3", *options).returncode == 0
    subprocess.run(command(headscope, "merge", "-o", tmp_path / "merged", *folders), check=True)
    assert_same(tmp_path / "whole", tmp_path / "merged")
    assert report(tmp_path / "whole")["windows"] == report(tmp_path / "merged")["windows"]
    refused = corpus(headscope, tmp_path / "in", "-o", tmp_path / "whole", "--resume")
    assert refused.returncode == 1 and "windows" in refused.stderr


def test_short_texts_are_what_they_were(headscope, tmp_path):
    ndjson(tmp_path / "in", ["the river", "the war . it left"])
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "plain").returncode == 0
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "windows", "--windows").returncode == 0
    assert_same(tmp_path / "plain", tmp_path / "windows")
    assert report(tmp_path / "windows")["windows"] == {"texts": 2, "windows": 2, "cut": 0} and "windows" not in report(tmp_path / "plain")


def test_pairs_that_reach_far(headscope, tmp_path):
    ndjson(tmp_path / "in", [" ".join(texts(120)[k::3]) for k in range(3)] + ["the river"])
    done = corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--layers", "1,3", "--max-tokens", "300", small=False)
    assert done.returncode == 0, done.stderr
    said, data = report(tmp_path / "out"), arrays(tmp_path / "out")
    reach = said["long_range"]
    assert reach["distances"] == [128]
    np.testing.assert_allclose(reach["chance"], data["all_distance"][129:].sum() / data["all_distance"].sum(), 1e-9)
    assert [row["layer"] for row in reach["layers"]] == [1, 3] and len(reach["heads"]) == 24
    by_threshold = data["distance"][..., 129:].sum(-1) / data["distance"].sum(-1)
    of_layers = data["distance"][..., 129:].sum((-1, -2)) / data["distance"].sum((-1, -2))
    shares = np.array([head["shares"][0] for head in reach["heads"]]).reshape(2, 12)
    main = next(k for k, one in enumerate(by_threshold) if np.allclose(shares, one, 1e-9))
    np.testing.assert_allclose([row["shares"][0] for row in reach["layers"]], of_layers[main], 1e-9)
    attended = np.array([head["attention_distance"] for head in reach["heads"]]).reshape(2, 12)
    np.testing.assert_allclose(attended, data["profiles_mean_distance"], 1e-5)
    np.testing.assert_allclose([row["attention_distance"] for row in reach["layers"]], attended.mean(1), 1e-6)
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="long_range"' in page and "Repeated tokens across a text" in page
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "short").returncode == 0
    assert "long_range" not in report(tmp_path / "short")


def test_far_pairs_of_the_same_token_are_the_references(headscope, server, tmp_path):
    lines = [" ".join(texts(120)[k::3]) for k in range(3)]
    options = ["--layers", "1,3", "--max-tokens", "300"]
    ndjson(tmp_path / "in", lines)
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", *options, small=False).returncode == 0
    model, far = checkpoint.load(MINI), [128, 512, 2048]
    said, data = report(tmp_path / "out"), arrays(tmp_path / "out")
    all_far, high_far, n_near = 0, 0, 0
    for line in lines:
        ids = server.analyze({"text": line, "max_tokens": 300, "outputs": []})["input_ids"]
        outputs = family_bert.forward(model, np.array(ids)).outputs[[1, 3]]
        of_text = reference.far_repeats(ids, analysis.similarity(outputs), data["thresholds"][2], far)
        all_far, high_far, n_near = all_far + of_text[0], high_far + of_text[1], n_near + of_text[2]
    assert all_far[0] > 0 and np.array_equal(data["all_far_repeated"], all_far)
    assert np.abs(data["far_repeated"] - high_far).sum() <= n_near < high_far.sum() / 100
    reach, high = said["long_range"], data["high"][2]
    np.testing.assert_allclose(reach["chance_repeated"], all_far[:1] / data["all_pairs"], 1e-9)
    of_heads = np.array([row["repeated"][0] for row in reach["heads"]]).reshape(2, 12)
    np.testing.assert_allclose(of_heads, data["far_repeated"][..., 0] / high, 1e-9)
    of_layers = [row["repeated"][0] for row in reach["layers"]]
    np.testing.assert_allclose(of_layers, data["far_repeated"][..., 0].sum(1) / high.sum(1), 1e-9)
    folders = [tmp_path / f"shard{k}" for k in range(2)]
    for k, folder in enumerate(folders):
        assert corpus(headscope, tmp_path / "in", "-o", folder, "--shard", f"{k}/2", *options, small=False).returncode == 0
    subprocess.run(command(headscope, "merge", "-o", tmp_path / "merged", *folders), check=True)
    assert np.array_equal(arrays(tmp_path / "merged")["far_repeated"], data["far_repeated"])


def test_examples_name_their_window(headscope, tmp_path):
    lines = texts(5)
    assert corpus(headscope, ndjson(tmp_path / "in", lines), "-o", tmp_path / "out", "--windows").returncode == 0
    kept = report(tmp_path / "out")["examples"]["texts"]
    assert len(kept) == report(tmp_path / "out")["texts"]
    for number, line in enumerate(lines):
        parts = sorted((example.get("window", 0), example["text"]) for example in kept if example["number"] == number)
        assert [window for window, _ in parts] == list(range(len(parts)))
        assert "".join(text for _, text in parts).replace(" ", "") == line.replace(" ", "")


@pytest.mark.parametrize(("options", "why"), [
    (["--stride", "3"], "--stride is 3; it must be 0 without windows"),
    (["--windows", "--stride", "22"], "--stride is 22; it must be less than max_tokens, 24, without the 2 special tokens of a window"),
    (["--windows", "--stride", "x"], "--stride is \"x\"; expected an integer"),
])
def test_settings_that_cut_nothing_are_refused(headscope, tmp_path, options, why):
    done = corpus(headscope, ndjson(tmp_path / "in", ["a"]), "-o", tmp_path / "out", *options)
    assert done.returncode in (1, 2) and why in done.stderr, done.stderr


def test_a_pair_whose_first_text_fills_the_window_is_a_bad_line(headscope, tmp_path):
    (tmp_path / "in").write_text(json.dumps({"text": " ".join(["river"] * 30), "text_pair": "war"}) + "\n" + json.dumps({"text": "war"}) + "\n")
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--windows").returncode == 0
    assert "33 of max_tokens 24 go to what is in each window" in report(tmp_path / "out")["bad_lines"]["lines"][0]["why"]


@pytest.mark.slow
def test_a_text_without_end_is_a_bad_line(headscope, tmp_path):
    (tmp_path / "in").write_text("a " * 300000 + "\nthe war\n")
    assert corpus(headscope, tmp_path / "in", "-o", tmp_path / "out", "--windows").returncode == 0
    said = report(tmp_path / "out")
    assert said["texts"] == 1 and "more than 262144 tokens" in said["bad_lines"]["lines"][0]["why"]


def test_uploads_count_texts_while_they_run(start_server, tmp_path):
    server = start_server("--state", tmp_path / "state")
    run = wait(server, send(server, body_of(texts(20)), OPTIONS + "&windows=true&stride=5").headers["Location"])
    assert (run["state"], run["texts_done"], run["texts_total"]) == ("done", 20, 20)
    said = server.get(f"/corpora/{run['id']}/report").json()
    assert said["windows"]["texts"] == 20 and said["texts"] == said["windows"]["windows"] > 40
    assert send(server, body_of(["a"]), OPTIONS + "&stride=5").json()["pointer"] == "/stride"
