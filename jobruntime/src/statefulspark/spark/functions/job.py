"""All functions with operator state in one job: declared while queries are built, restored, notified, closed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from statefulspark.contract import layout
from statefulspark.spark.functions import binding, registry

if TYPE_CHECKING:
    from statefulspark.snapshot.startplan import StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions


class JobFunctions:
    """The driver's one record of its functions."""

    def __init__(self) -> None:
        """Know of none."""
        self._sources = registry.SourceRegistry()
        self._next_checkpoint_id = 1

    def next_checkpoint_id(self) -> int:
        """Return the number of the next checkpoint that may cover what is done now."""
        return self._next_checkpoint_id

    @contextlib.contextmanager
    def collecting(self, query_uid: str) -> Iterator[None]:
        """Record the functions that a query function declares inside the block."""
        with registry.collecting(self._sources, query_uid=query_uid):
            yield

    def bind(
        self, store: ObjectStore, plan: StartPlan, *, epoch: int, options: StorageOptions, allow_non_restored: bool
    ) -> None:
        """Restore every source, before any query starts.

        Args:
            store: The job's root.
            plan: Where the job starts, carried out.
            epoch: Of this driver.
            options: How workers reach the store.
            allow_non_restored: State of sources that left the job may be dropped.

        Raises:
            StatefulSparkError: See `binding.bind`.
        """
        self._next_checkpoint_id = plan.next_snapshot_id
        with_sources = tuple(dict.fromkeys(one.query_uid for one in self._sources.declared))
        if not allow_non_restored:
            for entry in plan.queries:
                binding.require_place(entry, [one.uid for one in self._sources.of_query(entry.uid)])
        for query_uid in with_sources:
            start = binding.Start(
                store=store.child(layout.query_root(plan.generation, query_uid)),
                epoch=epoch,
                checkpoint_id=plan.restored.id if plan.restored else None,
                options=options,
                next_checkpoint_id=self.next_checkpoint_id,
            )
            binding.bind(self._sources, query_uid, start)

    def snapshot_begun(self, snapshot_id: int) -> None:
        """Take note that a snapshot has begun: what is done from now on is covered by a later one."""
        self._next_checkpoint_id = snapshot_id + 1

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell every listener that a checkpoint is complete.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        for feed in self._sources.feeds:
            feed.source.notify_complete(checkpoint_id)

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell every listener that a checkpoint was given up.

        Raises:
            StatefulSparkError: `NotifyFailed`; the job has to fail.
        """
        for feed in self._sources.feeds:
            feed.source.notify_aborted(checkpoint_id)

    def close(self) -> None:
        """End every function."""
        self._sources.close()
