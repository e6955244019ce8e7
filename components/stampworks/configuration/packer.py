"""Variables of playbooks/packer/, with which Packer builds the image of a stack's nodes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from stampworks.configuration.inventory import image_inventory, python_of
from stampworks.configuration.sources import install_digest
from stampworks.plan import Plan, Roster, to_dict

BUILDER = Roster("image", "", (), "", "", ())
"""Empty roster of the builder: Packer knows the machine and its address."""


def packer_variables(plan: Plan, first_boot: str) -> dict[str, Any]:
    """Return the variables of Packer: groups and variables of the builder, its source image, its user data, and the
    digest.

    The locked image may already be built from this source. The disk is as large as those of nodes, because a new disk
    of a node cannot be smaller. Everything follows from plan and playbooks: the same digest means the same software on
    the source image.
    """
    release, content = plan.release, install_digest()
    builder = image_inventory(release, BUILDER, "", content)["all"]
    launch = plan.controller.launch
    told = {name: value for name, value in builder["vars"].items() if name not in _PACKERS}
    # any pool may have elastic nodes
    wheels = dict(each.split("==") for each in release.boot if "==" in each)
    packages = [each for each in release.boot if "==" not in each]
    if wheels:
        told |= {"boot_packages": wheels, **python_of("boot", dict.fromkeys(packages, ""))}
    else:
        told["base_packages"] = sorted({*told["base_packages"], *packages})
    return {
        "release": release.name,
        "digest": hashlib.sha256(json.dumps([to_dict(release), content]).encode()).hexdigest()[:16],
        "region": plan.region,
        "published_image": launch.published_image if launch else "",
        "user": launch.user if launch else "",
        "root_device": launch.root_device if launch else "",
        "disk_gib": max((group.launch.disk_gib for group in plan.stamped if group.launch), default=0),
        "user_data": first_boot,
        "groups": [*builder["children"], *(["boot"] if wheels else [])],
        "variables": told,
    }


_PACKERS = {"ansible_user", "ansible_ssh_private_key_file", "base_packages_source"}
