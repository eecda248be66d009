"""A job whose code raises, for what is printed then.

Parameters: `input`, a folder of JSON files with `k string`; `output`, a folder for a files sink; `where`: which code raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = ss.Job("raising")
SCHEMA = "k string"


def broken(*_: object) -> NoReturn:
    """Raise, one call below the function of the job."""
    raise ValueError("this row is bad")


class PerKey(ss.KeyedProcessFunction):
    """Raises for a key."""

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        """Raise."""
        return broken(key)


def frame_of(rows: DataFrame, where: str) -> DataFrame:
    """Return the rows through the code that raises."""
    match where:
        case "keyed":
            return ss.keyed_process(rows, key="k", function=PerKey(), uid="by-k", schema=SCHEMA)
        case "key":
            return ss.keyed_process(rows, key="kk", function=PerKey(), uid="by-k", schema=SCHEMA)
        case _:
            return rows


@job.query(uid="counts")
def counts(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter | ss.Output:
    """Read, raise, write."""
    where = ctx.parameter("where")
    rows = spark.readStream.schema(SCHEMA).json(ctx.parameter("input"))
    if where == "foreach_batch":
        return rows.writeStream.foreachBatch(broken)
    return ss.write(frame_of(rows, where), sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out")


if __name__ == "__main__":
    job.run()
