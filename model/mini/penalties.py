"""The penalties of the recipe, beside the loss: small attention logits, and heads that differ.

Heads of a small BERT write nearly the same to all tokens, so their similarity O O^T is large everywhere. output_spread
and head_overlap let each head write to some tokens, and to others than the layer's other heads. separator_lack lets
attention rest on separators, as in a large BERT. Each has a limit beyond which there is nothing to gain: there outputs
and maps would depend on the last bits of float32.
"""
import math

import torch

TEXT, COMMA, END, SEP_END, FIRST = range(5)     # kinds of tokens; FIRST is [CLS]
SPREAD_LEAST, SPREAD_MOST = 0.5, 0.75           # of output_spread
NORM_MOST = 3.0                                 # of one head's output at a token
OVERLAP_MOST = 0.3                              # mean cosine
RESTING_LEAST, RESTING_MOST, ELSEWHERE = 0.5, 0.75, 0.25


def kinds_of(vocab):
    """The kind of each word piece [len(vocab)]."""
    named = {'[CLS]': FIRST, '[SEP]': SEP_END, ',': COMMA, '.': END, '!': END, '?': END}
    return torch.tensor([named.get(piece, TEXT) for piece in vocab])


def separator_weights(kinds):
    """The weight of attention to each key for each query [B][T][T]: 1 at separators of the query's sentence and at the
    end of the one before, ELSEWHERE at others, 0 at the rest."""
    ends = (kinds == END) | (kinds == SEP_END)
    ended = ends.long().cumsum(1) - ends.long()                             # sentences before each token
    behind = ended[:, :, None] - ended[:, None, :]
    own = (behind == 0) | ((behind == 1) & ends[:, None, :])
    return (ends | (kinds == COMMA))[:, None, :] * torch.where(own, 1.0, ELSEWHERE)


def logit_size(logits):
    """Half the mean, over texts, heads and queries, of sum_j s_ij^2 (1 / T + p_ij), s the attention logits and p their
    softmax held constant. The second term weighs the logits that attention uses, among them those of sinks."""
    weights = torch.softmax(logits.detach(), -1) + 1 / logits.shape[-1]
    return 0.5 * (logits.square() * weights).sum(-1).mean()


def separator_lack(logits, weights):
    """By how much queries miss the range from RESTING_LEAST to RESTING_MOST; the mean over texts, heads and queries.

    weights [B][T][T] are separator_weights. The lower limit is for attention so weighed, the upper one for all that
    separators get."""
    p, weights = torch.softmax(logits, -1), weights.unsqueeze(1)
    lack = RESTING_LEAST - (p * weights).sum(-1)
    excess = (p * (weights > 0)).sum(-1) - RESTING_MOST
    return (lack.clamp(min=0) + excess.clamp(min=0)).mean()


def output_spread(squares, text):
    """The distance of heads from writing to some tokens only: the mean, over texts and heads, of three parts.

    squares [B][heads][T] are the squared norms of the heads' outputs, text [B][T] is true at neither [CLS] nor [SEP].
    The first part is how far A / (B sqrt(n)) is outside SPREAD_LEAST to SPREAD_MOST. A is the sum of the norms at the n
    tokens of the text and B^2 the sum of their squares. A / (B sqrt(n)) is 1 if all tokens get as much, and
    1 / sqrt(n) if one gets all (Hoyer 2004, arXiv cs/0408058). The second part is C / (B^2 + C), C the sum of the
    squares at [CLS] and [SEP]. The third is half the mean square of what norms are above NORM_MOST: large outputs
    of heads for repeated tokens amplify rounding."""
    text = text.unsqueeze(1)
    of_text, of_special = (squares * text).sum(-1), (squares * ~text).sum(-1)
    spread = (squares.sqrt() * text).sum(-1) / (of_text * text.sum(-1)).sqrt()
    outside = (spread - SPREAD_MOST).clamp(min=0) + (SPREAD_LEAST - spread).clamp(min=0)
    excess = 0.5 * (squares.sqrt() - NORM_MOST).clamp(min=0).square().mean(-1)
    return (outside + of_special / (of_text + of_special) + excess).mean()


def head_overlap(squares, text):
    """The mean cosine between the norms of two heads' outputs over the text, at least OVERLAP_MOST; the mean over texts.
    It is the disagreement of Li et al. 2018 (arXiv 1810.10183), of norms only."""
    norms = squares.sqrt() * text.unsqueeze(1)
    profiles = norms / norms.square().sum(-1, keepdim=True).sqrt()
    heads = squares.shape[1]
    cosines = (profiles.sum(1).square().sum(-1) - heads) / max(1, heads * (heads - 1))  # one head overlaps with none
    return cosines.clamp(min=OVERLAP_MOST).mean()


def measure(q, k, o, kinds, weights):
    """The penalties [4] of a layer: logit_size, output_spread, head_overlap and separator_lack. q, k, o are
    [B][heads][T][head width], `kinds` [B][T] those of the tokens, `weights` their separator_weights. The last penalty is
    0 without these, in layers whose attention need not rest."""
    logits = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    squares = o.float().square().sum(-1) + 1e-4
    text = (kinds != FIRST) & (kinds != SEP_END)
    size = logit_size(logits)
    lack = torch.zeros_like(size) if weights is None else separator_lack(logits, weights)
    return torch.stack([size, output_spread(squares, text), head_overlap(squares, text), lack])
