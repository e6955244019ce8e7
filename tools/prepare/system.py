"""The programs that come with the operating system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from stampworks.machine_room import RoomError, commands, privileges
from stampworks.machine_room.commands import ENVIRONMENT, HOST_PROGRAMS

from .progress import Step, StepError, run

BROWSER = "chromium"
_EMULATED = "to boot machines whose every instruction is emulated"
OF_LONG_TESTS = (
    (BROWSER, BROWSER, "to look at a report"),
    ("buildah", "buildah", "to build the image of the programs"),
    ("runc", "runc", "to start it"),
    ("qemu-system-x86_64", "qemu-system-x86", _EMULATED),
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "ovmf", _EMULATED),
    ("sfdisk", "fdisk", _EMULATED),
    ("mcopy", "mtools", _EMULATED),
    ("dnsmasq", "dnsmasq-base", _EMULATED),
)
"""Program or file, its Debian package, and the purpose in long tests."""


def ensure_programs(step: Step) -> None:
    """Every program that the machine room of the local cloud calls is there."""
    absent = [(name, package) for name, package in HOST_PROGRAMS if not shutil.which(name, path=ENVIRONMENT["PATH"])]
    if not absent:
        return
    packages = sorted({package for _, package in absent})
    if not can_install():
        raise StepError(
            f"not found: {', '.join(name for name, _ in absent)}.\n"
            f"They build and run the nodes of a local cluster. Install them with\n"
            f"    {install_command(packages)}\n"
            "Without them these still work: make lint, and after '. tools/env.sh' stampworks plan and\n"
            "pytest -m 'not cluster'."
        )
    install(step, packages)


def ensure_programs_of_long_tests(step: Step) -> None:
    """Most of a gigabyte that only a few tests need."""
    mode, path = os.F_OK, ENVIRONMENT["PATH"]  # a file need not be one that can be run
    absent = [each for each in OF_LONG_TESTS if not shutil.which(each[0], mode, path)]
    if not absent:
        return
    packages = [package for _, package, _ in absent]
    if not can_install():
        needed = "".join(f"    {name}, {purpose}\n" for name, _, purpose in absent)
        raise StepError(
            f"not found, and each is needed by a long test:\n{needed}Install them with\n"
            f"    {install_command(packages)}\n"
            "Without them make test works, and every other long test."
        )
    install(step, packages)


def ensure_namespaces() -> None:
    """Check that this user may create the namespaces of local nodes. Raise StepError with the remedy otherwise."""
    try:
        commands.run([*commands.CONTAINED, "true"], "this user", "cannot have namespaces", timeout=20)
    except RoomError as refused:
        found = privileges.remedies(refused.why, ENVIRONMENT["PATH"])
        raise StepError(
            f"this user cannot have namespaces, and local nodes are made of them: {refused.why}\n"
            + "".join(f"    {remedy}\n" for remedy in found)
            + "Without them these still work: make lint, and after '. tools/env.sh' stampworks plan and\n"
            "pytest -m 'not cluster'."
        ) from refused


def can_install() -> bool:
    """Whether this user may install packages with apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(step: Step, packages: Sequence[str]) -> None:
    """Install Debian packages."""
    names = ", ".join(packages)
    step.say(f"installing {names}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], env=quiet)
    # A machine that has just started may be installing updates.
    wait = ["-o", "DPkg::Lock::Timeout=300"]
    run(["apt-get", "install", *wait, "-q", "-y", "--no-install-recommends", *packages], env=quiet)
    step.note(f"installed {names}")


def install_command(packages: Sequence[str]) -> str:
    """Return the command with which a person installs Debian packages."""
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install -y {' '.join(packages)}"
