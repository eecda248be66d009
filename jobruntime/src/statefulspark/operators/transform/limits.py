"""How large a pandas frame may get: the limits that Spark has for its Arrow batches, per key."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """The limits of a frame.

    Attributes:
        rows: Most rows; below 1 is any number.
        size_bytes: Bytes that are not exceeded, unless by a single row; below 1 is any number.
    """

    rows: int = -1
    size_bytes: int = -1

    def rows_of(self, table: pa.Table) -> int:
        """Return how many rows of a table one frame may have; at least one."""
        limits = [max(1, len(table))]
        if self.rows > 0:
            limits.append(self.rows)
        if self.size_bytes > 0 and table.nbytes > 0:
            limits.append(max(1, self.size_bytes * len(table) // table.nbytes))
        return min(limits)


def of(session: SparkSession) -> FrameLimits:
    """Return the limits that a session has."""
    # Spark gives sizes as it was told them, with a unit or without.
    size = session._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch()
    return FrameLimits(rows=int(session.conf.get(_ROWS, "-1") or -1), size_bytes=int(size))
