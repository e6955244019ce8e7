"""Hostile text in every declarable field: refused at its place, or passed on as plain text."""

from __future__ import annotations

import copy
import functools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from stampworks import catalog, planning
from stampworks.configuration import inventory
from stampworks.declaration import DeclarationError, load_file, load_stack, load_value
from stampworks.declaration.fields import fields
from stampworks.declaration.nodes import parsed, spelled
from stampworks.declaration.values import NAME_PATTERN
from stampworks.plan import Plan, from_json, to_json
from stampworks.schedulers import slurm

from tests.attached import attached
from tests.schedulers.conftest import roster_of
from tests.tricks import TRICKS

from .conftest import EXAMPLE

relaxed = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])

Place = tuple[str | int, ...]
DATA = yaml.safe_load(EXAMPLE)
DATA["extras"] = {
    "roles": [{"path": "roles/motd", "groups": ["head"], "variables": {"motd_text": "x"}}],
    "checks": [{"path": "checks/scratch.sh", "pools": ["gpu"]}],
}
DATA["tags"] = [{"name": "owner", "value": "research"}]
DATA["budget"] = {"notify": ["ops@example.com"]}
DATA["proof"] = {"level": "standard"}
DATA["groups"] = [{"name": "nlp", "gid": 3001}]
DATA["users"][0] |= {
    "groups": ["nlp"],
    "keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA alice@laptop"],
}
DATA["directory"] = {
    "kind": "ldap",
    "uri": "ldap://ldap.example.org",
    "base": "dc=example,dc=org",
    "tls": "required",
    "ca": "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n",
    "bind": "cn=reader,dc=example,dc=org",
    "group_members": "names",
    "access_groups": ["ml"],
    "account": "research",
    "id_min": 20_000,
    "id_max": 29_999,
}
DATA["region"] = "site-1"
DATA["pools"][0] |= {"purchase": "owned", "zone": "hall-2"}
DATA["network"] |= {"pods_cidr": "10.240.0.0/12", "services_cidr": "172.20.0.0/16"}
DATA["roll"] = {"jobs": "wait"}
DATA["scheduler"]["database"] = "head"
DATA["scheduler"]["addons"] = {"installer": "helm", "mig_strategy": "single", "mig_profile": "all-disabled"}
DATA["training"] = {
    "layout": "fsdp",
    "precision": "bfloat16",
    "tracker": {"kind": "mlflow", "url": "http://10.0.0.5:5000", "experiment": "demo"},
    "checkpoints": {"directory": "/data/checkpoints"},
}


def texts(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the positions of text in the example."""
    if isinstance(value, str):
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from texts(item, (*path, key))


TEXTS = list(texts(DATA))


def text_at(path: Place) -> str:
    return str(functools.reduce(lambda value, step: value[step], path, DATA))


def choices() -> Iterator[str]:
    """Yield choices of fields, and the machines of the catalog."""
    for field in fields().values():
        for annotation in (field.annotation, *get_args(field.annotation)):
            yield from (each for each in (*get_args(annotation), annotation) if isinstance(each, str) and each)
    yield from catalog.machines()


OURS = {*map(text_at, TEXTS), *choices()}
"""Texts that are valid values: another value declares another cluster, and is no attack."""


def with_text(path: Place, text: str) -> Any:
    data = copy.deepcopy(DATA)
    parent = data
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = text
    return data


def renamed(value: Any, old: str, new: str) -> Any:
    """Return the declaration with a text replaced."""
    if isinstance(value, dict):
        return {key: renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return new if value == old else value


def structure(plan: Plan) -> list[Any]:
    """Return the structure of a cluster's texts without their words."""
    roster = roster_of(plan)
    written = slurm.files(plan, roster)
    shapes = [(name, [re.findall(r"\w+(?==)", line) for line in text.splitlines()]) for name, text in written.items()]
    checks = {check.name: "" for check in plan.extras.checks}
    told = json.dumps(inventory(plan, roster, written, checks, attached=attached(plan)))
    return [*shapes, re.sub(r'"(?:[^"\\]|\\.)*"|[0-9.]+', "", told)]


@pytest.fixture(autouse=True)
def _own(folder: Path) -> None:
    """Return the example's own role and check."""
    for path in ("roles/motd/tasks/main.yml", "checks/scratch.sh"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text("#!/bin/sh\n")


@functools.cache
def usual() -> list[Any]:
    return structure(planning.plan(load_value(DATA, "o")))


def refused_or_carried(data: Any, path: Place) -> None:
    try:
        plan = planning.plan(load_value(data, "o"))
    except DeclarationError as error:
        refused = error
    else:
        assert structure(plan) == usual()
        assert from_json(Plan, to_json(plan)) == plan
        return
    found = [(each.path, each.message) for each in refused.problems]
    # The problem is at the text itself, or at a field that refers to the name. A role's path is its name, and that of
    # its variables.
    place = spelled(path[:3] if path[0] == "extras" else path)
    assert any(at.startswith(place) or said.startswith("no ") for at, said in found), found
    assert all(line.isprintable() for line in str(refused).split("\n"))
    assert len(str(refused)) < 20_000


def test_every_text_is_tried() -> None:
    """Require every text field in the example declaration, so that the hostile inputs are tried on it."""
    tried = {re.sub(r"\[\d+\]", "[]", spelled(path)).removesuffix("[]") for path in TEXTS}
    tried |= {path.removesuffix(".motd_text") for path in tried}
    holding_text = {
        name
        for name, field in fields().items()
        if field.annotation is str
        or (get_origin(field.annotation) is not None and "str" in str(get_args(field.annotation)[0]))
        or any(isinstance(each, str) for each in get_args(field.annotation))
    }
    elsewhere = {"extends", "storage[].tier", "storage[].repository", "pools[].reservation", "network.egress"}
    elsewhere |= {
        "storage[].expire_folder",
        "pools[].fallbacks[].purchase",
        "pools[].fallbacks[].reservation",
        *("scheduler.workloads_image", "scheduler.api_from", "scheduler.admins", "storage[].existing"),
    }
    elsewhere |= {name for name in holding_text if name.startswith(("account.", "hosts.", "network.existing."))}
    where = (
        "they are tried in test_files.py, planning/test_{access,storage,buying,expiry,fallbacks,terms}, test_hosts.py, "
        "clouds/aws/test_eks"
    )
    assert holding_text - tried == elsewhere, where


@pytest.mark.parametrize("path", TEXTS, ids=spelled)
@pytest.mark.long
def test_tricks(path: Place) -> None:
    """Hostile text is refused at its field, or changes no structure."""
    for trick in TRICKS:
        refused_or_carried(with_text(path, trick), path)


@pytest.mark.parametrize("section", ["", "network", "pools[0]", "storage[0]", "scheduler", "scheduler.queues[0]"])
def test_tricks_as_keys(section: str) -> None:
    """Unknown keys are refused, and shown without control characters."""
    for trick in TRICKS:
        if trick in ("", "all"):
            continue
        data = with_text((*parsed(section), trick), "x")
        with pytest.raises(DeclarationError) as caught:
            load_value(data, "o").refuse_problems()
        assert all(line.isprintable() for line in str(caught.value).split("\n"))


@relaxed
@given(st.sampled_from(TEXTS), st.text(st.characters(), max_size=40))
def test_any_text(path: Place, text: str) -> None:
    """The same with random text."""
    assume(text not in OURS)
    refused_or_carried(with_text(path, text), path)


@pytest.mark.long
@settings(relaxed, max_examples=20_000)
@given(st.sampled_from(TEXTS), st.text(st.characters(), max_size=80))
def test_any_text_at_length(path: Place, text: str) -> None:
    """Long texts do not change that."""
    assume(text not in OURS)
    refused_or_carried(with_text(path, text), path)


def test_words_of_ours_are_known() -> None:
    """The list includes words that this example does not use."""
    assert {"gpu", "head", "sim-a100-small", "flat", "files"} <= OURS
    assert OURS & {*TRICKS} == {"head", "slurm"}


RENAMED = ("local", "gpu", "shared", "alice", "main", "normal", "research")
# expected refusals: a repeated or reserved name
TAKEN = re.compile(r"is called|is named twice|an account of the system|'(root|head|default)' is|preempt")


@relaxed
@given(st.sampled_from(RENAMED), st.from_regex(NAME_PATTERN, fullmatch=True))
def test_any_legal_name(old: str, new: str) -> None:
    """A name that is allowed works wherever it is used, from the declaration to Slurm's own files."""
    data = renamed(DATA, old, new)
    data["cloud"] = "local"
    try:
        source = load_value(data, "o")
    except DeclarationError as error:
        if TAKEN.search(str(error)):
            return
        raise
    assert structure(planning.plan(source)) == usual()


BASES = {
    "pipe": (lambda path: os.mkfifo(path), "is not a file"),
    "folder": (lambda path: path.mkdir(), "is a directory"),
    "link-to-itself": (lambda path: path.symlink_to(path), "cannot be read: too many levels of symbolic links"),
    "endless": (lambda path: path.symlink_to("/dev/zero"), "is not a file"),
    "terminal": (lambda path: path.symlink_to("/dev/tty"), ""),
    "secret": (lambda path: path.symlink_to("/proc/self/environ"), "is not called a YAML file"),
    "passwords": (lambda path: path.symlink_to("/etc/passwd"), "is not called a YAML file"),
    "link-to-nothing": (lambda path: path.symlink_to("nothing"), "does not exist"),
    "large": (lambda path: path.write_bytes(b"#" * 10_000_000), "is larger than 256 KiB"),
    "bytes": (lambda path: path.write_bytes(bytes(range(128, 256))), "the byte 0x80 is not UTF-8"),
}


@pytest.mark.parametrize(("make", "expected"), BASES.values(), ids=BASES)
def test_a_base_that_is_none(make: Any, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base of any kind that is no declaration is refused at once, and its content is not quoted."""
    monkeypatch.setenv("A_SECRET", "hunter2-hunter2")
    make(Path.cwd() / "base.yaml")
    Path("cluster.yaml").write_text("extends: base.yaml\n")
    with pytest.raises(DeclarationError) as caught:
        load_file(Path("cluster.yaml")).refuse_problems()
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "root:" not in str(caught.value)


def test_the_height_of_bases_is_bounded() -> None:
    """A long chain of files is refused at the limit."""
    for index in range(2000):
        Path(f"b{index}.yaml").write_text(f"extends: b{index + 1}.yaml\n")
    with pytest.raises(DeclarationError, match=r"b8\.yaml:1:10: extends: more than 8 bases extend one another"):
        load_file(Path("b0.yaml")).refuse_problems()


def test_stack_names() -> None:
    """No name of a stack leaves the folder of stacks."""
    Path("stacks").mkdir()
    Path("Pulumi.outside.yaml").write_text(EXAMPLE)
    for trick in TRICKS:
        for name in (trick, f"../{trick}", "../outside", f"{trick}/../../outside"):
            with pytest.raises(DeclarationError) as caught:
                load_stack(name, Path("stacks")).refuse_problems()
            assert all(line.isprintable() for line in str(caught.value).split("\n"))
