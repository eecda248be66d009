"""A query whose tasks Spark repeats: a worker dies, or is too slow, once at a chosen place of a batch.

    python -m repeatedtasks FOLDER MASTER PLACE...

With a `local` master workers die and their tasks are retried. With a master of a cluster they stand still until the batch is
over: what ends the batch is a speculative copy of the task, on another executor. Each place has its batch; more without an
accident come before and after them. Prints as JSON what each batch emitted, which attempts of the task came to the place,
and how many copies of state were refused. A failure of the query ends the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import processes
from keyedstream import FileStream
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from statefulspark import state
from statefulspark.contract import config
from statefulspark.engine import session
from statefulspark.operators import keyed
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    import pyarrow as pa

PLACES = ("open", "emitted", "process", "put_chunk", "emitted", "set_head", "next_group", "close")
"""Before anything; with all of the worker's work done, state committed to the attempt's own copy and the worker ready for
another task, while what comes after it in the same task is not; between two keys; with the chunk written; with the head
written; in a later key group; at the end."""
BEFORE, AFTER = 1, 2
"""Batches without an accident."""
SCHEMA = "key string, value bigint"
_SUMS = "key string, sum bigint"
_STANDS_STILL_S = 300
_ERROR = 1_000_000_000
_PARTITION = 0
"""Whose task has the accidents, so that its other attempts come to the same places."""
_SETTINGS = {
    "spark.driver.extraJavaOptions": processes.SHORT_LIVED,
    "spark.sql.shuffle.partitions": "2",
}
_SPECULATION = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    # Seldom where nothing is slow: a copy that is killed before its Python worker has called the state server ends its
    # executor, because TransformWithStateInPySparkStateServer lets that be an uncaught exception (Spark 4.2).
    "spark.speculation.multiplier": "3",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.efficiency.enabled": "false",
    # Both tasks would rather be where the last copy won; one of them is to go to the other executor.
    "spark.locality.wait": "0s",
}


class Accidents:
    """What happens in each batch to the first attempt of a task when it comes to the batch's place.

    Args:
        folder: Gets a file for each attempt that came to its place, and for each copy of state that was refused.
        places: By number of the batch; empty for none.
        is_slow: Whether the task stands still, until the batch is over, instead of dying.
    """

    def __init__(self, folder: Path, places: Sequence[str], *, is_slow: bool) -> None:
        self._folder, self._places, self._is_slow = str(folder), tuple(places), is_slow

    def doom(self) -> bool:
        """Tell whether the running attempt is the one that has the batch's accident: the first one that asks."""
        task = TaskContext.get()
        if task is None or task.partitionId() != _PARTITION:
            return False
        number = _number_of_batch(task)
        if not self._places[number] or not _is_new(self._file(number, "doomed")):
            return False
        self._file(number, "doomed").write_text(str(task.attemptNumber()))
        return True

    def reach(self, place: str) -> None:
        """Tell that the running task came to a place."""
        task = TaskContext.get()
        if task is None or task.partitionId() != _PARTITION:
            return
        number, attempt = _number_of_batch(task), str(task.attemptNumber())
        is_first_time = self._places[number] == place and _is_new(self._file(number, f"attempt-{attempt}"))
        if is_first_time and self._file(number, "doomed").read_text() == attempt:
            self._happen(number)

    def refuse(self) -> None:
        """Note that a copy of state was refused, because it is of another attempt than the one whose state counts."""
        task = TaskContext.get()
        if task is not None:
            _is_new(self._file(_number_of_batch(task), f"refused-{time.monotonic_ns()}"))

    def end(self, number: int) -> None:
        """Wake those who stand still in a batch."""
        self._file(number, "over").touch()

    @property
    def attempts(self) -> list[list[int]]:
        """The numbers of the attempts that came to the place of each batch."""
        names = [[file.name for file in self._files(number, "attempt")] for number in range(len(self._places))]
        return [sorted(int(name.rpartition("-")[2]) for name in names_of_batch) for names_of_batch in names]

    @property
    def refusals(self) -> list[int]:
        """How many copies of state were refused in each batch."""
        return [len(self._files(number, "refused")) for number in range(len(self._places))]

    def _file(self, number: int, what: str) -> Path:
        return Path(self._folder, f"batch-{number:02}.{what}")

    def _files(self, number: int, what: str) -> list[Path]:
        return list(Path(self._folder).glob(f"batch-{number:02}.{what}-*"))

    def _happen(self, number: int) -> None:
        if not self._is_slow:
            os.kill(os.getpid(), signal.SIGKILL)
        over, deadline_s = self._file(number, "over"), time.monotonic() + _STANDS_STILL_S
        while not over.exists() and time.monotonic() < deadline_s:
            time.sleep(0.05)


class Sums(state.KeyedProcessFunction):
    """Sums values per key. Attempts that have an accident sum up wrongly, so that what is left of them can be told.

    Args:
        accidents: The accidents.
    """

    def __init__(self, accidents: Accidents) -> None:
        self._accidents = accidents

    def open(self, ctx: state.KeyedContext) -> None:
        """Declare the sum, and lay the traps."""
        self.sum = ctx.reducing_state("sum", lambda one, two: one + two)
        self._keys = 0
        self._error = _ERROR if self._accidents.doom() else 0
        self._accidents.reach("open")
        from statefulspark.operators.keyed import log
        from statefulspark.state import heads

        accidents = self._accidents
        for name in ("put_chunk", "set_head"):
            _after(log.SparkChunkLog, name, lambda _, name=name: accidents.reach(name))  # type: ignore[misc]
        _after(heads.GroupHead, "has_ancestor", lambda is_valid: None if is_valid else accidents.refuse())

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        """Add the values of a key."""
        for row in rows:
            self.sum.add(cast("int", row.value) + self._error)
        self._keys += 1
        if self._keys == 2:
            self._accidents.reach("process")
        if self._keys == 12:
            self._accidents.reach("next_group")
        yield key, self.sum.get()

    def close(self) -> None:
        """Come to the end."""
        self._accidents.reach("close")


def _after(owner: type, name: str, then: Callable[[object], None]) -> None:
    """Have something called with the result of each call of a method; it takes the place of what was there before."""
    plain: Callable[..., object] = getattr(owner, f"_plain_{name}", None) or getattr(owner, name)

    def trapped(*arguments: object) -> object:
        result = plain(*arguments)
        then(result)
        return result

    setattr(owner, f"_plain_{name}", plain)
    setattr(owner, name, trapped)


def batch(number: int) -> list[tuple[str, int]]:
    """Return the input of a batch: all keys in the first one, and then a few, so that their state is written in parts."""
    rows, keys = (900, 900) if number == 0 else (60, 90)
    return [(f"k{(row * 7 + number) % keys}", row * (number + 1)) for row in range(rows)]


def main() -> None:
    """Run a batch for each place, and those before and after them."""
    folder, master, places = Path(sys.argv[1]), sys.argv[2], [""] * BEFORE + sys.argv[3:] + [""] * AFTER
    is_slow = not master.startswith("local")
    accidents = Accidents(folder, places, is_slow=is_slow)
    stream = FileStream(_session(master, _SETTINGS | (_SPECULATION if is_slow else {})), folder, SCHEMA)
    stream.after_batch = accidents.end
    for number in range(len(places)):
        stream.feed(batch(number))
    stream.run(lambda rows: _sums(rows, accidents))
    emitted = [sorted(map(tuple, stream.batches[number])) for number in sorted(stream.batches)]
    print(json.dumps({"emitted": emitted, "attempts": accidents.attempts, "refusals": accidents.refusals}))


def _session(master: str, chosen: dict[str, str]) -> SparkSession:
    """Start a session as a driver does."""
    engine = {"master": master, "conf": chosen}
    job = config.JobConfig.model_validate({"name": "sums", "storage": {"uri": "s3://none/needed"}, "engine": engine})
    return session.build(job, StorageOptions())


def _sums(rows: DataFrame, accidents: Accidents) -> DataFrame:
    def pass_on(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from parts
        accidents.reach("emitted")

    summed = keyed.keyed_process(rows, key="key", function=Sums(accidents), uid="sums", schema=_SUMS, max_parallelism=8)
    return summed.mapInArrow(pass_on, _SUMS)


def _number_of_batch(task: TaskContext) -> int:
    return int(task.getLocalProperty("streaming.sql.batchId") or 0)


def _is_new(file: Path) -> bool:
    """Make an empty file; tell whether it was not there."""
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main()
