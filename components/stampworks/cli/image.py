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
    """Builds what is missing; an image that is there is only named."""
    from stampworks import configuration
    from stampworks.cli.output import Progress
    from stampworks.provider import node_image

    release = stacks.plan_of(arguments.stack).release
    with Progress(f"release {release.name}") as progress:
        image = node_image.ensure_node_image(release, configuration.install_digest(), progress)
    print(f"image {image.digest} of release {release.name} is ready")
    return exits.FINE
