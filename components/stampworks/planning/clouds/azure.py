"""The choices of Azure."""

from stampworks.planning.clouds.choices import Choices, GroupSize, PodAddressing, Subnets

# "Azure CNI Overlay networking"; for the ranges that a cluster must not use, "Legacy CNI networking in AKS"; both on
# learn.microsoft.com, read 2026-11-22.
PODS = PodAddressing(
    way="Azure CNI Overlay",
    why="pods take no address of the virtual network, and training uses InfiniBand outside of it",
    node_addresses=lambda _: 256,
    node_why="a /24, for any number of pods",
    kept=("169.254.0.0/16", "172.30.0.0/16", "172.31.0.0/16", "192.0.2.0/24"),
)

CHOICES = Choices(
    controller_machine="D8s_v5",
    purchases=("on-demand", "spot", "reserved"),
    regions=True,
    zones_begin_with_region=False,
    numbers_ports=False,
    storage="file systems",
    subnets=Subnets(
        reserved=5,
        reserved_why="Azure keeps the first four addresses of a subnet and the last one",
        shortest_prefix=8,
        longest_prefix=29,
        # "Set up InfiniBand", learn.microsoft.com, page of 2026-09-25, read 2026-11-28.
        fabric_ranges=("172.16.0.0/16",),
        fabric_ranges_why="Azure uses it for RDMA on machines with InfiniBand",
    ),
    pods=PODS,
    # "Overview of on-demand capacity reservation", learn.microsoft.com, page of 2026-02-17, read 2026-11-28.
    not_on_rails={"reserved": "Azure reserves no capacity for machines that share a placement group"},
    # "Virtual Machine Scale Sets and placement groups": 1,000, and 100 in one placement group, which is the unit of
    # InfiniBand; 300 when support has raised it ("Set up InfiniBand"). Both on learn.microsoft.com, read 2026-11-28.
    group_size=GroupSize("scale set", nodes_max=1000, rails_nodes_max=100, rails_nodes_raised=300),
)
