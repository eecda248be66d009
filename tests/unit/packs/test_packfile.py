"""The form of a pack: chunks are where heads say, and damage is an error that says so."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from statefulspark import errors
from statefulspark.packs import names, packfile, ranges, reading
from statefulspark.testing import stores

_GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "state" / "pack-v1.bin"
_BEFORE = names.PackName(2, 1, 3, 1, "0123456789abcdef", names.Before(3, 3))
_NAME = names.PackName(2, 1, 7, 1, "fedcba9876543210", names.Before(3, 3))
_CHUNKS = (
    ranges.PackedChunk(5, 9, b"nine" * 20),
    ranges.PackedChunk(7, 2, b"two"),
    ranges.PackedChunk(7, 3, b"3"),
)
_EARLIER = {_BEFORE.reference: 1234}


def a_pack() -> packfile.Pack:
    return packfile.build(_NAME.reference, _CHUNKS, _EARLIER)


def a_reader(body: bytes) -> reading.PackReader:
    store = stores.MemoryStore()
    store.write(names.key("mean", _NAME.reference), body)
    return reading.PackReader(store, "mean")


def test_every_chunk_is_where_its_range_says() -> None:
    pack = a_pack()
    reader = a_reader(pack.body)

    assert [reader.read(where) for where in pack.ranges] == [chunk.body for chunk in _CHUNKS]


def test_the_footer_lists_the_chunks_and_what_was_there_before() -> None:
    pack = a_pack()
    footer = packfile.read_footer(pack.body, "pack")

    listed = [(entry.group, entry.version, entry.offset, entry.length, entry.crc32c) for entry in footer.chunks]
    assert listed == [
        (chunk.group, chunk.version, where.offset, where.length, where.crc32c)
        for chunk, where in zip(_CHUNKS, pack.ranges, strict=True)
    ]
    assert {one.pack: one.size_bytes for one in footer.earlier} == _EARLIER
    packfile.require_sound(pack.body, "pack")


def test_the_golden_pack_is_read_and_written_as_ever() -> None:
    golden = _GOLDEN.read_bytes()
    packfile.require_sound(golden, "golden")

    assert golden == a_pack().body


@pytest.mark.parametrize("cut", [0, 3, 7, 8, 11, 12, 90])
def test_a_pack_that_was_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="cut short"):
        packfile.read_footer(a_pack().body[:cut], "s3://bucket/pack")


def test_every_flipped_byte_of_a_pack_is_noticed() -> None:
    body = a_pack().body
    for position in range(len(body)):
        damaged = bytearray(body)
        damaged[position] ^= 0x20
        with pytest.raises(errors.SnapshotCorruptError):
            packfile.require_sound(bytes(damaged), "pack")


def test_a_pack_of_a_later_release_is_not_called_damaged() -> None:
    footer = packfile.PackFooter(format_version=2, chunks=()).to_json().encode()
    end = struct.pack("<II", len(footer), ranges.crc32c(footer))
    body = packfile.MAGIC + footer + end + packfile.MAGIC

    with pytest.raises(errors.FormatVersionError, match="packs of chunks"):
        packfile.read_footer(body, "s3://bucket/pack")


def test_a_damaged_chunk_is_refused_by_name() -> None:
    pack = a_pack()
    reader = a_reader(pack.body.replace(b"two", b"tow"))

    with pytest.raises(
        errors.SnapshotCorruptError, match=f"byte {pack.ranges[1].offset} of .*{_NAME.reference}"
    ) as caught:
        reader.read(pack.ranges[1])

    assert caught.value.reason == "ChunkUnreadable"


def test_a_pack_that_ends_before_the_chunk_is_damaged() -> None:
    pack = a_pack()

    with pytest.raises(errors.SnapshotCorruptError, match="has 0 bytes instead of 3") as caught:
        a_reader(pack.body[:20]).read(pack.ranges[1])

    assert caught.value.reason == "ChunkUnreadable"


def test_a_pack_that_is_gone_is_missing() -> None:
    where = a_pack().ranges[0]

    with pytest.raises(errors.SnapshotCorruptError, match=_NAME.reference) as caught:
        reading.PackReader(stores.MemoryStore(), "mean").read(where)

    assert caught.value.reason == "ChunkMissing"


def whole(body: bytes) -> None:
    packfile.require_whole(lambda offset, length: body[offset : offset + length], len(body), "s3://b/p")


@pytest.mark.parametrize("chunks", [_CHUNKS, ()], ids=["chunks", "none"])
def test_a_whole_pack_is_seen_without_its_chunks(chunks: tuple[ranges.PackedChunk, ...]) -> None:
    body = packfile.build(_NAME.reference, chunks, _EARLIER).body

    whole(body)
    whole(body.replace(b"two", b"tow"))


def test_a_pack_that_was_cut_anywhere_is_not_whole() -> None:
    body = a_pack().body

    for length in range(len(body)):
        with pytest.raises(errors.SnapshotCorruptError, match="s3://b/p is no readable pack"):
            whole(body[:length])


def test_a_pack_that_lacks_bytes_in_its_middle_is_not_whole() -> None:
    body = a_pack().body

    with pytest.raises(errors.SnapshotCorruptError, match="its chunks end at byte"):
        whole(body.replace(b"two", b"t"))


def test_a_footer_that_was_changed_is_seen_without_the_chunks() -> None:
    body = a_pack().body

    with pytest.raises(errors.SnapshotCorruptError, match="does not fit its checksum"):
        whole(body.replace(b'"length"', b'"lengtj"'))
