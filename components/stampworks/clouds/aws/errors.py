"""The one error that asking AWS at run time ends with."""

from __future__ import annotations

from stampworks.clouds.errors import CloudError

LOOK = "the console of EC2 says how far it came, and whether the image boots; then run the same command again"


class AwsError(CloudError):
    """Something that AWS did not say or do: where, what, why, and what to do about it."""

    def __init__(self, region: str, what: str, why: str, hint: str, code: str = "") -> None:
        self.code = code
        """AWS's word for what is wrong, as InsufficientInstanceCapacity; empty where it was not AWS that said it."""
        text = why.strip().replace("\n", "\n  ")
        super().__init__(f"AWS {region}: {what}: {text}\n  hint: {hint}")
