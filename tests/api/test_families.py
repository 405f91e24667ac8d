"""Every family against its float64 reference (tests/reference/family_*.py): maps, head outputs, similarities and
hidden states of random checkpoints in each layout that the family is published in.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, served_models, skip_without_int24

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import encoder  # noqa: E402
import family_albert  # noqa: E402
import family_bart  # noqa: E402
import family_bert  # noqa: E402
import family_bloom  # noqa: E402
import family_cohere  # noqa: E402
import family_deberta  # noqa: E402
import family_deberta_v2  # noqa: E402
import family_electra  # noqa: E402
import family_encoder_decoder  # noqa: E402
import family_esm  # noqa: E402
import family_falcon  # noqa: E402
import family_gemma  # noqa: E402
import family_gpt2  # noqa: E402
import family_gpt_neo  # noqa: E402
import family_gpt_neox  # noqa: E402
import family_gptj  # noqa: E402
import family_llama  # noqa: E402
import family_modernbert  # noqa: E402
import family_mpnet  # noqa: E402
import family_nomic_bert  # noqa: E402
import family_opt  # noqa: E402
import family_roberta  # noqa: E402
import family_t5  # noqa: E402
from test_formats import npz, safetensors  # noqa: E402
from test_reference import TEXTS, assert_close  # noqa: E402

HEADSCOPE = os.environ["HEADSCOPE"]
MINI = Path(__file__).resolve().parents[2] / "model" / "mini"
FAMILIES = {"bert": family_bert, "electra": family_electra, "mpnet": family_mpnet, "roberta": family_roberta,
            "albert": family_albert, "nomic_bert": family_nomic_bert, "modernbert": family_modernbert, "esm": family_esm,
            "deberta": family_deberta, "deberta-v2": family_deberta_v2, "gpt2": family_gpt2, "gptj": family_gptj, "gpt_neox": family_gpt_neox, "opt": family_opt,
            "gpt_neo": family_gpt_neo, "bloom": family_bloom, "falcon": family_falcon,
            "llama": family_llama, "gemma": family_gemma, "cohere": family_cohere,
            "t5": family_t5, "bart": family_bart, "encoder-decoder": family_encoder_decoder}
DEBERTA_ADDENDS = {"c2p_alone": ["c2c", "c2p"], "p2c_alone": ["c2c", "p2c"], "absolute": []}
MODELS = [(family, variant) for family, module in FAMILIES.items() for variant in module.VARIANTS]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """folder_of(family, variant), made when it is first requested."""
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
    done = subprocess.run(command, input=first.encode(), capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr.decode()
    with np.load(output) as answer:
        return dict(answer)


def check_heads(answer, heads, tolerance=1e-5):
    assert_close(answer["attentions"], heads.attentions, tolerance)
    assert_close(answer["hidden_states"], heads.hidden_states, tolerance * max(1, np.abs(heads.hidden_states).max()))
    for name, expected in (("head_outputs", heads.outputs), ("similarities", analysis.similarity(heads.outputs))):
        for l, h in np.ndindex(expected.shape[:2]):
            # With two tokens there is one similarity. It may be small next to the terms that it is the sum of.
            squares = (heads.outputs[l, h] ** 2).sum(-1).max() / 10 if name == "similarities" else 0
            scale = max(np.abs(expected[l, h]).max(), squares)
            assert_close(answer[name][l, h], expected[l, h], tolerance * scale)


@pytest.mark.parametrize("products", ["native", "cblas", "int24"])
@pytest.mark.parametrize("family, variant", MODELS)
def test_maps(folder_of, tmp_path, family, variant, products):
    folder = folder_of(family, variant)
    if products == "int24":
        skip_without_int24()
    options = ["--precision", products] if products == "int24" else ["--backend", products]
    answer = analyze(folder, tmp_path / "answer.npz", "paragraph", *options)
    assert len(answer["input_ids"]) > 70
    # Marian's embeddings have no norm, so the first layer's scores are 12 times as large: fp32 is off by 9e-6, int24 by 1.3e-5.
    tolerance = 2e-5 if (products, variant) == ("int24", "marian") else 1e-5
    check_heads(answer, FAMILIES[family].forward(folder, answer["input_ids"], answer["token_type_ids"]), tolerance)


def write_outliers(folder, factor, spared):
    """Three columns of each norm are larger, as in trained models. `spared`: the weights that read them are smaller."""
    checkpoint.write_random(folder, seed=3, hidden=96, ffn=200)
    tensors, columns = checkpoint.read_safetensors(folder / "model.safetensors"), [5, 17, 40]
    for name, values in tensors.items():
        if "LayerNorm" in name and name.endswith(("weight", "gamma")):
            values[columns] *= factor
        elif spared and name.endswith(("query.weight", "key.weight", "value.weight", "intermediate.dense.weight")):
            values[:, columns] /= factor
    checkpoint.write_safetensors(folder / "model.safetensors", tensors)
    return folder


@pytest.mark.parametrize("factor", [20, 100])
def test_outliers_keep_their_neighbours_digits(tmp_path, factor):
    skip_without_int24()
    folder = write_outliers(tmp_path / "model", factor, spared=True)
    answer = analyze(folder, tmp_path / "answer.npz", "paragraph", "--precision", "int24")
    check_heads(answer, family_bert.forward(folder, answer["input_ids"], answer["token_type_ids"]))


@pytest.mark.parametrize("factor", [20, 100])
def test_outliers_that_all_weights_read_are_no_worse_than_in_fp32(tmp_path, factor):
    """Scores are so large that fp32 is off by more than 1e-5, too."""
    skip_without_int24()
    folder, errors = write_outliers(tmp_path / "model", factor, spared=False), {}
    for precision in ("fp32", "int24"):
        answer = analyze(folder, tmp_path / "answer.npz", "paragraph", "--precision", precision)
        heads = family_bert.forward(folder, answer["input_ids"], answer["token_type_ids"])
        errors[precision] = np.abs(answer["attentions"] - heads.attentions).max()
    assert errors["int24"] < 4 * errors["fp32"]


# Buffers that transformers 4 or 5 saved, beside the embeddings and in layers. Version 5 writes the asterisk.
BUFFERS = {
    "embeddings.position_ids": np.arange(160)[None],
    "embeddings.token_type_ids": np.zeros((1, 160), int),
    "rotary_emb.inv_freq": np.ones(4),
}
LAYER_BUFFERS = {
    "0.attention.self.rotary_embeddings.inv_freq": np.ones(4),
    "*.attention.self.rotary_embeddings.inv_freq": np.ones(4),
    "1.attn.rotary_emb.original_inv_freq": np.ones(4),
    "1.attention.self.masked_bias": np.array(-1e4),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_buffers_that_transformers_saved(folder_of, tmp_path, family):
    """They change nothing. A layer's tensor under another name is refused by its name."""
    folder = folder_of(family, next(iter(FAMILIES[family].VARIANTS)))
    copy = shutil.copytree(folder, tmp_path / folder.name)
    tensors = checkpoint.read_safetensors(folder / "model.safetensors")
    prefix, layer = next(re.match(r"(.*?)((?:encoder\.)?(?:albert_layer_groups|layers?|h|block)\.)0\.", name).groups()
                         for name in tensors if ".0." in name)
    buffers = {prefix + name: values for name, values in BUFFERS.items()}
    buffers |= {prefix + layer + name: values for name, values in LAYER_BUFFERS.items()
                if family != "esm" or "rotary_embeddings" not in name}  # which it reads
    checkpoint.write_safetensors(copy / "model.safetensors", tensors | buffers)
    plain, buffered = (analyze(place, tmp_path / "answer.npz", "pair") for place in (folder, copy))
    for name in ("attentions", "similarities", "head_outputs", "hidden_states"):
        np.testing.assert_array_equal(buffered[name], plain[name])
    checkpoint.write_safetensors(copy / "model.safetensors", tensors | {f"{prefix}{layer}*.attn.scale": np.ones(1)})
    done = subprocess.run([HEADSCOPE, "models", copy], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1 and f"have no tensor {prefix}{layer}*.attn.scale" in done.stderr.decode()


@pytest.mark.parametrize("name", ["q_layernorm.norms.6.weight", "k_layernorm.norms.3.weight", "q_layernorm.norms.0", "q_layernorm.norms.",
                                  "q_layernorm.norms.0_weight", "q_layernorm.norms.weight"])
def test_norms_of_heads_that_are_not_there(folder_of, tmp_path, name):
    """The norms of StableLM's heads have numbers, and so many as there are heads of queries or of keys."""
    folder = folder_of("cohere", "stablelm_normed")
    copy = shutil.copytree(folder, tmp_path / folder.name)
    tensors = checkpoint.read_safetensors(folder / "model.safetensors")
    checkpoint.write_safetensors(copy / "model.safetensors", tensors | {"model.layers.0.self_attn." + name: np.ones(8)})
    done = subprocess.run([HEADSCOPE, "models", copy], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1 and f"have no tensor model.layers.0.self_attn.{name};" in done.stderr


# An unknown character and a written padding: ids 1 and 0, one of which moves positions where padding is counted out.
@pytest.mark.parametrize("text", ["pair", "word", "empty", "the \u6f22 war [PAD] was [MASK] [PAD]\u6f22 long"])
@pytest.mark.parametrize("family", FAMILIES)
def test_short_texts_and_pairs(folder_of, tmp_path, family, text):
    folder = folder_of(family, next(iter(FAMILIES[family].VARIANTS)))
    answer = analyze(folder, tmp_path / "answer.npz", text)
    check_heads(answer, FAMILIES[family].forward(folder, answer["input_ids"], answer["token_type_ids"]))


def last_row(folder, ids):
    """Returns what the last token attends to in the first layer of a ModernBERT with one head."""
    config, weights = checkpoint.read(folder)
    x = encoder.layer_norm(weights, "embeddings.norm", weights["embeddings.tok_embeddings.weight"][ids], config["norm_eps"])
    query, key, _ = np.split(encoder.dense(weights, "layers.0.attn.Wqkv", x)[None], 3, -1)
    query, key = (encoder.rotate(part, config["global_rope_theta"])[0] for part in (query, key))
    return encoder.softmax(key @ query[-1] / np.sqrt(key.shape[-1]))


@pytest.mark.slow
def test_a_modernbert_text_of_8192_tokens(start_server, tmp_path):
    folder = family_modernbert.write_random(tmp_path / "long", n_layers=2, n_heads=1, hidden=32, positions=8192)
    server = start_server("--model", f"x={folder}", "--max-answer", "256M")
    body = {"text": "the war was long . " * 1700, "max_tokens": 8192, "outputs": ["attentions"], "layers": "all"}
    refused = server.post("/analyze?format=npz", body)
    assert refused.status == 422
    assert "could take 538.0 MB, the limit is 268.4 MB" in refused.json()["detail"] and "ask for fewer layers, heads" in refused.json()["detail"]
    for layer in (0, 1):
        arrays = dict(npz(server, {**body, "layers": [layer], "dtype": "f2"}))
        rows = arrays["attentions"][0, 0]
        assert rows.shape == (8192, 8192)
        assert_close(rows.sum(1, dtype=float), 1, 0.02)
        if layer == 0:
            expected = last_row(folder, arrays["input_ids"])
            assert_close(rows[-1], expected, 1e-3 * expected.max())
        else:  # within its window of 17
            assert not np.triu(rows, 9).any() and not np.tril(rows, -9).any()


@pytest.mark.parametrize("family, variant", [model for model in MODELS if model[0].startswith("deberta")])
def test_addends_of_scores(folder_of, tmp_path, family, variant):
    folder = folder_of(family, variant)
    given = DEBERTA_ADDENDS.get(variant, ["c2c", "c2p", "p2c"])
    names = ["scores", *(f"scores_{kind}" for kind in given)]
    answer = analyze(folder, tmp_path / "answer.npz", "paragraph", "--outputs", ",".join(names))
    addends = FAMILIES[family].forward(folder, answer["input_ids"], answer["token_type_ids"]).addends
    total = sum(addends.values())
    assert_close(answer["scores"], total, 1e-5 * np.abs(total).max())
    for kind in given:
        assert_close(answer[f"scores_{kind}"], addends[kind], 1e-5 * np.abs(total).max())


def test_addends_of_some_heads_in_every_format(folder_of, start_server):
    server = start_server("--model", f"x={folder_of('deberta-v2', 'v3')}")
    names = ["scores_c2c", "scores_c2p", "scores_p2c"]
    body = {"text": TEXTS["pair"][0], "outputs": names, "layers": "all", "digits": 9}
    whole = {name: np.array(server.post("/analyze", body).json()[name], np.float32) for name in names}
    some = {**body, "layers": [0, -1], "heads": [1, 3]}
    for read in (npz, lambda *request: safetensors(*request)[1]):
        arrays = dict(read(server, some))
        for name in names:
            np.testing.assert_array_equal(arrays[name], whole[name][[0, 2]][:, [1, 3]])
    mean = np.array(server.post("/analyze", {**body, "reduce": "mean"}).json()["scores_p2c"])
    assert_close(mean[:, 0], whole["scores_p2c"].mean(1), 1e-5)


@pytest.fixture(scope="module")
def zoo(folder_of):
    """A server of models with every kind of position, named by family and variant."""
    variants = [("bert", "relu"), ("mpnet", "base"), ("t5", "base"), ("bart", "m2m_100"), ("modernbert", "old_keys"),
                *(("deberta-v2", variant) for variant in ("v3", "own_keys", "c2p_alone", "p2c_alone", "absolute"))]
    yield from served_models({f"{family}-{variant}": folder_of(family, variant) for family, variant in variants})


@pytest.mark.parametrize("family, variant, kind", [
    ("bert", "relu", "c2c"), ("mpnet", "base", "c2p"), ("modernbert", "old_keys", "p2c"),
    ("deberta-v2", "c2p_alone", "p2c"), ("deberta-v2", "p2c_alone", "c2p"), ("deberta-v2", "absolute", "c2c")])
def test_addends_that_a_model_lacks(zoo, family, variant, kind):
    name = f"{family}-{variant}"
    answer = zoo.post("/analyze", {"text": "a", "model": name, "outputs": ["pairs", f"scores_{kind}"]})
    assert answer.status == 422 and answer.json()["pointer"] == "/outputs"
    assert f"the scores of {name} have no term scores_{kind}" in answer.json()["detail"]


def test_deberta_as_transformers_5_saves_its_tokenizer(start_server, tmp_path):
    """A regular expression of its own for white space; tokens and offsets are those of the Rust library."""
    folder = family_deberta_v2.write_random(tmp_path / "v3", vocab=20)
    pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "▁", "▁war", "▁a", "a", "é", "\u00a0", "[MASK]"]
    special = {name: {"id": name, "ids": [pieces.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in special)
    text = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    (folder / "vocab.txt").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "DebertaV2Tokenizer", "cls_token": "[CLS]", '
                                                  '"sep_token": "[SEP]", "mask_token": "[MASK]", "unk_token": "[UNK]"}')
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0",
        "added_tokens": [{"id": pieces.index(name), "content": name, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for name in ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"Regex": "\\s{2,}|[\\n\\r\\t]"}, "content": " "}, {"type": "NFC"},
            {"type": "Strip", "strip_left": False, "strip_right": True}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": [first, text[0], last],
                           "pair": [first, text[0], last, text[1], last], "special_tokens": special},
        "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False,
                  "vocab": [[piece, -float(rank)] for rank, piece in enumerate(pieces)]}}))
    server = start_server("--model", f"x={folder}")
    answer = server.post("/tokenize", {"text": "war\ta \r\n\u3000war\u00a0e\u0301 \u00a0a[MASK] \n"}).json()
    assert answer["tokens"] == ["[CLS]", "\u2581war", "\u2581a", "\u2581war", "\u00a0", "\u00e9", "\u2581a", "[MASK]", "[SEP]"]
    assert answer["offset_mapping"] == [[0, 0], [0, 3], [3, 5], [8, 12], [12, 13], [13, 14], [16, 18], [18, 24], [0, 0]]


T5_PIECES = ["<pad>", "</s>", "<unk>", "▁", "▁war", "▁the", "s", "e", "é", "▁long", "<extra_id_1>", "<extra_id_0>"]


def t5_tokenizer(folder):
    """The tokenizer.json that transformers 5 saves for T5, with few pieces."""
    (folder / "vocab.txt").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", '
                                                  '"pad_token": "<pad>", "unk_token": "<unk>", "extra_ids": 2}')
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0",
        "added_tokens": [{"id": T5_PIECES.index(name), "content": name, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for name in ("<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>")],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]},
        "post_processor": {"type": "TemplateProcessing", "single": [first, end], "pair": [first, end, second, end],
                           "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": False,
                  "vocab": [[piece, -float(rank)] for rank, piece in enumerate(T5_PIECES)]}}))


def test_t5_with_its_tokenizer(start_server, tmp_path):
    """Ids and offsets are those of the Rust library: one special token, behind the text; sentinels within."""
    folder = family_t5.write_random(tmp_path / "t5", vocab=20)
    t5_tokenizer(folder)
    server = start_server("--model", f"x={folder}")
    answer = server.post("/tokenize", {"text": "the  wars <extra_id_0> long x"}).json()
    assert answer["tokens"] == ["▁the", "▁war", "s", "<extra_id_0>", "▁long", "▁", "<unk>", "</s>"]
    assert answer["input_ids"] == [5, 4, 6, 11, 9, 3, 2, 1]
    assert answer["offset_mapping"] == [[0, 3], [5, 8], [8, 9], [10, 22], [23, 27], [28, 29], [28, 29], [0, 0]]
    pair = dict(npz(server, {"text": "the war", "text_pair": "wars", "layers": "all",
                             "outputs": ["attentions", "similarities", "head_outputs", "hidden_states"]}))
    assert pair["tokens"].tolist() == ["▁the", "▁war", "</s>", "▁war", "s", "</s>"]
    check_heads(pair, family_t5.forward(folder, pair["input_ids"]))


def sentencepiece_model(pieces):
    """A Unigram of SentencePiece without a table of characters: pieces with their types, in falling score."""
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    listed = b"".join(field(1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", -rank) + bytes([0x18, kind]))
                      for rank, (piece, kind) in enumerate(pieces))
    unigram, unknown = b"\x18\x01", b"\xc0\x02\x02"  # model_type 1, unk_id 2
    return listed + field(2, unigram + unknown)


@pytest.mark.parametrize("kind, extra, sentinel", [
    ("t5", {}, [109]), ("mt5", {"extra_ids": 0}, None), ("t5", {"extra_ids": 2}, [11])])
def test_t5_with_its_sentencepiece_model(start_server, tmp_path, kind, extra, sentinel):
    """Ids are those of transformers 5.24: the pieces, then the sentinels from the last one to <extra_id_0>."""
    folder = family_t5.write_random(tmp_path / "t5", kind=kind, vocab=128)
    (folder / "vocab.txt").unlink()
    normal, unknown, control = 1, 2, 3
    types = {"<pad>": control, "</s>": control, "<unk>": unknown}
    pieces = [(piece, types.get(piece, normal)) for piece in T5_PIECES[:-2]]
    (folder / "spiece.model").write_bytes(sentencepiece_model(pieces))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", **extra}))
    server = start_server("--model", f"x={folder}")
    for text, ids in (("the  wars long x", [5, 4, 6, 9, 3, 2, 1]), ("", [1]), ("</s> s ", [1, 3, 6, 1])):
        assert server.post("/tokenize", {"text": text}).json()["input_ids"] == ids
    found = server.post("/tokenize", {"text": "war<extra_id_0>"}).json()["input_ids"]
    assert found == ([4, *sentinel, 1] if sentinel else [4, 2, 7, 2, 1])
    assert server.post("/tokenize", {"text": "war", "text_pair": "the"}).json()["input_ids"] == [4, 1, 5, 1]


@pytest.mark.parametrize("variant", ["base", "gated", "few_buckets"])
def test_t5_of_every_length(folder_of, start_server, variant):
    """The bias by distance at texts of 1 to 40 tokens, alone and side by side in one pass."""
    folder = folder_of("t5", variant)
    server = start_server("--model", f"x={folder}")
    ids = [(7 * i * i + 3 * i) % 290 + 5 for i in range(40)]
    body = {"layers": "all", "digits": 9, "outputs": ["attentions", "hidden_states"]}
    bodies = [{**body, "input_ids": ids[:n]} for n in range(1, 41)]
    lines = "\n".join(map(json.dumps, bodies))
    many = server.request("POST", "/analyze", lines, {"Content-Type": "application/x-ndjson"}).body.splitlines()
    assert len(many) == 40
    for n, line in enumerate(map(json.loads, many), 1):
        alone = server.post("/analyze", bodies[n - 1]).json()
        assert all(line[name] == alone[name] for name in body["outputs"])
        heads = family_t5.forward(folder, ids[:n])
        assert_close(np.array(alone["attentions"]), heads.attentions, 1e-5)
        assert_close(np.array(alone["hidden_states"]), heads.hidden_states, 1e-5 * np.abs(heads.hidden_states).max())


def test_a_t5_whose_files_disagree(tmp_path):
    folder = family_t5.write_random(tmp_path / "t5")
    config = json.loads((folder / "config.json").read_text())
    for change, fault in (({"feed_forward_proj": "gated-gelu"}, "no tensor encoder.block.0.layer.1.DenseReluDense.wi_0"),
                          ({"relative_attention_num_buckets": 16}, "must have the shape [16, 4]"),
                          ({"num_layers": 2}, "is of layer 2, and config.json says"),
                          ({"d_kv": 12}, "must have the shape [48, 48]")):
        (folder / "config.json").write_text(json.dumps(config | change))
        done = subprocess.run([HEADSCOPE, "models", folder], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and fault in done.stderr


def test_a_sentence_t5(start_server, tmp_path):
    """Mean of the states, a linear layer without bias, length 1; texts are cut to the files' max_seq_length."""
    folder = family_t5.write_random(tmp_path / "st5")
    rng = np.random.default_rng(5)
    linear = rng.normal(0, 0.2, (20, 48)).astype(np.float32)
    names = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Normalize": "Normalize"}
    (folder / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(names.items())]))
    for path in ("1_Pooling", "2_Dense"):
        (folder / path).mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True}))
    (folder / "2_Dense" / "config.json").write_text(json.dumps({
        "in_features": 48, "out_features": 20, "bias": False, "activation_function": "torch.nn.modules.linear.Identity"}))
    checkpoint.write_safetensors(folder / "2_Dense" / "model.safetensors", {"linear.weight": linear})
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16, "do_lower_case": false}')
    server = start_server("--model", f"x={folder}")
    answer = server.post("/analyze", {"text": "the war was long " * 9, "outputs": ["embedding"], "digits": 9}).json()
    assert len(answer["input_ids"]) == 16
    vector = family_t5.forward(folder, answer["input_ids"]).hidden_states[-1].mean(0) @ linear.T
    found = np.array(answer["embedding"]["vector"])
    assert_close(found, vector / np.linalg.norm(vector), 1e-5)


def test_a_changed_deberta(folder_of, start_server):
    """Interventions, value norms and states with a family whose scores are a sum."""
    folder = folder_of("deberta-v2", "v2_conv")
    server = start_server("--model", f"x={folder}")
    body = {"text": TEXTS["pair"][0], "layers": "all", "digits": 9, "outputs": ["attentions", "scores", "weighted_norms"]}
    plain = server.post("/analyze", body).json()
    for kind in ("zero", "mean", "uniform", "identity"):
        changed = server.post("/analyze", {**body, "interventions": [{"kind": kind, "layers": [0], "heads": [1]}]}).json()
        assert changed["scores"][0] == plain["scores"][0] and changed["scores"][1] != plain["scores"][1]
        assert max(map(max, changed["changes"]["attentions"])) > 0
    scaled = server.post("/analyze", {**body, "interventions": [{"kind": "scale", "factor": 1}]}).json()
    assert {name: scaled[name] for name in body["outputs"]} == {name: plain[name] for name in body["outputs"]}


def test_a_convolution_of_another_width_is_refused(tmp_path):
    folder = family_deberta_v2.write_random(tmp_path / "v2", **family_deberta_v2.VARIANTS["v2_conv"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"conv_kernel_size": 31}))
    done = subprocess.run([HEADSCOPE, "models", "--model", f"x={folder}"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "must have the shape [42, 42, 31]" in done.stderr


@pytest.mark.parametrize("family", FAMILIES)
def test_models_tells_the_family(folder_of, family):
    folder = folder_of(family, next(iter(FAMILIES[family].VARIANTS)))
    config = json.loads((folder / "config.json").read_text())
    done = subprocess.run([HEADSCOPE, "models", str(folder)], capture_output=True, check=True, text=True)
    header, row = done.stdout.splitlines()
    said = dict(zip(header.split(), row.split()))
    assert (said["NAME"], said["TYPE"], said["TOKENIZER"]) == (folder.name, config["model_type"], "WordPiece")
    assert set(said["POSITIONS"].split("+")) <= {"learned", "sinusoids", "rotary", "bias", "relative"} and said["MLM"] in ("yes", "no")
    assert said["WINDOW"] == ("8" if family in ("modernbert", "gemma", "gpt_neo") else "-")


PROTEINS = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>".split()


def test_a_protein_is_read_letter_by_letter(tmp_path):
    """ESM-2's own folder: a vocabulary of letters, and nothing else that says so but the model's type."""
    folder = tmp_path / "esm"
    family_esm.write_random(folder, seed=1, **{**next(iter(family_esm.VARIANTS.values())), "vocab": len(PROTEINS)})
    (folder / "vocab.txt").write_text("\n".join(PROTEINS))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 10**30}))
    answer = analyze(folder, tmp_path / "answer.npz", "MKTAY <mask>AKQR")
    assert answer["tokens"].tolist() == ["<cls>", *"MKTAY", "<mask>", *"AKQR", "<eos>"]
    assert answer["offset_mapping"][6:8].tolist() == [[6, 12], [12, 13]]
    check_heads(answer, family_esm.forward(folder, answer["input_ids"], answer["token_type_ids"]))


@pytest.mark.parametrize("family, variant, positions, windows", [
    ("bert", "relu", ["learned"], [None] * 3),
    ("mpnet", "base", ["learned", "bias"], [None] * 3),
    ("t5", "base", ["bias"], [None] * 3),
    ("m2m_100", "m2m_100", ["sinusoids"], [None] * 3),
    ("modernbert", "old_keys", ["rotary"], [None, 8, 8, None, 8]),
    ("deberta-v2", "v3", ["relative"], [None] * 3),
    ("deberta-v2", "own_keys", ["learned", "relative"], [None] * 3),
])
def test_models_tells_positions_and_windows(zoo, family, variant, positions, windows):
    name = f"{'bart' if family == 'm2m_100' else family}-{variant}"
    model, = (model for model in zoo.get("/models").json()["models"] if model["name"] == name)
    assert (model["type"], model["positions"], model["windows"]) == (family, positions, windows)


def test_the_interface_lists_every_type(server, tmp_path):
    """Types of `GET /models` in openapi.json are those that the program knows."""
    for name in ("vocab.txt", "model.safetensors"):
        (tmp_path / name).write_bytes((MINI / name).read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "unknown"}')
    done = subprocess.run([HEADSCOPE, "models", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    known = re.search(r'model_type "unknown" is not supported; known: (.*)', done.stderr)[1]
    described = server.get("/openapi.json").json()["components"]["schemas"]["Model"]["properties"]["type"]["enum"]
    assert known == ", ".join(described)


@pytest.mark.parametrize("prefix, saved", [("language_model.model.", "all"), ("model.language_model.", "all"), ("language_model.model.", "some")])
def test_the_text_part_of_a_model_of_images(tmp_path, prefix, saved):
    """Gemma 3 of images and text: the maps of its text part, by the names of versions 4 and 5 of transformers, and a warning."""
    plain = family_gemma.write_random(tmp_path / "text", **family_gemma.VARIANTS["gemma3"])
    both = shutil.copytree(plain, tmp_path / "both")
    text = json.loads((plain / "config.json").read_text())
    if saved == "some":  # keys that are those of the class are left out
        text.pop("model_type")
    weights = {prefix + name.removeprefix("model."): values for name, values in checkpoint.read_safetensors(plain / "model.safetensors").items()}
    weights["vision_tower.vision_model.post_layernorm.weight"] = np.ones(4)
    checkpoint.write_safetensors(both / "model.safetensors", weights)
    (both / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text, "vision_config": {"model_type": "siglip_vision_model"}}))

    def run(folder):
        return subprocess.run([HEADSCOPE, "analyze", "--model", folder, "--layers", "all", "--outputs", "attentions", "-"], input=b"the war of the city",
                              capture_output=True, check=True)
    found = run(both)
    assert json.loads(found.stdout)["attentions"] == json.loads(run(plain).stdout)["attentions"]
    assert b"both is a model of images and text, of which the text part alone is read, as gemma3_text" in found.stderr
