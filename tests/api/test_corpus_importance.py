"""Gradient importance of a corpus run against head_attributions of /analyze for the same texts and predictions."""
import json
import os
import signal
import subprocess

import numpy as np
import pytest
from conftest import PATIENCE, failing, served_models, until
from corpus_runs import arrays, assert_same, command, corpus, report
from test_client_python import package
from test_corpora import send, wait
from test_corpus_pruning import (  # noqa: F401
    MASK,
    WINDOW,
    classifier,
    encoder,
    family_gpt2,
    family_llama,
    kept,
    lines,
    masks,
    path,
    ranks_of,
)

LAYERS = [0, 2]
OFF = [{"kind": "zero", "layers": [0], "heads": [3]}]


def run(headscope, path, out, *options):  # noqa: F811
    done = corpus(headscope, path, "-o", out, "--max-tokens", WINDOW, "--importance", *options, small=False)
    assert done.returncode == 0, done.stderr
    return report(out), arrays(out)


def attributions(server, **body):
    """Head attributions summed over tokens, [layer][head]."""
    answer = server.analyze({"outputs": ["head_attributions"], "digits": 9, "max_tokens": WINDOW, **body})
    return np.array(answer["head_attributions"], np.float64).sum(axis=2)


def of_masks(server, text, number, layers, interventions=()):
    """The importances in a text for its masked tokens, and their number; None without one."""
    ids, at = masks(server, text, number)
    hidden = [MASK if i in at else token for i, token in enumerate(ids)]
    found = [attributions(server, input_ids=hidden, layers=layers, interventions=list(interventions),
                          target={"log_probability": ids[i], "position": i}) for i in at]
    return (np.abs(np.mean(found, axis=0)), len(at)) if at else (None, 0)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("interventions", [[], OFF], ids=["plain", "off"])
def test_importances_for_masked_tokens_are_those_of_analyze(headscope, server, lines, path, tmp_path, interventions):  # noqa: F811
    (tmp_path / "off.json").write_text(json.dumps(interventions))
    said, data = run(headscope, path, tmp_path / "out", "--layers", "0,2", *(["--interventions", tmp_path / "off.json"] if interventions else []))
    found = [of_masks(server, text, number, LAYERS, interventions) for number, (text, _) in enumerate(lines)]
    expected = np.sum([values for values, n in found if n], axis=0)
    n_texts, n = sum(n > 0 for _, n in found), sum(n for _, n in found)
    assert 10 < n_texts < len(lines) and (data["importance_texts"], data["importance_predictions"]) == (n_texts, n)
    assert_close(data["importance_sum"], expected)
    assert bool(interventions) == (data["importance_sum"][0, 3] == 0)
    own = said["importance"]
    assert (own["measure"], own["texts"], own["predictions"]) == ("masked", n_texts, n)
    np.testing.assert_allclose(own["heads"], data["importance_sum"] / n_texts, rtol=1e-9)
    np.testing.assert_allclose(own["normalized"], own["heads"] / np.linalg.norm(own["heads"], axis=1, keepdims=True), rtol=1e-9)
    assert said["provenance"]["options"]["importance"] is True
    assert "Gradient importance, of its layer" in (tmp_path / "out" / "report.html").read_text()


def test_importances_for_next_tokens_are_those_of_analyze(headscope, lines, path, tmp_path):  # noqa: F811
    folder = family_gpt2.write_random(tmp_path / "x", seed=3)
    said, data = run(headscope, path, tmp_path / "out", "--model", folder)
    for server in served_models({"x": folder}):
        answers = [server.analyze({"text": text, "model": "x", "layers": "all", "outputs": ["head_attributions", "loss"], "max_tokens": WINDOW,
                                   "digits": 9, "target": {"loss": True}}) for text, _ in lines]
    found = [np.abs(np.array(answer["head_attributions"], np.float64).sum(axis=2)) for answer in answers]
    assert_close(data["importance_sum"], np.sum(found, axis=0))
    assert data["importance_predictions"] == sum(len(answer["input_ids"]) - 1 for answer in answers)
    assert said["importance"]["measure"] == "causal" and data["importance_texts"] == len(lines)


def test_importances_for_labels_are_those_of_analyze(headscope, classifier, lines, path, tmp_path):  # noqa: F811
    said, data = run(headscope, path, tmp_path / "out", "--model", classifier, "--label-field", "label")
    expected = 0
    for server in served_models({"x": classifier}):
        for text, label in lines:
            logits = server.analyze({"text": text, "model": "x", "outputs": ["classes"], "max_tokens": WINDOW, "digits": 9})["classes"]["logits"]
            gradient = encoder.softmax(np.array([logits], np.float64))[0] - np.eye(3)[label]
            expected += np.abs(sum(gradient[k] * attributions(server, text=text, model="x", layers="all", target={"class": k}) for k in range(3)))
    assert_close(data["importance_sum"], expected)
    assert said["importance"]["measure"] == "class" and data["importance_predictions"] == len(lines)


def test_it_ranks_the_heads_of_a_pruning_curve(headscope, server, lines, path, tmp_path):  # noqa: F811
    said, data = run(headscope, path, tmp_path / "out", "--layers", "0,2", "--pruning-share", "0.2")
    ranking, measuring = kept([n for n, (text, _) in enumerate(lines) if masks(server, text, n)[1]], 0.2)
    found = [of_masks(server, lines[number][0], number, LAYERS) for number in ranking]
    assert (data["pruning_ranking_texts"], data["pruning_ranking_predictions"]) == (len(ranking), sum(n for _, n in found))
    ranks, values = data["pruning_rank"], data["pruning_value_sum"]
    assert_close(values[7], np.sum([one for one, _ in found], axis=0))
    assert np.array_equal(ranks[7], ranks_of(values[7])) and np.array_equal(ranks[1], ranks_of(values[1]))
    assert np.array_equal(values[0], np.rint(data["snr"] * 2 ** 31) / 2 ** 31)
    curve = said["pruning"]["rankings"]["importance"]
    assert list(said["pruning"]["rankings"]) == ["snr", "effect", "entropy", "norm", "random", "importance"]
    np.testing.assert_allclose(curve["zero"]["loss"], data["pruning_loss_sum"][7, 0] / said["pruning"]["predictions"], rtol=1e-9)
    for r, name in enumerate(["snr", "effect", "entropy", "norm"]):
        correlation = np.corrcoef(ranks[r].ravel(), ranks[1].ravel())[0, 1]
        assert said["pruning"]["rankings"][name]["effect_correlation"] == pytest.approx(correlation)
    assert curve["effect_correlation"] == pytest.approx(np.corrcoef(ranks[7].ravel(), ranks[1].ravel())[0, 1])
    assert "effect_correlation" not in said["pruning"]["rankings"]["random"]
    assert "gradient importance</text>" in (tmp_path / "out" / "report.html").read_text()
    # without it all other orders and losses stay the same
    done = corpus(headscope, path, "-o", tmp_path / "plain", "--max-tokens", WINDOW, "--layers", "0,2", "--pruning-share", "0.2", small=False)
    assert done.returncode == 0, done.stderr
    plain = arrays(tmp_path / "plain")
    assert "importance_sum" not in plain and all(np.array_equal(plain[name], data[name][:7]) for name in ("pruning_rank", "pruning_loss_sum"))


def test_exact_effects_are_kept(headscope, classifier, lines, path, tmp_path):  # noqa: F811
    done = corpus(headscope, path, "-o", tmp_path / "out", "--max-tokens", WINDOW, "--model", classifier, "--label-field", "label",
                  "--pruning-share", "0.1", small=False)
    assert done.returncode == 0, done.stderr
    data, (ranking, _) = arrays(tmp_path / "out"), kept(range(60), 0.1)
    n_layers, n_heads = data["pruning_rank"].shape[1:]
    for server in served_models({"x": classifier}):
        def loss(*interventions):
            answers = [server.analyze({"text": lines[n][0], "model": "x", "outputs": ["classes"], "max_tokens": WINDOW, "digits": 9,
                                       "interventions": interventions}) for n in ranking]
            return -sum(np.log(encoder.softmax(np.array([a["classes"]["logits"]], np.float64))[0][lines[n][1]]) for n, a in zip(ranking, answers))
        base = loss()
        expected = [[loss({"kind": "zero", "layers": [l], "heads": [h]}) - base for h in range(n_heads)] for l in range(n_layers)]
    np.testing.assert_allclose(data["pruning_value_sum"][1], expected, atol=1e-5 * base)


def test_workers_and_shards_change_no_bit(headscope, path, tmp_path):  # noqa: F811
    for workers in "1", "3":
        run(headscope, path, tmp_path / workers, "--layers", "0,2", "--workers", workers)
    assert_same(tmp_path / "1", tmp_path / "3")
    for k in range(2):
        run(headscope, path, tmp_path / f"s{k}", "--layers", "0,2", "--shard", f"{k}/2")
    subprocess.run(command(headscope, "merge", "-o", tmp_path / "merged", tmp_path / "s0", tmp_path / "s1"), check=True)
    assert report(tmp_path / "merged")["importance"] == report(tmp_path / "1")["importance"]
    merged, whole = arrays(tmp_path / "merged"), arrays(tmp_path / "1")
    for name in ("importance_texts", "importance_predictions", "importance_sum"):
        assert merged[name].tobytes() == whole[name].tobytes(), name


def test_an_interrupted_run_goes_on_to_the_same_importances(headscope, preload, lines, tmp_path):  # noqa: F811
    options = ["--layers", "0", "--pruning-share", "0.15"]
    inputs = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    for one, part in zip(inputs, (lines[:40], lines[40:])):
        one.write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in part))
    whole, _ = run(headscope, inputs[0], tmp_path / "whole", inputs[1], *options)
    out, standing = tmp_path / "out", tmp_path / "standing"
    # The run has read the first file and stands before it opens the second.
    environment = {**os.environ, **failing(preload, "open", 0, "wait", standing), "FAILING_CALL_PATH": "second.jsonl"}
    interrupted = subprocess.Popen(command(headscope, "corpus", *inputs, "-o", out, "--max-tokens", WINDOW, "--importance", *options, "--workers", "1"),
                                   stderr=subprocess.PIPE, env=environment)
    until(lambda: standing.exists() or interrupted.poll() is not None)
    interrupted.send_signal(signal.SIGINT)
    standing.unlink()
    assert b"--resume" in interrupted.communicate(timeout=PATIENCE)[1] and interrupted.returncode == 128 + signal.SIGINT
    said, _ = run(headscope, inputs[0], out, inputs[1], *options, "--resume", "--workers", "1")
    assert (said["importance"], said["pruning"]) == (whole["importance"], whole["pruning"])
    assert_same(tmp_path / "whole", out)


def test_the_server_and_the_client_count_it(headscope, path, tmp_path):  # noqa: F811
    _, data = run(headscope, path, tmp_path / "out", "--layers", "0,2")
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    for server in served_models({}, "--state", str(tmp_path / "state")):
        sent = send(server, path.read_bytes(), f"layers=0,2&max_tokens={WINDOW}&importance=true")
        assert wait(server, sent.headers["Location"])["state"] == "done"
        assert server.get(sent.headers["Location"] + "/report").json()["importance"] == report(tmp_path / "out")["importance"]
        with package.Client(server.url) as client:
            again = client.start_run(texts, layers="0,2", max_tokens=WINDOW, importance=True).wait().arrays()
        assert np.array_equal(again["importance_sum"], data["importance_sum"])


def test_models_without_a_loss_are_refused(headscope, path, tmp_path):  # noqa: F811
    folder = family_llama.write_random(tmp_path / "x", headless=True)
    done = corpus(headscope, path, "-o", tmp_path / "out", "--model", folder, "--importance", small=False)
    assert done.returncode == 1 and "it must be false: this model predicts no tokens, and there is no label_field" in done.stderr
    for server in served_models({"x": folder}, "--state", str(tmp_path / "state")):
        refused = send(server, path.read_bytes(), "importance=true")
        assert (refused.status, refused.json()["pointer"]) == (422, "/importance")


def test_other_precisions_are_refused(headscope, path, tmp_path):  # noqa: F811
    done = corpus(headscope, path, "-o", tmp_path / "out", "--precision", "bf16", "--importance")
    if "bf16" not in done.stderr or "gradients" not in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 1 and "importance needs gradients, which are computed in fp32, not with --precision bf16" in done.stderr
    for server in served_models({}, "--precision", "bf16", "--state", str(tmp_path / "state")):
        refused = send(server, path.read_bytes(), "importance=true")
        assert refused.status == 422 and "not with --precision bf16" in refused.json()["detail"]
