"""The image that nodes of the local cloud boot from: built once, by the same roles that configure a cluster."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from stampworks import configuration
from stampworks.clouds.local import room
from stampworks.plan import Release

PLAYBOOK = "image.yml"


def ensure_node_image(
    release: Release,
    content: str,
    progress: room.Progress,
    wait: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run,
) -> room.Image:
    """Finds the image or builds it; content is the digest of what its roles install."""

    def install(builder: room.Builder) -> None:
        inventory = configuration.image_inventory(release, builder.roster, builder.packages)
        wait(configuration.play(PLAYBOOK, inventory, builder.roster.reach, {}, progress))

    return room.ensure_image(release, install, content, progress)


def content_digest() -> str:
    """A digest of what the roles' install parts read, and of nothing else.

    Another one means another image, and that means other nodes: an edit of what is only configured must not do that.
    """
    root = configuration.playbooks_dir()
    digest = hashlib.sha256()
    for path in sorted(_installing(root)):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _installing(root: Path) -> Iterator[Path]:
    yield root / PLAYBOOK
    installs = {tasks: tasks.read_text() for tasks in root.glob("roles/*/tasks/install.yml")}
    for tasks, text in installs.items():
        role = tasks.parents[1]
        yield tasks
        yield from role.glob("defaults/*.yml")
        yield from (path for path in (*role.glob("files/*"), *role.glob("templates/*")) if path.name in text)
    named = set(re.findall(r"stampworks\.node\.(\w+):", "".join(installs.values())))
    for path in root.glob("collections/ansible_collections/stampworks/node/plugins/*/*.py"):
        if path.stem in named or path.parent.name in ("module_utils", "plugin_utils"):
            yield path
