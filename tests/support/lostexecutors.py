"""A query of two keyed operators, one behind the other, whose executor is lost between their stages.

    python -m lostexecutors FOLDER

The first operator gives each key a random tag in each batch, keeps it and passes it on; the second one keeps what it is
passed. Both emit what they had kept before, so that the next batch shows whether the states of both are of one attempt.
In one batch, tasks of the second operator stand still as soon as they have their rows, and an executor that has run the
first one is killed. Prints as JSON the failures of the query, which is started again after each, and each batch's rows.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import processes
import standalone
from keyedstream import FileStream
from pyspark import TaskContext
from pyspark.sql import DataFrame
from statefulspark import state
from statefulspark.contract import config
from statefulspark.engine import session
from statefulspark.operators import keyed
from statefulspark.storage import StorageOptions

HOSTS = ("127.0.0.2", "127.0.0.3")
BATCHES, ACCIDENT = 4, 2
KEYS = 40
_STANDS_STILL_S = 60
_UNTIL_SPARK_SEES_IT_S = 4
"""A task that ends before Spark has compared the rows of both attempts makes it give the batch up by itself."""
_PARTITIONS = 2
_ATTEMPTS = f"batch-{ACCIDENT}.on-*"
"""Files of the attempts at tasks of the first operator in the accident's batch."""
_TAGGED = "key string, other string, kept string, tag string"
_COMPARED = "key string, first string, second string"
_SETTINGS = {
    "spark.driver.extraJavaOptions": processes.SHORT_LIVED,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": str(_PARTITIONS),
    "spark.locality.wait": "0s",
}


class Tags(state.KeyedProcessFunction):
    """Tags each key anew in each batch.

    Args:
        folder: Gets a file for each attempt, with the number of the batch and the host that it ran on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def open(self, ctx: state.KeyedContext) -> None:
        """Declare the tag, and note where the attempt runs."""
        self.tag = ctx.value_state("tag")
        host = next(host for host in HOSTS if f"work-{host}" in os.getcwd())
        Path(self._folder, f"batch-{_batch()}.on-{host}.{time.monotonic_ns()}").touch()

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        """Give the key another tag."""
        kept, tag = self.tag.get(), os.urandom(8).hex()
        self.tag.update(tag)
        yield key, f"{key}'", kept, tag


class Followers(state.KeyedProcessFunction):
    """Keeps the tag of each key that it is passed.

    Args:
        folder: Gets a file when the first task of the accident's batch has its rows, and has those of the first operator.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def open(self, ctx: state.KeyedContext) -> None:
        """Declare the tag."""
        self.tag = ctx.value_state("tag")

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        """Take the key's tag over."""
        if _batch() == ACCIDENT:
            self._stand_still()
        kept = self.tag.get()
        for row in rows:
            self.tag.update(row.tag)
            yield row.key, row.kept, kept

    def _stand_still(self) -> None:
        folder, deadline_s = Path(self._folder), time.monotonic() + _STANDS_STILL_S
        (folder / "has-rows").touch()
        while len(list(folder.glob(_ATTEMPTS))) <= _PARTITIONS and time.monotonic() < deadline_s:
            time.sleep(0.05)
        if not (folder / "late").exists():
            (folder / "late").touch()
            time.sleep(_UNTIL_SPARK_SEES_IT_S)


def main() -> None:
    """Run the batches, and lose an executor in one of them."""
    folder = Path(sys.argv[1])
    with standalone.cluster(folder, hosts=HOSTS, memory="700m", cores=2) as cluster:
        killer = threading.Thread(target=_lose_executor, args=(folder, cluster), daemon=True)
        killer.start()
        engine = {"master": cluster.url, "conf": _SETTINGS}
        job = config.JobConfig.model_validate(
            {"name": "tags", "storage": {"uri": "s3://none/needed"}, "engine": engine}
        )
        spark = session.build(job, StorageOptions())
        stream = FileStream(spark, folder, "key string, value bigint")
        for number in range(BATCHES):
            stream.feed([(f"k{row % KEYS}", number) for row in range(KEYS)])
        failures = stream.run_through_failures(lambda rows: _followed(rows, folder))
        emitted = [sorted(map(tuple, stream.batches[number])) for number in sorted(stream.batches)]
        print(json.dumps({"emitted": emitted, "failures": failures}))
        spark.stop()


def _followed(rows: DataFrame, folder: Path) -> DataFrame:
    tagged = keyed.keyed_process(rows, key="key", function=Tags(folder), uid="tags", schema=_TAGGED, max_parallelism=8)
    follow = Followers(folder)
    return keyed.keyed_process(
        tagged, key="other", function=follow, uid="followers", schema=_COMPARED, max_parallelism=8
    )


def _lose_executor(folder: Path, cluster: standalone.Cluster) -> None:
    """Lose the host of an executor that has run the first operator in the accident's batch."""
    while not (folder / "has-rows").exists():
        time.sleep(0.05)
    cluster.lose(next(folder.glob(_ATTEMPTS)).name.split("on-")[1].rpartition(".")[0])


def _batch() -> int:
    task = TaskContext.get()
    return int(task.getLocalProperty("streaming.sql.batchId") or 0) if task else -1


if __name__ == "__main__":
    main()
