"""The one error that asking AWS at run time ends with."""

from __future__ import annotations

LOG_IN = "log in, for instance with `aws sso login`; AWS_PROFILE says which profile"
ALLOW = "let whoever asks do this, as docs/aws.md says; `aws sts get-caller-identity` says who that is"
LOOK = "the console of EC2 says how far it came, and whether the image boots; then run the same command again"
AGAIN = "run the same command again: what was done stays"


class AwsError(Exception):
    """Something that AWS did not say or do: where, what, why, and what to do about it."""

    def __init__(self, region: str, what: str, why: str, hint: str = AGAIN, code: str = "") -> None:
        self.code = code
        """AWS's word for what is wrong, as InsufficientInstanceCapacity; empty where it was not AWS that said it."""
        text = why.strip().replace("\n", "\n  ")
        super().__init__(f"AWS {region}: {what}: {text}\n  hint: {hint}")
