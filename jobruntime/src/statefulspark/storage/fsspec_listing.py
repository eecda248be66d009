"""Reads the pages of a listing without botocore's general parser, which takes more than ten times as long.

That parser looks up each element of a page in the model of S3, and reads each time with dateutil. A page has 1,000
objects, and no other thread runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from typing import TypedDict
from xml.etree.ElementTree import Element

import aiobotocore.parsers
import botocore.model
import botocore.parsers

_TEXTS = frozenset(["Prefix", "Delimiter", "StartAfter", "EncodingType", "NextContinuationToken"])
_ENTRIES = frozenset(["Contents", "CommonPrefixes"])

_Entry = dict[str, str | int | datetime]


class _Response(TypedDict):
    body: bytes


class ParserFactory(aiobotocore.parsers.AioResponseParserFactory):  # type: ignore[misc]  # aiobotocore has no types
    """Gives clients of S3 the parser of this module."""

    def create_parser(self, protocol_name: str) -> aiobotocore.parsers.AioResponseParser:
        """Return the parser of a protocol."""
        return _Parser(**self._defaults) if protocol_name == "rest-xml" else super().create_parser(protocol_name)


class _Parser(aiobotocore.parsers.AioRestXMLParser):  # type: ignore[misc]  # aiobotocore has no types
    """Reads the fields of a page that stores use; every other answer is botocore's to read."""

    def _parse_payload(
        self,
        response: _Response,
        shape: botocore.model.StructureShape,
        member_shapes: Mapping[str, botocore.model.Shape],
        final_parsed: MutableMapping[str, object],
    ) -> None:
        if shape.name == "ListObjectsV2Output":
            final_parsed.update(read_page(self._initial_body_parse(response["body"]), self._timestamp_parser))
        else:
            super()._parse_payload(response, shape, member_shapes, final_parsed)


def read_page(root: Element, read_time: Callable[[str], datetime]) -> dict[str, object]:
    """Return the fields of a page.

    Args:
        root: The page.
        read_time: Reads a time in a form that S3 does not use and other servers may.

    Raises:
        ResponseParserError: It is no page of a listing. Another document would be an empty folder.
        ValueError: A size or a time is none.
    """
    if not root.tag.endswith("ListBucketResult"):
        raise botocore.parsers.ResponseParserError("The answer is no listing")
    page: dict[str, object] = {}
    entries: dict[str, list[_Entry]] = {}
    for element in root:
        name = element.tag.rpartition("}")[2]
        if name in _ENTRIES:
            entries.setdefault(name, []).append(_read_entry(element, read_time))
        elif name == "IsTruncated":
            page[name] = element.text == "true"
        elif name in _TEXTS:
            page[name] = element.text or ""
    return page | entries


def _read_entry(entry: Element, read_time: Callable[[str], datetime]) -> _Entry:
    fields: _Entry = {}
    for element in entry:
        name, text = element.tag.rpartition("}")[2], element.text or ""
        if name in ("Key", "Prefix", "ETag"):
            fields[name] = text
        elif name == "Size":
            fields[name] = int(text)
        elif name == "LastModified":
            fields[name] = datetime.fromisoformat(text) if text.endswith("Z") else read_time(text)
    return fields
