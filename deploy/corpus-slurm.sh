#!/bin/sh
# A corpus over a Slurm array, a shard a task:
#     job=$(sbatch --parsable --array=0-7 deploy/corpus-slurm.sh texts.jsonl runs)
#     sbatch --dependency=afterok:$job --wrap='headscope merge runs/shard-*-of-8 -o report'
# A task that is requeued goes on from its last checkpoint. With Open MPI instead, ranks are shards:
#     mpirun -n 8 --map-by slot:PE=4 headscope corpus texts.jsonl -o runs --workers 4 --resume
#SBATCH --job-name=headscope-corpus
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --requeue
#SBATCH --signal=TERM@120
set -eu
exec srun "${HEADSCOPE:-headscope}" corpus "$1" -o "$2" --resume
