#!/usr/bin/env python3
"""Changes the C code of folders in one place after the other, and lists the changes that no test notices.

    mutants.py FOLDER... [--sample N] [--seed N] [--json FILE] [--processes N] [--suites | --files] [--only NAME...]

A mutant has one operator, comparison, constant or statement changed. Only its file is compiled and linked before the
library, in a copy of the tree. The suites of tests/unit that reach the changed line run first, the fast ones before the
slow ones, until one fails; then the files of tests/api that reach it. Both are found by running each once with counters
of gcov in the folders' objects. A mutant that does not compile is not counted. One whose object is the unchanged one's
to the byte is equivalent. A file of API tests kills a mutant if it fails twice, since it may also fail because other work
holds the machine; suites have 20 times their time limits. Each process of a test has four times the CPU time of the
unchanged program, and fails with more. A test that waits without computing is stopped after 20 times what the
unchanged program takes; such a mutant is listed as timed out, not as killed.
Survivors are printed as they were and as they are: each is a missing test, or it is equivalent to the original.

Each folder has a sample of its own. --suites leaves the API tests out, --files the suites. Mutants that FILE has as
killed are not run again. So a long sample can be made in parts: with --suites, then with --files and the same FILE.
--only names the tests to run, such as test_snr."""
import argparse
import concurrent.futures
import contextlib
import json
import os
import queue
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
BUILT = "build/plain"
# Files of tests/api that are about a folder; all other folders: none. Suites of tests/unit are all tried.
API = {
    "engine/statistics": ["reference_corpus", "inference", "syntax", "corpus_labels", "signal_noise"],
    "engine/analysis": ["attributions", "distances", "head_scores", "methods", "experiments", "patching"],
    "api": ["answer", "formats", "figures", "patching", "target", "predictions", "classes", "embedding", "methods", "lines",
            "stacks", "prompts", "causal"],
    "model/tokenizer": ["byte_pairs", "prompts", "families"],
    "model": ["families", "causal", "model_names"],
    "server/corpus": ["examples", "corpus_labels", "search", "comparison", "corpus", "corpus_pruning", "corpus_importance", "corpus_windows",
                      "corpus_text_pairs", "signal_noise", "syntax"],
    "server": ["corpora", "server_routes", "server_limits", "cli"],
}
CHANGES = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
           (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" / ", " * "), (r" && ", " || "), (r" \|\| ", " && "),
           (r" \+= ", " -= "), (r"\+\+", "--"), (r"\b0\b(?![.x])", "1"), (r"\b1\b(?![.x])", "2"), (r"\btrue\b", "false"),
           (r"\bfalse\b", "true"), (r"\bif \((?=.*\)$)", "if (!"), (r"^(\s+)[a-z][\w>.\[\]-]*( [-+*/|&]?= |\().*;$", r"\1;")]
NOT_CODE = re.compile(r"^\s*(#|/\*|\*|//|static const|enum|typedef|hs_fail|const char)|hs_fail\(|assert\(")
# A mutant may ask for everything: bytes of address space and of a file.
MEMORY, FILE = 12 << 30, 2 << 30


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


class Test:
    """A suite or a file of API tests: its command, what the unchanged program takes, and the lines that it reaches."""

    def __init__(self, name, suite):
        self.name, self.suite = name, suite
        self.seconds, self.cpu, self.lines = 0, 0, {}

    def reaches(self, path, number):
        """Returns true if it executes the line; of a statement of several lines gcov counts the first."""
        counts = self.lines.get(path, {})
        listed = next((n for n in range(number + 1, max(0, number - 10), -1) if n in counts), None)
        return listed is not None and counts[listed] > 0


class Copy:
    """A copy of the tree with its objects, in which mutants are linked and tests run."""

    def __init__(self, folders, scratch):
        self.folders, self.scratch, self.top = folders, Path(scratch), Path(scratch) / "headscope"
        names = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, check=True, capture_output=True).stdout.split(b"\0")
        for name in (os.fsdecode(n) for n in names if n):
            if (TREE / name).exists():
                (self.top / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TREE / name, self.top / name)
        for built in (TREE / BUILT).rglob("*"):
            if built.suffix in (".o", ".a"):
                (self.top / built.relative_to(TREE)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(built, self.top / built.relative_to(TREE))
        self.compile_commands, self.link_commands = {}, {}
        self.suites = [Test(p.stem, True) for p in sorted(self.top.glob("tests/unit/test_*.c"))]
        files = {f for folder in folders for f in next((f for start, f in API.items() if f"{folder}/".startswith(f"{start}/")), [])}
        self.files = [Test(f"test_{f}", False) for f in sorted(files)]

    def _last_command(self, *arguments):
        """Returns the last command that make would run, its dependencies taken for built."""
        out = subprocess.run(["make", "-n", "V=1", "WERROR=", *arguments], cwd=self.top, check=True, capture_output=True, text=True)
        return out.stdout.splitlines()[-1]

    def compile(self, path, text, output, flags="-O1 -g0"):
        """Compiles text as if it were the file. Returns false if it does not compile."""
        if path not in self.compile_commands:
            target = f"{BUILT}/{path[:-2]}.o"
            command = self._last_command("-W", path, target, "WARN=-w", "CFLAGS=@FLAGS@ -fno-math-errno -fno-trapping-math")
            self.compile_commands[path] = re.sub(r"-MMD -MP -c \S+ -o \S+$", "", command)
        command = self.compile_commands[path].replace("@FLAGS@", flags) + f" -x c -c - -o {output}"
        # gcov names a file by its source. Clones for other instruction sets compute the same, and take time to compile.
        text = f'# 1 "{path}"\n' + text.replace("HS_CLONES", "")
        return subprocess.run(["sh", "-c", command], cwd=self.top, input=text, text=True,
                              capture_output=True).returncode == 0

    def link(self, test, objects, output, flags=""):
        """Links a suite, or the program for a file of API tests, with these objects in place of the library's."""
        key = test.name if test.suite else "headscope"
        if key not in self.link_commands:
            main = f"tests/unit/{test.name}.c" if test.suite else "server/commands/main.c"
            target = f"{BUILT}/tests/{test.name}" if test.suite else "build/headscope"
            self.link_commands[key] = self._last_command("-W", main, target)
        command = re.sub(r"-o \S+", f"{flags} -o {output}", self.link_commands[key], count=1)
        command = command.replace(f" {BUILT}/libheadscope.a", f" {shlex.join(map(str, objects))} {BUILT}/libheadscope.a", 1)
        output.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["sh", "-c", command], cwd=self.top, check=True, capture_output=True)

    def run(self, test, program, folder, limited=True):
        """Runs a test with this program; returns "passed", "killed" or "timed out"."""
        temporary = folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)

        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if limited:
                resource.setrlimit(resource.RLIMIT_CPU, (int(4 * test.cpu) + 2,) * 2)

        command = [program] if test.suite else [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow",
                                                f"tests/api/{test.name}.py"]
        variables = {"HEADSCOPE": str(program), "TMPDIR": str(temporary), "CK_TIMEOUT_MULTIPLIER": "20", "CK_TAP_LOG_FILE_NAME": "-"}
        process = subprocess.Popen(command, cwd=self.top, stdout=subprocess.PIPE if test.suite else subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=limits, env={**os.environ, **variables})
        limit = 20 * test.seconds + 60
        late, begin = threading.Timer(limit, end_session, [process.pid]), time.monotonic()
        try:
            if limited:
                late.start()
            # Check lists results as they come, so the first failure ends a suite.
            failed = any(line.startswith(b"not ok") for line in process.stdout or ()) or process.wait() != 0
            return "passed" if not failed else "timed out" if limited and time.monotonic() - begin >= limit else "killed"
        finally:
            late.cancel()
            end_session(process.pid)
            process.wait()
            shutil.rmtree(temporary, ignore_errors=True)

    def holds(self, test):
        """Returns false for a suite whose program was linked without an object of the folders."""
        program = TREE / BUILT / "tests" / test.name
        if not test.suite or not program.exists():
            return True
        objects = [TREE / BUILT / (name[:-2] + ".o") for folder in self.folders for name in sources(folder)]
        return not symbols(program).isdisjoint(symbols(*(o for o in objects if o.exists())))

    def count_lines(self, tests):
        """Runs tests once with counters in the folder's objects; fills in what each takes and reaches. Stops if one fails."""
        tests[:] = [t for t in tests if self.holds(t)]
        objects = self.scratch / "counted"
        if not objects.exists():
            objects.mkdir()
            for name in (n for folder in self.folders for n in sources(folder)):
                assert self.compile(name, (self.top / name).read_text(), objects / (name.replace("/", "+") + ".o"),
                                    "-O1 -g0 --coverage -fprofile-update=atomic")
        compiled = sorted(objects.glob("*.o"))
        for test in tests:
            folder = self.scratch / "count"
            program = folder / "build" / "headscope"
            self.link(test, compiled, program, "--coverage")
            for counts in objects.glob("*.gcda"):
                counts.unlink()
            before, begin = os.times(), time.monotonic()
            if self.run(test, program, folder, limited=False) != "passed":
                sys.exit(f"the unchanged tree does not pass {test.name}")
            after = os.times()
            test.seconds = time.monotonic() - begin
            test.cpu = after.children_user + after.children_system - before.children_user - before.children_system
            test.lines = read_counts(objects)
            shutil.rmtree(folder)
            print(f"  {test.name}: {test.seconds:.1f} s, {test.cpu:.1f} s of CPU time", file=sys.stderr, flush=True)
        tests.sort(key=lambda t: t.cpu)


def end_session(session):
    """Kills all processes of a session, also those that Check starts in process groups of their own."""
    found = True
    while found:
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, _, _, of = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                if int(of) == session and state not in "ZX":
                    os.kill(int(folder.name), 9)
                    found = True


def sources(folder):
    """Returns the C files of a folder that are in the library, so not the program's main."""
    paths = sorted(str(path.relative_to(TREE)) for path in (TREE / folder).rglob("*.c"))
    return [path for path in paths if path != "server/commands/main.c"]


def symbols(*paths):
    """Returns the names of the global functions and variables that these files define."""
    out = subprocess.run(["nm", "--defined-only", "--extern-only", "--no-sort", *paths], check=True, capture_output=True, text=True)
    return {line.split()[2] for line in out.stdout.splitlines() if len(line.split()) == 3}


def read_counts(objects):
    """Returns {path: {line: how often it was executed}} of all counters in a folder."""
    found = [f.name for f in sorted(objects.glob("*.gcda"))]
    lines = {}
    if found:
        out = subprocess.run(["gcov", "--json-format", "--stdout", *found], cwd=objects, check=True, capture_output=True, text=True)
        for document in out.stdout.splitlines():
            for file in json.loads(document)["files"]:
                counts = lines.setdefault(file["file"], {})
                for line in file["lines"]:
                    counts[line["line_number"]] = max(counts.get(line["line_number"], 0), line["count"])
    return lines


class Mutant:
    def __init__(self, path, number, changed):
        self.path, self.number, self.changed = path, number, changed
        self.was = (TREE / path).read_text().splitlines()[number]
        self.state, self.by, self.object, self.reached = None, None, None, False

    def text(self):
        lines = (TREE / self.path).read_text().splitlines()
        lines[self.number] = self.changed
        return "\n".join(lines) + "\n"

    def row(self):
        return {"file": self.path, "line": self.number + 1, "was": self.was.strip(), "is": self.changed.strip(), "state": self.state,
                "by": self.by}


class Hunt:
    """A sample of mutants, and the folders in which they are linked, one for each process."""

    def __init__(self, copy, processes):
        self.copy, self.processes, self.slots = copy, processes, queue.Queue()
        for n in range(processes):
            self.slots.put(copy.scratch / f"slot{n}")
        self.originals = {}

    def sample(self, every, count):
        """Returns the first `count` that compile, with equivalent ones marked."""
        sample = []
        for mutant in every:
            if len(sample) == count:
                break
            name = mutant.path.replace("/", "+")
            if mutant.path not in self.originals:
                original = self.copy.scratch / f"{name}.o"
                assert self.copy.compile(mutant.path, (TREE / mutant.path).read_text(), original)
                self.originals[mutant.path] = original.read_bytes()
            mutant.object = self.copy.scratch / f"{name}-{len(sample)}.o"
            if self.copy.compile(mutant.path, mutant.text(), mutant.object):
                mutant.state = "equivalent" if mutant.object.read_bytes() == self.originals[mutant.path] else None
                sample.append(mutant)
        return sample

    def attack(self, mutant, tests):
        folder = self.slots.get()
        program = folder / "build" / "headscope"
        try:
            for test in (t for t in tests if t.reaches(mutant.path, mutant.number)):
                if test.suite or not program.exists():
                    self.copy.link(test, [mutant.object], program)
                ends = {self.copy.run(test, program, folder)}
                if "killed" in ends and not test.suite:
                    ends.add(self.copy.run(test, program, folder))
                if "passed" not in ends:
                    mutant.state, mutant.by = "killed" if ends == {"killed"} else "timed out", test.name
                    return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self.slots.put(folder)

    def all(self, mutants, tests, report):
        alive = [m for m in mutants if m.state is None]
        with concurrent.futures.ThreadPoolExecutor(self.processes) as pool:
            for n, mutant in enumerate(pool.map(lambda m: (self.attack(m, tests), m)[1], alive), 1):
                report()
                print(f"  {n} of {len(alive)}: {mutant.path}:{mutant.number + 1} {mutant.state or 'alive'} {mutant.by or ''}",
                      file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--sample", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="+", metavar="NAME")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--suites", action="store_true")
    part.add_argument("--files", action="store_true")
    options = parser.parse_args()
    folders = [folder.rstrip("/") for folder in options.folders]
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copy = Copy(folders, scratch)
        hunt = Hunt(copy, options.processes)
        samples, n_possible = {}, {}
        for folder in folders:
            every = [Mutant(path, *change) for path in sources(folder) for change in mutations(TREE / path)]
            random.Random(options.seed).shuffle(every)
            samples[folder], n_possible[folder] = hunt.sample(every, options.sample), len(every)
        sample = [mutant for mutants in samples.values() for mutant in mutants]

        def report():
            if options.json:
                Path(options.json).write_text(json.dumps([m.row() for m in sample], indent=1))

        earlier = json.loads(Path(options.json).read_text()) if options.json and Path(options.json).exists() else []
        earlier = {(r["file"], r["line"], r["is"]): r for r in earlier}
        for mutant in sample:
            row = earlier.get((mutant.path, mutant.number + 1, mutant.changed.strip()), {})
            mutant.reached = row.get("state") == "survived"
            if row.get("state") == "killed":
                mutant.state, mutant.by = "killed", row["by"]
        copy.suites, copy.files = [] if options.files else copy.suites, [] if options.suites else copy.files
        for tests in (copy.suites, copy.files):
            tests[:] = [t for t in tests if not options.only or t.name in options.only]
            copy.count_lines(tests)
            hunt.all(sample, tests, report)
        for mutant in (m for m in sample if m.state is None):
            reached = mutant.reached or any(t.reaches(mutant.path, mutant.number) for t in copy.suites + copy.files)
            mutant.state = "survived" if reached else "not reached"
            print(f"{mutant.path}:{mutant.number + 1} {mutant.state}\n  - {mutant.was.strip()}\n  + {mutant.changed.strip()}", flush=True)
        report()
    for folder, mutants in samples.items():
        states = [m.state for m in mutants]
        print(f"{folder}: {len(states)} of {n_possible[folder]} possible changes (seed {options.seed}): "
              + ", ".join(f"{states.count(s)} {s}" for s in ("killed", "timed out", "equivalent", "survived", "not reached")))


if __name__ == "__main__":
    main()
