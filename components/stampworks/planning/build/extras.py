"""The user's roles and checks."""

from __future__ import annotations

import json
import posixpath

from stampworks.declaration import Declaration, check_name, role_name
from stampworks.plan import CONTROLLER, LOGIN, Extras, OwnCheck, OwnRole


def build(declaration: Declaration) -> Extras:
    """Return the targets of each role and check. The contents of their files are no part of a plan."""
    pools = tuple(pool.name for pool in declaration.pools if not pool.scheduling_only)
    everyone = (CONTROLLER, *pools, *([LOGIN] if declaration.scheduler.login_nodes else []))
    return Extras(
        roles=tuple(
            OwnRole(
                name=role_name(each.path),
                path=posixpath.normpath(each.path),
                groups=each.groups or everyone,
                variables=json.dumps(each.variables, ensure_ascii=False, sort_keys=True),
            )
            for each in declaration.extras.roles
        ),
        checks=tuple(
            OwnCheck(
                name=check_name(each.path),
                path=posixpath.normpath(each.path),
                pools=each.pools or pools,
                timeout_seconds=each.timeout_seconds,
            )
            for each in declaration.extras.checks
        ),
    )
