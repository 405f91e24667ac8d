#!/bin/sh
# A corpus over a Slurm array, a shard a task. Options of `headscope corpus` follow the texts and the folder:
#     job=$(sbatch --parsable --array=0-7 --time=4:00:00 deploy/corpus-slurm.sh texts.jsonl runs --model /models/bert)
#     sbatch --dependency=afterok:$job --wrap='headscope merge runs/shard-*-of-8 -o report'
# A task that is requeued goes on from its last checkpoint. One that reaches its --time saves and ends: the first line
# again continues it. With Open MPI instead, ranks are shards:
#     mpirun -n 8 --map-by slot:PE=4 headscope corpus texts.jsonl -o runs --workers 4 --resume
#SBATCH --job-name=headscope-corpus
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@120
set -eu
usage() {
    echo "usage: sbatch --array=0-N corpus-slurm.sh TEXTS FOLDER [OPTION of headscope corpus]..." >&2
    exit 2
}
[ $# -ge 2 ] || usage
case $1 in -*) usage ;; esac
case $2 in -*) usage ;; esac
texts=$1 folder=$2
shift 2
exec srun "${HEADSCOPE:-headscope}" corpus "$texts" -o "$folder" --resume "$@"
