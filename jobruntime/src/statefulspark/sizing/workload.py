"""What a size depends on: the workload of a job, and the prices of its object store. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

MAX_KEYS = 10**12
MAX_BYTES_PER_KEY = 1 << 30
MAX_ROWS_PER_S = 10.0**9
MAX_RETAINED = 1000
MAX_POD_CORES = 1024


class StatefulOperator(StrEnum):
    """The stateful operator of a job."""

    PYTHON = "python"
    """Python objects: `keyed_process` row by row, `transform_with_state`, `map_with_state`, and tables of values that are no
    numbers."""
    VECTORIZED = "vectorized"
    """A `VectorizedProcessFunction` with sums, minima or maxima of numbers by one integer key."""
    SPARK = "spark"
    """Spark's own operators, as `groupBy().agg()`: state in the JVM, and no Python."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What the object store asks for, in US dollars.

    The defaults are those of AWS for S3 Standard in us-east-1, as in its price list of 28 September 2026, version
    20260928230416 (pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/current/us-east-1/index.json). Deletes are
    free, and so is what goes between S3 and machines of the same region.

    Attributes:
        storage_gb_month: A month of 10**9 bytes; the first 50 TB.
        write_per_thousand: A thousand requests that write, copy or list.
        read_per_thousand: A thousand requests that read.
    """

    storage_gb_month: float = 0.023
    write_per_thousand: float = 0.005
    read_per_thousand: float = 0.0004


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload of a job: one query with one stateful operator.

    Attributes:
        keys: Keys that have state at the same time.
        bytes_per_key: Size of the state of a key with the key itself, as it is stored: `harness.stored_bytes` of a test,
            divided by its keys.
        rows_per_s: Rows that come in a second, when most come.
        operator: The stateful operator.
        batch_interval: Wanted time from batch to batch.
        checkpoint_interval: Time from checkpoint to checkpoint.
        retained: Checkpoints that are kept.
        restart_within: Longest time from a driver's death to its successor's first commit; None if it does not matter.
        pod_memory_mib: Memory that one pod may have.
        pod_cores: Cores that one pod may have.
        rows_per_core: Rows that a core of yours does in a second; None for what was measured on ours.
        prices: What the object store asks for.
    """

    keys: int
    bytes_per_key: int
    rows_per_s: float
    operator: StatefulOperator = StatefulOperator.PYTHON
    batch_interval: timedelta = timedelta(seconds=1)
    checkpoint_interval: timedelta = timedelta(seconds=10)
    retained: int = 3
    restart_within: timedelta | None = None
    pod_memory_mib: int = 8192
    pod_cores: int = 4
    rows_per_core: float | None = None
    prices: Prices = Prices()

    @property
    def batch_interval_s(self) -> float:
        """The wanted time from batch to batch in seconds."""
        return self.batch_interval.total_seconds()

    @property
    def checkpoint_interval_s(self) -> float:
        """The time from checkpoint to checkpoint in seconds."""
        return self.checkpoint_interval.total_seconds()

    @property
    def restart_within_s(self) -> float | None:
        """The longest time of a restart in seconds; None if it does not matter."""
        return None if self.restart_within is None else self.restart_within.total_seconds()
