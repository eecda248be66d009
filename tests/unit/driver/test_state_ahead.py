"""Which files a standby reads to its machine: those that the first batch of this version of the job will load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

import pytest
from fakecontrol import NOON
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark import storage
from statefulspark.contract import api, config
from statefulspark.contract.manifest import QueryEntry
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import start_parts, state_ahead
from statefulspark.driver.starting.controls import StandbyControl
from statefulspark.evolution import comparison
from statefulspark.operators import functions
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.testing.stores import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from statefulspark.driver.starting.state_ahead import Carrying
    from statefulspark.planning.read_ahead import ReadAhead

SAME, MOVED = 0, 1
IN_USE, IN_ITS_OWN = "generations/00000001/delays", "generations/00000002/delays"


class FakeReadAhead:
    """Notes what it is asked to read."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def follow(self, root_uri: str, queries: Iterable[QueryEntry], *, stops: Callable[[], bool]) -> None:
        assert root_uri
        self.paths += [query.path for query in queries if not stops()]


class FakeCarrying:
    """Has carried some queries."""

    def __init__(self, *arrived: QueryEntry) -> None:
        self.arrived = arrived

    def refresh(self, compared: start_parts.Comparison) -> tuple[QueryEntry, ...]:
        return self.arrived if any(not change.is_empty for change in compared.changes.values()) else ()


def compared(place: int) -> start_parts.Comparison:
    query = a_query("delays", an_operator())
    planned = a_planned_query(a_planned_operator("mean", place), uid="delays")
    (change,) = comparison.compare([query], [planned], label="checkpoint 1")
    built = start_parts.Built((), functions.JobFunctions(), hooks.JobHooks())
    root = start_parts.JobRoot(MemoryStore(), storage.StorageOptions())
    plan = StartPlan(StartMode.CONTINUE, 1, (query,))
    return start_parts.Comparison(root, cast("SparkSession", None), plan, built, {"delays": change})


@pytest.mark.parametrize(
    ("place", "arrived", "read"),
    [
        pytest.param(SAME, (), [IN_USE], id="the same plan reads what is in use"),
        pytest.param(MOVED, (a_query("delays", path=IN_ITS_OWN),), [IN_ITS_OWN], id="another plan what was carried"),
        pytest.param(MOVED, (), [], id="and nothing if nothing has come"),
    ],
)
def test_what_the_first_batch_will_load_is_read(place: int, arrived: tuple[QueryEntry, ...], read: list[str]) -> None:
    control = StandbyControl(config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://bucket")), NOON)
    ahead, carrier, what = FakeReadAhead(), FakeCarrying(*arrived), compared(place)

    state_ahead.keep(control, cast("ReadAhead", ahead), what)
    state_ahead.carry(control, cast("Carrying", carrier), cast("ReadAhead", ahead), what)

    assert ahead.paths == read


def test_reading_what_has_arrived_takes_no_longer_than_carrying_may() -> None:
    control = StandbyControl(config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://bucket")), NOON)
    ahead, carrier, now_s = (
        FakeReadAhead(),
        FakeCarrying(a_query("delays", path=IN_ITS_OWN)),
        [0.0, state_ahead.LONGEST_S],
    )

    state_ahead.carry(
        control, cast("Carrying", carrier), cast("ReadAhead", ahead), compared(MOVED), elapsed_s=lambda: now_s.pop(0)
    )

    assert ahead.paths == []


def test_an_activation_does_not_wait_for_what_is_under_way() -> None:
    control = StandbyControl(config.JobConfig(name="flights", storage=config.StorageConfig(uri="s3://bucket")), NOON)
    release = threading.Event()
    control.request_activation(api.ActivateRequest(request_id="take-2", epoch=2))

    state_ahead.until_activated(control, release.wait)

    release.set()
