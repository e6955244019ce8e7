"""What is chosen for machines that are there already and answer ssh, on premises or wherever they stand."""

from stampworks.planning.clouds.choices import ANY_SERVER, Choices
from stampworks.planning.clouds.kubeadm import PODS

CHOICES = Choices(
    controller_machine="server",
    controller_why=ANY_SERVER,
    purchases=("owned",),
    regions=False,
    zones_begin_with_region=False,
    numbers_ports=True,
    storage="both",
    subnets=None,
    pods=PODS,
    bare_metal=lambda _: True,
)
