"""Debian packages from the sources of this host: mirror, keyring and proxy are those of its apt."""

from __future__ import annotations

import email.utils
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stampworks.machine_room import files
from stampworks.machine_room.commands import ENVIRONMENT, run, watch
from stampworks.machine_room.errors import RoomError

WHERE = "node image"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DOWNLOAD_TIMEOUT_S = 1800

Progress = Callable[[str], None]


@dataclass(frozen=True)
class AptSource:
    """The fields of an apt source that are needed here, from one line or one stanza."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str


def sources_of(suite: str, etc: Path = Path("/etc")) -> tuple[str, ...]:
    """Return lines of a sources.list for a Debian suite on this host's mirror."""
    system = dict(line.split("=", 1) for line in _read(etc / "os-release").splitlines() if "=" in line)
    if system.get("ID", "").strip('"') != "debian":
        name = system.get("PRETTY_NAME", "no Debian").strip('"')
        why = f"it uses the mirrors of this host's apt, and this host is {name}"
        raise RoomError(WHERE, "cannot find a Debian mirror", why, "run the local cloud on Debian 12 or newer")
    codename = system.get("VERSION_CODENAME", "").strip('"')
    found = [source for source in _sources(etc / "apt") if "main" in source.components]
    main = [source for source in found if {codename, "stable", "testing", "unstable", "sid"} & set(source.suites)]
    if not main:
        why = f"no source in {etc}/apt has the suite {codename} with the component main"
        raise RoomError(WHERE, "cannot find a Debian mirror", why, "see: apt-cache policy")
    # other publishers use Debian's suite names, too; a mirror of Debian has the directory debian in its path
    archive = next((source for source in main if "debian" in source.uri.split("/")), main[0])
    security = [source for source in found if f"{codename}-security" in source.suites][:1]
    return tuple(
        f"deb [signed-by={source.signed_by}] {source.uri} {name} main"
        for source, name in [(archive, suite), *((source, f"{suite}-security") for source in security)]
    )


def settings() -> str:
    """Return the settings with which this host's apt downloads: proxies, timeouts, checks of dates."""
    dump = run(["apt-config", "dump"], WHERE, "cannot read the settings of apt", timeout=30)
    lines = [line for line in dump.splitlines() if line.startswith("Acquire::")]
    return "".join(f"{line}\n" for line in lines if not line.startswith("Acquire::IndexTargets"))


def make_tree(tree: Path, suite: str, sources: Sequence[str], packages: Sequence[str], progress: Progress) -> None:
    """Install Debian with these packages into a new directory."""
    scratch = files.make_directory(tree.with_name("scratch"), 0o700)
    archive, acquire = scratch / "tree.tar", scratch / "acquire.conf"
    acquire.write_text(settings())
    unread = ("share/doc", "share/info", "share/locale", "share/man", "lib/libtorch-test")
    dropped = [f"--dpkgopt=path-exclude=/usr/{name}/*" for name in unread]
    argv = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--aptopt={acquire}",
        "--dpkgopt=force-unsafe-io",
        *dropped,
    ]
    argv += [f"--include={','.join(packages)}", suite, str(archive), *sources]
    environment = {**ENVIRONMENT, "TMPDIR": str(scratch)}

    def said(line: str) -> None:
        if line.startswith("I: "):
            progress(f"base system: {line[3:].removesuffix('...')}")

    what = f"cannot install Debian {suite}"
    watch(argv, WHERE, what, said, timeout=DOWNLOAD_TIMEOUT_S, environment=environment)
    files.make_directory(tree)
    # nodes get their devices when they boot; an ordinary user could not make any
    unpack = [
        "tar",
        "--extract",
        "--preserve-permissions",
        "--exclude=./dev/*",
        f"--file={archive}",
        f"--directory={tree}",
    ]
    watch(unpack, WHERE, what, lambda _: None, timeout=300)
    files.remove_tree(scratch, WHERE)


def download(target: Path, tree: Path, sources: Sequence[str], packages: Sequence[str], progress: Progress) -> None:
    """Download packages and their dependencies that the tree lacks, into a flat repository."""
    root = files.make_directory(target.with_name("scratch"), 0o700)
    for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    archives = root / "var/cache/apt/archives"
    (archives / "partial").mkdir(parents=True)
    (root / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in sources))
    # Dir moves every path of apt below the scratch directory: apt reads and writes nothing of the host's.
    configuration = root / "apt.conf"
    configuration.write_text(
        f'{settings()}Dir "{root}/";\nDir::State::status "{tree}/var/lib/dpkg/status";\n'
        'APT::Install-Recommends "false";\nAPT::Sandbox::User "root";\nAPT::Color "false";\n'
    )
    environment = {**ENVIRONMENT, "APT_CONFIG": str(configuration)}
    what = "cannot download the packages of the release"
    progress("packages: looking them up")
    update = ["apt-get", "-q", "update"]
    watch(
        update,
        WHERE,
        what,
        lambda _: progress("packages: looking them up"),
        timeout=DOWNLOAD_TIMEOUT_S,
        environment=environment,
    )
    argv = ["apt-get", "-q", "-y", "--download-only", "install", *packages]

    def said(line: str) -> None:
        if line.startswith("Need to get "):
            progress(f"packages: {line[0].lower()}{line[1:].removesuffix('.')}")

    watch(argv, WHERE, what, said, timeout=DOWNLOAD_TIMEOUT_S, environment=environment)
    files.make_directory(target)
    for package in archives.glob("*.deb"):
        # apt writes an epoch as 1%3a: a web server would decode that to a colon and find no such file
        shutil.move(package, target / re.sub(r"_\d+%3a", "_", package.name))
    _index(target)
    files.remove_tree(root, WHERE)
    progress(f"packages: {len(list(target.glob('*.deb')))} ready to install")


def _index(repository: Path) -> None:
    """Write the index files that apt needs in a flat repository."""
    entries = []
    for package in sorted(repository.glob("*.deb")):
        control = run(["dpkg-deb", "--field", str(package)], WHERE, f"cannot read {package.name}", timeout=30)
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        facts = f"Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"
        entries.append(control.rstrip("\n") + "\n" + facts)
    packages = "\n".join(entries)
    (repository / "Packages").write_text(packages)
    digest = hashlib.sha256(packages.encode()).hexdigest()
    dated = email.utils.formatdate(usegmt=True)
    release = f"Suite: local\nDate: {dated}\nSHA256:\n {digest} {len(packages.encode())} Packages\n"
    (repository / "Release").write_text(release)


def _sources(apt: Path) -> Iterator[AptSource]:
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        text = "\n".join(line for line in _read(path).splitlines() if not line.startswith("#"))
        if path.suffix == ".sources":
            yield from (source for stanza in re.split(r"\n\s*\n", text) for source in _stanza(stanza))
        elif path.suffix == ".list":
            yield from (source for line in text.splitlines() for source in _line(line))


def _stanza(text: str) -> Iterator[AptSource]:
    """Parse the deb822 form: fields, whose values continue in indented lines."""
    fields = {name.lower(): value.split() for name, value in re.findall(r"(?m)^([\w-]+):((?:.*(?:\n[ \t].*)*))", text)}
    if "deb" in fields.get("types", ()) and fields.get("enabled") != ["no"]:
        for uri in fields.get("uris", ()):
            suites, components = fields.get("suites", ()), fields.get("components", ())
            yield AptSource(
                uri.rstrip("/"), tuple(suites), tuple(components), _keyring(fields.get("signed-by", [""])[0])
            )


def _line(text: str) -> Iterator[AptSource]:
    """Parse the one-line form: deb [options] uri suite components."""
    if match := re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)", text):
        options, uri, suite, components = match.groups()
        signed_by = re.search(r"signed-by=(\S+)", options or "")
        keyring = _keyring(signed_by.group(1) if signed_by else "")
        yield AptSource(uri.rstrip("/"), (suite,), tuple(components.partition("#")[0].split()), keyring)


def _keyring(signed_by: str) -> str:
    return signed_by if signed_by.startswith("/") else KEYRING


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
