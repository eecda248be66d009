"""Small files of state, fetched while Spark starts, so that the first batch of a start finds them on this machine.

A state store is loaded from a snapshot and a file for each batch after it, each with its checksum. The first batch reads
them one after the other, several requests each, with a client whose code has hardly run yet. This process fetches them all
at once, while it waits for Spark anyway. What is large is left to Spark, which reads it as a stream.

Nothing depends on it, and nothing waits for it: what is not here when it is needed is read from storage. The files have
names of their own and never change (`read_ahead`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from statefulspark import errors, failures, threads
from statefulspark.checkpoint import state_files
from statefulspark.planning import read_ahead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.contract.manifest import QueryEntry
    from statefulspark.storage.port import ObjectStore

SMALL_BYTES = 2**20
"""A file up to this size costs its requests more than its bytes."""
MOST_BYTES = 32 * 2**20
"""Of all files together, which are in memory until Spark has started."""
_THREAD = "early-state"
_log = logging.getLogger(__name__)


class EarlyState:
    """Fetches from the moment it is made; asked once, when Spark has started."""

    def __init__(self, store: ObjectStore, queries: Iterable[QueryEntry]) -> None:
        """Begin to fetch, and return at once.

        Args:
            store: The job's root.
            queries: The queries of the state that the job goes on from.
        """
        self._uri = store.uri
        keys = small_files(queries)
        self._bodies = threads.beside(lambda: store.read_many(keys) if keys else {}, name=_THREAD)

    def offer(self, spark: SparkSession) -> Future[int]:
        """Let Spark take the files when they are here; return at once.

        Args:
            spark: The session; executors in processes of their own can take none.

        Returns:
            The number of files that Spark may take, once they are here; 0 after an error, which is logged.
        """
        placing = threads.beside(lambda: self._place(spark), name=_THREAD)
        placing.add_done_callback(_tell_of_a_fault)
        return placing

    def _place(self, spark: SparkSession) -> int:
        try:
            bodies = self._bodies.result()
            ahead = read_ahead.ReadAhead(spark)
            if not bodies or not ahead.keeps(self._uri, bodies):
                return 0
            ahead.offer()
        except (errors.StatefulSparkError, Py4JError, OSError) as error:
            _log.info("state is left on storage until it is used", extra={"why": failures.essence(str(error))})
            return 0
        _log.info(
            "small files of state are here", extra={"files": len(bodies), "bytes": sum(map(len, bodies.values()))}
        )
        return len(bodies)


def small_files(queries: Iterable[QueryEntry]) -> tuple[str, ...]:
    """Return the keys of the files to fetch, below the job's root."""
    sizes = {
        f"{query.path}/{file.path}": file.size_bytes
        for query in queries
        for file in query.files
        if file.size_bytes <= SMALL_BYTES and state_files.is_of_state_store(file.path)
    }
    return tuple(read_ahead.fitting(sizes, MOST_BYTES))


def _tell_of_a_fault(placing: Future[int]) -> None:
    """Nobody waits for the files, so nobody else would hear of an error that is not expected."""
    error = placing.exception()
    if error is not None:
        _log.error("small files of state could not be placed", exc_info=error)
