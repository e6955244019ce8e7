"""Add-ons of Kubernetes: whether they fit each other, the release, the hardware and the cloud."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stampworks import catalog
from stampworks.catalog import UNKNOWN
from stampworks.plan import AddOn, Plan
from stampworks.planning.build.addons import field, has_hardware
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.rules.findings import Finding, Severity, Verdict

WATCH = "node-monitoring-agent"
"""Add-on that monitors nodes between proofs, with its own programs."""
_INDISPENSABLE = {"kueue": "all queues are its objects", "jobset": "every run is one"}


def addons(plan: Plan) -> Iterator[Finding]:
    """All add-ons fit each other, the Kubernetes of the release, and the hardware."""
    if plan.scheduler.traits.has_addons:
        found = [
            *_missing(plan),
            *_switched_off(plan),
            *(each for one in plan.scheduler.addons for each in _addon_findings(plan, one)),
        ]
        yield from found or [Finding("addons.fit", "pass", "all add-ons go together", "")]


def _missing(plan: Plan) -> Iterator[Finding]:
    """Yield the indispensable add-ons that this cluster lacks."""
    there = [each.name for each in plan.scheduler.addons]
    for name, why in _INDISPENSABLE.items():
        if name not in there:
            hint = f"take {field(name)} out; where you install it yourself, write installer: none"
            yield _finding("needs", "fail", f"there is no cluster without {name}: {why}", hint, name)


def _switched_off(plan: Plan) -> Iterator[Finding]:
    """Yield the add-ons that are switched off although pods need them to use the hardware."""
    there = [each.name for each in plan.scheduler.addons]
    for name, row in catalog.releases()[plan.release.name].addons.items():
        if row.wanted != "hardware" or name in there:
            continue
        has, why = has_hardware(row, plan.fabric, plan.groups)
        if has:
            text = f"pods cannot use the devices of {name}: it is switched off, and {why}"
            hint = f"take {field(name)} out, or install a device plug-in yourself"
            yield _finding("hardware", "fail", text, hint, name, severity="warning")


def _addon_findings(plan: Plan, one: AddOn) -> Iterator[Finding]:
    """Judge one add-on."""
    row = catalog.releases()[plan.release.name].addons[one.name]
    if one.version:
        yield from _version_findings(plan, one, row)
    yield from _conflict_findings(one, row, [each.name for each in plan.scheduler.addons])
    fits, why = has_hardware(row, plan.fabric, plan.groups)
    if row.wanted == "hardware" and not fits:
        yield _finding("hardware", "fail", f"{one.name} is not needed: {why}", _removal_hint(one.name), one.name)
    if row.wanted == "brought" and one.by != "cloud":
        text = f"{one.name} is for another cloud's Kubernetes than {plan.cloud}'s"
        yield _finding("hardware", "fail", text, _removal_hint(one.name), one.name)
    if one.by == "hand" and (no_charts := CLOUDS[plan.cloud].no_charts):
        yield _finding(
            "installer",
            "fail",
            f"{one.name} cannot run on {plan.cloud}: {no_charts}",
            _removal_hint(one.name),
            one.name,
        )
    elif one.by == "hand" and one.name in _INDISPENSABLE:
        text = f"{one.name} has to be installed by hand, before `up` can make objects of it"
        hint = f"`stampworks addons --values {one.name}` says how, or write installer: helm"
        yield _finding("installer", "fail", text, hint, one.name, "installer", severity="warning")
    if one.mig_profile:
        text = (
            f"accelerators are divided ({one.mig_profile}), and queues, runs and proofs count whole ones: "
            f"no quota here counts the parts that the strategy {one.mig_strategy} offers"
        )
        hint = "take mig_profile out, or use parts on a cluster of their own with quotas made by hand"
        yield _finding("mig", "fail", text, hint, one.name, "mig_profile", severity="warning")
        if WATCH in [each.name for each in plan.scheduler.addons]:
            # aws/eks-node-monitoring-agent 0040fd7a, dcgm-daemonset.yaml; NVIDIA/mig-parted v0.14.2, reconfigure.go
            text = (
                f"a program of {WATCH} keeps all accelerators of a node open, and the MIG manager waits only "
                "for those of "
                f"{one.name}: whether the division succeeds is untested"
            )
            hint = f"write {field(WATCH)}: false, or take mig_profile out"
            yield _finding("mig", "unknown", text, hint, WATCH, "mig_profile", severity="warning")


def _version_findings(plan: Plan, one: AddOn, row: catalog.AddOn) -> Iterator[Finding]:
    """Judge an add-on by the versions of Kubernetes that it supports."""
    version = dict(plan.release.kubernetes)["kubernetes"]
    least, most = row.kubernetes_min, row.kubernetes_max
    said = f"{one.name} {one.version} and Kubernetes {version} of release {plan.release.name}"
    source = f"({row.source}, read {row.read})"
    newer = most is not UNKNOWN and _minor(version) > _minor(str(most))
    if newer or (least is not UNKNOWN and _minor(version) < _minor(str(least))):
        range_ = " to ".join(str(each) for each in (least, most) if each is not UNKNOWN)
        hint = f"{_removal_hint(one.name)}, or write another release"
        yield _finding("kubernetes", "fail", f"{said}: it is for {range_} {source}", hint, one.name)
    elif least is UNKNOWN and most is UNKNOWN:
        text = f"{said}: its supported versions are not published {source}"
        yield _finding("kubernetes", "unknown", text, "try it before anything relies on it", one.name)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _conflict_findings(one: AddOn, row: catalog.AddOn, there: Iterable[str]) -> Iterator[Finding]:
    """Judge an add-on by the add-ons that it needs or excludes."""
    for needed in row.needs:
        if needed not in there and needed not in _INDISPENSABLE:
            text = f"{one.name} does not work without {needed}"
            yield _finding("needs", "fail", text, f"take {field(needed)} out, or {_removal_hint(one.name)}", needed)
    for other in row.excludes:
        if other in there and one.name < other:
            text = f"{one.name} and {other} exclude each other: they are for different fabrics, and a cluster has one"
            yield _finding("excludes", "fail", text, f"{_removal_hint(one.name)}, or {_removal_hint(other)}", one.name)


def _removal_hint(name: str) -> str:
    return f"write {field(name)}: false"


def _finding(
    what: str, verdict: Verdict, text: str, hint: str, name: str, key: str = "", severity: Severity = "error"
) -> Finding:
    place = f"scheduler.addons.{key or field(name)}"
    return Finding(f"addons.{what}", verdict, text, hint, place, severity, name)
