"""Small pure parts: reading pods, patches, overlays, waits, the queue and metrics."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import everymetric
import pytest
from fakecluster import apply_merge_patch
from hypothesis import given
from hypothesis import strategies as some
from statefulspark import errors
from statefulspark.contract.api import JobState, JobStatus, QueryStatus, SourceStatus
from statefulspark_operator.api import spec
from statefulspark_operator.api.status import Phase, SnapshotStatus, StatefulSparkJobStatus
from statefulspark_operator.cluster import pods, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import queue
from statefulspark_operator.lifecycle import backoff
from statefulspark_operator.lifecycle.situation import PodPhase
from statefulspark_operator.render import base
from statefulspark_operator.telemetry import metrics

KEY = JobKey("demo", "flights")

values = some.none().filter(lambda _: False) | some.booleans() | some.integers(0, 3) | some.lists(some.integers(0, 2))
objects = some.recursive(
    some.dictionaries(some.sampled_from("abc"), values, max_size=3),
    lambda inner: some.dictionaries(some.sampled_from("abc"), inner | values, max_size=3),
)


@given(objects, objects)
def test_a_merge_patch_turns_one_object_into_the_other(before: Resource, after: Resource) -> None:
    assert apply_merge_patch(before, resources.merge_patch(before, after)) == after


@given(objects)
def test_equal_objects_need_no_patch(value: Resource) -> None:
    assert resources.merge_patch(value, value) == {}


def a_pod_manifest(status: Resource, **metadata: object) -> Resource:
    labels = {"statefulspark.io/epoch": "3", "statefulspark.io/revision": "r"}
    return {"metadata": {"name": "p", "uid": "u", "labels": labels, **metadata}, "status": status}  # type: ignore[dict-item]


def terminated(**state: object) -> Resource:
    container: Resource = {"name": "driver", "state": {"terminated": dict(state)}}  # type: ignore[arg-type]
    return {"phase": "Failed", "containerStatuses": [container]}


def test_the_drivers_own_report_is_read_from_its_exit() -> None:
    report = {"exitCode": 13, "reason": "BadJob", "message": "m"}

    found = pods.read_driver_pod(a_pod_manifest(terminated(exitCode=13, reason="Error", message=json.dumps(report))))

    assert found is not None
    assert found.exit is not None
    assert found.exit.report is not None
    assert (found.epoch, found.exit.code, found.exit.report.reason) == (3, 13, "BadJob")


def test_an_exit_without_a_report_keeps_kubernetes_words() -> None:
    found = pods.read_driver_pod(a_pod_manifest(terminated(exitCode=137, reason="OOMKilled", message="Killed")))

    assert found is not None
    assert found.exit is not None
    assert (found.exit.reason, found.exit.message, found.exit.report) == ("OOMKilled", "Killed", None)


def test_a_driver_has_ended_although_its_sidecar_goes_on() -> None:
    found = pods.read_driver_pod(a_pod_manifest({**terminated(exitCode=11, reason="Error"), "phase": "Running"}))

    assert found is not None
    assert found.is_over


def test_an_evicted_pod_without_containers_is_over() -> None:
    found = pods.read_driver_pod(
        a_pod_manifest({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."})
    )

    assert found is not None
    assert (found.is_over, found.exit, found.status_reason) == (True, None, "Evicted")


def test_what_keeps_a_pod_from_starting_is_read() -> None:
    waiting: Resource = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    condition: Resource = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    status: Resource = {
        "phase": "Pending",
        "conditions": [condition],
        "containerStatuses": [{"name": "driver", "state": waiting}],
    }

    found = pods.read_driver_pod(a_pod_manifest(status))

    assert found is not None
    assert found.waiting is not None
    assert (found.phase, found.waiting.reason, found.unschedulable) == (PodPhase.PENDING, "ErrImagePull", "no node")


@pytest.mark.parametrize("reason", ["SchedulingGated", "SchedulerError"])
def test_whatever_keeps_the_scheduler_from_a_pod_is_read(reason: str) -> None:
    """Kueue gates a pod until its queue has room."""
    condition: Resource = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "gated"}

    found = pods.read_driver_pod(a_pod_manifest({"phase": "Pending", "conditions": [condition]}))

    assert found is not None
    assert found.unschedulable == "gated"


def test_a_pod_is_lost_only_well_after_its_grace_period() -> None:
    found = pods.read_driver_pod(a_pod_manifest({"phase": "Running"}, deletionTimestamp="2026-01-01T00:01:00Z"))

    assert found is not None
    at = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert not found.is_lost(at)
    assert found.is_live(at + timedelta(seconds=10))
    assert found.is_lost(at + timedelta(seconds=60))


def test_a_template_is_laid_over_by_name_and_changes_neither_side() -> None:
    rendered: Resource = {"containers": [{"name": "driver", "image": "a", "env": [{"name": "X", "value": "1"}]}]}
    template: Resource = {"containers": [{"name": "driver", "env": [{"name": "Y", "value": "2"}]}, {"name": "side"}]}

    merged = base.overlay(rendered, template)

    env = [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]
    assert merged == {"containers": [{"name": "driver", "image": "a", "env": env}, {"name": "side"}]}
    assert rendered == {"containers": [{"name": "driver", "image": "a", "env": [{"name": "X", "value": "1"}]}]}


@given(some.integers(-5, 10_000), some.integers(0, 10**6), some.integers(0, 10**6), some.text(max_size=5))
def test_a_wait_is_bounded_and_the_same_for_the_same_attempt(
    attempt: int, initial: int, longest: int, seed: str
) -> None:
    def wait() -> timedelta:
        return backoff.delay(attempt, initial=timedelta(seconds=initial), longest=timedelta(seconds=longest), seed=seed)

    assert timedelta(0) <= wait() <= timedelta(seconds=longest) * (1 + backoff.JITTER)
    assert wait() == wait()


def test_waits_double_up_to_the_longest_and_differ_between_jobs() -> None:
    """A.146: a fifth more or less, so that jobs that failed together do not come back together."""

    def waits(seed: str) -> list[float]:
        initial, longest = timedelta(seconds=1), timedelta(minutes=5)
        return [
            backoff.delay(attempt, initial=initial, longest=longest, seed=seed).total_seconds()
            for attempt in range(1, 12)
        ]

    doubled = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    for seed in ("one", "other"):
        assert all(0.8 * by <= wait <= 1.2 * by for wait, by in zip(waits(seed), doubled, strict=True))
    assert all(one != other for one, other in zip(waits("one"), waits("other"), strict=True))


def test_the_defaults_of_restarts_are_what_the_pages_say() -> None:
    """A.146."""
    restart = spec.Restart()

    assert (restart.max_failures, restart.initial_backoff, restart.max_backoff) == (
        None,
        timedelta(seconds=1),
        timedelta(minutes=5),
    )


def test_wake_ups_during_a_pass_lead_to_one_more_pass() -> None:
    async def scene() -> int:
        passes = 0
        work: queue.WorkQueue

        async def one_pass(_key: JobKey) -> timedelta | None:
            nonlocal passes
            passes += 1
            if passes == 1:
                for _ in range(5):
                    work.wake(KEY)
            return timedelta(hours=1)

        work = queue.WorkQueue(one_pass)
        work.wake(KEY)
        while work.passes < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await work.close()
        return passes

    assert asyncio.run(scene()) == 2


@pytest.mark.parametrize("end", ["at once", "conflict"])
def test_passes_that_never_come_to_rest_follow_one_another_slowly(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook that takes a finalizer off undoes each pass, as does an old CRD that drops a field of the status."""
    monkeypatch.setattr(queue, "SHORTEST_WAIT_S", 0.001)
    monkeypatch.setattr(queue, "CONFLICT_RETRY_S", 0.001)

    async def scene() -> int:
        async def one_pass(_key: JobKey) -> timedelta | None:
            if end == "conflict":
                raise errors.PreconditionFailedError("Conflict", "It has changed.")
            return timedelta(0)

        work = queue.WorkQueue(one_pass)
        work.wake(KEY)
        while work.passes <= queue.MOST_IN_A_ROW:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        before = work.passes
        work.wake(KEY)  # An event is looked at all the same.
        while work.passes == before:
            await asyncio.sleep(0.01)
        await work.close()
        return before

    assert asyncio.run(scene()) == queue.MOST_IN_A_ROW + 1


def test_two_passes_over_one_job_never_overlap_and_jobs_do_not_wait_for_each_other() -> None:
    async def scene() -> tuple[int, int]:
        running: dict[JobKey, int] = {}
        most_of_one, most_of_all = 0, 0

        async def one_pass(key: JobKey) -> timedelta | None:
            nonlocal most_of_one, most_of_all
            running[key] = running.get(key, 0) + 1
            most_of_one = max(most_of_one, running[key])
            most_of_all = max(most_of_all, sum(running.values()))
            await asyncio.sleep(0.01)
            running[key] -= 1
            return timedelta(0)

        work = queue.WorkQueue(one_pass)
        for number in range(3):
            work.wake(JobKey("demo", f"job-{number}"))
        while work.passes < 12:
            await asyncio.sleep(0.01)
            work.wake(JobKey("demo", "job-0"))
        await work.close()
        return most_of_one, most_of_all

    assert asyncio.run(scene()) == (1, 3)


@pytest.mark.parametrize(
    "error",
    [
        errors.TransientError("X", "m"),
        errors.PreconditionFailedError("Conflict", "m"),
        errors.StateUnknownError("X", "m"),
        ZeroDivisionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_pass_that_fails_is_repeated(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(queue, "TRANSIENT_WAIT_S", 0.01)

    async def scene() -> None:
        failed = asyncio.Event()
        again = asyncio.Event()

        async def one_pass(_key: JobKey) -> timedelta | None:
            if not failed.is_set():
                failed.set()
                raise error
            again.set()
            return None

        work = queue.WorkQueue(one_pass)
        work.wake(KEY)
        await asyncio.wait_for(again.wait(), 5)
        while work.jobs:
            await asyncio.sleep(0.01)
        await work.close()

    asyncio.run(scene())


def test_a_label_of_the_operators_metrics_reads_back_with_its_quotes_and_line_ends() -> None:
    odd = 'a"b\\c\nd'

    ready, *_ = everymetric.scraped(
        metrics.render(everymetric.job_families({JobKey("demo", odd): StatefulSparkJobStatus()}))
    )

    assert [sample.labels for sample in ready.samples] == [{"job_namespace": "demo", "job_name": odd}]


def test_metrics_show_each_job() -> None:
    checkpoint = SnapshotStatus(id=1, completed_at=datetime(2026, 1, 1, tzinfo=UTC))
    status = StatefulSparkJobStatus(phase=Phase.RUNNING, epoch=2, last_checkpoint=checkpoint)

    text = metrics.render(everymetric.job_families({KEY: status}))

    job = (("job_name", "flights"), ("job_namespace", "demo"))
    assert everymetric.values(text, "statefulspark_job_phase")[*job, ("phase", "Running")] == 1.0
    assert everymetric.values(text, "statefulspark_last_checkpoint_completed_timestamp_seconds") == {job: 1767225600.0}
    assert "# TYPE statefulspark_job_restarts_total counter" in text


def a_sources_answer(*sources: SourceStatus) -> JobStatus:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    query = QueryStatus(uid="counts", active=True, batch_id=3, input_rows=70, rows_per_second=2.5, sources=sources)
    return JobStatus(job="flights", namespace="demo", state=JobState.RUNNING, epoch=1, started_at=at, queries=(query,))


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        pytest.param([SourceStatus(name="files")], None, id="a source that does not tell has no lag, and not 0"),
        pytest.param([SourceStatus(name="a", lag_rows=0)], 0, id="a source that is read to its end"),
        pytest.param(
            [SourceStatus(name="a", lag_rows=4), SourceStatus(name="b"), SourceStatus(name="c", lag_rows=5)],
            9,
            id="several sources, one of which does not tell",
        ),
    ],
)
def test_the_operator_repeats_what_a_driver_says_of_its_lag(sources: list[SourceStatus], lag: int | None) -> None:
    gauges = metrics.JobMetrics()
    gauges.update(KEY, StatefulSparkJobStatus())
    gauges.hear(KEY, a_sources_answer(*sources))

    text = metrics.render(gauges.families())

    query = (("job_name", "flights"), ("job_namespace", "demo"), ("query", "counts"))
    assert everymetric.values(text, "statefulspark_query_lag_rows") == ({} if lag is None else {query: lag})
    assert everymetric.values(text, "statefulspark_query_input_rows_total") == {query: 70}


def test_what_is_kept_for_a_scraper_is_what_statuses_and_answers_say() -> None:
    gauges, heard = metrics.JobMetrics(), {KEY: a_sources_answer(SourceStatus(name="a", lag_rows=4))}
    statuses = everymetric.two_jobs()
    for key, status in reversed(statuses.items()):
        gauges.update(key, StatefulSparkJobStatus())
        gauges.update(key, status)
        gauges.hear(key, heard.get(key))

    assert metrics.render(gauges.families()) == metrics.render(everymetric.job_families(statuses, heard))


@pytest.mark.parametrize("end", ["it does not answer any more", "the job is gone"])
def test_what_a_driver_said_is_not_repeated_when_it_is_gone(end: str) -> None:
    gauges = metrics.JobMetrics()
    gauges.update(KEY, StatefulSparkJobStatus())
    gauges.hear(KEY, a_sources_answer(SourceStatus(name="a", lag_rows=4)))

    if end == "the job is gone":
        gauges.remove(KEY)
        gauges.update(KEY, StatefulSparkJobStatus())
    else:
        gauges.hear(KEY, None)

    assert everymetric.values(metrics.render(gauges.families()), "statefulspark_query_lag_rows") == {}


def test_a_pass_that_hangs_is_given_up_counted_and_tried_again_while_the_others_go_on() -> None:
    hung, well = JobKey("demo", "hung"), JobKey("demo", "well")
    begun: list[JobKey] = []

    async def reconcile(key: JobKey) -> timedelta | None:
        begun.append(key)
        if key == hung:
            await asyncio.Event().wait()
        return timedelta(milliseconds=10)

    async def scene() -> queue.WorkQueue:
        work = queue.WorkQueue(reconcile, longest_pass_s=0.05)
        work.wake(hung)
        work.wake(well)
        await asyncio.sleep(0.4)
        work.wake(hung)
        await asyncio.sleep(0.2)
        await work.close()
        return work

    work = asyncio.run(scene())

    assert work.hung_passes == work.failed_passes >= 2
    assert begun.count(well) > 3


def test_a_timeout_that_a_pass_lets_through_is_no_hung_pass() -> None:
    async def reconcile(key: JobKey) -> timedelta | None:
        raise TimeoutError(key)

    async def scene() -> queue.WorkQueue:
        work = queue.WorkQueue(reconcile)
        work.wake(JobKey("demo", "flights"))
        await asyncio.sleep(0.05)
        await work.close()
        return work

    work = asyncio.run(scene())

    assert (work.failed_passes, work.hung_passes) == (1, 0)
