"""Restoring a canonical savepoint: state out of Parquet into new stores, for any partitions and any number of key groups.

A new generation holds the engine's small files already (`shells`). Here offsets and operator metadata get the wanted number
of partitions, Spark writes the state of the batch under new unique ids, and the commit names those. The stores are built on
the disks of the executors, where a running query keeps them too, so a restore needs no more disk than the job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from statefulspark import errors
from statefulspark.canonical import documents, engine_files, skeleton
from statefulspark.checkpoint import closure, sparklog, transfer
from statefulspark.contract.manifest import OperatorEntry, QueryEntry
from statefulspark.contract.placement import Placement
from statefulspark.engine.canonical import export, state_tables, tasks
from statefulspark.state import keygroups
from statefulspark.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from statefulspark.checkpoint.plans import PlannedQuery
    from statefulspark.evolution.comparison import Evolution
    from statefulspark.recovery.plan import StartPlan
    from statefulspark.recovery.restore import Finisher
    from statefulspark.storage import StorageOptions


_log = logging.getLogger(__name__)
_STORE = "default"
"""The one state store of a keyed operator."""


@dataclass(frozen=True, slots=True)
class Filling:
    """How the state of a canonical savepoint comes into a generation.

    Attributes:
        store: The job's root.
        hadoop_root: URI of that store as Spark sees it.
        source: Where the savepoint is.
        originals: Its queries as the manifest has them.
        options: How workers reach storage.
        operators: New operator id by old one by query uid; a query that is not named keeps its ids.
        partitions: Number of state partitions by query uid; a query that is not named keeps its number.
        key_groups: Number of key groups by operator uid by query uid; those not named keep theirs.
        renamed: New uid of a query by its old one.
    """

    store: ObjectStore
    hadoop_root: str
    source: transfer.SnapshotPlace
    originals: Sequence[QueryEntry]
    options: StorageOptions
    operators: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    key_groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


def fill(session: SparkSession, filling: Filling, queries: Sequence[QueryEntry]) -> tuple[QueryEntry, ...]:
    """Write the state of every query of a new generation.

    Args:
        session: Any session of the application.
        filling: How.
        queries: The shells as they are in the generation.

    Returns:
        The queries with all their files.

    Raises:
        SnapshotCorruptError: `CanonicalMissing`, `CanonicalUnreadable`.
        StateUnknownError: `CanonicalFailed`: Spark could not write the state; the message says why.
    """
    beside = state_tables.side_session(session)
    originals = {filling.renamed.get(query.uid, query.uid): query for query in filling.originals}
    return tuple(_fill_query(beside, filling, originals[query.uid], query) for query in queries)


def read_document(source: transfer.SnapshotPlace, original: QueryEntry) -> documents.QueryDocument:
    """Read what a canonical savepoint says about a query.

    Raises:
        SnapshotCorruptError: `CanonicalMissing`, or it is unreadable.
    """
    key = source.key(original, documents.QUERY_DOCUMENT)
    try:
        body = source.store.read(key)
    except errors.ObjectNotFoundError as error:
        raise errors.SnapshotCorruptError(
            "CanonicalMissing", f"{source.store.uri}/{key} does not exist. Restore another snapshot."
        ) from error
    return documents.QueryDocument.parse(body, f"{source.store.uri}/{key}")


def _fill_query(session: SparkSession, filling: Filling, original: QueryEntry, query: QueryEntry) -> QueryEntry:
    if query.batch_id < 0 or not original.operators:
        return query
    document = read_document(filling.source, original)
    ids = filling.operators.get(query.uid) or {one.operator_id: one.operator_id for one in document.operators}
    kept = [(ids[one.operator_id], one) for one in document.operators if one.operator_id in ids]
    if not kept:
        return query
    partitions = filling.partitions.get(query.uid) or max(one.partitions for one in original.operators)
    engine_files.set_partitions(filling.store, query, partitions)
    groups = filling.key_groups.get(query.uid, {})
    place = tasks.Place(filling.source.store.uri, filling.source.key(original, "")[:-1], filling.options)
    root = f"{filling.hadoop_root}/{query.path}"
    try:
        stores = {
            (new_id, store): frame
            for new_id, operator in kept
            for store, frame in _stores(
                session, place, operator, _Wanted(filling, query, new_id, partitions, groups.get(operator.uid))
            )
        }
        written = state_tables.write_stores(session, root, query.batch_id, stores, partitions)
    except PySparkException as error:
        raise export.failed(
            f"The state of query {query.uid!r} cannot be restored from {place.uri}/{place.folder}", error
        ) from error
    engine_files.set_state_ids(filling.store, query, written)
    closed = closure.close_over(filling.store, query.path, query.batch_id)
    known = {one.operator_id: one for one in query.operators}
    chosen = {new_id: groups.get(one.uid) or one.max_parallelism for new_id, one in kept}
    operators = tuple(_described(one, known, chosen) for one in closed.operators)
    return query.model_copy(update={"files": closed.files, "operators": operators})


def _described(
    found: OperatorEntry, known: Mapping[int, OperatorEntry], groups: Mapping[int, int | None]
) -> OperatorEntry:
    before = known.get(found.operator_id, found)
    return before.model_copy(update={"partitions": found.partitions, "max_parallelism": groups.get(found.operator_id)})


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Where an operator's state goes, and how it is spread."""

    filling: Filling
    query: QueryEntry
    operator_id: int
    partitions: int
    groups: int | None

    @property
    def metadata(self) -> sparklog.OperatorMetadata:
        """What the engine says about the operator in the generation."""
        return engine_files.operator_metadata(self.filling.store, self.query, self.operator_id)

    def families(self, session: SparkSession, metadata: sparklog.OperatorMetadata) -> spark_types.StructType:
        """Return the column families of a keyed operator of ours, as its schemas in the generation name them."""
        root = f"{self.filling.hadoop_root}/{self.query.path}"
        paths = engine_files.schema_paths(metadata, _STORE)
        return state_tables.read_families(session, root, self.operator_id, _STORE, paths)


def _stores(
    session: SparkSession, place: tasks.Place, operator: documents.OperatorState, wanted: _Wanted
) -> list[tuple[str, DataFrame]]:
    """Return each store of an operator, as `tables.write_stores` takes it."""
    if operator.is_keyed:
        return [(_STORE, _keyed_store(session, place, operator, wanted))]
    return [(store.name, _family_store(session, place, store)) for store in operator.stores]


def _keyed_store(
    session: SparkSession, place: tasks.Place, operator: documents.OperatorState, wanted: _Wanted
) -> DataFrame:
    """Put every key into its group of the new number, and the groups together."""
    partitions, metadata = wanted.partitions, wanted.metadata
    placement = metadata.placement or Placement.HASHED
    groups = wanted.groups or operator.max_parallelism or keygroups.DEFAULT_MAX_PARALLELISM
    read = tasks.ReadStates(place, operator.states, operator.key_types)
    named = [(state, part) for state, one in enumerate(operator.states) for part in range(len(one.files))]
    files = session.createDataFrame(named, "state int, part int").repartition(max(1, min(len(named), partitions)))
    entries = files.mapInArrow(read, read.schema) if named else session.createDataFrame([], read.schema)
    hashed = sql.hash(*(sql.col(f"hash_{index}") for index in range(len(operator.key_types)))) if named else sql.lit(0)
    grouped = entries.select(
        "state", "key", "sub", "value", "renewed", sql.pmod(hashed, sql.lit(groups)).alias("key_group")
    )
    built = (
        grouped.repartition(partitions, "key_group")
        .sortWithinPartitions("key_group")
        .mapInArrow(tasks.BuildGroups(operator.states, operator.key_types, placement), tasks.GROUPS)
    )
    group = sql.struct("key_group")
    head = sql.struct(group.alias("key"), sql.struct("version", "id", "base", "layout").alias("value"))
    chunk = sql.struct(
        sql.struct(group.alias("key"), sql.struct("version").alias("userKey")).alias("key"),
        sql.struct("id", "blob").alias("value"),
    )
    families = wanted.families(session, metadata)
    return built.select(
        group.alias(state_tables.PARTITION_KEY),
        sql.lit(0).cast("bigint").alias(state_tables.ORDINAL),
        head.alias(placement.head(operator.uid)),
        chunk.alias(placement.log(operator.uid)),
        *(wake for family in families.fields if (wake := _wake_up(family)) is not None),
    )


def _wake_up(family: spark_types.StructField) -> Column | None:
    """Return a timer of the engine that is due at once, for key groups with timers; the operator sets the next."""
    if family.name.startswith("$") and "Timers_" in family.name:
        group, due = sql.struct("key_group").alias("key"), sql.lit(1).cast("bigint").alias("expiryTimestampMs")
        key = sql.struct(due, group) if family.name.endswith("_timestampToKey") else sql.struct(group, due)
        both = sql.struct(key.alias("key"), sql.struct(sql.lit(None).alias("__dummy__")).alias("value"))
        return sql.when(sql.col("has_timers"), both.cast(family.dataType)).alias(family.name)
    return None


def _family_store(session: SparkSession, place: tasks.Place, store: documents.StoreState) -> DataFrame:
    """Read every column family, each in its own column."""
    partition_key = spark_types.StructField(state_tables.PARTITION_KEY, _type(store.partition_key))
    ordinal = spark_types.StructField(state_tables.ORDINAL, spark_types.LongType())
    families = [_family_field(family) for family in store.families]
    wide = spark_types.StructType([partition_key, ordinal, *families])
    frames = [session.createDataFrame([], wide)]
    for family in store.families:
        if family.files:
            read = tasks.ReadFamily(place, family.files)
            narrow = spark_types.StructType([partition_key, ordinal, *_sides(family)])
            named = [(part,) for part in range(len(family.files))]
            rows = session.createDataFrame(named, "part int").repartition(len(named)).mapInArrow(read, narrow)
            frames.append(rows.select(*(_column(field, family.name) for field in wide.fields)))
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _column(field_: spark_types.StructField, family: str) -> Column:
    if field_.name in (state_tables.PARTITION_KEY, state_tables.ORDINAL):
        return sql.col(field_.name)
    column = sql.struct("key", "value") if field_.name == family else sql.lit(None)
    return column.cast(field_.dataType).alias(field_.name)


def _family_field(family: documents.FamilyState) -> spark_types.StructField:
    return spark_types.StructField(family.name, spark_types.StructType(_sides(family)))


def _sides(family: documents.FamilyState) -> list[spark_types.StructField]:
    return [spark_types.StructField("key", _type(family.key)), spark_types.StructField("value", _type(family.value))]


def _type(kind: object) -> spark_types.DataType:
    if isinstance(kind, dict):
        return spark_types.StructType.fromJson(cast("dict[str, object]", kind))
    return spark_types.BinaryType()


def without_partitions(changes: Mapping[str, Evolution], plan: StartPlan) -> dict[str, Evolution]:
    """Return what is left for others to do: state of a canonical savepoint is written for the wanted partitions at once."""
    if plan.source is None or not skeleton.is_canonical(plan.source.manifest):
        return dict(changes)
    return {uid: replace(change, partitions=None) for uid, change in changes.items()}


@dataclass(frozen=True, slots=True)
class Filler:
    """Fills the generation of a start; does nothing for a plan that is not canonical.

    Attributes:
        session: The job's session.
        store: The job's root.
        options: How workers reach storage.
        plan: The plan of the start.
        planned: Every query of the job.
        changes: What becomes of restored queries, by uid.
    """

    session: SparkSession
    store: ObjectStore
    options: StorageOptions
    plan: StartPlan
    planned: tuple[PlannedQuery, ...]
    changes: Mapping[str, Evolution]

    def then(self, finish: Finisher) -> Finisher:
        """Return what fills in the state, then does the rest."""
        source = self.plan.source
        if source is None or source.manifest is None or not skeleton.is_canonical(source.manifest):
            return finish
        how = Filling(
            store=self.store,
            hadoop_root=transfer.hadoop_uri(self.store.uri),
            source=source.place,
            originals=source.manifest.queries,
            options=self.options,
            operators={uid: change.operators for uid, change in self.changes.items()},
            partitions={one.uid: one.partitions for one in self.planned if one.partitions},
            key_groups={
                one.uid: {
                    operator.uid: operator.max_parallelism
                    for operator in one.operators
                    if operator.uid is not None and operator.max_parallelism is not None
                }
                for one in self.planned
            },
        )

        def fill_then_finish(generation: int, queries: tuple[QueryEntry, ...]) -> tuple[QueryEntry, ...]:
            began_s = time.monotonic()
            filled = fill(self.session, how, queries)
            _log.info("canonical state filled in", extra={"seconds": round(time.monotonic() - began_s, 2)})
            return finish(generation, filled)

        return fill_then_finish
