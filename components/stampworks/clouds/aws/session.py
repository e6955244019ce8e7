"""Calls to AWS: a call returns the complete answer, or raises the reason for a missing one."""

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

# The caller waits for the answer. Three attempts tell a hiccup from an outage; the last one ends within a minute.
_CONFIG = Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3})
_OWN = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws")
"""Domains of AWS's own endpoints."""
PAUSES_S = (5.0, 15.0, 30.0)
"""Seconds before each retry of a throttled call."""
_SERVICES = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}
"""SDK names of services that have another name in policies."""
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
"""Error codes of Auto Scaling while it works on the same group."""

ALLOW = "docs/reference/aws-rights.md lists the permissions; `aws sts get-caller-identity` shows your identity"
PERMIT = "docs/reference/aws-facts-policy.json is a policy that permits it"
RENEW = "`aws sts get-caller-identity` shows their identity; renew them, and check this machine's clock"
SIGN_IN = "sign in by `aws configure`, `aws sso login` or AWS_PROFILE; docs/reference/aws-rights.md lists the rights"
LATER = "try again later"
REACH = "check that this machine reaches AWS, through its proxy if it has one, and try again"


class AwsUnansweredError(errors.UnansweredError):
    """AWS gave no usable answer."""

    def __init__(
        self, action: str, why: str, hint: str, code: str = "", silent: bool = False, encoded: str = ""
    ) -> None:
        super().__init__(f"{action}: {why}")
        self.hint = hint
        self.code = code
        """AWS's error code; empty if AWS sent none."""
        self.silent = silent
        """Whether no answer arrived at all, so that another request to the same service is useless."""
        self.encoded = encoded
        """Reason of a denial, which only AWS can decode; empty if AWS gave none."""


class Api:
    """Clients for the services of one region, with the environment's credentials."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[str, Any] = {}

    def ask(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Call an action by its name in a policy (ec2:DescribeImages), and return all pages of the answer.

        Raise AwsUnansweredError if there is no answer.
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
            raise  # a wrong parameter is our bug
        # ValueError: the endpoint's address is not valid
        except (sdk.BotoCoreError, ResponseParserError, ValueError) as error:
            raise _silence(action, error) from None

    @property
    def elsewhere(self) -> str:
        """Return the endpoint if it is not AWS's, without credentials in its address; empty if all endpoints are
        AWS's."""
        for client in self._clients.values():
            url = urlsplit(client.meta.endpoint_url)
            if not (url.hostname or "").endswith(_OWN):
                return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        return ""

    def need(self, what: str, action: str, **parameters: Any) -> dict[str, Any]:
        """Call an action that a step requires. Raise AwsError, which names the step."""
        try:
            return self._patiently(action, **parameters)
        except AwsUnansweredError as error:
            hint = ALLOW if error.hint == PERMIT else error.hint
            raise AwsError(self.region, what, str(error), hint, error.code) from None

    def _patiently(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Retry throttled calls.

        Other users of the account make calls, too: an `up` of an hour must not fail because of a short burst.
        """
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


_ENCODED = "Encoded authorization failure message"


def shortened(said: str, characters_max: int) -> str:
    """Return a message of AWS on one line.

    A denied call may add a kilobyte that only AWS can decode: cut it off.
    """
    line = printable(" ".join(said.partition(_ENCODED)[0].split()))
    return line if len(line) <= characters_max else f"{line[:characters_max]}..."


def _refusal(action: str, error: sdk.ClientError) -> AwsUnansweredError:
    """Return the error for an answer of AWS, or of a server in its place."""
    said = error.response.get("Error", {})
    code, status = said.get("Code", ""), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    message = shortened(said.get("Message", ""), _REASON_CHARACTERS_MAX)
    if code in NOT_PERMITTED:
        encoded = said.get("Message", "").partition(f"{_ENCODED}: ")[2].strip()
        return AwsUnansweredError(action, f"not permitted ({code}: {message})", PERMIT, code, encoded=encoded)
    if code in _NOT_KNOWN:
        return AwsUnansweredError(action, f"AWS refuses the credentials ({code}: {message})", RENEW, code)
    if code in _TOO_MANY:
        return AwsUnansweredError(action, f"AWS throttles requests ({code})", LATER, code)
    if code in _BUSY:
        return AwsUnansweredError(action, f"AWS is still changing it ({code})", LATER, code)
    if code == str(status) or status >= 500:  # an answer without an error code is not from AWS
        return AwsUnansweredError(action, f"not available: HTTP {status}", LATER, code)
    return AwsUnansweredError(action, f"{code}: {message}", LATER, code)


def _silence(action: str, error: Exception) -> AwsUnansweredError:
    if isinstance(error, sdk.NoCredentialsError):
        return AwsUnansweredError(action, "there are no credentials for AWS", SIGN_IN)
    if isinstance(error, ResponseParserError):
        return AwsUnansweredError(action, "not available: the answer does not come from AWS", LATER)
    what = " ".join(str(error).split())
    if isinstance(error, (sdk.HTTPClientError, sdk.ConnectionError)):
        return AwsUnansweredError(action, f"no answer: {what}", REACH, silent=True)
    return AwsUnansweredError(action, f"cannot be asked: {what}", SIGN_IN)
