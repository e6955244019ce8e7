"""A new role of the project's playbooks."""

from __future__ import annotations

from pathlib import Path

from stampworks.declaration.values import TAKEN_GROUPS

from . import names
from .files import File, Scaffold, ScaffoldError

README = """\
# NAME

Say in one sentence what the role does.

Say which files and services it owns on a node, and what was not exercised.

| variable | type | default | meaning |
| --- | --- | --- | --- |
| `NAME_text` | str | `""` | The content of the file. |
"""
DEFAULTS = """\
---
NAME_text: ""
"""
SPECS = """\
---
argument_specs:
  main:
    short_description: Say in one sentence what the role does.
    options:
      NAME_text:
        description: The content of the file.
        type: str
"""
MAIN = """\
---
- name: Configure
  ansible.builtin.import_tasks: configure.yml
"""
CONFIGURE = """\
---
- name: Write the file
  stampworks.node.files:
    name: NAME
    files:
      - {path: /etc/stampworks/NAME, content: "{{ NAME_text }}"}
"""
TEST = '''\
"""The role NAME: say what a node has when it is through."""

from __future__ import annotations

import pytest
import yaml
from stampworks.catalog.roles import ROLES
from stampworks.configuration import playbooks_dir

ROLE = "NAME"


def test_the_registry_has_the_role() -> None:
    """Without a row the role is on no node."""
    assert ROLE in {role.name for role in ROLES}, f"add a row of {ROLE} to components/stampworks/catalog/roles.py"


def test_site_plays_the_role() -> None:
    """Without a play the role never runs."""
    plays = yaml.safe_load((playbooks_dir() / "site.yml").read_text())
    assert ROLE in {play["hosts"] for play in plays}, f"add a play with hosts: {ROLE} to playbooks/site.yml"


def test_a_node_has_what_the_role_brings() -> None:
    """The role is not written yet."""
    pytest.fail(
        f"write playbooks/roles/{ROLE}/tasks/configure.yml, then replace this test by one that runs it and looks at "
        "the node: tests/playbooks/test_logs.py is an example"
    )
'''
STEPS = (
    "Write what the role does: playbooks/roles/NAME/tasks/configure.yml, the same variables in defaults/main.yml,\n"
    "meta/argument_specs.yml and README.md. Each name begins with NAME_.",
    "Add its row to components/stampworks/catalog/roles.py, where groups of an inventory have their order:\n"
    '    Role("NAME", "workers", "what it does", ("Stage",)),\n'
    "The second word is a key of MEMBERS or HARDWARE there. Then run: python -m tests.docs.roles",
    "Add its stage to playbooks/site.yml:\n"
    "    - name: Stage\n"
    "      hosts: NAME\n"
    "      gather_facts: false\n"
    "      tasks:\n"
    "        - name: Say what it does\n"
    "          ansible.builtin.import_role: {name: NAME, tasks_from: configure, rolespec_validate: false}",
    "Where something can go into the image: tasks/install.yml, imported by tasks/main.yml, entered in\n"
    "playbooks/roles/image/tasks/main.yml. Its packages: a line in components/stampworks/catalog/releases.yaml.",
    "Where it takes values from the plan: role_variables in components/stampworks/configuration/inventory.py.",
    "pytest tests/playbooks/test_role_NAME.py tests/playbooks/test_roles.py tests/docs\n"
    "pytest --regenerate tests/configuration, and look at what changed in tests/configuration/golden",
)


def scaffold(name: str, root: Path) -> Scaffold:
    """Return the files of a role."""
    names.check("role", name, names.MODULE, names.MODULE_RULE)
    if name in TAKEN_GROUPS:
        raise ScaffoldError(f"{name!r} is a group or host of every inventory: use another name for the role")
    folder = f"playbooks/roles/{name}"
    if (root / folder).exists():
        raise ScaffoldError(f"there is a role {name!r} already: {folder}")
    texts = {
        f"{folder}/README.md": README,
        f"{folder}/defaults/main.yml": DEFAULTS,
        f"{folder}/meta/argument_specs.yml": SPECS,
        f"{folder}/tasks/main.yml": MAIN,
        f"{folder}/tasks/configure.yml": CONFIGURE,
        f"tests/playbooks/test_role_{name}.py": TEST,
    }
    files = [File(path, text.replace("NAME", name)) for path, text in texts.items()]
    return Scaffold(files, [step.replace("NAME", name) for step in STEPS])
