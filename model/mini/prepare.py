"""Text for pretraining: learn an uncased WordPiece vocabulary, encode every article with it.

    python3 prepare.py DATA ARTICLES.jsonl.xz... [--vocab vocab.txt]

Reads files of one JSON list of paragraphs a line (xz or plain). Writes
    DATA/vocab.txt   8,192 pieces, learned by byte-pair merges over word counts (unless --vocab gives one)
    DATA/ids.npy     uint16, the tokens of all articles one after another, punctuation included
    DATA/ends.npy    int64, where each article ends
Needs NumPy (Debian: python3-numpy).
"""
import argparse
import collections
import heapq
import json
import lzma
import os
import re
import unicodedata

import numpy as np

SIZE = 8192
SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
UNK = SPECIAL.index('[UNK]')
WORD = re.compile(r'[^\W_]+|[^\w\s]|_')


def words(text):
    """Lower-cased words and single punctuation marks, accents dropped: what BERT's tokenizer splits into pieces."""
    text = unicodedata.normalize('NFD', text.lower())
    return WORD.findall(''.join(c for c in text if unicodedata.category(c) != 'Mn'))


def read_articles(paths):
    for path in paths:
        with (lzma.open if path.endswith('.xz') else open)(path, 'rt', encoding='utf-8') as lines:
            for line in lines:
                yield json.loads(line)


def learn_vocab(counts):
    """Merges the most frequent neighbouring pieces until there are SIZE of them."""
    chars = collections.Counter()
    for word, n in counts.items():
        for c in word:
            chars[c] += n
    alphabet = sorted(c for c, n in chars.most_common(180) if n > 400 or len(counts) < 50000)
    vocab = SPECIAL + alphabet + ['##' + c for c in alphabet if c.isalnum()]
    have = set(vocab)
    kept = [(w, n) for w, n in counts.most_common(120000) if n >= 5 and set(w) <= set(alphabet)]
    split = [[w[0]] + ['##' + c for c in w[1:]] for w, _ in kept]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, pieces in enumerate(split):
        for pair in zip(pieces, pieces[1:]):
            pairs[pair] += kept[i][1]
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    while len(vocab) < SIZE and heap:
        n, pair = heapq.heappop(heap)
        if pairs[pair] != -n:  # its count has changed since it was pushed
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        merged = pair[0] + pair[1][2:]
        if merged not in have:
            vocab.append(merged)
            have.add(merged)
        touched = set()
        for i in where.pop(pair):
            old, new, j = split[i], [], 0
            while j < len(old):
                step = 2 if tuple(old[j:j + 2]) == pair else 1
                new.append(merged if step == 2 else old[j])
                j += step
            for p in zip(old, old[1:]):
                pairs[p] -= kept[i][1]
            for p in zip(new, new[1:]):
                pairs[p] += kept[i][1]
                where[p].add(i)
                touched.add(p)
            split[i] = new
        for p in touched:
            if pairs[p] > 0:
                heapq.heappush(heap, (-pairs[p], p))
    return vocab


class Encoder:
    """Greedy longest match, each word looked up once."""

    def __init__(self, vocab):
        self.index = {piece: i for i, piece in enumerate(vocab)}
        self.known = {}

    def encode(self, word):
        if word not in self.known:
            self.known[word] = self._split(word)
        return self.known[word]

    def _split(self, word):
        ids, start = [], 0
        while start < len(word):
            prefix = '##' if start else ''
            end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in self.index), start)
            if end == start:
                return [UNK]
            ids.append(self.index[prefix + word[start:end]])
            start = end
        return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('data', help='folder to write to')
    parser.add_argument('articles', nargs='+')
    parser.add_argument('--vocab', help='use this vocabulary instead of learning one')
    args = parser.parse_args()
    os.makedirs(args.data, exist_ok=True)
    if args.vocab:
        with open(args.vocab, encoding='utf-8') as f:
            vocab = f.read().splitlines()
    else:
        counts = collections.Counter()
        for article in read_articles(args.articles):
            for paragraph in article:
                counts.update(words(paragraph))
        vocab = learn_vocab(counts)
    encoder, chunks = Encoder(vocab), []
    for article in read_articles(args.articles):
        chunks.append(np.array([i for p in article for w in words(p) for i in encoder.encode(w)], np.uint16))
    with open(f'{args.data}/vocab.txt', 'w', encoding='utf-8') as f:
        f.write('\n'.join(vocab) + '\n')
    np.save(f'{args.data}/ids.npy', np.concatenate(chunks))
    np.save(f'{args.data}/ends.npy', np.cumsum([len(c) for c in chunks]))
    print(f'{len(vocab)} pieces, {len(chunks)} articles, {sum(map(len, chunks)) / 1e6:.1f} M tokens')


if __name__ == '__main__':
    main()
