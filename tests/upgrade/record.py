"""Record the states of stacks that one version of the toolkit has stamped, for test_upgrade.py.

The components on PYTHONPATH have that version; this file may come from another checkout:

    git worktree add ../earlier REVISION
    PYTHONPATH=../earlier/components python tests/upgrade/record.py [STACK...]

`local` is stamped for real on this machine, in a state folder of its own, and destroyed afterwards. The others are
rehearsed: the real engine, with providers that only record. Secrets stay encrypted, under the public passphrase of
rehearsals: they opened nodes that are gone. Paths of this machine are replaced, and what depends on the machine in the
name of a node image is the same everywhere: see `image_name`.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import stampworks
from stampworks.rehearsal.engine import Engine
from stampworks.rehearsal.recording import Recording
from stampworks.rehearsal.servers import Servers
from stampworks.rehearsal.stack import DECLARED, Stack, read_stack

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
CHECKOUT = Path(stampworks.__file__).parents[2]
LIVE = "local"
REHEARSED = ("aws-dev-g6", "aws-p5en-eks")
PROJECT = """\
name: stampworks
runtime: {{name: python, options: {{virtualenv: {environment}}}}}
main: stacks
stackConfigDir: stacks
plugins: {{providers: [{{name: stampworks, path: {environment}/share/stampworks}}]}}
"""
ROOM = "stampworks.machine_room"
ROOM_BEFORE_0_2 = "stampworks.clouds.local.room"


def program(folder: Path) -> Path:
    """Make a project with the program that this checkout's stacks have."""
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text(PROJECT.format(environment=sys.prefix))
    shutil.copy(CHECKOUT / "stacks" / "__main__.py", folder / "stacks")
    return folder


@contextlib.contextmanager
def engine(folder: Path, stack: Stack, live: bool) -> Iterator[Engine]:
    """Start an engine on a stack: with the real plugin, or with the providers of a rehearsal."""
    (folder / "engine").mkdir()
    with contextlib.ExitStack() as open_until_end:
        ports: Mapping[str, int] = {}
        if not live:
            servers = open_until_end.enter_context(Servers())
            ports = open_until_end.enter_context(servers.serving(Recording({}, lambda: None, None)))
        started = Engine(folder / "engine", stack, ports)
        try:
            yield started
        finally:
            started.end()


@contextlib.contextmanager
def image_name() -> Iterator[None]:
    """Name node images as on a machine with these package sources, this processor, and an ordinary user."""
    room = ROOM if importlib.util.find_spec(ROOM) else ROOM_BEFORE_0_2
    with (
        mock.patch.object(importlib.import_module(f"{room}.apt"), "sources_of", return_value=("deb recorded",)),
        mock.patch.object(importlib.import_module(f"{room}.image"), "MAPPED_ROOT", ()),
        mock.patch.object(platform, "machine", return_value="x86_64"),
    ):
        yield


def record(name: str, folder: Path) -> dict[str, Any]:
    live = name == LIVE
    stack = read_stack(name, program(folder / "project"), HERE / "stacks" if live else CHECKOUT / "stacks", {})
    stack = replace(stack, config={**stack.config, DECLARED: stack.declared})  # include all files that it extends
    state = folder / "state"
    os.environ["STAMPWORKS_STATE"] = str(state)
    with engine(folder, stack, live) as started:
        try:
            ran = started.run("up", "--yes", "--skip-preview")
            if ran.code:
                raise SystemExit(f"{name}: {ran.said}")
            deployment = json.loads(started.aside("stack", "export"))["deployment"]
            files = dict(_disks(state, stack))
        finally:
            started.aside("state", "unprotect", "--all", "--yes")
            started.run("destroy", "--yes", "--skip-preview")
    deployment.pop("manifest")
    for resource in deployment["resources"]:
        if resource["type"] == "pulumi:pulumi:Stack":
            resource["outputs"] = {}  # read by nothing in a preview
        for stamp in ("created", "modified", "sourcePosition", "stackTrace"):
            resource.pop(stamp, None)
    found = {
        "revision": _git("rev-parse", "HEAD"),
        "name": stack.name,
        "config": stack.config,
        "files": files,
        "deployment": deployment,
    }
    text = json.dumps(found, sort_keys=True)
    for path, word in ((str(folder), "/recorded"), (str(CHECKOUT), "/checkout"), (sys.prefix, "/environment")):
        text = text.replace(path, word)
    recorded: dict[str, Any] = json.loads(text)
    return recorded


def _disks(state: Path, stack: Stack) -> Iterator[tuple[str, str]]:
    """Yield the file with a disk's origin for each node of a machine room, with the image name of `image_name`."""
    if not (rooms := sorted(state.glob("rooms/*/nodes/*/node.json"))):
        return
    room = ROOM if importlib.util.find_spec(ROOM) else ROOM_BEFORE_0_2
    planning, configuration = (importlib.import_module(f"stampworks.{name}") for name in ("planning", "configuration"))
    declaration = importlib.import_module("stampworks.declaration")
    release = planning.plan(declaration.load_stack(stack.name, stack.folder)).release
    of = importlib.import_module("stampworks.clouds.local.rooms").image_spec(release) if room == ROOM else release
    image_of = importlib.import_module(room).image_of
    here = image_of(of, configuration.install_digest()).digest
    with image_name():
        everywhere = image_of(of, configuration.install_digest()).digest
    for file in rooms:
        text = file.read_text()
        assert here in text, file
        yield str(file.relative_to(state)), text.replace(here, everywhere)


def _git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.strip()


def main(names: list[str]) -> None:
    RECORDED.mkdir(exist_ok=True)
    for name in names or (LIVE, *REHEARSED):
        with tempfile.TemporaryDirectory(prefix="sw-") as folder:
            found = record(name, Path(folder))
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
        # leave out the time, so that the same state gives the same file
        (RECORDED / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {len(found['deployment']['resources'])} resources")


if __name__ == "__main__":
    main(sys.argv[1:])
