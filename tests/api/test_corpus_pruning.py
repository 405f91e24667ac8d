"""The pruning curve of a corpus run against single answers of /analyze with the same heads switched off."""
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import MINI, PATIENCE, failing, served_models, until
from corpus_runs import arrays, assert_same, command, corpus, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import encoder  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402
import task_head  # noqa: E402

WORDS = "the war was at airport police came for city office . , ! many said long new".split()
WINDOW, MASK, MASK_64 = 24, 4, (1 << 64) - 1
RANKINGS, KINDS = ["snr", "effect", "entropy", "norm", "random", "random", "random"], ["zero", "mean"]


def mix(x):
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK_64
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK_64
    return x ^ x >> 31


STEP = 0x9e3779b97f4a7c15


def text_hash(number):
    return mix((mix((number + STEP) & MASK_64) + STEP) & MASK_64)


def fraction(number):
    return (number >> 11) * 2.0 ** -53


def kept(numbers, share):
    """The numbers of texts for the orders, and of those for the losses."""
    chosen = sorted((n for n in numbers if fraction(text_hash(n)) < share), key=text_hash)[:64]
    return chosen[::2], chosen[1::2]


def off(ranks, k, kind, layers):
    """Interventions that switch off the heads with the k lowest ranks."""
    return [{"kind": kind, "layers": [layers[row]], "heads": np.flatnonzero(ranks[row] < k).tolist()}
            for row in range(len(layers)) if (ranks[row] < k).any()]


def ranks_of(values):
    ranks = np.empty(values.size, int)
    ranks[np.argsort(values.ravel(), kind="stable")] = np.arange(values.size)
    return ranks.reshape(values.shape)


@pytest.fixture(scope="module")
def lines():
    draw = random.Random(6)
    return [(" ".join(draw.choices(WORDS, k=draw.randint(4, 18))), draw.randrange(3)) for _ in range(60)]


@pytest.fixture(scope="module")
def path(lines, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in lines))
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = family_gpt2.write_random(tmp_path_factory.mktemp("model") / "x")
    return task_head.add(folder, "SequenceClassification", 3, id2label={0: "a", 1: "b", 2: "c"})


def run(headscope, path, out, *options):
    done = corpus(headscope, path, "-o", out, "--max-tokens", WINDOW, *options, small=False)
    assert done.returncode == 0, done.stderr
    return report(out)["pruning"], arrays(out)


def test_losses_of_classes_are_those_of_analyze(headscope, classifier, lines, path, tmp_path):
    said, data = run(headscope, path, tmp_path / "out", "--model", classifier, "--label-field", "label", "--pruning-share", "0.2")
    ranking, measuring = kept(range(60), 0.2)
    assert said["measure"] == "class" and said["texts"] == said["predictions"] == len(measuring) > 2 and len(ranking) > 2
    points, ranks = data["pruning_heads"], data["pruning_rank"]
    n_layers, n_heads = ranks.shape[1:]
    layers = list(range(n_layers))
    assert points.tolist() == [0, *(2 ** k for k in range(20) if 2 ** k < n_layers * n_heads), n_layers * n_heads] == said["heads"]
    for server in served_models({"x": classifier}):
        def losses(numbers, interventions):
            found, right = 0, 0
            for number in numbers:
                text, label = lines[number]
                answer = server.analyze({"text": text, "model": "x", "layers": "all", "outputs": ["classes"], "max_tokens": WINDOW,
                                         "digits": 9, "interventions": interventions})
                p = encoder.softmax(np.array([answer["classes"]["logits"]], np.float64))[0]
                found, right = found - np.log(p[label]), right + int(p.argmax() == label)
            return found, right
        alone = np.array([[losses(ranking, [{"kind": "zero", "layers": [l], "heads": [h]}])[0] for h in range(n_heads)] for l in layers])
        rank = ranks_of(alone)
        for first, second in zip(np.argsort(rank.ravel()), np.argsort(ranks[1].ravel())):  # equal but for rounding
            assert alone.ravel()[first] == pytest.approx(alone.ravel()[second], rel=1e-5)
        for r in (1, 6):
            for kind in range(2):
                for k, point in enumerate(points):
                    loss, right = losses(measuring, off(ranks[r], point, KINDS[kind], layers))
                    assert data["pruning_loss_sum"][r, kind, k] == pytest.approx(loss, rel=1e-5), (r, kind, k)
                    assert data["pruning_right"][r, kind, k] == right


def test_rankings_are_what_they_say(headscope, server, lines, path, tmp_path):
    layers = [0, 2]
    _, data = run(headscope, path, tmp_path / "out", "--layers", "0,2", "--pruning-share", "0.2")
    ranking, _ = kept([n for n, (text, _) in enumerate(lines) if masks(server, text, n)[1]], 0.2)
    weights = checkpoint.load(MINI).weights
    entropy, norm = np.zeros((2, 12)), np.zeros((2, 12))
    for number in ranking:
        answer = masked(server, lines[number][0], number, outputs=["attentions", "head_outputs"], layers=layers)
        attention, outputs = np.array(answer["attentions"], np.float64), np.array(answer["head_outputs"], np.float64)
        T, d = outputs.shape[2:]
        entropy += -(attention * np.log(np.where(attention > 0, attention, 1))).sum(axis=(2, 3)) / T
        for row, layer in enumerate(layers):
            out = np.array(weights[f"encoder.layer.{layer}.attention.output.dense.weight"], np.float64)
            for h in range(12):
                norm[row, h] += np.linalg.norm(outputs[row, h] @ out[:, h * d:(h + 1) * d].T, axis=1).mean()
    for r, values in ((0, data["snr"]), (2, entropy), (3, norm)):
        assert np.array_equal(data["pruning_rank"][r], ranks_of(values)), RANKINGS[r]
    assert sorted(data["pruning_rank"][4].ravel()) == list(range(24)) and not np.array_equal(data["pruning_rank"][4], data["pruning_rank"][5])


def masks(server, text, number):
    """The ids of a text and the places that the run masks."""
    plain = server.analyze({"text": text, "outputs": [], "max_tokens": WINDOW})
    ids, special = plain["input_ids"], plain["special_tokens_mask"]
    return ids, [i for i in range(len(ids)) if not special[i] and fraction(mix((text_hash(number) + (i + 1) * STEP) & MASK_64)) < 0.15]


def masked(server, text, number, **fields):
    """The answer for the text with the run's masks, or the probabilities of what they hide."""
    ids, at = masks(server, text, number)
    hidden = [MASK if i in at else token for i, token in enumerate(ids)]
    if "target" not in fields:
        return server.analyze({"input_ids": hidden, "digits": 9, **fields})
    found = []
    for i in at:
        answer = server.analyze({"input_ids": hidden, "outputs": [], "digits": 9, **fields, "target": {"probability": ids[i], "position": i}})
        found.append(answer["changes"]["target"]["after"])
    return found


def test_losses_of_masked_tokens_are_those_of_analyze(headscope, server, lines, path, tmp_path):
    assert server.analyze({"text": "[MASK]", "outputs": []})["input_ids"][1] == MASK
    said, data = run(headscope, path, tmp_path / "out", "--layers", "0,2", "--pruning-share", "0.2")
    _, measuring = kept([n for n, (text, _) in enumerate(lines) if masks(server, text, n)[1]], 0.2)
    points, n = data["pruning_heads"], said["predictions"]
    for r, kind, k in ((0, 0, 3), (2, 1, 4), (5, 0, 6)):
        interventions = off(data["pruning_rank"][r], points[k], KINDS[kind], [0, 2])
        found = [p for number in measuring for p in masked(server, lines[number][0], number, interventions=interventions, target=True)]
        assert len(found) == n > 3
        assert data["pruning_loss_sum"][r, kind, k] == pytest.approx(-np.log(found).sum(), rel=1e-5)
    for kind in KINDS:
        random_loss = data["pruning_loss_sum"][4:, KINDS.index(kind)].mean(axis=0) / n
        for r, name in enumerate(RANKINGS[:4]):
            curve, loss = said["rankings"][name][kind], data["pruning_loss_sum"][r, KINDS.index(kind)] / n
            np.testing.assert_allclose(curve["loss"], loss, rtol=1e-9)
            np.testing.assert_allclose(curve["accuracy"], data["pruning_right"][r, KINDS.index(kind)] / n, rtol=1e-9)
            above = np.flatnonzero(loss > 1.01 * loss[0])
            assert curve["within_1_percent"] == points[above[0] - 1 if len(above) else -1]
            gap = random_loss - loss
            assert curve["area"] == pytest.approx(((gap[1:] + gap[:-1]) / 2 * np.diff(points)).sum() / points[-1], abs=1e-9)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<section id=\"pruning\"" in page and page.count("Heads switched off</text>") >= 1


def test_losses_of_next_tokens_are_those_of_analyze(headscope, lines, path, tmp_path):
    folder = family_gpt2.write_random(tmp_path / "x", seed=3)
    said, data = run(headscope, path, tmp_path / "out", "--model", folder, "--pruning-share", "0.1")
    ranking, measuring = kept(range(60), 0.1)
    assert said["measure"] == "causal" and ranking and measuring
    n_layers, n_heads = data["pruning_rank"].shape[1:]
    for server in served_models({"x": folder}):
        for r, kind, k in ((0, 0, 0), (1, 1, 1), (4, 0, 2)):
            interventions = off(data["pruning_rank"][r], data["pruning_heads"][k], KINDS[kind], list(range(n_layers)))
            loss = 0
            for number in measuring:
                answer = server.analyze({"text": lines[number][0], "model": "x", "outputs": ["loss"], "max_tokens": WINDOW, "digits": 9,
                                         "interventions": interventions})
                loss += sum(answer["loss"]["tokens"]) if isinstance(answer["loss"], dict) else sum(answer["loss"])
            assert data["pruning_loss_sum"][r, kind, k] == pytest.approx(loss, rel=1e-5)


def options_of(measure, folder):
    """Options of a small run with a measure."""
    if measure == "masked":
        return ["--layers", "0", "--pruning-share", "0.15"]
    family_gpt2.write_random(folder, seed=3, n_layers=1)
    if measure == "causal":
        return ["--model", folder, "--pruning-share", "0.2"]
    task_head.add(folder, "SequenceClassification", 3, id2label={0: "a", 1: "b", 2: "c"})
    return ["--model", folder, "--label-field", "label", "--pruning-share", "0.2"]


@pytest.mark.parametrize("measure", ["masked", "class"])
def test_an_interrupted_run_goes_on_to_the_same_curve(headscope, preload, lines, measure, tmp_path):
    options = options_of(measure, tmp_path / "model")
    inputs = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    for path, part in zip(inputs, (lines[:40], lines[40:])):
        path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in part))
    whole, _ = run(headscope, inputs[0], tmp_path / "whole", inputs[1], *options, "--workers", "2")
    out, standing = tmp_path / "out", tmp_path / "standing"
    # The run has read the first file and stands before it opens the second.
    environment = {**os.environ, **failing(preload, "open", 0, "wait", standing), "FAILING_CALL_PATH": "second.jsonl"}
    interrupted = subprocess.Popen(command(headscope, "corpus", *inputs, "-o", out, "--max-tokens", WINDOW, *options, "--workers", "1"),
                                   stderr=subprocess.PIPE, env=environment)
    until(lambda: standing.exists() or interrupted.poll() is not None)
    interrupted.send_signal(signal.SIGINT)
    standing.unlink()
    assert b"--resume" in interrupted.communicate(timeout=PATIENCE)[1] and interrupted.returncode == 128 + signal.SIGINT
    assert not (out / "report.json").exists()
    said, _ = run(headscope, inputs[0], out, inputs[1], *options, "--resume", "--workers", "1")
    assert said == whole
    assert_same(tmp_path / "whole", out)
    html = (out / "report.html").read_text()
    subprocess.run(command(headscope, "report", out), check=True)
    assert report(out)["pruning"] == whole and (out / "report.html").read_text() == html
    run(headscope, inputs[0], out, inputs[1], *options, "--resume")  # the run is complete: nothing is added
    assert_same(tmp_path / "whole", out)


def test_curves_of_shards_add_up(headscope, path, tmp_path):
    options = options_of("causal", tmp_path / "model")
    whole, _ = run(headscope, path, tmp_path / "whole", *options)
    shards = [run(headscope, path, tmp_path / f"s{k}", *options, "--shard", f"{k}/2") for k in range(2)]
    subprocess.run(command(headscope, "merge", "-o", tmp_path / "merged", tmp_path / "s0", tmp_path / "s1"), check=True)
    merged = arrays(tmp_path / "merged")
    for name in ("pruning_loss_sum", "pruning_right", "pruning_rank"):
        np.testing.assert_allclose(merged[name], shards[0][1][name] + shards[1][1][name], rtol=1e-12)
    said = report(tmp_path / "merged")["pruning"]
    assert said["texts"] == sum(shard["texts"] for shard, _ in shards)
    # each shard has orders by its own texts, and the page of the sum says so
    assert said["orders"] == 2 and {shard["orders"] for shard, _ in shards} == {whole["orders"]} == {1}
    for folder, expected in (("merged", True), ("whole", False), ("s0", False)):
        assert ("is the sum of 2 shards" in (tmp_path / folder / "report.html").read_text()) == expected


def test_it_is_refused_without_a_loss(headscope, path, tmp_path):
    folder = family_llama.write_random(tmp_path / "x", headless=True)
    done = corpus(headscope, path, "-o", tmp_path / "out", "--model", folder, "--pruning-share", "0.5", small=False)
    assert done.returncode == 1 and "it must be 0: this model predicts no tokens, and there is no label_field" in done.stderr


def test_too_few_texts_have_no_curve(headscope, path, tmp_path):
    (tmp_path / "one.jsonl").write_text(path.read_text().partition("\n")[0] + "\n")
    folder = family_gpt2.write_random(tmp_path / "model", n_layers=1)
    done = corpus(headscope, tmp_path / "one.jsonl", "-o", tmp_path / "out", "--model", folder, "--max-tokens", WINDOW, "--pruning-share", "1", small=False)
    assert done.returncode == 0, done.stderr
    assert "pruning" not in report(tmp_path / "out") and not [name for name in arrays(tmp_path / "out") if name.startswith("pruning_")]
    assert 'id="pruning"' not in (tmp_path / "out" / "report.html").read_text()


def test_a_model_of_one_head_has_one_order(headscope, path, tmp_path):
    folder = family_gpt2.write_random(tmp_path / "model", n_layers=1, n_heads=1)
    said, data = run(headscope, path, tmp_path / "out", "--model", folder, "--pruning-share", "0.2")
    assert said["heads"] == [0, 1] and said["orders"] == 1 and not data["pruning_rank"].any()
    losses = data["pruning_loss_sum"]
    assert (losses[:, 0] == losses[0, 0]).all() and losses[0, 0, 0] != losses[0, 0, 1]  # all orders are the same
