"""Services under runit and systemd."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from ansible_collections.stampworks.node.plugins.module_utils import services
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.module_utils.services import Runit, Service, Systemd
from ansible_collections.stampworks.node.plugins.modules import service_unit
from stampworks.configuration import playbooks_dir

ROLES = playbooks_dir() / "roles"

SERVICE = Service(
    "slurmd",
    ("/usr/sbin/slurmd", "-D", 'it\'s $HOME 100% "x"'),
    awaits=("head:6817",),
    limits=(("MEMLOCK", "unlimited"), ("NOFILE", "1024")),
    directories=(("/run/slurm", "slurm"),),
    configuration=("/etc/slurm/slurm.key", "/etc/my file"),
)


def test_a_run_script_is_readable() -> None:
    """The script has directories, a wait for dependencies, a note of its inputs, limits where permitted, and the
    program."""
    quoted = "'\"'\"'"
    note = f"sha256sum /etc/slurm/slurm.key {quoted}/etc/my file{quoted} >/var/lib/stampworks/services/slurmd"
    assert Runit.run_script(SERVICE).splitlines() == [
        "#!/bin/sh",
        "# Written by Stampworks.",
        "exec 2>&1",
        "install -d -m 750 -o slurm -g slurm /run/slurm || exit 1",
        "/usr/local/libexec/stampworks/await-port head 6817 || exit 1",
        f"sh -c 'install -d -m 700 /var/lib/stampworks/services; {note} 2>/dev/null; true' || exit 1",
        "ulimit -l unlimited 2>/dev/null",
        "ulimit -n 1024 2>/dev/null",
        "exec /usr/sbin/slurmd -D 'it'\"'\"'s $HOME 100% \"x\"'",
    ]


def test_the_log_of_a_service_has_an_end() -> None:
    """Every service on every node keeps a megabyte of log and four earlier files."""
    assert Runit.log_script("slurmd").splitlines() == [
        "#!/bin/sh",
        "# Written by Stampworks.",
        "mkdir -p /var/log/stampworks/slurmd",
        r"printf 's1000000\nn4\n' >/var/log/stampworks/slurmd/config",
        "exec svlogd -tt /var/log/stampworks/slurmd",
    ]


def test_a_unit_is_readable() -> None:
    """The same service for systemd, which expands $ and % unless they are doubled."""
    unit = Systemd.unit(SERVICE).splitlines()
    assert 'ExecStart="/usr/sbin/slurmd" "-D" "it\'s $$HOME 100%% \\"x\\""' in unit
    assert 'ExecStartPre="/usr/local/libexec/stampworks/await-port" "head" "6817"' in unit
    assert {"LimitMEMLOCK=infinity", "LimitNOFILE=1024", "Restart=always"} <= set(unit)


def test_a_unit_behaves_as_under_runit() -> None:
    """Jobs survive a restart of slurmd with any number of processes; a service that ends is restarted for ever."""
    unit = Systemd.unit(SERVICE).splitlines()
    assert {"KillMode=process", "TasksMax=infinity", "StartLimitIntervalSec=0"} <= set(unit)
    assert "KillMode=process" not in Systemd.unit(Service("boot", ("/bin/true",), once=True))


def test_a_unit_waits_for_the_volume_that_its_directory_is_on() -> None:
    """Before the mount the directory is empty, and a queue would start empty."""
    service = Service("x", ("/bin/true",), directories=(("/var/lib/a b 100%", "slurm"),), follows=("one", "two"))
    unit = Systemd.unit(service).splitlines()
    assert 'RequiresMountsFor="/var/lib/a b 100%%"' in unit
    assert {"After=one.service two.service", "Wants=one.service two.service"} <= set(unit)
    assert not any(line.startswith("Requires") for line in Systemd.unit(Service("x", ("/bin/true",))).splitlines())


def test_services_follow_their_dependencies() -> None:
    """slurmd waits for accelerator devices and their fabric manager, the database for its volume."""
    slurmd, database = (
        yaml.safe_load((ROLES / role / "tasks/service.yml").read_text())[0]["stampworks.node.service_unit"]
        for role in ("slurm_worker", "database")
    )
    assert slurmd["follows"] == ["nvidia-persistenced", "nvidia-fabricmanager"]
    assert database["directories"] == "{{ {database_directory: 'mysql'} }}"


def test_units_of_others_are_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed packages leave dangling links, and a masked unit leads to no file."""
    monkeypatch.setattr(services, "SYSTEMD", tmp_path)
    (tmp_path / "slurmd.service").write_text(Systemd.unit(SERVICE))
    (tmp_path / "other.service").write_bytes(b"[Unit]\nDescription=\xff\n")
    (tmp_path / "timesync.service").symlink_to("/usr/lib/systemd/system/removed.service")
    (tmp_path / "masked.service").symlink_to("/dev/null")
    assert Systemd().names() == ["slurmd"]


def test_last_words_under_systemd_are_the_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users need not search for them."""

    def journal(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert argv == ["journalctl", "--unit", "slurmd", "--lines", "8", "--output", "cat"]
        return subprocess.CompletedProcess(argv, 0, "fatal: no /dev/nvidia0\n", "")

    monkeypatch.setattr(services, "supervisor", Systemd)
    monkeypatch.setattr(services, "run", journal)
    assert services.last_words("slurmd") == "fatal: no /dev/nvidia0"


def test_a_service_that_comes_before_mounts() -> None:
    """systemd mounts remote file systems after that target, which nothing requires by default."""
    first = Systemd.unit(Service("first", ("/bin/true",), once=True, before_mounts=True)).splitlines()
    assert {"Before=remote-fs-pre.target", "Wants=remote-fs-pre.target"} <= set(first)
    assert not any("remote-fs" in line for line in Systemd.unit(SERVICE).splitlines())


def test_a_service_that_runs_once_stays_down() -> None:
    """Its supervisor would otherwise restart it for ever."""
    script = Runit.run_script(Service("boot", ("/bin/true",), once=True))
    assert script.endswith("/bin/true\nexec sv down /etc/stampworks/services/boot\n")
    assert "Type=oneshot" in Systemd.unit(Service("boot", ("/bin/true",), once=True))


def test_a_new_unit_is_stopped_and_off_at_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's packages start their units under the same name, and that may have failed; an earlier unit is left
    alone."""
    ran: list[list[str]] = []
    monkeypatch.setattr(services, "SYSTEMD", tmp_path)
    monkeypatch.setattr(services, "run", lambda argv, **_: ran.append(argv))
    assert Systemd().define(SERVICE, check=True)
    assert ran == []
    assert Systemd().define(SERVICE, check=False)
    assert ran == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "disable", "--now", "--quiet", SERVICE.name],
        ["systemctl", "reset-failed", SERVICE.name],
    ]
    assert not Systemd().define(SERVICE, check=False)
    (tmp_path / f"{SERVICE.name}.service").write_text("# Written by Stampworks.\n")
    assert Systemd().define(SERVICE, check=False)
    assert ran[3:] == [["systemctl", "daemon-reload"]]


@pytest.mark.parametrize(
    ("state", "runs", "outdated", "redefined", "verb"),
    [
        ("defined", False, False, True, ""),
        ("started", False, False, False, "start"),
        ("started", True, False, False, ""),
        ("started", True, True, False, "restart"),
        ("started", True, False, True, "restart"),
        ("stopped", True, False, False, "stop"),
        ("stopped", False, False, False, ""),
        ("restarted", True, False, False, "restart"),
        ("reloaded", True, False, False, "reload"),
        ("reloaded", False, False, False, "start"),
    ],
)
def test_the_verb_that_is_needed(state: str, runs: bool, outdated: bool, redefined: bool, verb: str) -> None:
    """A service that runs with another configuration is restarted, whatever the cause."""
    assert service_unit.needed(state, runs, outdated, redefined) == verb


def test_a_service_that_is_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service does not start at boot either; an undefined one needs no action."""
    stopped: list[tuple[str, str]] = []
    monkeypatch.setattr(services, "RUNIT", tmp_path)
    monkeypatch.setattr(service_unit, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(service_unit, "supervisor", Runit)
    monkeypatch.setattr(Runit, "running", lambda _, name: str(((tmp_path / name).exists() and not stopped) or ""))
    monkeypatch.setattr(Runit, "control", lambda _, name, verb: stopped.append((name, verb)))

    def stop(check: bool = False) -> list[str]:
        nothing: Any = {"command": [], "awaits": [], "limits": {}, "directories": {}, "configuration": []}
        others: Any = {"once": False, "before_mounts": False, "answers": "", "settle_s": 0}
        found = service_unit.work(check, "test", state="stopped", enabled=False, **nothing, **others)["drift"]
        return list(found)

    assert stop() == []
    (tmp_path / "test").mkdir()
    assert stop(check=True) == ["test starts at boot", "test runs"]
    assert stopped == []
    assert stop() == ["test starts at boot", "test runs"]
    assert stopped == [("test", "stop")]
    assert stop() == []


@pytest.mark.parametrize("clock", [0, 4_000_000_000])
def test_a_clock_that_was_set_hides_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: int) -> None:
    """Contents at the start of a service are compared, not times: clocks may be wrong."""
    monkeypatch.setattr(services, "STARTED", tmp_path / "started")
    configuration = tmp_path / "conf"
    names = [str(configuration), "/not/there"]
    assert not services.outdated("test", [])
    assert services.outdated("test", names), "nobody knows what it was started with"
    configuration.write_text("old")
    start("test", names)
    os.utime(configuration, (clock, clock))
    assert not services.outdated("test", names)
    configuration.write_text("new")
    os.utime(configuration, (clock, clock))
    assert services.outdated("test", names)
    configuration.unlink()
    assert services.outdated("test", names)


def test_a_start_by_anybody_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service restarted with an edited file keeps its settings, also after the file was restored."""
    monkeypatch.setattr(services, "STARTED", tmp_path / "started")
    configuration = tmp_path / "a file"
    names = [str(configuration)]
    start("test", names)
    assert not services.outdated("test", names)
    configuration.write_text("right")
    assert services.outdated("test", names)
    start("test", names)
    assert not services.outdated("test", names)
    configuration.write_text("edited")
    start("test", names)
    configuration.write_text("right")
    assert services.outdated("test", names)


def start(name: str, configuration: list[str]) -> None:
    """Do the last step before a service starts."""
    command = Service(name, ("/bin/true",), configuration=tuple(configuration)).before[-1]
    subprocess.run(command, check=True, timeout=30)


def test_a_start_that_cannot_be_noted_is_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs a restart more, and no service."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(services, "STARTED", tmp_path / "file/started")
    start("test", ["/etc/passwd"])


def test_a_script_that_nobody_can_run_is_defined_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor does not report the fault."""
    monkeypatch.setattr(services, "RUNIT", tmp_path / "services")
    monkeypatch.setattr(services, "write", lambda path, content, mode=0o644: put(path, content, mode))
    assert Runit().define(SERVICE, check=False)
    assert not Runit().define(SERVICE, check=False)
    script = tmp_path / "services/slurmd/run"
    script.chmod(0o644)
    assert Runit().define(SERVICE, check=True)
    assert Runit().define(SERVICE, check=False)
    assert script.stat().st_mode & 0o777 == 0o755


def put(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def test_runits_own_record_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start is another run; a stopped service has none."""
    monkeypatch.setattr(services, "RUNIT", tmp_path)
    status = tmp_path / "test/supervise/status"
    status.parent.mkdir(parents=True)

    def running(nanoseconds: int, pid: int, state: int) -> str:
        status.write_bytes(struct.pack(">QI", 1000, nanoseconds) + struct.pack("<I4B", pid, 0, 117, 0, state))
        return Runit().running("test")

    assert running(5, pid=42, state=1) == running(5, pid=42, state=1) != ""
    assert len({running(5, pid=42, state=1), running(6, pid=42, state=1), running(5, pid=43, state=1)}) == 3
    assert running(5, pid=0, state=0) == ""
    assert Runit().running("other") == ""


class Slow:
    """A supervisor that reports its actions some looks later."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    def running(self, _name: str) -> str:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_a_slow_supervisor_is_waited_for() -> None:
    """On a busy node a start takes longer than the command that requests it."""
    service_unit.settled(cast(Any, Slow("", "", "one")), "test", 0.01)


@pytest.mark.parametrize("answers", [("one", ""), ("one", "other")])
def test_a_service_that_comes_and_goes_has_not_started(answers: tuple[str, ...]) -> None:
    """Its supervisor would restart it for ever."""
    with pytest.raises(Refused, match="service test does not stay up"):
        service_unit.settled(cast(Any, Slow(*answers)), "test", 0.01)
