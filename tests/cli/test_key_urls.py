"""SSH keys of users at URLs: `stampworks lock` fetches them from a real server on the loopback; no other verb does."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stampworks.changes.review import Review
from stampworks.cli import key_urls
from stampworks.cli.main import main
from stampworks.declaration import (
    DeclarationError,
    Lock,
    LockedHost,
    LockedRail,
    load_file,
    lock_file,
    lock_text,
    read_lock,
)
from stampworks.planning import plan
from stampworks.planning.changes.review import ReviewedStack, review

from tests.clouds.served import Page, Served, served

KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43}"
OTHER = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'B' * 43}"
FINGERPRINT = "SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk"
DECLARATION = """\
version: 1
name: x
cloud: local
pools: [{{name: gpu, machine: sim-h100, count: 1}}]
users:
  - name: alice
    uid: 2001
    keys: {keys}
"""


@pytest.fixture
def forge() -> Iterator[Served]:
    """Run a server with keys of users at its paths."""
    with served() as forge:
        moved = Page(status=302, location=f"{forge.url}/alice.keys")
        forge.pages |= {"/moved": moved, "/gone": Page(status=404), "/broken": Page(status=503)}
        yield forge


Declare = Callable[[str], Path]


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    monkeypatch.chdir(tmp_path)

    def write(keys: str) -> Path:
        (tmp_path / "test.yaml").write_text(DECLARATION.format(keys=keys))
        return tmp_path / "test.yaml"

    return write


def keys_of(file: Path) -> tuple[str, ...]:
    return load_file(file).declaration.users[0].keys


def words(text: str) -> str:
    return " ".join(text.split())


def test_only_a_lock_changes_who_logs_in(forge: Served, declare: Declare, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has the keys of the lock until it is written again. Then a review shows a change of access."""
    url = f"{forge.url}/alice.keys"
    file = declare(f'[{{url: "{url}"}}]')
    forge.pages["/alice.keys"] = Page(f"# alice\r\n{KEY} Alice (forge.example)\r\n\r\n{KEY}\n".encode())
    assert main(["lock", "test.yaml"]) == 0
    said = f"test.lock.json: looked up\n  {url}, 1 key of alice\n    + {FINGERPRINT}\n"
    assert capsys.readouterr().out == said
    assert json.loads((file.parent / "test.lock.json").read_text())["keys"] == {url: [KEY]}
    before = plan(load_file(file))

    forge.pages["/alice.keys"] = Page(f"{OTHER} alice@laptop\n".encode())
    assert main(["plan", "test.yaml"]) == 0
    assert plan(load_file(file)) == before
    assert forge.asked == ["/alice.keys"]

    assert main(["lock", "test.yaml"]) == 0
    after = plan(load_file(file))
    assert after.users[0].keys == (f"{OTHER} alice@laptop",)
    shown: Review = review("x", ReviewedStack("a", before, contents={}), ReviewedStack("b", after, contents={}))
    [change] = shown.changes
    assert change.why.startswith("access: alice logs in with other keys: + SHA256:X75Mb3nqVpJG3UuCRMIO94EyEAtegd44")
    assert f"- {FINGERPRINT}" in change.why

    capsys.readouterr()
    assert main(["lock", "test.yaml"]) == 0
    assert capsys.readouterr().out == f"test.lock.json: nothing is newer\n  {url}, 1 key of alice\n"
    declare("[]")
    assert main(["lock", "test.yaml"]) == 2
    assert "no user has keys at a URL" in words(capsys.readouterr().err)


def test_this_machine_is_asked_without_a_proxy(
    forge: Served, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A company's proxy does not reach a server on the loopback."""
    file = declare(f'[{{url: "{forge.url}/alice.keys"}}]')
    forge.pages["/alice.keys"] = Page(f"{KEY}\n".encode())
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert main(["lock", "test.yaml"]) == 0
    assert keys_of(file) == (KEY,)


def test_a_url_that_was_not_looked_up(declare: Declare) -> None:
    """The problem has the position of the URL and a hint. Keys of an old file in a home are not used."""
    file = declare(f"['{KEY}', {{url: https://forge.example/alice.keys}}]")
    with pytest.raises(DeclarationError) as caught:
        load_file(file).refuse_problems()
    [problem] = caught.value.problems
    assert (problem.line, problem.path, problem.message) == (
        8,
        "users[0].keys[1]",
        "which keys https://forge.example/alice.keys has was not looked up",
    )
    assert problem.hint == "`stampworks lock -s STACK` looks them up, and keeps them beside the stack's file"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://forge.example/a", "'http://forge.example/a' is not https, so that anybody on the way could add a key"),
        ("ftp://forge.example/a", "'ftp://forge.example/a' is no URL that begins with https://"),
        ("https://", "'https://' is no URL that begins with https://"),
        ("https://[::1/a", "'https://[::1/a' is no URL"),
        ("https://forge.example:x/a", "'https://forge.example:x/a' is no URL"),
        ("https://a b/c", "'https://a b/c' is no URL that begins with https://"),
        ("https://me:pw@forge.example/a", "the URL has a user or a password, and the lock that names it is no place"),
        ("https://forge.example/a#b", "'https://forge.example/a#b' names a part of a page"),
        ("http://localhost.forge.example/a", "'http://localhost.forge.example/a' is not https"),
    ],
)
def test_urls_that_are_refused(declare: Declare, url: str, message: str) -> None:
    """The URL is refused before any request, also by `stampworks lock`."""
    file = declare(f"[{{url: '{url}'}}]")
    for locked in (True, False):
        [problem] = load_file(file, locked=locked).problems
        assert (problem.path, problem.message[: len(message)]) == ("users[0].keys[0]", message)
    assert load_file(file).key_urls == ()


@pytest.mark.parametrize(
    ("path", "page", "code", "message"),
    [
        ("/page", b"\n<!DOCTYPE html>", 2, "/page, line 2: '<!DOCTYPE' is not a type of public key"),
        ("/options", f'command="sh" {KEY}'.encode(), 2, "/options, line 1: a key has options in front of it"),
        ("/private", b"-----BEGIN OPENSSH PRIVATE KEY-----", 2, "/private, line 1: this is a private key"),
        ("/cut", f"{OTHER}\n{KEY[:-9]}".encode(), 2, "/cut, line 2: the text after ssh-ed25519 is not a key of thi"),
        ("/empty", b"", 2, "/empty has no key"),
        ("/bytes", b"\xff", 2, "/bytes has no public keys: it is no plain text"),
        ("/large", b"#" * 16_385, 2, "/large has more than 16 KiB, which is no list of keys"),
        ("/gone", b"", 2, "/gone has nothing: the server answers 404"),
        ("/moved", b"", 2, "/alice.keys': write the URL that has the keys"),
        ("/broken", b"", 3, "/broken was not told: the server answers 503"),
    ],
)
def test_answers_that_are_no_keys(
    forge: Served,
    declare: Declare,
    capsys: pytest.CaptureFixture[str],
    path: str,
    page: bytes,
    code: int,
    message: str,
) -> None:
    """The message has URL and line, and stands where the URL is declared. The lock stays as it was."""
    file = declare(f"['{KEY}', {{url: '{forge.url}{path}'}}]")
    forge.pages.setdefault(path, Page(page))
    assert main(["lock", "test.yaml"]) == code
    said = words(capsys.readouterr().err)
    assert "test.yaml:8:" in said
    assert f"users[0].keys[1]: {forge.url}{path}" in said
    assert message in said
    assert not (file.parent / "test.lock.json").exists()
    assert "/alice.keys" not in forge.asked


def test_a_server_that_never_ends(
    forge: Served, declare: Declare, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server sends a little again and again, so that no single read times out."""
    monkeypatch.setattr(key_urls, "TIMEOUT_S", 0.3)
    forge.drips = True
    declare(f"[{{url: '{forge.url}/slow'}}]")
    begun = time.monotonic()
    assert main(["lock", "test.yaml"]) == 3
    assert time.monotonic() - begun < 5
    assert f"{forge.url}/slow did not answer within 0.3 s" in words(capsys.readouterr().err)


def test_a_server_that_is_not_there(declare: Declare, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:  # taken, but not listening
        taken.bind(("127.0.0.1", 0))
        declare(f"[{{url: 'http://127.0.0.1:{taken.getsockname()[1]}/a'}}]")
        assert main(["lock", "test.yaml"]) == 3
    assert "/a did not answer: [Errno 111] Connection refused" in words(capsys.readouterr().err)


def test_a_key_that_is_published_twice(forge: Served, declare: Declare) -> None:
    """Two forges have the same key of a person, and the declaration has it, too: it counts once."""
    file = declare(f"['{KEY}', {{url: '{forge.url}/one'}}, {{url: '{forge.url}/two'}}]")
    forge.pages |= {"/one": Page(f"{KEY}\n{OTHER}".encode()), "/two": Page(f"{OTHER}\n{KEY}".encode())}
    assert main(["lock", "test.yaml"]) == 0
    assert keys_of(file) == (KEY, OTHER)


def test_too_many_keys(forge: Served, declare: Declare, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys that a plan would refuse are not written."""
    many = [f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{chr(65 + index) * 42}" for index in range(21)]
    file = declare(f"[{{url: '{forge.url}/many'}}]")
    forge.pages["/many"] = Page("\n".join(many).encode())
    assert main(["lock", "test.yaml"]) == 2
    assert "users[0].keys: has 21 entries, and 20 at most" in words(capsys.readouterr().err)
    assert not (file.parent / "test.lock.json").exists()


def test_the_lock_of_own_images_keeps_them(forge: Served, declare: Declare) -> None:
    """Published images would take their place on every node; keys are looked up beside them."""
    image = {"id": "ami-0123456789abcdef0", "name": "own", "created": "2026-11-02"}
    own = {"version": 1, "region": "us-east-1", "images": {"/p": image}, "made_with": "2026.11"}
    file = declare(f"[{{url: '{forge.url}/alice.keys'}}]")
    (file.parent / "test.lock.json").write_text(json.dumps(own))
    forge.pages["/alice.keys"] = Page(KEY.encode())
    assert main(["lock", "test.yaml"]) == 0
    written = json.loads((file.parent / "test.lock.json").read_text())
    assert written == {**own, "keys": {f"{forge.url}/alice.keys": [KEY]}}


def test_a_lock_keeps_machines(forge: Served, declare: Declare) -> None:
    """`stampworks hosts lock` has found them; without them, no plan on hosts would be there to lock keys for."""
    forge.pages["/alice.keys"] = Page(f"{KEY}\n".encode())
    file = declare(f'[{{url: "{forge.url}/alice.keys"}}]')
    listed = "hosts: {machines: [{address: 10.0.0.1, group: head}, {address: 10.0.0.2, group: gpu}]}\n"
    file.write_text(file.read_text().replace("cloud: local", "cloud: hosts") + listed)
    rails = tuple(LockedRail(f"rail{index}", "") for index in range(2))
    machines = tuple(
        LockedHost(f"10.0.0.{number}", 22, "", f"{KEY[:-1]}{number}", f"{number:032x}", group, "", ports)
        for number, group, ports in ((1, "head", ()), (2, "gpu", rails))
    )
    lock_file(file).write_text(lock_text(Lock(hosts=machines)))
    assert main(["lock", str(file)]) == 0
    assert read_lock(file).hosts == machines
    assert keys_of(file) == (KEY,)
    assert main(["lock", str(file)]) == 0
    assert read_lock(file).hosts == machines
