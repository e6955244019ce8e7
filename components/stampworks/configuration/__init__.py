"""Inventories from plan and roster, and the playbooks that turn nodes into a cluster."""

from stampworks.configuration.bundle import bundle_file
from stampworks.configuration.inventory import image_inventory, inventory
from stampworks.configuration.own import check_texts, content_digest, own_roles
from stampworks.configuration.packer import packer_variables
from stampworks.configuration.run import CheckModeResult, PlaybookFailed, Recap, TaskFailure, look, play
from stampworks.configuration.sources import (
    IMAGE_PLAYBOOK,
    install_digest,
    playbooks_digest,
    playbooks_dir,
    programs_digest,
)

__all__ = [
    "IMAGE_PLAYBOOK",
    "CheckModeResult",
    "PlaybookFailed",
    "Recap",
    "TaskFailure",
    "bundle_file",
    "check_texts",
    "content_digest",
    "image_inventory",
    "install_digest",
    "inventory",
    "look",
    "own_roles",
    "packer_variables",
    "play",
    "playbooks_digest",
    "playbooks_dir",
    "programs_digest",
]
