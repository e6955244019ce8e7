"""The programs that roles put on nodes, run as they are."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from stampworks.configuration import playbooks_dir
from stampworks.qualification import hardware
from stampworks.reasons import prefix

ROLES = playbooks_dir() / "roles"
NVIDIA_SMI = ROLES / "accelerator/files/nvidia-smi"
HEALTH = ROLES / "health/files/stampworks-health"
METRICS = ROLES / "metrics/files/stampworks-metrics"
NAMES = ROLES / "slurm_worker/files/names"
TASK_PROLOG = ROLES / "slurm_worker/files/task-prolog"


def accelerator(index: int, **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "name": "Simulated H100",
        "uuid": f"GPU-{index}",
        "memory_mib": 81920,
        "memory_used_mib": 20,
        "utilization_percent": 0,
        "temperature_c": 34,
        "power_w": 70,
        "ecc_uncorrected": 0,
        "lost": False,
        **more,
    }


def nvidia_smi(tmp_path: Path, *arguments: str, accelerators: list[dict[str, Any]] | None = None) -> Any:
    state = tmp_path / "accelerators.json"
    if accelerators is not None:
        state.write_text(json.dumps({"simulated": True, "driver_version": "simulated", "accelerators": accelerators}))
    environment = {**os.environ, "STAMPWORKS_ACCELERATORS": str(state)}
    command = [sys.executable, "-IS", str(NVIDIA_SMI), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)


BOTH = [accelerator(0), accelerator(1, ecc_uncorrected=3)]


def test_a_list_of_accelerators(tmp_path: Path) -> None:
    """As the real tool writes it, one line each."""
    done = nvidia_smi(tmp_path, "-L", accelerators=BOTH)
    assert done.stdout == "GPU 0: Simulated H100 (UUID: GPU-0)\nGPU 1: Simulated H100 (UUID: GPU-1)\n"


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("csv", ["index, memory.total [MiB], memory.free [MiB]", "0, 81920 MiB, 81900 MiB"]),
        ("csv,noheader", ["0, 81920 MiB, 81900 MiB"]),
        ("csv,noheader,nounits", ["0, 81920, 81900"]),
    ],
)
def test_a_query(tmp_path: Path, options: str, lines: list[str]) -> None:
    """In the forms that scripts read."""
    query = "--query-gpu=index,memory.total,memory.free"
    done = nvidia_smi(tmp_path, query, f"--format={options}", accelerators=BOTH[:1])
    assert done.stdout.splitlines() == lines


def test_a_lost_accelerator_is_not_there(tmp_path: Path) -> None:
    """As one that fell off the bus: gone from the list, and from the count."""
    found = [accelerator(0, lost=True), accelerator(1)]
    done = nvidia_smi(tmp_path, "--query-gpu=index,count", "--format=csv,noheader", accelerators=found)
    assert done.stdout == "1, 1\n"


def test_it_says_that_it_is_simulated(tmp_path: Path) -> None:
    """Nobody shall take its table for a measurement."""
    assert "SIMULATED" in nvidia_smi(tmp_path, accelerators=BOTH).stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--query-gpu=index,wings", "--format=csv"],
            'Field "wings" is not a valid field to query (simulated nvidia-smi).',
        ),
        (["--query-gpu=index"], "simulated nvidia-smi: --format=csv[,noheader][,nounits] is all it can"),
        (
            ["topo", "-m"],
            "simulated nvidia-smi: knows no topo -m; it can -L, --query-gpu=... --format=csv and no argument",
        ),
    ],
)
def test_what_it_cannot_it_says(tmp_path: Path, arguments: list[str], message: str) -> None:
    """A script must not take silence for health."""
    done = nvidia_smi(tmp_path, *arguments, accelerators=BOTH)
    assert (done.returncode, done.stderr) == (1, message + "\n")


def test_a_node_without_state_has_no_accelerators(tmp_path: Path) -> None:
    """The tool is in every image; accelerators are not in every node."""
    done = nvidia_smi(tmp_path, "-L")
    assert done.returncode == 1
    assert done.stderr.endswith("accelerators.json is not there: this node has no accelerators\n")


def loaded(program: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(program.name.replace("-", "_"), str(program))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    return module


# --- logs


def test_what_is_handed_over_together_is_of_one_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CloudWatch Logs refuses a call whose entries are more than 24 hours apart, and a clock that is set goes back as
    well as ahead."""
    at_h = [24, 46, 2, 3, 26, 30]
    said = [{"__CURSOR": f"c{h}", "__REALTIME_TIMESTAMP": f"{h * 3_600_000_000}", "MESSAGE": "x"} for h in at_h]
    (tmp_path / "said").write_text("".join(json.dumps(each) + "\n" for each in said))
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\ncat {tmp_path}/said\nexec sleep 10\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    module = loaded(ROLES / "logs/files/ship-logs", monkeypatch)
    journal = module.Journal("")
    with journal._process as process:
        batches = journal.batches()
        found = [[each.at_ms // 3_600_000 for each in next(batches)] for _ in range(3)]
        process.kill()
    assert found == [[24, 46], [2, 3], [26, 30]]


# --- health


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
    """A thousand nodes that are well ask the controller nothing."""
    slurm = Slurm(health, monkeypatch)
    assert health.main([]) == 0
    assert slurm.commands == 0


def test_a_node_that_is_not_well_is_drained_and_given_back(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its reason; again only when the reason changes."""
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
    """Its drain is the proof's: looking again does not give it back, and a person's stays a person's."""
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


def test_what_is_not_well_is_said_first(health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The health check returns the node when that is repaired; what else is wrong shows before the next job."""
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
    """As much as the machine gives, and a job was promised; without a limit, nothing is missing."""
    first = tmp_path / "limits"
    first.write_text(FIRST.format(memlock=memlock, files=files))
    monkeypatch.setattr(health, "FIRST_PROCESS", str(first))
    soft = dict(zip((each[1] for each in health.LIMITS), own, strict=True))
    monkeypatch.setattr(health.resource, "getrlimit", lambda which: (soft[which], 0))
    assert health.look((health.limits,)) == problems


def test_rails_take_packets_of_one_size(health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes smaller ones is named."""
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
def test_what_accelerators_say_before_a_job(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, said: str, problems: list[str]
) -> None:
    """Faults of hardware, and neither those of programs nor what is not known."""
    expect(tmp_path, accelerators=2)
    monkeypatch.setattr(health, "output", lambda *_: said)
    assert health.look((getattr(health, check),)) == problems


def test_it_means_the_same_as_a_proof(health: ModuleType) -> None:
    """What is a fault of hardware stands on the node, too, where nothing of the toolkit is."""
    assert set(health.XIDS) == set(hardware.XIDS)
    assert sum(hardware.THROTTLED) == health.THROTTLED
    assert (prefix("proof"), prefix("health")) == (health.UNPROVEN, health.PREFIX)
    assert health.computed() == health.RIGHT


def test_a_node_that_a_person_drained_stays_drained(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the program had drained it before."""
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
    """Who drained a node wants to find it as it was left."""
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
    """Else it would never be the one that was given, and the node would be drained anew at every look."""
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
    """It prints what it found, one line each."""
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
    """Their number and their errors; what cannot be read is no good sign."""
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
    """Of bytes or of inodes; how much is left of it while jobs run on makes no other reason."""
    expect(tmp_path, disk_free_percent_min=2)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: SimpleNamespace(total=1, free=1))
    monkeypatch.setattr(health, "output", lambda *_: f"1B-blocks Avail Inodes IFree\n{row}\n")
    assert health.look(health.CHECKS) == problems


Scripts = Callable[..., list[str]]


@pytest.fixture
def looked(health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripts:
    """What a look says when the user has checks with these scripts, called a, b, ..."""
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
    """Its exit code is the verdict, its first line the sentence, and only what can be printed of it."""
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
    """It is ended in time, and is no good sign."""
    assert looked(f"#!/bin/sh\n{script}\n", timeout_seconds=1) in (
        ["could not check a: no answer within 1 s"],
        ["could not check a: y"],
    )


def test_a_check_that_leaves_somebody_behind(looked: Scripts) -> None:
    """Its own exit code counts, and nobody waits for longer than was said."""
    assert looked("#!/bin/sh\necho bad\nsetsid sleep 3 &\nexit 1\n", timeout_seconds=1) == ["a: bad"]


def test_a_check_that_cannot_start(looked: Scripts) -> None:
    """Its interpreter may not be there."""
    assert looked("#!/no/such/program\n") == ["could not check a: No such file or directory"]


def test_checks_run_side_by_side(looked: Scripts, tmp_path: Path) -> None:
    """Each waits until the other has begun."""
    scripts = [
        f"#!/bin/sh\ntouch {tmp_path}/{mine}\nuntil [ -e {tmp_path}/{other} ]; do sleep 0.05; done\necho met; exit 1\n"
        for mine, other in (("one", "two"), ("two", "one"))
    ]
    assert looked(*scripts) == ["a: met", "b: met"]


def test_what_cannot_be_checked_is_not_well(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that could not look never passes."""

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
    """There, with a carrier, at the declared rate."""
    monkeypatch.setattr(health.os.path, "exists", lambda _: carrier is not None)
    monkeypatch.setattr(health, "read", lambda _: carrier)
    assert health.one_rail({"interface": "rail0", "rate_mbps": 200}, {"rail0": rate}) == problems


# --- metrics


def test_metrics_are_in_prometheus_form() -> None:
    """Each line a name, labels and a number; each collector says whether it could look."""
    done = subprocess.run(
        [sys.executable, "-IS", METRICS, "--once"], capture_output=True, text=True, timeout=30, check=True
    )
    names = {line.partition("{")[0].split()[0] for line in done.stdout.splitlines()}
    assert {"node_memory_MemTotal_bytes", "node_load1", "node_network_up", "stampworks_collector_up"} <= names
    assert [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]


def test_metrics_are_served() -> None:
    """One answer for each connection, and a client that says nothing does not stop the next one for long."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-IS", METRICS, str(port)])
    try:
        for _ in range(2):
            assert ask(port).startswith("HTTP/1.1 200 OK\r\n")
    finally:
        process.kill()
        process.wait()


def ask(port: int) -> str:
    for _ in range(100):
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


# --- prolog, task prolog, epilog


def around_a_job(folder: Path, program: str) -> str:
    """What one says that Slurm runs around job 7, with its paths below a folder, on a node that is well."""
    text = (ROLES / "slurm_worker/files" / program).read_text()
    script = folder / program
    script.write_text(re.sub(r"/(?=(tmp|run|usr/local|etc)/)", f"{folder}/", text))
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_GID": str(os.getgid())}
    return subprocess.check_output(["sh", str(script)], text=True, timeout=10, env=os.environ | environment)


@pytest.mark.parametrize("plant", ["touch tmp/job-7", "mkdir tmp/job-7", "ln -s ../elsewhere tmp/job-7"])
def test_nobody_can_put_something_where_a_job_will_have_its_files(plant: str, tmp_path: Path) -> None:
    """Under a name that is only the job's number it would keep the node from taking it, or be what the job reads."""
    for program in ("sbin/stampworks-health", "libexec/stampworks/names"):
        stub = tmp_path / "usr/local" / program
        stub.parent.mkdir(parents=True)
        stub.symlink_to("/bin/true")
    for name in ("tmp", "run", "elsewhere"):
        (tmp_path / name).mkdir()
    subprocess.run(plant.split(), cwd=tmp_path, timeout=10, check=True)
    theirs = tmp_path / "tmp/job-7"
    around_a_job(tmp_path, "prolog")
    [name, value] = around_a_job(tmp_path, "task-prolog").rstrip().split("=")
    folder = Path(value)
    assert (name, folder.parent, folder.stat().st_mode & 0o7777) == ("export TMPDIR", theirs.parent, 0o700)
    assert folder != theirs
    assert [*folder.iterdir()] == []
    (folder / "file").touch()
    around_a_job(tmp_path, "epilog")
    assert [*theirs.parent.iterdir()] == [theirs]
    assert [*(tmp_path / "run/stampworks-jobs").iterdir()] == []
    assert around_a_job(tmp_path, "task-prolog") == ""


def test_the_task_prolog_hands_the_environment_on(tmp_path: Path) -> None:
    """What the job set for itself stays, and nothing in a value is run."""
    script = tmp_path / "task-prolog"
    environment = tmp_path / "env"
    environment.write_text("# comment\n\nNCCL_SOCKET_IFNAME=rail0,rail1\nGLOO_SOCKET_IFNAME=rail0\nX=$(touch y) `id`\n")
    script.write_text(TASK_PROLOG.read_text().replace("/etc/stampworks/collectives.env", str(environment)))
    done = subprocess.run(
        ["sh", str(script)],
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
        cwd=tmp_path,
        env={"GLOO_SOCKET_IFNAME": "eth0", "SLURM_JOB_ID": "0"},
    )
    assert done.stdout == "export NCCL_SOCKET_IFNAME=rail0,rail1\nexport X=$(touch y) `id`\n"
    assert not (tmp_path / "y").exists()


# --- guard-metadata


def test_rules_that_keep_users_from_the_metadata_stay() -> None:
    """systemd-networkd takes away all that it did not make, but those that say they are the kernel's."""
    guard = f"sh {ROLES / 'metadata/files/guard-metadata'} 169.254.169.254"
    look = "ip -4 -details rule list priority 100"
    command = ["unshare", "--net", "sh", "-c", f"{guard} && {guard} && {look}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines() == [
        f"100:\tfrom all to 169.254.169.254 uidrange {uids} prohibit proto kernel"
        for uids in ("1000-60000", "65534-4294967294")
    ]


# --- names


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a node's file of names becomes when a job begins on nodes of which Slurm says where they are."""
    module = loaded(NAMES, monkeypatch)
    hosts = tmp_path / "hosts"
    always = f"127.0.0.1 localhost\n10.0.0.1 gpu-001 # always there\n{module.FOLLOW}"
    hosts.write_text(always)
    monkeypatch.setattr(module, "HOSTS", str(hosts))
    monkeypatch.setattr(module, "LOCK", str(tmp_path / "lock"))

    def begin(**at: str) -> str:
        nodes = [name.replace("_", "-") for name in at]

        def scontrol(*words: str) -> str:
            if words[:2] == ("show", "hostnames"):
                return "\n".join(nodes)
            assert words[0] == "getaddrs"
            return "".join(f"{name}: {at[name.replace('-', '_')]}\n" for name in words[1].split(","))

        monkeypatch.setattr(module, "scontrol", scontrol)
        monkeypatch.setenv("SLURM_JOB_NODELIST", ",".join(nodes))
        module.main()
        after = hosts.read_text()
        assert after.startswith(always), "what the playbooks wrote stays as it is"
        return after.removeprefix(always)

    return begin


def test_nodes_of_a_job_that_started_with_it_are_known_by_name(names: Callable[..., str]) -> None:
    """And not those that always are; who has moved, or whose address somebody else has now, is forgotten."""
    assert names(gpu_001="10.0.0.1:6818") == ""
    assert names(gpu_001="10.0.0.1:6818", gpu_002="10.0.0.7:6818") == "10.0.0.7 gpu-002\n"
    assert names(gpu_003="10.0.0.8:6818") == "10.0.0.7 gpu-002\n10.0.0.8 gpu-003\n"
    assert names(gpu_003="10.0.0.9:6818") == "10.0.0.7 gpu-002\n10.0.0.9 gpu-003\n"
    assert names(gpu_004="10.0.0.7:6818") == "10.0.0.9 gpu-003\n10.0.0.7 gpu-004\n"
    assert names(gpu_005="[fd00::5]:6818").splitlines()[-1] == "fd00::5 gpu-005"


def test_what_slurm_says_is_not_taken_for_an_address_that_is_none(names: Callable[..., str], tmp_path: Path) -> None:
    """It would be the line of a file that everybody believes."""
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        names(gpu_002="10.0.0.7 head\n10.0.0.8:6818")
    assert "head" not in (tmp_path / "hosts").read_text()
