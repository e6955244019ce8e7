"""The package as its users have it: commands, types and a program of a few lines, away from the repository."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import stampworks
from stampworks.text.version import VERSION

from tests.wheel.conftest import ROOT, Environment

PAGE = (ROOT / "docs" / "how-to" / "python.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROJECT, STACK, ROLE = (text for language, text in BLOCKS if language == "yaml")
PROGRAM, STACK_PROGRAM, EXTRAS = (text for language, text in BLOCKS if language == "python")
COMMANDS, CHECK = (text for language, text in BLOCKS if language == "sh")


def test_a_plan_of_a_stack(environment: Environment) -> None:
    """`stampworks plan` needs a file and no clone; the project's own folder of stacks is the default."""
    (environment.project / "Pulumi.yaml").write_text(PROJECT)
    (environment.project / "Pulumi.dev.yaml").write_text(STACK)
    by_name = environment.run("stampworks", "plan", "-s", "dev")
    assert by_name == environment.run("stampworks", "plan", "Pulumi.dev.yaml")
    assert by_name.startswith("cluster demo on local: 2 x sim-h100 (simulated)\n")


def test_the_version(environment: Environment) -> None:
    """The command and the metadata of an installed wheel agree."""
    assert environment.run("stampworks", "--version") == f"stampworks {VERSION}\n"
    asked = "from importlib.metadata import version; print(version('stampworks'))"
    assert environment.run("python", "-c", asked) == f"{VERSION}\n"


def test_the_schema(environment: Environment) -> None:
    """The installed package knows the fields that the repository's does."""
    from stampworks.declaration import schema

    assert json.loads(environment.run("stampworks", "schema")) == schema()


def test_playbooks_and_catalog_are_found(environment: Environment) -> None:
    """Digests over all playbooks and over those of the image are the repository's."""
    from stampworks import configuration

    program = "from stampworks import configuration as c; print(c.playbooks_digest(), c.install_digest())"
    said = environment.run("python", "-c", program)
    assert said.split() == [configuration.playbooks_digest(), configuration.install_digest()]


def test_nothing_comes_from_the_repository(environment: Environment) -> None:
    """All imported modules are those of the installed package."""
    program = "import sys, stampworks.cluster; print(*(getattr(one, '__file__', '') for one in sys.modules.values()))"
    said = environment.run("python", "-c", program)
    assert str(environment.folder) in said
    assert str(ROOT) not in said


def test_the_command_line_does_without_the_engines_sdk(environment: Environment) -> None:
    """A name is imported when it is asked for, so that `stampworks plan` does not pay for Pulumi."""
    program = "import sys, stampworks.cli.main; from stampworks import Pool; print('pulumi' in sys.modules)"
    assert environment.run("python", "-c", program) == "False\n"


@pytest.mark.parametrize("name", stampworks.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    """Names in __all__ exist."""
    assert getattr(stampworks, name).__name__ == name


def typed(environment: Environment, text: str) -> list[str]:
    """Return the messages of a strict type checker about a user's program, with the user's environment."""
    program = environment.project / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "--no-incremental"]
    done = subprocess.run(
        [*command, "--python-executable", environment.folder / "bin" / "python", program.name],
        cwd=environment.project,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


# One run of the checker for all mistakes: it reads Pulumi's SDK, which takes seconds.
MISTAKES = {
    'Pool(name="gpu", machine="sim-h100", count="2")': '"count" to "Pool" has incompatible type "str"; expected "int"',
    'Pool(name="gpu", machine="sim-h100")': 'Missing named argument "count" for "Pool"',
    'Pool(name="gpu", machine="sim-h100", count=2, rack=1)': 'Unexpected keyword argument "rack" for "Pool"',
    "Fabric(oversubscription=3)": '"oversubscription" to "Fabric" has incompatible type "Literal[3]"',
    'Scheduler(topology="ring")': '"topology" to "Scheduler" has incompatible type "Literal[\'ring\']"',
    'Cluster("demo", {"name": "demo"})': 'Argument 2 to "Cluster" has incompatible type "dict[str, str]"',
    "cluster.header": '"Cluster" has no attribute "header"',
    'Role(path="roles/x", variables=["y"])': '"variables" to "Role" has incompatible type "list[str]"',
    "declaration.pools[0].kind": '"Pool" has no attribute "kind"',
}


def test_types_are_checked_in_a_users_program(environment: Environment) -> None:
    """The programs of the page pass a strict checker, and each mistake is found in its own line."""
    begin = f"{PROGRAM}\n{EXTRAS}\n{STACK_PROGRAM}\nfrom stampworks import Fabric\n"
    first = begin.count("\n") + 1
    said = typed(environment, begin + "".join(f"{mistake}\n" for mistake in MISTAKES))
    found = {line.split(":")[1]: line for line in said if ": error:" in line}
    assert list(found) == [str(first + number) for number in range(len(MISTAKES))], said
    for line, expected in zip(found.values(), MISTAKES.values(), strict=True):
        assert expected in line
