"""The cost of a text against its length, from build/bench.json: python3 tests/bench/plot.py build/bench.json OUT.svg

Points are measured. The line is their floor, operations over peak, and the dashed line the part of it that grows with
T alone, the products with weights: what lies between the two is quadratic.
"""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "headscope"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402


def linear_share(model, tokens):
    """Of the floor's operations, those of products with weights (engine/measure.h)."""
    layers, hidden, ffn = model["layers"], model["hidden"], model["ffn"]
    linear = layers * 6 * tokens * hidden**2 + (layers - 1) * (2 * tokens * hidden**2 + 4 * tokens * hidden * ffn)
    quadratic = layers * (4 * tokens**2 * hidden + tokens * (tokens - 1) * hidden)
    return linear / (linear + quadratic)


def draw(axes, figures, title):
    for cores, colour in ((1, "#1f6fb4"), (figures["machine"]["cores"], "#c2571a")):
        rows = [row for row in figures["passes"] if row["cores"] == cores]
        tokens = [row["tokens"] for row in rows]
        floors = [row["floor_ms"] for row in rows]
        axes.plot(tokens, [row["analysis"]["ms"] for row in rows], "o", color=colour, label=f"{cores} core" + "s" * (cores > 1))
        axes.plot(tokens, floors, "-", color=colour, linewidth=1)
        axes.plot(tokens, [f * linear_share(figures["model"], t) for t, f in zip(tokens, floors)], "--", color=colour,
                  linewidth=0.8)
    axes.set(title=title, xlabel="tokens", ylabel="ms for a complete analysis", xscale="log", yscale="log")
    axes.set_xticks(tokens, tokens, minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        figures = json.load(file)
    sheet, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    draw(left, figures["base"], "BERT-base's shape")
    draw(right, figures["mini"], "mini")
    sheet.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
