"""A copy of a query's state for a rehearsal: the same files as on storage, with no position of a source.

A batch that runs on it loads state as the batch that counts will: the snapshot of each store and the changes since, with
their checksums, and what Python has packed into them. The copy has an identity of its own, so that it never is the query
that it was taken of.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.evolution import rewrite
from statefulspark.planning.rehearsal import CHECKPOINT

if TYPE_CHECKING:
    from statefulspark.contract.manifest import Manifest, QueryEntry
    from statefulspark.planning.rehearsal_folder import RehearsalFolder
    from statefulspark.storage import ObjectStore

MOST_BYTES = 256 * 2**20
"""State that is larger is not copied: its files are of the same kinds, and this machine's disk is shared."""
MOST_FILES = 1000
"""Each file is a request."""


def is_small_enough(entry: QueryEntry) -> bool:
    """Tell whether the state of a query is copied for a rehearsal."""
    if entry.batch_id < 0:
        return False
    files = [file for file, _ in rewrite.files_to_copy(entry, _without_positions(entry))]
    return bool(files) and are_few(file.size_bytes for file in files)


def are_few(sizes: Iterable[int]) -> bool:
    """Tell whether files of these sizes in bytes are copied to this machine."""
    listed = tuple(sizes)
    return len(listed) <= MOST_FILES and sum(listed) <= MOST_BYTES


def entry_in(store: ObjectStore, checkpoint: int, compared: Manifest, uid: str) -> QueryEntry:
    """Return a query in a later checkpoint than the one that was compared with, whose files may have been pruned meanwhile.

    Args:
        store: The job's root.
        checkpoint: Number of the later one.
        compared: The one that the job was compared with; of another generation than that, the later one is not used.
        uid: The query, which is in both.

    Raises:
        StatefulSparkError: The manifest could not be read.
    """
    later = catalog.read_manifest(store, layout.checkpoint(checkpoint))
    chosen = later if later.generation == compared.generation else compared
    return next(query for query in chosen.queries if query.uid == uid)


def fill(store: ObjectStore, entry: QueryEntry, folder: RehearsalFolder, *, stops: Callable[[], bool]) -> None:
    """Copy the state of a query into the checkpoint root of a rehearsal.

    Args:
        store: The job's root.
        entry: The query in a checkpoint of that root.
        folder: The rehearsal's, without a checkpoint root.
        stops: Asked between two files; the copy is incomplete then.

    Raises:
        StatefulSparkError: A file could not be read.
        Py4JError: The same, by Spark.
    """
    moved = _without_positions(entry)
    files = [
        (f"{entry.path}/{file.path}", f"{CHECKPOINT}/{new}")
        for file, new in rewrite.files_to_copy(entry, moved)
        if rewrite.is_spark_file(file.path)
    ]
    folder.take(files, stops=stops)
    if stops():
        return
    for old, new in rewrite.files_to_rewrite(entry, moved):
        key = f"{entry.path}/{old}"
        source, query_id = f"{store.uri}/{key}", str(uuid.uuid4())
        body = moved.body(old, store.read(key), source, f"{folder.uri}/{CHECKPOINT}", query_id=query_id)
        folder.write(f"{CHECKPOINT}/{new}", body)


def _without_positions(entry: QueryEntry) -> rewrite.Rewrite:
    operators = rewrite.Rewrite.identity(entry).operators
    return rewrite.Rewrite(operators, (None,) * len(entry.offsets), {})
