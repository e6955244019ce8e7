"""Ask URLs for the public keys of users, as forges publish them. Only `stampworks lock` does."""

from __future__ import annotations

import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stampworks.cli.accounts import AccountUnansweredError

if TYPE_CHECKING:
    from stampworks.declaration.key_files import KeyUrl

TIMEOUT_S = 30
"""Seconds for all URLs together."""
AT_A_TIME = 16
AGAIN = "see whether it can be reached from here, and look again"
REFUSED = "check the URL, or remove the entry"


class _UnansweredError(Exception):
    """The server did not answer, or not with keys."""


class _NoKeysError(Exception):
    """An answer that is no list of public keys."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: keys come only from the reviewed URL."""

    def redirect_request(self, *_: Any) -> None:
        return None


def looked_up(asked: Sequence[KeyUrl]) -> dict[str, tuple[str, ...]]:
    """Return the keys by URL.

    Raise DeclarationError with all invalid answers, or else AccountUnansweredError for the first URL without an answer.
    """
    from stampworks.declaration import DeclarationError

    answers = _answers(list(dict.fromkeys(each.url for each in asked)))
    said = [(each, answers[each.url]) for each in asked]
    if refused := [each.problem(str(answer), REFUSED) for each, answer in said if isinstance(answer, _NoKeysError)]:
        raise DeclarationError(refused)
    for each, answer in said:
        if isinstance(answer, _UnansweredError):
            raise AccountUnansweredError(each.problem(str(answer), AGAIN))
    return {each.url: answer for each, answer in said if isinstance(answer, tuple)}


def _answers(urls: Sequence[str]) -> Mapping[str, tuple[str, ...] | Exception]:
    """Ask all URLs, some in parallel. A slow server gets no more time than a silent one.

    A thread that is still waiting then is left to end with the process.
    """
    found: dict[str, tuple[str, ...] | Exception] = {}
    turns = threading.Semaphore(AT_A_TIME)

    def ask(url: str) -> None:
        with turns:
            try:
                found[url] = tuple(_keys(url, _answer(url)))
            except (_UnansweredError, _NoKeysError) as error:
                found[url] = error

    threads = [threading.Thread(target=ask, args=(url,), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    end = time.monotonic() + TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {url: found.get(url, _UnansweredError(f"{url} did not answer within {TIMEOUT_S} s")) for url in urls}


def _answer(url: str) -> bytes:
    from stampworks.declaration.key_files import FILE_SIZE_MAX
    from stampworks.declaration.keys import LOOPBACK
    from stampworks.declaration.wording import shown

    local = urlsplit(url).hostname in LOOPBACK
    handlers = [_NoRedirects(), *([urllib.request.ProxyHandler({})] if local else [])]
    request = urllib.request.Request(url, headers={"Accept": "text/plain", "User-Agent": "stampworks"})  # noqa: S310
    try:  # the scheme is https, or http of this machine: the declaration refuses others
        with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S) as opened:
            content: bytes = opened.read(FILE_SIZE_MAX + 1)
    except urllib.error.HTTPError as error:
        error.close()
        if 300 <= error.code < 400:
            elsewhere = shown(error.headers.get("Location", ""))
            raise _NoKeysError(f"{url} leads to {elsewhere}: write the URL that has the keys") from None
        if error.code in (404, 410):
            raise _NoKeysError(f"{url} has nothing: the server answers {error.code}") from None
        raise _UnansweredError(f"{url} was not told: the server answers {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise _UnansweredError(f"{url} did not answer: {reason}") from None
    if len(content) > FILE_SIZE_MAX:
        raise _NoKeysError(f"{url} has more than {FILE_SIZE_MAX // 1024} KiB, which is no list of keys")
    return content


def _keys(url: str, content: bytes) -> Iterator[str]:
    """Yield the keys of an answer, each once.

    Forges add comments of their own. A comment that is not plain is left out, and the key stays.
    """
    from pydantic_core import PydanticCustomError

    from stampworks.declaration.keys import COMMENT_PATTERN, identity, public_key

    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise _NoKeysError(f"{url} has no public keys: it is no plain text") from None
    seen = set[tuple[str, ...]]()
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        comment = line.split(None, 2)[2:]
        plain = line if all(re.fullmatch(COMMENT_PATTERN, each) for each in comment) else " ".join(identity(line))
        try:
            key = public_key(plain)
        except PydanticCustomError as error:
            raise _NoKeysError(f"{url}, line {number}: {error.message()}") from None
        if identity(key) not in seen:
            seen.add(identity(key))
            yield key
    if not seen:
        raise _NoKeysError(f"{url} has no key")
