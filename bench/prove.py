"""Faults that judging finds and misses, without a cluster: each is a count out of a total.

Where a target is a part, it is met when the sample shows it by the unfavourable end of its interval. The chance is the
same at each run, so that a change of these numbers is a change of the judging.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

from stampworks.plan import Level
from stampworks.qualification import Threshold
from stampworks.qualification.baseline import slow_over_time
from stampworks.qualification.localise import Located, localise

from bench.rows import Row, counted, measured
from tests.qualification.faulty import KINDS, Fault, NoisyCluster, broken, named, sound
from tests.qualification.labelled import labelled
from tests.qualification.series import (
    NOISE,
    SLOWED,
    STEPS,
    Fleet,
    differing,
    recorded,
    slowed,
    two_kinds,
    without_slowed,
)

SIZES = (8, 9, 64, 100, 512, 1000, 1024)
SEARCHES = 60
CLUSTERS = 1000
CLEAN = 1000
COMPARED = 250
"""Clusters judged at both levels: all checks take ten times as long to simulate."""
LATE = 40
"""Clusters with a late fault, or a fault that only a burn-in finds."""
WINDOWS = 1000
SMALL = {"SEARCHES": 2, "CLUSTERS": 5, "CLEAN": 5, "COMPARED": 2, "LATE": 2, "WINDOWS": 10}

LEVELS: dict[Level, str] = {"standard": "standard level", "burn-in": "every check"}


def rows() -> list[Row]:
    chance = Random(1)  # noqa: S311
    simulated = [*_searches(chance), *_clusters(chance), *_synthetic_fleets(chance)]
    return [*_thresholds(), *simulated, *_against_everything(), *_recorded(), *_beyond_reach(chance)]


def _thresholds() -> Iterator[Row]:
    """Audit thresholds whose verdict is known: published ones, similar ones, and typical slips."""
    wrong, of = Counter[str](), Counter[str]()
    for each in labelled():
        kind = each.verdict + _where_little_is_known(each.threshold) * (each.verdict == "refused")
        of[kind] += 1
        wrong[kind] += each.judged().verdict != each.verdict
    for kind, count in of.items():
        target = None if kind.endswith(")") else 0
        yield counted(f"thresholds to be {kind}: judged otherwise", "thresholds", wrong[kind], count, target)


def _where_little_is_known(threshold: Threshold) -> str:
    """Return a label for thresholds that depend on unknowns: the size of a file system, or a program's start for a
    small payload."""
    if threshold.quantity.startswith("storage"):
        return " (storage)"
    return " (up to 2 MiB)" if 0 < threshold.size_bytes <= 2 << 20 else ""


def _searches(chance: Random) -> Iterator[Row]:
    """Yield the number of rounds of pairs until the bad items are named."""
    for count in (1, 2):
        who, wrong = ("one bad node", "two bad nodes")[count - 1], 0
        for size in SIZES:
            items = [f"n{number}" for number in range(size)]
            found = [(bad, _search(items, bad)) for bad in (chance.sample(items, count) for _ in range(SEARCHES))]
            wrong += sum(set(located.bad) != set(bad) for bad, located in found)
            most = max(located.rounds for _, located in found)
            target = count * (math.ceil(math.log2(size)) + 1)
            yield measured(f"rounds to find {who} of {size}", "rounds", [most], target)
        yield counted(f"searches for {who} that named others", "searches", wrong, SEARCHES * len(SIZES), 0)


def _search(items: Sequence[str], bad: Sequence[str]) -> Located:
    search = localise(items, lambda item: str(int(item[1:]) // 8))
    asked = next(search)
    try:
        while True:
            asked = search.send([pair for pair in asked if not set(bad).isdisjoint(pair)])
    except StopIteration as end:
        located: Located = end.value
        return located


def _clusters(chance: Random) -> Iterator[Row]:
    """Run whole campaigns on noisy clusters of 8 to 16 nodes, with faults of any kind, place and severity."""
    alarms = sum(any(each.verdict != "pass" for each in sound(chance).prove()) for _ in range(CLEAN))
    yield counted("simulated: clean, and an alarm", "clusters", alarms, CLEAN, 0)
    missed, of_kind = Counter[str](), Counter[str]()
    for count, target in ((1, 0.01), (2, 0.1)):
        wrong = 0
        for _ in range(CLUSTERS):
            cluster, faults = broken(chance, count)
            findings = cluster.prove()
            wrong += not named(faults, findings)
            of_kind.update(fault.kind for fault in faults)
            missed.update(fault.kind for fault in faults if not fault.caught(findings))
        what = "one fault" if count == 1 else "two faults at once"
        yield counted(f"simulated: {what}, and not the culprits alone named", "clusters", wrong, CLUSTERS, target)
    yield counted("simulated: faults missed", "faults", missed.total(), of_kind.total(), 0.02)
    for kind in KINDS:
        if missed[kind]:
            yield counted(f"  of it: {kind}", "faults", missed[kind], of_kind[kind])


def _against_everything() -> Iterator[Row]:
    """Run the standard level and all checks on the same clusters, round by round, to see the price of the saved time.

    Noise is drawn again for each, as in a cluster that is proven twice.
    """
    missed, only = Counter[Level](), Counter[Level]()
    alarms = Counter[Level]()
    for number in range(COMPARED):
        found = {level: _proven(level, number) for level in LEVELS}
        alarms.update(level for level, (_, alarm) in found.items() if alarm)
        missing = [level for level, (caught, _) in found.items() if not caught]
        missed.update(missing)
        only.update(missing if len(missing) == 1 else [])
    for level, name in LEVELS.items():
        yield counted(f"the same faults, {name}: missed", "faults", missed[level], COMPARED, 0.02)
        yield counted(f"  missed by {name} only", "faults", only[level], COMPARED)
        yield counted(f"the same clean clusters, {name}: an alarm", "clusters", alarms[level], COMPARED, 0)
        late = sum(not fault.caught(cluster.prove(level)) for cluster, fault in map(_late, range(LATE)))
        yield counted(f"slow memory, or slow when warm, {name}: missed", "faults", late, LATE)


def _proven(level: Level, number: int) -> tuple[bool, bool]:
    """Whether a fault is caught, and whether a sound cluster raises an alarm."""
    cluster, [fault] = broken(Random(number), 1)  # noqa: S311
    well = sound(Random(number)).prove(level)  # noqa: S311
    return fault.caught(cluster.prove(level)), any(each.verdict != "pass" for each in well)


def _late(number: int) -> tuple[NoisyCluster, Fault]:
    chance = Random(number)  # noqa: S311
    cluster = sound(chance)
    node = chance.choice(sorted(cluster.subject.nodes))
    if number % 2:
        cluster.fades = {node: chance.uniform(0.99, 0.998)}
        return cluster, Fault("slow when warm", node)
    cluster.says = {(node, "memory_copy"): 3 * chance.uniform(0.3, 0.65)}
    return cluster, Fault("slow memory", node)


def _synthetic_fleets(chance: Random) -> Iterator[Row]:
    """Analyse windows of a fleet's steps with a node that is 5 % slow, or with none."""
    alarms = 0
    for name, make in NOISE.items():
        found = _windows(chance, make)
        alarms += found["alarm"]
        yield counted(f"5 % slow, {STEPS} steps, {name}: missed", "windows", found["missed"], WINDOWS, 0.01)
        if found["not both"]:
            yield counted(f"  two at once, {name}: not both found", "windows", found["not both"], WINDOWS)
    yield counted("nobody slow, in all of these: false alarms", "windows", alarms, len(NOISE) * WINDOWS, 0.001)


def _windows(chance: Random, make: Callable[[Random], Fleet]) -> Counter[str]:
    found = Counter[str]()
    for _ in range(WINDOWS):
        made = make(chance)
        bad = chance.sample(sorted(made), 2)
        found["alarm"] += bool(slow_over_time(made))
        found["missed"] += set(slow_over_time(slowed(made, bad[0]))) != {bad[0]}
        found["not both"] += set(slow_over_time(slowed(made, *bad))) != set(bad)
    return found


def _recorded() -> Iterator[Row]:
    """Judge recorded hashing, where one process had 5 % more to do; then slow down each other process in turn."""
    windows = [without_slowed(window) for window in recorded("one_core")]
    count = len(windows)
    missed = sum(set(slow_over_time(window)) != {SLOWED} for window in recorded("one_core"))
    yield counted("5 % slow, recorded: missed", "windows", missed, count, 0)
    each = [(window, name) for window in windows for name in window]
    missed = sum(set(slow_over_time(slowed(window, name))) != {name} for window, name in each)
    yield counted("5 % slow, recorded, each in its turn: missed", "windows", missed, len(each), 0)
    alarms = sum(bool(slow_over_time(window)) for window in windows)
    yield counted("nobody slow, recorded: false alarms", "windows", alarms, count, 0)


def _beyond_reach(chance: Random) -> Iterator[Row]:
    """Show faults that no window of this length can find."""
    for what, make in (("chips 1 % apart", lambda chance: differing(chance, 0.01)), ("batches 3 % apart", two_kinds)):
        found = _windows(chance, make)
        yield counted(f"beyond reach: 5 % slow, {what}: missed", "windows", found["missed"], WINDOWS, 0.01)
        yield counted(f"beyond reach: nobody slow, {what}: false alarms", "windows", found["alarm"], WINDOWS, 0.001)
    windows = [without_slowed(window) for window in recorded("two_cores")]
    found_slow = [set(slow_over_time(window)) for window in windows]
    yield counted(
        "beyond reach: recorded, a neighbour on one of two cores: false alarms",
        "windows",
        sum(map(bool, found_slow)),
        len(windows),
        0.001,
    )
    apart = len(windows) // 3
    thrice = sum(
        bool(one & two & three)
        for one, two, three in zip(found_slow, found_slow[apart:], found_slow[2 * apart :], strict=False)
    )
    yield counted("  the same node in three windows apart", "windows", thrice, len(windows) - 2 * apart, 0)
