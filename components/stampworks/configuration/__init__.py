"""Plan and roster become an inventory, and playbooks make its nodes into a cluster."""

from stampworks.configuration.inventory import image_inventory, inventory
from stampworks.configuration.run import (
    Failure,
    PlaybookFailed,
    Recap,
    play,
    playbooks_digest,
    playbooks_dir,
)

__all__ = [
    "Failure",
    "PlaybookFailed",
    "Recap",
    "image_inventory",
    "inventory",
    "play",
    "playbooks_digest",
    "playbooks_dir",
]
