"""The people of a plan: users, their groups, and the directory that has more of both."""

from __future__ import annotations

from stampworks.plan import Plan
from stampworks.views.table import paragraph, sparse


def people(plan: Plan, width: int) -> list[str]:
    """Return the table of users; empty without users."""
    if not plan.users:
        return []
    rows = [
        (
            user.name,
            user.uid,
            ", ".join(user.accounts),
            ", ".join(user.groups),
            len(user.keys) or ("none" if user.keyless else ""),
            user.home,
        )
        for user in plan.users
    ]
    return ["Users", *sparse(("user", "uid", "accounts", "groups", "keys", "home"), rows, width)]


def groups_of_people(plan: Plan, width: int) -> list[str]:
    """Return the table of groups; empty without groups."""
    rows = [(team.name, team.gid, team.folder) for team in plan.teams]
    return ["Groups", *sparse(("group", "gid", "folder"), rows, width)] if rows else []


def directory(plan: Plan, width: int) -> list[str]:
    """Return a paragraph about the directory; empty without one."""
    if (found := plan.directory) is None:
        return []
    who = f"members of {', '.join(found.access_groups)}" if found.access_groups else "everybody in it"
    charged = f", charged to {found.account}" if found.account else ""
    clear = not found.start_tls and found.uri.startswith("ldap:")
    how = f"ids {found.id_min} to {found.id_max}, homes in {found.homes}{', WITHOUT TLS' if clear else ''}"
    return paragraph(f"Directory {found.uri}, below {found.base}: {who} may log in{charged}; {how}", width, "")
