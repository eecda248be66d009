"""The disk tier: key groups that are too large for the worker's memory, in files on its ephemeral disk.

A batch reads only the rows of its own keys. The files are only a cache and hold only committed versions: a batch writes
its changes to Spark's state, and the next reader of the key group updates the file from the chunks that were committed
since. Version and id are written in the same transaction as the rows; a file whose version is not in the head's lineage
is discarded and rebuilt from the chunks. On any disk failure the result is None, and the caller rebuilds the key group
from the chunks in memory, which is slower.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from statefulspark.state.caching import tiers_file, tiers_rows
from statefulspark.state.handles import kindtypes
from statefulspark.state.stored import chunks, grouptables, store

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_STAMP, _NEXT = b"\0\0stamp", b"\0\0next"
_INVALID_FILE = (tiers_file.FileInvalidError, tiers_rows.RecordDamagedError)
_SPACE = 3
"""Maximum size of a file as a multiple of its chunks: pages are not full, and changed pages are copied first."""
_RESERVE_BYTES = 64 << 20
"""Disk space that stays free for other users."""
_PAUSE_S = 60.0
"""Time without access to the disk after a failure."""


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The content of a file: version, id, and the states by number."""

    version: int
    unique_id: str
    metas: tuple[chunks.StateMeta, ...]

    def pack(self) -> bytes:
        metas = [[meta.name, meta.kind.value, meta.type_text, meta.has_ttl] for meta in self.metas]
        return tiers_rows.encode(_STAMP, None, [self.version, self.unique_id, metas])

    @staticmethod
    def read(transaction: tiers_file.Transaction) -> _Stamp | None:
        stored = transaction.get(_STAMP)
        if stored is None:
            return None
        version, unique_id, metas = cast("tuple[int, str, list[list[object]]]", tiers_rows.decode(_STAMP, stored))
        return _Stamp(version, unique_id, tuple(map(_meta, metas)))


def _meta(stored: list[object]) -> chunks.StateMeta:
    name, kind, type_text, has_ttl = stored
    return chunks.StateMeta(str(name), kindtypes.named(str(kind), str(name)), str(type_text), bool(has_ttl))


@dataclass(slots=True)
class Counters:
    """Counters of a tier since the start of the process.

    Attributes:
        reads: Partial reads of key groups.
        rebuilds: Files built from the chunks.
        rebuilt_keys: Keys read for rebuilds, once for each chunk that has them.
        rebuild_s: Seconds spent on rebuilds.
        failures: Disk failures.
    """

    reads: int = 0
    rebuilds: int = 0
    rebuilt_keys: int = 0
    rebuild_s: float = 0.0
    failures: int = 0


@dataclass(slots=True)
class DiskTier:
    """The files of one operator's key groups.

    Attributes:
        folder: On ephemeral disk; created when needed.
        limit_bytes: Maximum size of the files, checked whenever one is built; None is all free space.
        clock: Monotonic seconds.
        counters: Its counters.
    """

    folder: Path
    limit_bytes: int | None = None
    clock: Callable[[], float] = time.monotonic
    counters: Counters = field(default_factory=Counters)
    _off_until_s: float = float("-inf")

    def read(
        self, group: int, head: store.GroupHead, log: store.ChunkLog, keys: Collection[object]
    ) -> grouptables.GroupTables | None:
        """Return the rows of some keys at the head; None when the caller must build the whole group in memory.

        Raises:
            SnapshotCorruptError: A chunk that the head names is missing or unreadable.
        """

        def work(transaction: tiers_file.Transaction) -> grouptables.GroupTables | None:
            stamp = self._bring_up_to_date(transaction, group, head, log)
            self.counters.reads += 1
            if any(meta.kind.shape.needs_whole_group for meta in stamp.metas):
                return None
            return _rows_of(transaction, stamp, keys)

        return self._run(group, head, work)

    def scan(self, group: int, head: store.GroupHead) -> grouptables.GroupTables | None:
        """Return all rows at the head; None when the file does not have them."""

        def work(transaction: tiers_file.Transaction) -> grouptables.GroupTables | None:
            stamp = _Stamp.read(transaction)
            if stamp is None or (stamp.version, stamp.unique_id) != (head.version, head.unique_id):
                return None
            return _all_rows(transaction, stamp)

        return self._run(group, head, work)

    def record_delta(self, group: int, before: store.GroupHead, after: store.GroupHead, delta: bytes) -> None:
        """Keep the changes between a version and the next one, which is stored in full, to update the file later.

        The next read of the key group uses them only if that version was committed.
        """

        def work(transaction: tiers_file.Transaction) -> None:
            step = [before.version, before.unique_id, after.version, after.unique_id, delta]
            transaction.put(_NEXT, tiers_rows.encode(_NEXT, None, step))

        self._run(group, after, work)

    def _run(
        self, group: int, head: store.GroupHead, work: Callable[[tiers_file.Transaction], _Result]
    ) -> _Result | None:
        if self.clock() < self._off_until_s:
            return None
        folder, size_bytes = self.folder / str(group), _SPACE * sum(run.size_bytes for run in head.runs)
        try:
            if not folder.exists():
                self._require_room(size_bytes)
            try:
                return tiers_file.run(folder, work, size_bytes=size_bytes)
            except _INVALID_FILE:
                tiers_file.discard(folder)
                return tiers_file.run(folder, work, size_bytes=size_bytes)
        except (tiers_file.DiskUnusableError, *_INVALID_FILE) as error:
            self._suspend(group, str(error))
            return None

    def _suspend(self, group: int, why: str) -> None:
        self.counters.failures += 1
        self._off_until_s = self.clock() + _PAUSE_S
        tiers_file.discard(self.folder / str(group))
        _LOG.warning(
            "The ephemeral disk cannot hold keyed state; key groups are rebuilt from the state store, which is slower",
            extra={"reason": "StateDiskUnusable", "key_group": group, "why": why, "pause_s": _PAUSE_S},
        )

    def _require_room(self, size_bytes: int) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            free_bytes = shutil.disk_usage(self.folder).free
            used_bytes = self.used_bytes() if self.limit_bytes is not None else 0
        except OSError as error:
            raise tiers_file.DiskUnusableError(str(error)) from error
        if free_bytes < size_bytes + _RESERVE_BYTES:
            raise tiers_file.DiskUnusableError(
                f"{self.folder} has {free_bytes} bytes free, and a key group needs up to {size_bytes}"
            )
        if self.limit_bytes is not None and used_bytes + size_bytes > self.limit_bytes:
            raise tiers_file.DiskUnusableError(
                f"{self.folder} has {used_bytes} bytes of the {self.limit_bytes} that it may use (disk_bytes), and "
                f"a key group needs up to {size_bytes}"
            )

    def used_bytes(self) -> int:
        """Return the disk space that the files use."""
        return sum(file.stat().st_blocks * 512 for file in self.folder.glob("*/data.mdb"))

    def _bring_up_to_date(
        self, transaction: tiers_file.Transaction, group: int, head: store.GroupHead, log: store.ChunkLog
    ) -> _Stamp:
        stamp = _Stamp.read(transaction)
        if stamp is not None:
            stamp = _apply_next_step(transaction, stamp, head)
            if stamp.version < head.base or not head.has_ancestor(stamp.version, stamp.unique_id):
                raise tiers_file.FileInvalidError(f"version {stamp.version} is not in the lineage of the head")
            if stamp.version == head.version:
                return stamp
        began_s, metas = time.perf_counter(), stamp.metas if stamp else ()
        for run in head.runs:
            if stamp is None or run.version > stamp.version:
                metas = _apply(transaction, metas, store.read_chunk(log, group, run), is_first=not metas)
        if stamp is None:
            self.counters.rebuilds += 1
            self.counters.rebuilt_keys += sum(run.count for run in head.runs)
            self.counters.rebuild_s += time.perf_counter() - began_s
        current = _Stamp(head.version, head.unique_id, metas)
        transaction.put(_STAMP, current.pack())
        return current


def _apply_next_step(transaction: tiers_file.Transaction, stamp: _Stamp, head: store.GroupHead) -> _Stamp:
    """Apply the recorded delta, if it leads from the version of the file to a committed one."""
    next_step = transaction.get(_NEXT)
    if next_step is None or stamp.version >= head.base:
        return stamp
    step = cast("tuple[int, str, int, str, bytes]", tiers_rows.decode(_NEXT, next_step))
    before, after = (step[0], step[1]), (step[2], step[3])
    transaction.delete(_NEXT)
    if before != (stamp.version, stamp.unique_id) or not head.has_ancestor(*after):
        return stamp
    metas = _apply(transaction, stamp.metas, chunks.decode(step[4], "on disk"), is_first=False)
    updated = _Stamp(*after, metas)
    transaction.put(_STAMP, updated.pack())
    return updated


def _apply(
    transaction: tiers_file.Transaction, metas: tuple[chunks.StateMeta, ...], chunk: chunks.Chunk, *, is_first: bool
) -> tuple[chunks.StateMeta, ...]:
    """Write a chunk to a file; return the states that the file then has."""
    numbers = {meta.name: number for number, meta in enumerate(metas, start=1)}
    after = list(metas)
    for section in chunk.sections:
        number = numbers.setdefault(section.meta.name, len(numbers) + 1)
        after[number - 1 : number] = [section.meta]
        _apply_section(transaction, tiers_rows.prefix(number), section, is_first=is_first)
    return tuple(after)


def _apply_section(
    transaction: tiers_file.Transaction, start: bytes, section: chunks.Section, *, is_first: bool
) -> None:
    changes = section.changes
    records = {key: tiers_rows.record_key(start, key) for key in changes}
    table = section.meta.kind.shape.table()
    if not is_first and table.has_parts:
        _read_rows(transaction, table.rows, records)
    table.apply(changes)
    rows = table.rows
    cursor = transaction.cursor()
    cursor.putmulti(
        sorted((records[key], tiers_rows.encode(records[key], key, row)) for key, row in rows.items()),
        append=is_first,
    )
    for key in changes.keys() - rows.keys():
        transaction.delete(records[key])


def _read_rows(transaction: tiers_file.Transaction, rows: dict[object, object], records: dict[object, bytes]) -> None:
    keys = {record: key for key, record in records.items()}
    for record, stored in transaction.cursor().getmulti(sorted(keys)):
        rows[keys[record]] = tiers_rows.decode(record, stored)


def _rows_of(transaction: tiers_file.Transaction, stamp: _Stamp, keys: Collection[object]) -> grouptables.GroupTables:
    group = grouptables.GroupTables()
    for number, meta in enumerate(stamp.metas, start=1):
        start = tiers_rows.prefix(number)
        _read_rows(transaction, group.table(meta).rows, {key: tiers_rows.record_key(start, key) for key in keys})
    return group


def _all_rows(transaction: tiers_file.Transaction, stamp: _Stamp) -> grouptables.GroupTables:
    group = grouptables.GroupTables()
    for number, meta in enumerate(stamp.metas, start=1):
        rows, start, cursor = group.table(meta).rows, tiers_rows.prefix(number), transaction.cursor()
        if not cursor.set_range(start):
            continue
        for record, stored in cursor.iternext():
            if not record.startswith(start):
                break
            key, row = tiers_rows.decode_with_key(record, stored)
            rows[key] = row
    return group
