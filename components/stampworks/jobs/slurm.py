"""A job of a user as a batch script of Slurm, and the program of each node that it starts."""

from __future__ import annotations

import shlex

from stampworks.jobs.checks import Job, is_folder, pyxis
from stampworks.jobs.script import (
    NODE,
    PORT,
    PORTS,
    RUN,
    SECRETS,
    SETUP,
    WORKDIR,
    exports,
    places,
    scripts,
    setup_digest,
    variables,
)
from stampworks.plan import Plan
from stampworks.schedulers.batch import COMMENT, EXIT, LOG
from stampworks.schedulers.slurm import gres_of

BATCH = "batch.sh"
NOTICE = "USR2"
"""Signal to the batch script before the time limit: it sends the job's own signal to the programs. TERM is not usable,
because it may also be the end of the job."""
OWN = "job"
"""The workload in the comment of jobs of users."""


def files(job: Job, plan: Plan, exclude: tuple[str, ...], workdir: str) -> dict[str, str]:
    """Return all files of the job's folder except secrets. `workdir` is the digest of the copied files."""
    return {BATCH: batch(job, plan, exclude), NODE: node(job, plan, workdir), **scripts(job)}


def batch(job: Job, plan: Plan, exclude: tuple[str, ...]) -> str:
    """Return the script for sbatch."""
    file = job.file
    header = "".join(f"#SBATCH {setting}\n" for setting in _settings(job, exclude))
    values = exports(variables(job, plan)) + ("" if file.array else "unset ARRAY_INDEX\n")
    steps = "" if file.image or not file.setup else f"start {shlex.join(_srun(job, plan, 'setup'))}\n"
    steps += f"start {shlex.join(_srun(job, plan, 'run'))}\n"
    body = _BATCH.replace("@RETRY@", str(file.retry)).replace("@SIGNAL@", file.checkpoint.signal)
    body = body.replace("@PREFIX@", _PREFIX if file.array else "").replace("@STEPS@", steps)
    head = f"#!/bin/bash\n{header}\numask 077\nfolder={shlex.quote(job.folder)}\n"
    return head + values + body.replace("@KEEP@", "tasks" if file.array else "retry" if file.retry else "")


def _settings(job: Job, exclude: tuple[str, ...]) -> list[str]:
    file, machine = job.file, job.pools[0].machine
    gres = gres_of(machine).rpartition(":")[0] if machine.accelerators else ""
    share = max(1, (machine.cpus or 1) * max(1, job.gpus) // max(1, machine.accelerators))
    return [
        f"--job-name={job.name}",
        f"--comment={COMMENT}{OWN}",
        f"--partition={job.queue.name}",
        *([f"--account={file.account}"] if file.account else []),
        f"--nodes={file.nodes}",
        "--ntasks-per-node=1",
        *(["--exclusive"] if job.whole_nodes else [f"--cpus-per-task={share}"]),
        *([f"--gres={gres}:{job.gpus}"] if gres and job.gpus else []),
        *([f"--exclude={','.join(exclude)}"] if exclude else []),
        *([f"--time={-(-job.limit_s // 60)}"] if job.limit_s else []),
        *([f"--array={file.array}"] if file.array else []),
        *([f"--signal=B:{NOTICE}@{job.notice_s}"] if job.notice_s else []),
        "--chdir=/tmp",
        f"--output={job.folder}/{LOG}",
        "--open-mode=append",
        "--requeue" if file.retry else "--no-requeue",
    ]


def _srun(job: Job, plan: Plan, what: str) -> list[str]:
    """Return the step that starts a node's program on all nodes. It leaves room for steps of `run` itself."""
    label = ["--label"] if job.file.nodes > 1 else []
    return [
        *("srun", "--overlap", "--kill-on-bad-exit=1", "--ntasks-per-node=1", *label),
        *(_container(job, plan) if job.file.image and pyxis(plan) else []),
        *("bash", f"{job.folder}/{NODE}", what),
    ]


def _container(job: Job, plan: Plan) -> list[str]:
    """Return the options of pyxis: the job's folder and the requested mounts, and nothing else."""
    mounts = ",".join(f"{place}:{place}" for place in places(job, plan))
    return [
        f"--container-image={enroot_name(job.file.image)}",
        f"--container-mounts={mounts}",
        "--no-container-mount-home",
    ]


def enroot_name(image: str) -> str:
    """Return an image's name in the form of enroot: with '#' after a registry, which has a dot or a port in its
    name."""
    registry, slash, rest = image.removeprefix("docker://").partition("/")
    is_registry = slash and registry and "#" not in image and ("." in registry or ":" in registry)
    return f"{registry}#{rest}" if is_registry and not is_folder(image) else image.removeprefix("docker://")


def node(job: Job, plan: Plan, workdir: str) -> str:
    """Return the script of each node: `node.sh setup` or `node.sh run`."""
    file = job.file
    local = is_folder(file.image) and not pyxis(plan)
    enter = _ENTER.replace("@IMAGE@", shlex.quote(file.image)) if local else ""
    enter = enter.replace("@PLACES@", shlex.join(places(job, plan)))
    program = _IN_IMAGE if file.image else _ON_NODE.replace("@DIGEST@", setup_digest(job, workdir))
    start = "enter " if local else ""
    head = f"#!/bin/bash\nfolder={shlex.quote(job.folder)}\n"
    secrets = _SECRETS if file.secrets else ""
    body = _NODE.replace("@SECRETS@", secrets) + enter + program.replace("@START@", start)
    return head + body.replace("@SIGNAL@", file.checkpoint.signal)


# The job gets TERM when it is cancelled or preempted. The shell's `wait` returns at a signal, so that it is repeated
# until the programs have ended. Secrets stay while another task or attempt may need them. The script is not told of a
# preemption: a watcher on the head removes them when the job has left the queue.
_BATCH = f"""\
attempt="${{SLURM_RESTART_COUNT:-0}}"
export JOB_ID="$SLURM_JOB_ID"
[ -z "$SLURM_ARRAY_TASK_ID" ] || export ARRAY_INDEX="$SLURM_ARRAY_TASK_ID"
NODE_NAMES="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,)"
export NODE_NAMES MASTER_ADDR="${{NODE_NAMES%%,*}}" MASTER_PORT="$(({PORT} + SLURM_JOB_ID % {PORTS}))"
export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"
unset STAMPWORKS_MASTER
export failed="$folder/failed-$SLURM_JOB_ID-$attempt"
rm -f "$failed"
@PREFIX@told= programs= keep=@KEEP@
trap 'told=yes; scancel --signal=@SIGNAL@ "$SLURM_JOB_ID"' {NOTICE}
trap '[ -z "$programs" ] || kill -TERM "$programs" 2>/dev/null' TERM
finish() {{
    if [ ! "$keep" ] || [ "$1$keep" = 0retry ]; then rm -f "$folder/{SECRETS}"; fi
    rm -f "$failed"
    [ "$keep$1" = tasks0 ] && [ -e "$folder/{EXIT}" ] || echo "$1" >"$folder/{EXIT}" # of an array, that of a failure
    exit "$1"
}}
start() {{
    "$@" &
    programs=$!
    while :; do
        wait "$programs" 2>/dev/null
        code=$?
        kill -0 "$programs" 2>/dev/null && continue
        # a signal may have ended the wait while the programs ended by themselves: their own code is kept, too
        wait "$programs" 2>/dev/null
        again=$?
        [ "$again" = 127 ] || code=$again
        break
    done
    [ "$code" = 0 ] && return
    [ ! -s "$failed" ] || read -r code <"$failed"
    if [ "$told" ] && [ "$attempt" -lt @RETRY@ ]; then
        exec scontrol requeue "$SLURM_JOB_ID"
    fi
    finish "$code"
}}
if [ "$attempt" -gt @RETRY@ ]; then
    echo "stampworks: it was started again @RETRY@ times already (retry: @RETRY@)"
    finish 1
fi
mkdir -p "$CHECKPOINT_PATH" || finish 1
@STEPS@finish 0
"""
# Tasks of an array share a log: each line begins with its task.
_PREFIX = """\
exec > >(exec sed -u "s/^/$SLURM_ARRAY_TASK_ID: /") 2>&1
"""
_NODE = f"""\
export NODE_RANK="$SLURM_NODEID" RANK="$SLURM_NODEID" PET_NODE_RANK="$SLURM_NODEID"
trap : TERM @SIGNAL@
ended() {{
    [ "$1" = 0 ] || (set -o noclobber && echo "$1" >"$failed") 2>/dev/null
    exit "$1"
}}
@SECRETS@if [ -d "$folder/{WORKDIR}" ]; then cd "$folder/{WORKDIR}"; else cd "$folder"; fi
"""
_SECRETS = f"""\
if [ ! -e "$folder/{SECRETS}" ]; then
    echo "stampworks: the secrets of the job are gone: submit it again"
    ended 1
fi
. "$folder/{SECRETS}"
"""
# The signal also reaches the shell of the user's commands: it waits for them, and they have their own handlers. The
# exit status of a job is that of the first failed program: the others are ended for it. Results of setup stay on the
# node for this content; setup runs once at a time.
_ON_NODE = f"""\
if [ "$1" = run ]; then
    bash -e -c 'trap : TERM @SIGNAL@; . "$1"' bash "$folder/{RUN}"
    ended $?
fi
marks="/var/tmp/stampworks-setup-$(id -u)"
mkdir -m 700 "$marks" 2>/dev/null
if [ -L "$marks" ] || [ ! -O "$marks" ]; then
    echo "stampworks: $marks belongs to another user"
    exit 1
fi
exec 9>"$marks/lock"
flock 9
[ ! -e "$marks/@DIGEST@" ] || exit 0
bash -e "$folder/{SETUP}" 9>&- || ended $?
: >"$marks/@DIGEST@"
"""
_IN_IMAGE = f"""\
@START@bash -e -c 'trap : TERM @SIGNAL@; [ ! -e "$1/{SETUP}" ] || bash -e "$1/{SETUP}"; . "$1/{RUN}"' bash "$folder"
ended $?
"""
# A root directory with a layer in memory above it, in namespaces of the user's own: nothing that a job writes there
# stays, and no right of root is needed. In it the user is called root, as in a container of enroot.
_ENTER = """\
enter() {
    unshare --map-root-user --mount bash -e -c '
        image="$1" layers="$(mktemp -d)" here="$PWD"
        shift
        mount -t tmpfs none "$layers"
        mkdir "$layers/upper" "$layers/work" "$layers/root"
        root="$layers/root"
        mount -t overlay -o "lowerdir=$image,upperdir=$layers/upper,workdir=$layers/work" none "$root"
        for place in /proc /sys /dev /tmp @PLACES@; do
            mkdir -p "$root$place" 2>/dev/null || true
            if [ ! -d "$root$place" ]; then
                echo "stampworks: image $image has no folder $place, and is not yours: make one there"
                exit 1
            fi
            mount --rbind "$place" "$root$place"
        done
        exec /usr/sbin/chroot "$root" bash -c "cd \\"\\$1\\"; shift; exec \\"\\$@\\"" bash "$here" "$@"
    ' bash @IMAGE@ "$@"
}
"""
