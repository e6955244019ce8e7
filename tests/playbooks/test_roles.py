"""Roles document their variables in three places with the same text, and use no others."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment
from stampworks import catalog
from stampworks.catalog.roles import HARDWARE, MEMBERS
from stampworks.catalog.roles import ROLES as REGISTRY
from stampworks.configuration import playbooks_dir

PLAYBOOKS = playbooks_dir()
ROLES = sorted(path for path in (PLAYBOOKS / "roles").iterdir())
MODULES = PLAYBOOKS / "collections/ansible_collections/stampworks/node/plugins"
SHARED = {"cluster_name", "cluster_release", "cluster_members", "slurm_key", "kubernetes_bootstrap"}
"""Variables of the inventory and secrets that belong to no role; those of a host begin with node_."""
OF_IMAGES = {role.name for role in REGISTRY if role.members == "images"}
"""Roles that never run on a running node: they have only an install part."""

each_role = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def spec(role: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


def table(role: Path) -> dict[str, list[str]]:
    """The README's rows by variable: type, default, meaning."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", (role / "README.md").read_text(), re.MULTILINE)
    return {name: rest for name, *rest in rows}


def test_logout_keeps_shared_memory() -> None:
    """systemd removes the shared memory of a user whose last session ends, and Slurm jobs are no sessions."""
    role = PLAYBOOKS / "roles/base"
    [task] = [each for each in load(role / "tasks/configure.yml") if "_base_files" in each.get("vars", {})]
    sources = {each["path"]: each.get("source") for each in task["vars"]["_base_files"]}
    settings = role / "files" / sources["/etc/systemd/logind.conf.d/60-stampworks.conf"]
    assert settings.read_text().splitlines()[1:] == ["[Login]", "RemoveIPC=no"]


SSHD = """
mount -t tmpfs none /run
export CHANGED="/etc/hosts $1"
shift
"$@" || exit 1
trap 'echo heard' HUP
echo $$ >/run/sshd.pid
"$@"
"""


@pytest.mark.parametrize(("role", "settings"), [("base", "60-stampworks"), ("slurm_worker", "50-stampworks-jobs")])
def test_sshd_is_told_of_its_settings_where_one_runs(role: str, settings: str) -> None:
    """Under systemd, sshd starts with the first connection, and a node that configures itself had none."""
    tasks = load(PLAYBOOKS / "roles" / role / "tasks/configure.yml")
    commands = [argv for task in tasks for argv in task.get("stampworks.node.files", {}).get("then", ())]
    [told] = [argv for argv in commands if "sshd" in argv[-1]]
    changed = f"/etc/ssh/sshd_config.d/{settings}.conf"
    # a shell cannot trap a signal that was ignored at its start, as below nohup
    hears, alone = ["env", "--default-signal=HUP"], ["unshare", "--user", "--map-root-user", "--mount"]
    command = [*hears, *alone, "sh", "-c", SSHD, "sh", changed, *told]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")


@each_role
def test_readme_spec_and_defaults_name_the_same_variables(role: Path) -> None:
    """Each variable is documented, described and has a default or is required."""
    defaults = load(role / "defaults/main.yml")
    required = {name for name, option in spec(role).items() if option.get("required")}
    assert list(table(role)) == list(spec(role))
    assert set(defaults) == set(spec(role)) - required


@each_role
def test_readme_and_spec_say_the_same(role: Path) -> None:
    """Type and meaning of a variable are the same in both."""
    assert {name: (row[0], row[2]) for name, row in table(role).items()} == {
        name: (option["type"], option["description"]) for name, option in spec(role).items()
    }


@each_role
def test_readme_shows_the_defaults(role: Path) -> None:
    """The default in the table is the one in the file."""
    for name, value in load(role / "defaults/main.yml").items():
        shown = table(role)[name][1].strip("`")
        if isinstance(value, dict) and value:
            assert shown == ", ".join(f"{key}: {item}" for key, item in value.items())
        elif isinstance(value, str) and value.startswith("{{"):
            assert shown == value.strip("{} ")
        else:
            assert yaml.safe_load(shown) == value


@each_role
def test_a_variable_has_the_name_of_its_role(role: Path) -> None:
    """A reader knows from a variable's name where it is documented."""
    assert all(name.startswith(f"{role.name}_") for name in spec(role))


@each_role
def test_a_role_reads_documented_variables_only(role: Path) -> None:
    """Variables of a task or template are in the spec, or belong to the few that all roles share."""
    text = "\n".join(path.read_text() for folder in ("tasks", "templates") for path in (role / folder).glob("*"))
    prefixes = "|".join(each.name for each in ROLES)
    expressions = " ".join(re.findall(r"\{\{(.*?)\}\}|\{%(.*?)%\}", text, re.DOTALL) and _inside(text))
    read = set(re.findall(rf"\b((?:{prefixes}|cluster|node)_\w+|slurm_key)\b", expressions))
    strange = {name for name in read if name not in spec(role) and not name.startswith("node_")} - SHARED
    strange -= {each.name for each in ROLES}  # names of groups
    assert strange - _of_others(role, strange) == set()


def _inside(text: str) -> list[str]:
    whens = re.findall(r"^\s+when: (.*)$", text, re.MULTILINE)
    return [*re.findall(r"\{\{(.*?)\}\}", text, re.DOTALL), *re.findall(r"\{%(.*?)%\}", text, re.DOTALL), *whens]


def _of_others(role: Path, names: set[str]) -> set[str]:
    """Return the borrowed variables: the database's password of slurmdbd.conf, files of slurmd and sackd."""
    borrowed = {
        "slurm_accounting": {"database_password"},
        "slurm_login": {"slurm_controller_files"},
        "slurm_worker": {"slurm_controller_files"},
    }
    return borrowed.get(role.name, set()) & names


def test_the_registry_has_every_role() -> None:
    """Each folder has a row in catalog/roles.py and vice versa, and each row has a known selection of nodes."""
    names = [role.name for role in REGISTRY]
    folders = {path.name for path in ROLES}
    assert len(names) == len({*names}), "catalog/roles.py has two rows of one role"
    assert not (missing := folders - {*names}), f"catalog/roles.py has no row for playbooks/roles/{missing}"
    assert not (missing := {*names} - folders), (
        f"catalog/roles.py has rows without a folder in playbooks/roles: {missing}"
    )
    strange = {role.name: role.members for role in REGISTRY if role.members not in {**MEMBERS, **HARDWARE}}
    assert not strange, f"catalog/roles.py names nodes that neither MEMBERS nor HARDWARE has: {strange}"


def test_every_role_is_played() -> None:
    """The plays of site.yml are the stages of the registry, and each play's group is its role."""
    plays: dict[str, list[str]] = {role.name: [] for role in REGISTRY}
    for play in load(PLAYBOOKS / "site.yml"):
        name = play["tasks"][0]["ansible.builtin.import_role"]["name"]
        assert name in plays, f"site.yml: the play {play['name']!r} is of {name}, which catalog/roles.py does not have"
        plays[name].append(play["name"])
        assert play["hosts"] == ("all" if name == "validate" else name), f"site.yml: hosts of the play {play['name']!r}"
    for role in REGISTRY:
        assert plays[role.name] == [*role.stages], f"site.yml has other plays of {role.name} than catalog/roles.py"
        assert role.stages or role.name in OF_IMAGES, f"catalog/roles.py: {role.name} has no stage"


@pytest.mark.parametrize("release", catalog.releases().values(), ids=lambda release: release.name)
def test_releases_name_roles_of_hardware_in_their_order(release: catalog.Release) -> None:
    """A plan takes the roles of a group from its release, and an inventory orders them as the registry does."""
    ours = [role.name for role in REGISTRY if role.is_hardware]
    strange = [name for name in release.hardware if name not in ours]
    assert not strange, (
        f"releases.yaml: {release.name}: hardware: catalog/roles.py has no such role of hardware: {strange}"
    )
    assert [*release.hardware] == [name for name in ours if name in release.hardware]


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        ("kernel", "driver", "modules are built for the kernel that stays"),
        ("driver", "reboot", "what takes a reboot is there before the only one"),
        ("efa", "reboot", "the same"),
        ("pci", "reboot", "the same"),
        ("reboot", "persistence", "whatever wants the driver's module wants the one that is loaded then"),
        ("reboot", "scratch", "a reboot would unmount it"),
        ("fabric_manager", "dcgm", "it asks GPUs, which answer once their switches route"),
        ("fabric_manager", "slurm_worker", "no job starts before GPUs reach each other"),
        ("driver", "containers", "the toolkit writes down the driver that there is"),
        ("nccl", "slurm_worker", "jobs find what they run on"),
    ],
)
def test_order_of_roles(first: str, then: str, why: str) -> None:
    """Stages of hardware depend on the previous ones."""
    order = [play["hosts"] for play in load(PLAYBOOKS / "site.yml")]
    assert order.index(first) < order.index(then), why


def test_the_image_enters_every_install_part() -> None:
    """Slow steps happen once, in the image."""
    tasks = load(PLAYBOOKS / "roles/image/tasks/main.yml")
    entered = {task["ansible.builtin.import_role"]["name"] for task in tasks if "ansible.builtin.import_role" in task}
    assert entered == {role.name for role in ROLES if (role / "tasks/install.yml").exists()}
    configured = {role.name for role in ROLES if (role / "tasks/configure.yml").exists()}
    assert entered - configured == OF_IMAGES


def test_few_tasks_run_on_a_worker() -> None:
    """Each task costs time on every node: list a new task here only with a good reason."""
    workers = {
        "all hosts",
        "everyone",
        "workers",
        "Slurm workers",
        "simulated accelerators",
        "rails",
        "addressed rails",
    }
    per_worker = [role.name for role in REGISTRY if role.members in workers]
    tasks = [
        task
        for name in per_worker
        for task in load(PLAYBOOKS / "roles" / name / "tasks" / ("main.yml" if name == "validate" else "configure.yml"))
        # the look at a vendor's image is skipped wherever none is booted
        if not task.get("run_once") and "validate_image_parts" not in str(task.get("when"))
    ]
    assert len(tasks) <= 19


@each_role
def test_a_service_is_defined_once(role: Path) -> None:
    """Install and configure parts of a role define the same service."""
    tasks = {path.stem: path.read_text() for path in (role / "tasks").glob("*.yml")}
    defining = {part for part, text in tasks.items() if "stampworks.node.service_unit:" in text}
    importing = {part for part, text in tasks.items() if "import_tasks: service.yml" in text}
    assert (defining, importing) in [(set(), set()), ({"service"}, {"install", "configure"} & tasks.keys())]


@pytest.mark.parametrize(
    ("role", "service", "told"),
    [
        ("logs", "ship-logs", {"logs_group": "/stampworks/one/nodes"}),
        ("power", "power", {"power_settings": {"directory": "/var/lib/stampworks/power"}}),
    ],
)
def test_a_role_that_is_told_nothing_stops_its_service(role: str, service: str, told: dict[str, Any]) -> None:
    """Otherwise a service that ran before would keep asking for removed parts. Nothing is installed."""
    folder = PLAYBOOKS / "roles" / role
    tasks = [task for part in ("configure", "service") for task in load(folder / f"tasks/{part}.yml")]

    def done(variables: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
        variables = load(folder / "defaults/main.yml") | variables
        played = [task for task in tasks if Environment().compile_expression(task.get("when", "true"))(**variables)]  # noqa: S701
        found = [(name, of) for task in played for name, of in task.items() if name.startswith("stampworks.node.")]
        return [(name.rpartition(".")[2], of["name"], of.get("state"), of.get("enabled")) for name, of in found]

    assert done({}) == [("service_unit", service, "stopped", False)]
    assert done(told)[-1] == ("service_unit", service, "started", True)
    assert ("files", role, None, None) in done(told)


def test_checks_are_there_before_they_are_named() -> None:
    """A concurrent look never misses a named check."""
    [task] = load(PLAYBOOKS / "roles/health/tasks/configure.yml")
    files = task["stampworks.node.files"]["files"]
    assert files.index("health_programs") < files.index("health.json")


@each_role
def test_programs_of_the_image_are_looked_after(role: Path) -> None:
    """Files that the install part writes are repaired by the configure part, too."""
    written, kept = (programs(role / f"tasks/{part}.yml") for part in ("install", "configure"))
    assert written <= kept


def programs(path: Path) -> set[str]:
    tasks = path.read_text() if path.exists() else ""
    return set(re.findall(r"/usr/local/[\w/.-]+", tasks))


def test_each_module_has_its_action() -> None:
    """A module without an action would run through Ansible's wrapper, and fail there."""
    modules = {path.stem for path in (MODULES / "modules").glob("*.py")}
    actions = {path.stem for path in (MODULES / "action").glob("*.py")}
    assert actions - modules == {"inventory_contract"}
    assert modules <= actions


@pytest.mark.parametrize("path", sorted((MODULES / "action").glob("*.py")), ids=lambda path: path.stem)
def test_an_action_runs_the_module_of_its_name(path: Path) -> None:
    """Thin actions are written by copying another."""
    if path.stem != "inventory_contract":
        assert f'module = "{path.stem}"' in path.read_text()


@pytest.mark.parametrize("path", sorted((MODULES / "modules").glob("*.py")), ids=lambda path: path.stem)
def test_a_module_imports_what_a_node_has(path: Path) -> None:
    """Imports are the standard library and the toolkit's utilities: nodes have nothing else, and no other file is
    sent."""
    imports = re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
    assert set(imports) <= {"__future__", "ansible_collections", *__import__("sys").stdlib_module_names}


def test_secret_files_are_marked() -> None:
    """A file that holds a key or a password is never shown in a diff."""
    for path in PLAYBOOKS.rglob("tasks/*.yml"):
        for task in load(path) or []:
            files = (task.get("stampworks.node.files") or {}).get("files", [])
            # these include the files of the node's package manager
            if "_base_files" in files or "_base_own_files" in files:
                by_manager, always = task["vars"].values()
                files = [*always, *(each for manager in by_manager.values() for each in manager)]
            if isinstance(files, str):  # our own, continued by the user's, or by a folder for each of them
                assert path.parents[1].name in ("access", "containers", "health")
                files = [{"path": "", "template": name} for name in re.findall(r"'([^']+\.j2)'", files)]
                assert files
            for file in files:
                template = path.parents[1] / "templates" / file.get("template", "")
                text = file.get("content", "") + (template.read_text() if template.is_file() else "")
                if re.search(r"slurm_key|_password", text):
                    assert file.get("secret"), f"{path}: {file['path']}"
                    assert file["mode"] == "0600", f"{path}: {file['path']}"


def test_node_programs_suit_the_oldest_python() -> None:
    """Amazon Linux has Python 3.9: newer syntax and newer arguments of zip are not allowed."""
    plugins = PLAYBOOKS / "collections/ansible_collections/stampworks/node/plugins"
    found = [*plugins.glob("modules/*.py"), *plugins.glob("module_utils/*.py")]
    found += [path for path in PLAYBOOKS.glob("roles/*/files/*") if path.read_bytes().startswith(b"#!/usr/bin/python3")]
    assert len(found) > 30
    for path in found:
        tree = ast.parse(path.read_text(), path.name, feature_version=(3, 9))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not [call.lineno for call in calls if "strict" in {each.arg for each in call.keywords}], path


def test_names_of_nodes_leave_out_rails_without_address() -> None:
    """Rails of InfiniBand have no address: the second rail keeps its number, and no line begins with a blank."""
    member = {"name": "gpu-001", "address": "10.0.0.1", "rail_addresses": ["", "10.1.0.1"], "host_key": "ssh-ed25519 K"}
    hosts, keys = (
        Environment(trim_blocks=True).from_string((PLAYBOOKS / "roles/base/templates" / name).read_text())  # noqa: S701
        for name in ("hosts.j2", "known_hosts.j2")
    )
    assert hosts.render(cluster_members=[member]).splitlines()[2:] == ["10.0.0.1 gpu-001", "10.1.0.1 gpu-001-rail1"]
    assert keys.render(cluster_members=[member]).splitlines()[1:] == ["gpu-001,10.0.0.1,10.1.0.1 ssh-ed25519 K"]
