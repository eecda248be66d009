"""The cache of key groups in a Python worker: tables of objects and views, limited in bytes, with a disk for other views.

One cache serves all operators of the worker; entries are found by operator and key group, and validated by version
and id, so a cached entry can be old but never wrong. Sizes are estimates from the stored size and the number of keys.

A batch uses most key groups, one after the other. Plain LRU eviction would then evict each group just before it is
needed. So a key group replaces a cached one only if it was used twice since the last use of the cached one; otherwise
it is not cached.

Columns of views for which there is no memory are in files on the executor's ephemeral disk. A file is mapped while its view
is in use, so that what is read often stays in the system's cache, what is not needs no memory, and a limit of the worker's
address space is kept. Files have no names: they belong to this process alone, end with it, and are never read by another. On
any failure of the disk the view is dropped, and the next batch reads the key group from its chunks, which is slower. The
disk is Spark's local directory of this executor, which Spark creates when the executor starts and removes when it ends.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import logging
import os
import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from statefulspark.state import columns, grouptables, views
from statefulspark.state.columns import Columns

DEFAULT_LIMIT_BYTES = 1 << 30
_NEVER = -1
_Id = tuple[str, int]
Kept = grouptables.GroupTables | views.GroupView
"""All rows of a key group at one version, as tables or as a view."""


class LruCache:
    """Key groups of all operators in this process.

    Args:
        limit_bytes: Estimated memory that may be held; a group larger than that is not cached.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._entries: collections.OrderedDict[_Id, tuple[Kept, int]] = collections.OrderedDict()
        self._uses: dict[_Id, tuple[int, int]] = {}
        self._now = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """Estimated memory in use."""
        return self._held_bytes

    def limit(self, limit_bytes: int) -> None:
        """Change the limit and evict at once what exceeds it."""
        with self._lock:
            self._limit_bytes = limit_bytes
            while self._held_bytes > self._limit_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._uses.clear()
            self._held_bytes = 0

    def for_operator(self, operator: str, disk: DiskViews | None = None) -> OperatorCache:
        """Return the part of one operator.

        Args:
            operator: Its uid.
            disk: Holds views for which there is no memory; without it their chunks are read in each batch.
        """
        return OperatorCache(self, operator, disk)

    def take(self, operator: str, group: int) -> Kept | None:
        """Remove and return an entry."""
        with self._lock:
            entry_id = operator, group
            self._now += 1
            self._uses[entry_id] = (self._uses.get(entry_id, (_NEVER, _NEVER))[1], self._now)
            return self._drop(entry_id)

    def admits(self, operator: str, group: int, size_bytes: int) -> bool:
        """Tell whether a key group that was just requested would fit into memory."""
        with self._lock:
            room_bytes = self._limit_bytes - self._held_bytes - size_bytes
            for other in self._replaceable((operator, group)):
                if room_bytes >= 0:
                    break
                room_bytes += self._entries[other][1]
            return room_bytes >= 0

    def put(self, operator: str, group: int, kept: Kept, size_bytes: int) -> None:
        """Cache an entry as the most recently used one, if it fits or can replace entries that were not used for long."""
        with self._lock:
            entry_id = operator, group
            self._uses.setdefault(entry_id, (_NEVER, self._now))
            self._drop(entry_id)
            self._entries[entry_id] = kept, size_bytes
            self._held_bytes += size_bytes
            while self._held_bytes > self._limit_bytes:
                self._drop(next(self._replaceable(entry_id), entry_id))

    def _replaceable(self, candidate: _Id) -> Iterator[_Id]:
        """Return entries not used since the previous use of the candidate, the least recently used first."""
        before, _ = self._uses.get(candidate, (_NEVER, _NEVER))
        old = itertools.takewhile(lambda other: self._uses[other][1] <= before, self._entries)
        return (other for other in old if other != candidate)

    def _drop(self, entry_id: _Id) -> Kept | None:
        kept, size_bytes = self._entries.pop(entry_id, (None, 0))
        self._held_bytes -= size_bytes
        return kept


class OperatorCache:
    """The part of a cache that belongs to one operator. It may drop entries at any time, and never changes them."""

    def __init__(self, shared: LruCache, operator: str, disk: DiskViews | None = None) -> None:
        self._shared = shared
        self._operator = operator
        self._disk = disk

    def take(self, group: int) -> Kept | None:
        """Remove and return what is kept of a key group, in memory or on disk."""
        kept = self._shared.take(self._operator, group)
        view = self._disk.take(group) if self._disk is not None else None
        return view if kept is None else kept

    def put(self, group: int, kept: Kept, size_bytes: int) -> None:
        """Keep a key group in memory, if there is room."""
        self._shared.put(self._operator, group, kept, size_bytes)

    def admits(self, group: int, size_bytes: int) -> bool:
        """Tell whether there is memory for a group of this size."""
        return self._shared.admits(self._operator, group, size_bytes)

    def keep(self, group: int, view: views.GroupView) -> None:
        """Keep a view: in memory, if there is room, else on disk."""
        size_bytes = view.size_bytes + view.disk_bytes
        if self.admits(group, size_bytes):
            if self._disk is not None:
                self._disk.release(view)
            self.put(group, view, size_bytes)
        elif self._disk is not None:
            self._disk.keep(group, view)


_LOG = logging.getLogger(__name__)
_RESERVE_BYTES = 64 << 20
"""Disk space that stays free for other users."""
_ALIGNED = 8
_PAUSE_S = 60.0
"""Time without access to the disk after a failure."""
_USED = "used-"
"""Begins the name of the file in which a process tells how much it uses."""


class _DiskUnusableError(Exception):
    """The disk is full, missing, not writable, or used up."""


class _File:
    """The layers of one view in a file without a name."""

    def __init__(self, folder: Path, require_room: Callable[[int], None]) -> None:
        self._require_room = require_room
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as the view
        self._mapped = memoryview(b"")
        self.size_bytes = 0

    def put(self, layer: Columns) -> views.Place:
        """Write a layer behind the others; return where it is."""
        body = columns.write_body(("", len(layer)), [columns.Described([], layer)])
        padding = -len(body) % _ALIGNED
        self._require_room(len(body) + padding)
        self._file.seek(self.size_bytes)
        self._file.write(body + bytes(padding))
        self._file.flush()
        start = self.size_bytes
        self.size_bytes += len(body) + padding
        return start, len(body)

    def get(self, place: views.Place) -> Columns:
        """Return a layer, which stays on disk."""
        start, length = place
        if start + length > len(self._mapped):
            # Python's own mapping would need an open file of its own.
            with pa.memory_map(f"/proc/self/fd/{self._file.fileno()}") as whole:
                self._mapped = memoryview(whole.read_buffer())
        return columns.read_own_body(self._mapped[start : start + length], "on disk")

    def rest(self) -> None:
        """Give up the mapping; it goes when nothing refers to it any more."""
        self._mapped = memoryview(b"")


@dataclass(slots=True)
class DiskViews:
    """The views of one operator that are on disk.

    Attributes:
        folder: On ephemeral disk, shared by all workers of the executor; created when needed.
        limit_bytes: Disk space of all workers together; None is all free space.
        clock: Monotonic seconds.
        failures: Disk failures.
    """

    folder: Path
    limit_bytes: int | None = None
    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    _views: dict[int, views.GroupView] = field(default_factory=dict)
    _in_use: views.GroupView | None = None
    _off_until_s: float = float("-inf")

    @property
    def used_bytes(self) -> int:
        """Disk space that this process uses."""
        return sum(view.disk_bytes for view in self._views.values())

    def take(self, group: int) -> views.GroupView | None:
        """Remove and return the view of a key group; all others rest."""
        view = self._views.pop(group, None)
        self._use(view)
        if view is not None:
            view.wake()
        return view

    def keep(self, group: int, view: views.GroupView) -> None:
        """Write what a view has in memory to disk, and keep the view; drop it if the disk cannot be used."""
        if self.clock() < self._off_until_s:
            self._drop(group)
            return
        self._use(view)
        self._views[group] = view
        try:
            view.spill(functools.partial(_File, self.folder, self._require_room))
            self._tell()
        except (_DiskUnusableError, OSError, ValueError) as error:
            self.failures += 1
            self._off_until_s = self.clock() + _PAUSE_S
            with contextlib.suppress(OSError):
                self._drop(group)
            _LOG.warning(
                "The ephemeral disk cannot hold keyed state. Batches read key groups from the state store, which is slower",
                extra={"reason": "StateDiskUnusable", "key_group": group, "why": str(error), "pause_s": _PAUSE_S},
            )

    def release(self, view: views.GroupView) -> None:
        """Leave a view to somebody else, for whom it never rests."""
        if self._in_use is view:
            self._in_use = None

    def _use(self, view: views.GroupView | None) -> None:
        """Let the view rest that was used before."""
        if self._in_use is not None and self._in_use is not view:
            self._in_use.rest()
        self._in_use = view

    def _drop(self, group: int) -> None:
        self._views.pop(group, None)
        self._tell()

    def _require_room(self, size_bytes: int) -> None:
        free_bytes = shutil.disk_usage(self.folder).free
        if free_bytes < size_bytes + _RESERVE_BYTES:
            raise _DiskUnusableError(
                f"{self.folder} has {free_bytes} bytes free, and a part of a key group needs {size_bytes}"
            )
        if self.limit_bytes is not None and self._used_by_all() + size_bytes > self.limit_bytes:
            raise _DiskUnusableError(
                f"the workers use {self._used_by_all()} of the {self.limit_bytes} bytes (disk_bytes) that they may use in "
                f"{self.folder}, and a part of a key group needs {size_bytes}"
            )

    def _used_by_all(self) -> int:
        """Return the disk space that all workers use, by what each tells; those that have ended use none."""
        used_bytes = self.used_bytes
        for note in self.folder.glob(f"{_USED}*"):
            process = int(note.name.removeprefix(_USED))
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                note.unlink(missing_ok=True)
                continue
            except PermissionError:
                pass  # it is there, and another user's
            if process != os.getpid():
                used_bytes += int(note.read_text() or 0)
        return used_bytes

    def _tell(self) -> None:
        if self.limit_bytes is not None and self.folder.exists():
            (self.folder / f"{_USED}{os.getpid()}").write_text(str(self.used_bytes))


WORKER_CACHE = LruCache()
"""Tables of this Python worker. Spark reuses workers between batches; a new one starts with an empty cache."""
_DISKS: dict[Path, DiskViews] = {}
_FOLDER = "statefulspark-keyed"
_LOCAL_DIRECTORIES = "SPARK_LOCAL_DIRS"
_WORKER_MEMORY_MB = ("PYSPARK_EXECUTOR_MEMORY_MB", "STATEFULSPARK_WORKER_MEMORY_MB")
"""Memory of a worker: Spark's limit, and what the operator counted for it in the size of an executor's pod."""


def open_cache(uid: str, *, cache_bytes: int, disk_bytes: int | None) -> OperatorCache:
    """Return the cache of an operator in this worker.

    Args:
        uid: The operator.
        cache_bytes: Memory for tables, estimated; where the worker's memory is known (`spark.executor.pyspark.memory`, or
            the size of the executor's pod), at most half of that.
        disk_bytes: Disk space for the operator's other key groups; None is all free space, 0 uses no disk.
    """
    WORKER_CACHE.limit(memory_bytes(cache_bytes, os.environ))
    directories = local_directories()
    if disk_bytes == 0 or not directories:
        return WORKER_CACHE.for_operator(uid)
    folder = Path(directories[zlib.crc32(uid.encode()) % len(directories)]) / _FOLDER / uid
    disk = _DISKS.setdefault(folder, DiskViews(folder))
    disk.limit_bytes = disk_bytes
    return WORKER_CACHE.for_operator(uid, disk)


def local_directories() -> list[str]:
    """Return Spark's local directories of this executor."""
    return [name for name in os.environ.get(_LOCAL_DIRECTORIES, "").split(",") if name]


def memory_bytes(cache_bytes: int, env: Mapping[str, str]) -> int:
    """Return the memory that tables may take in a worker."""
    worker_mb = (int(env.get(name) or -1) for name in _WORKER_MEMORY_MB)
    return min((cache_bytes, *((size_mb << 20) // 2 for size_mb in worker_mb if size_mb > 0)))
