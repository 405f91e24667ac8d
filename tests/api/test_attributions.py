"""ALTI and value zeroing beside a reference in float64."""
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import served_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import attributions  # noqa: E402
import checkpoint  # noqa: E402
import family_bert  # noqa: E402
import family_gpt2  # noqa: E402

MINI = Path(__file__).resolve().parents[2] / "model" / "mini"
TEXT = "The war ended in 1945. It was a long war."
OUTPUTS = ["contributions", "alti", "value_zeroing"]


def arrays(server, **fields):
    got = server.post("/analyze?format=npz", {"text": TEXT, "layers": "all", "outputs": OUTPUTS, **fields})
    assert got.status == 200, got.body
    return dict(np.load(io.BytesIO(got.body)))


def test_they_are_those_of_the_reference(server):
    got, model = arrays(server), checkpoint.load(MINI)
    heads = family_bert.forward(model, got["input_ids"], got["token_type_ids"])
    product = np.eye(len(got["input_ids"]))
    for layer, state in enumerate(heads.hidden_states[:-1]):
        expected = attributions.contributions(model, layer, state)
        product = expected @ product
        for name, value in [("contributions", expected), ("alti", product),
                            ("value_zeroing", attributions.value_zeroing(model, layer, state))]:
            np.testing.assert_allclose(got[name][layer], value, rtol=0, atol=1e-5 * value.max(), err_msg=f"{name} {layer}")


def test_a_selection_of_layers_is_that_of_all(server):
    whole, part = arrays(server), arrays(server, layers=[2, 7], heads=[1])
    for name in OUTPUTS:
        np.testing.assert_array_equal(part[name], whole[name][[2, 7]])
        np.testing.assert_allclose(part[name].sum(-1), 1, rtol=1e-5)


def test_json_says_what_npz_says(server):
    said = server.post("/analyze", {"text": "One cat.", "layers": [3], "outputs": OUTPUTS, "digits": 9}).json()
    read = arrays(server, text="One cat.", layers=[3])
    for name in OUTPUTS:
        np.testing.assert_array_equal(np.array(said[name], "f4"), read[name])


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    yield from served_models({"gpt2": family_gpt2.write_random(tmp_path_factory.mktemp("gpt2") / "gpt2")})


def test_a_causal_model_takes_nothing_from_later_tokens(causal):
    got = arrays(causal, model="gpt2", text="the war of the airport")
    for name in OUTPUTS:
        assert not np.triu(got[name], 1).any()
        np.testing.assert_allclose(got[name].sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", OUTPUTS)
def test_interventions_are_refused(server, name):
    got = server.post("/analyze", {"text": TEXT, "outputs": [name], "interventions": [{"kind": "zero", "layers": [0]}]})
    assert got.status == 422 and got.json()["pointer"] == "/interventions"
    assert f"{name} is not computed with interventions" in got.json()["detail"]
