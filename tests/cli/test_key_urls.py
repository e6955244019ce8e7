"""SSH keys of users at URLs: `stampworks lock` fetches them from a real server on the loopback; no other verb does."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from stampworks.changes.review import Review
from stampworks.cli import key_urls
from stampworks.cli.main import main
from stampworks.declaration import DeclarationError, load_file
from stampworks.planning import plan
from stampworks.planning.changes.review import ReviewedStack, review

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


class Forge:
    """A server with a content for each path, which records its requests."""

    def __init__(self) -> None:
        forge = self
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.drips = False

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                forge.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        page = self.pages.get(handler.path, b"")
        if handler.path == "/moved":
            handler.send_response(302)
            handler.send_header("Location", f"{self.url}/alice.keys")
        else:
            handler.send_response({"/gone": 404, "/broken": 503}.get(handler.path, 200))
        handler.end_headers()
        while self.drips:
            handler.wfile.write(b"#\n")
            handler.wfile.flush()
            time.sleep(0.05)
        handler.wfile.write(page)


@pytest.fixture
def forge() -> Iterator[Forge]:
    forge = Forge()
    thread = threading.Thread(target=forge.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield forge
    forge.drips = False
    forge.server.shutdown()
    forge.server.server_close()


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


def test_only_a_lock_changes_who_logs_in(forge: Forge, declare: Declare, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has the keys of the lock until it is written again. Then a review shows a change of access."""
    url = f"{forge.url}/alice.keys"
    file = declare(f'[{{url: "{url}"}}]')
    forge.pages["/alice.keys"] = f"# alice\r\n{KEY} Alice (forge.example)\r\n\r\n{KEY}\n".encode()
    assert main(["lock", "test.yaml"]) == 0
    said = f"test.lock.json: looked up\n  {url}, 1 key of alice\n    + {FINGERPRINT}\n"
    assert capsys.readouterr().out == said
    assert json.loads((file.parent / "test.lock.json").read_text())["keys"] == {url: [KEY]}
    before = plan(load_file(file))

    forge.pages["/alice.keys"] = f"{OTHER} alice@laptop\n".encode()
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
    forge: Forge,
    declare: Declare,
    capsys: pytest.CaptureFixture[str],
    path: str,
    page: bytes,
    code: int,
    message: str,
) -> None:
    """The message has URL and line, and stands where the URL is declared. The lock stays as it was."""
    file = declare(f"['{KEY}', {{url: '{forge.url}{path}'}}]")
    forge.pages[path] = page
    assert main(["lock", "test.yaml"]) == code
    said = words(capsys.readouterr().err)
    assert "test.yaml:8:" in said
    assert f"users[0].keys[1]: {forge.url}{path}" in said
    assert message in said
    assert not (file.parent / "test.lock.json").exists()
    assert "/alice.keys" not in forge.asked


def test_a_server_that_never_ends(
    forge: Forge, declare: Declare, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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


def test_a_key_that_is_published_twice(forge: Forge, declare: Declare) -> None:
    """Two forges have the same key of a person, and the declaration has it, too: it counts once."""
    file = declare(f"['{KEY}', {{url: '{forge.url}/one'}}, {{url: '{forge.url}/two'}}]")
    forge.pages |= {"/one": f"{KEY}\n{OTHER}".encode(), "/two": f"{OTHER}\n{KEY}".encode()}
    assert main(["lock", "test.yaml"]) == 0
    assert keys_of(file) == (KEY, OTHER)


def test_too_many_keys(forge: Forge, declare: Declare, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys that a plan would refuse are not written."""
    many = [f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{chr(65 + index) * 42}" for index in range(21)]
    file = declare(f"[{{url: '{forge.url}/many'}}]")
    forge.pages["/many"] = "\n".join(many).encode()
    assert main(["lock", "test.yaml"]) == 2
    assert "users[0].keys: has 21 entries, and 20 at most" in words(capsys.readouterr().err)
    assert not (file.parent / "test.lock.json").exists()


def test_the_lock_of_own_images_keeps_them(forge: Forge, declare: Declare) -> None:
    """Published images would replace them on every node; keys are looked up as well."""
    image = {"id": "ami-0123456789abcdef0", "name": "own", "created": "2026-11-02"}
    own = {"version": 1, "region": "us-east-1", "images": {"/p": image}, "made_with": "2026.11"}
    file = declare(f"[{{url: '{forge.url}/alice.keys'}}]")
    (file.parent / "test.lock.json").write_text(json.dumps(own))
    forge.pages["/alice.keys"] = KEY.encode()
    assert main(["lock", "test.yaml"]) == 0
    written = json.loads((file.parent / "test.lock.json").read_text())
    assert written == {**own, "keys": {f"{forge.url}/alice.keys": [KEY]}}
