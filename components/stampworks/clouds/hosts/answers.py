"""The answer of the survey program, read as facts. Machines may say anything: nothing of it is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampworks.plan.host_facts import (
    Content,
    DiskFacts,
    HostSurvey,
    MountFacts,
    NetworkInterface,
    PciDevice,
    RdmaPort,
    SharedPath,
)

BEGIN, END = "stampworks-survey\t1", "end"
LINES_MAX = 4000
TEXT_MAX = 200
MARK_MAX = 4096
MOUNTS_MAX = 200
_NOT_KEPT = ("/dev", "/proc", "/run", "/sys")
"""Mount points below which nothing is stored."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""Blanks in paths, as the kernel writes them in its list of mounts."""

Line = list[str]


def plain(text: str, most: int = TEXT_MAX) -> str:
    """Return the printable characters of a text, up to a limit."""
    return "".join(each for each in text[: 4 * most] if each.isprintable()).strip()[:most]


def read(output: str, before: float, after: float) -> HostSurvey:
    """Return the facts of an answer that was asked for and received at these times. ValueError if it is none."""
    lines = _Lines(output)
    os = {line[0]: line[1] for line in lines.of("os", 2)}
    user, root = lines.first("user", 2)
    sockets, cores, threads = map(number, lines.first("processors", 3))
    neighbour, neighbour_reached = lines.first("neighbour", 2)
    clocks = [_seconds(each[0]) for each in lines.of("clock", 1)]
    if len(clocks) != 2:
        raise ValueError("its answer has no time")
    return HostSurvey(
        os=os.get("ID", ""),
        suite=os.get("VERSION_CODENAME", "") or os.get("VERSION_ID", ""),
        os_name=os.get("PRETTY_NAME", ""),
        kernel=lines.first("kernel", 2)[0],
        architecture=lines.first("kernel", 2)[1],
        machine_id=_hexadecimal(lines.first("machine_id", 1)[0].replace("-", "")),
        boot_id=_hexadecimal(lines.first("boot_id", 1)[0].replace("-", "")),
        python3=lines.first("python3", 1)[0],
        user=user,
        root=root == "yes",
        container=tuple(each[0] for each in lines.of("container", 1)),
        sockets=sockets,
        cores=cores,
        threads=threads,
        memory_mib=number(lines.first("memory_kib", 1)[0]) // 1024,
        accelerators=tuple(_accelerators(lines)),
        drivers=tuple(f"{name} {version}" for name, version in lines.of("driver", 2)),
        ports=tuple(map(_port, lines.of("port", 10))),
        interfaces=tuple(_interfaces(lines)),
        disks=tuple(_disks(lines)),
        mounts=tuple(_mounts(lines))[:MOUNTS_MAX],
        shared=tuple(_shared(lines)),
        mark=lines.mark,
        runs=tuple(sorted({each[0] for each in lines.of("runs", 1)})),
        neighbour=neighbour,
        neighbour_reached="yes" if neighbour_reached == "yes" else "no" if neighbour_reached == "no" else "unknown",
        clock_ahead_s_min=round(clocks[1] - after, 3),
        clock_ahead_s_max=round(clocks[0] - before, 3),
    )


class _Lines:
    """The lines between the mark of the beginning and the one of the end; a login may have printed others."""

    def __init__(self, output: str) -> None:
        lines = output.splitlines()
        if BEGIN not in lines:
            raise ValueError("its answer is not that of the survey")
        lines = lines[lines.index(BEGIN) + 1 :]
        if len(lines) > LINES_MAX:
            raise ValueError(f"its answer has more than {LINES_MAX} lines")
        if END not in lines:
            raise ValueError("its answer has no end")
        self.kinds: dict[str, list[Line]] = {}
        self.mark = ""
        for line in lines[: lines.index(END)]:
            kind, *fields = line.split("\t")
            if kind == "mark":
                self.mark = plain(" ".join(fields), MARK_MAX)
            self.kinds.setdefault(kind, []).append([plain(each) for each in fields])

    def of(self, kind: str, fields: int) -> list[Line]:
        """Return all lines of a kind, each with so many fields."""
        return [[*line, *[""] * fields][:fields] for line in self.kinds.get(kind, ())]

    def first(self, kind: str, fields: int) -> Line:
        """Return the first line of a kind; empty fields if there is none."""
        return next(iter(self.of(kind, fields)), [""] * fields)


def _accelerators(lines: _Lines) -> Iterator[PciDevice]:
    for address, vendor, device, kind in lines.of("pci", 4):
        id_ = f"{_hexadecimal(vendor)}:{_hexadecimal(device)}"
        if id_.startswith(("10de:", "1002:")):
            yield PciDevice(address, id_, kind)


def _port(line: Line) -> RdmaPort:
    device, port, state, rate, layer, manager, gid, pci, interface, keys = line
    rate_gbps = float(rate) if re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", rate) else 0.0
    lid = _hexadecimal(manager)
    return RdmaPort(
        device=device,
        number=number(port),
        state=state,
        rate_gbps=rate_gbps,
        link_layer=layer,
        subnet_manager=int(lid, 16) if lid else 0,
        gid=gid if re.fullmatch(r"([0-9a-f]{4}:){7}[0-9a-f]{4}", gid) else "",
        pci=pci,
        interface=interface,
        partition_keys=tuple(dict.fromkeys(keys.split())),
    )


def _interfaces(lines: _Lines) -> Iterator[NetworkInterface]:
    addresses: dict[str, list[str]] = {}
    for name, address in lines.of("address", 2):
        if re.fullmatch(r"[0-9a-fA-F:.]{2,45}/[0-9]{1,3}", address):
            addresses.setdefault(name, []).append(address)
    for name, mtu, carrier, speed, _, pci in lines.of("interface", 6):
        there = tuple(addresses.get(name, ()))
        yield NetworkInterface(name, number(mtu), carrier == "1", number(speed), pci, there)


def _disks(lines: _Lines) -> Iterator[DiskFacts]:
    content: dict[str, list[Content]] = {}
    for disk, part, kind, label in lines.of("holds", 4):
        content.setdefault(disk, []).append(Content(part, kind, label))
    for disk, part, holder in lines.of("held", 3):
        content.setdefault(disk, []).append(Content(part, f"part of {holder}", ""))
    for name, sectors, model, _ in lines.of("disk", 4):
        yield DiskFacts(name, number(sectors) * 512 // 10**9, model, tuple(content.get(name, ())))


def _mounts(lines: _Lines) -> Iterator[MountFacts]:
    for point, kind, source, device, inside in lines.of("mount", 5):
        if not any(f"{point}/".startswith(f"{each}/") for each in _NOT_KEPT):
            yield MountFacts(_path(point), kind, _path(source), device, _path(inside))


def _shared(lines: _Lines) -> Iterator[SharedPath]:
    for path, state in lines.of("directory", 2):
        yield SharedPath(path, "yes" if state == "yes" else "hangs" if state == "hangs" else "no")


def _path(text: str) -> str:
    return plain(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), text))


def number(text: str) -> int:
    """Return a number that is not negative; zero for every other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else 0


def _hexadecimal(text: str) -> str:
    return text.removeprefix("0x") if re.fullmatch(r"(0x)?[0-9a-f]{1,64}", text) else ""


def _seconds(text: str) -> float:
    """Return seconds since 1970. A `date` without nanoseconds prints its %N."""
    text = text.removesuffix("%N").removesuffix(".")
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text):
        raise ValueError("its answer has no time")
    return float(text)
