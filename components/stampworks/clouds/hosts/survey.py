"""Facts about hosts: one ssh each, many at once. Nothing is installed or changed there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from stampworks.clouds.hosts import answers
from stampworks.clouds.hosts.shell import Answer, ask, everywhere
from stampworks.plan import Host, Hosts
from stampworks.plan.host_facts import SURVEY_VERSION, HostFacts, HostsSurvey, Reached

PROGRAM = Path(__file__).with_name("tree") / "survey"
_REASONS: tuple[tuple[str, Reached], ...] = (
    ("Host key verification failed", "impostor"),
    ("Permission denied", "refused"),
    ("Too many authentication failures", "refused"),
)
"""Messages of ssh, and their meaning; every other one means that the host did not answer."""


def survey(
    cluster: str, hosts: Hosts, directories: Sequence[str] = (), progress: Callable[[str], None] = lambda _: None
) -> HostsSurvey:
    """Ask all hosts. Each also tries the sshd of the next one, at its inside address."""
    asked, program = hosts.machines, PROGRAM.read_text()
    following = {host: asked[(index + 1) % len(asked)] for index, host in enumerate(asked)}
    began: dict[Host, float] = {}
    facts: dict[Host, HostFacts] = {}

    def one(host: Host) -> Answer:
        began[host] = time.time()
        words = [*_neighbour(host, following[host]), *directories]
        answer = ask(hosts, host, ["sh", "-s", "--", *words], program, as_root=False)
        facts[host] = _facts(answer, began[host], time.time())
        progress(f"{len(facts)} of {len(asked)} machines asked")
        return answer

    everywhere(asked, one)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    return HostsSurvey(SURVEY_VERSION, cluster, at, tuple(facts[host] for host in asked))


def _neighbour(host: Host, following: Host) -> tuple[str, str]:
    """Return where the other hosts reach the sshd of the next one: a port of a relay is known to the outside alone."""
    if host == following:
        return "", ""
    same = following.inside == following.address
    return following.inside, str(following.port if same else 22)


def _facts(answer: Answer, before: float, after: float) -> HostFacts:
    host = answer.host
    reached, why, found = _reached(answer), "", None
    if reached == "yes":
        try:
            found = answers.read(answer.output, before, after)
        except ValueError as error:
            reached, why = "unreadable", f"{error}{_said(answer)}"
    else:
        why = answers.plain(answer.why)
    return HostFacts(host.address, host.port, host.host_key, reached, why, found)


def _reached(answer: Answer) -> Reached:
    if answer.reached:
        return "yes"
    return next((reached for message, reached in _REASONS if message in answer.errors), "silent")


def _said(answer: Answer) -> str:
    """Return the end of an answer that is not the survey's, which often says what to do."""
    lines = (answer.errors.strip() or answer.output.strip()).splitlines()
    return f" ({answers.plain(lines[-1])})" if lines else ""
