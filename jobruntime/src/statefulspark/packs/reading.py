"""Reads chunks out of packs: ranges that heads name, through the `ObjectStore` port."""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark import errors
from statefulspark.packs import names
from statefulspark.packs.ranges import PackRange
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class PackReader:
    """Reads the packs of one operator.

    Attributes:
        store: A store with the query's root, at its folder.
        uid: The operator.
    """

    store: ObjectStore
    uid: str

    def read(self, where: PackRange) -> bytes:
        """Return a chunk's stored bytes. Cost: a GET of that range.

        Raises:
            SnapshotCorruptError: `ChunkMissing`: the pack does not exist; `ChunkUnreadable`: the bytes are damaged.
        """
        key = names.key(self.uid, where.pack)
        try:
            body = self.store.read_range(key, where.offset, where.length)
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
