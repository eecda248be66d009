"""Connection options of a store: endpoint, addressing and credentials.

No text form of the options contains credentials, so that a log or an error never shows them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from statefulspark import errors, outgoing
from statefulspark.storage import authorities
from statefulspark.storage.authorities import Authority

DEFAULT_REGION = "us-east-1"
_REGION = re.compile(r"(?![0-9]+$)(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
"""Region names that botocore accepts."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Connection to an object store.

    Attributes:
        endpoint: URL of an S3-compatible server; None means AWS itself.
        region: Region for signing; None uses the AWS configuration.
        path_style: Address buckets as `endpoint/bucket`, as S3-compatible servers expect.
        access_key: Access key; None uses the usual chain of credentials (environment, web identity, instance).
        secret_key: Secret key of `access_key`.
        session_token: Session token of temporary credentials.
        allow_local_files: Allow a file:// root; development only.
        authority: Authorities that are trusted beside the client's own; None if the server needs none.
        refuses_near: Whether the client connects to no address of its own machine or link.
    """

    endpoint: str | None = None
    region: str | None = DEFAULT_REGION
    path_style: bool = True
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    allow_local_files: bool = False
    authority: Authority | None = None
    refuses_near: bool = False

    def __post_init__(self) -> None:
        """Keep the credentials out of whatever the store's client says."""
        outgoing.keep_out(self.secret_key)
        outgoing.keep_out(self.session_token)

    @classmethod
    def from_env(
        cls,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        path_style: bool = True,
        allow_local_files: bool = False,
        ca_file: str | None = None,
    ) -> Self:
        """Read credentials, and options that are not given, from the `AWS_*` variables.

        Args:
            endpoint: Overrides `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL`.
            region: Overrides `AWS_REGION` and `AWS_DEFAULT_REGION`.
            path_style: As in the class.
            allow_local_files: As in the class.
            ca_file: File with authorities in PEM that are trusted, too. Overrides `STATEFULSPARK_STORAGE_CA`.

        Raises:
            SpecRejectedError: `CaInvalid`, `EndpointInvalid` or `RegionInvalid`.
        """
        env = os.environ
        chosen_endpoint = endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None
        if chosen_endpoint is not None:
            try:
                parts = urlsplit(chosen_endpoint)
                is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
            except ValueError:
                is_url = False
            if not is_url or chosen_endpoint != chosen_endpoint.strip():
                raise errors.SpecRejectedError(
                    "EndpointInvalid",
                    f"The endpoint {chosen_endpoint!r} is no server URL; write http://minio:9000 or https://s3.example.com "
                    "(--endpoint, storage.s3.endpoint, or AWS_ENDPOINT_URL).",
                )
        chosen_region = region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
        if _REGION.fullmatch(chosen_region) is None:
            raise errors.SpecRejectedError(
                "RegionInvalid",
                f"The region {chosen_region!r} is not the name of a region; write us-east-1, for example (--region, "
                "storage.s3.region, or AWS_REGION).",
            )
        chosen_file = ca_file or env.get(authorities.ENV) or None
        return cls(
            endpoint=chosen_endpoint,
            region=chosen_region,
            path_style=path_style,
            access_key=env.get("AWS_ACCESS_KEY_ID") or None,
            secret_key=env.get("AWS_SECRET_ACCESS_KEY") or None,
            session_token=env.get("AWS_SESSION_TOKEN") or None,
            allow_local_files=allow_local_files,
            authority=authorities.read(chosen_file) if chosen_file is not None else None,
        )
