"""The fields of S3's answers that the store uses, and the check that an answer has them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypedDict

from statefulspark.storage import fsspec_errors


class S3Answer(TypedDict, total=False):
    """The fields of S3's answers."""

    Body: S3Body
    ContentLength: int
    Size: int
    ETag: str
    LastModified: datetime
    Metadata: dict[str, str]
    Key: str
    Prefix: str
    Code: str
    Message: str
    Contents: list[S3Answer]
    CommonPrefixes: list[S3Answer]
    Errors: list[S3Answer]
    IsTruncated: bool
    NextContinuationToken: str


class S3Body(Protocol):
    """A body that is being received."""

    async def read(self, amt: int) -> bytes:
        """Return the next bytes, at most so many; none at the end."""
        ...

    def close(self) -> None:
        """Give the connection back."""
        ...


def require(answer: S3Answer, fields: Sequence[str], target: fsspec_errors.RequestTarget) -> None:
    """Refuse an answer without what S3 always sends.

    Raises:
        StateUnknownError: `StorageFailed`.
    """
    for field in fields:
        if field not in answer:
            raise fsspec_errors.incomplete(target, field)
