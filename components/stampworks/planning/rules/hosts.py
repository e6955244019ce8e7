"""Machines that exist, as they said that they are: whether a cluster can be made of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from stampworks import catalog
from stampworks.plan import Group, Host, Plan
from stampworks.plan.host_facts import HostFacts, HostSurvey
from stampworks.planning.rules.findings import Facts, Finding, Severity
from stampworks.text.amounts import counted
from stampworks.text.names import fold

SURVEY = "`stampworks facts -s STACK` asks them"
LOCK = "`stampworks hosts lock -s STACK`"
CLOCK_S_MAX = 1.0
UNREADABLE = "?"
"""Owner of a host whose mark cannot be read; no cluster is called so."""
_OF_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "vfat", "overlay", "tmpfs")
"""File systems that one machine alone can mount."""
Surveyed = Sequence[tuple[Host, HostSurvey]]
"""The hosts that answered, in the order of the plan."""


def surveyed(plan: Plan, facts: Facts) -> Surveyed:
    """Return the plan's hosts that answered, with their answers."""
    answers = ((host, _answer(facts, host)) for host in plan.hosts.machines) if plan.hosts else ()
    return [(host, answer.survey) for host, answer in answers if answer and answer.survey]


def group_of(plan: Plan, host: Host) -> Group | None:
    """Return the group that a host may be a node of."""
    return next((each for each in plan.groups if each.name == host.group), None)


def named(hosts: Iterable[Host]) -> str:
    """Return the names of hosts in short form."""
    return fold([host.id for host in hosts])


class Findings:
    """Findings of one rule about hosts. Hosts with the same problem share a finding."""

    def __init__(self, plan: Plan, id_: str) -> None:
        self.plan, self.id = plan, id_
        self.problems: dict[tuple[str, str, Severity], list[Host]] = {}
        self.unknown: dict[tuple[str, str], list[Host]] = {}

    def fail(self, host: Host, text: str, hint: str, severity: Severity = "error") -> None:
        """Add a host that is not as it must be."""
        self.problems.setdefault((text, hint, severity), []).append(host)

    def cannot_tell(self, host: Host, text: str, hint: str) -> None:
        """Add a host of which it is unknown."""
        self.unknown.setdefault((text, hint), []).append(host)

    def all(self, holds: str) -> Iterator[Finding]:
        """Yield the findings; a pass with this text if there are none, unless it is empty."""
        for (text, hint, severity), hosts in self.problems.items():
            yield self._finding("fail", hosts, text, hint, severity)
        for (text, hint), hosts in self.unknown.items():
            yield self._finding("unknown", hosts, text, hint, "error")
        if holds and not self.problems and not self.unknown:
            yield Finding(self.id, "pass", holds, "", "hosts.machines")

    def _finding(
        self, verdict: Literal["fail", "unknown"], hosts: Sequence[Host], text: str, hint: str, severity: Severity
    ) -> Finding:
        listed = self.plan.hosts.machines if self.plan.hosts else ()
        place = f"hosts.machines[{listed.index(hosts[0])}]" if len(hosts) == 1 else "hosts.machines"
        return Finding(self.id, verdict, f"{named(hosts)}: {text}", hint, place, severity, named(hosts))


def _answer(facts: Facts, host: Host) -> HostFacts | None:
    answers = facts.hosts.hosts if facts.hosts else ()
    return next((each for each in answers if (each.address, each.port) == (host.address, host.port)), None)


def asked(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """All machines were asked within the last week; all other rules about hosts rely on it."""
    if plan.hosts is None or not plan.hosts.machines:
        return
    if facts.hosts is None:
        text = f"the state of {counted(len(plan.hosts.machines), 'machine')} is unknown: {facts.hosts_why}"
        yield Finding("hosts.asked", "unknown", text, SURVEY, "hosts.machines")
        return
    found = Findings(plan, "hosts.asked")
    for host in plan.hosts.machines:
        if _answer(facts, host) is None:
            found.cannot_tell(host, "not asked yet", SURVEY)
    yield from found.all(f"{counted(len(plan.hosts.machines), 'machine')}, as they were on {facts.hosts.at[:10]}")


def reached(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Every machine answers ssh with the host key of the lock, and lets the user log in."""
    if plan.hosts is None or facts.hosts is None:
        return
    found, user = Findings(plan, "hosts.reached"), plan.hosts.user
    there = surveyed(plan, facts)
    answers = [(host, answer) for host in plan.hosts.machines if (answer := _answer(facts, host))]
    for host, answer in answers:
        group = group_of(plan, host)
        # the others of its group are enough nodes: it is a reserve that cannot be used now
        enough = group is None or sum(each.group == group.name for each, _ in there) >= group.count
        severity: Severity = "warning" if enough else "error"
        if answer.reached == "silent":
            hint = "start the machine or correct its address, or take it out of the list"
            found.fail(host, f"no answer: {answer.why}", hint, severity)
        elif answer.reached == "refused":
            home = "/root" if user == "root" else f"~{user}"
            hint = f"put a public key of yours into {home}/.ssh/authorized_keys there, or correct hosts.user"
            found.fail(host, f"the login as {user} was refused: {answer.why}", hint, severity)
        elif answer.reached == "impostor":
            text = "it showed another host key than the lock has, and was not asked"
            hint = f"if it was installed anew, {LOCK} shows the new key; if not, find out which machine answers there"
            found.fail(host, text, hint)
        elif answer.reached == "unreadable":
            found.fail(host, f"no survey: {answer.why}", "log in there by ssh, and see what it prints", severity)
    verb = "answers" if len(answers) == 1 else "answer"
    yield from found.all(f"{counted(len(answers), 'machine')} {verb}" if answers else "")


def identity(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """No machine is listed twice, and each is the one that was locked."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.identity")
    by_id, by_key = defaultdict[str, list[Host]](list), defaultdict[str, list[Host]](list)
    for host, survey in there:
        by_id[survey.machine_id].append(host)
        by_key[" ".join(host.host_key.split()[:2])].append(host)
    for hosts in by_key.values():
        for host in hosts if len(hosts) > 1 else ():
            text = "they have one host key: they are one machine, or copies of one disk"
            hint = "list a machine once; on copies: rm /etc/ssh/ssh_host_*; ssh-keygen -A; restart ssh"
            found.fail(host, text, f"{hint}; then {LOCK}")
    for id_, hosts in by_id.items():
        for host in hosts if id_ and len(hosts) > 1 else ():
            text = f"they have one machine id, {id_}: they are one machine, or copies of one disk"
            hint = "list a machine once; on copies: rm /etc/machine-id; systemd-machine-id-setup"
            found.fail(host, text, f"{hint}; then {LOCK}")
    for host, survey in there:
        if not survey.machine_id:
            text = "it has no machine id, so that another machine in its place is not noticed"
            found.fail(host, text, f"systemd-machine-id-setup makes one; then {LOCK}", "warning")
        elif host.machine_id and survey.machine_id != host.machine_id:
            text = f"its machine id is {survey.machine_id}, and the lock has {host.machine_id}"
            found.fail(host, text, f"if it was installed anew, or is another machine on purpose: {LOCK}")
    yield from found.all("no machine is there twice" if there else "")


def containers(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Clusters of several nodes are made of machines, and not of containers."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.container")
    workers = [group for group in plan.groups if group.role == "worker"]
    simulated = {group.name for group in workers if group.machine.simulated}
    if not workers or len(simulated) == len(workers) or sum(group.count for group in workers) < 2:
        return
    for host, survey in there:
        if survey.container and host.group not in simulated:
            signs = "; ".join(survey.container)
            text = f"it is a container and not a machine ({signs}): it has no kernel, sysctls and ports of its own"
            found.fail(host, text, "rent whole machines, or declare one node")
    yield from found.all("all machines have a kernel of their own" if there else "")


def rights(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The user of ssh is root on every machine, or becomes root by sudo without a password."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.sudo")
    for host, survey in there:
        if not survey.root:
            hint = f"as root there: echo '{survey.user} ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/{survey.user}"
            found.fail(host, f"{survey.user} is not root there, and has no sudo without a password", hint)
    yield from found.all("ssh leads to root on all machines" if there else "")


def system(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Every machine runs the system that the release is for, and has python3."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.system")
    release = plan.release
    for host, survey in there:
        if survey.suite != release.suite:
            others = [row.name for row in catalog.releases().values() if row.suite == survey.suite and not row.clouds]
            runs = printable_system(survey)
            hint = " or ".join([f"install {release.suite} there", *(f"write release: {name}" for name in others)])
            found.fail(host, f"it runs {runs}, and release {release.name} is for {release.suite}", hint)
        if not survey.python3:
            found.fail(host, "it has no python3, which Ansible needs", "apt-get install python3")
    yield from found.all(f"all machines run {release.suite} and have python3" if there else "")


def printable_system(survey: HostSurvey) -> str:
    """Return the name of a host's operating system."""
    return survey.os_name or f"{survey.os} {survey.suite}".strip() or "a system without a name"


def claims(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """No machine belongs to another cluster, by its mark or by the scheduler that runs there."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.claimed")
    for host, survey in there:
        owner = marked_for(survey)
        if owner == UNREADABLE:
            hint = "see which program wrote it; if no cluster needs the machine: rm /etc/stampworks/cluster there"
            found.fail(host, "its mark of a cluster in /etc/stampworks/cluster cannot be read", hint)
        elif owner and owner != plan.name:
            hint = f"`pulumi destroy` of {owner} gives it back; if its stack is lost: rm /etc/stampworks/cluster there"
            found.fail(host, f"it is marked for cluster {owner}", hint)
        elif survey.runs and not owner:
            verb = "run" if len(survey.runs) > 1 else "runs"
            text = f"{' and '.join(survey.runs)} {verb} there, and the machine is not marked for {plan.name}"
            found.fail(host, text, "stop and disable it, or take the machine out of the list")
    yield from found.all("no machine belongs to another cluster" if there else "")


def marked_for(survey: HostSurvey) -> str:
    """Return the cluster that a host is marked for; empty without a mark."""
    if not survey.mark:
        return ""
    try:
        mark = json.loads(survey.mark)
    except (ValueError, RecursionError):
        return UNREADABLE
    name = mark.get("cluster") if isinstance(mark, Mapping) else None
    return name if isinstance(name, str) and name else UNREADABLE


def clocks(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """The clocks of all machines are right to a second."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.clock")
    for host, survey in there:
        ahead, behind = survey.clock_ahead_s_min, -survey.clock_ahead_s_max
        if max(ahead, behind) > CLOCK_S_MAX:
            way = "ahead of" if ahead > 0 else "behind"
            text = f"its clock is at least {max(ahead, behind):.1f} s {way} the clock here"
            found.fail(host, text, "run a time service there, such as chrony, and see whether one runs here", "warning")
    yield from found.all("all clocks are right to a second" if there else "")


def inside(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Every machine has its inside address, and reaches the next machine at that one's."""
    there, found = surveyed(plan, facts), Findings(plan, "hosts.inside")
    answering = {host.inside: host for host, _ in there}
    for host, survey in there:
        own = [each.partition("/")[0] for interface in survey.interfaces for each in interface.addresses]
        if host.inside != host.address and _is_number(host.inside) and host.inside not in own:
            text = f"{host.inside} is not an address of it: it has {', '.join(own[:4]) or 'none'}"
            found.fail(host, text, "correct its `inside`")
        tried = answering.get(survey.neighbour)
        if tried is None:
            continue
        if survey.neighbour_reached == "no":
            text = f"it does not reach {tried.inside} of {tried.id} by TCP"
            found.fail(host, text, "put all machines into one network, and let its firewalls pass their traffic")
        elif survey.neighbour_reached == "unknown":
            text = f"whether it reaches {tried.inside} of {tried.id}: it has none of bash, python3 and nc"
            found.cannot_tell(host, text, "apt-get install bash")
    yield from found.all("each machine reaches the next one inside" if len(there) > 1 else "")


def _is_number(address: str) -> bool:
    return address.replace(".", "").isdigit() or ":" in address


def storage(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Shared directories are on all machines, and of one file system."""
    there = surveyed(plan, facts)
    for index, each in enumerate(plan.storage):
        if not each.existing.startswith("/") or not there:
            continue
        found, systems = Findings(plan, "hosts.storage"), defaultdict[str, list[Host]](list)
        for host, survey in there:
            state = next((path.state for path in survey.shared if path.path == each.existing), None)
            if state == "yes":
                systems[file_system(survey, each.existing)].append(host)
            elif state is None:
                found.cannot_tell(host, f"whether {each.existing} is there was not asked", SURVEY)
            elif state == "hangs":
                found.fail(host, f"{each.existing} does not answer: its server is away", "start its server")
            else:
                found.fail(host, f"{each.existing} is not a directory there", "mount it on all machines")
        yield from found.all("")
        field = f"storage[{index}].existing"
        if len(systems) > 1:
            sides = "; ".join(f"{system} on {named(hosts)}" for system, hosts in systems.items())
            text = f"{each.existing} is {len(systems)} file systems: {sides}"
            yield Finding("hosts.storage", "fail", text, "mount one on all machines", field, subject=each.name)
        elif not found.problems and not found.unknown:
            text = f"{each.existing} is {next(iter(systems))} on all machines"
            yield Finding("hosts.storage", "pass", text, "", field, subject=each.name)


def file_system(survey: HostSurvey, path: str) -> str:
    """Return the file system that a directory is in: equal texts are equal file systems.

    The source of a network's file system says which one it is. A disk is another one on each machine, with any name;
    but machines that share a kernel share its disks.
    """
    above = [each for each in survey.mounts if each.point == "/" or f"{path}/".startswith(f"{each.point}/")]
    kernel = f"kernel {survey.boot_id[:8]}"
    if not above:
        return f"nothing known of {kernel}"
    mount = max(above, key=lambda each: len(each.point))
    if mount.kind in _OF_DISKS:
        return f"{mount.kind} {mount.source} ({mount.device} {mount.inside}) of {kernel}"
    return f"{mount.kind} {mount.source}"
