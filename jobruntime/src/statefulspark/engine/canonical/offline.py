"""Reads and converts snapshots without a job, with a local Spark session that runs only for that time.

Native snapshots hold state in RocksDB files, in row and changelog formats that are internal to Spark and change between its
releases. So a local Spark session reads them, and writes the canonical form. The files of one query are copied to local disk
first, because they contain absolute paths that point to where the snapshot was made.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from statefulspark import errors, storage
from statefulspark.checkpoint import progress, savepoint, transfer, verify
from statefulspark.contract.manifest import QueryEntry
from statefulspark.engine import gateway, settings
from statefulspark.engine import session as spark_session
from statefulspark.engine.canonical import export
from statefulspark.evolution import rewrite
from statefulspark.packs import names as packs
from statefulspark.recovery import restore
from statefulspark.sparkinternals import releases
from statefulspark.storage import StorageOptions


@contextlib.contextmanager
def engine() -> Iterator[SparkSession]:
    """Start Spark on this machine, or use the session that already runs in this process.

    Raises:
        InvalidArgumentError: `EngineMissing`: the JVM of this process was started without the classes of this product.
    """
    # The session of another thread is not active in this one, and would be ended as if it were ours.
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if running is not None:
        _require_classes(running)
        yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("statefulspark offline")
    for name, value in {
        "spark.driver.extraClassPath": gateway.own_class_path(),
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": settings.STATE_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.checkpointFileManagerClass": settings.FILE_MANAGER,
        "spark.hadoop.fs.file.impl": settings.LOCAL_FILE_SYSTEM,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.streams  # noqa: B018 - this starts the coordinator that loading state needs
    try:
        _require_classes(session)
        yield session
    finally:
        session.stop()


def _require_classes(session: SparkSession) -> None:
    if isinstance(spark_session.jvm_view(session).io.statefulspark.state.StateReader, JavaPackage):
        raise errors.InvalidArgumentError(
            "EngineMissing",
            "The Spark of this process was started without the classes of statefulspark, with which it reads state. Read it "
            "in a process that has not started Spark, for example with `statefulspark state read`, or take a canonical "
            "savepoint, which needs no engine.",
        )


def convert(
    source: transfer.SnapshotLocation,
    queries: Sequence[QueryEntry],
    target: savepoint.SavepointTarget,
    options: StorageOptions,
    *,
    only: str | None = None,
    on_progress: progress.Report | None = None,
) -> tuple[QueryEntry, ...]:
    """Write queries of a native snapshot in canonical form.

    Needs local disk for the state of one query, and twice that while it is read. The caller writes the manifest.

    Args:
        source: Location of the snapshot.
        queries: Its queries.
        target: Folder that the queries are written to.
        options: Options that the target is opened with.
        only: Uid of the only operator to convert; None converts all.
        on_progress: Called after each file that is copied to this machine and each operator that is written, query by query.

    Returns:
        The queries with paths relative to the target's folder.

    Raises:
        SnapshotCorruptError: `SnapshotBroken`, naming the file; nothing of this query was written. Also, as
            StateUnknownError: See `export.export`.
        SpecRejectedError: `SparkTooOld`.
    """
    releases.require(releases.READING_STATE)
    return tuple(_convert_one(source, query, target, options, only, on_progress) for query in queries)


def _convert_one(
    source: transfer.SnapshotLocation,
    query: QueryEntry,
    target: savepoint.SavepointTarget,
    options: StorageOptions,
    only: str | None,
    on_progress: progress.Report | None,
) -> QueryEntry:
    with tempfile.TemporaryDirectory(prefix="statefulspark-") as folder, engine() as session:
        here = StorageOptions(allow_local_files=True)
        local = storage.open_store(f"file://{folder}", here)
        selected = query
        if only is not None:
            packs_of = ((file, packs.of_key(file.path)) for file in query.files)
            files = tuple(file for file, pack in packs_of if pack is None or pack[0] == only)
            operators = tuple(operator for operator in query.operators if operator.uid == only)
            selected = query.model_copy(update={"operators": operators, "files": files})
        identity = rewrite.Rewrite.identity(selected)
        operator_ids = {operator.operator_id: operator.operator_id for operator in selected.operators}
        file_rewrite = rewrite.Rewrite(operator_ids, identity.lines, identity.source_logs)
        _require_whole(source, selected, file_rewrite)
        (copied,) = restore.materialise(
            local,
            source,
            [selected],
            1,
            rewrites={query.uid: file_rewrite},
            hadoop_root=f"file:{folder}",
            on_progress=on_progress,
        )
        work = export.Export(
            local, f"file:{folder}", target, options, parallelism=2, on_progress=on_progress, source_options=here
        )
        (entry,) = export.export(session, [copied], work)
        return entry


def _require_whole(source: transfer.SnapshotLocation, query: QueryEntry, file_rewrite: rewrite.Rewrite) -> None:
    """Verify only the files that will be read; damage in other files does not prevent reading this state."""
    files = tuple(file for file in query.files if file_rewrite.new_path(file.path) is not None)
    report = verify.verify_queries(source.store, [query.model_copy(update={"files": files})], root=source.root)
    if not report.ok:
        raise errors.SnapshotCorruptError(
            "SnapshotBroken",
            f"The state of query {query.uid!r} cannot be read: {report.sentence} `statefulspark doctor` says which "
            "snapshots are whole.",
        )


def target(store: storage.ObjectStore) -> savepoint.SavepointTarget:
    """Return a target for a conversion that is read once and then deleted."""
    return savepoint.SavepointTarget(store, "read")
