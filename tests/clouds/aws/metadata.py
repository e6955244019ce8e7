"""Stands in for the metadata service of EC2: who asks is known by its address, and what it is, a simulated AWS says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .simulated import Simulated

TOKEN = "a-token"
_MAC = "02:00:00:00:00:01"


def service(aws: Simulated, instances: Mapping[str, str]) -> Callable[..., Iterable[bytes]]:
    """What answers: of each machine's address its instance, which may be another one later."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path, address = environ["PATH_INFO"], environ["REMOTE_ADDR"]
        if path == "/latest/api/token" and environ["REQUEST_METHOD"] == "PUT":
            said: str | None = TOKEN
        elif environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN") != TOKEN:
            start_response("401 Unauthorized", [])
            return []
        else:
            said = _said(aws, instances.get(address, ""), address, path.removeprefix("/latest/meta-data/"))
        start_response("404 Not Found" if said is None else "200 OK", [("Content-Type", "text/plain")])
        return [(said or "").encode()]

    return answer


def _said(aws: Simulated, instance: str, address: str, what: str) -> str | None:
    nic = f"network/interfaces/macs/{_MAC}"
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
        "instance-id": instance,
        "local-ipv4": address,
        "network/interfaces/macs/": f"{_MAC}/\n",
        f"{nic}/network-card": "0",
        f"{nic}/device-number": "0",
        f"{nic}/local-ipv4s": address,
        "iam/security-credentials/": "node",
        "iam/security-credentials/node": json.dumps(credentials),
    }
    if what.startswith("tags/instance/"):
        return _tags(aws, instance).get(what.removeprefix("tags/instance/"))
    return known.get(what)


def _tags(aws: Simulated, instance: str) -> dict[str, str]:
    if not instance:
        return {}
    rows = aws.client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": [instance]}])["Tags"]
    return {each["Key"]: each["Value"] for each in rows}
