"""`stampworks login`: the file with which a user works on a cluster by herself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from stampworks.cli import clusters, connections, exits, stacks

_OWN = 0o600
_NO_KEY = (
    "no key of hers is declared (users[].keys): she can log in only with a key in .ssh/authorized_keys of her home"
)

_KEYLESS = "her list of keys is declared empty (users[].keys): no key lets her log in"


def add_verbs(verbs: Any) -> None:
    """Add the verb `login` and its options."""
    login = verbs.add_parser(
        "login", help="write the file with which a user works on a cluster by herself", allow_abbrev=False
    )
    stacks.add_stack_option(login)
    login.add_argument("--as", metavar="USER", dest="user", required=True, help="a declared user")
    login.add_argument("--to", metavar="FILE", help="file to write (default: CLUSTER.USER.json)")
    login.set_defaults(call=write_connection)


def write_connection(arguments: argparse.Namespace) -> int:
    """Write the connection file, which only its owner may read. Return the exit code."""
    from stampworks.operations.login import connect
    from stampworks.state.paths import write_whole
    from stampworks.text.printable import printable

    connections.expect_administrator("login", arguments.stack)
    plan = clusters.plan_of(arguments.stack)
    connection = connect(plan, clusters.known_of(plan, arguments.stack), arguments.user)
    file = Path(arguments.to or f"{plan.name}.{connection.user}.json")
    if file.suffix != ".json":
        raise exits.CliError(f"{file} has no name for a connection", "call it FILE.json, so that -s can name it")
    if file.exists() and not connections.is_one(file):
        raise exits.CliError(f"{file} is there, and is no connection", "choose another file: --to FILE.json")
    write_whole(file, connections.written(connection), _OWN)
    user = next(user for user in plan.users if user.name == connection.user)
    if not (user.keys or connection.kubeconfig):
        print(f"warning: {_KEYLESS if user.keyless else _NO_KEY}", file=sys.stderr)
    secret = (
        "a private key of hers, which must stay secret"
        if connections.PRIVATE_PART in connection.kubeconfig
        else "no secret"
    )
    print(printable(f"{file} connects {connection.user} to cluster {plan.name}; it holds {secret}"))
    needs = "it" if connection.kubeconfig else "it and her ssh key"
    print(printable(f"with {needs}: stampworks status -s {file}"))
    return exits.FINE
