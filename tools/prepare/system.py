"""The programs that come with the operating system."""

from __future__ import annotations

import os
import shutil

from .progress import Step, StepError, run

DEBIAN_PACKAGES = {
    "openssh-client": ("ssh", "ssh-keygen"),
    "iproute2": ("ip", "tc", "bridge"),
    "util-linux": ("unshare", "nsenter"),
    "mount": ("mount",),
    "mmdebstrap": ("mmdebstrap",),
    "apt-utils": ("apt-ftparchive",),
    "nftables": ("nft",),
}
"""What the machine room of the local cloud calls, by the package that brings it."""

DEBIAN_PACKAGES_WITHOUT_ROOT = {"uidmap": ("newuidmap", "newgidmap")}


def ensure_programs(step: Step) -> None:
    """Every program is there; root installs what is missing, anybody else is told how to."""
    root = os.geteuid() == 0
    missing = _missing(DEBIAN_PACKAGES if root else DEBIAN_PACKAGES | DEBIAN_PACKAGES_WITHOUT_ROOT)
    if not missing:
        return
    packages = sorted(missing)
    if not root or not shutil.which("apt-get"):
        programs = ", ".join(program for package in packages for program in missing[package])
        raise StepError(
            f"not found: {programs}.\n"
            f"They build and run the nodes of a local cluster. Install them with\n"
            f"    sudo apt-get install -y {' '.join(packages)}\n"
            "Without them these still work: make lint, stampworks plan, pytest -m 'not cluster'."
        )
    step.say(f"installing {', '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], env=quiet)
    run(["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages], env=quiet)
    step.note(f"installed {', '.join(packages)}")


def _missing(wanted: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    # Debian keeps /sbin off the PATH of those who are not root, who may still call what is there.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    absent = {
        package: [program for program in programs if not shutil.which(program, path=path)]
        for package, programs in wanted.items()
    }
    return {package: programs for package, programs in absent.items() if programs}
