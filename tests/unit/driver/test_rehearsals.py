"""When a standby rehearses, what it does about executors in other processes, and what it concludes from a rehearsal."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from fakecontrol import NOON
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark import errors, storage
from statefulspark.checkpoint import progress
from statefulspark.contract import api, config
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import rehearsals, start_parts
from statefulspark.driver.starting.controls import StandbyControl
from statefulspark.engine import session, warming
from statefulspark.operators import functions
from statefulspark.planning import carry, rehearsal
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.testing.stores import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from statefulspark.planning.rehearsal_folder import RehearsalFolder

CONFIG = config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://bucket"))
UID = "delays"
RAISED = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/job.py", line 12, in process
    return rows[0].price / rows[0].count
ZeroDivisionError: division by zero
"""
Folder = AbstractContextManager["RehearsalFolder"]


@dataclass
class FakeSpark:
    """A session whose executors come and go, and the groups of jobs that were cancelled."""

    executors: frozenset[str] = frozenset({"10.0.0.1:7078", "10.0.0.2:7078"})
    is_elsewhere: bool = True
    cancelled: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    during: Callable[[Callable[[], bool]], None] = lambda _: None
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def sparkContext(self) -> FakeSpark:  # noqa: N802 - Spark's name
        return self

    def setJobGroup(self, group: str, _: str) -> None:  # noqa: N802 - Spark's name
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.append(group)
        self.is_cancelled.set()

    def rehearse(
        self,
        frame: object,
        mode: str,
        within: Folder,
        *,
        stops: Callable[[], bool],
        restore: object = None,
        report: progress.Report,
    ) -> rehearsal.RehearsalOutcome:
        self.runs.append("with state" if restore else "without state")
        report(api.Progress(unit="batches", done=1, total=2))
        self.during(stops)
        return rehearsal.RehearsalOutcome(has_run=not stops())


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSpark]:
    made = FakeSpark()
    monkeypatch.setattr(session, "has_executors_elsewhere", lambda _: made.is_elsewhere)
    monkeypatch.setattr(session, "executors", lambda _: made.executors)
    monkeypatch.setattr(warming, "touch_storage", lambda _, __: None)
    monkeypatch.setattr(rehearsal, "rehearse", made.rehearse)
    return made


def compared() -> start_parts.Comparison:
    planned = a_planned_query(a_planned_operator("mean"), uid=UID)
    stream = carry.Stream(cast("DataFrame", None), "update")
    query = start_parts.BuiltQuery(UID, cast("DataStreamWriter", None), stream, planned)
    built = start_parts.Built((query,), functions.JobFunctions(), hooks.JobHooks())
    plan = StartPlan(StartMode.CONTINUE, 1, (a_query(UID, an_operator()),))
    root = start_parts.JobRoot(MemoryStore(), storage.StorageOptions())
    return start_parts.Comparison(root, cast("SparkSession", None), plan, built, {})


@pytest.fixture
def control() -> StandbyControl:
    return StandbyControl(CONFIG, NOON)


@pytest.fixture
def make(spark: FakeSpark, control: StandbyControl) -> Callable[..., rehearsals.Rehearsals]:
    return functools.partial(rehearsals.Rehearsals, cast("SparkSession", spark), control)


def warmed(control: StandbyControl) -> tuple[str, ...]:
    standby = control.status().standby
    assert standby is not None
    return standby.warmed_queries


def test_executors_are_cold_until_a_rehearsal_and_again_when_one_was_replaced(
    spark: FakeSpark, control: StandbyControl, make: Callable[[], rehearsals.Rehearsals]
) -> None:
    rehearsed = make()
    at_first = rehearsed.has_cold_executors()
    rehearsed.rehearse(compared())
    afterwards = rehearsed.has_cold_executors()
    spark.executors = frozenset({"10.0.0.2:7078"})
    with_one_less = rehearsed.has_cold_executors()
    spark.executors = frozenset({"10.0.0.2:7078", "10.0.0.3:7078"})

    assert (at_first, afterwards, with_one_less, rehearsed.has_cold_executors()) == (True, False, False, True)
    assert (spark.runs, warmed(control)) == (["without state"], (UID,))


def test_an_executor_that_is_still_starting_is_waited_for(
    spark: FakeSpark,
    control: StandbyControl,
    make: Callable[[], rehearsals.Rehearsals],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([frozenset[str](), frozenset[str](), spark.executors])
    monkeypatch.setattr(session, "executors", lambda _: next(looks))

    make().rehearse(compared())

    assert (spark.runs, warmed(control)) == (["without state"], (UID,))


def test_an_activation_does_not_wait_for_an_executor_that_is_starting(
    spark: FakeSpark,
    control: StandbyControl,
    make: Callable[..., rehearsals.Rehearsals],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_and_activated(_: object) -> frozenset[str]:
        control.request_activation(api.ActivateRequest(request_id="take-8", epoch=8))
        return frozenset()

    monkeypatch.setattr(session, "executors", none_and_activated)

    make(start_s=1e9).rehearse(compared())

    assert spark.runs == []


def test_nothing_is_rehearsed_on_no_executors_and_it_is_done_once_there_are_some(
    spark: FakeSpark, control: StandbyControl, make: Callable[..., rehearsals.Rehearsals]
) -> None:
    there, spark.executors = spark.executors, frozenset()
    rehearsed = make(start_s=0.0)
    rehearsed.rehearse(compared())
    runs_without_executors, is_cold_without = list(spark.runs), rehearsed.has_cold_executors()
    spark.executors = there

    assert (runs_without_executors, is_cold_without, warmed(control)) == ([], False, ())
    assert rehearsed.has_cold_executors()


def test_what_runs_in_the_drivers_own_process_is_rehearsed_without_executors_and_never_cold(
    spark: FakeSpark, make: Callable[[], rehearsals.Rehearsals]
) -> None:
    spark.is_elsewhere, spark.executors = False, frozenset()
    rehearsed = make()

    rehearsed.rehearse(compared())

    assert (spark.runs, rehearsed.has_cold_executors()) == (["without state"], False)


def test_a_rehearsal_whose_executors_do_not_answer_is_given_up_and_its_jobs_are_cancelled(
    spark: FakeSpark,
    control: StandbyControl,
    make: Callable[..., rehearsals.Rehearsals],
    caplog: pytest.LogCaptureFixture,
) -> None:
    never = threading.Event()
    spark.during = lambda _: never.wait(60) and None
    caplog.set_level(logging.INFO)

    make(longest_s=0.2).rehearse(compared())
    never.set()

    assert (spark.cancelled, warmed(control)) == (spark.groups, ())
    assert "a query is not rehearsed" in caplog.text


def test_a_standby_that_plans_only_runs_nothing_and_is_never_cold(
    spark: FakeSpark, control: StandbyControl, make: Callable[..., rehearsals.Rehearsals]
) -> None:
    planned = make(rehearsal=config.Rehearsal.PLAN_ONLY)

    planned.rehearse(compared())

    assert (spark.runs, spark.groups, warmed(control), planned.has_cold_executors()) == ([], [], (), False)


def test_queries_for_which_there_is_no_time_are_left_out(
    spark: FakeSpark, control: StandbyControl, make: Callable[..., rehearsals.Rehearsals]
) -> None:
    make(longest_s=0.0).rehearse(compared())

    assert (spark.runs, spark.groups, warmed(control)) == ([], [], ())


def test_an_activation_ends_a_rehearsal_and_nothing_is_concluded(
    spark: FakeSpark,
    control: StandbyControl,
    make: Callable[[], rehearsals.Rehearsals],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def activate(stops: Callable[[], bool]) -> None:
        control.request_activation(api.ActivateRequest(request_id="take-8", epoch=8))
        assert stops()

    spark.during = activate

    monkeypatch.setattr(rehearsals, "judge", lambda *_: pytest.fail("something was concluded"))

    make().rehearse(compared())

    assert (spark.runs, spark.cancelled) == (["without state"], [])


def test_what_goes_on_for_a_rehearsal_after_an_activation_is_cancelled_after_a_while(
    spark: FakeSpark, control: StandbyControl, make: Callable[..., rehearsals.Rehearsals]
) -> None:
    never = threading.Event()

    def activate(_: Callable[[], bool]) -> None:
        control.request_activation(api.ActivateRequest(request_id="take-8", epoch=8))
        never.wait(60)

    spark.during = activate
    make(grace_s=0.1).rehearse(compared())
    at_once = list(spark.cancelled)

    assert spark.is_cancelled.wait(60)
    never.set()
    assert (at_once, spark.cancelled) == ([], spark.groups)


def test_a_standby_says_how_far_its_rehearsal_is(
    spark: FakeSpark, control: StandbyControl, make: Callable[..., rehearsals.Rehearsals]
) -> None:
    told: list[tuple[str | None, api.Progress | None]] = []
    spark.during = lambda _: told.append((control.status().message, control.status().progress))

    make().rehearse(compared())

    ((message, count),) = told
    assert (message or "").startswith("Rehearsing query 'delays': 1 of 2 batches, since ")
    assert count == api.Progress(unit="batches", done=1, total=2)


def test_a_function_that_raises_on_rows_of_its_source_refuses_and_one_that_got_no_rows_is_not_blamed(
    control: StandbyControl,
) -> None:
    rehearsals.judge(UID, rehearsal.RehearsalOutcome(failure=RAISED, has_rows=False), control)
    with pytest.raises(errors.UserCodeError, match=r"On rows of its own sources.*ZeroDivisionError") as refused:
        rehearsals.judge(UID, rehearsal.RehearsalOutcome(failure=RAISED), control)

    assert refused.value.reason == "FunctionRaised"
    rehearsals.judge(UID, rehearsal.RehearsalOutcome(has_run=True, has_rows=False), control)
    assert warmed(control) == (UID,)
