"""Where nodes stand in the network: one model, and what Slurm, Kubernetes, Kueue, Volcano, MPI and NCCL are told."""

from stampworks.schedulers.topology.model import (
    NodeDomains,
    Topology,
    TopologyError,
    from_text,
    of_places,
    of_plan,
    to_text,
)

__all__ = ["NodeDomains", "Topology", "TopologyError", "from_text", "of_places", "of_plan", "to_text"]
