"""Changes the number of state partitions with Spark's own offline repartition.

It reads the state of every operator of a query, shuffles it by key and writes it again, as one more batch without input:
batch N + 1. It runs in a generation that nothing uses yet, so a failure changes nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.sparkinternals import rewriting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def repartition(session: SparkSession, root: str, partitions: int) -> None:
    """Change the number of partitions of a query's state.

    Cost: the executors read and write the whole state.

    Args:
        session: The session.
        root: Hadoop URI of the query's checkpoint root; its newest batch is committed.
        partitions: The new number.

    Raises:
        SpecRejectedError: `SparkTooOld`.
        StateUnknownError: `RepartitionFailed`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # This access creates the coordinator of state stores, which Spark does not do on its own.
    _ = session.streams.active
    try:
        rewriting.repartition(session, root, partitions)
    except (PySparkException, Py4JError) as error:
        first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise errors.StateUnknownError(
            "RepartitionFailed",
            f"Spark could not repartition the state in {root} to {partitions} partitions: {first_line[:500]} Nothing "
            "was started and the snapshot is unchanged; leave spark.sql.shuffle.partitions as the state has it.",
        ) from error
