"""`stampworks lock`: looks up once what a stack's cloud publishes, so that every `up` takes the same: the images that
nodes boot, and the versions of what a Kubernetes of the cloud is made of."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stampworks.cli import accounts, exits, stacks
from stampworks.declaration import DeclarationError

if TYPE_CHECKING:
    from stampworks.clouds.contract import CloudImage, Lookups
    from stampworks.declaration import DeclarationSource, Lock, LockedImage, Problem
    from stampworks.plan import Group, Plan


def add_verbs(verbs: Any) -> None:
    lock = verbs.add_parser(
        "lock",
        help="look up the images of a stack's nodes, and the versions of its Kubernetes",
        allow_abbrev=False,
    )
    stacks.add_plan_options(lock)
    lock.add_argument("--json", action="store_true", help="print the results as JSON")
    lock.set_defaults(call=write_lock)


def write_lock(arguments: argparse.Namespace) -> int:
    """Fine also when nothing is newer; writes nothing unless every image is there and fits its machines."""
    from stampworks.declaration import Lock, LockedImage, displayed, load_file, lock_file, lock_text, read_lock
    from stampworks.planning import plan
    from stampworks.planning.build.launching import MAKE_IMAGE
    from stampworks.state.paths import write_whole

    declared = accounts.declared_file(arguments)
    source = load_file(declared, locked=False)
    planned, file = plan(source), lock_file(declared)
    users = _users(planned)
    if not users:
        raise exits.CliError(
            f"{displayed(declared)}: {planned.cloud} publishes no images to look up", "it needs no lock"
        )
    try:
        before = read_lock(declared)
    except DeclarationError:  # whatever it says, it is written anew
        before = Lock()
    if before.made_with:
        what = f"its images were made with release {before.made_with}, and published ones would replace them"
        hint = f"{MAKE_IMAGE}; or delete the file to look up published ones"
        raise exits.CliError(f"{displayed(file)}: {what} on every node", hint)
    found, parts = _looked_up(source, planned, users)
    images = {parameter: LockedImage(one.id, one.name, one.created) for parameter, one in found.items()}
    after = Lock(planned.region, images, parts=parts)
    if after != before or not file.exists():
        write_whole(file, lock_text(after))
    if arguments.json:
        print(json.dumps(_as_json(str(file), before, after), indent=2))
    else:
        print(_told(displayed(file), before, after, users))
    return exits.FINE


def _users(plan: Plan) -> dict[str, list[Group]]:
    """Return the groups that boot each parameter's image."""
    users: dict[str, list[Group]] = {}
    for group in plan.groups:
        if group.launch and group.launch.published_image:
            users.setdefault(group.launch.published_image, []).append(group)
    return users


def _looked_up(
    source: DeclarationSource, plan: Plan, users: Mapping[str, list[Group]]
) -> tuple[dict[str, CloudImage], dict[str, str]]:
    """Return the images that the parameters name now, and the versions of parts by their names in a lock.

    Raises accounts.AccountUnansweredError, or DeclarationError with all that is wrong about it.
    """
    from stampworks.clouds.errors import UnansweredError

    lookups: Lookups[object] = accounts.asking(plan.cloud, lambda cloud: cloud.lookups)
    api, problems = lookups.session.Api(plan.region), list[Any]()
    found, versions = dict[str, Any](), dict[str, str]()
    asked = "the image of nodes"
    try:
        for parameter, groups in users.items():
            image, wrong = _newest(lookups, api, source, plan, parameter, groups)
            problems += wrong
            found |= {parameter: image} if image else {}
        asked = "the versions of its Kubernetes"
        for part in plan.scheduler.parts:
            version, wrong = _default(lookups, api, source, plan, part.name)
            problems += wrong
            versions |= version
    except UnansweredError as error:
        what = f"{asked} in {plan.region} was not looked up: {error}"
        raise accounts.AccountUnansweredError(source.problem("region", what, error.hint)) from None
    if problems:
        raise DeclarationError(problems)
    return found, versions


def _default(
    lookups: Lookups[object], api: object, source: DeclarationSource, plan: Plan, part: str
) -> tuple[dict[str, str], list[Problem]]:
    """The version that the cloud takes where nobody names one, by what a lock calls the part."""
    from stampworks.planning.build.launching import locked, minor

    kubernetes = minor(plan.release)
    version = lookups.parts.default_version(api, part, kubernetes)
    if version is None:
        what = f"{plan.region} has no {part} for Kubernetes {kubernetes}"
        hint = "take another region, or a release of another Kubernetes"
        return {}, [source.problem("region", what, hint)]
    return {locked(part, plan.release): version}, []


def _newest(
    lookups: Lookups[object], api: object, source: DeclarationSource, plan: Plan, parameter: str, groups: list[Group]
) -> tuple[CloudImage | None, list[Problem]]:
    """Return the image that a parameter names, and why these groups cannot boot it."""
    id_ = lookups.images.published(api, parameter)
    if id_ is None:
        what = (
            f"{plan.region} has no public parameter {parameter}, which names the newest image of {plan.release.suite}"
        )
        return None, [source.problem("region", what, "take a region in which it is published")]
    image = lookups.images.described(api, [id_]).get(id_)
    if image is None:
        what = f"{parameter} names {id_}, and {plan.region} has no such image for this account"
        return None, [source.problem("region", what, "ask its publisher, or look again when it names another one")]
    return image, [source.problem(*each) for each in _unfit(image, plan, groups)]


def _unfit(image: CloudImage, plan: Plan, groups: list[Group]) -> Iterator[tuple[str, str, str]]:
    from stampworks import catalog
    from stampworks.plan import declared_pools
    from stampworks.state.facts import today

    named = f"{image.id} ({image.name}, of {image.created})"
    again = "look again when its publisher names another one"
    if image.state != "available":
        yield "region", f"{named} is {image.state} in {plan.region}, and no node boots it", again
    if image.deprecated and image.deprecated <= today():
        yield "region", f"{named} is deprecated since {image.deprecated}, and may be gone when a node starts", again
    for group in groups:
        needed = catalog.architecture(catalog.machines()[group.machine.name])
        if image.architecture != needed:
            what = f"{named} is for {image.architecture}, and {group.machine.name} of {group.name} is {needed}"
            pools = declared_pools(plan.groups)
            where = f"pools[{pools.index(group)}].machine" if group in pools else "region"
            yield where, what, "ask its publisher: the parameter is for another architecture"


def _as_json(file: str, before: Lock, after: Lock) -> dict[str, Any]:
    def told(image: LockedImage | None) -> dict[str, str] | None:
        return asdict(image) if image else None

    parameters = sorted({*before.images, *after.images})
    changes = [
        {"parameter": each, "before": told(before.images.get(each)), "after": told(after.images.get(each))}
        for each in parameters
    ]
    parts = [
        {"part": each, "before": before.parts.get(each), "after": after.parts.get(each)}
        for each in sorted({*before.parts, *after.parts})
    ]
    return {"file": file, "region": after.region, "changed": before != after, "images": changes, "parts": parts}


def _told(file: str, before: Lock, after: Lock, users: Mapping[str, list[Group]]) -> str:
    if before == after:
        lines = [f"{file}: nothing is newer"]
    elif before.region not in ("", after.region):
        lines = [f"{file}: looked up in {after.region}, before in {before.region}"]
    else:
        lines = [f"{file}: looked up in {after.region}"]
    for parameter in sorted({*before.images, *after.images}):
        old, new = before.images.get(parameter), after.images.get(parameter)
        booted = f", booted by {', '.join(group.name for group in users[parameter])}" if parameter in users else ""
        lines.append(f"  {parameter}{booted}")
        lines += [f"    {_named(old)}"] if old == new else [f"    {_named(old)} -> {_named(new)}"]
    for part in sorted({*before.parts, *after.parts}):
        was, is_ = (each.parts.get(part, "none") for each in (before, after))
        lines.append(f"  {part}: {was}" if was == is_ else f"  {part}: {was} -> {is_}")
    return "\n".join(lines)


def _named(image: LockedImage | None) -> str:
    return f"{image.id} ({image.name}, of {image.created})" if image else "none"
