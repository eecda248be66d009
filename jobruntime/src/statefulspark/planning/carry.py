"""The steps of a start after a change that need Spark: empty state for new operators, and another number of partitions.

They change a new generation that holds copies and has no record yet, so nothing uses it if a step fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statefulspark.canonical import engine_files
from statefulspark.checkpoint import checksums, closure, plans, progress, required_records
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.declaration import QueryOutputs
from statefulspark.engine import session as spark_session
from statefulspark.engine import taskcounts
from statefulspark.evolution import comparison, rewrite
from statefulspark.planning import empty_state, local_roots, repartition
from statefulspark.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OFFSET_LOG = b"v1\n"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stream:
    """The output of a query and its mode.

    Attributes:
        frame: The DataFrame that it writes.
        mode: Output mode: `append`, `update` or `complete`.
    """

    frame: DataFrame
    mode: str


def stream_of(written: DataStreamWriter | QueryOutputs) -> Stream:
    """Return the stream that a query writes."""
    if isinstance(written, QueryOutputs):
        return Stream(written.frame, written.outputs[0].output_mode)
    # Spark keeps the mode in a private field; the class has no getter that the gateway may call.
    field = written._jwrite.getClass().getDeclaredField("outputMode")
    field.setAccessible(True)
    return Stream(written._df, str(field.get(written._jwrite).toString()).lower())


def state_partitions(session: SparkSession, store: ObjectStore, query_path: str, planned: int) -> int:
    """Return a query's number of state partitions: Spark takes it from the newest planned batch, or else from the session.

    Args:
        session: The session.
        store: The job's root.
        query_path: The query's root in it.
        planned: Its newest planned batch; -1 for none.
    """
    pinned = engine_files.pinned_partitions(store, query_path, planned) if planned >= 0 else None
    return pinned or int(session.conf.get("spark.sql.shuffle.partitions") or "200")


@dataclass(frozen=True, slots=True)
class Carrier:
    """Finishes a new generation; `finish` goes to `restore.carry_out`.

    Attributes:
        session: The session.
        store: The job's root.
        hadoop_root: URI of the job's root in Hadoop's form.
        epoch: The epoch of this driver; part of the scratch folder's name.
        planned: Every query of the job.
        streams: Their streams, by uid.
        evolutions: Changes of restored queries, by uid.
        begin_step: Begins each step.
    """

    session: SparkSession
    store: ObjectStore
    hadoop_root: str
    epoch: int
    planned: tuple[plans.PlannedQuery, ...]
    streams: Mapping[str, Stream]
    evolutions: Mapping[str, comparison.Evolution]
    begin_step: progress.BeginStep = progress.ignore_steps

    def finish(self, generation: int, queries: tuple[QueryEntry, ...]) -> tuple[QueryEntry, ...]:
        """Add empty state, repartition state, and return the resulting entry of every query of the job.

        Raises:
            StateUnknownError: `EmptyStateFailed` or `RepartitionFailed`: nothing uses the generation yet.
            SnapshotCorruptError: The new generation is inconsistent.
        """
        entries = {query.uid: query for query in queries}
        return tuple(
            self._finished(entries[planned_query.uid], planned_query)
            if planned_query.uid in entries and entries[planned_query.uid].batch_id >= 0
            else plans.declared(planned_query, layout.query_root(generation, planned_query.uid))
            for planned_query in self.planned
        )

    def _finished(self, entry: QueryEntry, planned: plans.PlannedQuery) -> QueryEntry:
        change = self.evolutions.get(entry.uid)
        if change is None or change.is_empty:
            return plans.annotate(entry, planned)
        batch = entry.batch_id
        if change.added:
            self._timed("empty state added", entry, lambda: self._add_empty_state(entry, change))
        if change.partitions is not None:
            partitions = change.partitions
            self._timed("state repartitioned", entry, lambda: self._repartition(entry, partitions))
            batch += 1
        batch_files = closure.close_over(self.store, entry.path, batch)
        spark_paths = {file.path for file in batch_files.files}
        own_files = tuple(
            file for file in entry.files if file.path not in spark_paths and not rewrite.is_spark_file(file.path)
        )
        return plans.annotate(
            entry.model_copy(
                update={
                    "batch_id": batch,
                    "files": (*batch_files.files, *own_files),
                    "operators": batch_files.operators,
                    "offsets": batch_files.offsets,
                }
            ),
            planned,
        )

    def _timed(self, message: str, entry: QueryEntry, step: Callable[[], None]) -> None:
        began_s = time.monotonic()
        step()
        _log.info(message, extra={"query": entry.uid, "seconds": round(time.monotonic() - began_s, 2)})

    def _add_empty_state(self, entry: QueryEntry, change: comparison.Evolution) -> None:
        stream = self.streams[entry.uid]
        self.begin_step(f"Adding the empty state of new operators to query {entry.uid!r}")
        with local_roots.scratch(self.session, self.store, layout.scratch(self.epoch)) as scratch:
            scratch.write("offsets/0", _OFFSET_LOG)
            empty = empty_state.run(
                stream.frame,
                stream.mode,
                spark_session.hadoop_uri(scratch.uri),
                partitions=state_partitions(self.session, self.store, entry.path, entry.batch_id),
                operators={operator.operator_id for operator in change.added},
            )
            # Copy it to the paths that the restored batch expects, and add its ids to the commit log.
            paths = {
                info.key: new
                for info in scratch.list("state")
                if (new := rewrite.path_of_empty_state(info.key, empty.ids, version=entry.batch_id + 1)) is not None
            }
            local_roots.carry(scratch, self.store.child(entry.path), paths, f"{self.hadoop_root}/{entry.path}")
            commit = f"{entry.path}/commits/{entry.batch_id}"
            named = rewrite.add_to_commit(self.store.read(commit), f"{self.store.uri}/{commit}", empty.ids)
            self.store.delete_many(list(checksums.sidecars(commit)))
            self.store.write(commit, named)

    def _repartition(self, entry: QueryEntry, partitions: int) -> None:
        step = self.begin_step(f"Spreading the state of query {entry.uid!r} over {partitions} partitions")
        with (
            taskcounts.reported(self.session, step),
            local_roots.root_of(self.session, self.store, entry.path) as root,
        ):
            repartition.repartition(self.session, root, partitions)
        required_records.note_unchanged(self.store, entry, epoch=self.epoch)
        for info in self.store.list(f"{entry.path}/state"):
            if rewrite.is_first_metadata(info.key[len(entry.path) + 1 :]):
                metadata = rewrite.set_partitions(self.store.read(info.key), f"{self.store.uri}/{info.key}", partitions)
                self.store.delete_many(list(checksums.sidecars(info.key)))
                self.store.write(info.key, metadata)
