"""Reading a file of thresholds: rows and errors."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stampworks.qualification import NoThreshold, Threshold, ThresholdsError, audit, read_thresholds
from stampworks.qualification.thresholds import FILE_BYTES_MAX, HEADER, ROWS_MAX

HEAD = ",".join(HEADER) + "\n"


def reading(tmp_path: Path, content: str | bytes) -> list[Threshold | NoThreshold]:
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
    [whole, _] = reading(tmp_path, text)
    assert isinstance(whole, Threshold)
    assert isinstance(whole.value, int)


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
    """Files of spreadsheets are read, too."""
    [only] = reading(tmp_path, content)
    assert isinstance(only, Threshold)
    assert (only.machine, only.nodes, only.unit, only.value) == ("p5", 1, "GB/s", 48)


NUMBER = "write a plain number like 440 or 23.5; its unit has a column of its own"
UNITS = "write GB/s, Gb/s, MB/s, TFLOP/s or GFLOP/s; B are bytes, b are bits"
COUNT = "is not a whole number from 1 to 100000: count the nodes of the run"
SIZE = "is not a whole number from 0 to 1125899906842624: 16 MiB are 16777216, and 0 stands for no size"


@pytest.mark.parametrize(
    ("row", "problems"),
    [
        (
            "p5,0,allreduce_busbw,16MiB,gb/s,fast",
            (
                f"nodes '0' {COUNT}",
                "no quantity is called 'allreduce_busbw': did you mean all_reduce_busbw?",
                f"bytes '16MiB' {SIZE}",
                f"no unit is called 'gb/s': {UNITS}",
                f"value 'fast' is not a number: {NUMBER}",
            ),
        ),
        ("p5,1,h2d_bandwidth,0,GB/s,-5", ("value '-5' is negative: a machine reaches 0 or more",)),
        ("p5,1,h2d_bandwidth,0,GB/s,-inf", (f"value '-inf' is not a number: {NUMBER}",)),
        ("p5,1,h2d_bandwidth,0,GB/s,nan", (f"value 'nan' is not a number: {NUMBER}",)),
        ("p5,1,h2d_bandwidth,0,GB/s,", (f"value '' is not a number: {NUMBER}",)),
        ("p5,1,h2d_bandwidth,0,GB/s,1e308", (f"value '1e308' is larger than any number here: {NUMBER}",)),
        ("p5,1,h2d_bandwidth,0,GB/s,1e999", (f"value '1e999' is larger than any number here: {NUMBER}",)),
        ('p5,1,h2d_bandwidth,0,GB/s,"1,000"', (f"value '1,000' is not a number: {NUMBER}",)),
        ("p5,٣,h2d_bandwidth,0,GB/s,1_000", (f"nodes '٣' {COUNT}", f"value '1_000' is not a number: {NUMBER}")),
        (f"p5,{10**30},h2d_bandwidth,0,GB/s,48", (f"nodes '{10**30}' {COUNT}",)),
        ("p5,1.5,h2d_bandwidth,-1,GB/s,48", (f"nodes '1.5' {COUNT}", f"bytes '-1' {SIZE}")),
        (
            "p5,1,speed,0,TB/s,4",
            (
                "no quantity is called 'speed': write all_reduce_busbw, all_gather_busbw, reduce_scatter_busbw, "
                "alltoall_busbw, nic_bandwidth, h2d_bandwidth, memory_bandwidth, matmul_bf16, storage_write or "
                "storage_read",
                f"no unit is called 'TB/s': {UNITS}",
            ),
        ),
        ("p5,1,h2d_bandwidth,0,GB/s", ("5 columns where the header has 6: write " + HEAD.strip(),)),
        ("p5,1,h2d_bandwidth,0,GB/s,48,note", ("7 columns where the header has 6: write " + HEAD.strip(),)),
        ("p5", ("1 column where the header has 6: write " + HEAD.strip(),)),
        ("p5,1,\x1b[2J,0,GB/s,48", ()),
    ],
)
def test_a_row_that_says_nothing(tmp_path: Path, row: str, problems: tuple[str, ...]) -> None:
    """All problems of a row are listed at once, with hints; other rows are still read."""
    fine = "p5,1,h2d_bandwidth,0,GB/s,48\n"
    before, between, after = reading(tmp_path, f"{HEAD}{fine}{row}\n{fine}")
    assert isinstance(before, Threshold)
    assert isinstance(after, Threshold)
    assert isinstance(between, NoThreshold)
    assert between.line == 3
    assert not problems or between.problems == problems
    assert all(problem.isprintable() for problem in between.problems)


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
        (
            HEAD.encode() + b"p5,1,\xff\xfe,0,GB/s,48\n",
            "thresholds.csv:2: is not text\n  hint: write the file as UTF-8",
        ),
        (HEAD + "p5,1,h2d\0,0,GB/s,48\n", "thresholds.csv:2: is not text\n"),
        (HEAD + 'p5,1,"h2d_bandwidth,0,GB/s,48\n', "thresholds.csv:2: cannot be read as CSV: unexpected end of data\n"),
        (
            HEAD + "x" * 200_000 + "\n",
            "thresholds.csv:2: cannot be read as CSV: field larger than field limit (131072)\n",
        ),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 8, "is not text\n"),
        (b"a" * (FILE_BYTES_MAX + 1), "thresholds.csv: is larger than 4 MiB\n  hint: audit a part of it at a time\n"),
        (HEAD + "p5\n" * (ROWS_MAX + 1), "thresholds.csv: has more than 10000 rows\n  hint: audit a part of it at"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: str | bytes, text: str) -> None:
    """Other files are refused with the reason."""
    assert text in refusal(tmp_path, content)


def test_a_row_over_several_lines(tmp_path: Path) -> None:
    """Quotes may hold line ends; problems are where the row begins."""
    first, second = reading(tmp_path, HEAD + '"p5\n",1,h2d_bandwidth,0,GB/s,48\n"a\nb",1,h2d_bandwidth,0,GB/s,x\n')
    assert isinstance(first, Threshold)
    assert first.machine == "p5"
    assert second.line == 4


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be read is a wrong input like any other."""
    for path, reason in ((tmp_path / "none.csv", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ThresholdsError) as error:
            read_thresholds(path)
        assert str(error.value).startswith(f"{path}: cannot be read: {reason}\n  hint: name a CSV file\n")


def test_a_file_without_end(tmp_path: Path) -> None:
    """Reading stops at the size limit."""
    with pytest.raises(ThresholdsError, match="is larger than 4 MiB"):
        read_thresholds(Path("/dev/zero"))


def test_very_many_problems(tmp_path: Path) -> None:
    """A file full of them is refused at the row from which it is too long, and not read on."""
    line = "nonsense,nonsense,nonsense,nonsense,nonsense,nonsense\n"
    begin = time.process_time()
    assert "has more than" in refusal(tmp_path, HEAD + line * ((FILE_BYTES_MAX - len(HEAD)) // len(line)))
    small = time.process_time()
    assert len(reading(tmp_path, HEAD + line * ROWS_MAX)) == ROWS_MAX
    assert small - begin < 3 * (time.process_time() - small) + 1


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda text: (HEAD + text).encode("utf-8", "replace")))
)
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """A file is read or refused, and every message is printable."""
    file = tmp_path / "thresholds.csv"
    file.write_bytes(content)
    said = ""
    try:
        said = "\n".join(audit(row).reason for row in read_thresholds(file))
    except ThresholdsError as error:
        said = str(error)
    assert all(line.isprintable() for line in said.split("\n"))
