"""A stack with a wrong declaration: the user's exact output, and no created resource."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.stack import Stack

pytestmark = pytest.mark.engine


def diagnostics(stack: Stack, *argv: str) -> str:
    """Return the engine's diagnostics of a refused run, under the heading of the stack."""
    done = stack.run(*argv)
    assert done.returncode != 0
    assert stack.resources() == {}
    assert stack.traces() == []
    found = re.search(r"Diagnostics:\n(.*?)\nResources:", done.stdout, re.DOTALL)
    assert found, done.stdout
    return found[1].rstrip()


def test_a_preview_of_a_good_declaration_creates_nothing(stack: Stack) -> None:
    """All resources show as creations, and the machine is as before."""
    shown = stack.preview()
    assert "+ 12 to create" in shown
    assert "kubeconfig" not in shown  # Slurm has none
    assert stack.traces() == []


def test_all_problems_are_shown_with_their_lines(stack: Stack) -> None:
    """Every problem names the user's line, and nothing else is printed."""
    stack.edit("count: 2", "count: 0")
    stack.edit("mount: /shared", "mont: /shared")
    shown = diagnostics(stack, "up", "--yes", "--skip-preview")
    stack.edit("count: 0", "count: 2")
    stack.edit("mont: /shared", "mount: /shared")
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert lines[0] == "pulumi:pulumi:Stack (test-test):"
    assert lines[1].startswith("error: stacks/Pulumi.test.yaml:8:")
    assert lines[2] == "- {name: gpu, machine: sim-h100, count: 0}"
    assert lines[-1] == "2 problems in stacks/Pulumi.test.yaml: nothing was changed."
    assert len([line for line in lines if "error:" in line]) == 1


def test_a_machine_that_does_not_exist_is_refused_in_a_preview(stack: Stack) -> None:
    """Names of the catalog are checked before anything happens, too."""
    stack.edit("sim-h100", "sim-h10")
    shown = diagnostics(stack, "preview")
    stack.edit("sim-h10", "sim-h100")
    assert shown == "\n".join(
        [
            "  pulumi:pulumi:Stack (test-test):",
            "    error: stacks/Pulumi.test.yaml:8:30: pools[0].machine: no machine is called 'sim-h10'",
            "              - {name: gpu, machine: sim-h10, count: 2}",
            "                                     ^",
            "      hint: did you mean 'sim-h100'?",
            "    ",
            "    1 problem in stacks/Pulumi.test.yaml: nothing was changed.",
        ]
    )


def test_up_refuses_a_cluster_without_machines(stack: Stack) -> None:
    """`stampworks plan` accepts a rack that somebody has yet to build, but an `up` needs the list of its machines."""
    stack.edit("cloud: local", "cloud: hosts")
    stack.edit("sim-h100", "dgx-h100")
    shown = diagnostics(stack, "up", "--yes", "--skip-preview")
    stack.edit("cloud: hosts", "cloud: local")
    stack.edit("dgx-h100", "sim-h100")
    assert shown.splitlines()[1:] == [
        "    error: stacks/Pulumi.test.yaml:2:3: hosts: the cluster is stamped on machines that exist, and none are "
        "listed",
        "          stampworks:cluster:",
        "          ^",
        "      hint: list them: docs/how-to/hosts.md",
        "    ",
        "    1 problem in stacks/Pulumi.test.yaml: nothing was changed.",
    ]


IN_PYTHON = """\
from stampworks import Cluster, Declaration, Fabric, Pool

pools = (Pool(name="gpu", machine="sim-h10", count=0), Pool(name="head", machine="sim-h100", count=2, nods=1))
Cluster("demo", Declaration(version=1, name="demo", cloud="local", fabric=Fabric(leaf_nodes="4"), pools=pools))
"""


def test_all_problems_of_a_declaration_in_python_are_shown_with_their_paths(stack: Stack) -> None:
    """The texts are those for a file, with a path instead of a line."""
    program = stack.folder / "stacks" / "__main__.py"
    before = program.read_text()
    program.write_text(IN_PYTHON)
    shown = diagnostics(stack, "preview")
    program.write_text(before)
    assert [line.strip() for line in shown.splitlines() if line.strip()] == [
        "pulumi:pulumi:Stack (test-test):",
        "error: Cluster('demo'): pools[0].count: must be from 1 to 4096, not 0",
        "hint: largest number of nodes; for none, take the pool out",
        "Cluster('demo'): pools[1].name: 'head' is the name of the controller",
        "hint: name the pool after the use of its nodes",
        "Cluster('demo'): pools[1].nods: there is no such key",
        "hint: there are name, machine, count, count_min, purchase, zone, reservation, fallbacks and scheduling_only",
        "Cluster('demo'): fabric.leaf_nodes: must be a whole number, not '4'",
        "hint: write 4 without quotes",
        "Cluster('demo'): pools[0].machine: no machine is called 'sim-h10'",
        "hint: did you mean 'sim-h100'?",
        "5 problems in Cluster('demo'): nothing was changed.",
    ]


def test_a_project_that_names_no_plugin_is_told_what_to_add(stack: Stack) -> None:
    """The error prevents an attempt to download a plugin."""
    project = stack.folder / "Pulumi.yaml"
    before = project.read_text()
    project.write_text("".join(line for line in before.splitlines(keepends=True) if "plugins:" not in line))
    shown = diagnostics(stack, "preview")
    project.write_text(before)
    assert [line[4:] for line in shown.splitlines()[1:]] == [
        f"error: {project} does not say where the plugin of stampworks is.",
        "  hint: add",
        "        plugins:",
        "          providers:",
        "            - name: stampworks",
        f"              path: {sys.prefix}/share/stampworks",
    ]


def test_the_plugin_of_another_environment_is_refused(stack: Stack) -> None:
    """A plugin of another version may have other resources."""
    other = stack.folder / "other" / "share" / "stampworks"
    shutil.copytree(Path(sys.prefix) / "share" / "stampworks", other)
    project = stack.folder / "Pulumi.yaml"
    before = project.read_text()
    project.write_text(before.replace(f"{sys.prefix}/share/stampworks", "other/share/stampworks"))
    shown = diagnostics(stack, "preview")
    project.write_text(before)
    assert [line[4:] for line in shown.splitlines()[1:4]] == [
        f"error: {project}: {other} is not the plugin of the environment that the program runs in.",
        "  hint: write",
        "        plugins:",
    ]


def test_a_full_disk_is_refused_before_the_engine_loses_its_state(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error lists all full folders, their free space, and their use."""
    # A small disk that only this engine sees: rooms of other tests would keep what is mounted meanwhile.
    engine = tmp_path / "pulumi"
    engine.write_text(
        "#!/bin/sh -e\n"
        '[ "$1" = inside ] || exec unshare --mount "$0" inside "$@"\n'
        "shift\n"
        f"mount -t tmpfs -o size=8m tmpfs {shlex.quote(str(stack.state))}\n"
        f'exec {shlex.quote(str(shutil.which("pulumi")))} "$@"\n'
    )
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    refused = stack.run("up", "--yes", "--skip-preview")
    assert stack.run("preview").returncode == 0
    monkeypatch.undo()
    assert refused.returncode != 0
    assert (stack.resources(), stack.traces()) == ({}, [])
    _, _, shown = refused.stdout.partition("Diagnostics:\n")
    said, hint = shown.splitlines()[1:3]
    what = r"8 MiB are left, and an `up` needs up to 304 \(3 nodes 48, the queue and the accounting 256\)"
    assert re.fullmatch(rf" +error: {re.escape(str(stack.state))}: {what}", said), said
    assert hint.strip() == (
        "hint: make room there, or name folders elsewhere: STAMPWORKS_STATE, STAMPWORKS_CACHE; nothing was changed"
    )
