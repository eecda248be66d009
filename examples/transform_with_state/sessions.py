"""Sessions of users: a job that was written for Spark's older operator, `applyInPandasWithState`.

    statefulspark run examples/transform_with_state/sessions.py --dev

Counts the clicks of a user, and reports the session when nothing came for a minute of event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

job = ss.Job("sessions")
MINUTE_MS = 60_000
SESSIONS = "id string, clicks bigint, start_ms bigint, end_ms bigint"
OPEN_SESSION = "clicks bigint, start_ms bigint, end_ms bigint"


def track(key: tuple[str], clicks: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Extend the session of a user, or report it when it has timed out."""
    if state.hasTimedOut:
        count, start_ms, end_ms = state.get
        state.remove()
        yield pd.DataFrame({"id": [key[0]], "clicks": [count], "start_ms": [start_ms], "end_ms": [end_ms]})
        return
    moments = pd.concat([frame["at_ms"] for frame in clicks])
    count, start_ms, end_ms = state.getOption or (0, moments.min(), moments.max())
    end_ms = max(end_ms, moments.max())
    state.update((count + len(moments), min(start_ms, moments.min()), end_ms))
    state.setTimeoutTimestamp(max(int(end_ms) + MINUTE_MS, state.getCurrentWatermarkMs()))


def sessions_of(clicks: DataFrame) -> DataFrame:
    """Return the sessions of a stream of `id string, at_ms bigint, time timestamp` with a watermark."""
    # clicks.groupBy("id").applyInPandasWithState(track, SESSIONS, OPEN_SESSION, "Append", EventTimeTimeout)
    return ss.compat.apply_in_pandas_with_state(
        clicks.groupBy("id"),
        track,
        SESSIONS,
        OPEN_SESSION,
        "Append",
        GroupStateTimeout.EventTimeTimeout,
        uid="sessions",
    )


@job.query(uid="sessions")
def sessions(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Clicks made of Spark's own rate source, sessions shown on the console."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 5)).load()
    clicks = numbers.selectExpr(
        "concat('user-', int(value / 40) % 50) AS id", "unix_millis(timestamp) AS at_ms", "timestamp AS time"
    )
    return (
        sessions_of(clicks.withWatermark("time", "10 seconds"))
        .writeStream.outputMode("append")
        .format("console")
        .trigger(processingTime="5 seconds")
    )


if __name__ == "__main__":
    job.run()
