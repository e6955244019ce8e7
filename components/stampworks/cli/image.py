"""`stampworks image`: builds the node image of a release, which `pulumi up` then starts nodes from.

Here the machine room, which knows no Ansible, meets the playbooks, which know no machine room.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from stampworks.cli import exits, stacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from stampworks.clouds.local.room.image import Builder
    from stampworks.plan import Release


def add_verbs(verbs: Any) -> None:
    image = verbs.add_parser("image", help="build the node image of a stack's release", allow_abbrev=False)
    stacks.add_stack_option(image)
    image.set_defaults(call=build_image)


def build_image(arguments: argparse.Namespace) -> int:
    """Builds what is missing; an image that is there is only named."""
    from stampworks import configuration
    from stampworks.cli.output import Progress
    from stampworks.clouds.local.room.image import ensure_image

    release = stacks.plan_of(arguments.stack).release
    with Progress(f"node image of release {release.name}") as progress:
        image = ensure_image(release, _installer(release, progress), configuration.install_digest(), progress)
    print(f"image {image.digest} of release {release.name} is ready")
    return exits.FINE


def _installer(release: Release, progress: Callable[[str], None]) -> Callable[[Builder], None]:
    import asyncio

    from stampworks import configuration

    def install(builder: Builder) -> None:
        inventory = configuration.image_inventory(release, builder.roster, builder.packages)
        asyncio.run(configuration.play("image.yml", inventory, builder.roster.reach, {}, progress))

    return install
