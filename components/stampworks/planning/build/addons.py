"""Add-ons of Kubernetes: those of the release that a cluster gets, and the installer of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stampworks import catalog
from stampworks.catalog import Unknown
from stampworks.declaration import AddOns, Declaration
from stampworks.plan import AddOn, Fabric, Group, Image, Release, traits_of
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices

GPU_OPERATOR, DRIVER, TOOLKIT = "gpu-operator", "driver", "toolkit"
"""The add-on, and two of its parts that a node image may contain instead."""
WHOLE = "all-disabled"
"""The MIG profile that divides nothing."""


def build(
    declaration: Declaration, release: Release, fabric: Fabric, groups: Sequence[Group], choices: Choices, notes: Notes
) -> tuple[AddOn, ...]:
    """Return the add-ons in the order of the release, in which each follows its needs."""
    if not traits_of(declaration.scheduler.kind).has_addons:
        return ()
    declared, rows = declaration.scheduler.addons, catalog.releases()[release.name].addons
    there = {name: _is_included(name, row, declared, fabric, groups, choices) for name, row in rows.items()}
    for name, row in reversed([*rows.items()]):
        needing = [each for each in there if there[each][0] and name in rows[each].needs]
        if row.wanted == "needed" and _declared_switch(declared, name) is None and needing:
            there[name] = True, f"for {' and '.join(needing)}"
    if declared.mig_profile != WHOLE:
        _expect_divisible(declared, groups, *there[GPU_OPERATOR], notes)
    made = []
    for name, row in rows.items():
        wanted, why = there[name]
        path = f"scheduler.addons.{field(name)}"
        if not wanted:
            if row.wanted in ("always", "hardware"):
                notes.reason(path, f"not installed: {why}")
            continue
        by, who = _installer(name, row, declared, choices)
        notes.reason(path, ", and ".join(filter(None, (why, who))))
        images = tuple(_image(part, image, declaration, choices) for part, image in row.images.items())
        made.append(_addon(name, row, by, images, declared, release, choices, notes))
    return tuple(made)


def _expect_divisible(declared: AddOns, groups: Sequence[Group], wanted: bool, why: str, notes: Notes) -> None:
    """Refuse a MIG profile that nothing applies, or that the nodes do not support."""
    path, parts = "scheduler.addons.mig_profile", catalog.accelerators()
    if not wanted:
        text = f"accelerators stay whole: {GPU_OPERATOR}, which divides them, is not part of the cluster: {why}"
        off = ", or gpu_operator" if declared.gpu_operator is False else ""
        notes.problem(path, text, f"take mig_profile out{off}")
    for group in _real(groups):
        name = _accelerator(group)
        if name and not isinstance(name, Unknown) and parts[name].mig is False:
            text = f"the accelerators of pool {group.name} ({group.machine.name}) are {name}, which has no MIG"
            having = ", ".join(each.name for each in parts.values() if each.mig is True)
            notes.problem(path, text, f"take mig_profile out, or choose a machine with one of {having}")


def _declared_switch(declared: AddOns, name: str) -> bool | None:
    return getattr(declared, field(name))  # type: ignore[no-any-return]


def field(name: str) -> str:
    """Return the declared field that switches the add-on."""
    return name.replace("-", "_")


def _is_included(
    name: str, row: catalog.AddOn, declared: AddOns, fabric: Fabric, groups: Sequence[Group], choices: Choices
) -> tuple[bool, str]:
    """Return whether the add-on is part of the cluster, and why."""
    said = _declared_switch(declared, name)
    if said is not None:
        return said, "declared" if said else "declared so"
    if row.wanted == "hardware":
        return has_hardware(row, fabric, groups)
    if row.wanted == "brought":
        return name in choices.brings, "part of it there" if name in choices.brings else "the cloud has none"
    if row.wanted != "always":
        return False, "not declared" if row.wanted == "asked" else "no other add-on needs it"
    if choices.no_charts and name not in choices.brings:
        return False, choices.no_charts
    return True, "part of every Kubernetes here"


def has_hardware(row: catalog.AddOn, fabric: Fabric, groups: Sequence[Group]) -> tuple[bool, str]:
    """Return whether a cluster has the hardware that an add-on supports, and why."""
    if row.fabrics:
        kind = fabric.kind or "none"
        return fabric.kind in row.fabrics, f"the fabric is {kind}, and it works with {' and '.join(row.fabrics)}"
    found = sorted({group.machine.name for group in _real(groups) if _accelerator(group) in row.accelerators})
    if found:
        return True, f"{', '.join(found)} has accelerators that it supports"
    return False, "no node has accelerators that it supports; those of simulated machines are written onto their nodes"


def _real(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if group.role == "worker" and not group.machine.simulated]


def _accelerator(group: Group) -> str | Unknown:
    """Return the catalog's name of the accelerator; Slurm's is shorter."""
    return catalog.machines()[group.machine.name].accelerator


def _installer(
    name: str, row: catalog.AddOn, declared: AddOns, choices: Choices
) -> tuple[Literal["helm", "cloud", "hand"], str]:
    """Return the installer, with the reason when it is not Helm."""
    if name in choices.brings:
        return "cloud", choices.brings[name] + ("" if row.wanted == "brought" else ": it is not installed")
    if not row.chart:
        return "hand", f"no chart of it is published: apply {row.repository}"
    if declared.installer == "none":
        return "hand", "scheduler.addons.installer is none: install it by hand"
    return ("hand", choices.no_charts) if choices.no_charts else ("helm", "")


def _addon(
    name: str,
    row: catalog.AddOn,
    by: Literal["helm", "cloud", "hand"],
    images: tuple[Image, ...],
    declared: AddOns,
    release: Release,
    choices: Choices,
    notes: Notes,
) -> AddOn:
    own: dict[str, str] = {}
    if name == GPU_OPERATOR:
        own = {
            "driver": _driver(declared, release, choices, notes),
            "mig_strategy": declared.mig_strategy,
            "mig_profile": declared.mig_profile.replace(WHOLE, ""),
        }
    version = "" if by == "cloud" and row.wanted == "brought" else row.version
    return AddOn(name, row.what, by, row.chart, row.repository, version, row.namespace, row.needs, images, **own)


def _image(part: str, image: catalog.Image, declaration: Declaration, choices: Choices) -> Image:
    """Return an image; a regional image of the cloud comes from the cluster's own region, if its registry is known."""
    digest = "" if isinstance(image.digest, Unknown) else image.digest
    registry, slash, name = image.repository.partition("/")
    of_regions = choices.managed.registry_of if choices.managed else {}
    if registry in of_regions.values():
        registry = of_regions.get(declaration.region, registry)
    return Image(part, f"{registry}{slash}{name}", image.tag, digest)


def _driver(declared: AddOns, release: Release, choices: Choices, notes: Notes) -> str:
    """Return the driver version of the GPU operator; empty when nodes have a driver."""
    path = "scheduler.addons.gpu_driver"
    brought = [choices.brings[part] for part in (DRIVER, TOOLKIT) if part in choices.brings]
    if not (declared.gpu_driver if declared.gpu_driver is not None else not brought):
        notes.reason(path, f"without driver and container toolkit: {brought[0] if brought else 'declared so'}")
        return ""
    versions = [*catalog.releases()[release.name].hardware[DRIVER].packages.values()]
    if not versions:
        problem = f"release {release.name} has no driver for the GPU operator: it is in the image of a vendor"
        notes.problem(path, problem, "take it out, or take a release without -dlami in its name")
        return ""
    notes.reason(path, f"from release {release.name}, for no image is known to bring one")
    return versions[0]
