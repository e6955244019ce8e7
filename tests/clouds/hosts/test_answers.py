"""The answer of the survey program: read when it is one, refused when it is not, and never trusted."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.clouds.hosts import answers
from stampworks.clouds.hosts.survey import PROGRAM
from stampworks.plan import from_json, to_json
from stampworks.plan.host_facts import Content, HostSurvey, MountFacts, SharedPath

ANSWER = """\
Welcome to the lab.
stampworks-survey\t1
clock\t1000.5
os\tID\tdebian
os\tVERSION_CODENAME\ttrixie
os\tPRETTY_NAME\tDebian GNU/Linux 13 (trixie)
kernel\t6.12.57\tx86_64
machine_id\t0123456789abcdef0123456789abcdef
boot_id\t79eb984a-8057-4c70-b3f0-26578f75c561
python3\t/usr/bin/python3
user\tops\tno
processors\t2\t112\t224
memory_kib\t2113409024
pci\t0000:1a:00.0\t0x10de\t0x2330\t0x030200
pci\t0000:02:00.0\t0x1a03\t0x2000\t0x030000
driver\tnvidia\t580.126.09
port\tmlx5_0\t1\tACTIVE\t400\tInfiniBand\t0x1\tfe80:0000:0000:0000:248a:0703:00b3:0001\t0000:18:00.0\tib0\t0x7fff 0x8001
interface\teno1\t9000\t1\t10000\tup\t0000:01:00.0
address\teno1\t10.0.0.11/24
disk\tnvme1n1\t7501476528\tModel of a disk \t0
holds\tnvme1n1\tnvme1n1p1\txfs\tdata of others
held\tnvme1n1\tnvme1n1p2\tdm-0
mount\t/\text4\t/dev/nvme0n1p2\t259:2\t/
mount\t/run/lock\ttmpfs\ttmpfs\t0:24\t/
mount\t/mnt/my\\040data\tnfs4\tfiler:/my\\040data\t0:50\t/
directory\t/mnt/data\thangs
mark\t{"cluster": "prod"}
runs\tslurmd
runs\tslurmd
neighbour\t10.0.0.12\tno
clock\t1000.9
end
"""


def test_an_answer() -> None:
    """Every line of it, with the noise of a login before it."""
    found = answers.read(ANSWER, 1001.0, 1003.0)
    assert (found.suite, found.os_name, found.root) == ("trixie", "Debian GNU/Linux 13 (trixie)", False)
    assert (found.sockets, found.cores, found.threads, found.memory_mib) == (2, 112, 224, 2063876)
    assert [each.id for each in found.accelerators] == ["10de:2330"]
    [port] = found.ports
    assert (port.name, port.rate_gbps, port.subnet_prefix) == ("mlx5_0/1", 400.0, "fe80:0000:0000:0000")
    assert port.partition_keys == ("0x7fff", "0x8001")
    [eno1] = found.interfaces
    assert (eno1.mtu, eno1.carrier, eno1.speed_mbps, eno1.addresses) == (9000, True, 10000, ("10.0.0.11/24",))
    [disk] = found.disks
    assert (disk.gb, disk.model) == (3840, "Model of a disk")
    assert disk.content == (Content("nvme1n1p1", "xfs", "data of others"), Content("nvme1n1p2", "part of dm-0", ""))
    assert found.mounts[1:] == (MountFacts("/mnt/my data", "nfs4", "filer:/my data", "0:50", "/"),)
    assert found.shared == (SharedPath("/mnt/data", "hangs"),)
    assert (found.mark, found.runs) == ('{"cluster": "prod"}', ("slurmd",))
    assert (found.neighbour, found.neighbour_reached) == ("10.0.0.12", "no")
    assert (found.clock_ahead_s_min, found.clock_ahead_s_max) == (-2.1, -0.5)
    assert from_json(HostSurvey, to_json(found)) == found


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("Please login as the user ubuntu rather than root.\n", "its answer is not that of the survey"),
        (ANSWER.replace("end\n", ""), "its answer has no end"),
        (ANSWER.replace("clock\t1000.5\n", ""), "its answer has no time"),
        (ANSWER.replace("1000.5", "nan"), "its answer has no time"),
        (ANSWER.replace("end\n", "x\n" * 5000 + "end\n"), "its answer has more than 4000 lines"),
    ],
)
def test_no_answer(output: str, why: str) -> None:
    """The reason says what is missing."""
    with pytest.raises(ValueError, match=f"^{why}$"):
        answers.read(output, 0, 1)


WORDS = st.sampled_from(sorted({word for line in ANSWER.splitlines() for word in line.split("\t")}))
FIELDS = st.one_of(WORDS, st.text(max_size=40), st.sampled_from(["9" * 30, "-1", "0x", "\x1b[2J", "\u202e", "²"]))


@settings(deadline=None)
@given(st.lists(st.lists(FIELDS, max_size=12), max_size=40))
def test_any_answer(lines: list[list[str]]) -> None:
    """Whatever a machine says is facts in plain characters, or refused as none."""
    said = "\n".join("\t".join(line) for line in lines)
    output = f"{answers.BEGIN}\nclock\t1\n{said}\nclock\t2\n{answers.END}\n"
    try:
        found = answers.read(output, 0, 1)
    except ValueError:
        return
    text = to_json(found)
    assert all(each.isprintable() or each == "\n" for each in text)
    assert from_json(HostSurvey, text) == found


def test_dates_without_nanoseconds() -> None:
    """BusyBox's `date` knows no %N, and other texts are no time."""
    assert answers.read(ANSWER.replace("1000.5", "1000.%N"), 0, 1).clock_ahead_s_max == 1000
    assert answers.read(ANSWER.replace("1000.5", "1000."), 0, 1).clock_ahead_s_max == 1000


@pytest.mark.parametrize("shell", ["sh", "bash", "busybox"])
def test_the_program_here(shell: str, tmp_path: Path) -> None:
    """It runs in any shell of a base system, without rights to write anything, and leaves nothing."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = [shell, *(["sh"] if shell == "busybox" else []), "-s", "--", "", "", str(tmp_path), "/nowhere"]
    before = time.time()
    with PROGRAM.open() as program:
        done = subprocess.run(command, stdin=program, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    found = answers.read(done.stdout, before, time.time())
    assert (done.returncode, done.stderr) == (0, "")
    assert found.shared == (SharedPath(str(tmp_path), "yes"), SharedPath("/nowhere", "no"))
    assert found.threads > 0
    assert found.memory_mib > 0
    assert found.clock_ahead_s_min <= 0 <= found.clock_ahead_s_max
    assert [*tmp_path.iterdir()] == []
