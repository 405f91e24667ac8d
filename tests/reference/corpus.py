"""docs/reference/formulas.md section 2 in float64, under the names of docs/reference/arrays.md.

    c = Corpus(options)
    c.add(number, ids, special, attentions, similarities)     [l][h][T][T] each
    c.add(..., keys=(ids, special))                           of cross heads: attentions [l][h][T][K], over K other tokens
    c.arrays["repeated"], c.near["repeated"]

A count is a product of E with a matrix of what the pairs are. `near` has the same names, and an array's leading axes.
It holds how far the rest of the array may differ in all, because elements lie within 1e-5 of a threshold or of a bin's
edge.
"""

from dataclasses import dataclass

import analysis
import experiments
import numpy as np

# Arrays that heads lack if they attend to another text.
OWN_TEXT = ("attention_sum_no_columns_no_diagonal", "even_same_sentence_sum", "profiles_label",
            *("profiles_" + name for name in ("self", "previous", "next", "same_token", "same_sentence", "mean_distance", "offsets")))
PROFILE = ("self", "previous", "next", "first", "separator", "punctuation", "same_token", "entropy", "entropy_first",
           "confidence", "mean_distance", "offsets", "same_sentence")

NEAR = 1e-5
N_BINS, SHARE_BINS, N_STRATA = 100, 20, 8


@dataclass
class Options:
    n_layers: int
    n_heads: int
    cls: int
    sep: int
    comma: int
    ends: set
    vocab_size: int
    window: int = 128
    thresholds: tuple = (0.1, 0.2, 0.3, 0.4, 0.5)
    main: int = 2
    tau_a: float = 0.3
    n_parts: int = 4
    crosses: bool = False


class Pairs:
    """All i < j of one text, and what they are."""

    def __init__(self, ids, sentence_ids, special):
        self.ids = ids
        self.i, self.j = np.triu_indices(len(ids), 1)
        self.repeated = ids[self.i] == ids[self.j]
        self.ordinary = ~np.asarray(special, bool)[self.i] & ~np.asarray(special, bool)[self.j]
        self.same_sentence = self.ordinary & (sentence_ids[self.i] == sentence_ids[self.j])
        self.distance = self.j - self.i
        first = [list(ids).index(token) for token in ids]
        # holds[pair, position]: the pair holds the id that first occurs at this position
        self.holds = np.zeros((len(self.i), len(ids)))
        self.holds[np.arange(len(self.i)), np.array(first)[self.i]] = 1
        self.holds[np.arange(len(self.i)), np.array(first)[self.j]] = 1


def far_repeats(ids, similarities, tau, distances):
    """The pairs of the same token farther apart than each distance: all of them, and those of E of each head [l][h][d].
    Last, how many numbers are near tau."""
    pairs = Pairs(np.asarray(ids), np.zeros(len(ids)), np.zeros(len(ids)))
    s = similarities[:, :, pairs.i, pairs.j]
    n = s / s.max(-1, keepdims=True)
    far = pairs.repeated[:, None] & (pairs.distance[:, None] > np.asarray(distances))
    return far.sum(0), (n >= tau).astype(int) @ far, (np.abs(n - tau) <= NEAR).sum()


def share_bins(part, size):
    return np.minimum(part * SHARE_BINS // np.maximum(size, 1), SHARE_BINS - 1).astype(int)


def bins(values, n):
    return np.minimum(np.floor(values * n), n - 1).astype(int)


def near_edge(values, n):
    """Within NEAR of an inner edge of n equal bins on [0, 1]."""
    edges = np.round(values * n)
    return (np.abs(values - edges / n) <= NEAR) & (edges >= 0) & (edges < n)


def rows_bincount(rows, n):
    """Histogram of each row of integers from 0 to n - 1."""
    offset = np.arange(len(rows))[:, None] * n
    return np.bincount((rows + offset).ravel(), minlength=len(rows) * n).reshape(len(rows), n)


class Corpus:
    def __init__(self, options):
        self.options = options
        o, w = options, options.window
        l, h, t = o.n_layers, o.n_heads, len(o.thresholds)
        shapes = {
            "texts": (), "map_step": (), "tokens": (), "all_pairs": (), "all_repeated": (), "all_same_sentence": (),
            "all_repeated_same_sentence": (), "all_ordinary": (), "all_distance": (w,), "reached": (w,),
            "high": (t, l, h), "high_ordinary": (t, l, h), "repeated": (t, l, h), "same_sentence": (t, l, h),
            "repeated_same_sentence": (t, l, h), "texts_with_high": (t, l, h), "focal_share_sum": (t, l, h),
            "repeated_hist": (t, l, h, SHARE_BINS), "same_sentence_hist": (t, l, h, SHARE_BINS),
            "repeated_same_sentence_hist": (t, l, h, SHARE_BINS), "focal_hist": (t, l, h, SHARE_BINS),
            "distance": (t, l, h, w), "location": (l, h, w, w), "unique_focal": (t, l, h + 1),
            "attention_sum": (l, h, w, w), "attention_sum_no_columns": (l, h, w, w),
            "attention_sum_no_columns_no_diagonal": (l, h, w, w),
            "similarity_sum": (l, w, w), "normalized_sum": (l, w, w), "first_similarity": (l, w, w),
            "normalized_hist": (l, h, 1 + N_BINS), "signal_hist": (l, h, 1 + N_BINS),
            "noise_hist": (l, h, 1 + N_BINS), "special_hist": (l, h, 1 + N_BINS), "signal_moments": (l, h, 3), "noise_moments": (l, h, 3),
            "signal_strata_hist": (l, h, N_STRATA, 1 + N_BINS), "noise_strata_hist": (l, h, N_STRATA, 1 + N_BINS),
            "signal_strata_sums": (l, h, N_STRATA, 2), "noise_strata_sums": (l, h, N_STRATA, 2),
            "column_hist": (l, h, N_BINS), "attention_mass": (l, h, 5), "segmentation": (l, 3),
            "focus": (l, o.vocab_size), "sentences": (), "even_same_sentence_sum": (), "focal": (l, o.vocab_size),
            **{"profiles_" + name: (l, h, 17) if name == "offsets" else (l, h) for name in PROFILE},
            **{"part_" + name: (o.n_parts, t, l, h) for name in
               ("high", "high_ordinary", "repeated", "same_sentence", "distance_sum", "texts_with_high", "focal_share_sum")},
        }
        if o.crosses:
            shapes = {name: shape for name, shape in shapes.items() if name not in OWN_TEXT} | {"attention_reached": (w, w)}
        self.arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.even_separators = 0.0  # attention on separators, sentence ends and commas if spread evenly
        trailing = {"repeated_hist": 1, "same_sentence_hist": 1, "repeated_same_sentence_hist": 1, "focal_hist": 1,
                    "distance": 1, "location": 2, "unique_focal": 1, "attention_sum": 2,
                    "attention_sum_no_columns": 2, "attention_sum_no_columns_no_diagonal": 2, "normalized_hist": 1,
                    "signal_hist": 1, "noise_hist": 1, "special_hist": 1, "signal_strata_hist": 2, "noise_strata_hist": 2,
                    "column_hist": 1, "focus": 1, "segmentation": 1,
                    "focal": 1}
        self.near = {name: np.zeros(shape[: len(shape) - trailing.get(name, 0)]) for name, shape in shapes.items()}

    def add(self, number, ids, special, attentions, similarities, keys=None):
        o, ids = self.options, np.asarray(ids)
        sentence_ids = analysis.sentences(ids, np.zeros(len(ids)), special, o.ends)
        pairs = Pairs(ids, sentence_ids, special)
        self.add_chance(len(ids), pairs)
        s = similarities[:, :, pairs.i, pairs.j]
        m = s.max(-1, keepdims=True)
        n = np.where(m > 0, s / np.where(m > 0, m, 1), 0)
        self.add_sums(number, pairs, s, n)
        self.add_elements(pairs, n.reshape(-1, len(pairs.i)))
        for t in range(len(o.thresholds)):
            self.add_high(t, number % o.n_parts, len(ids), pairs, n.reshape(-1, len(pairs.i)))
        self.arrays["sentences"] += sentence_ids[-1] + 1
        if keys:
            self.add_cross(keys, attentions)
            return
        self.add_attention(ids, special, sentence_ids, attentions)
        own = (sentence_ids[:, None] == sentence_ids) & ~np.logical_or.outer(special, special)
        self.arrays["even_same_sentence_sum"] += own.mean()
        self.add_profiles(ids, own, attentions)

    def add_cross(self, keys, attentions):
        """Attention from tokens of one text to those of another."""
        o, a, (ids, special) = self.options, self.arrays, keys
        n_tokens, n_keys = attentions.shape[2:]
        self.add_attention(ids, special, analysis.sentences(ids, np.zeros(n_keys), special, o.ends), attentions)
        a["attention_reached"][:n_tokens, :n_keys] += 1
        kinds = {"first": [o.cls], "separator": [o.sep], "punctuation": [*o.ends, o.comma]}
        for name, kind in kinds.items():
            a["profiles_" + name] += attentions[..., np.isin(ids, kind)].sum((2, 3)) / n_tokens
        entropies = -np.sum(attentions * np.log(np.where(attentions > 0, attentions, 1)), -1)
        a["profiles_entropy"] += entropies.mean(-1)
        a["profiles_entropy_first"] += entropies[..., 0]
        a["profiles_confidence"] += attentions.max(-1).mean(-1)

    def add_profiles(self, ids, own, attentions):
        """Sums over texts; means() divides them. own [T][T]: in one sentence, neither token special."""
        o = self.options
        kinds = [np.isin(ids, kind) for kind in ([o.cls], [o.sep], [*o.ends, o.comma])]
        for l, h in np.ndindex(attentions.shape[:2]):
            figures, _ = experiments.profile(attentions[l, h], ids, *kinds, own)
            for name in PROFILE:
                self.arrays["profiles_" + name][l, h] += figures[name]

    def means(self):
        """The arrays, profiles as means over the texts; an offset's over those that have such a neighbour."""
        reached = np.append(self.arrays["reached"], np.zeros(8))
        with np.errstate(invalid="ignore"):
            return {name: values / (reached[np.abs(np.arange(-8, 9))] if name == "profiles_offsets" else reached[0])
                    if name.startswith("profiles_") else values for name, values in self.arrays.items()}

    def add_chance(self, n_tokens, pairs):
        a = self.arrays
        a["texts"] += 1
        a["map_step"] = np.ones(())
        a["tokens"] += n_tokens
        a["reached"][:n_tokens] += 1
        a["all_pairs"] += len(pairs.i)
        a["all_ordinary"] += pairs.ordinary.sum()
        a["all_repeated"] += pairs.repeated.sum()
        a["all_same_sentence"] += pairs.same_sentence.sum()
        a["all_repeated_same_sentence"] += (pairs.repeated & pairs.same_sentence).sum()
        a["all_distance"] += np.bincount(pairs.distance, minlength=self.options.window)

    def add_sums(self, number, pairs, s, n):
        first = [("first_similarity", s)] if number == 0 else []
        for name, values in [("similarity_sum", s), ("normalized_sum", n), *first]:
            layer_sums = values.sum(1)
            self.arrays[name][:, pairs.i, pairs.j] += layer_sums
            self.arrays[name][:, pairs.j, pairs.i] += layer_sums

    def add_elements(self, pairs, n):
        a, shape = self.arrays, self.arrays["normalized_hist"].shape
        signal = pairs.ordinary & (pairs.repeated | pairs.same_sentence)
        noise = pairs.ordinary & ~signal
        index = np.where(n < 0, 0, 1 + bins(np.maximum(n, 0), N_BINS))
        for name, chosen in (("normalized_hist", slice(None)), ("signal_hist", signal), ("noise_hist", noise),
                             ("special_hist", ~pairs.ordinary)):
            a[name] += rows_bincount(index[:, chosen], 1 + N_BINS).reshape(shape)
            self.near[name] += 2 * near_edge(n[:, chosen], N_BINS).sum(1).reshape(shape[:2])
        for stratum in range(N_STRATA):
            here = np.minimum(np.ceil(np.log2(pairs.distance)), N_STRATA - 1) == stratum
            for name, chosen in (("signal_strata", signal & here), ("noise_strata", noise & here)):
                x = n[:, chosen]
                a[name + "_hist"][:, :, stratum] += rows_bincount(index[:, chosen], 1 + N_BINS).reshape(shape)
                a[name + "_sums"][:, :, stratum] += np.stack([x.sum(1), (x**2).sum(1)], -1).reshape(*shape[:2], 2)
                self.near[name + "_hist"] += 2 * near_edge(x, N_BINS).sum(1).reshape(shape[:2])
        for name, chosen in (("signal_moments", signal), ("noise_moments", noise)):
            x = n[:, chosen]
            moments = np.stack([np.full(len(x), x.shape[1]), x.sum(1), (x**2).sum(1)], -1)
            a[name] += moments.reshape(a[name].shape)

    def add_high(self, t, part, n_tokens, pairs, n):
        a, o = self.arrays, self.options
        tau = o.thresholds[t]
        e = (n >= tau).astype(float)  # [l h][pairs]
        grid = (o.n_layers, o.n_heads)
        near = (np.abs(n - tau) <= NEAR).sum(1).reshape(grid)
        both = pairs.repeated & pairs.same_sentence
        high, ordinary, repeated, same, repeated_same, distance_sum = (
            e @ kind for kind in (np.ones(len(pairs.i)), pairs.ordinary, pairs.repeated, pairs.same_sentence, both, pairs.distance))
        holding = e @ pairs.holds  # [l h][position]
        focal, focal_pairs = holding.argmax(1), holding.max(1)  # argmax: the first of equals
        some = high > 0
        cells = {"high": high, "high_ordinary": ordinary, "repeated": repeated, "same_sentence": same, "texts_with_high": some,
                 "repeated_same_sentence": repeated_same,
                 "focal_share_sum": np.where(some, focal_pairs / np.maximum(high, 1), 0)}
        for name, values in cells.items():
            a[name][t] += values.reshape(grid)
            self.near[name][t] += near
        for name in ("high", "high_ordinary", "repeated", "same_sentence", "texts_with_high", "focal_share_sum"):
            a["part_" + name][part, t] += cells[name].reshape(grid)
            self.near["part_" + name][part, t] += near
        a["part_distance_sum"][part, t] += distance_sum.reshape(grid)
        self.near["part_distance_sum"][part, t] += near * n_tokens

        for name, values, size in (("repeated_hist", repeated, high), ("same_sentence_hist", same, ordinary),
                                   ("repeated_same_sentence_hist", repeated_same, ordinary), ("focal_hist", focal_pairs, high)):
            flat = a[name][t].reshape(-1, SHARE_BINS)
            flat[np.flatnonzero(size), share_bins(values, size)[size > 0]] += 1
            self.near[name][t] += 2 * (near > 0)
        one_hot = pairs.distance[:, None] == np.arange(o.window)
        a["distance"][t] += (e @ one_hot).reshape(*grid, -1)
        self.near["distance"][t] += near
        if t == o.main:
            a["location"][:, :, pairs.i, pairs.j] += e.reshape(*grid, -1)
            self.near["location"] += near
        for l in range(o.n_layers):
            heads = slice(l * o.n_heads, (l + 1) * o.n_heads)
            a["unique_focal"][t, l, len(set(focal[heads][some[heads]]))] += 1
            self.near["unique_focal"][t, l] += 2 * (near[l] > 0).any()
            if t == o.main:
                np.add.at(a["focal"][l], pairs.ids[focal[heads][some[heads]]], 1)
                self.near["focal"][l] += 2 * (near[l] > 0).sum()

    def add_attention(self, ids, special, sentence_ids, attentions):
        a, o, n, n_rows = self.arrays, self.options, len(ids), attentions.shape[2]
        self.even_separators += n_rows * np.isin(ids, [o.sep, o.comma, *o.ends]).mean()
        columns = attentions.sum(2)  # [l][h][j]
        c = columns / columns.max(-1, keepdims=True)
        high = c >= o.tau_a
        near = np.abs(c - o.tau_a) <= NEAR
        a["attention_sum"][:, :, :n_rows, :n] += attentions
        others = np.where(high[:, :, None, :], 0, attentions)
        a["attention_sum_no_columns"][:, :, :n_rows, :n] += others
        moved = (columns * near).sum(-1)  # attention that a column near the threshold may carry across
        self.near["attention_sum_no_columns"] += moved
        if not o.crosses:
            a["attention_sum_no_columns_no_diagonal"][:, :, :n, :n] += others * (1 - np.eye(n))
            self.near["attention_sum_no_columns_no_diagonal"] += moved

        a["column_hist"] += rows_bincount(bins(c, N_BINS).reshape(-1, n), N_BINS).reshape(a["column_hist"].shape)
        self.near["column_hist"] += 2 * near_edge(c, N_BINS).sum(-1)
        for l in range(o.n_layers):
            np.add.at(a["focus"][l], ids, high[l].sum(0))
        self.near["focus"] += near.sum((1, 2))
        classes = [[o.cls], [o.sep], list(o.ends), [o.comma]]
        kinds = np.stack([np.isin(ids, kind) for kind in classes], -1).astype(float)
        kinds = np.concatenate([kinds, 1 - kinds.sum(-1, keepdims=True)], -1)
        a["attention_mass"] += columns @ kinds
        for l in range(o.n_layers):
            summed = columns[l].sum(0) / columns[l].sum(0).max()
            ends = analysis.segment_ends(analysis.high_tokens(summed, o.tau_a), special)
            cuts = sorted({0, n} | set(ends))
            a["segmentation"][l] += analysis.boundary_score(list(zip(cuts, cuts[1:])), sentence_ids, special)
            self.near["segmentation"][l] += 2 * (np.abs(summed - o.tau_a) <= NEAR).sum()
