"""A batch costs a few exchanges with Spark's state server, however many key groups it has rows for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from statefulengine import Engine
from statefulspark import state
from statefulspark.operators.keyed import cleaning, processor
from statefulspark.state import keygroups

_SCHEMA = spark_types.StructType(
    [spark_types.StructField("key", spark_types.LongType()), spark_types.StructField("n", spark_types.LongType())]
)
_GROUPS = 64


class Counts(state.KeyedProcessFunction):
    """Counts rows."""

    def open(self, ctx: state.KeyedContext) -> None:
        self.count = ctx.value_state("count", int)

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        counted = (self.count.get() or 0) + len(rows)
        self.count.update(counted)
        yield key, counted


class CountingEngine(Engine):
    """A partition that counts how often something is sent to its state server."""

    exchanges = 0

    def write(self, requests: bytes) -> None:
        self.exchanges += 1
        super().write(requests)


def _processor() -> processor.KeyedProcessor:
    settings = processor.OperatorSettings("counts", ("key",), "bigint", _SCHEMA, "UTC", key_groups=_GROUPS)
    return processor.KeyedProcessor(Counts(), settings)


def test_a_batch_reads_all_heads_and_writes_all_changes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "partitions_of_task", lambda: 1)
    groups = [keygroups.key_group((key,), ("bigint",), _GROUPS) for key in range(200)]
    rows = pa.table({"key": pa.array(range(200), pa.int64()), "key_group": pa.array(groups, pa.int32())})
    engine = CountingEngine(_processor, "None")

    output = [engine.batch(rows), engine.batch(rows)]

    assert len(set(groups)) > 50
    assert [{row["n"] for row in batch} for batch in output] == [{1}, {2}]
    assert engine.exchanges == 4
