"""Programs for elastic nodes against a simulated AWS, which leave no instance over."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

from .power import DOWN, ELASTIC, LIMIT_S, STATIC, UP, WAIT, Cloud, Head
from .simulated import Simulated

pytestmark = pytest.mark.long


@pytest.fixture
def cloud(aws: Simulated, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Yield a cloud with features that moto lacks: limited capacity, one start for each token, and late listing."""
    made, run, describe = Cloud(aws), EC2Response.run_instances, EC2Response.describe_instances
    address: Any = Instance.private_ip_address

    def run_instances(self: Any) -> Any:
        template, most = self._get_param("LaunchTemplate")["LaunchTemplateName"], int(self._get_param("MaxCount"))
        token = self._get_param("ClientToken")
        if token not in made.tokens:
            there = min(most, made.capacity.get(template, most))
            if there < int(self._get_param("MinCount")):
                raise EC2ClientError("InsufficientInstanceCapacity", "We currently do not have sufficient capacity.")
            if template in made.capacity:
                made.capacity[template] -= there
            self.params["MinCount"] = str(there)
            made.tokens[token] = run(self)
        return made.tokens[token]

    def describe_instances(self: Any) -> Any:
        answer = describe(self)
        of_programs = "MaxResults" in self.params
        made.without_address -= of_programs and made.without_address > 0
        result: Any = answer.result
        found = result["Reservations"]
        if of_programs and made.lag > 0:
            made.lag -= 1
            result["Reservations"] = [each for each in found if each.id in made.shown]
        else:
            made.shown |= {each.id for each in found}
        return answer

    monkeypatch.setattr(EC2Response, "run_instances", run_instances)
    monkeypatch.setattr(EC2Response, "describe_instances", describe_instances)
    monkeypatch.setattr(
        Instance, "private_ip_address", property(lambda self: None if made.without_address else address.fget(self))
    )
    made.templates("one", STATIC, "one-gpu", "one-gpu-spot")
    return made


@pytest.fixture
def head(tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    """Power down all nodes after each scenario, and check that only foreign resources are left."""
    monkeypatch.setenv("PATH", os.environ["PATH"])  # the programs choose their own, here for this process
    made = Head(tmp_path, cloud)
    strangers = [cloud.started(STATIC, stampworks_node="gpu-001"), cloud.started(STATIC)]
    cloud.templates("two", "two-gpu")
    others = [cloud.started("two-gpu", stampworks_node=name) for name in ELASTIC]
    yield made
    cloud.aws.mend()
    cloud.capacity, cloud.lag, cloud.without_address = {}, 0, 0
    made.slurm(*made.nodes.keys() & ELASTIC, state=DOWN)
    made.configure(lag_s=0)
    made.watch()
    assert set(cloud.instances()) == set(strangers)
    assert set(cloud.instances("two")) == set(others)


def nodes_of(cloud: Cloud) -> list[str]:
    return sorted(name for name in cloud.instances().values() if name in ELASTIC)


def test_nodes_come_and_go(head: Head, cloud: Cloud) -> None:
    """A single call starts the nodes, with names and addresses. Only these nodes are ended."""
    head.slurm(*ELASTIC[:3], state=UP)
    assert head.process("resume", "gpu-[003-005]").stderr == ""
    assert nodes_of(cloud) == ELASTIC[:3]
    assert cloud.aws.calls.count("ec2:RunInstances") == 1 + len(ELASTIC) + 2  # others are the fixture's
    assert all(head.nodes[name]["address"].startswith("10.") for name in ELASTIC[:3])
    assert len({head.nodes[name]["address"] for name in ELASTIC[:3]}) == 3
    assert head.suspend("gpu-004") == 0
    assert nodes_of(cloud) == ["gpu-003", "gpu-005"]
    head.slurm("gpu-003", "gpu-004", state=DOWN)
    assert head.process("suspend", "gpu-[003-004]").returncode == 0
    assert nodes_of(cloud) == ["gpu-005"]
    assert head.process("watch", "--once").stderr == ""
    assert nodes_of(cloud) == ["gpu-005"]
    assert head.returned() == {}


def test_a_node_that_is_asked_for_twice(head: Head, cloud: Cloud) -> None:
    """The node gets a single machine, even if AWS lists it late or both requests come at once."""
    head.resume("gpu-003")
    first = cloud.instances()
    cloud.lag = 100
    head.resume("gpu-003")
    cloud.lag = 0
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda _: head.process("resume", "gpu-[003-004]"), range(2)))
    assert nodes_of(cloud) == ["gpu-003", "gpu-004"]
    assert first.items() <= cloud.instances().items()


def test_the_next_way_to_buy_is_tried(head: Head, cloud: Cloud) -> None:
    """Only missing machines are requested from the next way to buy; started ones stay."""
    cloud.capacity = {"one-gpu": 1}
    head.resume(*ELASTIC[:3])
    assert nodes_of(cloud) == ELASTIC[:3]
    assert [each.split("/")[-1] for each in templates(cloud)] == ["one-gpu", "one-gpu-spot", "one-gpu-spot"]
    assert head.returned() == {}


def templates(cloud: Cloud) -> list[str]:
    """Return the templates of the named instances."""
    names = {
        each["LaunchTemplateId"]: each["LaunchTemplateName"]
        for each in cloud.ec2.describe_launch_templates()["LaunchTemplates"]
    }
    found = []
    for page in cloud.ec2.describe_instances()["Reservations"]:
        for row in page["Instances"]:
            tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]}
            if tags["stampworks:cluster"] == "one" and tags.get("stampworks:node") in ELASTIC:
                found.append(names[tags["aws:ec2launchtemplate:id"]])
    return sorted(found)


def test_nothing_is_to_be_had(head: Head, cloud: Cloud) -> None:
    """Missing nodes are free again, with the reason; started ones stay, and AWS is not asked again for a while."""
    cloud.capacity = {"one-gpu": 0, "one-gpu-spot": 1}
    head.resume(*ELASTIC[:3])
    assert nodes_of(cloud) == ["gpu-003"]
    why = (
        "no machine for pool gpu: on-demand InsufficientInstanceCapacity: We currently do not have sufficient "
        "capacity.; spot 1 of 3"
    )
    assert head.returned() == {"gpu-004": why, "gpu-005": why}
    assert {head.nodes[name]["state"] for name in ("gpu-004", "gpu-005")} == {DOWN}
    asked = cloud.aws.calls.count("ec2:RunInstances")
    cloud.capacity = {}
    head.resume("gpu-004")
    assert cloud.aws.calls.count("ec2:RunInstances") == asked
    assert nodes_of(cloud) == ["gpu-003"]
    head.later(61)
    head.resume("gpu-004")
    assert nodes_of(cloud) == ["gpu-003", "gpu-004"]


def test_a_pause_grows(head: Head, cloud: Cloud) -> None:
    """Up to a quarter of an hour; a machine that was started after it and becomes its node ends it."""
    head.resume("gpu-004")
    head.slurm("gpu-004", state="ALLOCATED+CLOUD")
    cloud.capacity = {"one-gpu": 0}
    for pause_s in (60, 120, 240, 480, 900, 900):
        head.resume("gpu-003")
        head.suspend("gpu-003")
        [found] = json.loads(head.book.read_text())["pauses"].values()
        assert found["pause_s"] == pause_s
        head.later(pause_s)
    cloud.capacity = {}
    head.resume("gpu-003")
    head.watch()
    assert list(json.loads(head.book.read_text())["pauses"]) == ["one-gpu"]
    head.slurm("gpu-003", state="ALLOCATED+CLOUD")
    head.watch()
    assert json.loads(head.book.read_text())["pauses"] == {}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("VcpuLimitExceeded", 400),
        ("MaxSpotInstanceCountExceeded", 400),
        ("InsufficientInstanceCapacity", 500),
        ("ReservationCapacityExceeded", 400),
        ("UnauthorizedOperation", 403),
        ("InvalidLaunchTemplateName.NotFoundException", 400),
    ],
)
def test_every_no_leads_to_the_next_way(head: Head, cloud: Cloud, code: str, status: int) -> None:
    """The next way is tried at once: a repeated request would be refused again."""
    cloud.aws.fail("ec2:RunInstances", code, "so it is", status=status, where="LaunchTemplateName=one-gpu&", times=1)
    head.resume("gpu-003")
    assert templates(cloud) == ["one-gpu-spot"]
    assert json.loads(head.book.read_text())["pauses"]["one-gpu"]["why"] == f"{code}: so it is"
    cloud.aws.fail("ec2:RunInstances", code, "so it is", status=status)
    head.resume("gpu-004")
    assert f"spot {code}: so it is" in head.returned()["gpu-004"]


def test_throttling_is_waited_out(head: Head, cloud: Cloud) -> None:
    """Every call is retried."""
    for action in ("RunInstances", "DescribeInstances", "CreateTags", "TerminateInstances"):
        cloud.aws.fail(f"ec2:{action}", "RequestLimitExceeded", status=503, times=2)
    head.resume("gpu-003")
    assert (nodes_of(cloud), head.returned()) == (["gpu-003"], {})
    assert head.suspend("gpu-003") == 0
    assert nodes_of(cloud) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (("RequestLimitExceeded", "slowly", 503), "RequestLimitExceeded: slowly"),
        (("UnauthorizedOperation", "not you", 403), "UnauthorizedOperation: not you"),
        (None, "Unable to locate credentials"),
    ],
)
def test_where_aws_does_not_say_what_runs_nobody_waits_for_a_machine(
    head: Head, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, fault: tuple[str, str, int] | None, said: str
) -> None:
    """Slurm would wait for half an hour: jobs are requeued at once, and continue when AWS answers. A node with a
    machine keeps it."""
    head.resume("gpu-003")
    head.slurm("gpu-003", "gpu-004", "gpu-005", state=UP)
    known = dict(head.environment)
    if fault:
        cloud.aws.fail("ec2:DescribeInstances", fault[0], fault[1], status=fault[2])
    else:
        del head.environment["AWS_ACCESS_KEY_ID"], head.environment["AWS_SECRET_ACCESS_KEY"]
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # the session keeps credentials
    assert head.run("resume", "gpu-003,gpu-004,gpu-005") == 0
    assert head.returned() == dict.fromkeys(("gpu-004", "gpu-005"), f"AWS does not say what runs: {said}")
    cloud.aws.mend()
    head.environment |= known
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    head.settle()
    assert nodes_of(cloud) == ["gpu-003"]
    head.resume("gpu-004")
    assert nodes_of(cloud) == ["gpu-003", "gpu-004"]


def test_a_program_that_ends_before_it_has_written_anything(head: Head, cloud: Cloud) -> None:
    """Its nodes are free again after a while. Other starting nodes are left alone: those with a machine, requested
    again, or not listed yet."""
    head.resume("gpu-005")
    data = json.loads(head.book.read_text())
    data["launches"]["t-1"] = {"names": ["gpu-006"], "since": time.time() + LIMIT_S}
    head.book.write_text(json.dumps(data))
    head.slurm(*ELASTIC, state=UP)
    head.watch_on(lambda: None)
    assert head.returned() == {}
    head.configure(lag_s=0)
    head.watch_on(lambda: head.slurm("gpu-004", state=DOWN), lambda: head.slurm("gpu-004", state=UP))
    why = "it has no machine: if it was wanted, slurmctld's log says what became of resume"
    assert head.returned() == {"gpu-003": why}
    head.settle()
    assert nodes_of(cloud) == ["gpu-005"]


def test_node_returned_during_a_failed_look_is_not_unserved(head: Head, cloud: Cloud) -> None:
    """A node may have been returned and requested again: it does not count as unserved."""
    head.configure(lag_s=0)
    head.slurm("gpu-003", state=UP)
    head.watch_on(lambda: cloud.aws.fail("ec2:DescribeInstances", "UnauthorizedOperation"), cloud.aws.mend)
    assert head.returned() == {}


@pytest.mark.parametrize("killed", [False, True])
def test_a_program_that_waits_loses_no_node(head: Head, cloud: Cloud, killed: bool) -> None:
    """Another program may hold the record for long. A program that is killed while it waits leaves no entry, and its
    nodes are free."""
    head.configure(lag_s=0)
    head.slurm("gpu-003", state=UP)
    with contextlib.ExitStack() as book:
        book.enter_context(head.taken("lock"))
        with head.begun("resume", "gpu-003") as waiting:
            until = time.monotonic() + LIMIT_S
            while not locked(head.settings.parent / "resuming"):
                assert time.monotonic() < until
                WAIT(0.05)
            waiting.send_signal(signal.SIGSTOP)  # stop the others, so that the watch gets the record
            book.close()
            head.watch_on(lambda: None, lambda: None)
            assert head.returned() == {}
            waiting.send_signal(signal.SIGKILL if killed else signal.SIGCONT)
            waiting.wait(LIMIT_S)
    head.watch_on(lambda: None)
    head.settle()
    assert (nodes_of(cloud), list(head.returned())) == (([], ["gpu-003"]) if killed else (["gpu-003"], []))


def locked(file: Path) -> bool:
    with file.open("a") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    return True


def test_a_name_that_aws_does_not_take(head: Head, cloud: Cloud) -> None:
    """AWS may not know the machine yet. The node works, the watch tags it later, and no other node waits: a lost node
    is free again."""
    cloud.aws.fail("ec2:CreateTags", "InvalidInstanceID.NotFound", "does not exist")
    head.resume("gpu-003", "gpu-004")
    assert head.nodes["gpu-003"]["address"].startswith("10.")
    head.slurm("gpu-004", state="DOWN+CLOUD+NOT_RESPONDING", reason="ResumeTimeout reached", by="slurm")
    head.watch()
    assert list(head.returned()) == ["gpu-004"]
    cloud.aws.mend()
    head.watch()
    assert nodes_of(cloud) == ["gpu-003"]


def test_where_aws_has_no_time_for_one_name_the_others_wait(
    head: Head, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Naming holds the record's lock: a hundred machines would keep it from a job for half an hour."""
    cloud.aws.fail("ec2:CreateTags", "RequestLimitExceeded", "slowly", status=503)
    tried = cloud.aws.calls.count("ec2:CreateTags")
    head.resume("gpu-003", "gpu-004", "gpu-005")
    assert cloud.aws.calls.count("ec2:CreateTags") - tried == 6
    assert capsys.readouterr().err.endswith(
        " is gpu-003, and could not be told, nor could others: RequestLimitExceeded: slowly\n"
    )
    assert all(head.nodes[f"gpu-00{number}"]["address"].startswith("10.") for number in (3, 4, 5))
    cloud.aws.mend()
    head.watch()
    assert nodes_of(cloud) == ["gpu-003", "gpu-004", "gpu-005"]


def test_an_answer_that_is_lost(head: Head, cloud: Cloud) -> None:
    """AWS has started them, and the answer was lost: the token is the same, so that none is started twice."""
    cloud.aws.fail("ec2:RunInstances", "InternalError", status=500, times=1)
    head.resume("gpu-003")
    assert nodes_of(cloud) == ["gpu-003"]


def test_a_program_that_ends_before_it_has_named_them(head: Head, cloud: Cloud) -> None:
    """Requests stand in the book, with the token that AWS keeps: machines are found by it."""
    head.slurm("gpu-003", "gpu-004", state=UP)
    head.book.write_text(json.dumps({"launches": {"t-1": {"names": ["gpu-003", "gpu-004"], "since": time.time()}}}))
    cloud.ec2.run_instances(LaunchTemplate={"LaunchTemplateName": "one-gpu"}, MinCount=1, MaxCount=2, ClientToken="t-1")
    head.watch()
    assert nodes_of(cloud) == ["gpu-003", "gpu-004"]
    assert head.nodes["gpu-004"]["address"].startswith("10.")
    assert head.returned() == {}


def test_unrequested_instances_end(head: Head, cloud: Cloud) -> None:
    """An instance of the pool without a name ends after a grace time; a second instance of a name ends at once."""
    head.resume("gpu-003")
    kept = set(cloud.instances())
    cloud.started("one-gpu")
    cloud.started("one-gpu", stampworks_node="gpu-003")
    head.watch()
    assert len(set(cloud.instances()) - kept) == 1
    head.configure(lag_s=0)
    head.watch()
    assert set(cloud.instances()) == kept


def test_a_book_that_is_lost(head: Head, cloud: Cloud) -> None:
    """The record is missing on a head with a new volume: names are read from instances, and running nodes continue."""
    head.resume("gpu-003", "gpu-004")
    kept = cloud.instances()
    head.book.unlink()
    head.slurm("gpu-004", state=DOWN)
    head.watch()
    assert nodes_of(cloud) == ["gpu-003"]
    assert cloud.instances().items() <= kept.items()
    assert list(json.loads(head.book.read_text())["machines"]) == ["gpu-003"]


def test_addresses_that_come_late(head: Head, cloud: Cloud) -> None:
    """The program waits for addresses; the watch adds later ones."""
    cloud.without_address = 2
    head.resume("gpu-003")
    assert head.nodes["gpu-003"]["address"].startswith("10.")
    right = head.nodes["gpu-003"]["address"]
    head.slurm("gpu-003", address="127.0.0.1")
    head.watch()
    assert head.nodes["gpu-003"]["address"] == right


def test_a_describe_that_lags(head: Head, cloud: Cloud) -> None:
    """A node whose machine is not listed yet gets time; the machine ends with its node."""
    cloud.lag = 1000
    head.resume("gpu-003")
    head.watch()
    assert head.returned() == {}
    assert head.suspend("gpu-003") == 0
    cloud.lag = 0
    assert nodes_of(cloud) == []


def test_a_machine_that_never_shows(head: Head, cloud: Cloud) -> None:
    """After a time limit the machine counts as lost, and its node is free."""
    cloud.lag = 1000
    head.resume("gpu-003")
    head.later(301)
    head.watch()
    assert list(head.returned()) == ["gpu-003"]


@pytest.mark.parametrize("state", [UP, "ALLOCATED+CLOUD"])
def test_a_machine_that_dies(head: Head, cloud: Cloud, state: str) -> None:
    """The node is free at once, before Slurm notices, whether it was starting or working."""
    head.resume("gpu-003", "gpu-004")
    [id_] = [id_ for id_, name in cloud.instances().items() if name == "gpu-003"]
    head.slurm("gpu-003", "gpu-004", state=state)
    cloud.ec2.terminate_instances(InstanceIds=[id_])
    head.watch()
    assert list(head.returned()) == ["gpu-003"]
    assert head.returned()["gpu-003"].startswith(f"its instance {id_} is gone. Client.UserInitiatedShutdown")
    assert nodes_of(cloud) == ["gpu-004"]
    head.resume("gpu-003")
    assert nodes_of(cloud) == ["gpu-003", "gpu-004"]


def test_a_machine_that_could_not_become_a_node(head: Head, cloud: Cloud) -> None:
    """The machine shut itself down, and another one would, too: jobs wait, with a hint where to look."""
    head.resume("gpu-003")
    [id_] = [id_ for id_, name in cloud.instances().items() if name == "gpu-003"]
    cloud.switched_off(id_)
    head.watch()
    assert head.returned()["gpu-003"].startswith(f"its instance {id_} is gone. Client.InstanceInitiatedShutdown")
    head.watch()
    head.resume("gpu-003")
    assert nodes_of(cloud) == []
    assert f"on-demand started {id_}, which could not become gpu-003: its console" in head.returned()["gpu-003"]
    head.later(61)
    head.resume("gpu-003")
    assert nodes_of(cloud) == ["gpu-003"]


NO_VOLUME = ("Client.VolumeLimitExceeded", "Volume limit exceeded")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        NO_VOLUME,
        ("Client.InternalError", "Client error on launch"),  # a key for disks that may not be used
        ("Server.InternalError", "Internal error on launch"),
        ("Server.InsufficientInstanceCapacity", "Insufficient capacity to satisfy instance request"),
    ],
)
def test_machines_that_aws_ends_while_they_start(
    head: Head, cloud: Cloud, capsys: pytest.CaptureFixture[str], code: str, message: str
) -> None:
    """AWS accepted the request and had no capacity later: the next way is tried with the reason, as after a refusal."""
    head.resume("gpu-003", "gpu-004")
    ids = {name: id_ for id_, name in cloud.instances().items() if name in ELASTIC}
    for id_ in ids.values():
        cloud.ended(id_, code, message)
    head.watch()
    whys = {name: f"its instance {id_} is gone. {code}: {message}" for name, id_ in ids.items()}
    assert head.returned() == whys
    said = capsys.readouterr().err.splitlines()
    assert set(said) == {f"{name} is given back: {why}" for name, why in whys.items()}
    [(template, pause)] = json.loads(head.book.read_text())["pauses"].items()
    assert (template, pause["pause_s"]) == ("one-gpu", 60), "once, however many went"
    assert pause["why"] == f"started {ids['gpu-004']}, which ended before it was gpu-004: {code}: {message}"
    head.resume("gpu-003")
    assert templates(cloud)[-1] == "one-gpu-spot"


def test_a_way_whose_machines_never_become_nodes_is_asked_ever_less(head: Head, cloud: Cloud) -> None:
    """An accepted request is no success yet."""
    for pause_s in (60, 120, 240):
        head.resume("gpu-003")
        [id_] = [id_ for id_, name in cloud.instances().items() if name == "gpu-003"]
        cloud.ended(id_, *NO_VOLUME)
        head.watch()
        assert json.loads(head.book.read_text())["pauses"]["one-gpu"]["pause_s"] == pause_s
        head.later(pause_s)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (UP, "Client.UserInitiatedShutdown"),
        (UP, "Server.SpotInstanceTermination"),
        (UP, "Server.SpotInstanceShutdown"),
        ("ALLOCATED+CLOUD", "Server.InternalError"),
    ],
)
def test_an_end_that_says_nothing_of_the_next_machine(head: Head, cloud: Cloud, state: str, code: str) -> None:
    """A user ended it, AWS reclaimed it, or it had been a node: its replacement is started at once."""
    head.resume("gpu-003")
    head.slurm("gpu-003", state=state)
    [id_] = [id_ for id_, name in cloud.instances().items() if name == "gpu-003"]
    cloud.ended(id_, code, "so it is")
    head.watch()
    assert list(head.returned()) == ["gpu-003"]
    assert json.loads(head.book.read_text())["pauses"] == {}


def test_a_machine_that_nobody_wrote_down_and_aws_ends(head: Head, cloud: Cloud) -> None:
    """The client token of the machine names its template."""
    head.slurm("gpu-003", state=UP)
    asked = {"names": ["gpu-003"], "template": "one-gpu-spot", "since": time.time()}
    head.book.write_text(json.dumps({"launches": {"t-1": asked}}))
    what = {"LaunchTemplateName": "one-gpu-spot"}
    cloud.ec2.run_instances(LaunchTemplate=what, MinCount=1, MaxCount=1, ClientToken="t-1")
    head.watch()
    [id_] = [id_ for id_, name in cloud.instances().items() if name == "gpu-003"]
    cloud.ended(id_, *NO_VOLUME)
    head.watch()
    assert list(json.loads(head.book.read_text())["pauses"]) == ["one-gpu-spot"]


@pytest.mark.parametrize(
    ("state", "by", "returned"),
    [
        ("DOWN+CLOUD+POWERED_DOWN", "slurm", True),
        ("DOWN+CLOUD+NOT_RESPONDING", "slurm", True),
        ("DOWN+CLOUD", "root", False),
        ("IDLE+CLOUD+DRAIN", "slurm", False),
    ],
)
def test_node_that_slurm_gave_up_is_free_again(head: Head, cloud: Cloud, state: str, by: str, returned: bool) -> None:
    """A node that Slurm has given up is free again, without its machine; a node that a person has set down stays so."""
    head.resume("gpu-003")
    head.slurm("gpu-003", state=state, reason="ResumeTimeout reached", by=by)
    head.watch()
    assert list(head.returned()) == (["gpu-003"] if returned else [])
    assert nodes_of(cloud) == ([] if returned else ["gpu-003"])


def test_a_node_that_is_not_declared_any_more(head: Head, cloud: Cloud) -> None:
    """Its machine stays while Slurm may have jobs on it, because Slurm is configured last. It then ends, even without
    an entry in the record."""
    head.resume("gpu-003", "gpu-004", "gpu-005")
    head.slurm("gpu-003", "gpu-004", "gpu-005", state="ALLOCATED+CLOUD+DRAIN")
    fewer = {"gpu": {"nodes": ELASTIC[3:], "offers": [{"name": "on-demand", "template": "one-gpu"}]}}
    head.configure(pools=fewer)
    head.book.unlink()
    head.watch()
    assert nodes_of(cloud) == ["gpu-003", "gpu-004", "gpu-005"]
    head.forget("gpu-003")
    head.slurm("gpu-004", state=DOWN)
    head.watch()
    assert nodes_of(cloud) == ["gpu-005"]
    assert head.returned() == {}


def test_a_node_that_is_to_run_always(head: Head, cloud: Cloud) -> None:
    """Slurm no longer starts it: its machine belongs to a group and is not ended, whatever the record contains. This
    holds when the pool has no elastic nodes left."""
    head.resume("gpu-003")
    head.slurm("gpu-003", state="ALLOCATED")
    always = cloud.started(STATIC, stampworks_node="gpu-003")
    head.configure(lag_s=0)
    head.watch_on(lambda: None, lambda: None)
    assert [id_ for id_, name in cloud.instances().items() if name == "gpu-003"] == [always]
    assert head.returned() == {}
    cloud.ec2.terminate_instances(InstanceIds=[always])


def test_a_node_that_always_ran_until_now(head: Head, cloud: Cloud) -> None:
    """Slurm has it powered up and held, without a machine: the node is free again, and starts with the next job."""
    head.configure(lag_s=0)
    head.slurm("gpu-003", state="DOWN+CLOUD+DRAIN+NOT_RESPONDING", reason="stampworks: gets another machine", by="root")
    head.watch_on(lambda: None)
    assert list(head.returned()) == ["gpu-003"]
    head.settle()
    head.resume("gpu-003")
    assert nodes_of(cloud) == ["gpu-003"]


def test_a_machine_that_does_not_answer_in_time(head: Head, cloud: Cloud) -> None:
    """Its boot hung before the point of shutting down, and another machine would hang, too."""
    head.resume("gpu-003")
    [id_] = [id_ for id_, name in cloud.instances().items() if name == "gpu-003"]
    head.slurm("gpu-003", state="DOWN+CLOUD+POWERED_DOWN", reason="ResumeTimeout reached", by="slurm")
    head.watch()
    head.resume("gpu-003")
    assert nodes_of(cloud) == []
    assert f"on-demand started {id_}, which could not become gpu-003: its console" in head.returned()["gpu-003"]


def test_an_end_that_aws_does_not_take(head: Head, cloud: Cloud) -> None:
    """The watch ends it; an unknown machine keeps no other from ending."""
    head.resume("gpu-003", "gpu-004")
    cloud.aws.fail("ec2:TerminateInstances", "UnauthorizedOperation", status=403)
    assert head.suspend("gpu-003") == 1
    cloud.aws.mend()
    head.watch()
    assert nodes_of(cloud) == ["gpu-004"]
    head.resume("gpu-003")
    data = json.loads(head.book.read_text())
    data["machines"]["gpu-003"]["instance"] = "i-00000000000000000"
    head.book.write_text(json.dumps(data))
    assert head.suspend("gpu-003", "gpu-004") == 1
    assert nodes_of(cloud) == []


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("UnauthorizedOperation", "take away what protects it from ending, or what keeps the head's role from"),
        ("OperationNotPermitted", "take away what protects it from ending, or what keeps the head's role from"),
        ("InvalidInstanceID.NotFound", "It is gone, or AWS shows it later"),
    ],
)
def test_one_machine_that_may_not_end_keeps_no_other(
    head: Head, cloud: Cloud, capsys: pytest.CaptureFixture[str], code: str, hint: str
) -> None:
    """Machine, reason and remedy are reported: a call that names it ends none."""
    head.resume("gpu-003", "gpu-004", "gpu-005")
    ids = {name: id_ for id_, name in cloud.instances().items()}
    cloud.aws.fail("ec2:TerminateInstances", code, "so it is", where=ids["gpu-004"])
    assert head.suspend("gpu-003", "gpu-004") == 1
    assert nodes_of(cloud) == ["gpu-004", "gpu-005"]
    said = capsys.readouterr().err
    assert said.startswith(f"{ids['gpu-004']} cannot be ended: {code}: so it is. ")
    assert hint in said
    head.slurm("gpu-005", state=DOWN)
    head.watch()
    assert nodes_of(cloud) == ["gpu-004"]
    assert capsys.readouterr().err == said


def test_where_aws_has_no_time_to_end_machines_it_is_not_asked_for_each(
    head: Head, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ending holds the record's lock."""
    head.resume("gpu-003", "gpu-004")
    cloud.aws.fail("ec2:TerminateInstances", "RequestLimitExceeded", "slowly", status=503)
    tried = cloud.aws.calls.count("ec2:TerminateInstances")
    assert head.suspend("gpu-003", "gpu-004") == 1
    assert cloud.aws.calls.count("ec2:TerminateInstances") - tried == 6
    assert capsys.readouterr().err.endswith("RequestLimitExceeded: slowly. It is tried again with the next look\n")


def test_a_node_that_is_wanted_again_is_not_switched_off(head: Head, cloud: Cloud) -> None:
    """A call that waited too long is too late."""
    head.resume("gpu-003")
    assert head.run("suspend", "gpu-003") == 0
    assert nodes_of(cloud) == ["gpu-003"]


def test_names_that_are_none_of_ours(head: Head, cloud: Cloud) -> None:
    """Static nodes, nodes for scheduling only and invalid names have no machines here."""
    before = cloud.instances()
    for name in ("gpu-001,big-[1-3]", "--help", "gpu-003;$(reboot)"):
        for program in ("resume", "suspend"):
            head.process(program, name)
    assert cloud.instances() == before
    assert head.returned() == {}
