"""One function, the same batches, Spark's `applyInPandasWithState` and ours: what comes out is equal, batch by batch."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from keyedstream import run_in_two_lives, run_one_by_one, timed
from pyspark import cloudpickle
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from statefulspark.operators import groupstate

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])

INPUT = "key string, at bigint, small int"
OUTPUT = "what string, key string, saw string"
# Spark 4.2 cannot read a nested state of its own: its worker gets the schema in lower case ("elementtype").
STATE = "n bigint, times string, wrong double, last timestamp, day date, cost decimal(10,2)"
Rows = list[tuple[str, int, int | None]]
Apply = Callable[..., DataFrame]


def _batches(seed: int, count: int) -> list[Rows]:
    """Make batches whose times wander on, with stragglers far behind, and some nulls."""
    rng = random.Random(seed)
    return [
        [
            (f"k{rng.randrange(6)}", at * 900 + rng.randrange(-3500, 1500), rng.choice([None, 1, 2]))
            for _ in range(rng.randrange(4, 14))
        ]
        for at in range(4, 4 + count)
    ]


def _watermark(state: GroupState) -> object:
    try:
        return state.getCurrentWatermarkMs()
    except Exception as error:  # noqa: BLE001 - it is what is looked at
        return type(error).__name__, str(error)


def _refusals(state: GroupState) -> list[str]:
    refusals = []
    for attempt in (state.setTimeoutTimestamp, state.setTimeoutDuration, state.update):
        try:
            attempt(None if attempt == state.update else -5)
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            refusals.append(f"{type(error).__name__}: {error}")
    return refusals


def _kinds(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(name, str(kind)) for name, kind in frame.dtypes.items()]


def watch(key: tuple[object, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Do what the rows say with state and timeout, and tell all that can be seen."""
    before = (str(state), state.exists, state.getOption, state.hasTimedOut, _watermark(state))
    seen, kinds = [], []
    for frame in frames:
        kinds.append(_kinds(frame))
        seen += frame["at"].tolist()
    count = len(seen) + (state.get[0] if state.exists else 0)
    choice = (sum(seen) + count) % 7
    if choice in (0, 1, 2, 3):
        last = pd.Timestamp(max(seen, default=0), unit="ms")
        state.update((count, str(seen), 5, last, last.date(), Decimal(count) / 4))
    if choice == 4:
        state.remove()
    if choice in (1, 2, 4, 5) and state._timeout_conf == GroupStateTimeout.EventTimeTimeout:
        state.setTimeoutTimestamp(max([state.getCurrentWatermarkMs(), 1, *seen]) + 200 * choice)
    if choice in (1, 2, 4, 5) and state._timeout_conf == GroupStateTimeout.ProcessingTimeTimeout:
        state.setTimeoutDuration(1 if choice in (1, 4) else 10**9)
    saw = str((before, kinds, choice, [type(part).__name__ for part in key], state.exists))
    yield pd.DataFrame({"saw": [saw], "what": ["timeout" if state.hasTimedOut else "rows"], "key": [str(key[-1])]})
    yield pd.DataFrame({"what": [], "key": [], "saw": []})


def refuse(key: tuple[object, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> list[pd.DataFrame]:
    """Try what is not allowed."""
    saw = str((_refusals(state), sum(map(len, frames))))
    return [pd.DataFrame({"what": ["refused"], "key": [key[0]], "saw": [saw]})]


def _spark(grouped: GroupedData, *arguments: object) -> DataFrame:
    return grouped.applyInPandasWithState(*arguments)


def _ours(grouped: GroupedData, *arguments: object) -> DataFrame:
    return groupstate.apply_in_pandas_with_state(grouped, *arguments, uid="watched", max_parallelism=8)


def test_state_and_timeouts_and_late_rows_in_event_time(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=1, count=6)

    def build(apply: Apply) -> Callable[[DataFrame], DataFrame]:
        arguments = (watch, OUTPUT, STATE, "Update", GroupStateTimeout.EventTimeTimeout)
        return lambda rows: apply(timed(rows).groupBy("key"), *arguments)

    expected = run_in_two_lives(spark, tmp_path / "spark", INPUT, batches, build(_spark))
    assert run_in_two_lives(spark, tmp_path / "ours", INPUT, batches, build(_ours)) == expected
    assert "timeout" in str(expected)


def test_state_and_timeouts_in_processing_time_by_keys_with_nulls(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=2, count=3)

    def build(apply: Apply) -> Callable[[DataFrame], DataFrame]:
        arguments = (watch, OUTPUT, STATE, "update", GroupStateTimeout.ProcessingTimeTimeout)
        return lambda rows: apply(rows.groupBy("small", "key"), *arguments)

    expected = run_one_by_one(spark, tmp_path / "spark", INPUT, batches, build(_spark))
    assert run_one_by_one(spark, tmp_path / "ours", INPUT, batches, build(_ours)) == expected
    assert "timeout" in str(expected)


def test_what_is_refused_without_timeouts(spark: SparkSession, tmp_path: Path) -> None:
    batches = _batches(seed=3, count=2)

    def build(apply: Apply) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: apply(rows.groupBy("key"), refuse, OUTPUT, STATE, "Update", GroupStateTimeout.NoTimeout)

    expected = run_in_two_lives(spark, tmp_path / "spark", INPUT, batches, build(_spark))
    assert run_in_two_lives(spark, tmp_path / "ours", INPUT, batches, build(_ours)) == expected
    assert "CANNOT_WITHOUT" in str(expected)
