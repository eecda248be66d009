"""Writes checkpoints and savepoints of a running job: closure, check of the epoch, manifest last, pruning.

Everything here runs on background workers, off the queries' threads. A checkpoint moves no data; a savepoint is copied by
the object store itself, before the barrier where that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from statefulspark import clock
from statefulspark.checkpoint import catalog, closure, epochs, progress, savepoint
from statefulspark.checkpoint import plans as query_plans
from statefulspark.contract import api, config, layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import (
    Ancestor,
    Manifest,
    MasterStateEntry,
    QueryEntry,
    SnapshotFormat,
    SnapshotKind,
)
from statefulspark.contract.notes import DamageNote
from statefulspark.coordinator import model
from statefulspark.driver import commit, measure, notify
from statefulspark.driver.background import Lane
from statefulspark.driver.queries import QueryPlace
from statefulspark.driver.status import Identity
from statefulspark.engine.canonical import online
from statefulspark.operators import declines
from statefulspark.recovery import damage
from statefulspark.retention import pruning, rules
from statefulspark.storage.port import ObjectStore

DRAIN_KEY = "(drain)"
FINISHED_KEY = "(finished)"
"""Keys of the driver's own stops; callers cannot choose such request ids."""
_SINKS = "sinks"
"""Who declines when a transaction is not listed."""


class _Origin(TypedDict):
    lineage: str | None
    root: str | None
    ancestors: tuple[Ancestor, ...]


@dataclass(frozen=True, slots=True)
class SnapshotOrder:
    """One snapshot to be written.

    Attributes:
        snapshot_id: Its number.
        coordinator_request: As the coordinator knows it.
        triggered_at: When it began.
        request: What a caller asked for; None when the interval or the driver itself asked.
        master_states: What the master hooks have answered so far.
    """

    snapshot_id: int
    coordinator_request: model.Request
    triggered_at: datetime
    request: api.CheckpointRequest | api.SavepointRequest | api.StopRequest | None
    master_states: tuple[MasterStateEntry, ...] = ()

    @property
    def savepoint_request(self) -> api.SavepointRequest | api.StopRequest | None:
        """What a caller asked for, if it can be a savepoint."""
        return None if isinstance(self.request, api.CheckpointRequest) else self.request

    @property
    def kind(self) -> SnapshotKind:
        """Checkpoint or savepoint."""
        return self.coordinator_request.kind

    @property
    def is_canonical(self) -> bool:
        """Whether the state is to be written as Parquet."""
        request = self.savepoint_request
        is_savepoint = self.kind is SnapshotKind.SAVEPOINT
        return is_savepoint and request is not None and request.format is SnapshotFormat.CANONICAL

    @property
    def lane(self) -> Lane:
        """Which worker writes it."""
        return Lane.SAVEPOINT if self.kind is SnapshotKind.SAVEPOINT else Lane.CHECKPOINT


@dataclass(frozen=True, slots=True)
class Ending:
    """How the job ended."""

    code: ExitCode
    reason: str
    message: str
    snapshot: api.SnapshotSummary | None = None

    @classmethod
    def of_stop(cls, request: model.Request, summary: api.SnapshotSummary) -> Ending:
        """Return the end that a completed stop leads to."""
        code = {DRAIN_KEY: ExitCode.DRAINED, FINISHED_KEY: ExitCode.FINISHED}.get(request.key, ExitCode.STOPPED)
        return cls(code, code.name.capitalize(), f"All queries ended at {summary.kind} {summary.id}.", summary)

    @property
    def is_clean(self) -> bool:
        """Whether everything was committed and kept."""
        return self.code in (ExitCode.STOPPED, ExitCode.DRAINED, ExitCode.FINISHED)

    @property
    def state(self) -> api.JobState:
        """The job's last state."""
        if self.code is ExitCode.FENCED:
            return api.JobState.FENCED
        return api.JobState.STOPPED if self.is_clean else api.JobState.FAILED


class SnapshotWriter:
    """Performs what the coordinator orders on storage. Called by background workers; one call per lane at a time."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        identity: Identity,
        places: tuple[QueryPlace, ...],
        plans: Mapping[str, query_plans.PlannedQuery],
        settings: config.CheckpointConfig,
        savepoint_location: str | None,
        open_store: Callable[[str], ObjectStore],
        versions: Mapping[str, str],
        committer: commit.Committer,
        announcer: notify.Announcer,
        restored: tuple[QueryEntry, ...] = (),
        taker: online.Taker | None = None,
    ) -> None:
        """Write below a job's root, as one epoch that started from `restored`."""
        self._store = store
        self._identity = identity
        self._places = places
        self._plans = plans
        self._settings = settings
        self._savepoint_location = savepoint_location
        self._open_store = open_store
        self._versions = dict(versions)
        self._committer = committer
        self._announcer = announcer
        self._taker = taker
        # Closures of savepoints being copied: written by the savepoint lane, read when the checkpoint lane prunes.
        self._copying: dict[int, tuple[QueryEntry, ...]] = {}
        self._sealed: set[int] = set()  # Savepoints whose manifest may have been written, whatever the answer was.
        self._predecessors_staged = True
        self._growth = measure.Growth(restored)
        # Each lane remembers what it read of each query: a closer is used by one thread.
        self._closers = {lane: {place.uid: closure.Closer(store, place.path) for place in places} for lane in Lane}

    def complete(
        self, order: SnapshotOrder, batches: Mapping[str, int], *, on_progress: progress.Report | None = None
    ) -> api.SnapshotSummary:
        """Make a snapshot of committed batches complete; its manifest is written last.

        Args:
            order: Which snapshot.
            batches: Committed batch by query uid.
            on_progress: Hears how far the copy of a savepoint is.

        Returns:
            The snapshot in short.

        Raises:
            FencedError: A newer epoch owns the job; nothing was written.
            DeclinedError: A query's files cannot be closed over, or a sink's transaction is not among them.
            SnapshotCorruptError: A file that a savepoint needs could not be copied.
            TransientError, StateUnknownError: The object store failed; nothing is complete.
        """
        watch = measure.Stopwatch()
        with watch.phase("closure"):
            entries = self._close_over(order, batches)
        with declines.taking_part(_SINKS):
            self._announcer.covers(order.snapshot_id, entries)
        with watch.phase("fence"):
            epochs.require_current(self._store, self._identity.epoch)
        if order.kind is SnapshotKind.CHECKPOINT:
            with watch.phase("manifest"):
                summary = self._complete_checkpoint(order, entries)
            return measure.measured(summary, entries, self._growth.new_bytes(entries), watch)
        self._copying[order.snapshot_id] = entries
        request = self._savepoint_request(order)
        place = self._savepoint_target(order, request)
        with watch.phase("copy"):
            if order.is_canonical and self._taker is not None:
                manifest = self._taker.take(
                    entries, request, place, completed_at=self._sealing(order), on_progress=on_progress
                )
            else:
                manifest = savepoint.take_savepoint(
                    self._store, entries, request, place, completed_at=self._sealing(order), on_progress=on_progress
                )
        self._copying.pop(order.snapshot_id, None)
        summary = api.SnapshotSummary.of(manifest, place.uri)
        return measure.measured(summary, manifest.queries, manifest.size_bytes, watch)

    def precopy(
        self, order: SnapshotOrder, batches: Mapping[str, int], *, on_progress: progress.Report | None = None
    ) -> None:
        """Copy what a savepoint will need as far as it exists now, while the job runs."""
        if order.is_canonical:
            return
        entries = self._close_over(order, batches)
        self._copying[order.snapshot_id] = entries
        request = self._savepoint_request(order)
        place = self._savepoint_target(order, request)
        savepoint.reserve(self._store, request, place)
        savepoint.copy_missing(self._store, entries, place, on_progress=on_progress)

    def discard(self, order: SnapshotOrder) -> None:
        """Remove what was copied for a snapshot that was given up.

        A manifest is never removed here. If it is there, it is complete, whoever wrote it: this driver, whose answer was
        lost or came too late, or its successor, which gave the same number to a checkpoint of its own and may start from
        it. It goes with retention, as any other.
        """
        self._copying.pop(order.snapshot_id, None)
        if order.kind is SnapshotKind.CHECKPOINT or order.snapshot_id in self._sealed:
            return
        request = self._savepoint_request(order)
        savepoint.give_up(self._store, request, self._savepoint_target(order, request))

    def drop(self, checkpoint_ids: Iterable[int]) -> None:
        """Remove the manifests of completed checkpoints; `prune` removes the files that only they needed.

        Raises:
            FencedError: A newer epoch owns the job; which checkpoints are kept is its business now.
        """
        epochs.require_current(self._store, self._identity.epoch)
        self._store.delete_many([layout.checkpoint_manifest(number) for number in checkpoint_ids])

    def prune(self) -> None:
        """Remove checkpoints beyond the retained number, and the files that only they needed."""
        settings = self._settings
        policy = rules.PrunePolicy(settings.retained, settings.prune_grace, settings.max_age)
        pinned = [entry for entries in tuple(self._copying.values()) for entry in entries]
        planned = pruning.run(
            self._store,
            policy,
            clock.utc_now(),
            pinned=pinned,
            open_store=self._open_store,
            staging=self._predecessors_staged,
            epoch=self._identity.epoch,
        )
        # Only a driver that died leaves rows behind: once those are gone, a prune saves the look at them.
        self._predecessors_staged &= any(key.startswith(f"{layout.STAGING}/") for key in planned.marks)

    def _sealing(self, order: SnapshotOrder) -> Callable[[], datetime]:
        """Return a clock that is asked once a savepoint's files are in place: its manifest may be written from then on."""

        def now() -> datetime:
            self._sealed.add(order.snapshot_id)
            return clock.utc_now()

        return now

    def note_damage(self, query_uid: str, batch_id: int, said: str) -> None:
        """Leave word for the next drivers that Spark could not load a query's state as of a committed batch.

        Raises:
            TransientError, StateUnknownError: The object store failed; the next driver tries once more than it would.
        """
        who = self._identity
        note = DamageNote(
            generation=who.generation,
            epoch=who.epoch,
            query=query_uid,
            batch_id=batch_id,
            said=said,
            noted_at=clock.utc_now(),
        )
        damage.write(self._store, note)

    def _close_over(self, order: SnapshotOrder, batches: Mapping[str, int]) -> tuple[QueryEntry, ...]:
        entries = (self._close_over_one(order.lane, place.uid, batches[place.uid]) for place in self._places)
        return tuple(query_plans.annotate(entry, self._plans.get(entry.uid)) for entry in entries)

    def _close_over_one(self, lane: Lane, query_uid: str, batch_id: int) -> QueryEntry:
        with declines.taking_part(query_uid):
            return self._closers[lane][query_uid].close_over(batch_id, self._committer.committed(query_uid))

    def _complete_checkpoint(self, order: SnapshotOrder, entries: tuple[QueryEntry, ...]) -> api.SnapshotSummary:
        who = self._identity
        manifest = Manifest(
            kind=SnapshotKind.CHECKPOINT,
            id=order.snapshot_id,
            namespace=who.namespace,
            job=who.job,
            trigger=order.coordinator_request.trigger,
            epoch=who.epoch,
            generation=who.generation,
            triggered_at=order.triggered_at,
            completed_at=clock.utc_now(),
            queries=entries,
            request_id=order.request.request_id if order.request else None,
            restored_from=who.restored_from,
            revision=who.revision,
            versions=self._versions,
            master_states=order.master_states,
            **self._origin(),
        )
        catalog.write_checkpoint(self._store, manifest)
        return api.SnapshotSummary.of(manifest, f"{self._store.uri}/{layout.checkpoint(manifest.id)}")

    def _savepoint_request(self, order: SnapshotOrder) -> savepoint.SavepointRequest:
        who = self._identity
        return savepoint.SavepointRequest(
            id=order.snapshot_id,
            namespace=who.namespace,
            job=who.job,
            trigger=order.coordinator_request.trigger,
            epoch=who.epoch,
            generation=who.generation,
            triggered_at=order.triggered_at,
            name=order.savepoint_request.name if order.savepoint_request else None,
            request_id=order.request.request_id if order.request else None,
            restored_from=who.restored_from,
            revision=who.revision,
            versions=self._versions,
            master_states=order.master_states,
            **self._origin(),
        )

    def _origin(self) -> _Origin:
        """Return the fields of a manifest that say which root it is of, and what that descends from."""
        origin = self._identity.descent
        if origin is None:
            return {"lineage": None, "root": None, "ancestors": ()}
        return {"lineage": origin.lineage, "root": self._store.uri, "ancestors": origin.ancestors}

    def _savepoint_target(self, order: SnapshotOrder, request: savepoint.SavepointRequest) -> savepoint.SavepointTarget:
        asked = order.savepoint_request.location if order.savepoint_request else None
        location = asked or self._savepoint_location
        return savepoint.target(self._store, request, location=location, open_store=self._open_store)


def summarise_restored(store: ObjectStore, manifest: Manifest | None) -> api.SnapshotSummary | None:
    """Return the checkpoint that was restored; None if it was none of the job's own."""
    if manifest is None or manifest.kind is not SnapshotKind.CHECKPOINT:
        return None
    return api.SnapshotSummary.of(manifest, f"{store.uri}/{layout.checkpoint(manifest.id)}")
