"""The command line as a whole: exit codes, error texts and quiet exits."""

from __future__ import annotations

import importlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import VERBS, main, parser
from stampworks.text.version import VERSION

from tests.cli.conftest import STACK
from tests.operations.slurm.standin import StandIn

SCHEMA = [sys.executable, "-m", "stampworks.cli.main", "schema"]


def usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and error text of a command line that argparse refuses."""
    return main(argv), capsys.readouterr().err


def choices(verb: str = "") -> list[str]:
    [found] = [action.choices for action in parser(verb)._actions if isinstance(action.choices, dict)]
    return list(found)


def test_each_verb_is_where_the_table_says() -> None:
    """A verb that the table lacks could not be called."""
    assert choices() == list(VERBS)
    for verb, module in VERBS.items():
        assert choices(verb) == [each for each, other in VERBS.items() if other == module]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (
            ["plna"],
            "stampworks: argument VERB: invalid choice: 'plna' (choose from "
            + ", ".join(f"'{verb}'" for verb in VERBS)
            + ")\n"
            "  hint: did you mean plan? `stampworks --help` says more\n",
        ),
        (
            [],
            "stampworks: the following arguments are required: VERB\n  hint: `stampworks --help` says more\n",
        ),
        (
            ["plan", "--jsno"],
            "stampworks: unrecognized arguments: --jsno\n  hint: did you mean --json? `stampworks --help` says more\n",
        ),
        (
            ["plan", "-s", "a", "b"],
            "stampworks plan: argument FILE: not allowed with argument -s/--stack\n"
            "  hint: `stampworks plan --help` says more\n",
        ),
        (
            ["ssh"],
            "stampworks ssh: one of the arguments NODE --job is required\n  hint: `stampworks ssh --help` says more\n",
        ),
        (
            ["qualify", "--budget", "1h"],
            "stampworks qualify: argument --budget: '1h' is not a whole number of minutes from 1 to 10080\n"
            "  hint: `stampworks qualify --help` says more\n",
        ),
        (
            ["run", "--nodes", "0", "--", "true"],
            "stampworks run: argument --nodes: '0' is not a number of nodes: write 1 or more\n"
            "  hint: `stampworks run --help` says more\n",
        ),
    ],
)  # fmt: skip
def test_a_wrong_command_line(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line is refused with the nearest valid word, and exit code 2."""
    assert usage(argv, capsys) == (exits.WRONG_INPUT, text)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["fabric", "nope", "4", "--json"], "no machine is called 'nope'"),
        (["fabric", "ND96isr_H100_v5", "0", "--json"], "a cluster of 0 nodes"),
        (["estimate", "--params", "8X", "--json"], "stampworks estimate: argument --params: '8X' is no count"),
        (["explain", "nope", "--json"], "'nope': there is no 'nope' in a plan"),
        (["status", "--json"], "no cluster of stack 'local' is running"),
        (["report", "nope.json", "--format", "json"], "nope.json: No such file or directory"),
        (["report", "nope.json", "--format=json"], "nope.json: No such file or directory"),
    ],
)
def test_an_error_as_json(argv: list[str], message: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are JSON if requested; stderr has the text in addition."""
    assert main(argv) != exits.FINE
    out, err = capsys.readouterr()
    [problem] = json.loads(out)["error"]["problems"]
    assert problem["message"].startswith(message)
    assert list(problem) == ["file", "line", "column", "path", "message", "hint"]
    assert err.startswith(message)


def test_problems_of_a_declaration_as_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, each with its place as numbers."""
    file = project / "stacks" / "Pulumi.local.yaml"
    file.write_text(STACK.replace("count: 2", "count: many").replace("uid: 2001", "uid: 1"))
    assert main(["plan", "--json"]) == exits.WRONG_INPUT
    out, err = capsys.readouterr()
    one, other = json.loads(out)["error"]["problems"]
    assert (one["file"], one["line"], one["column"]) == (str(file), 7, 47)
    assert (one["path"], one["message"]) == ("pools[0].count", "must be a whole number, not 'many'")
    assert (other["line"], other["path"]) == (10, "users[0].uid")
    assert err.startswith(f"{file}:7:47: pools[0].count: must be a whole number")


def test_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says where the project was searched."""
    monkeypatch.chdir(tmp_path)
    assert main(["plan"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        f"no Pulumi.yaml in {tmp_path} or above it\n  hint: change to a clone of Stampworks or a project that uses it\n"
    )


@pytest.mark.parametrize("verb", [["plan"], ["status"], ["image"], ["ssh", "-s", "prod", "head"]])
def test_no_such_stack(verb: list[str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every verb that takes a stack lists the existing ones."""
    argv = verb if "-s" in verb else [*verb, "-s", "prod"]
    assert main(argv) == exits.WRONG_INPUT
    said = capsys.readouterr().err
    assert "there is no stack 'prod'" in said
    assert "local" in said.splitlines()[1]


def test_a_file_for_a_stack(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stack that it is of is named."""
    assert main(["plan", "-s", "stacks/Pulumi.local.yaml"]) == exits.WRONG_INPUT
    assert "hint: did you mean 'local'?" in capsys.readouterr().err


def test_the_stack_comes_from_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -s, the environment variable applies."""
    monkeypatch.setenv("STAMPWORKS_STACK", "prod")
    assert main(["plan"]) == exits.WRONG_INPUT
    assert "there is no stack 'prod'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb", [["status"], ["ssh", "head"], ["run", "--", "true"], ["drain", "x", "--reason", "y"], ["return", "x"]]
)
def test_no_cluster_is_running(verb: list[str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is no, and how to change that."""
    assert main(verb) == exits.NO
    assert capsys.readouterr().err == (
        "no cluster of stack 'local' is running\n  hint: start it: pulumi stack select --create local && pulumi up\n"
    )


def test_stacks_are_where_pulumi_looks_for_them(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside Pulumi.yaml when it names no other folder."""
    (project / "Pulumi.yaml").write_text("name: test\nruntime: python\n")
    assert main(["plan"]) == exits.WRONG_INPUT
    (project / "stacks" / "Pulumi.local.yaml").rename(project / "Pulumi.local.yaml")
    assert main(["plan"]) == exits.FINE


def test_a_project_that_cannot_be_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file, and a command that explains more."""
    (project / "Pulumi.yaml").write_text("name: [")
    assert main(["plan"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        f"{project / 'Pulumi.yaml'}:1 is not YAML\n  hint: `pulumi about` shows the error\n"
    )


def test_a_plan_stands_for_a_stack(cluster: StandIn, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A declaration in Python has no stack file; its plan is enough, without any project."""
    main(["plan", "--json"])
    plan = project.parent / "plan.json"
    plan.write_text(capsys.readouterr().out)
    (project / "Pulumi.yaml").unlink()
    assert main(["status", "-s", str(plan), "--json"]) != exits.WRONG_INPUT
    assert json.loads(capsys.readouterr().out)["cluster"] == "local"
    main(["plan", "-s", str(plan), "--json"])
    assert capsys.readouterr().out == plan.read_text()


@pytest.mark.parametrize(
    ("text", "why"), [("{", "Expecting property name"), ("[]", "expected a mapping"), ("{}", "Plan: lacks version")]
)
def test_a_file_that_is_no_plan(text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the missing field, and how to write the plan again. This includes plans of other releases."""
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert main(["status", "-s", str(file)]) == exits.WRONG_INPUT
    said = capsys.readouterr().err
    assert said.startswith(f"{file} is no plan of this release of stampworks: ")
    assert why in said
    assert said.endswith("\n  hint: write it anew: pulumi stack output plan, or stampworks plan --json\n")


@pytest.mark.parametrize("verb", [["plan"], ["schema"], ["facts"], ["status"], ["image"], ["return", "x"]])
def test_only_ssh_and_run_take_a_command(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command behind -- is refused where nothing would run it."""
    assert main([*verb, "--", "reboot"]) == exits.WRONG_INPUT
    assert capsys.readouterr().err == f"{verb[0]} runs no command\n  hint: leave out -- and what follows\n"


@pytest.mark.parametrize("name", exits.CODES)
def test_every_error_that_has_a_code_exists(name: str) -> None:
    """The table names errors by text; a renamed class must not fall out of it."""
    module, _, kind = name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), kind), Exception)


def test_a_fault_of_ours_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected error shows its traceback and exits with 3: nothing is known."""

    def broken(_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("stampworks.cli.declared.show_schema", broken)
    assert main(["schema"]) == exits.UNKNOWN
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert said.endswith("This is a bug in stampworks: the command has no result.\n")


def test_a_full_disk_or_a_closed_folder_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of the operating system names the file and needs no traceback."""

    def broken(_: object) -> int:
        raise PermissionError(13, "Permission denied", "/x/facts")

    monkeypatch.setattr("stampworks.cli.declared.show_schema", broken)
    assert main(["schema"]) == exits.FAILED
    assert capsys.readouterr().err == "/x/facts: Permission denied\n"


def test_a_reader_that_leaves_is_no_error() -> None:
    """`stampworks schema | head -1` ends without a traceback."""
    with subprocess.Popen(SCHEMA, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == exits.BROKEN_PIPE


def test_control_c_is_quiet(project: Path) -> None:
    """Ctrl-C prints no traceback, and exits with the status that shells expect."""
    program = (
        "import sys, time, stampworks.cli.declared as d; d.show_schema = lambda _: (print('on', flush=True), "
        "time.sleep(30)); from stampworks.cli.main import main; sys.exit(main(['schema']))"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"on\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == exits.INTERRUPTED


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """--help is fine, on stdout, and complete."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert all(
        f"\n    {verb} " in said
        for verb in ("plan", "schema", "new", "compare", "facts", "image", "status", "ssh", "run", "drain", "return")
    )


def test_version_is_the_one_of_the_sources_and_loads_no_verb() -> None:
    """The version comes from the sources: metadata of an installation may be outdated."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    program = (
        "import sys; from stampworks.cli import main\n"
        "others = {'pulumi', 'yaml', *(f'stampworks.cli.{each}' for each in main.VERBS.values())}\n"
        "try: main.main(['--version'])\n"
        "except SystemExit as ended: print(ended.code)\n"
        "print(*sorted(others & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"stampworks {VERSION}\n0\n\n"
    assert done.stderr == ""
