"""Limits how much of other people's objects one piece of work may hold, and how long it may take.

A driver reads the folder of its own job and sets no limit. The operator reads folders that anybody may have filled: an
object may have any size, a listing may have no end, and a server may send one byte a second. An allowance holds for all
calls to storage in the thread (or task) that sets it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from statefulspark import errors


@dataclass(slots=True)
class Allowance:
    """Limits of one piece of work.

    Attributes:
        most_bytes: Bytes of one object that is read.
        most_listed: Objects of one listing that is held whole; pages and deletions have no limit, since they hold one page.
        most_values: Values of one JSON document: 30 bytes of one can become a kilobyte.
        ends_at_s: When all of it has to be over, on the monotonic clock.
        is_exceeded: Whether a size was refused; the same work may be tried again with a larger allowance.
    """

    most_bytes: int
    most_listed: int
    most_values: int
    ends_at_s: float
    is_exceeded: bool = False

    def time_left_s(self, uri: str) -> float:
        """Return the seconds that are left for a request.

        Raises:
            TransientError: `StorageUnreachable`: none are left.
        """
        left_s = self.ends_at_s - time.monotonic()
        if left_s <= 0:
            raise slow(uri)
        return left_s


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def current() -> Allowance | None:
    """Return the limits of the work that runs; None sets no limit."""
    return _current.get()


@contextmanager
def holding(allowance: Allowance) -> Iterator[None]:
    """Limit what the block does."""
    token = _current.set(allowance)
    try:
        yield
    finally:
        _current.reset(token)


def body_limit(most_bytes: int) -> int:
    """Return how many bytes of an object are read: what the caller takes at most, within the allowance."""
    allowance = _current.get()
    return most_bytes if allowance is None else min(most_bytes, allowance.most_bytes)


def slow(uri: str) -> errors.TransientError:
    """Return the error for a request that was not answered, or not to its end, within the allowance's time."""
    return errors.TransientError("StorageUnreachable", f"Storage does not answer in time for {uri}; it is asked again.")


def too_large(uri: str, most_bytes: int) -> errors.StateUnknownError:
    """Return the error for an object that has more bytes than are read of it."""
    allowance = _current.get()
    if allowance is not None and allowance.most_bytes == most_bytes:
        allowance.is_exceeded = True
    return _refusal(f"{uri} has more than {most_bytes} bytes, which are the most that are read of it; it was not read.")


def require_few_values(body: bytes, uri: str) -> None:
    """Refuse a JSON document with more values than the allowance has; what is no document has none.

    Raises:
        StateUnknownError: `StorageFailed`.
    """
    allowance = _current.get()
    if allowance is None or len(body) <= allowance.most_values or body.lstrip()[:1] not in (b"{", b"["):
        return
    if sum(map(body.count, (b",", b"[", b"{"))) > allowance.most_values:
        allowance.is_exceeded = True
        raise _refusal(
            f"{uri} has more than {allowance.most_values} values, which are the most that are read of a document; it was "
            "not read."
        )


def require_few_objects(number: int, uri: str) -> None:
    """Refuse a listing of more objects than the allowance has.

    Raises:
        StateUnknownError: `StorageFailed`.
    """
    allowance = _current.get()
    if allowance is not None and number > allowance.most_listed:
        allowance.is_exceeded = True
        raise errors.StateUnknownError(
            "StorageFailed",
            f"{uri} has more than {allowance.most_listed} objects, which are the most that are listed of a folder at once. "
            "Find out what wrote them, and delete those that belong to no job.",
        )


def _refusal(what: str) -> errors.StateUnknownError:
    advice = "Find out what wrote it, and start from another snapshot if it is a part of one."
    return errors.StateUnknownError("StorageFailed", f"{what} {advice}")
