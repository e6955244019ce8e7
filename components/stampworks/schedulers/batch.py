"""The batch script of a run on Slurm. Everything here was run against Slurm 24.11."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

NOTICE_S = 60
"""Seconds before the time limit at which a run is warned, unless it asks for more; it then saves its state."""
NOTICE_MAX_S = 65535
"""Maximum of Slurm (man sbatch, --signal)."""
COMMENT = "stampworks:"
"""Beginning of the comment of jobs that are runs; the workload follows."""
LOG, EXIT, EVENTS, SCRIPT, ON_NODE, ENDED = "log", "exit", "events.jsonl", "batch.sh", "node.sh", "ended"
"""Files in the run's folder. The last one has the exit status of an elastic run's first program."""
OTHERS_S = 5
"""Seconds in which other programs must end after the first one."""
LOST = 69
"""Exit status of a program when the first node does not answer (EX_UNAVAILABLE)."""
NOTICED_S = 300
"""Seconds that Slurm may take after that to notice the lost node; usually a minute. After the same time of silence
Slurm is no longer asked."""


@dataclass(frozen=True)
class BatchJob:
    """A program on some nodes, a task on each, restarted as often as Slurm wants."""

    name: str
    workload: str
    folder: str
    """Folder of the run, seen by all nodes."""
    queue: str
    nodes: int
    exclude: tuple[str, ...]
    gres: str
    """All accelerators of a node; empty for none."""
    path: str
    """Python path of the programs."""
    program: tuple[str, ...]
    notice_s: int = NOTICE_S
    elastic: bool = False
    """Whether the programs continue without some nodes. The first program then knows their common end."""


def files(batch: BatchJob) -> dict[str, str]:
    """All that has to lie in the run's folder."""
    return {SCRIPT: script(batch), **({ON_NODE: on_node(batch)} if batch.elastic else {})}


def script(batch: BatchJob) -> str:
    """A shell script for Slurm, in which nothing is left for the shell to interpret."""
    settings = [
        f"--job-name={batch.name}",
        f"--comment={COMMENT}{batch.workload}",
        f"--partition={batch.queue}",
        f"--nodes={batch.nodes}",
        "--ntasks-per-node=1",
        "--exclusive",
        *([f"--gres={batch.gres}"] if batch.gres else []),
        *([f"--exclude={','.join(batch.exclude)}"] if batch.exclude else []),
        "--chdir=/tmp",  # the one directory that every node has
        f"--output={batch.folder}/{LOG}",
        "--open-mode=append",
        "--requeue",
        # programs must tolerate a lost node, and two jobs of a run never run at once
        "--no-kill",
        "--dependency=singleton",
        f"--signal=B:USR1@{batch.notice_s}",
    ]
    srun = ["srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--ntasks-per-node=1", "--label"]
    wrapped = ["sh", f"{batch.folder}/{ON_NODE}"] if batch.elastic else []
    command = shlex.join([*srun, "--", "env", f"PYTHONPATH={batch.path}", *wrapped, *batch.program])
    header = "".join(f"#SBATCH {setting}\n" for setting in settings)
    return f"#!/bin/sh\n{header}\nfolder={shlex.quote(batch.folder)}\n{_ATTEMPT}{_BEFORE}{command} &\n{_AFTER}"


def on_node(batch: BatchJob) -> str:
    """Return the script that runs the program of an elastic run on each node."""
    return f"#!/bin/sh\nfolder={shlex.quote(batch.folder)}\n{_ATTEMPT}{_ON_NODE}"


# A requeued job keeps its number, and a node that was taken for lost may still run the previous attempt: it must
# neither end the new one nor requeue it.
_ATTEMPT = f"""\
attempt="${{SLURM_RESTART_COUNT:-0}}"
ended="$folder/{ENDED}-$SLURM_JOB_ID-$attempt"
job() {{
    for second in $(seq {NOTICED_S}); do
        scontrol show job "$SLURM_JOB_ID" && break
        sleep 1
    done
}}
"""
# TERM comes when the job has to end: Slurm itself signals the programs.
_BEFORE = f"""\
rm -f "$folder/{EXIT}" "$folder/{ENDED}-"*
export BATCH_NODE="$SLURMD_NODENAME"
export STAMPWORKS_SUBMITTED="$(SLURM_TIME_FORMAT=%s squeue --noheader --jobs="$SLURM_JOB_ID" --format=%V)"
out_of_time=
trap 'out_of_time=yes; kill -USR1 "$programs"' USR1
trap : TERM
"""
# The shell's `wait` returns at a signal, so that it is repeated until the programs have ended. srun learns of a lost
# node after a minute, and reports a failure, although the other nodes may have finished without it.
_AFTER = f"""\
programs=$!
(
    trap '' TERM
    until [ -s "$ended" ]; do sleep 1; done
    sleep {OTHERS_S}
    kill -KILL "$programs"
) &
watch=$!
while :; do
    wait "$programs" 2>/dev/null  # which would name the signal
    code=$?
    kill -0 "$programs" 2>/dev/null || break
done
kill -KILL "$watch" 2>/dev/null
if [ -s "$ended" ]; then
    read -r code <"$ended"
fi
case "$(job)" in
    *" Restarts=$attempt "*)
        if [ "$out_of_time" ] && [ "$code" != 0 ]; then
            exec scontrol requeue "$SLURM_JOB_ID"
        fi
        ;;
    *" Restarts="*) exit "$code" ;;
esac
echo "$code" >"$folder/{EXIT}"
exit "$code"
"""
# Slurm removes a lost node from the job and lets the others run (--no-kill), even if it ran the batch script: then no
# process would end or requeue the job. If Slurm keeps the first node, that node may continue without this one: new
# events show it.
_ON_NODE = f"""\
trap : TERM USR1
"$@"
code=$?
trap 'exit "$code"' TERM
if [ "$SLURM_PROCID" = 0 ]; then
    echo "$code" >"$ended"
elif [ "$code" = {LOST} ]; then
    answers=0 lost= before=$(tail -n 1 "$folder/{EVENTS}" 2>/dev/null)
    while [ ! "$lost" ] && [ "$answers" -lt {NOTICED_S} ]; do
        sleep 1
        nodes=$(squeue --noheader --states=running --jobs="$SLURM_JOB_ID" --format=%N) || continue
        answers=$((answers + 1))
        [ -z "$nodes" ] || scontrol show hostnames "$nodes" | grep -qx "$BATCH_NODE" || lost=yes
    done
    [ "$(tail -n 1 "$folder/{EVENTS}" 2>/dev/null)" != "$before" ] || lost=yes
    if [ "$nodes" ] && [ "$lost" ]; then
        case "$(job)" in
            *" Restarts=$attempt "*) exec scontrol requeue "$SLURM_JOB_ID" ;;
        esac
    fi
fi
exit "$code"
"""
