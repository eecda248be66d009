"""State with a time to live on real Spark: what is expired leaves the state of a running job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from statefulspark import state
from statefulspark.operators import keyed
from statefulspark.state import heads

pytestmark = pytest.mark.spark
# Functions of a job file are copied to the workers by value; those of this module have to be, too.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class ShortMemory(state.KeyedProcessFunction):
    """Forgets a key when its batch is over."""

    def open(self, ctx: state.KeyedContext) -> None:
        self.seen = ctx.value_state("seen", int, ttl=state.Ttl("1ms"))

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        self.seen.update(len(rows))
        yield (key,)


def test_a30_keys_that_expired_and_do_not_come_again_leave_the_state(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is asked for: what a running job writes in full from time to time no longer has them."""
    stream = FileStream(spark, tmp_path, "key int")
    for batch in range(6):
        stream.feed([(batch * 30 + number,) for number in range(30)])
    stream.run(
        lambda rows: keyed.keyed_process(
            rows, key="key", function=ShortMemory(), uid="short", schema="key int", max_parallelism=1
        )
    )

    reader = spark.read.format("statestore").option("path", str(stream.checkpoint))
    (stored,) = reader.option("stateVarName", "head_short").load().select("value.*").collect()
    head = heads.GroupHead.from_layout(stored.version, stored.id, bytes(stored.layout))
    assert head.version == 6
    assert head.count <= 3 * 30
