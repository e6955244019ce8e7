"""The batch script of a run on Slurm. Everything here was run against Slurm 24.11."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

STOP_S = 60
"""So long before its time is up a run is told, and saves what it has."""
COMMENT = "stampworks:"
"""Begins the comment of jobs that are runs; behind it stands the workload."""
LOG, EXIT, SCRIPT = "log", "exit", "batch.sh"


@dataclass(frozen=True)
class Batch:
    """One program on some nodes, a task on each, started again as often as Slurm wants."""

    name: str
    workload: str
    folder: str
    """Of the run, seen by all nodes."""
    queue: str
    nodes: int
    exclude: tuple[str, ...]
    gres: str
    """All accelerators of a node; empty for none."""
    path: str
    """Where Python finds the programs."""
    program: tuple[str, ...]


def script(batch: Batch) -> str:
    """A shell script that Slurm takes as it is; nothing in it is left for the shell to interpret."""
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
        # a node that is lost is for the programs to bear, and two jobs of one run never work at a time
        "--no-kill",
        "--dependency=singleton",
        f"--signal=B:USR1@{STOP_S}",
    ]
    srun = ["srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--ntasks-per-node=1", "--label"]
    command = shlex.join([*srun, "--", "env", f"PYTHONPATH={batch.path}", *batch.program])
    header = "".join(f"#SBATCH {setting}\n" for setting in settings)
    return f"#!/bin/sh\n{header}\nfolder={shlex.quote(batch.folder)}\n{_BEFORE}{command} &\n{_AFTER}"


# A TERM comes when the job has to go: the programs get it from Slurm itself.
_BEFORE = f"""\
rm -f "$folder/{EXIT}"
out_of_time=
trap 'out_of_time=yes; kill -USR1 "$programs"' USR1
trap : TERM
"""
# The shell's `wait` returns when a signal comes: it is called again until the programs have ended.
_AFTER = f"""\
programs=$!
while :; do
    wait "$programs"
    code=$?
    kill -0 "$programs" 2>/dev/null || break
done
if [ "$out_of_time" ] && [ "$code" != 0 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
echo "$code" >"$folder/{EXIT}"
exit "$code"
"""
