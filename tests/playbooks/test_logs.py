"""Logs of nodes in the cloud: a real journal, and a simulated CloudWatch Logs."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from stampworks import configuration, planning
from stampworks.configuration import CheckModeResult, Recap
from stampworks.declaration import load_value
from stampworks.plan import Plan, log_group
from stampworks.schedulers import slurm

from tests.clouds.aws.simulated import REGION, Simulated, served, simulated_aws
from tests.playbooks.conftest import DECLARATION, SECRETS, Cluster, booted, plan_of
from tests.playbooks.test_joining import ENDPOINT, listening

pytestmark = [pytest.mark.cluster, pytest.mark.long]

NODE = "gpu-001"
SERVICE = "/etc/stampworks/services/ship-logs"
JOURNAL = r"""
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/systemd /var/log/journal /etc/systemd/journald.conf.d
cd /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=persistent\nReadKMsg=no\nAudit=no\nRateLimitBurst=0\n' >test.conf
setsid /usr/lib/systemd/systemd-journald >/tmp/journald 2>&1 </dev/null &
for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; systemd-cat true && exit; done
cat /tmp/journald; exit 1
"""
"""Start journald without systemd as init; kernel messages are those of the test's machine."""


@dataclass
class Telling:
    """A node that sends its journal, and the receiver."""

    cluster: Cluster
    plan: Plan
    aws: Simulated

    def inventory(self) -> dict[str, Any]:
        """Return the rented cluster's inventory with only this role, for a single node."""
        roster = self.cluster.roster
        made = configuration.inventory(self.plan, roster, slurm.files(self.plan, roster))
        assert set(made["all"]["children"]["logs"]["hosts"]) == {"head", NODE}
        made["all"]["children"] = {"logs": {"hosts": {NODE: {}}}}
        return made

    def play(self) -> Recap:
        reach = self.cluster.roster.reach
        return asyncio.run(configuration.play("site.yml", self.inventory(), reach, SECRETS, print, 5))

    def look(self) -> CheckModeResult:
        reach = self.cluster.roster.reach
        look = configuration.look("site.yml", self.inventory(), [NODE, "head"], reach, SECRETS, print, 5)
        return asyncio.run(look)

    def says(self, text: str) -> None:
        self.cluster.shell(NODE, f"echo {text} | systemd-cat -t slurmd -p warning")

    def kept(self, until: str, limit_s: float = 60) -> list[dict[str, str]]:
        """Return slurmd's kept messages, after the last of them."""
        [instance] = (each.instance for each in self.cluster.roster.members if each.name == NODE)
        where = {"logGroupName": log_group(self.plan.name), "logStreamName": f"{NODE}/{instance}"}
        logs, end, found = self.aws.client("logs"), time.monotonic() + limit_s, []
        while time.monotonic() < end:
            if logs.describe_log_streams(logGroupName=where["logGroupName"])["logStreams"]:
                events = logs.get_log_events(**where, startFromHead=True)["events"]
                found = [said for said in (json.loads(each["message"]) for each in events) if said["name"] == "slurmd"]
                if until in [said["text"] for said in found]:
                    return found
            time.sleep(0.5)
        raise AssertionError(found, self.cluster.shell(NODE, "tail /var/log/stampworks/ship-logs/current"))


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Telling]:
    """Yield a node whose service has started, before the receiver exists."""
    folder, name = tmp_path_factory.mktemp("logs"), f"t{uuid.uuid4().hex[:8]}"
    pools = [{"name": "gpu", "machine": "m7i", "count": 1}]
    declared = {**DECLARATION, "name": name, "cloud": "aws", "region": REGION, "pools": pools, "storage": []}
    local, plan = plan_of(name, 1), planning.plan(load_value(declared, "test"))
    [packages] = (packages for role, packages in plan.release.packages if role == "logs")
    with ExitStack() as stack:
        cluster = stack.enter_context(booted(local, folder, (*packages, "systemd")))
        aws = stack.enter_context(simulated_aws())
        gateway = local.network.gateway
        stack.enter_context(
            served(aws.application, stack.enter_context(listening(cluster.roster.reach, gateway, 5000)))
        )
        told = aws.environment | {"AWS_ENDPOINT_URL": f"http://{gateway}:5000"}
        cluster.shell(NODE, f'echo "import os; os.environ.update({told})" >>{ENDPOINT}')
        cluster.shell(NODE, JOURNAL)
        made = Telling(cluster, plan, aws)
        made.says("early")
        made.play()
        yield made


def test_early_lines_are_sent_when_the_service_answers(telling: Telling) -> None:
    """The journal keeps the lines until the service answers."""
    telling.aws.client("logs").create_log_group(logGroupName=log_group(telling.plan.name))
    [said] = telling.kept("early")
    assert {name: said[name] for name in ("name", "level", "text")} == {"name": "slurmd", "level": "4", "text": "early"}


def test_a_second_run_changes_nothing(telling: Telling) -> None:
    """A check finds nothing."""
    assert telling.play().changed == 0
    assert telling.look().drift == ()


def test_an_aws_that_has_no_time_is_asked_again(telling: Telling) -> None:
    """No line is lost or sent twice."""
    telling.aws.fail("logs:PutLogEvents", "ThrottlingException", times=2)
    telling.says("busy")
    assert [said["text"] for said in telling.kept("busy")] == ["early", "busy"]


def test_a_stop_loses_nothing(telling: Telling) -> None:
    """Messages during the stop are sent after the restart, and earlier ones are not repeated."""
    telling.cluster.shell(NODE, f"sv force-stop {SERVICE}")
    telling.says("meanwhile")
    telling.cluster.shell(NODE, f"sv up {SERVICE}")
    telling.says("after")
    assert [said["text"] for said in telling.kept("after")] == ["early", "busy", "meanwhile", "after"]


def test_rejected_line_is_left_out(telling: Telling) -> None:
    """The line is left out, and the node reports it."""
    telling.aws.fail("logs:PutLogEvents", "InvalidParameterException", times=1, where="unloved")
    telling.says("unloved")
    telling.cluster.until(
        NODE, "grep -c 'are not taken, and left out' /var/log/stampworks/ship-logs/current; true", "1", 30
    )
    telling.says("loved")
    assert [said["text"] for said in telling.kept("loved")][-2:] == ["after", "loved"]
