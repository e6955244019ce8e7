"""The choices of Nebius: those of rented machines, but with a machine for the controller."""

from dataclasses import replace

from stampworks.planning.clouds import rented

CHOICES = replace(
    rented.CHOICES,
    controller_machine="cpu-d3",
    controller_why="the controller runs no jobs, so it takes a small machine without accelerators",
)
