"""Writes docs/reference/one-cluster.md from the code: python -m tests.docs.one_cluster"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stampworks import catalog
from stampworks.clouds.registry import rehearsed, stamped, with_kubernetes
from stampworks.plan import Plan
from stampworks.planning.clouds import CLOUDS
from stampworks.views.comparison import ComparedSide, comparison_text

from tests.portable import ACCELERATORS, MOUNT, NODES, planned

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "one-cluster.md"
REFERENCE = "aws"
HEADER = f"""\
# One cluster on every cloud

The same declaration for every cloud of the catalog: {NODES} nodes of {ACCELERATORS} H100 with the cloud's best
fabric, a shared parallel file system at `{MOUNT}`, and Slurm or Kubernetes. Only words differ that each cloud has for
its own parts: region, machine, kind and size of the file system. `python -m tests.docs.one_cluster` makes this page
anew.

*Planned*, *rehearsed* and *stamped* mean what [Clouds](clouds.md) says. Where a cloud has no such file system,
planning refuses it with the sentence in the table, and the rest of the row is the cluster without it.
"""
ABOUT = f"""\
## Differences from `{REFERENCE}`

The differences that `stampworks compare` prints for the plans with Slurm, without their consequences.
"""
COLUMNS = ("cloud", "machine", "rails of a node", "nodes", "file system", "all-reduce", "Slurm", "Kubernetes")


def page() -> str:
    plans = {cloud: planned(cloud, "slurm") for cloud in CLOUDS}
    rows = [COLUMNS, ["---"] * len(COLUMNS), *(_cells(cloud, *found) for cloud, found in plans.items())]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    parts = [f"### `{cloud}`\n\n" + _list(differences(cloud, plan)) for cloud, (plan, _) in plans.items()]
    others = "\n".join(part for cloud, part in zip(plans, parts, strict=True) if cloud != REFERENCE)
    return f"{HEADER}\n{table}\n\n{ABOUT}\n{others}"


def differences(cloud: str, plan: Plan) -> list[str]:
    """Return the differences of a cloud's plan from the reference, as `stampworks compare` prints them."""
    reference, _ = planned(REFERENCE, "slurm")
    text = comparison_text(ComparedSide(REFERENCE, reference), ComparedSide(cloud, plan))
    first, *_ = text.split("\n\n")
    return [line.strip() for line in first.splitlines()[1:]]


def _cells(cloud: str, plan: Plan, refused: str) -> tuple[str, ...]:
    [pool] = plan.pools
    return (
        f"`{cloud}`",
        f"`{pool.machine.name}`",
        _rails(plan),
        "named by the plan" if pool.nodes else "named by the cloud",
        refused or ", ".join(catalog.file_systems()[each.kind].title for each in plan.storage),
        _busbw(plan),
        _level(cloud, stamped()),
        _level(cloud, with_kubernetes()),
    )


def _rails(plan: Plan) -> str:
    [pool] = plan.pools
    rates = {rail.rate_mbps for rail in plan.fabric.rails}
    if not pool.rails:
        return f"unknown ({plan.fabric.kind})"
    rate = f" x {max(rates) / 1000:g} Gb/s" if rates else " of unknown rate"
    return f"{pool.rails}{rate} {plan.fabric.kind}"


def _busbw(plan: Plan) -> str:
    """Return the most that an all-reduce of the whole pool can reach, or say that a fact is missing."""
    found = [each for each in plan.expectations if each.name == "gpu.allreduce_busbw_gbs_max"]
    return f"{found[0].value:g} GB/s" if found else "unknown"


def _level(cloud: str, made: Sequence[str]) -> str:
    return "stamped" if cloud in made else "rehearsed" if cloud in rehearsed() else "planned"


def _list(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page())
