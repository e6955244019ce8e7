"""What a node's package manager says and does: apt on Debian and Ubuntu, dnf on Amazon Linux. Only this asks which."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, run, write

OS_RELEASE = Path("/etc/os-release")
INSTALLED = "installed"
GONE = ("", "config-files", "not-installed")
"""What dpkg says of a package of which there is nothing, or settings at most."""
OURS = "# Written by Stampworks"
LISTS_S = 100
"""For reading what the repositories have, and for waiting for others who read it."""
INSTALL_S = 450
"""Together with everything before it less than the player lets a task take."""


class Packaging(Protocol):
    def installed(self) -> dict[str, tuple[str, str]]:
        """State and version of every package that is known, by name."""

    def for_kernel(self, runs: str) -> list[str]:
        """What modules are built with for the kernel that runs; a kernel's version is part of its packages' names."""

    def is_kernel(self, name: str) -> bool: ...

    def unpinned(self, role: str, packages: Mapping[str, str], along: Sequence[str]) -> list[str]:
        """In words, what keeps versions of a role's packages from being the only ones that can be installed."""

    def pin(self, role: str, packages: Mapping[str, str], along: Sequence[str]) -> None: ...

    def refresh(self) -> None:
        """Ends what was interrupted, and looks what the repositories have."""

    def offers(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The versions that the repositories have of each package, the newest first."""

    def offered(self) -> set[str]:
        """The names of all packages that the repositories have."""

    def install(self, exactly: Mapping[str, str], again: bool = False, limit_s: float = INSTALL_S) -> None:
        """These versions, also where others are there, and are held; again also where they are there already."""

    def loose(self, names: Iterable[str]) -> list[str]:
        """Those that an upgrade would exchange."""

    def hold(self, names: Sequence[str]) -> None: ...


class Apt:
    QUERY = ("dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status} ${Version}\\n")
    QUIET: Mapping[str, str] = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    UPDATE = ("apt-get", "update", "--quiet")
    TAKEN = "Could not get lock"
    REPAIR = ("dpkg", "--force-confold", "--configure", "-a")
    INSTALL = (
        *("apt-get", "install", "--yes", "--quiet", "--allow-downgrades", "--no-install-recommends"),
        *("-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=120"),
        "--allow-change-held-packages",
    )
    """Settings that a person changed stay theirs; those of ours are written by their roles."""
    AGAIN = ("--reinstall", "-o", "Dpkg::Options::=--force-confmiss")
    PREFERENCES = Path("/etc/apt/preferences.d")
    LISTS = Path("/var/lib/apt/lists")
    PRIORITY = 1001
    """Above 1000 apt also goes back to an older version."""
    KERNELS = re.compile(r"linux-(image|headers)-.+")

    def installed(self) -> dict[str, tuple[str, str]]:
        rows = (line.split(" ", 2) for line in run(self.QUERY).stdout.splitlines())
        return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}

    def for_kernel(self, runs: str) -> list[str]:
        return [f"linux-headers-{runs}"]

    def is_kernel(self, name: str) -> bool:
        return bool(self.KERNELS.fullmatch(name))

    def unpinned(self, role: str, packages: Mapping[str, str], along: Sequence[str]) -> list[str]:
        path = self.PREFERENCES / f"stampworks-{role}"
        right = path.exists() and path.read_text() == self.pins(packages, along)
        return [] if right else [f"{path} differs"]

    def pin(self, role: str, packages: Mapping[str, str], along: Sequence[str]) -> None:
        write(self.PREFERENCES / f"stampworks-{role}", self.pins(packages, along).encode())

    @classmethod
    def pins(cls, packages: Mapping[str, str], along: Sequence[str]) -> str:
        """What apt's preferences say of them; one without a version is the suite's affair."""
        stanzas = [
            f"Package: {name}\nPin: version {version}*\nPin-Priority: {cls.PRIORITY}\n"
            for name, version in versioned(packages, along)
        ]
        return "\n".join([f"{OURS}.\n", *stanzas])

    def refresh(self) -> None:
        # after an installation that was killed apt refuses any other; if this fails, the installation says why
        run(self.REPAIR, timeout=200, check=False, env=self.QUIET)
        # a machine that boots for the first time reads the lists by itself, and apt does not wait for that
        until = time.monotonic() + LISTS_S
        while (left := until - time.monotonic()) > 1:
            done = run(self.UPDATE, timeout=left, check=False, env=self.QUIET)
            if self.TAKEN not in done.stderr:
                break
            time.sleep(1)
        if done.returncode:
            raise Refused(f"{' '.join(self.UPDATE)}: exit code {done.returncode}: {done.stderr.strip()}")

    def offers(self, names: Sequence[str]) -> dict[str, list[str]]:
        return self.of_madison(run(["apt-cache", "madison", *names]).stdout)

    @staticmethod
    def of_madison(said: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in said.splitlines():
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 3 and not fields[2].endswith("Sources"):
                found.setdefault(fields[0], []).append(fields[1])
        return found

    def offered(self) -> set[str]:
        lists = (path.read_text(errors="replace").splitlines() for path in self.LISTS.glob("*_Packages"))
        return {line.split()[1] for lines in lists for line in lines if line.startswith("Package: ")}

    def install(self, exactly: Mapping[str, str], again: bool = False, limit_s: float = INSTALL_S) -> None:
        named = [f"{name}={version}" if version else name for name, version in exactly.items()]
        run([*self.INSTALL, *(self.AGAIN if again else ()), *named], timeout=limit_s, env=self.QUIET)

    def loose(self, names: Iterable[str]) -> list[str]:
        holds = run(["apt-mark", "showhold"]).stdout.split()
        return [each for each in names if each not in holds]

    def hold(self, names: Sequence[str]) -> None:
        run(["apt-mark", "hold", *names])


class Dnf:
    """Versions are pinned and held in the list of dnf's plugin versionlock: a line names what may be installed of a
    package, one with ! of what nothing may be installed. Packages of kernels, of which several are there at once, are
    called by name, version and release, as dnf finds them, too."""

    QUERY = ("rpm", "--query", "--all", "--queryformat", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n")
    ASK = ("dnf", "--quiet", "--disableplugin=versionlock", "repoquery", "--queryformat")
    INSTALL = ("dnf", "--quiet", "--assumeyes", "--setopt=install_weak_deps=False")
    LOCKS = Path("/etc/dnf/plugins/versionlock.list")
    KERNELS = re.compile(r"(kernel(?:\d+\.\d+)?(?:-devel|-modules-extra)?)-(\d[^-]*-[^-]+)")
    PLAIN_KERNEL = "6.1"
    """The series of the kernel whose packages have none in their names (AL2023 User Guide, "Updating the Linux kernel",
    read 2026-11-24)."""

    def installed(self) -> dict[str, tuple[str, str]]:
        return {name: (INSTALLED, version) for name, version in self._rows(run(self.QUERY).stdout)}

    @classmethod
    def _rows(cls, said: str) -> list[tuple[str, str]]:
        """Names and versions; an epoch of nothing is none."""
        rows = (line.split(" ", 1) for line in said.splitlines() if " " in line)
        return [(cls._name(name, version), version.removeprefix("0:")) for name, version in rows]

    @classmethod
    def _name(cls, name: str, version: str) -> str:
        exactly = f"{name}-{version.partition(':')[2]}"
        return exactly if cls.KERNELS.fullmatch(exactly) else name

    @classmethod
    def _plain(cls, name: str) -> str:
        kernel = cls.KERNELS.fullmatch(name)
        return kernel[1] if kernel else name

    def for_kernel(self, runs: str) -> list[str]:
        exactly = runs.removesuffix(f".{platform.machine()}")
        series = ".".join(exactly.split(".")[:2])
        kernel = "kernel" if series == self.PLAIN_KERNEL else f"kernel{series}"
        return [f"{kernel}-devel-{exactly}", f"{kernel}-modules-extra-{exactly}"]

    def is_kernel(self, name: str) -> bool:
        return bool(self.KERNELS.fullmatch(name))

    def unpinned(self, role: str, packages: Mapping[str, str], along: Sequence[str]) -> list[str]:
        begin, end = self._marks(role)
        locks, wanted = self._locks(), self.pins(packages, along)
        there = locks[locks.index(begin) + 1 : locks.index(end)] if {begin, end} <= {*locks} else []
        return [] if there == wanted else [f"{self.LOCKS} has no pins of {role}"]

    def pin(self, role: str, packages: Mapping[str, str], along: Sequence[str]) -> None:
        begin, end = self._marks(role)
        kept, inside = [], False
        for line in self._locks():
            inside = line == begin or (inside and line != end)
            if not inside and line != end:
                kept.append(line)
        pins = self.pins(packages, along)
        self._write([*kept, *([begin, *pins, end] if pins else [])])

    @staticmethod
    def pins(packages: Mapping[str, str], along: Sequence[str]) -> list[str]:  # noqa: ARG004 (as it says)
        """The lines that are a role's; one without a version is the suite's affair. What comes along has no line: its
        pattern would keep away all else that it fits, parts of CUDA and of the container toolkit, and the driver's
        packages ask for each other in one version (nvidia-driver.spec of NVIDIA's yum-packaging-nvidia-driver)."""
        return [f"{name}-{v}*" if "-" in v else f"{name}-{v}*-*" for name, v in versioned(packages, ())]

    @staticmethod
    def _marks(role: str) -> tuple[str, str]:
        return f"{OURS}: pins of {role}", f"{OURS}: end of {role}"

    def _locks(self) -> list[str]:
        return self.LOCKS.read_text().splitlines() if self.LOCKS.exists() else []

    def _write(self, lines: Sequence[str]) -> None:
        write(self.LOCKS, "".join(f"{line}\n" for line in lines).encode())

    def refresh(self) -> None:
        run(["dnf", "--quiet", "--refresh", "makecache"], timeout=200)

    def offers(self, names: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        said = run([*self.ASK, "%{name} %{epoch}:%{version}-%{release}", *names], timeout=100).stdout
        for name, version in self._rows(said):
            found.setdefault(name, []).insert(0, version)
        return found

    def offered(self) -> set[str]:
        said = run([*self.ASK, "%{name} %{epoch}:%{version}-%{release}"], timeout=100).stdout
        return {name for name, _ in self._rows(said)}

    def install(
        self,
        exactly: Mapping[str, str],
        again: bool = False,  # noqa: ARG002 (dnf exchanges by itself)
        limit_s: float = INSTALL_S,
    ) -> None:
        held = {f"!{self._plain(name)}" for name in exactly}
        if held.intersection(locks := self._locks()):
            self._write([line for line in locks if line not in held])
        named = [f"{name}-{v}" if v and not self.is_kernel(name) else name for name, v in exactly.items()]
        run([*self.INSTALL, "install", *named], timeout=limit_s)

    def loose(self, names: Iterable[str]) -> list[str]:
        locks = self._locks()
        return [each for each in names if f"!{self._plain(each)}" not in locks]

    def hold(self, names: Sequence[str]) -> None:
        self._write([*self._locks(), *dict.fromkeys(f"!{self._plain(each)}" for each in names)])


def packaging() -> Packaging:
    """What installs packages on this node."""
    ids = re.findall(r'^ID="?([^"\n]*)', OS_RELEASE.read_text() if OS_RELEASE.exists() else "", re.MULTILINE)
    return Dnf() if ids == ["amzn"] else Apt()


def versioned(packages: Mapping[str, str], along: Sequence[str]) -> list[tuple[str, str]]:
    """What has a version of the release, and, with the first one's, what comes along."""
    named = [(package, version) for package, version in packages.items() if version]
    return [*named, *((each, named[0][1]) for each in along if named)]


def begins(version: str, beginning: str) -> bool:
    """Whether a version is of a series: 6.12.43 is of 6.12, 6.120 is not, and the module of EFA 3.3.1 says 3.3.1g. An
    epoch counts where the series has one."""
    upstream = version if ":" in beginning else version.partition(":")[2] or version
    rest = upstream.removeprefix(beginning)
    return not beginning or (upstream.startswith(beginning) and not rest[:1].isdigit())
