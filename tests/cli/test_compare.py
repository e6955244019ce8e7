"""`stampworks compare` with a stand-in for pulumi."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import exits, stacks
from stampworks.cli import state as state_of
from stampworks.cli.main import main
from stampworks.plan import fingerprint


@pytest.fixture
def backend(backend: Path, project: Path) -> Path:
    """The project has a stack `other` that is a sibling of `local`."""
    edit(project, "name: local", "name: other")
    return backend


def edit(project: Path, old: str, new: str) -> None:
    """The stack `other` is `local` with one thing changed."""
    text = (project / "stacks" / "Pulumi.local.yaml").read_text()
    (project / "stacks" / "Pulumi.other.yaml").write_text(text.replace(old, new, 1))


def state(**outputs: object) -> str:
    """State of a program that exports nothing."""
    types = ("pulumi:pulumi:Stack", "pulumi:providers:stampworks")
    cluster = {"type": "stampworks:cluster:Cluster", "outputs": outputs}
    return json.dumps({"deployment": {"resources": [*({"type": each} for each in types), cluster]}})


def now() -> str:
    return fingerprint(stacks.plan_of("local"))


def test_siblings(backend: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stacks are equal, stamped or not, and the backend was queried in the project's folder."""
    mark = now()
    (backend / "local.json").write_text(state(fingerprint=mark))
    assert main(["compare", "local", "other"]) == exits.FINE
    assert capsys.readouterr().out == (
        "local and other: equal\n"
        "\n"
        "Expected between siblings\n"
        "  name: local in local, other in other\n"
        "\n"
        "Fingerprints\n"
        f"  local: {mark}; stamped as declared\n"
        f"  other: {mark}; not stamped yet\n"
    )
    asked = (backend / "asked").read_text().splitlines()
    assert asked == [f"{project} stack export --non-interactive --stack {name}" for name in ("local", "other")]


def test_edited_by_hand(backend: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is no, with the manual edits."""
    edit(project, "count: 2", "count: 3")
    assert main(["compare", "local", "other"]) == exits.NO
    assert capsys.readouterr().out.startswith("local and other: different\n  pool gpu: 2 nodes in local, 3 in other\n")


def test_stamped_before_the_declaration_changed(backend: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two declarations are equal, but one of the stacks was not stamped again."""
    mark = now()
    (backend / "local.json").write_text(state(fingerprint=mark))
    (backend / "other.json").write_text(state(fingerprint="0123456789abcdef"))
    assert main(["compare", "local", "other"]) == exits.NO
    assert capsys.readouterr().out.endswith(
        f"  other was stamped from an earlier declaration: fingerprint 0123456789abcdef, now {mark}\n"
    )


def test_destroyed(backend: Path) -> None:
    """A stack that was taken down is there and has nothing."""
    (backend / "other.json").write_text('{"version": 3, "deployment": {"manifest": {}}}')
    assert main(["compare", "local", "other"]) == exits.FINE


def test_a_stack_of_something_else(backend: Path) -> None:
    """Its resources contain no cluster, so nothing was stamped."""
    (backend / "other.json").write_text('{"deployment": {"resources": [{"type": "pulumi:pulumi:Stack"}]}}')
    assert main(["compare", "local", "other"]) == exits.FINE


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("#!/bin/sh\necho 'error: \x1b[31mPULUMI_ACCESS_TOKEN must be set' >&2; exit 3\n", "error: \\x1b[31mPUL"),
        ("#!/bin/sh\nexit 7\n", "pulumi ended with exit code 7"),
        ("#!/bin/sh\necho '{'\n", "the output of pulumi stack export is not a state"),
        ("#!/bin/sh\necho '[]'\n", "the output of pulumi stack export is not a state"),
        ("#!/bin/sh\necho '{\"deployment\": {\"resources\": [7]}}'\n", "the output of pulumi stack export "
"is not a state"),
        ("#!/bin/sh\nexec sleep 9\n", "pulumi did not answer within 1 s"),
        (f"#!/bin/sh\necho '{state(name='local')}'\n", "its cluster has no output 'fingerprint': the last `"),
        ("", "pulumi is not installed, or `. tools/env.sh` was not called"),
    ],
)  # fmt: skip
def test_a_backend_that_does_not_say(
    backend: Path, program: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown is never equal, and the reason is shown."""
    monkeypatch.setattr(state_of, "TIMEOUT_S", 1.0)
    (backend / "pulumi").write_text(program)
    if not program:
        (backend / "pulumi").unlink()
        monkeypatch.setenv("PATH", str(backend))
    assert main(["compare", "local", "other"]) == exits.UNKNOWN
    out = capsys.readouterr().out
    assert out.startswith("local and other: unknown\n")
    assert f"; state of the stamped cluster unknown: {why}" in out


def test_as_json(backend: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON lists all differences, including derived ones."""
    edit(project, "count: 2", "count: 3")
    assert main(["compare", "local", "other", "--json"]) == exits.NO
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["a"]["stamped"]) == ("different", "")
    assert "groups[gpu].nodes[gpu-003]" in [each["path"] for each in found["differences"]]


def test_a_plan_in_a_file(backend: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan file stands for a cluster that is declared elsewhere; no backend is queried."""
    main(["plan", "--json"])
    file = tmp_path / "plan.json"
    file.write_text(capsys.readouterr().out)
    assert main(["compare", str(file), "local"]) == exits.FINE
    assert len((backend / "asked").read_text().splitlines()) == 1


def test_a_stack_that_is_not_there(backend: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The input is wrong, and the backend is not asked."""
    assert main(["compare", "local", "prod"]) == exits.WRONG_INPUT
    assert "there is no stack 'prod'" in capsys.readouterr().err
