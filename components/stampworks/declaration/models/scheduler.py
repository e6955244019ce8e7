"""Scheduler of jobs, its users, and its rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.keys import KEY_FORM
from stampworks.declaration.models.addons import AddOns
from stampworks.declaration.models.section import IN_PLACE, REFUSE, REPLACE, ROLL, FromList, Section
from stampworks.declaration.ranges import PublicCidr
from stampworks.declaration.values import (
    AccountName,
    Admin,
    ContainerImage,
    GroupName,
    Name,
    PoolName,
    QueueName,
    UserName,
)


class User(Section):
    """A person who may log in and submit jobs."""

    name: UserName = Field(description="Name to log in with.", json_schema_extra=REPLACE)
    uid: int = Field(
        ge=1000,
        le=60000,
        description="The numeric id, the same on every node and in every file they own.",
        json_schema_extra=REFUSE,
    )
    accounts: Annotated[tuple[AccountName, ...], FromList] = Field(
        default=(),
        description="The accounts their jobs may be charged to; the first is used when a job names none.",
        json_schema_extra=IN_PLACE,
    )
    groups: Annotated[tuple[GroupName, ...], FromList] = Field(
        default=(),
        description="The groups they are in, each with a folder of its own on shared storage.",
        json_schema_extra=IN_PLACE,
    )
    keys: Annotated[tuple[Annotated[str, KEY_FORM], ...], FromList] = Field(
        default=(),
        max_length=20,
        description="Their public ssh keys, {file: keys/alice.pub}, or {url: https://example.org/alice.keys}, which "
        "`stampworks lock` looks up: with one they log in to head and login nodes, and with no other. An empty list "
        "lets no key in; without a list ~/.ssh/authorized_keys counts.",
        json_schema_extra=IN_PLACE,
    )


class UserGroup(Section):
    """Users who share files: a team. Jobs are charged to accounts, which are independent of it."""

    name: GroupName = Field(description="Name of the group.", json_schema_extra=REPLACE)
    gid: int = Field(
        ge=1000,
        le=60000,
        description="The numeric id, the same on every node and in every file of the group; no user's uid.",
        json_schema_extra=REFUSE,
    )


class Queue(Section):
    """A queue of jobs for the nodes of some pools."""

    name: QueueName = Field(description="Name of the queue.", json_schema_extra=REPLACE)
    pools: Annotated[tuple[PoolName, ...], FromList] = Field(
        min_length=1,
        description="The pools whose nodes run its jobs; those of a pool in no queue run none.",
        json_schema_extra=IN_PLACE,
    )
    default: bool = Field(
        default=False,
        description="Whether jobs without a queue go to this one; exactly one queue has it.",
        json_schema_extra=IN_PLACE,
    )
    time_limit_minutes: int = Field(
        default=0,
        ge=0,
        le=525_600,
        description="Time limit of a job in minutes; 0 for no limit.",
        json_schema_extra=IN_PLACE,
    )
    priority: Name = Field(
        default="",
        description="Priority of its jobs that ask for none; on Kubernetes, of those of `stampworks submit` alone.",
        json_schema_extra=IN_PLACE,
    )


class Priority(Section):
    """The urgency of jobs, and the priorities that they may preempt."""

    name: Name = Field(description="Name of the priority.", json_schema_extra=REPLACE)
    weight: int = Field(
        ge=0, le=1_000_000, description="Weight: jobs of a higher one start sooner.", json_schema_extra=IN_PLACE
    )
    preempts: Annotated[tuple[Name, ...], FromList] = Field(
        default=(),
        description="The priorities whose running jobs make room for jobs of this one.",
        json_schema_extra=IN_PLACE,
    )


class Account(Section):
    """Account that jobs are charged to."""

    name: AccountName = Field(description="Name of the account.", json_schema_extra=REPLACE)
    share: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Weight of the account: its part of the cluster relative to the shares of other accounts.",
        json_schema_extra=IN_PLACE,
    )
    accelerators_max: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Maximum number of accelerators of its jobs at one time; 0 for no limit.",
        json_schema_extra=IN_PLACE,
    )


class Scheduler(Section):
    """Scheduler that decides which job runs where and when."""

    kind: Literal["slurm", "kubernetes"] = Field(
        default="slurm", description="Scheduler that runs the jobs.", json_schema_extra=REFUSE
    )
    accounting: bool = Field(
        default=False,
        description="Whether the usage of each user is recorded; accounts need it.",
        json_schema_extra=IN_PLACE,
    )
    database: Literal["head", "managed"] = Field(
        default="head",
        description="Place of the accounting database: the head, or a managed service of the cloud. A change does "
        "not move the records.",
        json_schema_extra=REFUSE,
    )
    topology: Literal["flat", "tree", "block"] = Field(
        default="tree",
        description="Description of the fabric by which the scheduler chooses nodes.",
        json_schema_extra=IN_PLACE,
    )
    preemption: Literal["off", "requeue", "cancel"] = Field(
        default="off",
        description="Treatment of a running job that has to make room for a more urgent one.",
        json_schema_extra=IN_PLACE,
    )
    login_nodes: int = Field(
        default=0,
        ge=0,
        le=16,
        description="On Slurm: how many nodes (login-001, ...) there are to log in to and submit jobs from, beside the "
        "head; they have its machine, and run no jobs.",
        json_schema_extra=IN_PLACE,
    )
    # Kubernetes supports at most 110 (its documentation, "Considerations for large clusters"), and no managed one is
    # known to refuse 16.
    pods_per_node: int = Field(
        default=110,
        ge=16,
        le=110,
        description="On Kubernetes: how many pods a node runs at most; fewer take fewer addresses on aws and google.",
        json_schema_extra=ROLL,
    )
    workloads_image: ContainerImage = Field(
        default="",
        description="On Kubernetes of a cloud: the image of `workloads/Containerfile` in a registry that nodes reach, "
        "by its digest; proofs and runs start from it.",
        json_schema_extra=IN_PLACE,
    )
    # At most as many ranges as EKS accepts (Amazon EKS User Guide, "View and manage Amazon EKS and Fargate service
    # quotas": not adjustable; read 2026-11-27).
    api_from: Annotated[tuple[PublicCidr, ...], FromList] = Field(
        default=(),
        max_length=40,
        description="On Kubernetes of a cloud: the public ranges from which its API server can be reached, like "
        "203.0.113.0/24; without any it has no public address, and only the cluster's network reaches it.",
        json_schema_extra=IN_PLACE,
    )
    admins: Annotated[tuple[Admin, ...], FromList] = Field(
        default=(),
        description="On Kubernetes of a cloud: its administrators beside its creator; on aws the "
        "ARNs of roles and users.",
        json_schema_extra=IN_PLACE,
    )
    drain_timeout_minutes: int = Field(
        default=10,
        ge=1,
        le=10_080,
        description="Minutes that a change waits for the jobs of a node.",
        json_schema_extra=IN_PLACE,
    )
    idle_minutes: int | None = Field(
        default=None,
        ge=1,
        le=525_600,
        description="Minutes for which an idle node that does not always run waits for jobs before its "
        "machine ends; without it, 10.",
        json_schema_extra=IN_PLACE,
    )
    protect: bool = Field(
        default=True,
        description="Whether to refuse the removal of queue, accounting and keys until this is false.",
        json_schema_extra=IN_PLACE,
    )
    queues: Annotated[tuple[Queue, ...], FromList] = Field(
        default=(),
        description="Queues of jobs; without any, one queue 'main' has all pools that run jobs.",
        json_schema_extra=IN_PLACE,
    )
    priorities: Annotated[tuple[Priority, ...], FromList] = Field(
        default=(), description="Priorities of jobs.", json_schema_extra=IN_PLACE
    )
    accounts: Annotated[tuple[Account, ...], FromList] = Field(
        default=(), description="Accounts that jobs are charged to.", json_schema_extra=IN_PLACE
    )
    addons: AddOns = Field(default=AddOns(), description="On Kubernetes: its add-ons.", json_schema_extra=REFUSE)
