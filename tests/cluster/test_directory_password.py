"""The password of a directory is a secret of the stack: the program ends if it is missing or unencrypted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pulumi
import pytest
from stampworks.cluster import directory
from stampworks.declaration import load_value
from stampworks.plan import Plan
from stampworks.planning import plan

pytestmark = pytest.mark.usefixtures("pulumi_loops")
KEY = "stampworks:directoryPassword"
DECLARED = {
    "version": 1,
    "name": "x",
    "cloud": "local",
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
    "storage": [{"name": "shared", "kind": "directory", "mount": "/shared"}],
    "directory": {
        "kind": "ldap",
        "uri": "ldaps://ldap.example.org",
        "base": "dc=example,dc=org",
        "bind": "cn=reader,dc=example,dc=org",
        "id_min": 20_000,
        "id_max": 29_999,
    },
}


@pytest.fixture(autouse=True)
def _configuration() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan(load_value(DECLARED, "test"))


@pytest.mark.parametrize(
    ("password", "secret", "problem"),
    [
        (None, True, "the stack has no password for it"),
        ("", True, "the stack has no password for it"),
        ("open", False, "its password is unencrypted in the stack's file"),
        ("two\nlines", True, "its password has characters that settings of SSSD cannot have"),
        (" blank", True, "its password has characters that settings of SSSD cannot have"),
        ("good enough", True, ""),
    ],
)
def test_password_problems_end_the_program(planned: Plan, password: str | None, secret: bool, problem: str) -> None:
    """No error shows the password."""
    values = {} if password is None else {KEY: password}
    pulumi.runtime.set_all_config(values, [KEY] if secret else [])
    assert directory.password_problem(planned) == problem


def test_anonymous_bind_needs_no_password(planned: Plan) -> None:
    assert planned.directory
    pulumi.runtime.set_all_config({}, [])
    for made in (replace(planned, directory=None), replace(planned, directory=replace(planned.directory, bind=""))):
        assert directory.password_problem(made) == ""
        assert directory.secrets(made) == {}


def test_it_is_a_secret_of_the_playbook(planned: Plan) -> None:
    pulumi.runtime.set_all_config({KEY: "good enough"}, [KEY])
    assert list(directory.secrets(planned)) == ["directory_password"]
