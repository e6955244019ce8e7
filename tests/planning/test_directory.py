"""Fields of a directory: their effect on plans, the policy of a change, and their findings."""

from __future__ import annotations

from typing import Any

import pytest
from stampworks.changes.review import Review
from stampworks.declaration import change_of
from stampworks.plan import Plan, fingerprint
from stampworks.planning.cost import cost
from stampworks.views.comparison import ComparedSide, comparison_text
from stampworks.views.plan import plan_text

from tests.planning.changes.test_changes import reviewed
from tests.planning.test_fingerprint import OF_DIRECTORY, changed, planned

LDAP: dict[str, Any] = {
    "kind": "ldap",
    "uri": "ldap://ldap.example.org",
    "base": "dc=example,dc=org",
    "access_groups": ["ml", "ops"],
    "account": "research",
    "id_min": 20_000,
    "id_max": 29_999,
}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n"
ANOTHER = "access: another directory decides which users log in, and with which keys"
OTHERS: dict[str, tuple[Any, str, str]] = {
    "uri": ("ldaps://b.org", "directory uri: ldap://ldap.example.org in a, ldaps://b.org in b", ANOTHER),
    "base": ("dc=b", "directory base: dc=example,dc=org in a, dc=b in b", ANOTHER),
    "tls": (
        "off",
        "directory start tls: yes in a, no in b",
        "access: an attacker on the network can decide which users log in",
    ),
    "ca": (CERTIFICATE, "directory ca: none in a, -----BEGIN CERTIFICATE-----", ANOTHER),
    "bind": ("cn=reader,dc=b", "directory bind: none in a, cn=reader,dc=b in b", ""),
    "group_members": ("entries", "directory group members: names in a, entries in b", ""),
    "access_groups": (
        ["ml", "nlp"],
        "directory access groups: ml, ops in a, ml, nlp in b",
        "access: members of other groups of the directory log in: + nlp, - ops",
    ),
    "account": ("product", "directory account: research in a, product in b", ""),
    "id_min": (21_000, "directory id min: 20000 in a, 21000 in b", ""),
    "id_max": (30_000, "directory id max: 29999 in a, 30000 in b", ""),
}


def of(**fields: Any) -> Plan:
    return planned(changed("directory", {**LDAP, **fields}))


WITHOUT, PLAN = planned(changed("directory", {})), of()


def test_no_field_is_forgotten() -> None:
    assert {f"directory.{field}" for field in (*OTHERS, "kind")} == OF_DIRECTORY


@pytest.mark.parametrize("field", OTHERS)
def test_every_field_counts(field: str) -> None:
    """Each field counts for siblings, has words, and has a policy in a review."""
    value, words, access = OTHERS[field]
    other = of(**{field: value})
    assert fingerprint(other) != fingerprint(PLAN)
    assert words in comparison_text(ComparedSide("a", PLAN), ComparedSide("b", other))
    found = {each.field: each for each in reviewed(PLAN, other).changes}
    assert found[f"directory.{field}"].policy == change_of(f"directory.{field}")
    assert found[f"directory.{field}"].why == access


def only(found: Review) -> tuple[str, str | None, str]:
    [change] = [each for each in found.changes if each.field != "release"]  # other packages are a part of it
    return change.field, change.policy, change.why


def test_one_that_comes_and_goes() -> None:
    """All nodes are rolled, because their image has other packages; the review names the change of access."""
    who = "members of ml, ops of ldap://ldap.example.org"
    assert only(reviewed(WITHOUT, PLAN)) == ("directory.kind", "roll", f"access: {who} may log in and submit jobs")
    gone = "access: people of ldap://ldap.example.org can no longer log in or submit jobs; homes stay"
    assert only(reviewed(PLAN, WITHOUT)) == ("directory.kind", "roll", gone)
    assert sum(each.count for each in reviewed(WITHOUT, PLAN).restart) == 6
    created = [each.why for each in reviewed(None, PLAN).changes if each.field == "directory.kind"]
    assert created == [f"access: {who} may log in and submit jobs"]
    assert "directory: none in a, ldap://ldap.example.org in b" in comparison_text(
        ComparedSide("a", WITHOUT), ComparedSide("b", PLAN)
    )


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (["ml"], [], "access: all users of the directory may log in"),
        ([], ["ml"], "access: of the directory only members of ml may log in"),
    ],
)
def test_access_of_users(before: list[str], after: list[str], why: str) -> None:
    def of_groups(names: list[str]) -> Plan:
        data = changed("directory", {**LDAP, "account": None, "access_groups": names})
        data["users"][0]["accounts"] = []
        data["scheduler"] |= {"accounts": [], "accounting": False}
        return planned(data)

    assert only(reviewed(of_groups(before), of_groups(after))) == ("directory.access_groups", "in place", why)


def test_it_is_shown() -> None:
    clear = of(tls="off")
    said = " ".join(plan_text(PLAN, cost(PLAN), ()).split())
    shown = "Directory ldap://ldap.example.org, below dc=example,dc=org: members of ml, ops may log in"
    assert f"{shown}, charged to research; ids 20000 to 29999, homes in /shared/home" in said
    assert "WITHOUT TLS" not in said
    assert "WITHOUT TLS" in " ".join(plan_text(clear, cost(clear), ()).split())
