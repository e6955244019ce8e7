"""An external directory of users."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stampworks.declaration.ldap import Certificates, DistinguishedName, LdapUri
from stampworks.declaration.models.section import IN_PLACE, REFUSE, ROLL, FromList, Section
from stampworks.declaration.values import AccountName, GroupName

ID_MAX = 4_000_000_000


class Directory(Section):
    """An external directory of users, in addition to `users`: SSSD asks it on every node."""

    kind: Literal["none", "ldap"] = Field(
        default="none",
        description="Kind of the directory; with ldap, nodes get SSSD, which their image must contain.",
        json_schema_extra=ROLL,
    )
    uri: LdapUri = Field(
        default="", description="URI of its server, as in ldaps://ldap.example.org.", json_schema_extra=IN_PLACE
    )
    base: DistinguishedName = Field(
        default="",
        description="The entry below which people and groups are, like dc=example,dc=org.",
        json_schema_extra=IN_PLACE,
    )
    tls: Literal["required", "off"] = Field(
        default="required",
        description="With ldap://, use StartTLS. false leaves connections unencrypted, so that anybody on the "
        "network can impersonate users: for tests only.",
        json_schema_extra=IN_PLACE,
    )
    ca: Certificates = Field(
        default="",
        description="The certificates of the server's authority, as PEM or {file: certs/ca.pem}; without any, those "
        "that the nodes' distribution trusts.",
        json_schema_extra=IN_PLACE,
    )
    bind: DistinguishedName = Field(
        default="",
        description="The entry as which nodes bind; its password is the stack's secret stampworks:directoryPassword. "
        "Without it they bind anonymously.",
        json_schema_extra=IN_PLACE,
    )
    group_members: Literal["names", "entries"] = Field(
        default="names",
        description="Form of members in groups: names (memberUid, RFC 2307) or entries (member, RFC 2307bis).",
        json_schema_extra=IN_PLACE,
    )
    access_groups: Annotated[tuple[GroupName, ...], FromList] = Field(
        default=(),
        max_length=20,
        description="Groups of the directory whose members may log in; empty for all its users.",
        json_schema_extra=IN_PLACE,
    )
    account: AccountName | None = Field(
        default=None,
        description="The account that jobs of members of access_groups are charged to; each `up` takes in new ones.",
        json_schema_extra=IN_PLACE,
    )
    id_min: int | None = Field(
        default=None,
        ge=1000,
        le=ID_MAX,
        description="The smallest uid or gid that counts: people and groups with a smaller one do not exist on nodes.",
        json_schema_extra=REFUSE,
    )
    id_max: int | None = Field(
        default=None,
        ge=1000,
        le=ID_MAX,
        description="The largest uid or gid that counts; none of users and groups may lie between the two.",
        json_schema_extra=REFUSE,
    )
