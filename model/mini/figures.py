"""The paper's figures of a corpus run, one table row per layer: python3 figures.py DIR

DIR is what `headscope corpus TEXTS -o DIR` wrote.
"""
import sys

import numpy as np

if len(sys.argv) != 2:
    sys.exit(__doc__)
z = np.load(f'{sys.argv[1]}/report.npz')
t = int(np.argmin(abs(z['thresholds'] - 0.3)))
distances = np.arange(z['distance'].shape[-1])


def mean_distance(histogram):
    return (histogram * distances).sum() / histogram.sum()


pairs = z['all_pairs']
print(f'{z["texts"]} texts, {z["tokens"]} tokens; chance: repeated {100 * z["all_repeated"] / pairs:.1f} %, same sentence '
      f'{100 * z["all_same_sentence"] / pairs:.1f} %, mean distance {mean_distance(z["all_distance"]):.1f}\n')
print('| layer | attention on [CLS] | [SEP] | sentence ends | commas | repeated tokens, least and most of the heads '
      '| same sentence | mean distance | unique focal tokens |')
print('|---|---|---|---|---|---|---|---|---|')
for l, layer in enumerate(z['layers']):
    mass = z['attention_mass'][l].sum(0) / z['attention_mass'][l].sum()
    repeated = z['repeated'][t, l] / z['high'][t, l]
    focal = z['unique_focal'][t, l]
    print(f'| {layer} | ' + ' | '.join(f'{100 * share:.1f} %' for share in mass[:4]) +
          f' | {100 * repeated.min():.1f} to {100 * repeated.max():.1f} %'
          f' | {100 * z["same_sentence"][t, l].sum() / z["high"][t, l].sum():.1f} %'
          f' | {mean_distance(z["distance"][t, l].sum(0)):.1f}'
          f' | {(focal * np.arange(len(focal))).sum() / focal.sum():.1f} of {len(focal) - 1} |')
