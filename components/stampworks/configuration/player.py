"""Process that runs Ansible: python -m stampworks.configuration.player FOLDER.

It runs in the network of the nodes, and prints a JSON event on each line. It exits last: Ansible's workers and ssh's
connection masters detach themselves, become children of this process, and are ended by it. It ends when its standard
input closes, because its reader is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from stampworks.configuration.sources import playbooks_dir
from stampworks.text.printable import masking

Mask = Callable[[str], str]
PR_SET_CHILD_SUBREAPER = 36
LEFT = 128 + signal.SIGTERM
leaving = threading.Event()
TASK_LIMIT_S = 900
"""Seconds. Every task of the toolkit takes less, even an installation. A node that is silent for longer is reported."""
SAID_MAX = 4000
"""Maximum characters of a message. Longer ones explain nothing more."""
LAST_WORDS_MAX = 2000
FORKS_PER_CORE = 6
"""Workers for each core. A worker mostly waits for its node; more workers only slow each other down."""


def main(folder: Path) -> int:
    """Run the playbook of this folder, and return the exit status."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: leave(folder))
    threading.Thread(target=_leave_with_parent, args=(folder,), daemon=True).start()
    # keep the standard output free for events
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        work = json.loads((folder / "work.json").read_text())
        prepare(folder, work["inventory"], work["hosts"])
        playbook, plays = with_own_roles(folder, Path(work["playbook"]), work["roles"])
        again = tries(work["inventory"]["all"]["vars"], work["check"])
        run(folder, playbook, stages(plays, work["inventory"]), work["check"], again, output)
    finally:
        end_descendants()
        if leaving.is_set():  # an error now comes from the end of its processes
            leave(folder)
    return 0


def _leave_with_parent(folder: Path) -> None:
    sys.stdin.read()
    leave(folder)


def leave(folder: Path) -> None:
    """End all processes, and remove the folder with its secrets: its creator may have been killed."""
    leaving.set()
    end_descendants()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(LEFT)


def end_descendants() -> None:
    """End everything that this process started, also processes that have left its group or session."""
    while found := descendants():
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants() -> list[int]:
    """Return the ids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # the name in brackets may contain anything, also brackets
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        todo += (below := children.get(todo.pop(), []))
        found += below
    return found


def prepare(folder: Path, inventory: Mapping[str, Any], hosts: Sequence[str]) -> None:
    """Write the files that Ansible and ssh read, all inside the private folder."""
    (folder / "sockets").mkdir()
    (folder / "ansible.cfg").write_text("")  # an empty file keeps out the settings of the user and of the machine
    (folder / "hosts").write_text("".join(f"{name}\n" for name in hosts))
    (folder / "inventory.yml").write_text(as_yaml(inventory))
    keys = [f"{host['ansible_host']} {host['node_host_key']}\n" for host in inventory["all"]["hosts"].values()]
    (folder / "known_hosts").write_text("".join(keys))


def with_own_roles(
    folder: Path, playbook: Path, roles: Sequence[Mapping[str, str]]
) -> tuple[Path, list[dict[str, Any]]]:
    """Return the playbook with a play for each of the user's roles, and its plays.

    Without roles, return the playbook itself. The roles run before the first health check of the nodes. A check may
    depend on a role, and no node takes jobs before its check. A role is found by name below the folder, because the
    user's own path may contain anything.
    """
    plays = yaml.safe_load(playbook.read_text())
    if not roles:
        return playbook, plays
    (folder / "roles").mkdir()
    for role in roles:
        (folder / "roles" / role["name"]).symlink_to(role["path"])
    whole = with_own_plays(plays, roles)
    composed = folder / playbook.name
    composed.write_text(as_yaml(whole))
    return composed, whole


def with_own_plays(plays: Sequence[dict[str, Any]], roles: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the plays with the user's roles in their place before the health check."""
    place = next(index for index, play in enumerate(plays) if play["hosts"] == "health")
    return [*plays[:place], *map(own_play, roles), *plays[place:]]


def own_play(role: Mapping[str, str]) -> dict[str, Any]:
    """Return a play like those of site.yml, but with facts, which most third-party roles need."""
    name = role["name"]
    task = {"name": name, "ansible.builtin.import_role": {"name": name}, "vars": json.loads(role["variables"])}
    return {"name": name, "hosts": name, "gather_facts": True, "tasks": [task]}


def as_yaml(value: Any) -> str:
    """Return YAML for Ansible."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class's signature)
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    """Represent a string. Text of a declaration is data: Ansible must not take it for a template."""
    unsafe = any(opening in value for opening in ("{{", "{%", "{#")) or value.startswith("#jinja2:")
    return dumper.represent_scalar("!unsafe" if unsafe else "tag:yaml.org,2002:str", value)


_Dumper.add_representer(str, _text)


def tries(variables: Mapping[str, Any], check: bool) -> int:
    """Return the attempts at a node that does not answer.

    A node that has just booted may be listed before the agent of its tunnel is ready. With growing pauses this many
    attempts take about two minutes.
    """
    if check:
        return 1
    return 8 if "ansible_ssh_common_args" in variables else 3


def environment(folder: Path, playbooks: Path, check: bool, tries: int) -> dict[str, str]:
    """Return the environment in which ansible-runner starts Ansible."""
    ssh = {
        "ControlMaster": "auto",
        "ControlPersist": "60s",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(folder / "known_hosts"),
        "GlobalKnownHostsFile": "/dev/null",
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "LogLevel": "ERROR",
    }
    return {
        # the Ansible of this Python environment
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "home" / "tmp"),
        "ANSIBLE_COLLECTIONS_PATH": str(playbooks / "collections"),
        "ANSIBLE_ROLES_PATH": f"{playbooks / 'roles'}:{folder / 'roles'}",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "sockets"),
        "ANSIBLE_SSH_ARGS": " ".join(["-F none", *(f"-o {key}={value}" for key, value in ssh.items())]),
        "ANSIBLE_SSH_EXECUTABLE": str(Path(__file__).with_name("bounded-ssh")),
        "ANSIBLE_SSH_RETRIES": str(tries),
        # a failed change on a host stops all hosts; a failed look stops only its own
        "ANSIBLE_ANY_ERRORS_FATAL": str(not check),
        "ANSIBLE_TASK_TIMEOUT": str(TASK_LIMIT_S),
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_FORKS": str(FORKS_PER_CORE * (os.cpu_count() or 1)),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_LOCALHOST_WARNING": "0",
    }


def run(folder: Path, playbook: Path, names: list[str], check: bool, tries: int, output: Any) -> None:
    """Run the playbook and write an event per line to `output`."""
    import ansible_runner  # type: ignore[import-untyped]  # as_yaml is used without it, in every preview

    ours, mask = playbooks_dir(), masking(json.loads((folder / "secrets.json").read_text()).values())
    translate = Translator(names, check, mask)

    def take(event: dict[str, Any]) -> bool:
        for line in translate.events(event):
            output.write(json.dumps(line) + "\n")
        return False  # keep no event on disk

    done = ansible_runner.run(
        private_data_dir=str(folder),
        project_dir=str(ours),
        playbook=str(playbook),
        inventory=str(folder / "inventory.yml"),
        cmdline=f"--extra-vars @{folder}/secrets.json --limit @{folder}/hosts" + (" --check" if check else ""),
        envvars=environment(folder, ours, check, tries),
        event_handler=take,
        quiet=True,
        suppress_env_files=True,
    )
    if done.rc != 0 and not translate.failed():
        output.write(json.dumps({"event": "broken", "text": mask(last_words(done))[-LAST_WORDS_MAX:]}) + "\n")
    output.write(json.dumps(translate.end(done.rc == 0)) + "\n")


def last_words(done: Any) -> str:
    """Return the reason why Ansible stopped before it reached any host, from its standard error."""
    said = [Path(done.config.artifact_dir, name) for name in ("stderr", "stdout")]
    texts = [path.read_text(errors="replace").strip() for path in said if path.exists()]
    return next(filter(None, texts), f"ansible-playbook ended with exit code {done.rc}")


def stages(plays: Sequence[Mapping[str, Any]], inventory: Mapping[str, Any]) -> list[str]:
    """Return the names of the plays that have hosts."""
    groups = {"all"} | set(inventory["all"].get("children", {}))
    return [each["name"] for each in plays if each["hosts"] in groups]


class Translator:
    """Translator of Ansible's many events to a few of the toolkit's."""

    def __init__(self, names: list[str], check: bool, mask: Mask = str) -> None:
        self.names = names
        self.check = check
        self.mask = mask
        self.stage = ""
        self.results: set[str] = set()
        """Kinds of results that the task has had so far."""
        self.failing: set[str] = set()
        self.restarts: dict[str, str] = {}
        self.totals: dict[str, Any] = {}

    def events(self, event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of the toolkit for an event of ansible-runner."""
        data = event.get("event_data", {})
        kind = event["event"]
        yield from self.skipped(kind)
        if kind == "playbook_on_play_start":
            self.stage = data["name"]
        elif kind == "playbook_on_task_start":
            if self.restarts:  # all hosts have answered when the next task starts
                yield {"event": "restarts", "why": self.restarts}
                self.restarts = {}
            yield self.task(data)
        elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            self.failing.add(data["host"])
            unreachable = kind == "runner_on_unreachable"
            place = "" if unreachable else f"{data.get('role') or self.stage} : {data['task']}"
            said = message(data.get("res", {}), self.mask)
            yield {"event": "failure", "host": data["host"], "task": place, "message": said}
        elif kind == "runner_on_ok" and self.check:
            yield from self.seen(data)
        elif kind == "runner_on_ok":
            pending = data.get("res", {}).get("ansible_facts", {}).get("pending_reboot")
            if isinstance(pending, dict) and pending.get("needed"):
                self.restarts[data["host"]] = shortened(self.mask(str(pending.get("why"))))
        elif kind == "playbook_on_stats":
            self.totals = data

    def skipped(self, kind: str) -> Iterator[dict[str, Any]]:
        """Yield an event at the end of a task that no host needed."""
        if kind in ("playbook_on_task_start", "playbook_on_stats"):
            if self.results == {"runner_on_skipped"}:
                yield {"event": "skipped"}
            self.results = set()
        elif kind in ("runner_on_skipped", "runner_on_ok", "runner_on_failed", "runner_on_unreachable"):
            self.results.add(kind)

    def seen(self, data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the facts and the pending change of a task in check mode. The task's name stands for a missing
        description."""
        result = data.get("res", {})
        if facts := result.get("ansible_facts", {}).get("node_facts"):
            yield {"event": "facts", "host": data["host"], "facts": facts}
        if result.get("changed"):
            place = f"{data.get('role') or self.stage} : {data['task']}"
            words = result.get("drift") or [f"{place} would change something"]
            yield {"event": "drift", "host": data["host"], "words": words}

    def task(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event of a task that starts, with the number of its stage."""
        stage = self.names.index(self.stage) + 1 if self.stage in self.names else 0
        return {
            "event": "task",
            "role": data.get("role") or self.stage,
            "task": data["task"],
            "stage": stage,
            "stages": len(self.names),
        }

    def failed(self) -> list[str]:
        """Return the hosts that failed, as Ansible reports at its end. A failure that a role rescues does not count."""
        return sorted({**self.totals["failures"], **self.totals["dark"]} if self.totals else self.failing)

    def end(self, finished: bool) -> dict[str, Any]:
        """Return the last event: counts of hosts and changes, and the failures."""
        changed = sum(self.totals.get("changed", {}).values())
        hosts = len(self.totals.get("processed", {}))
        return {"event": "end", "hosts": hosts, "changed": changed, "finished": finished, "failed": self.failed()}


def message(result: Mapping[str, Any], mask: Mask = str) -> str:
    """Return the messages of a failed task, from all places where modules put them."""
    items = result.get("results")
    listed = items if isinstance(items, list) else []
    failed = [item for item in listed if isinstance(item, dict) and item.get("failed")]
    texts = [message(item, mask) for item in failed]
    texts += [mask(str(result.get(key, ""))) for key in ("msg", "module_stderr", "stderr")]
    return shortened("\n".join(dict.fromkeys(text.strip() for text in texts if text.strip()))) or "it gave no reason"


def shortened(text: str) -> str:
    """Return a task's output cut to SAID_MAX characters, with the number of the others."""
    return text if len(text) <= SAID_MAX else f"{text[:SAID_MAX]} ... ({len(text) - SAID_MAX} characters more)"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
