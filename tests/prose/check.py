"""Checks the prose of the project: spelling with codespell, and the phrases of phrases.txt.

    python3 tests/prose/check.py [FILE...]

Reads documents, comments and docstrings. Without FILEs it reads every document and source. codespell is
optional: from the PATH, or from a virtual environment in build/prose that has it. Prints each finding as
FILE:LINE, and exits with 1 if there is any.
"""
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


def passages(path):
    """(line, text) of each comment, docstring or paragraph; text is on one line, without comment marks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = CODE_BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
        yield from ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip())
        return
    for found in (DOCSTRING if path.suffix == ".py" else COMMENT).finditer(text):
        plain = re.sub(r'(?m)^[ \t]*(?:\*|//|#)?[ \t]?|/\*|\*/|"""', " ", found[0])
        yield text.count("\n", 0, found.start()) + 1, re.sub(r"\s+", " ", plain).strip()


def findings(path, rules):
    for line, text in passages(path):
        for sentence in re.split(r"(?<=[.!?:]) +(?=[A-Z\"`*])", text):
            for pattern, better in rules:
                if found := pattern.search(sentence.lstrip('*-"` ')):
                    yield f"{path.relative_to(ROOT)}:{line}: '{found[0]}': {better}"


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
