"""The choices of Nebius: those of rented machines, but in networks of ours."""

from dataclasses import replace

from stampworks.planning.clouds import rented
from stampworks.planning.clouds.choices import PodAddressing, Subnets

# template.max_pods of nebius_mk8s_v1_node_group in Nebius's Terraform provider 0443f7c5, read 2026-11-29. Its cluster
# (nebius/api 24bd010d, mk8s/v1/cluster.proto) keeps the range of services in the subnet of its control plane, /28 at
# least. The subnet as the place of pods follows from that, and was not read.
PODS = PodAddressing(
    way="Managed Kubernetes",
    why="it gives each node a range of its subnet, by the number of pods that the node may run",
    node_addresses=lambda pods: 1 << (2 * pods - 1).bit_length(),
    node_why="a range of twice as many addresses as pods at least, in whole powers of two",
    own_range=False,
)

CHOICES = replace(
    rented.CHOICES,
    controller_machine="cpu-d3",
    controller_why="the controller runs no jobs, so it takes a small machine without accelerators",
    # Networks, subnets and their ranges: nebius/api 12dd5d62, vpc/v1/subnet.proto, read 2026-11-29. It limits no length
    # of a prefix: these are the largest private range, and the smallest with an address for a node.
    subnets=Subnets(
        reserved=2,
        reserved_why="Nebius publishes no number of addresses that it keeps, so that the first and the last stay free",
        shortest_prefix=8,
        longest_prefix=30,
    ),
    pods=PODS,
    takes_names=True,  # compute instances are created one by one, each with a name
)
