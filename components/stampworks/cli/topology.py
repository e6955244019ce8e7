"""`stampworks topology`: places of nodes in the network, in each scheduler's format."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from stampworks.plan import Plan
    from stampworks.schedulers.topology import Topology

OF_SLURM = ("slurm-tree", "slurm-block", "slurm-tree-yaml", "slurm-block-yaml", "slurm-hostfile")
FORMS = ("json", *OF_SLURM, "labels", "kueue", "volcano", "mpi-hostfile", "rankfile", "nccl")


def add_verbs(verbs: Any) -> None:
    """Add the verb `topology` and its options."""
    topology = verbs.add_parser(
        "topology", help="show the places of nodes in the network, in a scheduler's format", allow_abbrev=False
    )
    stacks.add_plan_options(topology)
    topology.add_argument("--as", dest="form", metavar="FORM", choices=FORMS, default="json", help=", ".join(FORMS))
    topology.set_defaults(call=show_topology)


def show_topology(arguments: argparse.Namespace) -> int:
    """Pure: the nodes of the plan, wherever they are by now."""
    from stampworks.schedulers import topology

    plan = stacks.asked_plan(arguments)
    made = topology.of_plan(plan)
    if not made.placed and arguments.form not in ("json", "slurm-hostfile", "mpi-hostfile", "rankfile"):
        hint = "nodes have a place when their machine has NICs on the fabric and the plan names them"
        raise exits.CliError(f"no node of {plan.name} has a place in the network", hint, code=exits.NO)
    print(_forms(plan, made)[arguments.form](), end="")
    return exits.FINE


def _forms(plan: Plan, made: Topology) -> Mapping[str, Callable[[], str]]:
    from stampworks.schedulers.topology import kubernetes, ranks, slurm, to_text

    pools = {pool.name: [node.name for node in pool.nodes] for pool in (*plan.pools, *plan.scheduling_only)}
    sizes = (plan.scheduler.block_nodes,) if plan.scheduler.block_nodes else ()
    return {
        "slurm-tree": lambda: slurm.tree(made),
        "slurm-block": lambda: slurm.block(made, sizes),
        "slurm-tree-yaml": lambda: slurm.tree_yaml(made),
        "slurm-block-yaml": lambda: slurm.block_yaml(made, sizes),
        "labels": lambda: kubernetes.labels(made, pools),
        "kueue": lambda: kubernetes.kueue(made, pools, plan.name),
        "volcano": lambda: kubernetes.volcano(made),
        "slurm-hostfile": lambda: ranks.slurm_hostfile(_slots(plan, made)),
        "mpi-hostfile": lambda: ranks.mpi_hostfile(_slots(plan, made)),
        "rankfile": lambda: ranks.rankfile(_slots(plan, made), _cores(plan)),
        "nccl": lambda: ranks.environment(_environment(plan)),
        "json": lambda: to_text(made),
    }


def _slots(plan: Plan, made: Topology) -> dict[str, int]:
    """Return the ranks of a run on each node, in rank order."""
    from stampworks.schedulers.topology import ranks

    counts = dict(plan.training.ranks)
    of = {node.name: counts[pool.name] for pool in plan.pools for node in pool.nodes if pool.name in counts}
    return {node: of[node] for node in ranks.order(made) if node in of}


def _cores(plan: Plan) -> dict[str, int]:
    """Return the cores of each node that has ranks."""
    found: dict[str, int] = {}
    for pool in plan.pools:
        if pool.machine.cores is None and pool.name in dict(plan.training.ranks):
            what = (
                f"how many cores {pool.machine.name} of pool {pool.name} has is unknown, and a rankfile binds to cores"
            )
            raise exits.CliError(what, "take --as mpi-hostfile", exits.UNKNOWN)
        found |= {node.name: pool.machine.cores or 0 for node in pool.nodes}
    return found


def _environment(plan: Plan) -> dict[str, str]:
    """Return the usual environment of nodes with the variables of the topology."""
    from stampworks.configuration.inventory import collectives_environment
    from stampworks.schedulers.topology import ranks

    anyway = {name: value for name, value in collectives_environment(plan).items() if name.startswith("NCCL_")}
    return anyway | ranks.nccl([rail.interface for rail in plan.fabric.rails])
