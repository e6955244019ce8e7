"""Machines that exist and answer ssh."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stampworks.declaration.keys import HostKey
from stampworks.declaration.models.section import IN_PLACE, REFUSE, ROLL, FromList, Section
from stampworks.declaration.values import GroupOfHosts, HostAddress, IdentityFile, LoginName, Name, Provider, Zone


class JumpHost(Section):
    """A machine through which ssh reaches the hosts."""

    address: HostAddress = Field(
        default="",
        description="Its name or address; empty where hosts are reached directly.",
        json_schema_extra=IN_PLACE,
    )
    port: int = Field(default=22, ge=1, le=65535, description="Port of its sshd.", json_schema_extra=IN_PLACE)
    user: LoginName = Field(default="root", description="User to log in as.", json_schema_extra=IN_PLACE)
    host_key: HostKey = Field(
        default="", description="Its public host key, as in ssh-ed25519 AAAA...", json_schema_extra=IN_PLACE
    )


class Host(Section):
    """A machine that answers ssh."""

    address: HostAddress = Field(description="Name or address at which ssh reaches it.", json_schema_extra=ROLL)
    port: int = Field(default=22, ge=1, le=65535, description="Port of its sshd.", json_schema_extra=IN_PLACE)
    inside: HostAddress = Field(
        default="",
        description="Address at which the other hosts reach it; without it, `address`.",
        json_schema_extra=ROLL,
    )
    host_key: HostKey = Field(
        default="",
        description="Its public host key; without it, `stampworks hosts lock` reads it and asks.",
        json_schema_extra=IN_PLACE,
    )
    group: Name = Field(description="The pool whose nodes it may be, or head, or login.", json_schema_extra=ROLL)
    rack: Zone = Field(
        default="",
        description="Rack or leaf switch that it is at; jobs are placed in few of them.",
        json_schema_extra=IN_PLACE,
    )


class Hosts(Section):
    """Machines that exist and answer ssh, for cloud: hosts. A pool with more hosts than its count has a reserve."""

    provider: Provider = Field(
        default="",
        description="Provider that the machines are rented from: its machines can be declared, with their prices.",
        json_schema_extra=REFUSE,
    )
    user: LoginName = Field(
        default="root",
        description="User of hosts for ssh: root, or one that sudo asks for no password.",
        json_schema_extra=IN_PLACE,
    )
    identity_file: IdentityFile = Field(
        default="",
        description="The private key for ssh, on the machine that runs `up`; without it, the keys that ssh finds.",
        json_schema_extra=IN_PLACE,
    )
    via: JumpHost = Field(
        default=JumpHost(), description="Machine through which ssh reaches the hosts.", json_schema_extra=IN_PLACE
    )
    list_command: Annotated[tuple[str, ...], FromList] = Field(
        default=(),
        max_length=32,
        description="A command that prints the machines, which `stampworks hosts lock` runs; its words are a list.",
        json_schema_extra=IN_PLACE,
    )
    list_group: GroupOfHosts = Field(
        default="",
        description="The pool of the machines that list_command prints, where it names no group.",
        json_schema_extra=IN_PLACE,
    )
    machines: Annotated[tuple[Host, ...], FromList] = Field(
        default=(),
        max_length=4096,
        description="The machines; node names are given in this order within each group.",
        json_schema_extra=IN_PLACE,
    )
