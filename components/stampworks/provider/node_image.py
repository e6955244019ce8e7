"""Image that nodes of the local cloud boot from. It is built once, by the roles that also configure a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stampworks import configuration
from stampworks import machine_room as room
from stampworks.clouds.local.rooms import builder_roster, image_spec
from stampworks.plan import Release


def ensure_node_image(
    release: Release,
    content: str,
    progress: room.Progress,
    wait: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run,
) -> room.NodeImage:
    """Return the image, and build it if it does not exist. `content` is the install_digest of its roles."""

    def install(builder: room.Builder) -> None:
        inventory = configuration.image_inventory(release, builder_roster(builder), builder.packages, content)
        wait(configuration.play(configuration.IMAGE_PLAYBOOK, inventory, builder.reach, {}, progress))

    return room.ensure_image(image_spec(release), install, content, progress)
