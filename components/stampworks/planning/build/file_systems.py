"""Declared file systems: their valid options, their performance, and the effects of changes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from stampworks.catalog import (
    UNKNOWN,
    Effect,
    FileSystem,
    FileSystemChange,
    FileSystemTier,
    Machine,
    Ranges,
    Unknown,
    file_system_changes,
    file_systems,
    protocol_of,
    tiers_of,
)
from stampworks.declaration.wording import alternatives
from stampworks.physics import devices
from stampworks.physics.bounds import Bound, UnknownFactError, figure

MetadataIops = int | Literal["automatic"]


@dataclass(frozen=True)
class Options:
    """The options of a declared file system. None: not declared, which is valid when there is at most one choice."""

    kind: str
    tier: str | None = None
    mbps_per_tib: int | None = None
    capacity: int | None = None
    """Capacity in the unit of the kind, which is GiB for all but one: see the catalog."""
    throughput_mbps: int | None = None
    """Throughput of the whole file system, if it is sold separately from capacity."""
    read_cache_gib: int | None = None
    metadata_iops: MetadataIops | None = None
    efa: bool = False
    features: tuple[str, ...] = ()
    """Further features: backups, compression, root-squash, data-repository, hdd-read-cache."""


@dataclass(frozen=True)
class OptionFinding:
    """An option that is invalid, or that cannot be judged."""

    rule: str
    verdict: Literal["fail", "unknown"]
    option: str
    """The field of Options."""
    text: str
    hint: str
    below: int | None = None
    """The nearest valid number below, if any."""
    above: int | None = None


@dataclass(frozen=True)
class Delivered:
    """Sustained rates of a file system, in GB/s, without bursts from caches."""

    read: Bound | Unknown
    write: Bound | Unknown
    metadata_iops: Bound | Unknown
    notes: Mapping[str, str]
    """Why a rate is unknown, by its name here."""


NOTHING_KNOWN = Delivered(UNKNOWN, UNKNOWN, UNKNOWN, {})


@dataclass(frozen=True)
class OptionChange:
    """A changed option of a file system, and its effect."""

    option: str
    before: object
    after: object
    effect: Effect | Unknown
    interrupts: str | Unknown
    """Interruption that clients notice; empty for none."""
    rule: str


@dataclass(frozen=True)
class Changed:
    """The effect of all changed options of a file system together."""

    effect: Effect | Unknown | None
    """The worst effect of all options; None when nothing changes."""
    options: tuple[OptionChange, ...]


def check(options: Options, cloud: str) -> tuple[OptionFinding, ...]:
    """Return all findings about a file system on a cloud; empty when it can be created."""
    return tuple(_findings(options, cloud))


def resolve(options: Options) -> FileSystemTier | None:
    """Return the catalog row that the options determine; None when they fit no row, or several."""
    found = [row for row in _tier_rows(options) if options.mbps_per_tib in (None, row.mbps_per_tib)]
    return found[0] if len(found) == 1 else None


def delivered(options: Options, cloud: str) -> Delivered:
    """Return the performance of a file system with these options; unknown if they are invalid."""
    row = resolve(options)
    if row is None or any(finding.verdict == "fail" for finding in check(options, cloud)):
        why = "throughput: unknown, for it cannot be made like this"
        return Delivered(UNKNOWN, UNKNOWN, UNKNOWN, dict.fromkeys(NOTES, why))
    kind = file_systems()[options.kind]
    bounds = {
        "read": _throughput(row.read_mbps_per_tib, options, kind, options.throughput_mbps),
        "write": _throughput(row.write_mbps_per_tib, options, kind, None),
        "metadata_iops": _metadata(options),
    }
    notes = {name: NOTES[name].format(title=kind.title) for name, bound in bounds.items() if bound is UNKNOWN}
    return Delivered(**bounds, notes=notes)


def over_efa(options: Options, machine: Machine) -> bool:
    """Whether nodes of a machine reach it over EFA; otherwise they use TCP."""
    kind = file_systems()[options.kind]
    return options.efa and protocol_of(machine) == "efa" and machine.name not in kind.without_efa


def client(options: Options, machine: Machine) -> Bound | Unknown:
    """Return the rate of one node: the vendor's limit of a client, or that of its NICs if lower."""
    kind = file_systems()[options.kind]
    efa = over_efa(options, machine)
    rate, over = (kind.client_efa_gbs, "EFA") if efa else (kind.client_gbs, "TCP")
    if isinstance(rate, Unknown):
        return UNKNOWN
    said = Bound(rate, f"throughput of a client of {kind.title} over {over}")
    return min([said, *_carried(efa, machine)], key=lambda bound: bound.value)


def client_most(options: Options, machine: Machine) -> Bound | Unknown:
    """Return the rate of one node, or an upper limit when the vendor publishes none."""
    found = client(options, machine)
    if isinstance(found, Bound) or file_systems()[options.kind].protocol == "local":
        return found
    limits = [*_carried(over_efa(options, machine), machine)]
    if not isinstance(machine.storage_client_gbs, Unknown):
        limits.append(Bound(machine.storage_client_gbs, f"limit of any client on {machine.name}"))
    return min(limits, key=lambda bound: bound.value, default=UNKNOWN)


def _carried(efa: bool, machine: Machine) -> Iterator[Bound]:
    """Yield the limit of all NICs together, if they are known. The rate of NICs outside the fabric is not published."""
    if efa or machine.other_nics == 0:
        with suppress(UnknownFactError):
            yield devices.nics(machine).ceiling


def change(before: Options, after: Options) -> Changed:
    """Return the effect of changing one declared file system into the other."""
    if before.kind != after.kind:
        rule = "the kind of a file system cannot change"
        only = OptionChange("kind", before.kind, after.kind, "replace", UNKNOWN, rule)
        return Changed("replace", (only,))
    options = tuple(_option_changes(before, after))
    # A new file system may have any valid options, so that one replacing option settles the others.
    worst = [effect for effect in ("replace", "refused", UNKNOWN, "in place") if effect in {o.effect for o in options}]
    return Changed(worst[0] if worst else None, options)


def nearest(ranges: Ranges, value: int) -> tuple[int | None, int | None]:
    """Return the nearest valid numbers: at or below a value, and at or above it."""
    below: list[int] = []
    above: list[int] = []
    for first, last, step in ranges:
        assert isinstance(first, int) and isinstance(step, int)  # noqa: S101, PT018 (the catalog checks its ranges)
        if value <= first:
            above.append(first)
        elif isinstance(last, Unknown) or value <= last:
            above.append(first - (first - value) // step * step)
        if value >= first:
            reached = value if isinstance(last, Unknown) else min(value, last)
            below.append(first + (reached - first) // step * step)
    return max(below, default=None), min(above, default=None)


NOTES = {
    "read": "read throughput of {title}: not known to the catalog",
    "write": "write throughput of {title}: not published apart from reads, or not known to the catalog",
    "metadata_iops": "metadata operations of {title}: the cloud chooses their number, or none is published",
}


def _findings(options: Options, cloud: str) -> Iterator[OptionFinding]:
    kind = file_systems().get(options.kind)
    if kind is None:
        near = difflib.get_close_matches(options.kind, file_systems(), n=3, cutoff=0.5) or list(file_systems())
        yield OptionFinding("storage.kind", "fail", "kind", f"no file system is called {options.kind!r}", _one_of(near))
        return
    if kind.clouds and cloud not in kind.clouds:
        there = [each.name for each in file_systems().values() if cloud in each.clouds]
        hint = f"{cloud} has {', '.join(there)}" if there else f"{kind.title} is on {', '.join(kind.clouds)}"
        yield OptionFinding("storage.cloud", "fail", "kind", f"{cloud} has no {kind.title}", hint)
    yield from _which(options, kind)
    if row := resolve(options):
        yield from _capacity(options, kind, row)
        yield from _bought(options, kind, row)
        yield from _metadata_findings(options, kind, row)
        yield from _features(options, kind, row)


def _which(options: Options, kind: FileSystem) -> Iterator[OptionFinding]:
    """Check that tier and throughput determine exactly one way to buy it."""
    tiers = list(dict.fromkeys(row.tier for row in tiers_of(kind.name)))
    rows = _tier_rows(options)
    if not rows and options.tier is None:
        text = f"{kind.title} comes in more than one tier"
        yield OptionFinding("storage.tier", "fail", "tier", text, f"write tier: {alternatives(tiers)}")
    elif not rows:
        text = f"{kind.title} has no tier {options.tier!r}"
        yield OptionFinding("storage.tier", "fail", "tier", text, f"write tier: {alternatives(tiers)}")
    elif options.mbps_per_tib is None and len(rows) > 1:
        text = f"{_title(kind, rows[0])} needs a throughput per {_large(kind)}"
        hint = f"write mbps_per_tib: {alternatives([f'{row.mbps_per_tib}' for row in rows])}"
        yield OptionFinding("storage.throughput-per-tib", "fail", "mbps_per_tib", text, hint)
    elif options.mbps_per_tib is not None and not resolve(options):
        values = [row.mbps_per_tib for row in rows if isinstance(row.mbps_per_tib, int) and row.mbps_per_tib]
        yield _no_throughput(options.mbps_per_tib, kind, _title(kind, rows[0]), values)


def _no_throughput(asked: int, kind: FileSystem, title: str, values: Sequence[int]) -> OptionFinding:
    rule = "storage.throughput-per-tib"
    if not values:
        text = f"{title} does not let its throughput per {_large(kind)} be chosen"
        return OptionFinding(rule, "fail", "mbps_per_tib", text, "leave mbps_per_tib out")
    below = max((value for value in values if value < asked), default=None)
    above = min((value for value in values if value > asked), default=None)
    text = f"{title} does not come with {asked} MB/s per {_large(kind)}"
    hint = f"write mbps_per_tib: {alternatives([f'{value}' for value in values])}"
    return OptionFinding(rule, "fail", "mbps_per_tib", text, hint, below, above)


def _capacity(options: Options, kind: FileSystem, row: FileSystemTier) -> Iterator[OptionFinding]:
    title = _title(kind, row)
    ranges = row.capacity
    if options.efa:
        if row.capacity_efa == ():
            yield OptionFinding("storage.efa", "fail", "efa", f"{title} has no EFA", _tiers_with_efa(kind))
            return
        for need in row.efa_needs:
            if getattr(options, need) is None:
                text = f"{title} with EFA needs {need}"
                yield OptionFinding("storage.efa", "fail", need, text, f"write {need}: automatic, or a number")
        ranges = row.capacity_efa if row.capacity != () else ()  # none if it grows automatically
        title += " with EFA"
    yield from _number("storage.capacity", "capacity", options.capacity, ranges, title, kind.capacity_unit)


def _bought(options: Options, kind: FileSystem, row: FileSystemTier) -> Iterator[OptionFinding]:
    """Check throughput that is sold separately, and the cache whose size depends on it."""
    title = _title(kind, row)
    asked = options.throughput_mbps
    if row.throughput_mbps is not UNKNOWN or asked is not None:
        yield from _number("storage.throughput", "throughput_mbps", asked, row.throughput_mbps, title, "MB/s")
    if options.read_cache_gib is None:
        return
    cache = _times(row.read_cache_gib, _steps(row.throughput_mbps, asked))
    yield from _number("storage.read-cache", "read_cache_gib", options.read_cache_gib, cache, title, "GiB")


def _steps(ranges: Ranges | Unknown, value: int | None) -> int:
    """Return the number of steps in a valid number; 1 for any other."""
    if isinstance(ranges, Unknown) or not ranges or value is None:
        return 1
    step = ranges[0][2]
    return max(1, value // step) if isinstance(step, int) else 1


def _times(ranges: Ranges | Unknown, factor: int) -> Ranges | Unknown:
    if isinstance(ranges, Unknown):
        return UNKNOWN
    return tuple(
        (first * factor, last * factor, step)
        for first, last, step in ranges
        if isinstance(first, int) and isinstance(last, int)
    )


def _metadata_findings(options: Options, kind: FileSystem, row: FileSystemTier) -> Iterator[OptionFinding]:
    asked, title, rule = options.metadata_iops, _title(kind, row), "storage.metadata"
    if asked is None and row.metadata_automatic is not False:
        return
    if asked != "automatic":
        yield from _number(rule, "metadata_iops", asked, row.metadata_iops, title, "IOPS")
    elif row.metadata_automatic is UNKNOWN:
        text = f"the catalog does not know whether {title} chooses its metadata IOPS"
        yield OptionFinding(rule, "unknown", "metadata_iops", text, "")
    elif row.metadata_automatic is False:
        text = f"{title} does not choose its metadata IOPS"
        yield OptionFinding(rule, "fail", "metadata_iops", text, _legal(row.metadata_iops) or "leave metadata_iops out")


def _features(options: Options, kind: FileSystem, row: FileSystemTier) -> Iterator[OptionFinding]:
    title = _title(kind, row)
    for name in options.features:
        has = row.features.get(name, UNKNOWN)
        if has is UNKNOWN:
            text = f"the catalog does not know whether {title} has {name}"
            yield OptionFinding("storage.feature", "unknown", "features", text, "")
        elif has is False:
            having = dict.fromkeys(each.tier for each in tiers_of(kind.name) if each.features.get(name) is True)
            hint = f"{', '.join(having)} have it" if having else f"no {kind.title} has it"
            yield OptionFinding("storage.feature", "fail", "features", f"{title} has no {name}", hint)
    for names in kind.exclusive:
        if set(names) <= set(options.features):
            text = f"{kind.title} has {' and '.join(names)} only one at a time"
            yield OptionFinding("storage.exclusive", "fail", "features", text, f"take out one of {', '.join(names)}")


def _number(
    rule: str, option: str, asked: int | None, ranges: Ranges | Unknown, title: str, unit: str
) -> Iterator[OptionFinding]:
    if isinstance(ranges, Unknown):
        text = f"the catalog does not know which {option} {title} allows"
        yield OptionFinding(rule, "unknown", option, text, "ask its vendor")
    elif asked is None and ranges:
        yield OptionFinding(rule, "fail", option, f"{title} needs {option}", f"{_legal(ranges)} {unit}")
    elif asked is not None and not ranges:
        text = f"{title} has no {option} to choose"
        yield OptionFinding(rule, "fail", option, text, f"leave {option} out")
    elif asked is not None:
        below, above = nearest(ranges, asked)
        if asked not in (below, above):
            sides = " or ".join(f"{side}" for side in (below, above) if side is not None)
            text = f"{option} {asked} {unit} is not valid for {title}: allowed are {_legal(ranges)}"
            yield OptionFinding(rule, "fail", option, text, f"write {option}: {sides}", below, above)


def _option_changes(before: Options, after: Options) -> Iterator[OptionChange]:
    old, new = resolve(before), resolve(after)
    was = replace(before, tier=old.tier if old else before.tier, mbps_per_tib=_mbps_per_tib(old, before))
    will = replace(after, tier=new.tier if new else after.tier, mbps_per_tib=_mbps_per_tib(new, after))
    for option in ("tier", "mbps_per_tib", "capacity", "throughput_mbps", "read_cache_gib", "metadata_iops", "efa"):
        if getattr(was, option) != getattr(will, option):
            yield _option_change(was, old, option, getattr(was, option), getattr(will, option))
    for feature in sorted(set(before.features) ^ set(after.features)):
        yield _option_change(was, old, feature, feature in before.features, feature in after.features)


def _option_change(
    was: Options, row: FileSystemTier | None, option: str, before: object, after: object
) -> OptionChange:
    rule = _rule(was, option)
    if rule is None:
        return OptionChange(option, before, after, UNKNOWN, UNKNOWN, "the catalog does not know the effect of a change")
    effect = _effect(rule, before, after)
    if effect == "in place" and rule.within_range and row and not _same_range(row.capacity, before, after):
        effect = "refused"
    return OptionChange(option, before, after, effect, rule.interrupts if effect == "in place" else "", rule.rule)


def _rule(was: Options, option: str) -> FileSystemChange | None:
    """Return the first fitting row of the catalog."""
    fitting = (
        each
        for each in file_system_changes().values()
        if (each.kind, each.option) == (was.kind, option)
        and (not each.tiers or was.tier in each.tiers)
        and each.efa in ("any", "with" if was.efa else "without")
    )
    return next(fitting, None)


def _effect(rule: FileSystemChange, before: object, after: object) -> Effect | Unknown:
    if None in (before, after):
        return "in place" if rule.down == "in place" else "refused"  # declared only before, or only after
    if "automatic" in (before, after):
        return UNKNOWN  # depends on the number that the cloud chooses
    if isinstance(before, int) and isinstance(after, int):
        return rule.up if after > before else rule.down
    return rule.up


def _same_range(ranges: Ranges | Unknown, before: object, after: object) -> bool:
    def index(value: object) -> int | None:
        if isinstance(ranges, Unknown) or not isinstance(value, int):
            return None
        holding = (number for number, each in enumerate(ranges) if nearest((each,), value) == (value, value))
        return next(holding, None)

    return index(before) == index(after)


def _throughput(per_tib: float | Unknown, options: Options, kind: FileSystem, bought: int | None) -> Bound | Unknown:
    if bought is not None:
        return Bound(bought / 1000, f"{bought} MB/s are bought")
    if isinstance(per_tib, Unknown) or options.capacity is None:
        return UNKNOWN
    tib, large = options.capacity / kind.units_per_tib, _large(kind)
    counted = f"{figure(tib)} {large} ({options.capacity} {kind.capacity_unit} / {kind.units_per_tib})"
    return Bound(per_tib * tib / 1000, f"{figure(per_tib)} MB/s per {large} x {counted}")


def _large(kind: FileSystem) -> str:
    """Return the unit in which throughput is sold: TiB for GiB, TB for GB."""
    return kind.capacity_unit.replace("G", "T")


def _metadata(options: Options) -> Bound | Unknown:
    if not isinstance(options.metadata_iops, int):
        return UNKNOWN
    return Bound(options.metadata_iops, f"{options.metadata_iops} metadata IOPS are bought")


def _tier_rows(options: Options) -> list[FileSystemTier]:
    rows = tiers_of(options.kind)
    if options.tier is not None:
        return [row for row in rows if row.tier == options.tier]
    if len({row.tier for row in rows}) > 1:  # without a tier, the throughput may determine it
        rows = [row for row in rows if options.mbps_per_tib and row.mbps_per_tib == options.mbps_per_tib]
    return rows if len({row.tier for row in rows}) == 1 else []


def _mbps_per_tib(row: FileSystemTier | None, options: Options) -> int | None:
    """Return the throughput per TiB, also when the tier has only one."""
    return row.mbps_per_tib if row and isinstance(row.mbps_per_tib, int) else options.mbps_per_tib


def _title(kind: FileSystem, row: FileSystemTier) -> str:
    tier = f" {row.tier}" if len({each.tier for each in tiers_of(kind.name)}) > 1 else ""
    return f"{kind.title}{tier}"


def _tiers_with_efa(kind: FileSystem) -> str:
    tiers = dict.fromkeys(row.tier for row in tiers_of(kind.name) if row.capacity_efa not in ((), UNKNOWN))
    return f"{', '.join(tiers)} have it" if tiers else f"no {kind.title} has it"


def _legal(ranges: Ranges | Unknown) -> str:
    if isinstance(ranges, Unknown):
        return ""
    return ", ".join(_range(first, last, step) for first, last, step in ranges)


def _range(first: int | Unknown, last: int | Unknown, step: int | Unknown) -> str:
    if first == last:
        return f"{first}"
    return (
        f"{first} and more in steps of {step}" if isinstance(last, Unknown) else f"{first} to {last} in steps of {step}"
    )


def _one_of(names: Sequence[str]) -> str:
    return f"write {names[0]}" if len(names) == 1 else f"write one of {', '.join(names)}"
