# ruff: noqa: N802, N803 - processors have Spark's names
"""Sensors that report too much heat: the example of Spark's documentation, with pandas, initial state and expiry.

    statefulspark run examples/transform_with_state/sensors.py --dev

Counts the readings of a sensor above 100 degrees, starting from counts of an earlier system, and reports a sensor once
it has three. What a sensor did is forgotten ten minutes after its last violation; a timer reports sensors that are silent.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

job = ss.Job("sensors")
TOO_HOT, MINUTE_MS = 100, 60_000
REPORTS = "id string, violations bigint, silent boolean"


class Violations(StatefulProcessor):
    """Counts violations, and reports sensors with three and more, and silent ones."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the states."""
        self.handle = handle
        self.violations = handle.getValueState("violations", "count bigint", ttlDurationMs=10 * MINUTE_MS)

    def handleInitialState(self, key: tuple[str], initialState: pd.DataFrame, timerValues: TimerValues) -> None:
        """Take over what another system counted."""
        self.violations.update((initialState["violations"].sum(),))

    def handleInputRows(
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Count what is too hot."""
        found = sum(int((frame["temperature"] > TOO_HOT).sum()) for frame in rows)
        for moment in list(self.handle.listTimers()):
            self.handle.deleteTimer(moment)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + MINUTE_MS)
        if found:
            count = (self.violations.get() or (0,))[0] + found
            self.violations.update((count,))
            if count >= 3:
                yield pd.DataFrame({"id": [key[0]], "violations": [count], "silent": [False]})

    def handleExpiredTimer(
        self, key: tuple[str], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Report a sensor from which nothing came for a minute."""
        count = (self.violations.get() or (0,))[0]
        yield pd.DataFrame({"id": [key[0]], "violations": [count], "silent": [True]})

    def close(self) -> None:
        """Nothing to release."""


def reports_of(readings: DataFrame, known: DataFrame) -> DataFrame:
    """Return the reports of a stream of `id string, temperature bigint`, given `id string, violations bigint`."""
    return ss.compat.transform_with_state_in_pandas(
        readings.groupBy("id"),
        Violations(),
        REPORTS,
        "Update",
        "ProcessingTime",
        initialState=known.groupBy("id"),
        uid="violations",
    )


@job.query(uid="reports")
def reports(spark: SparkSession, ctx: ss.QueryContext) -> DataStreamWriter:
    """Readings made of Spark's own rate source, reports shown on the console."""
    numbers = spark.readStream.format("rate").option("rowsPerSecond", ctx.parameter("rows_per_second", 20)).load()
    readings = numbers.selectExpr("concat('sensor-', value % 9) AS id", "80 + value % 25 AS temperature")
    known = spark.createDataFrame([("sensor-1", 2), ("sensor-8", 1)], "id string, violations bigint")
    return (
        reports_of(readings, known)
        .writeStream.outputMode("update")
        .format("console")
        .trigger(processingTime="5 seconds")
    )


if __name__ == "__main__":
    job.run()
