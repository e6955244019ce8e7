"""The form of public ssh keys."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from stampworks.declaration.forms import TextForm, wrong
from stampworks.declaration.wording import only, shown

KEY_TYPES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
)
# A comment is written into files of nodes and into templates: allow plain letters only, which have no meaning there.
COMMENT_PATTERN = r"[A-Za-z0-9@._+:/ -]{0,100}"
KEY_PATTERN = rf"^({'|'.join(map(re.escape, KEY_TYPES))}) +[A-Za-z0-9+/]+={{0,2}}( {COMMENT_PATTERN})?$"
EXAMPLE = "ssh-ed25519 AAAAC3... alice@laptop"
FILE, URL = "file", "url"
"""Names of entries that stand for keys elsewhere."""
URL_PATTERN = r"^https?://[!-~]{1,500}$"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def public_key(value: str) -> str:
    """Refuse all but a single-line public key without options."""
    value = value.strip()
    hint = f"write the line of her .pub file as it is, like {EXAMPLE}"
    if "PRIVATE KEY" in value:
        raise wrong("this is a private key, which must never leave its owner's machine", f"make a new pair; {hint}")
    if "\n" in value or "\r" in value:
        raise wrong("a key is one line, and this has several", "write each key as an entry of its own")
    kind, _, rest = value.partition(" ")
    blob, _, comment = rest.strip().partition(" ")
    comment = comment.strip()
    if kind not in KEY_TYPES:
        if any(f" {each} " in value for each in KEY_TYPES):
            raise wrong("a key has options in front of it", "write the key alone, from its type on")
        raise wrong(f"{shown(kind)} is not a type of public key that is accepted", f"{only(KEY_TYPES)}; {hint}")
    if _type_in(blob) != kind:
        raise wrong(f"the text after {kind} is not a key of this type, or is cut short", hint)
    if not re.fullmatch(COMMENT_PATTERN, comment):
        raise wrong(
            f"the key's comment {shown(comment)} has other characters",
            "use letters, digits, spaces and @._+:/-, or leave it out",
        )
    return f"{kind} {blob} {comment}".strip()


def identity(line: str) -> tuple[str, ...]:
    """Return a key without its comment."""
    return tuple(line.split()[:2])


def url_problem(url: str) -> str:
    """Return why a URL is not allowed for keys; empty if it is.

    An attacker who changes the answer could log in, so that TLS is required, except for this machine itself.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return f"{shown(url)} is no URL"
    if not re.fullmatch(URL_PATTERN, url) or not host:
        return f"{shown(url)} is no URL that begins with https://"
    if parts.username is not None or parts.password is not None:
        return "the URL has a user or a password, and the lock that names it is no place for these"
    if parts.fragment:
        return f"{shown(url)} names a part of a page"
    if parts.scheme != "https" and host not in LOOPBACK:
        return f"{shown(url)} is not https, so that anybody on the way could add a key"
    return ""


def _type_in(blob: str) -> str:
    """Return the type inside a key, if it is complete: each field follows its length (RFC 4253, 6.6)."""
    try:
        data = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        return ""
    fields = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        if len(data) < end:
            return ""
        fields.append(data[4:end])
        data = data[end:]
    return fields[0].decode("ascii", "replace") if len(fields) > 1 else ""


@dataclass(frozen=True)
class _KeyForm:
    """A type for pydantic that checks keys; its JSON schema also accepts a file or a URL."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(public_key, handler(source))

    def __get_pydantic_json_schema__(self, _: core_schema.CoreSchema, __: object) -> dict[str, Any]:
        others = [
            {"type": "object", "properties": {name: form}, "required": [name], "additionalProperties": False}
            for name, form in ((FILE, {"type": "string"}), (URL, {"type": "string", "pattern": URL_PATTERN}))
        ]
        return {"anyOf": [{"type": "string", "pattern": KEY_PATTERN}, *others]}


KEY_FORM = _KeyForm()


def host_key(value: str) -> str:
    """Refuse all but the public key of a host; it may be empty, until a lock has it."""
    return value and public_key(value)


HostKey = Annotated[str, TextForm(host_key, f"^$|{KEY_PATTERN}")]
