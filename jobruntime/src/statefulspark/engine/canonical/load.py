"""Restores a canonical savepoint: imports state from Parquet into new stores, for any number of partitions and key groups.

The new generation already holds Spark's small files (`canonical.skeleton`). This module sets the requested number of
partitions in offsets and operator metadata, lets Spark write the state of the batch under new unique ids, and writes those
to the commit. Executors build the stores on their local disks, like a running query, so a restore needs no more disk than
the job.
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
from statefulspark.checkpoint import closure, progress, sparklog, transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.engine import taskcounts
from statefulspark.engine.canonical import export, state_tables, tasks
from statefulspark.sparkinternals import releases
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
"""Name of the only state store of a keyed operator."""


@dataclass(frozen=True, slots=True)
class StateImport:
    """Source and target of an import of canonical state into a generation.

    Attributes:
        store: The job's root.
        hadoop_root: URI of that store in Hadoop's form.
        source: Location of the savepoint.
        originals: Its queries as they are in the manifest.
        options: Options that workers open storage with.
        operators: New operator id by old operator id by query uid; a query without an entry keeps its ids.
        partitions: Number of state partitions by query uid; a query without an entry keeps its number.
        key_groups: Number of key groups by operator uid by query uid; operators without an entry keep their number.
        renamed: New uid of a query by its old uid.
        begin_step: Begins a step for each query.
    """

    store: ObjectStore
    hadoop_root: str
    source: transfer.SnapshotLocation
    originals: Sequence[QueryEntry]
    options: StorageOptions
    operators: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    key_groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    begin_step: progress.BeginStep = progress.ignore_steps


def import_state(
    session: SparkSession, state_import: StateImport, queries: Sequence[QueryEntry]
) -> tuple[QueryEntry, ...]:
    """Write the state of every query of a new generation.

    Args:
        session: Any session of the application.
        state_import: Source and target.
        queries: The skeletons of the queries in the generation.

    Returns:
        The queries with all their files.

    Raises:
        SnapshotCorruptError: `CanonicalMissing`, `CanonicalUnreadable`.
        StateUnknownError: `CanonicalFailed`: Spark could not write the state; the message says why.
        SpecRejectedError: `SparkTooOld`.
    """
    releases.require(releases.WRITING_STATE)
    import_session = state_tables.side_session(session)
    originals = {state_import.renamed.get(query.uid, query.uid): query for query in state_import.originals}
    return tuple(_import_query(import_session, state_import, originals[query.uid], query) for query in queries)


def read_document(source: transfer.SnapshotLocation, original: QueryEntry) -> documents.QueryDocument:
    """Read the document of a canonical savepoint that describes a query.

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


def _import_query(
    session: SparkSession, state_import: StateImport, original: QueryEntry, query: QueryEntry
) -> QueryEntry:
    if query.batch_id < 0 or not original.operators:
        return query
    document = read_document(state_import.source, original)
    unmoved = {operator.operator_id: operator.operator_id for operator in document.operators}
    ids = state_import.operators.get(query.uid, unmoved)
    restored_operators = [
        (ids[operator.operator_id], operator) for operator in document.operators if operator.operator_id in ids
    ]
    partitions = (
        state_import.partitions.get(query.uid)
        or engine_files.pinned_partitions(state_import.store, query.path, query.batch_id)
        or 1
    )
    engine_files.set_partitions(state_import.store, query, partitions)
    if not restored_operators:
        return query
    groups = state_import.key_groups.get(query.uid, {})
    folder = tasks.QueryFolder(
        state_import.source.store.uri, state_import.source.key(original, "")[:-1], state_import.options
    )
    root = f"{state_import.hadoop_root}/{query.path}"
    try:
        stores = {
            (new_id, store): frame
            for new_id, operator in restored_operators
            for store, frame in _stores(
                session,
                folder,
                operator,
                _OperatorTarget(state_import, query, new_id, partitions, groups.get(operator.uid)),
            )
        }
        with taskcounts.reported(session, state_import.begin_step(f"Importing the state of query {query.uid!r}")):
            written = state_tables.write_stores(session, root, query.batch_id, stores, partitions)
    except PySparkException as error:
        raise export.failed(
            f"The state of query {query.uid!r} cannot be restored from {folder.uri}/{folder.path}", error
        ) from error
    engine_files.set_state_ids(state_import.store, query, written)
    batch_files = closure.close_over(state_import.store, query.path, query.batch_id)
    entries = {operator.operator_id: operator for operator in query.operators}
    group_counts = {
        new_id: groups.get(operator.uid) or operator.max_parallelism for new_id, operator in restored_operators
    }
    operators = tuple(
        entries.get(entry.operator_id, entry).model_copy(
            update={"partitions": entry.partitions, "max_parallelism": group_counts.get(entry.operator_id)}
        )
        for entry in batch_files.operators
    )
    return query.model_copy(update={"files": batch_files.files, "operators": operators})


@dataclass(frozen=True, slots=True)
class _OperatorTarget:
    """The store of an operator that state is written to, and its numbers of partitions and key groups."""

    state_import: StateImport
    query: QueryEntry
    operator_id: int
    partitions: int
    groups: int | None

    @property
    def metadata(self) -> sparklog.OperatorMetadata:
        """Spark's metadata of the operator in the generation."""
        return engine_files.operator_metadata(self.state_import.store, self.query, self.operator_id)

    def families(self, session: SparkSession, metadata: sparklog.OperatorMetadata) -> spark_types.StructType:
        """Return the column families of a keyed operator, from its schemas in the generation."""
        root = f"{self.state_import.hadoop_root}/{self.query.path}"
        paths = engine_files.schema_paths(metadata, _STORE)
        return state_tables.read_families(session, root, self.operator_id, _STORE, paths)


def _stores(
    session: SparkSession, folder: tasks.QueryFolder, operator: documents.CanonicalOperator, target: _OperatorTarget
) -> list[tuple[str, DataFrame]]:
    """Return each store of an operator in the form that `state_tables.write_stores` expects."""
    if operator.is_keyed:
        return [(_STORE, _keyed_store(session, folder, operator, target))]
    return [(store.name, _family_store(session, folder, store)) for store in operator.stores]


def _keyed_store(
    session: SparkSession, folder: tasks.QueryFolder, operator: documents.CanonicalOperator, target: _OperatorTarget
) -> DataFrame:
    """Assign every key to its key group for the new number of groups, and build the groups."""
    partitions, metadata = target.partitions, target.metadata
    groups = target.groups or operator.max_parallelism or keygroups.DEFAULT_MAX_PARALLELISM
    require_unmixed(operator, groups)
    read = tasks.ReadStates(folder, operator.states, operator.key_types)
    named = [(index, part) for index, state in enumerate(operator.states) for part in range(len(state.files))]
    files = session.createDataFrame(named, "state int, part int").repartition(max(1, min(len(named), partitions)))
    entries = files.mapInArrow(read, read.schema) if named else session.createDataFrame([], read.schema)
    hashed = sql.hash(*(sql.col(f"hash_{index}") for index in range(len(operator.key_types)))) if named else sql.lit(0)
    grouped = entries.select(
        "state", "key", "sub", "value", "renewed", sql.pmod(hashed, sql.lit(groups)).alias("key_group")
    )
    built = (
        grouped.repartition(partitions, "key_group")
        .sortWithinPartitions("key_group")
        .mapInArrow(tasks.BuildGroups(operator.states, operator.key_types), tasks.GROUPS)
    )
    group = sql.struct("key_group")
    head = sql.struct(group.alias("key"), sql.struct("version", "id", "base", "layout").alias("value"))
    chunk = sql.struct(
        sql.struct(group.alias("key"), sql.struct("version").alias("userKey")).alias("key"),
        sql.struct("id", "blob").alias("value"),
    )
    families = target.families(session, metadata)
    return built.select(
        group.alias(state_tables.PARTITION_KEY),
        sql.lit(0).cast("bigint").alias(state_tables.ORDINAL),
        head.alias(layout.head_variable(operator.uid)),
        chunk.alias(layout.log_variable(operator.uid)),
        *(wake for family in families.fields if (wake := _wake_up(family)) is not None),
    )


def require_unmixed(operator: documents.CanonicalOperator, groups: int) -> None:
    """Refuse another number of key groups for a state that is not migrated in all of them: these would hold both types.

    Raises:
        SpecRejectedError: `MaxParallelismChanged`.
    """
    if groups == operator.max_parallelism:
        return
    types: dict[str, str] = {}
    for state in operator.states:
        text = f"{state.type} with a time to live" if state.has_ttl else state.type
        if state.name in types:
            raise errors.SpecRejectedError(
                "MaxParallelismChanged",
                f"State {state.name!r} of operator {operator.uid!r} is not migrated in all of its key groups: some have the "
                f"type {types[state.name]}, others {text}. Key groups of another number would have both. Leave "
                f"max_parallelism out, or set it to {operator.max_parallelism} (got {groups}).",
            )
        types[state.name] = text


def _wake_up(family: spark_types.StructField) -> Column | None:
    """Return a Spark timer that is due at once, for key groups with timers; the operator then sets the next one."""
    if family.name.startswith("$") and "Timers_" in family.name:
        group, due = sql.struct("key_group").alias("key"), sql.lit(1).cast("bigint").alias("expiryTimestampMs")
        key = sql.struct(due, group) if family.name.endswith("_timestampToKey") else sql.struct(group, due)
        timer = sql.struct(key.alias("key"), sql.struct(sql.lit(None).alias("__dummy__")).alias("value"))
        return sql.when(sql.col("has_timers"), timer.cast(family.dataType)).alias(family.name)
    return None


def _family_store(session: SparkSession, folder: tasks.QueryFolder, store: documents.StoreState) -> DataFrame:
    """Read all column families, each in its own column."""
    partition_key = spark_types.StructField(state_tables.PARTITION_KEY, _type(store.partition_key))
    ordinal = spark_types.StructField(state_tables.ORDINAL, spark_types.LongType())
    families = [
        spark_types.StructField(family.name, spark_types.StructType(_sides(family))) for family in store.families
    ]
    wide = spark_types.StructType([partition_key, ordinal, *families])
    frames = [session.createDataFrame([], wide)]
    for family in store.families:
        if family.files:
            read = tasks.ReadFamily(folder, family.files)
            narrow = spark_types.StructType([partition_key, ordinal, *_sides(family)])
            numbers = [(part,) for part in range(len(family.files))]
            rows = session.createDataFrame(numbers, "part int").repartition(len(numbers)).mapInArrow(read, narrow)
            columns = [sql.col(state_tables.PARTITION_KEY), sql.col(state_tables.ORDINAL)]
            for field_ in families:
                column = sql.struct("key", "value") if field_.name == family.name else sql.lit(None)
                columns.append(column.cast(field_.dataType).alias(field_.name))
            frames.append(rows.select(*columns))
    result = frames[0]
    for frame in frames[1:]:
        result = result.union(frame)  # Names of families may differ by case only.
    return result


def _sides(family: documents.FamilyState) -> list[spark_types.StructField]:
    return [spark_types.StructField("key", _type(family.key)), spark_types.StructField("value", _type(family.value))]


def _type(kind: object) -> spark_types.DataType:
    if isinstance(kind, dict):
        return spark_types.StructType.fromJson(cast("dict[str, object]", kind))
    return spark_types.BinaryType()


def without_partitions(changes: Mapping[str, Evolution], plan: StartPlan) -> dict[str, Evolution]:
    """Return the changes without the number of partitions if the source is canonical: its import applies that number."""
    if plan.source is None or not skeleton.is_canonical(plan.source.manifest):
        return dict(changes)
    return {uid: replace(change, partitions=None) for uid, change in changes.items()}


@dataclass(frozen=True, slots=True)
class StateImporter:
    """Imports state into the generation of a start; does nothing for a plan that is not canonical.

    Attributes:
        session: The job's session.
        store: The job's root.
        options: Options that workers open storage with.
        plan: The plan of the start.
        planned: Every query of the job.
        changes: Changes of restored queries, by uid.
        begin_step: Begins a step for each query whose state is imported.
    """

    session: SparkSession
    store: ObjectStore
    options: StorageOptions
    plan: StartPlan
    planned: tuple[PlannedQuery, ...]
    changes: Mapping[str, Evolution]
    begin_step: progress.BeginStep = progress.ignore_steps

    def then(self, finish: Finisher) -> Finisher:
        """Return a finisher that imports the state and then calls `finish`."""
        source = self.plan.source
        if source is None or source.manifest is None or not skeleton.is_canonical(source.manifest):
            return finish
        state_import = StateImport(
            store=self.store,
            hadoop_root=transfer.hadoop_uri(self.store.uri),
            source=source.location,
            originals=source.manifest.queries,
            options=self.options,
            operators={uid: change.operators for uid, change in self.changes.items()},
            partitions={query.uid: query.partitions for query in self.planned if query.partitions},
            key_groups={
                query.uid: {
                    operator.uid: operator.max_parallelism
                    for operator in query.operators
                    if operator.uid is not None and operator.max_parallelism is not None
                }
                for query in self.planned
            },
            begin_step=self.begin_step,
        )

        def import_then_finish(generation: int, queries: tuple[QueryEntry, ...]) -> tuple[QueryEntry, ...]:
            began_s = time.monotonic()
            imported = import_state(self.session, state_import, queries)
            _log.info("canonical state imported", extra={"seconds": round(time.monotonic() - began_s, 2)})
            return finish(generation, imported)

        return import_then_finish
