"""What is the Iceberg sink's own: refusals, partitions, snapshots that say what they are, and other writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import sinkworlds
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import StringType
from s3server import S3Server
from sinkcontexts import OWN
from sinkworlds import SCHEMA, World
from statefulspark import errors
from statefulspark.sinks.iceberg.sink import IcebergMachine
from statefulspark.sinks.marker import Marker


@pytest.fixture
def world(tmp_path: Path, s3: S3Server) -> World:
    return sinkworlds.iceberg_world(tmp_path, s3)


@pytest.fixture
def catalog(world: World, s3: S3Server) -> Catalog:
    options = s3.options()
    files = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.endpoint": str(options.endpoint),
        "s3.access-key-id": str(options.access_key),
        "s3.secret-access-key": str(options.secret_key),
    }
    properties = world.recipe["catalog"]
    assert isinstance(properties, dict)
    return load_catalog("default", **properties, **files)


def the_table(catalog: Catalog) -> Table:
    return catalog.load_table("shop.words")


def test_a_missing_table_is_refused_when_the_sink_is_opened(world: World) -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"IcebergTableMissing.*table shop\.nowhere does not exist"):
        sinkworlds.build({**world.recipe, "table": "shop.nowhere"}).open(world.at(0))


def test_a_stream_that_does_not_fit_is_refused_column_by_column(world: World) -> None:
    sink = world.sink
    assert isinstance(sink, IcebergMachine)
    schema = pa.schema([("id", pa.string()), ("extra", pa.int64())])
    with pytest.raises(
        errors.SpecRejectedError, match=r"id is string in the stream and int64.*; extra is not in the table"
    ):
        sink.check_schema(schema, world.context.options)


def test_each_batch_is_a_snapshot_that_says_which_one_it_is(world: World, catalog: Catalog) -> None:
    assert isinstance(world.sink, IcebergMachine)
    world.sink.open(world.at(4))
    world.sink.commit(world.prepared(world.at(4), [1, 2]), world.at(4))
    snapshot = the_table(catalog).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert Marker.parse(said["statefulspark.marker"], "the snapshot") == world.sink.stored_marker(world.at(4))
    assert {
        name: said[name] for name in said if name.startswith("statefulspark.") and not name.endswith(".marker")
    } == {
        "statefulspark.sink": world.context.transactional_id,
        "statefulspark.lineage": OWN,
        "statefulspark.generation": "1",
        "statefulspark.batch": "4",
        "statefulspark.epoch": "1",
    }


def test_partitioned_tables_are_written_by_partition(world: World, catalog: Catalog) -> None:
    spec = PartitionSpec(
        PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="word"),
        PartitionField(source_id=1, field_id=1001, transform=BucketTransform(4), name="id_bucket"),
    )
    catalog.create_table("shop.parts", the_table(catalog).schema(), partition_spec=spec)
    sink = sinkworlds.build({**world.recipe, "table": "shop.parts"})
    rows = pa.RecordBatch.from_pydict({"id": [1, 2, 3, 4], "word": ["a", "b", None, "a"]}, schema=SCHEMA)
    context = world.at(0)
    part = sink.write_part(iter([rows]), context)
    assert part is not None
    prepared = sink.prepare((part,), context)
    assert prepared is not None
    sink.open(context)
    sink.commit(prepared, context)
    table = catalog.load_table("shop.parts")
    assert sorted(table.scan(row_filter="word = 'a'").to_arrow().column("id").to_pylist()) == [1, 4]
    assert {task.file.partition[0] for task in table.scan().plan_files()} == {"a", "b", None}


def test_a_struct_that_the_table_has_extended_is_written_by_the_names_of_its_fields(
    world: World, catalog: Catalog
) -> None:
    """The stream was started before: it knows nothing of the new field, which is the first now."""
    place = pa.array([{"city": "Berlin"}, None], pa.struct([("city", pa.string())]))
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), place], names=["id", "place"])
    catalog.create_table("shop.places", rows.schema)
    with catalog.load_table("shop.places").update_schema() as update:
        update.add_column(("place", "zip"), StringType())
        update.move_first(("place", "zip"))
    sink = sinkworlds.build({**world.recipe, "table": "shop.places"})
    assert isinstance(sink, IcebergMachine)
    context = world.at(0)

    sink.check_schema(rows.schema, context.options)
    part = sink.write_part(iter([rows]), context)
    assert part is not None
    prepared = sink.prepare((part,), context)
    assert prepared is not None
    sink.open(context)
    sink.commit(prepared, context)

    written = catalog.load_table("shop.places").scan().to_arrow().column("place").to_pylist()
    assert written == [{"zip": None, "city": "Berlin"}, None]


def test_commits_of_other_writers_and_expired_snapshots_do_no_harm(world: World, catalog: Catalog) -> None:
    world.sink.open(world.at(0))
    first = world.prepared(world.at(0), [1, 2])
    world.sink.commit(first, world.at(0))
    for number in (100, 101):
        the_table(catalog).append(pa.Table.from_pydict({"id": [number], "word": ["theirs"]}, schema=SCHEMA))
    table = the_table(catalog)
    kept = table.current_snapshot()
    assert kept is not None
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != kept.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    world.sink.open(world.at(0, epoch=2))
    world.sink.commit(first, world.at(0, epoch=2))
    world.sink.abort(first, world.at(0, epoch=2))
    assert world.read() == [1, 2, 100, 101]


def test_a_table_that_was_made_anew_under_the_name_is_not_taken_for_the_old_one(world: World, catalog: Catalog) -> None:
    prepared = world.prepared(world.at(0), [1, 2])
    catalog.drop_table("shop.words")
    catalog.create_table("shop.words", SCHEMA)
    world.sink.open(world.at(0))
    with pytest.raises(errors.StateUnknownError, match="IcebergTableReplaced"):
        world.sink.commit(prepared, world.at(0))


def test_a_table_whose_partitioning_changed_meanwhile_is_left_alone(world: World, catalog: Catalog) -> None:
    prepared = world.prepared(world.at(0), [1, 2])
    with the_table(catalog).update_spec() as update:
        update.add_field("word", IdentityTransform(), "word_part")
    world.sink.open(world.at(0))
    with pytest.raises(errors.StateUnknownError, match="IcebergPartitioningChanged"):
        world.sink.commit(prepared, world.at(0))
    assert world.read() == []


def test_sinks_of_one_job_commit_to_one_table_at_the_same_time(world: World) -> None:
    """Each has a thread of its own; a driver with many of them that stops has a minute for all."""
    batches = {
        uid: [(replace(world.at(number), uid=uid), [100 * first + number]) for number in range(3)]
        for first, uid in enumerate(["a", "b", "c", "d"])
    }
    prepared = {uid: [(world.prepared(at, ids), at) for at, ids in of_sink] for uid, of_sink in batches.items()}
    for of_sink in prepared.values():
        world.sink.open(of_sink[0][1])

    def commit_all(uid: str) -> None:
        for transaction, at in prepared[uid]:
            world.sink.commit(transaction, at)

    with ThreadPoolExecutor(len(prepared)) as threads:
        list(threads.map(commit_all, prepared))
    assert world.read() == [0, 1, 2, 100, 101, 102, 200, 201, 202, 300, 301, 302]
