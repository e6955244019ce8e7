"""What dpkg and apt say and do on a node."""

from __future__ import annotations

from ansible_collections.stampworks.node.plugins.module_utils.node import run

INSTALLED = "installed"
QUERY = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status} ${Version}\\n"]
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
REPAIR = ["dpkg", "--force-confold", "--configure", "-a"]
INSTALL = [
    *("apt-get", "install", "--yes", "--quiet", "--allow-downgrades", "--no-install-recommends"),
    *("-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=120"),
]
"""Settings that a person changed stay theirs; those of ours are written by their roles."""
GONE = ("", "config-files", "not-installed")
"""What dpkg says of a package of which there is nothing, or settings at most."""


def installed() -> dict[str, tuple[str, str]]:
    """State and version of every package that dpkg knows, by name."""
    rows = (line.split(" ", 2) for line in run(QUERY).stdout.splitlines())
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def refresh() -> None:
    """Ends what was interrupted, and looks what the repositories have."""
    # after an installation that was killed apt refuses any other; if this fails, the installation says why
    run(REPAIR, timeout=200, check=False, env=QUIET)
    run(["apt-get", "update", "--quiet"], timeout=100, env=QUIET)


def begins(version: str, beginning: str) -> bool:
    """Whether a version is of a series: 6.12.43 is of 6.12, 6.120 is not. An epoch counts where the series has one."""
    upstream = version if ":" in beginning else version.partition(":")[2] or version
    rest = upstream.removeprefix(beginning)
    return not beginning or (upstream.startswith(beginning) and not rest[:1].isalnum())
