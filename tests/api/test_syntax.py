"""Relations of CoNLL-U corpora: the counts of a run against counts by NumPy from the maps of /analyze."""
import io
import json
import random
import re
import subprocess

import numpy as np
import pytest
from conftest import HEADSCOPE, PATIENCE

WORDS = ("the old bridge closed after war many people of city said new house was built in London , it did not rain "
         "because unhappiness prevailed among shopkeepers ; their neighbours quietly disagreed").split()
RELATIONS = ["nsubj", "obj", "det", "punct", "nmod:poss", "amod", "case", "obl"]
REACH = 16


def sentence(choose, number):
    """One block: words in a random tree; sometimes a range ("don't"), an empty node, and words without spaces."""
    n = choose.randint(2, 24)
    forms = [choose.choice(WORDS) for _ in range(n)]
    heads = [0] * n
    order = choose.sample(range(n), n)
    for place, word in enumerate(order[1:], 1):
        heads[word] = order[choose.randrange(place)] + 1
    relations = ["root" if head == 0 else choose.choice(RELATIONS) for head in heads]
    glued = [choose.random() < 0.15 for _ in forms]
    joined = choose.randrange(n - 1) if choose.random() < 0.3 else None
    lines, text = [f"# sent_id = {number}"], ""
    for i, form in enumerate(forms):
        note = "SpaceAfter=No" if glued[i] else "_"
        if joined == i:
            lines.append("\t".join([f"{i + 1}-{i + 2}", form + forms[i + 1], *"______", "_",
                                    "SpaceAfter=No" if glued[i + 1] else "_"]))
        lines.append("\t".join([str(i + 1), form, "_", "NOUN", "_", "_", str(heads[i]), relations[i], "_", note]))
        no_space = joined == i or glued[i]
        text += form + ("" if no_space else " ")
    lines.append("\t".join(["3.1", "ghost", *"________"]))
    if number % 3:
        lines.insert(1, f"# text = {text.strip()}")
    return "\n".join(lines) + "\n", text.strip(), words_of(forms, heads, relations, glued, joined)


def words_of(forms, heads, relations, glued, joined):
    """(start, end, head, relation) of each word of the text; heads are numbers of words, -1 for none."""
    surface, spans, at = [], [], 0
    for i, form in enumerate(forms):
        if joined is not None and i == joined + 1:
            surface.append(len(spans) - 1)
            spans[-1][1] += len(form)
        else:
            surface.append(len(spans))
            spans.append([at, at + len(form)])
        at += len(form) + (0 if joined == i or glued[i] else 1)
    words = [[*span, -1, None] for span in spans]
    for i, head in enumerate(heads):
        word = words[surface[i]]
        if head and word[2] < 0 and surface[head - 1] != surface[i]:
            word[2:] = [surface[head - 1], relations[i]]
    return words


def place_tokens(words, offsets, special):
    placed = []
    for (start, end), added in zip(offsets, special):
        touched = [w for w, word in enumerate(words) if word[0] < end and start < word[1]]
        placed.append(touched[0] if touched and not added else -1)
    return np.array(placed)


def point(maps, placed, mean):
    """[l][h] -> {word: word it points to}, of maps [l][h][T][T]."""
    there = sorted(set(placed[placed >= 0]))
    onto = np.stack([(maps[..., placed == w].mean(-1) if mean else maps[..., placed == w].sum(-1)) for w in there], -1)
    rows = np.stack([onto[..., placed == w, :].mean(-2) for w in there], -2).astype(float)
    rows[..., np.arange(len(there)), np.arange(len(there))] = -np.inf
    return there, np.array(there)[rows.argmax(-1)]


def count(server, corpus, max_tokens=128):
    """relation -> (pairs, right [l][h][4], offsets)."""
    table = {}
    for _, text, words in corpus:
        got = server.post("/analyze?format=npz", {"text": text, "layers": "all", "max_tokens": max_tokens,
                                                  "outputs": ["attentions", "similarities"]})
        answer = np.load(io.BytesIO(got.body))
        placed = place_tokens(words, answer["offset_mapping"], answer["special_tokens_mask"])
        there, attended = point(answer["attentions"].astype(float), placed, False)
        _, similar = point(answer["similarities"].astype(float), placed, True)
        if len(there) < 2:
            continue
        for w, (_, _, head, relation) in enumerate(words):
            if head < 0 or w not in there or head not in there:
                continue
            entry = table.setdefault(relation, [0, np.zeros((*attended.shape[:2], 4), int), np.zeros(2 * REACH + 1, int)])
            entry[0] += 1
            own, its = there.index(w), there.index(head)
            entry[1] += np.stack([attended[..., own] == head, attended[..., its] == w,
                                  similar[..., own] == head, similar[..., its] == w], -1)
            if abs(head - w) <= REACH:
                entry[2][head - w + REACH] += 1
    return table


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    choose = random.Random(7)
    corpus = [sentence(choose, number) for number in range(200)]
    path = tmp_path_factory.mktemp("treebank") / "bank.conllu"
    path.write_text("\n".join(block for block, _, _ in corpus))
    return corpus, path


def run(path, out, *options):
    subprocess.run([HEADSCOPE, "corpus", path, "-o", out, *options], check=True, capture_output=True, timeout=PATIENCE)
    return dict(np.load(out / "report.npz")), json.loads((out / "report.json").read_text())


@pytest.fixture(scope="module")
def whole(treebank, tmp_path_factory):
    return run(treebank[1], tmp_path_factory.mktemp("whole") / "out")


def assert_counts(arrays, expected):
    names = list(arrays["syntax_relations"])
    assert set(names) == {"all", *expected} and names[0] == "all"
    counts = arrays["syntax_count"]
    assert list(counts[1:]) == sorted(counts[1:], reverse=True)
    for r, name in enumerate(names[1:], 1):
        pairs, right, offsets = expected[name]
        assert counts[r] == pairs
        np.testing.assert_array_equal(arrays["syntax_right"][:, :, r], right[..., :2], err_msg=name)
        np.testing.assert_array_equal(arrays["syntax_similarity_right"][:, :, r], right[..., 2:], err_msg=name)
        assert arrays["syntax_offset_right"][r, 0] == arrays["syntax_offset_right"][r, 1] == offsets.max()
        assert offsets[arrays["syntax_offset"][r, 0] + REACH] == offsets.max()
        assert arrays["syntax_offset"][r, 1] == -arrays["syntax_offset"][r, 0]
    kept = [r for r, name in enumerate(names) if name not in ("all", "punct")]
    np.testing.assert_array_equal(arrays["syntax_right"][:, :, 0], arrays["syntax_right"][:, :, kept].sum(2))
    assert counts[0] == counts[kept].sum()


@pytest.mark.slow
def test_the_counts_are_those_of_numpy(server, treebank, whole):
    expected = count(server, treebank[0])
    assert sum(entry[0] for entry in expected.values()) > 1000  # enough to tell a slip from luck
    assert_counts(whole[0], expected)


def test_the_report_names_the_best_heads(whole):
    arrays, report = whole
    assert report["syntax"]["sentences"] == 200 and report["syntax"]["unread_sentences"] == 0
    for r, row in enumerate(report["syntax"]["relations"]):
        assert row["relation"] == arrays["syntax_relations"][r] and row["count"] == arrays["syntax_count"][r]
        for name, array, k in [("attention_to_head", "syntax_right", 0), ("attention_to_dependent", "syntax_right", 1),
                               ("similarity_to_head", "syntax_similarity_right", 0),
                               ("similarity_to_dependent", "syntax_similarity_right", 1)]:
            best = row[name]
            assert best["right"] == arrays[array][:, :, r, k].max() == arrays[array][best["layer"], best["head"], r, k]
        assert arrays["syntax_offset"][r].tolist() == [row["offset"], -row["offset"]]
        assert arrays["syntax_offset_right"][r].tolist() == 2 * [row["offset_right"]]


KINDS = [("attention_to_head", "right", 0), ("attention_to_dependent", "right", 1), ("similarity_to_head", "similarity_right", 0),
         ("similarity_to_dependent", "similarity_right", 1)]


def wilson(part, whole):
    z, p = 1.959963984540054, part / whole
    middle, reach = p + z * z / 2 / whole, z * np.sqrt(p * (1 - p) / whole + z * z / 4 / whole**2)
    return [(middle + sign * reach) / (1 + z * z / whole) for sign in (-1, 1)]


def test_best_heads_are_chosen_in_even_sentences_and_measured_in_odd_ones(treebank, whole, tmp_path):
    arrays, report = whole
    (tmp_path / "odd.conllu").write_text("\n".join(block for block, _, _ in treebank[0][1::2]))
    odd, _ = run(tmp_path / "odd.conllu", tmp_path / "odd")
    rows = {name: r for r, name in enumerate(odd["syntax_relations"])}
    at = [rows[name] for name in arrays["syntax_relations"]]
    np.testing.assert_array_equal(arrays["syntax_odd_count"], odd["syntax_count"][at])
    for name in ("right", "similarity_right"):
        np.testing.assert_array_equal(arrays["syntax_odd_" + name], odd["syntax_" + name][:, :, at])
    assert [row["relation"] for row in report["syntax"]["relations"]] == list(arrays["syntax_relations"])
    for r, row in enumerate(report["syntax"]["relations"]):
        held, n = row["held_out"], arrays["syntax_odd_count"][r]
        assert held["count"] == n
        assert [held["offset_low"], held["offset_high"]] == pytest.approx(wilson(held["offset_right"], n))
        for kind, name, k in KINDS:
            measured = arrays["syntax_odd_" + name][:, :, r, k]
            even = arrays["syntax_" + name][:, :, r, k] - measured
            best = held[kind]
            assert even[best["layer"], best["head"]] == even.max()
            assert best["right"] == measured[best["layer"], best["head"]]
            assert [best["low"], best["high"]] == pytest.approx([max(wilson(best["right"], n)[0], 0), wilson(best["right"], n)[1]])


def test_no_head_is_found_for_random_trees(whole):
    """Without the halves, most relations have a head above the best offset."""
    rows = whole[1]["syntax"]["relations"]
    chosen = sum(row["attention_to_head"]["right"] > row["offset_right"] for row in rows)
    found = [row["relation"] for row in rows for kind, _, _ in KINDS if row["held_out"][kind]["low"] > row["held_out"]["offset_high"]]
    assert chosen > len(rows) / 2 and len(found) <= len(rows) * len(KINDS) // 20, (chosen, found)


def test_the_report_says_what_the_arrays_are(whole):
    arrays, report = whole
    assert set(report["arrays"]) == set(arrays) - {"provenance"}
    for name, entry in report["arrays"].items():
        assert len(entry["axes"]) == arrays[name].ndim, name


@pytest.mark.slow
def test_shards_workers_and_resumed_runs_give_the_same(treebank, whole, tmp_path):
    parts = [tmp_path / f"part-{i}" for i in range(2)]
    for i, part in enumerate(parts):
        run(treebank[1], part, "--shard", f"{i}/2", "--workers", "2")
    subprocess.run([HEADSCOPE, "merge", *parts, "-o", tmp_path / "all"], check=True, capture_output=True, timeout=PATIENCE)
    merged = dict(np.load(tmp_path / "all" / "report.npz"))
    for name in whole[0]:
        if name != "provenance":
            np.testing.assert_array_equal(merged[name], whole[0][name], err_msg=name)
    subprocess.run([HEADSCOPE, "report", tmp_path / "all", "-o", tmp_path / "again.html"], check=True, timeout=PATIENCE)
    page = (tmp_path / "again.html").read_text()
    assert 'id="syntax"' in page and "nmod:poss" in page


def test_cut_texts_and_masked_special_tokens(server, treebank, tmp_path):
    expected = count(server, treebank[0][:40], 9)
    (tmp_path / "few.conllu").write_text("\n".join(block for block, _, _ in treebank[0][:40]))
    kept, _ = run(tmp_path / "few.conllu", tmp_path / "kept", "--max-tokens", "9")
    masked, _ = run(tmp_path / "few.conllu", tmp_path / "masked", "--max-tokens", "9", "--special-tokens", "mask")
    assert_counts(kept, expected)
    assert_counts(masked, expected)


def test_sentences_without_their_words_are_reported(tmp_path):
    row = "\t".join
    good = "\n".join([row(["1", "Dogs", *"____", "2", "nsubj", *"__"]), row(["2", "bark", *"____", "0", "root", *"__"])])
    (tmp_path / "few.conllu").write_text(f"# text = Cats sleep\n{good}\n\n# text = Dogs bark\n{good}\n\n# text = Quiet .\n# no words\n")
    arrays, report = run(tmp_path / "few.conllu", tmp_path / "out")
    assert report["syntax"]["sentences"] == 1 and report["syntax"]["unread_sentences"] == 2
    assert list(arrays["syntax_relations"]) == ["all", "nsubj"] and list(arrays["syntax_count"]) == [1, 1]


def test_too_many_relations_end_the_run(tmp_path):
    blocks = ["\n".join(["\t".join(["1", "Dogs", *"____", "2", f"rel{i}", *"__"]), "\t".join(["2", "bark", *"____", "0", "root", *"__"])])
              for i in range(300)]
    (tmp_path / "many.conllu").write_text("\n\n".join(blocks) + "\n")
    done = subprocess.run([HEADSCOPE, "corpus", tmp_path / "many.conllu", "-o", tmp_path / "out"], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "more than 256 relations" in done.stderr


def test_other_corpora_have_no_table(tmp_path):
    (tmp_path / "texts.txt").write_text("Dogs bark.\n")
    arrays, report = run(tmp_path / "texts.txt", tmp_path / "out")
    assert "syntax" not in report and not [name for name in arrays if name.startswith("syntax")]
    assert not re.search(r'id="syntax"', (tmp_path / "out" / "report.html").read_text())
