"""Accounts and groups that the system or a service on the nodes already has.

A person of that name would become the service, or get the rights of the group.
"""

from __future__ import annotations

SYSTEM_USERS = frozenset(
    [
        *("root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data"),
        *("backup", "list", "irc", "nobody", "messagebus", "sshd", "munge", "slurm", "mysql", "iperf3", "rdma"),
        *("adm", "audio", "cdrom", "crontab", "dialout", "dip", "disk", "docker", "fax", "floppy", "input", "kmem"),
        *("kvm", "netdev", "nogroup", "operator", "plugdev", "render", "sasl", "shadow", "src", "staff", "sudo"),
        *("tape", "tty", "users", "utmp", "video", "voice"),
    ]
)
SYSTEM_GROUPS = frozenset(["clock", "lxd", "sgx", "ssh", "sys", "wheel"])
"""Groups without an account of the same name."""
SYSTEM_PREFIXES = ("_", "systemd-")
