"""Plots the cost of a text against its length, on one core: python3 tests/bench/plot.py build/bench.json OUT.svg

Points are measured on the random BERT-base. The line is their floor, operations over peak. The dashed line is the part
of it that is linear in T, the GEMMs with weights. The rest is quadratic.
"""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "headscope"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402


def linear_share(model, tokens):
    """The part of the floor's operations in the GEMMs with weights (tests/bench/measure.h)."""
    layers, hidden, ffn = model["layers"], model["hidden"], model["ffn"]
    linear = layers * 6 * tokens * hidden**2 + (layers - 1) * (2 * tokens * hidden**2 + 4 * tokens * hidden * ffn)
    quadratic = layers * (4 * tokens**2 * hidden + tokens * (tokens - 1) * hidden)
    return linear / (linear + quadratic)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        figures = json.load(file)["base"]
    rows = [row for row in figures["passes"] if row["cores"] == 1]
    tokens = [row["tokens"] for row in rows]
    floors = [row["floor_ms"] for row in rows]
    sheet, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(tokens, [row["analysis"]["ms"] for row in rows], "o", color="#c2571a", label="complete analysis")
    axes.plot(tokens, [row["plain"]["ms"] for row in rows], "x", color="#1f6fb4", label="plain pass")
    axes.plot(tokens, floors, "-", color="#444", linewidth=1, label="floor")
    axes.plot(tokens, [f * linear_share(figures["model"], t) for t, f in zip(tokens, floors, strict=True)], "--",
              color="#444", linewidth=0.8, label="its linear part")
    axes.set(xlabel="tokens", ylabel="ms on one core", xscale="log", yscale="log")
    axes.set_xticks(tokens, tokens)
    axes.set_yticks([10, 20, 50, 100, 200, 500], [10, 20, 50, 100, 200, 500])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    sheet.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
