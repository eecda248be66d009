"""Changes of one state as columns: hashes, keys and rows, in ascending order of the hash.

Nothing is built to read them: a key is found by its hash, and only the rows that are asked for become objects. A hash
may belong to several keys, so a key counts as found when its bytes are equal. That is the same as Python's equality: keys
of one operator have the types of its key columns, and one form (`types.keyforms`), which is asserted where they are packed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statefulspark import errors
from statefulspark.state import blobs, kinds, tables
from statefulspark.state.types import codec, keyforms

WRONG_SHAPES = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, msgpack.UnpackException)
"""What reading raises where a damaged byte has made another type, number, decimal or nesting."""


@contextlib.contextmanager
def told_as_unreadable(source: str) -> Iterator[None]:
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
    def of(keys: Collection[object]) -> PackedKeys:
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
        return PackedKeys(_in_order(keys, order), _in_order(packed, order), hashes[order])


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
        lengths = blobs.sizes(self.rows)
        return int(lengths.sum()) / max(1, int(np.count_nonzero(lengths)))

    @staticmethod
    def of(changes: tables.Changes, kind: kinds.StateKind) -> Columns | None:
        """Make columns of changes; None if they are too large for it.

        Raises:
            TypeError: A value has a type that cannot be stored; the message is its full name.
        """
        packed = pack_keys(changes)
        _require_different(changes, packed)
        rows, are_tuples = pack_rows(changes.values(), kind)
        if max(sum(map(len, packed)), sum(map(len, rows))) > blobs.LARGEST_BYTES:
            return None
        hashes = hash_keys(packed)
        order = np.argsort(hashes, kind="stable")
        keys, values = blobs.of(_in_order(packed, order)), blobs.of(_in_order(rows, order))
        return Columns(hashes[order], keys, values, are_tuples)

    def take(self, positions: blobs.Positions) -> Columns:
        """Return the columns at some positions, which are ascending."""
        return dataclasses.replace(
            self,
            hashes=self.hashes[positions],
            keys=blobs.take(self.keys, positions),
            rows=blobs.take(self.rows, positions),
        )

    def changes(self, kind: kinds.StateKind) -> tables.Changes:
        """Return all changes as objects.

        Raises:
            SnapshotCorruptError: `ChunkUnreadable`: a row is damaged.
        """
        with told_as_unreadable(self.source):
            return dict(zip(unpack_keys(self.keys), self._objects(self.rows, kind), strict=True))

    def changes_at(self, positions: blobs.Positions, kind: kinds.StateKind) -> list[object]:
        """Return the changes at some positions as objects, in that order.

        Raises:
            SnapshotCorruptError: `ChunkUnreadable`: a row is damaged.
        """
        with told_as_unreadable(self.source):
            return self._objects(blobs.take(self.rows, positions), kind)

    def _objects(self, rows: pa.BinaryArray, kind: kinds.StateKind) -> list[object]:
        lengths = blobs.sizes(rows)
        changes = self._unpack(rows, lengths)
        if not kind.is_one_cell:
            changes = map(kind.read_row, changes)
        if lengths.all():
            return list(changes)
        unpacked = iter(list(changes))
        return [next(unpacked) if length else tables.DELETED for length in lengths.tolist()]

    def _unpack(self, rows: pa.BinaryArray, lengths: blobs.Offsets) -> Iterator[object]:
        """Return the objects of all rows that are not empty."""
        body = _ARRAY + int(np.count_nonzero(lengths)).to_bytes(4, "big") + blobs.parts(rows)[1]
        unpacked = cast("list[object]", codec.unpack(body))
        return map(tuple, cast("list[list[object]]", unpacked)) if self.are_tuples else iter(unpacked)


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
    body = _ARRAY + len(keys).to_bytes(4, "big") + blobs.parts(keys)[1]
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


def with_others(
    rows: pa.BinaryArray, positions: blobs.Positions, places: Sequence[int], others: pa.BinaryArray
) -> tuple[pa.BinaryArray, blobs.Positions]:
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


def _in_order(items: Sequence[_Item], order: npt.NDArray[np.intp]) -> list[_Item]:
    if len(items) <= 1:  # an itemgetter of one item returns no tuple
        return list(items)
    return list(operator.itemgetter(*order.tolist())(items))
