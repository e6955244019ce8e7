"""The error of a call to AWS that a step cannot do without."""

from __future__ import annotations

from stampworks.clouds.errors import CloudError

LOOK = "the machine's console in EC2 shows its progress, and whether the image boots; then run the same command again"


class AwsError(CloudError):
    """A failed call to AWS: region, step, reason and hint."""

    def __init__(self, region: str, what: str, why: str, hint: str, code: str = "") -> None:
        self.code = code
        """AWS's error code, such as InsufficientInstanceCapacity; empty if the error is not AWS's."""
        text = why.strip().replace("\n", "\n  ")
        super().__init__(f"AWS {region}: {what}: {text}\n  hint: {hint}")
