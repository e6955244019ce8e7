"""Reasons why this user cannot make namespaces, and the settings that change them."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

IDS = 65536
"""Number of user and group ids that a node needs: 65534 is the user `nobody`."""
KINDS = ("user", "mnt", "net", "uts", "ipc", "pid")
CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SETUID": 7, "CAP_SETGID": 6}
SWITCHES = (
    ("kernel.unprivileged_userns_clone", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "0"),
)
"""Settings that forbid user namespaces, with the value that allows them. Not every kernel has them."""


def remedy(why: str, path: str) -> str:
    """Return the first remedy after the kernel refused namespaces with this error."""
    return remedies(why, path)[0]


def remedies(why: str, path: str) -> list[str]:
    """Return all obstacles, each with its remedy. `path` is the search path of programs."""
    found = [*_limits(why), *(_root_remedies() if os.geteuid() == 0 else _user_remedies(path))]
    return found or [
        "see whether this works: unshare --user --map-root-user --map-auto --mount --net --pid --fork true"
    ]


def _limits(why: str) -> Iterator[str]:
    """Yield limits on namespaces that are too low. The kernel reports "no space" when one is reached."""
    full = "No space left on device" in why
    for kind in KINDS:
        setting = f"user.max_{kind}_namespaces"
        allowed = (_lines(_path(setting)) or [""])[0]
        if allowed == "0" or (full and allowed.isdecimal() and int(allowed) < 1000):
            yield f"{setting} is {allowed} here; as root: sysctl {setting}=10000"


def _root_remedies() -> Iterator[str]:
    held = int(_status("CapEff") or "0", 16)
    lacking = [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]
    if lacking:
        yield f"this root has no {' and no '.join(lacking)}; a container needs to be privileged"


def _user_remedies(path: str) -> Iterator[str]:
    for program in ("newuidmap", "newgidmap"):
        found = shutil.which(program, path=path)
        if not found:
            yield f"an ordinary user needs {program}; as root: apt-get install uidmap"
        elif not _may_map(found):
            yield f"{found} has lost its privilege; as root: chmod u+s {found}"
    if _status("NoNewPrivs") == "1":
        yield "no_new_privs is set for this process, and newuidmap needs its privilege: start it without that setting"
    for file, option in (("/etc/subuid", "subuids"), ("/etc/subgid", "subgids")):
        yield from _range_remedies(file, option)
    for setting, wanted in SWITCHES:
        value = _lines(_path(setting))
        if value and value[0] != wanted:
            yield f"this host forbids user namespaces: {setting} is {value[0]}; as root: sysctl {setting}={wanted}"


def _range_remedies(file: str, option: str) -> Iterator[str]:
    number = str(os.getuid())
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        yield f"the user id {number} has no name on this machine, and subordinate ids go by name; as root: useradd"
        return
    ranges = [line.split(":") for line in _lines(file) if line.count(":") == 2]
    # unshare takes the first range of this user
    first, count = next(((int(one[1]), int(one[2])) for one in ranges if one[0] in (user, number)), (0, 0))
    if count >= IDS:
        return
    free = max([100_000, *(int(one[1]) + int(one[2]) for one in ranges)])
    command = f"--add-{option} {free}-{free + IDS - 1} {user}"
    if count:
        command = f"--del-{option} {first}-{first + count - 1} {command}"
        yield f"{user} has {count} subordinate ids in {file}, and a node needs {IDS}; as root: usermod {command}"
    else:
        yield f"{user} has no subordinate ids in {file}; as root: usermod {command}"


def _may_map(path: str) -> bool:
    """Whether the program has the set-user-id bit, or file capabilities, which some distributions prefer."""
    return bool(Path(path).stat().st_mode & stat.S_ISUID) or "security.capability" in os.listxattr(path)


def _status(field: str) -> str:
    return next((line.split()[1] for line in _lines("/proc/self/status") if line.startswith(f"{field}:")), "")


def _path(setting: str) -> str:
    return "/proc/sys/" + setting.replace(".", "/")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
