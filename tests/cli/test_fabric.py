"""`stampworks fabric`, as its user calls it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from stampworks import catalog
from stampworks.cli import exits
from stampworks.cli.main import main
from stampworks.planning.fat_tree.tree import design

from tests.planning.cabling_dumps import ibnetdiscover, links_of, lldp


def test_json_has_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """127 nodes in units of 32: NVIDIA's design of the full DGX SuperPOD, without its subnet managers."""
    assert main(["fabric", "ND96isr_H100_v5", "127", "--unit", "32", "--json"]) == exits.FINE
    answer = json.loads(capsys.readouterr().out)
    assert answer["switches"] == {"leaf": 32, "spine": 16, "core": 0}
    assert answer["cables"] == {"node_leaf": 1016, "leaf_spine": 1024, "spine_core": 0}
    assert (answer["bisection_gbps"], answer["oversubscription"]) == (203_200, 1)
    assert any("azure builds the network" in note for note in answer["notes"])


def test_fabrics_without_switches_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """EFA is a network of one cloud: every count is null, and a note says why."""
    assert main(["fabric", "p5", "16", "--json"]) == exits.UNKNOWN
    answer = json.loads(capsys.readouterr().out)
    assert answer["switches"] == {"leaf": None, "spine": None, "core": None}
    assert answer["bisection_gbps"] is answer["oversubscription"] is None
    assert "efa" in answer["notes"][0]


@pytest.mark.parametrize("nodes", ["1", "2", "100"])
def test_nodes_of_one_accelerator_are_no_other(nodes: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Their NICs use the same network, whose switches are not for sale."""
    assert main(["fabric", "p5.4xlarge", nodes]) == exits.UNKNOWN
    out, err = capsys.readouterr()
    assert out.startswith(f"{nodes} x p5-4xlarge: cannot tell which switches they take\n")
    assert err == ""


def test_text_draws_the_tiers(capsys: pytest.CaptureFixture[str]) -> None:
    """The text shows the tiers from the cores down to the nodes, with the cables between them."""
    assert main(["fabric", "ND96isr_H100_v5", "2047", "--managers", "4"]) == exits.FINE
    text = capsys.readouterr().out
    drawing = [line.split() for line in text.splitlines()[2:9]]
    assert [line[:2] for line in drawing] == [
        ["core", "256"],
        ["|", "16,384"],
        ["spine", "512"],
        ["|", "16,384"],
        ["leaf", "512"],
        ["|", "16,380"],
        ["node", "2,047"],
    ]
    assert "1 of leaves" not in text
    assert "4 of leaves" in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_cables_are_written_one_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each link has both ends, and the lines are as many as the count says."""
    file = tmp_path / "cables.csv"
    assert main(["fabric", "ND96isr_H100_v5", "40", "--cables", str(file), "--json"]) == exits.FINE
    answer = json.loads(capsys.readouterr().out)
    with file.open(newline="") as lines:
        rows = [*csv.DictReader(lines)]
    assert Counter(row["boundary"] for row in rows) == {"node-leaf": 320, "leaf-spine": answer["cables"]["leaf_spine"]}
    assert rows[0]["lower_device"] == "node-0001"
    assert len({(row["upper_device"], row["upper_port"]) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (["nd96isr-h100-v6", "4"], "no machine is called 'nd96isr-h100-v6'", "did you mean 'ND96isr_H100_v5'?"),
        (["g6-48xlarge", "4"], "no machine is called 'g6-48xlarge'", "did you mean 'g6'?"),
        (["ND96isr_H100_v5", "4", "--switch", "QM97000"], "no switch is called 'QM97000'", "did you mean 'qm9700'?"),
        (["ND96isr_H100_v5", "4", "--unit", "48"], "48 uplinks at an oversubscription of 1", "--oversubscription 3,"),
        (["ND96isr_H100_v5", "0"], "a cluster of 0 nodes", "from 1"),
        (["ND96isr_H100_v5", "four"], "invalid int value: 'four'", "--help"),
    ],
)
def test_wrong_input_says_what_to_do(
    words: list[str], what: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fabric", *words]) == exits.WRONG_INPUT
    first, second = capsys.readouterr().err.splitlines()
    assert what in first
    assert hint in second


def test_a_cabling_is_held_against_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cabling as planned passes; two swapped nodes are named with their wrong rails."""
    tree = design(catalog.machines()["ND96isr_H100_v5"], 40)
    links = links_of(tree)
    dump = tmp_path / "ibnetdiscover.txt"
    dump.write_text(ibnetdiscover(links, 64))
    words = ["fabric", "ND96isr_H100_v5", "40", "--against", str(dump)]
    assert main(words) == exits.FINE
    first, second = links[0], links[1]
    links[:2] = [replace(first, other=second.other), replace(second, other=first.other)]
    dump.write_text(ibnetdiscover(links, 64))
    assert main(words) == exits.NO
    assert "swapped (1)" in capsys.readouterr().out
    assert main([*words, "--json"]) == exits.NO
    cabling = json.loads(capsys.readouterr().out)["cabling"]
    [finding] = cabling["findings"]
    assert cabling["right"] == len(links) - 2
    assert finding["planned"][0] == [["node-0001", "mlx5_0"], ["leaf-001-rail0", "1"]]
    assert [["leaf-001-rail1", "1"], ["node-0001", "mlx5_0"]] in [sorted(ends) for ends in finding["found"]]


def test_dumps_of_an_ethernet_lie_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LLDP reports places and no rates: rates are unknown, and so are unexamined devices."""
    tree = design(catalog.machines()["a4-highgpu-8g"], 16)
    for device, text in lldp(links_of(tree), lambda device: device.startswith("leaf"), "json").items():
        (tmp_path / f"{device}.json").write_text(text)
    assert main(["fabric", "a4-highgpu-8g", "16", "--against", str(tmp_path), "--json"]) == exits.UNKNOWN
    cabling = json.loads(capsys.readouterr().out)["cabling"]
    assert cabling["findings"] == []
    assert cabling["rates_unknown"] == cabling["right"] == len(links_of(tree))


def test_a_dump_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors name the place, also for a folder without dumps and a missing file."""
    dump = tmp_path / "dump"
    dump.write_text("vendid=0x2c9\n\x1b[31mhello\n")
    for machine, path, text in (
        ("ND96isr_H100_v5", dump, f"{dump}:2: '\\x1b[31mhello' is nothing that ibnetdiscover prints"),
        ("a4-highgpu-8g", tmp_path, f"{tmp_path}: has no DEVICE.json"),
    ):
        assert main(["fabric", machine, "4", "--against", str(path)]) == exits.WRONG_INPUT
        assert text in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--against", "--cables", "--names"])
def test_files_that_cannot_be_used_are_wrong_input(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of wrong input, not of an infrastructure failure."""
    for path, why in ((tmp_path / "none" / "file", "No such file or directory"), (tmp_path, "Is a directory")):
        more = ["--against", str(tmp_path / "x")] if option == "--names" else []
        assert main(["fabric", "ND96isr_H100_v5", "4", *more, option, str(path)]) == exits.WRONG_INPUT
        assert f"{path}: {why}\n  hint: name a file that can be" in capsys.readouterr().err


def test_tenants_get_nodes_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fabric", "ND96isr_H100_v5", "64", "--tenant", "red=30", "--tenant", "blue=34"]
    assert main(words) == exits.FINE
    assert "tenant blue: P_Key 0x8002, node-0031 to node-0064" in capsys.readouterr().out
    assert main([*words, "--json"]) == exits.FINE
    answer = json.loads(capsys.readouterr().out)
    assert answer["tenants"][0] == {"name": "red", "pkey": 0x8001, "nodes": ["node-0001", "node-0030"]}
    assert any("share the leaves of unit 1" in note for note in answer["notes"])
    for wrong in ("red", "a b=3", "\x1b[2J=3", "red=\u0663"):
        assert main(["fabric", "ND96isr_H100_v5", "64", "--tenant", wrong]) == exits.WRONG_INPUT
