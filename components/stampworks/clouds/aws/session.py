"""How AWS is asked at run time: as whom the machine is logged in, in one region, and never for ever."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from stampworks.clouds.aws.errors import AGAIN, ALLOW, LOG_IN, AwsError

_LIMITS = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 5})
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_LOGGED_OUT = {"AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "RequestExpired"}


@functools.cache  # of which each reads megabytes of descriptions
def client(service: str, region: str) -> Any:
    """One of AWS's services in a region; who asks is what boto3 finds: variables, profile, role."""
    with asking(region, f"cannot use {service}"):
        session: Any = boto3.session.Session()  # its types list every service, and know none of one that is given
        return session.client(service, region_name=region, config=_LIMITS)


@contextlib.contextmanager
def asking(region: str, what: str) -> Iterator[None]:
    """What AWS refuses within becomes one error; `what` says what does not work then."""
    try:
        yield
    except ClientError as error:
        said = error.response.get("Error", {})
        code, why = str(said.get("Code", "")), str(said.get("Message", "")) or str(error)
        hint = ALLOW if code in _DENIED else LOG_IN if code in _LOGGED_OUT else AGAIN
        raise AwsError(region, what, f"{code}: {why}", hint, code) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise AwsError(region, what, str(error), LOG_IN) from error
    except BotoCoreError as error:  # no network, no answer, or one that is none
        raise AwsError(region, what, str(error)) from error
