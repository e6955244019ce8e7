"""The choices of the local cloud."""

from stampworks.planning.clouds.choices import Choices
from stampworks.planning.clouds.kubeadm import PODS

CHOICES = Choices(
    controller_machine="sim-cpu",
    controller_why="the local cloud's controller runs no jobs, so it takes the machine without accelerators and rails",
    purchases=("owned",),
    regions=False,
    zones_begin_with_region=False,
    stamped=True,
    numbers_ports=True,
    storage="directory",
    subnets=None,
    pods=PODS,
    brings=dict.fromkeys(
        ("kueue", "jobset", "trainer", "mpi-operator"), "the machine room runs it beside the control plane"
    ),
    no_charts="pods on this machine start from images that are there already, and nothing fetches any",
)
