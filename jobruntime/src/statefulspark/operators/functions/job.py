"""All functions with operator state in one job: declared while queries are built, restored, notified, closed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.declaration import QueryOutputs
from statefulspark.operators import refusals
from statefulspark.operators.functions import binding, registry, sink
from statefulspark.operatorstate.sink import DriverSink

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.contract.manifest import QueryEntry
    from statefulspark.recovery.plan import RestoredState


class JobFunctions:
    """All functions with operator state of one job."""

    def __init__(self) -> None:
        """Start without functions."""
        self._sources = registry.SourceRegistry()
        self._outputs: dict[str, QueryOutputs] = {}
        self._sinks: dict[str, sink.BoundSink] = {}
        self._next_checkpoint_id = 1
        self.refusals = refusals.Refusals()
        """Refusals of its functions and of other participants."""

    def next_checkpoint_id(self) -> int:
        """Return the number of the next checkpoint that may include current changes."""
        return self._next_checkpoint_id

    @property
    def participants(self) -> dict[str, str]:
        """The coordinator's name of every function, and the query whose batches make its state durable."""
        sources = {source.uid: source.query_uid for source in self._sources.declared}
        sinks = {written.outputs[0].uid: query_uid for query_uid, written in self._outputs.items()}
        return {f"operator:{uid}": query_uid for uid, query_uid in {**sources, **sinks}.items()}

    @property
    def recorded(self) -> dict[str, str]:
        """The uid of the stateful sink function by uid of its query; each batch of these has a state record."""
        return {query_uid: bound.uid for query_uid, bound in self._sinks.items() if bound.run.is_stateful}

    @contextlib.contextmanager
    def collecting(self, query_uid: str) -> Iterator[None]:
        """Record the functions that a query function declares inside the block."""
        with registry.collecting(self._sources, query_uid=query_uid):
            yield

    def declare(self, query_uid: str, written: DataStreamWriter | QueryOutputs) -> None:
        """Record the sink function of a query, if it has one.

        Raises:
            SpecRejectedError: `OperatorUidTaken`, or `FunctionInvalid`: its broadcast condition is invalid.
        """
        if not isinstance(written, QueryOutputs):
            return
        output = written.outputs[0]
        if not isinstance(output.sink, DriverSink):
            return
        if f"operator:{output.uid}" in self.participants:
            raise errors.SpecRejectedError(
                "OperatorUidTaken",
                f"Two functions of the job have the uid {output.uid!r}. State is found by uid, so give each its own.",
            )
        sink.check_condition(output, output.sink.broadcast)
        self._outputs[query_uid] = written

    def require_place(self, queries: Iterable[QueryEntry], drop_state: Collection[str] = ()) -> None:
        """Reject a job that lacks a function with restored state.

        Raises:
            SpecRejectedError: `NonRestoredState`.
        """
        for entry in queries:
            written = self._outputs.get(entry.uid)
            binding.require_place(
                entry,
                sources=[source.uid for source in self._sources.sources_of(entry.uid)],
                sinks=[output.uid for output in written.outputs] if written is not None else [],
                drop_state=drop_state,
            )

    def bind(self, storage: binding.JobStorage, plan: RestoredState) -> dict[str, DataStreamWriter]:
        """Restore every function, before any query starts.

        Args:
            storage: The storage of the job state, and the epoch of this driver.
            plan: The state that the job goes on from.

        Returns:
            The writers to start instead of the declared outputs, by uid of the query.

        Raises:
            StatefulSparkError: See `binding`.
        """
        self._next_checkpoint_id = plan.next_snapshot_id
        if self._sources.declared:
            self._sources.rendezvous.refused = self._source_refused
        for query_uid in dict.fromkeys(source.query_uid for source in self._sources.declared):
            binding.bind_sources(self._sources, query_uid, self._start(storage, plan, query_uid))
        for query_uid, written in self._outputs.items():
            output = written.outputs[0]
            restored = next((entry for entry in plan.queries if entry.uid == query_uid), None)
            start = self._start(storage, plan, query_uid)
            noting = functools.partial(self.refusals.noting, query_uid, f"operator:{output.uid}")
            self._sinks[query_uid] = binding.bind_sink(output, start, restored, noting)
        return {
            query_uid: written.writer(self._sinks[query_uid].write_batch)
            for query_uid, written in self._outputs.items()
        }

    def snapshot_begun(self, snapshot_id: int) -> None:
        """Record that a snapshot has started: later changes belong to a later one."""
        self._next_checkpoint_id = snapshot_id + 1

    def snapshot_covers(self, snapshot_id: int, queries: Iterable[QueryEntry]) -> None:
        """Record the content of a snapshot before it can be complete; functions are notified of this content only."""
        for entry in queries:
            if entry.uid in self._sinks:
                self._sinks[entry.uid].run.covers(snapshot_id, entry.batch_id)
            held = layout.parse_source_offsets(entry.offsets)
            for feed in self._sources.feeds:
                if feed.source.uid in held:
                    feed.covers(snapshot_id, held[feed.source.uid].segment)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify every listener that a checkpoint is complete.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        for bound in self._sinks.values():
            bound.run.notify_complete(checkpoint_id)
        for feed in self._sources.feeds:
            feed.notify_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify every listener that a checkpoint was aborted.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        for bound in self._sinks.values():
            bound.run.notify_aborted(checkpoint_id)
        for feed in self._sources.feeds:
            feed.notify_aborted(checkpoint_id)

    def close(self) -> None:
        """Close every function; its queries are already stopped."""
        for bound in self._sinks.values():
            bound.run.close()
        self._sources.close()

    def _source_refused(self, feed_id: str, error: errors.StatefulSparkError) -> None:
        """Record a source whose state cannot be snapshotted; a source that fails to produce rows fails its query."""
        declared = next((source for source in self._sources.declared if source.feed_id == feed_id), None)
        if declared is not None and error.reason == "SnapshotFailed":
            self.refusals.note(declared.query_uid, f"operator:{declared.uid}", error)

    def _start(self, storage: binding.JobStorage, plan: RestoredState, query_uid: str) -> binding.Start:
        return binding.Start(
            store=storage.store.child(layout.query_root(plan.generation, query_uid)),
            epoch=storage.epoch,
            checkpoint_id=plan.restored.id if plan.restored else None,
            options=storage.options,
            next_checkpoint_id=self.next_checkpoint_id,
        )
