"""An `up` that changes nothing, against a program that only registers the same resources with the same values."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.machine import timed
from bench.rows import Row, compared
from bench.stack import NAME, PROJECT, Stack, stack

RAW = '''\
"""The same resources without declaration, plan or assembly: what the engine and the plugin cost by themselves."""

import json
from pathlib import Path

import pulumi

SECRET = "4dabf18193072939515e22adb298388d"  # how the engine marks one in exported state


def value(found):
    if isinstance(found, dict) and SECRET in found:
        return pulumi.Output.secret(json.loads(found["plaintext"]))
    if isinstance(found, dict):
        return {key: value(one) for key, one in found.items()}
    return [value(one) for one in found] if isinstance(found, list) else found


made = {}
for item in json.loads((Path(__file__).parent / "resources.json").read_text()):
    parent = made.get(item.get("parent"))
    name, token = item["urn"].split("::")[-1], item["type"]
    if item.get("custom"):
        opts = pulumi.ResourceOptions(
            parent=parent, version=VERSION, depends_on=[made[one] for one in item.get("dependencies") or []]
        )
        made[item["urn"]] = pulumi.CustomResource(token, name, value(item["inputs"]), opts)
    else:
        made[item["urn"]] = pulumi.ComponentResource(token, name, None, pulumi.ResourceOptions(parent=parent))
for name, output in OUTPUTS.items():
    pulumi.export(name, value(output))
'''


NODES, PAIRS = 4, 10
SMALL = {"NODES": 1, "PAIRS": 1}


def rows() -> list[Row]:
    with stack(NODES) as found:
        found.up()
        raw = raw_project(found)
        for folder in (found.folder, raw):
            _nothing_changed(found.up(folder))
        return [
            compared(
                "up without a change, against the same resources in a raw program",
                "s",
                lambda: timed(lambda: _nothing_changed(found.up())),
                lambda: timed(lambda: _nothing_changed(found.up(raw))),
                target=1.25,
                pairs=PAIRS,
            )
        ]


def raw_project(found: Stack) -> Path:
    """A project of the same name, so that its program is taken for the same stack's."""
    folder = found.folder / "raw"
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text(PROJECT)
    own = found.folder / "stacks" / f"Pulumi.{NAME}.yaml"
    (folder / "stacks" / own.name).write_text(own.read_text())
    resources = found.resources()
    [root] = [item for item in resources if item["type"] == "pulumi:pulumi:Stack"]
    [provider] = [item for item in resources if item["type"] == "pulumi:providers:stampworks"]
    ours = [item for item in resources if item is not root and not item["type"].startswith("pulumi:providers:")]
    (folder / "stacks" / "resources.json").write_text(json.dumps(ours))
    known = f"VERSION = {provider['inputs']['version']!r}\nOUTPUTS = {root['outputs']!r}\n"
    (folder / "stacks" / "__main__.py").write_text(RAW.replace("\nmade = {}", f"\n{known}\nmade = {{}}", 1))
    return folder


def _nothing_changed(said: str) -> None:
    if found := re.findall(r"^ +[~+-]+ \d+ \w+", said, re.MULTILINE):
        raise SystemExit(f"this up was to change nothing, and did: {', '.join(found)}\n{said}")
