"""One S3 client: how it is made, what is tried again, and what its errors say."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError
from sidecar_core.storage.s3_pace import PacedFile, Pacer, pace_answers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sidecar_core.storage.base import ConnectionOptions

T = TypeVar("T")


class NoSuchRangeError(StorageError):
    """The object has no byte in the range that was asked for: it is empty."""


_CONNECT_TIMEOUT_S = 10
_CONNECTIONS = 64
_SHOWN_CHARACTERS = 300
_PASSING_CODES = {
    "BadDigest",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "InternalError",
    "OperationAborted",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_CREDENTIAL_CODES = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
}
_LOG_IN = "log in first, for example: aws sso login --profile NAME"
_REGION_CODES = {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect", "301"}


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and after which waits, a call that failed in passing is made again.

    The n-th wait is drawn between half and the whole of `first_wait_s * 2^(n-1)`, at most `longest_wait_s`;
    with the defaults all waits of a call together last from 46 to 92 s.

    Attributes:
        attempts: calls in all, while the server answers 500, 503 or 429, resets, or is silent.
        connect_attempts: calls in all, while there is no server.
        first_wait_s: longest first wait in seconds.
        longest_wait_s: longest wait in seconds.
        give_up_s: seconds after which no further call begins.
        silence_s: seconds without a byte after which a call has failed.
        slow_bytes_per_s: a body that moves more slowly than this on average has failed too, so that it may last
            `size / slow_bytes_per_s` seconds at most, and a window.
        slow_window_s: seconds that are looked at for that average.
    """

    attempts: int = 10
    connect_attempts: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0
    give_up_s: float = 300.0
    silence_s: float = 60.0
    slow_bytes_per_s: float = 8192.0
    slow_window_s: float = 60.0

    def pacer(self) -> Pacer:
        """Returns what watches over one body."""
        return Pacer(self.slow_bytes_per_s, self.slow_window_s)

    def paced_file(self, path: Path) -> PacedFile:
        """Opens a file to be sent."""
        return PacedFile(path, self.pacer())

    def longest_waits_s(self) -> float:
        """Returns how long the waits of one call last together at most."""
        return sum(self._longest_s(failures) for failures in range(1, self.attempts))

    def wait_s(self, failures: int) -> float:
        """Returns the seconds to wait after that many failures."""
        return self._longest_s(failures) * random.uniform(0.5, 1.0)

    def _longest_s(self, failures: int) -> float:
        return min(self.longest_wait_s, self.first_wait_s * 2 ** (failures - 1))


class S3Client:
    """A boto3 client that waits and tries again, and whose errors name the object and what to check.

    Credentials are boto3's: profile, environment, role; they are renewed before they expire and never
    leave the client. It may be used by several threads.

    Args:
        prefix: what it is for, for messages.
        options: region, profile and endpoint.
        retry: what is tried again.

    Raises:
        StorageError: boto3 is not installed, there is no such profile, or no credentials for it.
    """

    def __init__(self, prefix: str, options: ConnectionOptions | None, retry: RetryPolicy) -> None:
        self._options = options
        self._retry = retry
        self._api = _make_api(prefix, options, retry.silence_s)
        pace_answers(self._api, retry.pacer)

    def call(self, operation: str, uri: str, action: str, /, **parameters: object) -> dict[str, Any]:
        """Calls an operation of the S3 API.

        Args:
            operation: boto3's name of the method.
            uri: the object, for messages.
            action: what is being done, for messages: `cannot <action> it`.
            parameters: of the operation; a callable opens a body anew for each attempt.

        Returns:
            boto3's answer; `RetryAttempts` in its metadata are the attempts that failed before.

        Raises:
            StorageNotFoundError: 404.
            ConflictError: 412.
            StorageError: anything else that did not pass.
        """
        attempts = 0

        def attempt() -> dict[str, Any]:
            nonlocal attempts
            attempts += 1
            fresh = dict(parameters)
            with ExitStack() as opened:
                for name, value in parameters.items():
                    if callable(value):
                        body: Any = value()
                        fresh[name] = opened.enter_context(body)
                return getattr(self._api, operation)(**fresh)

        answer = self.persist(attempt, uri, action)
        answer["ResponseMetadata"]["RetryAttempts"] = attempts - 1
        return answer

    def persist(self, attempt: Callable[[], T], uri: str, action: str) -> T:
        """Calls `attempt` until it succeeds, fails for good, or the policy is exhausted; see `call`."""
        started = time.monotonic()
        failures = 0
        while True:
            try:
                return attempt()
            except StorageError:
                raise
            except _failures() as error:
                failures += 1
                elapsed_s = time.monotonic() - started
                if failures >= self._attempts_for(error) or elapsed_s > self._retry.give_up_s:
                    tried = f" (tried {failures} times in {elapsed_s:.0f} s)" if failures > 1 else ""
                    self._raise(error, uri, action, tried)
                time.sleep(self._retry.wait_s(failures))

    def _attempts_for(self, error: Exception) -> int:
        """Returns how often in all a call is made that fails with this error."""
        from botocore import exceptions as boto  # pyright: ignore[reportMissingTypeStubs]
        from botocore.parsers import ResponseParserError  # pyright: ignore[reportMissingTypeStubs]
        from urllib3.exceptions import HTTPError

        if isinstance(error, boto.ClientError):
            code, status = _code_and_status(error)
            passing = code in _PASSING_CODES or status in {429, 500, 502, 503, 504}
            return self._retry.attempts if passing else 1
        if isinstance(error, (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)):
            return self._retry.connect_attempts
        passing_errors = (
            boto.ConnectionClosedError,
            boto.ReadTimeoutError,
            boto.HTTPClientError,
            boto.IncompleteReadError,
            boto.ResponseStreamingError,
            ResponseParserError,  # an answer that was cut, or a proxy's page
            HTTPError,
            ConnectionError,
            TimeoutError,
        )
        certificate = isinstance(error, boto.SSLError)
        return self._retry.attempts if isinstance(error, passing_errors) and not certificate else 1

    def _raise(self, error: Exception, uri: str, action: str, tried: str) -> NoReturn:
        """Raises what a person can act on."""
        from botocore import exceptions as boto  # pyright: ignore[reportMissingTypeStubs]

        head = f"{uri}: cannot {action} it: "
        if isinstance(error, boto.ClientError):
            code, status = _code_and_status(error)
            text = f"{head}{status} {code}{tried}"
            if status == 416:
                raise NoSuchRangeError(text) from error
            if status == 412:
                fix = "another writer is at work: see lease.json, then plan the run again"
                raise ConflictError(text, None, fix) from error
            if status == 404:
                raise StorageNotFoundError(text, None, f"check the prefix ({self._connection()})") from error
            raise StorageError(text, None, self._fix_for(code, status)) from error
        if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
            fix = "set storage.profile, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise StorageError(f"{head}no AWS credentials: {error}", None, fix) from error
        if isinstance(error, _login_errors()):
            raise StorageError(f"{head}{_one_line(error)}", None, f"{_LOG_IN} ({self._connection()})") from error
        if isinstance(error, boto.BotoCoreError) and not isinstance(
            error, (boto.HTTPClientError, boto.ConnectionError)
        ):
            raise StorageError(f"{head}{_one_line(error)}{tried}", None, f"check {self._connection()}") from error
        fix = f"check the network, and endpoint_url and region ({self._connection()})"
        raise StorageError(f"{head}{_one_line(error)}{tried}", None, fix) from error

    def _fix_for(self, code: str, status: int) -> str:
        if code in _CREDENTIAL_CODES:
            return f"check or renew the credentials ({self._connection()})"
        if code in _REGION_CODES or status in {301, 307}:
            return f"check the region ({self._connection()})"
        if status == 403:
            return (
                f"check the prefix, and that these credentials may do so ({self._connection()}); without the right "
                "to list the bucket, S3 answers 403 for what is not there as well"
            )
        if status in {429, 500, 503}:
            return f"let fewer shards run at once, or try later ({self._connection()})"
        return f"check {self._connection()}"

    def _connection(self) -> str:
        meta = self._api.meta
        profile = (self._options.profile if self._options else None) or os.environ.get("AWS_PROFILE") or "none"
        return f"region {meta.region_name or 'none'}, profile {profile}, endpoint {meta.endpoint_url}"


def require_boto3() -> None:
    """Raises StorageError when the packages for s3:// are not installed; loads none of them."""
    try:
        found = importlib.util.find_spec("boto3") is not None
    except ValueError:  # something put a stand-in into sys.modules
        found = False
    if not found:
        raise StorageError(
            "s3:// needs the package 'boto3', which is not installed", None, 'pip install "sidecar-core[s3]"'
        )


def _make_api(prefix: str, options: ConnectionOptions | None, silence_s: float) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes while running
    import boto3  # pyright: ignore[reportMissingTypeStubs]
    from botocore.config import Config  # pyright: ignore[reportMissingTypeStubs]
    from botocore.exceptions import BotoCoreError  # pyright: ignore[reportMissingTypeStubs]

    endpoint = options.endpoint_url if options else None
    settings: dict[str, Any] = {
        "retries": {"total_max_attempts": 1},  # S3Client.persist tries again, reads of a body included
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "read_timeout": silence_s,
        "max_pool_connections": _CONNECTIONS,
        "tcp_keepalive": True,
    }
    if endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        # servers that are compatible rather than S3 know neither host names for buckets nor new checksums
        settings["s3"] = {"addressing_style": "path"}
        for name in ("request_checksum_calculation", "response_checksum_validation"):
            if f"AWS_{name.upper()}" not in os.environ:
                settings[name] = "when_required"
    try:
        session: Any = boto3.Session(
            profile_name=options.profile if options else None, region_name=options.region if options else None
        )
        _forbid_questions(session)
        parsers: Any = session._session.get_component("response_parser_factory")  # noqa: SLF001
        parsers.set_parser_defaults(timestamp_parser=_parse_timestamp)
        return session.client("s3", endpoint_url=endpoint, config=Config(**settings))
    except _login_errors() as error:
        raise StorageError(f"{prefix}: no AWS credentials: {_one_line(error)}", None, _LOG_IN) from error
    except (BotoCoreError, ValueError) as error:
        fix = "check profile, region and endpoint_url under 'storage' of the dataset's YAML, and AWS_PROFILE"
        raise StorageError(f"{prefix}: no S3 client can be made: {_one_line(error)}", None, fix) from error


def _forbid_questions(session: Any) -> None:  # noqa: ANN401
    """Makes credential helpers that would ask a person fail at once where there is none."""
    if sys.stdin is not None and sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison] - None without a console
        return
    resolver: Any = session._session.get_component("credential_provider")  # noqa: SLF001 - botocore has no other door
    for provider in resolver.providers:
        if hasattr(provider, "_popen"):
            provider._popen = partial(  # noqa: SLF001
                subprocess.Popen, stdin=subprocess.DEVNULL, start_new_session=True
            )
        if hasattr(provider, "_prompter"):
            provider._prompter = _refuse_question  # noqa: SLF001


def _refuse_question(question: str) -> NoReturn:
    message = f"the AWS profile asks {question.strip()!r}, and there is no terminal to answer on"
    raise StorageError(message, None, "log in first, then run with the credentials in the environment")


def _parse_timestamp(text: Any) -> datetime:  # noqa: ANN401
    """Parses a time as listings have it; botocore's own parser takes most of the time of a long listing."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        from botocore.utils import parse_timestamp  # pyright: ignore[reportMissingTypeStubs]

        return parse_timestamp(text)


def _failures() -> tuple[type[Exception], ...]:
    """Returns the classes of all that a call of boto3, or the reading of a body, raises."""
    from botocore.exceptions import BotoCoreError, ClientError  # pyright: ignore[reportMissingTypeStubs]
    from botocore.parsers import ResponseParserError  # pyright: ignore[reportMissingTypeStubs]
    from urllib3.exceptions import HTTPError

    return BotoCoreError, ClientError, ResponseParserError, HTTPError, OSError


def _login_errors() -> tuple[type[Exception], ...]:
    """Returns the classes of what is raised when a profile's credentials cannot be had or renewed."""
    from botocore import exceptions as boto  # pyright: ignore[reportMissingTypeStubs]

    return boto.CredentialRetrievalError, boto.SSOError, boto.TokenRetrievalError


def _code_and_status(error: Any) -> tuple[str, int]:  # noqa: ANN401
    response: dict[str, Any] = error.response
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = str(response.get("Error", {}).get("Code", ""))
    return code, status


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS // 4]} … {text[-_SHOWN_CHARACTERS:]}"
