"""Python's cyclic garbage collection, paused where our own code makes many objects and no cycles.

Making a row object for every row of a batch sets the collector off again and again, and each of its full rounds walks
the state that is cached in the worker: measured, that was half the time of a batch. User code runs with the collector
as it was.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector in the block, unless it is off already."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
