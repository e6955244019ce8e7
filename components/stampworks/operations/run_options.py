"""Options of a run: from the plan, then a file, then `--set`; the workload itself checks them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from stampworks.configuration import playbooks_dir
from stampworks.operations.errors import InputError, UnknownError

OWN = ("name", "folder", "cluster")
"""Options that submit sets itself: name and place of a run."""
_LIMIT_S = 60.0
_CHECK = """
import json, sys
from dataclasses import asdict
from validation.options import OptionError, read
asked = json.load(sys.stdin)
try:
    if asked["workload"] == "training":
        from training.settings import Settings
        print(json.dumps(asdict(read(Settings, asked["options"], "training"))))
    else:
        from difflib import get_close_matches
        from validation.__main__ import PROGRAMS
        wanted = [name for name in asked["options"] if name != "cluster"]
        for name in wanted:
            if name not in PROGRAMS:
                near = get_close_matches(name, PROGRAMS, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PROGRAMS)}"
                raise OptionError(f"validation: knows no program {name!r}: {hint}")
        print(json.dumps(asked["options"] | {"programs": wanted or PROGRAMS}))
except OptionError as error:
    sys.exit(f"refused {error}")
"""


def merged(declared: Mapping[str, Any], file: str, set_by_hand: Sequence[str]) -> dict[str, Any]:
    """All requested options; later ones win. `file` is the text of a JSON object, or empty."""
    found: dict[str, Any] = json.loads(json.dumps(declared))
    asked: dict[str, Any] = {}
    if file:
        asked = _object(file)
    for setting in set_by_hand:
        _set(asked, setting)
    if own := [name for name in asked if name in OWN]:
        raise InputError(f"{own[0]} is not an option of a run: submit sets it", f"leave {own[0]} out")
    if asked.get("layout", "tp") != "tp":  # the declared degree belongs to the declared layout
        found.pop("tensor_parallel", None)
    _merge(found, asked)
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the options are not JSON: {error}", 'write an object, like {"steps": 200}') from None
    if not isinstance(found, dict):
        raise InputError("the options are not a JSON object", 'write an object, like {"steps": 200}')
    return found


def _set(asked: dict[str, Any], setting: str) -> None:
    """Set `model.layers=8`; a value that is not JSON is text."""
    key, equals, text = setting.partition("=")
    *way, last = key.split(".")
    if not equals or not all((*way, last)):
        raise InputError(f"{setting!r} sets nothing", "write key=value, like --set steps=200 or --set model.layers=8")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    for name in way:
        asked = asked.setdefault(name, {})
        if not isinstance(asked, dict):
            raise InputError(f"{key} is set, and so is {name} as a whole", "set one of the two")
    asked[last] = value


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def judged(workload: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options complete, or everything that the workload's own code finds wrong with them, before any node does."""
    asked = {"workload": workload, "options": options}
    programs = playbooks_dir().parent / "workloads"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHECK],
            input=json.dumps(asked),
            env={"PYTHONPATH": str(programs), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise UnknownError(f"the options could not be checked within {_LIMIT_S:.0f} s", "try again") from None
    if done.stderr.startswith("refused "):
        raise InputError(done.stderr.removeprefix("refused ").rstrip(), "--set key=value, or the file of --options")
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UnknownError(f"the options could not be checked: {why}", f"look at {programs}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """Yield a line for each option of a run that differs now."""
    found = []
    for name in dict.fromkeys((*before, *now)):
        old, new, here = before.get(name), now.get(name), f"{path}{name}"
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{here}.")
        elif old != new:
            found.append(f"{here}: {_shown(old)} before, {_shown(new)} now")
    return found


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
