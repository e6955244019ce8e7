"""Views of a bucket on a file system: the bucket, and impossible cases."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks import planning
from stampworks.declaration import DeclarationError, load_value
from stampworks.plan import Plan, fingerprint

LUSTRE = {"name": "data", "kind": "fsx-lustre", "tier": "SCRATCH_2", "capacity": 1200, "mount": "/data"}
SHOWS = {**LUSTRE, "features": ["data-repository"]}
BUCKET = {"name": "corpus", "kind": "s3", "mount": "/corpus"}


def on_aws(*storage: dict[str, Any]) -> Plan:
    pools = [{"name": "gpu", "machine": "p5", "count": 2, "zone": "us-east-1a"}]
    data = {"version": 1, "name": "test", "cloud": "aws", "region": "us-east-1", "pools": pools}
    return planning.plan(load_value({**data, "storage": [*storage]}, "test"))


def problems(*storage: dict[str, Any]) -> list[tuple[str, str, str]]:
    with pytest.raises(DeclarationError) as error:
        on_aws(*storage)
    return [(each.path, each.message, each.hint) for each in error.value.problems]


@pytest.mark.parametrize("where", ["corpus", "s3://somebody-else/data/shards", "s3://a.b-c/", "s3://bucket"])
def test_a_bucket_here_or_elsewhere(where: str) -> None:
    """Bucket and file system may be declared in any order; a sibling may show another bucket."""
    plan = on_aws({**SHOWS, "repository": where}, BUCKET)
    assert plan.storage[0].repository == where.rstrip("/")
    assert plan.storage[0].bought == (f"data-repository of {where.rstrip('/')}",)
    assert fingerprint(plan) == fingerprint(on_aws({**SHOWS, "repository": "s3://of-a-sibling"}, BUCKET))


HINT = "write 'corpus' or a place like s3://bucket/data"


def test_repository_must_be_written() -> None:
    asked = "the feature data-repository needs the repository to show"
    assert problems(SHOWS, BUCKET) == [("storage[0].repository", asked, HINT)]
    assert problems(SHOWS) == [("storage[0].repository", asked, "write a place like s3://bucket/data")]


@pytest.mark.parametrize("other", ["data", "corpse"])
def test_only_a_bucket_can_be_shown(other: str) -> None:
    said = f"fsx-lustre cannot show '{other}'"
    assert problems({**SHOWS, "repository": other}, BUCKET) == [("storage[0].repository", said, HINT)]


def test_it_is_shown_by_a_feature() -> None:
    """A feature expresses it, so that tiers without it refuse it like other features."""
    said = "it shows corpus only with its feature data-repository"
    assert problems({**LUSTRE, "repository": "corpus"}, BUCKET) == [
        ("storage[0].repository", said, "add data-repository to its features")
    ]
    [(path, said, _)] = problems({**SHOWS, "tier": "SCRATCH_1", "repository": "corpus"}, BUCKET)
    assert (path, said) == ("storage[0].features", "Amazon FSx for Lustre SCRATCH_1 has no data-repository")


@pytest.mark.parametrize(
    "where",
    ["s3://", "s3://B", "s3://bucket/../x", "s3://bucket/a b", "http://bucket/x", "s3://bucket/$(x)", "s3://a//b"],
)
def test_refuses_malformed_repositories(where: str) -> None:
    [(path, said, hint)] = problems({**SHOWS, "repository": where}, BUCKET)
    assert (path, hint) == ("storage[0].repository", "write it like s3://bucket/folder, in plain letters")
    assert said == f"'{where}' is not a place in a bucket"
