"""A head whose programs start elastic nodes in a simulated AWS with few machines."""

from __future__ import annotations

import fcntl
import json
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from stampworks.configuration import playbooks_dir

from .simulated import REGION, Simulated

PROGRAMS = playbooks_dir() / "roles/power/files"
STAND_IN = Path(__file__).parent
NAMES = [f"gpu-{number:03d}" for number in range(1, 7)]
ELASTIC = NAMES[2:]
STATIC = "one-static"
"""The template of nodes that always run."""
LIMIT_S, WAIT = 60, time.sleep
UP, DOWN = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN"


class Cloud:
    """A simulated AWS with limited capacity, which may list started machines late."""

    def __init__(self, aws: Simulated) -> None:
        self.aws, self.ec2 = aws, aws.client("ec2")
        self.capacity: dict[str, int] = {}
        """Free instances of each template; of others any number."""
        self.lag = 0
        """Number of listings that do not show new instances yet."""
        self.without_address = 0
        """Number of listings in which instances have no address."""
        self.tokens: dict[str, Any] = {}
        self.shown: set[str] = set()

    def templates(self, cluster: str, *names: str) -> None:
        image = self.aws.publish("/image")
        for name in names:
            tags = {"stampworks:cluster": cluster, "stampworks:group": "gpu"}
            if name != STATIC:
                tags["stampworks:elastic"] = "on-demand"
            self.ec2.create_launch_template(
                LaunchTemplateName=name,
                LaunchTemplateData={
                    "ImageId": image,
                    "InstanceType": "p5.48xlarge",
                    "TagSpecifications": [{"ResourceType": "instance", "Tags": rows(tags)}],
                },
            )

    def started(self, template: str, **tags: str) -> str:
        """Start an instance outside of the programs, and return its id."""
        what = {"LaunchTemplateName": template}
        [made] = self.ec2.run_instances(LaunchTemplate=what, MinCount=1, MaxCount=1, ClientToken=f"{time.time()}")[
            "Instances"
        ]
        if tags:
            self.ec2.create_tags(Resources=[made["InstanceId"]], Tags=rows(tags))
        return str(made["InstanceId"])

    def switched_off(self, id_: str) -> None:
        """Let an instance shut itself down, which terminates it."""
        self.ended(id_, "Client.InstanceInitiatedShutdown", "Instance initiated shutdown")

    def ended(self, id_: str, code: str, message: str) -> None:
        """Terminate an instance with this reason of AWS."""
        self.ec2.terminate_instances(InstanceIds=[id_])
        machine: Any = ec2_backends[DEFAULT_ACCOUNT_ID][REGION].get_instance(id_)
        machine.state_reason.code, machine.state_reason.message = code, f"{code}: {message}"

    def instances(self, cluster: str = "one") -> dict[str, str]:
        """Return the running instances: their names by their ids."""
        pages = self.ec2.describe_instances(Filters=[{"Name": "tag:stampworks:cluster", "Values": [cluster]}])
        found = [row for each in pages["Reservations"] for row in each["Instances"]]
        return {
            row["InstanceId"]: {tag["Key"]: tag["Value"] for tag in row["Tags"]}.get("stampworks:node", "")
            for row in found
            if row["State"]["Name"] in ("pending", "running")
        }


def rows(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key.replace("_", ":", 1), "Value": value} for key, value in tags.items()]


class Head:
    """Environment of the programs: two permanent and four elastic nodes."""

    def __init__(self, folder: Path, cloud: Cloud) -> None:
        self.cloud, self._slurm, self.settings = cloud, folder / "slurm.json", folder / "power.json"
        self.book = folder / "book.json"
        self.environment = {
            **cloud.aws.environment,
            "SLURM_STAND_IN": str(self._slurm),
            "STAMPWORKS_POWER_SETTINGS": str(self.settings),
            "STAMPWORKS_POWER_PATH": f"{STAND_IN}:/usr/bin:/bin",
        }
        self.configure()
        self._write({name: {"state": DOWN, "address": "", "reason": "", "by": ""} for name in NAMES})
        self.slurm(*NAMES[:2], state="IDLE")

    def configure(self, **more: Any) -> None:
        offers = [{"name": "on-demand", "template": "one-gpu"}, {"name": "spot", "template": "one-gpu-spot"}]
        data = {
            "cluster": "one",
            "region": "us-east-1",
            "directory": str(self.settings.parent),
            "pools": {"gpu": {"nodes": ELASTIC, "offers": offers}},
            "pause_s": 60,
            "lag_s": 300,
        }
        self.settings.write_text(json.dumps(data | more))

    def run(self, program: str, *arguments: str) -> int:
        """Run a program in this process, which has the SDK, as if it were a separate process."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.environment.items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", [program, *arguments])
            patched.setattr(sys, "dont_write_bytecode", True)
            patched.syspath_prepend(PROGRAMS)
            patched.setattr(time, "sleep", lambda seconds: WAIT(seconds / 50))
            for module in PROGRAMS.glob("*.py"):
                patched.delitem(sys.modules, module.stem, raising=False)
            try:
                runpy.run_path(str(PROGRAMS / program), run_name="__main__")
            except SystemExit as ended:
                return int(ended.code or 0)
            finally:
                for module in PROGRAMS.glob("*.py"):
                    sys.modules.pop(module.stem, None)
        return 0

    def process(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-sEB", str(PROGRAMS / program), *arguments]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    @contextmanager
    def begun(self, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen([sys.executable, "-sEB", str(PROGRAMS / program), *arguments], env=self.environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait(LIMIT_S)

    def resume(self, *names: str) -> None:
        """Resume nodes as Slurm does, and power down the nodes that it then powers down."""
        self.slurm(*names, state=UP)
        self.run("resume", ",".join(names))
        self.settle()

    def suspend(self, *names: str) -> int:
        self.slurm(*names, state="IDLE+CLOUD+POWERING_DOWN")
        done = self.run("suspend", ",".join(names))
        self.slurm(*names, state=DOWN, address="")
        return done

    def watch(self) -> None:
        self.run("watch", "--once")
        self.settle()

    def watch_on(self, *between: Callable[[], object]) -> None:
        """Run the watch, with an action after each of its looks."""
        todo, wait = iter(between), WAIT

        def pause(seconds: float) -> None:
            if seconds < 1:  # pause between two tries of a call
                wait(seconds)
            elif do := next(todo, None):
                do()
            else:
                sys.exit()

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys.modules[__name__], "WAIT", pause)
            self.run("watch")

    def settle(self) -> None:
        """Slurm calls for each node that was given back."""
        if going := [name for name, node in self.nodes.items() if "POWERING_DOWN" in node["state"]]:
            self.suspend(*going)

    def slurm(self, *names: str, **more: str) -> None:
        nodes = self.nodes
        for name in names:
            nodes[name] |= more
        self._write(nodes)

    def forget(self, name: str) -> None:
        """Remove the node from Slurm's configuration."""
        self._write({each: node for each, node in self.nodes.items() if each != name})

    @contextmanager
    def taken(self, file: str) -> Iterator[None]:
        """Hold the lock of a program within the context."""
        with (self.settings.parent / file).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(self._slurm.read_text())
        return found

    def returned(self) -> dict[str, str]:
        """Nodes that were given back, and why."""
        return {name: node["reason"] for name, node in self.nodes.items() if node.get("returned")}

    def _write(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._slurm.write_text(json.dumps(nodes))

    def later(self, seconds: float) -> None:
        """Move the clock of the record forward."""
        data = json.loads(self.book.read_text())
        for row in (*data["machines"].values(), *data["launches"].values()):
            row["since"] -= seconds
        for row in data["pauses"].values():
            row["until"] -= seconds
        self.book.write_text(json.dumps(data))
