"""Defines a service and brings it to a state, under runit or systemd, whichever the node has."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.stampworks.node.plugins.module_utils.node import Refused, answering
from ansible_collections.stampworks.node.plugins.module_utils.services import (
    LOGS,
    STALE,
    Service,
    Supervisor,
    last_words,
    outdated,
    supervisor,
)

DOCUMENTATION = """
module: service_unit
short_description: Define a service and bring it to a state
description:
  - Works the same under runit (local nodes) and systemd (machines of a cloud).
  - With state started, a service that runs with another configuration than there is now is restarted.
options:
  name: {description: Name of the service., type: str, required: true}
  command:
    description: What to run in the foreground; left out for a service that is defined already.
    type: list
    elements: str
    default: []
  awaits:
    description: host:port of what must answer before the command starts.
    type: list
    elements: str
    default: []
  limits:
    description: Resource limits, MEMLOCK and NOFILE.
    type: dict
    default: {}
  directories:
    description: Directories to make before it starts, with their owners.
    type: dict
    default: {}
  state:
    description: Left out, the service is only defined.
    type: str
    choices: [defined, started, stopped, restarted, reloaded]
    default: defined
  enabled: {description: Whether it starts at boot; left out, this stays as it is., type: bool}
  configuration:
    description: Files the service reads when it starts; every start notes what is in them.
    type: list
    elements: str
    default: []
  once: {description: Runs to its end at every boot instead of staying., type: bool, default: false}
  before_mounts:
    description: Starts before file systems that are somewhere else are mounted; under systemd.
    type: bool
    default: false
  follows:
    description: Services of packages that start before it, where the node has them; under systemd.
    type: list
    elements: str
    default: []
  answers: {description: host:port that must answer once it is started., type: str, default: ""}
  settle_s:
    description: How long it must stay up to count as started.
    type: float
    default: 0.3
"""


START_LIMIT_S = 10
WORDS = {
    "defined": "is defined otherwise",
    "enabled": "does not start at boot",
    "disabled": "starts at boot",
    "start": "does not run",
    "stop": "runs",
    "restart": STALE,
    "reload": STALE,
}
"""What each thing that is done to a service says of how it was found."""


def work(
    check: bool,
    name: str,
    command: Sequence[str],
    awaits: Sequence[str],
    limits: Mapping[str, str],
    directories: Mapping[str, str],
    state: str,
    configuration: Sequence[str],
    once: bool,
    before_mounts: bool,
    answers: str,
    settle_s: float,
    enabled: bool | None = None,
    follows: Sequence[str] = (),
) -> dict[str, Any]:
    services = supervisor()
    did = []
    if command:
        service = Service(
            name,
            tuple(command),
            awaits=tuple(awaits),
            limits=tuple(sorted((key, str(value)) for key, value in limits.items())),
            directories=tuple(sorted(directories.items())),
            once=once,
            configuration=tuple(configuration),
            before_mounts=before_mounts,
            follows=tuple(follows),
        )
        if services.define(service, check):
            did.append("defined")
    if enabled is not None and services.enabled(name) != enabled:
        did.append("enabled" if enabled else "disabled")
        if not check:
            services.enable(name, enabled)
    running = bool(services.running(name))
    if verb := needed(state, running, running and outdated(name, configuration), "defined" in did):
        did.append(verb)
        if not check:
            LOGS.mkdir(parents=True, exist_ok=True)
            services.control(name, verb)
            if verb != "stop":
                settled(services, name, settle_s)
                await_answer(name, answers)
    return {"changed": bool(did), "did": did, "drift": [f"{name} {WORDS[what]}" for what in did]}


def needed(state: str, running: bool, outdated: bool, redefined: bool) -> str:
    """The verb that leads to the wanted state; empty when it is there."""
    if state == "started":
        if not running:
            return "start"
        return "restart" if redefined or outdated else ""
    if state == "stopped":
        return "stop" if running else ""
    return {"defined": "", "restarted": "restart", "reloaded": "reload" if running else "start"}[state]


def settled(services: Supervisor, name: str, settle_s: float) -> None:
    """A service that dies at once is started over and over by its supervisor: that is not started."""
    until = time.monotonic() + START_LIMIT_S
    while not (before := services.running(name)) and time.monotonic() < until:
        time.sleep(0.05)  # a busy node's supervisor takes its time
    time.sleep(settle_s)
    if not before or services.running(name) != before:
        raise Refused(f"service {name} does not stay up: its last words are:\n{last_words(name)}")


def await_answer(name: str, address: str, limit_s: float = 60) -> None:
    host, _, port = address.rpartition(":")
    until = time.monotonic() + limit_s
    while address:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                said = last_words(name)
                raise Refused(f"service {name}: {address} does not answer: {error}; its last words:\n{said}") from None
        time.sleep(0.1)


answer = answering(work)
