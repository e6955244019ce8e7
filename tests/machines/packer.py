"""A stand-in for Packer that knows a single template: it records the steps on a builder in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stampworks import configuration

TEMPLATE = configuration.playbooks_dir() / "packer" / "aws.pkr.json"
MERGED = "${jsonencode(merge(var.variables, {base_packages_source = var.packages_source}))}"
SSH = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
LIMIT_S = 3000


def provision(told: Mapping[str, Any], reach: Sequence[str], address: str, key: Path, folder: Path) -> str:
    """Run the template's steps on the machine at an address, and return the output."""
    ansible, shell = (step for one in json.loads(TEMPLATE.read_text())["build"]["provisioner"] for step in one.items())
    assert (ansible[0], shell[0]) == ("ansible", "shell")
    said = _play(ansible[1], told, reach, address, key, folder)
    script = "#!/bin/sh -e\n" + "\n".join(_rendered(line, told) for line in shell[1]["inline"])
    login = [*reach, "ssh", *SSH, "-i", str(key), f"{told['user']}@{address}"]
    _run([*login, "cat >/tmp/script.sh"], script)
    return said + _run([*login, shell[1]["execute_command"].replace("{{ .Path }}", "/tmp/script.sh")])


def _play(
    step: Mapping[str, Any], told: Mapping[str, Any], reach: Sequence[str], address: str, key: Path, folder: Path
) -> str:
    host = f"default ansible_host={address} ansible_user={_rendered(step['user'], told)}\n"
    assert step["groups"] == "${var.groups}"
    (folder / "inventory").write_text(host + "".join(f"[{group}]\ndefault\n" for group in told["groups"]))
    merged = json.dumps({**told["variables"], "base_packages_source": told["packages_source"]})
    more = [merged if each == MERGED else _rendered(each, told) for each in step["extra_arguments"]]
    play = [str(Path(sys.executable).with_name("ansible-playbook")), f"--inventory={folder / 'inventory'}"]
    play += [f"--private-key={key}", f"--ssh-common-args={' '.join(SSH)}", *more]
    variables = dict(_rendered(each, told).split("=", 1) for each in step["ansible_env_vars"])
    return _run([*reach, *play, _rendered(step["playbook_file"], told)], environment={**os.environ, **variables})


def _rendered(text: str, told: Mapping[str, Any]) -> str:
    known = {"${path.root}": str(TEMPLATE.parent)} | {f"${{var.{name}}}": value for name, value in told.items()}
    for name, value in known.items():
        if name in text:
            text = text.replace(name, value)
    assert "${" not in text, text
    return text


def _run(argv: Sequence[str], told: str = "", environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(argv, input=told, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
    assert done.returncode == 0, f"{argv[-1]}: {done.stdout[-6000:]}{done.stderr[-3000:]}"
    return done.stdout
