#!/usr/bin/env python3
"""Compares the languages of translation models with transformers: token ids, maps, losses and what models write.

    HEADSCOPE=build/headscope DIR/bin/python tests/reference/languages_check.py [NAME...]

save_pretrained writes a tokenizer of each class with a small model of random weights, in float64 for the comparison. Ends
with 1 if ids differ or a number is over 1e-5, with 77 if torch or transformers is not installed.
tests/api/test_languages.py runs it.
"""
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import transformers_check as check  # ends with 77 where it cannot run

try:
    import sentencepiece
except ImportError:
    sentencepiece = None  # then M2M100 is not checked

torch, transformers = check.torch, check.transformers
TEXT = "the war of the city was at the airport"
TARGET = "an old office of the police"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MERGES = [("t", "h"), ("▁", "th"), ("▁th", "e"), ("o", "f"), ("▁", "of"), ("i", "t"), ("▁", "a"), ("c", "it")]
NEW = 7


def nllb(folder, legacy=False):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, *(a + b for a, b in MERGES)]
    tokenizer = transformers.NllbTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=MERGES, legacy_behaviour=legacy)
    tokenizer.save_pretrained(folder)


def unigram(folder, kind):
    codes = sys.modules[kind.__module__].FAIRSEQ_LANGUAGE_CODES
    pieces = ["▁", *LETTERS, *(a + b for a, b in MERGES)]
    vocab = [*((name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")), *((piece, -2.0 - len(pieces) / 40 + len(piece)) for piece in pieces)]
    kind(vocab=[*vocab, *((code, 0.0) for code in codes), ("<mask>", 0.0)]).save_pretrained(folder)


def m2m100(folder):
    """transformers reads vocab.json and the pieces, the program a tokenizer.json of the same pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([TEXT, TARGET] * 50), model_writer=model, vocab_size=32,
                                             hard_vocab_limit=False, normalization_rule_name="identity", minloglevel=2)
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    reader = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(reader.id_to_piece(i), reader.get_score(i)) for i in range(3, reader.get_piece_size())]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate([*names, *(piece for piece, _ in pieces)])}))
    tokenizer = transformers.M2M100Tokenizer(folder / "vocab.json", folder / "sentencepiece.bpe.model")
    ids = dict(zip(names, range(4))) | tokenizer.lang_token_to_id
    english, text, end = ({kind: {"id": name, "type_id": 0}} for kind, name in
                          (("SpecialToken", "__en__"), ("Sequence", "A"), ("SpecialToken", "</s>")))
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [dict(id=i, content=token, special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
                         for token, i in ids.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": [english, text, end], "pair": [english, text, end],
                           "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("__en__", "</s>")}},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": [*((name, 0.0) for name in names), *pieces], "byte_fallback": False}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "M2M100Tokenizer"}))


# Name -> what writes the tokenizer, model_type, decoder_start_token_id or None, pairs of languages (None: the tokenizer's own).
CASES = {
    "nllb": (nllb, "m2m_100", 2, [(None, "fra_Latn"), ("deu_Latn", "zho_Hans"), ("tam_Taml", "eng_Latn")]),
    "nllb legacy": (lambda folder: nllb(folder, True), "m2m_100", 2, [(None, "fra_Latn"), ("deu_Latn", "zho_Hans")]),
    "m2m100": (m2m100, "m2m_100", 2, [(None, "fr"), ("de", "zh"), ("ast", "en")]),
    "mbart": (lambda folder: unigram(folder, transformers.MBartTokenizer), "mbart", None, [(None, "ro_RO"), ("de_DE", "fr_XX"), ("ro_RO", "en_XX")]),
    "mbart50": (lambda folder: unigram(folder, transformers.MBart50Tokenizer), "mbart", 2, [(None, "ro_RO"), ("sl_SI", "xh_ZA"), ("fr_XX", "en_XX")]),
}


def save(name, folder):
    make, kind, start, _ = CASES[name]
    make(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(len(name))
    sizes = {**check.BART_SIZES, "vocab_size": len(tokenizer), "scale_embedding": True, "decoder_start_token_id": start}
    model = transformers.AutoModelForSeq2SeqLM.from_config(transformers.AutoConfig.for_model(kind, **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    model = type(model).from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    return tokenizer, model


def program(folder, *options, code=0):
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--layers", "all", *options, "-"]
    done = subprocess.run(command, input=TEXT, capture_output=True, text=True)
    assert (done.returncode == 0) == (code == 0), done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def languages(source, target):
    return [*(["--source-language", source] if source else []), *(["--target-language", target] if target else [])]


def compare_target(folder, tokenizer, model, source, target):
    """The largest differences of maps of the cross heads and of losses, of a text and its target."""
    tokenizer.src_lang, tokenizer.tgt_lang = source or tokenizer.src_lang, target
    both = tokenizer(TEXT, text_target=TARGET, return_tensors="pt")
    first = model.config.decoder_start_token_id
    labels = both["labels"][0].tolist()
    read = [labels[-1], *labels[:-1]] if first is None else [first, *labels]
    options = ["--text-target", TARGET, "--stack", "cross", "--outputs", "attentions,loss", "--digits", "9", *languages(source, target)]
    answer = program(folder, *options)
    encoder = program(folder, *languages(source, None), "--outputs", "summary")
    assert encoder["input_ids"] == both["input_ids"][0].tolist(), (encoder["input_ids"], both["input_ids"])
    assert answer["input_ids"] == read, (answer["input_ids"], read)
    with torch.no_grad():
        output = model(input_ids=both["input_ids"], attention_mask=both["attention_mask"], decoder_input_ids=torch.tensor([read]),
                       output_attentions=True)
    maps = np.array([layer[0].numpy() for layer in output.cross_attentions])
    losses = torch.nn.functional.cross_entropy(output.logits[0, :-1], torch.tensor(read[1:]), reduction="none").numpy()
    return (check.difference(np.array(answer["attentions"]), maps),
            check.difference(np.array(answer["loss"]["tokens"]), losses) / losses.max())


def compare_written(folder, tokenizer, model, source, target):
    """Fails if another text is written than by transformers with the target's language as the first token of it."""
    tokenizer.src_lang = source or tokenizer.src_lang
    language = tokenizer.convert_tokens_to_ids(tokenizer.lang_code_to_token[target] if hasattr(tokenizer, "lang_code_to_token") else target)
    rules = {"decoder_start_token_id": language} if model.config.decoder_start_token_id is None else {"forced_bos_token_id": language}
    text = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        expected = model.generate(**text, do_sample=False, num_beams=1, max_new_tokens=NEW, **rules)[0].tolist()
    answer = program(folder, "--stack", "decoder", "--max-new-tokens", str(NEW), "--outputs", "summary", *languages(source, target))
    assert answer["input_ids"] == expected, (answer["input_ids"], expected)
    assert answer["generated"] == [0] + [1] * (len(expected) - 1)


def main():
    worst = 0
    for name in sys.argv[1:] or [case for case in CASES if sentencepiece or case != "m2m100"]:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer, model = save(name, Path(folder))
            assert "--target-language" in program(folder, "--text-target", TARGET, "--stack", "cross", code=1)
            for source, target in CASES[name][3]:
                found = compare_target(folder, tokenizer, model, source, target)
                compare_written(folder, tokenizer, model, source, target)
                print(f"{name:12} {source!s:9} {target:9}", *(f"{value:9.1e}" for value in found))
                worst = max(worst, *found)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}: {worst:.1e}")
    return int(worst > check.LIMIT)


if __name__ == "__main__":
    sys.exit(main())
