"""The model of the recipe: a BERT with its masked-language-model head, and its checkpoint in HuggingFace layout."""
import json
import math
import os
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-12  # of every layer norm, as in BERT


def attention(q, k, v):                                                     # [B][heads][T][H / heads] each
    if q.device.type == 'cpu' and q.dtype != torch.float:
        # There PyTorch 2.15 takes five times as long for the gradient of attention in bfloat16 as in float32.
        with torch.autocast('cpu', enabled=False):
            return attention(q.float(), k.float(), v.float())
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v)
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v      # PyTorch before 2.0


class Layer(nn.Module):
    def __init__(self, hidden, ffn, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention_out = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=EPS)
        self.ffn_in = nn.Linear(hidden, ffn)
        self.ffn_out = nn.Linear(ffn, hidden)
        self.ffn_norm = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, x):                                                   # [B][T][H]
        B, T, H = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, H // self.heads).permute(2, 0, 3, 1, 4)
        o = attention(q, k, v)
        x = self.attention_norm(x + self.attention_out(o.transpose(1, 2).reshape(B, T, H)))
        return self.ffn_norm(x + self.ffn_out(F.gelu(self.ffn_in(x))))


class Bert(nn.Module):
    """Position embeddings start as sinusoids of a word embedding's size; fixed, they are good at every position
    even where training never went."""

    def __init__(self, layers, heads=12, hidden=192, ffn=768, vocab=8192, positions=512, learn_positions=False):
        super().__init__()
        self.config = dict(layers=layers, heads=heads, hidden=hidden, ffn=ffn, vocab=vocab, positions=positions)
        self.word = nn.Embedding(vocab, hidden)
        self.position = nn.Parameter(sinusoids(positions, hidden), requires_grad=learn_positions)
        self.token_type = nn.Parameter(torch.zeros(2, hidden))
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.layers = nn.ModuleList([Layer(hidden, ffn, heads) for _ in range(layers)])
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, eps=EPS)
        self.bias = nn.Parameter(torch.zeros(vocab))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0, 0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids, types, selected, first_position=0):
        """Logits [len(selected)][vocab] of the tokens at `selected`, indices into the flattened ids [B][T]."""
        x = self.word(ids) + self.position[first_position:first_position + ids.shape[1]] + self.token_type[types]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        x = x.reshape(-1, x.shape[-1])[selected]
        x = F.gelu(self.transform(x)).float()  # PyTorch 1.13's layer norm takes one type only
        return F.linear(self.transform_norm(x), self.word.weight, self.bias)

    def stacked(self, layers):
        """A deeper model that starts as this one with its layers repeated."""
        deeper = Bert(**dict(self.config, layers=layers), learn_positions=self.position.requires_grad)
        state = {k: v for k, v in self.state_dict().items() if not k.startswith('layers.')}
        for i in range(layers):
            for k, v in self.layers[i % len(self.layers)].state_dict().items():
                state[f'layers.{i}.{k}'] = v
        deeper.load_state_dict(state)
        return deeper


def sinusoids(positions, hidden):
    angle = torch.arange(positions)[:, None] * torch.exp(-math.log(1e4) * torch.arange(0, hidden, 2) / hidden)
    table = torch.zeros(positions, hidden)
    table[:, 0::2], table[:, 1::2] = torch.sin(angle), torch.cos(angle)
    return 0.05 * table


def names(layers, hidden):
    """(HuggingFace name, name here, rows) of every tensor; rows picks query, key or value out of qkv."""
    yield 'bert.embeddings.word_embeddings.weight', 'word.weight', None
    yield 'bert.embeddings.position_embeddings.weight', 'position', None
    yield 'bert.embeddings.token_type_embeddings.weight', 'token_type', None
    modules = [('bert.embeddings.LayerNorm', 'norm', None)]
    for i in range(layers):
        theirs, ours = f'bert.encoder.layer.{i}.', f'layers.{i}.'
        for n, name in enumerate(('query', 'key', 'value')):
            modules.append((theirs + 'attention.self.' + name, ours + 'qkv', slice(n * hidden, (n + 1) * hidden)))
        modules += [(theirs + 'attention.output.dense', ours + 'attention_out', None),
                    (theirs + 'attention.output.LayerNorm', ours + 'attention_norm', None),
                    (theirs + 'intermediate.dense', ours + 'ffn_in', None),
                    (theirs + 'output.dense', ours + 'ffn_out', None),
                    (theirs + 'output.LayerNorm', ours + 'ffn_norm', None)]
    modules += [('cls.predictions.transform.dense', 'transform', None),
                ('cls.predictions.transform.LayerNorm', 'transform_norm', None)]
    for theirs, ours, rows in modules:
        for part in ('weight', 'bias'):
            yield f'{theirs}.{part}', f'{ours}.{part}', rows
    yield 'cls.predictions.bias', 'bias', None


def export(model, vocab, folder):
    """Writes config.json, model.safetensors (float16), tokenizer_config.json and vocab.txt."""
    os.makedirs(folder, exist_ok=True)
    c, state = model.config, model.state_dict()
    header, blobs, at = {'__metadata__': {'format': 'pt'}}, [], 0
    for theirs, ours, rows in names(c['layers'], c['hidden']):
        tensor = state[ours][rows] if rows else state[ours]
        blobs.append(tensor.detach().float().cpu().numpy().astype('<f2').tobytes())
        header[theirs] = {'dtype': 'F16', 'shape': list(tensor.shape), 'data_offsets': [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    write(folder, 'model.safetensors', struct.pack('<Q', len(text)) + text + b''.join(blobs))
    write(folder, 'config.json', json.dumps({
        'architectures': ['BertForMaskedLM'], 'model_type': 'bert', 'hidden_size': c['hidden'],
        'num_hidden_layers': c['layers'], 'num_attention_heads': c['heads'], 'intermediate_size': c['ffn'],
        'hidden_act': 'gelu', 'layer_norm_eps': EPS, 'max_position_embeddings': c['positions'],
        'type_vocab_size': 2, 'vocab_size': c['vocab'], 'pad_token_id': 0,
        'position_embedding_type': 'absolute', 'torch_dtype': 'float16'}, indent=2).encode())
    write(folder, 'tokenizer_config.json', json.dumps({
        'do_lower_case': True, 'strip_accents': None, 'tokenize_chinese_chars': True,
        'model_max_length': c['positions'], 'tokenizer_class': 'BertTokenizer', 'cls_token': '[CLS]',
        'sep_token': '[SEP]', 'pad_token': '[PAD]', 'unk_token': '[UNK]', 'mask_token': '[MASK]'},
        indent=2).encode())
    write(folder, 'vocab.txt', ('\n'.join(vocab) + '\n').encode())


def write(folder, name, data):
    """Whole or not at all: a checkpoint half written is worse than an old one."""
    path = os.path.join(folder, name)
    with open(path + '.part', 'wb') as f:
        f.write(data)
    os.replace(path + '.part', path)


def load(folder):
    """The model of an exported checkpoint."""
    with open(f'{folder}/config.json') as f:
        c = json.load(f)
    model = Bert(c['num_hidden_layers'], c['num_attention_heads'], c['hidden_size'], c['intermediate_size'],
                 c['vocab_size'], c['max_position_embeddings'])
    with open(f'{folder}/model.safetensors', 'rb') as f:
        data = f.read()
    size = struct.unpack('<Q', data[:8])[0]
    header, state = json.loads(data[8:8 + size]), model.state_dict()
    for theirs, ours, rows in names(c['num_hidden_layers'], c['hidden_size']):
        entry = header[theirs]
        first, last = (8 + size + o for o in entry['data_offsets'])
        array = np.frombuffer(data[first:last], '<f2').reshape(entry['shape']).astype(np.float32)
        (state[ours][rows] if rows else state[ours]).copy_(torch.from_numpy(array))
    model.load_state_dict(state)
    return model
