"""Spark's own offline repartition of state (SPARK-54346, since 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statefulspark.sparkinternals import releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def repartition(session: SparkSession, root: str, partitions: int) -> None:
    """Change the number of partitions of a query's state, as one more batch without input.

    Args:
        session: The session.
        root: Hadoop URI of the query's checkpoint root; its newest batch is committed.
        partitions: The new number.

    Raises:
        SpecRejectedError: `SparkTooOld`.
        PySparkException: Spark could not.
    """
    releases.require(releases.REPARTITION)
    from pyspark.sql.streaming.query import StreamingCheckpointManager

    StreamingCheckpointManager(session._jsparkSession.streamingCheckpointManager()).repartition(root, partitions)
