"""The choices of Oracle Cloud."""

from stampworks.planning.clouds.choices import Choices, PodAddressing, Subnets

# "CIDR Blocks and Kubernetes Engine (OKE)" in the documentation of Oracle Cloud, read 2026-11-22. Oracle's own setup
# for RDMA on OKE (oci-hpc-oke, terraform/oke-cluster.tf, of the same day) uses the same pod range.
PODS = PodAddressing(
    way="flannel",
    why="pods take no address of the network and no VNIC of the node, and training uses RDMA outside of it",
    node_addresses=lambda _: 128,
    node_why="a /25, for any number of pods",
)

CHOICES = Choices(
    controller_machine="VM.Standard.E5.Flex",
    purchases=("on-demand", "spot", "reserved"),
    regions=True,
    zones_begin_with_region=False,
    numbers_ports=False,
    storage="file systems",
    subnets=Subnets(
        reserved=3,
        reserved_why="Oracle keeps the first two addresses of a subnet and the last one",
        shortest_prefix=16,
        longest_prefix=30,
    ),
    pods=PODS,
    bare_metal=lambda machine: machine.startswith("BM."),  # the prefix of all bare-metal shapes
)
