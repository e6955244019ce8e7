"""The secrets of one cluster."""

from __future__ import annotations

import base64
import secrets
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stampworks.operations.remote import not_installed
from stampworks.provider.handler import Property
from stampworks.provider.handlers.made_once import MadeOnce

_SLURM_KEY_BYTES = 1024


class Keyring(MadeOnce):
    """The secrets of one cluster."""

    token = "stampworks:cluster:Keyring"  # noqa: S105
    outputs: ClassVar[Mapping[str, Property]] = {
        "sshPublicKey": Property("string", "what the cluster's nodes let in", stable=True),
        "sshPrivateKey": Property("string", "what the toolkit logs in with", secret=True, stable=True),
        "slurmKey": Property("string", "by which Slurm's daemons know each other, in base64", secret=True, stable=True),
        "databasePassword": Property("string", "of the accounting database", secret=True, stable=True),
    }

    @staticmethod
    def make(cluster: str) -> dict[str, Any]:
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
