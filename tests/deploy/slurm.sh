#!/bin/sh
# deploy/corpus-slurm.sh as an array under a real Slurm, all its daemons on this machine: a task that is requeued in the
# middle goes on from its checkpoint, and the merged report is that of one run, to the bit.
. "$(dirname "$0")/common.sh"
needs slurmctld slurmd sbatch munged mungekey mpirun
needs_root

state=$work/slurm
mkdir -p "$state/spool" "$state/ctl"
chmod 755 "$work"
mungekey --create --keyfile="$state/munge.key"
chmod 400 "$state/munge.key"
cat >"$state/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
StateSaveLocation=$state/ctl
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=8 RealMemory=100000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
SlurmdParameters=config_overrides
END
export SLURM_CONF="$state/slurm.conf"
munged --foreground --force --key-file="$state/munge.key" --socket="$state/munge.socket" --pid-file="$state/munged.pid" \
    --seed-file="$state/munged.seed" --log-file="$state/munged.log" >/dev/null 2>&1 &
daemons=$!
until_true test -S "$state/munge.socket"
slurmctld -D >/dev/null 2>&1 &
daemons="$daemons $!"
slurmd -D >/dev/null 2>&1 &
daemons="$daemons $!"
finish() {
    scancel --user=root 2>/dev/null || true
    # shellcheck disable=SC2086 # a list of processes
    kill $daemons 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
node_is_idle() {
    sinfo --noheader --format %T | grep -qx idle
}
until_true node_is_idle

texts 400 "$work/texts.jsonl"
cd "$work"
export HEADSCOPE="$headscope"
job=$(sbatch --parsable --array=0-2 --cpus-per-task=2 --mem=1G --output="$work/task-%a.log" \
    "$root/deploy/corpus-slurm.sh" texts.jsonl runs) || fail "sbatch"
begun() {
    [ "$(find runs -name 'shard-*' -type d | wc -l)" = 3 ]
}
until_true begun
sleep 2
scontrol requeue "${job}_1" || fail "the job could not be requeued"
finished() {
    [ -z "$(squeue --noheader --jobs "$job")" ]
}
again() {
    scontrol show job "${job}_1" | grep -q 'Restarts=1'
}
until_true again
until_true finished
"$headscope" merge runs/shard-*-of-3 -o merged >/dev/null 2>&1 || fail "merge: $(tail -n 2 task-*.log)"
"$headscope" corpus texts.jsonl -o alone >/dev/null 2>&1
same_report alone merged || fail "three tasks do not make the report of one run"
echo "passed: an array with a requeued task under $(sinfo --version)"
