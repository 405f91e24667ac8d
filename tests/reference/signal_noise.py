"""The signal-to-noise ratio of docs/reference/formulas.md section 2 in float64, by least squares over all pairs.

    s = SignalNoise(n_layers, n_heads)
    s.add(number, ids, special, sentence_ids, similarities)     [l][h][T][T]
    s.ratio(), s.ratio(model=1), s.halves(), s.term(9)          [l][h]

Model 0 is the text's own, models 1 to 3 are the nulls.
"""
import numpy as np

BASE, TERMS, MODELS = 9, 12, 4
WHOLE, STEP = (1 << 64) - 1, 0x9e3779b97f4a7c15


def splitmix64(state):
    while True:
        state = state + STEP & WHOLE
        x = state
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & WHOLE
        x = (x ^ x >> 27) * 0x94d049bb133111eb & WHOLE
        yield x ^ x >> 31


def elsewhere(number, model, ids, sentences):
    """The ids in another order, and sentences as runs that begin at another place; of tokens that are not special."""
    numbers = splitmix64(number * MODELS + model)
    x, ids, n = next(numbers), list(ids), len(ids)
    for k in range(n, 1, -1):
        at = next(numbers) % k
        ids[at], ids[k - 1] = ids[k - 1], ids[at]
    moved = np.roll(sentences, -(1 + x % (n - 1)))
    return np.array(ids), np.concatenate([[0], np.cumsum(moved[1:] != moved[:-1])])


class SignalNoise:
    def __init__(self, n_layers, n_heads):
        self.xx = np.zeros((MODELS, 2, TERMS, TERMS))
        self.xy = np.zeros((MODELS, 2, n_layers, n_heads, TERMS))
        self.yy = np.zeros((2, n_layers, n_heads))

    def add(self, number, ids, special, sentence_ids, similarities):
        kept = np.flatnonzero(~np.asarray(special, bool))
        if len(kept) < 3:
            return
        i, j = np.triu_indices(len(kept), 1)
        a, b, total, half = kept[i], kept[j], len(ids), number % 2
        d = (b - a).astype(float)
        base = [np.ones_like(d), np.log(d), *(d == k for k in (1, 2, 3, 4)), 1 / (1 + d / 8), a / total, b / total]
        s = similarities[:, :, a, b].astype(float)
        spread = s.std(-1, keepdims=True)
        flat = spread**2 <= 1e-12 * s.mean(-1, keepdims=True) ** 2
        y = np.where(flat, 0, (s - s.mean(-1, keepdims=True)) / np.where(flat, 1, spread))
        self.yy[half] += np.where(flat[..., 0], 0, len(i))
        ids, sentences = np.asarray(ids)[kept], np.asarray(sentence_ids)[kept]
        for model in range(MODELS):
            seen = sentences
            if model:
                ids, seen = elsewhere(number, model, ids, sentences)
            token, sentence = ids[i] == ids[j], seen[i] == seen[j]
            x = np.stack([*base, token, sentence, token & sentence], -1).astype(float)
            self.xx[model, half] += x.T @ x
            self.xy[model, half] += y @ x

    def errors(self, model, p, columns):
        """Squared errors in half p of the fit of some terms to the other half."""
        xx, xy = self.xx[model][:, columns][:, :, columns], self.xy[model][..., columns]
        fitted = np.linalg.lstsq(xx[1 - p], xy[1 - p].reshape(-1, len(columns)).T, rcond=1e-12)[0].T.reshape(xy[p].shape)
        squares = np.einsum("lha,ab,lhb->lh", fitted, xx[p], fitted)
        return self.yy[p] - 2 * (fitted * xy[p]).sum(-1) + squares

    def halves(self, model=0, without=range(BASE, TERMS)):
        """(gain, rest) of each half, predicted by the fit to the other one: [half][l][h]. The gain is that over the model without some terms."""
        rest = np.stack([self.errors(model, p, list(range(TERMS))) for p in range(2)])
        less = np.stack([self.errors(model, p, [k for k in range(TERMS) if k not in without]) for p in range(2)])
        return less - rest, rest

    def ratio(self, model=0, without=range(BASE, TERMS)):
        gain, rest = self.halves(model, without)
        return gain.sum(0) / rest.sum(0)

    def term(self, k):
        """The ratio of term k, added last."""
        return self.ratio(without=[k])
