"""A copy of a query's state on this machine, for a rehearsal: the same files as on storage, with no position of a source.

A batch that runs on it loads state as the batch that counts will: the snapshot of each store and the changes since, with
their checksums, and what Python has packed into them. It is read through Hadoop, so that Spark's client of the object store
has read all kinds of files before. The copy has an identity of its own, so that it never is the query that it was taken of.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.engine import session as spark_session
from statefulspark.evolution import rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.contract.manifest import FileEntry, Manifest, QueryEntry
    from statefulspark.storage import ObjectStore

MOST_BYTES = 256 * 2**20
"""State that is larger is not copied: its files are of the same kinds, and this machine's disk is shared."""
_METADATA = "metadata"


def is_small_enough(entry: QueryEntry) -> bool:
    """Tell whether the state of a query is copied for a rehearsal."""
    return entry.batch_id >= 0 and sum(file.size_bytes for file in _files(entry)) <= MOST_BYTES


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


def fill(spark: SparkSession, store: ObjectStore, entry: QueryEntry, root: Path, *, stops: Callable[[], bool]) -> None:
    """Copy the state of a query into a checkpoint root on this machine.

    Args:
        spark: The session.
        store: The job's root.
        entry: The query in a checkpoint of that root.
        root: The folder, which does not exist.
        stops: Asked between two files; the copy is incomplete then.

    Raises:
        StatefulSparkError: A file could not be read.
        Py4JError: The same, by Spark.
    """
    moved = _without_positions(entry)
    uri = f"{spark_session.hadoop_uri(store.uri)}/{entry.path}"
    for file, new in rewrite.files_to_copy(entry, moved):
        if stops():
            return
        if rewrite.is_spark_file(file.path) and new != _METADATA:
            target = root / new
            target.parent.mkdir(parents=True, exist_ok=True)
            spark_session.download(spark, f"{uri}/{file.path}", target)
    for old, new in rewrite.files_to_rewrite(entry, moved):
        key = f"{entry.path}/{old}"
        body = moved.body(old, store.read(key), f"{store.uri}/{key}", root.as_uri())
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / new).write_bytes(body)
    (root / _METADATA).write_text(json.dumps({"id": str(uuid.uuid4())}))


def _without_positions(entry: QueryEntry) -> rewrite.Rewrite:
    operators = rewrite.Rewrite.identity(entry).operators
    return rewrite.Rewrite(operators, (None,) * len(entry.offsets), {})


def _files(entry: QueryEntry) -> list[FileEntry]:
    return [file for file, _ in rewrite.files_to_copy(entry, _without_positions(entry))]
