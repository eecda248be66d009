"""Snapshots read and converted without a job: an engine of our own on this machine, for as long as it takes.

State in native snapshots is in RocksDB files, in row and changelog formats that are Spark's own and change between its
releases. So Spark reads them, in a local session, and what comes out is the canonical form. The files of one query are
copied to local disk first: paths inside of them are absolute and would lead to where the snapshot was made.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from statefulspark import errors, storage
from statefulspark.checkpoint import progress, savepoint, transfer, verify
from statefulspark.contract.manifest import QueryEntry
from statefulspark.engine import gateway, settings
from statefulspark.engine.canonical import export
from statefulspark.evolution import rewrite
from statefulspark.recovery import restore
from statefulspark.storage import StorageOptions


@contextlib.contextmanager
def engine() -> Iterator[SparkSession]:
    """Start Spark on this machine, or use the one that runs in this process already."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("statefulspark offline")
    for name, value in {
        "spark.driver.extraClassPath": f"{gateway.JARS}/*",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": settings.STATE_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.checkpointFileManagerClass": settings.FILE_MANAGER,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.streams  # noqa: B018 - with the streams comes the coordinator that loading state asks
    try:
        yield session
    finally:
        session.stop()


def convert(
    place: transfer.SnapshotPlace,
    queries: Sequence[QueryEntry],
    target: savepoint.SavepointTarget,
    options: StorageOptions,
    *,
    only: str | None = None,
    on_progress: progress.Report | None = None,
) -> tuple[QueryEntry, ...]:
    """Write queries of a native snapshot in canonical form.

    Needs local disk for the state of one query, twice while it is read. The manifest is for the caller to write.

    Args:
        place: Where the snapshot is.
        queries: Its queries.
        target: Where they go.
        options: How the target is reached.
        only: Uid of the one operator that is wanted; None takes all.
        on_progress: Hears of each file that is copied to this machine and each operator that is written, query by query.

    Returns:
        The queries with paths relative to the target's folder.

    Raises:
        SnapshotCorruptError: `SnapshotBroken`, naming the file; nothing was written of this query. Also, as
            StateUnknownError: See `export.export`.
    """
    return tuple(_convert_one(place, query, target, options, only, on_progress) for query in queries)


def _convert_one(
    place: transfer.SnapshotPlace,
    query: QueryEntry,
    target: savepoint.SavepointTarget,
    options: StorageOptions,
    only: str | None,
    on_progress: progress.Report | None,
) -> QueryEntry:
    with tempfile.TemporaryDirectory(prefix="statefulspark-") as folder, engine() as session:
        local = storage.open_store(f"file://{folder}", StorageOptions(allow_local_files=True))
        wanted = query if only is None else _narrowed(query, only)
        identity = rewrite.Rewrite.identity(wanted)
        kept = {one.operator_id: one.operator_id for one in wanted.operators}
        how = rewrite.Rewrite(kept, identity.lines, identity.source_logs)
        _require_whole(place, wanted, how)
        (copied,) = restore.materialise(
            local, place, [wanted], 1, rewrites={query.uid: how}, hadoop_root=f"file:{folder}", on_progress=on_progress
        )
        work = export.Export(local, f"file:{folder}", target, options, parallelism=2, on_progress=on_progress)
        (entry,) = export.export(session, [copied], work)
        return entry


def _require_whole(place: transfer.SnapshotPlace, query: QueryEntry, how: rewrite.Rewrite) -> None:
    """Check the files that are going to be read; damage elsewhere does not hide this state."""
    files = tuple(file for file in query.files if how.place(file.path) is not None)
    report = verify.verify_queries(place.store, [query.model_copy(update={"files": files})], root=place.root)
    if not report.ok:
        raise errors.SnapshotCorruptError(
            "SnapshotBroken",
            f"The state of query {query.uid!r} cannot be read: {report.sentence} `statefulspark doctor` says which "
            "snapshots are whole.",
        )


def _narrowed(query: QueryEntry, uid: str) -> QueryEntry:
    """Leave out the other operators, and with them most files."""
    wanted = tuple(one for one in query.operators if one.uid == uid)
    return query.model_copy(update={"operators": wanted})


def target(store: storage.ObjectStore) -> savepoint.SavepointTarget:
    """Return a target for what is read once and thrown away."""
    return savepoint.SavepointTarget(store, "read")
