"""Reads chunks out of packs: ranges that heads name, through the `ObjectStore` port."""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark import errors
from statefulspark.packs import names, readahead
from statefulspark.packs.ranges import PackRange
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class PackReader:
    """Reads the packs of one operator.

    Attributes:
        store: A store with the query's root, at its folder.
        uid: The operator.
        ahead: Keeps what is read ahead; None reads each chunk by a request of its own.
    """

    store: ObjectStore
    uid: str
    ahead: readahead.RangeReader | None = None

    def read(self, where: PackRange) -> bytes:
        """Return a chunk's stored bytes. Cost: a GET of that range, or of a few megabytes for many that follow each other.

        Raises:
            SnapshotCorruptError: `ChunkMissing`: the pack does not exist; `ChunkUnreadable`: the bytes are damaged.
        """
        key = names.key(self.uid, where.pack)
        try:
            body = self._range(key, where)
        except errors.ObjectNotFoundError as error:
            raise errors.SnapshotCorruptError(
                "ChunkMissing",
                f"{self.store.uri}/{key} does not exist, though a head of keyed state names it. Restore from another "
                "checkpoint or savepoint.",
            ) from error
        problem = where.problem(body)
        if problem is not None:
            raise errors.SnapshotCorruptError(
                "ChunkUnreadable",
                f"The chunk at byte {where.offset} of {self.store.uri}/{key} cannot be read: {problem}. It is damaged; "
                "restore from another checkpoint or savepoint.",
            )
        return body

    def _range(self, key: str, where: PackRange) -> bytes:
        def fetch(offset: int, length: int) -> bytes:
            return self.store.read_range(key, offset, length)

        if self.ahead is None:
            return fetch(where.offset, where.length)
        return self.ahead.read(f"{self.store.uri}/{key}", where.offset, where.length, fetch)
