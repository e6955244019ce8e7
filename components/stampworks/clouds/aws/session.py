"""One question to AWS: its whole answer, or why there is none."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as sdk
from botocore import xform_name
from botocore.config import Config
from botocore.parsers import ResponseParserError

from stampworks.clouds import errors
from stampworks.clouds.aws.errors import AwsError
from stampworks.text.printable import printable

# Whoever asks waits for the answer: three attempts tell a hiccup from an outage, and the last one ends within a minute.
_CONFIG = Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3})
_OWN = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws")
"""How the names of AWS's own addresses end."""
PAUSES_S = (5.0, 15.0, 30.0)
"""Before AWS is asked again that was asked too often."""
_SERVICES = {"servicequotas": "service-quotas"}
"""What the SDK calls a service that policies call otherwise."""
_REASON_CHARACTERS_MAX = 160

NOT_PERMITTED = {
    *("AccessDenied", "AccessDeniedException", "ForbiddenException"),
    *("UnauthorizedException", "UnauthorizedOperation"),
}
_NOT_KNOWN = {
    *("AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidAccessKeyId"),
    *("InvalidClientTokenId", "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException"),
}
_TOO_MANY = {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"}
_BUSY = {"ResourceContention", "ScalingActivityInProgress"}
"""What Auto Scaling says while it is at work on the same group."""

ALLOW = "docs/aws.md says what an `up` has to be allowed; `aws sts get-caller-identity` says who asks"
PERMIT = "docs/aws-facts-policy.json is a policy that permits it"
RENEW = "`aws sts get-caller-identity` says whose they are; renew them, and see that the clock is right"
SIGN_IN = "`aws configure`, `aws sso login` or AWS_PROFILE says who you are; docs/aws.md says what is needed"
LATER = "ask again later"
REACH = "see whether this machine reaches AWS, through its proxy if it has one, and ask again"


class AwsUnansweredError(errors.UnansweredError):
    """AWS was asked, and nobody knows more than before."""

    def __init__(self, action: str, why: str, hint: str, code: str = "", silent: bool = False) -> None:
        super().__init__(f"{action}: {why}")
        self.hint = hint
        self.code = code
        """AWS's own word for it; empty where nothing of AWS was heard."""
        self.silent = silent
        """Whether nobody answered, so that the same service will not answer something else."""


class Api:
    """The services of one region, whoever the environment says is asking."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[str, Any] = {}

    def ask(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Return all pages of an answer, by the action's name in a policy (ec2:DescribeImages).

        Raises AwsUnansweredError without an answer.
        """
        service, _, name = action.partition(":")
        method = xform_name(name)
        try:
            client = self._client(service)
            if client.can_paginate(method):
                return dict(client.get_paginator(method).paginate(**parameters).build_full_result())
            return dict(getattr(client, method)(**parameters))
        except sdk.ClientError as error:
            raise _refusal(action, error) from None
        except sdk.ParamValidationError:
            raise  # what was asked was wrong, which is a fault of ours
        except (sdk.BotoCoreError, ResponseParserError, ValueError) as error:  # ValueError: an address that is none
            raise _silence(action, error) from None

    @property
    def elsewhere(self) -> str:
        """Who was asked in the place of AWS, without what of an address may be secret; empty where nobody was."""
        for client in self._clients.values():
            url = urlsplit(client.meta.endpoint_url)
            if not (url.hostname or "").endswith(_OWN):
                return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        return ""

    def need(self, what: str, action: str, **parameters: Any) -> dict[str, Any]:
        """The same where nothing goes on without the answer: AwsError, which says what does not work."""
        try:
            return self._patiently(action, **parameters)
        except AwsUnansweredError as error:
            hint = ALLOW if error.hint == PERMIT else error.hint
            raise AwsError(self.region, what, str(error), hint, error.code) from None

    def _patiently(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Others in the account ask, too: an `up` of an hour does not end because AWS had no time for a moment."""
        for pause_s in PAUSES_S:
            try:
                return self.ask(action, **parameters)
            except AwsUnansweredError as error:
                if error.code not in _TOO_MANY | _BUSY:
                    raise
            time.sleep(pause_s)
        return self.ask(action, **parameters)

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            session: Any = boto3.session.Session()
            self._clients[service] = session.client(_SERVICES.get(service, service), self.region, config=_CONFIG)
        return self._clients[service]


def shortened(said: str, characters_max: int) -> str:
    """A line of what AWS says itself: of a denied call it may be followed by a kilobyte that only AWS can decode."""
    line = printable(" ".join(said.partition("Encoded authorization failure message")[0].split()))
    return line if len(line) <= characters_max else f"{line[:characters_max]}..."


def _refusal(action: str, error: sdk.ClientError) -> AwsUnansweredError:
    """What AWS itself says, or whatever answers in its place."""
    said = error.response.get("Error", {})
    code, status = said.get("Code", ""), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    message = shortened(said.get("Message", ""), _REASON_CHARACTERS_MAX)
    if code in NOT_PERMITTED:
        return AwsUnansweredError(action, f"not permitted ({code}: {message})", PERMIT, code)
    if code in _NOT_KNOWN:
        return AwsUnansweredError(action, f"AWS does not take the credentials ({code}: {message})", RENEW, code)
    if code in _TOO_MANY:
        return AwsUnansweredError(action, f"AWS is asked too often ({code})", LATER, code)
    if code in _BUSY:
        return AwsUnansweredError(action, f"AWS is at work on it ({code})", LATER, code)
    if code == str(status) or status >= 500:  # with no code of its own, an answer is no AWS's
        return AwsUnansweredError(action, f"not available: HTTP {status}", LATER, code)
    return AwsUnansweredError(action, f"{code}: {message}", LATER, code)


def _silence(action: str, error: Exception) -> AwsUnansweredError:
    if isinstance(error, sdk.NoCredentialsError):
        return AwsUnansweredError(action, "there are no credentials for AWS", SIGN_IN)
    if isinstance(error, ResponseParserError):
        return AwsUnansweredError(action, "not available: the answer is none of AWS", LATER)
    what = " ".join(str(error).split())
    if isinstance(error, (sdk.HTTPClientError, sdk.ConnectionError)):
        return AwsUnansweredError(action, f"no answer: {what}", REACH, silent=True)
    return AwsUnansweredError(action, f"cannot be asked: {what}", SIGN_IN)
