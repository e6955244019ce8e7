"""Answers of the local cloud to the conformance suite: which types take tags, and which resources are public."""

from __future__ import annotations

import json
import re
from ipaddress import IPv4Address, IPv4Network

from stampworks.rehearsal.stack import DECLARED, read_stack

from tests.rehearsed import ROOT, Rehearsed

ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")


def takes_tags(_: str) -> bool:
    """Return False: the local cloud is free, and has no bill to find tags in."""
    return False


def public(made: Rehearsed) -> list[str]:
    """Return the resources with an address outside of the cluster's range, which exists in the room alone."""
    network = read_stack(made.stack, ROOT, ROOT / "stacks", {}).config[DECLARED]["network"]
    own = IPv4Network(network["cidr"])
    return [
        f"{each['name']} with {address}"
        for each in made.made
        for address in ADDRESS.findall(json.dumps(each["values"]))
        if IPv4Address(address) not in own
    ]
