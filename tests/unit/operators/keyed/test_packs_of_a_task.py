"""A worker finds packs below the checkpoint root that its task was given, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pyspark import TaskContext
from statefulspark import errors
from statefulspark.operators.keyed import cleaning, packedlog, registry
from statefulspark.packs import names, packfile, ranges
from statefulspark.storage import StorageOptions
from statefulspark.testing import stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE = StorageOptions(allow_local_files=True)


@pytest.fixture
def task() -> Iterator[TaskContext]:
    context = TaskContext._getOrCreate()
    context._localProperties = {}
    yield context
    TaskContext._setTaskContext(None)


def test_a_chunk_is_read_below_the_root_of_the_query(task: TaskContext, tmp_path: Path) -> None:
    reference = names.PackName(1, 0, 7, 1, "0123456789abcdef", names.Before(7, 7)).reference
    pack = packfile.build(reference, [ranges.PackedChunk(0, 1, b"chunk")])
    file = tmp_path / "generations" / "q" / names.key("mean", reference)
    file.parent.mkdir(parents=True)
    file.write_bytes(pack.body)
    task._localProperties = {packedlog.ROOT_PROPERTY: f"file:{tmp_path}/generations/q"}

    assert packedlog.reader_of("mean", _HERE).read(pack.ranges[0]) == b"chunk"


def test_a_task_that_belongs_to_no_query_of_a_job_says_so(task: TaskContext) -> None:
    with pytest.raises(errors.InternalError, match="'mean'"):
        packedlog.reader_of("mean", _HERE)


def test_an_operator_that_no_job_runs_says_so(task: TaskContext, tmp_path: Path) -> None:
    task._localProperties = {packedlog.ROOT_PROPERTY: f"file:{tmp_path}"}

    with pytest.raises(errors.InternalError, match="'mean'"):
        packedlog.reader_of("mean", None)


def test_a_task_writes_its_pack_under_the_names_of_its_partition_and_batch(task: TaskContext, tmp_path: Path) -> None:
    task._localProperties = {
        packedlog.ROOT_PROPERTY: f"file:{tmp_path}/q",
        packedlog.EPOCH_PROPERTY: "7",
        "streaming.sql.batchId": "12",
        "spark.sql.shuffle.partitions": "2",
    }

    place = packedlog.place_of("mean", _HERE, 5, groups=6)

    assert place.store.uri == f"file://{tmp_path}/q"
    assert (place.uid, place.partitions, place.batch, place.epoch) == ("mean", 2, 12, 7)
    assert (place.partition, place.groups) == (1, (1, 3, 5))


def test_the_number_of_the_driver_counts_whatever_the_settings_of_the_batch_are(task: TaskContext) -> None:
    task._localProperties = {"spark.sql.shuffle.partitions": "2", cleaning.PARTITIONS_PROPERTY: "7"}

    assert cleaning.partitions_of_task() == 7


def test_a_task_without_a_batch_writes_no_pack(task: TaskContext, tmp_path: Path) -> None:
    task._localProperties = {packedlog.ROOT_PROPERTY: f"file:{tmp_path}/q"}

    with pytest.raises(errors.InternalError, match=r"streaming\.sql\.batchId"):
        packedlog.place_of("mean", _HERE, 5, groups=6)


def test_a_query_tells_its_tasks_where_it_runs() -> None:
    said: dict[str, str] = {}
    session = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=said.__setitem__))

    packedlog.tell_tasks(cast("SparkSession", session), "s3a://bucket/q", 7, 4, {("sum", 3), ("mean", 2)})

    assert said == {
        packedlog.ROOT_PROPERTY: "s3a://bucket/q",
        packedlog.EPOCH_PROPERTY: "7",
        cleaning.PARTITIONS_PROPERTY: "4",
        packedlog.PACKED_PROPERTY: "mean:2,sum:3",
    }


def _pack(uid: str, partitions: int, partition: int, batch: int) -> str:
    said = names.Before(batch, batch)
    return names.key(uid, names.PackName(partitions, partition, batch, 1, "0123456789abcdef", said).reference)


def test_a_query_knows_which_operators_have_packs_of_which_numbers_of_partitions() -> None:
    store = stores.MemoryStore()
    for key in (_pack("mean", 2, 0, 1), _pack("mean", 2, 1, 1), _pack("sum", 3, 0, 4)):
        store.write(f"generations/1/q/{key}", b"")
    store.write("generations/1/other/packs/mean", b"")

    assert packedlog.packed_operators(store, "generations/1/q") == {("mean", 2), ("sum", 3)}


@pytest.mark.parametrize(
    ("packed", "own_batch", "is_owed"),
    [
        pytest.param("", None, False, id="without packs"),
        pytest.param("sum:3", None, False, id="packs of another operator"),
        pytest.param("mean:2", None, False, id="packs of the same number of partitions"),
        pytest.param("mean:2,mean:3", None, True, id="none of its own"),
        pytest.param("mean:3", 3, True, id="an older one of its own"),
        pytest.param("mean:3", 5, False, id="a newer one of its own"),
        pytest.param("mean:3", 12, True, id="one of its own batch, which may be lost"),
    ],
)
def test_a_partition_owes_a_pack_after_those_of_another_number(
    task: TaskContext, packed: str, own_batch: int | None, is_owed: bool
) -> None:
    root = stores.MemoryStore().child(f"{packed} {own_batch}")
    for key in [_pack("mean", 3, 0, 4), *([] if own_batch is None else [_pack("mean", 2, 1, own_batch)])]:
        root.write(key, b"")
    task._localProperties = {packedlog.PACKED_PROPERTY: packed, "spark.sql.shuffle.partitions": "2"}
    place = packedlog.PackPlace(root, "mean", 2, 1, 12, 1, (1, 3, 5))

    assert packedlog.is_owed("mean", lambda: place) is is_owed


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, packedlog.Thresholds(64 << 10, 8 << 20, 64 << 20), id="as it is"),
        pytest.param({packedlog.PACKS: "false", packedlog.PACK_BYTES: "1"}, None, id="off"),
        pytest.param({packedlog.PACKS: "true"}, packedlog.Thresholds(64 << 10, 8 << 20, 64 << 20), id="on"),
        pytest.param(
            {packedlog.PACKS: "true", packedlog.PACK_BYTES: "1"}, packedlog.Thresholds(1, 1, 64 << 20), id="all"
        ),
        pytest.param(
            {packedlog.PACKS: "true", packedlog.PACK_BYTES: str(128 << 20)},
            packedlog.Thresholds(1 << 20, 128 << 20, 128 << 20),
            id="few",
        ),
    ],
)
def test_which_changes_become_packs(settings: dict[str, str], expected: packedlog.Thresholds | None) -> None:
    session = cast("SparkSession", SimpleNamespace(conf=settings))

    assert packedlog.thresholds(session, _HERE) == expected
    assert packedlog.thresholds(session, None) is None


@pytest.mark.parametrize("text", ["8m", "0", "-1", ""])
def test_a_number_of_bytes_that_is_none_is_refused(text: str) -> None:
    session = cast("SparkSession", SimpleNamespace(conf={packedlog.PACKS: "true", packedlog.PACK_BYTES: text}))

    with pytest.raises(errors.SpecRejectedError, match="such as 8388608") as refused:
        packedlog.thresholds(session, _HERE)
    assert refused.value.reason == "ConfigInvalid"


def test_an_operator_knows_how_the_job_that_is_built_reaches_storage() -> None:
    assert registry.storage_options() is None
    with registry.collecting(registry.OperatorRegistry(), query_uid="q", options=_HERE):
        assert registry.storage_options() == _HERE
