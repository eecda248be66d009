"""The job's loop with fakes around it: gates that close at boundaries, writers that fail when told to, real threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from fakecontrol import NOON, a_summary
from fakehooks import Bookmarks
from looprig import LoopRig, Pause, SparkHandle
from statefulspark import errors
from statefulspark import hooks as ss_hooks
from statefulspark.checkpoint import catalog, progress
from statefulspark.contract import api, observations, statistics
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.contract.faults import Fault
from statefulspark.contract.manifest import SnapshotFormat, SnapshotKind
from statefulspark.coordinator import machine, model
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.output import commit
from statefulspark.driver.running import hooks, queries, quiesce
from statefulspark.driver.snapshots import notify, snapshot_writer
from statefulspark.driver.status import Identity, JobStatusTracker
from statefulspark.engine import jvm
from statefulspark.operators import refusals
from statefulspark.retention import rules

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_WAIT_S = 10.0
_COPIED = api.Progress(unit="files", done=3, total=12, done_bytes=30, total_bytes=100)


class FakeGate:
    """A query that commits a batch at every look while its gate is open."""

    def __init__(self) -> None:
        self.fact = jvm.GateFact(last_offsets=-1, last_committed=-1, last_commit_at=None, at_boundary=False)
        self.is_open = True

    def close(self, root: str) -> None:
        self.is_open = False

    def open(self, root: str) -> None:
        self.is_open = True

    def facts(self) -> dict[str, jvm.GateFact]:
        batch = self.fact.last_committed + int(self.is_open)
        self.fact = replace(self.fact, last_offsets=batch, last_committed=batch, at_boundary=not self.is_open)
        return {"root": self.fact}


class FakeHandle(SparkHandle):
    """Spark's handle of a query."""

    def __init__(self) -> None:
        self.isActive = True
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@dataclass
class FakeWriter:
    """Storage: completes what it is asked for, after what the test puts before it."""

    before_complete: Callable[[], None] = lambda: None
    before_precopy: Callable[[], None] = lambda: None
    completed: list[tuple[snapshot_writer.SnapshotOrder, Mapping[str, int]]] = field(default_factory=list)
    before_note: Callable[[], None] = lambda: None
    before_prune: Callable[[], None] = lambda: None
    before_delete: Callable[[], None] = lambda: None
    deleted: list[str] = field(default_factory=list)
    prunes: int = 0
    dropped: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    damage: list[tuple[str, int, str]] = field(default_factory=list)
    state_sizes: observations.StateSizes = field(default_factory=observations.StateSizes)

    def complete(
        self, order: snapshot_writer.SnapshotOrder, batches: Mapping[str, int], *, on_progress: progress.Report
    ) -> api.SnapshotSummary:
        on_progress(_COPIED)
        self.before_complete()
        self.completed.append((order, batches))
        return a_summary(kind=order.kind, number=order.snapshot_id)

    def precopy(
        self, order: snapshot_writer.SnapshotOrder, batches: Mapping[str, int], *, on_progress: progress.Report
    ) -> None:
        on_progress(_COPIED)
        self.before_precopy()

    def discard(self, order: snapshot_writer.SnapshotOrder) -> None:
        self.discarded.append(order.snapshot_id)

    def drop(self, checkpoint_ids: Iterable[int]) -> None:
        self.dropped.extend(checkpoint_ids)

    def prune(self) -> rules.PrunePlan:
        self.prunes += 1
        self.before_prune()
        return rules.PrunePlan((), {}, (f"unused-{self.prunes}",), freed_bytes=1000, keep_reasons={})

    def size_of(self, savepoints: Sequence[catalog.SnapshotRef]) -> int:
        return 1000 * len(savepoints)

    def delete(self, keys: Sequence[str]) -> int:
        self.before_delete()
        self.deleted.extend(keys)
        return 0

    def note_damage(self, query_uid: str, batch_id: int, said: str) -> None:
        self.before_note()
        self.damage.append((query_uid, batch_id, said))


@dataclass
class FakeAnnouncer:
    """Everybody who hears of snapshots; a test puts what it needs in the way."""

    before_complete: Callable[[], None] = lambda: None
    told: list[str] = field(default_factory=list)
    retry_message: str | None = None
    sinks_showing_batches: tuple[str, ...] = ()
    before_show: Callable[[], None] = lambda: None
    committing: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What stands in the way of a sink that commits at snapshots, by its uid."""
    covered: dict[str, int] = field(default_factory=dict)

    def sinks(self) -> tuple[api.SinkStatus, ...]:
        return (api.SinkStatus(query="counts", uid="out", pending_transactions=1),)

    def snapshot_begun(self, snapshot_id: int) -> None:
        self.told.append(f"begun {snapshot_id}")

    def forget(self, snapshot_id: int) -> None:
        self.told.append(f"forget {snapshot_id}")

    def snapshot_completed(self, snapshot_id: int) -> None:
        self.covered |= dict.fromkeys(self.committing, snapshot_id)

    def due_sinks(self, batches: Mapping[str, int]) -> tuple[commit.SinkKey, ...]:
        showing = [uid for uid in self.sinks_showing_batches if f"show {uid} {batches['counts']}" not in self.told]
        return tuple(("counts", uid) for uid in (*showing, *self.covered))

    def commit(self, sink: commit.SinkKey, batches: Mapping[str, int]) -> None:
        _, uid = sink
        if uid in self.sinks_showing_batches:
            self.before_show()
            self.told.append(f"show {uid} {batches['counts']}")
            return
        number = self.covered.pop(uid)
        self.committing[uid]()
        self.told.append(f"commit {uid} of {number}")

    def notify_complete(self, snapshot_id: int) -> None:
        self.before_complete()
        self.told.append(f"complete {snapshot_id}")

    def notify_aborted(self, snapshot_id: int) -> None:
        self.told.append(f"aborted {snapshot_id}")

    def limit_waiting(self) -> None:
        self.told.append("limit_waiting")

    def cancel_retries(self) -> None:
        self.told.append("stop trying")


class Job(LoopRig):
    """A loop that runs in a thread of its own."""

    def __init__(
        self,
        writer: FakeWriter,
        settings: model.CoordinatorSettings,
        announcer: FakeAnnouncer,
        definitions: Sequence[ss_hooks.HookDefinition] = (),
        *,
        has_event_time: bool = False,
    ) -> None:
        self.writer = writer
        self.announcer = announcer
        self.gate = FakeGate()
        self.handle = FakeHandle()
        self.refusals = refusals.Refusals()
        self.starts: list[str] = []
        place = queries.CheckpointLocation("counts", "generations/00000001/counts", "root")
        further = queries.AlternativeStarts(
            lambda: self._start("catch up"), lambda: self._start("held"), has_event_time=has_event_time
        )
        query = queries.RunningQuery(place, self._start, self._start(), self.gate.fact, further)
        identity = Identity("words", "default", 7, 1, None, NOON, None, None)
        planner = cast("quiesce.Planner", SimpleNamespace(plan_end=lambda _: _refuse()))
        loop = JobLoop(
            status_tracker=JobStatusTracker(identity, None),
            gated_queries=quiesce.GatedQueries((query,), cast("jvm.Gate", self.gate), planner),
            fence=cast("jvm.Fence", SimpleNamespace(fenced=False)),
            writer=cast("snapshot_writer.SnapshotWriter", writer),
            announcer=cast("notify.Announcer", announcer),
            participants={"sink:out": "counts"},
            coordinator=machine.initial(settings, next_id=1),
            note_damage=writer.note_damage,
            master_hooks=hooks.JobHooks(definitions),
            refusals=self.refusals,
        )
        super().__init__(loop)
        self.start()
        self.until(lambda: self.loop.status().queries[0].batch_id >= 0)

    def _start(self, how: str = "run") -> StreamingQuery:
        self.starts.append(how)
        self.gate.is_open = True
        self.handle.isActive, self.handle.failure = True, None
        return cast("StreamingQuery", self.handle)

    def close(self) -> None:
        self.writer.before_complete = self.writer.before_precopy = self.announcer.before_complete = lambda: None
        self.drained()


Start = Callable[..., Job]


@pytest.fixture
def start() -> Iterator[Start]:
    jobs: list[Job] = []

    def start_job(
        writer: FakeWriter | None = None,
        *,
        interval_s: float = 3600.0,
        timeout_s: float = 600.0,
        tolerable_failures: int = 3,
        announcer: FakeAnnouncer | None = None,
        master_hooks: Sequence[ss_hooks.HookDefinition] = (),
        has_event_time: bool = False,
    ) -> Job:
        settings = model.CoordinatorSettings(
            interval_s, timeout_s=timeout_s, min_pause_s=min(interval_s, 3600.0) if interval_s > 60 else 0.0,
            tolerable_failures=tolerable_failures,
        )  # fmt: skip
        jobs.append(
            Job(
                writer or FakeWriter(),
                settings,
                announcer or FakeAnnouncer(),
                master_hooks,
                has_event_time=has_event_time,
            )
        )
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.close()


def _cannot_be_read() -> None:
    with snapshot_writer.decline_on_error("counts"):
        raise errors.SnapshotCorruptError("FileMissing", "offsets/7 is gone.")


def _refuse() -> None:
    raise errors.StateUnknownError("AccessDenied", "The store says no.")


def test_periodic_checkpoints_are_completed_while_the_job_runs(start: Start) -> None:
    job = start(interval_s=0.05)

    job.until(lambda: job.loop.status().checkpoints.completed >= 2)

    assert job.gate.is_open
    assert [one.id for one in job.loop.checkpoints().history if one.ended_at][-2:] == [2, 1]


def test_sinks_that_show_each_batch_are_asked_without_a_checkpoint_one_batch_after_the_other(start: Start) -> None:
    pause = Pause()
    announcer = FakeAnnouncer(sinks_showing_batches=("out",), before_show=pause)
    job = start(announcer=announcer)
    pause.reached()
    first = job.loop.status().queries[0].batch_id
    job.until(lambda: job.loop.status().queries[0].batch_id >= first + 3)
    waiting = list(announcer.told)
    pause.release()
    job.until(lambda: len(announcer.told) >= 2)

    assert waiting == [], "nothing is asked while a commit is under way"
    shown = [int(told.removeprefix("show out ")) for told in announcer.told]
    assert shown[0] <= first, "it began with what was committed then"
    assert shown[1] >= first + 3, "what came meanwhile goes together"


def test_a_sink_that_is_away_holds_neither_another_sink_nor_a_function(start: Start) -> None:
    away = Pause()
    job = start(announcer=FakeAnnouncer(committing={"away": away, "well": lambda: None}))
    for number in (1, 2):
        job.loop.request_checkpoint(api.CheckpointRequest(request_id=str(number)))
        job.ended_operation(str(number))
        job.until(lambda number=number: {f"commit well of {number}", f"complete {number}"} <= set(job.announcer.told))
    away.reached()
    held = [told for told in job.announcer.told if "away" in told]
    away.release()
    job.until(lambda: "commit away of 2" in job.announcer.told)

    assert held == []


def test_a_stop_waits_for_every_sink(start: Start) -> None:
    away = Pause()
    job = start(announcer=FakeAnnouncer(committing={"away": away, "well": lambda: None}))
    job.loop.request_stop(api.StopRequest(request_id="a"))
    job.until(lambda: {"commit well of 1", "complete 1"} <= set(job.announcer.told))
    away.reached()
    before = job.loop.operation("a")
    away.release()

    assert before is not None
    assert before.state is api.OperationState.IN_PROGRESS
    assert job.ended().reason == PlannedEnd.STOPPED
    assert "commit away of 1" in job.announcer.told


def test_a_sink_that_refuses_while_another_is_away_fails_the_job(start: Start) -> None:
    away = Pause()
    job = start(interval_s=0.05, announcer=FakeAnnouncer(committing={"away": away, "refusing": _refuse}))
    away.reached()
    job.until(lambda: "stop trying" in job.announcer.told)
    away.release()

    assert (job.ended().code, job.ended().reason) == (ExitCode.FAILED, "AccessDenied")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.FencedError("Epoch 8 runs."), ExitCode.FENCED),
        (errors.StateUnknownError("KafkaMarkerLost", "Look."), ExitCode.FAILED),
    ],
)
def test_a_sink_that_cannot_show_a_batch_ends_the_job(
    start: Start, error: errors.StatefulSparkError, code: ExitCode
) -> None:
    def refuse() -> None:
        raise error

    job = start(announcer=FakeAnnouncer(sinks_showing_batches=("out",), before_show=refuse))
    ending = job.ended()

    assert (ending.code, ending.reason) == (code, error.reason)


def test_pruning_rests_between_checkpoints_and_is_made_up_for_at_the_end(start: Start) -> None:
    job = start(FakeWriter(before_prune=lambda: time.sleep(0.5)), interval_s=0.02)

    job.until(lambda: job.loop.status().checkpoints.completed >= 12)
    while_it_ran = job.writer.prunes
    job.loop.drain()
    ending = job.ended()

    assert ending.reason == PlannedEnd.DRAINED
    assert job.writer.dropped == list(range(1, len(job.writer.dropped) + 1)), "manifests go at once, in order"
    assert len(job.writer.dropped) > 9, "one is retained, and the end may overtake another"
    assert (while_it_ran, job.writer.prunes) == (1, 2), "it rests nineteen times as long as it took"
    assert job.loop.status().pruned_bytes == 2000, "what each of them has freed"


def test_unused_files_are_deleted_beside_checkpoints(start: Start) -> None:
    is_held = threading.Event()
    job = start(FakeWriter(before_delete=lambda: is_held.wait(10) and None), interval_s=0.02)
    job.until(lambda: job.writer.prunes == 1)
    before = job.loop.status().checkpoints.completed

    job.until(lambda: job.loop.status().checkpoints.completed > before + 3)
    assert job.writer.deleted == []
    is_held.set()
    job.until(lambda: job.loop.status().pruned_bytes == 1000)
    assert job.writer.deleted == ["unused-1"]


def test_files_that_could_not_be_deleted_are_tried_again(start: Start) -> None:
    def lose() -> None:
        raise errors.TransientError("StorageUnreachable", "No answer.")

    job = start(FakeWriter(before_delete=lose), interval_s=0.02)
    job.until(lambda: job.writer.prunes == 1)
    job.writer.before_delete = lambda: None

    job.loop.drain()

    assert job.ended().reason == PlannedEnd.DRAINED
    assert job.writer.deleted == ["unused-1", *[f"unused-{number}" for number in range(2, job.writer.prunes + 1)]]


def test_a_last_pruning_that_fails_is_left_to_the_next_driver(start: Start) -> None:
    job = start(FakeWriter(before_prune=_refuse), interval_s=0.05)
    job.until(lambda: job.loop.status().checkpoints.completed >= 5)

    job.loop.drain()

    assert job.ended().reason == PlannedEnd.DRAINED
    assert job.writer.prunes > 1


def test_a_savepoint_does_not_stop_the_job(start: Start) -> None:
    job = start()
    job.loop.request_savepoint(api.SavepointRequest(request_id="a"))

    operation = job.ended_operation("a")

    assert operation.snapshot == a_summary(kind=SnapshotKind.SAVEPOINT, number=1)
    assert job.gate.is_open
    assert job.loop.status().state is api.JobState.RUNNING


def test_a_driver_that_never_was_a_standby_is_not_activated(start: Start) -> None:
    job = start()

    with pytest.raises(errors.PreconditionFailedError, match="never was a standby") as refused:
        job.loop.request_activation(api.ActivateRequest(request_id="take-8", epoch=8))

    assert refused.value.reason == "NotAStandby"
    assert job.loop.operation("take-8") is None


def test_a_checkpoint_can_be_asked_for_and_its_parts_are_told(start: Start) -> None:
    """A.87: a manual trigger; B.11: what is known of it afterwards."""
    job = start()
    job.loop.request_checkpoint(api.CheckpointRequest(request_id="now"))

    operation = job.ended_operation("now")
    told = job.loop.checkpoint(1)

    assert operation.kind is api.OperationKind.CHECKPOINT
    assert operation.snapshot == a_summary(number=1)
    assert told is not None
    assert (told.state, told.is_stop, told.participants) == (
        statistics.SnapshotState.COMPLETED,
        False,
        ("counts", "sink:out"),
    )
    assert [ack.participant for ack in told.acknowledgements] == ["counts", "sink:out"]
    assert told.size_bytes == a_summary().size_bytes
    job.until(lambda: job.loop.checkpoints().counts == job.loop.status().checkpoints)  # Published once a turn.
    assert job.loop.checkpoint(2) is None


def test_a_stop_whose_first_copy_fails_says_whose_fault_it_was(start: Start) -> None:
    """A.93, A.98: IO_EXCEPTION before anybody was asked; the job goes on."""
    job = start(FakeWriter(before_precopy=_refuse))
    job.loop.request_stop(api.StopRequest(request_id="a"))

    assert job.ended_operation("a").reason == "IO_EXCEPTION"
    job.until(lambda: job.loop.status().state is api.JobState.RUNNING)
    assert job.loop.checkpoints().failures == {"IO_EXCEPTION": 1}
    assert job.gate.is_open


def test_a_query_that_fails_aborts_what_waits_for_it(start: Start) -> None:
    """A.109."""
    copying = Pause()
    job = start(FakeWriter(before_precopy=copying))
    job.loop.request_stop(api.StopRequest(request_id="a"))
    copying.reached()
    job.handle.failure, job.handle.isActive = "java.io.IOException: disk full", False

    operation = job.ended_operation("a")
    copying.release()

    assert operation.reason == "TASK_FAILURE"
    assert "disk full" in str(operation.message)
    assert job.ended().code is ExitCode.FAILED


def test_who_asked_for_a_savepoint_can_see_how_far_its_copy_is(start: Start) -> None:
    go_on = threading.Event()
    job = start(FakeWriter(before_complete=lambda: None if go_on.wait(_WAIT_S) else _refuse()))
    job.loop.request_savepoint(api.SavepointRequest(request_id="a"))

    job.until(lambda: getattr(job.loop.operation("a"), "progress", None) == _COPIED)
    go_on.set()

    assert job.ended_operation("a").progress is None


def _asked(hook: Bookmarks, *, timeout: timedelta = timedelta(seconds=_WAIT_S)) -> ss_hooks.HookDefinition:
    return ss_hooks.HookDefinition(hook.uid, hook, timeout)


def test_what_master_hooks_answer_is_part_of_the_snapshot(start: Start) -> None:
    """A.95: each is told number and time, and asked before the queries are."""
    one, other = Bookmarks("one"), Bookmarks("other", answer=None)
    job = start(master_hooks=[_asked(one), _asked(other)])
    job.loop.request_checkpoint(api.CheckpointRequest(request_id="now"))

    job.ended_operation("now")

    ((order, _),) = job.writer.completed
    assert [(state.identifier, state.checkpoint_id, state.body) for state in order.master_states] == [
        ("one", 1, b"at 1")
    ]
    assert one.asked == other.asked == [(1, order.triggered_at)]


def test_a_master_hook_that_fails_declines_the_checkpoint_and_the_next_one_asks_again(start: Start) -> None:
    hook = Bookmarks("shop", failures=["the shop is closed"])
    job = start(master_hooks=[_asked(hook)])
    for number, request_id in enumerate("ab", start=1):
        job.loop.request_checkpoint(api.CheckpointRequest(request_id=request_id))
        job.ended_operation(request_id)
        assert job.loop.checkpoint(number) is not None

    first, second = job.loop.operation("a"), job.loop.operation("b")

    assert first is not None
    assert second is not None
    assert (first.reason, second.state) == ("CHECKPOINT_DECLINED", api.OperationState.COMPLETED)
    assert first.message == (
        "hook:shop declined: Bookmarks.trigger() of the master hook 'shop' failed: ValueError: the shop is closed"
    )
    assert job.loop.checkpoints().failures == {"CHECKPOINT_DECLINED": 1}
    assert [order.snapshot_id for order, _ in job.writer.completed] == [2]


def test_a_master_hook_that_takes_too_long_declines_and_is_not_asked_meanwhile(start: Start) -> None:
    hook = Bookmarks("shop", holds=threading.Event())
    job = start(master_hooks=[_asked(hook, timeout=timedelta(seconds=0.1))])
    for request_id in "ab":
        job.loop.request_checkpoint(api.CheckpointRequest(request_id=request_id))
        job.ended_operation(request_id)

    told = [operation.message for operation in map(job.loop.operation, "ab") if operation is not None]
    hook.holds.set()

    assert "it did not return within 100ms" in str(told[0])
    assert "it is still in trigger(), which took too long before" in str(told[1])
    assert [number for number, _ in hook.asked] == [1]


def test_a_stop_pauses_the_queries_when_the_master_hooks_have_answered(start: Start) -> None:
    hook = Bookmarks("shop", holds=threading.Event())
    job = start(master_hooks=[_asked(hook)])
    job.loop.request_stop(api.StopRequest(request_id="a"))
    job.until(lambda: bool(hook.asked))
    job.until(lambda: job.loop.status().state is api.JobState.STOPPING)
    was_open = job.gate.is_open
    job.loop.request_stop(api.StopRequest(request_id="b"))
    second = job.ended_operation("b")
    hook.holds.set()

    assert was_open
    assert second.reason == "StopInProgress"
    assert job.ended().reason == PlannedEnd.STOPPED
    ((order, _),) = job.writer.completed
    assert [state.body for state in order.master_states] == [b"at 1"]


def test_a_master_hook_that_declines_a_stop_leaves_the_job_running(start: Start) -> None:
    job = start(master_hooks=[_asked(Bookmarks("shop", failures=["closed"]))])
    job.loop.request_stop(api.StopRequest(request_id="a"))

    operation = job.ended_operation("a")
    job.until(lambda: job.loop.status().state is api.JobState.RUNNING)

    assert operation.reason == "CHECKPOINT_DECLINED"
    assert job.gate.is_open


def test_a_query_whose_files_cannot_be_closed_over_declines_the_checkpoint(start: Start) -> None:
    """A.107, A.110: it is aborted, counted, and told by name."""
    job = start(FakeWriter(before_complete=_cannot_be_read), interval_s=0.02, tolerable_failures=2)

    ending = job.ended()
    told = job.loop.checkpoints()

    assert (ending.code, ending.reason) == (ExitCode.FAILED, "CheckpointsFailing")
    messages = {one.message for one in told.history if one.reason == "CHECKPOINT_DECLINED"}
    assert told.failures["CHECKPOINT_DECLINED"] == 3
    assert messages == {"counts declined: FileMissing: offsets/7 is gone."}


def test_a_function_that_cannot_be_snapshotted_declines_the_stop_that_waits_for_its_batch(start: Start) -> None:
    """A.111: and the job fails, since a batch without its function's state cannot be committed."""
    copying = Pause()
    job = start(FakeWriter(before_precopy=copying))
    job.loop.request_stop(api.StopRequest(request_id="a"))
    copying.reached()
    why = errors.SpecRejectedError("SnapshotFailed", "Could not complete snapshot 1 for operator buffer: disk full.")
    job.refusals.note("counts", "sink:out", why)
    job.handle.failure, job.handle.isActive = "PythonException: SnapshotFailed", False

    operation = job.ended_operation("a")
    copying.release()

    assert operation.reason == "CHECKPOINT_DECLINED"
    assert operation.message == f"sink:out declined: {why.message}"
    assert (job.ended().code, job.ended().reason) == (ExitCode.FAILED, "QueryFailed")


def test_a_stop_ends_every_query_at_its_boundary(start: Start) -> None:
    job = start()
    job.loop.request_stop(api.StopRequest(request_id="a"))

    ending = job.ended()

    ((order, batches),) = job.writer.completed
    assert (ending.reason, order.kind) == (PlannedEnd.STOPPED, SnapshotKind.SAVEPOINT)
    assert batches == dict.fromkeys(("counts", "sink:out"), job.gate.fact.last_committed)
    assert job.handle.stopped
    assert job.loop.status().state is api.JobState.STOPPED


@pytest.mark.parametrize("request_id", ["drain", "finished", "periodic"])
def test_a_request_id_is_never_mistaken_for_a_stop_of_our_own(start: Start, request_id: str) -> None:
    job = start(interval_s=0.05)
    job.loop.request_stop(api.StopRequest(request_id=request_id, savepoint=True))

    operation = job.ended_operation(request_id)

    assert job.ended().reason == PlannedEnd.STOPPED
    assert operation.snapshot is not None
    assert operation.snapshot.kind is SnapshotKind.SAVEPOINT


def test_a_stop_that_drains_reads_everything_and_then_takes_its_savepoint(start: Start) -> None:
    """A.97, A.163."""
    job = start()
    job.loop.request_stop(api.StopRequest(request_id="a", drain=True))
    job.until(lambda: job.starts == ["run", "catch up"])
    while_it_reads = (job.loop.status().state, job.loop.operation("a"))
    job.loop.request_stop(api.StopRequest(request_id="b"))
    second = job.ended_operation("b")
    job.handle.isActive = False  # It has read everything.

    ending, operation = job.ended(), job.loop.operation("a")
    ((order, _),) = job.writer.completed

    assert while_it_reads[0] is api.JobState.STOPPING
    assert while_it_reads[1] is not None
    assert while_it_reads[1].state is api.OperationState.IN_PROGRESS
    assert while_it_reads[1].progress == api.Progress(unit="queries", done=0, total=1)
    assert second.reason == "StopInProgress"
    assert (ending.reason, order.kind, order.coordinator_request.key) == (
        PlannedEnd.STOPPED,
        SnapshotKind.SAVEPOINT,
        "a",
    )
    assert operation is not None
    assert operation.state is api.OperationState.COMPLETED


def test_a_drained_job_whose_savepoint_fails_goes_on(start: Start) -> None:
    job = start(FakeWriter(before_complete=_refuse))
    job.loop.request_stop(api.StopRequest(request_id="a", drain=True))
    job.until(lambda: job.starts == ["run", "catch up"])
    job.handle.isActive = False

    assert job.ended_operation("a").reason == "FINALIZE_CHECKPOINT_FAILURE"
    job.until(lambda: job.starts == ["run", "catch up", "run"])
    job.until(lambda: job.loop.status().state is api.JobState.RUNNING)
    assert job.gate.is_open


def test_a_sigterm_while_the_job_is_drained_ends_it_at_the_next_boundary(start: Start) -> None:
    job = start()
    job.loop.request_stop(api.StopRequest(request_id="a", drain=True))
    job.until(lambda: job.starts == ["run", "catch up"])
    job.loop.drain()

    ending, operation = job.ended(), job.loop.operation("a")

    assert ending.reason == PlannedEnd.DRAINED
    assert operation is not None
    assert (operation.state, operation.reason) == (api.OperationState.FAILED, "StopInterrupted")


def test_a_query_that_fails_while_the_job_is_drained_fails_the_stop(start: Start) -> None:
    job = start()
    job.loop.request_stop(api.StopRequest(request_id="a", drain=True))
    job.until(lambda: job.starts == ["run", "catch up"])
    job.handle.failure, job.handle.isActive = "java.io.IOException: disk full", False

    ending, operation = job.ended(), job.loop.operation("a")

    assert ending.reason == "QueryFailed"
    assert operation is not None
    assert (operation.state, operation.reason) == (api.OperationState.FAILED, "StopFailed")
    assert "disk full" in str(operation.message)


def test_a_job_that_cannot_be_drained_fails_and_says_so(start: Start) -> None:
    job = start(has_event_time=True)
    job.loop.request_stop(api.StopRequest(request_id="a", drain=True))
    job.until(lambda: job.starts == ["run", "catch up"])
    job.handle.isActive = False

    ending, operation = job.ended(), job.loop.operation("a")

    assert (ending.code, ending.reason) == (ExitCode.FAILED, "AccessDenied")
    assert "continues when it is started again: The store says no." in ending.message
    assert operation is not None
    assert operation.message == ending.message


@pytest.mark.parametrize("wish", [{"drain": True}, {"format": "Canonical"}], ids=["drain", "format"])
def test_a_stop_without_a_savepoint_takes_no_wishes_for_one(wish: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="needs a savepoint"):
        api.StopRequest.model_validate({"requestId": "a", "savepoint": False, **wish})


def test_a_stop_can_ask_for_a_canonical_savepoint(start: Start) -> None:
    job = start()
    job.loop.request_stop(api.StopRequest(request_id="a", format=SnapshotFormat.CANONICAL))

    assert job.ended().reason == PlannedEnd.STOPPED
    ((order, _),) = job.writer.completed
    assert order.is_canonical


def test_bounded_input_ends_with_a_checkpoint_and_finished(start: Start) -> None:
    job = start()
    job.handle.isActive = False

    assert job.ended().reason == PlannedEnd.FINISHED
    assert len(job.writer.completed) == 1


def test_a_query_whose_state_is_damaged_leaves_word_for_the_next_driver(start: Start) -> None:
    job = start()
    job.handle.failure = "[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] Checksum verification failed"
    job.handle.isActive = False

    ending = job.ended()

    assert (ending.code, ending.reason) == (ExitCode.FAILED, "StateDamaged")
    [(query, batch, said)] = job.writer.damage
    assert (query, batch) == ("counts", job.loop.status().queries[0].batch_id)
    assert "Checksum verification failed" in said


def test_damage_that_cannot_be_noted_ends_the_job_all_the_same(start: Start) -> None:
    job = start(FakeWriter(before_note=_refuse))
    job.handle.failure = "[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] Checksum verification failed"
    job.handle.isActive = False

    assert job.ended().reason == "StateDamaged"


def test_a_query_that_an_older_driver_overtook_is_started_again_twice_at_most(start: Start) -> None:
    job = start()

    for starts in (2, 3):
        job.handle.failure = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log"
        job.handle.isActive = False
        job.until(lambda starts=starts: len(job.starts) == starts)  # type: ignore[misc]
    job.handle.failure = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log"
    job.handle.isActive = False

    assert job.ended().reason == "ConcurrentDriver"


def test_a_stop_that_fails_leaves_the_job_running(start: Start) -> None:
    """A.162, A.164."""
    job = start(FakeWriter(before_complete=_refuse))
    job.loop.request_stop(api.StopRequest(request_id="a"))

    operation = job.ended_operation("a")
    job.until(lambda: job.loop.status().state is api.JobState.RUNNING)

    assert (operation.state, operation.reason) == (api.OperationState.FAILED, "FINALIZE_CHECKPOINT_FAILURE")
    assert "The store says no." in str(operation.message)
    assert job.gate.is_open
    job.until(lambda: job.writer.discarded == [1])


def test_a_stop_that_expired_while_it_copied_ahead_does_not_pause_the_job_for_ever(start: Start) -> None:
    copying = Pause()
    job = start(FakeWriter(before_precopy=copying), timeout_s=0.2)
    job.loop.request_stop(api.StopRequest(request_id="a"))
    copying.reached()
    assert job.ended_operation("a").reason == "CHECKPOINT_EXPIRED"

    copying.release()
    job.until(lambda: job.writer.discarded == [1])
    seen = job.loop.status().queries[0].batch_id

    job.until(lambda: job.loop.status().queries[0].batch_id > seen + 2)
    assert job.gate.is_open


def test_a_signal_during_a_stop_that_fails_still_drains_the_job(start: Start) -> None:
    writing, go_on = threading.Event(), threading.Event()
    writer = FakeWriter()

    def fail_when_told() -> None:
        writer.before_complete = lambda: None
        writing.set()
        assert go_on.wait(_WAIT_S)
        _refuse()

    writer.before_complete = fail_when_told
    job = start(writer)
    job.loop.request_stop(api.StopRequest(request_id="a"))
    assert writing.wait(_WAIT_S)

    job.loop.drain()
    time.sleep(0.1)
    go_on.set()

    assert job.ended().reason == PlannedEnd.DRAINED


def test_a_signal_drains_a_job_whose_queue_of_requests_is_full_once_there_is_room(start: Start) -> None:
    writing = Pause()
    job = start(FakeWriter(before_complete=writing))
    for number in range(model.MAX_QUEUED_REQUESTS + 1):
        job.loop.request_checkpoint(api.CheckpointRequest(request_id=str(number)))
    job.loop.drain()
    writing.reached()

    writing.release()

    assert job.ended().reason == PlannedEnd.DRAINED


def test_checkpoints_that_keep_failing_end_the_job(start: Start) -> None:
    """A.110."""
    job = start(FakeWriter(before_complete=_refuse), interval_s=0.05, tolerable_failures=2)

    ending = job.ended()

    assert (ending.code, ending.reason) == (ExitCode.FAILED, "CheckpointsFailing")
    assert "The store says no." in ending.message
    assert job.loop.status().checkpoints.failed >= 3


def test_a_driver_that_is_fenced_while_it_writes_stops_as_fenced(start: Start) -> None:
    def fenced() -> None:
        raise errors.FencedError("Epoch 8 runs.")

    job = start(FakeWriter(before_complete=fenced), interval_s=0.05)

    assert job.ended().code is ExitCode.FENCED
    assert job.loop.status().state is api.JobState.FENCED


def test_a_failed_query_is_told_with_its_reason_until_the_driver_is_gone(start: Start) -> None:
    job = start()
    job.handle.failure = "java.io.IOException: disk full"
    job.handle.isActive = False

    job.ended()

    status = job.loop.status()
    assert status.last_error is not None
    assert (status.state, status.last_error.query, status.last_error.reason, status.last_error.fault) == (
        api.JobState.FAILED,
        "counts",
        "QueryFailed",
        Fault.REVISION,
    )
    assert "disk full" in status.last_error.message


def test_a_function_that_cannot_be_loaded_is_not_started_again(start: Start) -> None:
    job = start()
    job.handle.failure = "[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE] Cause: ImportError: no such module"
    job.handle.isActive = False

    assert job.ended().code is ExitCode.FAILED
    assert len(job.starts) == 1


def test_an_intermediate_savepoint_commits_nothing(start: Start) -> None:
    """A.49, A.102."""
    job = start()
    job.loop.request_savepoint(api.SavepointRequest(request_id="a"))
    job.ended_operation("a")
    job.loop.request_checkpoint(api.CheckpointRequest(request_id="b"))
    job.ended_operation("b")

    job.until(lambda: "complete 2" in job.announcer.told)

    assert job.announcer.told == ["begun 1", "forget 1", "begun 2", "complete 2"]


@pytest.mark.parametrize("savepoint", [True, False], ids=["with savepoint", "with checkpoint"])
def test_a_stop_ends_when_its_sinks_have_committed(start: Start, savepoint: bool) -> None:
    """A.49, A.102: stop with savepoint is announced; the driver and the operation wait for it."""
    committing = Pause()
    job = start(announcer=FakeAnnouncer(before_complete=committing))
    job.loop.request_stop(api.StopRequest(request_id="a", savepoint=savepoint))
    committing.reached()
    before = job.loop.operation("a")
    assert before is not None
    assert before.state is api.OperationState.IN_PROGRESS
    assert not job.gate.is_open

    committing.release()

    assert job.ended().reason == PlannedEnd.STOPPED
    assert job.ended_operation("a").state is api.OperationState.COMPLETED
    assert job.announcer.told == ["begun 1", "limit_waiting", "complete 1", "stop trying"]


def test_a_stop_whose_commit_fails_says_where_the_savepoint_is(start: Start) -> None:
    """A.164."""
    job = start(announcer=FakeAnnouncer(before_complete=_refuse))
    job.loop.request_stop(api.StopRequest(request_id="a"))

    operation, ending = job.ended_operation("a"), job.ended()

    location = a_summary(kind=SnapshotKind.SAVEPOINT, number=1).location
    assert (ending.code, ending.reason) == (ExitCode.FAILED, "AccessDenied")
    assert f"created at {location}" in ending.message
    assert "transactions that are not committed" in ending.message
    assert (operation.state, operation.message) == (api.OperationState.FAILED, ending.message)


def test_a_query_that_fails_during_the_commit_of_a_stop_says_where_the_savepoint_is(start: Start) -> None:
    """A.164."""
    committing = Pause()
    job = start(announcer=FakeAnnouncer(before_complete=committing))
    job.loop.request_stop(api.StopRequest(request_id="a"))
    committing.reached()
    job.handle.failure, job.handle.isActive = "java.io.IOException: disk full", False

    operation = job.ended_operation("a")
    committing.release()

    assert "created at" in str(operation.message)
    assert "disk full" in str(operation.message)
    assert job.ended().code is ExitCode.FAILED


def test_an_error_of_an_announcement_fails_the_job(start: Start) -> None:
    """A.47."""
    job = start(interval_s=0.05, announcer=FakeAnnouncer(before_complete=_refuse))

    ending = job.ended()

    assert (ending.code, ending.reason, ending.message) == (ExitCode.FAILED, "AccessDenied", "The store says no.")


def test_a_driver_that_is_fenced_before_it_commits_ends_as_fenced(start: Start) -> None:
    def fenced() -> None:
        raise errors.FencedError("Epoch 8 runs.")

    job = start(interval_s=0.05, announcer=FakeAnnouncer(before_complete=fenced))

    assert job.ended().code is ExitCode.FENCED


def test_an_aborted_snapshot_is_announced(start: Start) -> None:
    """A.47, A.108."""
    job = start(FakeWriter(before_complete=_refuse))
    job.loop.request_checkpoint(api.CheckpointRequest(request_id="a"))

    job.until(lambda: "aborted 1" in job.announcer.told)

    assert "complete 1" not in job.announcer.told


def test_a_commit_that_is_tried_again_shows_in_the_status(start: Start) -> None:
    job = start()
    job.announcer.retry_message = "Committing is retried: the broker does not answer."

    job.until(lambda: job.loop.status().message == job.announcer.retry_message)
