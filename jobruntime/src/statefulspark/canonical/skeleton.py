"""The part of a canonical savepoint that is copied as it is: the engine's small files, without any state. Pure.

A restore materialises the shells as it does native savepoints (names, ids and sources may change on the way), then lets
Spark fill in the state; see `statefulspark.engine.canonical.fill`.
"""

from __future__ import annotations

import re

from statefulspark.canonical import documents
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import FileEntry, Manifest, OperatorEntry, QueryEntry, SnapshotFormat

_STATE_FILE = re.compile(r"^state/\d+/\d+/(?:[^/]+/)?(?:SSTs/.+|[^/]+\.(?:zip|changelog|delta|snapshot))$")
_CHECKSUM = re.compile(r"\.crc$")


def is_canonical(manifest: Manifest | None) -> bool:
    """Tell whether a snapshot is canonical."""
    return manifest is not None and manifest.format is SnapshotFormat.CANONICAL


def belongs(query: QueryEntry, path: str) -> bool:
    """Tell whether a canonical savepoint keeps a file of a closure as it is.

    State files are replaced by Parquet, older batches are not needed without them, and checksums beside small files
    would not match after a change.
    """
    if _STATE_FILE.match(path) or _CHECKSUM.search(path):
        return False
    folder, _, name = path.rpartition("/")
    return not (folder == "commits" and name.isdigit() and int(name) < query.batch_id - 1)


def without_canonical_files(query: QueryEntry) -> QueryEntry:
    """Return a query of a canonical savepoint without its canonical part.

    Its operators of ours have no number of key groups, since any may be chosen.
    """
    files = tuple(file for file in query.files if not documents.is_canonical(file.path))
    operators = tuple(_without_groups(operator) for operator in query.operators)
    return query.model_copy(update={"files": files, "operators": operators})


def document_key(query: QueryEntry) -> FileEntry | None:
    """Return the entry of the query's document; None if the query had committed nothing."""
    return next((file for file in query.files if file.path == documents.QUERY_DOCUMENT), None)


def _without_groups(operator: OperatorEntry) -> OperatorEntry:
    if plans.has_generated_uid(operator):
        return operator
    return operator.model_copy(update={"max_parallelism": None})
