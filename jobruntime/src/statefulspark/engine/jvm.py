"""The driver's side of the checkpoint file manager in the JVM: the gate of a query and the fence of an epoch.

Both are implemented in `jobruntime/jvm`. The gate stops a query at a batch boundary: it delays the next offsets/N. The fence
checks for a newer epoch before each offsets/N and commits/N. Query roots are the Hadoop URIs that the queries started with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from py4j.protocol import Py4JError

from statefulspark import errors
from statefulspark.engine import gateway
from statefulspark.engine import session as spark_session

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ENDS_WITHIN_S = 2.0
"""The connection breaks a moment before the process is gone."""


@dataclass(frozen=True, slots=True)
class GateFact:
    """The state of one query in the gate.

    Attributes:
        last_offsets: Newest batch whose offsets are written; -1 if there is none.
        last_committed: Newest committed batch; -1 if there is none.
        last_commit_at: Time of this driver's last commit; None before its first commit.
        at_boundary: The gate is closed and no batch is running.
        missing_files: Input files that were gone before they were read, since the query was registered.
        missing_file: The newest of them; empty if there is none.
    """

    last_offsets: int
    last_committed: int
    last_commit_at: datetime | None
    at_boundary: bool
    missing_files: int = 0
    missing_file: str = ""


@contextmanager
def explaining_its_end(has_ended: Callable[[float], bool] = gateway.has_ended) -> Iterator[None]:
    """Tell an error of the connection that comes from the end of the JVM from one that is a bug.

    Args:
        has_ended: Tells whether the JVM ends within some seconds.

    Raises:
        InternalError: `JvmEnded`.
    """
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if not has_ended(_ENDS_WITHIN_S):
            raise
        raise errors.InternalError(
            "JvmEnded",
            "Spark's JVM has ended while the job ran: it was killed, perhaps for the memory of its container, or has "
            "crashed; its output says why. The job continues when it is started again.",
        ) from error


def install_steady_clock(session: SparkSession, query: StreamingQuery) -> StreamingQuery:
    """Return a query that was just started, which from now on waits for its trigger's interval at most.

    With Spark's own clock it sleeps for as long as the machine's clock is set back meanwhile.
    """
    spark_session.jvm_view(session).io.statefulspark.trigger.SteadyClock.install(query._jsq)
    return query


def number_batches(writer: DataStreamWriter, offset: int) -> None:
    """Let the sink of a writer, which is not started yet, know batches by numbers that stand for one input each.

    Args:
        writer: The user's.
        offset: What is added to Spark's number for a function of `foreachBatch`; a sink of files counts on in its own log.
    """
    spark_session.jvm_view(writer._spark).io.statefulspark.output.BatchNumbers.install(writer._jwrite, offset)


class Gate:
    """Opens and closes queries at batch boundaries."""

    def __init__(self, session: SparkSession) -> None:
        """Bind to the JVM of a session."""
        jvm = spark_session.jvm_view(session)
        self._gate = cast("JavaObject", jvm.io.statefulspark.checkpoint.QueryGate)

    def register(self, root: str, *, last_offsets: int, last_committed: int) -> None:
        """Register a query before it starts, with the newest entries of its logs; its gate is open."""
        self._gate.register(root, last_offsets, last_committed)

    def close(self, root: str) -> None:
        """Let the running batch end and block the next one."""
        self._gate.close(root)

    def open(self, root: str) -> None:
        """Allow new batches again."""
        self._gate.open(root)

    def is_waiting(self, root: str) -> bool:
        """Tell whether a query stands at its closed gate: its last batch has ended, with all that follows a commit."""
        return any(bool(values["parked"]) for each, values in self._read().items() if _path(each) == _path(root))

    def unregister(self, root: str) -> None:
        """Forget a query that has ended."""
        self._gate.unregister(root)

    def facts(self) -> dict[str, GateFact]:
        """Return the state of every registered query by its root, read in one call."""
        facts = {}
        for root, values in self._read().items():
            committed_ms = int(values.get("committedAtMillis", 0))
            facts[root] = GateFact(
                last_offsets=int(values["lastOffsets"]),
                last_committed=int(values["lastCommitted"]),
                last_commit_at=datetime.fromtimestamp(committed_ms / 1000, UTC) if committed_ms > 0 else None,
                at_boundary=bool(values["atBoundary"]),
                missing_files=int(values.get("missingFiles", 0)),
                missing_file=str(values.get("missingFile", "")),
            )
        return facts

    def _read(self) -> dict[str, dict[str, int | bool | str]]:
        raw: dict[str, dict[str, int | bool | str]] = json.loads(self._gate.snapshot(), strict=False)
        return raw


def _path(root: str) -> str:
    """Return a root without its scheme, of which Hadoop has forms of its own."""
    return root.partition(":")[2].strip("/")


class Fence:
    """Stops the writes of this driver as soon as a newer epoch exists."""

    def __init__(self, session: SparkSession) -> None:
        """Bind to the JVM of a session."""
        jvm = spark_session.jvm_view(session)
        self._fence = cast("JavaObject", jvm.io.statefulspark.checkpoint.EpochFence)

    def configure(self, next_epoch_uri: str, claim_id: str) -> None:
        """Set the record that exists only if a newer driver owns the job, and the claim that log entries tell as theirs."""
        self._fence.configure(next_epoch_uri)
        self._fence.sign(claim_id)

    @property
    def fenced(self) -> bool:
        """Whether a write was refused because of a newer epoch."""
        return bool(self._fence.fenced())
