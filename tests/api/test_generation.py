"""max_new_tokens: what models write, against the loop that sends the growing text, and the rules of generation_config.json
against the float64 references."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE, post_bytes, served_models
from test_formats import npz

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "reference"))
import family_bart  # noqa: E402
import family_cohere  # noqa: E402
import family_encoder_decoder  # noqa: E402
import family_gemma  # noqa: E402
import family_gpt2  # noqa: E402
import family_gpt_neox  # noqa: E402
import family_llama  # noqa: E402
import family_t5  # noqa: E402
from checkpoint import write_random  # noqa: E402

CAUSAL = {"gpt2": (family_gpt2, {}), "neox": (family_gpt_neox, {}), "llama": (family_llama, {}),
          "mistral": (family_llama, family_llama.VARIANTS["mistral"]), "olmo2": (family_llama, family_llama.VARIANTS["olmo2"]),
          "granite": (family_llama, family_llama.VARIANTS["granite"]), "glm4": (family_llama, family_llama.VARIANTS["glm4"]),
          "cohere2": (family_cohere, family_cohere.VARIANTS["cohere2"]),
          "gemma2": (family_gemma, family_gemma.VARIANTS["gemma2_caps"])}
STACKS = {"t5": (family_t5, dict(decoder=True)), "bart": (family_bart, dict(decoder=True)),
          "m2m_100": (family_bart, dict(decoder=True, kind="m2m_100", scaled=True)),
          "marian": (family_bart, dict(decoder=True, kind="marian", scaled=True, activation="swish")),
          "bert2bert": (family_encoder_decoder, {})}
# Rules, with ids that the model writes first without any: 0, 1, ... of them.
RULES = {
    "penalty": lambda ids: {"repetition_penalty": 1.8, "begin_suppress_tokens": [ids[0]]},
    "ngrams": lambda ids: {"no_repeat_ngram_size": 2, "suppress_tokens": [ids[1]], "forced_eos_token_id": 7},
    "words": lambda ids: {"bad_words_ids": [[ids[0]], [ids[1], ids[2]]], "eos_token_id": [ids[3], 5000], "min_length": 14},
    "stop": lambda ids: {"eos_token_id": ids[1], "min_new_tokens": 3, "num_beams": 4, "do_sample": True, "temperature": 2.0},
}
TEXT = "the war of the city was at the airport for many police"
NEW = 12


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("generation")
    made = {name: module.write_random(root / name, seed=3, **shape) for name, (module, shape) in {**CAUSAL, **STACKS}.items()}
    first = written(made["gpt2"], [5, 6, 7], {})
    for name, rules in RULES.items():
        made[name] = family_gpt2.write_random(root / name, seed=3)
        (made[name] / "generation_config.json").write_text(json.dumps(rules(list(dict.fromkeys([*first, 50, 51, 52])))))
    for name in STACKS:  # nothing stops them: random weights write what they read
        (made[name] / "generation_config.json").write_text("{}")
    for name, said in {"stopped": {"stop_strings": ["."]}, "begins": {"decoder_start_token_id": 5}}.items():
        made[name] = STACKS["t5"][0].write_random(root / name, seed=3, decoder=True)
        (made[name] / "generation_config.json").write_text(json.dumps(said))
    return made


@pytest.fixture(scope="module")
def served(folders, tmp_path_factory):
    yield from served_models({**folders, "bert": write_random(tmp_path_factory.mktemp("bert") / "bert")})


def written(folder, given, said):
    """The ids that GPT-2 writes behind `given`, by the float64 reference."""
    ids, n_given = list(given), len(given)
    stops = said.get("eos_token_id", [])
    stops = [stops] if isinstance(stops, int) else stops
    while len(ids) < n_given + NEW and not (len(ids) > n_given and ids[-1] in stops):
        heads = family_gpt2.forward(folder, np.array(ids))
        scores = family_gpt2.logits(folder, heads.hidden_states)[-1][-1].copy()
        seen, size = np.array(sorted(set(ids))), said.get("no_repeat_ngram_size", 0)
        scores[seen] *= np.where(scores[seen] < 0, said.get("repetition_penalty", 1), 1 / said.get("repetition_penalty", 1))
        banned = [ids[i + size - 1] for i in range(len(ids) - size + 1) if size and ids[i:i + size - 1] == ids[len(ids) - size + 1:]]
        banned += [word[-1] for word in said.get("bad_words_ids", []) if ids[len(ids) - len(word) + 1:] == word[:-1]]
        if len(ids) < said.get("min_length", 0) or len(ids) < n_given + said.get("min_new_tokens", 0):
            banned += [stop for stop in stops if stop < len(scores)]
        scores[banned] = -np.inf
        if "forced_eos_token_id" in said and len(ids) + 1 == n_given + NEW:
            scores[:] = -np.inf
            scores[said["forced_eos_token_id"]] = 0
        scores[said.get("suppress_tokens", [])] = -np.inf
        if len(ids) == n_given:
            scores[said.get("begin_suppress_tokens", [])] = -np.inf
        ids.append(int(scores.argmax()))
    return ids[n_given:]


@pytest.mark.parametrize("name", [*CAUSAL, *STACKS])
def test_each_token_is_the_most_probable_next_one(served, name):
    stack = {"stack": "decoder", "target_ids": [9, 40, 12, 33]} if name in STACKS else {}
    request = {"model": name, "text": TEXT, "layers": "all", "digits": 9, "outputs": ["attentions", "loss"], **stack,
             "predictions": {"positions": "all", "top_k": 1}}
    answer = served.analyze({**request, "max_new_tokens": NEW})
    marks = answer["generated"]
    n_given = marks.index(1)
    assert marks == [0] * n_given + [1] * NEW and answer["offset_mapping"] is None
    assert n_given == (5 if stack else len(served.post("/tokenize", {"text": TEXT, "model": name}).json()["tokens"]))
    written_at = [p for p in answer["predictions"] if n_given - 1 <= p["position"] < n_given + NEW - 1]
    assert [p["rank"] for p in written_at] == [1] * NEW
    # The same request with the ids that were written has the same answer.
    ids = answer["input_ids"]
    given = {"target_ids": ids[1:]} if stack else {"text": None, "input_ids": ids}
    again = served.analyze({key: value for key, value in {**request, **given}.items() if value is not None})
    del answer["generated"]
    assert answer == again


def test_a_target_is_continued(served):
    request = {"model": "bart", "text": TEXT, "stack": "cross", "outputs": []}
    whole = served.analyze({**request, "max_new_tokens": NEW})
    part = served.analyze({**request, "target_ids": whole["input_ids"][1:5], "max_new_tokens": NEW - 4})
    assert part["input_ids"] == whole["input_ids"]
    assert part["generated"] == [0] * 5 + [1] * (NEW - 4)
    assert part["source_tokens"] == whole["source_tokens"]


@pytest.mark.parametrize("name", RULES)
def test_rules_of_generation_config(served, folders, name):
    said = json.loads((folders[name] / "generation_config.json").read_text())
    answer = served.analyze({"model": name, "input_ids": [5, 6, 7], "max_new_tokens": NEW, "outputs": []})
    assert answer["input_ids"][3:] == written(folders[name], [5, 6, 7], said)


def test_arrays_and_interventions(served):
    """The model writes without the interventions, which change what is computed of the text."""
    request = {"model": "gpt2", "text": TEXT, "max_new_tokens": 3, "outputs": ["attentions"]}
    plain, changed = (npz(served, {**request, **more}) for more in
                      ({}, {"interventions": [{"layers": [0], "heads": "all", "kind": "zero"}]}))
    assert plain["generated"].tolist()[-4:] == [0, 1, 1, 1] and plain["attentions"].shape[-1] == len(plain["input_ids"])
    assert (changed["input_ids"] == plain["input_ids"]).all() and (changed["attentions"] != plain["attentions"]).any()


@pytest.mark.parametrize("model, fields, pointer, words", [
    ("gpt2", {"max_new_tokens": 0}, "/max_new_tokens", "1 to 128"),
    ("gpt2", {"max_new_tokens": 100, "max_tokens": 20}, "/max_new_tokens", "together more than max_tokens, 20"),
    ("gpt2", {"max_new_tokens": 5, "text_pair": "b"}, "/text_pair", "exclude each other"),
    ("gpt2", {"max_new_tokens": 5, "window": 0}, "/window", "exclude each other"),
    ("t5", {"max_new_tokens": 5, "stack": "decoder", "text_target": "b"}, "/text_target", "send target_ids"),
    ("t5", {"max_new_tokens": 5}, "/max_new_tokens", "send stack"),
    ("t5", {"stack": "decoder"}, "/text_target", "or max_new_tokens"),
    ("bert", {"max_new_tokens": 5}, "/max_new_tokens", "bert writes no text"),
    ("stopped", {"max_new_tokens": 5, "stack": "decoder"}, "/max_new_tokens", "stop_strings is not supported"),
    ("begins", {"max_new_tokens": 5, "stack": "decoder"}, "/max_new_tokens", "decoder_start_token_id is 5"),
])
def test_refusals(served, model, fields, pointer, words):
    answer = served.post("/analyze", {"text": TEXT, "model": model, **fields})
    assert answer.status == 422 and answer.json()["pointer"] == pointer
    assert words in answer.json()["detail"]


def test_keys_and_values_of_a_text_have_a_limit(start_server, tmp_path):
    folder = family_gpt2.write_random(tmp_path / "model", n_layers=4, hidden=256)  # 8 KiB a token
    server = start_server("--model", f"wide={folder}", "--max-maps", "1M")
    fields = {"text": TEXT, "model": "wide", "outputs": [], "max_tokens": 200}
    assert server.post("/analyze", {**fields, "max_new_tokens": 2}).status == 200
    answer = server.post("/analyze", {**fields, "max_new_tokens": 128})
    assert answer.status == 422 and answer.json()["pointer"] == "/max_new_tokens"
    assert "the limit is 1.0 MB: send a shorter text or fewer new tokens; --max-maps raises the limit" in answer.json()["detail"]


@pytest.mark.parametrize("name", [*CAUSAL, *STACKS])
def test_the_last_positions_are_written(served, name):
    """Up to the last one, and what is written there is most probable; one token more is refused."""
    n = next(m["max_tokens"] for m in served.get("/models").json()["models"] if m["name"] == name)
    given = [5 + k % 40 for k in range(n - 5)]
    fields = {"text": TEXT, "stack": "decoder", "target_ids": given[1:]} if name in STACKS else {"input_ids": given}
    refused = served.post("/analyze", {"model": name, **fields, "max_new_tokens": 6})
    assert refused.status == 422 and f"takes {n} tokens in all" in refused.json()["detail"]
    full = served.analyze({"model": name, **fields, "max_new_tokens": 5, "outputs": [], "digits": 9,
                           "predictions": {"positions": "all", "top_k": 1}})
    assert len(full["input_ids"]) == n and full["generated"][-6:] == [0, 1, 1, 1, 1, 1]
    assert [p["rank"] for p in full["predictions"] if n - 6 <= p["position"] < n - 1] == [1] * 5


def test_a_client_that_leaves_ends_the_writing(served):
    request = {"model": "t5", "text": TEXT, "stack": "cross", "outputs": ["attentions"], "max_new_tokens": 120}
    whole = served.analyze(request)

    def computed(times, ask):
        before = served.metrics()
        for _ in range(times):
            ask()
            served.wait_metric("requests_in_flight", lambda n: n == 1)
        after = served.metrics()
        assert after["process_open_fds"] <= before["process_open_fds"] + 2
        assert after["headscope_held_bytes"] <= before["headscope_held_bytes"]
        return after["headscope_tokens_total"] - before["headscope_tokens_total"]

    def leave():
        with served.socket() as client:
            client.sendall(post_bytes(request))

    one = computed(1, lambda: served.analyze(request))
    n = computed(20, leave)
    assert one >= 119 and n < 20 * one  # some of them ended early
    assert served.requests(route="/analyze", status="499") > 0
    assert served.analyze(request) == whole


@pytest.mark.slow
def test_what_transformers_writes():
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    done = subprocess.run([python, ROOT / "reference" / "generation_check.py"], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "HEADSCOPE": os.path.abspath(HEADSCOPE)})
    if done.returncode == 77:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stdout + done.stderr
