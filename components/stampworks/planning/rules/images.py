"""Images that nodes boot, and versions that were looked up."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stampworks import catalog
from stampworks.declaration import MADE_UP
from stampworks.declaration.wording import alternatives
from stampworks.plan import Plan
from stampworks.planning.build.hardware import KERNEL, SLURM
from stampworks.planning.build.launching import MAKE_IMAGE, elsewhere, minor
from stampworks.planning.rules.findings import Facts, Finding
from stampworks.planning.rules.reading import UnknownFact, judged_groups, known

LOCKED, PREPARED, PARTS, EXAMPLE = OF_LOCK = ("image.locked", "image.prepared", "kubernetes.locked", "lock.example")
"""Ids of findings about looked-up values. A rehearsal boots nothing, and continues without them."""
LOCK = "`stampworks lock -s STACK` looks it up, and keeps it beside the stack's file"
OF_RELEASE = {KERNEL: "a kernel", SLURM: "a Slurm"}
"""Parts of a release that only an image contains, by the role that brings them: the kernel is booted, Slurm is
built."""
_NONE = ("", MADE_UP)
"""Values in place of an image that was not looked up."""


def stops(finding: Finding) -> bool:
    """Whether an `up` refuses to begin. An example lock suffices for a plan, but its images cannot boot."""
    return finding.outcome == "fail" or finding.id == EXAMPLE


def images(plan: Plan, facts: Facts, today: str | None) -> Iterator[Finding]:
    """The locked image still exists in the region."""
    groups = [group for _, group in judged_groups(plan, facts) if group.launch and group.launch.image not in _NONE]
    for id_ in dict.fromkeys(group.launch.image for group in groups if group.launch):
        users = [group for group in groups if group.launch and group.launch.image == id_]
        named = f"{id_}, which {', '.join(group.name for group in users)} {'boots' if len(users) == 1 else 'boot'}"
        try:
            found = {one.id: one for one in known(facts, "images")}
            newest = {one.parameter: one.image for one in known(facts, "newest")}
        except UnknownFact as unread:
            text = f"whether {plan.region} has {named}: {unread}"
            yield Finding("image.there", "unknown", text, unread.hint, "region", subject=id_)
            continue
        own = any(group.launch.prepared for group in users if group.launch)
        hint = MAKE_IMAGE if own else "`stampworks lock -s STACK` looks up the newest one"
        one, later = found.get(id_), {newest.get(each.launch.published_image, "") for each in users if each.launch}
        if one is None or one.state != "available":
            state = "is gone" if one is None else f"is {one.state}"
            text = f"{named}, {state} in {plan.region}: no node starts any more"
            yield Finding("image.there", "fail", text, hint, "region", subject=id_)
        elif one.deprecated and today and one.deprecated <= today:
            text = f"{named}, is deprecated since {one.deprecated}, and may be removed without notice"
            yield Finding("image.there", "fail", text, hint, "region", "warning", id_)
        else:
            newer = "" if own or later == {id_} else "; there is a newer one"
            yield Finding("image.there", "pass", f"{named}, is there{newer}", "", "region", subject=id_)


def lookups(plan: Plan) -> Iterator[Finding]:
    """The lock holds the images that nodes boot, and these images contain everything that nodes cannot install."""
    launches = [group.launch for group in plan.groups if group.launch]
    if unlocked := [group.name for group in plan.groups if group.launch and not group.launch.image]:
        whose = "its nodes" if len(unlocked) == len(launches) else f"nodes of {', '.join(unlocked)}"
        what = f"the image of {whose} in {plan.region} is not locked, and the newest one changes by itself"
        own = any(each.prepared for each in launches) and not plan.managed
        yield Finding(LOCKED, "fail", what, MAKE_IMAGE if own else LOCK, "region")
    if unlocked := [each.name for each in plan.scheduler.parts if not each.version]:
        what = f"the versions of {', '.join(unlocked)} for Kubernetes {minor(plan.release)} are not locked"
        yield Finding(PARTS, "fail", f"{what}, and the cloud's own choice changes by itself", LOCK, "region")
    made_up = [group.name for group in plan.groups if group.launch and group.launch.image == MADE_UP]
    made_up += [each.name for each in plan.scheduler.parts if each.version == MADE_UP]
    if made_up:
        what = f"the lock is an example: nothing was looked up for {', '.join(made_up)}, and no `up` begins with it"
        yield Finding(EXAMPLE, "fail", what, LOCK, "region", "warning")
    if all(each.prepared for each in launches):
        return
    if plan.network.egress == "none":
        what = "nodes have no way to the internet and boot the distribution's image, so that they can install nothing"
        hint = "write egress: nat" if _of_vendor(plan) else f"write egress: nat, or {MAKE_IMAGE}"
        yield Finding(PREPARED, "fail", what, hint, "network.egress")
    elif brought := [what for role, what in OF_RELEASE.items() if _needs_image(plan, role)]:
        what = f"release {plan.release.name} has {brought[0]} of its own, and nodes boot the distribution's image"
        yield Finding(PREPARED, "fail", what, MAKE_IMAGE, "release")
    elif unknown := [each.name for each, _ in elsewhere(plan.release)]:
        what = f"nodes boot the distribution's image, which has no repository with the packages of {', '.join(unknown)}"
        yield Finding(
            PREPARED, "fail", what, _with_packages(plan, unknown) if _of_vendor(plan) else MAKE_IMAGE, "release"
        )


def _of_vendor(plan: Plan) -> bool:
    """Whether the release uses parts of a vendor's image, so that no other image of it is built."""
    return plan.cloud in catalog.releases()[plan.release.name].vendor_images


def _needs_image(plan: Plan, role: str) -> bool:
    """Whether only an image contains a role's software. Without an image, each node builds its Slurm at its first
    boot."""
    return any(role in group.hardware for group in plan.groups) and not (role == SLURM and _of_vendor(plan))


def _with_packages(plan: Plan, clients: Collection[str]) -> str:
    """Name releases with a vendor's image whose distribution has these clients."""
    fit = [
        row.name
        for row in catalog.releases().values()
        if plan.cloud in row.vendor_images
        and all(row.clients[each].packages and not row.clients[each].repository for each in clients)
    ]
    return f"write release: {alternatives(fit)}, whose distribution has them"
