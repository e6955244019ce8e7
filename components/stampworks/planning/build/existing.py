"""Parts of an account that exist already: choose those of a cluster, and refuse those that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network

from stampworks.declaration import Declaration
from stampworks.declaration import ExistingNetwork as Declared
from stampworks.declaration import Storage as DeclaredStorage
from stampworks.declaration.values import DIRECTORY
from stampworks.declaration.wording import alternatives, shown
from stampworks.plan import DATABASE, AccountTerms, ExistingNetwork, ExistingSubnet, Subnet
from stampworks.planning.build import hosts
from stampworks.planning.build.notes import Notes
from stampworks.planning.clouds.choices import Choices, Existing, Subnets

WHERE = "network.existing"


def network(
    declaration: Declaration, subnets_: Sequence[Subnet], choices: Choices, notes: Notes
) -> ExistingNetwork | None:
    """Return the existing network of a cluster, with its chosen subnets; None for a new network, or for a cloud without
    support."""
    declared = declaration.network.existing
    if not declared.vpc:
        if declared.given():
            hint = "write vpc beside it, or take existing out"
            notes.problem(WHERE, "which network it is about is not written", hint)
        return None
    if choices.existing is None or choices.subnets is None:
        problem = f"clusters on {declaration.cloud} use no network that exists already"
        notes.problem(WHERE, problem, "take it out")
        return None
    if choices.runs(declaration.scheduler.kind):
        problem = (
            f"{choices.managed.what if choices.managed else 'a managed Kubernetes'} gets a network of its own here"
        )
        notes.problem(WHERE, problem, "take it out, or write scheduler: {kind: slurm}")
    _check_forms(declared, choices, notes)
    _check_groups(declared, declaration, notes)
    groups = declared.security_groups
    zone = declaration.pools[0].zone
    chosen = ((each.name, _fitting(declared, each.name, zone)[0]) for each in subnets_)
    used = (ExistingSubnet(name, declared.subnets[at].zone, declared.subnets[at].id, at) for name, at in chosen)
    notes.reason(
        WHERE, "it belongs to the account's owners: the cluster uses it, and changes and deletes nothing of it"
    )
    return ExistingNetwork(declared.vpc, tuple(used), groups.nodes, groups.storage)


def subnets(
    declaration: Declaration, needs: Sequence[tuple[str, int]], rules: Subnets, notes: Notes
) -> tuple[Subnet, ...]:
    """Return the declared subnets of the cluster's zone, with the addresses that it needs."""
    zone = declaration.pools[0].zone
    if not zone:
        zones = sorted({each.zone for each in declaration.network.existing.subnets})
        problem = "an existing subnet is in one zone, and no zone is written"
        notes.problem("pools[0].zone", problem, f"write zone: {zones[0]}" if zones else "write the zone of the subnets")
        return ()
    managed = [(DATABASE, 1)] if declaration.scheduler.database == "managed" else []
    return tuple(_chosen(declaration, [*needs, *managed], zone, rules, notes))


def _chosen(
    declaration: Declaration, needs: Sequence[tuple[str, int]], zone: str, rules: Subnets, notes: Notes
) -> Iterator[Subnet]:
    declared = declaration.network.existing.subnets
    for name, need in needs:
        beside = name == DATABASE
        fits = _fitting(declaration.network.existing, name, zone)
        where = f"another zone than {zone}" if beside else zone
        if not fits:
            entry = f"{{purpose: {name}, zone: {'ZONE' if beside else zone}, id: ..., cidr: ...}}"
            hint = f"write one with its zone, as - {entry}"
            notes.problem(f"{WHERE}.subnets", f"there is no subnet for {name} in {where}", hint)
            continue
        for index in fits[1:]:
            problem = f"{declared[index].id} is a second subnet for {name} in {where}"
            notes.problem(f"{WHERE}.subnets[{index}]", problem, f"keep one, as {declared[fits[0]].id}")
        chosen = declared[fits[0]]
        made = Subnet(name, chosen.cidr, rules.reserved, need, public=False)
        room = made.size - made.reserved
        if need > room:
            problem = f"{chosen.id} has {room} addresses, and {name} needs {need}; {rules.reserved_why}"
            notes.problem(f"{WHERE}.subnets[{fits[0]}].cidr", problem, "take a larger subnet, or take nodes out")
        yield made


def _fitting(declared: Declared, name: str, zone: str) -> list[int]:
    """Return the indexes of declared subnets for a subnet of the plan. A database is in another zone than the nodes."""
    beside = name == DATABASE
    return [
        index for index, each in enumerate(declared.subnets) if each.purpose == name and (each.zone != zone) is beside
    ]


def _check_forms(declared: Declared, choices: Choices, notes: Notes) -> None:
    """Refuse ids that the cloud does not give, and ranges outside of the network."""
    forms = choices.existing
    if forms is None:
        return
    groups = declared.security_groups
    named = [("vpc", declared.vpc, forms.vpc), *_subnet_problems(declared, forms.subnet)]
    named += [(f"security_groups.{name}", getattr(groups, name), forms.security_group) for name in ("nodes", "storage")]
    for path, id_, form in named:
        if id_ and not re.fullmatch(form, id_):
            problem = f"{shown(id_)} is no id of {form.partition('-')[0]}-..."
            notes.problem(f"{WHERE}.{path}", problem, forms.hint.format(form.partition("-")[0]))


def _subnet_problems(declared: Declared, form: str) -> Iterator[tuple[str, str, str]]:
    for index, each in enumerate(declared.subnets):
        yield f"subnets[{index}].id", each.id, form


def _check_groups(declared: Declared, declaration: Declaration, notes: Notes) -> None:
    groups, where = declared.security_groups, f"{WHERE}.security_groups"
    if bool(groups.nodes) != bool(groups.storage):
        there, lacks = ("nodes", "storage") if groups.nodes else ("storage", "nodes")
        problem = f"there is a group of {there}, and none of {lacks}: one has rules about the other"
        notes.problem(where, problem, f"write {lacks} beside it, which may be the same group")
    elif not groups.nodes and declaration.network.egress == "none":
        problem = "the endpoints of services belong to the network, and let in groups that their owners know"
        notes.problem(WHERE, problem, "write security_groups: {nodes: ..., storage: ...}, which the endpoints let in")


def check_ranges(declaration: Declaration, cidr: str, notes: Notes) -> None:
    """Refuse subnets outside of the network's range."""
    whole = IPv4Network(cidr)
    for index, each in enumerate(declaration.network.existing.subnets):
        if not IPv4Network(each.cidr).subnet_of(whole):
            problem = f"{each.cidr} is not in {cidr}, which network.cidr says the whole network has"
            notes.problem(
                f"{WHERE}.subnets[{index}].cidr", problem, "write the range of the network, and its part here"
            )


def terms(declaration: Declaration, choices: Choices, notes: Notes) -> AccountTerms:
    """Return the requirements of the account's owners; refuse those that the cloud cannot meet."""
    declared = declaration.account
    profiles = declared.instance_profiles
    found = AccountTerms(declared.key, declared.permissions_boundary, declared.role_path, profiles.head, profiles.nodes)
    forms = choices.existing
    if found == AccountTerms():
        return found
    if forms is None:
        notes.problem("account", f"nothing that is made on {declaration.cloud} has terms of an account", "take it out")
        return found
    region = declaration.region
    if found.key and not re.fullmatch(forms.key(region), found.key):
        hint = f"write the whole ARN of a key of {region}: a key encrypts what is in its own region"
        notes.problem("account.key", f"{shown(found.key)} is not a key of {region}", hint)
    if found.permissions_boundary and not re.fullmatch(forms.boundary, found.permissions_boundary):
        problem = f"{shown(found.permissions_boundary)} is not a policy"
        notes.problem("account.permissions_boundary", problem, "write the whole ARN of the policy")
    _check_profiles(found, declaration, choices, forms, notes)
    for index, storage in enumerate(declaration.storage):
        if found.key and not storage.existing and storage.tier.startswith(forms.without_key):
            problem = f"{storage.tier} is encrypted with a key of the cloud, and takes no other"
            notes.problem(f"storage[{index}].tier", problem, "take a persistent tier, or take account.key out")
    return found


def _check_profiles(
    found: AccountTerms, declaration: Declaration, choices: Choices, forms: Existing, notes: Notes
) -> None:
    for name, profile in (("head", found.head_profile), ("nodes", found.nodes_profile)):
        where = f"account.instance_profiles.{name}"
        if profile and not re.fullmatch(forms.profile, profile):
            notes.problem(where, f"{shown(profile)} is no name of an instance profile", "write its name, and no ARN")
        elif profile and choices.runs(declaration.scheduler.kind):
            problem = "a managed Kubernetes takes roles, and no instance profiles"
            notes.problem(where, problem, "take it out, or write permissions_boundary and role_path")
        elif profile and any(pool.count_min not in (None, pool.count) for pool in declaration.pools):
            problem = "the head starts elastic nodes with rights that the cluster makes for them"
            notes.problem(where, problem, "take it out, or take count_min out of the pools")


def check_storage(
    path: str, storage: DeclaredStorage, declaration: Declaration, choices: Choices, notes: Notes
) -> None:
    """Refuse an existing file system that the cluster cannot use, and options that would change it."""
    if not storage.existing or (storage.kind == DIRECTORY and hosts.listed(declaration)):
        return
    forms = choices.existing.storage if choices.existing else {}
    if (form := forms.get(storage.kind)) is None:
        problem = f"clusters on {declaration.cloud} use no {storage.kind} that exists already"
        kinds = f", or a storage of kind {alternatives(sorted(forms))}" if forms else ""
        notes.problem(f"{path}.existing", problem, f"take it out{kinds}")
        return
    if not re.fullmatch(form, storage.existing):
        problem = f"the cloud calls no {storage.kind} {shown(storage.existing)}"
        example = (
            "like fs-0123456789abcdef0" if form.startswith("fs-") else "in small letters, digits, dots and hyphens"
        )
        notes.problem(f"{path}.existing", problem, f"write what the cloud calls it, {example}")
    for name in ("repository", "expire_days", "expire_folder"):
        if getattr(storage, name):
            problem = f"{storage.existing} belongs to the account's owners, and nothing of it is changed"
            notes.problem(f"{path}.{name}", problem, "take it out, and ask its owners for it")
    if storage.kind != "s3" and not declaration.network.existing.vpc:
        problem = f"{storage.existing} is in a network that exists already, and the cluster makes one of its own"
        notes.problem(f"{path}.existing", problem, "write network.existing, with the network that it is in")
