#!/usr/bin/env python3
"""Compares GGUF files with transformers: maps, states and losses with the checkpoint that a file was made of, tokens with its
tokenizer.

    HEADSCOPE=build/headscope DIR/bin/python tests/reference/gguf_check.py [NAME...]

Random checkpoints are written as llama.cpp's converter writes them, with PyPI's gguf: names, order of rows, norms, metadata.
Each is written in F32, F16, BF16 and Q8_0. Reference is the model of transformers with the values that the file stands for,
in float64; for files that transformers 5.24 reads right, also what it reads. Ends with 1 if numbers differ by more than 1e-5,
or if a token differs; with 77 if torch, transformers or gguf is not installed. tests/api/test_transformers.py runs it.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import transformers_check as check  # ends with 77 where it cannot run

try:
    import gguf
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import numpy as np
import published_tokenizers_check as published
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

torch, transformers = check.torch, check.transformers
LIMIT = 1e-5
KINDS = {"F32": gguf.GGMLQuantizationType.F32, "F16": gguf.GGMLQuantizationType.F16, "BF16": gguf.GGMLQuantizationType.BF16,
         "Q8_0": gguf.GGMLQuantizationType.Q8_0}
SIZES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, max_position_embeddings=600,
             initializer_range=0.2, pad_token_id=0)
GEMMA = {**SIZES, "head_dim": 32, "sliding_window": 9, "query_pre_attn_scalar": 32}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {"rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1, 1.5, 2, 2, 3, 3], "long_factor": [2, 3, 5, 6, 7, 8],
            "partial_rotary_factor": 0.75}
# name: tokenizer, config. The first word is transformers' model_type.
CASES = {
    "llama": ("llama", SIZES),
    "llama tied": ("llama-bpe", {**SIZES, "tie_word_embeddings": True, "rope_parameters": LLAMA3}),
    "llama biased": ("smollm", {**SIZES, "attention_bias": True, "mlp_bias": True, "head_dim": 32, "rms_norm_eps": 1e-3}),
    "llama linear": ("tekken", {**SIZES, "rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}}),
    "mistral": ("llama spaceless", {**SIZES, "num_key_value_heads": 1, "sliding_window": None}),
    "qwen2": ("qwen2", {**SIZES, "use_sliding_window": False}),
    "qwen2 yarn": ("deepseek-r1-qwen", {**SIZES, "tie_word_embeddings": True, "rope_parameters": YARN}),
    "qwen3": ("qwen2", {**SIZES, "head_dim": 32}),
    "gpt2": ("gpt-2", dict(n_embd=64, n_layer=2, n_head=4, n_positions=1024, initializer_range=0.2, pad_token_id=0)),
    "gemma": ("gemma", {**SIZES, "head_dim": 32}),
    "gemma2": ("gemma", GEMMA),
    "gemma3_text": ("gemma", {**GEMMA, "num_hidden_layers": 7, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    "phi3": ("phi3", {**SIZES, "sliding_window": 9}),
    "phi3 longrope": ("gpt-4o", {**SIZES, "original_max_position_embeddings": 100, "rope_parameters": LONGROPE}),
    "starcoder2": ("starcoder", {**SIZES, "sliding_window": None}),
}
ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3"}
# transformers reads these files as it read the checkpoint: it ignores scaling and heads of another width
READ_RIGHT = {"llama", "qwen2", "gpt2", "starcoder2", "mistral"}

# ---- tokenizers ----

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(ending, numbers):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ending}|{numbers}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


EXPRESSIONS = {
    "llama-bpe": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + OTHERS,
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + OTHERS,
    "deepseek-r1-qwen": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + OTHERS,
    "tekken": cased("", r"\p{N}"),
    "gpt-4o": cased(CONTRACTIONS + "?", r"\p{N}{1,3}"),
}
BYTE_LEVEL = {"gpt-2", "smollm", "starcoder", *EXPRESSIONS}


def byte_level(pre, folder):
    """A tokenizer as the authors of such a family saved it: <|begin|> and <|end|> are special, <think> is not."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=pre in ("llama-bpe", "tekken")))
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre not in EXPRESSIONS)
    if pre in EXPRESSIONS:
        from tokenizers import Regex
        cut = pre_tokenizers.Split(Regex(EXPRESSIONS[pre]), behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, bytes_alone])
    elif pre == "gpt-2":
        tokenizer.pre_tokenizer = bytes_alone
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_alone])
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<|begin|>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(published.TEXTS * 5, trainer)
    tokenizer.add_tokens(["<think>"])
    begins = pre in ("llama-bpe", "tekken")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin|>", eos_token="<|end|>", add_bos_token=begins,
                                                add_eos_token=False)
    fast.save_pretrained(folder)
    model = json.loads(tokenizer.to_str())["model"]
    types = {"<|begin|>": 3, "<|end|>": 3, "<think>": 4}
    tokens = sorted({**model["vocab"], **{token: fast.convert_tokens_to_ids(token) for token in types}}.items(), key=lambda item: item[1])
    values = {"model": "gpt2", "pre": pre, "tokens": [token for token, _ in tokens], "token_type": [types.get(token, 1) for token, _ in tokens],
              "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]],
              "bos_token_id": 0, "eos_token_id": 1}
    return fast, {**values, "add_bos_token": True} if pre == "tekken" else values


def sentencepiece(name, folder):
    """The model of a Llama or a Gemma, and what transformers reads in a folder with it."""
    gemma = name == "gemma"
    file = published.GEMMA if gemma else published.LLAMA
    config = dict(published.GEMMA_CONFIG if gemma else published.LLAMA_CONFIG)
    if name == "llama spaceless":
        config["add_prefix_space"] = False
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.model").write_bytes(file)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma2" if gemma else "llama"}))
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(file)
    pieces = proto.pieces
    ids = {piece.piece: i for i, piece in enumerate(pieces)}
    values = {"model": "llama", "pre": "default", "tokens": [piece.piece for piece in pieces], "scores": [piece.score for piece in pieces],
              "token_type": [piece.type for piece in pieces], "add_bos_token": True, "add_eos_token": False,
              "bos_token_id": ids["<bos>" if gemma else "<s>"], "eos_token_id": ids["<eos>" if gemma else "</s>"], "unknown_token_id": ids["<unk>"]}
    if gemma:
        values["padding_token_id"] = ids["<pad>"]
        spaces = ["\u2581\u2581"]  # the converter writes spaces in tokens of spaces
        values["tokens"] = [" " * len(token) if token in spaces else token for token in values["tokens"]]
    if gemma or name == "llama spaceless":
        values["add_space_prefix"] = False
    return transformers.AutoTokenizer.from_pretrained(folder), values


def tokenizer_of(name, folder):
    folder.mkdir(exist_ok=True)
    return byte_level(name, folder) if name in BYTE_LEVEL else sentencepiece(name, folder)


# ---- files ----

def permuted(array, n_heads):
    """Llama's rows of queries and keys as the converter orders them."""
    return array.reshape(n_heads, 2, array.shape[0] // n_heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def arranged_back(array, n_heads):
    return array.reshape(n_heads, array.shape[0] // n_heads // 2, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def changes(kind, config, name):
    """Returns the converter's change of a tensor, and its inverse."""
    heads, key_heads = getattr(config, "num_attention_heads", 0), getattr(config, "num_key_value_heads", 0)
    if kind in ("llama", "mistral") and ".q_proj." in name:
        return lambda x: permuted(x, heads), lambda x: arranged_back(x, heads)
    if kind in ("llama", "mistral") and ".k_proj." in name:
        return lambda x: permuted(x, key_heads), lambda x: arranged_back(x, key_heads)
    if kind.startswith("gemma") and name.endswith("norm.weight"):
        return lambda x: x + 1, lambda x: x - 1
    if kind == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        return lambda x: x.T.copy(), lambda x: x.T
    return lambda x: x, lambda x: x


def add_metadata(writer, kind, config):
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get("full_attention", rope)
    if kind == "gpt2":
        writer.add_context_length(config.n_positions)
        writer.add_block_count(config.n_layer)
        writer.add_embedding_length(config.n_embd)
        writer.add_feed_forward_length(4 * config.n_embd)
        writer.add_head_count(config.n_head)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(rope.get("rope_theta", 10000.0))
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if kind == "starcoder2":
        writer.add_layer_norm_eps(config.norm_epsilon)
    else:
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if width * config.num_attention_heads != config.hidden_size or kind.startswith("gemma"):
        writer.add_key_length(width)
        writer.add_value_length(width)
    if kind in ("llama", "mistral"):
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(width)
    if kind == "phi3":
        writer.add_rope_dimension_count(int(width * rope.get("partial_rotary_factor", 1.0)))
        writer.add_sliding_window(config.sliding_window or 0)
    if kind in ("gemma2", "gemma3_text"):
        writer.add_sliding_window(config.sliding_window)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if rope.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope.get("rope_type") == "longrope":
        original = config.original_max_position_embeddings
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(config.max_position_embeddings / original) / math.log(original)))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, width))


def llama3_factors(rope, width):
    """By how much each frequency is divided, as the converter writes it."""
    factors = []
    for i in range(0, width, 2):
        turns = rope["original_max_position_embeddings"] / (2 * math.pi * rope["rope_theta"] ** (i / width))
        smooth = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth) if 0 < smooth < 1 else 1 if smooth >= 1 else rope["factor"])
    return np.array(factors, np.float32)


def add_tokenizer(writer, values):
    for key, value in values.items():
        key = f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_array(key, value)


def add_tensors(writer, kind, config, model, quantization):
    """Writes the weights; changes those of the model to what the file stands for."""
    names = gguf.get_tensor_name_map({value: key for key, value in gguf.MODEL_ARCH_NAMES.items()}[ARCHITECTURES.get(kind, kind)],
                                     config.num_hidden_layers)
    state = model.state_dict()
    tied = config.get_text_config().tie_word_embeddings if hasattr(config, "get_text_config") else config.tie_word_embeddings
    for name, tensor in state.items():
        if (name == "lm_head.weight" and tied) or name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        array = tensor.detach().float().numpy()
        forth, back = changes(kind, config, name)
        stored = forth(array)
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new, name
        type_ = quantization if stored.ndim > 1 and stored.shape[-1] % 32 == 0 else gguf.GGMLQuantizationType.F32
        data = gguf.quantize(np.ascontiguousarray(stored, np.float32), type_)
        writer.add_tensor(new, data, raw_dtype=type_)
        state[name] = torch.tensor(np.ascontiguousarray(back(gguf.dequantize(data, type_).reshape(stored.shape).astype(np.float64))))
    if tied:
        state["lm_head.weight"] = state[next(name for name in state if name.endswith(("embed_tokens.weight", "wte.weight")))]
    return state


def write(path, kind, config, model, values, quantization):
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(kind, kind))
    writer.add_name("a random " + kind)
    writer.add_file_type(0)
    add_metadata(writer, kind, config)
    add_tokenizer(writer, values)
    state = add_tensors(writer, kind, config, model, quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return state


# ---- comparison ----

def program(path, text):
    output = Path(path).parent / "answer.npz"
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(path), "--layers", "all", "--format", "npz", "-o", str(output),
               "--outputs", "attentions,hidden_states,loss", "--max-tokens", "150", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    with np.load(output) as answer:
        return dict(answer)


def numbers_differ(model, answer):
    """The largest differences of maps, states and losses."""
    ids = torch.tensor(answer["input_ids"].astype(int))[None]
    with torch.no_grad():
        output = model(ids, output_attentions=True, output_hidden_states=True)
    losses = torch.nn.functional.cross_entropy(output.logits[0, :-1], ids[0, 1:], reduction="none").numpy()
    states = np.array([state[0].numpy() for state in output.hidden_states])
    found = answer["loss"][np.isfinite(answer["loss"])]
    return (check.difference(answer["attentions"], np.array([maps[0].numpy() for maps in output.attentions])),
            check.difference(answer["hidden_states"], states) / max(1, np.abs(states).max()),
            check.difference(found[-len(losses):], losses) / max(1, np.abs(losses).max()))


def texts():
    yield from published.texts("gguf")
    yield "".join(chr(c) for c in range(0x20, 0x250))
    yield "<|begin|>a<think>  b <|end|> 12345\u0660 IT'S it'\u017f Stra\u00dfe \u01c5\u02b0\u0301 /\r\n/ x\t\ty \u2581 \u00a0"


def tokens_differ(path, tokenizer, say, without=None):
    """The number of texts with other tokens than this tokenizer gives."""
    n = 0
    for text in texts():
        text = text.replace(without, "") if without else text
        done = subprocess.run([os.environ["HEADSCOPE"], "analyze", "--model", str(path), "--max-tokens", "512", "--outputs", "summary", "-"],
                              input=text.encode(), capture_output=True)
        expected = tokenizer(text, truncation=True, max_length=512)["input_ids"]
        found = json.loads(done.stdout)["input_ids"] if done.returncode == 0 else done.stderr.decode()
        if found != expected and expected:
            n += 1
            print(f"WRONG {say}: {text!r}: {found} instead of {expected} {tokenizer.convert_ids_to_tokens(expected)}"[:600])
    return n


def as_read(folder, path):
    """The tokenizer that transformers reads in the file itself."""
    return transformers.AutoTokenizer.from_pretrained(folder, gguf_file=path.name)


class Composed:
    """A tokenizer behind NFC, which files do not have."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.convert_ids_to_tokens = tokenizer.convert_ids_to_tokens

    def __call__(self, text, **more):
        return self.tokenizer(unicodedata.normalize("NFC", text), **more)


def check_case(name, scratch):
    pre, sizes = CASES[name]
    kind = name.split()[0]
    tokenizer, values = tokenizer_of(pre, scratch / "tokenizer")
    torch.manual_seed(len(name))
    n_words = (len(values["tokens"]) + 31) // 32 * 32
    config = transformers.AutoConfig.for_model(kind, **sizes, vocab_size=n_words)
    if values["model"] == "gpt2":
        n_more = n_words - len(values["tokens"])
        values = {**values, "tokens": values["tokens"] + [f"[PAD{n_words - n_more + i}]" for i in range(n_more)],
                  "token_type": values["token_type"] + [5] * n_more}
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    worst = n_wrong = 0
    for label, quantization in KINDS.items():
        folder = scratch / label
        folder.mkdir()
        path = folder / "model.gguf"
        state = write(path, kind, config, model, values, quantization)
        reference = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
        reference.load_state_dict(state, strict=False)
        answer = program(path, check.TEXT)
        found = numbers_differ(reference, answer)
        if name in READ_RIGHT:
            read = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name, attn_implementation="eager", dtype=torch.float32)
            found += numbers_differ(read.double().eval(), answer)
        print(f"{name:16} {label:5} " + " ".join(f"{value:9.1e}" for value in found), flush=True)
        worst = max(worst, *found)
    if pre != "phi3":  # a class of its own, of which transformers has the reader of GGUF alone
        n_wrong += tokens_differ(path, tokenizer, name)
    if kind != "gemma" and (pre in EXPRESSIONS or pre in ("gpt-2", "llama", "gemma", "phi3")):  # the others it cannot read
        own = as_read(folder, path)
        if "add_bos_token" not in values and pre == "llama-bpe":
            own.add_bos_token = True
        n_wrong += tokens_differ(path, Composed(own) if pre == "qwen2" else own, name + " as transformers reads the file",
                                 without="<|endoftext|>")  # it adds this token to every byte-level vocabulary
    return worst, n_wrong


def check_advice(scratch):
    """The largest difference of a folder that the refusal of another quantization says how to make."""
    _, values = tokenizer_of("llama", scratch / "tokenizer")
    config = transformers.AutoConfig.for_model("llama", **SIZES, vocab_size=len(values["tokens"]))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    path = scratch / "model.gguf"
    state = write(path, "llama", config, model, values, gguf.GGMLQuantizationType.Q4_0)
    refused = subprocess.run([os.environ["HEADSCOPE"], "models", str(path)], capture_output=True, text=True).stderr
    command = refused[refused.index("AutoModelForCausalLM"):].replace('"DIR"', repr(str(scratch))).replace('"FILE"', repr(path.name))
    names = {name: getattr(transformers, name) for name in ("AutoModelForCausalLM", "AutoTokenizer", "GgufConfig")}
    exec(command.replace('"OUT"', repr(str(scratch / "folder"))), names)
    reference = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    reference.load_state_dict(state, strict=False)
    return max(numbers_differ(reference, program(scratch / "folder", check.TEXT)))


def main():
    transformers.logging.set_verbosity_error()
    worst = n_wrong = 0
    for name in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as scratch:
            found, n = check_case(name, Path(scratch))
        worst, n_wrong = max(worst, found), n_wrong + n
    if not sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, check_advice(Path(scratch)))
    print(f"transformers {transformers.__version__}: largest difference {worst:.1e}, {n_wrong} texts with other tokens")
    return int(worst > LIMIT or n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
