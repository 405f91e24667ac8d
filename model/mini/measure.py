"""Held-out loss and masked-token accuracy of a checkpoint: python3 measure.py CHECKPOINT DATA

DATA is a folder of prepare.py, made with the checkpoint's own vocabulary; its last articles are the held-out ones.
"""
import sys

import torch

from bert import load
from pretrain import Data, evaluate

if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model, data = load(sys.argv[1]), Data(sys.argv[2], 'cpu')
    torch.manual_seed(0)
    for T in (128, 512):
        loss, accuracy = evaluate(model, data, T)
        print(f'{T} tokens: masked-token loss {loss:.2f}, accuracy {100 * accuracy:.1f} % (96 windows, 15 % masked)')
