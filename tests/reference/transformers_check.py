#!/usr/bin/env python3
"""The program, and the references of this folder, against HuggingFace's own code: eager attention, float64.

    python3 -m venv DIR; DIR/bin/pip install numpy torch transformers
    HEADSCOPE=build/headscope DIR/bin/python tests/reference/transformers_check.py [FAMILY...]

Every random checkpoint of every family is opened by AutoModel, in the layout it has, and by the program; the
program's token ids go through both. So do checkpoints of every supported model_type that save_pretrained wrote. They
include every head for classes, answers and next sentences that transformers has, the loss of causal models, contacts of
ESM, and effects of heads of decoders. Prints the versions and the largest differences, of maps as they are and of hidden states and
logits as a part of their maximum. Ends with 1 if one is over 1e-5, with 77 if torch or transformers is not installed.

--saved checks only the checkpoints of save_pretrained. --keys checks what a config means that lacks a key, --values what
it means with other values of each key that transformers reads. Adapters are checked too if PEFT is installed.
tests/api/test_transformers.py runs --saved, --keys and --values.
"""
import functools
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import peft
except ImportError:
    peft = None  # then adapters are not checked
try:
    import torch
    import transformers
    from transformers.models.xglm import modeling_xglm
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import checkpoint

TEXT = "the police at the airport were new \u6f22 the war was [MASK] long [PAD] an old office of the city as many said " * 4
FAMILIES = {path.stem.removeprefix("family_"): importlib.import_module(path.stem)
            for path in sorted(Path(__file__).parent.glob("family_*.py"))}
FAMILIES["bert"].VARIANTS |= checkpoint.VARIANTS
# Model types that transformers 5 does not open: BERT under "model.", as another class saved it; NomicBERT's config as its authors
# wrote it, which came with their own code; a null that only version 4 understood.
UNREAD = {"bert model_prefix", "nomic_bert authors", "nomic_bert authors_pretraining", "nomic_bert authors_no_types",
          "modernbert null_theta_bf16"}
LIMIT = 1e-5
WRONG = 1e-4  # with values that no model has, such as rotary positions stretched a hundredfold, rounding may exceed LIMIT


# Model types of which the program reads the encoder, with transformers' class for it, or for the whole model.
ENCODERS = {"t5": transformers.T5EncoderModel, "mt5": transformers.MT5EncoderModel, "bart": transformers.BartModel,
            "mbart": transformers.MBartModel, "pegasus": transformers.PegasusModel, "m2m_100": transformers.M2M100Model, "marian": transformers.MarianModel,
            "encoder-decoder": transformers.EncoderDecoderModel}


def with_default_dtype(attend):
    """XGLM's attention makes a number of the default type, which must hold the smallest of the weights' type."""
    @functools.wraps(attend)
    def attend_with_default_dtype(self, *args, **more):
        torch.set_default_dtype(self.q_proj.weight.dtype)
        try:
            return attend(self, *args, **more)
        finally:
            torch.set_default_dtype(torch.float32)
    return attend_with_default_dtype


modeling_xglm.XGLMAttention.forward = with_default_dtype(modeling_xglm.XGLMAttention.forward)


def huggingface(folder, ids, types):
    kind = ENCODERS.get(json.loads((folder / "config.json").read_text())["model_type"], transformers.AutoModel)
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64)
    model = model.get_encoder() if hasattr(model, "decoder") and kind in ENCODERS.values() else model
    typed = "token_type_ids" in model.forward.__code__.co_varnames and model.config.model_type != "openai-gpt"  # its types are words
    more = {"token_type_ids": torch.tensor(types)[None]} if typed else {}
    projection = getattr(getattr(model, "decoder", None), "project_out", None)
    if projection is not None:  # OPT-350m's last states are projected for its heads
        projection.forward = lambda states: states
    with torch.no_grad():
        output = model.eval()(torch.tensor(ids)[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                              output_attentions=True, output_hidden_states=True, **more)
    states = [state[0].numpy() for state in output.hidden_states]
    states[-1] = output.last_hidden_state[0].numpy()  # before version 5 the list ends before the last norm
    return np.array([maps[0].numpy() for maps in output.attentions]), np.array(states)


def program(folder, output):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(output), "--outputs", "attentions,hidden_states", "-"]
    subprocess.run(command, input=TEXT.encode(), check=True)
    with np.load(output) as answer:
        return dict(answer)


def difference(found, expected):
    return np.abs(found - expected).max()


def check(module, variant, scratch):
    """Largest differences: program's maps and states, reference's maps and states."""
    folder = module.write_random(scratch / "model", seed=len(variant), **module.VARIANTS[variant])
    answer = program(folder, scratch / "answer.npz")
    ids, types = answer["input_ids"].astype(int), answer["token_type_ids"].astype(int)
    maps, states = huggingface(folder, ids, types)
    heads = module.forward(folder, ids, types)
    scale = max(1, np.abs(states).max())
    return (difference(answer["attentions"], maps), difference(answer["hidden_states"], states) / scale,
            difference(heads.attentions, maps), difference(heads.hidden_states, states) / scale)


# Tiny configs of every model_type, under the names of their own configuration classes.
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=300,
             max_position_embeddings=200, initializer_range=0.3, pad_token_id=0)
BART_SIZES = dict(d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                  encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=300, max_position_embeddings=200, init_std=0.3)
T5_SIZES = dict(d_model=32, d_kv=10, d_ff=48, num_layers=2, num_heads=4, vocab_size=300, initializer_factor=1.0)
OPT_SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, vocab_size=300,
                 max_position_embeddings=200, init_std=0.3, pad_token_id=0)
GPTJ_SIZES = dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=300, n_positions=200, initializer_range=0.3,
                  pad_token_id=0)
NEO_SIZES = dict(hidden_size=32, num_layers=2, num_heads=4, vocab_size=300, max_position_embeddings=200,
                 initializer_range=0.3, pad_token_id=0)
GEMMA_SIZES = {**SIZES, "num_key_value_heads": 2, "head_dim": 12, "sliding_window": 9, "query_pre_attn_scalar": 12}
BLOOM_SIZES = dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=300, initializer_range=0.3, pad_token_id=0)
FALCON_SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=300, initializer_range=0.3, pad_token_id=0)
XGLM_SIZES = dict(d_model=32, num_layers=2, attention_heads=4, ffn_dim=48, vocab_size=300, max_position_embeddings=200, init_std=0.3,
                  pad_token_id=0)


def joined(kind, encoder=(), decoder=()):
    """Sizes of an EncoderDecoderModel with two models of this type."""
    sizes = {"model_type": kind, **SIZES}
    return {"encoder": {**sizes, **dict(encoder)}, "decoder": {
        **sizes, "num_hidden_layers": 1, "num_attention_heads": 2, "is_decoder": True, "add_cross_attention": True, **dict(decoder)}}


SAVED = {
    "bert": SIZES, "roberta": SIZES, "xlm-roberta": SIZES, "camembert": SIZES, "mpnet": SIZES,
    "data2vec-text": {**SIZES, "layer_norm_eps": 1e-5}, "roberta-prelayernorm": SIZES, "xlm-roberta-xl": SIZES,
    "roberta-prelayernorm typed": {**SIZES, "type_vocab_size": 3, "hidden_act": "relu", "layer_norm_eps": 1e-3, "pad_token_id": 1},
    "electra": {**SIZES, "embedding_size": 16},
    "albert": {**SIZES, "embedding_size": 16},
    "distilbert": dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=300, max_position_embeddings=200,
                       initializer_range=0.3),
    "nomic_bert": SIZES,
    "modernbert": {**SIZES, **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1)},
    "esm": {**SIZES, "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4, "rope_theta": 500.0},
    "esm 1b": {**SIZES, "position_embedding_type": "absolute", "emb_layer_norm_before": True, "token_dropout": True, "mask_token_id": 4,
               "pad_token_id": 1},
    "deberta": SIZES,
    "deberta v1": {**SIZES, "relative_attention": True, "pos_att_type": "c2p|p2c", "max_relative_positions": 30,
                   "position_biased_input": False, "type_vocab_size": 0},
    "deberta-v2": SIZES,
    "deberta-v2 v3": {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16,
                      "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False,
                      "type_vocab_size": 0},
    "gpt2": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=200, initializer_range=0.3, pad_token_id=0),
    "gpt2 by layer": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=200, initializer_range=0.3, pad_token_id=0,
                          scale_attn_by_inverse_layer_idx=True),
    "gpt2 undivided": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=200, initializer_range=0.2, pad_token_id=0,
                           scale_attn_weights=False),
    "gpt2 unpadded": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=200, initializer_range=0.3),
    "gpt_bigcode": GPTJ_SIZES,
    "gpt_bigcode by head": {**GPTJ_SIZES, "multi_query": False, "n_inner": 40, "activation_function": "relu", "scale_attn_weights": False,
                            "initializer_range": 0.2},
    "openai-gpt": GPTJ_SIZES,
    "openai-gpt silu": {**GPTJ_SIZES, "afn": "silu", "layer_norm_epsilon": 1e-3},
    "bloom": BLOOM_SIZES,
    "bloom heads": {**BLOOM_SIZES, "hidden_size": 36, "n_head": 6, "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3},
    "falcon": FALCON_SIZES,
    "falcon by head": {**FALCON_SIZES, "multi_query": False, "ffn_hidden_size": 40, "activation": "relu", "tie_word_embeddings": False},
    "falcon serial": {**FALCON_SIZES, "parallel_attn": False, "bias": True, "layer_norm_epsilon": 1e-3,
                      "rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}},
    "falcon newer": {**FALCON_SIZES, "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon newer one norm": {**FALCON_SIZES, "new_decoder_architecture": True, "num_kv_heads": 1, "num_ln_in_parallel_attn": 1, "bias": True},
    "xglm": XGLM_SIZES,
    "xglm unscaled": {**XGLM_SIZES, "scale_embedding": False, "activation_function": "relu", "tie_word_embeddings": False},
    "biogpt": SIZES,
    "biogpt unscaled": {**SIZES, "scale_embedding": False, "hidden_act": "relu", "tie_word_embeddings": False},
    "gpt_neo": {**NEO_SIZES, "attention_types": [[["global", "local"], 1]], "window_size": 9},
    "gpt_neo local": {**NEO_SIZES, "attention_types": [[["local"], 2]], "window_size": 5, "intermediate_size": 40,
                      "activation_function": "relu"},
    "gptj": GPTJ_SIZES,
    "gptj tied": {**GPTJ_SIZES, "n_inner": 40, "rotary_dim": 8, "tie_word_embeddings": True},
    "opt": OPT_SIZES,
    "opt gelu": {**OPT_SIZES, "activation_function": "gelu", "tie_word_embeddings": False},
    "opt 350m": {**OPT_SIZES, "do_layer_norm_before": False, "word_embed_proj_dim": 24},
    "opt narrow": {**OPT_SIZES, "word_embed_proj_dim": 40, "tie_word_embeddings": False},
    "gpt_neox": SIZES,
    "gpt_neox serial": {**SIZES, "use_parallel_residual": False, "rotary_pct": 0.5},
    "llama": {**SIZES, "num_key_value_heads": 2},
    "llama biased": {**SIZES, "attention_bias": True, "mlp_bias": True},
    "qwen3 biased": {**SIZES, "num_key_value_heads": 2, "attention_bias": True},
    "llama scaled": {**SIZES, "head_dim": 12, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}},
    "llama dynamic": {**SIZES, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0}},
    "llama yarn": {**SIZES, "rope_parameters": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                                                 "original_max_position_embeddings": 32}},
    "qwen2 yarn": {**SIZES, "num_key_value_heads": 2, "original_max_position_embeddings": 16, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 3.0, "mscale": 0.7, "mscale_all_dim": 1.2, "beta_fast": 8, "beta_slow": 2,
        "truncate": False, "original_max_position_embeddings": 32}},
    "llama longrope": {**SIZES, "rope_parameters": {"rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1, 1.5, 2, 3],
                                                     "long_factor": [2, 3, 5, 9], "original_max_position_embeddings": 64}},
    "phi3 longrope": {**SIZES, "num_key_value_heads": 2, "original_max_position_embeddings": 160, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 500.0, "short_factor": [1, 1.5, 2], "long_factor": [2, 3, 5],
        "partial_rotary_factor": 0.75}},
    "smollm3": {**SIZES, "num_key_value_heads": 2, "num_hidden_layers": 4},
    "smollm3 listed": {**SIZES, "num_key_value_heads": 2, "no_rope_layers": [0, 1], "head_dim": 12, "tie_word_embeddings": False},
    "mistral": {**SIZES, "num_key_value_heads": 1, "sliding_window": 9},
    "qwen2": {**SIZES, "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    "qwen3": {**SIZES, "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True},
    "olmo2": {**SIZES, "num_key_value_heads": 2},
    "olmo2 tied": {**SIZES, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "gemma2": GEMMA_SIZES,
    "gemma2 uncapped": {**GEMMA_SIZES, "attn_logit_softcapping": None, "final_logit_softcapping": None, "query_pre_attn_scalar": 5,
                        "tie_word_embeddings": False, "layer_types": ["full_attention", "sliding_attention"]},
    "gemma3_text": GEMMA_SIZES,
    "gemma3_text scaled": {**GEMMA_SIZES, "num_hidden_layers": 7, "final_logit_softcapping": 2.0, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "gemma3_text both ways": {**GEMMA_SIZES, "use_bidirectional_attention": True},
    "phi3": {**SIZES, "num_key_value_heads": 2},
    "phi3 window": {**SIZES, "sliding_window": 9, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0,
                                                                      "partial_rotary_factor": 0.75}},
    "ministral": {**SIZES, "num_key_value_heads": 2, "head_dim": 12, "sliding_window": 9},
    # its scores are not divided by the root of the width, so that float32 rounds them more
    "granite": {**SIZES, "num_key_value_heads": 2, "initializer_range": 0.2},
    "granite scaled": {**SIZES, "num_key_value_heads": 2, "embedding_multiplier": 3.0, "attention_multiplier": 0.2,
                       "residual_multiplier": 0.4, "logits_scaling": 5.0, "attention_bias": True, "mlp_bias": True,
                       "tie_word_embeddings": True},
    "seed_oss": {**SIZES, "num_key_value_heads": 2, "head_dim": 12},
    "seed_oss unbiased": {**SIZES, "num_key_value_heads": 2, "head_dim": 12, "attention_bias": False, "attention_out_bias": True,
                          "mlp_bias": True},
    "helium": {**SIZES, "num_key_value_heads": 2, "head_dim": 8},
    "helium biased": {**SIZES, "num_key_value_heads": 2, "head_dim": 8, "attention_bias": True, "mlp_bias": True},
    "glm": {**SIZES, "num_key_value_heads": 2, "head_dim": 12},
    "glm unbiased": {**SIZES, "num_key_value_heads": 2, "head_dim": 16, "attention_bias": False},
    "glm4": {**SIZES, "num_key_value_heads": 2, "head_dim": 12},
    "glm4 biased": {**SIZES, "num_key_value_heads": 2, "head_dim": 12, "attention_bias": True},
    "olmo3": {**SIZES, "num_hidden_layers": 4, "num_key_value_heads": 2, "sliding_window": 9},
    "gemma": {**SIZES, "num_key_value_heads": 1, "head_dim": 12},
    "cohere": {**SIZES, "num_key_value_heads": 2},
    "cohere biased": {**SIZES, "attention_bias": True, "logit_scale": 0.5},
    "cohere normed": {**SIZES, "num_key_value_heads": 2, "use_qk_norm": True},
    "cohere2": {**SIZES, "num_hidden_layers": 4, "num_key_value_heads": 2, "sliding_window": 9},
    "phi": {**SIZES, "num_key_value_heads": 2},
    "phi more": {**SIZES, "hidden_act": "gelu", "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.25}},
    "phi normed": {**SIZES, "num_key_value_heads": 2, "qk_layernorm": True},
    "stablelm": {**SIZES, "num_key_value_heads": 2},
    "stablelm parallel": {**SIZES, "num_key_value_heads": 2, "use_parallel_residual": True, "use_qkv_bias": True},
    "stablelm normed": {**SIZES, "num_key_value_heads": 2, "qk_layernorm": True},
    "starcoder2": {**SIZES, "num_key_value_heads": 2, "sliding_window": 9},
    "starcoder2 unbiased": {**SIZES, "num_key_value_heads": 2, "use_bias": False},
    **{f"{name} bidirectional": {**SIZES, "is_causal": False, "num_key_value_heads": 2} for name in ("gpt_neox", "llama", "mistral", "qwen2", "qwen3")},
    "gpt2 bidirectional": dict(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=200, initializer_range=0.3,
                               is_causal=False),
    "mistral bidirectional windows": {**SIZES, "is_causal": False, "num_key_value_heads": 2, "sliding_window": 9},
    "eurobert": {**SIZES, "num_key_value_heads": 2},
    "eurobert bos": {**SIZES, "num_key_value_heads": 2, "classifier_pooling": "bos"},
    "eurobert mean": {**SIZES, "num_key_value_heads": 2, "classifier_pooling": "mean"},
    "t5": T5_SIZES,
    "t5 few buckets": {**T5_SIZES, "relative_attention_num_buckets": 10, "relative_attention_max_distance": 20,
                       "feed_forward_proj": "gelu_new", "layer_norm_epsilon": 1e-3},
    "mt5": {**T5_SIZES, "feed_forward_proj": "gated-gelu"},
    "bart": BART_SIZES,
    "bart scaled": {**BART_SIZES, "scale_embedding": True, "activation_function": "relu"},
    "mbart": {**BART_SIZES, "scale_embedding": True},
    "m2m_100": BART_SIZES,
    "marian": {**BART_SIZES, "scale_embedding": True, "activation_function": "swish", "pad_token_id": 299, "decoder_start_token_id": 299},
    "marian odd": {**BART_SIZES, "d_model": 33, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "pad_token_id": 299,
                   "decoder_start_token_id": 299},
    "pegasus": {**BART_SIZES, "pad_token_id": 0, "decoder_start_token_id": 0},
    "pegasus scaled": {**BART_SIZES, "scale_embedding": True, "activation_function": "relu", "d_model": 33, "encoder_attention_heads": 3,
                       "decoder_attention_heads": 3},
    "encoder-decoder": joined("bert"),
    "encoder-decoder unlike": joined("bert", {"hidden_act": "relu", "type_vocab_size": 3, "max_position_embeddings": 100},
                                     {"tie_word_embeddings": False, "intermediate_size": 20, "max_position_embeddings": 90,
                                      "layer_norm_eps": 1e-3}),
    "encoder-decoder roberta": joined("roberta", {}, {"pad_token_id": 1, "hidden_act": "relu", "tie_word_embeddings": False}),
    "encoder-decoder camembert": joined("camembert", {"type_vocab_size": 1}, {"pad_token_id": 8}),
    "encoder-decoder generation": joined("bert-generation"),
    "encoder-decoder generation untied": joined("bert-generation", {}, {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
    "m2m_100 unscaled": {**BART_SIZES, "scale_embedding": False, "pad_token_id": 4, "d_model": 34,
                         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "activation_function": "gelu"},
}
CAUSAL = {"gpt2", "gpt_bigcode", "openai-gpt", "bloom", "falcon", "xglm", "biogpt", "gpt_neo", "gptj", "opt", "gpt_neox", "llama", "smollm3", "mistral", "qwen2", "qwen3", "phi3", "olmo2", "gemma2", "gemma3_text",
          "ministral", "granite", "seed_oss", "helium", "glm", "glm4", "olmo3", "gemma", "cohere", "cohere2", "phi", "stablelm",
          "starcoder2"}


def classes(name):
    if encoder := ENCODERS.get(name.split()[0]):
        return encoder, transformers.AutoModelForSeq2SeqLM
    causal = name.split()[0] in CAUSAL
    return transformers.AutoModel, transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM


def check_saved(name, kind, scratch):
    """Largest differences between the program's maps and states and transformers' own, of what it saved."""
    folder = checkpoint.write_random(scratch / "model")  # for its vocab.txt and tokenizer_config.json
    torch.manual_seed(len(name))
    config = transformers.AutoConfig.for_model(name.split()[0], **SAVED[name])
    model = kind.from_config(config) if hasattr(kind, "from_config") else kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    answer = program(folder, scratch / "answer.npz")
    maps, states = huggingface(folder, answer["input_ids"].astype(int), answer["token_type_ids"].astype(int))
    return (difference(answer["attentions"], maps),
            difference(answer["hidden_states"], states) / max(1, np.abs(states).max()))


def check_every(names, check, what=""):
    """Checks each class of each name in a folder of its own; returns the largest difference."""
    worst = 0
    for name in names:
        for kind in classes(name):
            with tempfile.TemporaryDirectory() as scratch:
                found = check(name, kind, Path(scratch))
            print(f"{name + what + ' ' + kind.__name__:32} "+ " ".join(f"{value:9.1e}" for value in found))
            worst = max(worst, *found)
    return worst


def stack_of(folder, stack, source, target, *options, outputs="attentions,hidden_states,loss"):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(folder / "stack.npz"), "--outputs", outputs, "--stack", stack, "--input-ids",
               ",".join(map(str, source)), "--target-ids", ",".join(map(str, target)), *options]
    subprocess.run(command, check=True)
    with np.load(folder / "stack.npz") as answer:
        return dict(answer)


def attention_at(model, stack, layer):
    """The projections of values and of outputs."""
    decoder = model.get_decoder()
    if hasattr(decoder, "block"):
        block = decoder.block[layer].layer
        attention = block[1].EncDecAttention if stack == "cross" else block[0].SelfAttention
        return attention.v, attention.o
    if not hasattr(decoder, "layers"):  # of an EncoderDecoderModel
        block = decoder.base_model.encoder.layer[layer]
        attention = block.crossattention if stack == "cross" else block.attention
        return attention.self.value, attention.output.dense
    attention = decoder.layers[layer].encoder_attn if stack == "cross" else decoder.layers[layer].self_attn
    return attention.v_proj, attention.out_proj


def check_changes(model, folder, stack, source, target):
    """Differences of the loss without a head, and of what values of 0 do to a state, in the first layer."""
    found = stack_of(folder, stack, source, target, "--target", '{"loss": true}', outputs="effects,value_zeroing")
    values, output = attention_at(model, stack, 0)
    head, at, n_keys = 1, 5, found["value_zeroing"].shape[2]

    def run(n_texts=1):
        with torch.no_grad():
            got = model(input_ids=torch.tensor([source] * n_texts), decoder_input_ids=torch.tensor([[0, *target]] * n_texts),
                        attention_mask=torch.ones(n_texts, len(source), dtype=torch.long), output_hidden_states=True)
        loss = torch.nn.functional.cross_entropy(got.logits[0, :-1], torch.tensor(target))
        return loss.item(), got.decoder_hidden_states[1][:, at]

    loss, state = run()
    kept = torch.arange(output.in_features) // (output.in_features // found["effects_target_change"].shape[1]) != head
    with output.register_forward_pre_hook(lambda module, inputs: (inputs[0] * kept,)):
        effect = run()[0] - loss
    others = 1 - torch.eye(n_keys, dtype=torch.float64)[:, :, None]  # text j lacks the value of token j
    with values.register_forward_hook(lambda module, inputs, result: result * others):
        distances = 1 - torch.cosine_similarity(state, run(n_keys)[1]).numpy()
    return (abs(found["effects_target_change"][0, head] - effect),
            difference(found["value_zeroing"][0][at], distances / distances.sum()))


def check_stacks(name, scratch):
    """Largest differences of the decoder's maps, the cross heads', the states, the losses and of changes to both kinds of heads,
    of what transformers saved."""
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    sizes = {**SAVED[name], "decoder_start_token_id": 0}
    model = transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(name.split()[0], **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    model.save_pretrained(folder)
    model = type(model).from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    source, target = [2, *range(20, 90), 3], [9, *range(40, 80), 9, 3]
    with torch.no_grad():
        output = model(input_ids=torch.tensor(source)[None], decoder_input_ids=torch.tensor([0, *target])[None],
                       attention_mask=torch.ones(1, len(source), dtype=torch.long), output_attentions=True,
                       output_hidden_states=True)
    losses = torch.nn.functional.cross_entropy(output.logits[0, :-1], torch.tensor(target), reduction="none").numpy()
    own, cross = (stack_of(folder, stack, source, target) for stack in ("decoder", "cross"))
    states = np.array([state[0].numpy() for state in output.decoder_hidden_states])
    return (difference(own["attentions"], np.array([maps[0].numpy() for maps in output.decoder_attentions])),
            difference(cross["attentions"], np.array([maps[0].numpy() for maps in output.cross_attentions])),
            max(difference(answer["hidden_states"], states) for answer in (own, cross)) / max(1, np.abs(states).max()),
            max(difference(answer["loss"], losses) for answer in (own, cross)) / losses.max(),
            *np.max([check_changes(model, folder, stack, source, target) for stack in ("decoder", "cross")], axis=0))


def check_every_stack():
    worst = 0
    for name in SAVED:
        if name.split()[0] in ENCODERS:
            with tempfile.TemporaryDirectory() as scratch:
                found = check_stacks(name, Path(scratch))
            print(f"{name + ' decoder, cross heads, states, loss, changes':57} " + " ".join(f"{value:9.1e}" for value in found))
            worst = max(worst, *found)
    return worst


# Task of a class -> output, its logits, numbers of classes.
HEADS = {"SequenceClassification": ("classes", ("logits",), (1, 4)), "TokenClassification": ("classes", ("logits",), (3,)),
         "QuestionAnswering": ("answer", ("start_logits", "end_logits"), (2,)),
         "NextSentencePrediction": ("next_sentence", ("logits",), (2,))}


def saved_logits(folder, kind, ids):
    """transformers' logits, and the program's, by name."""
    output, names, _ = HEADS[kind.__name__.rsplit("For", 1)[1]]
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--outputs", output, "--digits", "9",
               "--input-ids", ",".join(map(str, ids))]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)[output]
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    with torch.no_grad():
        expected = model(torch.tensor(ids)[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return [(expected[name][0].numpy(), np.array(found[name])) for name in names]


def save_head(name, kind, n_classes, scratch):
    """A random model with such a head, saved."""
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    model = kind(transformers.AutoConfig.for_model(name.split()[0], **SAVED[name], num_labels=n_classes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder, model


def logits_difference(name, kind, folder):
    """Largest difference between the program's logits and transformers' own, of a text that ends with padding."""
    return max(difference(found, expected) / max(1, np.abs(expected).max())
               for expected, found in saved_logits(folder, kind, [2, *range(20, 40), 3] + [0, 0] * (name.split()[0] in CAUSAL)))


def head_kinds(name):
    """Classes with a head that transformers has for a model type, with numbers of classes."""
    prefix = type(transformers.AutoConfig.for_model(name.split()[0])).__name__.removesuffix("Config")
    for task, (_, _, numbers) in HEADS.items():
        kind = getattr(transformers, f"{prefix}For{task}", None)
        if kind and (name.split()[0] not in ENCODERS or task == "TokenClassification"):  # others read the decoder
            yield kind, numbers


def check_every_head():
    worst = n_checked = 0
    for name in SAVED:
        for kind, numbers in head_kinds(name):
            for n_classes in numbers:
                with tempfile.TemporaryDirectory() as scratch:
                    folder, _ = save_head(name, kind, n_classes, Path(scratch))
                    found = logits_difference(name, kind, folder)
                print(f"{name} {kind.__name__} {n_classes}: {found:.1e}")
                worst, n_checked = np.maximum(worst, found), n_checked + 1
    return worst if n_checked else np.nan


def check_loss(name, scratch):
    """Largest relative difference between the program's losses and transformers' own, of what it saved."""
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(name.split()[0], **SAVED[name]))
    model.save_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64)
    ids = torch.tensor([[2, *range(20, 60), 3]])
    with torch.no_grad():
        output = model.eval()(ids, attention_mask=torch.ones_like(ids), labels=ids)
    expected = torch.nn.functional.cross_entropy(output.logits[0, :-1], ids[0, 1:], reduction="none").numpy()
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--outputs", "loss", "--digits", "9",
               "--input-ids", ",".join(map(str, ids[0].tolist()))]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["loss"]
    return max(difference(np.array(found["tokens"]), expected), abs(found["mean"] - output.loss.item())) / expected.max()


def check_every_loss():
    worst = 0
    for name in SAVED:
        if name.split()[0] in CAUSAL:
            with tempfile.TemporaryDirectory() as scratch:
                worst = max(worst, found := check_loss(name, Path(scratch)))
            print(f"{name} loss: {found:.1e}")
    return worst


def check_contacts(name, kind, scratch):
    """Largest difference between the program's contacts and those that ESM's own code predicts, of what it saved."""
    folder = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    model = kind(transformers.AutoConfig.for_model("esm", **SAVED[name]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
        getattr(model, "esm", model).contact_head.regression.weight *= 20
    model.save_pretrained(folder)
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    worst = 0
    for ids in ([0, *range(20, 80), 2], [0, 5, 6, 7, 2, 8, 9, 4, 2]):
        with torch.no_grad():
            expected = model.predict_contacts(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long))[0].numpy()
        command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--outputs", "contacts", "--digits", "9",
                   "--input-ids", ",".join(map(str, ids))]
        found = np.array(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["contacts"])
        worst = max(worst, difference(found, expected))
    return worst


def check_every_contact():
    worst = 0
    for name in SAVED:
        for kind in (transformers.EsmModel, transformers.EsmForMaskedLM) if name.split()[0] == "esm" else ():
            with tempfile.TemporaryDirectory() as scratch:
                worst = max(worst, found := check_contacts(name, kind, Path(scratch)))
            print(f"{name} {kind.__name__} contacts: {found:.1e}")
    return worst


# Keys of config.json that no pass of a base model reads. ESM's rope_theta is in rope_parameters too, which the program
# reads and transformers 5.24 writes but does not read.
UNREAD_KEYS = {"architectures", "dtype", "transformers_version", "model_type", "use_cache", "initializer_range"}


def check_key(folder, ids):
    """The largest difference of maps and states, or NaN if either refuses the config."""
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", "--format", "npz", "-o",
               str(folder / "key.npz"), "--outputs", "attentions,hidden_states", "--input-ids", ",".join(map(str, ids))]
    if subprocess.run(command, capture_output=True).returncode:
        return np.nan
    try:
        maps, states = huggingface(folder, ids, [0] * len(ids))
        found = check_joined_key(folder, ids) if "decoder" in json.loads((folder / "config.json").read_text()) else 0
    except Exception:  # whatever its classes raise for a config that they do not take
        return np.nan
    with np.load(folder / "key.npz") as answer:
        return max(found, difference(answer["attentions"], maps),
                   difference(answer["hidden_states"], states) / max(1, np.abs(states).max()))


def check_joined_key(folder, ids):
    """The same of the decoder of joined models, with its loss."""
    model = transformers.EncoderDecoderModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    with torch.no_grad():
        output = model(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), output_attentions=True,
                       output_hidden_states=True, decoder_input_ids=torch.tensor([[model.config.decoder_start_token_id, *ids]]))
    losses = torch.nn.functional.cross_entropy(output.logits[0, :-1], torch.tensor(ids), reduction="none").numpy()
    answer = stack_of(folder, "decoder", ids, ids)
    states = np.array([state[0].numpy() for state in output.decoder_hidden_states])
    return max(difference(answer["attentions"], np.array([maps[0].numpy() for maps in output.decoder_attentions])),
               difference(answer["hidden_states"], states) / max(1, np.abs(states).max()),
               difference(answer["loss"], losses) / losses.max())


ABSENT = object()  # a key that a config lacks


def places(config):
    """Where keys of a config are: among its own, or among those of the encoder and the decoder."""
    yield from ((None, key) for key in config if not isinstance(config[key], dict) or key not in ("encoder", "decoder"))
    yield from ((stack, key) for stack in ("encoder", "decoder") if isinstance(config.get(stack), dict) for key in config[stack])


def edited(config, place, value):
    stack, key = place
    if stack:
        return {**config, stack: edited(config[stack], (None, key), value)}
    return {name: old for name, old in {**config, key: value}.items() if old is not ABSENT}


def save_for_keys(name, folder):
    """A random model in a folder, and its config's keys."""
    torch.manual_seed(len(name))
    kind = classes(name)[0]
    more = {"decoder_start_token_id": 0} if "decoder" in SAVED[name] else {}
    config = transformers.AutoConfig.for_model(name.split()[0], **SAVED[name], **more)
    model = kind.from_config(config) if hasattr(kind, "from_config") else kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model, json.loads((folder / "config.json").read_text())


def check_every_key():
    """Each key of each saved config is left out in turn: the program takes transformers' default, or refuses."""
    worst = 0
    for name in SAVED:
        with tempfile.TemporaryDirectory() as scratch:
            folder = checkpoint.write_random(Path(scratch) / "model")
            _, whole = save_for_keys(name, folder)
            n_checked = 0
            left_out = UNREAD_KEYS | ({"rope_theta"} if name == "esm" else set())
            keys = [place for place in places(whole) if place[1] not in left_out]
            for place in keys:
                (folder / "config.json").write_text(json.dumps(edited(whole, place, ABSENT)))
                found = check_key(folder, [2, *range(20, 60), 3])
                n_checked += not np.isnan(found)
                worst = np.fmax(worst, found)
                if found > LIMIT:
                    print(f"{name} without {place}: {found:.1e}")
        print(f"{name}: {n_checked} of {len(keys)} keys may be absent")
    return worst


# Texts that some key of a config of the library takes; other texts are refused by one side.
TEXTS = ["relu", "gelu", "silu", "tanh", "gelu_new", "relative_key", "relative", "rotary", "absolute", "mean", "gated-gelu", "c2p|p2c"]


def other_values(value):
    """Values of a key that differ from this one, of the same type if it has one."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, 2, 7, 0, None]
    if isinstance(value, float):
        return [2 * value + 0.25, value / 3, None]
    if isinstance(value, str):
        return [text for text in TEXTS if text != value]
    if isinstance(value, list):
        return [value[::-1], value[:1], [], None]
    return [True, False, 0.5, 3, "x", [0, 1], {"0": [1]}, {"rope_type": "linear", "factor": 3.0}]


def keys_of(config, model):
    """Keys of the config's class and of all configs, other names of keys, and those that the model's code reads."""
    names = {name for kind in type(config).__mro__ for name in getattr(kind, "__annotations__", {})}
    names |= set(re.findall(r"config(?:\.|, [\"'])(\w+)", inspect.getsource(inspect.getmodule(type(model)))))
    names |= {"is_causal", "pruned_heads", "per_layer_config", "rope_theta", "rope_scaling", "rope_parameters"}
    return sorted(name for name in config.to_dict().keys() | names | config.attribute_map.keys()
                  if name not in UNREAD_KEYS | {"id2label", "label2id", "attribute_map"} and not callable(getattr(config, name, None)))


def places_of_values(model):
    """Where keys of a model's config may be, and their values."""
    config = model.config
    if not isinstance(config, transformers.EncoderDecoderConfig):
        return [((None, key), getattr(config, key, None)) for key in keys_of(config, model)]
    own = [key for key in keys_of(config, model) if key not in ("encoder", "decoder")]
    return [*(((None, key), getattr(config, key, None)) for key in own),
            *(((stack, key), getattr(getattr(config, stack), key, None)) for stack in ("encoder", "decoder")
              for key in keys_of(getattr(config, stack), getattr(model, stack)))]


def check_every_value():
    """Each key of each model type gets other values in turn: the program computes what transformers does, or refuses."""
    worst = 0
    for name in sorted({name.split()[0]: name for name in reversed(SAVED)}.values()):
        with tempfile.TemporaryDirectory() as scratch:
            folder = checkpoint.write_random(Path(scratch) / "model")
            model, whole = save_for_keys(name, folder)
            n_checked = n_refused = 0
            for place, default in places_of_values(model):
                stack, key = place
                if name == "esm" and key == "rope_theta":
                    continue
                for value in other_values((whole[stack] if stack else whole).get(key, default)):
                    (folder / "config.json").write_text(json.dumps(edited(whole, place, value)))
                    found = check_key(folder, [2, *range(20, 60), 3])
                    n_checked, n_refused = n_checked + (not np.isnan(found)), n_refused + np.isnan(found)
                    worst = np.fmax(worst, found)
                    if found > WRONG:
                        print(f"{name} with {place} = {value!r}: {found:.1e}", flush=True)
        print(f"{name}: {n_checked} values compared, {n_refused} refused", flush=True)
    return worst


# Values of keys that say what a head is. Those of id2label are numbers of classes.
HEAD_VALUES = {"num_labels": [1, 3], "id2label": [1, 3], "problem_type": ["regression", "multi_label_classification", None, "x"],
               "pad_token_id": [None, 3, 39, -1], "classifier_pooling": ["cls", "mean", "bos", "late", None, "x"],
               "classifier_activation": ["relu", "tanh", None], "classifier_bias": [True, None], "classifier_dropout": [0.5, None],
               "summary_type": ["first", "mean", None], "summary_use_proj": [False, True], "summary_activation": ["tanh", None],
               "pooler_hidden_act": ["relu", "tanh"], "pooler_hidden_size": [16], "sentence_pooling": ["cls", "max"]}


def keys_of_head(model):
    """Keys that the classes read which the base model does not have."""
    base = set(map(type, model.base_model.modules()))
    kinds = {kind for kind in map(type, model.modules()) if kind not in base and kind.__module__.startswith("transformers.models")}
    source = "".join(map(inspect.getsource, kinds))
    return (set(re.findall(r"config(?:\.|, [\"'])(\w+)", source)) | HEAD_VALUES.keys()) - UNREAD_KEYS


def check_every_head_value():
    """As check_every_value for the keys that heads read: the program's logits are transformers' own, or one side refuses."""
    worst = 0
    for name in sorted({name.split()[0]: name for name in reversed(SAVED)}.values()):
        for kind, numbers in head_kinds(name):
            n_checked = n_refused = 0
            with tempfile.TemporaryDirectory() as scratch:
                folder, model = save_head(name, kind, numbers[-1], Path(scratch))
                whole = json.loads((folder / "config.json").read_text())
                for key in sorted(keys_of_head(model)):
                    for value in HEAD_VALUES.get(key) or other_values(whole.get(key, getattr(model.config, key, None))):
                        labels = {key: {str(i): f"L{i}" for i in range(value)}} if key == "id2label" else {key: value}
                        (folder / "config.json").write_text(json.dumps({**whole, **labels}))
                        try:
                            found = logits_difference(name, kind, folder)
                        except Exception:  # the program's exit status, or whatever the classes raise
                            found = np.nan
                        n_checked, n_refused = n_checked + (not np.isnan(found)), n_refused + np.isnan(found)
                        worst = np.fmax(worst, found)
                        if found > WRONG:
                            print(f"{name} {kind.__name__} with {key} = {value!r}: {found:.1e}", flush=True)
            print(f"{name} {kind.__name__}: {n_checked} values compared, {n_refused} refused", flush=True)
    return worst


# Adapters of PEFT: model type -> modules, and whether the scale has the root of the rank.
ADAPTED = {"llama": (["q_proj", "v_proj", "o_proj", "down_proj"], False), "qwen2": (["k_proj", "gate_proj"], True),
           "gpt2": (["c_attn", "c_proj", "c_fc"], True), "gpt_neox": (["query_key_value", "dense"], False),
           "bert": (["query", "value", "dense"], False)}


def check_adapter(name, kind, scratch):
    """Largest differences of the maps and states, of a model with an adapter that PEFT saved."""
    modules, by_root = ADAPTED[name]
    base = checkpoint.write_random(scratch / "model")
    torch.manual_seed(len(name))
    config = transformers.AutoConfig.for_model(name, **SAVED[name])
    kind.from_config(config).save_pretrained(base)
    model = peft.get_peft_model(kind.from_pretrained(base), peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=modules, use_rslora=by_root, rank_pattern={modules[0]: 2}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter) * parameter.requires_grad
    model.save_pretrained(scratch / "adapter")
    answer = program(scratch / "adapter", scratch / "answer.npz")
    model = kind.from_pretrained(base, attn_implementation="eager", dtype=torch.float64)
    model = peft.PeftModel.from_pretrained(model, scratch / "adapter", autocast_adapter_dtype=False)
    with torch.no_grad():
        output = model.double().eval()(torch.tensor(answer["input_ids"].astype(int))[None], output_attentions=True,
                                       output_hidden_states=True)
    maps = np.array([part[0].numpy() for part in output.attentions])
    states = np.array([state[0].numpy() for state in output.hidden_states])
    return (difference(answer["attentions"], maps),
            difference(answer["hidden_states"], states) / max(1, np.abs(states).max()))


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    if sys.argv[1:] == ["--values"]:
        sys.exit(not np.maximum(check_every_value(), check_every_head_value()) <= WRONG)
    if sys.argv[1:] == ["--keys"]:
        sys.exit(not check_every_key() <= LIMIT)
    print(f"{'':32} {'program':>9} {'states':>9} {'reference':>9} {'states':>9}")
    worst = np.max([check_every(SAVED, check_saved), check_every_stack(), check_every_head(), check_every_loss(),
                    check_every_contact(),
                    check_every(ADAPTED if peft else (), check_adapter, " adapter")])
    if sys.argv[1:] == ["--saved"]:
        sys.exit(not worst <= LIMIT)
    every = [(family, variant) for family in sys.argv[1:] or FAMILIES for variant in FAMILIES[family].VARIANTS]
    for family, variant in every:
        if f"{family} {variant}" in UNREAD:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            found = check(FAMILIES[family], variant, Path(scratch))
        print(f"{family + ' ' + variant:32} " + " ".join(f"{value:9.1e}" for value in found))
        worst = max(worst, *found)
    sys.exit(not worst <= LIMIT)


if __name__ == "__main__":
    main()
