"""What AWS chooses."""

from stampworks.planning.clouds.choices import Choices, Pods, Subnets

# Prefixes: Amazon EKS User Guide, "Assign more IP addresses to Amazon EKS nodes with prefixes". That a node stops when
# its prefixes hold all pods it may run, however many it keeps warm: amazon-vpc-cni-k8s, ipamd.go. Services: Amazon EKS
# API Reference, KubernetesNetworkConfigRequest. All read 2026-11-22.
PODS = Pods(
    way="Amazon VPC CNI with prefixes",
    why="it is what EKS comes with, and with prefixes many nodes ask less often for addresses than with single ones",
    node_addresses=lambda pods: 16 * -(-pods // 16),
    node_why="whole prefixes of 16 addresses",
    own_range=False,
    lost=16,  # the addresses that AWS keeps are in the first and the last prefix, and spoil both of them
    services_longest_prefix=24,
)

CHOICES = Choices(
    controller_machine="m7i",
    controller_why="the controller runs no jobs, so it takes a small machine without accelerators",
    purchases=("on-demand", "spot", "reserved", "block"),
    regions=True,
    zones_begin_with_region=True,
    names_nodes=False,
    storage="file systems",
    subnets=Subnets(
        reserved=5,
        reserved_why="AWS keeps the first four addresses of a subnet and the last one",
        shortest_prefix=16,
        longest_prefix=28,
    ),
    pods=PODS,
)
