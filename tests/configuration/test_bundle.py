"""The bundle by which a node configures itself: its inventory equals the one of all other nodes."""

from __future__ import annotations

import io
import json
import runpy
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks import configuration
from stampworks.configuration import bundle
from stampworks.plan import Attached, Extras, Member, Mount, OwnRole, Plan, Roster
from stampworks.schedulers import slurm

from .test_inventory import RENTED, Case

KEY = "ssh-ed25519 AAAA"
ATTACHED = Attached((Mount("/fsx", "fs-1.fsx:/abc", "lustre", "noatime"),))


def made(case: Case, directory: Path) -> dict[str, bytes]:
    plan, roster = case
    archive = bundle.bundle(plan, roster, slurm.files(plan, roster), {}, "a-digest", ATTACHED, directory)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {each.name: opened.extractfile(each).read() for each in opened}  # type: ignore[union-attr]


@pytest.fixture
def case(case_of: Callable[..., Case]) -> Case:
    """Four nodes, of which three are elastic; the first and the head exist."""
    pools = [{"name": "gpu", "machine": "p5", "count": 4, "count_min": 1, "zone": "us-east-1a"}]
    plan, roster = case_of(pools=pools, **RENTED)
    return plan, replace(roster, members=tuple(each for each in roster.members if each.name in ("head", "gpu-001")))


def started(plan: Plan) -> Member:
    """A node that has started, as a roster would have it."""
    [pool] = plan.pools
    rails = ["10.0.0.9" if each.address else "" for each in bundle._ports(pool)]
    return Member("gpu-003", "gpu", "i-3", "10.0.0.9", tuple(rails), KEY)


def of_roster(plan: Plan, roster: Roster, member: Member) -> dict[str, Any]:
    """Return the inventory's variables of this member."""
    whole = replace(roster, members=(*roster.members, member))
    files = slurm.files(plan, roster)
    said = configuration.inventory(plan, whole, files, {}, "a-digest", ATTACHED, partial=True)["all"]
    roles = [role for role, of in said["children"].items() if member.name in of["hosts"]]
    return {"roles": roles, **said["vars"], **said["hosts"][member.name]}


def of_node(files: dict[str, bytes], member: Member, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Return the variables that the node derives from the bundle itself."""
    program = runpy.run_path(str(bundle.CONFIGURE))
    (folder / "key.pub").write_text(f"{KEY} root@node\n")
    program["known_of"].__globals__["HOST_KEY"] = folder / "key.pub"
    pool = json.loads(files["pools/gpu.json"])
    machine = {"name": member.name, "instance": "i-3", "address": member.address, "ports": [[[0, 0], member.address]]}
    variables = read(files["pools/gpu.yml"])["all"]["vars"]
    return {"roles": [*pool["before"], *pool["after"]], **variables, **program["known_of"](machine, pool)}


def read(content: bytes) -> Any:
    return yaml.load(content, Loader=_Loader)  # noqa: S506  (it is a safe one)


class _Loader(yaml.SafeLoader):
    """A YAML loader for text that Ansible must not template."""


_Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))  # type: ignore[arg-type]


def test_a_node_tells_itself_what_others_are_told(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The only differences are the connection and the neighbours, which may not exist yet."""
    plan, roster = case
    member = started(plan)
    told = of_node(made(case, tmp_path), member, monkeypatch, tmp_path)
    wanted = of_roster(plan, roster, member)
    assert sorted(told.pop("roles")) == sorted(wanted.pop("roles"))
    assert told.pop("ansible_connection") == "local"
    for way in ("ansible_host", "ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args"):
        wanted.pop(way, None)
    assert told == wanted


def test_it_takes_jobs_last(case: Case, tmp_path: Path) -> None:
    """The step that accepts jobs comes after the health check, and the check's programs come before."""
    told = json.loads(made(case, tmp_path)["pools/gpu.json"])
    assert told["after"] == ["slurm_worker", "interruptions"]
    assert {"health", "storage", "driver", "efa"} <= set(told["before"])


def test_a_bundle_holds_no_secret_and_nobody_who_comes_and_goes(case: Case, tmp_path: Path) -> None:
    """The cloud keeps secrets; the set of running nodes does not change the bundle."""
    plan, roster = case
    files = made(case, tmp_path)
    assert made((plan, replace(roster, members=(*roster.members, started(plan)))), tmp_path) == files
    names = "\n".join(files)
    assert all(each in names for each in ("configure", "playbooks/site.yml", "workloads/validation/", "pools/gpu.yml"))
    assert ".md" not in names
    told = read(files["pools/gpu.yml"])["all"]["vars"]
    assert {"slurm_key", "database_password"}.isdisjoint(told)


def test_the_same_bundle_is_the_same_bytes(case: Case, tmp_path: Path) -> None:
    """Otherwise each `up` would upload another bundle."""
    plan, roster = case
    of: tuple[Any, ...] = (plan, roster, slurm.files(plan, roster), {}, "a-digest", ATTACHED, tmp_path)
    assert bundle.bundle(*of) == bundle.bundle(*of)
    assert configuration.bundle_file(*of) == configuration.bundle_file(*of)


def test_roles_of_the_user_come_along(case_of: Callable[..., Case], tmp_path: Path) -> None:
    """They run in their usual place, before the first health check."""
    role = tmp_path / "roles/motd/tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text("---\n- name: Say hello\n  ansible.builtin.debug: {msg: hello}\n")
    pools = [{"name": "gpu", "machine": "p5", "count": 2, "count_min": 1, "zone": "us-east-1a"}]
    plan, roster = case_of(pools=pools, **RENTED)
    extras = Extras(roles=(OwnRole("motd", "roles/motd", ("gpu",), "{}"),), checks=())
    files = made((replace(plan, extras=extras), roster), tmp_path)
    assert files["playbooks/roles/motd/tasks/main.yml"] == (role / "main.yml").read_bytes()
    plays = [each["hosts"] for each in read(files["playbooks/site.yml"])]
    assert plays.index("motd") < plays.index("health")
    assert "motd" in json.loads(files["pools/gpu.json"])["before"]


@pytest.mark.parametrize(("health", "played"), [("true", ["before", "after"]), ("false", ["before"])])
def test_a_node_that_is_not_well_takes_no_jobs(health: str, played: list[str], case: Case, tmp_path: Path) -> None:
    """The step that starts slurmd is not played, and the program's exit status shows it."""
    told = {"members": [], "nics": 0, "rails": [], "before": ["before"], "after": ["after"]}
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools/gpu.json").write_text(json.dumps(told))
    (tmp_path / "key.pub").write_text(KEY)
    machine = {"pool": "gpu", "name": "gpu-003", "instance": "i-3", "address": "10.0.0.9", "ports": []}
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    found: list[str] = []

    def play(*of: Any) -> int:
        found.extend(of[-1])
        return 0

    main = runpy.run_path(str(bundle.CONFIGURE))["main"]
    main.__globals__.update(HOST_KEY=tmp_path / "key.pub", HEALTH=shutil.which(health), play=play)
    assert (main(tmp_path) == 0, found) == (health == "true", played)


def test_an_older_ansible_plays_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The image may have been built before a newer Ansible existed, as with the suite's own."""
    program = runpy.run_path(str(bundle.CONFIGURE))
    for version in ("2.16.3", "2.9.27"):
        monkeypatch.setattr("ansible.release.__version__", version)
        assert program["main"](tmp_path) == 1
        assert capsys.readouterr().out == (
            f"stampworks: {sys.executable}: Ansible {version} is older than 2.19, which the roles are for: "
            "make the node's image anew (`stampworks image --packer FILE`), which then brings one\n"
        )
    for version in ("2.19.0rc1", "2.100.0"):
        monkeypatch.setattr("ansible.release.__version__", version)
        assert program["refuse_older"]() == 0
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert any(
        each.startswith(f"ansible-core>={program['ANSIBLE_MIN']},") for each in pyproject["project"]["dependencies"]
    )
