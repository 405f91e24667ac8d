#!/usr/bin/env python3
"""Compares what models write with transformers' generate with do_sample False and num_beams 1, in float64.

    HEADSCOPE=build/headscope DIR/bin/python tests/reference/generation_check.py [FAMILY...]

Every causal model and every encoder-decoder model of transformers_check.py, saved by save_pretrained with random weights,
continues a text, or writes a target, under the rules of several files generation_config.json. Ends with 1 if an id differs,
with 77 if torch or transformers is not installed. tests/api/test_generation.py runs it.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import checkpoint
import transformers_check as check  # ends with 77 where it cannot run

torch, transformers = check.torch, check.transformers
NEW = 24
# Keys of generation_config.json beside the end of a text. "a", "b", "c":
# ids that the model writes without rules.
RULES = [
    {},
    {"repetition_penalty": 1.7, "begin_suppress_tokens": ["a"]},
    {"no_repeat_ngram_size": 2, "suppress_tokens": ["b"], "forced_eos_token_id": 7},
    {"bad_words_ids": [["a"], ["b", "c"]], "forced_bos_token_id": 11, "min_length": 9, "eos_token_id": ["b", "c"]},
    {"eos_token_id": "c", "min_new_tokens": 5, "num_beams": 4, "do_sample": True, "temperature": 0.6, "length_penalty": 2.0},
]
SOURCE = [2, *range(20, 60), 9, 9, 31, 3]


def written(folder, ids, target, n_new=NEW):
    """The program's ids, without a decoder's start token."""
    decodes = target is not None
    command = [os.environ["HEADSCOPE"], "analyze", "--model", str(folder), "--outputs", "summary", "--max-new-tokens", str(n_new),
               "--input-ids", ",".join(map(str, ids)), *(["--stack", "decoder"] if decodes else []),
               *(["--target-ids", ",".join(map(str, target))] if target else [])]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    given = decodes + len(target) if decodes else len(ids)
    assert answer["generated"] == [0] * given + [1] * (len(answer["input_ids"]) - given), answer["generated"]
    return answer["input_ids"]


def expected(model, ids, target, n_new=NEW, **more):
    more |= {"decoder_input_ids": torch.tensor([[0, *target]])} if target is not None else {}
    with torch.no_grad():
        return model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                              num_beams=1, max_new_tokens=n_new, **more)[0].tolist()


def with_ids(value, ids):
    """Replaces names of ids."""
    if isinstance(value, list):
        return [with_ids(one, ids) for one in value]
    return ids[value] if isinstance(value, str) else value


def save(name, folder):
    decodes = name.split()[0] in check.ENCODERS
    kind = transformers.AutoModelForSeq2SeqLM if decodes else transformers.AutoModelForCausalLM
    torch.manual_seed(len(name))
    sizes = {**check.SAVED[name], **({"decoder_start_token_id": 0} if decodes else {})}
    model = kind.from_config(transformers.AutoConfig.for_model(name.split()[0], **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return kind, decodes


def compare(name, scratch):
    """The number of texts and of tokens that both wrote alike; fails if one differs."""
    folder = checkpoint.write_random(scratch / "model")
    kind, decodes = save(name, folder)
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    base = json.loads((folder / "generation_config.json").read_text())
    # transformers keeps keys of Llama whose rotation is that of shorter texts; without a cache it computes them again, as the
    # program does, and as transformers itself does for Phi-3.
    options = {"use_cache": False} if "longrope" in name else {}
    n_texts = n_tokens = 0
    ids = {}
    for rules in RULES:
        said = {key: with_ids(value, ids) for key, value in rules.items()}
        (folder / "generation_config.json").write_text(json.dumps({**base, **({"decoder_start_token_id": 0} if decodes else {}), **said}))
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
        for target in ([], [12, 5]) if decodes else (None,):
            found, right = written(folder, SOURCE, target), expected(model, SOURCE, target, **options)
            assert found == right, f"{name}: {said}: {found} is not {right}"
            new = right[1 + len(target):] if decodes else right[len(SOURCE):]
            n_texts, n_tokens = n_texts + 1, n_tokens + len(new)
            if not ids:
                stops = base.get("eos_token_id")
                others = [i for i in dict.fromkeys(new) if i not in ([stops] if isinstance(stops, int) else stops or [])]
                ids = dict(zip("abc", [*others, 50, 51, 52]))
    return n_texts, n_tokens


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = [name for name in check.SAVED if name.split()[0] in check.CAUSAL | set(check.ENCODERS) and
             not {"bidirectional", "both"} & set(name.split())]
    for name in [name for name in names if not sys.argv[1:] or name.split()[0] in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as scratch:
            print(f"{name:32} %d texts, %d tokens" % compare(name, Path(scratch)), flush=True)


if __name__ == "__main__":
    main()
