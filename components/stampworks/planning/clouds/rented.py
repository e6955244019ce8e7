"""The choices for machines that are rented individually, each with an address in a network of the vendor."""

from stampworks.planning.clouds.choices import ANY_SERVER, Choices

CHOICES = Choices(
    controller_machine="server",
    controller_why=ANY_SERVER,
    purchases=("on-demand", "spot", "reserved"),
    regions=False,
    zones_begin_with_region=False,
    numbers_ports=False,
    storage="file systems",
    subnets=None,
    pods=None,
)
