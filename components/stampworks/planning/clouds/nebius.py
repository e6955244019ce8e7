"""What is chosen on Nebius: as wherever machines are rented one by one, but that it has one for the controller."""

from dataclasses import replace

from stampworks.planning.clouds import rented

CHOICES = replace(
    rented.CHOICES,
    controller_machine="cpu-d3",
    controller_why="the controller runs no jobs, so it takes a small machine without accelerators",
)
