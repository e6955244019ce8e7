"""Names of vendors appear only in their own places: `clouds/<cloud>/`, `planning/clouds/<cloud>.py` and the data of the
catalog.

Elsewhere code reads data, and a mention needs a line in ALLOWED. Kinds of fabrics and file systems that the catalog
names (efa, fsx-lustre, efs, s3) are not vendors.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from stampworks import catalog

ROOT = Path(__file__).resolve().parents[1] / "components" / "stampworks"
OWN = ("clouds/aws/", "planning/clouds/")
NO_VENDORS = {"hosts", "lambda", "local", "prime-intellect", "sf-compute", "together", "vast"}
"""Clouds whose names are ordinary words, keywords of Python, or several words."""
PRODUCTS = {
    *("amazon", "amazonaws", "ebs", "ec2", "eks"),
    *("aks", "gce", "gcp", "gke", "oke", "oraclecloud"),
}
VENDORS = {*catalog.CLOUDS, *PRODUCTS} - NO_VENDORS
_WORD = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(sorted(VENDORS, key=len, reverse=True))})(?![a-z0-9])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_READ = {
    kind
    for name in ("NAME", "STRING", "COMMENT", "FSTRING_MIDDLE")
    if (kind := getattr(tokenize, name, None)) is not None
}

PROTOBUF = "google.protobuf is the package of the messages that the engine speaks"
EXAMPLE = "an example, or a description, for the user of that cloud"
# Allowed mentions by file: number by name, and the reason. Mentions may be removed, never added without a reason.
ALLOWED: dict[str, tuple[dict[str, int], str]] = {
    "catalog/hardware.py": (dict.fromkeys(VENDORS - PRODUCTS, 1), "the one list of clouds"),
    "clouds/hosts/lists/crusoe.py": ({"crusoe": 3}, "the reader of a provider's list of machines"),
    "clouds/registry.py": ({"aws": 3}, "the one list of clouds that there are components for"),
    "configuration/inventory.py": ({"amazon": 1}, "Amazon Linux is a system that nodes run"),
    "declaration/lock.py": ({"aws": 2}, EXAMPLE),
    "declaration/models/addons.py": ({"eks": 1}, EXAMPLE),
    "declaration/models/network.py": ({"aws": 2}, EXAMPLE),
    "declaration/models/scheduler.py": ({"amazon": 2, "aws": 2, "eks": 3, "google": 1}, EXAMPLE),
    "declaration/values.py": ({"aws": 4}, EXAMPLE),
    "operations/kubernetes/nodes.py": ({"aws": 2}, "the label of pods that the driver of buckets starts"),
    "plan/network.py": ({"aws": 4, "ec2": 1}, "the plug-in through which NCCL uses the fabric efa"),
    "planning/build/launching.py": ({"aws": 1}, "the page that says how images are made"),
    "planning/build/storage.py": ({"azure": 1}, "a kind of file system of the catalog"),
    "planning/rules/addons.py": ({"aws": 1, "eks": 1}, "the source of a fact about an add-on"),
    "provider/server.py": ({"google": 2}, PROTOBUF),
    "rehearsal/ruled.py": ({"google": 2}, PROTOBUF),
    "schedulers/kubernetes.py": ({"amazonaws": 1, "eks": 1}, "names of resources of nodes that the fabric efa brings"),
    "schedulers/topology/answers.py": ({"google": 1, "oracle": 1}, "readers of answers of clouds without components"),
    "schedulers/workload.py": ({"amazonaws": 1}, "the resource of nodes that the fabric efa brings"),
    "state/facts.py": ({"aws": 2}, EXAMPLE),
    "wire/plugin.py": ({"google": 1}, PROTOBUF),
    "wire/values.py": ({"google": 1}, PROTOBUF),
}


def mentions(source: str) -> Counter[str]:
    """Count names of vendors in identifiers, strings and comments."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = (token.string for token in tokens if token.type in _READ)
    return Counter(name for text in texts for name in _WORD.findall(_HUMP.sub(" ", text).lower()))


@cache
def found() -> dict[str, Counter[str]]:
    names = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
    counted = {name: mentions(path.read_text("utf-8")) for name, path in names.items() if not name.startswith(OWN)}
    return {name: count for name, count in counted.items() if count}


def test_vendors_stand_in_their_own_places() -> None:
    """A new mention fails here. Put the fact into the catalog or the cloud's own modules, and read it from there."""
    added = {name: dict(count - Counter(ALLOWED.get(name, ({},))[0])) for name, count in found().items()}
    assert {name: count for name, count in added.items() if count} == {}


def test_the_list_holds_no_more_than_there_is() -> None:
    """Cleaned files leave the list."""
    there = found()
    stale = {name: dict(Counter(count) - there.get(name, Counter())) for name, (count, _) in ALLOWED.items()}
    assert {name: count for name, count in stale.items() if count} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("class AwsError: pass", ["aws"]),
        ("x = aws_region", ["aws"]),
        ("x = 1  # as EC2 has it", ["ec2"]),
        ("x = f'{y} of Google'", ["google"]),
        ("'topology.k8s.aws/layer'", ["aws"]),
        ("laws = 'draws EFA over fsx-lustre'", []),
    ],
)
def test_a_mention_is_seen(source: str, names: list[str]) -> None:
    assert sorted(mentions(source + "\n")) == names
