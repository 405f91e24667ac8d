"""The claims of docs/reference/formulas.md section 2 in float64: their figures, controls, intervals and verdicts.

    run = Run(numbers of texts, sums)       sums {name: [text][...]} of text_sums() and high_sums()
    claims(run, lengths, untrained)         {id: Claim}

Layers are the early, the middle and the last one, in this order.
"""

from dataclasses import dataclass, field

import numpy as np
import resampling

EARLY, MIDDLE, LAST = range(3)
CLAIMS = ("separators", "repeated", "distance", "sentence", "focal", "evolution", "diagonal", "threshold")
NEAR_DIAGONAL, LEAST = 5, 0.05

# ---- sums of a text ----


class Text:
    """The pairs i < j of a text and what they are."""

    def __init__(self, number, ids, special, sentence_ids, separators):
        self.number, self.ids, self.is_separator = number, np.asarray(ids), np.isin(ids, separators)
        self.i, self.j = np.triu_indices(len(ids), 1)
        self.distance = self.j - self.i
        self.ordinary = ~special[self.i] & ~special[self.j]
        self.repeated = self.ids[self.i] == self.ids[self.j]
        self.same_sentence = self.ordinary & (sentence_ids[self.i] == sentence_ids[self.j])
        first = np.array([list(ids).index(token) for token in ids])
        self.holds = np.zeros((len(self.i), len(ids)))  # the pair holds the id that occurs first at this position
        for side in (self.i, self.j):
            self.holds[np.arange(len(self.i)), first[side]] = 1
        n_at = np.bincount(self.distance, self.ordinary)
        self.share_at = np.bincount(self.distance, self.same_sentence) / np.maximum(n_at, 1)


def focal_positions(text, high):
    """The first position of each head's focal token [l][h]; -1 without pairs."""
    return np.where(high.any(-1), (high.astype(float) @ text.holds).argmax(-1), -1)


def n_different(positions):
    return np.array([len(set(heads) - {-1}) for heads in positions])


def text_sums(text, width, centered):
    """Sums that all heads have in common. width: numbers of a head's output."""
    outputs = resampling.gaussian_outputs(text.number, len(text.ids), width)
    outputs -= outputs.mean(0) if centered else 0
    s = (outputs @ outputs.T)[text.i, text.j]
    return {"texts": 1, "all_pairs": len(text.i), "all_ordinary": text.ordinary.sum(), "all_repeated": text.repeated.sum(),
            "all_same_sentence": text.same_sentence.sum(), "all_distance": text.distance.sum(),
            "all_near": (text.distance <= NEAR_DIAGONAL).sum(), "all_gaussian": (s / s.max() < 0.1).sum(),
            "tokens": len(text.ids), "all_separators": text.is_separator.sum()}


def high_sums(text, high):
    """Sums of high pairs [l][h][pair]."""
    weights = {"high": text.distance > 0, "high_ordinary": text.ordinary, "repeated": text.repeated,
               "same_sentence": text.same_sentence, "distance": text.distance,
               "expected_same_sentence": text.share_at[text.distance] * text.ordinary}
    return {**{name: high @ weight.astype(float) for name, weight in weights.items()},
            "unique": n_different(focal_positions(text, high))}


def chance_sums(text, n_high):
    """Sums of as many pairs drawn at random as each head has, n_high [l][h]."""
    drawn = np.zeros((*n_high.shape, len(text.i)), bool)
    for head, n in enumerate(n_high.ravel()):
        i, j = resampling.pairs_at_random(text.number, head, len(text.ids), int(n))
        drawn.reshape(-1, len(text.i))[head] = np.isin(text.i * len(text.ids) + text.j, i * len(text.ids) + j)
    return {"unique_chance": n_different(focal_positions(text, drawn))}


def map_sums(text, n, attentions):
    """Sums of N [l][h][pair] and A [l][h][i][j]."""
    columns, summed = attentions.sum((1, 2), dtype=float), np.maximum(n.sum(1, dtype=float), 0)
    return {"below": (n < np.float32(0.1)).sum(-1), "middle": ((n >= np.float32(0.1)) & (n < np.float32(0.6))).sum(-1),
            "separators": columns[:, text.is_separator].sum(-1), "attention": columns.sum(-1),
            "near": summed[:, text.distance <= NEAR_DIAGONAL].sum(-1), "positive": summed.sum(-1)}


def longest(text, outputs, n_high):
    """As many pairs of the longest outputs as each head has high ones: [l][h][pair]."""
    length = np.sqrt((outputs.astype(float) ** 2).sum(-1))
    products = length[..., text.i] * length[..., text.j]
    places = np.argsort(np.argsort(-products, -1, kind="stable"), -1, kind="stable")
    return places < n_high[..., None]


# ---- draws ----


class Run:
    """Sums of texts in draws of blocks."""

    def __init__(self, text_numbers, sums):
        blocks = resampling.blocks_of(text_numbers)
        used = np.unique(blocks)
        self.n = len(used)
        self.times, self.run = resampling.drawn(self.n)
        of_block = (blocks == used[:, None]).astype(float)
        self.sums = {name: np.tensordot(self.times @ of_block, np.array(values, float), 1) for name, values in sums.items()}

    def interval(self, draws):
        return resampling.interval(draws, self.n, self.run)

    def p_value(self, draws, null):
        return resampling.p_value(draws, null, self.n, self.run)

    def ratio(self, part, size, *at):
        """part / size in each draw, at an index of layers, or of layers and heads; all heads of a layer if it has no head."""
        a, b = (self.sums[name][(slice(None), *at)] for name in (part, size))
        a, b = (values.sum(-1) if values.ndim > 1 else values for values in (a, b))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(b > 0, a / b, np.nan)


def head_ratios(run, part, size):
    """[h][draw] of the last layer."""
    return np.array([run.ratio(part, size, LAST, h) for h in range(run.sums[part].shape[-1])])


# ---- figures that claims rest on ----


def extremes(run):
    """The heads with the lowest and the highest share of repeated tokens, and how many heads have high pairs."""
    shares = head_ratios(run, "repeated", "high")
    known = shares[np.isfinite(shares[:, 0])]
    return known[known[:, 0].argmin()], known[known[:, 0].argmax()], len(known)


def span(run):
    low, high, _ = extremes(run)
    return high - low


def distances(run):
    return [run.ratio("distance", "high", layer) for layer in (EARLY, MIDDLE, LAST)]


def smaller_step(run):
    early, middle, last = distances(run)
    return np.minimum(early - last, last - middle)


def below(run, part="below"):
    n_heads = run.sums[part].shape[-1]
    return run.sums[part][:, LAST].sum(-1) / (n_heads * run.sums["all_pairs"])


FIGURES = {
    "separators": lambda run: run.ratio("separators", "attention", LAST),
    "repeated": span,
    "distance": lambda run: run.ratio("distance", "high", LAST),
    "sentence": lambda run: run.ratio("same_sentence", "expected_same_sentence", LAST),
    "focal": lambda run: run.sums["unique"][:, LAST] / run.sums["texts"],
    "evolution": smaller_step,
    "diagonal": lambda run: run.ratio("near", "positive", MIDDLE),
    "threshold": below,
}
OF_PAIRS = ("repeated", "distance", "sentence", "focal", "evolution")  # those of the longest outputs have them, too


def chance_of(run, claim):
    """None: the claim has no chance."""
    return {"separators": lambda: run.ratio("all_separators", "tokens"), "repeated": lambda: None,
            "distance": lambda: run.ratio("all_distance", "all_pairs"), "sentence": lambda: np.ones(len(run.times)),
            "focal": lambda: run.sums["unique_chance"][:, LAST] / run.sums["texts"], "evolution": lambda: np.zeros(len(run.times)),
            "diagonal": lambda: run.ratio("all_near", "all_pairs"),
            "threshold": lambda: run.ratio("all_gaussian", "all_pairs")}[claim]()


# ---- verdicts ----

HOLDS, FAILS, OPEN, NONE = "holds", "does not hold", "not decided", "no effect"


def judged(run, *margins):
    """All margins must be above 0."""
    found = [run.interval(margin) for margin in margins]
    return FAILS if any(high < 0 for _, high in found) else HOLDS if all(low > 0 for low, _ in found) else OPEN


def most(n, spare, n_hold, n_fail):
    return HOLDS if n_hold > 0 and n_hold + spare >= n else FAILS if n_fail > spare else OPEN


def both(a, b):
    return FAILS if FAILS in (a, b) else HOLDS if a == b == HOLDS else OPEN


def is_one(run, ratio):
    low, high = run.interval(ratio)
    return 1 - LEAST < low and high < 1 + LEAST


def by_criterion(run, claim, x):
    """The verdict without controls. x: the claim's figure."""
    n_heads = run.sums["high"].shape[-1]
    if claim == "separators":
        return judged(run, x - 0.5, x - run.ratio("separators", "attention", EARLY))
    if claim == "repeated":
        n = extremes(run)[2]
        differs = run.p_value(x, 0.1) * n * (n - 1) / 2 < 0.05 and x[0] > 0.1
        return HOLDS if differs else FAILS if run.interval(x)[1] < 0.1 else OPEN
    if claim == "distance":
        heads = [judged(run, 50 - head) for head in head_ratios(run, "distance", "high") if np.isfinite(head[0])]
        return most(len(heads), 1, heads.count(HOLDS), heads.count(FAILS))
    if claim == "sentence":
        lifts = head_ratios(run, "same_sentence", "expected_same_sentence")
        p = resampling.adjusted(np.array([run.p_value(lift, 1) for lift in lifts]))
        n_above, n_below = (((p < 0.05) & (sign * (lifts[:, 0] - 1) > 0)).sum() for sign in (1, -1))
        return NONE if is_one(run, x) else both(judged(run, x - 1), most(n_heads, n_heads // 10, n_above, n_below))
    if claim == "focal":
        return judged(run, x - 0.7 * n_heads, 0.9 * n_heads - x)
    if claim == "evolution":
        early, middle, last = distances(run)
        due = chance_of(run, "distance")
        return NONE if all(is_one(run, layer / due) for layer in (early, middle, last)) else judged(run, early - last, last - middle)
    if claim == "diagonal":
        return judged(run, *(x - run.ratio("near", "positive", layer) for layer in (EARLY, LAST)))
    return judged(run, x - 0.5, x - below(run, "middle"))


def least_effect(run, claim, control, values):
    """By how much the figure must exceed a control."""
    part = 2 * LEAST if control == "untrained" and claim in ("repeated", "focal") else LEAST
    return part * (1 if claim == "repeated" else chance_of(run, "distance")[0] if claim == "evolution" else abs(values))


@dataclass
class Claim:
    """Draws of the figure and of its controls, None for one that it has not, and the verdict."""
    observed: np.ndarray
    controls: dict = field(default_factory=dict)
    verdict: str = ""


def beside_controls(run, claim, found):
    sign = -1 if claim == "distance" else 1
    controls = {name: values for name, values in found.controls.items() if values is not None}
    margin, beyond = (sign * found.observed - np.max(
        [sign * values + least * least_effect(run, claim, name, values) for name, values in controls.items()], 0) for least in (0, 1))
    if run.interval(beyond)[0] > 0:
        return HOLDS
    return NONE if run.interval(margin)[0] <= 0 or run.interval(beyond)[1] < 0 else OPEN


def claims(run, lengths, untrained):
    """All claims of a run, beside those of the longest outputs and of random weights."""
    table = {}
    for claim in CLAIMS:
        figure = FIGURES[claim]
        found = Claim(figure(run), {"chance": chance_of(run, claim), "lengths": figure(lengths) if claim in OF_PAIRS else None,
                                    "untrained": figure(untrained)})
        verdict = by_criterion(run, claim, found.observed)
        found.verdict = beside_controls(run, claim, found) if verdict == HOLDS else verdict
        table[claim] = found
    return table
