"""Corpus runs over the heads of a decoder and cross heads: against the float64 references, resumed and merged, over HTTP, and what is refused."""
import json
import random
import sqlite3
import subprocess
import sys
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE, served_models
from corpus_runs import arrays, assert_same, corpus, report
from test_client_python import package
from test_corpora import send, wait
from test_languages import write as write_with_languages
from test_reference_corpus import assert_is_the_references

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))
import analysis  # noqa: E402
import checkpoint  # noqa: E402
import corpus as corpus_reference  # noqa: E402
import family_bart  # noqa: E402
import family_encoder_decoder  # noqa: E402
import family_t5  # noqa: E402

FAMILIES = {"t5": family_t5, "bart": family_bart, "bert2bert": family_encoder_decoder}
WORDS = "in war of city was at airport for his police , . !".split()
OFF = [{"kind": "zero", "layers": [1], "heads": [0, 2], "stack": "encoder"}, {"kind": "mean", "layers": [0], "heads": [1]}]


def pairs(n, seed=0):
    rng = random.Random(seed)
    return [{"text": " ".join(rng.choices(WORDS, k=rng.randint(1, 50))), "text_target": " ".join(rng.choices(WORDS, k=rng.randint(1, 40)))}
            for _ in range(n)]


def jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: family.write_random(root / name, seed=3, **({} if name == "bert2bert" else {"decoder": True})) for name, family in FAMILIES.items()}


def run(model, lines, folder, *options, stack="decoder"):
    done = corpus(HEADSCOPE, lines, "-o", folder, "--model", model, "--stack", stack, *options, small=False)
    assert done.returncode == 0, done.stderr
    return folder


def texts_kept(folder):
    with sqlite3.connect(f"file:{folder}/search.sqlite?mode=ro", uri=True) as database:
        return database.execute("SELECT text, body, source FROM texts ORDER BY text").fetchall()


def ids_of(folder, text, start=None):
    """Returns the ids of words that the vocabulary has."""
    vocab = (folder / "vocab.txt").read_text().split("\n")
    ids = [vocab.index(word) for word in ["[CLS]", *text.split(), "[SEP]"]]
    return np.array(ids if start is None else [start, *ids])


@pytest.mark.parametrize(("name", "stack", "masked"), [("t5", "decoder", False), ("bart", "decoder", False), ("t5", "cross", False),
                                                       ("bart", "cross", False), ("bart", "cross", True), ("bert2bert", "decoder", False),
                                                       ("bert2bert", "cross", False)])
def test_report_is_the_references(folders, tmp_path, name, stack, masked):
    records, folder = pairs(9), folders[name]
    run(folder, jsonl(tmp_path / "in.jsonl", records), tmp_path / "run", "--search-texts", "9", *(["--special-tokens", "mask"] if masked else []), stack=stack)
    config, vocab = json.loads((folder / "config.json").read_text()), (folder / "vocab.txt").read_text().split("\n")
    reference = corpus_reference.Corpus(corpus_reference.Options(
        3, 4, cls=vocab.index("[CLS]"), sep=vocab.index("[SEP]"), comma=vocab.index(","),
        ends={vocab.index(mark) for mark in ".!?"}, vocab_size=config["vocab_size"], crosses=stack == "cross"))
    for number, record in enumerate(records):
        source, ids = ids_of(folder, record["text"]), ids_of(folder, record["text_target"], config["decoder_start_token_id"])
        memory = FAMILIES[name].forward(folder, source).hidden_states[-1]
        heads = FAMILIES[name].decode(folder, memory, ids)[stack == "cross"]
        special, of_source = np.isin(np.arange(len(ids)), [0, 1, len(ids) - 1]), np.isin(np.arange(len(source)), [0, len(source) - 1])
        rows, columns = (~special, ~of_source) if masked else (special | True, of_source | True)
        keys = (source[columns], of_source[columns]) if stack == "cross" else None
        attentions = heads.attentions[:, :, rows][..., columns if stack == "cross" else rows]
        reference.add(number, ids[rows], special[rows], attentions, analysis.similarity(heads.outputs)[:, :, rows][..., rows], keys)
    found, kept = report(tmp_path / "run"), arrays(tmp_path / "run")
    assert_is_the_references(kept, reference, len(records))
    assert kept["block_separators"].sum() / kept["block_tokens"].sum() == pytest.approx(reference.even_separators / kept["tokens"], rel=1e-5)
    assert bool(set(corpus_reference.OWN_TEXT) & set(kept)) == (stack == "decoder")
    assert found["provenance"]["options"]["stack"] == stack and found["provenance"]["model"]["causal"] is True
    pairs_of = [subprocess.run([HEADSCOPE, "search", tmp_path / "run", "--head", "0.0", "--of", of, "--limit", "1"],
                               capture_output=True, text=True, check=False, timeout=PATIENCE) for of in ("attention", "similarity")]
    assert [done.returncode for done in pairs_of] == [2 if stack == "cross" else 0, 0]
    assert ("must be similarity" in pairs_of[0].stderr) == (stack == "cross")
    page = (tmp_path / "run" / "report.html").read_text()
    axes = "from target", "to text", "target position", "text position"
    assert {axis in page for axis in axes} == {stack == "cross"} and {words in page for words in ("without the diagonal", "Lines mark", "on its neighbours:")} == {stack == "decoder"}
    assert f"<dt>Stack</dt><dd>{stack}" in page and f"&amp;stack={stack}&amp;target=" in page
    given = [record for record in records if record["text"] == found["examples"]["texts"][0]["text"]]
    assert given[0]["text_target"] == found["examples"]["texts"][0]["text_target"]


def test_resumed_and_merged_runs_are_equal(headscope, folders, tmp_path):
    """Workers, shards and interruptions change nothing; a run of another stack is not continued."""
    lines, options = jsonl(tmp_path / "in.jsonl", pairs(60)), ["--max-tokens", "24", "--head-distances", "cka", "--examples", "2", "--search-texts", "60"]
    run(folders["bart"], lines, tmp_path / "whole", *options, "--workers", "1")
    for shard in range(2):
        run(folders["bart"], lines, tmp_path / "shards" / str(shard), *options, "--shard", f"{shard}/2")
    subprocess.run([headscope, "merge", "-o", tmp_path / "merged", *sorted((tmp_path / "shards").iterdir())], check=True,
                   timeout=PATIENCE)
    assert_same(tmp_path / "whole", tmp_path / "merged")
    assert texts_kept(tmp_path / "whole") == texts_kept(tmp_path / "merged") != []
    run(folders["bart"], lines, tmp_path / "whole", *options, "--resume")
    other = corpus(headscope, lines, "-o", tmp_path / "whole", "--model", folders["bart"], "--field", "text", *options, "--resume",
                   small=False)
    assert other.returncode == 1 and "stack" in other.stderr


def test_maps_of_few_rows_keep_the_title_of_their_rows(headscope, folders, tmp_path):
    """A row was as high as a cell is wide: four rows of many columns had no space for words beside them."""
    lines = jsonl(tmp_path / "in.jsonl", [{"text": " ".join(WORDS[:8] * 5), "text_target": WORDS[0]}])
    page = (run(folders["bart"], lines, tmp_path / "run", stack="cross") / "report.html").read_text()
    assert page.count(">from target<") >= 5 and ">[SEP]</text>" in page and ">fr\u2026<" not in page
    for columns in ([2], range(2, 60)):
        done = subprocess.run([headscope, "analyze", "--model", folders["bart"], "--stack", "cross", "--heads", "0", "--target-ids", "2",
                               "--input-ids", ",".join(map(str, columns)), "--figure", '{"kind": "head"}', "--format", "svg"],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        assert ">from target<" in done.stdout and "\u2026" not in done.stdout


def test_figures_that_compare_positions_of_one_text_are_refused(headscope, folders, tmp_path):
    run(folders["t5"], jsonl(tmp_path / "in.jsonl", pairs(4)), tmp_path / "run", "--examples", "2", stack="cross")
    command = [headscope, "search", tmp_path / "run", "--head", "0.0", "--by"]
    for by in ("self", "previous", "next"):
        done = subprocess.run([*command, by], capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 2 and done.stdout == "" and f'--by is "{by}"; it must be one of ' in done.stderr, done.stderr
        assert "first: cross heads attend to another text" in done.stderr and "self, " not in done.stderr
    done = subprocess.run([*command, "first"], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done.stderr


def test_generation_config_is_of_a_decoders_runs(headscope, tmp_path):
    """It may name the token before a target. Runs over the encoder go on, whatever it says."""
    lines, model = jsonl(tmp_path / "in.jsonl", pairs(3)), family_bart.write_random(tmp_path / "model", decoder=True, kind="mbart")
    config = json.loads((model / "config.json").read_text())
    vocab = (model / "vocab.txt").read_text().split("\n")
    start = config.pop("decoder_start_token_id")
    (model / "config.json").write_text(json.dumps(config))
    (model / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": start}))
    options = run(model, lines, tmp_path / "decoder"), run(model, lines, tmp_path / "encoder", "--field", "text", stack="encoder")
    kept = [report(folder)["provenance"]["options"] for folder in options]
    assert kept[0]["target_start"] == vocab[start] and kept[1]["target_start"] is None
    (model / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": start + 1}))
    run(model, lines, tmp_path / "encoder", "--field", "text", "--resume", stack="encoder")
    done = corpus(headscope, lines, "-o", tmp_path / "decoder", "--model", model, "--stack", "decoder", "--resume", small=False)
    assert done.returncode == 1 and "another target_start" in done.stderr, done.stderr


def test_fields_and_interventions(folders, tmp_path):
    """The fields may have other names, columns too; an intervention may be in the encoder that the decoder reads."""
    records = pairs(20)
    (tmp_path / "off.json").write_text(json.dumps(OFF))
    named = [{"translation": {"en": record["text"], "de": record["text_target"]}} for record in records]
    rows = "text,text_target\n" + "".join(f'"{record["text"]}","{record["text_target"]}"\n' for record in records)
    (tmp_path / "in.csv").write_text(rows)
    off = ["--interventions", tmp_path / "off.json"]
    plain = run(folders["t5"], tmp_path / "in.csv", tmp_path / "plain")
    rows = run(folders["t5"], tmp_path / "in.csv", tmp_path / "rows", *off)
    other = run(folders["t5"], jsonl(tmp_path / "in.jsonl", named), tmp_path / "other", *off, "--field", "translation.en",
                "--pair-field", "translation.de")
    for name, value in arrays(rows).items():
        assert value.tobytes() == arrays(other)[name].tobytes(), name
    kept = report(rows)["provenance"]["options"]["interventions"]
    assert [change["stack"] for change in kept] == ["decoder", "encoder"]
    assert not np.allclose(arrays(plain)["attention_sum"][2], arrays(rows)["attention_sum"][2], rtol=1e-3)


def test_languages_are_those_of_requests(headscope, tmp_path):
    lines = jsonl(tmp_path / "in.jsonl", [{"text": "the war", "text_target": "old city"}])
    nllb, mbart = (write_with_languages(tmp_path / name, name) for name in ("nllb", "mbart"))
    for model, start, tokens in ((nllb, "</s>", ["fra_Latn", "old", "city", "</s>"]), (mbart, "fr_XX", ["old", "city", "</s>"])):
        language = "fra_Latn" if model == nllb else "fr_XX"
        out = run(model, lines, tmp_path / ("run_" + model.name), "--target-language", language)
        assert report(out)["one_text"]["tokens"] == [start, *tokens]
        assert report(out)["provenance"]["options"]["target_language"] == language
        assert f"&amp;tlang={language}&amp;prompt=%3D&amp;" in (out / "report.html").read_text()
    for options, why in ((["--stack", "decoder"], "--target-language is missing"),
                         (["--field", "text", "--target-language", "fra_Latn"], "add stack decoder"),
                         (["--stack", "decoder", "--target-language", "xx"], "eng_Latn")):
        done = corpus(headscope, lines, "-o", tmp_path / "none", "--model", nllb, *options, small=False)
        assert done.returncode == 1 and why in done.stderr, done.stderr


def test_over_http_the_counts_are_the_same(folders, tmp_path):
    records = pairs(12)
    lines = jsonl(tmp_path / "in.jsonl", records)
    expected = report(run(folders["t5"], lines, tmp_path / "run", "--search-texts", "12"))
    for server in served_models(folders, "--state", tmp_path / "state"):
        query = urllib.parse.urlencode({"model": "t5", "stack": "decoder", "search_texts": "12", "examples": "5"})
        sent = send(server, lines.read_bytes(), query, {"Content-Type": "application/x-ndjson"})
        assert sent.status == 202, sent.body
        made = wait(server, sent.headers["Location"])
        assert (made["state"], made["stack"]) == ("done", "decoder"), made
        found = server.get(sent.headers["Location"] + "/report").json()
        for name in ("head_figures", "layer_figures", "profiles_offsets", "focal_counts", "one_text"):
            assert found[name] == expected[name], name
        search = server.get(f"/corpora/{made['id']}/search?layer=0&head=0&limit=1000").json()["pairs"]
        shown = [(pair["body"][slice(*pair[end]["chars"])], pair[end]["token"]) for pair in search for end in ("from", "to")]
        assert {record["text_target"] for record in records} == {pair["body"] for pair in search}
        assert all(text == token for text, token in shown if text) and any(text for text, _ in shown)
        typical = server.get(f"/corpora/{made['id']}/examples?layer=0&head=0&by=first").json()["examples"]
        assert len(typical) == 5
        assert {(pair["source"], pair["body"]) for pair in (*typical, *search)} <= {(r["text"], r["text_target"]) for r in records}
        for query, pointer in (("stack=cross&masked_share=0.1", "/masked_share"), ("stack=crossed", "/stack")):
            refused = send(server, lines.read_bytes(), "model=t5&" + query, {"Content-Type": "application/x-ndjson"})
            assert (refused.status, refused.json()["pointer"]) == (422, pointer)
        with package.Client(server.url) as client:
            again = client.start_run(records, model="t5", stack="decoder").wait().arrays()
            assert np.array_equal(again["attention_sum"], arrays(tmp_path / "run")["attention_sum"])
        plain = wait(server, send(server, b"war\n", "model=t5", {"Content-Type": "text/plain"}).headers["Location"])
        assert [plain["stack"], *(one["stack"] for one in server.get("/corpora").json()["corpora"])] == ["encoder", "encoder", "decoder", "decoder"]


@pytest.mark.parametrize(("options", "record", "why"), [
    ([], {"text": "war"}, "no second text: text_target must be a string"),
    ([], {"text": "war", "text_pair": "war", "text_target": "war"}, "text_pair is not read"),
    (["--windows"], {}, "--windows is not allowed with stack decoder"),
    (["--masked-share", "0.1"], {}, "--masked-share is not allowed"),
    (["--importance"], {}, "--importance is not allowed"),
    (["--pruning-share", "0.1"], {}, "--pruning-share is not allowed"),
    (["--cut-attention", "8"], {}, "--cut-attention is not allowed"),
    (["--label-field", "label"], {}, "--label-field is not allowed"),
    (["--effects-share", "0.1"], {}, "--effects-share is not allowed"),
    (["--prompt-name", "query"], {}, "--prompt-name is not allowed"),
    (["--input-format", "text"], {}, "has no field 'text_target'"),
    (["--layers", "3"], {}, "0 to 2"),
    (["--max-tokens", "2"], {}, "from 3"),
])
def test_refusals_say_what_to_do(headscope, folders, tmp_path, options, record, why):
    lines = jsonl(tmp_path / "in.jsonl", [record or pairs(1)[0]])
    done = corpus(headscope, lines, "-o", tmp_path / "run", "--model", folders["t5"], "--stack", "decoder", *options, small=False)
    assert done.returncode == 1 and why in done.stderr, done.stderr


def test_models_without_a_decoder_are_refused(headscope, tmp_path):
    lines = jsonl(tmp_path / "in.jsonl", pairs(1))
    mute = family_bart.write_random(tmp_path / "mute", decoder=True, kind="mbart")
    config = json.loads((mute / "config.json").read_text())
    del config["decoder_start_token_id"]
    (mute / "config.json").write_text(json.dumps(config))
    for model, why in ((checkpoint.write_random(tmp_path / "bert"), "one stack of layers"), (mute, "add decoder_start_token_id")):
        done = corpus(headscope, lines, "-o", tmp_path / "run", "--model", model, "--stack", "decoder")
        assert done.returncode == 1 and why in done.stderr, done.stderr
