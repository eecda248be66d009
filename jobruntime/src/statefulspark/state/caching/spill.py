"""Views of key groups for which there is no memory: their columns are in files on the executor's ephemeral disk.

The files are mapped, so that what is read often stays in the system's cache and what is not needs no memory. They have no
names: they belong to this process alone, end with it, and are never read by another. On any failure of the disk the view
is dropped, and the next batch reads the key group from its chunks, which is slower.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from statefulspark.state.columnar.columns import Columns
from statefulspark.state.stored import columnlayout, views

_LOG = logging.getLogger(__name__)
_RESERVE_BYTES = 64 << 20
"""Disk space that stays free for other users."""
_PAUSE_S = 60.0
"""Time without access to the disk after a failure."""
_USED = "used-"
"""Begins the name of the file in which a process tells how much it uses."""


class _DiskUnusableError(Exception):
    """The disk is full, missing, not writable, or used up."""


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
    _off_until_s: float = float("-inf")

    @property
    def used_bytes(self) -> int:
        """Disk space that this process uses."""
        return sum(view.disk_bytes for view in self._views.values())

    def take(self, group: int) -> views.GroupView | None:
        """Remove and return the view of a key group."""
        return self._views.pop(group, None)

    def keep(self, group: int, view: views.GroupView) -> None:
        """Write what a view has in memory to disk, and keep the view; drop it if the disk cannot be used."""
        if self.clock() < self._off_until_s:
            self._drop(group)
            return
        self._views[group] = view
        try:
            view.spill(self._write)
            self._tell()
        except (_DiskUnusableError, OSError, ValueError) as error:
            self._suspend(group, str(error))

    def _drop(self, group: int) -> None:
        self._views.pop(group, None)
        self._tell()

    def _write(self, layer: Columns) -> Columns:
        body = columnlayout.write(("", len(layer)), [columnlayout.Described([], layer)])
        self._require_room(len(body))
        with tempfile.TemporaryFile(dir=self.folder) as file:
            file.write(body)
            file.flush()
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        _, (written,) = columnlayout.read(mapped, layer.source)
        if isinstance(written, bytes):
            raise ValueError("a layer is not what was written")
        return written.columns

    def _require_room(self, size_bytes: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(self.folder).free
        if free_bytes < size_bytes + _RESERVE_BYTES:
            raise _DiskUnusableError(
                f"{self.folder} has {free_bytes} bytes free, and a part of a key group needs {size_bytes}"
            )
        if self.limit_bytes is not None and self._used_by_all() + size_bytes > self.limit_bytes:
            raise _DiskUnusableError(
                f"of the {self.limit_bytes} bytes that may be used in {self.folder} (disk_bytes) {self._used_by_all()} "
                f"are, and a part of a key group needs {size_bytes}"
            )

    def _used_by_all(self) -> int:
        """Return the disk space that all workers use, by what each tells; those that have ended use none."""
        used_bytes = self.used_bytes
        for told in self.folder.glob(f"{_USED}*"):
            process = int(told.name.removeprefix(_USED))
            if not _is_alive(process):
                told.unlink(missing_ok=True)
            elif process != os.getpid():
                used_bytes += int(told.read_text() or 0)
        return used_bytes

    def _tell(self) -> None:
        if self.limit_bytes is not None and self.folder.exists():
            (self.folder / f"{_USED}{os.getpid()}").write_text(str(self.used_bytes))

    def _suspend(self, group: int, why: str) -> None:
        self.failures += 1
        self._off_until_s = self.clock() + _PAUSE_S
        with contextlib.suppress(OSError):
            self._drop(group)
        _LOG.warning(
            "The ephemeral disk cannot hold keyed state; key groups are read from the state store, which is slower",
            extra={"reason": "StateDiskUnusable", "key_group": group, "why": why, "pause_s": _PAUSE_S},
        )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
