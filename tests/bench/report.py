"""The tables of docs/performance.md, from what was measured: python3 tests/bench/report.py [BUILD_FOLDER]

Reads bench.json and bench-peers.json of build/ and prints Markdown.
"""
import json
import sys
from pathlib import Path

STEPS = ("products", "plain", "capture", "analysis")


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()



def passes(figures):
    print(f"{figures['machine']['cpu']}, {figures['machine']['cores']} cores, {figures['machine']['kernels']} kernels, "
          f"{figures['machine']['date']}\n")
    table(["tokens", "cores", "peak, GFLOP/s", "floor, ms", *(f"{step}, ms (× floor)" for step in STEPS),
           "capture and analysis add"],
          [[row["tokens"], row["cores"], f"{row['peak_gflops']:.0f}", f"{row['floor_ms']:.2f}",
            *(f"{row[step]['ms']:.2f} ({row[step]['over_floor']:.2f})" for step in STEPS),
            f"{row['added_share']:+.1%}"] for row in figures["passes"]])


def encoding(figures):
    table(["answer", "MB sent", "ms", "MB/s", "× a copy"],
          [[row["format"], f"{row['bytes'] / 1e6:.2f}", f"{row['ms']:.2f}", f"{row['mb_per_s']:.0f}",
            f"{row['over_copy']:.2f}"] for row in figures["encoding"]])


def throughput(figures):
    table(["texts of", "cores", "clients", "texts/s", "p50, ms", "p99, ms", "of cores × one core's rate", "clients' CPU"],
          [[row["workload"], row["cores"], row["clients"], f"{row['per_second']:.1f}", f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}", f"{row['efficiency']:.2f}", f"{row['own_cpu']:.1%}"]
           for row in figures["throughput"]["rows"]])


def service(name, figures):
    start, follow, corpus = figures["start"], figures["follow_up"], figures["corpus"]
    on_disk = figures["model"]["weight_bytes"]
    return [name, f"{start['ready_ms']:.0f}", f"{on_disk / 1e6:.1f}",
            f"{start['resident_bytes'] / 1e6:.1f} ({start['resident_bytes'] / on_disk:.2f} ×)",
            f"{figures['throughput']['resident_bytes_max'] / 1e6:.1f}", f"{follow['overview_ms']:.1f}",
            f"{follow['head_ms']:.1f}", f"{corpus['texts_per_second']:.1f} ({corpus['of_ideal']:.2f} ×)"]


def peers(figures):
    print(f"{figures['machine']['cpu']}, {figures['machine']['cores']} cores, {figures['machine']['date']}\n")
    table(["cores", "tokens", "program", "median, ms", "best, ms", "theirs / ours"],
          [[row["cores"], row["tokens"], row["name"], f"{row['ms']:.1f}", f"{row['best_ms']:.1f}", f"{row['ratio']:.2f}"]
           for row in figures["engines"]])


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    figures = json.loads((folder / "bench.json").read_text())
    for name in ("base", "mini"):
        print(f"## {name}\n")
        passes(figures[name])
        encoding(figures[name])
        throughput(figures[name])
    table(["model", "ready, ms", "weights, MB", "resident when ready, MB", "at most, MB", "overview of a new text, ms",
           "one head afterwards, ms", "corpus, texts/s (of cores × one core's analyses)"],
          [service(name, figures[name]) for name in ("base", "mini")])
    for shape, families in figures["families"].items():
        print(f"## families, {shape}\n")
        table(["family", "floor, ms", *(f"{step}, × floor" for step in STEPS)],
              [[family, f"{row['floor_ms']:.2f}", *(f"{row[step]:.2f}" for step in STEPS)]
               for family, row in families.items()])
    if (folder / "bench-peers.json").exists():
        print("## peers\n")
        peers(json.loads((folder / "bench-peers.json").read_text()))


if __name__ == "__main__":
    main()
