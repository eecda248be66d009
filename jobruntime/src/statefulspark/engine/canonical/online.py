"""Canonical savepoints of a running job: taken by the savepoint's worker beside the queries, manifest last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from statefulspark.checkpoint import progress, savepoint, transfer
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotFormat
from statefulspark.engine.canonical import export
from statefulspark.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.operators.keyed import Operator
    from statefulspark.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class Taker:
    """Takes canonical savepoints of one job.

    Attributes:
        session: The job's session.
        store: The job's root.
        options: How workers reach storage.
        operators: Its keyed operators.
    """

    session: SparkSession
    store: ObjectStore
    options: StorageOptions
    operators: tuple[Operator, ...] = ()

    def take(
        self,
        queries: Sequence[QueryEntry],
        request: savepoint.SavepointRequest,
        target: savepoint.SavepointTarget,
        *,
        completed_at: Callable[[], datetime],
        on_progress: progress.Report | None = None,
    ) -> Manifest:
        """Write a canonical savepoint of a cut; the caller keeps the cut's files from being pruned.

        Args:
            queries: The cut.
            request: Everything else about the savepoint.
            target: Where it goes.
            completed_at: Tells the time, UTC, once the files are in place.
            on_progress: Hears of every operator that is written.

        Raises:
            SnapshotCorruptError, StateUnknownError: See `export.export`; there is no savepoint then.
            PreconditionFailedError: `SavepointExists`; a newer epoch owns the job.
        """
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
        self._remove_leftovers(entries, target)
        return savepoint.publish(
            self.store, entries, request, target, completed_at=completed_at(), written_as=SnapshotFormat.CANONICAL
        )

    def _remove_leftovers(self, entries: Sequence[QueryEntry], target: savepoint.SavepointTarget) -> None:
        """Delete parts that failed attempts have written under other names."""
        wanted = {f"{target.folder}/{entry.path}/{file.path}" for entry in entries for file in entry.files}
        written = (info.key for info in target.store.list(f"{target.folder}/files"))
        target.store.delete_many([key for key in written if key not in wanted])
