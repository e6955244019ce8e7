"""A stand-in for a cluster: a `reach` command that plays ssh, and Slurm's programs that print files.

It covers the toolkit's side: requests, parsed answers, and missing answers.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from stampworks.plan import Member, Roster

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHN0YW5kLWluIGtleSBmb3IgdGVzdHMgb25seSEh"

_VIA = """
import os, pathlib, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
split = words.index("--")
target, command = words[split + 1], words[split + 2:]
with (here / "sent").open("a") as log:
    log.write(f"{target} {' '.join(command)}\\n")
if (here / "unreachable").exists():
    print("ssh: connect to host 10.77.0.2 port 22: Connection refused", file=sys.stderr)
    sys.exit(255)
os.environ.update(PATH=f"{here}/bin:{os.environ['PATH']}", HERE=str(here))
# a remote shell gets the words after the host joined by blanks, as ssh does it
os.execvp("sh", ["sh", "-c", " ".join(command)])
"""

# new state of a node, and the reason that it keeps, as Slurm does it
_SCONTROL = f"""#!{sys.executable} -IS
import json, os, pathlib, sys
here = pathlib.Path(os.environ["HERE"])
with (here / "slurm").open("a") as log:
    log.write(f"scontrol {{' '.join(sys.argv[1:])}}\\n")
settings = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
held = here / "reservation"
if sys.argv[1:3] == ["show", "reservation"]:
    print(f"   Comment={{held.read_text()}}" if held.exists() else f"Reservation {{sys.argv[3]}} not found")
    sys.exit(not held.exists())
if "reservationname" in settings:
    if sys.argv[1] == "create" and held.exists():
        sys.exit("Error creating the reservation: Duplicate reservation name")
    if sys.argv[1] == "create":
        held.write_text(settings["comment"])
    if sys.argv[1] == "delete":
        held.unlink()
    sys.exit()
if sys.argv[1] != "update":
    print((here / "nodes.json").read_text())
    sys.exit()
answer = json.loads((here / "nodes.json").read_text())
for node in answer["nodes"]:
    if node["name"] in settings["nodename"].split(","):
        node["state"] = [state for state in node["state"] if state not in ("DRAIN", "DOWN")] or ["IDLE"]
        node["state"] += ["DRAIN"] if settings["state"] == "drain" else []
        reason = settings.get("reason", node["reason"])
        node["reason"] = reason.removeprefix('"').removesuffix('"')
(here / "nodes.json").write_text(json.dumps(answer))
"""

# Each call uses one file, and the last one stays. The watcher of a job's secrets asks for one word at any time, and
# uses no file.
_SQUEUE = """#!/bin/sh
case "$*" in *--noheader*) echo RUNNING; exit ;; esac
set -- "$HERE"/jobs.*.json
cat "$1"
if [ $# -gt 1 ]; then rm "$1"; fi
"""


class StandIn:
    """A folder that acts as the cluster `local` with head, gpu-001 and gpu-002."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "via.py").write_text(_VIA)
        self.program("scontrol", _SCONTROL)
        self.program("squeue", _SQUEUE)
        self.nodes(node("gpu-001"), node("gpu-002"))
        self.jobs([])
        self.roster = Roster(
            cluster="local",
            cloud="local",
            reach=(sys.executable, str(folder / "via.py")),
            user="root",
            identity_file=str(folder / "id_ed25519"),
            members=(
                member("head", "head", "10.77.0.2"),
                member("gpu-001", "gpu", "10.77.1.1", rails=2),
                member("gpu-002", "gpu", "10.77.1.2", rails=2),
            ),
        )

    def program(self, name: str, text: str) -> None:
        """Puts a program first on the nodes' PATH."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def nodes(self, *items: dict[str, Any]) -> None:
        (self.folder / "nodes.json").write_text(json.dumps({"nodes": items}))

    def jobs(self, *answers: list[dict[str, Any]]) -> None:
        """Set squeue's answers, call by call; the last answer stays."""
        for old in self.folder.glob("jobs.*.json"):
            old.unlink()
        for number, items in enumerate(answers):
            (self.folder / f"jobs.{number:03}.json").write_text(json.dumps({"jobs": items}))

    def unreachable(self) -> None:
        (self.folder / "unreachable").touch()

    @property
    def updates(self) -> list[str]:
        """Every `scontrol update` that arrived, without the program's name."""
        log = self.folder / "slurm"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.removeprefix("scontrol ") for line in lines if line.startswith("scontrol update")]

    def without(self, name: str) -> Roster:
        kept = tuple(member for member in self.roster.members if member.name != name)
        return dataclasses.replace(self.roster, members=kept)


def member(name: str, group: str, address: str, rails: int = 0) -> Member:
    return Member(name, group, "1", address, tuple(f"10.77.{64 + rail}.1" for rail in range(rails)), KEY)


def node(name: str, *states: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": list(states) or ["IDLE"],
        "reason": "",
        "gres": "gpu:h100:8(S:0-1)",
        "gres_used": "gpu:h100:0(IDX:N/A)",
        **more,
    }


def job(number: int, user: str, nodes: str) -> dict[str, Any]:
    return {"job_id": number, "user_name": user, "nodes": nodes, "job_state": ["RUNNING"]}
