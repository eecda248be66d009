"""State spread over another number of partitions, by Spark's own offline repartition (Spark 4.2).

It reads the state of every operator of a query, shuffles it by key and writes it anew, as one more batch that reads no
input: batch N + 1. It is done in a generation that nobody uses yet, so a failure leaves everything else as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.query import StreamingCheckpointManager

from statefulspark import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def repartition(session: SparkSession, root: str, partitions: int) -> None:
    """Spread the state of a query over another number of partitions.

    Cost: the whole state is read and written by the executors.

    Args:
        session: The session.
        root: Hadoop URI of the query's checkpoint root; its newest batch is committed.
        partitions: The new number.

    Raises:
        StateUnknownError: `RepartitionFailed`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # Without this the coordinator of state stores does not exist yet and cannot be found (Spark 4.2).
    _ = session.streams.active
    manager = StreamingCheckpointManager(session._jsparkSession.streamingCheckpointManager())
    try:
        manager.repartition(root, partitions)
    except (PySparkException, Py4JError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise errors.StateUnknownError(
            "RepartitionFailed",
            f"Spark could not spread the state in {root} over {partitions} partitions: {first[:500]} Nothing was started "
            "and the snapshot is as it was; leave spark.sql.shuffle.partitions as the state has it.",
        ) from error
