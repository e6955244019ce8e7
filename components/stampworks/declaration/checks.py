"""Checks between fields.

They read plain data with all defaults, without the fields that are invalid by themselves: a missing field cannot be
judged, and gives no problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from stampworks import catalog
from stampworks.declaration.nodes import Path, spelled
from stampworks.declaration.schedulers import form_of
from stampworks.declaration.values import check_name, machine_hint, role_name
from stampworks.declaration.wording import did_you_mean, shown

Entry = Mapping[str, Any]
CIRCLE_MAX = 8
"""Maximum number of names of a circle in a message."""


class FieldFinding(NamedTuple):
    """A problem of a field, before its line in the file is known."""

    path: Path
    message: str
    hint: str


def check(data: Entry) -> Iterator[FieldFinding]:
    """Yield all problems between fields."""
    scheduler = data.get("scheduler", {})
    yield from _names(data, scheduler)
    yield from _tags(data.get("tags", ()))
    yield from _machines(data.get("cloud"), data.get("hosts", {}).get("provider"), data.get("pools", ()))
    yield from _elastic(data.get("pools", ()))
    yield from _idle(data.get("pools", ()), scheduler)
    yield from _fallbacks(data.get("pools", ()))
    yield from _uids(data.get("users", ()))
    yield from _groups(data.get("groups", ()), data.get("users", ()))
    yield from _homes(data.get("storage", ()))
    yield from _mounts(data.get("storage", ()))
    yield from _queues(data, scheduler)
    yield from _scheduling_only(data.get("pools", ()), scheduler)
    yield from _preemption(scheduler)
    yield from _accounts(data, scheduler)
    yield from _accounting(scheduler)
    yield from _login(scheduler)
    yield from _addons(scheduler)
    yield from _training(data.get("training", {}), data.get("storage"))
    yield from _twice(data)
    yield from _extras(data, data.get("extras", {}))


def _names(data: Entry, scheduler: Entry) -> Iterator[FieldFinding]:
    for kind, entries, path in (
        ("pool", data.get("pools", ()), ("pools",)),
        ("storage", data.get("storage", ()), ("storage",)),
        ("user", data.get("users", ()), ("users",)),
        ("group", data.get("groups", ()), ("groups",)),
        ("queue", scheduler.get("queues", ()), ("scheduler", "queues")),
        ("priority", scheduler.get("priorities", ()), ("scheduler", "priorities")),
        ("account", scheduler.get("accounts", ()), ("scheduler", "accounts")),
    ):
        for index, first in _repeated([entry.get("name") for entry in entries]):
            name = shown(entries[index]["name"])
            hint = f"{spelled((*path, first))} has this name already; give each its own"
            yield FieldFinding((*path, index, "name"), f"a second {kind} is called {name}", hint)


def _tags(tags: Sequence[Entry]) -> Iterator[FieldFinding]:
    """Refuse tags that differ only in case: roles of a cloud cannot have both."""
    names = [tag.get("name") for tag in tags]
    for index, first in _repeated([name and name.lower() for name in names]):
        hint = f"tags[{first}] has this name already, for names of tags differ by more than capitals; keep one"
        yield FieldFinding(("tags", index, "name"), f"a second tag is called {shown(names[index] or '')}", hint)


def _machines(cloud: str | None, provider: str | None, pools: Sequence[Entry]) -> Iterator[FieldFinding]:
    """Refuse machines of another cloud. Hosts may be machines of their provider, or simulated ones for tests."""
    known = {cloud, provider, catalog.SIMULATED} if cloud in catalog.MACHINES_EXIST else {cloud}
    for index, pool in enumerate(pools):
        name = pool.get("machine")
        if name is None:
            continue
        path = ("pools", index, "machine")
        row = catalog.machines().get(name) or catalog.machine_names().get(name)
        if row is None:
            yield FieldFinding(path, f"no machine is called {shown(name)}", machine_hint(name, cloud or ""))
        elif cloud is not None and row.cloud not in known:
            message = f"{name} is a machine of {row.cloud}, and the cluster is on {cloud}"
            yield FieldFinding(path, message, machine_hint(name, cloud or ""))


def _elastic(pools: Sequence[Entry]) -> Iterator[FieldFinding]:
    for index, pool in enumerate(pools):
        count, least = pool.get("count"), pool.get("count_min")
        if count is None or least is None:
            continue
        path: Path = ("pools", index, "count_min")
        if least > count:
            hint = f"write {count} or less, or a larger count"
            yield FieldFinding(path, f"{least} nodes always run by count_min, but the pool has only {count}", hint)
        elif least < count and pool.get("scheduling_only") is True:
            hint = "take it out, or take scheduling_only out of the pool"
            yield FieldFinding(path, "a pool for scheduling only has no nodes that run", hint)


def _idle(pools: Sequence[Entry], scheduler: Entry) -> Iterator[FieldFinding]:
    """Refuse a cluster whose pools have no permanent nodes. A pool with invalid fields does not count."""
    if pools and all(map(_is_static, pools)) and scheduler.get("idle_minutes") is not None:
        message = "it is for nodes that start with the work, and all nodes of this cluster always run"
        hint = "write how many nodes of a pool always run, as count_min: 0, or take it out"
        yield FieldFinding(("scheduler", "idle_minutes"), message, hint)


def _fallbacks(pools: Sequence[Entry]) -> Iterator[FieldFinding]:
    for index, pool in enumerate(pools):
        path: Path = ("pools", index, "fallbacks")
        fallbacks = pool.get("fallbacks", ())
        if fallbacks and _is_static(pool):
            message = "they are for nodes that start with the work, and all nodes of this pool always run"
            yield FieldFinding(path, message, "write how many of them always run, as count_min: 0, or take them out")
        yield from _bought(path, fallbacks)


def _is_static(pool: Entry) -> bool:
    """Whether all of its nodes are permanent, as far as the valid fields tell."""
    count = pool.get("count")
    return count is not None and "count_min" in pool and pool["count_min"] in (None, count)


def _bought(path: Path, fallbacks: Sequence[Entry]) -> Iterator[FieldFinding]:
    """Check that a reservation is named exactly for purchases of reserved capacity."""
    for index, each in enumerate(fallbacks):
        purchase, reservation = each.get("purchase"), each.get("reservation")
        if purchase is None or reservation is None:
            continue
        if purchase in ("reserved", "block") and not reservation:
            hint = "write its reservation, as the cloud calls it"
            yield FieldFinding((*path, index), f"the pool buys {purchase} capacity and names no reservation", hint)
        elif purchase not in ("reserved", "block") and reservation:
            hint = "write purchase: reserved or block, or take the reservation out"
            message = f"purchase: {purchase} uses no reservation"
            yield FieldFinding((*path, index, "reservation"), message, hint)


def _uids(users: Sequence[Entry]) -> Iterator[FieldFinding]:
    for index, first in _repeated([user.get("uid") for user in users]):
        message = f"a second user has the uid {users[index]['uid']}"
        yield FieldFinding(
            ("users", index, "uid"), message, f"users[{first}] has it already; their files would be shared"
        )


def _groups(groups: Sequence[Entry], users: Sequence[Entry]) -> Iterator[FieldFinding]:
    """Refuse groups with the name or number of a user's own group."""
    for index, first in _repeated([group.get("gid") for group in groups]):
        message = f"a second group has the gid {groups[index]['gid']}"
        hint = f"groups[{first}] has it already; their files would be shared"
        yield FieldFinding(("groups", index, "gid"), message, hint)
    for field, of_user, hint in (("name", "name", "give it another name"), ("gid", "uid", "take another number")):
        theirs = {user.get(of_user): f"users[{index}]" for index, user in enumerate(users)}
        for index, group in enumerate(groups):
            if (value := group.get(field)) is not None and value in theirs:
                message = f"{shown(str(value))} is the {field} of the own group of {theirs[value]}"
                yield FieldFinding(("groups", index, field), message, hint)
    known = _known_names(groups)
    for index, user in enumerate(users):
        yield from _references("group", user.get("groups", ()), known, ("users", index, "groups"))
        for item, first in _repeated(user.get("keys", ())):
            message, hint = "this key is there twice", f"users[{index}].keys[{first}] is the same; keep one"
            yield FieldFinding(("users", index, "keys", item), message, hint)


def _homes(storage: Sequence[Entry]) -> Iterator[FieldFinding]:
    chosen = [index for index, each in enumerate(storage) if each.get("homes") is True]
    for index in chosen[1:]:
        hint = f"storage[{chosen[0]}] has them already; keep one"
        yield FieldFinding(("storage", index, "homes"), "a second file system has homes: true", hint)


def _mounts(storage: Sequence[Entry]) -> Iterator[FieldFinding]:
    mounts = [entry.get("mount") for entry in storage]
    there = {mount: index for index, mount in reversed([*enumerate(mounts)])}
    for index, first in _repeated(mounts):
        yield FieldFinding(
            ("storage", index, "mount"), f"{mounts[index]} is mounted twice", f"storage[{first}] is there already"
        )
    for index, mount in enumerate(mounts):
        around = next((str(above) for above in PurePosixPath(mount or "").parents if str(above) in there), None)
        if around:
            hint = f"storage[{there[around]}] is mounted on {around}; mount one beside the other"
            yield FieldFinding(("storage", index, "mount"), f"{mount} lies inside another mount", hint)


def _queues(data: Entry, scheduler: Entry) -> Iterator[FieldFinding]:
    queues = scheduler.get("queues", ())
    pools, priorities = _known_names(data.get("pools")), _known_names(scheduler.get("priorities"))
    for index, queue in enumerate(queues):
        path: Path = ("scheduler", "queues", index)
        yield from _references("pool", queue.get("pools", ()), pools, (*path, "pools"))
        if priority := queue.get("priority"):
            yield from _reference("priority", priority, priorities, (*path, "priority"))
    yield from _default_queue(queues)


def _default_queue(queues: Sequence[Entry]) -> Iterator[FieldFinding]:
    defaults = [index for index, queue in enumerate(queues) if queue.get("default")]
    for index in defaults[1:]:
        path = ("scheduler", "queues", index, "default")
        yield FieldFinding(
            path, "a second queue is the default", f"scheduler.queues[{defaults[0]}] is it already; keep one"
        )
    if queues and not defaults and all("default" in queue for queue in queues):
        hint = "write default: true at the queue for jobs that name none"
        yield FieldFinding(("scheduler", "queues"), "no queue is the default", hint)


def _scheduling_only(pools: Sequence[Entry], scheduler: Entry) -> Iterator[FieldFinding]:
    """Keep jobs off simulated pools, unless Kubernetes has no others, which its status says."""
    unreal, queues = _unreal(pools), scheduler.get("queues", ())
    alone = bool(pools) and all(pool.get("scheduling_only") is True for pool in pools)
    pretended = alone and form_of(scheduler).simulates_all
    if alone and not pretended:
        hint = "take scheduling_only out of one pool"
        yield FieldFinding(("pools",), "every pool is for scheduling only: no node would run a job", hint)
    for index, queue in enumerate(queues):
        path: Path = ("scheduler", "queues", index)
        among = [name for name in queue.get("pools", ()) if name in unreal]
        if among and len(among) < len(queue["pools"]):
            hint = f"give {', '.join(among)} a queue of its own"
            yield FieldFinding((*path, "pools"), "a queue has pools for scheduling only, or pools that run jobs", hint)
        elif among and queue.get("default") is True and not pretended:
            hint = f"{', '.join(among)} runs no jobs; make another queue the default"
            yield FieldFinding((*path, "default"), "the default queue has pools for scheduling only", hint)


def _preemption(scheduler: Entry) -> Iterator[FieldFinding]:
    priorities = scheduler.get("priorities", ())
    known = _known_names(priorities)
    preempts: dict[str, set[str]] = {}
    place: dict[str, Path] = {}
    for index, entry in enumerate(priorities):
        path: Path = ("scheduler", "priorities", index, "preempts")
        name, others = entry.get("name"), list(entry.get("preempts", ()))
        yield from _references("priority", others, known, path)
        if name is None:
            continue
        if name in others:
            item = (*path, others.index(name))
            yield FieldFinding(
                item, "a priority cannot preempt itself", "name other priorities, whose jobs make room for it"
            )
        preempts[name], place[name] = {*others} - {name, None}, path
    for circle in _circles(preempts):
        message = " preempts ".join(circle if len(circle) <= CIRCLE_MAX else (*circle[:CIRCLE_MAX], "..."))
        yield FieldFinding(place[circle[0]], message, "of two priorities only one can preempt the other")


def _accounts(data: Entry, scheduler: Entry) -> Iterator[FieldFinding]:
    accounts = _known_names(scheduler.get("accounts"))
    for index, user in enumerate(data.get("users", ())):
        path = ("users", index, "accounts")
        yield from _references("account", user.get("accounts", ()), accounts, path)


def _accounting(scheduler: Entry) -> Iterator[FieldFinding]:
    if scheduler.get("accounting") is not False:
        return
    if scheduler.get("database") == "managed":
        hint = "write accounting: true in scheduler, or take the database out"
        yield FieldFinding(("scheduler", "database"), "a database is for the accounting, which is off", hint)
    if scheduler.get("accounts") and form_of(scheduler).accounts_need_accounting:
        hint = "write accounting: true in scheduler, or take the accounts out"
        yield FieldFinding(("scheduler", "accounts"), "accounts need accounting, which is off", hint)


def _login(scheduler: Entry) -> Iterator[FieldFinding]:
    if scheduler.get("login_nodes") and not form_of(scheduler).has_login_nodes:
        message = "login nodes are for Slurm: users reach Kubernetes from their own machines"
        yield FieldFinding(("scheduler", "login_nodes"), message, "take it out, or write kind: slurm")


def _addons(scheduler: Entry) -> Iterator[FieldFinding]:
    wanted = [name for name, value in scheduler.get("addons", {}).items() if value is True]
    for name in () if form_of(scheduler).has_addons else wanted:
        yield FieldFinding(
            ("scheduler", "addons", name), "Slurm has no add-ons", "take it out, or write kind: kubernetes"
        )


def _training(training: Entry, storage: Sequence[Entry] | None) -> Iterator[FieldFinding]:
    layout, tracker = training.get("layout"), training.get("tracker", {})
    if layout not in (None, "tp") and training.get("tensor_parallel", 1) > 1:
        hint = "write layout: tp, or take tensor_parallel out"
        yield FieldFinding(("training", "tensor_parallel"), f"it is of the layout tp, not of {layout}", hint)
    if tracker.get("kind") == "mlflow" and tracker.get("url") == "":
        hint = "write the url of its server, like http://10.0.0.5:5000"
        yield FieldFinding(("training", "tracker", "kind"), "mlflow needs the url of its server", hint)
    if tracker.get("kind") == "files" and tracker.get("url"):
        hint = "take the url out, or write kind: mlflow or kind: wandb"
        yield FieldFinding(
            ("training", "tracker", "url"), "kind: files writes into the run's folder and uses no server", hint
        )
    if storage is not None:
        yield from _groups_directory(training.get("checkpoints", {}).get("directory", ""), storage)


def _groups_directory(directory: str, storage: Sequence[Entry]) -> Iterator[FieldFinding]:
    """All nodes must see it."""
    mounts = [entry.get("mount") for entry in storage]
    above = {directory, *map(str, PurePosixPath(directory).parents)}
    if directory and None not in mounts and not above.intersection(mounts):
        there = f"mounted are {', '.join(map(str, mounts))}" if mounts else "declare a storage, which all nodes mount"
        path = ("training", "checkpoints", "directory")
        yield FieldFinding(path, f"{directory} is on no storage: each node would have a directory of its own", there)


def _twice(data: Entry) -> Iterator[FieldFinding]:
    """Refuse repeated values that name no other entry: the same mail address twice would be two resources with the same
    name."""
    yield from _references("address", data.get("budget", {}).get("notify", ()), None, ("budget", "notify"))
    for name in ("api_from", "admins"):
        yield from _references(name, data.get("scheduler", {}).get(name, ()), None, ("scheduler", name))
    for index, entry in enumerate(data.get("storage", ())):
        yield from _references("feature", entry.get("features", ()), None, ("storage", index, "features"))


def _extras(data: Entry, extras: Entry) -> Iterator[FieldFinding]:
    for kind, name_of in (("role", role_name), ("check", check_name)):
        paths = [entry.get("path") for entry in extras.get(f"{kind}s", ())]
        names = [name_of(path) if path else None for path in paths]
        for index, first in _repeated(names):
            message = f"a second {kind} is called {shown(names[index] or '')}"
            hint = f"extras.{kind}s[{first}] has this name already; rename one of the two"
            yield FieldFinding(("extras", f"{kind}s", index, "path"), message, hint)
    pools = _known_names(data.get("pools"))
    login = {"login"} if data.get("scheduler", {}).get("login_nodes", 1) else set()
    groups = None if pools is None else pools | {"head"} | login
    for index, role in enumerate(extras.get("roles", ())):
        path: Path = ("extras", "roles", index)
        yield from _references("group", role.get("groups", ()), groups, (*path, "groups"))
        yield from _nowhere(role.get("groups", ()), data, (*path, "groups"))
        yield from _variables(role, (*path, "variables"))
    for index, entry in enumerate(extras.get("checks", ())):
        path = ("extras", "checks", index, "pools")
        yield from _references("pool", entry.get("pools", ()), pools, path)
        yield from _nowhere(entry.get("pools", ()), data, path)


def _nowhere(names: Sequence[str | None], data: Entry, path: Path) -> Iterator[FieldFinding]:
    """Refuse pools whose nodes have no place."""
    unreal = _unreal(data.get("pools", ()))
    for index, name in enumerate(names):
        if name in unreal:
            hint = "take it out, or take scheduling_only out of the pool"
            yield FieldFinding((*path, index), f"pool {name} is for scheduling only: nothing runs there", hint)


def _unreal(pools: Sequence[Entry]) -> set[str]:
    return {pool["name"] for pool in pools if pool.get("scheduling_only") is True and "name" in pool}


def _variables(role: Entry, path: Path) -> Iterator[FieldFinding]:
    if not role.get("path"):
        return
    begin = f"{role_name(role['path'])}_"
    for name in role.get("variables", {}):
        if not (name.startswith(begin) and name.isidentifier() and name.isascii()):
            hint = f"begin it with {begin}, so that no other role has it; use letters, digits and '_' only"
            yield FieldFinding((*path, name), f"{shown(name)} is not a legal name of a variable of this role", hint)
    try:
        json.dumps(role.get("variables"), ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        yield FieldFinding(
            path, "a text in it has half of a character (a lone surrogate)", "write the character itself"
        )


def _known_names(entries: Sequence[Entry] | None) -> frozenset[str] | None:
    """Return the names of entries; None if some are unknown, so that any name may be valid."""
    if entries is None or not all("name" in entry for entry in entries):
        return None
    return frozenset(entry["name"] for entry in entries)


def _references(
    kind: str, names: Sequence[str | None], known: frozenset[str] | None, path: Path
) -> Iterator[FieldFinding]:
    for index, name in enumerate(names):
        if name is not None:
            yield from _reference(kind, name, known, (*path, index))
    for index, _ in _repeated(names):
        yield FieldFinding((*path, index), f"{shown(names[index] or '')} is named twice", "keep one")


def _reference(kind: str, name: str, known: frozenset[str] | None, path: Path) -> Iterator[FieldFinding]:
    """A name that no entry has."""
    if known is not None and name not in known:
        hint = did_you_mean(name, known) or f"no {kind} is declared"
        yield FieldFinding(path, f"no {kind} is called {shown(name)}", hint)


def _repeated(values: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield the positions of repeated values: the repetition and the first occurrence."""
    first: dict[Any, int] = {}
    for index, value in enumerate(values):
        if value is not None and first.setdefault(value, index) != index:
            yield index, first[value]


def _circles(preempts: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Ways from a priority back to itself, first in the alphabet first, both ends named; no name is in two of them."""
    while True:
        try:
            TopologicalSorter(preempts).prepare()
        except CycleError as error:
            *circle, _ = reversed(error.args[1])  # the error lists each name behind the names that it preempts
            begin = circle.index(min(circle))
            circle = circle[begin:] + circle[:begin]
            yield [*circle, circle[0]]
            preempts = {name: others for name, others in preempts.items() if name not in circle}
        else:
            return
