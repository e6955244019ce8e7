"""Bundle and Slurm key with which nodes of an AWS cluster configure themselves when they start later."""

from __future__ import annotations

import json
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions
from pulumi_aws import s3, ssm

from stampworks.clouds.aws import bucket, tags
from stampworks.clouds.aws.owner import Owner
from stampworks.plan import Plan


def create(name: str, place: Owner, plan: Plan) -> Any:
    """Create the bucket of the bundle; return None if no node configures itself.

    Destroying it is safe: the bundle can be created again.
    """
    if not any(pool.elastic_nodes for pool in plan.pools):
        return None
    opts = place.within(ResourceOptions(parent=place))
    return bucket.private(f"{name}-bundle", place, "bundle", opts, force_destroy=True)


def keep_key(name: str, place: Owner, slurm_key: Output[str], opts: ResourceOptions) -> None:
    """Keep the Slurm key as a secret parameter that nodes may read."""
    ssm.Parameter(
        f"{name}-slurm-key",
        name=tags.key_parameter(place.cluster),
        type="SecureString",
        value=slurm_key,
        tags=place.tags("slurm-key"),
        opts=opts,
    )


def publish(name: str, place: Owner, into: Any, file: Output[str], opts: ResourceOptions) -> None:
    """Upload the bundle.

    It has no tags: S3 allows 10 on an object and 50 on other resources, and bills use the bucket's tags (Amazon S3 User
    Guide, "Categorizing your objects using tags" and "Using cost allocation S3 bucket tags", read 2026-11-25).
    """
    s3.BucketObjectv2(
        f"{name}-bundle",
        bucket=into.id,
        key=tags.BUNDLE,
        source=file.apply(pulumi.FileAsset),
        opts=place.within(opts),
    )


def may_read(cluster: str, arn: str, key: str | None = None) -> str:
    """Return the policy of a node that starts later.

    It needs no kms action without a key of the account: keys that AWS manages allow the requests of their own service.
    """
    parameter = f"arn:{tags.partition(arn)}:ssm:*:*:parameter{tags.key_parameter(cluster)}"
    allowed = [("s3:GetObject", f"{arn}/{tags.BUNDLE}"), ("ssm:GetParameter", parameter)]
    allowed += [("kms:Decrypt", key)] if key else []
    statements = [{"Effect": "Allow", "Action": action, "Resource": of} for action, of in allowed]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
