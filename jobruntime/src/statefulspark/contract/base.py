"""The one base of every wire model: frozen, camelCase on the wire, exact when written, lenient when read.

A reader ignores fields it does not know, so that an older operator can read what a newer driver wrote; a writer leaves
out what is unset. `format_version` on stored documents tells which rules a document follows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from statefulspark.errors import SnapshotCorruptError

FORMAT_VERSION = 1
"""Version of every stored document written by this release; readers accept 1 up to this one."""


def _require_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"the time {value.isoformat()} has no time zone; write it in UTC, with a trailing Z")
    return value.astimezone(UTC)


UtcDatetime = Annotated[datetime, AfterValidator(_require_utc)]
"""A point in time in UTC; a time without a zone is refused."""


class WireModel(BaseModel):
    """Base of every value that leaves the process."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore", ser_json_timedelta="float"
    )

    def to_json(self, *, indent: int | None = None) -> str:
        """Write the value as JSON with camelCase names, without unset optional fields.

        Args:
            indent: Spaces per level for a document that people read; compact when omitted.

        Returns:
            JSON text in UTF-8 characters, ending without a newline.
        """
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=indent)


class StoredDocument(WireModel):
    """A document that stays on storage and outlives the release that wrote it."""

    format_version: int = FORMAT_VERSION

    @classmethod
    def parse(cls, body: bytes, source: str) -> Self:
        """Read a stored document.

        Args:
            body: The object's bytes, JSON in UTF-8.
            source: Where it came from; named in the error.

        Returns:
            The document.

        Raises:
            SnapshotCorruptError: The bytes are no document of this kind, or of a version that this release cannot read.
        """
        try:
            document = cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise SnapshotCorruptError(
                "DocumentUnreadable",
                f"{source} is no readable {cls.__name__}: {where}: {first['msg']} ({len(body)} bytes); it was cut "
                "short, damaged, or written by something else.",
            ) from error
        if not 1 <= document.format_version <= FORMAT_VERSION:
            raise SnapshotCorruptError(
                "FormatVersionUnknown",
                f"{source} has format version {document.format_version}; this release reads 1 to {FORMAT_VERSION}. "
                "Use the release that wrote it, or a newer one.",
            )
        return document
