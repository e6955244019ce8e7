"""A run as objects of Kubernetes, written down instead of submitted: of the plan alone, with no cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stampworks.operations import jobs
from stampworks.operations.errors import InputError
from stampworks.operations.job import JobRequest
from stampworks.operations.kubernetes.jobs import pods_of
from stampworks.operations.qualify import PYTHON, PYTHON_OF_IMAGE
from stampworks.plan import Member, Plan, Roster
from stampworks.schedulers.jobset import PodJob
from stampworks.schedulers.kubeflow import OPTIONS, TOLD, Kind, manifests
from stampworks.schedulers.kubernetes import PROGRAMS_PATH


def written_down(plan: Plan, kind: Kind, image: str, asked: jobs.RunRequest) -> list[dict[str, Any]]:
    """All objects for `kubectl create`. `image` is an image with the programs; without it, nodes provide them."""
    if not plan.scheduler.traits.runs_pods:
        what = (
            f"the scheduler of cluster {plan.name} is {plan.scheduler.traits.title}, which does not use these objects"
        )
        raise InputError(what, "leave out --print, or choose another stack: -s STACK")
    image = image or plan.scheduler.workloads_image
    if kind == "mpijob":
        _expect_fit_for_mpi(plan, image, asked.user)
    roster = _as_declared(plan)
    wanted, options, there = jobs.wanted_of(plan, roster, asked)
    pods = _told_otherwise(pods_of(plan, roster, wanted, asked.user), wanted, image)
    return manifests(kind, pods, jobs.as_text(options | jobs.cluster_options(plan, roster, there)))


def _expect_fit_for_mpi(plan: Plan, image: str, user: str) -> None:
    """Refuse an MPIJob from an image: its programs and users are unknown. Nodes of playbooks have both."""
    if not image and plan.managed:
        what = "an MPIJob needs an image with mpirun and sshd, for nodes of the cloud do not bring programs"
        raise InputError(what, "build one (workloads/Containerfile), and say --image IMAGE")
    if image and user != "root":
        what = f"ssh logs in users that exist in the image, and it is not known whether {image} has a user {user}"
        raise InputError(what, "leave out --user")


def _as_declared(plan: Plan) -> Roster:
    """Return a roster in which all declared nodes exist. Their names do not matter, and the plan may not know them."""
    members = tuple(
        Member(f"{group.name}-{number}", group.name, "", "", (), "")
        for group in plan.pools
        for number in range(group.count)
    )
    return Roster(plan.name, plan.cloud, (), "", "", members, plan.region)


def _told_otherwise(pods: PodJob, wanted: JobRequest, image: str) -> PodJob:
    """Add the files that `submit` would write into the run's folder."""
    instead = {f"{wanted.folder}/{OPTIONS}": f"{TOLD}/{OPTIONS}"} | ({PYTHON: PYTHON_OF_IMAGE} if image else {})
    pods = replace(pods, told=TOLD, program=tuple(instead.get(word, word) for word in pods.program))
    if not image:
        return pods
    claims = {path: name for path, name in pods.claims.items() if path != PROGRAMS_PATH}
    return replace(pods, image=image, claims=claims, read_only=())
