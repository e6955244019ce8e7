"""Steps of `stampworks hosts lock`: find host keys, have them confirmed, ask the machines, choose their rails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stampworks import catalog
from stampworks.cli import exits
from stampworks.clouds.hosts.keys import shown_keys
from stampworks.clouds.hosts.survey import survey
from stampworks.declaration import DeclarationError, LockedHost
from stampworks.declaration.keys import identity, public_key
from stampworks.plan import Host, Hosts, JumpHost
from stampworks.planning.build.host_rails import rails_of
from stampworks.planning.changes.access import named
from stampworks.planning.rules.host_hardware import accelerators_text
from stampworks.planning.rules.hosts import printable_system
from stampworks.text.amounts import counted

if TYPE_CHECKING:
    from stampworks.cli.host_list import Listed
    from stampworks.declaration import DeclarationSource, Lock, Problem
    from stampworks.plan.host_facts import HostFacts, HostSurvey

Reached = tuple[str, int]


class HostsUnansweredError(exits.CliError):
    """Machines that did not answer as they must. The declaration may still be correct; the problems name its lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(f"{len(problems)} problems of machines", "", exits.UNKNOWN)
        located = DeclarationError(problems)
        self.problems, self.render = located.problems, located.render


@dataclass(frozen=True)
class LockedMachine:
    """A machine for the lock, with words for people."""

    host: LockedHost
    id: str
    system: str
    hardware: str

    @property
    def rails(self) -> str:
        """Return its rails in words."""
        return ", ".join(f"{each.interface} {each.address}".rstrip() for each in self.host.rails) or "none"


@dataclass
class LockRun:
    """One run over all machines. Problems are collected, and raised together."""

    source: DeclarationSource
    before: Lock
    wanted: Sequence[Listed]
    accepted: frozenset[str]
    """Fingerprints that were confirmed on the command line."""
    progress: Callable[[str], None]

    def __post_init__(self) -> None:
        self.problems: list[Problem] = []
        self.keys: dict[Reached, str] = {}
        """Confirmed keys: declared ones, those of the lock, and accepted ones."""
        self.shown: dict[Reached, str] = {}
        """Keys that machines showed and nobody has confirmed."""

    def find_keys(self) -> None:
        """Look for the key of each machine: declared, else locked, else the one that it shows."""
        locked = {(each.address, each.port): each.host_key for each in self.before.hosts}
        for each in self.wanted:
            if key := each.machine.host_key or locked.get(each.reached, ""):
                self.keys[each.reached] = " ".join(identity(key))
        for each, key in self._asked_for([each for each in self.wanted if each.reached not in self.keys]):
            if named(key) in self.accepted:
                self.keys[each.reached] = key
            else:
                self.shown[each.reached] = key

    def unconfirmed(self) -> list[tuple[Listed, str]]:
        """Return the machines whose keys a person has to confirm. Raise first for those that showed none."""
        self._refuse_problems()
        return [(each, self.shown[each.reached]) for each in self.wanted if each.reached in self.shown]

    def confirm(self) -> None:
        """Take the shown keys for confirmed."""
        self.keys |= self.shown

    def ask(self) -> list[LockedMachine]:
        """Ask all machines for facts, and return them for the lock. Raise HostsUnansweredError with all problems."""
        facts = self._surveyed(self.wanted)
        changed = [each for each in self.wanted if facts[each.reached].reached == "impostor"]
        renewed = []
        for each, key in self._asked_for(changed):
            if named(key) in self.accepted and not each.machine.host_key:
                self.keys[each.reached] = key
                renewed.append(each)
            else:
                self._problem(each, *_another_key(each, self.keys[each.reached], key))
        facts |= self._surveyed(renewed) if renewed else {}
        found = list(self._locked(facts))
        self._twice(found)
        self._refuse_problems()
        return found

    def _asked_for(self, machines: Sequence[Listed]) -> Iterator[tuple[Listed, str]]:
        """Yield the keys that machines show; a problem for each that shows none."""
        if not machines:
            return
        of_host = {self._host(each, ""): each for each in machines}
        for host, answer in shown_keys(self._hosts([*of_host]), [*of_host]).items():
            try:
                key = public_key(answer.key) if answer.key else ""
            except ValueError as error:
                key, answer = "", replace(answer, why=str(error))
            if key:
                yield of_host[host], key
            else:
                hint = "start it or correct its address, or leave it out by --without"
                self._problem(of_host[host], f"{of_host[host].id} showed no host key: {answer.why}", hint)

    def _surveyed(self, machines: Sequence[Listed]) -> dict[Reached, HostFacts]:
        hosts = self._hosts([self._host(each, self.keys[each.reached]) for each in machines])
        answers = survey(self.source.declaration.name, hosts, (), self.progress)
        return {(each.address, each.port): each for each in answers.hosts}

    def _locked(self, facts: Mapping[Reached, HostFacts]) -> Iterator[LockedMachine]:
        for each in self.wanted:
            answer = facts[each.reached]
            if answer.survey:
                yield self._machine(each, answer.survey)
            elif answer.reached == "refused":
                user = self.source.declaration.hosts.user
                hint = "put a public key of yours into its authorized_keys, or correct hosts.user"
                self._problem(each, f"{each.id} refused the login as {user}: {answer.why}", hint)
            elif answer.reached == "unreadable":
                hint = "log in there by ssh, and see what it prints"
                self._problem(each, f"{each.id} gave no survey: {answer.why}", hint)
            elif answer.reached == "silent":
                hint = "start it or correct its address, or leave it out by --without"
                self._problem(each, f"{each.id} does not answer: {answer.why}", hint)

    def _machine(self, each: Listed, said: HostSurvey) -> LockedMachine:
        machine = each.machine
        pool = next((pool for pool in self.source.declaration.pools if pool.name == machine.group), None)
        rails = rails_of(catalog.machines()[pool.machine], said) if pool else ()
        key = self.keys[each.reached]
        host = LockedHost(
            machine.address, machine.port, machine.inside, key, said.machine_id, machine.group, machine.rack, rails
        )
        there = [one.id for one in said.accelerators]
        parts = [f"{counted(said.cores, 'core')}, {said.memory_mib // 1024} GiB"]
        parts += [accelerators_text({id_: there.count(id_) for id_ in there})] if there else []
        return LockedMachine(host, each.id, printable_system(said), ", ".join(parts))

    def _twice(self, found: Sequence[LockedMachine]) -> None:
        """Refuse machines that are one, by host key or machine id."""
        places = {each.reached: each for each in self.wanted}
        keys, ids = defaultdict[str, list[LockedMachine]](list), defaultdict[str, list[LockedMachine]](list)
        for each in found:
            keys[each.host.host_key].append(each)
            ids[each.host.machine_id].append(each)
        for what, same in (("host key", keys), ("machine id", ids)):
            for value, machines in same.items():
                for each in machines[1:] if value else ():
                    text = f"{each.id} has the {what} of {machines[0].id}: they are one machine, or copies of one disk"
                    hint = "list a machine once; give a copy a host key (ssh-keygen -A) and a machine id of its own"
                    self._problem(places[each.host.address, each.host.port], text, hint)

    def _host(self, each: Listed, key: str) -> Host:
        machine = each.machine
        inside = machine.inside or machine.address
        return Host(machine.address, machine.port, inside, key, "", machine.group, machine.rack, ())

    def _hosts(self, machines: Sequence[Host]) -> Hosts:
        declared, via = self.source.declaration.hosts, self.source.declaration.hosts.via
        jump = JumpHost(via.address, via.port, via.user, via.host_key) if via.address else None
        return Hosts(declared.provider, declared.user, declared.identity_file, jump, tuple(machines))

    def _problem(self, each: Listed, text: str, hint: str) -> None:
        self.problems.append(self.source.problem(each.place, text, hint))

    def _refuse_problems(self) -> None:
        if self.problems:
            raise HostsUnansweredError(self.problems)


def _another_key(each: Listed, known: str, new: str) -> tuple[str, str]:
    if each.machine.host_key:
        text = f"{each.id} shows the host key {named(new)}, and {named(known)} is declared"
        return text, "if it was installed anew, correct host_key; if not, find out which machine answers there"
    text = f"{each.id} shows the host key {named(new)}, and the lock has {named(known)}"
    hint = f"if it was installed anew, compare the new one with the machine, and add --accept {named(new)}"
    return text, hint
