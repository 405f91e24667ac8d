"""GGUF files, the one-file format of llama.cpp: they are what the folders of transformers are that they were made of.
tests/reference/gguf_check.py compares files that PyPI's gguf wrote with transformers."""
import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import checkpoint  # noqa: E402
import family_gpt2  # noqa: E402
import family_llama  # noqa: E402

F32, F16, Q4_0, Q8_0, Q4_K, BF16 = 0, 1, 2, 8, 12, 30
NORMAL, UNKNOWN, CONTROL, OWN, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TEXT = "the police at the airport were new"


# ---- writing ----

def text_of(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value_of(value):
    """A value behind its type."""
    if isinstance(value, bytes):  # as it is
        return value
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<IQ", 10, value) if value >= 1 << 32 else struct.pack("<Ii" if value < 0 else "<II", 5 if value < 0 else 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_of(value)
    parts = [value_of(item) for item in value]
    return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(parts)) + b"".join(part[4:] for part in parts)


def quantized(array, type_):
    """The bytes of an array, and the values that they stand for."""
    array = np.ascontiguousarray(array, np.float32)
    if type_ == F32 or (type_ == Q8_0 and array.ndim == 1):
        return F32, array.tobytes(), array
    if type_ == F16:
        half = array.astype(np.float16)
        return F16, half.tobytes(), half.astype(np.float32)
    if type_ == BF16:
        bits = checkpoint.bf16_bits(array)
        return BF16, bits.astype("<u2").tobytes(), (bits.astype(np.uint32) << 16).view(np.float32)
    blocks = array.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    numbers = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-9)).clip(-127, 127).astype(np.int8)
    data = b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, numbers))
    return Q8_0, data, (scales.astype(np.float32) * numbers).reshape(array.shape)


def file_of(values, tensors, version=3, magic=b"GGUF", step=32, ending=b""):
    """A file of {key: value} and {name: (type, dimensions, bytes)}; dimensions in llama.cpp's order."""
    listed, data = b"", b""
    for name, (type_, dimensions, content) in tensors.items():
        data += b"\0" * (-len(data) % step)
        listed += text_of(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, type_, len(data))
        data += content
    head = magic + struct.pack("<IQQ", version, len(tensors), len(values))
    head += b"".join(text_of(key) + value_of(value) for key, value in values.items()) + listed
    return head + b"\0" * (-len(head) % step) + data + ending


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
         "transformer.": "", "h.": "blk.", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
         "ln_1": "attn_norm", "ln_2": "ffn_norm", "ln_f": "output_norm", "wte": "token_embd", "wpe": "position_embd"}


def name_of(name):
    for own, other in NAMES.items():
        if own != "h." or name.startswith("h."):
            name = name.replace(own, other)
    return name


def tensors_of(folder, type_, change):
    """The tensors of a checkpoint in a file, and the values that they stand for. change: what the converter does to an array."""
    tensors, values = {}, {}
    for name, array in checkpoint.read_safetensors(folder / "model.safetensors").items():
        forth, back = change(name)
        stored, data, meant = quantized(forth(array), type_)
        tensors[name_of(name)] = stored, forth(array).shape[::-1], data
        values[name] = np.ascontiguousarray(back(meant))
    return tensors, values


def same(array):
    return array


def llama_rows(name):
    """Rows i and i + d / 2 of queries and keys become neighbours."""
    n_heads = 4 if ".q_proj." in name else 2 if ".k_proj." in name else 0
    if not n_heads:
        return same, same
    return (lambda x: x.reshape(n_heads, 2, len(x) // n_heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape),
            lambda x: x.reshape(n_heads, len(x) // n_heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape))


def gpt2_columns(name):
    return (np.transpose, np.transpose) if name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")) else (same, same)


LLAMA_VALUES = {"general.architecture": "llama", "llama.context_length": 200, "llama.block_count": 2, "llama.embedding_length": 32,
                "llama.feed_forward_length": 64, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.vocab_size": 320,
                "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 8, "llama.rope.freq_base": 10000.0,
                "general.file_type": 0, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
GPT2_VALUES = {"general.architecture": "gpt2", "gpt2.context_length": 200, "gpt2.block_count": 2, "gpt2.embedding_length": 32,
               "gpt2.feed_forward_length": 64, "gpt2.attention.head_count": 4, "gpt2.attention.layer_norm_epsilon": 1e-5}


def write_llama(folder):
    return family_llama.write_random(folder, n_layers=2, hidden=32, ffn=64, vocab=320, attention_bias=True)


def write_gpt2(folder):
    return family_gpt2.write_random(folder, n_layers=2, hidden=32, ffn=64, vocab=320, positions=200)


MODELS = {"llama": (write_llama, llama_rows, LLAMA_VALUES), "gpt2": (write_gpt2, gpt2_columns, GPT2_VALUES)}

BYTES = [(f"<0x{value:02X}>", BYTE) for value in range(256)]
PIECES = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *BYTES,
          *((piece, NORMAL) for piece in ("he", "\u2581t", "\u2581the", "wa", "ar", "\u2581w", "the", "\u2581", "t", "h", "e", "w", "a", "r")), ("<think>", OWN)]
LLAMA_TOKENS = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [piece for piece, _ in PIECES],
                "tokenizer.ggml.scores": [-float(i) if type_ == NORMAL else 0.0 for i, (_, type_) in enumerate(PIECES)],
                "tokenizer.ggml.token_type": [type_ for _, type_ in PIECES], "tokenizer.ggml.bos_token_id": 1,
                "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0}
LETTERS = [chr(c) for c in [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100), *range(0x100, 0x144)]]
BYTE_TOKENS = ["<|end|>", *LETTERS, "th", "the", "\u0120the", "12", "", "[PAD1]"]
GPT2_TOKENS = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": BYTE_TOKENS,
               "tokenizer.ggml.token_type": [CONTROL, *[NORMAL] * (len(BYTE_TOKENS) - 2), UNUSED],
               "tokenizer.ggml.merges": ["t h", "th e", "\u0120 the", "1 2"], "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{model: its folder}"""
    return {name: write(tmp_path_factory.mktemp("gguf") / name) for name, (write, _, _) in MODELS.items()}


def write(path, folders, name="llama", type_=F32, tensors=None, **more):
    """A file of a model with its own tokenizer; more: other values, None: without this key."""
    _, change, values = MODELS[name]
    listed = tensors or tensors_of(folders[name], type_, change)[0]
    values = {**values, **(LLAMA_TOKENS if name == "llama" else GPT2_TOKENS), **more.pop("values", {})}
    path.write_bytes(file_of({key: value for key, value in values.items() if value is not None}, listed, **more))
    return path


def run(*arguments, text=TEXT):
    return subprocess.run([HEADSCOPE, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=PATIENCE)


def answer(model, *options, outputs="attentions,hidden_states,loss", text=TEXT):
    done = run("analyze", "--model", model, *options, "--layers", "all", "--digits", "9", "--outputs", outputs, "-", text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- what they are ----

@pytest.mark.parametrize("type_", [F32, F16, BF16, Q8_0])
@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_the_folder_it_was_made_of(folders, tmp_path, name, type_):
    """The numbers are bit-identical: rows, columns and blocks are put back as they were."""
    folder = folders[name]
    tensors, values = tensors_of(folder, type_, MODELS[name][1])
    path = write(tmp_path / "m.gguf", folders, name, tensors=tensors)
    same_values = tmp_path / "folder"
    same_values.mkdir()
    for file in folder.iterdir():
        (same_values / file.name).write_bytes(file.read_bytes())
    checkpoint.write_safetensors(same_values / "model.safetensors", values)
    found, expected = (answer(model, "--tokenizer", folder) for model in (path, same_values))
    for key in ("attentions", "hidden_states", "loss", "input_ids"):
        assert found[key] == expected[key], key


# texts, and their tokens
TOKENS = {"llama": [("  the war<s>the<think>", "<s> \u2581 \u2581the \u2581 wa r <s> the <think>"), ("\u00e9\nwa", "<s> \u2581 <0xC3> <0xA9> <0x0A> wa")],
          "gpt2": [("the the12", "the \u0120the 12"), ("<|end|>\nth", "<|end|> \u010a th"), ("[PAD1]", "[ P A D 1 ]")]}


@pytest.mark.parametrize("name", MODELS)
def test_its_tokenizer(folders, tmp_path, name):
    path = write(tmp_path / "m.gguf", folders, name)
    listed = {"llama": [piece for piece, _ in PIECES], "gpt2": BYTE_TOKENS}[name]
    for text, tokens in TOKENS[name]:
        found = answer(path, outputs="summary", text=text)
        assert found["tokens"] == tokens.split() and [listed[i] for i in found["input_ids"]] == tokens.split()


# values of the tokenizer: tokens of "the the12"
CHANGED_TOKENS = {
    "digits": ("gpt2", {"pre": "smollm"}, "the \u0120the 1 2"),
    "three digits": ("gpt2", {"pre": "llama3", "add_bos_token": True}, "<|end|> the \u0120the 12"),
    "begins": ("gpt2", {"pre": "llama-bpe"}, "<|end|> the \u0120the 12"),
    "both": ("gpt2", {"add_bos_token": True, "add_eos_token": True}, "<|end|> the \u0120the 12 <|end|>"),
    "no ids": ("gpt2", {"bos_token_id": None, "add_bos_token": True}, "the \u0120the 12"),
    "an id out of range": ("gpt2", {"bos_token_id": 99999, "add_bos_token": True}, "the \u0120the 12"),
    "bare": ("llama", {"add_bos_token": False}, "\u2581the \u2581the <0x31> <0x32>"),
    "spaceless": ("llama", {"add_space_prefix": False}, "<s> the \u2581the <0x31> <0x32>"),
    "own merges": ("llama", {"merges": ["h e", "\u2581 t"], "scores": None}, "<s> \u2581t he \u2581t he <0x31> <0x32>"),
}


@pytest.mark.parametrize("case", CHANGED_TOKENS)
def test_values_of_the_tokenizer(folders, tmp_path, case):
    name, values, tokens = CHANGED_TOKENS[case]
    path = write(tmp_path / "m.gguf", folders, name, values={f"tokenizer.ggml.{key}": value for key, value in values.items()})
    assert answer(path, outputs="summary", text="the the12")["tokens"] == tokens.split()


def test_scores_order_merges(folders, tmp_path):
    """The best score is merged first."""
    pieces = [*PIECES, ("ew", NORMAL)]
    for score, tokens in [(1.0, "h ew"), (-1.0, "he w")]:
        values = {"tokenizer.ggml.tokens": [piece for piece, _ in pieces], "tokenizer.ggml.token_type": [type_ for _, type_ in pieces],
                  "tokenizer.ggml.scores": [0.0] * len(PIECES) + [score], "tokenizer.ggml.add_space_prefix": False}
        path = write(tmp_path / "m.gguf", folders, values=values)
        assert answer(path, outputs="summary", text="hew")["tokens"] == ["<s>", *tokens.split()]


def test_where_the_tokenizer_comes_from(folders, tmp_path):
    """tokenizer.json beside the file counts before the file's own, and --tokenizer before both."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = write(folder / "m.gguf", folders, "gpt2")
    assert answer(path, outputs="summary")["tokens"] == answer(folder, outputs="summary")["tokens"]  # its only GGUF file
    words = {"normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": {"type": "ByteLevel"}, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "new": 1}}}
    (folder / "tokenizer.json").write_text(json.dumps(words))
    assert answer(path, outputs="summary", text="new x")["tokens"] == ["new", "?"]
    assert answer(path, "--tokenizer", folders["llama"], outputs="summary", text="new")["tokens"][0] == "[CLS]"


def test_a_served_file(folders, tmp_path, start_server):
    """Its checksum is that of the file, and its name that of the file."""
    path = write(tmp_path / "tiny-f16.gguf", folders, type_=F16)
    server = start_server("--model", str(path))
    model, = server.known_models()
    assert model["name"] == "tiny-f16.gguf" and model["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert server.analyze({"text": "the war"})["tokens"][0] == "<s>"
    listed = run("models", path)
    assert listed.returncode == 0 and "llama" in listed.stdout and "BPE" in listed.stdout


def rotated(folders, tmp_path, **values):
    """The maps of a file with other rotary positions, and those of a folder with this rope_scaling."""
    scaling = values.pop("scaling")
    tensors = tensors_of(folders["llama"], F32, llama_rows)[0]
    if factors := values.pop("factors", None):
        tensors["rope_freqs.weight"] = (F32, (4,), np.array(factors, np.float32).tobytes())
    path = write(tmp_path / "m.gguf", folders, tensors=tensors, values=values)
    folder = tmp_path / "folder"
    folder.mkdir()
    for file in folders["llama"].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"]
    (folder / "config.json").write_text(json.dumps({**config, "rope_theta": 10000.0, "rope_scaling": scaling}))
    return [answer(model, "--tokenizer", folders["llama"], outputs="attentions", text=TEXT * 3)["attentions"] for model in (path, folder)]


def test_scaled_rotary_positions(folders, tmp_path):
    plain = answer(write(tmp_path / "plain.gguf", folders), "--tokenizer", folders["llama"], outputs="attentions", text=TEXT * 3)["attentions"]
    cases = [
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0, "llama.rope.scaling.original_context_length": 16},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        ({"factors": [1, 2, 3, 4]}, {"rope_type": "longrope", "short_factor": [1, 2, 3, 4], "long_factor": [1, 2, 3, 4], "attention_factor": 1.0,
                                     "factor": 1.0}),
    ]
    for i, (values, scaling) in enumerate(cases):
        (tmp_path / str(i)).mkdir()
        found, expected = rotated(folders, tmp_path / str(i), scaling=scaling, **values)
        assert found == expected and found != plain
    none = write(tmp_path / "none.gguf", folders, values={"llama.rope.scaling.type": "none"})
    assert answer(none, "--tokenizer", folders["llama"], outputs="attentions", text=TEXT * 3)["attentions"] == plain


# ---- refusals ----

# values that are refused: what the message says
REFUSED_VALUES = {
    "no architecture": ({"general.architecture": None}, 'general.architecture "" is not supported; known: llama, qwen2'),
    "another architecture": ({"general.architecture": "mamba"}, 'general.architecture "mamba" is not supported'),
    "a part": ({"split.count": 3, "split.no": 0}, "one of 3 files of a model that was split"),
    "no heads": ({"llama.attention.head_count": None}, "llama.attention.head_count is missing"),
    "0 heads": ({"llama.attention.head_count": 0}, "llama.attention.head_count must be at least 1"),
    "no epsilon": ({"llama.attention.layer_norm_rms_epsilon": None}, "llama.attention.layer_norm_rms_epsilon is missing"),
    "layers by text": ({"llama.block_count": "2"}, "llama.block_count must be an integer"),
    "negative": ({"llama.embedding_length": -32}, "llama.embedding_length must be an integer"),
    "huge": ({"llama.block_count": 1 << 62}, "llama.block_count must be an integer from 0 to"),
    "too many layers": ({"llama.block_count": 1000}, "num_hidden_layers"),
    "by layer": ({"llama.attention.head_count_kv": [2, 2]}, "llama.attention.head_count_kv has a value for each layer"),
    "experts": ({"llama.expert_count": 8}, "the key llama.expert_count is not supported"),
    "a window": ({"llama.attention.sliding_window": 100}, "the key llama.attention.sliding_window is not supported"),
    "other values": ({"llama.attention.value_length": 16}, "llama.attention.value_length must be that of keys, 8"),
    "both ways": ({"llama.attention.causal": False}, "llama.attention.causal must be true"),
    "a part of heads": ({"llama.rope.dimension_count": 4}, "llama.rope.dimension_count must be 8"),
    "scaling": ({"llama.rope.scaling.type": "longrope"}, 'llama.rope.scaling.type must be "none", "linear" or "yarn"'),
    "amplitude": ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0, "llama.rope.scaling.attn_factor": 2.0},
                  "llama.rope.scaling.attn_factor must be 1"),
    "base": ({"llama.rope.freq_base": "10000"}, "llama.rope.freq_base must be a number"),
    "not a number": ({"llama.rope.freq_base": float("nan")}, "llama.rope.freq_base must be a number"),
    "vocabulary": ({"llama.vocab_size": 300}, "llama.vocab_size must be 320, the rows of token_embd.weight"),
    "alignment": ({"general.alignment": 12}, "general.alignment must be a multiple of 8"),
    "nested": ({"general.tags": struct.pack("<IIQ", 9, 9, 0)}, "general.tags has elements of type 9"),
    "type": ({"general.tags": struct.pack("<I", 99)}, "general.tags has elements of type 99"),
    "tokenizer": ({"tokenizer.ggml.model": "bert"}, 'tokenizer.ggml.model is "bert"; "gpt2" and "llama" are read; put the model\'s own'),
    "no tokenizer": ({"tokenizer.ggml.model": None}, 'tokenizer.ggml.model is ""'),
    "cut": ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "viking"}, 'tokenizer.ggml.pre is "viking"'),
    "no cut": ({"tokenizer.ggml.model": "gpt2"}, 'tokenizer.ggml.pre is ""'),
    "no merges": ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2"}, "tokenizer.ggml.merges is missing"),
    "no scores": ({"tokenizer.ggml.scores": None}, "tokenizer.ggml.scores is missing"),
    "few scores": ({"tokenizer.ggml.scores": [0.0]}, "tokenizer.ggml.scores must be a number for each of"),
    "types by text": ({"tokenizer.ggml.token_type": ["a"]}, "tokenizer.ggml.token_type must be a number for each of"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens must be a list of texts"),
    "tokens by number": ({"tokenizer.ggml.tokens": [1, 2]}, "tokenizer.ggml.tokens must be a list of texts"),
    "a token twice": ({"tokenizer.ggml.tokens": ["a"] * len(PIECES)}, "token 1, 'a', is there twice"),
    "a long token": ({"tokenizer.ggml.tokens": ["a" * 1025] * len(PIECES)}, "token 0 is not a text of at most 1024 bytes"),
    "NUL": ({"tokenizer.ggml.tokens": ["\0"] * len(PIECES)}, "token 0 is not a text of at most 1024 bytes"),
    "not UTF-8": ({"tokenizer.ggml.tokens": struct.pack("<IIQQ", 9, 8, 1, 1) + b"\xff", "tokenizer.ggml.scores": None,
                   "tokenizer.ggml.token_type": None}, "token 0 is not a text of at most 1024 bytes in UTF-8"),
    "a flag": ({"tokenizer.ggml.add_bos_token": "yes"}, "tokenizer.ggml.add_bos_token must be true or false"),
    "spaces": ({"tokenizer.ggml.remove_extra_whitespaces": True}, "tokenizer.ggml.remove_extra_whitespaces is not supported"),
    "a table": ({"tokenizer.ggml.precompiled_charsmap": [1]}, "tokenizer.ggml.precompiled_charsmap is not supported"),
    "more tokens than words": ({"tokenizer.ggml.tokens": [f"t{i}" for i in range(400)], "tokenizer.ggml.scores": [0.0] * 400,
                                "tokenizer.ggml.token_type": None}, "tokenizer.json"),
}


def refusal(path):
    done = run("analyze", "--model", path, "--outputs", "summary", "-")
    assert done.returncode == 1 and not done.stdout and str(path) in done.stderr
    return done.stderr


@pytest.mark.parametrize("case", REFUSED_VALUES)
def test_values_that_are_refused(folders, tmp_path, case):
    values, message = REFUSED_VALUES[case]
    assert message in refusal(write(tmp_path / "m.gguf", folders, values=values))


def test_a_key_that_is_0_means_nothing(folders, tmp_path):
    values = {"llama.expert_count": 0, "llama.attention.clamp_kqv": 0.0, "llama.use_parallel_residual": False, "llama.rope.scaling.finetuned": False}
    assert answer(write(tmp_path / "m.gguf", folders, values=values), outputs="summary")


# tensors that are refused: a change of {name: (type, dimensions, bytes)}, and what the message says
WORDS, QUERY = "token_embd.weight", "blk.1.attn_q.weight"
REFUSED_TENSORS = {
    "none": (dict.clear, "it must have 1 to 65536 tensors"),
    "no words": (lambda t: t.pop(WORDS), "token_embd.weight must be there, a matrix"),
    "one too few": (lambda t: t.pop(QUERY), "no tensor model.layers.1.self_attn.q_proj.weight"),
    "another": (lambda t: t.update({"blk.0.ffn_gate_exps.weight": t[QUERY]}), "tensor blk.0.ffn_gate_exps.weight is not one of an architecture"),
    "another parameter": (lambda t: t.update({"blk.0.attn_q.scale": t[QUERY]}), "tensor blk.0.attn_q.scale is not one of"),
    "Q4_K": (lambda t: t.update({QUERY: (Q4_K, (32, 32), b"x" * 576)}), f"tensor {QUERY} is Q4_K; F32, F16, BF16 and Q8_0 are read"),
    "Q4_0": (lambda t: t.update({QUERY: (Q4_0, (32, 32), b"x" * 576)}), f"tensor {QUERY} is Q4_0;"),
    "unknown type": (lambda t: t.update({QUERY: (4000, (32, 32), b"")}), f"tensor {QUERY} is of type 4000;"),
    "a gone type": (lambda t: t.update({QUERY: (4, (32, 32), b"")}), f"tensor {QUERY} is of type 4;"),
    "three dimensions": (lambda t: t.update({QUERY: (F32, (32, 4, 8), t[QUERY][2])}), f"tensor {QUERY} is not one of"),
    "five dimensions": (lambda t: t.update({QUERY: (F32, (1, 1, 1, 1, 1), t[QUERY][2])}), f"tensor {QUERY} must have 1 to 4 dimensions"),
    "no dimensions": (lambda t: t.update({QUERY: (F32, (), t[QUERY][2])}), f"tensor {QUERY} must have 1 to 4 dimensions"),
    "empty": (lambda t: t.update({QUERY: (F32, (0, 32), b"")}), f"bad dimensions of tensor {QUERY}"),
    "overflow": (lambda t: t.update({QUERY: (F32, (1 << 40, 1 << 40), b"")}), f"bad dimensions of tensor {QUERY}"),
    "half a block": (lambda t: t.update({QUERY: (Q8_0, (48, 32), b"x" * 1632)}), f"bad dimensions of tensor {QUERY}"),
    "too large": (lambda t: t.update({QUERY: (F32, (1 << 20, 32), b"")}), f"tensor {QUERY} ends after the file"),
    "other rows": (lambda t: t.update({QUERY: (F32, (32, 28), t[QUERY][2])}), f"the rows of tensor {QUERY} are not those of 4 heads"),
    "another width": (lambda t: t.update({QUERY: (F32, (64, 16), t[QUERY][2])}), "q_proj.weight must have the shape [32, 32]"),
    "NaN": (lambda t: t.update({QUERY: (F32, (32, 32), b"\xff" * 4096)}), "q_proj.weight has a NaN or an infinity"),
    "long name": (lambda t: t.update({"x" * 64: t[QUERY]}), "a tensor's name is not a text of 1 to 63 bytes"),
    "bad factors": (lambda t: t.update({"rope_freqs.weight": (F32, (3,), b"\0" * 12)}), "tensor rope_freqs.weight must be a vector of 4 numbers"),
    "factors of 0": (lambda t: t.update({"rope_freqs.weight": (F32, (4,), b"\0" * 16)}), "short_factor must be a list of 4 numbers"),
}


@pytest.mark.parametrize("case", REFUSED_TENSORS)
def test_tensors_that_are_refused(folders, tmp_path, case):
    change, message = REFUSED_TENSORS[case]
    tensors = tensors_of(folders["llama"], F32, llama_rows)[0]
    change(tensors)
    path = tmp_path / "m.gguf"
    path.write_bytes(file_of({**LLAMA_VALUES, **LLAMA_TOKENS}, tensors))
    assert message in refusal(path)


def test_damaged_files_are_refused(folders, tmp_path):
    path = write(tmp_path / "m.gguf", folders, values={"tokenizer.ggml.scores": [0.0] * len(PIECES)})
    whole = path.read_bytes()
    tensors = tensors_of(folders["llama"], F32, llama_rows)[0]
    values = {**LLAMA_VALUES, **LLAMA_TOKENS}
    cases = [(b"GGUF", "ends too early"), (b"GGML" + whole[4:], "does not begin with GGUF"), (whole[:-1], "ends after the file"),
             (file_of(values, tensors, version=1), "version 1; 2 and 3 are read"), (file_of(values, tensors, version=3 << 24), "version 50331648"),
             (whole[:16] + struct.pack("<Q", 1 << 60) + whole[24:], "more than 4096 values"),
             (whole[:8] + struct.pack("<Q", 1 << 60) + whole[16:], "1 to 65536 tensors"), (b"", "the file is empty"),
             (whole.replace(text_of("llama.rope.freq_base"), text_of("llama.vocab_size" + "abcd")), "llama.vocab_sizeabcd is not supported"),
             (whole.replace(text_of("general.file_type"), text_of("llama.vocab_size" + "\0")), "a key is not a text"),
             (whole.replace(text_of("blk.0.attn_q.weight"), text_of("blk.0.attn_k.weight")), "blk.0.attn_k.weight is there twice")]
    for content, message in cases:
        path.write_bytes(content)
        assert message in refusal(path), message
    for n in range(0, whole.index(b"blk.0"), 97):  # a download that broke off
        path.write_bytes(whole[:n])
        assert "GGUF" in refusal(path) or n == 0
    path.write_bytes(file_of(values, tensors, version=2))
    assert answer(path, outputs="summary")


def test_folders_that_are_refused(folders, tmp_path):
    for name in ("b.gguf", "a.gguf"):
        write(tmp_path / name, folders)
    assert "the folder has 2 GGUF files; name one of them, such as a.gguf" in refusal(tmp_path)
    (tmp_path / "config.json").write_text((folders["llama"] / "config.json").read_text())
    (tmp_path / "vocab.txt").write_text((folders["llama"] / "vocab.txt").read_text())
    assert "the folder has a.gguf, a model of llama.cpp; name the file itself" in refusal(tmp_path)
    assert answer(tmp_path / "a.gguf", outputs="summary")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (tmp_path / "base").mkdir()
    base = write(tmp_path / "base" / "a.gguf", folders)
    for name, message in [(base, "neither a folder nor a model"), (base.parent, "base_model_name_or_path names a GGUF file")]:
        (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "lora_alpha": 1, "base_model_name_or_path": str(name)}))
        assert message in refusal(adapter)
