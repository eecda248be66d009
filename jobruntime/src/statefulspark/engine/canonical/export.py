"""Writes a canonical savepoint: reads the state of committed batches with Spark, and writes it as Parquet.

It reads the files of a cut, which the caller protects from pruning, and writes only to the savepoint's folder, so the job
keeps running. One task reads one partition after the other (`parallelism=1`): it needs disk for the state of one partition
and about 100 MB of memory, and uses one core of the job. More tasks are faster, and each needs the same amount.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue
from pyspark.errors import PySparkException
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from statefulspark import clock, errors
from statefulspark.canonical import documents, engine_files, key_columns, skeleton
from statefulspark.checkpoint import checksums, listing, plans, progress, savepoint, transfer
from statefulspark.contract import api, layout
from statefulspark.contract.manifest import FileEntry, OperatorEntry, QueryEntry
from statefulspark.engine.canonical import state_tables, tasks
from statefulspark.recovery import stored_formats
from statefulspark.sparkinternals import stateformats
from statefulspark.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from statefulspark.storage import StorageOptions

_COLUMN = "family_{}"
"""Column of a family by its place: the names of two may differ by case only, or one may be that of another column."""


@dataclass(frozen=True, slots=True)
class Export:
    """One canonical savepoint that is being written.

    Attributes:
        source: The store with the cut's files.
        source_hadoop: URI of that store in Hadoop's form.
        target: Folder of the savepoint.
        options: Options that workers open the target with.
        parallelism: Partitions that are read at the same time.
        on_progress: Called after each operator that is written.
        lifetimes_ms: Time to live by state by operator uid, for states whose expired entries are left out.
        source_options: Options that workers open the source with, for the packs that heads name; those of the target when
            omitted.
    """

    source: ObjectStore
    source_hadoop: str
    target: savepoint.SavepointTarget
    options: StorageOptions
    parallelism: int = 1
    on_progress: progress.Report | None = None
    lifetimes_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    source_options: StorageOptions | None = None

    def source_folder(self, query: QueryEntry) -> tasks.QueryFolder:
        """Return the folder that a query's state is read from."""
        return tasks.QueryFolder(self.source.uri, query.path, self.source_options or self.options)

    def query_folder(self, query: QueryEntry) -> tasks.QueryFolder:
        """Return the folder that a query's files are written to."""
        return tasks.QueryFolder(self.target.store.uri, f"{self.target.folder}/{folder_of(query)}", self.options)


def folder_of(query: QueryEntry) -> str:
    """Return a query's folder in the savepoint."""
    return f"{layout.SAVEPOINT_FILES}/{query.uid}"


def export(session: SparkSession, queries: Sequence[QueryEntry], work: Export) -> tuple[QueryEntry, ...]:
    """Write all files of a canonical savepoint except its manifest.

    Args:
        session: Any session of the application.
        queries: The cut: closures of committed batches, with the descriptions of their operators.
        work: Source and target.

    Returns:
        The queries for the manifest, with paths relative to the savepoint's folder.

    Raises:
        SpecRejectedError: `StateTypeUnsupported`.
        SnapshotCorruptError: State is missing or damaged.
        StateUnknownError: `CanonicalFailed`: Spark could not read or write; the message says why.
    """
    export_session = state_tables.side_session(session)
    counter = _ProgressCounter(sum(len(query.operators) for query in queries), work.on_progress)
    entries = []
    for query in queries:
        _require_restorable(query, work)
        states = []
        for operator in query.operators:
            names = engine_files.operator_metadata(work.source, query, operator.operator_id).store_names
            try:
                if plans.has_generated_uid(operator):
                    stores = tuple(_export_store(export_session, query, operator, name, work) for name in names)
                    states.append(_state(operator, stores=stores))
                else:
                    states.append(_export_keyed(export_session, query, operator, names[0], work))
            except PySparkException as error:
                raise failed(
                    f"The state of operator {operator.uid!r} of query {query.uid!r} cannot be written", error
                ) from error
            counter.increment()
        entries.append(_finish(query, tuple(states), work))
    return tuple(entries)


class _ProgressCounter:
    """Reports the number of operators that are written."""

    def __init__(self, total: int, report: progress.Report | None) -> None:
        self._total = total
        self._report = report
        self._done = -1
        self.increment()

    def increment(self) -> None:
        self._done += 1
        if self._report:
            self._report(api.Progress(unit="operators", done=self._done, total=self._total))


def _require_restorable(query: QueryEntry, work: Export) -> None:
    """Refuse state in a form that a restore could not write."""
    if query.batch_id < 0 or not query.operators:
        return
    pinned = engine_files.pinned_settings(work.source, query.path, query.batch_id)
    for form, operator in stateformats.rewritten_wrongly(pinned, stored_formats.stored_operators(query)):
        raise errors.SpecRejectedError(
            "StateTypeUnsupported",
            f"The state of {operator.uid!r} in query {query.uid!r} has {form.what} "
            f"({form.setting}={pinned[form.setting]}), which Spark cannot write from Parquet. Take a native savepoint.",
        )


def _read(
    session: SparkSession, query: QueryEntry, operator: OperatorEntry, store: str, work: Export
) -> tuple[DataFrame, spark_types.StructType]:
    root = f"{work.source_hadoop}/{query.path}"
    metadata = engine_files.operator_metadata(work.source, query, operator.operator_id)
    families = state_tables.read_families(
        session, root, operator.operator_id, store, engine_files.schema_paths(metadata, store)
    )
    storable = state_tables.storable(families)
    return state_tables.read_store(session, root, query.batch_id, operator.operator_id, store, storable), storable


def _export_keyed(
    session: SparkSession, query: QueryEntry, operator: OperatorEntry, store: str, work: Export
) -> documents.CanonicalOperator:
    frame, _ = _read(session, query, operator, store, work)
    head, log = (sql.col(f"`{name(operator.uid)}`") for name in (layout.head_variable, layout.log_variable))
    group = sql.col(f"{state_tables.PARTITION_KEY}.key_group")
    # The operator's Spark timers only wake key groups; a restore sets them again.
    rows = (
        frame.filter(head.isNotNull() | log.isNotNull())
        .coalesce(work.parallelism)
        .select(
            # Spark's hash of the value that represents a key group is the group's number.
            sql.hash(group).alias("key_group"),
            sql.coalesce(head["value"]["version"], log["key"]["userKey"]["version"]).alias("version"),
            head["value"]["layout"].alias("layout"),
            log["value"]["blob"].alias("blob"),
        )
    )
    task = tasks.KeyedExport(
        work.query_folder(query),
        operator.uid,
        key_columns.parse(operator.key),
        _groups_of(operator, query),
        packs=work.source_folder(query),
        lifetimes_ms=tuple(work.lifetimes_ms.get(operator.uid, {}).items()),
        now_ms=int(clock.utc_now().timestamp() * 1000),
    )
    results = list(_run(rows, task))
    states = tasks.gather_states(
        documents.KeyedState.model_validate_json(cast("str", result["state"])) for result in results
    )
    types = tuple(cast("list[str]", results[-1]["types"])) if results else ()
    return _state(operator, states=states).model_copy(update={"key_types": types})


def _groups_of(operator: OperatorEntry, query: QueryEntry) -> int:
    if operator.max_parallelism is None:
        raise errors.SpecRejectedError(
            "MaxParallelismUnknown",
            f"The snapshot does not record how many key groups operator {operator.uid!r} of query {query.uid!r} has. Start "
            "the unchanged job once; its next snapshot records the number.",
        )
    return operator.max_parallelism


def _export_store(
    session: SparkSession, query: QueryEntry, operator: OperatorEntry, store: str, work: Export
) -> documents.StoreState:
    frame, families = _read(session, query, operator, store, work)
    folders = tuple(
        (family.name, documents.family_folder(operator.uid, number, store, family.name))
        for number, family in enumerate(families.fields)
    )
    partition_key = frame.schema.fields[0].dataType
    if not state_tables.fits_parquet(partition_key) and cast("spark_types.StructType", partition_key).fields:
        raise errors.SpecRejectedError(
            "StateTypeUnsupported",
            f"Operator {operator.uid!r} of query {query.uid!r} is grouped by {partition_key.simpleString()}, which Parquet "
            "cannot store in columns. Take a native savepoint.",
        )
    placed = frame.toDF(state_tables.PARTITION_KEY, *map(_COLUMN.format, range(len(folders))))
    parts_by_family: dict[str, list[documents.ParquetFile]] = {name: [] for name, _ in folders}
    for result in _run(placed.coalesce(work.parallelism), tasks.FamilyExport(work.query_folder(query), folders)):
        part = documents.ParquetFile.model_validate_json(cast("str", result["part"]))
        parts_by_family[cast("str", result["family"])].append(part)
    return documents.StoreState(
        name=store,
        partition_key=_json(partition_key),
        families=tuple(
            documents.FamilyState(
                name=family.name,
                key=_side(family, "key"),
                value=_side(family, "value"),
                files=tuple(parts_by_family[family.name]),
            )
            for family in families.fields
        ),
    )


def _side(family: spark_types.StructField, side: str) -> JsonValue:
    return _json(cast("spark_types.StructType", family.dataType)[side].dataType)


def _json(kind: spark_types.DataType) -> JsonValue:
    return cast("JsonValue", json.loads(kind.json()))


def _run(frame: DataFrame, task: tasks.KeyedExport | tasks.FamilyExport) -> Iterator[dict[str, object]]:
    for row in frame.mapInArrow(task, tasks.RESULT).collect():
        yield json.loads(row[0])


def _state(
    operator: OperatorEntry,
    *,
    states: tuple[documents.KeyedState, ...] = (),
    stores: tuple[documents.StoreState, ...] = (),
) -> documents.CanonicalOperator:
    return documents.CanonicalOperator(
        uid=operator.uid,
        operator_id=operator.operator_id,
        name=operator.name,
        max_parallelism=operator.max_parallelism,
        states=states,
        stores=stores,
    )


def _finish(query: QueryEntry, states: tuple[documents.CanonicalOperator, ...], work: Export) -> QueryEntry:
    """Copy the unchanged files, write the document, and return the query's entry."""
    folder = f"{work.target.folder}/{folder_of(query)}"
    copied = [file.path for file in query.files if skeleton.is_copied_unchanged(query, file.path)]
    transfer.copy(work.source, work.target.store, [(f"{query.path}/{path}", f"{folder}/{path}") for path in copied])
    if not query.files:
        return query.model_copy(update={"path": folder_of(query)})
    named = query.sources if len(query.sources) == len(query.offsets) else ()
    positions = tuple(
        documents.SourcePosition(
            name=named[index].name if named else f"source {index}",
            description=named[index].description if named else "",
            offset=None if line == "-" else json.loads(line),
        )
        for index, line in enumerate(query.offsets)
    )
    document = documents.QueryDocument(uid=query.uid, batch_id=query.batch_id, sources=positions, operators=states)
    work.target.store.write(f"{folder}/{documents.QUERY_DOCUMENT}", document.to_json(indent=1).encode())
    expected = [*copied, documents.QUERY_DOCUMENT, *(file.path for state in states for file in state.files)]
    present = listing.below(work.target.store, folder, expected)
    missing = [path for path in expected if path not in present]
    if missing:
        raise errors.SnapshotCorruptError(
            "CopyIncomplete",
            f"{work.target.uri}/{missing[0]} does not exist after it was written; no savepoint was made.",
        )
    sums = {file.path: file.crc32 for file in query.files}
    files: tuple[FileEntry, ...] = tuple(
        checksums.file_entry(path, present[path], crc32=sums.get(path)) for path in sorted(expected)
    )
    return query.model_copy(update={"path": folder_of(query), "files": files})


def failed(failure: str, error: PySparkException) -> errors.StateUnknownError:
    """Return the error for an operation that failed in Spark, with the line of its message that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own_errors = [line for line in lines if line.startswith("statefulspark.errors.")]
    why = own_errors[-1].partition(": ")[2] if own_errors else lines[0] if lines else type(error).__name__
    return errors.StateUnknownError("CanonicalFailed", f"{failure}: {why}")
