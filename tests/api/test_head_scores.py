"""Scores on random repeated sequences: against a float64 count, and on a model built to have such heads."""
import csv
import io
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, served_models
from test_formats import npz, safetensors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import family_bert  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MODELS = {"gpt2": (family_gpt2, {}), "llama": (family_llama, {}), "bert": (family_bert, {})}
NAMES = ("previous", "duplicate", "induction")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BITS = 2**64 - 1


def numbers(state):
    """SplitMix64 (Steele, Lea and Flood 2014)."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & BITS
        x = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & BITS
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & BITS
        yield x ^ x >> 31


def drawn(folder, length, sequences, seed):
    """The texts by docs/reference/formulas.md, of a vocab.txt."""
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    ids = [id for id, token in enumerate(vocabulary) if token not in SPECIAL]
    random = numbers(seed)
    for _ in range(sequences):
        for k in range(length):
            other = k + next(random) % (len(ids) - k)
            ids[k], ids[other] = ids[other], ids[k]
        yield [vocabulary.index("[CLS]"), *ids[:length], *ids[:length], vocabulary.index("[SEP]")]


def counted(attentions, length):
    """The three scores of maps [l][h][T][T]."""
    repeated = np.arange(1 + length, 1 + 2 * length)
    return [np.diagonal(attentions, -1, 2, 3).mean(-1), attentions[..., repeated, repeated - length].mean(-1),
            attentions[..., repeated, repeated - length + 1].mean(-1)]


def made_model(folder):
    """A GPT-2 of two layers with heads that are known. 0.0 looks at the previous token and copies it; 0.1 does nothing.
    1.0 looks for the token after the same token (induction), and 1.1 for the same token at an earlier position."""
    tokens, places, hidden, d = 300, 64, 768, 384
    family_gpt2.write_random(folder, n_layers=2, n_heads=2, hidden=hidden, ffn=8, positions=places)
    config, weights = checkpoint.read(folder)
    for name, values in weights.items():
        values[:] = name.endswith(("ln_1.weight", "ln_f.weight"))
    token, place, before = np.arange(tokens), tokens + np.arange(places), tokens + places + np.arange(tokens)
    weights["transformer.wte.weight"][token, token] = 1
    weights["transformer.wpe.weight"][np.arange(places), place] = 1
    first, second = (weights[f"transformer.h.{layer}.attn.c_attn.weight"] for layer in (0, 1))
    q, k, v = (part * hidden for part in range(3))
    first[place[1:], q + np.arange(places - 1)] = 9     # a place asks for the one before
    first[place, k + np.arange(places)] = 9
    first[token, v + token] = 1
    weights["transformer.h.0.attn.c_proj.weight"][token, before] = 1 / 9
    second[token, q + token] = 9                         # a token asks for itself among the tokens before
    second[before, k + token] = 9
    second[token, q + d + token] = 9                     # a token asks for itself, at another place
    second[token, k + d + token] = 9
    second[place, q + d + tokens + np.arange(places)] = -9
    second[place, k + d + tokens + np.arange(places)] = 9
    checkpoint.write_safetensors(folder / "model.safetensors", weights)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("scores")
    random = {name: module.write_random(root / name, seed=4, **shape) for name, (module, shape) in MODELS.items()}
    return {**random, "made": made_model(root / "made")}


@pytest.fixture(scope="module")
def served(folders):
    yield from served_models(folders)


def ask(server, model, scores, **fields):
    """[name][l][h]"""
    answer = server.post("/analyze", {"text": "a", "model": model, "outputs": [], "layers": "all", "digits": 9,
                                      "head_scores": scores, **fields})
    assert answer.status == 200, answer.body
    return np.array([[[head[name] for head in layer] for layer in answer.json()["head_scores"]] for name in NAMES])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scores", [{"length": 7, "sequences": 3, "seed": 5}, {"length": 50, "sequences": 2}])
def test_scores_are_those_of_the_reference(served, folders, name, scores):
    expected = np.mean([counted(MODELS[name][0].forward(folders[name], ids, np.zeros(len(ids), int)).attentions, scores["length"])
                        for ids in drawn(folders[name], **{"seed": 0, **scores})], 0)
    assert ask(served, name, scores) == pytest.approx(expected, abs=1e-6)


def test_made_heads_are_found(served):
    previous, duplicate, induction = ask(served, "made", {"length": 12})
    assert previous[0, 0] > 0.95 and duplicate[1, 1] > 0.95 and induction[1, 0] > 0.95
    previous[0, 0] = duplicate[1, 1] = induction[1, 0] = 0
    assert max(previous.max(), duplicate.max(), induction.max()) < 0.2


def test_induction_needs_the_previous_token_head(served):
    changed = ask(served, "made", {"length": 12}, interventions=[{"layers": [0], "heads": [0], "kind": "zero"}])
    assert changed[2, 1, 0] < 0.2
    assert changed[1, 1, 1] > 0.95


def test_the_seed_decides(served):
    requests = [{"sequences": 1, "seed": 3}, {"sequences": 1, "seed": 3}, {"sequences": 1, "seed": 4}, {}]
    one, same, other, default = (ask(served, "gpt2", scores) for scores in requests)
    assert (one == same).all() and (one != other).any()
    assert (default == ask(served, "gpt2", {"length": 50, "sequences": 10, "seed": 0})).all()


def test_chosen_heads_in_every_format(served):
    every = ask(served, "llama", {"length": 9})
    body = {"input_ids": [3], "model": "llama", "layers": [0, 2], "heads": [1, 3], "outputs": ["attentions", "head_scores"],
            "head_scores": {"length": 9}}
    for arrays in (npz(served, body), safetensors(served, body)[1]):
        found = np.array([arrays["head_scores_" + name] for name in NAMES])
        assert found == pytest.approx(every[:, [0, 2]][:, :, [1, 3]], rel=1e-7)


@pytest.mark.parametrize("scores, pointer, detail", [
    ({"length": 1}, "/head_scores/length", "it must be an integer from 2 to 31"),
    ({"length": 32}, "/head_scores/length", "it must be an integer from 2 to 31"),
    ({"sequences": 0}, "/head_scores/sequences", "it must be an integer from 1 to 1000"),
    ({"seed": -1}, "/head_scores/seed", "it must be an integer from 0 to 9007199254740991"),
    ({"seed": "x"}, "/head_scores/seed", "it must be an integer from 0"),
    ({"len": 5}, "/head_scores", "allowed: length, sequences, seed"),
    ([], "/head_scores", "an object with length, sequences, seed"),
])
def test_refusals(served, scores, pointer, detail):
    answer = served.post("/analyze", {"text": "a", "model": "made", "head_scores": scores})
    assert answer.status == 422 and answer.json()["pointer"] == pointer
    assert detail in answer.json()["detail"]


def test_patches_are_refused(served):
    patch = {"kind": "patch", "layers": [0], "heads": [0], "from": {"text": "b"}}
    answer = served.post("/analyze", {"text": "a", "model": "made", "head_scores": {"length": 9}, "interventions": [patch]})
    assert answer.status == 422 and "not computed with patches" in answer.json()["detail"]


def test_a_model_of_few_positions(tmp_path):
    folder = family_gpt2.write_random(tmp_path / "model", positions=3)
    done = scores(f"model={folder}")
    assert done.returncode == 2 and "head_scores repeats at least 2 tokens; model reads only 3 tokens" in done.stderr, done.stderr


def test_a_small_vocabulary(tmp_path):
    folder = family_gpt2.write_random(tmp_path / "model", vocab=20)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *"abcdefghij"]), encoding="utf-8")
    done = scores(folder)
    assert done.returncode == 2 and "draws 50 different tokens" in done.stderr and "has only 10" in done.stderr
    assert scores(folder, "--length", "10").returncode == 0


# ---- headscope scores ----


def scores(*arguments):
    return subprocess.run([HEADSCOPE, "scores", *arguments], capture_output=True, text=True, timeout=PATIENCE)


def test_command(served, folders):
    expected = ask(served, "made", {"length": 12, "sequences": 2, "seed": 7})
    options = ("--length", "12", "--sequences", "2", "--seed", "7")
    done = scores(f"made={folders['made']}", *options, "--top", "2")
    assert done.returncode == 0 and done.stderr == ""
    title, _, header, first, _ = done.stdout.splitlines()
    assert title.startswith("made: ") and header.split() == ["induction", "duplicate", "previous"]
    assert first.split()[::2] == ["1.0", "1.1", "0.0"]
    assert list(map(float, first.split()[1::2])) == pytest.approx([expected[2, 1, 0], expected[1, 1, 1], expected[0, 0, 0]], abs=6e-4)
    rows = list(csv.DictReader(io.StringIO(scores("--model", folders["made"], *options, "--format", "csv").stdout)))
    assert [(int(row["layer"]), int(row["head"])) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    text = scores(folders["made"], *options, "--format", "json").stdout
    assert all(len(Decimal(number).as_tuple().digits) <= 9 for number in re.findall(r"-?\d+\.[\de-]+", text))
    printed = json.loads(text)
    for k, name in enumerate(NAMES):
        assert [float(row[name]) for row in rows] == pytest.approx(expected[k].ravel(), rel=1e-6)
        assert [head[name] for layer in printed for head in layer] == pytest.approx(expected[k].ravel(), rel=1e-6)
