"""Releases: the software that nodes need and a release may lack."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks import catalog
from stampworks.plan import ACCELERATOR, CLIENTS, Group, Plan
from stampworks.planning.build.addons import DRIVER, GPU_OPERATOR
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Finding
from stampworks.planning.rules.pools import running


def drivers(plan: Plan) -> Iterator[Finding]:
    """The release, the image or an operator brings a driver for a pool's accelerators."""
    for where, pool in running(plan):
        if pool.machine.simulated or not pool.machine.accelerator:
            continue
        id_, place, name = "release.accelerator", f"{where}.machine", pool.machine.accelerator
        if not plan.scheduler.traits.equips_nodes:
            yield _driver_of_pods(plan, pool, place)
        elif "driver" in pool.hardware:
            text = f"release {plan.release.name} has a driver for {name} of pool {pool.name}"
            yield Finding(id_, "pass", text, "", place, subject=pool.name)
        elif catalog.releases()[plan.release.name].takes_found:
            text = f"nodes of pool {pool.name} keep the driver that they have, and the proof measures with it"
            yield Finding(id_, "pass", text, "", place, subject=pool.name)
        else:
            text = f"release {plan.release.name} has no driver for {name}: nodes of pool {pool.name} may lack it"
            hint = "install it with a role of your own, or start the nodes from an image that has it"
            yield Finding(id_, "unknown", text, hint, place, subject=pool.name)


def _driver_of_pods(plan: Plan, pool: Group, place: str) -> Finding:
    """Judge a pool of Kubernetes: the image of its nodes has a driver, or the GPU operator brings one.

    The operator is for accelerators of NVIDIA alone, and the catalog lists them with it.
    """
    name = catalog.machines()[pool.machine.name].accelerator
    if name not in catalog.releases()[plan.release.name].addons[GPU_OPERATOR].accelerators:
        text = (
            f"jobs here ask Kubernetes for {ACCELERATOR}, which {pool.machine.name} of pool {pool.name} does "
            "not offer: its "
            f"accelerators are {name}, and no job would start there"
        )
        hint = "choose a machine with accelerators of NVIDIA, or write scheduler.kind: slurm"
        return Finding("release.accelerator", "fail", text, hint, place, subject=pool.name)
    what, brought = f"a driver for {pool.machine.accelerator}", CLOUDS[plan.cloud].brings.get(DRIVER, "")
    operator = next((each for each in plan.scheduler.addons if each.name == GPU_OPERATOR), None)
    if operator and operator.driver:
        text = f"the GPU operator brings nodes of pool {pool.name} {what}, {operator.driver}"
    elif brought:
        text = f"nodes of pool {pool.name} have {what}: {brought}"
    else:
        text = f"whether nodes of pool {pool.name} have {what}: neither the release nor an add-on installs one"
        hint = "take scheduler.addons.gpu_driver out, or start the nodes from an image that has it"
        return Finding("release.accelerator", "unknown", text, hint, place, subject=pool.name)
    return Finding("release.accelerator", "pass", text, "", place, subject=pool.name)


def clients(plan: Plan) -> Iterator[Finding]:
    """The release has the client that mounts a file system."""
    brought = {software.name for software in plan.release.clients}
    for index, each in enumerate(plan.storage):
        client = catalog.file_systems()[each.kind].mount
        if not plan.scheduler.traits.equips_nodes or client not in CLIENTS:
            continue
        id_, place, what = "release.client", f"storage[{index}].kind", f"{each.name} ({each.kind})"
        called = CLIENTS[client]
        if client in brought:
            text = f"release {plan.release.name} has the {called} that mounts {what}"
            yield Finding(id_, "pass", text, "", place, subject=each.name)
        else:
            text = f"whether nodes can mount {what}: release {plan.release.name} has no {called}"
            hint = f"none is known for {plan.release.suite}: install it with a role of your own, or in the image"
            yield Finding(id_, "unknown", text, hint, place, subject=each.name)


def provable(plan: Plan) -> Iterator[Finding]:
    """The release has the torch that a proof measures with.

    A release that has it gets no finding.
    """
    if not plan.scheduler.traits.equips_nodes or plan.proof.level == "none" or "torch" in dict(plan.release.versions):
        return
    for where, pool in running(plan):
        if "torch" not in pool.hardware:
            of = f"nodes of pool {pool.name} can be proven at level {plan.proof.level}"
            text = f"whether {of}: release {plan.release.name} has no torch for them"
            hint = f"{plan.release.suite} has none: install it with a role of your own, or in the image"
            yield Finding("release.torch", "unknown", text, hint, f"{where}.machine", subject=pool.name)
