"""Checks the prose of the project: spelling, the phrases of phrases.txt, the length of sentences, names, and files that it names.

    python3 tests/prose/check.py [FILE...]

Reads documents, comments and docstrings, and the names in code. Without FILEs it reads every
document and source. codespell is optional: from the PATH, or from a virtual environment in build/prose that
has it. Prints each finding as FILE:LINE, and exits with 1 if there is any.
"""
import functools
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FOLDERS = ["*.md", *(f"{name}/**/*" for name in "api clients deploy docs engine examples model server static tests".split())]
SKIPPED = {"build", "node_modules", "__pycache__"}
SUFFIXES = {".md", ".c", ".h", ".py", ".ts", ".tsx", ".mjs"}
COMMENT = re.compile(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n?)+|//[^\n]*", re.DOTALL | re.MULTILINE)
DOCSTRING = re.compile(r'""".*?"""|(?:^[ \t]*#[^\n]*\n?)+', re.DOTALL | re.MULTILINE)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
NAME = re.compile(r"(?<![A-Za-z])(?:\w+_)?(?:asked|told|wanted|habits?|usual|room)(?:_\w+)?\b")
LAID_OUT = re.compile(r"\S {2,}\S|^ {2,}")  # columns, or deeper than the comment
CODE = re.compile("^    ")
ITEM = re.compile(r"(?:[-*] |\d+\. |#|>)")
WORDS_MAX = 30
# A file of the tree: with its folder, or in C a name of its own.
PATH = re.compile(r"(?<![\w./*{<-])(?:(?:api|clients|deploy|docs|engine|examples|model|server|static|tests)/[\w./-]+"
                  r"\.(?:c|h|py|mk|md|mjs|tsx?|sh)|[a-z]\w+\.[ch])\b(?![/*({])")
OF_OTHERS = {"tanhf.c"}  # glibc's
CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def phrases():
    for line in (HERE / "phrases.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, _, better = line.partition(" => ")
            yield re.compile(pattern, re.IGNORECASE), better


def files(names):
    if names:
        return [Path(name).resolve() for name in names]
    found = (path for folder in FOLDERS for path in ROOT.glob(folder))
    return sorted(path for path in found if path.suffix in SUFFIXES and not SKIPPED & set(path.relative_to(ROOT).parts))


def marks_off(raw, suffix):
    """The lines of a comment or docstring without their marks, as far to the left as they belong."""
    if suffix == ".py" and raw.startswith('"""'):
        return inspect.cleandoc(raw.strip('"')).splitlines()
    return [re.sub(r"^[ \t]*(?:/\*+|\*(?!/)|//+|#)[ \t]?|\*/", "", line) for line in raw.splitlines()]


def blocks(path):
    """(line, lines without marks) of each comment, docstring or document."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, CODE_BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text).splitlines()
        return
    for found in (DOCSTRING if path.suffix == ".py" else COMMENT).finditer(text):
        yield text.count("\n", 0, found.start()) + 1, marks_off(found[0], path.suffix)


def passages(path):
    """(line, text) of each paragraph, item of a list or part of a cell. Leaves out code, and tables of comments."""
    for first, lines in blocks(path):
        start, words = first, []
        for number, line in enumerate([*lines, ""], first):
            cells = line.strip("| ").split(" | ") if path.suffix == ".md" and line.startswith("|") else []
            apart = not line.strip() or cells or (CODE if path.suffix == ".md" else LAID_OUT).search(line)
            if (apart or ITEM.match(line.strip())) and words:
                yield start, " ".join(words)
                words = []
            yield from ((number, part) for cell in cells for part in cell.split("; "))
            if not apart:
                start = start if words else number
                words.append(line.strip())


def sentences(text):
    return re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<! al\.)(?<!vs\.)[\"')*`\]]* +|(?<=:) +(?=[A-Z\"`*])", text)


def names(path):
    """(line, name) of each name in the code that phrases.txt has no use for."""
    code = path.read_text(encoding="utf-8")
    for pattern in (DOCSTRING if path.suffix == ".py" else COMMENT, STRING):
        code = pattern.sub(lambda found: "\n" * found[0].count("\n"), code)
    for number, line in enumerate(code.splitlines(), 1):
        yield from ((number, found[0]) for found in NAME.finditer(line))


@functools.cache
def in_c():
    """The names of all files in C."""
    return {path.name for path in files([]) if path.suffix in (".c", ".h")}


def missing(path):
    """(line, name) of each file that a comment in C, or the path of one that any comment or page names, and that is not there.
    Pages of history name files of their time."""
    if path.name in ("CHANGELOG.md", "decisions.md"):
        return
    for first, lines in blocks(path):
        for number, line in enumerate(lines, first):
            for found in PATH.findall(line):
                if "/" in found:
                    there = (ROOT / found).exists()
                else:
                    there = path.suffix not in (".c", ".h") or found in OF_OTHERS or found in in_c()
                if not there:
                    yield number, found


def findings(path, rules):
    for line, text in passages(path):
        for sentence in sentences(text):
            length = len([word for word in sentence.split() if re.search("[A-Za-z]{2}|^[aAI]$", word)])
            if length > WORDS_MAX:
                yield f"{path.relative_to(ROOT)}:{line}: {length} words: split the sentence: {sentence[:60]}"
            for pattern, better in rules:
                if found := pattern.search(sentence.lstrip('*-"` ')):
                    yield f"{path.relative_to(ROOT)}:{line}: '{found[0]}': {better}"
    yield from (f"{path.relative_to(ROOT)}:{line}: there is no file '{name}'" for line, name in missing(path))
    if path.suffix != ".md":
        yield from (f"{path.relative_to(ROOT)}:{line}: the name '{name}': say request, options, expected, default, capacity or space" for line, name in names(path))


def spelling(paths):
    """What codespell finds; None if it is not installed."""
    own = ROOT / "build/prose/bin/codespell"
    program = str(own) if own.exists() else shutil.which("codespell")
    if not program:
        return None
    done = subprocess.run([program, "--ignore-words", str(HERE / "words.txt"), *map(str, paths)], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    return [line.replace(f"{ROOT}/", "") for line in done.stdout.splitlines()]


def main():
    paths = files(sys.argv[1:])
    rules = list(phrases())
    found = [finding for path in paths for finding in findings(path, rules)]
    misspelt = spelling(paths)
    if misspelt is None:
        print("prose: codespell is not installed (apt-get install codespell), so spelling is not checked")
    found += misspelt or []
    print("\n".join([*found, f"prose: {len(paths)} files, {len(found)} findings"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
