"""What a Kubernetes is extended by: which of the release's add-ons, who installs each, and whether they go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from stampworks import catalog
from stampworks.catalog import UNKNOWN, Unknown
from stampworks.declaration import AddOns, Declaration
from stampworks.plan import AddOn, Fabric, Group, Image, Plan, Release, traits_of
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Choices
from stampworks.planning.rules.findings import Facts, Finding, Severity, Verdict

GPU_OPERATOR, DRIVER, TOOLKIT = "gpu-operator", "driver", "toolkit"
"""The add-on, and two of its parts that an image of nodes may bring instead."""
WATCH = "node-monitoring-agent"
"""What looks at nodes between proofs, in programs of its own."""
WHOLE = "all-disabled"
"""The profile of MIG that divides nothing."""


def build(
    declaration: Declaration, release: Release, fabric: Fabric, groups: Sequence[Group], choices: Choices, notes: Notes
) -> tuple[AddOn, ...]:
    """In the order of the release, which is that of their needs."""
    if not traits_of(declaration.scheduler.kind).has_addons:
        return ()
    declared, rows = declaration.scheduler.addons, catalog.releases()[release.name].addons
    there = {name: _wanted(name, row, declared, fabric, groups, choices) for name, row in rows.items()}
    for name, row in reversed([*rows.items()]):
        needing = [each for each in there if there[each][0] and name in rows[each].needs]
        if row.wanted == "needed" and _said(declared, name) is None and needing:
            there[name] = True, f"for {' and '.join(needing)}"
    if declared.mig_profile != WHOLE:
        _expect_divisible(declared, groups, *there[GPU_OPERATOR], notes)
    made = []
    for name, row in rows.items():
        wanted, why = there[name]
        path = f"scheduler.addons.{field(name)}"
        if not wanted:
            if row.wanted in ("always", "hardware"):
                notes.reason(path, f"not part of it: {why}")
            continue
        by, who = _by(name, row, declared, choices)
        notes.reason(path, ", and ".join(filter(None, (why, who))))
        images = tuple(_image(part, image, declaration, choices) for part, image in row.images.items())
        made.append(_made(name, row, by, images, declared, release, choices, notes))
    return tuple(made)


def _expect_divisible(declared: AddOns, groups: Sequence[Group], wanted: bool, why: str, notes: Notes) -> None:
    """A profile that nobody goes by, or that nodes cannot have, would say what is not so."""
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


def _said(declared: AddOns, name: str) -> bool | None:
    return getattr(declared, field(name))  # type: ignore[no-any-return]


def field(name: str) -> str:
    """Of the declaration, the one that switches it."""
    return name.replace("-", "_")


def _wanted(
    name: str, row: catalog.AddOn, declared: AddOns, fabric: Fabric, groups: Sequence[Group], choices: Choices
) -> tuple[bool, str]:
    """Whether it is part of the cluster, and why."""
    said = _said(declared, name)
    if said is not None:
        return said, "declared" if said else "declared so"
    if row.wanted == "hardware":
        return _has_hardware(row, fabric, groups)
    if row.wanted == "brought":
        return name in choices.brings, "part of it there" if name in choices.brings else "the cloud has none"
    if row.wanted != "always":
        return False, "nobody asks for it" if row.wanted == "asked" else "no other one needs it"
    if choices.no_charts and name not in choices.brings:
        return False, choices.no_charts
    return True, "part of every Kubernetes here"


def _has_hardware(row: catalog.AddOn, fabric: Fabric, groups: Sequence[Group]) -> tuple[bool, str]:
    if row.fabrics:
        kind = fabric.kind or "none"
        return fabric.kind in row.fabrics, f"the fabric is {kind}, and it is for {' and '.join(row.fabrics)}"
    found = sorted({group.machine.name for group in _real(groups) if _accelerator(group) in row.accelerators})
    if found:
        return True, f"{', '.join(found)} has accelerators that it is for"
    return False, "no node has accelerators that it is for; those of simulated machines are written onto their nodes"


def _real(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if group.role == "worker" and not group.machine.simulated]


def _accelerator(group: Group) -> str | Unknown:
    """As the catalog calls it: what Slurm is told is shorter."""
    return catalog.machines()[group.machine.name].accelerator


def _by(
    name: str, row: catalog.AddOn, declared: AddOns, choices: Choices
) -> tuple[Literal["helm", "cloud", "hand"], str]:
    """Who installs it, with the reason where that is not Helm."""
    if name in choices.brings:
        return "cloud", choices.brings[name] + ("" if row.wanted == "brought" else ": it is not installed")
    if not row.chart:
        return "hand", f"nobody publishes a chart of it: apply {row.repository}"
    if declared.installer == "none":
        return "hand", "scheduler.addons.installer is none: install it by hand"
    return ("hand", choices.no_charts) if choices.no_charts else ("helm", "")


def _made(
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
    """What the cloud has in each region is taken from the cluster's own, where that is known."""
    digest = "" if isinstance(image.digest, Unknown) else image.digest
    registry, slash, name = image.repository.partition("/")
    of_regions = choices.managed.registry_of if choices.managed else {}
    if registry in of_regions.values():
        registry = of_regions.get(declaration.region, registry)
    return Image(part, f"{registry}{slash}{name}", image.tag, digest)


def _driver(declared: AddOns, release: Release, choices: Choices, notes: Notes) -> str:
    """The version that the GPU operator brings; empty where nodes have one."""
    path = "scheduler.addons.gpu_driver"
    brought = [choices.brings[part] for part in (DRIVER, TOOLKIT) if part in choices.brings]
    if not (declared.gpu_driver if declared.gpu_driver is not None else not brought):
        notes.reason(path, f"without driver and container toolkit: {brought[0] if brought else 'declared so'}")
        return ""
    notes.reason(path, f"the one of release {release.name}: nothing says that nodes have one")
    return next(iter(catalog.releases()[release.name].hardware[DRIVER].packages.values()))


def addons(plan: Plan, facts: Facts) -> Iterator[Finding]:  # noqa: ARG001  (its answer is in the plan)
    """Whether they go together, with the Kubernetes of the release and with the hardware."""
    if plan.scheduler.traits.has_addons:
        found = [
            *_missing(plan),
            *_switched_off(plan),
            *(each for one in plan.scheduler.addons for each in _of_one(plan, one)),
        ]
        yield from found or [Finding("addons.fit", "pass", "all add-ons go together", "")]


_INDISPENSABLE = {"kueue": "all queues are its objects", "jobset": "every run is one"}


def _missing(plan: Plan) -> Iterator[Finding]:
    there = [each.name for each in plan.scheduler.addons]
    for name, why in _INDISPENSABLE.items():
        if name not in there:
            hint = f"take {field(name)} out; where you install it yourself, write installer: none"
            yield _found("needs", "fail", f"there is no cluster without {name}: {why}", hint, name)


def _switched_off(plan: Plan) -> Iterator[Finding]:
    """What hardware of the nodes needs, before pods can have it."""
    there = [each.name for each in plan.scheduler.addons]
    for name, row in catalog.releases()[plan.release.name].addons.items():
        if row.wanted != "hardware" or name in there:
            continue
        has, why = _has_hardware(row, plan.fabric, plan.groups)
        if has:
            text = f"pods can have nothing of what {name} is for: it is switched off, and {why}"
            hint = f"take {field(name)} out, or install what offers it to pods yourself"
            yield _found("hardware", "fail", text, hint, name, severity="warning")


def _of_one(plan: Plan, one: AddOn) -> Iterator[Finding]:
    row = catalog.releases()[plan.release.name].addons[one.name]
    if one.version:
        yield from _of_version(plan, one, row)
    yield from _of_others(one, row, [each.name for each in plan.scheduler.addons])
    fits, why = _has_hardware(row, plan.fabric, plan.groups)
    if row.wanted == "hardware" and not fits:
        yield _found("hardware", "fail", f"{one.name} has nothing to do: {why}", _out(one.name), one.name)
    if row.wanted == "brought" and one.by != "cloud":
        text = f"{one.name} looks at nodes of a Kubernetes that {plan.cloud} does not have"
        yield _found("hardware", "fail", text, _out(one.name), one.name)
    if one.by == "hand" and (no_charts := CLOUDS[plan.cloud].no_charts):
        yield _found(
            "installer", "fail", f"{one.name} cannot run on {plan.cloud}: {no_charts}", _out(one.name), one.name
        )
    elif one.by == "hand" and one.name in _INDISPENSABLE:
        text = f"{one.name} is to be installed by hand, and before it is there `up` cannot make objects of it"
        hint = f"`stampworks addons --values {one.name}` says how, or write installer: helm"
        yield _found("installer", "fail", text, hint, one.name, "installer", severity="warning")
    if one.mig_profile:
        text = (
            f"accelerators are divided ({one.mig_profile}), and queues, runs and proofs count whole ones: "
            f"what the strategy {one.mig_strategy} makes of them no quota here has"
        )
        hint = "take mig_profile out, or give what uses parts a cluster of its own and quotas by hand"
        yield _found("mig", "fail", text, hint, one.name, "mig_profile", severity="warning")
        if WATCH in [each.name for each in plan.scheduler.addons]:
            # aws/eks-node-monitoring-agent 0040fd7a, dcgm-daemonset.yaml; NVIDIA/mig-parted v0.14.2, reconfigure.go
            text = (
                f"a program of {WATCH} has all accelerators of a node open, and what divides them waits for those of "
                f"{one.name} alone to let go: whether it comes through nobody has seen"
            )
            hint = f"write {field(WATCH)}: false, or take mig_profile out"
            yield _found("mig", "unknown", text, hint, WATCH, "mig_profile", severity="warning")


def _of_version(plan: Plan, one: AddOn, row: catalog.AddOn) -> Iterator[Finding]:
    version = dict(plan.release.kubernetes)["kubernetes"]
    least, most = row.kubernetes_min, row.kubernetes_max
    said = f"{one.name} {one.version} and Kubernetes {version} of release {plan.release.name}"
    source = f"({row.source}, read {row.read})"
    newer = most is not UNKNOWN and _minor(version) > _minor(str(most))
    if newer or (least is not UNKNOWN and _minor(version) < _minor(str(least))):
        range_ = " to ".join(str(each) for each in (least, most) if each is not UNKNOWN)
        hint = f"{_out(one.name)}, or write another release"
        yield _found("kubernetes", "fail", f"{said}: it is for {range_} {source}", hint, one.name)
    elif least is UNKNOWN and most is UNKNOWN:
        text = f"{said}: nobody says which versions it is for {source}"
        yield _found("kubernetes", "unknown", text, "try it before anything relies on it", one.name)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _of_others(one: AddOn, row: catalog.AddOn, there: Iterable[str]) -> Iterator[Finding]:
    for needed in row.needs:
        if needed not in there and needed not in _INDISPENSABLE:
            text = f"{one.name} does not work without {needed}"
            yield _found("needs", "fail", text, f"take {field(needed)} out, or {_out(one.name)}", needed)
    for other in row.excludes:
        if other in there and one.name < other:
            text = f"{one.name} and {other} exclude each other: they are for two kinds of fabric, and a cluster has one"
            yield _found("excludes", "fail", text, f"{_out(one.name)}, or {_out(other)}", one.name)


def _out(name: str) -> str:
    return f"write {field(name)}: false"


def _found(
    what: str, verdict: Verdict, text: str, hint: str, name: str, key: str = "", severity: Severity = "error"
) -> Finding:
    place = f"scheduler.addons.{key or field(name)}"
    return Finding(f"addons.{what}", verdict, text, hint, place, severity, name)
