"""Simulated faults: outputs of the scripted nvidia-smi and a scripted dmesg of a node. They have no other effect."""

from __future__ import annotations

import json

from stampworks.clouds.faults import Injected
from stampworks.clouds.local.faults.site import Means, Site

_STATE = "/var/lib/stampworks/accelerators.json"
_EDIT = """
import json, os, sys
path, verb, key, bad, good, count = sys.argv[1:]
with open(path) as file:
    state = json.load(file)
chosen = state["accelerators"][-int(count):]
if verb == "there":
    print(all(each.get(key) == json.loads(bad) for each in chosen))
    sys.exit()
for each in chosen:
    each[key] = json.loads(bad if verb == "inject" else good)
with open(path + ".new", "w") as file:
    json.dump(state, file, indent=2)
    file.write("\\n")
os.replace(path + ".new", path)
"""


def _state(key: str, good: object, bad: object = None, many: bool = False) -> Means:
    """Change a field of a node's last accelerators: of a single one, to `bad` or the severity, or of as many as the
    severity."""

    def edit(verb: str, site: Site, one: Injected) -> str:
        severity = round(one.severity or 0)
        values = (json.dumps(severity if bad is None else bad), json.dumps(good), str(severity if many else 1))
        return site.on_node(one.where, "python3", "-IS", "-c", _EDIT, _STATE, verb, key, *values)

    return Means(
        inject=lambda site, one: edit("inject", site, one),
        clear=lambda site, one: edit("clear", site, one),
        there=lambda site, one: edit("there", site, one).strip() == "True",
    )


MISSING = _state("lost", False, True, many=True)
ECC_ERRORS = _state("ecc_uncorrected", 0)
# the bit of a thermal slowdown by the hardware
THROTTLED = _state("throttle_reasons", "0x0000000000000000", "0x0000000000000040")

# The whole host shares the kernel's own log: nothing may be written there.
_DMESG = "/usr/local/bin/dmesg"
_XID = """\
#!/bin/sh
# SIMULATED by Stampworks: the kernel's log, and one line that it never had.
/usr/bin/dmesg "$@" 2>/dev/null
echo '[    1.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus. (simulated)'
"""

XID = Means(
    inject=lambda site, one: site.shell(one.where, f'printf %s "$1" >{_DMESG}; chmod 755 {_DMESG}', _XID),
    clear=lambda site, one: site.shell(one.where, f"rm -f {_DMESG}"),
    there=lambda site, one: site.shell(one.where, f"[ -e {_DMESG} ] && echo yes || true") != "",
)
