"""An AWS on this machine: moto's server, the actions that it lacks, and faults.

    with simulated_aws() as aws:
        aws.fail("ec2:RunInstances", "InsufficientInstanceCapacity", times=1, where="p5.48xlarge")
    aws.lag("ec2:DescribeInstances", times=3)  # shows what it showed before
        subprocess.run(program, env={**os.environ, **aws.environment})
        assert "ec2:RunInstances" in aws.calls

What moto lacks is added once for the whole process: placement groups, capacity reservations and blocks, the topology of
instances, what groups have tried, quotas, add-ons of EKS, the simulator of policies. `clear` forgets what there is,
faults included.
"""

from __future__ import annotations

import io
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import boto3
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.exceptions import JsonRESTError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.responses import EC2Response
from moto.eks import urls as eks_urls
from moto.eks.responses import EKSResponse
from moto.iam.models import iam_backends
from moto.iam.responses import IamResponse
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.organizations.responses import OrganizationsResponse
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.ssm.models import Parameter, ssm_backends
from moto.sts.responses import TokenResponse
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.clouds.aws.policies import decided

REGION = "us-east-1"
LEAF_NODES = 4
"""Instances below a switch."""
_SIGNED = re.compile(r"Credential=[^/]+/\d+/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")


@dataclass
class Fault:
    """A changed answer to some calls."""

    action: str
    code: str
    message: str
    status: int
    where: str
    """Part of the request's body that selects it; empty for all requests."""
    left: int | None
    """Number of remaining occurrences; None for ever."""
    delay_s: float
    """Seconds until the answer; without a code the answer is moto's own."""
    late: bool = False
    """Whether the answer repeats the last answer to the same request."""


@dataclass
class _World:
    """State of the added actions, by region."""

    groups: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    reservations: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    quotas: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    activities: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    addons: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    tag_policy: dict[str, Any] = field(default_factory=dict)
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)


_WORLD = _World()


class Simulated:
    """A server, and the state that a test arranges in it."""

    def __init__(self) -> None:
        self.url = ""
        self.application: Any = None
        """The WSGI application, for servers at other addresses."""
        self.calls: list[str] = []
        """Calls by the names of policies: ec2:DescribeInstances."""
        self._faults: list[Fault] = []
        self._said: dict[tuple[str, bytes], tuple[str, Any, bytes]] = {}
        """Last answer to each question: status, headers, body."""
        self._clients: dict[tuple[str, str], Any] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a process that uses the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "simulated",
            "AWS_SECRET_ACCESS_KEY": "simulated",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def client(self, service: str, region: str = REGION) -> Any:
        if (service, region) not in self._clients:  # each client reads megabytes of descriptions
            session: Any = boto3.session.Session("simulated", "simulated", region_name=region)
            self._clients[service, region] = session.client(service, endpoint_url=self.url)
        return self._clients[service, region]

    def clear(self) -> None:
        """Reset the server to its start, except for its address."""
        moto_api_backend.reset()
        _WORLD.__init__()  # type: ignore[misc]
        self.calls.clear()
        self._faults.clear()
        self._said.clear()

    def fail(
        self,
        action: str,
        code: str = "",
        message: str = "as the test says",
        *,
        status: int = 400,
        where: str = "",
        times: int | None = None,
        delay_s: float = 0,
    ) -> None:
        """Let these calls fail from now on; without a code, delay them."""
        self._faults.append(Fault(action, code, message, status, where, times, delay_s))

    def lag(self, action: str, times: int) -> None:
        """Repeat the last answer to the same question this often."""
        self._faults.append(Fault(action, "", "", 200, "", times, 0, late=True))

    def mend(self) -> None:
        """Clear all faults."""
        self._faults.clear()

    def quota(self, service: str, name: str, value: float, region: str = REGION) -> None:
        _WORLD.quotas.setdefault(region, {}).setdefault(service, {})[name] = value

    def tag_policy(self, policy: dict[str, Any]) -> None:
        """Tag policy of the organisation that applies to the account."""
        _WORLD.tag_policy = policy

    def simulated_decision(self, action: str, **fields: Any) -> None:
        """Let IAM's simulator give this answer for an action, whatever the caller's policies are."""
        _WORLD.decisions[action] = fields

    def addon(self, name: str, version: str, *for_: str, default: bool, region: str = REGION) -> None:
        """Add a version of an EKS add-on for these versions of Kubernetes."""
        fits = [{"clusterVersion": each, "platformVersions": ["*"], "defaultVersion": default} for each in for_]
        versions = _WORLD.addons.setdefault(region, {}).setdefault(name, [])
        versions.append({"addonVersion": version, "architecture": ["amd64", "arm64"], "compatibilities": fits})

    def reserve(self, id_: str, region: str = REGION, **fields: Any) -> None:
        """Add a reservation, as describe_capacity_reservations shows it, with these fields changed."""
        count = fields.get("TotalInstanceCount", 1)
        _WORLD.reservations.setdefault(region, {})[id_] = {
            "CapacityReservationId": id_,
            "OwnerId": DEFAULT_ACCOUNT_ID,
            "InstanceType": "p5.48xlarge",
            "AvailabilityZone": f"{region}a",
            "TotalInstanceCount": count,
            "AvailableInstanceCount": count,
            "State": "active",
            "ReservationType": "default",
            "InstanceMatchCriteria": "targeted",
            **fields,
        }

    def tried(self, group: str, at: datetime, message: str = "", region: str = REGION, **fields: Any) -> None:
        """Record an attempt of an Auto Scaling group: a failed launch, or a success if there is no message."""
        activities = _WORLD.activities.setdefault(region, [])
        activities.insert(
            0,
            {
                "ActivityId": f"{len(activities)}",
                "AutoScalingGroupName": group,
                "Description": f"Launching a new EC2 instance.  Status Reason: {message}",
                "Cause": "an instance was started in response to a difference between desired and actual capacity",
                "StartTime": at,
                "StatusCode": "Failed" if message else "Successful",
                **({"StatusMessage": message} if message else {}),
                **fields,
            },
        )

    def publish(self, parameter: str, image: str = "", region: str = REGION, **fields: Any) -> str:
        """An image, and the public parameter that names it; gives the image's id."""
        backend = ec2_backends[DEFAULT_ACCOUNT_ID][region]
        image = image or f"ami-{len(backend.amis):017x}"
        described = {"name": "debian-13-amd64-20261102-2290", "architecture": "x86_64", **fields}
        deprecation_time = described.pop("deprecation_time", None)
        backend.amis[image] = Ami(backend, image, public=True, region_name=f"{region}a", **described)
        backend.amis[image].deprecation_time = deprecation_time  # type: ignore[attr-defined]
        self.parameter(parameter, image, region)
        return image

    def parameter(self, name: str, value: str, region: str = REGION) -> None:
        """Set a public parameter, which callers of the API cannot write."""
        kept = ssm_backends[DEFAULT_ACCOUNT_ID][region]._parameters[name]
        made: Any = Parameter  # declared abstract, but it is not
        kept.append(made(DEFAULT_ACCOUNT_ID, name, value, "String", None, None, None, utcnow(), 1, "text"))

    def answer(self, inner: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request of the server: by a fault, or by moto."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        action = _action(environ, body)
        self.calls.append(action)
        fault = next((each for each in self._faults if _meets(each, action, body)), None)
        if fault and fault.left is not None:
            fault.left -= 1
        if fault and fault.late and (action, body) in self._said:
            status, headers, said = self._said[action, body]
            start_response(status, headers)
            return [said]
        if fault and fault.delay_s:
            time.sleep(fault.delay_s)
        if not fault or not fault.code:
            return self._moto(inner, environ, start_response, (action, body))
        kind, text = _error(environ, action, fault)
        start_response(f"{fault.status} fault", [("Content-Type", kind)])
        return [text.encode()]

    def _moto(self, inner: Any, environ: dict[str, Any], start_response: Any, asked: tuple[str, bytes]) -> list[bytes]:
        begun: list[Any] = []
        said = b"".join(inner(environ, lambda *told: begun.extend(told)))
        self._said[asked] = (begun[0], begun[1], said)
        start_response(begun[0], begun[1])
        return [said]


@contextmanager
def simulated_aws() -> Iterator[Simulated]:
    """Serve a simulated AWS while the context lasts. Only one can exist in a process, because moto's state is
    global."""
    aws, inner = Simulated(), DomainDispatcherApplication(create_backend_app)
    aws.application = lambda *call: aws.answer(inner, *call)
    with socket.create_server(("127.0.0.1", 0)) as here, served(aws.application, here):
        aws.url = f"http://127.0.0.1:{here.getsockname()[1]}"
        aws.clear()
        try:
            yield aws
        finally:
            aws.clear()


@contextmanager
def served(application: Any, at: socket.socket) -> Iterator[None]:
    """Answer connections at this address within the context."""
    host, port = at.getsockname()[:2]
    server = make_server(host, port, application, threaded=True, request_handler=_Quiet, fd=at.fileno())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Log nothing: tests query the recorded calls."""


def _action(environ: Mapping[str, Any], body: bytes) -> str:
    signed = _SIGNED.search(environ.get("HTTP_AUTHORIZATION", ""))
    service = signed["service"] if signed else ""
    if target := environ.get("HTTP_X_AMZ_TARGET", ""):
        return f"{service}:{target.rpartition('.')[2]}"
    named = parse_qs(body.decode(errors="replace")).get("Action")
    return f"{service}:{named[0] if named else environ['REQUEST_METHOD'] + ' ' + environ['PATH_INFO']}"


def _meets(fault: Fault, action: str, body: bytes) -> bool:
    return fault.action == action and fault.where.encode() in body and fault.left != 0


def _error(environ: Mapping[str, Any], action: str, fault: Fault) -> tuple[str, str]:
    """Return an error in the format of the requested service."""
    if "HTTP_X_AMZ_TARGET" in environ or not environ.get("CONTENT_TYPE", "").startswith("application/x-www-form"):
        return "application/x-amz-json-1.1", json.dumps({"__type": fault.code, "message": fault.message})
    said = f"<Error><Code>{escape(fault.code)}</Code><Message>{escape(fault.message)}</Message></Error>"
    if action.startswith("ec2:"):
        return "text/xml", f"<Response><Errors>{said}</Errors><RequestID>0</RequestID></Response>"
    return "text/xml", f"<ErrorResponse>{said}<RequestId>0</RequestId></ErrorResponse>"


# Actions that moto 5.2 lacks. Parameters have the names of the SDK's model.


def _create_placement_group(self: EC2Response) -> ActionResult:
    name = self._get_param("GroupName")
    group = {
        "GroupName": name,
        "GroupId": f"pg-{len(_groups(self)):017x}",
        "Strategy": self._get_param("Strategy", "cluster"),
        "State": "available",
        "Tags": _tags(self, "placement-group"),
    }
    if name in _groups(self):
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    _groups(self)[name] = group
    return ActionResult({"PlacementGroup": group})


def _delete_placement_group(self: EC2Response) -> ActionResult:
    name = self._get_param("GroupName")
    if _groups(self).pop(name, None) is None:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
    return ActionResult(None)


def _describe_placement_groups(self: EC2Response) -> ActionResult:
    found = _asked(_groups(self), self._get_param("GroupNames", []), "InvalidPlacementGroup.Unknown")
    return ActionResult({"PlacementGroups": _filtered(found, self)})


def _create_capacity_reservation(self: EC2Response) -> ActionResult:
    id_, count = f"cr-{len(_reservations(self)):017x}", int(self._get_param("InstanceCount"))
    fields = {name: self._get_param(name) for name in ("InstanceType", "AvailabilityZone", "EndDate", "EndDateType")}
    said = {name: value for name, value in fields.items() if value is not None}
    Simulated().reserve(id_, self.region, TotalInstanceCount=count, Tags=_tags(self, "capacity-reservation"), **said)
    return ActionResult({"CapacityReservation": _reservations(self)[id_]})


def _cancel_capacity_reservation(self: EC2Response) -> ActionResult:
    _asked(_reservations(self), [self._get_param("CapacityReservationId")], _NO_RESERVATION)[0]["State"] = "cancelled"
    return ActionResult({"Return": True})


def _describe_capacity_reservations(self: EC2Response) -> ActionResult:
    found = _asked(_reservations(self), self._get_param("CapacityReservationIds", []), _NO_RESERVATION)
    return ActionResult({"CapacityReservations": _filtered(found, self)})


def _describe_instance_topology(self: EC2Response) -> ActionResult:
    """Place a fixed number of instances below each switch, in the order of their start."""
    asked = self._get_param("InstanceIds", [])
    found = [
        {
            "InstanceId": each.id,
            "InstanceType": each.instance_type,
            "NetworkNodes": ["nn-top", f"nn-spine-{index // LEAF_NODES**2}", f"nn-leaf-{index // LEAF_NODES}"],
            "AvailabilityZone": each.placement,
        }
        for index, each in enumerate(self.ec2_backend.all_running_instances())
        if each.id in asked or not asked
    ]
    return ActionResult({"Instances": found})


def _describe_scaling_activities(self: AutoScalingResponse) -> ActionResult:
    """Return activities, newest first."""
    name = self._get_param("AutoScalingGroupName")
    found = [each for each in _WORLD.activities.get(self.region, []) if each["AutoScalingGroupName"] == name]
    return ActionResult({"Activities": found[:100]})


def _describe_vpc_endpoint_services(self: EC2Response) -> ActionResult:
    """All that clusters need, in every zone; moto's own loads each of its services for it."""
    zones = [each.name for each in self.ec2_backend.describe_availability_zones()]
    names = [f"com.amazonaws.{self.region}.{each}" for each in _SERVICES]
    found = [{"ServiceName": name, "AvailabilityZones": zones} for name in names]
    return ActionResult({"ServiceNames": names, "ServiceDetails": found})


def _describe_addon_versions(self: EKSResponse) -> ActionResult:
    """Return the versions that fit, without others of the same name."""
    kubernetes, asked = self._get_param("kubernetesVersion"), self._get_param("addonName")
    found = [
        each
        for each in _WORLD.addons.get(self.region, {}).get(asked, [])
        if any(fits["clusterVersion"] == kubernetes for fits in each["compatibilities"])
    ]
    return ActionResult({"addons": [{"addonName": asked, "addonVersions": found}] if found else []})


def _list_service_quotas(self: ServiceQuotasResponse) -> str:
    service = json.loads(self.body)["ServiceCode"]
    known = _WORLD.quotas.get(self.region, {}).get(service, {})
    quotas = [{"ServiceCode": service, "QuotaName": name, "Value": value} for name, value in known.items()]
    return json.dumps({"Quotas": quotas})


def _describe_effective_policy(self: OrganizationsResponse) -> str:
    if not _WORLD.tag_policy:
        raise JsonRESTError("EffectivePolicyNotFoundException", "The effective policy doesn't exist.")
    policy = {"PolicyContent": json.dumps(_WORLD.tag_policy), "PolicyType": "TAG_POLICY"}
    return json.dumps({"EffectivePolicy": {**policy, "TargetId": DEFAULT_ACCOUNT_ID}})


def _simulate_principal_policy(self: IamResponse) -> ActionResult:
    """Judge by the inline policies of the user or role; whom moto does not know may do everything.

    It knows Action, Resource and StringEquals, and neither groups, boundaries nor organisations: what these say, a test
    says by `aws.simulated_decision`.
    """
    documents = _documents(self, self._get_param("PolicySourceArn"))
    context = {one["ContextKeyName"]: one["ContextKeyValues"][0] for one in self._get_param("ContextEntries", []) or []}
    results = []
    for action in self._get_param("ActionNames"):
        for resource in self._get_param("ResourceArns", []) or ["*"]:
            decision, missing = decided(documents, action, resource, context)
            one = {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": decision}
            results.append({**one, "MissingContextValues": missing, **_WORLD.decisions.get(action, {})})
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


def _documents(self: IamResponse, arn: str) -> list[dict[str, Any]]:
    backend = iam_backends[self.current_account][self.partition]
    known: list[Any] = [*backend.users.values(), *backend.roles.values()]
    holder = next((each for each in known if each.arn == arn), None)
    if holder is None:
        return [{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}]
    return [json.loads(text) for text in holder.policies.values()]


def _decode_authorization_message(self: TokenResponse) -> ActionResult:
    """The message is its own code."""
    return ActionResult({"DecodedMessage": self._get_param("EncodedMessage")})


_SERVICES = ("ec2", "ec2messages", "ecr.api", "ecr.dkr", "fsx", "logs", "s3", "ssm", "ssmmessages", "sts")
_NO_RESERVATION = "InvalidCapacityReservationId.NotFound"


def _groups(self: EC2Response) -> dict[str, dict[str, Any]]:
    return _WORLD.groups.setdefault(self.region, {})


def _reservations(self: EC2Response) -> dict[str, dict[str, Any]]:
    return _WORLD.reservations.setdefault(self.region, {})


def _tags(self: EC2Response, kind: str) -> list[dict[str, str]]:
    given = self._parse_tag_specification(kind).get(kind, {})
    return [{"Key": key, "Value": value} for key, value in given.items()]


def _asked(known: Mapping[str, dict[str, Any]], names: Iterable[str], missing: str) -> list[dict[str, Any]]:
    if unknown := [name for name in names if name not in known]:
        raise EC2ClientError(missing, f"'{unknown[0]}' does not exist")
    return [known[name] for name in names] or list(known.values())


def _filtered(found: list[dict[str, Any]], self: EC2Response) -> list[dict[str, Any]]:
    """Return the objects that have the requested tags and state."""
    for name, values in self._filters_from_querystring().items():
        if name.startswith("tag:"):
            key = name.removeprefix("tag:")
            found = [one for one in found if _tag(one, key) in values]
        elif name == "state":
            found = [one for one in found if one["State"] in values]
        else:
            raise EC2ClientError("InvalidParameterValue", f"the simulation has no filter {name}")
    return found


def _tag(one: Mapping[str, Any], key: str) -> str:
    return next((each["Value"] for each in one.get("Tags", ()) if each["Key"] == key), "")


_ADDED: Mapping[type, tuple[Callable[..., Any], ...]] = {
    EC2Response: (
        _create_placement_group,
        _delete_placement_group,
        _describe_placement_groups,
        _create_capacity_reservation,
        _cancel_capacity_reservation,
        _describe_capacity_reservations,
        _describe_instance_topology,
        _describe_vpc_endpoint_services,
    ),
    AutoScalingResponse: (_describe_scaling_activities,),
    EKSResponse: (_describe_addon_versions,),
    OrganizationsResponse: (_describe_effective_policy,),
    ServiceQuotasResponse: (_list_service_quotas,),
    IamResponse: (_simulate_principal_policy,),
    TokenResponse: (_decode_authorization_message,),
}
eks_urls.url_paths["{0}/addons/supported-versions$"] = eks_urls.response.dispatch
for _response, _actions in _ADDED.items():
    for _each in _actions:
        setattr(_response, _each.__name__.removeprefix("_"), _each)
