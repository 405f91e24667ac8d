"""Every family against its float64 reference (tests/reference/family_*.py): maps, head outputs, similarities and
hidden states of random checkpoints in each layout that the family is published in.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import family_albert  # noqa: E402
import family_bert  # noqa: E402
import family_electra  # noqa: E402
import family_esm  # noqa: E402
import family_modernbert  # noqa: E402
import family_mpnet  # noqa: E402
import family_nomic_bert  # noqa: E402
import family_roberta  # noqa: E402
from test_reference import TEXTS, assert_close  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MINI = Path(__file__).resolve().parents[2] / "model" / "mini"
FAMILIES = {"bert": family_bert, "electra": family_electra, "mpnet": family_mpnet, "roberta": family_roberta,
            "albert": family_albert, "nomic_bert": family_nomic_bert, "modernbert": family_modernbert, "esm": family_esm}
MODELS = [(family, variant) for family, module in FAMILIES.items() for variant in module.VARIANTS]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """folder_of(family, variant), made when it is first asked for."""
    root = tmp_path_factory.mktemp("families")

    def make(family, variant):
        module, folder = FAMILIES[family], root / family / variant
        if not folder.exists():
            module.write_random(folder, seed=len(variant), **module.VARIANTS[variant])
        return folder

    return make


def analyze(folder, output, text, *options):
    first, second = TEXTS.get(text, (text, None))
    pair = ["--text-pair", second] if second is not None else []
    command = [HEADSCOPE, "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o", str(output),
               "--outputs", "attentions,similarities,head_outputs,hidden_states", *pair, *options, "-"]
    done = subprocess.run(command, input=first.encode(), capture_output=True, timeout=120)
    if b"this build has no" in done.stderr:
        pytest.skip("the program was built without this backend")
    assert done.returncode == 0, done.stderr.decode()
    with np.load(output) as answer:
        return dict(answer)


def check_heads(answer, heads):
    assert_close(answer["attentions"], heads.attentions, 1e-5)
    assert_close(answer["hidden_states"], heads.hidden_states, 1e-5 * max(1, np.abs(heads.hidden_states).max()))
    for name, expected in (("head_outputs", heads.outputs), ("similarities", analysis.similarity(heads.outputs))):
        for l, h in np.ndindex(expected.shape[:2]):
            # Of two tokens the only similarity may be small beside the squares that its products are as large as.
            squares = (heads.outputs[l, h] ** 2).sum(-1).max() / 10 if name == "similarities" else 0
            scale = max(np.abs(expected[l, h]).max(), squares)
            assert_close(answer[name][l, h], expected[l, h], 1e-5 * scale)


@pytest.mark.parametrize("backend", ["default", "openblas", "onednn"])
@pytest.mark.parametrize("family, variant", MODELS)
def test_maps(folder_of, tmp_path, family, variant, backend):
    folder = folder_of(family, variant)
    options = [] if backend == "default" else ["--backend", backend]
    answer = analyze(folder, tmp_path / "answer.npz", "paragraph", *options)
    assert len(answer["input_ids"]) > 70
    check_heads(answer, FAMILIES[family].forward(folder, answer["input_ids"], answer["token_type_ids"]))


# An unknown character and a written padding: ids 1 and 0, one of which moves positions where padding is counted out.
@pytest.mark.parametrize("text", ["pair", "word", "empty", "the \u6f22 war [PAD] was [MASK] [PAD]\u6f22 long"])
@pytest.mark.parametrize("family", FAMILIES)
def test_short_texts_and_pairs(folder_of, tmp_path, family, text):
    folder = folder_of(family, next(iter(FAMILIES[family].VARIANTS)))
    answer = analyze(folder, tmp_path / "answer.npz", text)
    check_heads(answer, FAMILIES[family].forward(folder, answer["input_ids"], answer["token_type_ids"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_models_tells_the_family(folder_of, family):
    folder = folder_of(family, next(iter(FAMILIES[family].VARIANTS)))
    done = subprocess.run([HEADSCOPE, "models", str(folder)], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[1].split()[:2] == [folder.name, family]


@pytest.mark.parametrize("family, variant, positions, windows", [
    ("bert", "relu", ["learned"], [None] * 3),
    ("mpnet", "base", ["learned", "bias"], [None] * 3),
    ("modernbert", "old_keys", ["rotary"], [None, 8, 8, None, 8]),
])
def test_models_tells_positions_and_windows(folder_of, start_server, family, variant, positions, windows):
    server = start_server("--model", f"x={folder_of(family, variant)}")
    model, = server.get("/models").json()["models"]
    assert (model["type"], model["positions"], model["windows"]) == (family, positions, windows)


def test_the_interface_lists_every_type(server, tmp_path):
    """Types of `GET /models` in openapi.json are those that the program knows."""
    for name in ("vocab.txt", "model.safetensors"):
        (tmp_path / name).write_bytes((MINI / name).read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "unknown"}')
    done = subprocess.run([HEADSCOPE, "models", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    known = re.search(r"model_type must be one of (.*); not supported", done.stderr)[1]
    described = server.get("/openapi.json").json()["components"]["schemas"]["Model"]["properties"]["type"]["enum"]
    assert known == ", ".join(f'"{name}"' for name in described)
