"""Where Spark ran the tasks that have state: read from its event log, counted for each partition of each operator.

A partition's state is in the memory of the worker that had the partition's last task. A task elsewhere reads it from
storage, so what counts is how often a partition moved from one batch to the next. Pure.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_STATEFUL = "StateStore"
"""Part of the names of Spark's RDDs with a state store: StateStoreRDD, StateStoreAwareZipPartitionsRDD."""


@dataclass(frozen=True, slots=True)
class Moves:
    """How often partitions moved.

    Attributes:
        followed: Pairs of batches that follow each other, for each partition of each operator with state.
        moved: Those of them in which another executor had the second task.
        executors: How many executors had tasks with state.
    """

    followed: int
    moved: int
    executors: int

    @property
    def share(self) -> float:
        """From 0, nothing moved, to 1; 0 if nothing followed anything."""
        return self.moved / self.followed if self.followed else 0.0


def moves(lines: Iterable[str]) -> Moves:
    """Count the moves.

    Args:
        lines: An event log, one event as JSON in each line; the last one may be cut.
    """
    stages: dict[int, tuple[str, int]] = {}
    ran: dict[int, dict[int, str]] = defaultdict(dict)
    for event in _events(lines):
        kind = event.get("Event")
        if kind == "SparkListenerStageSubmitted" and (batch := _batch_of(event)) is not None:
            stages[_stage_of(event)] = batch
        elif kind == "SparkListenerTaskEnd" and int(event["Stage ID"]) in stages and _succeeded(event):  # type: ignore[call-overload]
            task = _part(event, "Task Info")
            ran[int(event["Stage ID"])][int(task["Index"])] = str(task["Executor ID"])  # type: ignore[call-overload]
    return _counted(stages, ran)


def _counted(stages: Mapping[int, tuple[str, int]], ran: Mapping[int, Mapping[int, str]]) -> Moves:
    """Operators of a query are told apart by the order of their stages in a batch."""
    batches: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for stage in sorted(stages):
        query, batch = stages[stage]
        batches[query][batch].append(stage)
    followed = moved = 0
    for by_batch in batches.values():
        for batch in sorted(by_batch):
            for before, after in zip(by_batch[batch], by_batch.get(batch + 1, ()), strict=False):
                for partition in ran.get(before, {}).keys() & ran.get(after, {}).keys():
                    followed += 1
                    moved += ran[before][partition] != ran[after][partition]
    return Moves(followed, moved, len({executor for tasks in ran.values() for executor in tasks.values()}))


def _events(lines: Iterable[str]) -> Iterable[Mapping[str, object]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return


def _batch_of(event: Mapping[str, object]) -> tuple[str, int] | None:
    """Return query and batch of a stage with state; None for other stages."""
    named = _part(event, "Properties")
    rdds = _part(event, "Stage Info").get("RDD Info")
    assert isinstance(rdds, list), event
    has_state = any(_STATEFUL in str(rdd.get("Name")) for rdd in rdds)
    query, batch = named.get("sql.streaming.queryId"), named.get("streaming.sql.batchId")
    return (str(query), int(str(batch))) if has_state and query is not None and batch is not None else None


def _stage_of(event: Mapping[str, object]) -> int:
    return int(str(_part(event, "Stage Info")["Stage ID"]))


def _succeeded(event: Mapping[str, object]) -> bool:
    return _part(event, "Task End Reason").get("Reason") == "Success"


def _part(event: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = event.get(name)
    assert isinstance(part, dict), event
    return part
