"""As whom, and where, S3 is asked: for people who look for what is wrong. Secrets stay where they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sidecar_core.errors import StorageError
from sidecar_core.storage.s3_client import require_boto3

if TYPE_CHECKING:
    from sidecar_core.storage.base import ConnectionOptions


@dataclass(frozen=True)
class S3Identity:
    """How S3 is reached.

    Attributes:
        method: by which way credentials were found, in botocore's words (`env`, `shared-credentials-file`,
            `assume-role`, `iam-role`, …), or None when there are none.
        region: the region, or None.
        profile: the profile of the shared AWS config, or None.
        endpoint_url: of a server other than AWS, or None.
    """

    method: str | None
    region: str | None
    profile: str | None
    endpoint_url: str | None


def s3_identity(options: ConnectionOptions | None = None) -> S3Identity:
    """Returns how S3 is reached with these options; asks no bucket, but perhaps the machine's metadata service.

    Raises:
        StorageError: boto3 is not installed, there is no such profile, or its credentials cannot be had.
    """
    require_boto3()
    import boto3  # pyright: ignore[reportMissingTypeStubs]
    from botocore.exceptions import BotoCoreError  # pyright: ignore[reportMissingTypeStubs]

    profile = (options.profile if options else None) or os.environ.get("AWS_PROFILE") or None
    endpoint = (options.endpoint_url if options else None) or os.environ.get("AWS_ENDPOINT_URL_S3")
    try:
        session: Any = boto3.Session(profile_name=profile, region_name=options.region if options else None)
        credentials: Any = session.get_credentials()
    except BotoCoreError as error:
        raise StorageError(f"no AWS credentials: {error}", None, "check profile and AWS_PROFILE") from error
    return S3Identity(
        method=None if credentials is None else str(credentials.method),
        region=session.region_name or None,
        profile=profile,
        endpoint_url=endpoint or os.environ.get("AWS_ENDPOINT_URL") or None,
    )
