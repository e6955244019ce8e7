"""A directory of users: refused values, their places, and hints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from stampworks.declaration import DeclarationError, load_file
from stampworks.plan import Plan
from stampworks.planning import plan

LDAP: dict[str, Any] = {
    "kind": "ldap",
    "uri": "ldaps://ldap.example.org",
    "base": "dc=example,dc=org",
    "id_min": 20_000,
    "id_max": 29_999,
}
DECLARATION: dict[str, Any] = {
    "version": 1,
    "name": "x",
    "cloud": "local",
    "pools": [{"name": "gpu", "machine": "sim-h100", "count": 1}],
    "storage": [{"name": "shared", "kind": "directory", "mount": "/shared"}],
    "users": [{"name": "alice", "uid": 2001}],
    "groups": [{"name": "nlp", "gid": 3001}],
}
ACCOUNTS = {"accounting": True, "accounts": [{"name": "research"}]}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n"


def planned(folder: Path, directory: dict[str, Any], **fields: Any) -> Plan:
    (folder / "x.yaml").write_text(yaml.safe_dump({**DECLARATION, **fields, "directory": directory}))
    return plan(load_file(folder / "x.yaml"))


def said(folder: Path, directory: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        planned(folder, directory, **fields)
    return "; ".join(f"{each.path}: {each.message}" for each in caught.value.problems)


def test_planned_directory(tmp_path: Path) -> None:
    """An ldap:// URI uses StartTLS by default; homes are on the storage that all nodes share."""
    made = planned(tmp_path, LDAP).directory
    assert made
    assert (made.uri, made.start_tls, made.homes, made.account) == (LDAP["uri"], False, "/shared/home", "")
    clear = planned(tmp_path, {**LDAP, "uri": "ldap://10.0.0.5:389"}).directory
    assert clear
    assert clear.start_tls
    off = planned(tmp_path, {**LDAP, "uri": "ldap://10.0.0.5", "tls": "off"}).directory
    assert off
    assert not off.start_tls


def test_only_its_clusters_have_its_packages(tmp_path: Path) -> None:
    """Images of all other clusters are unchanged."""
    packages = {"libnss-sss", "libpam-sss", "sssd-ldap"}
    with_it, without = planned(tmp_path, LDAP).release, planned(tmp_path, {}).release
    assert dict(with_it.packages)["directory"] == tuple(sorted(packages))
    assert [each for each in with_it.packages if each[0] != "directory"] == [*without.packages]


@pytest.mark.parametrize(
    ("directory", "message"),
    [
        ({"uri": "https://x"}, "directory.uri: 'https://x' is no URI of a directory"),
        ({"uri": "ldaps://a b"}, "directory.uri: 'ldaps://a b' is no URI of a directory"),
        ({"uri": ""}, "directory.uri: is missing"),
        ({"base": "example.org"}, "directory.base: 'example.org' is no plain name of an entry"),
        ({"base": "dc=a\nldap_uri = b"}, "directory.base: 'dc=a\\nldap_uri = b' is no plain name of an entry"),
        ({"bind": "cn={{ x }}"}, "directory.bind: 'cn={{ x }}' is no plain name of an entry"),
        ({"id_min": None}, "directory.id_min: is missing"),
        ({"id_min": 30_000}, "directory.id_max: 29999 is smaller than id_min, 30000"),
        ({"id_min": 999}, "directory.id_min: must be from 1000 to 4000000000, not 999"),
        (
            {"id_min": 2000, "id_max": 2001},
            "users[0].uid: 2001 is in the range of the directory, 2000 to 2001: another user",
        ),
        ({"id_min": 3000}, "groups[0].gid: 3001 is in the range of the directory, 3000 to 29999: another user may"),
        ({"tls": "off"}, "directory.tls: ldaps:// is TLS, which nothing turns off"),
        ({"access_groups": ["sudo"]}, "directory.access_groups[0]: 'sudo' is a group of the system"),
        ({"ca": "x"}, "directory.ca: this is no certificate in PEM, or not all of it"),
        ({"ca": "-----BEGIN PRIVATE KEY-----"}, "directory.ca: there is a private key in it"),
        ({"ca": {"file": "absent.pem"}}, "directory.ca: absent.pem cannot be read: no such file or directory"),
        ({"account": "research"}, "directory.account: no account is called 'research'"),
        ({"password": "x"}, "directory.password: "),
    ],
)
def test_refused_directories(tmp_path: Path, directory: dict[str, Any], message: str) -> None:
    assert said(tmp_path, {**LDAP, **directory}).startswith(message)


def test_a_password_never_goes_in_the_clear(tmp_path: Path) -> None:
    clear = {**LDAP, "uri": "ldap://10.0.0.5", "tls": "off", "bind": "cn=reader,dc=example,dc=org"}
    assert said(tmp_path, clear) == "directory.tls: the password of bind would go to the server in the clear"


def test_jobs_need_an_account_where_there_are_accounts(tmp_path: Path) -> None:
    """Slurm refuses other jobs, and only groups assign users to accounts."""
    needed = "Slurm runs jobs only of people with an account, and people of the directory have none"
    assert said(tmp_path, LDAP, scheduler=ACCOUNTS) == f"directory.account: {needed}"
    nobody = "no rule assigns its jobs: a directory is never listed as a whole"
    assert said(tmp_path, {**LDAP, "account": "research"}, scheduler=ACCOUNTS) == f"directory.account: {nobody}"
    fine = planned(tmp_path, {**LDAP, "account": "research", "access_groups": ["ml"]}, scheduler=ACCOUNTS)
    assert fine.directory
    assert (fine.directory.account, fine.directory.access_groups) == ("research", ("ml",))


def test_homes_need_storage(tmp_path: Path) -> None:
    needed = "people of a directory have one home on all nodes, and there is no file system that could have it"
    assert said(tmp_path, LDAP, storage=[]) == f"directory.kind: {needed}"


def test_pods_know_no_people_of_a_node(tmp_path: Path) -> None:
    why = "people of a directory log in to nodes, and pods do not have the accounts of their node"
    assert said(tmp_path, LDAP, scheduler={"kind": "kubernetes"}).startswith(f"directory.kind: {why}")


def test_a_release_without_its_packages(tmp_path: Path) -> None:
    pools = [{"name": "gpu", "machine": "g6-8xlarge", "count": 1, "zone": "us-east-1a"}]
    aws = {"cloud": "aws", "region": "us-east-1", "pools": pools, "release": "2026.11-amazon"}
    lustre = [{"name": "shared", "kind": "efs", "mount": "/shared"}]
    why = "directory.kind: release 2026.11-amazon has no packages with which nodes could ask a directory"
    assert why in said(tmp_path, LDAP, storage=lustre, **aws)


def test_fields_of_no_directory(tmp_path: Path) -> None:
    assert said(tmp_path, {"uri": "ldaps://a"}) == "directory.uri: nothing asks a directory of kind none"


def test_certificates_in_a_file(tmp_path: Path) -> None:
    """Text around them is left out."""
    (tmp_path / "ca.pem").write_text(f"subject=CN = tests\n{CERTIFICATE}\n{CERTIFICATE}")
    made = planned(tmp_path, {**LDAP, "ca": {"file": "ca.pem"}}).directory
    assert made
    assert made.ca == CERTIFICATE * 2
