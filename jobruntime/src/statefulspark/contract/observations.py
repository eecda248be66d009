"""What the driver's API tells for people who look at a job: newest batches, state by operator, what would be lost.

`GET /v1/batches`, `/v1/state` and `/v1/losses`; the page at `/ui` shows them. Nothing of it decides anything.
"""

from __future__ import annotations

from enum import StrEnum

from statefulspark.contract.base import UtcDatetime, WireModel

RETAINED_BATCHES = 60
"""Number of batches of a query that a driver remembers."""


class BatchReport(WireModel):
    """One batch, as Spark measured it."""

    batch_id: int
    began_at: UtcDatetime | None = None
    """When it was triggered; absent if Spark did not say."""
    duration_ms: int
    input_rows: int
    rows_per_second: float
    """Processed rows per second."""
    lag_rows: int | None = None
    """Rows that its sources had when it was planned and that it did not read; absent if no source tells."""


class QueryBatches(WireModel):
    """The newest batches of one query."""

    uid: str
    batches: tuple[BatchReport, ...] = ()
    """Oldest first, at most 60; those of this driver."""


class Batches(WireModel):
    """Answer of `GET /v1/batches`."""

    queries: tuple[QueryBatches, ...] = ()


class PartitionSize(WireModel):
    """The state of one operator in one partition."""

    partition: int
    size_bytes: int
    files: int
    key_groups: int | None = None
    """Number of key groups in the partition; absent for Spark's own operators."""


class OperatorSize(WireModel):
    """The state of one operator, as the files that the newest checkpoint needs."""

    query: str
    """The query's uid."""
    uid: str
    """The operator's uid, or that of a function with operator state."""
    name: str
    """Spark's name of the operator, or `operatorState` for a function."""
    size_bytes: int
    files: int
    max_parallelism: int | None = None
    """Number of key groups; absent for what has none. Group `g` is in partition `g` modulo the number of partitions."""
    partitions: tuple[PartitionSize, ...] = ()
    """Every partition, in order; empty for a function."""
    skew: float | None = None
    """Size of the largest partition, divided by the average: 1 is even. Absent without partitions or state."""


class StateSizes(WireModel):
    """Answer of `GET /v1/state`: measured in the files of the newest checkpoint, without reading them.

    A partition's files are its newest snapshot and the changes since, so sizes grow between two snapshots of a partition,
    and a partition that has just made one looks smaller than others.
    """

    snapshot: str | None = None
    """The measured state, for example `checkpoint 41`; absent before there is any."""
    operators: tuple[OperatorSize, ...] = ()


class LossVerdict(StrEnum):
    """Whether something would be lost if the driver ended now."""

    NOTHING = "Nothing"
    """Nothing that was committed."""
    UNKNOWN = "Unknown"
    """This process cannot tell."""


class QuerySinceCheckpoint(WireModel):
    """What a query has committed since the newest checkpoint; a next driver goes on after it."""

    uid: str
    batches: int
    rows: int | None = None
    """Rows read in those batches; absent if they are more than the driver remembers."""
    running_batch: int | None = None
    """The batch that is running, which would be done again; absent between two batches."""


class Losses(WireModel):
    """Answer of `GET /v1/losses`: what would be lost if the driver ended now, and why not."""

    verdict: LossVerdict
    sentences: tuple[str, ...]
    """The verdict explained, the state of the job first; never empty."""
    checkpoint: int | None = None
    """The newest checkpoint; absent before the first."""
    checkpoint_at: UtcDatetime | None = None
    """When it completed."""
    queries: tuple[QuerySinceCheckpoint, ...] = ()
    pending_transactions: int = 0
    """Transactions of sinks that are prepared and wait for the next checkpoint."""
