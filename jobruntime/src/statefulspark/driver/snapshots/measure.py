"""What the API reports of a snapshot: how long it took, the size of its new files, the size of the state by partition."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from statefulspark.contract import api, observations
from statefulspark.contract.manifest import QueryEntry

OPERATOR_STATE = "operatorState"
"""Name of the state of a function, which no operator of Spark has."""

_Folder = tuple[int, int]
"""Operator id and partition."""


@dataclass(slots=True)
class _Sum:
    """Sizes and numbers of files by folder."""

    size_bytes: Counter[_Folder] = field(default_factory=Counter)
    files: Counter[_Folder] = field(default_factory=Counter)


class Stopwatch:
    """Times the phases of one snapshot.

    Attributes:
        phases_ms: Whole milliseconds by phase, in the order in which they ended; the times of a repeated phase are added.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing measured."""
        self._clock = clock
        self.phases_ms: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block, also if it raises."""
        began_s = self._clock()
        try:
            yield
        finally:
            took_ms = round((self._clock() - began_s) * 1000)
            self.phases_ms[name] = self.phases_ms.get(name, 0) + took_ms


class Growth:
    """Remembers the files of the previous checkpoint, to find the new files of the next. Used by one thread."""

    def __init__(self, previous: Sequence[QueryEntry] = ()) -> None:
        """Begin with the files of the restored snapshot."""
        self._previous = _files(previous).keys()

    def new_bytes(self, entries: Sequence[QueryEntry]) -> int:
        """Return the size of the files that the previous checkpoint did not need, and remember the files."""
        files = _files(entries)
        new = sum(size for key, size in files.items() if key not in self._previous)
        self._previous = files.keys()
        return new


def measured(
    summary: api.SnapshotSummary, entries: Sequence[QueryEntry], new_bytes: int, watch: Stopwatch
) -> api.SnapshotSummary:
    """Return the summary of a snapshot with its measurements."""
    count = sum(len(entry.files) for entry in entries)
    changes = {"incremental_size_bytes": new_bytes, "files": count, "phases_ms": dict(watch.phases_ms)}
    return summary.model_copy(update=changes)


def _files(entries: Sequence[QueryEntry]) -> dict[str, int]:
    return {f"{entry.path}/{file.path}": file.size_bytes for entry in entries for file in entry.files}


def state_sizes(snapshot: str | None, entries: Sequence[QueryEntry]) -> observations.StateSizes:
    """Return the sizes of the state of a cut.

    Args:
        snapshot: Its label for people; None if there is none.
        entries: Its queries.
    """
    operators = tuple(operator for entry in entries for operator in _operator_sizes(entry))
    return observations.StateSizes(snapshot=snapshot, operators=operators)


def _operator_sizes(entry: QueryEntry) -> Iterator[observations.OperatorSize]:
    sums = _Sum()
    for file in entry.files:
        match file.path.split("/"):
            case "state", operator_id, partition, _, *_ if operator_id.isdigit() and partition.isdigit():
                folder = int(operator_id), int(partition)
                sums.size_bytes[folder] += file.size_bytes
                sums.files[folder] += 1
            case _:
                pass
    for operator in entry.operators:
        groups = None
        if operator.max_parallelism is not None and operator.partitions > 0:
            groups = Counter(group % operator.partitions for group in range(operator.max_parallelism))
        partitions = tuple(
            observations.PartitionSize(
                partition=number,
                size_bytes=sums.size_bytes[operator.operator_id, number],
                files=sums.files[operator.operator_id, number],
                key_groups=None if groups is None else groups.get(number, 0),
            )
            for number in range(operator.partitions)
        )
        total_bytes = sum(partition.size_bytes for partition in partitions)
        largest_bytes = max((partition.size_bytes for partition in partitions), default=0)
        yield observations.OperatorSize(
            query=entry.uid,
            uid=operator.uid,
            name=operator.name,
            size_bytes=total_bytes,
            files=sum(partition.files for partition in partitions),
            max_parallelism=operator.max_parallelism,
            partitions=partitions,
            skew=round(largest_bytes * len(partitions) / total_bytes, 2) if total_bytes else None,
        )
    sizes = {file.path: file.size_bytes for file in entry.files}
    for function in entry.operator_states:
        yield observations.OperatorSize(
            query=entry.uid, uid=function.uid, name=OPERATOR_STATE, size_bytes=sizes.get(function.path, 0), files=1
        )
