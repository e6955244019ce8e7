"""A stand-in for the metadata service of EC2: it identifies a machine by its address, and takes its data from a
simulated AWS."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from .simulated import REGION, Simulated

TOKEN = "a-token"


Notices = Mapping[str, Mapping[str, Any]]
"""Announced events by machine address and by path below meta-data."""


def service(
    aws: Simulated, instances: Mapping[str, str], notices: Notices = MappingProxyType({})
) -> Callable[..., Iterable[bytes]]:
    """Serve metadata: each machine's address has an instance, which may change later."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path, address = environ["PATH_INFO"], environ["REMOTE_ADDR"]
        if path == "/latest/api/token" and environ["REQUEST_METHOD"] == "PUT":
            said: str | None = TOKEN
        elif environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN") != TOKEN:
            start_response("401 Unauthorized", [])
            return []
        else:  # the path begins with a version: accept any
            known = _known(aws, instances.get(address, ""), address)
            known |= {f"meta-data/{where}": json.dumps(notice) for where, notice in notices.get(address, {}).items()}
            said = _said(known, path.lstrip("/").partition("/")[2])
        start_response("404 Not Found" if said is None else "200 OK", [("Content-Type", "text/plain")])
        return [(said or "").encode()]

    return answer


def mac_of(address: str) -> str:
    """Return the MAC of the machine's interface with this address."""
    return ":".join(f"{byte:02x}" for byte in (2, 0, *ipaddress.ip_address(address).packed))


def _said(known: Mapping[str, str], path: str) -> str | None:
    """Return a value, or a list of the entries of a folder, which end with a slash."""
    if path in known:
        return known[path]
    folder = path.rstrip("/") + "/"
    below = [each.removeprefix(folder).partition("/") for each in known if each.startswith(folder)]
    return "\n".join(sorted({name + slash for name, slash, _ in below})) or None


def _known(aws: Simulated, instance: str, address: str) -> dict[str, str]:
    nic = f"meta-data/network/interfaces/macs/{mac_of(address)}"
    credentials = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": "simulated",
        "SecretAccessKey": "simulated",
        "Token": "simulated",
        "LastUpdated": "2026-01-01T00:00:00Z",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    known = {
        "meta-data/instance-id": instance,
        "meta-data/local-ipv4": address,
        "meta-data/mac": mac_of(address),
        f"{nic}/network-card": "0",
        f"{nic}/device-number": "0",
        f"{nic}/local-ipv4s": address,
        "meta-data/iam/security-credentials/node": json.dumps(credentials),
        "dynamic/instance-identity/document": json.dumps({"instanceId": instance, "region": REGION}),
    }
    if not instance:
        return known
    ec2 = aws.client("ec2")
    [[one]] = [each["Instances"] for each in ec2.describe_instances(InstanceIds=[instance])["Reservations"]]
    known |= {f"meta-data/tags/instance/{each['Key']}": each["Value"] for each in one.get("Tags", ())}
    if name := one.get("KeyName"):
        [pair] = ec2.describe_key_pairs(KeyNames=[name], IncludePublicKey=True)["KeyPairs"]
        known |= {"meta-data/public-keys/": f"0={name}", "meta-data/public-keys/0/openssh-key": pair["PublicKey"]}
    told = ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"].get("Value", "")
    if told:
        known["user-data"] = base64.b64decode(told).decode()
    return known
