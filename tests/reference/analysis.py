"""docs/reference/formulas.md section 1 in float64: the analysis of one text's maps.

S is [T][T] with diagonal 0, A is [T][T] with rows that sum to 1, `keep` is [T] of bool (False: masked).
"""

from dataclasses import dataclass

import numpy as np

# ---- the text ----


def sentences(ids, types, special, ends):
    """Sentence number of each token."""
    numbers, number, ended, text_over = [], 0, False, False
    for i, token in enumerate(ids):
        is_end = not special[i] and token in ends
        if text_over or (ended and not is_end and not special[i]):
            number, ended = number + 1, False
        numbers.append(number)
        ended = ended or is_end
        text_over = bool(special[i]) and i + 1 < len(ids) and types[i + 1] != types[i]
    return np.array(numbers)


# ---- similarity ----


def similarity(outputs):
    """O O' of [..., T, d] with diagonal 0."""
    s = outputs @ np.swapaxes(outputs, -1, -2)
    return s * (1 - np.eye(s.shape[-1]))


def pair_grid(keep):
    """True where i < j and both are kept."""
    return np.triu(np.outer(keep, keep), 1)


def normalized(s, keep):
    grid = pair_grid(keep)
    m = s[grid].max() if grid.any() else -np.inf
    if not m > 0:
        return np.zeros_like(s), m
    n = np.where(np.outer(keep, keep), s / m, 0)
    np.fill_diagonal(n, 0)
    return n, m


def high_elements(n, keep, tau):
    return pair_grid(keep) & (n >= tau)


# ---- attention ----


def profile(a, keep):
    c = np.where(keep, a[keep].sum(0), 0)
    return c / c.max() if c.max() > 0 else c


def high_tokens(c, tau):
    return np.flatnonzero(c >= tau)


def runs(high, n_tokens):
    """Half-open ranges; each token of H is one of its own."""
    cuts = sorted({0, n_tokens} | set(high) | {j + 1 for j in high})
    return list(zip(cuts, cuts[1:]))


def region_means(s, keep, cells):
    off_diagonal = np.outer(keep, keep) & ~np.eye(len(s), dtype=bool)
    means = np.zeros((len(cells), len(cells)))
    for a, (a0, a1) in enumerate(cells):
        for b, (b0, b1) in enumerate(cells):
            chosen = off_diagonal[a0:a1, b0:b1]
            means[a, b] = s[a0:a1, b0:b1][chosen].mean() if chosen.any() else 0
    return means


# ---- segments ----


def segment_ends(high, special):
    """The ends of segments: after each token of H that is not special and not directly followed by another."""
    high = set(high)
    return [j + 1 for j in high if not special[j] and j + 1 not in high]


def segments(attentions, similarities, special, keep, tau):
    """[(start, end, cohesion, contrast)] of one layer; maps are [h][T][T]."""
    n_tokens = len(special)
    high = high_tokens(profile(attentions.sum(0), keep), tau)
    cuts = sorted({0, n_tokens} | set(segment_ends(high, special)))
    mean_n = np.mean([normalized(s, keep)[0] for s in similarities], axis=0)
    pairs = np.outer(keep, keep) & ~np.eye(n_tokens, dtype=bool)
    found = []
    for start, end in zip(cuts, cuts[1:]):
        inside = np.zeros(n_tokens, bool)
        inside[start:end] = True
        within, across = pairs & np.outer(inside, inside), pairs & np.outer(inside, ~inside)
        found.append((start, end, *(mean_n[p].mean() if p.any() else np.nan for p in (within, across))))
    return found


def boundary_score(found, sentence_ids, special):
    """(true positives, predicted, actual) between neighbouring tokens that are not special."""
    words = np.flatnonzero(~np.asarray(special, bool))
    number = np.zeros(len(special), int)
    for k, (start, end, *_) in enumerate(found):
        number[start:end] = k
    predicted, actual = np.diff(number[words]) != 0, np.diff(sentence_ids[words]) != 0
    return int((predicted & actual).sum()), int(predicted.sum()), int(actual.sum())


# ---- one head in figures ----


@dataclass
class Text:
    ids: np.ndarray
    sentence_ids: np.ndarray
    separators: np.ndarray  # bool: [CLS], [SEP] or a sentence end
    special: np.ndarray  # bool
    keep: np.ndarray


def focal(ids, high):
    """(position of the focal id's first occurrence, pairs of E that hold it)."""
    best, most = -1, 0
    for position, token in enumerate(ids):
        if token in ids[:position]:
            continue
        holds = ids == token
        count = int((high & (holds[:, None] | holds[None, :])).sum())
        if count > most:
            best, most = position, count
    return best, most


def dprime(n, m, grid, signal):
    x, y = n[grid & signal], n[grid & ~signal]
    spread = np.sqrt((x.var() + y.var()) / 2) if len(x) and len(y) and m > 0 else 0
    return (x.mean() - y.mean()) / spread if spread > 0 else np.nan


def summary(a, s, text, high):
    """high: E as a grid, of high_elements."""
    keep, ids = text.keep, text.ids
    n, m = normalized(s, keep)
    grid = pair_grid(keep)
    repeated = ids[:, None] == ids[None, :]
    ordinary = ~np.logical_or.outer(text.special, text.special)  # special tokens are in no sentence
    same_sentence = ordinary & (text.sentence_ids[:, None] == text.sentence_ids[None, :])
    i, j = np.nonzero(high)
    size = len(i)
    position, holding = focal(ids, high)
    share = (lambda count: count / size) if size else (lambda count: np.nan)
    n_ordinary = (high & ordinary).sum()
    share_ordinary = (lambda count: count / n_ordinary) if n_ordinary else (lambda count: np.nan)
    kept = a[np.ix_(keep, keep)]
    p = kept if keep.all() else kept / kept.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(p > 0, -p * np.log(p), 0)
    return dict(
        max_similarity=m if grid.any() else np.nan,
        high_pairs=size,
        repeated_share=share((high & repeated).sum()),
        same_sentence_share=share_ordinary((high & same_sentence).sum()),
        repeated_same_sentence_share=share_ordinary((high & repeated & same_sentence).sum()),
        mean_distance=share((j - i).sum()),
        focal_token=position,
        focal_share=share(holding),
        attention_entropy=information.sum(1).mean() if len(p) else np.nan,
        separator_attention=kept[:, text.separators[keep]].sum() / kept.sum() if len(p) else np.nan,
        snr_dprime=dprime(n, m, grid & ordinary, repeated | same_sentence),
    )
