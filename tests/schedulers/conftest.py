"""Plans with the roster a cloud would report for them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from stampworks import configuration, planning
from stampworks.clouds.registry import stamped
from stampworks.declaration import load_stack, load_value
from stampworks.machine_room.commands import CONTAINED
from stampworks.plan import Member, Plan, Roster
from stampworks.provider.node_image import ensure_node_image

STACKS = Path(__file__).resolve().parents[2] / "stacks"
NAMES = sorted(
    name
    for file in STACKS.glob("Pulumi.*.yaml")
    if (sound := load_stack(name := file.stem.removeprefix("Pulumi."), STACKS).sound).cloud in stamped()
    and sound.scheduler.kind == "slurm"
)
"""Slurm stacks whose clouds can be stamped: members of other clouds are not known yet."""

SLURMCTLD_S = 120

Case = tuple[Plan, Roster]


def roster_of(plan: Plan) -> Roster:
    members = [
        Member(
            node.name, group.name, f"i-{node.name}", node.address, node.rail_addresses, f"ssh-ed25519 KEY{node.name}"
        )
        for group in plan.running
        for node in group.nodes
    ]
    return Roster(plan.name, plan.cloud, ("reach",), "root", "/keys/id", tuple(members))


@pytest.fixture(scope="session", params=NAMES)
def stack(request: pytest.FixtureRequest) -> Case:
    plan = planning.plan(load_stack(request.param, STACKS))
    return plan, roster_of(plan)


@pytest.fixture(scope="session")
def case_of() -> Callable[..., Case]:
    """Return plan and roster of a declaration with the given fields and the required ones."""

    def make(**fields: Any) -> Case:
        fields = {"pools": [{"name": "gpu", "machine": "sim-h100", "count": 4}], **fields}
        plan = planning.plan(load_value({"version": 1, "name": "test", "cloud": "local", **fields}, "test"))
        return plan, roster_of(plan)

    return make


@pytest.fixture(scope="session")
def slurmctld(
    tmp_path_factory: pytest.TempPathFactory, case_of: Callable[..., Case]
) -> Callable[[Mapping[str, str], str], str]:
    """Return the output of commands with a real slurmctld and these files."""
    image = ensure_node_image(case_of()[0].release, configuration.install_digest(), print)

    def say(files: Mapping[str, str], commands: str) -> str:
        folder = tmp_path_factory.mktemp("slurm")
        for name, text in files.items():
            (folder / name).write_text(text)
        script = ["sh", str(Path(__file__).with_name("slurmctld.sh")), str(folder), *image.layers]
        argv = [*CONTAINED, "--net", "--uts", *script]
        done = subprocess.run(argv, input=commands, capture_output=True, text=True, timeout=SLURMCTLD_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return say


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with its golden file; with --regenerate writes it."""

    def check(file: Path, text: str) -> None:
        if request.config.getoption("--regenerate"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()

    return check
