"""Causal models: their mask, and predictions of the next token, against the float64 references."""
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, served_models
from test_formats import npz, safetensors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import encoder  # noqa: E402
import family_bloom  # noqa: E402
import family_cohere  # noqa: E402
import family_falcon  # noqa: E402
import family_gemma  # noqa: E402
import family_gpt2  # noqa: E402
import family_gpt_neo  # noqa: E402
import family_gpt_neox  # noqa: E402
import family_gptj  # noqa: E402
import family_llama  # noqa: E402
import family_opt  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MODELS = {
    "gpt2": (family_gpt2, {}), "gpt2_untied": (family_gpt2, family_gpt2.VARIANTS["untied_f16"]),
    "neox": (family_gpt_neox, {}), "neo": (family_gpt_neo, {}), "opt": (family_opt, {}), "opt_350m": (family_opt, family_opt.VARIANTS["350m"]),
    "gptj": (family_gptj, {}), "gptj_tied": (family_gptj, family_gptj.VARIANTS["tied_f16"]), "llama": (family_llama, {}),
    "llama_tied": (family_llama, family_llama.VARIANTS["llama_ungrouped_tied"]),
    "mistral": (family_llama, family_llama.VARIANTS["mistral"]), "qwen3": (family_llama, family_llama.VARIANTS["qwen3"]),
    "phi3": (family_llama, family_llama.VARIANTS["phi3"]), "olmo2": (family_llama, family_llama.VARIANTS["olmo2"]),
    **{kind: (family_llama, family_llama.VARIANTS[kind]) for kind in ("ministral", "granite", "seed_oss", "helium", "glm", "glm4", "olmo3")},
    **{kind: (family_cohere, family_cohere.VARIANTS[kind]) for kind in ("cohere", "cohere2", "phi", "stablelm", "starcoder2")},
    **{kind: (family_gpt2, family_gpt2.VARIANTS[kind]) for kind in ("gpt_bigcode", "openai-gpt")},
    **{kind: (family_opt, family_opt.VARIANTS[kind]) for kind in ("biogpt", "xglm")}, "bloom": (family_bloom, {}),
    "falcon": (family_falcon, {}), "falcon_groups": (family_falcon, family_falcon.VARIANTS["groups"]),
    "gemma": (family_gemma, family_gemma.VARIANTS["gemma"]),
    "gemma2": (family_gemma, family_gemma.VARIANTS["gemma2_caps"]), "gemma3": (family_gemma, dict(kind="gemma3_text")),
}
WINDOWS = {"neo": [None, 8, None], "mistral": [8] * 3, "phi3": [8] * 3, "ministral": [None, 8, None], "cohere2": [8, 8, 8, None], "starcoder2": [8] * 3, "olmo3": [8, 8, 8, None], "gemma2": [8, None] * 2, "gemma3": [8] * 4}
TEXT = "the war of the city was at the airport for many police"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("causal")
    return {name: module.write_random(root / name, seed=3, **shape) for name, (module, shape) in MODELS.items()}


@pytest.fixture(scope="module")
def served(folders, tmp_path_factory):
    root = tmp_path_factory.mktemp("others")
    others = {"base": family_llama.write_random(root / "base", headless=True),
              "eurobert": family_llama.write_random(root / "eurobert", kind="eurobert")}
    yield from served_models({**folders, **others})


def ask(server, model, **fields):
    return server.analyze({"text": TEXT, "model": model, "outputs": ["hidden_states"], "layers": "all",
                           "digits": 9, **fields})


@pytest.mark.parametrize("name", MODELS)
def test_next_tokens(served, folders, name):
    answer = ask(served, name, predictions={"top_k": 3, "lens": True})
    module = MODELS[name][0]
    heads = module.forward(folders[name], answer["input_ids"])
    expected = encoder.softmax(module.logits(folders[name], heads.hidden_states))
    ids, entries = answer["input_ids"], answer["predictions"]
    assert [entry["position"] for entry in entries] == list(range(len(ids)))
    for t, entry in enumerate(entries):
        last = t + 1 == len(ids)
        assert entry["token"] == (None if last else answer["tokens"][t + 1])
        for depth, reading in enumerate(entry["layers"]):
            assert [top["probability"] for top in reading["top"]] == pytest.approx(
                np.sort(expected[depth, t])[::-1][:3].tolist(), rel=2e-4, abs=1e-7)
            if last:
                assert reading["probability"] is None and reading["rank"] is None
            else:
                assert reading["probability"] == pytest.approx(expected[depth, t, ids[t + 1]], rel=2e-4, abs=1e-9)
                assert abs(reading["rank"] - 1 - np.sum(expected[depth, t] > expected[depth, t, ids[t + 1]])) <= 1


@pytest.mark.parametrize("name", MODELS)
def test_loss(served, folders, name):
    answer = ask(served, name, outputs=["loss"])
    module, ids = MODELS[name][0], answer["input_ids"]
    states = module.forward(folders[name], ids).hidden_states[-2:]
    expected = -np.log(encoder.softmax(module.logits(folders[name], states)[-1]))[np.arange(len(ids) - 1), ids[1:]]
    assert answer["loss"]["tokens"] == pytest.approx(expected, rel=1e-5)
    assert answer["loss"]["mean"] == pytest.approx(expected.mean(), rel=1e-5)


def test_loss_with_interventions(served):
    request = {"outputs": ["loss"], "interventions": [{"kind": "zero", "layers": [0], "heads": [1]}]}
    plain, changed = ask(served, "gpt2", outputs=["loss"]), ask(served, "gpt2", **request)
    assert changed["changes"]["loss"] == plain["loss"] != changed["loss"]
    body = {"text": TEXT, "model": "gpt2", **request}
    for arrays in (npz(served, body), safetensors(served, body)[1]):
        for name, loss in (("loss", changed["loss"]), ("changes_loss", plain["loss"])):
            assert arrays[name].tolist() == pytest.approx(loss["tokens"], rel=1e-7)
            assert arrays[name + "_mean"] == pytest.approx(loss["mean"], rel=1e-7) and arrays[name + "_mean"].shape == ()


def test_loss_in_lines_and_parts(served):
    """A text's loss is that of a longer one up to its end; a text of one token has none."""
    ids = ask(served, "llama", outputs=["loss"])["input_ids"]
    lines = [{"input_ids": ids[:n], "model": "llama", "outputs": ["loss"], "digits": 9} for n in (len(ids), 5, 1)]
    answer = served.request("POST", "/analyze", "\n".join(map(json.dumps, lines)).encode(),
                            {"Content-Type": "application/x-ndjson"})
    whole, part, single = (json.loads(line)["loss"] for line in answer.body.splitlines())
    assert part["tokens"] == pytest.approx(whole["tokens"][:4], rel=1e-5)
    assert single == {"mean": None, "tokens": []}


def test_the_future_changes_nothing(served):
    """A longer text has the same states and predictions where the shorter one ends."""
    for name in MODELS:
        ids = ask(served, name)["input_ids"]
        short, long = (served.post("/analyze", {
            "input_ids": some, "model": name, "outputs": ["hidden_states", "attentions"], "layers": "all", "digits": 9,
        }).json() for some in (ids[:6], ids))
        a, b = np.array(short["hidden_states"]), np.array(long["hidden_states"])[:, :6]
        assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max()
        assert not np.triu(np.array(long["attentions"]), 1).any()


SHARED = {"llama": 2, "mistral": 2, "gpt2": 1}  # heads that read one key-value head


@pytest.mark.parametrize("name", SHARED)
def test_keys_and_values_are_by_key_value_head(served, name):
    """Checks the requested heads: the key-value heads they read, and scores, outputs and norms that follow from
    these."""
    heads = [0, 1, 3]
    body = {"text": TEXT, "model": name, "layers": [0, 1], "heads": heads, "dtype": "f4",
            "outputs": ["queries", "keys", "values", "attentions", "scores", "head_outputs", "value_norms"]}
    got = npz(served, body)
    shared = sorted({head // SHARED[name] for head in heads})
    assert got["keys"].shape == got["values"].shape == (2, len(shared), *got["queries"].shape[2:])
    keys, values = (got[part][:, [shared.index(head // SHARED[name]) for head in heads]] for part in ("keys", "values"))
    products = got["queries"] @ keys.swapaxes(2, 3) / np.sqrt(keys.shape[-1])
    seen = np.isfinite(got["scores"])
    assert products[seen] == pytest.approx(got["scores"][seen], abs=1e-4)
    assert got["attentions"] @ values == pytest.approx(got["head_outputs"], abs=1e-4)
    assert got["value_norms"].shape == (2, len(heads), len(got["tokens"]))
    hooks = npz(served, body, "&names=hooks")
    assert (hooks["blocks.1.attn.hook_k"] == got["keys"][1].swapaxes(0, 1)).all()
    for reduce, of in (("sum", np.sum), ("mean", np.mean)):
        assert npz(served, {**body, "reduce": reduce})["keys"] == pytest.approx(of(got["keys"], 1, keepdims=True), abs=1e-5)
    listed = served.post("/analyze", {**body, "digits": 9}).json()
    assert np.array(listed["values"]) == pytest.approx(got["values"], rel=1e-6)


def test_scores_above_the_diagonal_are_hidden(served):
    scores = ask(served, "mistral", outputs=["scores"])["scores"]
    for i, row in enumerate(scores[0][0]):
        assert [value is None for value in row] == [not i - 9 < j <= i for j in range(len(row))]


def test_interventions_and_effects(served):
    changed = ask(served, "llama", outputs=["attentions"], interventions=[{"kind": "uniform", "layers": [0], "heads": [1]}])
    rows = np.array(changed["attentions"])[0, 1]
    n = len(rows)
    assert np.allclose(rows, np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None], atol=1e-6)
    effects = ask(served, "neox", outputs=["effects"])["effects"]
    before = ask(served, "neox", predictions={})["predictions"]
    after = ask(served, "neox", predictions={}, interventions=[{"kind": "zero", "layers": [1], "heads": [2]}])["predictions"]
    change = np.mean([np.log(b["probability"] / a["probability"]) for a, b in zip(before[:-1], after[:-1])])
    assert effects[1][2]["logprob_change"] == pytest.approx(change, rel=1e-3, abs=1e-6)


def test_models_says_what_is_causal(served):
    models = served.get("/models").json()["models"]
    assert {model["name"] for model in models} > set(SHARED)
    for model in models:
        if model["name"] in SHARED:
            assert model["num_key_value_heads"] * SHARED[model["name"]] == model["num_heads"]
        assert model["causal"] == (model["name"] != "eurobert")
        assert model["mlm"] == (model["name"] == "eurobert")
        assert model["task"] == {"eurobert": "fill-mask", "base": None}.get(model["name"], "text-generation")
        assert model["windows"] == WINDOWS.get(model["name"], [None] * model["num_layers"])


BIDIRECTIONAL = {"gpt2": (family_gpt2, {}), "neox": (family_gpt_neox, {}), "llama": (family_llama, {}),
                 **{kind: (family_llama, family_llama.VARIANTS[kind]) for kind in ("mistral", "qwen2", "qwen3")}}


def without_mask(folder, value):
    """The checkpoint with is_causal in its config.json, as LLM2Vec and other encoders made of decoders have it."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "is_causal": value}))
    return folder


@pytest.fixture(scope="module")
def bidirectional(tmp_path_factory):
    root = tmp_path_factory.mktemp("bidirectional")
    folders = {name: without_mask(module.write_random(root / name, seed=3, **shape), False)
               for name, (module, shape) in BIDIRECTIONAL.items()}
    for server in served_models(folders):
        yield server, folders


@pytest.mark.parametrize("name", BIDIRECTIONAL)
def test_is_causal_false_shows_every_token_the_whole_text(bidirectional, name):
    server, folders = bidirectional
    answer = ask(server, name, outputs=["hidden_states", "attentions"], predictions={"top_k": 1})
    module, ids = BIDIRECTIONAL[name][0], answer["input_ids"]
    heads = module.forward(folders[name], ids)
    assert np.abs(np.array(answer["attentions"]) - heads.attentions).max() <= 1e-5
    assert np.abs(np.array(answer["hidden_states"]) - heads.hidden_states).max() <= 1e-5 * np.abs(heads.hidden_states).max()
    assert np.triu(np.array(answer["attentions"]), 1).any()
    expected = encoder.softmax(module.logits(folders[name], heads.hidden_states[-2:])[-1])
    assert [entry["probability"] for entry in answer["predictions"][:-1]] == pytest.approx(
        expected[np.arange(len(ids) - 1), ids[1:]].tolist(), rel=2e-4, abs=1e-9)


def test_models_say_that_is_causal_is_false(bidirectional):
    models = bidirectional[0].get("/models").json()["models"]
    assert {model["name"]: (model["causal"], model["mlm"], model["task"]) for model in models} == dict.fromkeys(
        BIDIRECTIONAL, (False, False, "text-generation"))


@pytest.mark.parametrize("value, causal", [(True, True), (False, False), (None, False)])  # transformers takes null as false
def test_values_of_is_causal(tmp_path, value, causal):
    folder = without_mask(family_gpt2.write_random(tmp_path / "model"), value)
    done = subprocess.run([HEADSCOPE, "analyze", "--model", folder, "--outputs", "attentions", "--layers", "0", "-"],
                          input=TEXT.encode(), capture_output=True, check=True, timeout=PATIENCE)
    assert np.triu(np.array(json.loads(done.stdout)["attentions"]), 1).any() != causal


def test_another_is_causal_is_refused(tmp_path):
    folder = without_mask(family_gpt2.write_random(tmp_path / "model"), "no")
    done = subprocess.run([HEADSCOPE, "models", folder], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "is_causal must be true or false" in done.stderr


def test_refusals(served):
    masked = served.post("/analyze", {"text": TEXT, "model": "gpt2", "predictions": {"positions": "masked"}})
    assert masked.status == 422 and masked.json()["pointer"] == "/predictions/positions"
    assert "predicts the next token" in masked.json()["detail"]
    headless = served.post("/analyze", {"text": TEXT, "model": "base", "outputs": ["predictions"]})
    assert headless.status == 422
    for model, says in (("base", "has no tensor lm_head.weight, and its config.json does not tie it"),
                        ("eurobert", "no head for the output loss")):
        lossless = served.post("/analyze", {"text": TEXT, "model": model, "outputs": ["attentions", "loss"]})
        assert lossless.status == 422 and lossless.json()["pointer"] == "/outputs/1"
        assert says in lossless.json()["detail"]


@pytest.mark.parametrize("module, change, message", [
    (family_llama, {"rope_parameters": {"rope_type": "su", "factor": 2.0}}, 'not supported: "su"'),
    (family_llama, {"rope_parameters": {"rope_type": "yarn"}}, "factor is missing"),
    (family_llama, {"rope_parameters": {"rope_type": "longrope", "short_factor": [1]}}, "short_factor must be a list of 6 numbers"),
    (family_llama, {"attention_bias": True}, "no tensor model.layers.0.self_attn.q_proj.bias"),
    (family_llama, {"model_type": "mistral", "sliding_window": None, "layer_types": ["full_attention"] * 3}, "sliding_window must be an integer"),
    (family_llama, {"model_type": "mistral", "attention_bias": True}, "attention_bias is not supported"),
    (family_llama, {"num_key_value_heads": 3}, "is not a multiple of num_key_value_heads (3)"),
    (family_gpt2, {"scale_attn_by_inverse_layer_idx": 2}, "scale_attn_by_inverse_layer_idx must be true or false"),
    (family_llama, {"model_type": "smollm3", "no_rope_layers": [1, 2, 0]}, "no_rope_layers must have a 0 or a 1 for layer 1"),
    (family_llama, {"model_type": "smollm3", "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4},
     'layer_types must name "full_attention" for each layer'),
    (family_llama, {"model_type": "phi3", "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
     'rope_type must be "default" or "longrope" for this family'),
    (family_gemma, {"use_bidirectional_attention": True}, "use_bidirectional_attention is not supported"),
    (family_gemma, {"attn_logit_softcapping": 0}, "attn_logit_softcapping must be a number from 1e-06 to 1e+06; it is 0"),
    (family_gemma, {"sliding_window": None}, "sliding_window must be an integer"),
    (family_gemma, {"model_type": "gemma3_text"}, "attn_logit_softcapping is not supported"),
    (family_gptj, {"rotary_dim": 13}, "rotary_dim must be an integer from 2 to 12; it is 13"),
    (family_gptj, {"rotary_dim": None}, "rotary_dim must be an integer from 2 to 12"),
    (family_gptj, {"rotary_dim": 7}, "of an even width; here it is 7"),
    (family_gpt_neo, {"attention_layers": ["global", "local"]}, "attention_types names 2 layers; there are 3"),
    (family_gpt_neo, {"attention_layers": ["global", "local", "wide"]}, 'must name "global" or "local" for each of the 3 layers'),
    (family_gpt_neo, {"is_causal": False}, "is_causal must be true"),
    (family_bloom, {"is_causal": False}, "is_causal must be true"),
    (family_bloom, {"n_embed": 24}, "hidden_size (48) must be equal to n_embed"),
    (family_bloom, {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm is not supported"),
    (family_falcon, {"alibi": True}, "alibi must be false"),
    (family_falcon, {"model_type": "RefinedWebModel"}, 'model_type "RefinedWebModel" is not supported'),
    (family_falcon, {"is_causal": False}, "is_causal must be true"),
    (family_falcon, {"n_embed": 24}, "n_embed must be an integer from 48 to 48; it is 24"),
    (family_falcon, {"head_dim": 12}, "head_dim is not supported"),
    (family_falcon, {"new_decoder_architecture": True, "parallel_attn": False}, "parallel_attn must be true"),
    (family_falcon, {"parallel_attn": None}, "no tensor transformer.h.0.post_attention_layernorm.weight"),
    (family_falcon, {"multi_query": None}, "query_key_value.weight must have the shape [144, 48]"),
    (family_falcon, {"new_decoder_architecture": True, "num_kv_heads": 3}, "num_kv_heads (3) must divide num_attention_heads (4)"),
    (family_falcon, {"multi_query": False, "num_kv_heads": 2}, "num_kv_heads (2) must be equal to num_attention_heads (4)"),
    (family_falcon, {"num_ln_in_parallel_attn": 2}, "num_ln_in_parallel_attn must be"),
    (family_falcon, {"bias": True}, "no tensor transformer.h.0.self_attention.query_key_value.bias"),
    (family_gpt2, {"model_type": "openai-gpt", "afn": "gelu_new"}, 'afn must be "gelu", "relu", "silu" or "swish"; not supported: "gelu_new"'),
    (family_opt, {"enable_bias": False}, "enable_bias must be true"),
    (family_opt, {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine must be true"),
    (family_opt, {"_remove_final_layer_norm": True}, "_remove_final_layer_norm is not supported"),
    (family_opt, {"word_embed_proj_dim": 24}, "decoder.embed_tokens.weight must have the shape [300, 24], as config.json says"),
    (family_cohere, {"model_type": "cohere2", "sliding_window": 9, "use_qk_norm": True}, "use_qk_norm is not supported"),
    (family_cohere, {"model_type": "stablelm", "head_dim": 9}, "head_dim must be hidden_size / num_attention_heads (12)"),
    (family_gpt_neox, {"rotary_pct": 0.01}, "leave nothing to rotate"),
    (family_gpt_neox, {"attention_bias": False}, "attention_bias must be true"),
])
def test_configs_that_are_refused(tmp_path, module, change, message):
    folder = module.write_random(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    done = subprocess.run([HEADSCOPE, "models", folder], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and message in done.stderr


def test_corpus(folders, tmp_path):
    """A run has what an encoder's has. The claim about separators does not apply, nor do two over more layers than there
    are."""
    lines = [json.dumps({"text": TEXT + ". " + TEXT[n:]}) for n in range(12)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run([HEADSCOPE, "corpus", tmp_path / "texts.jsonl", "-o", tmp_path / "out", "--model", folders["neox"],
                           "--layers", "all", "--max-tokens", "40"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["texts"] == len(lines) and report["provenance"]["model"]["causal"] is True
    assert [finding["applies"] for finding in report["findings"]] == [False, True, True, True, True, False, False, True]
    assert report["findings"][0]["holds"] is None and report["findings"][0]["verdict"] == "does not apply"
    assert "does not apply" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    with np.load(tmp_path / "out" / "report.npz") as arrays:
        assert not np.triu(arrays["attention_sum"], 1).any() and arrays["attention_sum"].any()


def test_a_file_and_its_text_are_the_same(folders, tmp_path):
    """The last line feed and a byte order mark are the file's; others are the text's."""
    tokenizer = {"type": "BPE", "vocab": {c: i for i, c in enumerate("Gof.\u010a\u0120\u010d\u00ef\u00bb\u00bf")}, "merges": []}
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "model" / name).write_bytes((folders["gpt2"] / name).read_bytes())
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "model": tokenizer,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}}))

    def tokens(text):
        done = subprocess.run([HEADSCOPE, "analyze", "--model", tmp_path / "model", "--outputs", "summary", "-"],
                              input=text, capture_output=True, check=True, timeout=PATIENCE)
        return json.loads(done.stdout)["tokens"]
    plain = ["G", "o", "o", "f", "."]
    for text in (b"Goof.", b"Goof.\n", b"Goof.\r\n", b"\xef\xbb\xbfGoof.", b"\xef\xbb\xbfGoof.\n"):
        assert tokens(text) == plain
    assert tokens(b"Goof.\n\n") == [*plain, "\u010a"] and tokens(b"\nGoof.\r") == ["\u010a", *plain, "\u010d"]
    assert tokens(b"Goof.\xef\xbb\xbf") == [*plain, "\u00ef", "\u00bb", "\u00bf"]


def test_a_token_without_a_row_of_the_embedding(folders, tmp_path):
    """The checkpoint opens, as in transformers; a text with the token is refused, and a corpus skips it."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((folders["gpt2"] / name).read_bytes())
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "normalizer": None, "post_processor": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "added_tokens": [{"id": rows, "content": "[PAD]", "special": True, "normalized": False}],
        "model": {"type": "WordLevel", "vocab": {f"t{i}": i for i in range(rows)}, "unk_token": "t0"}}))
    command = [HEADSCOPE, "analyze", "--model", folder, "--outputs", "summary"]

    def run(text, *more):
        return subprocess.run([*command, *more, "-"], input=text, capture_output=True, text=True, timeout=PATIENCE)
    assert json.loads(run("t1 t5").stdout)["tokens"] == ["t1", "t5"]
    assert json.loads(run("t1 [PAD]", "--split-special-tokens").stdout)["tokens"] == ["t1", "t0"]
    refused = run("t1 [PAD]")
    assert refused.returncode == 2 and f"'[PAD]' with id {rows}, for which the model has no embedding" in refused.stderr
    (tmp_path / "texts").write_text("t1 t2 t3\nt4 [PAD]\nt5 t6\n")
    done = subprocess.run([HEADSCOPE, "corpus", "--model", folder, "-o", tmp_path / "run", tmp_path / "texts"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "report.json").read_text())["texts"] == 2
