"""Brings accounts, users and priorities in slurmdbd to what is declared."""

from __future__ import annotations

import grp
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering, run

DOCUMENTATION = """
module: slurm_accounting
short_description: Declare clusters, accounts, users and priorities of Slurm
description:
  - Accounts and priorities that are declared no longer are removed; slurmdbd refuses while jobs of theirs are running.
options:
  cluster: {description: Name of the cluster., type: str, required: true}
  priorities:
    description: QOS.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Its name., type: str, required: true}
      weight: {description: Its part of a job's priority., type: int, required: true}
      preempts: {description: QOS whose jobs it may preempt., type: list, elements: str, default: []}
  preempt_mode: {description: What happens to a preempted job., type: str, default: requeue}
  accounts:
    description: Accounts.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Its name., type: str, required: true}
      users: {description: Its users., type: list, elements: str, default: []}
      share: {description: Its share of the cluster., type: int, required: true}
      accelerators_max: {description: How many accelerators it may hold; 0 for all., type: int, default: 0}
  members:
    description: Groups, by account, whose members are users of the account, too.
    type: dict
    default: {}
  default_accounts:
    description: The account of a user's jobs that name none, by user.
    type: dict
    default: {}
"""

KEPT_QOS = "normal"
"""slurmdbd makes it by itself and gives it to everybody: it cannot go."""
KEPT_ACCOUNT = "root"
PATIENCE_S = 30
Rows = dict[str, dict[str, str]]


def work(
    check: bool,
    cluster: str,
    priorities: Sequence[Mapping[str, Any]],
    preempt_mode: str,
    accounts: Sequence[Mapping[str, Any]],
    default_accounts: Mapping[str, str],
    members: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    commands = []
    accounts = [with_members(each, (members or {}).get(each["name"], ())) for each in accounts]
    # a check does not wait for a slurmdbd that is down
    if cluster not in table("cluster", "cluster", limit_s=0 if check else PATIENCE_S):
        commands.append(["add", "cluster", cluster])
    commands += qos_commands(priorities, preempt_mode, table("qos", "name", "priority", "preempt", "preemptmode"))
    here, found = f"cluster={cluster}", associations(cluster)
    commands += root_commands(here, priorities, found)
    commands += account_commands(here, accounts, priorities, found)
    commands += default_commands(here, default_accounts, table("user", "user", "defaultaccount"))
    commands += removals(here, accounts, found)
    if not check:
        for command in commands:
            sacctmgr(*command)
    said = [" ".join(command) for command in commands]
    return {"changed": bool(said), "drift": [f"accounting lacks: {each}" for each in said], "commands": said}


def with_members(account: Mapping[str, Any], groups: Sequence[str]) -> Mapping[str, Any]:
    """Return an account with the members that groups have now."""
    found = {name: None for group in groups for name in members_of(group)}
    return {**account, "users": [*account["users"], *(name for name in found if name not in account["users"])]}


def members_of(group: str) -> list[str]:
    try:
        return sorted(grp.getgrnam(group).gr_mem)
    except KeyError:
        raise Refused(f"no group is called {group}: does the directory have it, and does it answer?") from None


def qos_commands(priorities: Sequence[Mapping[str, Any]], preempt_mode: str, found: Rows) -> list[list[str]]:
    """First the names, since a priority may preempt one that is listed later; then what they mean."""
    commands = [["add", "qos", each["name"]] for each in priorities if each["name"] not in found]
    for each in priorities:
        wanted = {
            "priority": str(each["weight"]),
            "preempt": ",".join(sorted(each["preempts"])),
            "preemptmode": preempt_mode if preempt_mode != "off" else "cluster",
        }
        has = found.get(each["name"], {})
        is_now = {**has, "preempt": ",".join(sorted(filter(None, has.get("preempt", "").split(","))))}
        if any(is_now.get(key, "") != value for key, value in wanted.items()):
            settings = [f"{key}={value}" for key, value in wanted.items()]
            commands.append(["modify", "qos", each["name"], "set", *settings])
    names = {each["name"] for each in priorities} | {KEPT_QOS}
    return commands + [["delete", "qos", name] for name in found if name not in names]


def root_commands(here: str, priorities: Sequence[Mapping[str, Any]], found: Rows) -> list[list[str]]:
    """Give root every QOS: its jobs prove nodes of any queue, whatever priority the queue has.

    slurmdbd makes this account by itself and gives it no other QOS than its default.
    """
    qos = every_qos(priorities)
    if found.get(f"{KEPT_ACCOUNT}/", {}).get("qos") == qos:
        return []
    return [["modify", "account", KEPT_ACCOUNT, "where", here, "set", f"qos={qos}"]]


def every_qos(priorities: Sequence[Mapping[str, Any]]) -> str:
    return ",".join(sorted({each["name"] for each in priorities} | {KEPT_QOS}))


def account_commands(
    here: str, accounts: Sequence[Mapping[str, Any]], priorities: Sequence[Mapping[str, Any]], found: Rows
) -> list[list[str]]:
    qos = every_qos(priorities)
    commands = []
    for each in accounts:
        name = each["name"]
        wanted = {
            "fairshare": str(each["share"]),
            "grptres": f"gres/gpu={each['accelerators_max'] or -1}",
            "qos": qos,
        }
        has = found.get(name + "/")
        settings = [f"{key}={value}" for key, value in wanted.items()]
        if has is None:
            commands.append(["add", "account", name, here, *settings])
        elif any(shown(key, value) != has[key] for key, value in wanted.items()):
            commands.append(["modify", "account", name, "where", here, "set", *settings])
        missing = [user for user in each["users"] if f"{name}/{user}" not in found]
        commands += [["add", "user", user, f"account={name}", here] for user in missing]
    return commands


def default_commands(here: str, default_accounts: Mapping[str, str], found: Rows) -> list[list[str]]:
    """The first account a user was added to is their default until somebody says otherwise."""
    return [
        ["modify", "user", user, "where", here, "set", f"defaultaccount={account}"]
        for user, account in default_accounts.items()
        if found.get(user, {}).get("defaultaccount") != account
    ]


def shown(key: str, value: str) -> str:
    """Return a value as sacctmgr shows it after setting: no limit is shown as empty."""
    return "" if key == "grptres" and value.endswith("=-1") else value


def removals(here: str, accounts: Iterable[Mapping[str, Any]], found: Rows) -> list[list[str]]:
    users = {f"{each['name']}/{user}" for each in accounts for user in each["users"]}
    names = {each["name"] for each in accounts} | {KEPT_ACCOUNT}
    commands = []
    for key in found:
        account, _, user = key.partition("/")
        if user and account in names - {KEPT_ACCOUNT} and key not in users:
            commands.append(["delete", "user", user, "where", f"account={account}", here])
        elif not user and account not in names:
            commands.append(["delete", "account", account, "where", here])
    return commands


def associations(cluster: str) -> Rows:
    """Return the associations by account/user; the user is empty for the account itself."""
    columns = ("account", "user", "fairshare", "grptres", "qos")
    rows = sacctmgr("show", "assoc", f"cluster={cluster}", f"format={','.join(columns)}")
    return {f"{row['account']}/{row['user']}": {**row, "qos": in_order(row["qos"])} for row in parsed(rows, columns)}


def in_order(words: str) -> str:
    return ",".join(sorted(filter(None, words.split(","))))


def table(what: str, *columns: str, limit_s: float = PATIENCE_S) -> Rows:
    rows = sacctmgr("show", what, f"format={','.join(columns)}", limit_s=limit_s)
    return {row[columns[0]]: row for row in parsed(rows, columns)}


def parsed(text: str, columns: Sequence[str]) -> list[dict[str, str]]:
    rows = (line.split("|") for line in text.splitlines() if line)
    return [dict(zip(columns, row)) for row in rows]  # noqa: B905 (Amazon Linux's own Python is 3.9)


def sacctmgr(*arguments: str, limit_s: float = PATIENCE_S) -> str:
    """Runs sacctmgr; a slurmdbd that has just been started may need a moment."""
    until = time.monotonic() + limit_s
    while True:
        done = run(["sacctmgr", "--immediate", "--noheader", "--parsable2", *arguments], check=False)
        if not done.returncode or "othing" in done.stdout + done.stderr:  # "Nothing modified", "Nothing deleted"
            return done.stdout
        said = (done.stderr + done.stdout).strip()
        if "onnect" not in said or time.monotonic() > until:
            raise Refused(f"sacctmgr {' '.join(arguments)}: {said}")
        time.sleep(0.2)


answer = answering(work)
