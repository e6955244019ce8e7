"""`stampworks lock`: look up published values once, so that every `up` uses the same: images of nodes, versions of a
managed Kubernetes' parts, and keys of users at URLs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stampworks.cli import accounts, exits, stacks
from stampworks.declaration import DeclarationError

if TYPE_CHECKING:
    from stampworks.catalog import VendorImage
    from stampworks.clouds.contract import CloudImage, Lookups
    from stampworks.declaration import DeclarationSource, KeyUrl, Lock, LockedImage, Problem
    from stampworks.plan import Group, Plan


def add_verbs(verbs: Any) -> None:
    """Add the verb `lock` and its options."""
    lock = verbs.add_parser(
        "lock",
        help="look up images of nodes, versions of a managed Kubernetes, and keys of users at URLs",
        allow_abbrev=False,
    )
    stacks.add_plan_options(lock)
    lock.add_argument("--json", action="store_true", help="print the results as JSON")
    lock.set_defaults(call=write_lock)


def write_lock(arguments: argparse.Namespace) -> int:
    """Return the exit code: fine even if nothing is newer. Write the lock only when all images exist and fit their
    machines, and all keys are valid."""
    from stampworks.cli import key_urls
    from stampworks.declaration import displayed, load_file, lock_file, lock_text
    from stampworks.planning import plan
    from stampworks.state.paths import write_whole

    declared = accounts.declared_file(arguments)
    hosts = _read(declared).hosts  # machines that `stampworks hosts lock` asked: a plan on hosts needs them
    source = load_file(declared, locked=False)
    source = replace(source, lock=replace(source.lock, hosts=hosts))
    planned, file = plan(source), lock_file(declared)
    users = _users(planned)
    if not users and not source.key_urls:
        raise exits.CliError(
            f"{displayed(declared)}: {planned.cloud} publishes no images to look up, and no user has keys at a URL",
            "it needs no lock",
        )
    before = _before(declared)
    if before.made_with:
        users = _kept(source, before, displayed(file))
    after = _image_lock(source, planned, users, before)
    after = replace(after, keys=key_urls.looked_up(source.key_urls), hosts=hosts)
    load_file(declared, lock=after).refuse_problems()
    if after != before or not file.exists():
        write_whole(file, lock_text(after))
    if arguments.json:
        print(json.dumps(_as_json(str(file), before, after), indent=2))
    else:
        print(_summary(displayed(file), before, after, users, source.key_urls))
    return exits.FINE


def _read(declared: Path) -> Lock:
    from stampworks.declaration import Lock, read_lock

    try:
        return read_lock(declared)
    except DeclarationError:  # an invalid lock is written again
        return Lock()


def _before(declared: Path) -> Lock:
    from stampworks.declaration import Lock

    before = _read(declared)
    return Lock() if before.is_example else before


def _kept(source: DeclarationSource, before: Lock, file: str) -> dict[str, list[Group]]:
    """Return no image users: the lock has the user's own images. Raise CliError if nothing else can be looked up."""
    from stampworks.planning.build.launching import MAKE_IMAGE

    if not source.key_urls:
        what = f"its images were made with release {before.made_with}, and published ones would replace them"
        hint = f"{MAKE_IMAGE}; or delete the file to look up published ones"
        raise exits.CliError(f"{file}: {what} on every node", hint)
    return {}


def _image_lock(source: DeclarationSource, plan: Plan, users: Mapping[str, list[Group]], before: Lock) -> Lock:
    from stampworks.declaration import Lock, LockedImage

    if before.made_with:
        return before
    if not users:
        return Lock()
    found, parts = _looked_up(source, plan, users)
    images = {parameter: LockedImage(one.id, one.name, one.created) for parameter, one in found.items()}
    return Lock(plan.region, images, parts=parts)


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
    """Return the present image of each parameter, and the versions of parts by their names in a lock.

    Raise accounts.AccountUnansweredError, or DeclarationError with all problems.
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
    """Return the version that the cloud chooses by default, under the lock's name of the part."""
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
    from stampworks.planning.build.launching import vendor_image

    id_ = lookups.images.published(api, parameter)
    if vendor := vendor_image(plan, groups[0]):
        newest = lookups.images.described(api, [id_]).get(id_) if id_ else None
        return _of_vendor(lookups, api, source, plan, groups, vendor, newest)
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


def _of_vendor(
    lookups: Lookups[object],
    api: object,
    source: DeclarationSource,
    plan: Plan,
    groups: list[Group],
    vendor: VendorImage,
    newest: CloudImage | None,
) -> tuple[CloudImage | None, list[Problem]]:
    """Return the vendor's image of the release: the newest one, or an older one by its name."""
    image = newest if newest and newest.name == vendor.image else lookups.images.named(api, vendor.owner, vendor.image)
    if image is None:
        newer = f"; the newest there is {newest.name!r}" if newest else ""
        named = f"{vendor.image!r} of {vendor.owner}, whose parts release {plan.release.name} lists"
        what = f"{plan.region} has no image {named}"
        hint = "take another release or region, or lock an image of your own"
        return None, [source.problem("release", f"{what}{newer}", hint)]
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
    keys = [
        {"url": each, "before": list(before.keys.get(each, ())), "after": list(after.keys.get(each, ()))}
        for each in sorted({*before.keys, *after.keys})
    ]
    changed = before != after
    return {"file": file, "region": after.region, "changed": changed, "images": changes, "parts": parts, "keys": keys}


def _summary(file: str, before: Lock, after: Lock, users: Mapping[str, list[Group]], key_urls: Sequence[KeyUrl]) -> str:
    if before == after:
        lines = [f"{file}: nothing is newer"]
    elif not after.region:
        lines = [f"{file}: looked up"]
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
    return "\n".join([*lines, *_keys_told(before, after, key_urls)])


def _keys_told(before: Lock, after: Lock, key_urls: Sequence[KeyUrl]) -> Iterator[str]:
    """List added and removed keys by their fingerprints."""
    from stampworks.planning.changes.access import exchanged

    for url in sorted({*before.keys, *after.keys}):
        users = ", ".join(dict.fromkeys(each.user for each in key_urls if each.url == url))
        old, new = before.keys.get(url, ()), after.keys.get(url, ())
        count = f"{len(new)} key{'' if len(new) == 1 else 's'}"
        yield f"  {url}, {f'{count} of {users}' if users else 'no longer declared'}"
        yield from (f"    {each}" for each in exchanged(old, new))


def _named(image: LockedImage | None) -> str:
    return f"{image.id} ({image.name}, of {image.created})" if image else "none"
