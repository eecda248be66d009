"""A coordinator under a fake clock: tests say what happens when, and read the commands that came out."""

from __future__ import annotations

from collections.abc import Mapping

from statefulspark.contract.manifest import SnapshotKind, Trigger
from statefulspark.coordinator import machine, model

PARTICIPANTS = frozenset({"delays", "counts"})


def a_periodic(at_s: float = 0.0) -> model.Request:
    return model.Request(machine.PERIODIC_KEY, SnapshotKind.CHECKPOINT, Trigger.PERIODIC, at_s)


def a_checkpoint(key: str = "manual", at_s: float = 0.0) -> model.Request:
    return model.Request(key, SnapshotKind.CHECKPOINT, Trigger.MANUAL, at_s)


def a_savepoint(key: str = "savepoint", at_s: float = 0.0) -> model.Request:
    return model.Request(key, SnapshotKind.SAVEPOINT, Trigger.MANUAL, at_s)


def a_stop(key: str = "stop", at_s: float = 0.0, kind: SnapshotKind = SnapshotKind.SAVEPOINT) -> model.Request:
    return model.Request(key, kind, Trigger.STOP, at_s, is_stop=True)


class Run:
    """One coordinator and everything it has commanded.

    Every method that makes something happen returns the commands of that event alone.
    """

    def __init__(
        self,
        *,
        interval_s: float = 10.0,
        timeout_s: float = 600.0,
        min_pause_s: float = 0.0,
        max_concurrent: int = 1,
        tolerable_failures: int = 0,
        kept: int = 1,
        next_id: int = 1,
        retained: tuple[int, ...] = (),
        first_delay_s: float = 10.0,
        started: bool = True,
        cleans_up: bool = True,
        first_commits: frozenset[str] = frozenset(),
        untried: frozenset[int] = frozenset(),
        restored: Mapping[str, int] | None = None,
    ) -> None:
        settings = model.CoordinatorSettings(
            interval_s, timeout_s, min_pause_s, max_concurrent, tolerable_failures, kept
        )
        self.state = machine.initial(
            settings,
            next_id=next_id,
            retained=retained,
            untried=untried,
            restored=restored,
            first_commits=first_commits,
        )
        self.commands: list[model.Command] = []
        self.cleans_up = cleans_up
        if started:
            self.start(first_delay_s)

    def send(self, event: model.Event) -> tuple[model.Command, ...]:
        self.state, commands = machine.step(self.state, event)
        self.commands.extend(commands)
        aborted = (
            [one.snapshot_id for one in commands if isinstance(one, model.NotifyAborted)] if self.cleans_up else []
        )
        for snapshot_id in aborted:
            commands += self.cleaned(snapshot_id, event.now_s)
        return commands

    def cleaned(self, snapshot_id: int, now_s: float = 0.0) -> tuple[model.Command, ...]:
        """Tell that what an aborted snapshot had written is gone; by default every abort is followed by it."""
        return self.send(model.Cleaned(now_s, snapshot_id))

    def start(self, first_delay_s: float = 10.0, now_s: float = 0.0) -> tuple[model.Command, ...]:
        return self.send(model.Started(now_s, PARTICIPANTS, first_delay_s))

    def tick(
        self, now_s: float, news: frozenset[str] = PARTICIPANTS, begun: frozenset[str] | None = None
    ) -> tuple[model.Command, ...]:
        return self.send(model.Tick(now_s, news, news if begun is None else begun))

    def request(self, request: model.Request, now_s: float = 0.0) -> tuple[model.Command, ...]:
        return self.send(model.Requested(now_s, request))

    def begin(self, request: model.Request, now_s: float = 0.0) -> int:
        """Request a snapshot that is to begin at once; returns its id."""
        (begun,) = (one for one in self.request(request, now_s) if isinstance(one, model.Begin))
        return begun.snapshot_id

    def ack(
        self, snapshot_id: int, now_s: float = 0.0, batches: Mapping[str, int] | None = None
    ) -> tuple[model.Command, ...]:
        return self.send(model.Acknowledged(now_s, snapshot_id, batches or {"counts": 7, "delays": 7}))

    def finalized(self, snapshot_id: int, now_s: float = 0.0) -> tuple[model.Command, ...]:
        return self.send(model.Finalized(now_s, snapshot_id))

    def complete(self, request: model.Request, now_s: float = 0.0) -> int:
        """Begin a snapshot and complete it; returns its id."""
        snapshot_id = self.begin(request, now_s)
        self.ack(snapshot_id, now_s)
        self.finalized(snapshot_id, now_s)
        return snapshot_id

    def fail(self, snapshot_id: int, now_s: float = 0.0) -> tuple[model.Command, ...]:
        return self.send(
            model.Failed(now_s, snapshot_id, model.AbortReason.FINALIZE_CHECKPOINT_FAILURE, "the store said no")
        )

    @property
    def pending_ids(self) -> tuple[int, ...]:
        return tuple(pending.id for pending in self.state.pending)
