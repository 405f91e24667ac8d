#!/bin/sh
# Ranks of Open MPI as shards, as deploy/corpus-slurm.sh says: merged, they are the report of one run, to the bit.
. "$(dirname "$0")/common.sh"
needs mpirun
trap 'rm -rf "$work"' EXIT

texts 60 "$work/texts.jsonl"
cd "$work"
"$headscope" corpus texts.jsonl -o alone >/dev/null 2>&1
mpirun --allow-run-as-root --oversubscribe -n 3 "$headscope" corpus texts.jsonl -o runs --workers 1 --resume >mpi.log 2>&1 ||
    fail "mpirun: $(tail -n 3 mpi.log)"
"$headscope" merge runs/shard-*-of-3 -o merged >/dev/null 2>&1
same_report alone merged || fail "three ranks do not make the report of one run"
echo "passed: shards as ranks of $(mpirun --version | head -n 1)"
