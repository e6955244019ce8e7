"""Places of nodes in the network: one model, and its forms for Slurm, Kubernetes, Kueue, Volcano, MPI and NCCL."""

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
