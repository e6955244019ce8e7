"""The fields of a job file. Each description doubles as the hint of an error message."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.models.section import FromList, Section
from stampworks.declaration.values import AccountName, Name, PoolName, QueueName
from stampworks.jobs.forms import AbsolutePath, Array, Duration, JobName, LocalPath, Variable

ALL = -1
"""Value for all accelerators of a node, and the whole node."""
NODES_MAX = 16_384
RETRIES_MAX = 100


class Secret(Section):
    """A value for a job that is in none of its files."""

    name: Variable = Field(description="The variable that the job sees.")
    file: LocalPath = Field(
        default="", description="The file with the value; without one it is the submitter's variable of that name."
    )


class Checkpoint(Section):
    """A folder for checkpoints, and the signal for the last one."""

    path: AbsolutePath = Field(
        default="", description="The folder of the checkpoints, CHECKPOINT_PATH; without it one in the job's folder."
    )
    signal: Literal["TERM", "INT", "HUP", "USR1", "USR2"] = Field(
        default="TERM", description="The signal that `run` gets before the time limit and at preemption."
    )
    grace: Duration = Field(default="60s", description="The time from the signal to the time limit.")


class JobFile(Section):
    """A job: commands that run once on each of some nodes."""

    name: JobName = Field(default="", description="Name of the job; by default that of the file.")
    nodes: int = Field(default=1, ge=1, le=NODES_MAX, description="The number of nodes; `run` starts once on each.")
    gpus_per_node: int = Field(
        default=ALL, ge=0, le=1024, description="Accelerators of each node; without it whole nodes, of nobody else."
    )
    pool: PoolName = Field(default="", description="The pool whose nodes it runs on; without it those of the queue.")
    queue: QueueName = Field(default="", description="The queue it waits in; without it the default one.")
    account: AccountName = Field(default="", description="The account it is charged to; without it the user's first.")
    time_limit: Duration = Field(default="", description="After how long it is ended: 30m, 4h, 2d.")
    env: dict[str, str] = Field(default={}, description="Variables that `setup` and `run` see.")
    secrets: Annotated[tuple[Secret, ...], FromList] = Field(
        default=(), description="Variables whose values come from the submitter's environment or from files."
    )
    workdir: LocalPath = Field(
        default="", description="The folder that is copied and that `run` starts in: what git would commit, else all."
    )
    setup: str = Field(default="", description="Commands that run once on a node, until they or the workdir change.")
    run: str = Field(min_length=1, description="The commands of the job.")
    image: LocalPath = Field(
        default="", description="The root file system that `setup` and `run` see: an OCI image, a squashfs or a folder."
    )
    mounts: Annotated[tuple[Name, ...], FromList] = Field(
        default=(), description="Declared storage that the job needs; with an image it sees no other."
    )
    array: Array = Field(default="", description="A task for each index, such as 0-9, or 0-9%2 for two at a time.")
    depends_on: Annotated[tuple[JobName, ...], FromList] = Field(
        default=(), description="Jobs of the same user that must have ended well before it starts."
    )
    retry: int = Field(
        default=0, ge=0, le=RETRIES_MAX, description="Maximum number of restarts after a lost node or a preemption."
    )
    checkpoint: Checkpoint = Field(default=Checkpoint(), description="Folder and signal of its checkpoints.")
