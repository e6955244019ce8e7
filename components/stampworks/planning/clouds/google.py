"""The choices of Google Cloud."""

from stampworks.planning.clouds.choices import Choices, GroupSize, PodAddressing, Subnets

# "Configure maximum Pods per node" in the documentation of GKE, read 2026-11-22.
PODS = PodAddressing(
    way="VPC-native",
    why="GKE uses it, and only this way allows a limit of pods on a node",
    node_addresses=lambda pods: 1 << (2 * pods - 1).bit_length(),
    node_why="a range of twice as many addresses as pods at least, in whole powers of two",
)

CHOICES = Choices(
    controller_machine="n2-standard-8",
    purchases=("on-demand", "spot", "reserved", "block"),
    regions=True,
    zones_begin_with_region=True,
    numbers_ports=False,
    storage="file systems",
    subnets=Subnets(
        reserved=4,
        reserved_why="Google keeps the first two addresses of a range and the last two",
        shortest_prefix=8,
        longest_prefix=29,
        # Each interface needs a subnet of another VPC network, except those for RDMA: Compute Engine, "Create an
        # instance with multiple network interfaces", read 2026-11-22. Those share one network, whose profile is RoCE
        # and which is in one zone: blueprints of A3 Ultra, A4 and A4X in cluster-toolkit 10470803. A newer page of VPC
        # says that some other NICs may share the first one's network.
        nic_networks=True,
        rdma_network=True,
    ),
    pods=PODS,
    # instanceGroupManagers.createInstances and resize requests take names: discovery document of compute.v1, revision
    # 20261106. GKE names its nodes itself.
    takes_names=True,
    # One zone's limit; 1,000 unless the API lists instances in pages: Compute Engine, "Increase a managed instance
    # group's (MIG's) size limit", read 2026-11-22.
    group_size=GroupSize("managed instance group", nodes_max=2000),
)
