"""Pretrain a small BERT by masked-language modelling, on a GPU in full or on a CPU.

    python3 prepare.py DATA ARTICLES...                                         # once
    python3 pretrain.py DATA OUT --device cuda --batch-tokens 262144            # 25 minutes on a large GPU
    python3 pretrain.py DATA OUT --hidden 144 --ffn 576 --batch-tokens 4096 \\
            --plan 3:32:15,3:128:5,6:128:14,12:128:42                            # the mini of two CPU cores
    python3 pretrain.py DATA OUT --hidden 48 --ffn 96 --batch-tokens 512 --unit steps --plan 2:32:300,4:64:300   # try
    python3 pretrain.py DATA OUT --from CHECKPOINT --hidden 144 --ffn 576 --plan 12:128:70,12:512:8      # go on

A plan lists stages LAYERS:SEQUENCE:LENGTH, in minutes or steps; a stage with more layers starts from the last one's, repeated.
The first starts from random weights or from those of an exported checkpoint of its shape and depth, whose vocabulary
the data must have. --bf16 pays on a CPU that multiplies bfloat16 by itself (AVX512_BF16, in /proc/cpuinfo).
The learning rate warms up once and falls linearly to zero at the end of the last stage. OUT holds a complete
checkpoint in HuggingFace layout from the first minutes on, and state.pt, from which the same command goes on
where it stopped. On several CPU cores one process a core is fastest: --processes 2 starts them. (They find each other
by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which may be set by hand instead, on several machines; Debian 12's
PyTorch cannot do it with torch.distributed.run.)

Needs NumPy and PyTorch (Debian: python3-numpy, python3-torch).
"""
import argparse
import os
import socket
import subprocess
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

from network import Bert, export, load

CLS, SEP, MASK, FIRST_PIECE = 2, 3, 4, 5
HELD_OUT = 200  # articles at the end, never trained on


class Data:
    """The token file on the device, and windows of it between [CLS] and [SEP]."""

    def __init__(self, folder, device):
        self.ids = torch.from_numpy(np.load(f'{folder}/ids.npy').astype(np.int16)).to(device)
        self.starts = torch.from_numpy(np.load(f'{folder}/starts.npy')).to(device)
        ends = np.load(f'{folder}/ends.npy')
        held_out = min(HELD_OUT, max(1, len(ends) // 10))
        self.split = int(ends[-held_out - 1])
        with open(f'{folder}/vocab.txt', encoding='utf-8') as f:
            self.vocab = f.read().splitlines()

    def sentence_starts(self, at):
        """The first place at or after each of `at` where a sentence begins."""
        index = torch.searchsorted(self.starts, at).clamp(max=len(self.starts) - 1)
        return self.starts[index]

    def segments(self, start, T, low, high, generator):
        """Mixed windows: where their first segment begins and how long it is, and where the second begins. Half of
        them begin with a sentence, a third have a second segment, half of these what follows the first."""
        n, device = len(start), start.device
        dice = torch.rand(4, n, generator=generator, device=device)
        limit = high - T
        start = torch.where(dice[0] < 0.5, self.sentence_starts(start).clamp(max=limit), start)
        about = start + (T * (0.25 + 0.5 * dice[1])).long()
        length = (self.sentence_starts(about) - start).clamp(T // 4, 3 * T // 4)
        elsewhere = low + (torch.rand(n, generator=generator, device=device) * (limit - low)).long()
        second = torch.where(dice[2] < 0.5, start + length, self.sentence_starts(elsewhere).clamp(max=limit))
        return start, torch.where(dice[3] < 1 / 3, length, torch.full_like(length, T - 2)), second

    def windows(self, n, T, generator, plain, held_out):
        """ids [n][T], token types [n][T], and which ids are special. Plain: one segment, from anywhere."""
        device = self.ids.device
        low, high = (self.split, len(self.ids)) if held_out else (0, self.split)
        start = torch.randint(low, high - T, (n,), generator=generator, device=device)
        length, second = torch.full_like(start, T - 2), start
        if not plain:
            start, length, second = self.segments(start, T, low, high, generator)
        at, cut = torch.arange(T, device=device), length[:, None] + 1
        place = torch.where(at < cut, start[:, None] + at - 1, second[:, None] + at - cut - 1)
        ids = self.ids[place.clamp(0, len(self.ids) - 1)].long() & 0xffff
        ids[:, 0] = CLS
        special = (at == 0) | (at == cut) | (at == T - 1)
        return torch.where(special & (at > 0), SEP, ids), (at > cut).long(), special

    def batch(self, n, T, generator, mask_share, plain=False, held_out=False):
        """ids [n][T] with some replaced (80 % [MASK], 10 % any piece, 10 % kept), types, where, and what they were."""
        device = self.ids.device
        ids, types, special = self.windows(n, T, generator, plain, held_out)
        # The same number in every row: shapes stay fixed, which compiled code wants.
        order = torch.rand(n, T, generator=generator, device=device).masked_fill(special, -1)
        chosen = order.topk(max(1, round(mask_share * T)), 1)[1]
        flat = (chosen + T * torch.arange(n, device=device)[:, None]).reshape(-1)
        target = ids.reshape(-1)[flat]
        dice = torch.rand(len(flat), generator=generator, device=device)
        anything = torch.randint(FIRST_PIECE, len(self.vocab), (len(flat),), generator=generator, device=device)
        put = torch.where(dice < 0.8, torch.full_like(target, MASK), torch.where(dice < 0.9, anything, target))
        return ids.reshape(-1).index_put((flat,), put).view(n, T), types, flat, target


def evaluate(model, data, T=128, plain=True, windows=96, mask_share=0.15):
    """Loss and accuracy on masked tokens of articles the model has not seen; the same windows every time."""
    generator = torch.Generator(data.ids.device).manual_seed(1)
    model.eval()
    loss = right = count = 0
    with torch.no_grad():
        for _ in range(0, windows, 16):
            *asked, target = data.batch(16, T, generator, mask_share, plain, held_out=True)
            logits = model(*asked).float()
            loss += F.cross_entropy(logits, target, reduction='sum').item()
            right += (logits.argmax(-1) == target).sum().item()
            count += len(target)
    model.train()
    return loss / count, right / count


class Muon(torch.optim.Optimizer):
    """Momentum whose singular values are all brought near 1 (five Newton-Schulz steps, Keller Jordan 2024), then
    scaled to the size of AdamW's steps, so that both take the same rate (Liu et al. 2025, arXiv 2502.16982)."""

    def __init__(self, matrices, momentum=0.95, weight_decay=0.01):
        super().__init__(matrices, dict(lr=0.0, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for matrix in group['params']:
                mean = self.state[matrix].setdefault('mean', torch.zeros_like(matrix))
                mean.lerp_(matrix.grad, 1 - group['momentum'])
                step = orthogonal(matrix.grad.lerp(mean, group['momentum']))
                matrix.mul_(1 - group['lr'] * group['weight_decay'])
                matrix.add_(step, alpha=-0.2 * group['lr'] * max(matrix.shape[-2:]) ** 0.5)


def orthogonal(matrix):
    """Near the nearest matrix with orthogonal rows or columns. Query, key and value are three matrices."""
    rows, columns = matrix.shape
    x = matrix.view(3, columns, columns) if rows == 3 * columns else matrix.view(1, rows, columns)
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    for _ in range(5):
        square = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (2.0315 * square @ square - 4.7750 * square) @ x
    return (x.transpose(-1, -2) if tall else x).reshape(rows, columns)


def optimizers_for(model, muon):
    parameters = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in model.layers.parameters() if p.dim() > 1] if muon else []
    rest = [p for p in parameters if all(p is not m for m in matrices)]
    adam = torch.optim.AdamW([{'params': [p for p in rest if p.dim() > 1], 'weight_decay': 0.01},
                              {'params': [p for p in rest if p.dim() < 2], 'weight_decay': 0}],
                             betas=(0.9, 0.98), eps=1e-6)
    return [adam, Muon(matrices)] if muon else [adam]


def average_gradients(model, world):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    for g, part in zip(grads, flat.div_(world).split([g.numel() for g in grads])):
        g.copy_(part.view_as(g))


class Clock:
    """How far training is, in the plan's unit and the same in every process, and the learning rate it stands for."""

    def __init__(self, plan, unit, rate, done=0.0):
        self.ends = np.cumsum([length for _, _, length in plan])
        self.unit, self.rate, self.done, self.start = unit, rate, done, time.time()
        self.warm_up = min(300, self.ends[-1] / 10) if unit == 'steps' else 300

    def now(self, step):
        if self.unit == 'steps':
            return step
        now = torch.tensor([self.done + (time.time() - self.start) / 60], dtype=torch.float64)
        if dist.is_initialized():
            dist.broadcast(now, 0)
        return now.item()

    def rate_at(self, now, step):
        return float(self.rate * min(1, (step + 1) / self.warm_up) * max(0, 1 - now / self.ends[-1]))


def checkpoint_for(model, vocab, folder):
    """The weights of an exported checkpoint of exactly this model."""
    start = load(folder)
    if start.config != model.config:
        sys.exit(f'{folder} is {start.config}; its depth must be that of the first stage, and the rest as asked: '
                 f'{model.config}')
    with open(f'{folder}/vocab.txt', encoding='utf-8') as f:
        if f.read().splitlines() != vocab:
            sys.exit(f'{folder} has another vocabulary than the data: prepare.py --vocab {folder}/vocab.txt')
    return start.state_dict()


def train(args, rank, world):
    torch.manual_seed(args.seed)
    generator = torch.Generator(args.device).manual_seed(args.seed + rank)
    offsets = np.random.default_rng(args.seed)  # the same in every process
    data = Data(args.data, args.device)
    plan = [(int(l), int(t), float(m)) for l, t, m in (stage.split(':') for stage in args.plan.split(','))]
    shape = dict(heads=args.heads, hidden=args.hidden, ffn=args.ffn, vocab=len(data.vocab),
                 positions=args.positions, learn_positions=args.learn_positions)
    model, stage, step, seen, done, saved_optimizers = Bert(plan[0][0], **shape), 0, 0, 0, 0.0, []
    if args.start:
        model.load_state_dict(checkpoint_for(model, data.vocab, args.start))
    state_path = f'{args.out}/state.pt'
    if os.path.exists(state_path):
        saved = torch.load(state_path, map_location='cpu')
        stage, step, seen, done = saved['stage'], saved['step'], saved['seen'], saved['now']
        model = Bert(plan[stage][0], **shape)
        model.load_state_dict(saved['model'])
        saved_optimizers = saved['optimizers']
    clock = Clock(plan, args.unit, args.rate, done)

    def save(optimizers, now):
        if rank == 0:
            export(model, data.vocab, args.out)
            torch.save({'stage': stage, 'step': step, 'seen': seen, 'now': now, 'model': model.state_dict(),
                        'optimizers': [o.state_dict() for o in optimizers]}, state_path + '.part')
            os.replace(state_path + '.part', state_path)

    for stage in range(stage, len(plan)):
        layers, T, _ = plan[stage]
        if layers != len(model.layers):
            model = model.stacked(layers)
        model.to(args.device)
        fast = torch.compile(model) if args.device == 'cuda' and hasattr(torch, 'compile') else model
        optimizers = optimizers_for(model, args.muon)
        for optimizer, state in zip(optimizers, saved_optimizers):
            optimizer.load_state_dict(state)
        saved_optimizers = []
        said = saved = time.time()
        losses, now = [], clock.now(step)
        while now < clock.ends[stage]:
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group['lr'] = clock.rate_at(now, step)
            n = max(1, args.batch_tokens // T)
            *asked, target = data.batch(n, T, generator, args.mask, args.plain)
            # Half of the batches lie at a random offset, so that late positions are as well trained as early ones.
            first = int(offsets.integers(0, args.positions - T + 1)) if offsets.random() < 0.5 else 0
            with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.bf16 or args.device == 'cuda'):
                logits = fast(*asked, first)
            loss = F.cross_entropy(logits.float(), target)
            model.zero_grad(set_to_none=True)
            loss.backward()
            if world > 1:
                average_gradients(model, world)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            step, seen = step + 1, seen + n * T * world
            losses.append(loss.detach())
            now = clock.now(step)
            if rank == 0 and time.time() - said > args.say_seconds:
                said = time.time()
                print(f'{now:6.1f} {args.unit}  {layers} layers x {T}  step {step}  {seen / 1e6:.1f} M tokens  '
                      f'loss {torch.stack(losses[-200:]).mean().item():.3f}', flush=True)
            if time.time() - saved > 60 * args.save_minutes:
                saved = time.time()
                save(optimizers, now)
        save(optimizers, now)
        if rank == 0:
            loss, accuracy = evaluate(model, data, min(128, args.positions))
            print(f'stage {args.plan.split(",")[stage]} done: held-out loss {loss:.3f}, masked-token accuracy '
                  f'{100 * accuracy:.1f} %', flush=True)


def run_processes(n):
    """This very command n times, a rank each; when one fails the others are ended. The exit status."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    # glibc's own thresholds let a process grow to 12 GB in half an hour of bfloat16 (PyTorch 2.15); it needs one.
    places = [dict(os.environ, MALLOC_ARENA_MAX='1', MALLOC_MMAP_THRESHOLD_='65536', RANK=str(rank), WORLD_SIZE=str(n),
                   MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), OPENBLAS_NUM_THREADS='1', OMP_NUM_THREADS='1') for rank in range(n)]
    running = [subprocess.Popen([sys.executable, *sys.argv], env=place) for place in places]
    try:
        while None in (states := [process.poll() for process in running]) and not any(states):
            time.sleep(0.2)
        return int(any(states))
    finally:
        for process in running:
            process.terminate()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('data')
    parser.add_argument('out')
    parser.add_argument('--from', dest='start', metavar='CHECKPOINT', help='whose weights to start with')
    parser.add_argument('--plan', default='12:32:2,12:128:17,12:512:6', help='LAYERS:SEQUENCE:LENGTH,...')
    parser.add_argument('--unit', choices=['minutes', 'steps'], default='minutes', help='of the lengths in the plan')
    parser.add_argument('--hidden', type=int, default=192)
    parser.add_argument('--ffn', type=int, default=768)
    parser.add_argument('--heads', type=int, default=12)
    parser.add_argument('--positions', type=int, default=512)
    parser.add_argument('--learn-positions', action='store_true', help='only with enough long sequences')
    parser.add_argument('--batch-tokens', type=int, default=4096)
    parser.add_argument('--rate', type=float, default=1.5e-3)
    parser.add_argument('--mask', type=float, default=0.2, help='share of tokens to guess')
    parser.add_argument('--muon', action='store_true', help="Muon for the layers' matrices, AdamW for the rest")
    parser.add_argument('--bf16', action='store_true', help="the layers' products in bfloat16, as on a GPU always")
    parser.add_argument('--plain', action='store_true', help='windows of one segment, from anywhere')
    parser.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu', choices=['cpu', 'cuda'])
    parser.add_argument('--processes', type=int, default=1, help='on this machine, a CPU core each')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--save-minutes', type=float, default=3)
    parser.add_argument('--say-seconds', type=float, default=30)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    world = int(os.environ.get('WORLD_SIZE', 1))
    if world == 1 and args.processes > 1:
        sys.exit(run_processes(args.processes))
    if world > 1:
        dist.init_process_group('gloo')
        torch.set_num_threads(1)
    train(args, int(os.environ.get('RANK', 0)), world)


if __name__ == '__main__':
    main()
