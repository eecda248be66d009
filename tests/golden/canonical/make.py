"""Writes the golden canonical savepoint of the format version that this release writes: `python make.py <folder>`.

A folder that is there already is never written again: it stands for savepoints that were taken by that release.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys

import pyarrow as pa
from statefulspark import storage
from statefulspark.canonical import documents, parts, rows
from statefulspark.contract.manifest import (
    FileEntry,
    Manifest,
    OperatorEntry,
    QueryEntry,
    SnapshotFormat,
    SnapshotKind,
    SourceEntry,
    Trigger,
)
from statefulspark.state import kinds, liststate, mapstate, valuestate

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
STATES: dict[kinds.StateMeta, list[rows.Row]] = {
    kinds.StateMeta("total", valuestate.VALUE, "bigint", has_ttl=False): [
        (("ada", 1), None, 7, 0),
        (("bob", 2), None, -(2**63), 0),
    ],
    kinds.StateMeta("seen", liststate.LIST, "array<any>", has_ttl=True): [
        (("ada", 1), 0, (NOON, 0.5), 1000),
        (("ada", 1), 1, (NOON, None), 2000),
    ],
    kinds.StateMeta("parts", mapstate.MAP, "map<any,any>", has_ttl=False): [
        (("ada", 1), "x", [1, 2], 0),
        (("bob", 2), "y", {"nested": decimal.Decimal("1.50")}, 0),
    ],
}
_STRUCT = {
    "type": "struct",
    "fields": [{"name": "k", "type": "long", "nullable": True, "metadata": {}}],
}


def write(store: storage.ObjectStore) -> None:
    """Write the savepoint into the root of a store."""
    folder = "files/delays"
    keyed = []
    for meta, found in STATES.items():
        path = f"{documents.states_folder('mean', meta.name)}/{documents.part_name(0, 0)}"
        part = parts.write(store, folder, path, rows.make_table(meta, found, 2))
        keyed.append(
            documents.KeyedState(
                name=meta.name, kind=meta.kind.value, type=meta.type_text, has_ttl=meta.has_ttl, files=(part,)
            )
        )
    path = f"{documents.family_folder('stateStoreSave-0', 0, 'default', 'default')}/{documents.part_name(0, 0)}"
    side = [{"k": 1}, {"k": 2}]
    family = pa.table({"partition_key": side, "ordinal": [0, 1], "key": side, "value": [{"k": 10}, {"k": 20}]})
    stored = documents.FamilyState(
        name="default", key=_STRUCT, value=_STRUCT, files=(parts.write(store, folder, path, family),)
    )
    operators = (
        documents.CanonicalOperator(
            uid="mean", operator_id=1, name="transformWithStateInPandasExec", key_types=("string", "int"),
            max_parallelism=128, states=tuple(keyed),
        ),
        documents.CanonicalOperator(
            uid="stateStoreSave-0", operator_id=0, name="stateStoreSave",
            stores=(documents.StoreState(name="default", partition_key=_STRUCT, families=(stored,)),),
        ),
    )  # fmt: skip
    position = documents.SourcePosition(
        name="clicks", description="kafka(subscribe=clicks)", offset={"clicks": {"0": 5}}
    )
    document = documents.QueryDocument(uid="delays", batch_id=2, sources=(position,), operators=operators)
    store.write(f"{folder}/{documents.QUERY_DOCUMENT}", document.to_json(indent=1).encode())
    store.write("_metadata.json", _manifest(store, folder).to_json(indent=1).encode())


def _manifest(store: storage.ObjectStore, folder: str) -> Manifest:
    files = tuple(
        FileEntry(path=info.key[len(folder) + 1 :], size_bytes=info.size_bytes) for info in store.list(folder)
    )
    query = QueryEntry(
        uid="delays",
        batch_id=2,
        path=folder,
        files=files,
        operators=(
            OperatorEntry(uid="stateStoreSave-0", operator_id=0, name="stateStoreSave", partitions=2),
            OperatorEntry(
                uid="mean", operator_id=1, name="transformWithStateInPandasExec", partitions=2, max_parallelism=128,
                key="string, int",
            ),
        ),
        offsets=(json.dumps({"clicks": {"0": 5}}),),
        sources=(SourceEntry(name="clicks", description="kafka(subscribe=clicks)"),),
    )  # fmt: skip
    return Manifest(
        kind=SnapshotKind.SAVEPOINT,
        format=SnapshotFormat.CANONICAL,
        id=7,
        namespace="default",
        job="flights",
        trigger=Trigger.MANUAL,
        epoch=3,
        generation=1,
        triggered_at=NOON,
        completed_at=NOON,
        queries=(query,),
    )


if __name__ == "__main__":
    write(storage.open_store(f"file://{sys.argv[1]}", storage.StorageOptions(allow_local_files=True)))
