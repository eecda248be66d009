"""The base of every wire model: frozen, camelCase in JSON, exact when written, lenient when read.

A reader ignores unknown fields, so that an older operator can read the documents of a newer driver; a writer leaves out
unset fields. `format_version` of a stored document says which rules it follows; each kind of document has its own versions
(`formats`).
"""

from __future__ import annotations

import contextlib
import re
import zlib
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema, from_json

from statefulspark import durations
from statefulspark.contract.formats import DocumentFormat
from statefulspark.errors import SnapshotCorruptError, SpecRejectedError


def _require_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"the time {value.isoformat()} has no time zone; write it in UTC, with a trailing Z")
    return value.astimezone(UTC)


UtcDatetime = Annotated[datetime, AfterValidator(_require_utc)]
"""A point in time in UTC; a time without a zone is refused."""


def _read_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError("it must be a number with a unit in quotation marks: 500ms, 10s, 2m, 1h30m or 7d")
    try:
        return durations.parse(value)
    except SpecRejectedError as error:
        raise ValueError(error.message) from error


Duration = Annotated[
    timedelta,
    BeforeValidator(_read_duration),
    PlainSerializer(durations.format_exact, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": durations.PATTERN}),
]
"""A duration, written as text in the grammar of `durations`."""


class InCamelCase:
    """Marks an enum whose values are stored in lower case, and sent as `Savepoint`."""

    def __get_pydantic_core_schema__(self, source: type[StrEnum], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read and write the words that are sent."""
        members = {member.value.capitalize(): member for member in source}

        def read(value: object) -> StrEnum:
            if isinstance(value, source):
                return value
            if isinstance(value, str) and value in members:
                return members[value]
            raise ValueError(f"Input should be {', '.join(map(repr, members))}")

        return core_schema.no_info_before_validator_function(
            read,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda member: member.value.capitalize(), when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the words that are sent."""
        described = handler(schema["schema"])  # The enum, without the validator around it.
        return {**described, "enum": [word.capitalize() for word in described["enum"]]}


def _failing_at_once(schema: CoreSchema) -> CoreSchema:
    """Return the schema of a model whose sequences end with their first error; models inside have done that already."""
    parts: list[object] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            if part.get("type") in ("tuple", "list", "set", "frozenset"):
                part["fail_fast"] = True
            parts += [value for key, value in part.items() if key not in ("metadata", "serialization", "default")]
        elif isinstance(part, list | tuple):
            parts += part
    return schema


class WireModel(BaseModel):
    """Base of every value that leaves the process."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let a sequence of this model fail at its first wrong element: each further error would take a kilobyte."""
        return _failing_at_once(handler(source))

    def to_json(self, *, indent: int | None = None) -> str:
        """Write the value as JSON with camelCase names, without unset optional fields.

        Args:
            indent: Spaces per level for a document that people read; compact when omitted.

        Returns:
            JSON text in UTF-8 characters, ending without a newline.
        """
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=indent)


_Model = TypeVar("_Model", bound=WireModel)


class _Versioned(WireModel):
    """The part of a document that every release can read."""

    format_version: int


class StoredDocument(WireModel):
    """A document that stays on storage and outlives the release that wrote it.

    Each kind sets `FORMAT`, and sets `format_version` to the version that it is written with.
    """

    FORMAT: ClassVar[DocumentFormat]
    format_version: int

    @classmethod
    def parse(cls, body: bytes, source: str) -> Self:
        """Read a stored document.

        Args:
            body: The object's bytes, JSON in UTF-8.
            source: Where it came from; named in the error.

        Returns:
            The document.

        Raises:
            SnapshotCorruptError: `DocumentUnreadable`: the bytes are not a document of this kind.
            FormatVersionError: The document is valid, but this release cannot read its version.
        """
        document = read_model(cls, cls.FORMAT, body, source)
        cls.FORMAT.require_known(document.format_version, source)
        return document


class SealedDocument(StoredDocument):
    """A document that ends with its own checksum, because nothing else verifies it before a manifest names it."""

    def sealed(self, *, indent: int | None = None) -> bytes:
        """Write the document with its checksum as the last field; `indent` is as for `to_json`."""
        return seal(self.to_json(indent=indent).encode())

    @classmethod
    def parse(cls, body: bytes, source: str) -> Self:
        """Read a document, as `StoredDocument.parse`; a document with a wrong checksum is unreadable."""
        require_unbroken(body, source)
        return super().parse(body, source)


def read_model(kind: type[_Model], document_format: DocumentFormat, body: bytes | str, source: str) -> _Model:
    """Read a stored model; its version is checked only if it cannot be read.

    The JSON is read first, and validated then. Of one call that does both, each error has a copy of the value that it is
    about, which for a missing field is the whole document.

    Args:
        kind: The model.
        document_format: The versions of it that this release reads.
        body: JSON in UTF-8.
        source: Where it came from; named in the error.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`.
        FormatVersionError: It cannot be read because a later release wrote it; it is not damaged.
    """
    try:
        value = from_json(body)
    except ValueError as error:
        raise _unreadable(kind, source, f"the document: {error}", body) from error
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        with contextlib.suppress(ValidationError):
            document_format.require_known(_Versioned.model_validate(value).format_version, source)
        first_error = error.errors(include_input=False)[0]
        field = ".".join(str(part) for part in first_error["loc"]) or "the document"
        raise _unreadable(kind, source, f"{field}: {first_error['msg']}", body) from error


def _unreadable(kind: type[_Model], source: str, why: str, body: bytes | str) -> SnapshotCorruptError:
    return SnapshotCorruptError(
        "DocumentUnreadable",
        f"{source} is no readable {kind.__name__}: {why} ({len(body)} bytes); it was cut short, damaged, or written by "
        "something else.",
    )


_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"}$')


def crc32_hex(body: bytes) -> str:
    """Return the CRC-32 of a body, eight hexadecimal digits."""
    return f"{zlib.crc32(body):08x}"


def seal(body: bytes) -> bytes:
    """Append the field `crc32` to a JSON object that has other fields: the checksum of everything before it."""
    opened = body.removesuffix(b"}")
    return opened + f',"crc32":"{crc32_hex(opened)}"}}'.encode()


def require_unbroken(body: bytes, source: str) -> None:
    """Compare a JSON object with the checksum at its end; one without it is part of a file that has its own.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable`.
    """
    match = _SEAL.search(body)
    if match is not None and match[1].decode() != crc32_hex(body[: match.start()]):
        raise SnapshotCorruptError(
            "DocumentUnreadable",
            f"{source} is not what was written ({len(body)} bytes): it does not fit its own checksum.",
        )
