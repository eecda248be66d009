"""Reads state stores as DataFrames and writes them back, with the Java classes of `io.statefulspark.state`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from statefulspark.engine import session as spark_session

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

PARTITION_KEY, ORDINAL = "partition_key", "ordinal"

_PARQUET_TYPES = (
    spark_types.StringType,
    spark_types.BinaryType,
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
)


def side_session(session: SparkSession) -> SparkSession:
    """Return a session of the same application for work beside queries: small Python batches, its own scheduler pool."""
    side = session.newSession()
    side.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    side.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(8 << 20))
    # The number of partitions must not change: state that is written for five is read back as five.
    side.conf.set("spark.sql.adaptive.enabled", "false")
    side.sparkContext.setLocalProperty("spark.scheduler.pool", "canonical")
    return side


def read_families(
    session: SparkSession, root: str, operator_id: int, store: str, schema_paths: Sequence[str] = ()
) -> spark_types.StructType:
    """Return the column families of a store: a struct `<key, value>` for each.

    Args:
        session: Any session of the application.
        root: Hadoop URI of a checkpoint root.
        operator_id: The operator.
        store: The store.
        schema_paths: Paths of the schemas; metadata of version 2 names them, version 1 has a fixed path.
    """
    text: str = _package(session).StateReader.families(
        session._jsparkSession, root, operator_id, store, list(schema_paths)
    )
    return spark_types.StructType.fromJson(json.loads(text))


def read_store(
    session: SparkSession,
    root: str,
    batch_id: int,
    operator_id: int,
    store: str,
    families: spark_types.StructType,
) -> DataFrame:
    """Return a store at a committed batch: `partition_key`, then a column per family, null in the rows of other families.

    A task copies the files of its partitions, one after the other, to its local disk.
    """
    reader = _package(session).StateReader
    raw = reader.read(session._jsparkSession, root, batch_id, operator_id, store)
    partition_key = cast("dict[str, list[dict[str, object]]]", json.loads(raw.schema().json()))["fields"][0]
    distinct_key = _distinct(spark_types.StructField.fromJson(partition_key).dataType)
    schema = spark_types.StructType([spark_types.StructField(PARTITION_KEY, distinct_key), *families.fields])
    return DataFrame(reader.unpack(session._jsparkSession, raw, schema.json()), session)


def storable(families: spark_types.StructType) -> spark_types.StructType:
    """Return families with types that Parquet can store.

    A key or value of a type that Parquet has no column for becomes binary. Columns with the same name, for example of an
    aggregation with two maxima, get numbers. Packing and unpacking of rows use only positions.
    """
    stored = []
    for family in families.fields:
        sides = []
        for side in cast("spark_types.StructType", family.dataType).fields:
            kind = _distinct(side.dataType) if fits_parquet(side.dataType) else spark_types.BinaryType()
            sides.append(spark_types.StructField(side.name, kind))
        stored.append(spark_types.StructField(family.name, spark_types.StructType(sides)))
    return spark_types.StructType(stored)


def _distinct(kind: spark_types.DataType) -> spark_types.DataType:
    """Number the second and later fields of a name, at every depth."""
    if isinstance(kind, spark_types.ArrayType):
        return spark_types.ArrayType(_distinct(kind.elementType), kind.containsNull)
    if isinstance(kind, spark_types.MapType):
        return spark_types.MapType(_distinct(kind.keyType), _distinct(kind.valueType), kind.valueContainsNull)
    if not isinstance(kind, spark_types.StructType):
        return kind
    used_names: set[str] = set()
    fields = []
    for field in kind.fields:
        name, number = field.name, 2
        while name.lower() in used_names:
            name, number = f"{field.name}_{number}", number + 1
        used_names.add(name.lower())
        fields.append(spark_types.StructField(name, _distinct(field.dataType), field.nullable))
    return spark_types.StructType(fields)


def fits_parquet(kind: spark_types.DataType) -> bool:
    """Tell whether Parquet stores and returns values of a type unchanged."""
    if isinstance(kind, spark_types.StructType):
        return bool(kind.fields) and all(fits_parquet(field.dataType) for field in kind.fields)
    if isinstance(kind, spark_types.ArrayType):
        return fits_parquet(kind.elementType)
    if isinstance(kind, spark_types.MapType):
        return fits_parquet(kind.keyType) and fits_parquet(kind.valueType)
    return isinstance(kind, _PARQUET_TYPES)


def write_stores(
    session: SparkSession, root: str, batch_id: int, stores: Mapping[tuple[int, str], DataFrame], partitions: int
) -> dict[int, tuple[tuple[str, ...], ...]]:
    """Write the complete state of every operator of a root.

    Args:
        session: From `side_session`.
        root: Hadoop URI of a checkpoint root that has offsets, commit, metadata and schemas of the batch, and no state.
        batch_id: The batch.
        stores: By operator id and store name: `partition_key`, `ordinal`, then a column per family.
        partitions: Number of state partitions.

    Returns:
        The unique ids for the commit, by operator id, then partition.
    """
    # The state data source needs the coordinator, which Spark starts at the first access to its streams.
    _ = session.streams.active
    work = _package(session).StateImport(session._jsparkSession, partitions)
    for (operator_id, store), frame in stores.items():
        work.add(operator_id, store, frame._jdf)
    ids: dict[str, list[list[str]]] = json.loads(work.run(root, batch_id))
    return {int(operator): tuple(map(tuple, partition_ids)) for operator, partition_ids in ids.items()}


def _package(session: SparkSession) -> JavaObject:
    jvm = spark_session.jvm_view(session)
    return cast("JavaObject", jvm.io.statefulspark.state)
