"""The traits of Kubernetes."""

from stampworks.plan.traits.traits import Traits

TRAITS = Traits(
    title="Kubernetes",
    keeps="the state of Kubernetes",
    worker_role="kubernetes_node",
    control_plane="the control plane of Kubernetes",
    runs_pods=True,
    equips_nodes=False,
    has_addons=True,
    admits_gangs=True,
    has_namespaces=True,
    keeps_accounts=False,
    lends=True,
    fills_blocks=False,
)
