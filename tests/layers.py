#!/usr/bin/env python3
"""Checks the tree against docs/explanation/architecture.md: modules, direction, libraries, circles, sizes.

    python3 tests/layers.py [--strict] [--root DIR] [--objects DIR]

Every source belongs to one module: the longest entry of MODULES that its path begins with. A source may include and
call files of its own module and of modules further down. The script checks:

    direction    includes and calls go down
    libraries    an outside library is included in the modules of its row of LIBRARIES only
    includes     no files include each other in a circle
    calls        no .c files call each other in a circle (undefined symbols of the objects, from nm)
    names        a file name is unique in the tree, but for the viewer
    private      a name that begins with hs__ occurs in one of the four folders only
    openings     every file opens with a comment that names it and says what it is
    functions    none over 70 lines

It prints all findings. Without --strict it fails only for wrong directions between the four folders and for
libraries in the wrong module. Calls are read from the objects of the last build. Objects of changed files are left out.
"""
import argparse
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# From the top down. Files directly in a folder use its subfolders. engine/ and api/api.h are exceptions: headers that
# subfolders share. Rows that name single files are below all others.
MODULES = """
server/commands
server/http
server/runs
server/corpus/run
server/corpus/report
server/corpus/run/settings
server/corpus/counters
server/corpus/search
server/corpus/report/drawing
server/corpus/report/html
server/corpus/report/report_value
server/corpus/decoder_texts
server/corpus/corpus
server/corpus/input
server/hub
server/base
""".split() + """
api
api/answer
api/outputs
api/request
api/figures
api/formats
api/api.h
engine/statistics
engine/analysis
engine/pass
engine/linear
engine/kernels
engine
model
model/families
model/tokenizer
model/files
model/architecture
model/base
""".split()

# Headers of outside libraries, and the modules that may include them.
LIBRARIES = {
    "microhttpd.h": ["server/http"],
    "uv.h": ["server"],
    "sqlite3.h": ["server/base", "server/runs", "server/corpus/search"],
    "zlib.h": ["api/formats", "api/figures", "server/corpus"],
    "zstd.h": ["server/corpus"],
    "nettle/": ["model", "api", "server"],
    "jansson.h": ["model", "api", "server"],
    "curl/": ["server/hub"],
    "cblas.h": ["engine"],
}
# Headers of the C library, POSIX, Linux and the compiler, which any module may include.
PLATFORM = re.compile(r"""(sys|netinet|arpa|linux)/\w+\.h
    |(assert|ctype|dirent|dlfcn|errno|fcntl|float|getopt|inttypes|libgen|limits|locale|malloc|math|netdb|poll|pthread|pwd|sched|signal|spawn
    |stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|termios|time|unistd
    |immintrin|arm_neon)\.h""", re.VERBOSE)

FUNCTION_LINES_MAX = 70
# Names that tools ask for by name.
GIVEN_NAMES = {"LICENSE", "README.md", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json"}

# Private names that still occur in two folders.
SHARED_NAMES = {"hs__block", "hs__log"}

# Folders of build products, as in .gitignore, and git's own.
PRODUCTS = {".git", "build", "dist", "node_modules", "__pycache__", ".pytest_cache", "test-results"}

ENFORCED = {"direction between folders", "libraries", "private"}


def folder(path):
    return path.split("/")[0]


def inside(path, module):
    """model/files/json.c is inside model and model/files; model/base/status.h inside model/base."""
    return path == module or path.startswith((module + "/", module + "."))


def module_of(path):
    return max((module for module in MODULES if inside(path, module)), key=len)


def circles(edges):
    """The strongly connected components of more than one node (Tarjan), each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return [circle for circle in found if len(circle) > 1]


# ---- sources ----


def sources(root):
    """path -> text of every source of the four folders."""
    return {str(path.relative_to(root)): path.read_text() for top in ("model", "engine", "api", "server")
            for path in sorted((root / top).rglob("*")) if path.suffix in (".c", ".h", ".S")}


def includes(texts):
    """path -> {included path}, of files of the tree."""
    return {path: set(re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)) for path, text in texts.items()}


def libraries(texts):
    for path, text in texts.items():
        for header in re.findall(r"^\s*#\s*include\s+<([^>]+)>", text, re.M):
            modules = next((modules for name, modules in LIBRARIES.items() if header.startswith(name)), None)
            if modules is None and not PLATFORM.fullmatch(header):
                yield "libraries", f"{path} includes <{header}>, which has no row in LIBRARIES"
            elif modules is not None and not any(inside(path, module) for module in modules):
                yield "libraries", f"{path} includes <{header}>, which belongs to {', '.join(modules)}"


def directions(edges, verb):
    for path, others in sorted(edges.items()):
        for other in sorted(others):
            if MODULES.index(module_of(other)) >= MODULES.index(module_of(path)):
                continue
            check = "direction" if folder(path) == folder(other) else "direction between folders"
            yield check, f"{path} {verb} {other}: {module_of(path)} lies below {module_of(other)}"


def code_only(text):
    """The text with comments, strings and preprocessor lines blanked, line for line."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def function_name(declared):
    """The name before the last pair of parentheses that stands in none, or None."""
    depth = 0
    for at in range(len(declared.rstrip()) - 1, -1, -1) if declared.rstrip().endswith(")") else ():
        depth += (declared[at] == ")") - (declared[at] == "(")
        if depth == 0:
            return re.search(r"\w*$", declared[:at].rstrip())[0]
    return None


def functions(text):
    """(name, lines from the first of its head to its closing brace) of every function defined in text."""
    text = code_only(text)
    depth, head = 0, 0
    for at, sign in ((found.start(), found[0]) for found in re.finditer(r"[{};]", text)):
        if depth == 0 and sign == "{":
            declared = text[head:at]
            called = None if "=" in declared else function_name(declared)
            begin = head + len(declared) - len(declared.lstrip())
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            if sign == "}" and called:
                yield called, text.count("\n", begin, at) + 1
            head = at + 1
    if depth:
        raise ValueError("braces do not close")


def long_functions(texts):
    lengths = []
    for path, text in texts.items():
        try:
            lengths += [(lines, path, name) for name, lines in functions(text)]
        except ValueError as error:
            yield "functions", f"{path}: {error}"
    for lines, path, name in sorted(lengths, reverse=True):
        if lines > FUNCTION_LINES_MAX:
            yield "functions", f"{path}: {name} has {lines} lines"
    print(f"functions: {len(lengths)}, longest {max(lengths)[0]} lines")


def openings(texts):
    for path, text in texts.items():
        if not text.startswith(f"/* {path.rsplit('/', 1)[-1]} - "):
            yield "openings", f"{path}: {text.splitlines()[0][:70]}"


def private_names(texts):
    folders = defaultdict(set)
    for path, text in texts.items():
        for name in set(re.findall(r"\b(?:hs|HS)__\w+", code_only(text))):
            folders[name].add(folder(path))
    for name, where in sorted(folders.items()):
        if len(where) > 1 and name not in SHARED_NAMES:
            yield "private", f"{name}: {' '.join(sorted(where))}"


def tree_files(root):
    """Yields the path of each file below root that is not a build product: a tree without git's records has them too."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in PRODUCTS and not name.endswith(".egg-info")]
        for name in names:
            yield (Path(folder) / name).relative_to(root).as_posix()


def same_names(root):
    paths = defaultdict(list)
    for path in sorted(tree_files(root)):
        # The viewer's folders name its modules: each view has a state.ts.
        if "fuzz/corpus/" not in path and not path.startswith("static/"):
            paths[path.rsplit("/", 1)[-1]].append(path)
    for name, same in sorted(paths.items()):
        if len(same) > 1 and name not in GIVEN_NAMES:
            yield "names", f"{name}: {' '.join(same)}"


# ---- objects ----


def calls(root, objects, texts):
    """path -> {path of the .c that defines what it uses}, and what is missing or older than its source."""
    by_object, missing = {}, []
    for path in (path for path in texts if not path.endswith(".h")):
        made = objects / Path(path).with_suffix(".o")
        if made.exists() and made.stat().st_mtime >= (root / path).stat().st_mtime:
            by_object[str(made)] = path
        else:
            missing.append(path)
    listed = subprocess.run(["nm", "-A", "-g", "-P", *by_object], capture_output=True, check=True, text=True).stdout \
        if by_object else ""
    defined, used = {}, []
    for file, name, kind in re.findall(r"^(\S+): (\S+) (\w)", listed, re.M):
        if kind in "Uvw":
            used.append((by_object[file], name))
        else:
            defined[name] = by_object[file]
    edges = defaultdict(set)
    for path, name in used:
        if name in defined:
            edges[path].add(defined[name])
    return dict(edges), missing


def report(problems, strict):
    """Prints what was found, by check; whether it may stay."""
    found = defaultdict(list)
    for check, message in problems:
        found[check].append(message)
    for check in sorted(found):
        print(f"\n{check}: {len(found[check])}" + ("" if strict or check in ENFORCED else " (not enforced)"))
        for message in found[check]:
            print(f"  {message}")
    return not found if strict else not ENFORCED & set(found)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--strict", action="store_true", help="fail for everything that is found")
    options.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options.add_argument("--objects", type=Path, help="default: ROOT/build/plain")
    options = options.parse_args()
    texts = sources(options.root)
    included = includes(texts)
    called, missing = calls(options.root, options.objects or options.root / "build/plain", texts)
    problems = [
        *directions(included, "includes"),
        *directions(called, "calls"),
        *libraries(texts),
        *(("includes", " <-> ".join(circle)) for circle in circles(included)),
        *(("calls", " <-> ".join(circle)) for circle in circles(called)),
        *long_functions(texts),
        *private_names(texts),
        *same_names(options.root),
        *openings(texts),
    ]
    if missing:
        print(f"calls: those of {len(missing)} files were not looked at, for they are not built since they changed; make first")
    fine = report(problems, options.strict)
    print(f"\nlayers: {len(texts)} files, " + ("server -> api -> engine -> model" if fine else "see above"))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
