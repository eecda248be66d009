"""Canonical savepoints of a running job: the savepoint thread writes them while the queries run, the manifest last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from statefulspark.checkpoint import progress, savepoint, transfer
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotFormat
from statefulspark.engine.canonical import export
from statefulspark.sparkinternals import releases
from statefulspark.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.operators.keyed import Operator
    from statefulspark.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class CanonicalWriter:
    """Writes canonical savepoints of one job.

    Attributes:
        session: The job's session.
        store: The job's root.
        options: Options that workers open storage with.
        operators: Its keyed operators.
    """

    session: SparkSession
    store: ObjectStore
    options: StorageOptions
    operators: tuple[Operator, ...] = ()

    def write(
        self,
        queries: Sequence[QueryEntry],
        request: savepoint.SavepointProperties,
        target: savepoint.SavepointTarget,
        *,
        completed_at: Callable[[], datetime],
        on_progress: progress.Report | None = None,
    ) -> Manifest:
        """Write a canonical savepoint of a cut; the caller protects the cut's files from pruning.

        Args:
            queries: The cut.
            request: The other properties of the savepoint.
            target: Folder of the savepoint.
            completed_at: Returns the time, UTC; called when all files are written.
            on_progress: Called after each operator that is written.

        Raises:
            SnapshotCorruptError, StateUnknownError: See `export.export`; no savepoint was made.
            PreconditionFailedError: `SavepointExists`; a newer epoch owns the job.
            SpecRejectedError: `SparkTooOld`.
        """
        releases.require(releases.READING_STATE)
        hadoop = transfer.hadoop_uri(self.store.uri)
        work = export.Export(
            self.store,
            hadoop,
            target,
            self.options,
            on_progress=on_progress,
            lifetimes_ms={operator.uid: operator.lifetimes_ms for operator in self.operators},
        )
        savepoint.reserve(self.store, request, target)
        entries = export.export(self.session, queries, work)
        # Parts that failed attempts wrote under other names.
        named = {f"{target.folder}/{entry.path}/{file.path}" for entry in entries for file in entry.files}
        written = (info.key for info in target.store.list(f"{target.folder}/files"))
        target.store.delete_many([key for key in written if key not in named])
        return savepoint.publish(
            self.store, entries, request, target, completed_at=completed_at(), written_as=SnapshotFormat.CANONICAL
        )
