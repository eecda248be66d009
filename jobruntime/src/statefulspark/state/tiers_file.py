"""The file of one key group in the disk tier: opened for one transaction, shared by all workers of the executor.

A transaction counts as a whole or not at all, also when the worker is killed in it. Nothing is flushed: a file outlives
its workers, never its machine, and is thrown away on any doubt. While a worker uses a file, a mark with its process id
lies beside it; a mark of a process that is gone means that this process may have died of the file, so that the
next one discards it.
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

_Found = TypeVar("_Found")
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


class FileWorthlessError(Exception):
    """The file is damaged, foreign, or holds another history; it is to be discarded and made anew."""


class FileUnusableError(Exception):
    """The disk does not take or give the file: it is full, missing, not writable."""


class Cursor(Protocol):
    """The part of lmdb's cursor that is used here."""

    def getmulti(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Return the records that there are."""

    def putmulti(self, items: list[tuple[bytes, bytes]], *, append: bool = False) -> tuple[int, int]:
        """Write records; with `append` they are in order, and behind all that are there."""

    def set_range(self, key: bytes) -> bool:
        """Go to the first record at or after a key."""

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        """Return the records from here on."""


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


def run(folder: Path, work: Callable[[Transaction], _Found], *, size_bytes: int) -> _Found:
    """Do work in one transaction on the file in a folder, which is made if it is missing.

    Args:
        folder: Belongs to the key group alone.
        work: May be called again from the start, when the file turns out to be too small.
        size_bytes: How large the file may become, roughly; it grows beyond that when it has to.

    Raises:
        FileWorthlessError: Discard the file and try again.
        FileUnusableError: The disk; the message says why.
    """
    try:
        with _marked(folder):
            return _in_environment(folder, work, max(_SMALLEST_BYTES, size_bytes))
    except _DAMAGES as error:
        raise FileWorthlessError(str(error)) from error
    except (lmdb.Error, OSError, MemoryError) as error:
        raise FileUnusableError(f"{folder}: {error!r}") from error


def discard(folder: Path) -> None:
    """Throw the file away. Workers that have it open go on with what they have; theirs is gone when they close it."""
    trash = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


@contextlib.contextmanager
def _marked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{_MARK}*"):
        if not _is_alive(int(left.name.removeprefix(_MARK))):
            raise FileWorthlessError(f"the process of {left} has died with the file open")
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


def _in_environment(folder: Path, work: Callable[[Transaction], _Found], size_bytes: int) -> _Found:
    environment = lmdb.open(str(folder), map_size=size_bytes, sync=False, metasync=False, readahead=False)
    try:
        _require_whole(environment, folder)
        while True:
            try:
                with environment.begin(write=True) as transaction:
                    found = work(transaction)
            except lmdb.MapFullError:
                environment.set_mapsize(2 * int(environment.info()["map_size"]))
            except lmdb.MapResizedError:
                environment.set_mapsize(0)
            else:
                _extend(environment, folder)
                return found
    finally:
        environment.close()


def _used_bytes(environment: lmdb.Environment) -> int:
    return (int(environment.info()["last_pgno"]) + 1) * int(environment.stat()["psize"])


def _require_whole(environment: lmdb.Environment, folder: Path) -> None:
    """Refuse a file that was cut off: reading behind its end would end the process."""
    if (folder / "data.mdb").stat().st_size < _used_bytes(environment):
        raise FileWorthlessError(f"{folder} is shorter than it says")


def _extend(environment: lmdb.Environment, folder: Path) -> None:
    """Make the file as long as it says: pages at its end that were taken and given back are never written."""
    used_bytes = _used_bytes(environment)
    with (folder / "data.mdb").open("r+b") as file:
        missing_bytes = used_bytes - os.fstat(file.fileno()).st_size
        if missing_bytes > 0:
            # Not truncate(), which would cut off what another worker has appended meanwhile.
            os.posix_fallocate(file.fileno(), used_bytes - missing_bytes, missing_bytes)
