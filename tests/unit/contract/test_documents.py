"""What a stored document looks like to the byte, and that no damage to a sealed one goes unnoticed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import a_manifest
from pydantic import ValidationError
from statefulspark import errors
from statefulspark.contract import base, manifest

_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
_GENERATION = manifest.GenerationRecord(generation=3, created_at=_NOON, epoch=7, carried_out=("größe",))
_SEALED = _GENERATION.sealed()


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the machine's own time zone be another than UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_value_is_written_without_what_is_unset() -> None:
    assert manifest.FileEntry(path="größe", size_bytes=1).to_json() == '{"path":"größe","sizeBytes":1}'


def test_a_value_is_written_for_people_when_asked_to() -> None:
    written = manifest.FileEntry(path="metadata", size_bytes=1).to_json(indent=2)

    assert written == '{\n  "path": "metadata",\n  "sizeBytes": 1\n}'


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_is_written_in_utc_wherever_the_machine_is() -> None:
    berlin = datetime(2026, 11, 21, 13, tzinfo=timezone(timedelta(hours=1)))

    record = manifest.OwnerRecord(namespace="default", job="flights", owner_id="uid", created_at=berlin)

    assert '"createdAt":"2026-11-21T12:00:00Z"' in record.to_json()


def test_a_sealed_document_ends_with_the_checksum_of_all_that_is_before_it() -> None:
    assert base.seal(b'{"a":1}') == b'{"a":1,"crc32":"a702fc6e"}'


def test_a_checksum_is_the_common_crc_32_with_its_leading_zeros() -> None:
    assert (base.crc32_hex(b"123456789"), base.crc32_hex(b"")) == ("cbf43926", "00000000")


@pytest.mark.parametrize("indent", [None, 1])
def test_a_sealed_document_is_read_back_as_it_was_written(indent: int | None) -> None:
    body = _GENERATION.sealed(indent=indent)

    assert manifest.GenerationRecord.parse(body, "s3://b/x") == _GENERATION
    assert body.startswith(_GENERATION.to_json(indent=indent).encode()[:-1])


@given(position=st.integers(0, len(_SEALED) - 28), flipped=st.integers(1, 255))
def test_no_changed_byte_of_a_sealed_document_goes_unnoticed(position: int, flipped: int) -> None:
    body = bytearray(_SEALED)
    body[position] ^= flipped

    with pytest.raises(errors.SnapshotCorruptError) as raised:
        manifest.GenerationRecord.parse(bytes(body), "s3://b/x")

    assert raised.value.reason == "DocumentUnreadable"
    assert raised.value.message == (
        f"s3://b/x is not what was written ({len(body)} bytes): it does not fit its own checksum."
    )


def test_a_document_without_a_checksum_is_read() -> None:
    """The state in a segment has none, since the segment has one."""
    assert manifest.GenerationRecord.parse(_GENERATION.to_json().encode(), "s3://b/x") == _GENERATION


def test_what_a_master_hook_answered_comes_back_byte_by_byte() -> None:
    entry = manifest.MasterStateEntry.encode("clicks", 41, b"\x00\xff")

    assert entry == manifest.MasterStateEntry(identifier="clicks", checkpoint_id=41, state="AP8=")
    assert entry.body == b"\x00\xff"


_QUERY = manifest.QueryEntry(uid="q", batch_id=-1, path="p")
_EPOCH = manifest.EpochRecord(epoch=1, claimed_at=_NOON, holder="pod", claim_id="c")
_LINEAGE = manifest.LineageRecord(number=1, lineage="0" * 32, root="s3://b", created_at=_NOON, epoch=1)


@pytest.mark.parametrize(
    ("document", "field", "below"),
    [
        (manifest.FileEntry(path="metadata", size_bytes=0), "size_bytes", -1),
        (_QUERY, "batch_id", -2),
        (a_manifest(), "id", 0),
        (a_manifest(), "epoch", 0),
        (a_manifest(), "generation", 0),
        (_GENERATION, "generation", 0),
        (_GENERATION, "epoch", 0),
        (_EPOCH, "epoch", 0),
        (_LINEAGE, "number", 0),
        (_LINEAGE, "epoch", 0),
        (manifest.Ancestor(generation=1), "generation", 0),
        (manifest.MasterStateEntry(identifier="h", checkpoint_id=1, state=""), "checkpoint_id", 0),
    ],
)
def test_a_number_below_the_first_one_is_no_document(document: base.WireModel, field: str, below: int) -> None:
    least = document.model_dump() | {field: below + 1}
    type(document).model_validate(least)

    with pytest.raises(ValidationError, match=f"greater than or equal to {below + 1}"):
        type(document).model_validate(least | {field: below})


def test_a_document_of_this_release_that_cannot_be_read_is_damaged() -> None:
    body = b'{"formatVersion":%d,"generation":"three"}' % manifest.GenerationRecord.FORMAT.writes

    with pytest.raises(errors.SnapshotCorruptError, match=r"s3://b/generation.json is no readable GenerationRecord"):
        base.read_model(manifest.GenerationRecord, manifest.GenerationRecord.FORMAT, body, "s3://b/generation.json")
