"""Reading a file of thresholds: what is there, or everything that is wrong with it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks.qualification import Threshold, ThresholdsError, read_thresholds
from stampworks.qualification.thresholds import FILE_BYTES_MAX, HEADER, PROBLEMS_MAX

HEAD = ",".join(HEADER) + "\n"


def reading(tmp_path: Path, content: str | bytes) -> list[Threshold]:
    file = tmp_path / "thresholds.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_thresholds(file)


def refusal(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(ThresholdsError) as error:
        reading(tmp_path, content)
    return str(error.value).replace(str(tmp_path) + "/", "")


def test_a_file(tmp_path: Path) -> None:
    """Rows come in their order, with the lines where they are; whole numbers stay whole."""
    text = HEAD + "p5,16,all_reduce_busbw,8589934592,GB/s,350\n\nsim-cpu,1,storage_read,0,MB/s,1.5e2\n"
    assert reading(tmp_path, text) == [
        Threshold(2, "p5", 16, "all_reduce_busbw", 8589934592, "GB/s", 350),
        Threshold(4, "sim-cpu", 1, "storage_read", 0, "MB/s", 150.0),
    ]
    assert isinstance(reading(tmp_path, text)[0].value, int)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param((HEAD + "p5,1,h2d_bandwidth,0,GB/s,48").encode(), id="no newline at the end"),
        pytest.param(b"\xef\xbb\xbf" + (HEAD + "p5,1,h2d_bandwidth,0,GB/s,48\n").encode(), id="a byte order mark"),
        pytest.param((HEAD + "p5,1,h2d_bandwidth,0,GB/s,48\n").replace("\n", "\r\n").encode(), id="lines of Windows"),
        pytest.param((HEAD + "p5,1,h2d_bandwidth,0,GB/s,48\n").replace("\n", "\r").encode(), id="lines of an old Mac"),
        pytest.param((HEAD + '"p5", 1 ,h2d_bandwidth,0,"GB/s",+48\n\n , \n').encode(), id="quotes and blanks"),
    ],
)
def test_ways_to_write_the_same(tmp_path: Path, content: bytes) -> None:
    """What a spreadsheet makes of it is read, too."""
    [only] = reading(tmp_path, content)
    assert (only.machine, only.nodes, only.unit, only.value) == ("p5", 1, "GB/s", 48)


def test_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    """Each at its line, with what to do about it."""
    text = (
        HEAD
        + "p55,0,allreduce_busbw,16MiB,gb/s,fast\n"
        + "bm.gpu.h100.8,1,h2d_bandwidth,0,GB/s,-5\n"
        + "p5,1,h2d_bandwidth,0,GB/s\n"
        + "p5,1,h2d_bandwidth,0,GB/s,48,a remark\n"
        + "quantum,1,speed,0,GiB/s,nan\n"
        + "p5,1.5,h2d_bandwidth,-1,GB/s,1e999\n"
        + 'p5,1,h2d_bandwidth,0,GB/s,"1,000"\n'
        + "p5,1,h2d_bandwidth,0,GB/s,48\n"
    )
    number = "  hint: write a plain number like 440 or 23.5; its unit has a column of its own\n"
    units = "  hint: write GB/s, Gb/s, MB/s, TFLOP/s or GFLOP/s: B are bytes, b are bits\n"
    columns = "  hint: the columns are machine,nodes,quantity,bytes,unit,value\n"
    size = "  hint: 16 MiB are 16777216, and 0 stands for no size\n"
    assert refusal(tmp_path, text) == (
        "thresholds.csv:2: machine: no machine is called 'p55'\n  hint: did you mean p5?\n"
        "thresholds.csv:2: nodes: '0' is no whole number from 1 to 100000\n  hint: count the nodes of the run\n"
        "thresholds.csv:2: quantity: no quantity is called 'allreduce_busbw'\n  hint: did you mean all_reduce_busbw?\n"
        "thresholds.csv:2: bytes: '16MiB' is no whole number from 0 to 1125899906842624\n" + size +
        "thresholds.csv:2: unit: no unit is called 'gb/s'\n" + units +
        "thresholds.csv:2: value: 'fast' is no number\n" + number +
        "thresholds.csv:3: machine: no machine is called 'bm.gpu.h100.8'\n  hint: did you mean BM.GPU.H100.8?\n"
        "thresholds.csv:3: value: '-5' is negative\n  hint: a machine reaches 0 or more\n"
        "thresholds.csv:4: has 5 columns where the header has 6\n" + columns +
        "thresholds.csv:5: has 7 columns where the header has 6\n" + columns +
        "thresholds.csv:6: machine: no machine is called 'quantum'\n"
        "  hint: the machines are those of catalog/machines.yaml\n"
        "thresholds.csv:6: quantity: no quantity is called 'speed'\n"
        "  hint: there are all_reduce_busbw, all_gather_busbw, reduce_scatter_busbw, alltoall_busbw, nic_bandwidth, "
        "h2d_bandwidth, memory_bandwidth, matmul_bf16, storage_write, storage_read\n"
        "thresholds.csv:6: unit: no unit is called 'GiB/s'\n" + units +
        "thresholds.csv:6: value: 'nan' is no number\n" + number +
        "thresholds.csv:7: nodes: '1.5' is no whole number from 1 to 100000\n  hint: count the nodes of the run\n"
        "thresholds.csv:7: bytes: '-1' is no whole number from 0 to 1125899906842624\n" + size +
        "thresholds.csv:7: value: '1e999' is larger than any number here\n" + number +
        "thresholds.csv:8: value: '1,000' is no number\n" + number +
        "18 problems in thresholds.csv: nothing was judged."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "thresholds.csv: is empty\n  hint: begin it with machine,nodes,quantity,bytes,unit,value\n"),
        (b"\n\n", "thresholds.csv: is empty\n"),
        (HEAD, "thresholds.csv: holds no thresholds\n  hint: write one in each line below the header\n"),
        ("p5,1,h2d_bandwidth,0,GB/s,48\n", "thresholds.csv:1: the header is 'p5,1,h2d_bandwidth,0,GB/s,48'\n"),
        (
            HEAD.replace(",value", ",value,note"),
            "thresholds.csv:1: the header is 'machine,nodes,quantity,bytes,unit,value,",
        ),
        (HEAD.replace(",", ";"), "  hint: the first line is machine,nodes,quantity,bytes,unit,value\n"),
        (HEAD.encode() + b"p5,1,\xff\xfe,0,GB/s,48\n", "thresholds.csv:2: is no text\n  hint: write the file as UTF-8"),
        (HEAD + "p5,1,h2d\0,0,GB/s,48\n", "thresholds.csv:2: is no text\n"),
        (HEAD + 'p5,1,"h2d_bandwidth,0,GB/s,48\n', "thresholds.csv:2: cannot be read as CSV: unexpected end of data\n"),
        (
            HEAD + "x" * 200_000 + "\n",
            "thresholds.csv:2: cannot be read as CSV: field larger than field limit (131072)\n",
        ),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 8, "is no text\n"),
        (b"a" * (FILE_BYTES_MAX + 1), "thresholds.csv: is larger than 4 MiB\n  hint: audit a part of it at a time\n"),
        (HEAD + "\x1b[2Jp5,1,h2d_bandwidth,0,GB/s,48\n", r"no machine is called '\\x1b[2Jp5'"),
        (
            HEAD + "p5," + "9" * 5000 + ",h2d_bandwidth,0,GB/s," + "9" * 5000 + "\n",
            "is no whole number from 1 to 100000",
        ),
        (HEAD + "p5,٣,h2d_bandwidth,0,GB/s,1_000\n", "'1_000' is no number"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: str | bytes, text: str) -> None:
    """Also what nobody meant to be one."""
    assert text in refusal(tmp_path, content)


def test_a_row_over_several_lines(tmp_path: Path) -> None:
    """Quotes may hold line ends; problems are where the row begins."""
    text = refusal(tmp_path, HEAD + '"p5\n",1,h2d_bandwidth,0,GB/s,48\n"a\nb",1,h2d_bandwidth,0,GB/s,48\n')
    assert text.startswith("thresholds.csv:4: machine: no machine is called 'a\\\\nb'\n")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """What cannot be read is a wrong input like any other."""
    for path, reason in ((tmp_path / "none.csv", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ThresholdsError) as error:
            read_thresholds(path)
        assert str(error.value).startswith(f"{path}: cannot be read: {reason}\n  hint: name a CSV file\n")


def test_a_file_without_end(tmp_path: Path) -> None:
    """No more is read than a file may have."""
    with pytest.raises(ThresholdsError, match="is larger than 4 MiB"):
        read_thresholds(Path("/dev/zero"))


def test_very_many_problems(tmp_path: Path) -> None:
    """The first hundred are shown, and a full file of them costs no more than those."""
    line = "nonsense,nonsense,nonsense,nonsense,nonsense,nonsense\n"
    begin = time.process_time()
    text = refusal(tmp_path, HEAD + line * ((FILE_BYTES_MAX - len(HEAD)) // len(line)))
    assert text.count("\n  hint: ") == PROBLEMS_MAX
    assert text.endswith(f"the first {PROBLEMS_MAX} problems in thresholds.csv: nothing was judged.")
    small = time.process_time()
    refusal(tmp_path, HEAD + line * 50)
    assert small - begin < 20 * (time.process_time() - small) + 1


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda text: (HEAD + text).encode("utf-8", "replace")))
)
def test_whatever_is_in_a_file(tmp_path: Path, content: bytes) -> None:
    """It is read or refused, and the refusal can be shown on a terminal."""
    file = tmp_path / "thresholds.csv"
    file.write_bytes(content)
    said = ""
    try:
        read_thresholds(file)
    except ThresholdsError as error:
        said = str(error)
    assert all(line.isprintable() for line in said.split("\n"))
