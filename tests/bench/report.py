"""The tables of docs/explanation/performance.md, from what was measured, and its table of bars, from those tables.

    python3 tests/bench/report.py [BUILD_FOLDER]                    # prints them
    python3 tests/bench/report.py build docs/explanation/performance.md         # `make bench`, `make bench-peers`: writes them

Reads bench.json and bench-peers.json, whichever there is. In the document each table has a place, between two comments:

    <!-- bench: passes -->
    **CPU (family, model), kernels, cores**, date; other programs took at most 2 % of the machine

    | a table |
    <!-- end -->

with an entry for every machine that measured it. A machine's second measurement takes the place of its first; the
entries of all others stay. The bars are judged by the first entry of each table.
"""
import json
import re
import sys
from pathlib import Path

MODELS = ("base", "minilm", "mini")
STEPS = ("products", "plain", "capture", "analysis")
BARS = "<!-- bars: from the tables -->\n", "<!-- end of the bars -->"


def table(head, rows):
    lines = ["| " + " | ".join(map(str, line)) + " |\n" for line in (head, *rows)]
    return lines[0] + "|" + "---|" * len(head) + "\n" + "".join(lines[1:])


def passes(figures):
    return table(["tokens", "cores", "peak, GFLOP/s", "floor, ms", *(f"{step}, ms (× floor)" for step in STEPS),
                  "capture and analysis add"],
                 [[row["tokens"], row["cores"], f"{row['peak_gflops']:.0f}", f"{row['floor_ms']:.2f}",
                   *(f"{row[step]['ms']:.2f} ({row[step]['over_floor']:.2f})" for step in STEPS),
                   f"{row['added_share']:+.1%}"] for row in figures["passes"]])


def narrow(figures):
    """MiniLM's shape and mini: passes over the floor, and the corpus rate."""
    return table(["model", "tokens", "cores", "floor, ms", *(f"{step}, × floor" for step in STEPS),
                  "corpus, of cores × one core's analyses"],
                 [[name, row["tokens"], row["cores"], f"{row['floor_ms']:.2f}",
                   *(f"{row[step]['over_floor']:.2f}" for step in STEPS), f"{figures[name]['corpus']['of_ideal']:.2f}"]
                  for name in ("minilm", "mini") for row in figures[name]["passes"]])


def encoding(figures):
    return table(["answer", "MB sent", "ms", "MB/s", "× a copy"],
                 [[row["format"], f"{row['bytes'] / 1e6:.2f}", f"{row['ms']:.2f}", f"{row['mb_per_s']:.0f}",
                   f"{row['over_copy']:.2f}"] for row in figures["encoding"]])


def throughput(figures):
    return table(["texts of", "cores", "clients", "texts/s", "p50, ms", "p99, ms", "of cores × one core's rate",
                  "clients' CPU"],
                 [[row["workload"], row["cores"], row["clients"], f"{row['per_second']:.1f}", f"{row['p50_ms']:.1f}",
                   f"{row['p99_ms']:.1f}", f"{row['efficiency']:.2f}", f"{row['own_cpu']:.1%}"]
                  for row in figures["throughput"]["rows"]])


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
    return table(["shape", "family", "floor, ms", *(f"{step}, × floor" for step in STEPS)],
                 [[shape, family, f"{row['floor_ms']:.2f}", *(f"{row[step]:.2f}" for step in STEPS)]
                  for shape, rows in figures["families"].items() for family, row in rows.items()])


def peers(figures):
    return table(["model", "cores", "tokens", "program", "median, ms", "best, ms", "theirs / ours",
                  "theirs / ours in int8", "others' part of the machine"],
                 [[row["model"], row["cores"], row["tokens"], row["name"], f"{row['ms']:.1f}", f"{row['best_ms']:.1f}",
                   f"{row['ratio']:.2f}", f"{row['ratio_int8']:.2f}" if row["ratio_int8"] else "-", f"{100 * row['others']:.0f} %"]
                  for row in figures["engines"]])


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
    base, mini = figures["base"], figures["mini"]
    return {"passes": (r"base passes", passes(base)),
            "narrow models": (r"mini(lm)? (passes|corpus)", narrow(figures)),
            "families": (r"families .*", families(figures)),
            "experiments": (r".* passes", experiments(figures)),
            "answers": (r"base passes", encoding(base)),
            "service": (r"base throughput", throughput(base)),
            "service of mini": (r"mini throughput", throughput(mini)),
            "start and follow-up": (r"(base|mini) (passes|start|throughput|follow_up|corpus)", service(figures))}


def title(machine):
    return f"{machine['cpu']}, {machine['kernels']}, {machine['cores']} core{'s' if machine['cores'] > 1 else ''}"


def taken(others, parts):
    """Says how much of the machine other programs took beside the parts of a measurement."""
    most = max(part for name, part in others.items() if re.fullmatch(parts, name))
    return f"other programs took at most {100 * most:.0f} % of the machine"


def put(text, place, machine, made, note=""):
    """The document with this machine's table at its place."""
    begin, end = f"<!-- bench: {place} -->\n", "<!-- end -->"
    if begin not in text or end not in text.split(begin, 1)[1]:
        raise ValueError(f"the document has no place for '{place}': {begin.strip()} and {end} are missing")
    before, rest = text.split(begin, 1)
    inside, after = rest.split(end, 1)
    entries = {re.match(r"\*\*(.*?)\*\*", entry).group(1): entry
               for entry in re.split(r"^(?=\*\*)", inside, flags=re.M) if entry.strip()}
    entries[title(machine)] = f"**{title(machine)}**, {machine['date']}{'; ' * bool(note)}{note}\n\n{made}\n"
    return before + begin + "".join(entries.values()) + end + after


def rows(text, place):
    """The rows of the first machine's table at this place: column -> value."""
    inside = text.split(f"<!-- bench: {place} -->\n", 1)[1].split("<!-- end -->", 1)[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n**")[0].split("\n") if line.startswith("|")]
    return [dict(zip(lines[0], line)) for line in lines[2:]]


def figure(text, place, column, **keys):
    """A number of the only row with these values: that in brackets, if there is one."""
    row, = (row for row in rows(text, place) if all(row[key] == str(value) for key, value in keys.items()))
    return float(re.search(r"\(([0-9.]+)", row[column] + f"({row[column].strip('+%')})")[1])


def judged(text):
    """(what, sign, bar, measured, unit) of each bar, by the tables of the document."""
    def passes_of(cores, tokens, column="analysis, ms (× floor)"):
        return figure(text, "passes", column, cores=cores, tokens=tokens)

    def peer(program, cores, tokens, column="median, ms", place="peers"):
        return figure(text, place, column, model="base", program=program, cores=cores, tokens=tokens)

    for cores, tokens, bar in ((1, 128, 1.15), (2, 128, 1.2), (1, 512, 1.3), (2, 512, 1.35)):
        yield f"complete analysis over the floor, T = {tokens}, {cores} core{'s' * (cores > 1)}", "<=", bar, passes_of(cores, tokens), ""
    for cores, tokens, bar in ((1, 128, 1.15), (2, 128, 1.2), (1, 32, 1.2), (2, 32, 1.2)):
        yield (f"ONNX Runtime / ours, T = {tokens}, {cores} core{'s' * (cores > 1)}", ">=", bar,
               peer("ONNX Runtime", cores, tokens, "theirs / ours"), "")
    for program in ("OpenVINO", "OpenVINO, pairs"):
        yield (f"{program} / ours in CPU time, T = 128, 1 core", ">=", 1,
               peer(program, 1, 128, "theirs / ours", "peers in CPU time"), "")
    ours = peer("headscope, bf16", 1, 128)
    yield "our fp32 / our bf16, 1 core", ">=", 1.7, peer("headscope", 1, 128) / ours, ""
    yield "ONNX Runtime / our bf16, 1 core", ">=", 2, peer("ONNX Runtime", 1, 128) / ours, ""
    yield "our fp32 / our int8, 1 core", ">=", 2, peer("headscope", 1, 128, "theirs / ours in int8"), ""
    yield "ONNX Runtime's int8 / our int8, 1 core", ">=", 1, peer("ONNX Runtime, int8", 1, 128, "theirs / ours in int8"), ""
    for cores in (1, 2):
        yield (f"capture and analysis add, T = 128, {cores} core{'s' * (cores > 1)}", "<=", 12,
               passes_of(cores, 128, "capture and analysis add"), " %")
    yield ("8 clients, of cores × the one-core rate", ">=", 0.92,
           figure(text, "service", "of cores × one core's rate", **{"texts of": "128 tokens"}, cores=2, clients=8), "")
    yield "ready with a checkpoint of BERT-base in the page cache", "<=", 2000, figure(text, "start and follow-up", "ready, ms", model="base"), " ms"
    yield ("resident when ready, of the checkpoint", "<=", 2.1,
           figure(text, "start and follow-up", "resident when ready, MB", model="base"), " ×")
    yield "JSON numbers", ">=", 100, figure(text, "answers", "MB/s", answer="json"), " MB/s"
    for answer, bar in (("npz", 5), ("safetensors", 1.2)):  # npz has zlib's CRC-32
        yield f"{answer}, of a copy", "<=", bar, figure(text, "answers", "× a copy", answer=answer), " ×"
    for name, model in (("mini", "mini"), ("BERT-base", "base")):
        yield (f"corpus with {name}, of cores × one core's complete analyses", ">=", 0.9,
               figure(text, "start and follow-up", "corpus, texts/s (of cores × one core's analyses)", model=model), "")


def with_bars(text):
    """The document with its table of bars made of the other tables."""
    lines = [[what, f"{sign} {bar:g}{unit}", f"{value:.4g}{unit}" if value >= 10 else f"{value:.2f}{unit}",
              "met" if (value <= bar if sign == "<=" else value >= bar) else f"missed by {100 * abs(value / bar - 1):.0f} %"]
             for what, sign, bar, value, unit in judged(text)]
    before, rest = text.split(BARS[0], 1)
    return before + BARS[0] + table(["what", "bar", "measured", ""], lines) + BARS[1] + rest.split(BARS[1], 1)[1]


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
        place = "peers in CPU time" if figures["cpu_time"] else "peers"
        if figures["engines"]:  # none: all rounds were disturbed
            found.append((place, figures["machine"], peers(figures), f"cblas is {figures['cblas']}"))
        if figures["request"]:
            found.append(("whole request", figures["machine"], request(figures["request"]),
                          taken({"": figures["request"]["others"]}, "")))
    return found


def is_judged(text):
    """Returns true if the tables have the rows that the bars need. They lack those of programs that were not there, and of lengths
    at which all rounds were disturbed."""
    try:
        return bool(list(judged(text)))
    except ValueError:
        return False


def main():
    found = measured(Path(sys.argv[1] if len(sys.argv) > 1 else "build"))
    if len(sys.argv) < 3:
        for place, machine, made, note in found:
            print(f"## {place}\n\n**{title(machine)}**, {machine['date']} {note}\n\n{made}")
        return
    document = Path(sys.argv[2])
    text = document.read_text()
    for place, machine, made, note in found:
        changed = put(text, place, machine, made, note)
        if is_judged(changed):
            text = changed
        else:
            print(f"the table '{place}' left out: it lacks a row that a bar needs", file=sys.stderr)
    document.write_text(with_bars(text))


if __name__ == "__main__":
    main()
