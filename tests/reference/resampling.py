"""Random numbers, blocks and intervals of docs/reference/formulas.md section 2, in float64.

    times, run = drawn(n)                     how often each of n blocks is in each draw
    low, high = interval(draws, n, run)       draws[0] is the figure of all blocks
    p = p_value(draws, null, n, run)
"""

from functools import lru_cache
from statistics import NormalDist

import numpy as np

DRAWS, BLOCKS = 200, 128
WHOLE, STEP = (1 << 64) - 1, 0x9e3779b97f4a7c15

# ---- splitmix64 ----


def mix(x):
    """The last steps, s in formulas.md."""
    x &= WHOLE
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & WHOLE
    x = (x ^ x >> 27) * 0x94d049bb133111eb & WHOLE
    return x ^ x >> 31


def numbers(state, n):
    """The first n numbers after a state."""
    x = np.uint64(state) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(STEP)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
    return x ^ x >> np.uint64(31)


def pairs_at_random(number, head, size, n):
    """n different pairs i < j of a text of so many tokens: i and j."""
    i, j = np.triu_indices(size, 1)
    n_drawn = len(i) - n if n > len(i) / 2 else n
    x = numbers(mix(mix(number + STEP) + (head + 1) * STEP), 4 * n_drawn + 100)
    one, other = ((part * np.uint64(size) >> np.uint64(32)).astype(int)
                  for part in (x >> np.uint64(32), x & np.uint64(0xffffffff)))
    keys = (np.minimum(one, other) * size + np.maximum(one, other))[one != other]
    first = np.sort(np.unique(keys, return_index=True)[1])[:n_drawn]
    assert len(first) == n_drawn
    is_drawn = np.isin(i * size + j, keys[first])
    chosen = ~is_drawn if n_drawn < n else is_drawn
    return i[chosen], j[chosen]


def gaussian_outputs(number, n_tokens, width):
    """Standard normal numbers [n_tokens][width]."""
    n = n_tokens * width
    u, w = ((numbers(mix(number ^ 0x6a09e667f3bcc909), n + n % 2) >> np.uint64(11)) * 2.0**-53).reshape(-1, 2).T
    length, angle = np.sqrt(-2 * np.log1p(-u)), 2 * np.pi * w
    return np.stack([length * np.cos(angle), length * np.sin(angle)], -1).ravel()[:n].reshape(n_tokens, width)


# ---- blocks ----


def blocks_of(text_numbers):
    """The block of each text."""
    shift = 0
    while max(text_numbers) >> shift >= BLOCKS:
        shift += 1
    return np.asarray(text_numbers) >> shift


def drawn(n):
    """Returns [1 + DRAWS][n]: how often each of n blocks is in each draw; and how many neighbours are drawn together."""
    times, run = np.zeros((DRAWS + 1, n), int), round(n ** (1 / 3))
    times[0] = 1
    for k in range(1, DRAWS + 1):
        for i in range(n):
            start = int((mix((k * BLOCKS + i // run) * STEP) >> 11) * 2.0**-53 * n)
            times[k, (start + i % run) % n] += 1
    return times, run


def wider(n, run):
    return np.sqrt(n / (n - run))


def freedom(n, run):
    return 1.5 * n / run - 1


def student_above(t, freedom):
    """The chance of a number above t >= 0 by Student's distribution: t is √freedom times the tangent of an angle."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    begin = np.arctan(np.asarray(t) / np.sqrt(freedom))[..., None]

    def area(low):
        half = (np.pi / 2 - low) / 2
        return (half * weights * np.cos(low + half * (1 + nodes)) ** (freedom - 1)).sum(-1)

    return area(begin) / 2 / area(np.zeros(1))


@lru_cache
def student_975(freedom):
    """The 97.5 % point, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_above(middle, freedom) > 0.025 else (low, middle)
    return low


def interval(draws, n, run):
    known = draws[1:][np.isfinite(draws[1:])]
    if n < 8 or not np.isfinite(draws[0]) or 2 * len(known) <= DRAWS:
        return np.nan, np.nan
    low, high = np.quantile(known, [0.025, 0.975], method="weibull")
    factor = wider(n, run) * student_975(freedom(n, run)) / NormalDist().inv_cdf(0.975)
    return draws[0] - factor * (draws[0] - low), draws[0] + factor * (high - draws[0])


def p_value(draws, null, n, run):
    error = draws[1:].std(0, ddof=1) * wider(n, run)
    return 2 * student_above(abs(draws[0] - null) / error, freedom(n, run))


def adjusted(p):
    """Benjamini and Hochberg (1995)."""
    order, due = np.argsort(p), np.empty(len(p))
    due[order] = np.minimum.accumulate((p[order] * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1]
    return np.minimum(due, 1)
