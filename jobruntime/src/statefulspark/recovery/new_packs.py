"""Packs that only the newest state names are read before a start uses them, since nothing else would find damage in time.

Spark loads all files of its own state with the first batch, and checkpoints do not count before that. A pack is read when a
key group is used, and by then checkpoints that name it may have replaced the older ones. What an older checkpoint names,
too, is left: going back would not help against damage there.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable

from statefulspark import errors
from statefulspark.checkpoint import progress
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.packs import names, packfile
from statefulspark.storage.port import ObjectStore

READ_UP_TO_BYTES = 256 << 20
"""Up to this total packs are compared with their checksums, small ones first; of the rest only beginning, end and footer."""


def keys(queries: Iterable[QueryEntry]) -> frozenset[str]:
    """Return the keys of all packs that queries name, below the store of their paths."""
    return frozenset(_packs(queries))


def problem(
    store: ObjectStore,
    queries: Iterable[QueryEntry],
    *,
    root: str = "",
    proven: Collection[str] = (),
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> str | None:
    """Return what is wrong with a pack that is named by these queries and by none before; None if nothing is.

    Cost: a read of each of them, up to `READ_UP_TO_BYTES`; three small ones for the others.

    Args:
        store: Where the files are.
        queries: The queries of a cut.
        root: The folder to which their paths are relative.
        proven: Keys of packs that need not be read.
        begin_step: Begins the step that reads packs.

    Raises:
        FormatVersionError: A later release wrote one.
        TransientError: Storage cannot be reached.
    """
    new = {key: file for key, file in _packs(queries).items() if key not in proven}
    if not new:
        return None
    count = progress.FileCount(
        [file.size_bytes for file in new.values()], begin_step("Reading the newest packs of state")
    )
    read_bytes = 0
    for key, file in sorted(new.items(), key=lambda entry: entry[1].size_bytes):
        path = f"{root}/{key}" if root else key
        read_bytes += file.size_bytes
        try:
            if read_bytes <= READ_UP_TO_BYTES:
                packfile.require_sound(store.read(path), f"{store.uri}/{path}")
            else:
                read_range = functools.partial(store.read_range, path)
                packfile.require_whole(read_range, file.size_bytes, f"{store.uri}/{path}")
        except errors.ObjectNotFoundError:
            return f"{store.uri}/{path} does not exist."
        except errors.FormatVersionError:
            raise
        except errors.SnapshotCorruptError as error:
            return error.message
        count.add((file.size_bytes,))
    return None


def _packs(queries: Iterable[QueryEntry]) -> dict[str, FileEntry]:
    return {
        f"{query.path}/{file.path}": file
        for query in queries
        for file in query.files
        if names.of_key(file.path) is not None
    }
