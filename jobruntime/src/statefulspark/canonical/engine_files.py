"""Updates the engine's small files for newly written state: the number of partitions, and the unique ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import cast

from statefulspark import errors
from statefulspark.checkpoint import sparklog
from statefulspark.contract.manifest import QueryEntry
from statefulspark.storage.port import ObjectStore

_METADATA = re.compile(r"^state/\d+/_metadata/(v2/\d+|metadata)$")
_OFFSETS = re.compile(r"^offsets/\d+$")
_PARTITIONS = "spark.sql.shuffle.partitions"

Document = dict[str, object]


def operator_metadata(store: ObjectStore, query: QueryEntry, operator_id: int) -> sparklog.OperatorMetadata:
    """Read the engine's metadata of an operator.

    Raises:
        SnapshotCorruptError: `ClosureIncomplete`: there is none. `SparkLogUnreadable`.
    """
    folder = f"state/{operator_id}/_metadata/"
    named = (file.path for file in query.files if file.path.startswith(folder) and _METADATA.match(file.path))
    path = next(named, None)
    if path is None:
        raise errors.SnapshotCorruptError(
            "ClosureIncomplete", f"{store.uri}/{query.path}/{folder} does not exist. Use another snapshot."
        )
    key = f"{query.path}/{path}"
    return sparklog.parse_operator(store.read(key), f"{store.uri}/{key}")


def schema_paths(metadata: sparklog.OperatorMetadata, store: str) -> tuple[str, ...]:
    """Return the paths of the schemas of a state store; empty for metadata of version 1, which has one fixed path."""
    return tuple(path for path in metadata.schema_paths if f"/_stateSchema/{store}/" in path)


def pinned_partitions(store: ObjectStore, query_path: str, batch_id: int) -> int | None:
    """Return the number of state partitions that the offsets of a batch pin for its query; None if they pin none."""
    key = f"{query_path}/offsets/{batch_id}"
    return sparklog.pinned_partitions(store.read(key), f"{store.uri}/{key}")


def pinned_settings(store: ObjectStore, query_path: str, batch_id: int) -> Mapping[str, str]:
    """Return Spark's settings that the offsets of a batch pin for its query."""
    key = f"{query_path}/offsets/{batch_id}"
    return sparklog.pinned_settings(store.read(key), f"{store.uri}/{key}")


def set_partitions(store: ObjectStore, query: QueryEntry, partitions: int) -> None:
    """Write the number of state partitions into offsets and operator metadata of a generation that is not in use.

    Spark reads the number from the newest offsets, and compares it with the metadata.
    """

    def changed(document: Document) -> Document:
        stores = cast("list[Document] | None", document.get("stateStoreInfo"))
        if stores is not None:
            return {**document, "stateStoreInfo": [{**store, "numPartitions": partitions} for store in stores]}
        conf = cast("Document", document.get("conf", {}))
        return {**document, "conf": {**conf, _PARTITIONS: str(partitions)}}

    for file in query.files:
        if _METADATA.match(file.path) or _OFFSETS.match(file.path):
            _edit(store, f"{query.path}/{file.path}", changed)


def set_state_ids(store: ObjectStore, query: QueryEntry, ids: Mapping[int, tuple[tuple[str, ...], ...]]) -> None:
    """Write the unique ids of the new state into the commit of the query's batch."""
    named = {str(operator): [list(stores) for stores in partitions] for operator, partitions in ids.items()}
    key = f"{query.path}/commits/{query.batch_id}"
    _edit(store, key, lambda document: {**document, "stateUniqueIds": named})


def _edit(store: ObjectStore, key: str, change: Callable[[Document], Document]) -> None:
    """Change the JSON in the second line of a log entry; keep the other lines."""
    version, document, *rest = store.read(key).decode().split("\n")
    store.write(key, "\n".join([version, json.dumps(change(json.loads(document))), *rest]).encode())
