"""A worker finds packs below the checkpoint root that its task was given, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pyspark import TaskContext
from statefulspark import errors
from statefulspark.contract.placement import Placement
from statefulspark.operators.keyed import packplaces, registry
from statefulspark.packs import names, packfile
from statefulspark.storage import StorageOptions

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
    pack = packfile.build(reference, [packfile.PackedChunk(0, 1, b"chunk")])
    file = tmp_path / "generations" / "q" / names.key("mean", reference)
    file.parent.mkdir(parents=True)
    file.write_bytes(pack.body)
    task._localProperties = {packplaces.ROOT_PROPERTY: f"file:{tmp_path}/generations/q"}

    assert packplaces.reader_of("mean", _HERE).read(pack.ranges[0]) == b"chunk"


def test_a_task_that_belongs_to_no_query_of_a_job_says_so(task: TaskContext) -> None:
    with pytest.raises(errors.InternalError, match="'mean'"):
        packplaces.reader_of("mean", _HERE)


def test_an_operator_that_no_job_runs_says_so(task: TaskContext, tmp_path: Path) -> None:
    task._localProperties = {packplaces.ROOT_PROPERTY: f"file:{tmp_path}"}

    with pytest.raises(errors.InternalError, match="'mean'"):
        packplaces.reader_of("mean", None)


@pytest.mark.parametrize(
    ("placement", "partition", "groups"),
    [
        pytest.param(Placement.EVEN, 1, (1, 3, 5), id="even"),
        pytest.param(Placement.HASHED, 0, (2, 4, 5), id="hashed"),
    ],
)
def test_a_task_writes_its_pack_under_the_names_of_its_partition_and_batch(
    task: TaskContext, tmp_path: Path, placement: Placement, partition: int, groups: tuple[int, ...]
) -> None:
    task._localProperties = {
        packplaces.ROOT_PROPERTY: f"file:{tmp_path}/q",
        packplaces.EPOCH_PROPERTY: "7",
        "streaming.sql.batchId": "12",
        "spark.sql.shuffle.partitions": "2",
    }

    place = packplaces.place_of("mean", _HERE, 5, placement, groups=6)

    assert place.store.uri == f"file://{tmp_path}/q"
    assert (place.uid, place.partitions, place.batch, place.epoch) == ("mean", 2, 12, 7)
    assert (place.partition, place.groups) == (partition, groups)


def test_a_task_without_a_batch_writes_no_pack(task: TaskContext, tmp_path: Path) -> None:
    task._localProperties = {packplaces.ROOT_PROPERTY: f"file:{tmp_path}/q"}

    with pytest.raises(errors.InternalError, match=r"streaming\.sql\.batchId"):
        packplaces.place_of("mean", _HERE, 5, Placement.EVEN, groups=6)


def test_a_query_tells_its_tasks_where_it_runs() -> None:
    said: dict[str, str] = {}
    session = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=said.__setitem__))

    packplaces.tell_tasks(cast("SparkSession", session), "s3a://bucket/q", 7)

    assert said == {packplaces.ROOT_PROPERTY: "s3a://bucket/q", packplaces.EPOCH_PROPERTY: "7"}


def test_an_operator_knows_how_the_job_that_is_built_reaches_storage() -> None:
    assert registry.storage_options() is None
    with registry.collecting(registry.OperatorRegistry(), query_uid="q", options=_HERE):
        assert registry.storage_options() == _HERE
