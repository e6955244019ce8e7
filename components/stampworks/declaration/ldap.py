"""Check values of a directory: its server, the names of entries, and certificates."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from stampworks.declaration.forms import TextForm, wrong
from stampworks.declaration.keys import FILE
from stampworks.declaration.wording import shown

URI_PATTERN = r"^$|^ldaps?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$"
# Leave out letters with a meaning in LDAP, sssd.conf or a template; real names of bases have none.
DN_PATTERN = r"^$|^[A-Za-z][A-Za-z0-9-]*=[A-Za-z0-9 ._@-]+(,[A-Za-z][A-Za-z0-9-]*=[A-Za-z0-9 ._@-]+)*$"
LENGTH_MAX = 255
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)\s+-----END CERTIFICATE-----")


def ldap_uri(value: str) -> str:
    """Refuse all but the URI of an LDAP server."""
    if not re.fullmatch(URI_PATTERN, value):
        raise wrong(f"{shown(value)} is no URI of a directory", "write it like ldaps://ldap.example.org")
    return value


def distinguished_name(value: str) -> str:
    """Refuse all but a plain distinguished name."""
    if len(value) > LENGTH_MAX or not re.fullmatch(DN_PATTERN, value):
        hint = "write it like dc=example,dc=org, in letters, digits, spaces and ._@-, without spaces around its commas"
        raise wrong(f"{shown(value)} is no plain name of an entry", hint)
    return value


def certificates(value: str) -> str:
    """Refuse all but a list of certificates in PEM. Text between them is left out."""
    if "PRIVATE KEY" in value:
        raise wrong("there is a private key in it, which nobody else may have", "write the certificate alone")
    blobs = ["".join(each.split()) for each in _CERTIFICATE.findall(value)]
    try:
        sound = all(base64.b64decode(each, validate=True) for each in blobs)
    except binascii.Error:
        sound = False
    if value and not (blobs and sound and value.count("-----BEGIN") == len(blobs)):
        raise wrong("this is no certificate in PEM, or not all of it", "write {file: certs/ca.pem}")
    lines = [(blob[at : at + 64] for at in range(0, len(blob), 64)) for blob in blobs]
    return "".join("\n".join(["-----BEGIN CERTIFICATE-----", *each, "-----END CERTIFICATE-----", ""]) for each in lines)


@dataclass(frozen=True)
class _CertificatesForm:
    """A type for pydantic that checks certificates; its JSON schema also accepts a file."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(certificates, handler(source))

    def __get_pydantic_json_schema__(self, _: core_schema.CoreSchema, __: object) -> dict[str, Any]:
        file = {"type": "object", "properties": {FILE: {"type": "string"}}, "required": [FILE]}
        return {"anyOf": [{"type": "string"}, file | {"additionalProperties": False}]}


LdapUri = Annotated[str, TextForm(ldap_uri, URI_PATTERN)]
DistinguishedName = Annotated[str, TextForm(distinguished_name, DN_PATTERN)]
Certificates = Annotated[str, _CertificatesForm()]
