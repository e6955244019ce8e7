"""The traits of Slurm."""

from stampworks.plan.traits.traits import Traits

TRAITS = Traits(
    title="Slurm",
    keeps="queue and accounting",
    worker_role="slurm_worker",
    control_plane="",
    runs_pods=False,
    equips_nodes=True,
    has_addons=False,
    admits_gangs=False,
    has_namespaces=False,
    keeps_accounts=True,
    lends=False,
    fills_blocks=True,
)
