"""`stampworks audit-thresholds`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main

HEAD = "machine,nodes,quantity,bytes,unit,value\n"
OK = "p5,1,nic_bandwidth,0,Gb/s,96\n"
REFUSED = "p5,1,nic_bandwidth,0,Gb/s,20\n"
UNKNOWN = "ND96isr_H100_v5,2,storage_write,0,GB/s,20.5\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("thresholds.csv")


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (OK, exits.FINE), (OK + OK, exits.FINE), (REFUSED, exits.NO), (UNKNOWN, exits.UNKNOWN),
        (OK + UNKNOWN, exits.UNKNOWN), (UNKNOWN + REFUSED + OK, exits.NO),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_exit_code(
    rows: str, code: int, options: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is NO for a refused threshold, and UNKNOWN for a threshold that cannot be judged."""
    file.write_text(HEAD + rows)
    assert main(["audit-thresholds", str(file), *options]) == code
    assert capsys.readouterr().err == ""


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list has the file's order, and no other entry."""
    file.write_text(HEAD + UNKNOWN + OK)
    main(["audit-thresholds", str(file), "--json"])
    assert json.loads(capsys.readouterr().out) == [
        {
            "line": 2, "machine": "ND96isr_H100_v5", "nodes": 2, "quantity": "storage_write", "bytes": 0,
            "unit": "GB/s", "value": 20.5, "verdict": "cannot-tell",
            "reason": "the catalog does not know what a storage client on ND96isr_H100_v5 reaches",
        },
        {
            "line": 3, "machine": "p5", "nodes": 1, "quantity": "nic_bandwidth", "bytes": 0,
            "unit": "Gb/s", "value": 96, "verdict": "ok",
            "reason": "96 Gb/s is 97% of what one NIC can reach, 99 Gb/s (a NIC of 100 Gb/s, 0.99 of it data)",
        },
    ]  # fmt: skip


def test_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each threshold is listed with its line and a reason, and the total follows."""
    file.write_text(HEAD + OK + REFUSED + "p5,2,all_reduce_busbw,16777216,GB/s,50\n")
    main(["audit-thresholds", str(file)])
    assert capsys.readouterr().out == (
        "thresholds.csv:2: ok: p5, 1 node, nic_bandwidth 96 Gb/s\n"
        "  96 Gb/s is 97% of what one NIC can reach, 99 Gb/s (a NIC of 100 Gb/s, 0.99 of it data)\n"
        "thresholds.csv:3: refused: p5, 1 node, nic_bandwidth 20 Gb/s\n"
        "  a broken machine passes: 20 Gb/s is too low, for one NIC may reach 50 Gb/s (0.5 x 100 Gb/s: half of its "
        "lanes could be dead)\n"
        "thresholds.csv:4: ok: p5, 2 nodes, all_reduce_busbw of 16777216 bytes 50 GB/s\n"
        "  50 GB/s is 21% of what 16 ranks on 2 nodes can reach, 232.7 GB/s (NVLink of h100 carries 450 GB/s from an "
        "accelerator, and its switch adds up: x 1.1, a percent more than was ever published; 232.7 GB/s for 16 MiB, "
        "which takes 135.2 us or more)\n"
        "2 ok, 1 refused\n"
    )


def test_rows_that_cannot_be_judged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Invalid rows are listed with their problem; other rows are still judged."""
    file.write_text(HEAD + OK.replace("p5", "p55") + "p5,0,h2d_bandwidth,0,GB/s,nan\n" + "p5,\x1b[2J\n" + OK)
    assert main(["audit-thresholds", str(file), "--json"]) == exits.NO
    judged = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in judged] == ["cannot-tell", "refused", "refused", "ok"]
    assert judged[0]["reason"] == "the catalog knows no machine of this name: did you mean p5?"
    assert [judged[1][key] for key in ("line", "machine", "nodes", "bytes", "value")] == [3, "p5", "0", "0", "nan"]
    assert [judged[2][key] for key in ("nodes", "quantity", "value")] == ["\x1b[2J", "", ""]
    main(["audit-thresholds", str(file)])
    assert capsys.readouterr().out.splitlines()[2:7] == [
        "thresholds.csv:3: refused: p5,0,h2d_bandwidth,0,GB/s,nan",
        "  nodes '0' is not a whole number from 1 to 100000: count the nodes of the run; value 'nan' is not "
        "a number: write "
        "a plain number like 440 or 23.5; its unit has a column of its own",
        "thresholds.csv:4: refused: p5,\\x1b[2J",
        "  2 columns where the header has 6: write machine,nodes,quantity,bytes,unit,value",
        "thresholds.csv:5: ok: p5, 1 node, nic_bandwidth 96 Gb/s",
    ]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_wrong_file(options: list[str], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the problem is printed, with its place, and no judgement."""
    file.write_text(OK)
    assert main(["audit-thresholds", str(file), *options]) == exits.WRONG_INPUT
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["problems"] != [] if options else shown.out == ""
    assert shown.err == (
        "thresholds.csv:1: the header is 'p5,1,nic_bandwidth,0,Gb/s,96'\n"
        "  hint: the first line is machine,nodes,quantity,bytes,unit,value\n"
        "Nothing was judged.\n"
    )
