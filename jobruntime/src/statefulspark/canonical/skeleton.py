"""The skeleton of a canonical savepoint: the engine's small files, which are copied unchanged, without any state. Pure.

A restore materialises the skeleton like a native savepoint (names, ids and sources may change), then Spark writes the
state; see `statefulspark.engine.canonical.fill`.
"""

from __future__ import annotations

import re

from statefulspark.canonical import documents
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotFormat
from statefulspark.packs import names as packs

_STATE_FILE = re.compile(r"^state/\d+/\d+/(?:[^/]+/)?(?:SSTs/.+|[^/]+\.(?:zip|changelog|delta|snapshot))$")
_CHECKSUM = re.compile(r"\.crc$")


def is_canonical(manifest: Manifest | None) -> bool:
    """Tell whether a snapshot is canonical."""
    return manifest is not None and manifest.format is SnapshotFormat.CANONICAL


def is_copied_unchanged(query: QueryEntry, path: str) -> bool:
    """Tell whether a canonical savepoint contains a file of a closure unchanged.

    State files and packs are replaced by Parquet, older batches are not needed without them, and the checksum files of small
    files would not match after a change.
    """
    if _STATE_FILE.match(path) or _CHECKSUM.search(path) or packs.of_key(path) is not None:
        return False
    folder, _, name = path.rpartition("/")
    return not (folder == "commits" and name.isdigit() and int(name) < query.batch_id - 1)


def without_canonical_files(query: QueryEntry) -> QueryEntry:
    """Return a query of a canonical savepoint without its canonical files.

    Its keyed operators have no number of key groups, since any number may be chosen.
    """
    files = tuple(file for file in query.files if not documents.is_canonical(file.path))
    operators = tuple(
        operator if plans.has_generated_uid(operator) else operator.model_copy(update={"max_parallelism": None})
        for operator in query.operators
    )
    return query.model_copy(update={"files": files, "operators": operators})
