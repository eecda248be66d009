"""Parts of canonical savepoints that need no Spark: a query without state, or whose operators have no place in the job."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from manifests import a_query, an_operator
from statefulspark.canonical import documents
from statefulspark.checkpoint import savepoint, transfer
from statefulspark.engine.canonical import export, load
from statefulspark.storage import StorageOptions
from statefulspark.testing import lagging, stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoSpark:
    """A session that can be set, and do nothing else."""

    def __init__(self) -> None:
        self.conf = SimpleNamespace(set=lambda _name, _value: None)
        self.sparkContext = SimpleNamespace(setLocalProperty=lambda _name, _value: None)

    def newSession(self) -> NoSpark:  # noqa: N802 - Spark's name
        return self


def test_a_savepoint_is_complete_on_a_store_that_lists_new_files_late() -> None:
    """It was refused with `CopyIncomplete`, every time."""
    store = lagging.LaggingStore(stores.MemoryStore("memory://bucket"), lag=100)
    query = a_query("q", path="generations/00000001/q", files=["offsets/3", "commits/3"], offsets=("-",))
    for file in query.files:
        store.write(f"{query.path}/{file.path}", b"0123456789")
    target = savepoint.SavepointTarget(store, "savepoints/one")
    work = export.Export(store, "memory://bucket", target, StorageOptions())

    (entry,) = export.export(cast("SparkSession", NoSpark()), [query], work)

    assert [file.path for file in entry.files] == ["canonical/query.json", "commits/3", "offsets/3"]


@pytest.mark.parametrize("partitions", [{}, {"q": 5}], ids=["as before", "another number"])
def test_a_query_all_of_whose_operators_are_dropped_is_restored_without_their_state(partitions: dict[str, int]) -> None:
    """It was refused with `ClosureIncomplete`: its operators were taken for ones that have not moved."""
    store = stores.MemoryStore("memory://bucket")
    original = a_query("q", an_operator("mean", partitions=3), path="files/q", files=[documents.QUERY_DOCUMENT])
    document = documents.QueryDocument(
        uid="q", batch_id=3, operators=(documents.CanonicalOperator(uid="mean", operator_id=0, name="tws"),)
    )
    store.write(f"savepoints/one/files/q/{documents.QUERY_DOCUMENT}", document.to_json().encode())
    skeleton = a_query("q", files=["offsets/3", "commits/3"])
    conf = {"spark.sql.shuffle.partitions": "3"}
    store.write(f"{skeleton.path}/offsets/3", f"v1\n{json.dumps({'conf': conf})}\n-".encode())
    place = transfer.SnapshotLocation(store, "savepoints/one")
    work = load.StateImport(
        store, "memory://bucket", place, [original], StorageOptions(), operators={"q": {}}, partitions=partitions
    )

    queries = load.import_state(cast("SparkSession", NoSpark()), work, [skeleton])

    assert queries == (skeleton,)
    pinned = json.loads(store.read(f"{skeleton.path}/offsets/3").split(b"\n")[1])["conf"]
    assert pinned == {"spark.sql.shuffle.partitions": str(partitions.get("q", 3))}, "operators that are added get it"
