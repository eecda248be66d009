"""Writes checkpoints and savepoints of a running job: file list, check of the epoch, manifest last, pruning.

This module runs on background workers, not on the queries' threads. A checkpoint copies no data; the object store itself
copies a savepoint, before the barrier where that is possible.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from statefulspark import clock, errors, threads
from statefulspark.checkpoint import catalog, closure, epochs, progress, savepoint
from statefulspark.checkpoint import plans as query_plans
from statefulspark.contract import api, config, layout
from statefulspark.contract import manifest as manifests
from statefulspark.contract.manifest import (
    Ancestor,
    Manifest,
    MasterStateEntry,
    QueryEntry,
    SnapshotFormat,
    SnapshotKind,
)
from statefulspark.coordinator import model
from statefulspark.driver import status
from statefulspark.driver.output import commit
from statefulspark.driver.running.queries import CheckpointLocation
from statefulspark.driver.snapshots import notify
from statefulspark.driver.snapshots.background import Lane
from statefulspark.driver.status import Identity
from statefulspark.engine.canonical import online
from statefulspark.retention import pruning, rules
from statefulspark.storage import requests
from statefulspark.storage.port import ObjectStore

_SINKS = "sinks"
"""The participant that declines when a transaction is not listed."""


class _Origin(TypedDict):
    lineage: str | None
    root: str | None
    ancestors: tuple[Ancestor, ...]


@dataclass(frozen=True, slots=True)
class SnapshotOrder:
    """The order to write one snapshot.

    Attributes:
        snapshot_id: Its number.
        coordinator_request: The request of the coordinator.
        triggered_at: When it began.
        request: The request of an API caller; None if the interval or the driver triggered it.
        master_states: The states that the master hooks have returned so far.
    """

    snapshot_id: int
    coordinator_request: model.Request
    triggered_at: datetime
    request: api.CheckpointRequest | api.SavepointRequest | api.StopRequest | None
    master_states: tuple[MasterStateEntry, ...] = ()

    @property
    def savepoint_request(self) -> api.SavepointRequest | api.StopRequest | None:
        """The request of an API caller, if it can be a savepoint."""
        return None if isinstance(self.request, api.CheckpointRequest) else self.request

    @property
    def kind(self) -> SnapshotKind:
        """Checkpoint or savepoint."""
        return self.coordinator_request.kind

    @property
    def is_canonical(self) -> bool:
        """Whether the state is written as Parquet."""
        request = self.savepoint_request
        is_savepoint = self.kind is SnapshotKind.SAVEPOINT
        return is_savepoint and request is not None and request.format is SnapshotFormat.CANONICAL

    @property
    def lane(self) -> Lane:
        """The worker that writes it."""
        return Lane.SAVEPOINT if self.kind is SnapshotKind.SAVEPOINT else Lane.CHECKPOINT


class DeclinedError(errors.StatefulSparkError):
    """A participant cannot deliver its part of a snapshot; the snapshot is aborted and the job continues.

    Operator action: none if the next snapshot succeeds; else do what the message says.

    Attributes:
        participant: Name of the participant in the coordinator.
    """

    def __init__(self, participant: str, why: errors.StatefulSparkError) -> None:
        super().__init__(why.reason, why.message)
        self.participant = participant


@contextlib.contextmanager
def decline_on_error(participant: str) -> Iterator[None]:
    """Raise an error that names the declining participant when the block fails.

    Raises:
        DeclinedError: For any StatefulSparkError except FencedError, which is raised unchanged.
    """
    try:
        yield
    except errors.FencedError:
        raise
    except errors.StatefulSparkError as error:
        raise DeclinedError(participant, error) from error


class SnapshotWriter:
    """Executes the coordinator's orders on storage. Called by background workers; one call per lane at a time.

    Attributes:
        state_sizes: The sizes of the state in the newest checkpoint that it has written, else in what was restored.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        identity: Identity,
        locations: tuple[CheckpointLocation, ...],
        plans: Mapping[str, query_plans.PlannedQuery],
        settings: config.CheckpointConfig,
        savepoint_location: str | None,
        open_store: Callable[[str], ObjectStore],
        versions: Mapping[str, str],
        committer: commit.Committer,
        announcer: notify.Announcer,
        restored: tuple[QueryEntry, ...] = (),
        canonical_writer: online.CanonicalWriter | None = None,
    ) -> None:
        """Write below a job's root, under one epoch that started from `restored`."""
        self._store = store
        self._identity = identity
        self._locations = locations
        self._plans = plans
        self._settings = settings
        self._savepoint_location = savepoint_location
        self._open_store = open_store
        self._versions = dict(versions)
        self._committer = committer
        self._announcer = announcer
        self._canonical_writer = canonical_writer
        # Closures of savepoints being copied: written by the savepoint lane, read when the checkpoint lane prunes.
        self._copying: dict[int, tuple[QueryEntry, ...]] = {}
        # Files that are being deleted: no checkpoint names them any more. Replaced whole by the checkpoint lane.
        self._unused: frozenset[str] = frozenset()
        self._savepoint_bytes: dict[int, int] = {}
        self._sealed: set[int] = set()  # Savepoints whose manifest may be written, even if the write failed.
        self._own: set[int] = set()  # Checkpoints that this driver has completed.
        self._growth = status.Growth(restored)
        self._restored = manifests.restored_batches(restored)
        # Replaced whole by the checkpoint lane, read by the API's thread.
        self.state_sizes = status.state_sizes(identity.restored_from, restored)
        started_after = {query.uid: query.batch_id for query in restored}
        # One closer per lane and query: it remembers what it read, and is used by one thread.
        self._closers = {
            lane: {
                location.uid: closure.ClosureBuilder(
                    store, location.path, started_after=started_after.get(location.uid, -1)
                )
                for location in locations
            }
            for lane in (Lane.CHECKPOINT, Lane.SAVEPOINT)
        }

    def configure(self, settings: config.CheckpointConfig) -> None:
        """Retain snapshots, from the next pruning on, as new settings say."""
        self._settings = settings

    def complete(
        self, order: SnapshotOrder, batches: Mapping[str, int], *, on_progress: progress.Report | None = None
    ) -> api.SnapshotSummary:
        """Complete a snapshot of committed batches; its manifest is written last.

        Args:
            order: The snapshot.
            batches: Committed batch by query uid.
            on_progress: Called with the progress of a savepoint's copy.

        Returns:
            The summary of the snapshot.

        Raises:
            FencedError: A newer epoch owns the job; nothing was written.
            DeclinedError: The files of a query cannot be listed completely, or a sink's transaction is missing.
            SnapshotCorruptError: A file that a savepoint needs could not be copied.
            TransientError, StateUnknownError: The object store failed; nothing is complete.
        """
        watch = status.Stopwatch()
        with watch.phase("closure"):
            entries = self._close_over(order, batches)
        with decline_on_error(_SINKS):
            self._announcer.snapshot_covers(order.snapshot_id, entries)
        with watch.phase("fence"):
            epochs.require_current(self._store, self._identity.epoch)
        if order.kind is SnapshotKind.CHECKPOINT:
            return self._complete_checkpoint(order, entries, watch)
        return self._complete_savepoint(order, entries, watch, on_progress)

    def precopy(
        self, order: SnapshotOrder, batches: Mapping[str, int], *, on_progress: progress.Report | None = None
    ) -> None:
        """Copy the existing files that a savepoint will need, while the job runs."""
        if order.is_canonical:
            return
        entries = self._close_over(order, batches)
        self._copying[order.snapshot_id] = entries
        request = self._savepoint_request(order)
        target = self._savepoint_target(order, request)
        savepoint.reserve(self._store, request, target)
        savepoint.copy_missing(self._store, entries, target, on_progress=on_progress)

    def discard(self, order: SnapshotOrder) -> None:
        """Remove the files that were copied for an aborted snapshot, and forget what it covers.

        This never removes a manifest. A manifest that exists is complete, no matter who wrote it: this driver, if the
        response of the store was lost or late, or its successor, which gave the same number to its own checkpoint and
        may start from it. Retention removes it later, as any other.
        """
        self._announcer.forget(order.snapshot_id)
        self._copying.pop(order.snapshot_id, None)
        if order.kind is SnapshotKind.CHECKPOINT or order.snapshot_id in self._sealed:
            return
        request = self._savepoint_request(order)
        savepoint.give_up(self._store, request, self._savepoint_target(order, request))

    def drop(self, checkpoint_ids: Iterable[int]) -> None:
        """Remove the manifests of checkpoints that this driver has completed.

        `prune` removes the files that only they needed. It removes older checkpoints, too, since it knows which of them a
        restore has left behind.

        Raises:
            FencedError: A newer epoch owns the job; that driver decides which checkpoints are retained.
        """
        epochs.require_current(self._store, self._identity.epoch)
        self._store.delete_many(
            [layout.checkpoint_manifest(number) for number in checkpoint_ids if number in self._own]
        )

    def prune(self) -> rules.PrunePlan:
        """Remove checkpoints beyond the retained number, and find the files that only they needed.

        Call it when the files that it found before are deleted, or never will be.

        Returns:
            What was done; its `delete_files` are left to `delete`.
        """
        settings = self._settings
        policy = rules.PrunePolicy(settings.retention.count, settings.prune_delay, settings.retention.max_age)
        pinned = [entry for entries in tuple(self._copying.values()) for entry in entries]
        planned = pruning.begin(
            self._store,
            policy,
            clock.utc_now(),
            pinned=pinned,
            open_store=self._open_store,
            epoch=self._identity.epoch,
        )
        self._unused = frozenset(planned.delete_files)
        return planned

    def size_of(self, savepoints: Sequence[catalog.SnapshotRef]) -> int:
        """Return the size of savepoints in bytes; unreadable ones count as nothing. Cost: a GET for each that is new."""
        new = [ref for ref in savepoints if ref.id not in self._savepoint_bytes]
        manifests = catalog.read_manifests(self._store, new) if new else ()
        readable = (manifest for manifest in manifests if isinstance(manifest, Manifest))
        self._savepoint_bytes |= {manifest.id: manifest.size_bytes for manifest in readable}
        return sum(self._savepoint_bytes.get(ref.id, 0) for ref in savepoints)

    def delete(self, keys: Sequence[str]) -> int:
        """Delete some of the files that `prune` found.

        Returns:
            How many requests the store has refused meanwhile because it got too many.

        Raises:
            FencedError: A newer epoch owns the job; no file was deleted.
        """
        refused = requests.refused()
        pruning.delete_files(self._store, keys, epoch=self._identity.epoch)
        return requests.refused() - refused

    def _close_over(self, order: SnapshotOrder, batches: Mapping[str, int]) -> tuple[QueryEntry, ...]:
        """Close over all queries side by side: each waits for storage most of the time."""
        closures = {
            location.uid: threads.beside(
                functools.partial(
                    self._closers[order.lane][location.uid].close_over,
                    batches[location.uid],
                    self._committer.named_after(location.uid),
                    unused=self._unused,
                ),
                name=f"closure of {location.uid}",
            )
            for location in self._locations
        }
        concurrent.futures.wait(closures.values())
        entries = []
        for uid, closed_over in closures.items():
            with decline_on_error(uid):
                entry = closed_over.result()
            entry = entry.model_copy(update={"sinks": self._committer.sink_entries(entry)})
            entries.append(query_plans.annotate(entry, self._plans.get(uid)))
        return tuple(entries)

    def _complete_checkpoint(
        self, order: SnapshotOrder, entries: tuple[QueryEntry, ...], watch: status.Stopwatch
    ) -> api.SnapshotSummary:
        identity = self._identity
        manifest = Manifest(
            kind=SnapshotKind.CHECKPOINT,
            id=order.snapshot_id,
            namespace=identity.namespace,
            job=identity.job,
            trigger=order.coordinator_request.trigger,
            epoch=identity.epoch,
            claim=identity.claim,
            generation=identity.generation,
            triggered_at=order.triggered_at,
            completed_at=clock.utc_now(),
            queries=entries,
            request_id=order.request.request_id if order.request else None,
            restored_from=identity.restored_from,
            revision=identity.revision,
            versions=self._versions,
            master_states=order.master_states,
            untried=manifests.untried(self._restored, {entry.uid: entry.batch_id for entry in entries}),
            **self._origin(),
        )
        with watch.phase("manifest"):
            catalog.write_checkpoint(self._store, manifest)
        self._own.add(order.snapshot_id)
        self.state_sizes = status.state_sizes(f"checkpoint {order.snapshot_id}", entries)
        summary = api.SnapshotSummary.describe(manifest, f"{self._store.uri}/{layout.checkpoint(manifest.id)}")
        return status.measured(summary, entries, self._growth.new_bytes(entries), watch)

    def _complete_savepoint(
        self,
        order: SnapshotOrder,
        entries: tuple[QueryEntry, ...],
        watch: status.Stopwatch,
        on_progress: progress.Report | None,
    ) -> api.SnapshotSummary:
        """Copy what the savepoint needs into its own folder; the manifest is written last, as part of the copy."""
        self._copying[order.snapshot_id] = entries
        request = self._savepoint_request(order)
        target = self._savepoint_target(order, request)

        def completed_at() -> datetime:  # Called once the files are copied: the manifest may be written from then on.
            self._sealed.add(order.snapshot_id)
            return clock.utc_now()

        with watch.phase("copy"):
            if order.is_canonical and self._canonical_writer is not None:
                manifest = self._canonical_writer.write(
                    entries, request, target, completed_at=completed_at, on_progress=on_progress
                )
            else:
                manifest = savepoint.take_savepoint(
                    self._store, entries, request, target, completed_at=completed_at, on_progress=on_progress
                )
        self._copying.pop(order.snapshot_id, None)
        summary = api.SnapshotSummary.describe(manifest, target.uri)
        return status.measured(summary, manifest.queries, manifest.size_bytes, watch)

    def _savepoint_request(self, order: SnapshotOrder) -> savepoint.SavepointProperties:
        identity = self._identity
        return savepoint.SavepointProperties(
            id=order.snapshot_id,
            namespace=identity.namespace,
            job=identity.job,
            trigger=order.coordinator_request.trigger,
            epoch=identity.epoch,
            generation=identity.generation,
            triggered_at=order.triggered_at,
            name=order.savepoint_request.name if order.savepoint_request else None,
            request_id=order.request.request_id if order.request else None,
            restored_from=identity.restored_from,
            revision=identity.revision,
            versions=self._versions,
            master_states=order.master_states,
            **self._origin(),
        )

    def _origin(self) -> _Origin:
        """Return the manifest fields that name its root and the ancestors of that root."""
        origin = self._identity.descent
        if origin is None:
            return {"lineage": None, "root": None, "ancestors": ()}
        return {"lineage": origin.lineage, "root": self._store.uri, "ancestors": origin.ancestors}

    def _savepoint_target(
        self, order: SnapshotOrder, request: savepoint.SavepointProperties
    ) -> savepoint.SavepointTarget:
        requested = order.savepoint_request.location if order.savepoint_request else None
        location = requested or self._savepoint_location
        return savepoint.resolve_target(self._store, request, location=location, open_store=self._open_store)


def summarise_restored(store: ObjectStore, manifest: Manifest | None) -> api.SnapshotSummary | None:
    """Return the restored checkpoint; None if no checkpoint of this job was restored."""
    if manifest is None or manifest.kind is not SnapshotKind.CHECKPOINT:
        return None
    return api.SnapshotSummary.describe(manifest, f"{store.uri}/{layout.checkpoint(manifest.id)}")
