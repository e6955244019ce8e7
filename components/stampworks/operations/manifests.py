"""A run as objects of Kubernetes, written down instead of submitted: of the plan alone, with no cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stampworks.operations import jobs
from stampworks.operations.errors import InputError
from stampworks.operations.job import Wanted
from stampworks.operations.kubernetes_jobs import pods_of
from stampworks.operations.qualify import PYTHON, PYTHON_OF_IMAGE
from stampworks.plan import Member, Plan, Roster
from stampworks.schedulers.jobset import Pods
from stampworks.schedulers.kubeflow import OPTIONS, TOLD, Kind, manifests
from stampworks.schedulers.kubernetes import PROGRAMS_PATH


def written_down(plan: Plan, kind: Kind, image: str, asked: jobs.Asked) -> list[dict[str, Any]]:
    """All that `kubectl create` needs. `image` is one that has the programs; without it they are those of the nodes."""
    if plan.scheduler.kind != "kubernetes":
        what = f"the scheduler of cluster {plan.name} is Slurm, which takes none of these objects"
        raise InputError(what, "leave out --print, or choose another stack: -s STACK")
    image = image or plan.scheduler.workloads_image
    if kind == "mpijob":
        _expect_fit_for_mpi(image, asked.user)
    roster = _as_declared(plan)
    wanted, options, there = jobs.wanted_of(plan, roster, asked)
    pods = _told_otherwise(pods_of(plan, roster, wanted, asked.user), wanted, image)
    return manifests(kind, pods, jobs.as_text(options | jobs.cluster_options(plan, roster, there)))


def _expect_fit_for_mpi(image: str, user: str) -> None:
    if not image:
        what = "an MPIJob starts from an image with mpirun and sshd, which the nodes' own programs do not bring"
        raise InputError(what, "build one on a base that has them (workloads/Containerfile), and say --image IMAGE")
    if user != "root":
        raise InputError(f"sshd in the pods of an MPIJob logs root in, and not {user}", "leave out --user")


def _as_declared(plan: Plan) -> Roster:
    """As if all of it were there. What nodes are called is no matter, and a plan need not know it."""
    members = tuple(
        Member(f"{group.name}-{number}", group.name, "", "", (), "")
        for group in plan.pools
        for number in range(group.count)
    )
    return Roster(plan.name, plan.cloud, (), "", "", members, plan.region)


def _told_otherwise(pods: Pods, wanted: Wanted, image: str) -> Pods:
    """What `submit` would write into the run's folder is part of what is written down."""
    instead = {f"{wanted.folder}/{OPTIONS}": f"{TOLD}/{OPTIONS}"} | ({PYTHON: PYTHON_OF_IMAGE} if image else {})
    pods = replace(pods, told=TOLD, program=tuple(instead.get(word, word) for word in pods.program))
    if not image:
        return pods
    claims = {path: name for path, name in pods.claims.items() if path != PROGRAMS_PATH}
    return replace(pods, image=image, claims=claims, read_only=())
