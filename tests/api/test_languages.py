"""source_language and target_language: the token ids of both texts, what is written, the languages of a model, refusals."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HEADSCOPE, PATIENCE, served_models

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "reference"))
import family_bart  # noqa: E402

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "war", "old", "office", "city"]
CODES = {"nllb": ["eng_Latn", "fra_Latn", "zho_Hans"], "mbart": ["en_XX", "ro_RO", "fr_XX"], "m2m_100": ["__en__", "__fr__", "__ast__"]}
# Class of the tokenizer, model_type, codes, keys of tokenizer_config.json and of config.json.
MODELS = {
    "nllb": ("NllbTokenizer", "m2m_100", "nllb", {}, {}),
    "legacy": ("NllbTokenizerFast", "m2m_100", "nllb", {"legacy_behaviour": True, "src_lang": "zho_Hans", "tgt_lang": "fra_Latn"}, {}),
    "mbart50": ("MBart50Tokenizer", "mbart", "mbart", {"src_lang": "fr_XX"}, {}),
    "mbart": ("MBartTokenizer", "mbart", "mbart", {}, {"decoder_start_token_id": None}),
    "mbart_ro": ("MBartTokenizer", "mbart", "mbart", {}, {"decoder_start_token_id": 10}),
    "m2m_100": ("M2M100Tokenizer", "m2m_100", "m2m_100", {"src_lang": "fr"}, {}),
    "m2m_other": ("PreTrainedTokenizerFast", "m2m_100", "m2m_100", {}, {}),
}
ENGLISH, SECOND, THIRD = range(len(WORDS), len(WORDS) + 3)
TEXT, TARGET = [4, 5], [6, 7, 8]  # "the war", "old office city"


def write(folder, name):
    kind, family, codes, more, config = MODELS[name]
    family_bart.write_random(folder, seed=5, decoder=True, kind=family, scaled=True, n_layers=1, hidden=16, ffn=16, vocab=20)
    tokens = [*WORDS, *CODES[codes]]
    step, template = {"SpecialToken": {"id": CODES[codes][0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    added = [dict(id=i, content=token, special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
             for i, token in enumerate(tokens) if token not in WORDS[4:]]
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", "single": [step, template, end],
                           "pair": [step, template, {"Sequence": {"id": "B", "type_id": 0}}, end],
                           "special_tokens": {t: {"id": t, "ids": [tokens.index(t)], "tokens": [t]} for t in ("</s>", tokens[ENGLISH])}},
        "model": {"type": "WordLevel", "vocab": {token: i for i, token in enumerate(tokens)}, "unk_token": "<unk>"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": kind, "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", **more}))
    said = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(said))
    (folder / "generation_config.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("languages")
    yield from served_models({name: write(root / name, name) for name in MODELS})


def both(source, target, name="nllb"):
    """The ids that the stacks read of TEXT and TARGET."""
    if name.startswith("mbart") and name != "mbart50":
        return [*TEXT, 2, source], [target, *TARGET, 2]
    if name == "legacy":
        return [*TEXT, 2, source], [2, *TARGET, 2, target]
    return [source, *TEXT, 2], [2, target, *TARGET, 2]


PAIRS = [("nllb", None, "fra_Latn", ENGLISH, SECOND), ("nllb", "zho_Hans", "eng_Latn", THIRD, ENGLISH),
         ("legacy", None, None, THIRD, SECOND), ("legacy", "eng_Latn", "zho_Hans", ENGLISH, THIRD),
         ("mbart50", None, "en_XX", THIRD, ENGLISH), ("mbart50", "ro_RO", "ro_RO", SECOND, SECOND),
         ("mbart", "fr_XX", "ro_RO", THIRD, SECOND), ("mbart_ro", None, None, ENGLISH, SECOND),
         ("mbart_ro", "ro_RO", "fr_XX", SECOND, THIRD),
         ("m2m_100", None, "ast", SECOND, THIRD), ("m2m_other", None, "fr", ENGLISH, SECOND), ("m2m_100", "__fr__", "en", SECOND, ENGLISH)]


@pytest.mark.parametrize("name, source, target, source_id, target_id", PAIRS)
def test_both_texts_have_their_language(served, name, source, target, source_id, target_id):
    named = {key: value for key, value in (("source_language", source), ("target_language", target)) if value}
    request = {"model": name, "text": "the war", "text_target": "old office city", "stack": "cross"}
    text, read = both(source_id, target_id, name)
    answer = served.analyze({**request, **named, "outputs": ["attentions", "loss"], "digits": 9})
    assert answer["input_ids"] == read and len(answer["source_tokens"]) == len(text)
    tokens = served.post("/tokenize", {"model": name, "text": "the war", **({"source_language": source} if source else {})}).json()
    assert tokens["input_ids"] == text and tokens["tokens"] == answer["source_tokens"]
    # The same request as ids has the same answer.
    start = {"target_language": target or "ro_RO"} if "mbart" in name and name != "mbart50" else {}
    again = served.analyze({"model": name, "stack": "cross", "input_ids": text, "target_ids": read[1:], **start,
                            "outputs": ["attentions", "loss"], "digits": 9})
    assert again["attentions"] == answer["attentions"] and again["loss"] == answer["loss"]


@pytest.mark.parametrize("name, target, first", [
    ("nllb", "fra_Latn", [2, SECOND]), ("legacy", "zho_Hans", [2, THIRD]), ("mbart50", "ro_RO", [2, SECOND]),
    ("mbart", "fr_XX", [THIRD]), ("mbart_ro", None, [SECOND]), ("mbart_ro", "fr_XX", [THIRD]), ("m2m_100", "fr", [2, SECOND])])
def test_a_model_writes_in_its_language(served, name, target, first):
    named = {"target_language": target} if target else {}
    answer = served.analyze({"model": name, "text": "the war", "stack": "decoder", "max_new_tokens": 4, "outputs": [], **named})
    ids, marks = answer["input_ids"], answer["generated"]
    assert ids[:len(first)] == first and marks == [0] + [1] * (len(ids) - 1) and 2 <= len(ids) <= 5
    # Behind it the model writes what it would write behind ids.
    start = named if len(first) == 1 else {}
    given = {"target_ids": first[1:]} if first[1:] else {}
    again = served.analyze({"model": name, "text": "the war", "stack": "decoder", "outputs": [], **given, **start,
                            "max_new_tokens": 4 - len(first[1:])})
    assert again["input_ids"] == ids


def test_models_list_their_languages(served):
    models = {model["name"]: model for model in served.get("/models").json()["models"]}
    listed = {name: (model["languages"], model["source_language"], model["target_language"]) for name, model in models.items()}
    assert listed == {
        "nllb": (CODES["nllb"], "eng_Latn", None), "legacy": (CODES["nllb"], "zho_Hans", "fra_Latn"),
        "mbart50": (CODES["mbart"], "fr_XX", None), "mbart": (CODES["mbart"], "en_XX", None),
        "mbart_ro": (CODES["mbart"], "en_XX", "ro_RO"), "m2m_100": (["en", "fr", "ast"], "fr", None),
        "m2m_other": (["en", "fr", "ast"], "en", None)}


CROSS = {"text": "the war", "text_target": "old", "stack": "cross"}


@pytest.mark.parametrize("fields, pointer, says", [
    (CROSS, "/target_language", "languages in GET /models"),
    ({**CROSS, "model": "mbart"}, "/target_language", "languages in GET /models"),
    ({"model": "mbart", "text": "the war", "stack": "decoder", "max_new_tokens": 3}, "/target_language", "languages in GET /models"),
    ({**CROSS, "target_language": "fr_XX"}, "/target_language", 'such as "eng_Latn"'),
    ({**CROSS, "target_language": "office"}, "/target_language", "must be a language"),
    ({**CROSS, "target_language": "</s>"}, "/target_language", "must be a language"),
    ({"text": "the war", "source_language": 3}, "/source_language", "must be a language"),
    ({"text": "the war", "target_language": "fra_Latn"}, "/target_language", "allowed with text_target"),
    ({"input_ids": [9, 4, 2], "source_language": "fra_Latn"}, "/source_language", "exclude each other"),
    ({"text": "the war", "target_ids": [10, 6], "stack": "cross", "target_language": "fra_Latn"}, "/target_language", "exclude each other"),
])
def test_refusals_name_the_field(served, fields, pointer, says):
    answer = served.post("/analyze", fields)
    problem = answer.json()
    assert answer.status == 422 and problem["pointer"] == pointer and says in problem["detail"], problem


def test_a_patch_has_the_languages_of_the_request(served):
    def run(**source):
        effects_of = {"kind": "patch", "from": {"text": "the war", **source}}
        return served.analyze({**CROSS, "outputs": ["effects"], "target": {"loss": True}, "target_language": "zho_Hans", "effects_of": effects_of})
    assert run(text_target="city")["effects"] == run(target_ids=[THIRD, 8, 2])["effects"]


@pytest.mark.parametrize("config, says", [({"tgt_lang": "xx"}, "tgt_lang 'xx'"), ({"src_lang": "xx"}, "xx"), ({"src_lang": "é" * 8}, "src_lang must be"),
                                          ({"legacy_behaviour": 1}, "legacy_behaviour")])
def test_languages_that_a_tokenizer_lacks(tmp_path, config, says):
    folder = write(tmp_path / "nllb", "nllb")
    said = json.loads((folder / "tokenizer_config.json").read_text()) | config
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    done = subprocess.run([HEADSCOPE, "analyze", "--model", folder, "-"], input=b"the war", capture_output=True, timeout=PATIENCE)
    assert done.returncode != 0 and says in done.stderr.decode()


def test_transformers_agrees():
    python = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)
    done = subprocess.run([python, ROOT / "reference" / "languages_check.py"], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "HEADSCOPE": os.path.abspath(HEADSCOPE)})
    if done.returncode == 77:
        pytest.skip(f"{python}: {done.stdout.strip()}; TRANSFORMERS_PYTHON may name another")
    assert done.returncode == 0, done.stdout + done.stderr
