"""Writes docs/reference/clouds.md from the code: python -m tests.docs.clouds"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from stampworks import catalog
from stampworks.clouds.contract import Cloud, Kubernetes
from stampworks.clouds.registry import CLOUDS as REGISTERED
from stampworks.clouds.registry import rehearsed, stamped, with_kubernetes
from stampworks.declaration import Scheduler
from stampworks.planning.clouds import CLOUDS
from stampworks.planning.clouds.choices import Choices

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clouds.md"
PODS = Scheduler().pods_per_node
HEADER = """\
# Clouds

Abilities of each cloud in the code; `python -m tests.docs.clouds` writes this page again. *Planned*: `stampworks
plan`, `review`, `explain` and `estimate` work, without an account. *Rehearsed*: `stampworks rehearse` shows the
steps of an `up`. *Stamped*: `pulumi up` creates the cluster, too; it
refuses a cloud that can only be planned, and `kind: kubernetes` on any cloud but
{kubernetes}, and creates nothing.

*Nodes* have names in the plan if the toolkit starts them; otherwise a plan has their number. *Addresses* are
in the plan, assigned by the cloud from subnets of the cluster's range, or come with a rented machine.
"""


def page() -> str:
    header = (
        "cloud",
        "planned",
        "rehearsed",
        "stamped",
        "machines",
        "nodes",
        "addresses",
        "region",
        "purchase",
        "storage",
    )
    rows = [_cloud(name, choices) for name, choices in CLOUDS.items()]
    lines = [_row(header), _row("---" for _ in header), *map(_row, rows)]
    header_ = HEADER.format(kubernetes=_names(with_kubernetes()))
    return f"{header_}\n" + "\n".join(lines) + "\n\n" + _abilities() + "\n" + _rules()


ABILITIES: Mapping[str, tuple[str, Callable[[Cloud], str]]] = {
    "kubernetes": ("Kubernetes", lambda cloud: _kubernetes(cloud.kubernetes)),
    "elastic": ("elastic nodes", lambda cloud: _yes(cloud.elastic)),
    "database": ("managed database", lambda cloud: _yes(cloud.database)),
    "account": ("facts of the account", lambda cloud: _yes(cloud.account)),
    "lookups": ("lock", lambda cloud: _yes(cloud.lookups)),
    "image_builder": ("images by Packer", lambda cloud: _yes(cloud.image_builder)),
    "faults": ("faults on purpose", lambda cloud: _yes(cloud.faults)),
    "doors": ("users need no credentials", lambda cloud: _yes(cloud.doors)),
}
"""The optional parts of `Cloud` in clouds/contract.py: the heading of each, and its description for a cloud."""
NEEDED = ("resources", "members", "renewal")


def _abilities() -> str:
    header = ("cloud", *(heading for heading, _ in ABILITIES.values()))
    rows = [(f"`{name}`", *(tell(cloud) for _, tell in ABILITIES.values())) for name, cloud in REGISTERED.items()]
    lines = [_row(header), _row("---" for _ in header), *map(_row, rows)]
    return "Optional parts that the components of a cloud have:\n\n" + "\n".join(lines) + "\n"


def _kubernetes(own: Kubernetes | None) -> str:
    if own is None:
        return "no"
    ways = {"managed nodes": own.managed, "nodes that join": own.joined, "file systems in pods": own.drivers}
    return ", ".join(way for way, part in ways.items() if part)


def _yes(part: object | None) -> str:
    return "no" if part is None else "yes"


def _cloud(name: str, choices: Choices) -> tuple[str, ...]:
    machines = sum(machine.cloud == name and machine.accelerators > 0 for machine in catalog.machines().values())
    return (
        f"`{name}`",
        "yes",
        "yes" if name in rehearsed() else "no",
        "yes" if name in stamped() else "no",
        str(machines),
        "named by the plan" if choices.names_nodes("slurm") else "named by the cloud",
        "numbered" if choices.numbers_ports else "from subnets" if choices.subnets else "come with the machine",
        "needed" if choices.regions else "any word",
        ", ".join(choices.purchases),
        {"directory": "directories", "file systems": "the catalog's", "both": "directories and the catalog's"}[
            choices.storage
        ],
    )


def _rules() -> str:
    lines = ["Limits of subnets on each cloud:", ""]
    for name, choices in CLOUDS.items():
        if rules := choices.subnets:
            sizes = f"a network is a /{rules.shortest_prefix} at most, a subnet a /{rules.longest_prefix} at least"
            lines.append(f"- `{name}`: {rules.reserved_why}; {sizes}.")
    lines += [
        "",
        f"Source of pod addresses of a Kubernetes; only {_names(with_kubernetes())} can be stamped:",
        "",
    ]
    for name, choices in CLOUDS.items():
        pods = choices.pods
        if pods is None:
            continue
        where = "a separate range" if pods.own_range else "the subnet of nodes"
        takes = f"at {PODS} pods a node takes {pods.node_addresses(PODS)} addresses ({pods.node_why})"
        lines.append(f"- `{name}`: {pods.way}, from {where}; {takes}. {pods.why[0].upper()}{pods.why[1:]}.")
    unknown = ", ".join(f"`{name}`" for name, choices in CLOUDS.items() if choices.pods is None)
    for name, choices in CLOUDS.items():
        if own := choices.managed:
            lines.append(f"- On `{name}` Kubernetes is {own.what}, which creates and names its nodes itself.")
    lines.append(f"- Unknown: {unknown}.")
    return "\n".join(lines) + "\n"


def _names(clouds: Iterable[str]) -> str:
    return " and ".join(f"`{cloud}`" for cloud in clouds)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page())
