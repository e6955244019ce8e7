"""The secrets of one cluster."""

from __future__ import annotations

import base64
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from stampworks.operations.remote import not_installed
from stampworks.properties import KEYRING
from stampworks.provider.handlers.made_once import MadeOnce

_SLURM_KEY_BYTES = 1024


class Keyring(MadeOnce):
    """The secrets of one cluster."""

    table = KEYRING

    @staticmethod
    def make(cluster: str) -> dict[str, Any]:
        """Return new secrets for a cluster."""
        public, private = _ssh_key_pair(f"stampworks-{cluster}")
        return {
            "sshPublicKey": public,
            "sshPrivateKey": private,
            "slurmKey": base64.b64encode(secrets.token_bytes(_SLURM_KEY_BYTES)).decode(),
            "databasePassword": secrets.token_urlsafe(24),
        }


def _ssh_key_pair(comment: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="stampworks-") as folder:
        file = Path(folder, "key")
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(file)]
        try:
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        except FileNotFoundError as error:
            raise not_installed(error) from None
        return file.with_suffix(".pub").read_text().strip(), file.read_text()
