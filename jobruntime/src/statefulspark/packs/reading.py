"""Reads chunks out of packs: ranges that heads name, through the `ObjectStore` port, and a little more where reads follow.

Key groups are loaded in the order in which a pack has their chunks, so after a restart a batch reads each pack from its
beginning to its end. A single read gets what it asked for and no more; a long row of them gets the next part while the one
before is worked on: fewer and larger requests, and ahead of time.
"""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.packs import names
from statefulspark.packs.ranges import PackRange
from statefulspark.storage.port import ObjectStore

LIMIT_BYTES = 64 << 20
"""Memory of a worker for what was read ahead."""
_FIRST_BYTES = 512 << 10
_MOST_BYTES = 4 << 20
_GAP_BYTES = 256 << 10
"""A read that begins so close behind the one before follows it."""
_THREADS = 2
Fetch = Callable[[int, int], bytes]
"""Reads a range from storage, by offset and length."""
Later = Callable[[Callable[[], bytes]], "futures.Future[bytes]"]
"""Calls a function in the background."""


@functools.cache
def _threads() -> futures.ThreadPoolExecutor:
    return futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="packs-ahead")


def run_in_background(work: Callable[[], bytes]) -> futures.Future[bytes]:
    """Call a function in a thread of this process; a process that was forked has its own."""
    return _threads().submit(work)


@dataclass(slots=True)
class _Stretch:
    """What was read of an object last.

    Attributes:
        offset: Its first byte.
        body: The bytes; empty when all of them were asked for.
        end: Where they ended.
        read_until: End of the last chunk that was asked for.
        ahead_bytes: How much was read ahead last; 0 before a read has followed another.
        coming: What follows, if it is being read.
    """

    offset: int
    body: bytes
    end: int
    read_until: int = 0
    ahead_bytes: int = 0
    coming: futures.Future[bytes] | None = None

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, with what is coming."""
        return len(self.body) + (0 if self.coming is None else _MOST_BYTES)

    def part(self, offset: int, length: int) -> bytes | None:
        """Return a part of the object; None if it is not whole in here."""
        begin = offset - self.offset
        end = begin + length
        return self.body[begin:end] if begin >= 0 and end <= len(self.body) else None

    def part_with_coming(self, offset: int, length: int) -> bytes | None:
        """Return a part that ends in what is coming, wait for it, and go on there; None if it does not end there."""
        end = offset + length
        if self.coming is None or offset < self.offset or not self.end < end <= self.end + _MOST_BYTES:
            return None
        coming, self.coming, body = self.coming, None, b""
        with contextlib.suppress(errors.StatefulSparkError):  # the read itself asks again, and tells why
            body = coming.result()
        if end > self.end + len(body) or (offset < self.end and not self.body):
            return None
        kept = self.body[offset - self.offset :] + body[max(0, offset - self.end) : end - self.end]
        self.offset, self.body, self.end = self.end, body, self.end + len(body)
        return kept


class RangeReader:
    """Reads ranges of objects that never change. For one thread.

    Args:
        limit_bytes: Memory for what was read ahead, over all objects.
        later: Reads what follows in the background.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES, later: Later = run_in_background) -> None:
        self._limit_bytes = limit_bytes
        self._later = later
        self._stretches: OrderedDict[str, _Stretch] = OrderedDict()

    def read(self, name: str, offset: int, length: int, fetch: Fetch) -> bytes:
        """Return a range of an object; fewer bytes if the object ends before.

        Args:
            name: Of the object, unique in this process.
            offset: The first byte.
            length: How many bytes.
            fetch: Reads a range from storage; also called by another thread, while the caller works on what it got.
        """
        last = self._stretches.pop(name, None)
        kept = None
        if last is not None:
            kept = last.part(offset, length)
            kept = last.part_with_coming(offset, length) if kept is None else kept
        if last is None or kept is None:
            ahead_bytes = 0
            if last is not None and last.read_until <= offset <= last.read_until + _GAP_BYTES:
                ahead_bytes = min(max(2 * last.ahead_bytes, _FIRST_BYTES), _MOST_BYTES)
            body = fetch(offset, max(length, ahead_bytes))
            last, kept = _Stretch(offset, body, offset + len(body), ahead_bytes=ahead_bytes), body[:length]
        last.read_until = offset + length
        # Once half of a full stretch was asked for, what follows is read; a shorter one was the object's last.
        is_full = last.ahead_bytes == _MOST_BYTES and last.end - last.offset >= _MOST_BYTES
        if is_full and last.coming is None and last.read_until >= last.end - _MOST_BYTES // 2:
            last.coming = self._later(functools.partial(fetch, last.end, _MOST_BYTES))
        if last.end <= last.read_until:
            last.body = b""  # All of it was asked for; what follows is known by `read_until`.
        self._stretches[name] = last
        while sum(stretch.size_bytes for stretch in self._stretches.values()) > self._limit_bytes:
            self._stretches.popitem(last=False)
        return kept


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
    ahead: RangeReader | None = None

    def read(self, where: PackRange) -> bytes:
        """Return a chunk's stored bytes. Cost: a GET of that range, or of a few megabytes for many that follow each other.

        Raises:
            SnapshotCorruptError: `ChunkMissing`: the pack does not exist; `ChunkUnreadable`: the bytes are damaged.
        """
        key = names.key(self.uid, where.pack)
        fetch = functools.partial(self.store.read_range, key)
        try:
            if self.ahead is None:
                body = fetch(where.offset, where.length)
            else:
                body = self.ahead.read(f"{self.store.uri}/{key}", where.offset, where.length, fetch)
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
