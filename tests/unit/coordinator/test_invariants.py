"""Whatever happens in whatever order: what always holds of the coordinator.

A hypothesis state machine sends events at random and keeps its own book of what was commanded.
"""

from __future__ import annotations

import itertools

from coordination import PARTICIPANTS, a_checkpoint, a_savepoint, a_stop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.coordinator import machine, model

_SETTINGS = st.builds(
    model.CoordinatorSettings,
    interval_s=st.sampled_from([1.0, 10.0]),
    timeout_s=st.sampled_from([15.0, 60.0, 600.0]),
    min_pause_s=st.sampled_from([0.0, 3.0, 20.0]),
    max_concurrent=st.integers(1, 3),
    tolerable_failures=st.integers(0, 2),
    retained=st.integers(1, 3),
)
_HOOKS = st.sampled_from([frozenset[str](), frozenset({"one", "other"})])
_IDS_BACK = st.integers(0, 3)
_LUCK = st.sampled_from([1, 1, 1, 1, 1, 1, 1, 1, 0])
"""Ends of a job are rare, so that snapshots get somewhere between them."""


class Coordination(RuleBasedStateMachine):
    """Events at random; the book on the side is the specification."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.keys = itertools.count()
        self.asked: set[str] = set()
        self.begun: dict[int, model.Begin] = {}
        self.answered: dict[int, set[str]] = {}
        self.finalizing: set[int] = set()
        self.ended: dict[int, model.Command] = {}
        self.failures_in_a_row = 0
        self.last_completion_s: float | None = None
        self.best_completed = 0
        self.best_success = 0
        self.unclean: set[int] = set()

    @initialize(chosen=_SETTINGS, next_id=st.integers(1, 50), delay_s=st.floats(0, 20), hooks=_HOOKS)
    def start(self, chosen: model.CoordinatorSettings, next_id: int, delay_s: float, hooks: frozenset[str]) -> None:
        self.first_id, self.hooks = next_id, hooks
        self.state = machine.initial(chosen, next_id=next_id)
        self.send(model.Started(0.0, PARTICIPANTS, delay_s, hooks))

    # What may happen

    @rule(seconds=st.sampled_from([0.1, 1.0, 1.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.send(model.Tick(self.now_s, PARTICIPANTS))

    @rule()
    def the_next_wake_up_comes(self) -> None:
        expiries = [pending.timed_from_s + self.state.settings.timeout_s for pending in self.state.pending]
        trigger = self.state.next_trigger_at_s
        self.now_s = max(self.now_s, min(expiries if trigger is None else [*expiries, trigger], default=0.0))
        self.send(model.Tick(self.now_s, PARTICIPANTS))

    @rule(back=_IDS_BACK, steps=st.integers(1, 2))
    def a_snapshot_goes_forward(self, back: int, steps: int) -> None:
        """Most snapshots succeed: the participants acknowledge, then the manifest is written."""
        if not self.state.pending:
            return
        snapshot_id = self.state.pending[-1 - back % len(self.state.pending)].id
        for hook in sorted(self.hooks):
            self.a_hook_answers_for(snapshot_id, hook)
        if snapshot_id not in self.finalizing:
            self.send(model.Acknowledged(self.now_s, snapshot_id, dict.fromkeys(PARTICIPANTS, 7)))
            steps -= 1
        if steps:
            self.send(model.Finalized(self.now_s, snapshot_id))

    @rule(kind=st.sampled_from(["checkpoint", "savepoint", "stop", "drain"]))
    def somebody_asks(self, kind: str) -> None:
        key = f"{kind}-{next(self.keys)}"
        request = {
            "checkpoint": a_checkpoint(key, self.now_s),
            "savepoint": a_savepoint(key, self.now_s),
            "stop": a_stop(key, self.now_s),
            "drain": a_stop(key, self.now_s, SnapshotKind.CHECKPOINT),
        }[kind]
        self.asked.add(key)
        self.send(model.Requested(self.now_s, request))

    @rule(back=_IDS_BACK, hook=st.sampled_from(["one", "other", "stranger"]))
    def a_hook_answers(self, back: int, hook: str) -> None:
        self.a_hook_answers_for(self.state.next_id - 1 - back, hook)

    def a_hook_answers_for(self, snapshot_id: int, hook: str) -> None:
        if self.state.find(snapshot_id) is not None and hook in self.hooks:
            self.answered[snapshot_id].add(hook)
        self.send(model.HookAnswered(self.now_s, snapshot_id, hook))

    @rule(back=_IDS_BACK)
    def the_participants_acknowledge(self, back: int) -> None:
        snapshot_id = self.state.next_id - 1 - back
        self.send(model.Acknowledged(self.now_s, snapshot_id, dict.fromkeys(PARTICIPANTS, 7)))

    @rule(back=_IDS_BACK)
    def a_participant_declines(self, back: int) -> None:
        self.send(model.Declined(self.now_s, self.state.next_id - 1 - back, "delays", "not now"))

    @rule(back=_IDS_BACK, reason=st.sampled_from([model.AbortReason.IO_EXCEPTION, model.AbortReason.TASK_FAILURE]))
    def a_step_before_the_barrier_fails(self, back: int, reason: model.AbortReason) -> None:
        self.send(model.Failed(self.now_s, self.state.next_id - 1 - back, reason, "no"))

    @rule()
    def what_was_aborted_is_cleaned_up(self) -> None:
        for snapshot_id in sorted(self.unclean):
            self.unclean.discard(snapshot_id)
            self.send(model.Cleaned(self.now_s, snapshot_id))

    @rule(back=_IDS_BACK)
    def writing_succeeds(self, back: int) -> None:
        ready = sorted(self.finalizing - self.ended.keys())
        if ready:
            self.send(model.Finalized(self.now_s, ready[-1 - back % len(ready)]))

    @rule(back=_IDS_BACK)
    def writing_fails(self, back: int) -> None:
        ready = sorted(self.finalizing - self.ended.keys())
        if ready:
            reason = model.AbortReason.FINALIZE_CHECKPOINT_FAILURE
            self.send(model.Failed(self.now_s, ready[-1 - back % len(ready)], reason, "the store said no"))

    @rule(luck=_LUCK)
    def the_driver_goes_down_and_another_comes(self, luck: int) -> None:
        if luck and self.state.participants:
            return
        self.send(model.ShutDown(self.now_s))
        assert not self.state.pending
        assert not self.state.queue
        self.state = machine.initial(self.state.settings, next_id=self.state.next_id, retained=self.state.retained)
        self.failures_in_a_row, self.last_completion_s = 0, None
        self.best_success = max(self.state.retained, default=0)
        self.unclean = set()
        self.send(model.Started(self.now_s, PARTICIPANTS, 1.0, self.hooks))

    # The book

    def send(self, event: model.Event) -> None:
        self.state, commands = machine.step(self.state, event)
        for command in commands:
            self.take(command)

    def take(self, command: model.Command) -> None:
        match command:
            case model.Begin():
                assert command.hooks == self.hooks
                self.answered[command.snapshot_id] = set()
                self._take_begin(command)
            case model.Finalize():
                assert command.snapshot_id not in self.finalizing, "finalized twice"
                assert self.answered[command.snapshot_id] == self.hooks, "finalized before every hook had answered"
                assert command.batches.keys() == PARTICIPANTS
                self.finalizing.add(command.snapshot_id)
            case model.NotifyComplete():
                self._take_complete(command)
            case model.NotifyAborted():
                self._take_aborted(command)
            case model.Refuse():
                if not command.request.is_periodic:
                    self.asked.remove(command.request.key)
            case model.Subsume():
                assert command.checkpoint_ids, "nothing to subsume"
                assert max(command.checkpoint_ids) < max(self.state.retained), "the newest was subsumed"
            case model.FailJob():
                assert self.failures_in_a_row > self.state.settings.tolerable_failures, "the job failed too early"
                self.failures_in_a_row = 0

    def _take_begin(self, command: model.Begin) -> None:
        assert command.snapshot_id == max(self.begun, default=self.first_id - 1) + 1, "ids go up by one"
        assert command.participants == PARTICIPANTS
        request = command.request
        if not request.is_forced:
            running = [one for one in self.begun if one not in self.ended]
            assert len(running) < self.state.settings.max_concurrent, "too many at once"
            assert not any(self.begun[one].request.is_stop for one in running), "a checkpoint began during a stop"
            assert len(self.unclean) <= self.state.settings.max_concurrent, "too many are being cleaned up"
        if request.is_periodic and self.last_completion_s is not None:
            pause_s = self.now_s - self.last_completion_s
            assert pause_s >= self.state.settings.min_pause_s - 1e-6, "the pause was not respected"
        if not request.is_periodic:
            self.asked.remove(request.key)
        self.begun[command.snapshot_id] = command

    def _take_complete(self, command: model.NotifyComplete) -> None:
        assert command.snapshot_id in self.finalizing
        self._end(command.snapshot_id, command)
        self.failures_in_a_row = 0
        self.last_completion_s = self.now_s
        self.best_success = max(self.best_success, command.snapshot_id)
        if command.request.kind is SnapshotKind.CHECKPOINT:
            self.best_completed = max(self.best_completed, command.snapshot_id)

    def _take_aborted(self, command: model.NotifyAborted) -> None:
        request = command.request
        if command.reason is model.AbortReason.CHECKPOINT_SUBSUMED:
            assert not request.is_forced, "a savepoint or stop was subsumed"
        self.unclean.add(command.snapshot_id)
        self._end(command.snapshot_id, command)
        is_counted = command.reason in model.COUNTED_REASONS and request.kind is SnapshotKind.CHECKPOINT
        if is_counted and command.snapshot_id > self.best_success:
            self.failures_in_a_row += 1

    def _end(self, snapshot_id: int, command: model.Command) -> None:
        assert snapshot_id in self.begun, "ended without having begun"
        assert snapshot_id not in self.ended, "ended twice"
        self.ended[snapshot_id] = command

    # What always holds

    @invariant()
    def every_begun_snapshot_has_ended_or_is_pending(self) -> None:
        if hasattr(self, "state"):
            assert {one.id for one in self.state.pending} == self.begun.keys() - self.ended.keys()
            stale = [one.id for one in self.state.pending if not one.request.is_forced]
            assert all(one > self.best_completed for one in stale), "an older checkpoint was not subsumed"

    @invariant()
    def nobody_is_forgotten(self) -> None:
        if hasattr(self, "state"):
            waiting = {request.key for request in self.state.queue if not request.is_periodic}
            assert waiting == self.asked

    @invariant()
    def no_more_checkpoints_are_retained_than_set(self) -> None:
        if hasattr(self, "state"):
            retained = self.state.retained
            assert len(retained) <= self.state.settings.retained
            assert list(retained) == sorted(set(retained))
            kinds = {self.begun[one].request.kind for one in retained}
            assert kinds <= {SnapshotKind.CHECKPOINT}

    @invariant()
    def the_newest_completed_checkpoint_is_retained(self) -> None:
        if hasattr(self, "state") and self.best_completed:
            assert self.state.retained[-1] == self.best_completed

    @invariant()
    def failures_are_counted_as_in_the_book(self) -> None:
        if hasattr(self, "state"):
            assert self.state.consecutive_failures == self.failures_in_a_row
            assert self.failures_in_a_row <= self.state.settings.tolerable_failures

    @invariant()
    def a_job_that_runs_has_a_next_trigger_and_one_that_has_stopped_has_nothing(self) -> None:
        if hasattr(self, "state") and self.state.participants:
            assert self.state.next_trigger_at_s is not None
        elif hasattr(self, "state"):
            assert (self.state.next_trigger_at_s, self.state.pending, self.state.queue) == (None, (), ())


Coordination.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestCoordination = Coordination.TestCase
