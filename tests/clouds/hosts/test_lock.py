"""`stampworks hosts lock` on real machines: keys that a person confirms, and a lock that is whole or not written."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from typing import Any

import pytest
from stampworks.declaration import Lock, load_file, lock_text, read_lock
from stampworks.plan import HostRail
from stampworks.planning import plan

from tests.clouds.hosts.lab import GPUS, SERVICE, Lab

pytestmark = pytest.mark.cluster


def test_nothing_is_taken_silently(lab: Lab) -> None:
    """Without a terminal and without fingerprints, keys are shown and nothing is written."""
    code, out, errors = lab.lock()
    assert (code, out) == (2, "")
    for host in ("h0", *GPUS):
        assert lab.fingerprint(host) in errors
    assert "host keys of 4 machines were not confirmed" in errors
    assert f"then add --accept {lab.fingerprint('h0')} SHA256:..." in errors
    assert not lab.lock_file.exists()
    code, _, errors = lab.lock("--accept", lab.fingerprint("h0"))
    assert (code, "host keys of 3 machines were not confirmed" in errors) == (2, True)
    assert not lab.lock_file.exists()


def test_accepted_keys(lab: Lab) -> None:
    """The lock has keys, machine ids and rails, which the plan then uses; a second run changes nothing."""
    lab.locked()
    head, first, *_ = read_lock(lab.file).hosts
    public = lab.sh("h1", "cat /etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
    assert first.host_key.split() == public
    assert first.machine_id == lab.sh("h1", "cat /etc/machine-id").strip()
    assert (head.group, head.rails) == ("head", ())
    made = plan(load_file(lab.file))
    assert made.hosts
    assert made.hosts.machines[1].rails == (HostRail("rail0", "10.98.17.1/20"), HostRail("rail1", "10.98.33.1/20"))
    assert [(rail.interface, rail.cidr) for rail in made.fabric.rails] == [
        ("rail0", "10.98.16.0/20"),
        ("rail1", "10.98.32.0/20"),
    ]
    before = lab.lock_file.stat()
    code, out, _ = lab.lock()
    assert code == 0
    assert out.splitlines()[:2] == [
        f"{lab.lock_file}: 4 machines, nothing has changed",
        "read only: nothing was changed on them",
    ]
    assert lab.lock_file.stat() == before


def _on_a_terminal(lab: Lab, *answers: str) -> tuple[int, str]:
    """Run the command on a terminal, and type these lines."""
    terminal, inner = pty.openpty()
    command = [sys.executable, "-m", "stampworks.cli.main", "hosts", "lock", str(lab.file)]
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    said, end, waiting = b"", time.monotonic() + 120, list(answers)
    while time.monotonic() < end:
        if waiting and b"if all of them are right: " in said:
            os.write(terminal, f"{waiting.pop(0)}\n".encode())
        if terminal in select.select([terminal], [], [], 0.5)[0]:
            try:
                said += os.read(terminal, 1 << 16)
            except OSError:  # its other end is closed
                break
    os.close(terminal)
    return process.wait(10), said.decode(errors="replace")


def test_a_person_confirms(lab: Lab) -> None:
    """A person sees the fingerprints and types yes; any other answer writes nothing."""
    code, said = _on_a_terminal(lab, "no")
    assert code == 1
    assert lab.fingerprint("h2") in said
    assert "not confirmed, and nothing was written" in said
    assert not lab.lock_file.exists()
    code, said = _on_a_terminal(lab, "yes")
    assert code == 0, said
    assert len(read_lock(lab.file).hosts) == 4


def test_a_key_that_changed(lab: Lab) -> None:
    """It is refused, and taken only by its fingerprint."""
    lab.locked()
    before, old = lab.lock_file.read_text(), lab.fingerprint("h1")
    with lab.new_host_key("h1"):
        new = lab.fingerprint("h1")
        code, _, errors = lab.lock()
        assert code == 3
        assert f"{lab.id('h1')} shows the host key {new}, and the lock has {old}" in errors
        assert f"and add --accept {new}" in errors
        assert "lab.yaml:" in errors
        assert "hosts.machines[1]" in errors
        assert lab.lock_file.read_text() == before
        code, out, _ = lab.lock("--accept", new)
        assert (code, "4 machines, 1 changed" in out) == (0, True)
        assert read_lock(lab.file).hosts[1].host_key.split() == lab.sh("h1", "cat /etc/ssh/*25519*.pub").split()[:2]
    code, _, errors = lab.lock()
    assert (code, f"shows the host key {old}, and the lock has {new}" in errors) == (3, True)


def test_a_declared_key(lab: Lab) -> None:
    """It needs no confirmation, and another one is not accepted in its place."""
    machines = lab.machines()
    for machine, host in zip(machines, ("h0", *GPUS), strict=True):
        machine["host_key"] = lab.sh(host, "cat /etc/ssh/ssh_host_ed25519_key.pub").strip()
    lab.declare(machines=machines)
    code, _, errors = lab.lock()
    assert code == 0, errors
    machines[1]["host_key"], machines[2]["host_key"] = machines[2]["host_key"], machines[1]["host_key"]
    lab.declare(machines=machines)
    code, _, errors = lab.lock("--accept", lab.fingerprint("h1"), lab.fingerprint("h2"))
    assert code == 3
    for host, other in (("h1", "h2"), ("h2", "h1")):
        said = f"{lab.id(host)} shows the host key {lab.fingerprint(host)}, and {lab.fingerprint(other)} is declared"
        assert said in errors


def test_all_problems_at_once(lab: Lab) -> None:
    """A machine that is away and two with one machine id: all named, nothing written; one can be left out."""
    keys = [lab.fingerprint(each) for each in ("h0", *GPUS)]
    first, second = (lab.sh(each, "cat /etc/machine-id").strip() for each in ("h1", "h2"))
    with (
        lab.fault("h2", f"echo {first} >/etc/machine-id", f"echo {second} >/etc/machine-id"),
        lab.fault("h3", f"sv stop {SERVICE} >/dev/null", f"sv start {SERVICE} >/dev/null"),
    ):
        code, _, errors = lab.lock("--accept", *keys)
        assert (code, f"{lab.id('h3')} showed no host key: " in errors) == (3, True)
        assert not lab.lock_file.exists()
        code, _, errors = lab.lock("--accept", *keys, "--without", lab.id("h3"))
        text = f"{lab.id('h2')} has the machine id of {lab.id('h1')}: they are one machine, or copies of one disk"
        assert (code, text in errors) == (3, True)
        assert not lab.lock_file.exists()
    lab.locked()
    whole = lab.lock_file.read_text()
    with lab.fault("h3", f"sv stop {SERVICE} >/dev/null", f"sv start {SERVICE} >/dev/null"):
        code, _, errors = lab.lock()
        assert (code, f"{lab.id('h3')} does not answer: " in errors) == (3, True)
        code, out, errors = lab.lock("--without", lab.id("h3"))
        assert (code, "4 machines, nothing has changed" in out) == (0, True), errors
    assert lab.lock_file.read_text() == whole
    code, _, errors = lab.lock("--without", "nobody")
    assert (code, "--without nobody: no machine of the list is called so" in errors) == (2, True)


def test_a_command_that_lists(lab: Lab) -> None:
    """Its machines are locked as declared ones are; it runs in the folder of the stack's file."""
    lines = [{key: value for key, value in each.items() if key != "group"} for each in lab.machines()[1:]]
    (lab.folder / "machines.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    lab.declare(machines=lab.machines()[:1], list_command=["cat", "machines.jsonl"], list_group="gpu")
    lab.locked()
    made = plan(load_file(lab.file))
    assert made.hosts
    assert [each.group for each in made.hosts.machines] == ["head", "gpu", "gpu", "gpu"]


def test_through_another_machine(lab: Lab) -> None:
    """Keys are shown and machines are asked through a jump host, at addresses that only it reaches."""
    key = lab.sh("h0", "cat /etc/ssh/ssh_host_ed25519_key.pub").strip()
    via = {"address": "127.0.0.1", "port": lab.lent.port("h0"), "host_key": key}
    machines: list[dict[str, Any]] = [{"address": "10.98.0.2", "group": "head"}]
    machines += [{"address": f"10.98.1.{number}", "group": "gpu"} for number in (1, 2, 3)]
    lab.declare(via=via, machines=machines)
    lab.locked()
    assert lab.wrong() == {}


def test_lock_keeps_what_others_looked_up(lab: Lab) -> None:
    """Keys of users, which `stampworks lock` looked up, stay."""
    lab.locked()
    machines, keys = read_lock(lab.file).hosts, {"https://example.org/a.keys": ("ssh-ed25519 AAAA",)}
    lab.lock_file.write_text(lock_text(Lock(keys=keys, hosts=machines)))
    code, _, errors = lab.lock()
    assert code == 0, errors
    assert read_lock(lab.file) == Lock(keys=keys, hosts=machines)
