"""The health program of Slurm nodes: its checks, and its requests to Slurm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from stampworks.qualification import hardware
from stampworks.text.reasons import prefix

from tests.playbooks.test_programs import ROLES, loaded

HEALTH = ROLES / "health/files/stampworks-health"


@pytest.fixture
def health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The health program as a module, on a node that exists in this test's folder."""
    monkeypatch.setenv("PATH", os.environ["PATH"])  # the program sets its own, which must not stay
    module = loaded(HEALTH, monkeypatch)
    monkeypatch.setattr(module, "EXPECTED", str(tmp_path / "health.json"))
    monkeypatch.setattr(module, "MARK", str(tmp_path / "mark"))
    expect(tmp_path)
    return module


def expect(tmp_path: Path, **more: Any) -> None:
    expected = {"rails": [], "accelerators": 0, "mounts": ["/proc"], "checks": [], "disk_free_percent_min": 0, **more}
    (tmp_path / "health.json").write_text(json.dumps(expected))


class Slurm:
    """A node's state in Slurm, changed by the commands the program gives."""

    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.reason, self.commands = "IDLE", "", 0
        self.output = module.output
        monkeypatch.setattr(module, "output", self)

    def __call__(self, *argv: str) -> str:
        if argv[0] != "scontrol":
            return str(self.output(*argv))
        self.commands += 1
        if argv[:3] == ("scontrol", "show", "node"):
            reason = f"\n   Reason={self.reason} [root@2026-11-21T12:00:00]" if self.reason else ""
            return f"NodeName=x CPUTot=1\n   State={self.state} ThreadsPerCore=1{reason}\n"
        settings = dict(word.split("=", 1) for word in argv[2:])
        self.state = {"drain": "IDLE+DRAIN", "resume": "IDLE"}[settings["state"]]
        self.reason = settings.get("reason", self.reason)  # Slurm keeps it when a node is given back
        return ""


def test_a_well_node_costs_slurm_nothing(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Healthy nodes send no request to the controller."""
    slurm = Slurm(health, monkeypatch)
    assert health.main([]) == 0
    assert slurm.commands == 0


def test_a_node_that_is_not_well_is_drained_and_given_back(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain has a reason, and is repeated only when the reason changes."""
    slurm = Slurm(health, monkeypatch)
    expect(tmp_path, mounts=["/not/mounted"])
    assert health.main([]) == 1
    assert (slurm.state, slurm.reason) == ("IDLE+DRAIN", "health: /not/mounted is not mounted")
    before = slurm.commands
    assert health.main([]) == 1
    assert slurm.commands == before + 1
    for _ in range(2):  # the same fault drains again
        expect(tmp_path)
        assert health.main([]) == 0
        assert slurm.state == "IDLE"
        expect(tmp_path, mounts=["/not/mounted"])
        assert health.main([]) == 1
        assert slurm.state == "IDLE+DRAIN"


def test_a_node_that_is_no_longer_what_was_proven_takes_no_job(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain belongs to the proof: another look does not resume the node, and a user's drain stays."""
    slurm = Slurm(health, monkeypatch)
    monkeypatch.setattr(health, "RIGHT", "another result")
    monkeypatch.setattr(health, "LIMITS", ())
    why = "proof: a computation came to another result than it does everywhere"
    assert health.main([]) == 0
    assert health.main(["--before-a-job"]) == 1
    assert (slurm.state, slurm.reason) == ("IDLE+DRAIN", why)
    assert health.main([]) == 0
    assert slurm.state == "IDLE+DRAIN"
    slurm.reason = "new fans on Monday"
    assert health.main(["--before-a-job"]) == 1
    assert slurm.reason == "new fans on Monday"


def test_problem_of_the_health_check_comes_first(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its repair, the health check returns the node; other problems show before the next job."""
    slurm = Slurm(health, monkeypatch)
    monkeypatch.setattr(health, "RIGHT", "another result")
    expect(tmp_path, mounts=["/not/mounted"])
    assert health.main(["--before-a-job"]) == 1
    assert slurm.reason == "health: /not/mounted is not mounted"


FIRST = """\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         65536                {memlock}            bytes
Max open files            1024                 {files}              files
"""


@pytest.mark.parametrize(
    ("memlock", "files", "own", "problems"),
    [
        ("8388608", "20000", (8388608, 20000), []),
        ("unlimited", "unlimited", (-1, 1048576), []),
        ("8388608", "20000", (65536, 20000), ["lockable memory: 65536, where this node can give 8388608"]),
        ("unlimited", "unlimited", (65536, -1), ["lockable memory: 65536, where this node can give all"]),
        ("unlimited", "unlimited", (-1, 1024), ["open files: 1024, where this node can give 1048576"]),
    ],
)
def test_limits_of_jobs(
    health: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    memlock: str,
    files: str,
    own: tuple[int, int],
    problems: list[str],
) -> None:
    """Limits are those of the machine and of the promise to jobs; no limit is fine."""
    first = tmp_path / "limits"
    first.write_text(FIRST.format(memlock=memlock, files=files))
    monkeypatch.setattr(health, "FIRST_PROCESS", str(first))
    soft = dict(zip((each[1] for each in health.LIMITS), own, strict=True))
    monkeypatch.setattr(health.resource, "getrlimit", lambda which: (soft[which], 0))
    assert health.look((health.limits,)) == problems


def test_rails_take_packets_of_one_size(health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rail with a smaller MTU is named."""
    for name, size in (("rail0", 1500), ("rail1", 1400)):
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "mtu").write_text(f"{size}\n")
    monkeypatch.setattr(health, "NICS", str(tmp_path / "net"))
    expect(tmp_path, rails=[{"interface": "rail0"}, {"interface": "rail1"}])
    assert health.look((health.packets,)) == ["rail1 takes packets of 1400 bytes, other rails 1500"]


@pytest.mark.parametrize(
    ("check", "said", "problems"),
    [
        ("throttled", "0, 0, 0x0000000000000001\n1, 0, [N/A]\n", []),
        ("throttled", "0, 0\n1, 0\n", []),
        (
            "throttled",
            "0, 0, 0x0000000000000000\n1, 0, 0x0000000000000040\n",
            ["accelerator 1 is slowed down: 0x0000000000000040"],
        ),
        ("kernel_log", "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 31, pid=7\n", []),
        ("kernel_log", "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=0\n" * 2, ["Xid 79 of PCI:0000:3b:00"]),
    ],
)
def test_accelerator_faults_before_a_job(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, said: str, problems: list[str]
) -> None:
    """Hardware faults count; faults of programs and unknown ones do not."""
    expect(tmp_path, accelerators=2)
    monkeypatch.setattr(health, "output", lambda *_: said)
    assert health.look((getattr(health, check),)) == problems


def test_it_means_the_same_as_a_proof(health: ModuleType) -> None:
    """Its list of hardware faults equals the toolkit's, which nodes do not have."""
    assert set(health.XIDS) == set(hardware.XIDS)
    assert sum(hardware.THROTTLED) == health.THROTTLED
    assert (prefix("proof"), prefix("health")) == (health.UNPROVEN, health.PREFIX)
    assert health.computed() == health.RIGHT


def test_a_node_that_a_person_drained_stays_drained(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the program had drained it before."""
    slurm = Slurm(health, monkeypatch)
    expect(tmp_path, mounts=["/not/mounted"])
    health.main([])
    slurm.reason = "new fans on Monday"
    expect(tmp_path)
    assert health.main([]) == 0
    assert (slurm.state, slurm.reason) == ("IDLE+DRAIN", "new fans on Monday")
    slurm.state, before = "IDLE+DRAIN", slurm.commands
    health.main([])
    assert slurm.commands == before


def test_the_reason_of_a_person_is_not_overwritten(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's drain stays unchanged."""
    slurm = Slurm(health, monkeypatch)
    slurm.state, slurm.reason = "IDLE+DRAIN", "new fans on Monday"
    expect(tmp_path, mounts=["/not/mounted"])
    assert health.main([]) == 1
    assert slurm.reason == "new fans on Monday"
    expect(tmp_path)
    health.main([])
    assert slurm.state == "IDLE+DRAIN"


@pytest.mark.parametrize("mount", ["/" + "x" * 300, "/" + "ü" * 200, '/a"', "/a\nb"])
def test_a_reason_that_slurm_would_change_is_made_plain_first(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str
) -> None:
    """Otherwise the reason would never match, and the node would be drained at every look."""
    slurm = Slurm(health, monkeypatch)
    expect(tmp_path, mounts=[mount, "/also"])
    health.main([])
    assert slurm.reason.startswith("health: /")
    assert len(slurm.reason.encode()) <= 255
    assert slurm.reason.isprintable()
    before = slurm.commands
    health.main([])
    assert slurm.commands == before + 1


def test_checking_leaves_slurm_alone(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The findings are printed, one on each line."""
    slurm = Slurm(health, monkeypatch)
    expect(tmp_path, mounts=["/a", "/b"])
    assert health.main(["--check"]) == 1
    assert capsys.readouterr().out == "/a is not mounted\n/b is not mounted\n"
    assert slurm.commands == 0


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        ("0, 0\n1, 0\n", []),
        ("0, 0\n", ["1 of 2 accelerators"]),
        ("0, 0\n1, 7\n", ["accelerator 1 has 7 uncorrected errors"]),
        ("0, [N/A]\n1, 0\n", []),
        ("garbage\n", ["could not check accelerators: not enough values to unpack (expected at least 2, got 1)"]),
    ],
)
def test_accelerators(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str, problems: list[str]
) -> None:
    """Number and errors are checked; an unreadable value counts as a fault."""
    expect(tmp_path, accelerators=2, mounts=[])
    monkeypatch.setattr(health, "output", lambda *_: rows)
    found = health.look(health.CHECKS)
    assert [problem for problem in found if "1 of 2" not in problem or rows != "garbage\n"] == problems


@pytest.mark.parametrize(
    ("row", "problems"),
    [
        (f"{1 << 20} {20_972} 200 4", []),
        (f"{1 << 20} {20_971} 200 4", ["/proc has less than 0.02 of 1 MiB free"]),
        (f"{1 << 20} {1 << 20} 200 3", ["/proc has less than 4 of 200 inodes free"]),
        ("0 0 0 0", []),
        ("1048576 0 - -", ["/proc has less than 0.02 of 1 MiB free"]),
        (f"{1 << 50} {1 << 30} {1 << 40} 10000", []),
        (
            f"{1 << 50} {(1 << 30) - 1} {1 << 40} 9999",
            [
                "/proc has less than 1024 of 1073741824 MiB free",
                "/proc has less than 10000 of 1099511627776 inodes free",
            ],
        ),
        ("garbage", ["could not check storage: invalid literal for int() with base 10: 'garbage'"]),
    ],
)
def test_storage_that_is_full(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, problems: list[str]
) -> None:
    """Bytes or inodes are used up; changes of the free space during jobs do not change the reason."""
    expect(tmp_path, disk_free_percent_min=2)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: SimpleNamespace(total=1, free=1))
    monkeypatch.setattr(health, "output", lambda *_: f"1B-blocks Avail Inodes IFree\n{row}\n")
    assert health.look(health.CHECKS) == problems


Scripts = Callable[..., list[str]]


@pytest.fixture
def looked(health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripts:
    """Return the results of a look with these scripts as the user's checks, called a, b, ..."""
    folder = tmp_path / "checks"
    folder.mkdir()
    monkeypatch.setattr(health, "OWN_CHECKS", str(folder))

    def look(*scripts: str, timeout_seconds: int = 5) -> list[str]:
        names = "abcdefgh"[: len(scripts)]
        for name, script in zip(names, scripts, strict=True):
            (folder / name).write_text(script)
            (folder / name).chmod(0o755)
        expect(tmp_path, checks=[{"name": name, "timeout_seconds": timeout_seconds} for name in names])
        found: list[str] = health.look(health.CHECKS)
        return found

    return look


@pytest.mark.parametrize(
    ("script", "problems"),
    [
        ("exit 0", []),
        ("echo all is well", []),
        ("echo no scratch; echo more; exit 1", ["a: no scratch"]),
        ("echo to stderr >&2; exit 1", ["a: to stderr"]),
        ("exit 1", ["a: not well"]),
        ("echo no network; exit 2", ["could not check a: no network"]),
        ("exit 127", ["could not check a: exit code 127"]),
        ("kill -9 $$", ["could not check a: exit code -9"]),
        (r"printf '\n\033[2Jred\t\377\n'; exit 1", ["a: [2Jred \ufffd"]),
        ("head -c 300 /dev/zero | tr '\\0' x; exit 1", ["a: " + 160 * "x"]),
        ("cat; exit 1", ["a: not well"]),
    ],
)
def test_a_check_of_the_users_own(looked: Scripts, script: str, problems: list[str]) -> None:
    """The exit status is the verdict, and the first line of output the reason, without control characters."""
    assert looked(f"#!/bin/sh\n{script}\n") == problems


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60",
        "sleep 60 >/dev/null 2>&1",
        "exec yes",
        "setsid sleep 3 & exec sleep 60",
    ],
)
def test_a_check_that_does_not_end(looked: Scripts, script: str, tmp_path: Path) -> None:
    """The check is ended at its time limit, and counts as failed."""
    assert looked(f"#!/bin/sh\n{script}\n", timeout_seconds=1) in (
        ["could not check a: no answer within 1 s"],
        ["could not check a: y"],
    )


def test_a_check_that_leaves_somebody_behind(looked: Scripts) -> None:
    """The exit status of the check counts, and its children extend no wait."""
    assert looked("#!/bin/sh\necho bad\nsetsid sleep 3 &\nexit 1\n", timeout_seconds=1) == ["a: bad"]


def test_a_check_that_cannot_start(looked: Scripts) -> None:
    """Its interpreter may be missing."""
    assert looked("#!/no/such/program\n") == ["could not check a: No such file or directory"]


def test_checks_run_side_by_side(looked: Scripts, tmp_path: Path) -> None:
    """Each check waits until the other one has started."""
    scripts = [
        f"#!/bin/sh\ntouch {tmp_path}/{mine}\nuntil [ -e {tmp_path}/{other} ]; do sleep 0.05; done\necho met; exit 1\n"
        for mine, other in (("one", "two"), ("two", "one"))
    ]
    assert looked(*scripts) == ["a: met", "b: met"]


def test_failed_check_is_a_problem(health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed check never passes."""

    def hangs(*argv: str) -> str:
        raise subprocess.TimeoutExpired(argv, 10)

    expect(tmp_path, accelerators=1)
    monkeypatch.setattr(health, "output", hangs)
    assert [problem.split(":")[0] for problem in health.look(health.CHECKS)] == [
        "could not check storage",
        "could not check accelerators",
    ]
    (tmp_path / "health.json").unlink()
    assert health.look(health.CHECKS)[0].startswith("cannot read what a well node has: ")


@pytest.mark.parametrize(
    ("carrier", "rate", "problems"),
    [
        ("1", 200, []),
        ("0", 200, ["rail0 has no carrier"]),
        ("1", 40, ["rail0 runs at 40 of 200 Mb/s"]),
        (None, 200, ["rail0 is missing"]),
    ],
)
def test_rails(
    health: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    carrier: str | None,
    rate: int,
    problems: list[str],
) -> None:
    """Each rail exists, with a carrier, at the declared rate."""
    monkeypatch.setattr(health.os.path, "exists", lambda _: carrier is not None)
    monkeypatch.setattr(health, "read", lambda _: carrier)
    assert health.one_rail({"interface": "rail0", "rate_mbps": 200}, {"rail0": rate}) == problems
