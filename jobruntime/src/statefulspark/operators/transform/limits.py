"""Maximum size of a pandas frame: Spark's limits of Arrow batches, per key."""

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
        rows: Maximum number of rows; below 1 is unlimited.
        size_bytes: Maximum size in bytes, except for a single row; below 1 is unlimited.
    """

    rows: int = -1
    size_bytes: int = -1

    def rows_of(self, table: pa.Table) -> int:
        """Return the maximum number of rows of a table in one frame; at least 1."""
        limits = [max(1, len(table))]
        if self.rows > 0:
            limits.append(self.rows)
        if self.size_bytes > 0 and table.nbytes > 0:
            limits.append(max(1, self.size_bytes * len(table) // table.nbytes))
        return min(limits)


def of(session: SparkSession) -> FrameLimits:
    """Return the limits of a session."""
    # The session setting may have a unit; Spark's configuration method returns bytes.
    size = session._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch()
    return FrameLimits(rows=int(session.conf.get(_ROWS, "-1") or -1), size_bytes=int(size))
