"""Executors belong to their driver: what is removed, what is counted, how large they are, and what people are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from executorcases import BOTH, KEPT, NO_ROOM, ORPHANS, an_executor, some, with_executors
from jobspecs import a_spec
from pydantic import JsonValue
from situations import a_pod
from statefulspark_operator.api import memory, names
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.spec import Executor
from statefulspark_operator.api.status import ExecutorsStatus, StatefulSparkJobStatus
from statefulspark_operator.cluster import pods
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import validate
from statefulspark_operator.lifecycle import actions, announcements, decide, executors, observed
from statefulspark_operator.lifecycle.situation import ExecutorPod, Job, PodPhase, Situation
from statefulspark_operator.render import config, executor
from statefulspark_operator.render.base import Subject

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("situation", ORPHANS.values(), ids=ORPHANS)
def test_executors_of_a_dead_epoch_are_removed_by_their_identity_before_anything_is_started(
    situation: Situation,
) -> None:
    decision = decide.decide(situation)

    expected = tuple(actions.PodReference(pod.name, pod.uid) for pod in situation.executors)
    assert decision.actions == (actions.DeleteExecutors(expected),)


@pytest.mark.parametrize("situation", KEPT.values(), ids=KEPT)
def test_executors_that_somebody_needs_or_that_leave_are_left_alone(situation: Situation) -> None:
    decision = decide.decide(situation)

    assert not [act for act in decision.actions if isinstance(act, actions.DeleteExecutors)]


COUNTED: list[tuple[str, Situation, ExecutorsStatus | None]] = [
    ("both run", with_executors(*BOTH), some(2)),
    ("none is there yet", with_executors(), some(0, ago=0 * SECOND)),
    (
        "one finds no node",
        with_executors(an_executor(1), an_executor(2, phase=PodPhase.PENDING, obstacle=NO_ROOM)),
        some(1, ago=0 * SECOND, message=NO_ROOM),
    ),
    ("the first was replaced", with_executors(an_executor(2), an_executor(3)), some(2, lost=1)),
    ("one leaves", with_executors(an_executor(1), an_executor(2, is_leaving=True)), some(1, ago=0 * SECOND)),
    (
        "since when one is missing, and why, is kept",
        with_executors(an_executor(1), executors_before=some(1, ago=9 * SECOND, lost=4, message=NO_ROOM)),
        some(1, ago=9 * SECOND, lost=4, message=NO_ROOM),
    ),
    (
        "those of the driver before are not counted",
        with_executors(*BOTH, executors_before=some(0, ago=9 * SECOND, lost=4, driver="flights-driver-0")),
        some(2),
    ),
    (
        "a change asks for four, and the old driver still runs with two",
        with_executors(*BOTH, spec=a_spec(executor={"instances": 4}), executors_before=some(2)),
        some(2),
    ),
    ("a driver that asks for none", with_executors(pods=(a_pod(),)), None),
    ("no driver runs", with_executors(*BOTH, pods=()), None),
]


@pytest.mark.parametrize(("situation", "expected"), [case[1:] for case in COUNTED], ids=[case[0] for case in COUNTED])
def test_the_status_counts_executors_of_the_running_driver(
    situation: Situation, expected: ExecutorsStatus | None
) -> None:
    assert executors.current(situation) == expected


@pytest.mark.parametrize(
    ("missing_for", "ready"),
    [(None, ConditionStatus.TRUE), (29 * SECOND, ConditionStatus.TRUE), (31 * SECOND, ConditionStatus.FALSE)],
    ids=["all run", "one is being replaced", "one is missing for good"],
)
def test_a_job_with_too_few_executors_is_not_ready(missing_for: timedelta | None, ready: ConditionStatus) -> None:
    before = some(1, ago=missing_for, message=NO_ROOM) if missing_for is not None else some(2)
    pods_now = BOTH if missing_for is None else BOTH[:1]

    decision = decide.decide(with_executors(*pods_now, executors_before=before))

    answer = next(one for one in decision.status.conditions if one.type is ConditionType.READY)
    assert answer.status is ready
    if ready is ConditionStatus.FALSE:
        expected = "1 of 2 executors runs since 11:59:29 UTC: No node has room."
        assert (answer.reason, answer.message) == ("ExecutorsMissing", expected)


def test_a_lost_executor_is_told_once() -> None:
    before = StatefulSparkJobStatus(executors=some(2))
    after = StatefulSparkJobStatus(
        executors=some(1, ago=SECOND, lost=1, message="flights-driver-1-exec-1 ended (OOMKilled).")
    )

    told = announcements.announcements(before, after)

    expected = "flights-driver-1 lost 1 executor: flights-driver-1-exec-1 ended (OOMKilled)."
    assert [(one.reason, one.message) for one in told] == [("ExecutorLost", expected)]
    assert announcements.announcements(after, after) == ()


def test_counting_executors_again_changes_nothing() -> None:
    once = observed.fold(with_executors(an_executor(3)))

    assert observed.fold(once) == once


def an_executors_manifest(status: Resource, **metadata: JsonValue) -> Resource:
    labels: JsonValue = {names.LABEL_ROLE: names.ROLE_EXECUTOR, names.LABEL_EPOCH: "3"}
    owners: JsonValue = [{"kind": "Pod", "name": "flights-driver-3", "uid": "uid-3"}]
    meta = {"name": "flights-driver-3-exec-1", "uid": "u", "labels": labels, "ownerReferences": owners, **metadata}
    return {"metadata": meta, "status": status}


def a_container(**state: JsonValue) -> Resource:
    return {"phase": "Pending", "containerStatuses": [{"name": "executor", "state": state}]}


NAME = "flights-driver-3-exec-1"
OBSTACLES: list[tuple[str, Resource, str | None]] = [
    ("it runs", {"phase": "Running", "containerStatuses": [{"name": "executor", "state": {"running": {}}}]}, None),
    ("its container is made", a_container(waiting={"reason": "ContainerCreating"}), None),
    (
        "its image is missing",
        a_container(waiting={"reason": "ImagePullBackOff", "message": "not found"}),
        f"{NAME} cannot start (ImagePullBackOff): not found.",
    ),
    (
        "its memory did not suffice",
        a_container(terminated={"exitCode": 137, "reason": "OOMKilled"}),
        f"{NAME} ended with exit code 137 (OOMKilled).",
    ),
    ("it failed", a_container(terminated={"exitCode": 1, "reason": "Error"}), f"{NAME} ended with exit code 1."),
    (
        "no node has room",
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes."}
            ],
        },
        f"{NAME} cannot be scheduled: 0/2 nodes.",
    ),
    (
        "its node had no disk left",
        {"phase": "Failed", "reason": "Evicted", "message": "low on disk"},
        f"{NAME} was removed (Evicted): low on disk.",
    ),
]


@pytest.mark.parametrize(("status", "obstacle"), [case[1:] for case in OBSTACLES], ids=[case[0] for case in OBSTACLES])
def test_why_an_executor_does_not_run_is_read_from_its_pod(status: Resource, obstacle: str | None) -> None:
    read = pods.read_executor_pod(an_executors_manifest(status))

    assert read == ExecutorPod(NAME, "u", "uid-3", PodPhase(str(status["phase"])), obstacle=obstacle)


def test_an_executor_with_the_label_of_an_epoch_is_no_driver() -> None:
    assert pods.read_driver_pod(an_executors_manifest({"phase": "Running"})) is None
    assert pods.read_standby_pod(an_executors_manifest({"phase": "Running"})) is None


SIZES: list[tuple[str, Mapping[str, JsonValue], int, int]] = [
    ("a small heap: 384 MiB, and 1 GiB for the core", {"heap": "1Gi"}, 384 + 1024, 1024),
    ("a large heap: a tenth, and 1 GiB for each core", {"heap": "10Gi", "cores": 4}, 1024 + 4096, 1024),
    ("the rest of a limit", {"heap": "2Gi", "resources": {"limits": {"memory": "4Gi"}}}, 2048, 2048 - 384),
    ("the rest of a request", {"heap": "2048Mi", "resources": {"requests": {"memory": "3072Mi"}}}, 1024, 1024 - 384),
    ("no memory named", {"resources": {"limits": {"cpu": "2"}}}, 384 + 1024, 1024),
]


@pytest.mark.parametrize(
    ("executor", "overhead", "worker"), [case[1:] for case in SIZES], ids=[case[0] for case in SIZES]
)
def test_the_memory_beside_the_heap_counts_python_and_its_state(
    executor: Mapping[str, JsonValue], overhead: int, worker: int
) -> None:
    spec = Executor.model_validate({"instances": 1, **executor})

    assert memory.problem(spec) is None
    assert (memory.overhead_mib(spec), memory.worker_mib(spec)) == (overhead, worker)


GRACE = "spark.kubernetes.executor.terminationGracePeriodSeconds"
ENDS: list[tuple[str, dict[str, JsonValue], dict[str, str], str | None]] = [
    ("nobody says it", {}, {}, "5s"),
    ("the template says it", {"spec": {"terminationGracePeriodSeconds": 90}}, {}, "90s"),
    ("the template says other things", {"metadata": {}, "spec": {"nodeSelector": {}}}, {}, "5s"),
    ("a setting of Spark's says it", {}, {GRACE: "20s"}, None),
    ("both say it", {"spec": {"terminationGracePeriodSeconds": 0}}, {GRACE: "20s"}, "0s"),
]


@pytest.mark.parametrize(("template", "conf", "period"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_spark_is_told_how_long_an_executor_may_take_to_end_since_it_overrides_the_template(
    template: dict[str, JsonValue], conf: dict[str, str], period: str | None
) -> None:
    subject = Subject(
        Job("demo", "flights", "uid-1", 1), a_spec(executor={"instances": 2, "podTemplate": template}, sparkConf=conf)
    )

    made = config.job_config(subject, executor.Owner("flights-driver-1", "r1", 1), restore=None)

    assert made.engine.platform.get(GRACE) == period


PROBLEMS: list[tuple[str, Mapping[str, JsonValue], str]] = [
    (
        "less than heap, JVM and Python need",
        {"heap": "2Gi", "cores": 2, "resources": {"limits": {"memory": "2Gi"}}},
        "executor.resources gives 2Gi of memory, but a heap of 2Gi, the JVM beside it and Python for 2 cores need 2688Mi",
    ),
    (
        "two values for one",
        {"resources": {"limits": {"memory": "4Gi"}, "requests": {"memory": "2Gi"}}},
        "executor.resources requests 2Gi of memory and limits it to 4Gi, but Spark gives an executor one value for both",
    ),
    (
        "no amount",
        {"resources": {"limits": {"memory": "plenty"}}},
        "executor.resources.limits.memory: 'plenty' is no amount; write it like 500m, 2 or 4Gi",
    ),
]


@pytest.mark.parametrize(("executor", "why"), [case[1:] for case in PROBLEMS], ids=[case[0] for case in PROBLEMS])
def test_memory_that_cannot_be_is_refused_with_what_to_write(executor: Mapping[str, JsonValue], why: str) -> None:
    resource: Resource = {
        "metadata": {"name": "flights"},
        "spec": {
            "image": "i:1",
            "job": {"file": "/opt/job.py"},
            "storage": {"uri": "s3://state/jobs"},
            "executor": {"instances": 1, **executor},
        },
    }

    found = validate.parse(resource)

    assert isinstance(found, validate.Rejection)
    assert why in found.message


@pytest.mark.parametrize(
    ("pod", "number"),
    [("flights-driver-3-exec-12", 12), ("flights-standby-2-exec-1", 1), ("flights-driver-3", 0), ("a-exec-x", 0)],
)
def test_the_number_of_an_executor_is_read_from_its_name(pod: str, number: int) -> None:
    assert names.executor_number(pod) == number


def test_the_name_of_a_driver_fits_into_the_label_of_its_executors() -> None:
    """A label's value has at most 63 characters."""
    driver = names.driver_pod("j" * 45, 1_000_000_000)

    assert len(driver) <= 63
