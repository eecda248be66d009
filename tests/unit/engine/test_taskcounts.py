"""How many of Spark's tasks have ended, told while a call of Spark runs that says nothing of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import StatusTracker
from pyspark.sql import SparkSession
from statefulspark.contract.api import Progress
from statefulspark.engine import taskcounts


class Stage(NamedTuple):
    """What Spark says of a stage."""

    numTasks: int  # noqa: N815 - Spark's name
    numCompletedTasks: int  # noqa: N815 - Spark's name


@dataclass
class Tracker:
    """Spark's tracker, and the context and session that it comes from."""

    stages: dict[int, Stage | None] = field(default_factory=dict)
    ends: bool = False
    looked: Callable[[], object] = lambda: None

    @property
    def sparkContext(self) -> Tracker:  # noqa: N802 - Spark's name
        return self

    def statusTracker(self) -> Tracker:  # noqa: N802 - Spark's name
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        self.looked()
        if self.ends:
            raise Py4JNetworkError("Spark has ended")
        return list(self.stages)

    def getStageInfo(self, stage: int) -> Stage | None:  # noqa: N802 - Spark's name
        return self.stages[stage]


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        pytest.param({}, None, id="no stage runs"),
        pytest.param({3: None}, None, id="a stage that Spark has forgotten meanwhile"),
        pytest.param({3: Stage(8, 2)}, Progress(unit="tasks", done=2, total=8), id="a stage runs"),
        pytest.param({3: Stage(8, 2), 4: Stage(2, 1)}, Progress(unit="tasks", done=3, total=10), id="two stages run"),
    ],
)
def test_the_tasks_of_active_stages_are_counted(stages: dict[int, Stage | None], told: Progress | None) -> None:
    assert taskcounts.running(cast("StatusTracker", Tracker(stages))) == told


def test_they_are_told_while_the_block_runs_and_not_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskcounts, "LOOKS_EVERY_S", 0.001)
    told, is_told = list[Progress](), threading.Event()

    def report(progress: Progress) -> None:
        told.append(progress)
        is_told.set()

    with taskcounts.reported(cast("SparkSession", Tracker({1: Stage(4, 1)})), report):
        assert is_told.wait(30)
    after = len(told)

    assert set(told) == {Progress(unit="tasks", done=1, total=4)}
    assert len(told) == after
    assert not [one for one in threading.enumerate() if one.name == "tasks-of-spark"]


def test_spark_that_ends_meanwhile_is_the_affair_of_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskcounts, "LOOKS_EVERY_S", 0.001)
    looked = threading.Event()

    with taskcounts.reported(cast("SparkSession", Tracker(ends=True, looked=looked.set)), pytest.fail):
        assert looked.wait(30)
