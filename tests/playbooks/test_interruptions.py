"""The program that drains a node before its cloud ends it, with the metadata service of a simulated EC2.

Slurm's programs are scripts that keep the node's state in files; test_handover.py has the real ones.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stampworks.configuration import playbooks_dir
from stampworks.text.reasons import STARTED_AGAIN, parsed, written

from tests.clouds.aws import metadata
from tests.clouds.aws.simulated import served

PROGRAM = playbooks_dir() / "roles/interruptions/files/watch-interruptions"
SCONTROL = """\
#!/bin/sh
cd {folder}
echo "scontrol $*" >>called
[ ! -e broken ] || { echo "slurmctld does not answer" >&2; exit 1; }
case $1-$2 in
    show-node)
        echo "   State=$(cat state) CPU=1"
        echo "   Reason=$(cat reason) [root@2026-12-01T11:00:00]" ;;
    write-batch_script) cat "script-$3" || exit 1 ;;
    update-*)
        for word in "$@"; do
            case $word in
                state=drain) echo IDLE+DRAIN >state ;;
                state=resume) echo IDLE >state ;;
                reason=*) word=${word#reason=\\"}; printf %s "${word%\\"}" >reason ;;
            esac
        done ;;
esac
"""
SQUEUE = """\
#!/bin/sh
cat {folder}/jobs
"""
SCANCEL = """\
#!/bin/sh
[ ! -e {folder}/starting ] || exit 1
echo "$*" >>{folder}/signals
"""
HERE = "127.0.0.1"
SPOT = {"spot/instance-action": {"action": "terminate", "time": "2026-12-01T11:30:00Z"}}
REBALANCE = {"events/recommendations/rebalance": {"noticeTime": "2026-12-01T11:20:00Z"}}


def event(seconds: float, state: str = "active") -> dict[str, Any]:
    at = time.strftime("%d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))
    row = {"NotBefore": at, "Code": "system-reboot", "EventId": "instance-event-1", "State": state}
    return {"events/maintenance/scheduled": [row]}


@dataclass
class Node:
    folder: Path
    program: ModuleType
    service: Any
    notices: dict[str, Any]
    ends: str = ""
    problems: list[str] = field(default_factory=list)

    def look(self, **notices: Any) -> tuple[bool, str]:
        """Announce these notices and no others, and return whether the node is held, and why."""
        self.notices[HERE] = {where: notice for each in notices.values() for where, notice in each.items()}
        found, problem = self.program.notices(self.service, self.ends)
        self.problems.append(problem)
        self.program.look(found, is_complete=not problem)
        return "DRAIN" in self.read("state"), self.read("reason")

    def jobs(self, **scripts: str) -> None:
        numbers = {name.removeprefix("job"): text for name, text in scripts.items()}
        self.write("jobs", "".join(f"{number}\n" for number in numbers))
        for number, text in numbers.items():
            self.write(f"script-{number}", f"#!/bin/sh\n{text}\nsleep 1\n")

    def hold(self, reason: str) -> None:
        self.write("state", "IDLE+DRAIN")
        self.write("reason", reason)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def read(self, name: str) -> str:
        file = self.folder / name
        return file.read_text().strip() if file.exists() else ""

    def booted(self) -> None:
        Path(self.program.MEMORY).unlink()


def loaded() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("watch_interruptions", str(PROGRAM))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setenv("PATH", os.environ["PATH"])
    module, programs, notices = loaded(), tmp_path / "bin", dict[str, Any]()
    monkeypatch.setattr(module, "MEMORY", str(tmp_path / "memory"))
    monkeypatch.setattr(module, "ANSWER_S", 1)
    programs.mkdir()
    for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        (programs / name).write_text(text.replace("{folder}", str(tmp_path)))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with socket.create_server((HERE, 0)) as there:
        port = there.getsockname()[1]
        application = metadata.service(None, {}, notices)  # type: ignore[arg-type]  # no instance, so AWS is not asked
        with served(application, there):
            made = Node(tmp_path, module, module.Metadata(f"{HERE}:{port}"), notices)
            made.write("state", "IDLE")
            made.write("reason", "health: an old one")
            made.jobs()
            yield made


def test_nothing_is_done_without_a_notice(node: Node) -> None:
    """Slurm keeps the reason of an earlier drain, which does not count."""
    assert node.look() == (False, "health: an old one")
    assert "update" not in node.read("called")
    assert node.problems == [""]


def test_a_spot_interruption_drains_and_its_withdrawal_returns(node: Node) -> None:
    """The reason has the common form of all drains, and names the notice and its time."""
    held, reason = node.look(spot=SPOT)
    assert held
    assert reason == "cloud: spot instance: terminate at 2026-12-01T11:30:00Z"
    assert (parsed(reason).by, written(parsed(reason))) == ("cloud", reason)
    assert node.look(spot=SPOT) == (True, reason)
    assert node.read("called").count("state=drain") == 1
    assert node.look() == (False, reason)


def test_each_job_gets_the_signal_that_it_declares_once(node: Node) -> None:
    """The signal goes to the batch script if declared so, otherwise to the steps; jobs without a declaration get
    none."""
    node.jobs(
        job7="#SBATCH --signal=B:USR2@90\n#SBATCH --requeue",
        job8="#SBATCH --signal TERM",
        job9="#SBATCH --nodes=1\necho '#SBATCH --signal'",
    )
    for _ in range(3):
        node.look(spot=SPOT)
    assert node.read("signals").splitlines() == ["--batch --signal=USR2 7", "--signal=TERM 8"]


def test_the_scripts_of_our_own_jobs_declare_their_signal(node: Node) -> None:
    """The scripts are those rendered for a run."""
    from stampworks.schedulers.batch import BatchJob, script

    run = BatchJob("r", "training", "/shared/runs/r", "main", 2, (), "", "/p", ("python3", "-m", "training"))
    node.jobs(job7=script(run))
    node.look(spot=SPOT)
    assert node.read("signals") == "--batch --signal=USR1 7"


def test_a_job_that_has_not_started_yet_gets_its_signal_later(node: Node) -> None:
    """Slurm refuses a signal to a script that does not run."""
    node.jobs(job7="#SBATCH --signal=B:USR2@90")
    node.write("starting", "")
    node.look(spot=SPOT)
    assert node.read("signals") == ""
    (node.folder / "starting").unlink()
    node.look(spot=SPOT)
    assert node.read("signals") == "--batch --signal=USR2 7"


def test_a_job_is_told_again_when_the_end_is_certain(node: Node) -> None:
    """The interruption follows a recommendation, and has its own time."""
    node.jobs(job7="#SBATCH --signal=B:USR2@90")
    assert node.look(rebalance=REBALANCE) == (True, "cloud: rebalance recommendation of 2026-12-01T11:20:00Z")
    held, reason = node.look(rebalance=REBALANCE, spot=SPOT)
    assert (held, "spot instance" in reason) == (True, True)
    assert node.read("signals").splitlines() == ["--batch --signal=USR2 7"] * 2


def test_a_scheduled_event_drains_an_hour_before(node: Node) -> None:
    """Jobs get their signal in the last ten minutes; an event that is completed returns the node."""
    node.jobs(job7="#SBATCH --signal=B:USR2@90")
    assert node.look(event=event(3700))[0] is False
    held, reason = node.look(event=event(1800))
    assert held
    assert reason.startswith("cloud: scheduled event: system-reboot at ")
    assert node.read("signals") == ""
    assert node.look(event=event(500))[0]
    assert node.read("signals") == "--batch --signal=USR2 7"
    assert node.look(event=event(-60, "completed"))[0] is False


def test_the_end_of_a_capacity_block_drains(node: Node) -> None:
    """Metadata does not announce it: the end is in the inventory, and changes when the block is extended."""
    node.ends = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(time.time() + 1800))
    assert node.look() == (True, f"cloud: capacity block: instances end from {node.ends}")
    node.ends = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(time.time() + 86400))
    assert node.look()[0] is False


@pytest.mark.parametrize("reason", ["person alice: fans", "health: disk full", "proof: rail1 is slow"])
def test_a_node_that_others_hold_stays_theirs(node: Node, reason: str) -> None:
    """Its jobs still get their signal. After its return the notice counts."""
    node.hold(reason)
    node.jobs(job7="#SBATCH --signal=B:USR2@90")
    assert node.look(spot=SPOT) == (True, reason)
    assert node.read("signals") == "--batch --signal=USR2 7"
    assert node.look() == (True, reason)
    node.write("state", "IDLE")
    assert node.look(spot=SPOT)[1].startswith("cloud: spot instance")


def test_a_person_overrides_a_notice(node: Node) -> None:
    """The notice then drains nothing and signals no job; the next notice does."""
    node.look(rebalance=REBALANCE)
    node.write("state", "IDLE")
    node.jobs(job7="#SBATCH --signal=B:USR2@90")
    assert node.look(rebalance=REBALANCE)[0] is False
    assert node.look(rebalance=REBALANCE)[0] is False
    assert node.read("signals") == ""
    assert node.look(rebalance=REBALANCE, spot=SPOT)[0]


def test_a_node_that_has_started_again_is_proven_first(node: Node) -> None:
    """This includes another machine with the same name: neither has the notice of the drain."""
    node.look(event=event(60))
    node.booted()
    assert node.look(event=event(-60))[1].startswith("cloud: scheduled event")
    assert node.look() == (True, written(STARTED_AGAIN))
    assert node.look() == (True, written(STARTED_AGAIN))


def test_a_service_that_does_not_answer_withdraws_nothing(node: Node) -> None:
    """A silent service leaves the notice unknown. Other services count."""
    held, reason = node.look(spot=SPOT)
    sound, node.service = node.service, node.program.Metadata(f"{HERE}:1")
    assert node.look() == (held, reason)
    assert node.problems[-1] == "the metadata service: [Errno 111] Connection refused"
    node.service = sound
    assert node.look(spot={"spot/instance-action": "odd"}) == (held, reason)
    assert node.problems[-1]
    later = node.look(spot={"spot/instance-action": "odd"}, rebalance=REBALANCE)
    assert later == (True, "cloud: rebalance recommendation of 2026-12-01T11:20:00Z")


def test_a_silent_service_is_not_waited_for_long(node: Node) -> None:
    """The service accepts the connection and sends nothing."""
    with socket.create_server((HERE, 0)) as silent:
        node.service = node.program.Metadata(f"{HERE}:{silent.getsockname()[1]}")
        begun = time.monotonic()
        node.look()
    assert "timed out" in node.problems[-1]
    assert time.monotonic() - begun < 8


def test_a_token_that_has_ended_is_renewed(node: Node) -> None:
    """The token is renewed at the look after the failed one."""
    node.look()
    node.service.token = "of yesterday"
    node.look(spot=SPOT)
    assert "401" in node.problems[-1]
    assert node.look(spot=SPOT)[0]


def test_it_goes_on_when_slurm_does_not_answer(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """It reports this once, pauses between looks, and acts when Slurm is back."""
    node.notices[HERE] = SPOT
    settings = node.folder / "settings.json"
    settings.write_text(f'{{"metadata": "{node.service.address}", "ends": ""}}')
    node.write("broken", "")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            (node.folder / "broken").unlink()
        if len(pauses) == 4:
            raise StopIteration

    node.program.__dict__["time"] = _Clock(pause)
    with pytest.raises(StopIteration):
        node.program.main([str(settings)])
    said = capsys.readouterr().err
    assert said.count("not looked: scontrol: slurmctld does not answer") == 1
    assert pauses == [5, 5, 5, 5]
    assert node.read("state") == "IDLE+DRAIN"


class _Clock:
    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
