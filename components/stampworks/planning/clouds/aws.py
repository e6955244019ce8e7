"""What AWS chooses."""

from stampworks.planning.clouds.choices import Choices, Pods, Subnets

# Prefixes: Amazon EKS User Guide, "Assign more IP addresses to Amazon EKS nodes with prefixes". That a node stops when
# its prefixes hold all pods it may run, however many it keeps warm: amazon-vpc-cni-k8s, ipamd.go; and that it never
# needs a second interface for them, which would take an address: b52188387, vpc_ip_resource_limit.go, 15 addresses or
# prefixes an interface on m7i.2xlarge and 50 on all that has accelerators (P6e-GB200 is not in it), the first of them
# the node's own. Services: Amazon EKS API Reference, KubernetesNetworkConfigRequest. Surge: Amazon EKS User Guide,
# "Understand each phase of node updates": the larger of twice the zones of a group, here one, and of maxUnavailable,
# one by default. Control plane: the same, "View Amazon EKS networking requirements for VPC and subnets": two subnets in
# different zones, 6 addresses in each at least, 16 recommended. All read 2026-11-22.
PODS = Pods(
    way="Amazon VPC CNI with prefixes",
    why="it is what EKS comes with, and with prefixes many nodes ask less often for addresses than with single ones",
    node_addresses=lambda pods: 16 * -(-pods // 16),
    node_why="whole prefixes of 16 addresses, all on the first interface",
    own_range=False,
    lost=16,  # the addresses that AWS keeps are in the first and the last prefix, and spoil both of them
    surge=2,
    control=16,
    services_longest_prefix=24,
)

CHOICES = Choices(
    controller_machine="m7i",
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
