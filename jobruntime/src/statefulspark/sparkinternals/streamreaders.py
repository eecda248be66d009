"""The classes of a streaming Python data source, which 4.2 tells where to read from (SPARK-55304)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statefulspark.sparkinternals import releases

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
elif releases.has(releases.STATEFUL_SOURCES):
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:

    class SupportsTriggerAvailableNow:
        """Nothing: a release without it reads no stateful source."""


__all__ = ["SupportsTriggerAvailableNow"]
