"""How often tasks with state moved is counted from Spark's event log."""

from __future__ import annotations

import json
from collections.abc import Mapping

from faults import tasks
from faults.tasks import Moves

Where = Mapping[int, str]
"""Executor by partition."""


def stage(number: int, batch: int, tasks_of: Where, *, query: str = "ledger", rdd: str = "StateStoreRDD") -> list[str]:
    """Return the events of a stage of a batch, and of its tasks."""
    named = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
    rdds = [{"Name": "MapPartitionsRDD"}, {"Name": rdd}]
    began = {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": number, "RDD Info": rdds}}
    ended = [
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": number,
            "Task End Reason": {"Reason": "Success"},
            "Task Info": {"Index": partition, "Executor ID": executor},
        }
        for partition, executor in tasks_of.items()
    ]
    return [json.dumps(event) for event in ({**began, "Properties": named}, *ended)]


def test_a_partition_that_stays_has_not_moved_and_one_that_goes_elsewhere_has() -> None:
    log = [*stage(1, 0, {0: "1", 1: "2"}), *stage(2, 1, {0: "1", 1: "2"}), *stage(3, 2, {0: "2", 1: "2"})]

    assert tasks.moves(log) == Moves(followed=4, moved=1, executors=2)
    assert tasks.moves(log).share == 0.25


def test_stages_without_state_and_stages_of_no_batch_do_not_count() -> None:
    outside = json.dumps(
        {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 9, "RDD Info": []}, "Properties": {}}
    )
    log = [*stage(1, 0, {0: "1"}, rdd="ShuffledRowRDD"), outside, *stage(2, 1, {0: "2"}, rdd="ShuffledRowRDD")]

    assert tasks.moves(log) == Moves(0, 0, 0)
    assert tasks.moves(log).share == 0.0


def test_operators_of_one_query_are_followed_each_for_itself_and_queries_too() -> None:
    log = [
        *stage(1, 0, {0: "1"}),
        *stage(2, 0, {0: "2"}),
        *stage(3, 0, {0: "2"}, query="windows"),
        *stage(4, 1, {0: "1"}),
        *stage(5, 1, {0: "2"}),
        *stage(6, 1, {0: "1"}, query="windows"),
    ]

    assert tasks.moves(log) == Moves(followed=3, moved=1, executors=2)


def test_a_batch_that_is_missing_is_followed_by_nothing_and_a_line_that_is_cut_ends_the_log() -> None:
    log = [*stage(1, 0, {0: "1"}), *stage(2, 2, {0: "2"}), '{"Event": "SparkListenerTaskE']

    assert tasks.moves(log) == Moves(0, 0, 2)


def test_an_attempt_that_failed_does_not_say_where_the_state_is() -> None:
    failed = json.dumps(
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": 2,
            "Task End Reason": {"Reason": "ExecutorLostFailure"},
            "Task Info": {"Index": 0, "Executor ID": "2"},
        }
    )
    log = [*stage(1, 0, {0: "1"}), *stage(2, 1, {0: "1"}), failed]

    assert tasks.moves(log) == Moves(followed=1, moved=0, executors=1)
