"""Gives slurmctld a configuration, but only one that a slurmctld has accepted before.

A controller that reads a bad file at `scontrol reconfigure` says yes and dies, and its supervisor restarts it into the
same file. So a candidate is tried first, by a throw-away controller in a network namespace of its own where it can
reach neither the nodes nor the database; and if the real one still does not answer afterwards, the old files go back.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import (
    Refused,
    answering,
    group_id,
    run,
    user_id,
    write,
)
from ansible_collections.stampworks.node.plugins.module_utils.services import (
    STALE,
    last_words,
    outdated,
    supervisor,
)

DOCUMENTATION = """
module: slurm_controller
short_description: Configure a Slurm controller safely
options:
  files:
    description: The whole configuration, text by file name.
    type: dict
    required: true
  directory: {description: Where it goes., type: str, default: /etc/slurm}
  user: {description: Whom slurmctld runs as., type: str, default: slurm}
  service: {description: Its service., type: str, default: slurmctld}
  state: {description: Where it keeps the queue., type: str, default: /var/lib/slurm/slurmctld}
  trial_s: {description: How long the trial may take., type: float, default: 20}
  new_reason:
    description: Why a node that Slurm never heard of takes no jobs yet; without it, it takes them when it answers.
    type: str
    default: ""
"""

PROGRAM = "/usr/sbin/slurmctld"
# Settings that the trial controller must not share with the real one. Accounting goes, since it could not reach it.
TRIAL_DROPS = re.compile(r"(?im)^(StateSaveLocation|SlurmctldPidFile|Accounting\w+|HealthCheck\w+)=.*\n")
TRIAL_REPLACES = (
    (re.compile(r"(?im)^PreemptType=preempt/qos$"), "PreemptType=preempt/partition_prio"),
    (re.compile(r"(?im)^PriorityType=priority/multifactor$"), "PriorityType=priority/basic"),
    # needs slurmdbd, which defines billing
    (re.compile(r'(?i) TRESBillingWeights="[^"]*"'), ""),
)
# A network with nobody in it, and a /run of its own: in the common one it would take over the socket by which clients
# of the real controller prove who they are. The one address is not a loopback's, which the C library would not count as
# a network.
ALONE = 'mount -t tmpfs none /run && ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec "$@"'
COMPLAINTS_MAX = 5
KNOWN = "stampworks-nodes"
ACCOUNTED = re.compile(r"(?im)^AccountingStorageType=accounting_storage/slurmdbd$")
READY = re.compile(r"Running as primary controller")
# messages of every controller that starts without a state, which are no errors of the configuration
NOISE = re.compile(r"state file|state save|fed_mgr|MailProg", re.IGNORECASE)
WRONG = re.compile(r"^\S*\s*(fatal|error): (.*)$")


def work(
    check: bool,
    files: Mapping[str, str],
    directory: str,
    user: str,
    service: str,
    trial_s: float,
    state: str = "/var/lib/slurm/slurmctld",
    new_reason: str = "",
) -> dict[str, Any]:
    home = Path(directory)
    owner = (user_id(user), group_id(user))
    before = {name: (home / name).read_text() if (home / name).exists() else None for name in files}
    changed = [name for name in files if files[name] != before[name]]
    services = supervisor()
    first = not (Path(state) / "node_state").exists()
    running = bool(services.running(service))
    stale = running and outdated(service, [str(home / "slurm.key"), PROGRAM])
    if changed and not check:  # a check starts nothing
        try_out(files, home / "slurm.key", owner, trial_s)
    if not check:
        for name in changed:
            write(home / name, files[name].encode(), mode_of(name), *owner)
        if (changed or not running or stale) and ACCOUNTED.search(files.get("slurm.conf", "")):
            forget_number(Path(state) / "clustername")
        try:
            bring_up(service, running, stale, bool(changed))
        except Refused:
            put_back(home, {name: before[name] for name in changed}, owner, service)
            raise
        if new_reason:
            hold_new(Path(state), new_reason, first)
    drift = [f"{home / name} {'differs' if before[name] is not None else 'is missing'}" for name in changed]
    if not running:
        drift.append(f"{service} does not run")
    if stale:
        drift.append(f"{service} {STALE}")
    return {"changed": bool(drift), "drift": drift, "files": changed}


def mode_of(name: str) -> int:
    return 0o600 if name == "slurmdbd.conf" else 0o644  # slurmdbd refuses to read it otherwise


def try_out(files: Mapping[str, str], key: Path, owner: tuple[int, int], trial_s: float) -> None:
    """Raises what slurmctld has to say against these files."""
    with tempfile.TemporaryDirectory(prefix="slurm-trial-") as place:
        folder = Path(place)
        (folder / "state").mkdir()
        for name, text in files.items():
            write(folder / name, trial_text(text, folder).encode() if name == "slurm.conf" else text.encode())
        if key.exists():
            shutil.copy2(key, folder / key.name)
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, *owner)
        said = listen(folder, trial_s)
    if not READY.search(said):
        raise Refused(f"slurmctld refuses this configuration, so it was not put in place: {complaint(said, trial_s)}")


def trial_text(text: str, folder: Path) -> str:
    text = TRIAL_DROPS.sub("", text)
    for pattern, replacement in TRIAL_REPLACES:
        text = pattern.sub(replacement, text)
    return f"{text}\nStateSaveLocation={folder}/state\nSlurmctldPidFile={folder}/pid\n"


def listen(folder: Path, trial_s: float) -> str:
    """Return the messages of a controller with this configuration until it is ready, gives up or the time is over."""
    log = folder / "log"
    with log.open("wb") as output:
        controller = ["slurmctld", "-D", "-c", "-f", str(folder / "slurm.conf")]
        command = ["unshare", "--net", "--mount", "sh", "-c", ALONE, "sh", *controller]
        trial = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    until = time.monotonic() + trial_s
    try:
        while trial.poll() is None and time.monotonic() < until and not READY.search(text_of(log)):
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(trial.pid, signal.SIGKILL)
        trial.wait()
    return text_of(log)


def text_of(log: Path) -> str:
    return log.read_text(errors="replace")


def complaint(said: str, trial_s: float) -> str:
    """The errors of a log, fatal ones first."""
    found = [match.groups() for match in map(WRONG.match, said.splitlines()) if match and not NOISE.search(match[2])]
    lines = [text for kind, text in found if kind == "fatal"] + [text for kind, text in found if kind == "error"]
    silence = f"no answer within {trial_s:g} s: {said.strip()[-300:] or 'it said nothing'}"
    return "; ".join(list(dict.fromkeys(lines))[:COMPLAINTS_MAX]) or silence


def forget_number(file: Path) -> None:
    """A queue that began without accounting has a number of its own, and slurmctld dies when its database has another.

    That guards a directory that two clusters share. This one belongs to one cluster, and the name is compared still.
    """
    if file.is_file() and "|" in (said := file.read_text(errors="replace")):
        file.write_text(said.partition("|")[0])  # a line break would count as part of the name


def bring_up(service: str, running: bool, stale: bool, changed: bool) -> None:
    services = supervisor()
    if not running:
        services.enable(service, True)
        services.control(service, "start")
    elif stale:
        services.control(service, "restart")
    elif changed:
        run(["scontrol", "reconfigure"], timeout=60, check=False)  # its exit status is not reliable: the ping below is
    if not running or stale or changed:
        await_ping(service)


def await_ping(service: str, limit_s: float = 30) -> None:
    until = time.monotonic() + limit_s
    while " is UP" not in (said := run(["scontrol", "ping"], check=False)).stdout:
        if time.monotonic() > until:
            reply = (said.stderr or said.stdout).strip()
            raise Refused(f"slurmctld does not answer: {reply}; its last words are:\n{last_words(service)}")
        time.sleep(0.1)


def hold_new(state: Path, reason: str, first: bool) -> None:
    """Drain new nodes before their slurmd starts: a node may get a job as soon as Slurm knows it.

    After a restart Slurm takes every node for unknown, so that whom it knew is kept beside its queue.
    """
    record = state / KNOWN
    said = run(["sinfo", "--noheader", "--Node", "--format=%N|%T"], check=False).stdout
    states = dict(line.split("|", 1) for line in said.splitlines() if "|" in line)
    known = set(record.read_text().split()) if record.is_file() else set() if first else set(states)
    new = sorted(name for name in states if name not in known and states[name].rstrip("*") == "unknown")
    if new:  # scontrol takes one quotation mark off either end of the reason
        run(["scontrol", "update", f"nodename={','.join(new)}", "state=drain", f'reason="{reason}"'])
    if known != set(states):
        write(record, "".join(f"{name}\n" for name in sorted(states)).encode(), 0o644)


def put_back(home: Path, before: Mapping[str, str | None], owner: tuple[int, int], service: str) -> None:
    if not before:
        return
    for name, text in before.items():
        if text is None:
            (home / name).unlink(missing_ok=True)
        else:
            write(home / name, text.encode(), mode_of(name), *owner)
    supervisor().control(service, "restart")


answer = answering(work)
