"""A bucket: versioned, encrypted, private, and rid of old versions and unfinished uploads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import ResourceOptions
from pulumi_aws import s3

from stampworks.clouds.aws.owner import Owner

USE_OF_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
"""Actions with which objects under a key are read and written."""
_OLD_DAYS, _UNFINISHED_DAYS = 30, 7


def _of_either_version(name: str) -> Any:
    """Return a resource type that exists in versions 6 and 7 of the SDK.

    `BucketV2` of version 6 is `Bucket` in version 7. The newer type has the older one as an alias, so a stack does not
    change with its SDK.
    """
    # not at import: stacks without buckets do not load that part of the SDK
    return getattr(s3, name if hasattr(s3, "BucketVersioning") else f"{name}V2")


def may_use(arns: Sequence[str], key: str | None = None) -> str:
    """Return the policy that a mount needs by default, without deletion (Mountpoint, CONFIGURATION.md; read
    2026-11-23).

    A key of the account needs rights of its own, unlike S3's key.
    """
    objects = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
    statements = [
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [*arns]},
        {"Effect": "Allow", "Action": objects, "Resource": [f"{arn}/*" for arn in arns]},
    ]
    if key:
        statements.append({"Effect": "Allow", "Action": [*USE_OF_KEY], "Resource": [key]})
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def private(
    name: str,
    place: Owner,
    called: str,
    opts: ResourceOptions,
    expiry: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Any:
    """Create a bucket without public access. `expiry` adds lifecycle rules to the common ones."""
    bucket: Any = _of_either_version("Bucket")(name, tags=place.tags(called), opts=opts, **more)
    within = place.within(ResourceOptions(parent=bucket))
    s3.BucketPublicAccessBlock(
        name,
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=within,
    )
    _of_either_version("BucketVersioning")(
        name, bucket=bucket.id, versioning_configuration={"status": "Enabled"}, opts=within
    )
    _of_either_version("BucketServerSideEncryptionConfiguration")(
        name,
        bucket=bucket.id,
        rules=[{"apply_server_side_encryption_by_default": _encryption(place.key), "bucket_key_enabled": True}],
        opts=within,
    )
    _of_either_version("BucketLifecycleConfiguration")(
        name,
        bucket=bucket.id,
        rules=[
            {
                "id": "old-and-unfinished",
                "status": "Enabled",
                "filter": {"prefix": ""},
                "noncurrent_version_expiration": {"noncurrent_days": _OLD_DAYS},
                "abort_incomplete_multipart_upload": {"days_after_initiation": _UNFINISHED_DAYS},
            },
            *expiry,
        ],
        opts=within,
    )
    return bucket


def _encryption(key: str | None) -> dict[str, str]:
    return {"sse_algorithm": "aws:kms", **({"kms_master_key_id": key} if key else {})}
