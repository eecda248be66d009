"""A page of a listing has the fields that botocore's own parser finds in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from xml.sax.saxutils import escape

import aiobotocore.parsers
import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark.storage import fsspec_listing

SHAPE = botocore.session.get_session().get_service_model("s3").operation_model("ListObjectsV2").output_shape
UNUSED = ("Name", "KeyCount", "MaxKeys", "StorageClass", "ContinuationToken")
NAMESPACES = ("", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"')
TIMES = (
    "2026-01-01T00:00:00.000Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.123456Z",
    "2026-01-01T01:00:00+01:00",
    "2026-01-01T00:00:00",
    "Thu, 01 Jan 2026 00:00:00 GMT",
)
NAMES = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Co", "Cn")), max_size=12)


def a_page(*contents: str, namespace: str = "", root: str = "ListBucketResult") -> bytes:
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}{namespace}>\n  '
    return (head + "\n  ".join(contents) + f"</{root}>").encode()


def a_content(key: str = "k", size: object = 7, time: str = TIMES[0]) -> str:
    rest = "<StorageClass>STANDARD</StorageClass><Owner><ID>me</ID></Owner>"
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{time}</LastModified><ETag>&quot;e&quot;</ETag>"
        f"<Size>{size}</Size>{rest}</Contents>"
    )


def both(body: bytes) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Parse a page with botocore, and with ours; without what nobody uses."""
    response = {"body": body, "headers": {"x-amz-request-id": "1"}, "status_code": 200, "context": {}}
    factories = aiobotocore.parsers.AioResponseParserFactory(), fsspec_listing.ParserFactory()
    theirs, ours = (
        asyncio.run(factory.create_parser("rest-xml").parse(dict(response), SHAPE)) for factory in factories
    )
    for entry in (theirs, *theirs.get("Contents", [])):
        for name in (*UNUSED, "Owner"):
            entry.pop(name, None)
    return theirs, ours


@pytest.mark.parametrize("namespace", NAMESPACES, ids=["without a namespace", "with one"])
@pytest.mark.parametrize("time", TIMES)
def test_objects_sizes_and_times(time: str, namespace: str) -> None:
    theirs, ours = both(a_page(a_content("a", 0, time), a_content("b", 2**42), namespace=namespace))

    assert ours == theirs
    assert len(ours["Contents"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "contents",
    [
        (),
        ("<IsTruncated>true</IsTruncated>", "<NextContinuationToken>1+/=</NextContinuationToken>"),
        ("<IsTruncated>false</IsTruncated>", "<Prefix/>", "<Delimiter>/</Delimiter>"),
        ("<EncodingType>url</EncodingType>", "<Prefix>a%20b</Prefix>", a_content("a%20b/c")),
        ("<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>", "<CommonPrefixes><Prefix/></CommonPrefixes>"),
        ("<Contents><Key>a</Key></Contents>", "<Contents><ETag/></Contents>", "<Contents/>"),
        ("<Unknown><Key>a</Key></Unknown>",),
    ],
    ids=["nothing", "truncated", "an end", "encoded", "folders", "missing fields", "an unknown element"],
)
def test_the_other_fields_of_a_page(contents: tuple[str, ...]) -> None:
    theirs, ours = both(a_page(*contents))

    assert ours == theirs


@given(st.lists(st.tuples(NAMES, st.integers(0, 2**50)), max_size=4), st.lists(NAMES, max_size=3))
def test_any_keys(objects: list[tuple[str, int]], folders: list[str]) -> None:
    prefixes = [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders]
    theirs, ours = both(a_page(*(a_content(key, size) for key, size in objects), *prefixes))

    assert ours == theirs


@pytest.mark.parametrize(
    "body",
    [a_page(root="html"), a_page(a_content(size="many")), a_page(a_content(time="noonZ")), a_page(a_content(size=""))],
    ids=["another document", "a size that is none", "a time that is none", "an empty size"],
)
def test_what_is_no_page_is_a_failure_and_no_empty_folder(body: bytes) -> None:
    response = {"body": body, "headers": {}, "status_code": 200, "context": {}}
    parser = fsspec_listing.ParserFactory().create_parser("rest-xml")

    with pytest.raises((ValueError, aiobotocore.parsers.ResponseParserError)):
        asyncio.run(parser.parse(response, SHAPE))
