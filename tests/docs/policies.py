"""Writes the policies that docs/reference/aws-rights.md links: python -m tests.docs.policies"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stampworks import planning
from stampworks.clouds.aws import bucket, bundle, logs, tags
from stampworks.clouds.aws.facts import account
from stampworks.clouds.aws.nodes import SESSIONS, allowed, may_start
from stampworks.declaration import load_stack, load_value
from stampworks.plan import log_group
from stampworks.planning.clouds.aws_rights import policy, rights_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
STACK = "aws-dev-g6"
"""The stack of the deployer's policy."""
CLUSTER = "CLUSTER"
"""The cluster's name in policies of machines, which a reader replaces, like the bucket's."""
BUCKET = "arn:aws:s3:::BUCKET"
ELASTIC = {
    "version": 1,
    "name": "cluster",
    "cloud": "aws",
    "region": "us-east-1",
    "pools": [{"name": "gpu", "machine": "p5", "count": 2, "count_min": 1}],
    "storage": [{"name": "shared", "kind": "efs", "tier": "regional", "mount": "/shared"}],
}


def policies() -> dict[str, dict[str, Any]]:
    """Return each file's policy by its name."""
    return {
        "aws-facts-policy.json": account.policy(),
        "aws-deployer-policy.json": policy(rights_of(planning.plan(load_stack(STACK, ROOT / "stacks")))),
        "aws-nodes-policy.json": _joined(*_of_machines(), bundle.may_read(CLUSTER, "arn:aws:s3:::BUNDLE")),
        "aws-head-policy.json": _joined(*_of_machines(), _starts()),
    }


def _of_machines() -> list[str]:
    """Return the policies of every machine: sessions, logs and a bucket."""
    group = f"arn:aws:logs:*:*:log-group:{log_group(CLUSTER)}"
    return [allowed([{"Action": [*SESSIONS], "Resource": "*"}]), logs.may_write(group), bucket.may_use([BUCKET])]


def _starts() -> str:
    pools = planning.plan(load_value(ELASTIC, "docs")).pools
    role, template = "arn:aws:iam::*:role/CLUSTER-gpu-*", "arn:aws:ec2:*:*:launch-template/TEMPLATE"
    names = ["Name", tags.CLUSTER, tags.ELASTIC, tags.GROUP, tags.TEMPLATE]  # a cluster without cost tags
    return may_start(CLUSTER, pools, [role], [template], names)


def _joined(*documents: str) -> dict[str, Any]:
    statements = [each for document in documents for each in json.loads(document)["Statement"]]
    return {"Version": "2012-10-17", "Statement": statements}


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    for name, document in policies().items():
        (FOLDER / name).write_text(text(document))
