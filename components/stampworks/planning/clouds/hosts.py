"""The choices for existing machines that answer ssh, on premises or elsewhere."""

from stampworks.planning.clouds.choices import ANY_SERVER, Choices
from stampworks.planning.clouds.kubeadm import PODS

CHOICES = Choices(
    controller_machine="server",
    controller_why=ANY_SERVER,
    purchases=("owned",),
    regions=False,
    stamped=True,
    zones_begin_with_region=False,
    numbers_ports=True,
    storage="both",
    subnets=None,
    pods=PODS,
    bare_metal=lambda _: True,
)
