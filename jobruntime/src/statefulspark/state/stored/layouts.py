"""The layout of a head: its chunks, ids and type of key as bytes, in every version that was released. Pure.

It is written in the oldest version that can hold its content: 1 without the type of the key, 2 without chunks in packs, 3
with them (`docs/formats.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgpack

from statefulspark import errors
from statefulspark.contract import formats
from statefulspark.packs import names, ranges
from statefulspark.state.stored import compaction


@dataclass(frozen=True, slots=True)
class Layout:
    """What a head stores beside its version, id and base.

    Attributes:
        runs: The chunks of the version, oldest first.
        lineage: Ids of the latest versions, oldest first.
        key_type: Types of the key columns; empty if it was never stored.
    """

    runs: tuple[compaction.ChunkRun, ...]
    lineage: tuple[str, ...]
    key_type: str = ""

    def pack(self) -> bytes:
        """Encode it."""
        packs = tuple(dict.fromkeys(run.packed.pack for run in self.runs if run.packed is not None))
        runs = [_run_fields(run, packs) for run in self.runs]
        layout: list[object] = [1, runs, list(self.lineage)]
        if packs:
            layout = [3, runs, list(self.lineage), self.key_type, list(packs)]
        elif self.key_type:
            layout = [2, runs, list(self.lineage), self.key_type]
        body: bytes = msgpack.packb(layout)
        return body

    @classmethod
    def unpack(cls, body: bytes, version: int) -> Self:
        """Decode a layout that any release wrote.

        Args:
            body: The layout.
            version: Version of the key group, for errors.

        Raises:
            FormatVersionError: The layout has a version that this release does not know.
            SnapshotCorruptError: `ChunkUnreadable`: it is no layout.
        """
        try:
            layout_version, *fields = msgpack.unpackb(body)
            formats.HEAD.require_known(layout_version, "The head of a key group")
            return cls._of(fields)
        except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
            raise errors.SnapshotCorruptError(
                "ChunkUnreadable",
                f"The head of a key group, version {version}, cannot be read: {error}. It is damaged; restore from another "
                "checkpoint or savepoint.",
            ) from error

    @classmethod
    def _of(cls, fields: Sequence[object]) -> Self:
        runs, lineage, *more = fields
        packs = [names.parse(_text(pack)).reference for pack in _list(more[1])] if len(more) > 1 else []
        return cls(
            tuple(_run(_list(run), packs) for run in _list(runs)),
            tuple(_list(lineage)),  # type: ignore[arg-type]  # compared with ids, and nothing else
            str(more[0]) if more else "",
        )


def _run_fields(run: compaction.ChunkRun, packs: Sequence[str]) -> list[object]:
    fields: list[object] = [run.version, run.size_bytes, run.count]
    if run.packed is not None:
        stored = run.packed
        fields.append([packs.index(stored.pack), stored.offset, stored.length, stored.crc32c])
    return fields


def _run(fields: Sequence[object], packs: Sequence[str]) -> compaction.ChunkRun:
    version, size_bytes, count, *more = fields
    packed = None
    if more:
        (where,) = more
        pack, offset, length, crc32c = map(_natural, _list(where))
        packed = ranges.PackRange(packs[pack], offset, length, crc32c)
    return compaction.ChunkRun(version, size_bytes, count, packed)  # type: ignore[arg-type]  # as ever: what is stored is taken


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.100} is no list")
    return value


def _natural(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.100} is no position in a pack")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no name of a pack")
    return value
