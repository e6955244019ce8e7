"""Services under runit and systemd."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.stampworks.node.plugins.module_utils import services
from ansible_collections.stampworks.node.plugins.module_utils.node import Refused
from ansible_collections.stampworks.node.plugins.module_utils.services import Runit, Service, Systemd
from ansible_collections.stampworks.node.plugins.modules import service_unit

SERVICE = Service(
    "slurmd",
    ("/usr/sbin/slurmd", "-D", 'it\'s $HOME 100% "x"'),
    awaits=("head:6817",),
    limits=(("MEMLOCK", "unlimited"), ("NOFILE", "1024")),
    directories=(("/run/slurm", "slurm"),),
)


def test_a_run_script_is_readable() -> None:
    """Directories first, then what must answer, then limits as far as they go, then the program itself."""
    assert Runit.run_script(SERVICE).splitlines() == [
        "#!/bin/sh",
        "# Written by Stampworks.",
        "exec >>/var/log/stampworks/slurmd.log 2>&1",
        "install -d -m 750 -o slurm -g slurm /run/slurm || exit 1",
        "/usr/local/libexec/stampworks/await-port head 6817 || exit 1",
        "ulimit -l unlimited 2>/dev/null",
        "ulimit -n 1024 2>/dev/null",
        "exec /usr/sbin/slurmd -D 'it'\"'\"'s $HOME 100% \"x\"'",
    ]


def test_a_unit_is_readable() -> None:
    """The same service for systemd, which expands $ and % unless they are doubled."""
    unit = Systemd.unit(SERVICE).splitlines()
    assert 'ExecStart="/usr/sbin/slurmd" "-D" "it\'s $$HOME 100%% \\"x\\""' in unit
    assert 'ExecStartPre="/usr/local/libexec/stampworks/await-port" "head" "6817"' in unit
    assert {"LimitMEMLOCK=infinity", "LimitNOFILE=1024", "Restart=always"} <= set(unit)


def test_a_service_that_runs_once_stays_down() -> None:
    """Its supervisor would start it again and again."""
    script = Runit.run_script(Service("boot", ("/bin/true",), once=True))
    assert script.endswith("/bin/true\nexec sv down /etc/stampworks/services/boot\n")
    assert "Type=oneshot" in Systemd.unit(Service("boot", ("/bin/true",), once=True))


@pytest.mark.parametrize(
    ("state", "runs", "older", "redefined", "verb"),
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
def test_the_verb_that_is_needed(
    tmp_path: Path, state: str, runs: bool, older: bool, redefined: bool, verb: str
) -> None:
    """A service that is older than its configuration is restarted, however the two came apart."""
    configuration = tmp_path / "conf"
    configuration.write_text("")
    since = time.time() + (-60 if older else 60) if runs else None
    assert service_unit.needed(state, since, [str(configuration), "/not/there"], redefined) == verb


def test_runits_own_record_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it started, to the nanosecond; nothing when it is down."""
    monkeypatch.setattr(services, "RUNIT", tmp_path)
    status = tmp_path / "test/supervise/status"
    status.parent.mkdir(parents=True)
    status.write_bytes(
        struct.pack(">QI", services.TAI_EPOCH + 1000, 500_000_000) + struct.pack("<I4B", 42, 0, 117, 0, 1)
    )
    assert Runit().running_since("test") == 1000.5
    status.write_bytes(struct.pack(">QI", services.TAI_EPOCH + 1000, 0) + struct.pack("<I4B", 0, 0, 100, 0, 0))
    assert Runit().running_since("test") is None
    assert Runit().running_since("other") is None


class Slow:
    """A supervisor that says what it did some looks later."""

    def __init__(self, *answers: float | None) -> None:
        self.answers = list(answers)

    def running_since(self, _name: str) -> float | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_a_slow_supervisor_is_waited_for() -> None:
    """On a busy node a start takes longer than the command that asked for it."""
    service_unit.settled(cast(Any, Slow(None, None, 5.0)), "test", 0.01)


@pytest.mark.parametrize("answers", [(5.0, None), (5.0, 6.0)])
def test_a_service_that_comes_and_goes_has_not_started(answers: tuple[float | None, ...]) -> None:
    """Its supervisor would start it for ever."""
    with pytest.raises(Refused, match="service test does not stay up"):
        service_unit.settled(cast(Any, Slow(*answers)), "test", 0.01)
