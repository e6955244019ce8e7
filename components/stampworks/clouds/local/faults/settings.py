"""Faults of a node's settings and services: keys, files of Slurm, limits, environments, packages."""

from __future__ import annotations

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults.site import Means, Site, each_of, number

_SERVICES = "/etc/stampworks/services"
_SLURMD = f"{_SERVICES}/slurmd"
_ENVIRONMENT = "/etc/stampworks/collectives.env"
_BROUGHT = "/usr/local/lib/stampworks/brought"

_EDIT = """
import os, shutil, sys
verb, path, text, anchor = sys.argv[1:]
try:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        found = file.read()
except FileNotFoundError:
    found = ""
if verb == "there":
    print(text in found)
    sys.exit()
wanted = found.replace(text, "", 1)
if verb == "inject":
    if anchor not in wanted:
        sys.exit(f"{path}: there is no line {anchor!r} in it")
    at = wanted.index(anchor) + len(anchor) if anchor else len(wanted)
    wanted = wanted[:at] + text + wanted[at:]
if wanted != found:
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(wanted)
    shutil.copymode(path, path + ".new")
    shutil.chown(path + ".new", os.stat(path).st_uid, os.stat(path).st_gid)
    os.replace(path + ".new", path)
"""

_RESTART = f"sv -w 20 force-restart {_SLURMD} >/dev/null || true"
"""Restart of slurmd. A slurmd that dies at once from its settings counts as restarted."""


def _text(path: str, text: str, after: str = "") -> Means:
    """Add text with the severity to a file: after a line, or at the end.

    Changes of others in the file stay.
    """

    def edit(verb: str, site: Site, one: Injected) -> str:
        return site.on_node(one.where, "python3", "-IS", "-c", _EDIT, verb, path, text.format(one.severity), after)

    return Means(
        inject=lambda site, one: edit("inject", site, one),
        clear=lambda site, one: edit("clear", site, one),
        there=lambda site, one: edit("there", site, one).strip() == "True",
    )


def brought(folder: str, *packages: str) -> Means:
    """Unpack packages on the node without installing them, so that no other program finds them."""
    folder = f"{_BROUGHT}/{folder}"
    unpack = f"""
    mkdir -p {folder}
    for name; do dpkg-deb --extract /exports/.packages/"$name"_*.deb {folder}; done
    """
    return Means(
        inject=lambda site, one: site.shell(one.where, unpack, *packages),
        clear=lambda site, one: site.shell(
            one.where, f"rm -rf {folder}; rmdir --ignore-fail-on-non-empty {_BROUGHT} 2>/dev/null || true"
        ),
        there=lambda site, one: site.shell(one.where, f"[ -d {folder} ] && echo yes || true") != "",
    )


def _restart_slurmd(site: Site, one: Injected) -> None:
    site.shell(one.where, _RESTART)


# -- Slurm

DEAD_SLURMD = Means(
    inject=lambda site, one: site.shell(one.where, f"sv -w 20 force-stop {_SLURMD} >/dev/null"),
    clear=lambda site, one: site.shell(one.where, f"sv -w 20 up {_SLURMD} >/dev/null"),
    there=lambda site, one: site.shell(one.where, f"sv status {_SLURMD} || true").startswith("down:"),
)
WRONG_KEY = each_of(_text("/etc/slurm/slurm.key", "another key"), then=_restart_slurmd)
OTHER_SLURM_CONF = _text("/run/slurm/conf/slurm.conf", "MessageTimeout=47\n")


# -- the environment of jobs

BIT_FLIP = _text(_ENVIRONMENT, "STAMPWORKS_FAULT_BITFLIP=1\n")
WRONG_INTERFACE = _text(_ENVIRONMENT, "GLOO_SOCKET_IFNAME=eth0\n")


# -- a clock that is ahead, for slurmd and all tasks of jobs

_CLOCK = {
    "LD_PRELOAD": f"{_BROUGHT}/clock/usr/$LIB/faketime/libfaketime.so.1",
    "FAKETIME": "+{:g}s",
    # timers and the times of files stay right
    "DONT_FAKE_MONOTONIC": "1",
    "NO_FAKE_STAT": "1",
}

CLOCK_AHEAD = each_of(
    brought("clock", "libfaketime"),
    _text(_ENVIRONMENT, "".join(f"{name}={value}\n" for name, value in _CLOCK.items())),
    _text(
        f"{_SLURMD}/run",
        "".join(f"export {name}='{value}'\n" for name, value in _CLOCK.items()),
        after="exec 2>&1\n",
    ),
    then=_restart_slurmd,
)


# -- limits, which jobs inherit from slurmd

_SLURMD_PID = f'pid=$(cat {_SLURMD}/supervise/pid); [ -n "$pid" ] || exit 0\n'


def _memlock_bytes(one: Injected) -> str:
    return str(round(number(one)) * 1024)


SMALL_MEMLOCK = Means(
    inject=lambda site, one: site.shell(
        one.where, _SLURMD_PID + 'prlimit --pid "$pid" --memlock="$1":', _memlock_bytes(one)
    ),
    clear=lambda site, one: site.shell(
        one.where,
        _SLURMD_PID
        + 'most=$(prlimit --pid "$pid" --memlock --output HARD --noheadings | tr -d " ")\n'
        + 'prlimit --pid "$pid" --memlock="$most":',
    ),
    there=lambda site, one: (
        site.shell(one.where, _SLURMD_PID + 'prlimit --pid "$pid" --memlock --output SOFT --noheadings').strip()
        == _memlock_bytes(one)
    ),
)


# -- a package with another version than on its peers

_LIBRARY = "libopenblas0-pthread"
_VERSION = f"dpkg-query --show --showformat '${{Version}}' {_LIBRARY}"
_SKEW = f"""
scratch=$(mktemp -d /var/tmp/skew.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
dpkg-deb --raw-extract /exports/.packages/{_LIBRARY}_*.deb "$scratch/tree"
sed -i 's/^Version: .*/&+skewed/' "$scratch/tree/DEBIAN/control"
dpkg-deb -Znone --build "$scratch/tree" "$scratch/skewed.deb" >/dev/null
dpkg --install "$scratch/skewed.deb" >/dev/null
"""

OTHER_LIBRARY = Means(
    inject=lambda site, one: site.shell(one.where, _SKEW),
    clear=lambda site, one: site.shell(
        one.where,
        f"case $({_VERSION}) in *+skewed) dpkg --install /exports/.packages/{_LIBRARY}_*.deb >/dev/null 2>&1;; esac",
    ),
    there=lambda site, one: site.shell(one.where, _VERSION).endswith("+skewed"),
)
