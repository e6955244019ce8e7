"""`stampworks explain`: the origin of a value of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks import planning
from stampworks.cli.main import main
from stampworks.declaration import load_file
from stampworks.plan import to_json

TEXT = """\
version: 1
name: test
cloud: local
pools:
  - {name: gpu, machine: sim-h100, count: 4}
  - {name: cpu, machine: sim-cpu, count: 2}
scheduler:
  drain_timeout_minutes: 7
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(TEXT)
    return "cluster.yaml"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["explain", *words]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_a_declared_value(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The explanation has position, field, meaning, and the effect of a change."""
    assert said(capsys, "pools.cpu.count", file) == (
        "groups.cpu.count: 2\n"
        "  declared by pools[].count, written at cluster.yaml:6; a change of it: in place\n"
        "    Largest number of nodes; for none, take the pool out.\n"
    )
    assert "written at cluster.yaml:8; a change of it: in place" in said(
        capsys, "scheduler.drain_timeout_minutes", file
    )


def test_a_default(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A default has no position in the declaration."""
    assert "fabric.oversubscription: 1\n  declared by fabric.oversubscription, not written, so that its" in said(
        capsys, "fabric.oversubscription", file
    )


def test_a_value_with_a_reason_for_all_groups(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The explanation names no single group."""
    Path(file).write_text(TEXT.replace("local", "aws\nregion: us-east-1").replace("sim-h100", "p5"))
    Path(file).write_text(Path(file).read_text().replace("sim-cpu", "m7i"))
    why = "because groups.launch.disk_gib: for system, containers and logs"
    for path in ("groups.gpu.launch.disk_gib", "groups.gpu.launch"):
        assert why in said(capsys, path, file)
    assert why not in said(capsys, "groups.gpu", file)


def test_a_derived_value(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The explanation has the reason of the containing value, and the arithmetic of an expectation."""
    assert "because fabric.rails: 2: sim-h100 of pool gpu has that many NICs" in said(
        capsys, "fabric.rails[rail0]", file
    )
    assert said(capsys, "fabric.rails.0", file) == said(capsys, "fabric.rails[rail0]", file)
    words = said(capsys, "gpu.allreduce_busbw_gbs_max", file)
    assert words.startswith("gpu.allreduce_busbw_gbs_max: 0.04782 GB/s\n  because 2 x 0.02391 GB/s")


def test_a_reason_of_several_values(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Trunks of all rails share a reason."""
    assert said(capsys, "fabric.trunks", file).startswith("fabric.trunks\n  because 2 nodes x 200 Mb/s / 1 = 400 Mb/s")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("fabrik.rails", "'fabrik.rails': there is no 'fabrik' in a plan\n  hint: did you mean fabric."),
        ("groups.gpx", "'groups.gpx': there is no 'gpx' in groups\n  hint: did you mean gpu?"),
        ("name.x", "'name.x': there is no 'x' in name\n  hint: did you mean name?"),
        (".", "an empty path leads nowhere\n  hint: write one, like fabric.rails"),
        ("\x1b[2J", "there is no "),
    ],
)
def test_a_path_that_leads_nowhere(file: str, capsys: pytest.CaptureFixture[str], path: str, text: str) -> None:
    """Similar paths are offered, and none of the input reaches a terminal as more than text."""
    words = said(capsys, path, file, code=2)
    assert text in words
    assert all(line.isprintable() for line in words.split("\n"))


def test_as_json_and_of_a_written_plan(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for programs; of a plan's file, which has no lines, without the place."""
    found = json.loads(said(capsys, "pools.gpu.count", file, "--json"))
    assert (found["value"], found["field"], found["written"]) == (4, "pools[].count", "cluster.yaml:5")
    Path("plan.json").write_text(to_json(planning.plan(load_file(Path(file)))))
    found = json.loads(said(capsys, "pools.gpu.count", "-s", "plan.json", "--json"))
    assert (found["value"], found["field"], found["written"]) == (4, "pools[].count", "")


WHOLE = """\
version: 1
name: test
cloud: local
pools:
  - {name: gpu, machine: sim-h100, count: 4}
  - {name: paper, machine: sim-cpu, count: 2, scheduling_only: true}
roll: {max_unavailable_percent: 20}
extras:
  roles: [{path: roles/motd, groups: [gpu]}]
"""


@pytest.fixture
def whole(file: str) -> str:
    Path("roles/motd/tasks").mkdir(parents=True)
    Path("roles/motd/tasks/main.yml").write_text("[]\n")
    Path(file).write_text(WHOLE)
    return file


def test_the_number_of_a_pool_is_that_of_the_declaration(whole: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The head is a group of the plan, and no pool."""
    assert said(capsys, "pools[0].count", whole).startswith("groups.gpu.count: 4\n")
    assert said(capsys, "pools.1.count", whole).startswith("groups.paper.count: 2\n")
    for path in ("pools[2].count", "pools.head.count", "pools." + "9" * 5000):
        assert "in pools\n  hint: " in said(capsys, path, whole, code=2)


@pytest.mark.parametrize("path", ["groups.head", "groups.head.count", "groups.head.machine.name"])
def test_head_has_no_declaration(file: str, capsys: pytest.CaptureFixture[str], path: str) -> None:
    """The settings of a pool do not explain the head."""
    assert "declared by" not in said(capsys, path, file)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "roll.max_unavailable_percent",
            ": 20\n  declared by roll.max_unavailable_percent, written at cluster.yaml:7;",
        ),
        ("pools.paper.scheduling_only", ": yes\n  declared by pools[].scheduling_only, written at cluster.yaml:6;"),
        ("pools[1].scheduling_only", ": yes\n  declared by pools[].scheduling_only, written at cluster.yaml:6;"),
        ("extends", ": none\n  declared by extends, not written, so that its default applies;"),
        ("fabric.rail_rate_mbps", "declared by fabric.rail_rate_mbps, not written"),
        ("extras.roles.motd.path", "declared by extras.roles[].path, written at cluster.yaml:9;"),
        ("extras.roles.motd.groups", "declared by extras.roles[].groups, written at cluster.yaml:9;"),
    ],
)
def test_declared_values(whole: str, capsys: pytest.CaptureFixture[str], path: str, text: str) -> None:
    """Fields are found that are absent from plans, or have another name there."""
    words = said(capsys, path, whole)
    assert text in words
    assert "a change of it: " in words


@pytest.mark.parametrize(
    "path", ["pools.gpu.machin", "pools.gpu.cont", "roll.max_unavailable_percen", "fabric.oversub"]
)
def test_suggested_paths_exist(whole: str, capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Suggested paths can be typed unchanged, with existing names."""
    _, offered, near = said(capsys, path, whole, code=2).rpartition("did you mean ")
    assert offered
    said(capsys, near.strip().removesuffix("?"), whole)


def test_lists_of_pairs_are_text(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists are not printed in Python's notation."""
    for path in ("release.versions", "release.packages", "roll.unavailable_max"):
        assert "(" not in said(capsys, path, file).partition("\n  ")[0]
    assert said(capsys, "roll.unavailable_max", file).startswith("roll.unavailable_max: gpu 1, cpu 1\n")


def test_json_holds_nothing_that_a_terminal_obeys(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan by another author may contain control characters."""
    data = json.loads(to_json(planning.plan(load_file(Path(file)))))
    data["training"]["tracker"]["experiment"] = hostile = "a\u202eb\x9b2J"
    Path("plan.json").write_text(json.dumps(data))
    words = said(capsys, "training.tracker.experiment", "-s", "plan.json", "--json")
    assert words.isascii()
    assert json.loads(words)["value"] == hostile


ON_AWS = """\
version: 1
name: test
cloud: aws
region: us-east-1
pools: [{name: gpu, machine: p5, count: 4}]
"""


def test_values_beside_the_plan(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules by id, total and partial costs, and expectations can be explained by their names in the plan."""
    Path(file).write_text(ON_AWS)
    assert "  because addresses.room: pass: pool gpu can grow by " in said(capsys, "rules", file)
    assert said(capsys, "placement.zones", file).startswith("placement.zones\n  because unknown: gpu names no zone, ")
    assert "\n  because placement.zones: unknown: gpu names " in said(capsys, "rules.placement.zones", file)
    words = said(capsys, "cost.gpu", file)
    assert words.startswith("cost.gpu: ")
    assert "USD an hour\n  because 4 x p5, on-demand in us-east-1; " in words
    assert said(capsys, "cost.pool gpu", file).startswith("cost.pool gpu: ")
    assert "  because cost.head: 1 x m7i" in said(capsys, "cost", file)
    both = said(capsys, "gpu.allreduce_busbw_gbs", file)
    assert "because gpu.allreduce_busbw_gbs_max: " in both
    assert "because gpu.allreduce_busbw_gbs_min: " in both
    assert "there is no 'cost' in a plan" in said(capsys, "cost.x", file, code=2)


def test_names_that_the_page_folds(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = said(capsys, "rail[0-1].bisection_gbps", file)
    assert "because rail0.bisection_gbps: 0.4 Gb/s: " in words
    assert "because rail1.bisection_gbps: 0.4 Gb/s: " in words


def test_sections_list_their_parts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "pools.gpu.machine", file).startswith("groups.gpu.machine: name: sim-h100; simulated: yes; ")
    words = said(capsys, "groups.gpu", file).split("declared by")[0]
    assert words.startswith("groups.gpu: name: gpu; role: worker; machine: sim-h100; count: 4; ")
    assert "nodes: gpu-[001-004]; " in words.replace("\n", " ")
