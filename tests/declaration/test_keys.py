"""Keys and groups of users: their form, files with keys, and names and numbers that are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.declaration import DeclarationError, load_file

KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43}"
OTHER = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'B' * 43}"
DECLARATION = """\
version: 1
name: x
cloud: local
pools: [{{name: gpu, machine: sim-h100, count: 1}}]
groups: {groups}
users:
  - {{name: alice, uid: 2001, groups: [nlp], keys: {keys}}}
  - {{name: bob, uid: 2002}}
"""
GROUPS = "[{name: nlp, gid: 3001}]"


def load(tmp_path: Path, keys: str, groups: str = GROUPS) -> tuple[str, ...]:
    (tmp_path / "cluster.yaml").write_text(DECLARATION.format(keys=keys, groups=groups))
    return load_file(tmp_path / "cluster.yaml").declaration.users[0].keys


def said(tmp_path: Path, keys: str, groups: str = GROUPS) -> str:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path, keys, groups)
    return "; ".join(f"{each.path}: {each.message}" for each in caught.value.problems)


def test_a_key_and_a_file_of_keys(tmp_path: Path) -> None:
    """Lines of a file are keys like others; comments and blank lines are ignored."""
    (tmp_path / "alice.pub").write_text(f"# laptop\n{OTHER}  alice@laptop\n\n")
    assert load(tmp_path, f"['{KEY} ', {{file: alice.pub}}]") == (KEY, f"{OTHER} alice@laptop")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "this is a private key, which must never leave its owner's machine"),
        (f"no-pty {KEY}", "a key has options in front of it"),
        (f'command="sh" {KEY}', "a key has options in front of it"),
        ("ssh-dss AAAA", "'ssh-dss' is not a type of public key that is accepted"),
        (KEY[:40], "the text after ssh-ed25519 is not a key of this type, or is cut short"),
        (KEY.replace("ssh-ed25519", "ssh-rsa"), "the text after ssh-rsa is not a key of this type, or is cut short"),
        (f"{KEY} {{{{ x }}}}", "the key's comment '{{ x }}' has other characters"),
        (f"{KEY}\\n{OTHER}", "a key is one line, and this has several"),
        ("", "'' is not a type of public key that is accepted"),
    ],
)
def test_invalid_public_keys(tmp_path: Path, key: str, message: str) -> None:
    """Each key is refused at its position, and private keys are not shown."""
    quoted = key.replace('"', '\\"')
    assert said(tmp_path, f'["{OTHER}", "{quoted}"]') == f"users[0].keys[1]: {message}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.pub", None, "absent.pub cannot be read: no such file or directory"),
        ("../x.pub", None, "../x.pub lies outside of the project"),
        (
            "x.pub",
            b"-----BEGIN RSA PRIVATE KEY-----\n",
            "x.pub holds a private key, which must never leave its owner's machine",
        ),
        ("x.pub", b"\n# nobody\n", "x.pub holds no key"),
        ("x.pub", b"\xff\x00", "x.pub has no public keys: it is not plain text"),
        ("x.pub", b"#" * 20_000, "x.pub has no public keys: it is larger than 16 KiB"),
    ],
)
def test_files_without_keys(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    """The problem is reported where the file is named."""
    (tmp_path / "Pulumi.yaml").touch()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert said(tmp_path, f"[{{file: {name}}}]") == f"users[0].keys[0]: {message}"


def test_the_same_key_twice(tmp_path: Path) -> None:
    """The second key may be in a file."""
    (tmp_path / "alice.pub").write_text(f"{KEY}\n")
    assert said(tmp_path, f"['{KEY}', {{file: alice.pub}}]") == "users[0].keys[1]: this key is there twice"


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("{name: sudo, gid: 3002}", "groups[1].name: 'sudo' is a group of the system"),
        ("{name: wheel, gid: 3002}", "groups[1].name: 'wheel' is a group of the system"),
        ("{name: Team, gid: 3002}", "groups[1].name: 'Team' is not a legal name of a group"),
        ("{name: nlp, gid: 3002}", "groups[1].name: a second group is called 'nlp'"),
        ("{name: other, gid: 3001}", "groups[1].gid: a second group has the gid 3001"),
        ("{name: bob, gid: 3002}", "groups[1].name: 'bob' is the name of the own group of users[1]"),
        ("{name: other, gid: 2002}", "groups[1].gid: '2002' is the gid of the own group of users[1]"),
        ("{name: other, gid: 27}", "groups[1].gid: must be from 1000 to 60000, not 27"),
    ],
)
def test_groups_that_would_be_others(tmp_path: Path, group: str, message: str) -> None:
    assert said(tmp_path, "[]", f"[{{name: nlp, gid: 3001}}, {group}]") == message


def test_a_group_that_is_not_declared(tmp_path: Path) -> None:
    assert said(tmp_path, "[]", "[{name: nlq, gid: 3001}]") == "users[0].groups[0]: no group is called 'nlp'"
