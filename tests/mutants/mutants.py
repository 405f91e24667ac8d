#!/usr/bin/env python3
"""Changes the C code of a folder in one place after the other, and lists the changes that no test notices.

    mutants.py FOLDER [--sample N] [--seed N] [--json FILE]

A mutant has one operator, comparison, constant or statement changed. It is built in a copy of the tree; the suites and
test files of its folder run until one fails. A mutant that does not compile is not counted. One that runs ten times as
long as the unchanged program counts as noticed. Survivors are printed as they were and as they are: each is a missing
test, or it is equivalent to the original."""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]

# Suites of tests/unit and files of tests/api that are about a folder. All suites run where a folder is not here.
TESTS = {
    "engine/statistics": (["blocks", "corpus"],
                          ["test_reference_corpus", "test_inference", "test_syntax", "test_corpus_labels"]),
    "engine/analysis": (["analysis", "corpus"],
                        ["test_attributions", "test_distances", "test_head_scores", "test_methods", "test_experiments"]),
    "api": (["api_cache", "api_convert", "api_jobs", "api_npz", "api_number", "api_pictures", "api_refusals", "api_tables"],
            ["test_answer", "test_formats", "test_figures", "test_patching", "test_target"]),
    "server/corpus": (["corpus_input", "corpus_run", "corpus", "store"],
                      ["test_corpus", "test_corpora", "test_corpus_labels", "test_examples", "test_search"]),
}
CHANGES = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
           (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" / ", " * "), (r" && ", " || "), (r" \|\| ", " && "),
           (r" \+= ", " -= "), (r"\+\+", "--"), (r"\b0\b(?![.x])", "1"), (r"\b1\b(?![.x])", "2"), (r"\btrue\b", "false"),
           (r"\bfalse\b", "true"), (r"\bif \((?=.*\)$)", "if (!"), (r"^(\s+)[a-z][\w>.\[\]-]*( [-+*/|&]?= |\().*;$", r"\1;")]
NOT_CODE = re.compile(r"^\s*(#|/\*|\*|//|static const|enum|typedef|hs_fail|const char)|hs_fail\(|assert\(")


def mutations(path):
    """Yields (line number, changed line) of each possible change."""
    comment, body = False, False
    for number, line in enumerate(path.read_text().splitlines()):
        body = line == "{" or (body and line != "}")
        comment = (comment or line.lstrip().startswith("/*")) and "*/" not in line
        if comment or not body or NOT_CODE.search(line):
            continue
        code = line.split("/*")[0].rstrip()
        quoted = [m.span() for m in re.finditer(r'"(\\.|[^"\\])*"', code)]
        for pattern, to in CHANGES:
            for match in re.finditer(pattern, code):
                if not any(a <= match.start() < b for a, b in quoted):
                    changed = code[:match.start()] + match.expand(to) + code[match.end():]
                    changed += ")" if to.startswith("if") else ""
                    if to.startswith("if"):
                        changed = changed.replace("if (!", "if (!(", 1)
                    yield number, changed


class Copy:
    """A copy of the tree, built once, in which one file changes at a time."""

    def __init__(self, folder, scratch):
        self.top = Path(scratch) / "headscope"
        names = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, check=True, capture_output=True).stdout.split(b"\0")
        for name in (os.fsdecode(n) for n in names if n):
            if (TREE / name).exists():
                (self.top / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TREE / name, self.top / name)
        for built in ("build/viewer", "build/viewer_files.c", "build/openapi.ts", "static/node_modules"):
            if (TREE / built).exists():
                (self.top / built).parent.mkdir(parents=True, exist_ok=True)
                (self.top / built).symlink_to((TREE / built).resolve())
        suites, files = next((t for f, t in TESTS.items() if folder.startswith(f)), ([], []))
        self.programs = [f"build/plain/tests/test_{s}" for s in suites]
        self.commands = [[f"./{p}"] for p in self.programs] or [["make", "unit"]]
        if files:
            self.commands.append([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow",
                                  *(f"tests/api/{f}.py" for f in files)])

    def build(self):
        make = ["make", "-s", f"-j{os.cpu_count()}", "WERROR=", "build/headscope", *(self.programs or ["test-programs"])]
        return subprocess.run(make, cwd=self.top, capture_output=True).returncode == 0

    def passes(self, limit=None):
        """Returns whether all tests pass within `limit` seconds."""
        end = time.monotonic() + limit if limit else None
        for command in self.commands:
            environment = {**os.environ, "HEADSCOPE": str(self.top / "build/headscope")}
            process = subprocess.Popen(command, cwd=self.top, env=environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                if process.wait(end and max(1, end - time.monotonic())) != 0:
                    return False
            except subprocess.TimeoutExpired:
                return False
            finally:
                try:
                    os.killpg(process.pid, 9)
                except ProcessLookupError:
                    pass
        return True

    def result(self, path, number, changed, limit):
        file = self.top / path
        before = file.read_text()
        lines = before.splitlines()
        lines[number] = changed
        file.write_text("\n".join(lines) + "\n")
        try:
            return "survived" if self.build() and self.passes(limit) else "noticed"
        finally:
            file.write_text(before)


def compiles(copy, path, number, changed):
    lines = (copy.top / path).read_text().splitlines()
    lines[number] = changed
    command = ["gcc", "-std=c17", "-fsyntax-only", "-w", "-I.", "-Ibuild/plain", "-D_GNU_SOURCE", "-x", "c", "-"]
    flags = subprocess.run(["pkg-config", "--cflags", "libmicrohttpd", "jansson", "libuv", "sqlite3"], capture_output=True,
                           text=True).stdout.split()
    return subprocess.run(command + flags, cwd=copy.top, input="\n".join(lines), text=True,
                          capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sample", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    every = [(path.relative_to(TREE), *m) for path in sorted((TREE / options.folder).rglob("*.c")) for m in mutations(path)]
    random.Random(options.seed).shuffle(every)
    with tempfile.TemporaryDirectory(prefix="headscope-mutants-") as scratch:
        copy = Copy(options.folder, scratch)
        begin = time.monotonic()
        if not copy.build():
            sys.exit("the unchanged tree does not build")
        begin = time.monotonic()
        if not copy.passes():
            sys.exit("the unchanged tree does not pass its tests")
        limit = 10 * (time.monotonic() - begin) + 10
        counts, survivors = {"noticed": 0, "survived": 0}, []
        for path, number, changed in every:
            if sum(counts.values()) == options.sample:
                break
            if not compiles(copy, path, number, changed):
                continue
            result = copy.result(path, number, changed, limit)
            counts[result] += 1
            if result == "survived":
                was = (TREE / path).read_text().splitlines()[number].strip()
                survivors.append({"file": str(path), "line": number + 1, "was": was, "is": changed.strip()})
                print(f"{path}:{number + 1}\n  - {was}\n  + {changed.strip()}", flush=True)
    n = sum(counts.values())
    print(f"{options.folder}: {counts['noticed']} of {n} changes noticed, of {len(every)} possible (seed {options.seed})")
    if options.json:
        Path(options.json).write_text(json.dumps({"folder": options.folder, **counts, "survivors": survivors}, indent=2))


if __name__ == "__main__":
    main()
