"""The tables of docs/explanation/performance.md, from what was measured, and its table of bars, from those tables.

    python3 tests/bench/report.py [BUILD_FOLDER]                    # prints them
    python3 tests/bench/report.py build docs/explanation/performance.md         # `make bench`, `make bench-peers`: writes them

Reads bench.json and bench-peers.json, whichever there is. In the document each table has a place, between two comments:

    <!-- bench: passes -->
    **CPU (family, model), kernels, cores**, date; other programs took at most 2 % of the machine

    | a table |
    <!-- end -->

with an entry for every machine that measured it. A machine's second measurement takes the place of its first; the
entries of all others stay. A cell with two values has one for one core and one for all. The bars have a column for
each machine.
"""
import json
import re
import sys
from pathlib import Path

MODELS = ("base", "minilm", "mini")
STEPS = ("products", "plain", "capture", "analysis")
LENGTHS = (32, 128, 512)
BARS = "<!-- bars: from the tables -->\n", "<!-- end of the bars -->"


def table(head, rows):
    lines = ["|" + "|".join(map(str, line)) + "|\n" for line in (head, ["---"] * len(head), *rows)]
    return "".join(lines)


def cell(values):
    """The values for one core and for all; a dash for one that was not measured."""
    return ", ".join("-" if value is None else value for value in values)


def passes(figures):
    """Each model's passes over the floor."""
    rows = []
    for name in MODELS:
        for tokens in LENGTHS:
            found = [row for row in figures[name]["passes"] if row["tokens"] == tokens]
            rows += [[name, tokens, cell(f"{row['floor_ms']:.4g}" for row in found),
                      *(cell(f"{row[step]['over_floor']:.2f}" for row in found) for step in STEPS),
                      cell(f"{row['added_share']:+.1%}" for row in found)]] * bool(found)
    return table(["model", "tokens", "floor, ms", *STEPS, "capture and analysis add"], rows)


def encoding(figures):
    return table(["answer", "MB sent", "ms", "MB/s", "× a copy"],
                 [[row["format"], f"{row['bytes'] / 1e6:.2f}", f"{row['ms']:.2f}", f"{row['mb_per_s']:.0f}",
                   f"{row['over_copy']:.2f}"] for row in figures["encoding"]])


def throughput(figures):
    return table(["model", "tokens", "cores", "clients", "texts/s", "p50, p99, ms", "of cores × one core's rate"],
                 [[name, row["workload"].split()[0], row["cores"], row["clients"], f"{row['per_second']:.1f}",
                   f"{row['p50_ms']:.1f}, {row['p99_ms']:.1f}", f"{row['efficiency']:.2f}"]
                  for name in ("base", "mini") for row in figures[name]["throughput"]["rows"]])


def service_row(name, figures):
    start, follow, corpus = figures["start"], figures["follow_up"], figures["corpus"]
    on_disk = figures["model"]["weight_bytes"]
    return [name, f"{start['ready_ms']:.0f}", f"{on_disk / 1e6:.1f}",
            f"{start['resident_bytes'] / 1e6:.1f} ({start['resident_bytes'] / on_disk:.2f} ×)",
            f"{figures['throughput']['resident_bytes_max'] / 1e6:.1f}", f"{follow['overview_ms']:.1f}",
            f"{follow['head_ms']:.1f}", f"{corpus['texts_per_second']:.1f} ({corpus['of_ideal']:.2f} ×)"]


def service(figures):
    return table(["model", "ready, ms", "weights, MB", "resident when ready, MB", "at most, MB",
                  "overview of a new text, ms", "one head afterwards, ms",
                  "corpus, texts/s (of cores × one core's analyses)"],
                 [service_row(name, figures[name]) for name in ("base", "mini")])


def families(figures):
    """Complete analyses over the floor of each shape."""
    shapes = figures["families"]
    names = dict.fromkeys(family for rows in shapes.values() for family in rows)
    return table(["family", *shapes],
                 [[family, *(f"{rows[family]['analysis']:.2f}" if family in rows else "-" for rows in shapes.values())]
                  for family in names])


def peers(figures):
    """Milliseconds of our programs, then theirs / ours in the same precision."""
    engines = figures["engines"]
    places, cores = (dict.fromkeys(found) for found in (((row["model"], row["tokens"]) for row in engines),
                                                        sorted(row["cores"] for row in engines)))
    cells = {(row["name"], row["model"], row["tokens"], row["cores"]): (
        f"{row['ms']:.1f}" if is_ours(row["name"]) else row["ratio"] and f"{row['ratio']:.2f}") for row in engines}
    names = sorted(dict.fromkeys(row["name"] for row in engines), key=lambda name: not is_ours(name))
    return table(["program", *(f"{model}, {tokens}" for model, tokens in places)],
                 [[name + ", ms" * is_ours(name), *(cell(cells.get((name, *place, n)) for n in cores) for place in places)]
                  for name in names])


def is_ours(program):
    return program.startswith("headscope")


def request(figures):
    return table(["server", "ms", "ratio"],
                 [["headscope", f"{figures['headscope_ms']:.0f}", "1"],
                  ["Python with PyTorch, NumPy and json", f"{figures['python_ms']:.0f}", f"{figures['ratio']:.1f}"]])


def experiments(figures):
    """The cost of each experiment in passes; those of a predictor only where the checkpoint has one."""
    names = list(dict.fromkeys(name for model in MODELS for name in figures[model]["experiments"]))
    return table(["experiment", *MODELS],
                 [[name, *(f"{figures[model]['experiments'][name]:.2f}" if name in figures[model]["experiments"] else "-"
                           for model in MODELS)] for name in names])


def of_bench(figures):
    """place -> (the parts of the measurement that it is made of, table)"""
    return {"passes": (r"\w+ passes", passes(figures)),
            "families": (r"families .*", families(figures)),
            "experiments": (r"\w+ passes", experiments(figures)),
            "answers": (r"base passes", encoding(figures["base"])),
            "service": (r"(base|mini) throughput", throughput(figures)),
            "start and follow-up": (r"(base|mini) (passes|start|throughput|follow_up|corpus)", service(figures))}


def title(machine):
    return f"{machine['cpu']}, {machine['kernels']}, {machine['cores']} core{'s' if machine['cores'] > 1 else ''}"


def taken(others, parts):
    """Says how much of the machine other programs took beside the parts of a measurement."""
    most = max(part for name, part in others.items() if re.fullmatch(parts, name))
    return f"other programs took at most {100 * most:.0f} % of the machine"


def cut(text, place):
    """(text before a place's entries, the entries of machines in order: title -> text, text behind them)"""
    begin, end = f"<!-- bench: {place} -->\n", "<!-- end -->"
    if begin not in text or end not in text.split(begin, 1)[1]:
        raise ValueError(f"the document has no place for '{place}': {begin.strip()} and {end} are missing")
    before, rest = text.split(begin, 1)
    inside, after = rest.split(end, 1)
    entries = {re.match(r"\*\*(.*?)\*\*", entry).group(1): entry
               for entry in re.split(r"^(?=\*\*)", inside, flags=re.M) if entry.strip()}
    return before + begin, entries, end + after


def put(text, place, machine, made, note=""):
    """The document with this machine's table at its place."""
    before, entries, after = cut(text, place)
    entries[title(machine)] = f"**{title(machine)}**, {machine['date']}{'; ' * bool(note)}{note}\n\n{made}\n"
    return before + "".join(entries.values()) + after


def rows(entry):
    """The rows of a table: column -> value."""
    lines = [[value.strip() for value in line.strip("|").split("|")] for line in entry.split("\n") if line.startswith("|")]
    return [dict(zip(lines[0], line)) for line in lines[2:]]


def figure(text, machine, place, column, n=0, **keys):
    """Value n of a cell of a machine's table, or the number in brackets where it has one; None if it was not measured."""
    for row in rows(cut(text, place)[1].get(machine, "")):
        if all(row.get(key) == str(value) for key, value in keys.items()):
            values = row.get(column, "-").split(", ")
            found = re.search(r"\(([0-9.]+)", values[n]) or re.match(r"\+?([0-9.]+)", values[n]) if n < len(values) else None
            return float(found[1]) if found else None
    return None


def quotient(a, b):
    return None if a is None or b is None else a / b


def judged(text, machine):
    """(what, sign, bar, measured, unit) of each bar, by a machine's tables."""
    def passes_of(tokens, n, column="analysis"):
        return figure(text, machine, "passes", column, n, model="base", tokens=tokens)

    def peer(program, tokens=128, n=0):
        return figure(text, machine, "peers", f"base, {tokens}", n, program=program + ", ms" * is_ours(program))

    def of_start(column, model="base"):
        return figure(text, machine, "start and follow-up", column, model=model)

    def on(n):
        return "1 core" if n == 0 else "all cores"

    for n, tokens, bar in ((0, 128, 1.15), (1, 128, 1.2), (0, 512, 1.3), (1, 512, 1.35)):
        yield f"complete analysis over the floor, T = {tokens}, {on(n)}", "<=", bar, passes_of(tokens, n), ""
    for n, tokens, bar in ((0, 128, 1.15), (1, 128, 1.2), (0, 32, 1.2), (1, 32, 1.2)):
        yield f"ONNX Runtime / ours, T = {tokens}, {on(n)}", ">=", bar, peer("ONNX Runtime", tokens, n), ""
    for program in ("OpenVINO", "OpenVINO, pairs"):
        yield f"{program} / ours, 1 core", ">=", 1, peer(program), ""
    yield "our fp32 / our bf16, 1 core", ">=", 1.7, quotient(peer("headscope"), peer("headscope, bf16")), ""
    yield "our fp32 / our int8, 1 core", ">=", 2, quotient(peer("headscope"), peer("headscope, int8")), ""
    for program in ("PyTorch, bf16", "OpenVINO, bf16", "ONNX Runtime, int8"):
        yield f"{program} / ours, 1 core", ">=", 1, peer(program), ""
    for n in (0, 1):
        yield f"capture and analysis add, {on(n)}", "<=", 12, passes_of(128, n, "capture and analysis add"), " %"
    yield ("8 clients, of cores × the one-core rate", ">=", 0.92,
           figure(text, machine, "service", "of cores × one core's rate", model="base", tokens=128, cores=2, clients=8), "")
    yield "ready with a checkpoint in the page cache", "<=", 2000, of_start("ready, ms"), " ms"
    yield "resident when ready, of the checkpoint", "<=", 2.1, of_start("resident when ready, MB"), " ×"
    yield "JSON numbers", ">=", 100, figure(text, machine, "answers", "MB/s", answer="json"), " MB/s"
    for answer, bar in (("npz", 5), ("safetensors", 1.2)):  # npz has zlib's CRC-32
        yield f"{answer}, of a copy", "<=", bar, figure(text, machine, "answers", "× a copy", answer=answer), " ×"
    for name, model in (("mini", "mini"), ("BERT-base", "base")):
        yield (f"corpus with {name}, of cores × one core's analyses", ">=", 0.9,
               of_start("corpus, texts/s (of cores × one core's analyses)", model), "")


def verdict(sign, bar, value, unit):
    """A measured value, with how far it misses its bar."""
    if value is None:
        return "-"
    shown = f"{value:.4g}{unit}" if value >= 10 else f"{value:.2f}{unit}"
    met = value <= bar if sign == "<=" else value >= bar
    return shown if met else f"{shown}, missed by {100 * abs(value / bar - 1):.0f} %"


def with_bars(text):
    """The document with its table of bars made of the other tables."""
    machines = list(dict.fromkeys(machine for place in re.findall(r"<!-- bench: (.*?) -->", text) for machine in cut(text, place)[1]))
    columns = [list(judged(text, machine)) for machine in machines]
    lines = [[what, f"{sign} {bar:g}{unit}", *(verdict(*column[n][1:]) for column in columns)]
             for n, (what, sign, bar, _, unit) in enumerate(columns[0])] if columns else []
    before, rest = text.split(BARS[0], 1)
    return before + BARS[0] + table(["what", "bar", *machines], lines) + BARS[1] + rest.split(BARS[1], 1)[1]


def read(path, member):
    """The figures of a file; none if it is not there, or of an earlier version, which has no such member."""
    figures = json.loads(path.read_text()) if path.exists() else {}
    if figures and member not in figures:
        print(f"{path.name} left out: it is of an earlier version; measure again", file=sys.stderr)
        return {}
    return figures


def measured(folder):
    """(place, machine, table, note) of all that is there."""
    found = []
    if figures := read(folder / "bench.json", "others"):
        found += [(place, figures["machine"], made, taken(figures["others"], parts))
                  for place, (parts, made) in of_bench(figures).items()]
    if figures := read(folder / "bench-peers.json", "cblas"):
        if figures["engines"]:  # none: all rounds were disturbed
            others = max(row["others"] for row in figures["engines"])
            found.append(("peers", figures["machine"], peers(figures),
                          f"{'CPU time; ' * figures['cpu_time']}{taken({'': others}, '')}; {figures['cblas']}"))
        if figures["request"]:
            found.append(("whole request", figures["machine"], request(figures["request"]),
                          taken({"": figures["request"]["others"]}, "")))
    return found


def main():
    found = measured(Path(sys.argv[1] if len(sys.argv) > 1 else "build"))
    if len(sys.argv) < 3:
        for place, machine, made, note in found:
            print(f"## {place}\n\n**{title(machine)}**, {machine['date']}; {note}\n\n{made}")
        return
    document = Path(sys.argv[2])
    text = document.read_text()
    for place, machine, made, note in found:
        text = put(text, place, machine, made, note)
    document.write_text(with_bars(text))


if __name__ == "__main__":
    main()
