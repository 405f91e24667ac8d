"""Models with random weights: --untrained SEED of analyze, corpus and serve."""
import io
import subprocess

import numpy as np
from corpus_runs import command, corpus, ndjson, report, texts

TEXT = "The old bridge closed after the war. The river left it."


def analyze(headscope, *arguments):
    done = subprocess.run(command(headscope, "analyze", *arguments, "--outputs", "attentions,hidden_states", "--format", "npz", "-"),
                          input=TEXT.encode(), capture_output=True, check=True)
    with np.load(io.BytesIO(done.stdout)) as arrays:
        return {name: arrays[name] for name in arrays}


def test_a_seed_gives_the_weights(headscope):
    trained, one, same, other = (analyze(headscope, *options) for options in
                                 ([], ["--untrained", "7"], ["--untrained", "7"], ["--untrained", "8"]))
    assert [str(a["model"]) for a in (trained, one, other)] == ["mini", "mini-untrained-7", "mini-untrained-8"]
    assert len({str(a["model_sha256"]) for a in (trained, one, other)}) == 3
    np.testing.assert_array_equal(one["attentions"], same["attentions"])
    assert abs(one["attentions"] - other["attentions"]).max() > 0.01
    np.testing.assert_array_equal(one["input_ids"], trained["input_ids"])
    # the embedding's norm is 1 and 0: its rows have mean 0 and variance 1
    states = one["hidden_states"][0]
    np.testing.assert_allclose(states.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(states.var(-1), 1, atol=1e-3)


def test_a_run_of_an_untrained_model_says_so(headscope, tmp_path):
    lines = ndjson(tmp_path / "texts", texts(8, seed=1))
    assert corpus(headscope, lines, "-o", tmp_path / "out", "--untrained", "3").returncode == 0
    assert report(tmp_path / "out")["provenance"]["model"]["name"] == "mini-untrained-3"
    refused = corpus(headscope, lines, "-o", tmp_path / "out", "--untrained", "4", "--resume")
    assert refused.returncode == 1 and "model_sha256" in refused.stderr


def test_refusals_say_what_is_allowed(headscope):
    for arguments, words in ((["--untrained", "x"], "integer from 0"), (["--untrained", "1", "--model", "mini"], "before its --untrained"),
                             (["--untrained", "1", "--untrained", "2"], "has a seed already")):
        done = subprocess.run(command(headscope, "analyze", *arguments, "-"), input=b"a", capture_output=True, check=False)
        assert done.returncode == 2 and words in done.stderr.decode(), done.stderr


def test_a_served_model_has_the_name(start_server):
    server = start_server("--untrained", "5")
    assert [model["name"] for model in server.get("/models").json()["models"]] == ["mini-untrained-5"]
    assert server.post("/analyze", {"text": TEXT, "outputs": ["summary"]}).json()["model"] == "mini-untrained-5"
