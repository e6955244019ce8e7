"""Roles and checks of the user: allowed names, and existence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stampworks.configuration import playbooks_dir
from stampworks.declaration import load_file
from stampworks.declaration.own import CHECK_SIZE_MAX_KIB
from stampworks.declaration.values import OUR_CHECKS, OUR_ROLES

from .conftest import Complaint

HEAD = """\
version: 1
name: a
cloud: local
pools:
  - {name: gpu, machine: sim-h100, count: 1}
  - {name: big, machine: sim-cpu, count: 1, scheduling_only: true}
"""
UNREADABLE_HINT = "write YAML in UTF-8, at most 64 KiB, without tags of Ansible and without merge keys"
MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * 10)}]}}\n" for number in range(1, 30)
)
"""Merged values that would exceed the memory of any machine."""


@pytest.fixture
def project(folder: Path) -> Path:
    """A project with a role and a check."""
    role(folder / "roles" / "motd")
    (folder / "checks").mkdir()
    (folder / "checks" / "scratch.sh").write_text("#!/bin/sh\n")
    (folder / "Pulumi.yaml").write_text("")
    return folder


def role(folder: Path) -> None:
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "main.yml").write_text("[]\n")


def with_role(entry: str) -> str:
    return f"{HEAD}extras:\n  roles:\n    - {{{entry}}}\n"


def with_check(entry: str) -> str:
    return f"{HEAD}extras:\n  checks:\n    - {{{entry}}}\n"


def test_our_names_are_known() -> None:
    """A new role or check of the toolkit is refused to users from then on."""
    assert {"base", "driver", "slurm_worker"} < OUR_ROLES
    program = (playbooks_dir() / "roles/health/files/stampworks-health").read_text()
    [names] = re.findall(r"^CHECKS = \((.*)\)$", program, re.MULTILINE)
    assert set(names.split(", ")) == OUR_CHECKS


@pytest.mark.parametrize(
    "meta", ["", "dependencies:\n", "dependencies: []\n", "dependencies: ~\n", "[a]\n", MERGES, "a: !odd b\n"]
)
def test_a_role_that_depends_on_none(project: Path, meta: str) -> None:
    """Other entries of its meta/main.yml belong to Ansible, and are not resolved here."""
    (project / "roles" / "motd" / "meta").mkdir()
    (project / "roles" / "motd" / "meta" / "main.yml").write_text(meta)
    (project / "cluster.yaml").write_text(with_role("path: roles/motd"))
    load_file(project / "cluster.yaml").refuse_problems()


def test_a_role_and_a_check(project: Path) -> None:
    """Settings of roles and checks arrive, and variables keep their types."""
    variables = "{motd_lines: [1, 2.5, true, ~, {deep: '{{ x }}'}]}"
    text = with_role(f"path: ./roles/motd/, groups: [head, gpu], variables: {variables}")
    (project / "cluster.yaml").write_text(text + "  checks:\n    - {path: checks/scratch.sh, timeout_seconds: 3}\n")
    extras = load_file(Path("cluster.yaml")).declaration.extras
    assert extras.roles[0].groups == ("head", "gpu")
    assert extras.roles[0].variables == {"motd_lines": [1, 2.5, True, None, {"deep": "{{ x }}"}]}
    assert extras.checks[0].timeout_seconds == 3


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        ("path: roles/mtd", "roles/mtd does not exist", "did you mean 'motd'?"),
        ("path: rolls/motd", "rolls/motd does not exist", "no role is there"),
        ("path: checks", "checks is not a role", "a role is a folder with tasks/main.yml"),
        ("path: ../outside", "../outside lies outside of the project", "copy it into {project}"),
        ("path: link", "link lies outside of the project", "copy it into {project}"),
        ("path: /etc/x", "'/etc/x' is not a relative path", "write it from this file's folder, like roles/motd"),
        ("path: ~/x", "'~/x' is not a relative path", "write it from this file's folder, like roles/motd"),
        (
            "path: 'a{{ x }}'",
            "'a{{ x }}' is not a plain path",
            "a path has letters, digits, blanks and . _ + @ - /, and no more than 255 of them",
        ),
        (
            "path: roles/base",
            "'base' is a name that Stampworks uses itself",
            "rename the folder after the purpose of the role",
        ),
        (
            "path: roles/all",
            "'all' is a name that Stampworks uses itself",
            "rename the folder after the purpose of the role",
        ),
        (
            "path: roles/My-Role",
            "'My-Role' is not a legal name of a role",
            "rename the folder: a role's name is 1 to 32 small letters, digits and '_', and begins with a letter",
        ),
        ("path: itself", "itself is not a role", "a role is a folder with tasks/main.yml"),
        (
            "path: roles/linked",
            "roles/linked has a link that leads to a folder, files/shared",
            "put the folder itself there: the files behind the link would not reach the nodes",
        ),
        (
            "path: roles/needy",
            "roles/needy depends on another role",
            "list that role in extras.roles before this one, and remove it from meta/main.yml",
        ),
        (
            "path: roles/odd",
            "roles/odd has a meta/main.yaml that cannot be read",
            UNREADABLE_HINT,
        ),
        ("path: roles/merging", "roles/merging has a meta/main.yml that cannot be read", UNREADABLE_HINT),
        ("path: roles/large", "roles/large has a meta/main.yml that cannot be read", UNREADABLE_HINT),
        (
            "path: roles/motd, groups: [gpu, big]",
            "pool big is for scheduling only: nothing runs there",
            "take it out, or take scheduling_only out of the pool",
        ),
        (
            'path: roles/motd, variables: {motd_text: [{a: "\\ud800"}]}',
            "a text in it has half of a character (a lone surrogate)",
            "write the character itself",
        ),
        ("path: roles/motd, groups: [gpo]", "no group is called 'gpo'", "did you mean 'gpu'?"),
        (
            "path: roles/motd, variables: {text: hello}",
            "'text' is not a legal name of a variable of this role",
            "begin it with motd_, so that no other role has it; use letters, digits and '_' only",
        ),
        (
            "path: roles/motd, variables: [a]",
            "must be a mapping, not a list",
            "variables of the role: data of any shape, never a template. Each name begins with the role's",
        ),
    ],
)
def test_a_role_that_cannot_be(project: Path, complaint: Complaint, entry: str, message: str, hint: str) -> None:
    """Each problem has its own line and a hint."""
    role(project.parent / "outside")
    (project / "link").symlink_to(project.parent / "outside")
    (project / "itself").symlink_to("itself")
    for name in ("linked", "needy", "odd", "merging", "large"):
        role(project / "roles" / name)
        (project / "roles" / name / "meta").mkdir()
        (project / "roles" / name / "files").mkdir()
    (project / "roles" / "linked" / "files" / "shared").symlink_to(project / "checks")
    (project / "roles" / "needy" / "meta" / "main.yml").write_text("dependencies: [motd]\n")
    (project / "roles" / "odd" / "meta" / "main.yaml").write_text("dependencies: !odd [motd]\n")
    (project / "roles" / "merging" / "meta" / "main.yml").write_text(f"{MERGES}<<: *a29\n")
    (project / "roles" / "large" / "meta" / "main.yml").write_text("#" * 64 * 1024 + "\n")
    said = complaint(with_role(entry)).splitlines()
    assert re.fullmatch(rf"cluster.yaml:9:\d+: extras\.roles\[0\]\.[^:]*: {re.escape(message)}", said[0]), said
    assert said[3] == f"  hint: {hint.format(project=project)}"
    assert said[-1] == "1 problem in cluster.yaml: nothing was changed."


@pytest.mark.parametrize(
    ("content", "entry", "message", "hint"),
    [
        (b"", "path: checks/scrach.sh", "checks/scrach.sh does not exist", "did you mean 'scratch.sh'?"),
        (b"", "path: roles", "roles is not a file", "a check is a script"),
        (
            b"echo hello",
            "path: checks/x.sh",
            "checks/x.sh is not a script",
            "write it in UTF-8, with the interpreter in its first line, for example #!/bin/sh",
        ),
        (
            b"#!\xff",
            "path: checks/x.sh",
            "checks/x.sh is not a script",
            "write it in UTF-8, with the interpreter in its first line, for example #!/bin/sh",
        ),
        (
            b"#!" + b" " * CHECK_SIZE_MAX_KIB * 1024,
            "path: checks/x.sh",
            "checks/x.sh is larger than 64 KiB",
            "let a role install what it needs, and the check call that",
        ),
        (
            b"",
            "path: checks/disk.sh",
            "'disk' is one of Stampworks' own checks",
            "rename the file after the subject of the check",
        ),
        (
            b"",
            "path: checks/scratch.sh, pools: [head]",
            "'head' is the name of the controller",
            "name the pool after the use of its nodes",
        ),
        (b"", "path: itself", "itself is not a file", "a check is a script"),
        (
            b"",
            "path: checks/scratch.sh, pools: [big]",
            "pool big is for scheduling only: nothing runs there",
            "take it out, or take scheduling_only out of the pool",
        ),
        (b"", "path: checks/scratch.sh, pools: [cpu]", "no pool is called 'cpu'", "did you mean 'gpu'?"),
    ],
    ids=lambda value: value[:20] if isinstance(value, (bytes, str)) else None,
)
def test_a_check_that_cannot_be(
    project: Path, complaint: Complaint, content: bytes, entry: str, message: str, hint: str
) -> None:
    """Checks must be scripts, so that no other file gets into the state. Each problem has its line."""
    (project / "checks" / "x.sh").write_bytes(content)
    (project / "itself").symlink_to("itself")
    said = complaint(with_check(entry)).splitlines()
    assert re.fullmatch(rf"cluster.yaml:9:\d+: extras\.checks\[0\]\.[^:]*: {re.escape(message)}", said[0]), said
    assert said[3] == f"  hint: {hint}"
    assert said[-1] == "1 problem in cluster.yaml: nothing was changed."


def test_two_of_one_name(project: Path, complaint: Complaint) -> None:
    """Names come from paths, so that two folders can have the same name."""
    role(project / "more" / "motd")
    said = complaint(with_role("path: roles/motd") + "    - {path: more/motd}\n")
    assert "extras.roles[1].path: a second role is called 'motd'" in said
    assert "  hint: extras.roles[0] has this name already; rename one of the two" in said


def test_the_paths_of_a_base_begin_in_its_own_folder(project: Path) -> None:
    """A declaration in any folder that extends it finds the same role."""
    role(project / "common" / "roles" / "banner")
    (project / "common" / "deeper").mkdir()
    (project / "common" / "deeper" / "base.yaml").write_text(
        "extras: {roles: [{path: ../roles/banner}], checks: [{path: ../../checks/scratch.sh}]}\n"
    )
    (project / "common" / "middle.yaml").write_text("extends: deeper/base.yaml\n")
    (project / "stacks").mkdir()
    (project / "stacks" / "cluster.yaml").write_text(f"extends: ../common/middle.yaml\n{HEAD}")
    extras = load_file(project / "stacks" / "cluster.yaml").declaration.extras
    assert Path("stacks", extras.roles[0].path).resolve() == project / "common" / "roles" / "banner"
    assert Path("stacks", extras.checks[0].path).resolve() == project / "checks" / "scratch.sh"


def test_a_problem_of_a_base_is_shown_where_it_is_written(project: Path) -> None:
    """The path is relative to the folder of the user's file."""
    (project / "common").mkdir()
    (project / "common" / "base.yaml").write_text("extras: {roles: [{path: roles/motd}]}\n")
    (project / "cluster.yaml").write_text(f"extends: common/base.yaml\n{HEAD}")
    with pytest.raises(Exception, match=r"common/base\.yaml:1:25: .*: common/roles/motd does not exist"):
        load_file(Path("cluster.yaml")).refuse_problems()


def test_without_a_project_the_files_folder_counts(folder: Path, complaint: Complaint) -> None:
    """A single declaration has no project around it."""
    role(folder.parent / "motd")
    assert f"hint: copy it into {folder}" in complaint(with_role("path: ../motd"))
