"""Checks between the fields of a directory, and with users, groups and accounts."""

from __future__ import annotations

from collections.abc import Iterator

from stampworks.declaration.checks import Entry, FieldFinding
from stampworks.declaration.wording import did_you_mean, shown

OF_KIND = ("uri", "base", "ca", "bind", "access_groups", "account", "id_min", "id_max")
NEEDED = {
    "uri": "write where its server is, like ldaps://ldap.example.org",
    "base": "write the entry below which people and groups are, like dc=example,dc=org",
    "id_min": "write the smallest uid and gid of its people and groups",
    "id_max": "write the largest uid and gid of its people and groups",
}


def check_directory(data: Entry) -> Iterator[FieldFinding]:
    """Yield the problems of the directory's fields, alone and beside users, groups and accounts."""
    directory = data.get("directory", {})
    if directory.get("kind") == "none":
        for field in OF_KIND:
            if directory.get(field):
                yield _finding(field, "nothing asks a directory of kind none", "write kind: ldap, or take it out")
        return
    if directory.get("kind") != "ldap":
        return
    for field, hint in NEEDED.items():
        if field in directory and directory[field] in ("", None):
            yield _finding(field, "is missing", hint)
    if data.get("scheduler", {}).get("kind") == "kubernetes":
        what = "people of a directory log in to nodes, and pods do not have the accounts of their node"
        yield _finding("kind", what, "take the directory out: who may use a Kubernetes, its administrators say")
        return
    yield from _tls(directory)
    yield from _ids(directory, data)
    yield from _account(directory, data)
    yield from _later(directory, data)


def _finding(field: str, message: str, hint: str) -> FieldFinding:
    return FieldFinding(("directory", field), message, hint)


def _tls(directory: Entry) -> Iterator[FieldFinding]:
    if directory.get("tls") != "off":
        return
    if str(directory.get("uri", "")).startswith("ldaps:"):
        yield _finding("tls", "ldaps:// is TLS, which nothing turns off", "take tls out, or write ldap://")
    elif directory.get("bind"):
        what = "the password of bind would go to the server in the clear"
        yield _finding("tls", what, "take tls out: with ldap:// a connection begins TLS by itself; or take bind out")


def _ids(directory: Entry, data: Entry) -> Iterator[FieldFinding]:
    """Refuse numbers that two people could have: each would own the files of the other."""
    first, last = directory.get("id_min"), directory.get("id_max")
    if not first or not last:
        return
    if first > last:
        yield _finding("id_max", f"{last} is smaller than id_min, {first}", "exchange the two")
    for kind, field in (("users", "uid"), ("groups", "gid")):
        for index, each in enumerate(data.get(kind, ())):
            if first <= each.get(field, 0) <= last:
                what = f"{each[field]} is in the range of the directory, {first} to {last}: another user may have it"
                hint = "take a number outside, a smaller range, or take out whom the directory has"
                yield FieldFinding((kind, index, field), what, hint)


def _account(directory: Entry, data: Entry) -> Iterator[FieldFinding]:
    if "account" not in directory or "accounts" not in data.get("scheduler", {}):
        return
    account, names = directory["account"], [each.get("name") for each in data["scheduler"]["accounts"]]
    if account is None and names:
        what = "Slurm runs jobs only of people with an account, and people of the directory have none"
        yield _finding("account", what, "write the account that their jobs are charged to, and access_groups")
    elif account is not None and None not in names and account not in names:
        hint = did_you_mean(account, names) if names else "declare it in scheduler.accounts"
        yield _finding("account", f"no account is called {shown(account)}", hint)
    elif account is not None and directory.get("access_groups") == ():
        what = "no rule assigns its jobs: a directory is never listed as a whole"
        yield _finding("account", what, "write access_groups, whose members get the account")


def _later(directory: Entry, data: Entry) -> Iterator[FieldFinding]:
    """Nodes that start with the work configure themselves, and nothing gives them the password."""
    elastic = any(
        pool.get("count_min") is not None and pool.get("count_min") != pool.get("count")
        for pool in data.get("pools", ())
    )
    if directory.get("bind") and elastic:
        what = "nodes that start with the work get no password from anywhere"
        yield _finding("bind", what, "have the directory answer without one, or take count_min out of all pools")
