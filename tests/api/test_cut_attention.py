"""Losses with far attention cut, of a corpus run against single answers of /analyze for the same texts and predictions."""
import json
import subprocess

import jsonschema
import numpy as np
import pytest
from conftest import served_models
from corpus_runs import arrays, assert_same, command, corpus, report
from test_comparison import Page
from test_corpora import send, wait
from test_corpus_pruning import WINDOW, family_gpt2, family_llama, lines, masked, masks, path  # noqa: F401
from test_predictions import family_deberta_v2, predictor

K = 4
CUT = {"kind": "cut", "distance": K}
SAME = {"kind": "scale", "layers": [0], "heads": [0], "factor": 1}  # changes no bit, but the answer has the target's value
OFF = {"kind": "zero", "layers": [0], "heads": [3]}
COPIES = ["none", "near", "far"]


def run(headscope, path, out, *options):  # noqa: F811
    done = corpus(headscope, path, "-o", out, "--max-tokens", WINDOW, "--control", "none", "--cut-attention", str(K), *options, small=False)
    assert done.returncode == 0, done.stderr
    return report(out), arrays(out)


def of_masks(server, text, number, interventions):
    """Returns for each masked token the tokens' ids, its position, the positions that the model sees, and -ln p."""
    ids, at = masks(server, text, number)
    seen = [i for i in range(len(ids)) if i not in at]
    found = masked(server, text, number, interventions=interventions, target=True) if at else []
    return [(ids, i, seen, -np.log(p)) for i, p in zip(at, found)]


def of_next(server, text, _, interventions):
    answer = server.analyze({"text": text, "model": "x", "outputs": ["loss"], "max_tokens": WINDOW, "digits": 9, "interventions": interventions})
    ids = answer["input_ids"]
    return [(ids, i + 1, range(i + 1), loss) for i, loss in enumerate(answer["loss"]["tokens"])]


def copy_of(ids, i, seen):
    distances = [abs(i - j) for j in seen if ids[j] == ids[i]]
    return 0 if not distances else 1 if min(distances) <= K else 2


def assert_counts(said, data, server, lines, predict, before=()):  # noqa: F811
    n_texts, n, sums = 0, np.zeros(3, int), np.zeros((2, 3))
    for number, (text, _) in enumerate(lines):
        passes = [predict(server, text, number, changes) for changes in (before or [SAME], [*before, CUT])]
        n_texts += len(passes[0]) > 0
        for (ids, i, seen, whole), (*_, cut) in zip(*passes):
            copy = copy_of(ids, i, seen)
            n[copy] += 1
            sums[:, copy] += whole, cut
    assert (data["cut_texts"], data["cut_predictions"].tolist()) == (n_texts, n.tolist()) and n.min() > 5
    np.testing.assert_allclose(data["cut_loss_sum"], sums, rtol=1e-5)
    rows = said["cut_attention"]["rows"]
    assert [row["copy"] for row in rows] == [*COPIES, "all"]
    for row, chosen in zip(rows, ([0], [1], [2], [0, 1, 2])):
        whole, cut = data["cut_loss_sum"][:, chosen].sum(axis=1) / n[chosen].sum()
        assert row["predictions"] == n[chosen].sum()
        np.testing.assert_allclose((row["loss"], row["loss_cut"], row["change"]["value"]), (whole, cut, cut - whole), atol=1e-9)
        assert row["change"]["low"] < row["change"]["value"] < row["change"]["high"]


@pytest.mark.parametrize("before", [[], [OFF]], ids=["plain", "off"])
def test_losses_of_masked_tokens_are_those_of_analyze(headscope, server, lines, path, tmp_path, before):  # noqa: F811
    (tmp_path / "off.json").write_text(json.dumps(before))
    said, data = run(headscope, path, tmp_path / "out", "--layers", "0,2", *(["--interventions", tmp_path / "off.json"] if before else []))
    assert_counts(said, data, server, lines, of_masks, before)
    assert (said["cut_attention"]["distance"], said["cut_attention"]["measure"]) == (K, "masked")
    assert said["provenance"]["options"]["cut_attention"] == K
    shown = Page((tmp_path / "out" / "report.html").read_text()).rows
    for row in said["cut_attention"]["rows"]:
        change = [f"{row['change'][name]:+.3f}" for name in ("value", "low", "high")]
        assert [row["copy"], str(row["predictions"]), f"{row['loss']:.3f}", f"{row['loss_cut']:.3f}", *change] in shown


def test_losses_of_next_tokens_are_those_of_analyze(headscope, lines, path, tmp_path):  # noqa: F811
    folder = family_gpt2.write_random(tmp_path / "x", seed=3)
    said, data = run(headscope, path, tmp_path / "out", "--model", folder)
    for server in served_models({"x": folder}):
        assert_counts(said, data, server, lines, of_next)
    assert said["cut_attention"]["measure"] == "causal"


def test_workers_and_shards_change_no_bit(headscope, path, tmp_path):  # noqa: F811
    for workers in "1", "3":
        run(headscope, path, tmp_path / workers, "--layers", "0", "--workers", workers)
    assert_same(tmp_path / "1", tmp_path / "3")
    for k in range(2):
        run(headscope, path, tmp_path / f"s{k}", "--layers", "0", "--shard", f"{k}/2")
    subprocess.run(command(headscope, "merge", "-o", tmp_path / "merged", tmp_path / "s0", tmp_path / "s1"), check=True)
    assert report(tmp_path / "merged")["cut_attention"] == report(tmp_path / "1")["cut_attention"]
    merged, whole = arrays(tmp_path / "merged"), arrays(tmp_path / "1")
    for name in ("cut_texts", "cut_predictions", "cut_loss_sum"):
        assert merged[name].tobytes() == whole[name].tobytes(), name


def test_the_server_counts_it_and_compares_runs(headscope, path, tmp_path):  # noqa: F811
    said, _ = run(headscope, path, tmp_path / "out", "--layers", "0")
    for server in served_models({}, "--state", str(tmp_path / "state")):
        found = []
        for more in (f"&cut_attention={K}", ""):
            found.append(send(server, path.read_bytes(), f"layers=0&max_tokens={WINDOW}&control=none{more}").headers["Location"])
            assert wait(server, found[-1])["state"] == "done"
        answers = [server.get(one + "/report").json() for one in found]
        both = server.get(found[0] + "/comparison?with=" + found[1].rpartition("/")[2]).json()
        described = server.get("/openapi.json").json()
    assert answers[0]["cut_attention"] == said["cut_attention"] and "cut_attention" not in answers[1]
    assert both["cut_attention"] == [said["cut_attention"], None]
    for name, answer in [*(("CorpusReport", one) for one in answers), ("CorpusComparison", both)]:
        schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer)


def test_a_comparison_shows_the_losses(headscope, path, tmp_path):  # noqa: F811
    said, _ = run(headscope, path, tmp_path / "with", "--layers", "0")
    done = corpus(headscope, path, "-o", tmp_path / "without", "--max-tokens", WINDOW, "--control", "none", "--layers", "0", small=False)
    assert done.returncode == 0, done.stderr
    subprocess.run(command(headscope, "report", tmp_path / "with", tmp_path / "without", "-o", tmp_path / "c.html"), check=True)
    section = (tmp_path / "c.html").read_text().split('<section id="cut-attention"')[1].split("</section>")[0]
    assert section.count("<h3>") == 1 and f": {K} tokens</h3>" in section
    rows = Page(section).rows
    assert [row[0] for row in rows][-4:] == [*COPIES, "all"]
    assert [row[1] for row in rows][-4:] == [str(row["predictions"]) for row in said["cut_attention"]["rows"]]


def test_what_has_no_such_loss_is_refused(headscope, path, tmp_path):  # noqa: F811
    folders = {"headless": family_llama.write_random(tmp_path / "headless", headless=True),
               "relative": predictor.add(family_deberta_v2.write_random(tmp_path / "relative"))}
    says = {"headless": "it must be 0: this model predicts no tokens", "relative": "attention cannot be cut in models whose scores"}
    for name, folder in folders.items():
        done = corpus(headscope, path, "-o", tmp_path / "out", "--model", folder, "--cut-attention", "8", small=False)
        assert done.returncode == 1 and says[name] in done.stderr, done.stderr
    for value in ("-1", "x", "1.5", "99999999"):
        done = corpus(headscope, path, "-o", tmp_path / "out", f"--cut-attention={value}")
        assert done.returncode != 0 and "an integer from 0 to 32768" in done.stderr, done.stderr
    for server in served_models(folders, "--state", str(tmp_path / "state")):
        for name in folders:
            refused = send(server, path.read_bytes(), f"model={name}&cut_attention=8")
            assert refused.status == 422 and says[name].partition(": ")[2] in refused.json()["detail"], refused.json()
