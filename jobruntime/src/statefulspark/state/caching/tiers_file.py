"""The file of one key group in the disk tier: opened for one transaction, shared by all workers of the executor.

A transaction is atomic, also when the worker is killed during it. Nothing is flushed: a file outlives its workers but not
its machine, and is discarded on any doubt. While a worker uses a file, a marker file with its process id is beside it. A
marker of a process that no longer exists means that the file may have crashed it, so the next user discards the file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import lmdb

_Result = TypeVar("_Result")
_MARK = "open-"
_SMALLEST_BYTES = 4 << 20
_DAMAGES = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.PanicError,
    lmdb.BadTxnError,
)


class FileInvalidError(Exception):
    """The file is damaged, foreign, or has a version of another lineage; discard and rebuild it."""


class DiskUnusableError(Exception):
    """The file cannot be read or written: the disk is full, missing or not writable."""


class Cursor(Protocol):
    """The part of lmdb's cursor that is used here."""

    def getmulti(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Return the existing records."""

    def putmulti(self, items: list[tuple[bytes, bytes]], *, append: bool = False) -> tuple[int, int]:
        """Write records; with `append` they are sorted and come after all existing ones."""

    def set_range(self, key: bytes) -> bool:
        """Go to the first record at or after a key."""

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        """Return the records from the position on."""


class Transaction(Protocol):
    """The part of lmdb's transaction that is used here."""

    def get(self, key: bytes) -> bytes | None:
        """Return a record."""

    def put(self, key: bytes, value: bytes) -> bool:
        """Write a record."""

    def delete(self, key: bytes) -> bool:
        """Delete a record."""

    def cursor(self) -> Cursor:
        """Return a cursor."""


def run(folder: Path, work: Callable[[Transaction], _Result], *, size_bytes: int) -> _Result:
    """Run `work` in one transaction on the file in a folder, which is created if missing.

    Args:
        folder: Used by this key group only.
        work: Is called again from the start when the file is too small.
        size_bytes: Expected maximum size of the file; it grows beyond that if necessary.

    Raises:
        FileInvalidError: Discard the file and try again.
        DiskUnusableError: The disk failed; the message has the cause.
    """
    try:
        with _mark_open(folder):
            return _in_environment(folder, work, max(_SMALLEST_BYTES, size_bytes))
    except _DAMAGES as error:
        raise FileInvalidError(str(error)) from error
    except (lmdb.Error, OSError, MemoryError) as error:
        raise DiskUnusableError(f"{folder}: {error!r}") from error


def discard(folder: Path) -> None:
    """Discard the file. Workers that have it open can use it until they close it."""
    trash = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


@contextlib.contextmanager
def _mark_open(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    for other_mark in folder.glob(f"{_MARK}*"):
        if not _is_alive(int(other_mark.name.removeprefix(_MARK))):
            raise FileInvalidError(f"the process of {other_mark} ended with the file open")
    mark = folder / f"{_MARK}{os.getpid()}"
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _in_environment(folder: Path, work: Callable[[Transaction], _Result], size_bytes: int) -> _Result:
    environment = lmdb.open(str(folder), map_size=size_bytes, sync=False, metasync=False, readahead=False)
    try:
        _require_whole(environment, folder)
        while True:
            try:
                with environment.begin(write=True) as transaction:
                    result = work(transaction)
            except lmdb.MapFullError:
                environment.set_mapsize(2 * int(environment.info()["map_size"]))
            except lmdb.MapResizedError:
                environment.set_mapsize(0)
            else:
                _extend(environment, folder)
                return result
    finally:
        environment.close()


def _used_bytes(environment: lmdb.Environment) -> int:
    return (int(environment.info()["last_pgno"]) + 1) * int(environment.stat()["psize"])


def _require_whole(environment: lmdb.Environment, folder: Path) -> None:
    """Reject a truncated file: reading behind its end would crash the process."""
    if (folder / "data.mdb").stat().st_size < _used_bytes(environment):
        raise FileInvalidError(f"{folder} is shorter than its header says")


def _extend(environment: lmdb.Environment, folder: Path) -> None:
    """Extend the file to the size in its header: pages at its end that were allocated and freed are never written."""
    used_bytes = _used_bytes(environment)
    with (folder / "data.mdb").open("r+b") as file:
        missing_bytes = used_bytes - os.fstat(file.fileno()).st_size
        if missing_bytes > 0:
            # Not truncate(), which would cut off what another worker has appended meanwhile.
            os.posix_fallocate(file.fileno(), used_bytes - missing_bytes, missing_bytes)
