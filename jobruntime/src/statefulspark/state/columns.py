"""Changes of one state as columns: hashes, keys and rows, in ascending order of the hash; and their bytes in a chunk.

Nothing is built to read them: a key is found by its hash, and only the rows that are asked for become objects. A hash
may belong to several keys, so a key counts as found when its bytes are equal. That is the same as Python's equality: keys
of one operator have the types of its key columns, and one form (`types.keyforms`), which is asserted where they are packed.
Keys and rows are Arrow arrays of byte strings, without nulls.

In the body of a chunk (`docs/formats.md`) the buffers of columns are behind a header, and are used where they lie. A
checksum covers all but the bytes of rows, which are as many as all else together: a flipped hash or offset would hide a
key, while rows are compared with the checksums of what holds the chunk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statefulspark import errors
from statefulspark.state import kinds, tables
from statefulspark.state.types import codec, keyforms

WRONG_SHAPES = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, msgpack.UnpackException)
"""What reading raises where a damaged byte has made another type, number, decimal or nesting."""


@contextlib.contextmanager
def damage_reported(source: str) -> Iterator[None]:
    """Tell what reading raises in the block as damage.

    Args:
        source: Origin of the chunk.

    Raises:
        SnapshotCorruptError: `ChunkUnreadable`.
    """
    try:
        yield
    except WRONG_SHAPES as error:
        raise unreadable(source, str(error) or type(error).__name__) from error


def unreadable(source: str, why: str) -> errors.SnapshotCorruptError:
    """Return the error for a chunk that is damaged."""
    return errors.SnapshotCorruptError(
        "ChunkUnreadable",
        f"The chunk {source} of keyed state cannot be read: {why}. It is damaged; restore from "
        "another checkpoint or savepoint.",
    )


Offsets = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]
LARGEST_BYTES = 2**31 - 1
"""What an array of byte strings can hold; its offsets have 32 bits."""


def pack_array(pieces: Sequence[bytes]) -> pa.BinaryArray:
    """Return an array of byte strings, which are at most `LARGEST_BYTES` together."""
    offsets = np.zeros(len(pieces) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, pieces), np.int32, len(pieces)), out=offsets[1:])
    return make_array(offsets, b"".join(pieces))


def make_array(offsets: Offsets, body: bytes | memoryview) -> pa.BinaryArray:
    """Return the array over offsets and bytes, without a copy.

    Args:
        offsets: One more than there are strings, ascending, from 0 to the length of the body.
        body: The strings, one after the other.
    """
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(body)]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers))


def parts(array: pa.BinaryArray) -> tuple[Offsets, memoryview]:
    """Return the offsets of an array, from 0, and its bytes; undoes `make_array`."""
    _, offsets_buffer, body = array.buffers()
    if body is None or not len(array):
        return np.zeros(len(array) + 1, np.int32), memoryview(b"")
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first if first else offsets, memoryview(body)[first:last]


def sizes(array: pa.BinaryArray) -> Offsets:
    """Return the length of each string."""
    return cast("Offsets", np.diff(parts(array)[0]))


def integers(body: npt.NDArray[np.uint8], starts: Positions, kind: str) -> npt.NDArray[np.int64]:
    """Return the integers that begin at some places in bytes, wherever these are aligned.

    Args:
        body: The bytes.
        starts: Where each integer begins.
        kind: Their type, as numpy writes it: `<i8`.
    """
    size = np.dtype(kind).itemsize
    return cast("npt.NDArray[np.int64]", body[starts[:, None] + np.arange(size)].view(kind)[:, 0])


def take(array: pa.BinaryArray, positions: Positions) -> pa.BinaryArray:
    """Return the strings at some positions, in that order."""
    return cast("pa.BinaryArray", array.take(pa.array(positions)))


Hashes = npt.NDArray[np.uint32]
_Item = TypeVar("_Item")
_ARRAY = b"\xdd"
"""Begins a msgpack array with a length of four bytes."""


@dataclass(frozen=True, slots=True)
class PackedKeys:
    """Keys that are looked for.

    Attributes:
        keys: The keys, in ascending order of the hash.
        packed: Their bytes.
        hashes: Their hashes.
    """

    keys: Sequence[object]
    packed: Sequence[bytes]
    hashes: Hashes

    @staticmethod
    def pack(keys: Collection[object]) -> PackedKeys:
        """Pack keys."""
        return PackedKeys._sorted(list(keys), pack_keys(keys))

    def joined(self, others: Iterable[tuple[object, bytes]]) -> PackedKeys:
        """Return these keys and others, each once.

        Args:
            others: Keys and their bytes.
        """
        by_bytes = dict(zip(self.packed, self.keys, strict=True))
        for key, packed in others:
            by_bytes.setdefault(packed, key)
        return self if len(by_bytes) == len(self.packed) else PackedKeys._sorted([*by_bytes.values()], [*by_bytes])

    @staticmethod
    def _sorted(keys: list[object], packed: list[bytes]) -> PackedKeys:
        hashes = hash_keys(packed)
        order = np.argsort(hashes, kind="stable")
        return PackedKeys(_reorder(keys, order), _reorder(packed, order), hashes[order])


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Changes by key. An empty row is a deletion.

    Attributes:
        hashes: CRC-32 of the packed key, ascending.
        keys: Packed keys, each of them once.
        rows: Packed rows.
        are_tuples: Whether every row is a tuple that is packed as an array.
        source: Origin of what they were read from, for messages.
    """

    hashes: Hashes
    keys: pa.BinaryArray
    rows: pa.BinaryArray
    are_tuples: bool
    source: str = "in memory"

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def size_bytes(self) -> int:
        """Memory that they take."""
        return int(self.hashes.nbytes + self.keys.nbytes + self.rows.nbytes)

    @property
    def row_bytes(self) -> float:
        """Mean size of a row that is no deletion."""
        lengths = sizes(self.rows)
        return int(lengths.sum()) / max(1, int(np.count_nonzero(lengths)))

    @staticmethod
    def from_changes(changes: tables.Changes, kind: kinds.StateKind) -> Columns | None:
        """Make columns of changes; None if they are too large for it.

        Raises:
            TypeError: A value has a type that cannot be stored; the message is its full name.
        """
        packed = pack_keys(changes)
        _require_different(changes, packed)
        rows, are_tuples = pack_rows(changes.values(), kind)
        if max(sum(map(len, packed)), sum(map(len, rows))) > LARGEST_BYTES:
            return None
        hashes = hash_keys(packed)
        order = np.argsort(hashes, kind="stable")
        keys, values = pack_array(_reorder(packed, order)), pack_array(_reorder(rows, order))
        return Columns(hashes[order], keys, values, are_tuples)

    def take(self, positions: Positions) -> Columns:
        """Return the columns at some positions, which are ascending."""
        keys, rows = take(self.keys, positions), take(self.rows, positions)
        return dataclasses.replace(self, hashes=self.hashes[positions], keys=keys, rows=rows)

    def changes(self, kind: kinds.StateKind) -> tables.Changes:
        """Return all changes as objects.

        Raises:
            SnapshotCorruptError: `ChunkUnreadable`: a row is damaged.
        """
        with damage_reported(self.source):
            return dict(zip(unpack_keys(self.keys), self._objects(self.rows, kind), strict=True))

    def changes_at(self, positions: Positions, kind: kinds.StateKind) -> list[object]:
        """Return the changes at some positions as objects, in that order.

        Raises:
            SnapshotCorruptError: `ChunkUnreadable`: a row is damaged.
        """
        with damage_reported(self.source):
            return self._objects(take(self.rows, positions), kind)

    def _objects(self, rows: pa.BinaryArray, kind: kinds.StateKind) -> list[object]:
        lengths = sizes(rows)
        body = _ARRAY + int(np.count_nonzero(lengths)).to_bytes(4, "big") + parts(rows)[1]
        unpacked = cast("list[object]", codec.unpack(body))
        changes = map(tuple, cast("list[list[object]]", unpacked)) if self.are_tuples else iter(unpacked)
        if not kind.is_one_cell:
            changes = map(kind.read_row, changes)
        if lengths.all():
            return list(changes)
        present = iter(list(changes))
        return [next(present) if length else tables.DELETED for length in lengths.tolist()]


def pack_keys(keys: Collection[object]) -> list[bytes]:
    """Return the bytes of keys. A key of several columns is an array; a key itself is never a list."""
    pack, keys = codec.packer(), keyforms.one_form(keys)
    if tuple not in set(map(type, keys)):
        return list(map(pack, keys))
    return [pack(list(key)) if type(key) is tuple else pack(key) for key in keys]


def _require_different(keys: Collection[object], packed: Sequence[bytes]) -> None:
    """Refuse to write two keys of equal bytes: the state of one would replace that of the other.

    Raises:
        InternalError: `KeysAlike`.
    """
    if len(set(packed)) == len(packed):
        return
    first: dict[bytes, object] = {}
    for key, body in zip(keys, packed, strict=True):
        if body in first:
            raise errors.InternalError(
                "KeysAlike",
                f"The keys {first[body]!r:.200} and {key!r:.200} differ and have the same stored form. Nothing was written.",
            )
        first[body] = key


def unpack_keys(keys: pa.BinaryArray) -> list[object]:
    """Undo `pack_keys`."""
    body = _ARRAY + len(keys).to_bytes(4, "big") + parts(keys)[1]
    unpacked = cast("list[object]", codec.unpack(body))
    return list(keyforms.one_form([tuple(key) if type(key) is list else key for key in unpacked]))


def hash_keys(packed: Sequence[bytes]) -> Hashes:
    """Return the hash of each packed key."""
    return np.fromiter(map(zlib.crc32, packed), np.uint32, len(packed))


def pack_rows(changes: Collection[object], kind: kinds.StateKind) -> tuple[list[bytes], bool]:
    """Return the row of each change, and whether all are tuples that were packed as arrays."""
    pack, types = codec.packer(), set(map(type, changes))
    are_tuples = kind.is_one_cell and types - {tables.Deleted} == {tuple}
    if are_tuples:
        convert: Callable[[object], object] = list  # type: ignore[assignment]  # of tuples only
    else:
        convert = kind.make_row
    if tables.Deleted not in types:
        return list(map(pack, changes if kind.is_one_cell and not are_tuples else map(convert, changes))), are_tuples
    return [b"" if change is tables.DELETED else pack(convert(change)) for change in changes], are_tuples


def append_others(
    rows: pa.BinaryArray, positions: Positions, places: Sequence[int], others: pa.BinaryArray
) -> tuple[pa.BinaryArray, Positions]:
    """Return rows with others behind them, and positions among them that have the others at some places.

    Args:
        rows: The rows; together with the others they fit one array.
        positions: Of rows.
        places: Where among these positions the others are to be.
        others: One for each of these places.
    """
    moved = positions.copy()
    moved[places] = len(rows) + np.arange(len(places))
    return pa.concat_arrays([rows, others]), moved


def _reorder(items: Sequence[_Item], order: npt.NDArray[np.intp]) -> list[_Item]:
    if len(items) <= 1:  # an itemgetter of one item returns no tuple
        return list(items)
    return list(operator.itemgetter(*order.tolist())(items))


_COLUMNS = "columns"
"""The form of a section that has buffers."""
_HEAD = struct.Struct("<II")
_ALIGNED = 8
_BEFORE = 4
"""Length of what is before the body, so that buffers are aligned in the whole chunk."""
_BUFFERS = 5
_ROWS = 4
"""Position of the rows among the buffers of a section: the only ones without a checksum."""


@dataclass(frozen=True, slots=True)
class Described:
    """A section as columns.

    Attributes:
        meta: What the header says of its state.
        columns: Its content.
    """

    meta: list[object]
    columns: Columns


def write_body(beginning: tuple[str, int], sections: Sequence[Described | bytes]) -> bytes:
    """Return the body of a chunk.

    Args:
        beginning: What the header begins with.
        sections: As columns, or whole: the packed list that the header has of them.
    """
    packer = msgpack.Packer()
    buffers = []
    parts_of_header = [
        packer.pack_array_header(3),
        *map(packer.pack, beginning),
        packer.pack_array_header(len(sections)),
    ]
    for section in sections:
        if isinstance(section, Described):
            own = _buffers(section.columns)
            buffers.append(own)
            sizes_and_form = [len(section.columns), section.columns.are_tuples, list(map(len, own))]
            section = codec.pack([_COLUMNS, *section.meta, *sizes_and_form])
        parts_of_header.append(section)
    header = b"".join(parts_of_header)
    checksum = _checksum(header, buffers)
    position = _BEFORE + _HEAD.size + len(header)
    body: list[bytes | memoryview] = [_HEAD.pack(len(header), checksum), header]
    for buffer in itertools.chain.from_iterable(buffers):
        padding = -position % _ALIGNED
        body += [bytes(padding), buffer]
        position += padding + len(buffer)
    return b"".join(body)


def read_body(body: memoryview, source: str) -> tuple[tuple[str, int], list[Described | list[object]]]:
    """Undo `write_body`, without a copy of what columns hold.

    Args:
        body: What it returned.
        source: Its origin, for messages.

    Raises:
        ValueError: It is damaged, or was never written by it.
    """
    header, checksum, kind_and_count, described = _read_header(body)
    buffers = list(_cut(body, _HEAD.size + len(header), described))
    if _checksum(header, buffers) != checksum:
        raise ValueError("its checksum differs")
    return kind_and_count, _sections(described, buffers, source)


def read_own_body(body: memoryview, source: str) -> Columns:
    """Return the columns of a body with one section that this process has written itself; nothing is compared."""
    header, _, _, described = _read_header(body)
    (section,) = _sections(described, list(_cut(body, _HEAD.size + len(header), described)), source)
    return cast("Described", section).columns


def _read_header(body: memoryview) -> tuple[memoryview, int, tuple[str, int], list[list[object]]]:
    if len(body) < _HEAD.size:
        raise ValueError("it ends in its header")
    header_bytes, checksum = _HEAD.unpack_from(body)
    header = body[_HEAD.size : _HEAD.size + header_bytes]
    kind, count, described = cast("tuple[str, int, list[list[object]]]", codec.unpack(header))
    if not all(isinstance(section, list) for section in described):
        raise ValueError("a section is no list")
    return header, checksum, (kind, count), described


def _sections(
    described: Sequence[list[object]], buffers: Sequence[Sequence[memoryview]], source: str
) -> list[Described | list[object]]:
    of_sections = iter(buffers)
    sections: list[Described | list[object]] = []
    for section in described:
        if not _has_buffers(section):
            sections.append(section)
            continue
        _, *meta, count, are_tuples, _ = section
        hashes, key_offsets, keys, row_offsets, rows = next(of_sections)
        columns = Columns(
            cast("Hashes", np.frombuffer(hashes, "<u4")),
            make_array(_offsets(key_offsets, len(keys)), keys),
            make_array(_offsets(row_offsets, len(rows)), rows),
            bool(are_tuples),
            source,
        )
        if not count == len(columns) == len(columns.keys) == len(columns.rows):
            raise ValueError(
                f"columns of {count} keys have {len(columns)}, {len(columns.keys)} and {len(columns.rows)}"
            )
        if (columns.hashes[1:] < columns.hashes[:-1]).any():
            raise ValueError("hashes are not in ascending order")
        sections.append(Described(meta, columns))
    return sections


def _has_buffers(section: list[object]) -> bool:
    return section[:1] == [_COLUMNS]


def _buffers(columns: Columns) -> list[bytes | memoryview]:
    buffers: list[bytes | memoryview] = [columns.hashes.astype("<u4", copy=False).tobytes()]
    for array in (columns.keys, columns.rows):
        offsets, body = parts(array)
        buffers += [offsets.astype("<i4", copy=False).tobytes(), body]
    return buffers


def _checksum(header: bytes | memoryview, buffers: Sequence[Sequence[bytes | memoryview]]) -> int:
    checksum = zlib.crc32(header)
    for section in buffers:
        for buffer in section[:_ROWS]:
            checksum = zlib.crc32(buffer, checksum)
    return checksum


def _cut(body: memoryview, position: int, described: Sequence[list[object]]) -> Iterator[list[memoryview]]:
    """Yield the buffers of each section."""
    lengths = (section[-1] for section in described if _has_buffers(section))
    for section in cast("Iterator[list[int]]", lengths):
        if len(section) != _BUFFERS:
            raise ValueError(f"a section has {len(section)} buffers")
        buffers = []
        for length in section:
            position += -(_BEFORE + position) % _ALIGNED
            buffers.append(body[position : position + length])
            position += length
        yield buffers
    if position != len(body):
        raise ValueError(f"its buffers end after {position} bytes, the body has {len(body)}")


def _offsets(buffer: memoryview, size_bytes: int) -> Offsets:
    offsets = np.frombuffer(buffer, "<i4")
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != size_bytes or (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets do not fit the bytes that they divide")
    return cast("Offsets", offsets)
