#!/usr/bin/env python3
"""Compares token ids of published forms of folders with transformers: files from before tokenizer.json, and keys of
tokenizer_config.json.

    HEADSCOPE=build/headscope DIR/bin/python tests/reference/published_tokenizers_check.py [NAME...]

Each folder has the files that the authors of a family published, of a small vocabulary. Each option is one key of
tokenizer_config.json that transformers reads. The program must find the same ids, or refuse the folder and name the key.
Ends with 1 if ids differ, with 77 if torch, transformers or sentencepiece is not installed. tests/api/test_transformers.py
runs it.
"""
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import transformers_check as check  # ends with 77 where it cannot run

try:
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES  # noqa: E402

torch, transformers = check.torch, check.transformers
TEXTS = ["the war of the city was at the airport in 1999, it's said", "An old office of the Police", "  two  spaces\tand\na line",
         "caf\u00e9 na\u00efve \u6f22\u5b57 \U0001f600 e\u0301 \ufb01", "<|endoftext|>the</s> @user <s>the", "don't WE'LL 12345 ... !?\u2026"]
POOL = [*"the| of| |  |\t|\n|\r\n|\xa0|\u3000|\u2581|\x01|.|,|?!|...|'s|don't|@user|<|endoftext|>|<ent>|[MASK]|<mask>| <mask>".split("|"),
        *"\ufb01|\u2122|\u00c5|e\u0301|\u4e2d\u56fd|\U0001f600|\u00df|A|B|aa|xyz|12|1,|</s>|<s>|<unk>|<pad>|<|endoftext|>".split("|")]
POOL += ["__en__", "__xx__", "en_XX"]
ROWS = 1200  # of the embedding: more than tokens in any vocabulary


def texts(name):
    """Hard texts. RoBERTa's mask takes in the space before it, as in version 4, which version 5 lost."""
    rng = random.Random(66)
    yield from TEXTS
    pool = [part for part in POOL if "<mask>" not in part or name.split()[0] not in ("roberta", "bart")]
    for _ in range(14):
        yield "".join(rng.choice(pool) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 20)))


def pairs_of(tokenizer, trainer):
    tokenizer.train_from_iterator(TEXTS * 5, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab.json": json.dumps(model["vocab"]), "merges.txt": "#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"])}


def byte_pairs(*special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return pairs_of(tokenizer, trainers.BpeTrainer(vocab_size=400, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False))


def word_pairs():
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return pairs_of(tokenizer, trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))


def pieces(size, **options):
    """A sentencepiece model."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS * 40), model_writer=file, vocab_size=size, hard_vocab_limit=False,
                                             minloglevel=2, num_threads=1, **options)
    return file.getvalue()


LLAMA = pieces(420, model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True)
GEMMA = pieces(450, model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
               add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, eos_piece="<eos>", bos_piece="<bos>",
               user_defined_symbols=["<mask>", "<start_of_turn>", "\n", "\n\n", "\u2581\u2581", "\t"])
PEGASUS = pieces(150, pad_id=0, eos_id=1, bos_id=-1, unk_id=2)
MBART, PLAIN = pieces(150), pieces(150, normalization_rule_name="identity")
M2M100 = pieces(150)


def ids_of(model):
    """vocab.json of a model's pieces."""
    reader = sentencepiece.SentencePieceProcessor(model_proto=model)
    listed = ["<s>", "<pad>", "</s>", "<unk>", *(reader.id_to_piece(i) for i in range(3, reader.get_piece_size()))]
    return json.dumps({piece: i for i, piece in enumerate(listed)})


LLAMA_CONFIG = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>",
                "unk_token": "<unk>", "pad_token": None, "legacy": False}
GEMMA_CONFIG = {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>",
                "pad_token": "<pad>"}


def charsmap_of(file):
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(file)
    return model.normalizer_spec.precompiled_charsmap


def lines(*tokens):
    return "".join(token + "\n" for token in tokens)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "war", "of", "city", "a", "##a", "@", "user", "b", "office", "ent", "<", ">", "cafe", "caf\u00e9"]
CODONS = ["<unk>", "<pad>", "<mask>", "<cls>", "<eos>", "<bos>", "the", "war", "A", "C", "G", "T", "N"]
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>"]
OPT = {"tokenizer_class": "GPT2Tokenizer", "errors": "replace", "add_prefix_space": False, "add_bos_token": True, "bos_token": "</s>",
       "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
QWEN2_PAIRS = byte_pairs()
QWEN2 = {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
         "added_tokens_decoder": {str(len(json.loads(QWEN2_PAIRS["vocab.json"])) + i): {"content": token, "special": True, "normalized": False}
                                  for i, token in enumerate(("<|endoftext|>", "<|im_start|>", "<|im_end|>"))}}

# name: model_type, files, tokenizer_config.json
FOLDERS = {
    "gpt2": ("gpt2", byte_pairs("<|endoftext|>"), None),
    "gpt2 named": ("gpt2", byte_pairs("<|endoftext|>"), {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024}),
    "gpt2 space": ("gpt2", byte_pairs("<|endoftext|>"), {"add_prefix_space": True, "add_bos_token": True, "add_eos_token": True}),
    "gpt_neo": ("gpt_neo", byte_pairs("<|endoftext|>"), None),
    "gptj": ("gptj", byte_pairs("<|endoftext|>"), {"pad_token": "<pad>"}),
    "opt": ("opt", byte_pairs("<s>", "<pad>", "</s>"), OPT),
    "phi": ("phi", byte_pairs("<|endoftext|>"), {"tokenizer_class": "CodeGenTokenizer"}),
    "starcoder2": ("starcoder2", byte_pairs("<|endoftext|>"), {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False}),
    "gpt_neox": ("gpt_neox", byte_pairs("<|endoftext|>", "<|padding|>"), {"tokenizer_class": "GPTNeoXTokenizer"}),
    "qwen2": ("qwen2", QWEN2_PAIRS, QWEN2),
    "qwen2 space": ("qwen2", byte_pairs("<|endoftext|>"), {"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": True}),
    "openai-gpt": ("openai-gpt", word_pairs(), None),
    "openai-gpt cased": ("openai-gpt", word_pairs(), {"do_lower_case": False}),
    "bart": ("bart", byte_pairs(*FAIRSEQ, "<mask>"), None),
    "bart named": ("bart", byte_pairs(*FAIRSEQ, "<mask>"), {"tokenizer_class": "BartTokenizer", "add_prefix_space": True}),
    "roberta": ("roberta", byte_pairs(*FAIRSEQ, "<mask>"), None),
    "llama bare": ("llama", {"tokenizer.model": LLAMA}, None),
    "llama": ("llama", {"tokenizer.model": LLAMA}, LLAMA_CONFIG),
    "llama legacy": ("llama", {"tokenizer.model": LLAMA}, {**LLAMA_CONFIG, "legacy": True, "add_eos_token": True}),
    "llama first": ("llama", {"tokenizer.model": LLAMA}, {"tokenizer_class": "LlamaTokenizerFast", "pad_token": "<unk>"}),
    "llama spaceless": ("llama", {"tokenizer.model": LLAMA}, {**LLAMA_CONFIG, "add_prefix_space": False}),
    "mistral": ("mistral", {"tokenizer.model": LLAMA}, {**LLAMA_CONFIG, "legacy": True}),
    "mistral bare": ("mistral", {"tokenizer.model": LLAMA}, None),
    "phi3": ("phi3", {"tokenizer.model": LLAMA}, LLAMA_CONFIG),
    "phi3 bytes": ("phi3", {"tokenizer.model": pieces(200, model_type="bpe", remove_extra_whitespaces=False)}, LLAMA_CONFIG),
    "gemma": ("gemma", {"tokenizer.model": GEMMA}, GEMMA_CONFIG),
    "gemma bare": ("gemma2", {"tokenizer.model": GEMMA}, None),
    "pegasus": ("pegasus", {"spiece.model": PEGASUS}, None),
    "pegasus named": ("pegasus", {"spiece.model": PEGASUS}, {"tokenizer_class": "PegasusTokenizer", "mask_token": "<mask_2>", "offset": 103,
                                                             "mask_token_sent": "<mask_1>"}),
    "m2m_100": ("m2m_100", {"sentencepiece.bpe.model": M2M100, "vocab.json": ids_of(M2M100)}, None),
    "m2m_100 german": ("m2m_100", {"sentencepiece.bpe.model": M2M100, "vocab.json": ids_of(M2M100)}, {"tokenizer_class": "M2M100Tokenizer",
                                                                                                   "src_lang": "de"}),
    "m2m_100 listed": ("m2m_100", {"sentencepiece.bpe.model": M2M100, "vocab.json": ids_of(M2M100)},
                       {"tokenizer_class": "M2M100Tokenizer", "additional_special_tokens": [f"__{code}__" for code in FAIRSEQ_LANGUAGE_CODES["m2m100"]]}),
    "mbart": ("mbart", {"sentencepiece.bpe.model": MBART}, None),
    "mbart german": ("mbart", {"sentencepiece.bpe.model": MBART}, {"tokenizer_class": "MBartTokenizer", "src_lang": "de_DE"}),
    "mbart50": ("mbart", {"sentencepiece.bpe.model": MBART}, {"tokenizer_class": "MBart50Tokenizer", "src_lang": "fr_XX"}),
    "mbart50 identity": ("mbart", {"sentencepiece.bpe.model": PLAIN}, {"tokenizer_class": "MBart50Tokenizer"}),
    "bert": ("bert", {"vocab.txt": lines(*WORDS)}, {"tokenizer_class": "BertTokenizer"}),
    "esm": ("esm", {"vocab.txt": lines(*CODONS)}, {"tokenizer_class": "EsmTokenizer"}),
    "esm endless": ("esm", {"vocab.txt": lines(*CODONS)}, {"tokenizer_class": "EsmTokenizer", "eos_token": None}),
}
WITH_OPTIONS = {"gpt2", "opt", "llama", "roberta", "bert", "esm"}  # one of each kind of class
# Keys that every class of transformers reads, and values that mean something else than no key.
TOKEN = {"__type": "AddedToken", "content": "<ent>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}
OPTIONS = [
    {"extra_special_tokens": ["@user", "<ent>"]}, {"extra_special_tokens": [TOKEN]}, {"extra_special_tokens": {"user_token": "@user"}},
    {"extra_special_tokens": [], "additional_special_tokens": ["@user"]}, {"extra_special_tokens": ["<ent>"], "additional_special_tokens": ["@user"]},
    {"extra_special_tokens": {}}, {"additional_special_tokens": ["@user", "<ent>"]}, {"additional_special_tokens": None},
    {"user_token": "@user"}, {"user_token": "@user", "extra_special_tokens": {"ent_token": "<ent>"}}, {"user_token": None},
    {"split_special_tokens": True}, {"split_special_tokens": False}, {"mask_token": None, "pad_token": None},
    {"add_bos_token": True}, {"add_eos_token": True}, {"add_bos_token": False, "add_eos_token": False}, {"truncation_side": "right"},
    {"clean_up_tokenization_spaces": True, "errors": "strict", "legacy": True, "padding_side": "left"}, {"backend": "tokenizers"},
    {"chat_template": "{{ messages }}", "processor_class": "P", "model_input_names": ["input_ids"]}, {"init_inputs": []},
    {"fix_mistral_regex": True}, {"model_specific_special_tokens": {"user_token": "@user"}},
]


def write_model(folder):
    config = transformers.BertConfig(vocab_size=ROWS, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, max_position_embeddings=600)
    transformers.BertModel(config).save_pretrained(folder)


def write_folder(folder, kind, files, config, option):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    if config is not None or option:
        (folder / "tokenizer_config.json").write_text(json.dumps({**(config or {}), **option}))


def program(model, folder, text, pair=None):
    """The ids, or the message of a refusal."""
    command = [os.environ["HEADSCOPE"], "analyze", "--model", model, "--tokenizer", folder, "--max-tokens", "512", "--outputs", "summary",
               *(["--text-pair", pair] if pair is not None else []), "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True)
    return json.loads(done.stdout)["input_ids"] if done.returncode == 0 else done.stderr.decode().strip()


def differs(model, name, folder, option):
    """Says what the program reads differently, or nothing. A folder that transformers does not open is not compared."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        if name.split()[0] == "mbart":  # version 5 has lost its table of characters
            tokenizer.backend_tokenizer.normalizer = normalizers.Precompiled(charsmap_of(FOLDERS[name][1]["sentencepiece.bpe.model"]))
    except Exception as error:
        return None, f"transformers: {error!r:.80}"
    cases = [(text, None) for text in ([*texts(name), ""] if not option else TEXTS)] + [(TEXTS[0], TEXTS[1])]
    cases += [(TEXTS[0], ""), ("", TEXTS[0])] if not option else []
    for text, pair in cases:
        try:
            # in lists: one empty second text is none in transformers, and one of two texts in its lists
            expected = tokenizer([text], [pair])["input_ids"][0] if pair is not None else tokenizer(text)["input_ids"]
        except Exception:
            continue  # a pair that the class has no form for
        found = program(model, folder, text, pair)
        if isinstance(found, str):
            if not expected:
                continue
            refused = any(key in found for key in option)
            return (None, f"refused: {found[-90:]}") if refused else (f"{text!r}: {found[-300:]}", None)
        if found != expected:
            return f"{text!r} {pair!r}: {found} instead of {expected} {tokenizer.convert_ids_to_tokens(expected)}", None
    return None, None


def main():
    transformers.logging.set_verbosity_error()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        write_model(model)
        for name in sys.argv[1:] or FOLDERS:
            for i, option in enumerate([{}, *(OPTIONS if name in WITH_OPTIONS else [])]):
                folder = Path(scratch) / f"{name} {i}"
                write_folder(folder, *FOLDERS[name], option)
                wrong, note = differs(model, name, folder, option)
                n_wrong += wrong is not None
                if wrong or note:
                    print(f"{'WRONG ' if wrong else ''}{name} {json.dumps(option)}: {wrong or note}", flush=True)
            print(name, flush=True)
    print(f"transformers {transformers.__version__}: {n_wrong} folders are read differently")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
