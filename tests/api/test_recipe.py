"""The pretraining recipe of the embedded model, run for a moment on text made here."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import pytest
from conftest import HEADSCOPE

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "model" / "mini"


WORDS = ["the", "river", "bridge", "boat", "war", "old", "people", "crossed", "left", "closed", "hour", "it"]
SMALL = ["--device", "cpu", "--hidden", 24, "--heads", 2, "--ffn", 48, "--positions", 64, "--batch-tokens", 512,
         "--rate", 0.003, "--unit", "steps"]


def python(*arguments, folder):
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def sentence(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(4, 12))).capitalize() + "."


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    pytest.importorskip("torch", reason="python3-torch is not installed")
    folder, rng = tmp_path_factory.mktemp("recipe"), random.Random(0)
    with open(folder / "articles.jsonl", "w", encoding="utf-8") as f:
        for _ in range(60):
            f.write(json.dumps([" ".join(sentence(rng) for _ in range(15))]) + "\n")
    python(RECIPE / "prepare.py", folder / "data", folder / "articles.jsonl", folder=folder)
    return folder / "data"


def held_out_losses(said):
    return [float(loss) for loss in re.findall(r"held-out loss ([\d.]+)", said)]


def test_recipe_makes_a_checkpoint_that_headscope_opens(data, tmp_path):
    said = python(RECIPE / "pretrain.py", data, tmp_path / "out", *SMALL, "--plan", "1:32:250,2:32:150", folder=tmp_path)
    losses = held_out_losses(said)
    assert len(losses) == 2 and losses[-1] < 2.8  # a guess among all pieces costs 4.4, among the twelve words 2.5
    done = subprocess.run([HEADSCOPE, "analyze", "--model", str(tmp_path / "out"), "-"], input=b"the old bridge",
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["tokens"] == ["[CLS]", "the", "old", "bridge", "[SEP]"]
    assert len(answer["heads"]) == 2


def test_recipe_with_muon_goes_on_where_it_stopped(data, tmp_path):
    """A plan of one stage, then the same with a second, in the same folder: it continues before the cool-down."""
    def train(plan):
        return python(RECIPE / "pretrain.py", data, tmp_path / "out", *SMALL, "--muon", "--plan", plan,
                      "--say-seconds", 0, folder=tmp_path)

    assert held_out_losses(train("1:32:200"))[-1] < 2.9
    said = train("1:32:200,2:32:20")
    assert "step 160 " not in said and "step 161 " in said and held_out_losses(said)[-1] < 2.9


def test_recipe_goes_on_from_a_checkpoint_in_bfloat16(data, tmp_path):
    """At a rate of nothing the loss is the checkpoint's to the last digit; a deeper first stage is refused."""
    def train(out, *more):
        return python(RECIPE / "pretrain.py", data, tmp_path / out, *SMALL, *more, folder=tmp_path)

    (loss,) = held_out_losses(train("first", "--plan", "1:32:200"))
    assert loss < 2.9
    go_on = "--bf16", "--from", tmp_path / "first", "--plan"
    assert held_out_losses(train("same", *go_on, "1:32:5", "--rate", 0)) == [loss]
    losses = held_out_losses(train("second", *go_on, "1:32:50,2:32:100"))
    assert losses[0] < 2.9 and losses[1] < loss
    with pytest.raises(AssertionError, match="its depth must be that of the first stage"):
        train("third", *go_on, "2:32:5")


def test_processes_train_one_model(data, tmp_path):
    said = python(RECIPE / "pretrain.py", data, tmp_path / "out", *SMALL, "--plan", "1:32:20", "--processes", 2,
                  "--say-seconds", 0, folder=tmp_path)
    assert said.count("stage 1:32:20 done") == 1
    assert "step 20  0.0 M" in said  # 2 x 512 tokens a step
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_failing_process_ends_the_others(data, tmp_path):
    arguments = [sys.executable, RECIPE / "pretrain.py", data, tmp_path / "out", *SMALL, "--plan", "1:99:20",
                 "--processes", 2]
    done = subprocess.run(list(map(str, arguments)), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    python(RECIPE / "pretrain.py", data, folder / "first", *SMALL, "--plan", "2:32:200", folder=folder)
    return folder / "first"


@pytest.mark.parametrize("which, without, with_it, most", [
    (0, ("--penalty", 0, "--decay-query-key", 0), ("--penalty", 0.3, "--decay-query-key", 1), 0.7),
    (1, ("--sparse", 0), ("--sparse", 3), 0.9),
    (2, ("--apart", 0), ("--apart", 3), 0.9),
    (3, ("--rest", 0), ("--rest", 3), 0.5),
], ids=["attention logits", "spread of outputs", "overlap of heads", "attention that misses separators"])
def test_penalties_hold_down_what_they_name(data, trained, tmp_path, which, without, with_it, most):
    """Trained on from the same weights, each measure ends lower with its penalty than without."""
    torch = pytest.importorskip("torch")
    sizes = []
    sys.path.insert(0, str(RECIPE))
    from network import load
    from pretrain import Data
    read = Data(str(data), "cpu")
    for name, options in (("without", without), ("with", with_it)):
        python(RECIPE / "pretrain.py", data, tmp_path / name, *SMALL, "--from", trained, "--plan", "2:32:100",
               *options, folder=tmp_path)
        *inputs, _ = read.batch(64, 32, torch.Generator().manual_seed(3), 0.2)
        penalties = []
        load(str(tmp_path / name))(*inputs, 0, read.kinds[inputs[0]], penalties)
        assert len(penalties) == 2
        sizes.append(sum(penalty[which].item() for penalty in penalties))
    assert 0 < sizes[1] < most * sizes[0]


def test_output_spread_is_least_if_some_tokens_get_all():
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(RECIPE))
    from penalties import output_spread
    text = torch.tensor([[False] + [True] * 16 + [False]])

    def spread(where, norm=2.0):
        squares = torch.zeros(1, 1, 18)
        squares[0, 0, where] = norm ** 2
        return output_spread(squares, text).item()

    assert spread(range(1, 17)) == pytest.approx(1 - 0.75)
    assert spread(range(1, 9)) == pytest.approx(0, abs=1e-6)  # half of the tokens: 0.71 is in the range
    assert spread([5]) == pytest.approx(0.5 - 1 / 4)          # one of 16
    assert spread([0, *range(1, 9)]) == pytest.approx(1 / 9)  # [CLS] gets a ninth
    assert spread(range(1, 9), 4.0) == pytest.approx(8 / 18 / 2)  # each is 1 above the most


def test_head_overlap_is_the_cosine_between_profiles():
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(RECIPE))
    from penalties import head_overlap
    squares = torch.zeros(1, 2, 8)
    squares[0, :, 1:5], text = torch.tensor([[9.0] * 4, [4.0] * 4]), torch.ones(1, 8, dtype=torch.bool)
    assert head_overlap(squares, text).item() == pytest.approx(1)
    squares[0, 1] = torch.tensor([0, 0, 0, 1.0, 1, 1, 1, 0])
    assert head_overlap(squares, text).item() == pytest.approx(0.5)
    squares[0, 1] = torch.tensor([0, 0, 0, 0, 0, 1.0, 1, 1])
    assert head_overlap(squares, text).item() == pytest.approx(0.3)  # nothing to gain below
    assert head_overlap(squares[:, :1], text).item() == pytest.approx(0.3)  # one head


def test_separators_of_the_own_sentence_count_most():
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(RECIPE))
    from penalties import kinds_of, separator_lack, separator_weights
    vocab = ["[CLS]", "[SEP]", ".", ",", "word"]
    kinds = kinds_of(vocab)[torch.tensor([[0, 4, 3, 4, 2, 4, 4, 2, 4, 1]])]
    weights = separator_weights(kinds)
    assert weights[0, 1].tolist() == [0, 0, 1, 0, 1, 0, 0, 0.25, 0, 0.25]
    assert weights[0, 5].tolist() == [0, 0, 0.25, 0, 1, 0, 0, 1, 0, 0.25]
    assert weights[0, 8].tolist() == [0, 0, 0.25, 0, 0.25, 0, 0, 1, 0, 1]
    even = torch.zeros(1, 1, 10, 10)
    own = weights.sum(-1) / 10
    assert separator_lack(even, weights).item() == pytest.approx((0.5 - own).mean().item())
    column = even.clone()
    column[..., 9] = 50  # all attention to [SEP]: too much, and too little to others' own
    assert separator_lack(column, weights).item() == pytest.approx(0.25 + 0.25 * 0.8, abs=1e-4)


def test_windows_are_as_berts(data):
    """A third of two segments, at least half beginning with a sentence, nothing masked that is special."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(RECIPE))
    from pretrain import CLS, MASK, SEP, Data
    read = Data(str(data), "cpu")
    n, T, generator = 3000, 40, torch.Generator().manual_seed(0)
    ids, types, special = read.windows(n, T, generator, plain=False, held_out=False)
    pairs = types.sum(1) > 0
    assert abs(pairs.float().mean() - 1 / 3) < 0.04
    assert ((ids == SEP).sum(1) == 1 + pairs.long()).all() and (ids[:, 0] == CLS).all() and (ids[:, -1] == SEP).all()
    assert (special == ((ids == SEP) | (ids == CLS))).all()
    follows_separator = torch.cat([torch.zeros(n, 1, dtype=torch.bool), (ids == SEP)[:, :-1]], 1)
    assert (types == follows_separator.long().cumsum(1).clamp(max=1)).all()
    start, _, second = read.segments(torch.randint(0, read.split - T, (n,), generator=generator), T, 0, read.split,
                                     generator)
    begins = [torch.isin(place, read.starts).float().mean() for place in (start, second)]
    assert 0.5 < begins[0] < 0.65 and begins[1] > 0.5  # one word in nine begins a sentence by chance
    masked, _, at, target = read.batch(n, T, generator, 0.2)
    assert len(at) == n * round(0.2 * T) and not ((target == CLS) | (target == SEP)).any()
    assert 0.75 < (masked.reshape(-1)[at] == MASK).float().mean() < 0.85
