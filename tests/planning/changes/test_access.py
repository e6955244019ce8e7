"""A review reports gained and lost access."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.declaration import load_value
from stampworks.plan import Plan
from stampworks.planning import plan
from stampworks.planning.changes.access import named

from tests.planning.changes.test_changes import reviewed

KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43} alice@laptop"
OTHER = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'B' * 43}"
PRINTED = "SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk"
"""The fingerprint of the first key, as printed by ssh-keygen -l."""


def planned(*users: dict[str, Any]) -> Plan:
    value = {
        "version": 1,
        "name": "x",
        "cloud": "local",
        "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
        "groups": [{"name": "nlp", "gid": 3001}],
        "users": list(users),
    }
    return plan(load_value(value, "test"))


def test_a_key_is_shown_as_ssh_does() -> None:
    assert named(KEY) == f"{PRINTED} (alice@laptop)"


NONE = "access: no key logs in as alice, not even one in ~/.ssh/authorized_keys"
AGAIN = "so that those in ~/.ssh/authorized_keys are accepted again"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"keys": [KEY]}, {}, f"access: alice has no declared key any more, {AGAIN}"),
        ({"keys": [KEY]}, {"keys": []}, f"{NONE} (- {named(KEY)})"),
        ({}, {"keys": []}, NONE),
        ({"keys": []}, {}, f"access: alice is declared without a list of keys, {AGAIN}"),
        ({"keys": []}, {"keys": [OTHER]}, f"access: alice logs in with other keys: + {named(OTHER)}"),
    ],
)
def test_an_empty_list_of_keys_is_none(before: dict[str, Any], after: dict[str, Any], why: str) -> None:
    """It admits no key. Without a list, sshd uses its own default."""
    alice = {"name": "alice", "uid": 2001}
    [found] = reviewed(planned(alice | before), planned(alice | after)).changes
    assert (found.written, found.why) == ("users[alice].keys", why)


def test_changes_of_access() -> None:
    """Joining and leaving users, keys and groups are changes of access, and happen in place."""
    before = planned({"name": "alice", "uid": 2001, "keys": [KEY]}, {"name": "bob", "uid": 2002})
    after = planned(
        {"name": "alice", "uid": 2001, "keys": [OTHER], "groups": ["nlp"]},
        {"name": "carol", "uid": 2003, "keys": [KEY]},
    )
    found = {each.written: each for each in reviewed(before, after).changes}
    assert {written: each.why for written, each in found.items()} == {
        "users[alice].groups": "access: alice shares files with other groups: + nlp",
        "users[alice].keys": f"access: alice logs in with other keys: + {named(OTHER)}, - {named(KEY)}",
        "users[bob]": "access: bob can no longer log in or submit jobs; the home stays",
        "users[carol]": f"access: carol may submit jobs, and log in with {named(KEY)}",
    }
    assert {each.policy for each in found.values()} == {"in place"}
