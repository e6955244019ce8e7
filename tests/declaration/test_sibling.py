"""The text of a sibling: the same declaration with its comments, another name, other addresses, nothing secret."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stampworks.declaration import load_file
from stampworks.declaration.sibling import free_range, other_settings, sibling_text

from .conftest import EXAMPLE

STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))
HEAD = """\
# A sibling of prod: the same cluster once more, with a name and addresses of its own.
# `stampworks compare prod canary` says whether they still are the same.
config:
"""


def made(text: str) -> str:
    """Return the sibling's text after the common header."""
    found = sibling_text(text, "prod", "canary", "10.9.0.0/16")
    assert found.startswith(HEAD)
    return found.removeprefix(HEAD)


def test_comments_are_kept_and_secrets_are_not() -> None:
    """Comments about the cluster stay in place; salt, secrets and comments about the file do not."""
    text = """\
# All about prod.
encryptionsalt: v1:abc
config:
  other:token: {secure: v1:def}
  stampworks:cluster:
    # who asked for it
    version: 1
    name: prod # the first one
    cloud: local
    pools:
      - {name: gpu, machine: sim-h100, count: 4} # four for now
      # - {name: cpu, machine: sim-cpu, count: 1}
  # about the next
  aws:region: x

# about the salt
secretsprovider: awskms://x
"""
    assert (
        made(text)
        == """\
  stampworks:cluster:
    # who asked for it
    version: 1
    name: canary # the first one
    network: {cidr: 10.9.0.0/16}
    cloud: local
    pools:
      - {name: gpu, machine: sim-h100, count: 4} # four for now
      # - {name: cpu, machine: sim-cpu, count: 1}
"""
    )
    assert other_settings(text) == ["other:token", "aws:region"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "config:\n   stampworks:cluster:\n      network:\n         cidr: 10.1.0.0/16 # ours\n      name: 'prod'",
            "   stampworks:cluster:\n      network:\n         cidr: 10.9.0.0/16 # ours\n      name: canary\n",
        ),
        (
            "config: {stampworks:cluster: {version: 1, name: prod, cloud: local}, a:b: {secure: x}}\n",
            "  stampworks:cluster: {version: 1, name: canary, network: {cidr: 10.9.0.0/16}, cloud: local}\n",
        ),
        (
            'config:\n  "stampworks:cluster": {"name": "prod", "network": {"cidr": "10.1.0.0/16"}}\n',
            '  "stampworks:cluster": {"name": canary, "network": {"cidr": 10.9.0.0/16}}\n',
        ),
        (
            "config:\n  stampworks:cluster:\n    extends: base.yaml\n    network:\nsalt: x\n",
            "  stampworks:cluster:\n    name: canary\n    extends: base.yaml\n    network: {cidr: 10.9.0.0/16}\n",
        ),
        (
            "config:\n  stampworks:cluster:\n    extends: base.yaml",
            "  stampworks:cluster:\n    name: canary\n    network: {cidr: 10.9.0.0/16}\n    extends: base.yaml\n",
        ),
        (
            "config:\n  stampworks:cluster: {extends: base.yaml}",
            "  stampworks:cluster: {name: canary, network: {cidr: 10.9.0.0/16}, extends: base.yaml}\n",
        ),
    ],
)  # fmt: skip
def test_name_and_addresses_are_set_wherever_they_stand(text: str, expected: str) -> None:
    """Existing values are replaced; missing ones are inserted after the name or at the top."""
    assert made(text) == expected


@pytest.mark.parametrize("file", STACKS, ids=lambda path: path.name)
def test_the_sibling_of_every_stack_is_declared_the_same(file: Path, tmp_path: Path) -> None:
    """Name and addresses apart."""
    for each in file.parent.iterdir():  # a stack stands on a base, or on another stack
        (tmp_path / each.name).symlink_to(each)
    copy = tmp_path / "Pulumi.canary.yaml"
    copy.write_text(sibling_text(file.read_text(), "x", "canary", "10.9.0.0/16"))
    declared, source = load_file(copy).declaration, load_file(file).declaration
    assert declared == source.model_copy(
        update={"name": "canary", "network": source.network.model_copy(update={"cidr": "10.9.0.0/16"})}
    )
    assert "encryptionsalt" not in copy.read_text()


def test_the_sibling_of_everything_that_can_be_declared(folder: Path) -> None:
    """All fields are set, and a copy of the copy is checked, too."""
    text = "config:\n  stampworks:cluster:\n" + "".join(f"    {line}\n" for line in EXAMPLE.splitlines())
    Path("Pulumi.one.yaml").write_text(text)
    Path("Pulumi.two.yaml").write_text(sibling_text(text, "one", "two", "10.9.0.0/16"))
    again = sibling_text(Path("Pulumi.two.yaml").read_text(), "two", "local", "10.77.0.0/16")
    Path("Pulumi.three.yaml").write_text(again)
    assert load_file(Path("Pulumi.three.yaml")).declaration == load_file(Path("Pulumi.one.yaml")).declaration


@pytest.mark.parametrize(
    ("cidr", "taken", "expected"),
    [
        ("10.77.0.0/16", ["10.77.0.0/16"], "10.78.0.0/16"),
        ("10.77.0.0/16", ["10.77.0.0/16", "10.78.0.0/16", "10.79.128.0/20"], "10.80.0.0/16"),
        ("10.255.0.0/16", ["10.255.0.0/16", "10.0.0.0/15"], "10.2.0.0/16"),
        ("192.168.0.0/17", ["192.168.0.0/17"], "192.168.128.0/17"),
        ("192.168.0.0/16", ["192.168.0.0/16"], None),
        ("10.0.0.0/8", ["10.0.0.0/8"], None),
        ("10.0.0.0/28", ["10.0.0.0/8"], None),
        ("172.31.0.0/16", ["172.31.0.0/16", "10.0.0.0/8"], "172.16.0.0/16"),
    ],
)
def test_a_free_range(cidr: str, taken: list[str], expected: str | None) -> None:
    """The next range of the same size is used; the search wraps around the end of the private range."""
    assert free_range(cidr, taken) == expected


ranges = st.builds(
    lambda start, prefix: str(IPv4Network((start, prefix), strict=False)),
    st.integers(int(IPv4Network("10.0.0.0/8")[0]), int(IPv4Network("10.0.0.0/8")[-1])),
    st.integers(9, 28),
)


@settings(deadline=None)
@given(ranges, st.lists(ranges, max_size=12))
def test_a_free_range_is_free(cidr: str, others: list[str]) -> None:
    """The range is free among all others."""
    found = free_range(cidr, [cidr, *others])
    if found is not None:
        assert IPv4Network(found).prefixlen == IPv4Network(cidr).prefixlen
        assert not any(IPv4Network(found).overlaps(IPv4Network(each)) for each in (cidr, *others))
