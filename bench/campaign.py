"""Count detected faults on a real cluster, and false alarms of proofs beside a busy neighbour.

Every fault is repeated several times, at a random place and severity, mixed with proofs of a healthy cluster, so that
an interrupted campaign is a fair sample. It takes more than an hour, and runs only by name. `python -m bench.campaign
--minutes 40` prints how many cases were skipped for lack of time; the printed seed reproduces the same cases in the
same order.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from stampworks.clouds.local.faults import FAULTS
from stampworks.plan import Level

from bench.rows import Row, measured
from bench.stack import NAME, Stack, stack

TIMES, CLEAN, COUNT = 3, 30, 0
SMALL = {"TIMES": 1, "CLEAN": 1, "COUNT": 2}
NODES, RAIL_MBPS, LEAF_NODES = 4, 200, 2
COMMAND_S, NOTICED_S, WELL_S = 1200.0, 90.0, 180.0
DECIDED = (0, 1, 3)
"""Exit statuses of commands with a verdict."""


@dataclass(frozen=True)
class Case:
    """A fault, or none."""

    number: int
    fault: str
    seed: int


@dataclass(frozen=True)
class Outcome:
    case: Case
    where: str
    caught: bool
    """Whether the expected check caught it; in a case without a fault, whether any check failed."""
    right: bool
    """Whether no other node is blamed."""
    unknown: bool
    seconds: float
    why: str
    """All failures, in the words of the check or scheduler."""


def rows() -> list[Row]:
    return campaign(secrets.randbelow(1 << 32), TIMES, CLEAN, count=COUNT)


def campaign(
    seed: int, times: int, clean: int, first: int = 1, count: int = 0, minutes: float = 0.0, level: Level = "standard"
) -> list[Row]:
    """Run this many cases of the seed, or for this many minutes; 0 for all."""
    every = cases(seed, times, clean)
    chosen = every[first - 1 :][: count or None]
    print(f"  seed {seed}: cases {first} to {first + len(chosen) - 1} of {len(every)}", flush=True)
    deadline = time.monotonic() + 60 * minutes if minutes else None
    found: list[Outcome] = []
    broken = 0
    with stack(NODES, rate_mbps=RAIL_MBPS, leaf_nodes=LEAF_NODES) as cluster:
        cluster.up()
        for case in chosen:
            if deadline and time.monotonic() > deadline:
                break
            try:
                found.append(_carried_out(cluster, case, level))
                print(f"  {case.number}/{len(every)} {_line(found[-1])}", flush=True)
            except KeyboardInterrupt:
                print("  broken off by hand", flush=True)
                break
            except (_NotWellError, subprocess.TimeoutExpired, ValueError) as error:
                broken += 1
                print(f"  {case.number}/{len(every)} {case.fault or 'sound'}: broken off: {error}", flush=True)
                if not _mended(cluster):
                    print("  the cluster does not become well again: the campaign ends here", flush=True)
                    break
    return counts(found, broken, len(chosen))


def cases(seed: int, times: int, clean: int) -> list[Case]:
    chance = Random(seed)  # noqa: S311 (to be repeated)
    kinds = [*(name for name, fault in FAULTS.items() if not fault.once for _ in range(times)), *[""] * clean]
    chance.shuffle(kinds)
    return [Case(number, kind, chance.randrange(1 << 32)) for number, kind in enumerate(kinds, 1)]


def counts(found: Sequence[Outcome], broken: int, of: int) -> list[Row]:
    return [
        *_fault_rows(
            [each for each in found if each.case.fault and not FAULTS[each.case.fault].simulated], "live faults"
        ),
        *_fault_rows(
            [each for each in found if each.case.fault and FAULTS[each.case.fault].simulated], "simulated faults"
        ),
        *_false_alarm_rows([each for each in found if not each.case.fault]),
        measured(f"cases that could not be carried out, of {of}", "", [broken], 0),
        measured(f"cases that there was no time for, of {of}", "", [of - broken - len(found)]),
    ]


def _false_alarm_rows(found: Sequence[Outcome]) -> Iterator[Row]:
    if found:
        alarms, unknown = sum(each.caught for each in found), sum(each.unknown for each in found)
        what = f"of {len(found)} proofs of a sound cluster, beside a busy neighbour"
        yield measured(f"{what}: false alarms", "", [alarms], 0)
        yield measured("  without a verdict", "", [unknown], 0)
        yield measured("  how long one takes", "s", [each.seconds for each in found])


def _fault_rows(found: Sequence[Outcome], what: str) -> Iterator[Row]:
    missed = Counter(each.case.fault for each in found if not each.caught)
    wrong = Counter(each.case.fault for each in found if each.caught and not each.right)
    if found:
        yield measured(f"of {len(found)} {what}: missed by the check that must catch it", "", [missed.total()], 0)
        yield measured(f"of {len(found)} {what}: caught, and not the culprit alone blamed", "", [wrong.total()], 0)
    for name, count in sorted((missed + wrong).items()):
        yield measured(f"  of both: {name}, of {sum(each.case.fault == name for each in found)}", "", [count])


# -- one case


class _NotWellError(Exception):
    """The cluster has changed, or does not answer."""


def _carried_out(cluster: Stack, case: Case, level: Level) -> Outcome:
    _until_well(cluster)
    if not case.fault:
        with _busy_neighbour():
            return _proven(cluster, case, {}, level)
    one = _verb(cluster, "fault", "inject", case.fault, "--seed", str(case.seed))
    try:
        by_status = one["check"] in ("health", "status")
        return _noticed(cluster, case, one) if by_status else _proven(cluster, case, one, level)
    finally:
        _verb(cluster, "fault", "clear")


def _proven(cluster: Stack, case: Case, one: Mapping[str, Any], level: Level) -> Outcome:
    begun = time.monotonic()
    certificate = _verb(cluster, "qualify", "--level", level, ends_with=DECIDED)
    seconds = time.monotonic() - begun
    failed = [each for each in certificate["findings"] if each["verdict"] == "fail"]
    blamed = {node["name"] for node in certificate["nodes"] if node["verdict"] == "fail"}
    why = "; ".join(f"{each['check']} {','.join(each['nodes'])}: {each['why']}" for each in failed)
    unknown = certificate["verdict"] == "unknown"
    if not one:
        return Outcome(case, "", bool(failed or blamed), False, unknown, seconds, why)
    caught, right = judged(one, failed, blamed)
    return Outcome(case, _place(one), caught, right, unknown, seconds, why)


def judged(one: Mapping[str, Any], failed: Sequence[Mapping[str, Any]], blamed: set[str]) -> tuple[bool, bool]:
    """Return whether the expected check caught the fault, and whether only the culprit is blamed."""
    is_trunk = FAULTS[one["fault"]].place == "trunk"
    by_check = [each for each in failed if each["check"] == one["check"]]
    caught = [each for each in by_check if one["rail"] in ("", each["rail"], *_words(each))]
    named = any(one["where"] in _words(each) for each in caught) if is_trunk else True
    return bool(caught), named and blamed == (set() if is_trunk else {one["where"]})


def _words(finding: Mapping[str, Any]) -> list[str]:
    return re.findall(r"[\w-]+", finding["why"])


def _noticed(cluster: Stack, case: Case, one: Mapping[str, Any]) -> Outcome:
    """Wait until the health program or the scheduler notices, as `stampworks status` shows it."""
    begun = time.monotonic()
    bad: dict[str, Mapping[str, Any]] = {}
    while not bad and time.monotonic() < begun + NOTICED_S:
        rows = _verb(cluster, "status", ends_with=DECIDED)["nodes"]
        bad = {row["name"]: row for row in rows if row["verdict"] != "pass"}
        time.sleep(0.5)
    by = {row["reason"]["by"] for row in bad.values() if row["reason"]}
    caught = bool(bad) and (one["check"] == "status" or by == {"health"})
    why = "; ".join(f"{name}: {row['reason'] and row['reason']['text']}" for name, row in bad.items())
    return Outcome(case, _place(one), caught, set(bad) == {one["where"]}, False, time.monotonic() - begun, why)


def _place(one: Mapping[str, Any]) -> str:
    severity = "" if one["severity"] is None else f" ({one['severity']:g})"
    return f"{one['where']} {one['rail']}".rstrip() + severity


def _line(its: Outcome) -> str:
    if not its.case.fault:
        said = f"ALARM: {its.why}" if its.caught else "unknown" if its.unknown else "silent"
        return f"sound: {said}, {its.seconds:.0f} s"
    if not its.caught:
        said = f"MISSED: {its.why or 'nothing failed'}"
    else:
        said = "caught, culprit right" if its.right else f"caught, WRONG CULPRIT: {its.why}"
    return f"{its.case.fault} on {its.where}: {said}, {its.seconds:.0f} s"


# -- the cluster in between


def _until_well(cluster: Stack) -> None:
    """Wait until all nodes take jobs: a node held by a proof does so after the next one."""
    deadline = time.monotonic() + WELL_S
    while (found := _verb(cluster, "status", ends_with=DECIDED))["verdict"] != "pass":
        if time.monotonic() > deadline:
            raise _NotWellError(f"the nodes are not well within {WELL_S:.0f} s")
        if any(row["reason"] and row["reason"]["by"] == "proof" for row in found["nodes"]):
            _verb(cluster, "qualify", "--level", "quick", ends_with=DECIDED)
        time.sleep(0.5)


def _mended(cluster: Stack) -> bool:
    with contextlib.suppress(_NotWellError, subprocess.TimeoutExpired, ValueError, SystemExit):
        _verb(cluster, "fault", "clear")
        cluster.run("pulumi", "up", "--refresh", "--yes", "--skip-preview", "--stack", NAME)
        _until_well(cluster)
        return True
    return False


@contextlib.contextmanager
def _busy_neighbour() -> Iterator[None]:
    """Run a process that uses all processor time it can get, as another user of this machine would."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def _verb(cluster: Stack, *argv: str, ends_with: Sequence[int] = (0,)) -> Any:
    """Return the JSON output of a verb."""
    command = [sys.executable, "-m", "stampworks.cli.main", *argv, "--stack", NAME, "--json"]
    done = subprocess.run(
        command,
        cwd=cluster.folder,
        env=cluster.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if done.returncode not in ends_with:
        raise _NotWellError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> int:
    from bench.__main__ import show

    parser = argparse.ArgumentParser(prog="python -m bench.campaign", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no case after that (default: run all)")
    parser.add_argument("--seed", type=int, default=None, help="which cases, in which order (default: by chance)")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="go on from this case of the seed")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="so many cases (default: all)")
    parser.add_argument("--times", type=int, default=TIMES, metavar="N", help=f"of each fault (default: {TIMES})")
    parser.add_argument("--clean", type=int, default=CLEAN, metavar="N", help=f"proofs of a sound cluster ({CLEAN})")
    parser.add_argument("--level", choices=["standard", "burn-in"], default="standard", help="of the proofs")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    show("campaign", campaign(seed, given.times, given.clean, given.first, given.count, given.minutes, given.level))
    return 0


if __name__ == "__main__":
    sys.exit(main())
