"""The file with the answers of machines, beside a declaration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from stampworks.cli.main import main
from stampworks.declaration import Lock, lock_file, lock_text
from stampworks.plan import to_dict
from stampworks.state.facts import account_file, known_facts, write_hosts

from tests.planning.hosts import facts, locked


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = Path("rack.yaml")
    machines = [{"address": f"10.0.0.{number}", "group": "gpu" if number > 1 else "head"} for number in (1, 2, 3, 4)]
    pool = {"name": "gpu", "machine": "dgx-h100", "count": 3}
    declaration = {"version": 1, "name": "rack", "cloud": "hosts", "pools": [pool], "hosts": {"machines": machines}}
    file.write_text(yaml.safe_dump(declaration))
    lock_file(file).write_text(lock_text(Lock(hosts=tuple(map(locked, (1, 2, 3, 4))))))
    return file


def test_answers_are_kept(declared: Path) -> None:
    """They are read as they were written; without a file there are none."""
    assert known_facts(declared).hosts is None
    survey = facts().hosts
    assert survey
    write_hosts(declared, survey)
    assert known_facts(declared).hosts == survey
    assert known_facts(declared).account is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "its version is not 1"),
        ({"at": "yesterday"}, "invalid literal for int() with base 10: 'yesterday'"),
        ({"hosts": [{}]}, "HostsSurvey.hosts[0]: lacks address, port, host_key, reached, why"),
    ],
)
def test_a_file_of_something_else(
    declared: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], why: str
) -> None:
    """The error names the file, what is wrong and the remedy."""
    survey = facts().hosts
    assert survey
    account_file(declared).write_text(json.dumps({**to_dict(survey), **change}))
    assert main(["plan", str(declared)]) == 2
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"rack.facts.json: holds no facts: {why}",
        "  hint: `stampworks facts -s STACK` reads them again",
    ]
