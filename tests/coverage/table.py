#!/usr/bin/env python3
"""Writes the table of coverage into docs/explanation/reliability.md, between its markers.

    table.py SUMMARY.json DOCUMENT     SUMMARY.json: what gcovr --json-summary writes
"""
import datetime
import json
import re
import sys
from pathlib import Path

MODULES = ["model", "engine", "api", "server/base", "server/commands", "server/corpus", "server/http", "server/hub",
           "server/runs"]
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"


def module(name):
    """The longest name of a module that the file's name begins with."""
    return max((m for m in MODULES if name.startswith(m + "/")), key=len, default=None)


def row(name, files):
    def percent(what):
        covered, total = (sum(f[f"{what}_{count}"] for f in files) for count in ("covered", "total"))
        return f"{100 * covered / total:.1f} % of {total:,}" if total else "–"

    return f"| {name} | {percent('line')} | {percent('branch')} |"


def machine():
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown machine"


def table(summary):
    files = summary["files"]
    rows = [row(m, mine) for m in MODULES if (mine := [f for f in files if module(f["filename"]) == m])]
    return "\n".join([f"`make coverage`, {machine()}, {datetime.date.today()}:", "",
                      "| module | lines | branches |", "|---|---|---|", *rows,
                      row("all", [f for f in files if module(f["filename"])])])


def main():
    summary, document = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    text = document.read_text()
    before, rest = text.split(BEGIN)
    document.write_text(f"{before}{BEGIN}\n{table(summary)}\n{END}{rest.split(END)[1]}")
    print(table(summary))


if __name__ == "__main__":
    main()
