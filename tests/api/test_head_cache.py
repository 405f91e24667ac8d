"""Cached maps never reach a request with another input, model or intervention."""
import json
import random

from conftest import MINI, post_bytes

TEXTS = ["the river war old bridge", "the river war old bridge .", "THE RIVER WAR OLD BRIDGE", "the river", "[MASK] river war"]
OUTPUTS = ["attentions", "similarities", "head_outputs", "summary", "pairs", "scores", "value_norms", "predictions", "rollout"]


def intervention(rng):
    one = {"kind": rng.choice(["zero", "mean", "uniform", "scale"]), "layers": [rng.randrange(4)], "heads": [rng.randrange(4)]}
    return {**one, "factor": rng.choice([0.5, 1, 2, 0.0, -0.0])} if one["kind"] == "scale" else one


def question(rng):
    """Few texts and models, so that most requests meet one like themselves but for a token, a type or a head."""
    body = {"model": rng.choice("abc"), "text": rng.choice(TEXTS), "layers": rng.choice(["all", [0], [1, 2], [-1]]),
            "heads": rng.choice(["all", [0], [1, 2]]), "outputs": rng.sample(OUTPUTS, rng.randint(1, 3))}
    if rng.random() < 0.4:
        body["text_pair"] = rng.choice(["old bridge", "of and in boat"])
    if rng.random() < 0.4:
        body["split_special_tokens"] = True
    if rng.random() < 0.4:
        body["max_tokens"] = rng.choice([4, 8, 12])
    if rng.random() < 0.5:
        body["interventions"] = [intervention(rng) for _ in range(rng.randint(1, 2))]
    return body


def other_model(folder):
    """The built-in model but for its word embeddings: the first half and the second have changed places."""
    folder.mkdir()
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).write_bytes((MINI / name).read_bytes())
    weights = (MINI / "model.safetensors").read_bytes()
    n_header = 8 + int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8:n_header])
    begin, end = next(one["data_offsets"] for name, one in header.items() if name.endswith("word_embeddings.weight"))
    words = weights[n_header + begin:n_header + end]
    half = len(words) // 2
    (folder / "model.safetensors").write_bytes(
        weights[:n_header + begin] + words[half:] + words[:half] + weights[n_header + end:])
    return folder


def test_a_server_with_a_cache_answers_as_one_without(start_server, tmp_path):
    models = f"a={MINI},b={other_model(tmp_path / 'other')},c={MINI}"
    kept, fresh = start_server("--model", models), start_server("--model", models, "--cache", "0")
    rng = random.Random(3)
    for _ in range(200):
        body = question(rng)
        if rng.random() < 0.2:  # a client that leaves: its pass is given up, and must leave no part of it
            with kept.socket() as leaving:
                leaving.sendall(post_bytes(question(rng)))
        mine, other = kept.post("/analyze", body), fresh.post("/analyze", body)
        assert (mine.status, mine.body) == (200, other.body), body
    assert kept.metric("cache_hits_total") > 20
