#!/usr/bin/env python3
"""Writes the tables of coverage into docs/explanation/reliability.md, between their markers.

    table.py SUMMARY.json LINES.json DOCUMENT     what gcovr writes by --json-summary and by --json

The other tables sort what no test reaches by its words, the first kind that fits. A branch has the words of its line.
Lines that follow each other have their own and those of the line before, which is mostly their condition.
"""
import collections
import datetime
import itertools
import json
import re
import sys
from pathlib import Path

MODULES = ["model", "engine", "api", "server/base", "server/commands", "server/corpus", "server/http", "server/hub",
           "server/runs"]
KINDS = {
    "assertions": r"\bassert\(",
    "refused memory": r"NO_?MEM|OUT_OF_MEMORY|no memory|[mc]alloc\(|realloc\(|strn?dup\(|hs_json_memory\(|posix_memalign|aligned_alloc",
    "system calls": r"errno|\bE[A-Z]{4,}\b|HS_IO\b|HS_NO_SPACE|\b(open(at|dir)?|f(d?open|close|flush|gets|scanf|puts|error|sync)|close|p?read|p?write|"
                    r"lseek(64)?|ftruncate|f?l?stat(at|vfs)?|access|flock|poll|rename|realpath|mkdir|unlink|mmap|sched_\w+|pthread_\w+|"
                    r"set\w*id|getrandom|isatty|accept4?|bind|listen|socket|[gs]etsockopt|send(file|msg)?|recv|dup2?|pipe2?|fork)\(",
    "other libraries": r"sqlite3_|SQLITE_|MHD_|\buv_|curl|CURL|json_\w+\(|ZSTD_|deflate\w*\(|inflate\w*\(|cblas|dlopen|dlsym",
    "failures passed on": r"\b(st|why|code|failed|ok|sound|err)\b",
}
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"


def module(name):
    """The longest name of a module that the file's name begins with."""
    return max((m for m in MODULES if name.startswith(m + "/")), key=len, default=None)


def row(name, files):
    def percent(what):
        covered, total = (sum(f[f"{what}_{count}"] for f in files) for count in ("covered", "total"))
        return f"{100 * covered / total:.1f} % of {total:,}" if total else "–"

    return f"| {name} | {percent('line')} | {percent('branch')} |"


def kind(line):
    return next((name for name, words in KINDS.items() if re.search(words, line)), "other conditions")


def branches_missed(file, source):
    """The kind of each line with branches that no test takes, and how many these are."""
    for line in file["lines"]:
        yield kind(source[line["line_number"] - 1]), sum(not branch["count"] for branch in line["branches"])


def lines_missed(file, source):
    """The kind of each run of lines that no test reaches, and how many these are."""
    counted = [line for line in file["lines"] if not line.get("gcovr/noncode")]
    for missed, run in itertools.groupby(counted, lambda line: not line["count"]):
        if missed:
            numbers = [line["line_number"] for line in run]
            yield kind("\n".join(source[numbers[0] - 2:numbers[-1]])), len(numbers)


def kinds(files, missed):
    """The rows of modules: how much of each kind no test reaches."""
    found = {m: collections.Counter() for m in MODULES}
    for file in files:
        if module(file["file"]):
            for name, n in missed(file, Path(file["file"]).read_text().split("\n")):
                found[module(file["file"])][name] += n
    names = [*KINDS, "other conditions"]
    rows = [["module", "all", *names]] + [[m, f"{counts.total():,}", *(counts[name] for name in names)]
                                          for m, counts in found.items() if counts]
    head, *rest = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return [head, "|---" * head.count(" | ") + "|---|", *rest]


def machine():
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown machine"


def tables(summary, lines):
    files = lines["files"]
    return "\n".join([table(summary), "", "Branches that no test takes, by kind:", "", *kinds(files, branches_missed), "",
                      "Lines that no test reaches, by kind:", "", *kinds(files, lines_missed)])


def table(summary):
    files = summary["files"]
    rows = [row(m, mine) for m in MODULES if (mine := [f for f in files if module(f["filename"]) == m])]
    return "\n".join([f"`make coverage`, {machine()}, {datetime.date.today()}:", "",
                      "| module | lines | branches |", "|---|---|---|", *rows,
                      row("all", [f for f in files if module(f["filename"])])])


def main():
    summary, lines = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    document, made = Path(sys.argv[3]), tables(summary, lines)
    text = document.read_text()
    before, rest = text.split(BEGIN)
    document.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}")
    print(made)


if __name__ == "__main__":
    main()
