"""The instances that are, or were, elastic nodes of this cluster, as AWS has them."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

WAITS_S = (0.5, 1, 2, 4, 8)
"""Seconds between tries of a throttled call."""
PASSING = {
    *("RequestLimitExceeded", "Throttling", "ThrottlingException", "EC2ThrottledException"),
    *("InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable"),
}
THROTTLED = {each for each in PASSING if each.startswith(("Request", "Throttling", "EC2"))}
ALIVE = {"pending", "running", "stopping", "stopped"}
GONE_BY_ITSELF = "Client.InstanceInitiatedShutdown"
ENDED_BY_OTHERS = ("Client.UserInitiatedShutdown", "Server.Spot")
"""Beginnings of AWS's reasons for instances that a user ended or AWS reclaimed: another instance may well become a
node."""
ELASTIC = "stampworks:elastic"
"""The tag that no node has which always runs: those are their group's."""


class RefusedError(Exception):
    """AWS has said no, and nothing was started."""


class BusyError(RefusedError):
    """AWS had no time for it, however often it was asked."""


class UnansweredError(Exception):
    """AWS may or may not have carried out the call."""


@dataclass(frozen=True)
class Instance:
    id: str
    node: str
    """Empty until somebody has named it."""
    address: str
    """Empty until it has one."""
    state: str
    ended_why: str
    token: str
    """The client token of its launch."""
    since: float

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    @property
    def failed(self) -> bool:
        """Whether AWS has ended it for a fault: a limit, a key, a disk or room that it had none of."""
        return not self.alive and not self.ended_why.startswith((GONE_BY_ITSELF, *ENDED_BY_OTHERS))


class Machines:
    def __init__(self, cluster: str, region: str, pools: Iterable[str]) -> None:
        # retries are decided here: AWS reports "no capacity" as a fault of its own, which an SDK repeats
        once = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
        self._ec2: Any = boto3.client("ec2", region_name=region, config=once)
        self._filters = [
            {"Name": "tag:stampworks:cluster", "Values": [cluster]},
            {"Name": "tag:stampworks:group", "Values": list(pools)},
            {"Name": "tag-key", "Values": [ELASTIC]},
        ]
        self._cluster = cluster

    def start(self, template: str, count: int, token: str) -> list[Instance]:
        """Start as many instances as there is capacity for, at least one. One call: AWS places instances of a call
        close together."""
        what = {"LaunchTemplateName": template, "Version": "$Default"}
        return [
            _instance(row)
            for row in _patiently(
                self._ec2.run_instances, LaunchTemplate=what, MinCount=1, MaxCount=count, ClientToken=token
            )["Instances"]
        ]

    def name(self, nodes: dict[str, str]) -> None:
        """Instances by their ids. Whose name AWS does not take now, gets it later: it is in the book.

        Without time for one it has none for the others, and whoever waits for that keeps the book from everybody.
        """
        for id_, node in nodes.items():
            tags = {"stampworks:node": node, "Name": f"{self._cluster}-{node}"}
            rows = [{"Key": key, "Value": value} for key, value in tags.items()]
            try:
                _patiently(self._ec2.create_tags, Resources=[id_], Tags=rows)
            except (BusyError, UnansweredError) as error:
                print(f"{id_} is {node}, and could not be told, nor could others: {error}", file=sys.stderr, flush=True)
                return
            except RefusedError as error:
                print(f"{id_} is {node}, and could not be told: {error}", file=sys.stderr, flush=True)

    def there(self) -> list[Instance]:
        """The oldest first, with those that ended lately. One that has just started may be missing for a while."""
        rows, more = [], {}
        while True:
            page = _patiently(self._ec2.describe_instances, Filters=self._filters, MaxResults=1000, **more)
            rows += [row for reservation in page["Reservations"] for row in reservation["Instances"]]
            if not page.get("NextToken"):
                break
            more = {"NextToken": page["NextToken"]}
        return sorted(map(_instance, rows), key=lambda each: (each.since, each.id))

    def end(self, ids: Iterable[str]) -> set[str]:
        """End instances; return those that end or have ended. A call that names one that may not end ends none of them:
        then each has a call of its own. Remaining ones are reported."""
        ids = sorted(ids)
        if not ids:
            return set()
        try:
            _patiently(self._ec2.terminate_instances, InstanceIds=ids)
        except RefusedError as error:
            if len(ids) > 1 and not isinstance(error, BusyError):
                return {id_ for one in ids for id_ in self.end([one])}
            print(f"{', '.join(ids)} cannot be ended: {error}. {_remedy(error)}", file=sys.stderr, flush=True)
            return set()
        return set(ids)


def _remedy(error: RefusedError) -> str:
    if "InvalidInstanceID" in str(error):
        return "It is gone, or AWS shows it later: then it ends with the next look"
    if isinstance(error, BusyError):
        return "It is tried again with the next look"
    return (
        "Until then it costs, and each look tries again: take away what protects it from ending, or what keeps the "
        "head's role from ec2:TerminateInstances, as a policy of the organization does; or end it by hand"
    )


def _patiently(call: Callable[..., Any], **arguments: Any) -> Any:
    for wait_s in (*WAITS_S, 0):
        try:
            return call(**arguments)
        except ClientError as error:
            said = error.response["Error"]
            code, text = said.get("Code", ""), f"{said.get('Code')}: {said.get('Message')}"
            if code not in PASSING:
                raise RefusedError(text) from None
            last: Exception = BusyError(text) if code in THROTTLED else UnansweredError(text)
        except BotoCoreError as error:
            last = UnansweredError(str(error))
        time.sleep(wait_s * random.uniform(0.5, 1))  # noqa: S311  (so that not all come again at once)
    raise last


def _instance(row: dict[str, Any]) -> Instance:
    return Instance(
        id=row["InstanceId"],
        node=_tags(row).get("stampworks:node", ""),
        address=row.get("PrivateIpAddress") or "",
        state=row["State"]["Name"],
        ended_why=_reason(row.get("StateReason", {})),
        token=row.get("ClientToken", ""),
        since=row["LaunchTime"].timestamp(),
    )


def _reason(said: dict[str, Any]) -> str:
    """Most messages of AWS begin with the code."""
    code, message = said.get("Code", ""), said.get("Message", "")
    return message if message.startswith(code) else f"{code}: {message}"


def _tags(row: dict[str, Any]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in row.get("Tags", ())}
