#!/usr/bin/python3
"""Runs a command and stops its processes at random moments: freeze.py [--seed N] NAME,... COMMAND...

On a busy machine any process may wait a second for its turn, which changes the order of events. This script stops
those of the command's processes, at any depth, whose names begin with one of NAMES. Each stop takes at most three
seconds, mostly far less. A test that fails depends on timing, or has found that the program does. The exit status is
the command's.
"""
import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time

STEP = 0.05  # s between two throws of the dice
CHANCE = 0.08  # of somebody being stopped
LONGEST = 3  # s


def children():
    """The children of every process: number -> (name, number) of each."""
    known = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/stat") as file:
            head, _, tail = file.read().rpartition(") ")
            known.setdefault(int(tail.split()[1]), []).append((head.partition("(")[2], int(number)))
    return known


def below(root, names):
    """The processes under root with such names."""
    known, found, left = children(), [], [root]
    while left:
        for name, number in known.get(left.pop(), []):
            left.append(number)
            found += [number] if name.startswith(names) else []
    return found


def send(number, what):
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", type=lambda text: tuple(text.split(",")))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    dice, still = random.Random(options.seed), {}
    command = subprocess.Popen(options.command)
    try:
        while command.poll() is None:
            now = time.monotonic()
            for number in [number for number, until in still.items() if until <= now]:
                del still[number]
                send(number, signal.SIGCONT)
            free = [number for number in below(command.pid, options.names) if number not in still]
            if free and dice.random() < CHANCE:
                number = dice.choice(free)
                still[number] = now + LONGEST * dice.random() ** 3
                send(number, signal.SIGSTOP)
            time.sleep(STEP)
    finally:
        for number in still:
            send(number, signal.SIGCONT)
    sys.exit(command.returncode)


if __name__ == "__main__":
    main()
