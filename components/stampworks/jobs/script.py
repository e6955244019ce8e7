"""Parts of a job's scripts that every scheduler shares: variables, and the program of a node."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping

from stampworks.jobs.checks import Job
from stampworks.plan import OVER_TCP, Plan
from stampworks.schedulers.jobset import of_fabric

NODE, SETUP, RUN, SECRETS, WORKDIR = "node.sh", "setup.sh", "run.sh", "secrets.sh", "workdir"
"""Files in the job's folder, which only its user can enter."""
PORT, PORTS = 20_000, 10_000
"""Ports for MASTER_PORT: the job's number chooses, so that two jobs on a node use different ones."""


def processes(job: Job, plan: Plan) -> int:
    """Return how many processes torchrun starts on a node: one for each accelerator, or one without any.

    Simulated accelerators compute nothing, and their node has as many ranks as planned.
    """
    pool = job.pools[0]
    ranks = dict(plan.training.ranks).get(pool.name, 1)
    return min(ranks, max(1, job.gpus)) if pool.machine.simulated else max(1, job.gpus)


def variables(job: Job, plan: Plan) -> dict[str, str]:
    """Return the variables that all nodes of a job share, the job's own last."""
    file, pool = job.file, job.pools[0]
    rails = [rail.interface for rail in plan.fabric.rails[: pool.rails or 0]]
    found = {
        "JOB_NAME": job.name,
        "JOB_FOLDER": job.folder,
        "CHECKPOINT_PATH": job.checkpoints,
        "NNODES": str(file.nodes),
        "WORLD_SIZE": str(file.nodes),
        "GPUS_PER_NODE": str(job.gpus),
        "LOCAL_RANK": "0",
        "RAILS": ",".join(rails),
        # torchrun takes its options from these (torch.distributed.argparse_util.env)
        "PET_NNODES": str(file.nodes),
        "PET_NPROC_PER_NODE": str(processes(job, plan)),
    }
    if not plan.scheduler.traits.runs_pods:  # pods get these with their devices
        found |= of_fabric(plan.fabric.kind)
    if rails and plan.fabric.kind in OVER_TCP and file.nodes > 1 and not plan.scheduler.traits.runs_pods:
        found |= {"NCCL_SOCKET_IFNAME": ",".join(rails), "GLOO_SOCKET_IFNAME": ",".join(rails)}
    return found | file.env


def places(job: Job, plan: Plan) -> list[str]:
    """Return the folders that a job with an image sees: its own, declared mounts, and storage with its checkpoints."""
    storage = [
        each.mount
        for each in plan.storage
        if each.name in job.file.mounts or job.checkpoints.startswith(f"{each.mount.rstrip('/')}/")
    ]
    return list(dict.fromkeys([job.folder, *storage]))


def exports(values: Mapping[str, str]) -> str:
    """Return lines of a shell script that export variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def setup_digest(job: Job, workdir: str) -> str:
    """Return a digest of the inputs of `setup`: its commands, the workdir's content, the variables, and the writable
    folder."""
    variables_ = "\0".join(f"{name}={value}" for name, value in sorted(job.file.env.items()))
    text = "\0".join((job.folder, job.file.setup, workdir, variables_))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def scripts(job: Job) -> dict[str, str]:
    """Return the user's own commands as files."""
    found = {RUN: job.file.run.rstrip("\n") + "\n"}
    return found | ({SETUP: job.file.setup.rstrip("\n") + "\n"} if job.file.setup else {})
