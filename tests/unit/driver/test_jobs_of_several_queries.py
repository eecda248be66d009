"""Flink's promises about the whole job, kept by a driver of two queries in which only Spark is simulated."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import pytest
from drivenjob import NEVER, DrivenJob, Hearer, cut_of, new_roots, running
from looprig import WAIT_S
from snapshots import Job
from statefulspark import errors
from statefulspark.checkpoint import savepoint, verify
from statefulspark.contract import api, layout
from statefulspark.contract.config import CheckpointConfig, RetentionConfig
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.contract.manifest import Manifest, SnapshotFormat, SnapshotKind, Trigger
from statefulspark.contract.notes import WRITER_NAME
from statefulspark.coordinator import model
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

SOON = CheckpointConfig(interval=timedelta(milliseconds=20))
A_DAY = timedelta(days=1)
FIRST_OF_ALL, LAST_OF_ALL = 30_818, 9_730
"""Seeds after which the first number of `random` is less than 0.00001, and more than 0.9999."""


@pytest.fixture
def seeded() -> Iterator[Callable[[int], None]]:
    before = random.getstate()
    yield random.seed
    random.setstate(before)


def _has_no_copies(store: ObjectStore) -> bool:
    """Tell whether no file of a savepoint is left; the folder of one that was given up stays its driver's."""
    return all(info.key.endswith(f"/{WRITER_NAME}") for info in store.list(layout.SAVEPOINTS))


def a_driven_job(job: Job, **how: object) -> DrivenJob:
    return DrivenJob(job, new_roots(job), **how)  # type: ignore[arg-type]


def test_the_seeds_are_what_they_are_said_to_be() -> None:
    assert random.Random(FIRST_OF_ALL).random() < 0.00001
    assert random.Random(LAST_OF_ALL).random() > 0.9999


@pytest.mark.parametrize(
    ("seed", "min_pause", "comes"),
    [
        pytest.param(FIRST_OF_ALL, timedelta(0), True, id="no sooner than the pause, which is none"),
        pytest.param(LAST_OF_ALL, timedelta(0), False, id="no later than the interval"),
        pytest.param(FIRST_OF_ALL, A_DAY, False, id="no sooner than the pause"),
    ],
)
def test_a85_the_first_periodic_checkpoint_comes_at_a_random_time_between_pause_and_interval(
    job: Job, seeded: Callable[[int], None], seed: int, min_pause: timedelta, comes: bool
) -> None:
    seeded(seed)
    with running(a_driven_job(job, checkpoint=CheckpointConfig(interval=A_DAY, min_pause=min_pause))) as driver:
        driver.turns(30) if not comes else driver.until(lambda: driver.loop.status().checkpoints.completed == 1)

        assert driver.loop.status().checkpoints.triggered == int(comes)


def test_every_setting_of_a_job_reaches_its_coordinator(job: Job) -> None:
    """A.70 to A.77."""
    chosen = CheckpointConfig(
        interval=timedelta(seconds=7),
        timeout=timedelta(seconds=8),
        min_pause=timedelta(seconds=9),
        max_concurrent=2,
        tolerable_failures=4,
        retention=RetentionConfig(count=5),
    )
    driver = a_driven_job(job, checkpoint=chosen)

    assert driver.loop._cycle._coordinator.settings == model.CoordinatorSettings(
        interval_s=7, timeout_s=8, min_pause_s=9, max_concurrent=2, tolerable_failures=4, retained=5
    )


def test_a105_a_driver_retires_what_the_one_before_it_retained(job: Job) -> None:
    keeping = SOON.model_copy(update={"retention": RetentionConfig(count=3)})
    with running(a_driven_job(job, checkpoint=keeping)) as first:
        first.until(lambda: first.loop.status().checkpoints.completed >= 6)
        first.loop.drain()
        assert first.ended().reason == PlannedEnd.DRAINED
    newest = [one.id for one in first.manifests()][:3]
    restored = {query.uid: query.batch_id for query in first.manifests()[0].queries}

    with running(
        DrivenJob(job, first.roots(), checkpoint=NEVER.model_copy(update={"retention": RetentionConfig(count=2)}))
    ) as second:
        assert second.loop._cycle._coordinator.retained[-3:] == tuple(reversed(newest))
        second.until(lambda: all(one.batch_id > restored[one.uid] for one in second.loop.status().queries))
        second.loop.request_checkpoint(api.CheckpointRequest(request_id="next"))
        snapshot = second.ended_operation("next").snapshot

        assert snapshot is not None
        second.until(lambda: [one.id for one in second.manifests()] == [snapshot.id, newest[0]])


def test_checkpoints_that_are_too_old_go_before_there_are_as_many_as_are_retained(job: Job) -> None:
    keeping = NEVER.model_copy(update={"retention": RetentionConfig(count=1000, max_age=timedelta(0))})
    with running(a_driven_job(job, checkpoint=keeping)) as driver:
        for name in ("first", "second"):
            driver.turns(3)
            driver.loop.request_checkpoint(api.CheckpointRequest(request_id=name))
            driver.ended_operation(name)

        driver.until(lambda: [one.id for one in driver.manifests()] == [2])


def test_a110_checkpoints_that_fail_one_after_the_other_end_the_job(job: Job) -> None:
    failing = SOON.model_copy(update={"tolerable_failures": 2})
    driver = a_driven_job(job, checkpoint=failing, ends={"counts": 3})
    while not driver.queries["counts"].has_ended:
        driver.queries["counts"].turn()
    lost = [info.key for info in job.store.list(driver.queries["counts"].root.path) if ".changelog" in info.key]
    job.store.delete_many(lost)
    with running(driver):
        ending = driver.ended()

    assert (ending.code, ending.reason) == (ExitCode.FAILED, "CheckpointsFailing")
    counted = [
        number for reason, number in driver.loop.checkpoints().failures.items() if reason in model.COUNTED_REASONS
    ]
    assert sum(counted) == 3
    assert driver.manifests() == []


def test_a84_a_job_that_commits_nothing_takes_no_further_periodic_checkpoint(job: Job) -> None:
    """A person's is taken: it names the same batches once more."""
    with running(a_driven_job(job, checkpoint=SOON)) as driver:
        driver.until(lambda: driver.loop.status().checkpoints.completed >= 2)
        for query in driver.queries.values():
            query.is_open = False
        driver.until(lambda: cut_of(driver.manifests()[0]) == driver.batches())
        driver.until(lambda: driver.loop.status().checkpoints.in_progress == 0)
        before = driver.loop.status().checkpoints.triggered

        driver.looks(20)
        assert driver.loop.status().checkpoints.triggered == before
        driver.loop.request_checkpoint(api.CheckpointRequest(request_id="now"))
        operation = driver.ended_operation("now")

        assert operation.snapshot is not None
        assert operation.snapshot.batches == driver.batches()


def test_a82_a_checkpoint_names_the_committed_batch_of_every_query(job: Job) -> None:
    with running(a_driven_job(job, ends={"counts": 4})) as driver:
        driver.turns()
        driver.loop.request_checkpoint(api.CheckpointRequest(request_id="now"))
        operation = driver.ended_operation("now")

        (manifest,) = driver.manifests()
        assert operation.snapshot is not None
        assert operation.snapshot.batches == cut_of(manifest)
        assert cut_of(manifest)["counts"] == 4
        assert cut_of(manifest)["delays"] >= 9
        assert verify.verify(job.store, manifest, deep=True).ok
        told = driver.loop.checkpoint(1)
        assert told is not None
        assert {ack.participant: ack.batch_id for ack in told.acknowledgements} == cut_of(manifest)


def test_a87_a_checkpoint_that_is_asked_for_is_manual_and_ignores_the_pause(job: Job) -> None:
    with running(a_driven_job(job)) as driver:
        for request_id in ("first", "second"):
            driver.loop.request_checkpoint(api.CheckpointRequest(request_id=request_id))
            assert driver.ended_operation(request_id).state is api.OperationState.COMPLETED

        assert [one.trigger for one in driver.manifests()] == [Trigger.MANUAL, Trigger.MANUAL]


def test_a92_a_request_before_the_first_batch_gives_the_state_that_was_restored(job: Job) -> None:
    """No query is waited for: one that has committed nothing takes part with what it started from."""
    driver = a_driven_job(job)
    for query in driver.queries.values():
        query.is_open = False
    driver.loop.request_checkpoint(api.CheckpointRequest(request_id="early"))
    with running(driver):
        operation = driver.ended_operation("early")

        assert operation.snapshot is not None
        assert operation.snapshot.batches == {"delays": -1, "counts": -1}


def test_a92_a_request_while_the_job_ends_is_refused(job: Job) -> None:
    announcing, go_on = threading.Event(), threading.Event()

    def announce_slowly() -> None:
        announcing.set()
        assert go_on.wait(WAIT_S)

    with running(a_driven_job(job, hearer=Hearer(announce_slowly))) as driver:
        driver.loop.request_stop(api.StopRequest(request_id="stop"))
        assert announcing.wait(WAIT_S)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="late"))

        assert driver.ended_operation("late").reason == "NOT_ALL_REQUIRED_TASKS_RUNNING"
        go_on.set()
        assert driver.ended().reason == PlannedEnd.STOPPED


def test_a101_a108_a_checkpoint_that_lacks_a_file_is_aborted_for_everybody_and_the_next_begins(job: Job) -> None:
    with running(a_driven_job(job, ends={"counts": 3})) as driver:
        driver.until(lambda: driver.queries["counts"].has_ended)
        lost = next(info for info in job.store.list(driver.queries["counts"].root.path) if ".changelog" in info.key)
        body = job.store.read(lost.key)
        job.store.delete_many([lost.key])
        driver.loop.request_checkpoint(api.CheckpointRequest(request_id="broken"))
        failed = driver.ended_operation("broken")
        job.store.write(lost.key, body)
        driver.loop.request_checkpoint(api.CheckpointRequest(request_id="whole"))

        assert failed.state is api.OperationState.FAILED
        assert ".changelog" in str(failed.message)
        assert driver.ended_operation("whole").state is api.OperationState.COMPLETED
        assert [one.id for one in driver.manifests()] == [2]
        driver.until(lambda: "complete 2" in driver.hearer.heard)
        # Ends are announced beside the loop, one after the other, so 2 may have begun before the end of 1 was announced.
        assert [told for told in driver.hearer.heard if not told.startswith("begun")] == ["aborted 1", "complete 2"]
        assert [told for told in driver.hearer.heard if told.startswith("begun")] == ["begun 1", "begun 2"]


def test_a112_a_stop_that_fails_lets_every_query_go_on(job: Job) -> None:
    with running(a_driven_job(job)) as driver:
        driver.turns(3)
        lost = next(info for info in job.store.list(driver.queries["counts"].root.path) if ".changelog" in info.key)
        body = job.store.read(lost.key)
        job.store.delete_many([lost.key])
        driver.loop.request_stop(api.StopRequest(request_id="stop", savepoint=False))
        assert driver.ended_operation("stop").state is api.OperationState.FAILED
        job.store.write(lost.key, body)
        before = driver.batches()

        driver.until(lambda: all(driver.batches()[uid] > batch + 3 for uid, batch in before.items()))

        assert driver.loop.status().state is api.JobState.RUNNING
        assert all(query.is_open for query in driver.queries.values())


def test_a128_a_query_that_has_ended_is_at_its_boundary_and_the_job_ends_with_the_last_one(job: Job) -> None:
    with running(a_driven_job(job, checkpoint=SOON, ends={"counts": 2, "delays": 40})) as driver:
        ending = driver.ended()

        newest, *older = driver.manifests()
        assert (ending.reason, newest.trigger) == (PlannedEnd.FINISHED, Trigger.STOP)
        assert cut_of(newest) == {"counts": 2, "delays": 40}
        assert {cut_of(one)["counts"] for one in older} == {2}, "checkpoints went on while one query ran"


def test_a128_a_stop_does_not_wait_for_a_query_that_has_ended(job: Job) -> None:
    with running(a_driven_job(job, ends={"counts": 2})) as driver:
        driver.until(lambda: driver.queries["counts"].has_ended)
        driver.gate.queries = {**driver.queries, "counts": Ended(driver.queries["counts"])}  # type: ignore[dict-item]
        driver.loop.request_stop(api.StopRequest(request_id="stop"))

        assert driver.ended().reason == PlannedEnd.STOPPED
        assert cut_of(driver.manifests()[0])["counts"] == 2


class Ended:
    """A query that ended behind an open gate, and whose gate knows of a batch that was begun and never committed."""

    def __init__(self, query: object) -> None:
        self._query = query

    def turn(self) -> object:
        fact = self._query.turn()  # type: ignore[attr-defined]
        return type(fact)(fact.last_offsets + 1, fact.last_committed, None, at_boundary=False)


class SlowCanonicalWriter:
    """Writes a canonical savepoint, and ends when it may: with the manifest, or with an error before it."""

    def __init__(self, job: Job, *, fails: bool) -> None:
        self.job, self.fails = job, fails
        self.writes, self.go_on = threading.Event(), threading.Event()

    def write(
        self,
        queries: object,
        request: savepoint.SavepointProperties,
        target: savepoint.SavepointTarget,
        *,
        completed_at: Callable[[], datetime],
        **_: object,
    ) -> Manifest:
        savepoint.reserve(self.job.store, request, target)
        target.store.write(f"{target.folder}/{layout.SAVEPOINT_FILES}/delays/part-0.parquet", b"a part of it")
        self.writes.set()
        assert self.go_on.wait(WAIT_S)
        if self.fails:
            raise errors.StateUnknownError("AccessDenied", "The store says no.")
        return savepoint.publish(self.job.store, (), request, target, completed_at=completed_at())


def an_expired_savepoint(driver: DrivenJob, canonical_writer: SlowCanonicalWriter) -> None:
    driver.loop.request_savepoint(api.SavepointRequest(request_id="slow", format=SnapshotFormat.CANONICAL))
    assert canonical_writer.writes.wait(WAIT_S)
    assert driver.ended_operation("slow").reason == "CHECKPOINT_EXPIRED"
    assert driver.job.store.list("savepoints") != ()


EXPIRING = NEVER.model_copy(update={"timeout": timedelta(milliseconds=200)})


def test_a132_what_an_expired_savepoint_had_written_is_removed_when_its_writer_ends(job: Job) -> None:
    """Nothing interrupts the writer; the answer and a checkpoint do not wait for it."""
    canonical_writer = SlowCanonicalWriter(job, fails=True)
    with running(a_driven_job(job, checkpoint=EXPIRING, canonical_writer=canonical_writer)) as driver:
        an_expired_savepoint(driver, canonical_writer)
        driver.loop.request_checkpoint(api.CheckpointRequest(request_id="next"))
        assert driver.ended_operation("next").state is api.OperationState.COMPLETED

        canonical_writer.go_on.set()
        driver.until(lambda: _has_no_copies(job.store))

        assert [(one.kind, one.id) for one in driver.manifests()] == [(SnapshotKind.CHECKPOINT, 2)]


def test_a132_an_expired_savepoint_whose_manifest_is_written_all_the_same_is_complete(job: Job) -> None:
    canonical_writer = SlowCanonicalWriter(job, fails=False)
    with running(a_driven_job(job, checkpoint=EXPIRING, canonical_writer=canonical_writer)) as driver:
        an_expired_savepoint(driver, canonical_writer)

        canonical_writer.go_on.set()
        driver.until(lambda: [(one.kind, one.id) for one in driver.manifests()] == [(SnapshotKind.SAVEPOINT, 1)])
        driver.looks(10)

        assert driver.loop.status().checkpoints.completed == 0
        assert [one.id for one in driver.manifests()] == [1]


class SlowCopies(stores.FaultyStore):
    """Copies one file after the other, each when it may."""

    def __init__(self, wrapped: ObjectStore) -> None:
        super().__init__(wrapped)
        self.copies, self.go_on, self.copied = threading.Event(), threading.Event(), 0
        self.before_copy: Callable[[str], None] = lambda _: None

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        for done, pair in enumerate(pairs, start=1):
            self.before_copy(pair[1])
            super().copy_from(source, [pair])
            self.copied += 1
            self.copies.set()
            assert self.go_on.wait(WAIT_S)
            if on_progress:
                on_progress(done)


@pytest.fixture
def slow(job: Job) -> SlowCopies:
    job.store = SlowCopies(job.store)
    return job.store


def test_a132_an_expired_savepoint_is_not_copied_to_its_end(job: Job, slow: SlowCopies) -> None:
    """It went on for as long as it took, kept the next one waiting, and left a savepoint that nobody was told of."""
    with running(a_driven_job(job, checkpoint=EXPIRING)) as driver:
        driver.turns(3)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="slow"))
        assert slow.copies.wait(WAIT_S)
        assert driver.ended_operation("slow").reason == "CHECKPOINT_EXPIRED"

        slow.go_on.set()
        driver.until(lambda: _has_no_copies(job.store))

        assert slow.copied == 1
        assert driver.manifests() == []


def test_a_savepoint_that_waits_for_another_is_of_the_batches_of_its_turn(job: Job, slow: SlowCopies) -> None:
    """The files of the batches at its request may be gone by then, and it would be declined."""
    with running(a_driven_job(job)) as driver:
        driver.turns(3)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="first"))
        assert slow.copies.wait(WAIT_S)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="second"))
        driver.looks(5)
        before = driver.batches()
        driver.until(lambda: all(driver.batches()[uid] > batch + 2 for uid, batch in before.items()))
        later = driver.batches()

        slow.go_on.set()
        first, second = driver.ended_operation("first").snapshot, driver.ended_operation("second").snapshot

        assert first is not None
        assert second is not None
        assert all(first.batches[uid] <= before[uid] and second.batches[uid] >= later[uid] for uid in before)


def test_a_job_that_is_to_stop_is_not_paused_while_an_earlier_savepoint_is_copied(job: Job, slow: SlowCopies) -> None:
    with running(a_driven_job(job)) as driver:
        driver.turns(3)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="first"))
        assert slow.copies.wait(WAIT_S)
        paused: list[str] = []
        slow.before_copy = lambda key: None if driver.queries["counts"].is_open else paused.append(key)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="second", name="second"))
        driver.looks(5)
        driver.loop.request_stop(api.StopRequest(request_id="stop", name="stop"))
        driver.looks(5)
        slow.go_on.set()

        assert driver.ended_operation("second").state is api.OperationState.COMPLETED
        assert driver.ended_operation("stop").state is api.OperationState.COMPLETED
        assert not [key for key in paused if "-second/" in key]


def test_a_driver_that_ends_does_not_copy_a_savepoint_to_its_end(job: Job, slow: SlowCopies) -> None:
    threads_before = set(threading.enumerate())
    with running(a_driven_job(job)) as driver:
        driver.turns(3)
        driver.loop.request_savepoint(api.SavepointRequest(request_id="slow"))
        assert slow.copies.wait(WAIT_S)
        driver.loop.drain()
        driver.ended()

        slow.go_on.set()
        (worker,) = [one for one in set(threading.enumerate()) - threads_before if one.name == "savepoint"]
        worker.join(WAIT_S)
        assert not worker.is_alive()

    assert slow.copied == 1
    assert [one.kind for one in driver.manifests()] == [SnapshotKind.CHECKPOINT]


def test_a_stop_that_expired_while_it_copied_ahead_leaves_no_copies(job: Job, slow: SlowCopies) -> None:
    with running(a_driven_job(job, checkpoint=EXPIRING)) as driver:
        driver.turns(3)
        driver.loop.request_stop(api.StopRequest(request_id="slow"))
        assert slow.copies.wait(WAIT_S)
        assert driver.ended_operation("slow").reason == "CHECKPOINT_EXPIRED"

        slow.go_on.set()
        driver.until(lambda: _has_no_copies(job.store))
        driver.turns(3)

        assert slow.copied == 1


def test_a137_a144_a_driver_goes_on_after_the_newest_checkpoint_with_numbers_above_all(job: Job) -> None:
    """An intermediate savepoint serves no recovery, and its number is not used again."""
    with running(a_driven_job(job)) as first:
        first.turns(3)
        first.loop.request_checkpoint(api.CheckpointRequest(request_id="checkpoint"))
        first.ended_operation("checkpoint")
        first.loop.request_savepoint(api.SavepointRequest(request_id="savepoint"))
        first.ended_operation("savepoint")
        first.until(lambda: "complete 1" in first.hearer.heard)
        # A checkpoint is announced beside the loop, so the savepoint may have begun before that.
        assert sorted(first.hearer.heard) == ["begun 1", "begun 2", "complete 1"], (
            "a savepoint is announced to nobody (A.49)"
        )
        roots, batches = first.roots(), first.batches()
        for query in first.queries.values():
            query.failure = "java.io.IOException: the node is gone"
        assert first.ended().code is ExitCode.FAILED

    with running(DrivenJob(job, roots)) as second:
        restored = second.plan.restored
        assert restored is not None
        assert (restored.kind, restored.trigger) == (SnapshotKind.CHECKPOINT, Trigger.RECOVERY)
        assert all(cut_of(restored)[uid] >= batch for uid, batch in batches.items()), "what was committed is kept"
        second.loop.request_checkpoint(api.CheckpointRequest(request_id="next"))
        snapshot = second.ended_operation("next").snapshot

        assert restored.id == 3
        assert snapshot is not None
        assert snapshot.id == 4


def test_a162_a_stop_holds_every_query_at_the_batches_that_its_savepoint_names(job: Job) -> None:
    with running(a_driven_job(job, checkpoint=SOON)) as driver:
        driver.turns(5)
        driver.loop.request_stop(api.StopRequest(request_id="stop"))
        ending, operation = driver.ended(), driver.ended_operation("stop")

        assert (ending.reason, operation.state) == (PlannedEnd.STOPPED, api.OperationState.COMPLETED)
        (savepoint,) = [one for one in driver.manifests() if one.kind is SnapshotKind.SAVEPOINT]
        assert cut_of(savepoint) == driver.batches()
        assert savepoint.id == max(one.id for one in driver.manifests()), "no checkpoint begins while the job stops"
        assert all(query.is_stopped for query in driver.queries.values())
        assert driver.hearer.heard[-1] == f"complete {savepoint.id}", "that of a stop is announced (A.49)"
