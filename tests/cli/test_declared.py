"""`stampworks plan`, `schema` and `facts`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import exits, stacks
from stampworks.cli.main import main
from stampworks.state.facts import facts_file

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def keep_facts(**facts: object) -> None:
    facts_file().parent.mkdir(parents=True)
    facts_file().write_text(json.dumps(facts))


def test_plan_as_text(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The default is text for people."""
    assert main(["plan"]) == exits.FINE
    assert capsys.readouterr().out.startswith("cluster local on local: 2 x sim-h100, 1 x sim-cpu")


def test_plan_as_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the whole plan with the findings of rules. It can be read back, and matches the text."""
    assert main(["plan", "--json", "-s", "local"]) == exits.FINE
    out = capsys.readouterr().out
    (project / "plan.json").write_text(out)
    assert stacks.plan_of(str(project / "plan.json")) == stacks.plan_of("local")
    found = {each["id"]: each for each in json.loads(out)["rules"]}
    main(["plan"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{each['id']} {each['evidence']}" in text for each in found.values())
    assert found["fabric.loopback"] == {
        "id": "fabric.loopback",
        "verdict": "unknown",
        "severity": "error",
        "subject": "",
        "place": "",
        "evidence": "4 simulated links x 200 Mb/s x 2 for headroom = 1600 Mb/s, and the capacity of this machine "
        "was not measured",
        "fix": "run `stampworks facts`",
    }


def test_plan_of_a_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file needs no project and no stack."""
    file = project / "other.yaml"
    file.write_text("version: 1\nname: other\ncloud: local\npools:\n  - {name: gpu, machine: sim-h100, count: 1}\n")
    assert main(["plan", str(file)]) == exits.FINE
    assert capsys.readouterr().out.startswith("cluster other on local")


@pytest.mark.parametrize("nodes", [1, 2, 100])
@pytest.mark.parametrize("verb", ["plan", "estimate", "explain"])
def test_nodes_of_one_accelerator(verb: str, nodes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A single node has no peer, and several of them reach the rate of their NICs."""
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: single\ncloud: aws\nregion: us-east-1\n"
        f"pools: [{{name: gpu, machine: p5.4xlarge, count: {nodes}}}]\n"
        "training: {model: {parameters: 1B, tokens: 1T}}\n"
    )
    words = {"explain": ["gpu.alltoall_busbw_gbs_max"]}.get(verb, [])
    code = main([verb, *words, str(file)])
    out, err = capsys.readouterr()
    if verb == "explain" and nodes == 1:
        assert (code, err.partition("\n")[0]) == (exits.WRONG_INPUT, f"'{words[0]}': there is no 'gpu' in a plan")
        return
    assert (code, err) == (exits.NO if verb == "plan" else exits.FINE, "")  # no image was looked up
    said = {
        "plan": f"cluster single on aws us-east-1: {nodes} x p5-4xlarge\n",
        "estimate": f"1B parameters on 1T tokens, {nodes} x h100 of p5-4xlarge\n",
        "explain": "gpu.alltoall_busbw_gbs_max: 12.38 GB/s\n",
    }
    assert out.startswith(said[verb])
    if verb == "plan":
        assert ("  alltoall_busbw_gbs       12.38  4.375  GB/s" in out) == (nodes > 1)


def test_a_wrong_declaration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The errors of the declaration are printed unchanged, stdout stays empty, and the exit code is WRONG_INPUT."""
    stack = project / "stacks" / "Pulumi.local.yaml"
    stack.write_text(stack.read_text().replace("sim-h100", "sim-h10"))
    assert main(["plan"]) == exits.WRONG_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "pools[0].machine: " in err
    assert "'sim-h10'" in err
    assert err.endswith("nothing was changed.\n")


@pytest.mark.parametrize(
    ("facts", "verdict", "code"),
    [
        ({}, "UNKNOWN", exits.FINE),
        ({"boot_id": BOOT_ID, "loopback_mbps": 100_000}, "PASS", exits.FINE),
        ({"boot_id": BOOT_ID, "loopback_mbps": 1000}, "FAIL", exits.NO),
        ({"boot_id": "of another boot", "loopback_mbps": 1000}, "UNKNOWN", exits.FINE),
        ({"boot_id": BOOT_ID, "loopback_mbps": "1000"}, "UNKNOWN", exits.FINE),
        ({"boot_id": BOOT_ID, "loopback_mbps": True}, "UNKNOWN", exits.FINE),
        ({"boot_id": BOOT_ID, "loopback_mbps": -1}, "UNKNOWN", exits.FINE),
    ],
)
def test_plan_is_held_against_the_facts(
    facts: dict[str, object], verdict: str, code: int, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Facts of this boot are used; outdated or malformed facts are ignored."""
    keep_facts(**facts)
    assert main(["plan"]) == code
    assert f"  {verdict}  fabric.loopback  " in capsys.readouterr().out


def test_plan_says_in_which_line_it_is_declared(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings have positions that editors understand. A plan in a file has none, and still names the field."""
    monkeypatch.chdir(project)
    keep_facts(boot_id=BOOT_ID, loopback_mbps=1000)
    stack = Path("stacks", "Pulumi.local.yaml")
    before = stack.read_text()
    stack.write_text(f"{before.rstrip()}\n    fabric:\n      rail_rate_mbps: 150\n")
    main(["plan"])
    place = f"{stack}:{len(stack.read_text().splitlines())}:23"
    assert f" at: {place} fabric.rail_rate_mbps hint: " in " ".join(capsys.readouterr().out.split())
    main(["plan", "--json"])
    Path("plan.json").write_text(capsys.readouterr().out)
    main(["plan", "-s", "plan.json"])
    assert " at: fabric.rail_rate_mbps hint: " in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_broken_facts_file_is_no_facts(text: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was cut off never stops a plan."""
    keep_facts()
    facts_file().write_text(text)
    assert main(["plan"]) == exits.FINE
    assert "  UNKNOWN  fabric.loopback  " in capsys.readouterr().out


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """The schema is JSON and describes every field."""
    assert main(["schema"]) == exits.FINE
    assert "pools" in json.loads(capsys.readouterr().out)["properties"]
