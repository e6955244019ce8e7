"""`stampworks new`: a file for another stack of the same cluster, or no file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stampworks.cli import exits
from stampworks.cli.main import main

NEW = ["new", "canary", "--from", "local"]
SALT = "encryptionsalt: v1:abc\n"


@pytest.fixture
def stacks(project: Path) -> Path:
    folder = project / "stacks"
    source = folder / "Pulumi.local.yaml"
    source.write_text(source.read_text() + "  other:token: {secure: x}\n" + SALT)
    return folder


def test_a_sibling_of_what_was_bought(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two clusters cannot share a reservation. A cloud with looked-up images needs a lock."""
    (stacks / "Pulumi.bought.yaml").write_text(
        "config:\n  stampworks:cluster:\n    version: 1\n    name: bought\n    cloud: aws\n    region: us-east-1\n"
        "    network: {cidr: 10.90.0.0/16}\n"
        "    pools: [{name: gpu, machine: p5, count: 2, purchase: reserved, reservation: cr-1}]\n"
    )
    assert main(["new", "canary", "--from", "bought"]) == exits.FINE
    assert capsys.readouterr().out.splitlines()[1:] == [
        "pool gpu is to start in cr-1, as that of bought is: write another reservation",
        "next:",
        "  stampworks lock -s canary",
        "  stampworks plan -s canary",
        "  pulumi stack init canary",
        "  pulumi up -s canary",
    ]


def test_a_sibling_in_the_same_network(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sibling keeps the addresses of the existing network."""
    subnets = "".join(
        f"        - {{purpose: {purpose}, zone: us-east-1a, id: subnet-0123456789abcdef{n}, cidr: 10.20.{n}.0/24}}\n"
        for n, purpose in enumerate(("nodes", "storage"))
    )
    (stacks / "Pulumi.theirs.yaml").write_text(
        "config:\n  stampworks:cluster:\n    version: 1\n    name: theirs\n    cloud: aws\n    region: us-east-1\n"
        "    network:\n      cidr: 10.20.0.0/16\n      existing:\n        vpc: vpc-0123456789abcdef0\n"
        f"        subnets:\n{subnets}"
        "    pools: [{name: gpu, machine: p5, count: 2, zone: us-east-1a}]\n"
    )
    assert main(["new", "canary", "--from", "theirs"]) == exits.FINE
    assert "cluster canary, addresses 10.20.0.0/16" in capsys.readouterr().out


def test_a_sibling(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new stack is equal, and the output says what to do next."""
    assert main(NEW) == exits.FINE
    out = capsys.readouterr().out.splitlines()
    assert "Pulumi.canary.yaml is a sibling of local: cluster canary, addresses 10.78.0.0/16, fingerprint " in out[0]
    assert out[1:] == [
        "not copied, for they may be secret: other:token",
        "next:",
        "  stampworks plan -s canary",
        "  pulumi stack init canary",
        "  pulumi up -s canary",
    ]
    text = (stacks / "Pulumi.canary.yaml").read_text()
    assert SALT not in text
    assert "secure" not in text
    main(["compare", "local", "canary", "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"] != "different"


def test_as_json(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has all data for the next step of a program."""
    assert main([*NEW, "--json"]) == exits.FINE
    found = json.loads(capsys.readouterr().out)
    assert (found["cluster"], found["cidr"], found["not_copied"]) == ("canary", "10.78.0.0/16", ["other:token"])
    assert Path(found["file"]).is_file()


def test_each_sibling_has_addresses_of_its_own(stacks: Path) -> None:
    """A sibling of a sibling, too."""
    assert main(NEW) == exits.FINE
    assert main(["new", "two", "--from", "canary"]) == exits.FINE
    assert "10.79.0.0/16" in (stacks / "Pulumi.two.yaml").read_text()


def test_a_sibling_on_kubernetes_does_not_meet_its_pods(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next range would overlap with pods of the source: the sibling keeps its ranges for pods and services."""
    source = stacks / "Pulumi.local.yaml"
    text = source.read_text().replace("    pools:", "    network: {cidr: 10.239.0.0/16}\n    pools:", 1)
    source.write_text(text.replace("    scheduler:\n", "    scheduler:\n      kind: kubernetes\n"))
    assert main([*NEW, "--json"]) == exits.FINE
    assert json.loads(capsys.readouterr().out)["cidr"] == "10.0.0.0/16"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["new", "Canary", "--from", "local"], "'Canary' is not a legal name\n  hint: a name is 1 to 20 small letters"),
        (["new", "../x", "--from", "local"], "'../x' is not a legal name\n"),
        (["new", "a\nb", "--from", "local"], "'a\\nb' is not a legal name\n"),
        (["new", "", "--from", "local"], "'' is not a legal name\n"),
        (["new", "x", "--from", "locl"], "there is no stack 'locl'"),
        (["new", "taken", "--from", "local"], "the cluster of stack other is called 'taken' already\n"),
        (["new", "local", "--from", "local"], "Pulumi.local.yaml exists already\n  hint: choose another name"),
    ],
)
def test_refused_siblings(stacks: Path, argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The input is wrong, and no file is made or changed."""
    source = (stacks / "Pulumi.local.yaml").read_text()
    (stacks / "Pulumi.other.yaml").write_text(source.replace("name: local", "name: taken"))
    before = {path: path.read_text() for path in stacks.rglob("*") if path.is_file()}
    assert main(argv) == exits.WRONG_INPUT
    assert text in capsys.readouterr().err
    assert {path: path.read_text() for path in stacks.rglob("*") if path.is_file()} == before


def test_a_stack_that_cannot_be_read_is_said(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its addresses are unknown, so that no range is known to be free."""
    (stacks / "Pulumi.broken.yaml").write_text("config: [\n")
    assert main(NEW) == exits.FINE
    assert capsys.readouterr().err == "stack broken cannot be read: its addresses may be taken twice\n"


def test_no_addresses_are_left(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The only private range of that size is used."""
    source = stacks / "Pulumi.local.yaml"
    source.write_text(source.read_text().replace("    pools:", "    network: {cidr: 10.0.0.0/8}\n    pools:", 1))
    assert main(NEW) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "no private range of a /8 is free beside 10.0.0.0/8\n  hint: make the ranges smaller first\n"
    )


@pytest.mark.parametrize("wrong", ["config: [", "config:\n  stampworks:cluster: {version: 1}\n"])
def test_nothing_half_done(
    stacks: Path, wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sibling's file is written only if it means the same as its source."""
    before = sorted(stacks.iterdir())
    monkeypatch.setattr("stampworks.declaration.sibling.sibling_text", lambda *_: wrong)
    assert main(NEW) == exits.WRONG_INPUT
    assert capsys.readouterr().err == (
        "the file of stack local cannot be copied as it is written: its sibling would mean something else\n"
        "  hint: copy the file by hand and change name and network.cidr, here to canary and 10.78.0.0/16\n"
    )
    assert sorted(stacks.iterdir()) == before


def test_a_file_that_appears_meanwhile_is_kept(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that exists by then is not replaced."""
    from stampworks.cli import new

    def late(*_: object) -> str:
        (stacks / "Pulumi.canary.yaml").write_text("of somebody else")
        return "10.78.0.0/16"

    monkeypatch.setattr(new, "_range", late)
    assert main(NEW) == exits.WRONG_INPUT
    assert (stacks / "Pulumi.canary.yaml").read_text() == "of somebody else"
    assert len(list(stacks.glob(".*"))) == 0
