"""The disk tier: key groups that are too large for the worker's memory, in files on its ephemeral disk.

A batch reads the rows of its own keys and no others. The files are only a cache. They hold committed versions alone: a
batch writes its changes to the engine's state, and whoever works on the key group next brings the file up to date with
the chunks that were committed since. Version and id are written in the same transaction as the rows; a file whose version
is not in the head's lineage is discarded and built from the chunks. Whatever goes wrong on the disk, the answer is
None, and the caller goes the slower way: it builds the key group from the chunks in memory.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from statefulspark.state import chunks, grouptables, kindtypes, store, tiers_file, tiers_rows

_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")
_STAMP, _NEXT = b"\0\0stamp", b"\0\0next"
_WORTHLESS = (tiers_file.FileWorthlessError, tiers_rows.RecordDamagedError)
_SPACE = 3
"""A file is up to this many times as large as the chunks: pages are not full, and changed ones are copied first."""
_RESERVE_BYTES = 64 << 20
"""Disk that is left to others."""
_PAUSE_S = 60.0
"""How long the disk is left alone after it has failed."""


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What a file holds: the version, its id, and the states by number."""

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
    """What a tier did since the process began.

    Attributes:
        reads: Key groups of which a part was read.
        rebuilds: Files that were built from the chunks.
        rebuilt_keys: Keys that were read for that, once for each chunk that has them.
        rebuild_s: Seconds spent on that.
        failures: Times the disk did not do.
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
        folder: On ephemeral disk; made when it is needed.
        limit_bytes: Disk that the files may take, looked at whenever one is built; None is as much as there is.
        clock: Monotonic seconds.
        counters: What it did.
    """

    folder: Path
    limit_bytes: int | None = None
    clock: Callable[[], float] = time.monotonic
    counters: Counters = field(default_factory=Counters)
    _off_until_s: float = float("-inf")

    def read(
        self, group: int, head: store.Head, log: store.ChunkLog, keys: Collection[object]
    ) -> grouptables.GroupTables | None:
        """Return the rows of some keys as of the head; None when the caller must build all of them in memory.

        Raises:
            SnapshotCorruptError: A chunk that the head names is missing or unreadable.
        """

        def work(transaction: tiers_file.Transaction) -> grouptables.GroupTables | None:
            stamp = self._bring_up_to_date(transaction, group, head, log)
            self.counters.reads += 1
            if any(meta.kind.shape.needs_whole_group for meta in stamp.metas):
                return None
            return _rows_of(transaction, stamp, keys)

        return self._attempt(group, head, work)

    def scan(self, group: int, head: store.Head) -> grouptables.GroupTables | None:
        """Return all rows as of the head; None when the file does not have them."""

        def work(transaction: tiers_file.Transaction) -> grouptables.GroupTables | None:
            stamp = _Stamp.read(transaction)
            if stamp is None or (stamp.version, stamp.unique_id) != (head.version, head.unique_id):
                return None
            return _all_rows(transaction, stamp)

        return self._attempt(group, head, work)

    def note(self, group: int, before: store.Head, after: store.Head, delta: bytes) -> None:
        """Keep what leads from a version to the next one, which is stored in full: the file can then follow.

        Whether it is used is decided when the key group is read again, by what was committed.
        """

        def work(transaction: tiers_file.Transaction) -> None:
            step = [before.version, before.unique_id, after.version, after.unique_id, delta]
            transaction.put(_NEXT, tiers_rows.encode(_NEXT, None, step))

        self._attempt(group, after, work)

    def _attempt(self, group: int, head: store.Head, work: Callable[[tiers_file.Transaction], _Found]) -> _Found | None:
        if self.clock() < self._off_until_s:
            return None
        folder, size_bytes = self.folder / str(group), _SPACE * sum(run.size_bytes for run in head.runs)
        try:
            if not folder.exists():
                self._require_room(size_bytes)
            try:
                return tiers_file.run(folder, work, size_bytes=size_bytes)
            except _WORTHLESS:
                tiers_file.discard(folder)
                return tiers_file.run(folder, work, size_bytes=size_bytes)
        except (tiers_file.FileUnusableError, *_WORTHLESS) as error:
            self._give_up(group, str(error))
            return None

    def _give_up(self, group: int, why: str) -> None:
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
            raise tiers_file.FileUnusableError(str(error)) from error
        if free_bytes < size_bytes + _RESERVE_BYTES:
            raise tiers_file.FileUnusableError(
                f"{self.folder} has {free_bytes} bytes free, and a key group needs up to {size_bytes}"
            )
        if self.limit_bytes is not None and used_bytes + size_bytes > self.limit_bytes:
            raise tiers_file.FileUnusableError(
                f"{self.folder} has {used_bytes} bytes of the {self.limit_bytes} that it may take (disk_bytes), and "
                f"a key group needs up to {size_bytes}"
            )

    def used_bytes(self) -> int:
        """Return the disk that the files take."""
        return sum(file.stat().st_blocks * 512 for file in self.folder.glob("*/data.mdb"))

    def _bring_up_to_date(
        self, transaction: tiers_file.Transaction, group: int, head: store.Head, log: store.ChunkLog
    ) -> _Stamp:
        stamp = _Stamp.read(transaction)
        if stamp is not None:
            stamp = _follow(transaction, stamp, head)
            if stamp.version < head.base or not head.has_ancestor(stamp.version, stamp.unique_id):
                raise tiers_file.FileWorthlessError(f"version {stamp.version} is of another history")
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


def _follow(transaction: tiers_file.Transaction, stamp: _Stamp, head: store.Head) -> _Stamp:
    """Apply the step that was kept, if it leads from what the file holds to a version that was committed."""
    kept = transaction.get(_NEXT)
    if kept is None or stamp.version >= head.base:
        return stamp
    step = cast("tuple[int, str, int, str, bytes]", tiers_rows.decode(_NEXT, kept))
    before, after = (step[0], step[1]), (step[2], step[3])
    transaction.delete(_NEXT)
    if before != (stamp.version, stamp.unique_id) or not head.has_ancestor(*after):
        return stamp
    metas = _apply(transaction, stamp.metas, chunks.decode(step[4], "kept on disk"), is_first=False)
    moved = _Stamp(*after, metas)
    transaction.put(_STAMP, moved.pack())
    return moved


def _apply(
    transaction: tiers_file.Transaction, metas: tuple[chunks.StateMeta, ...], chunk: chunks.Chunk, *, is_first: bool
) -> tuple[chunks.StateMeta, ...]:
    """Write a chunk to a file; return the states that it holds then."""
    known = {meta.name: number for number, meta in enumerate(metas, start=1)}
    after = list(metas)
    for section in chunk.sections:
        number = known.setdefault(section.meta.name, len(known) + 1)
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
        _fill(transaction, table.rows, records)
    table.apply(changes)
    rows = table.rows
    cursor = transaction.cursor()
    cursor.putmulti(
        sorted((records[key], tiers_rows.encode(records[key], key, row)) for key, row in rows.items()),
        append=is_first,
    )
    for key in changes.keys() - rows.keys():
        transaction.delete(records[key])


def _fill(transaction: tiers_file.Transaction, rows: dict[object, object], records: dict[object, bytes]) -> None:
    keys = {record: key for key, record in records.items()}
    for record, stored in transaction.cursor().getmulti(sorted(keys)):
        rows[keys[record]] = tiers_rows.decode(record, stored)


def _rows_of(transaction: tiers_file.Transaction, stamp: _Stamp, keys: Collection[object]) -> grouptables.GroupTables:
    group = grouptables.GroupTables()
    for number, meta in enumerate(stamp.metas, start=1):
        start = tiers_rows.prefix(number)
        _fill(transaction, group.table(meta).rows, {key: tiers_rows.record_key(start, key) for key in keys})
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
