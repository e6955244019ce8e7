"""`stampworks image`: builds the node image of a release, which `pulumi up` then starts nodes from."""

from __future__ import annotations

import argparse
from typing import Any

from stampworks.cli import exits, stacks


def add_verbs(verbs: Any) -> None:
    image = verbs.add_parser("image", help="build the node image of a stack's release", allow_abbrev=False)
    stacks.add_stack_option(image)
    image.set_defaults(call=build_image)


def build_image(arguments: argparse.Namespace) -> int:
    raise exits.CliError("not there yet", "wait")
