"""Slurm behind the port: everything is asked on the head."""

from __future__ import annotations

from stampworks.operations.port import Port
from stampworks.operations.slurm.ground import SlurmGround
from stampworks.operations.slurm.jobs import SlurmJobs, ask_storage
from stampworks.operations.slurm.run import SlurmCommands
from stampworks.operations.slurm.service import SlurmService
from stampworks.operations.slurm.status import nodes, status
from stampworks.schedulers.slurm import files

PORT = Port(
    asks_members=True,
    service=lambda _, roster: SlurmService(roster),
    ground=lambda _, roster: SlurmGround(roster),
    jobs=SlurmJobs,
    commands=SlurmCommands,
    status=status,
    nodes=nodes,
    files=files,
    user_config=lambda _, __: "",
    ask_storage=ask_storage,
)
