"""The errors for stored state that cannot be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgpack

from statefulspark import errors

WRONG_SHAPES = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, msgpack.UnpackException)
"""What reading raises where a damaged byte has made another type, number, decimal or nesting."""


@contextlib.contextmanager
def told_as_unreadable(source: str) -> Iterator[None]:
    """Tell what reading raises in the block as damage.

    Args:
        source: Origin of the chunk.

    Raises:
        SnapshotCorruptError: `ChunkUnreadable`.
    """
    try:
        yield
    except WRONG_SHAPES as error:
        raise unreadable(source, str(error) or type(error).__name__) from error


def unreadable(source: str, why: str) -> errors.SnapshotCorruptError:
    """Return the error for a chunk that is damaged."""
    return errors.SnapshotCorruptError(
        "ChunkUnreadable",
        f"The chunk {source} of keyed state cannot be read: {why}. It is damaged; restore from "
        "another checkpoint or savepoint.",
    )
