"""A job's storage on the object store, its requests in an hour, and the price of both. Pure.

One query with one stateful operator, a source of files and a sink with transactions. What a sink itself writes is not in it:
that is the output, and its size is the job's own affair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from statefulspark.sizing import coefficients
from statefulspark.sizing.workload import StatefulOperator, Workload

HOUR_S = 3600
HOURS_A_MONTH = 730
_GB = 10**9
_NUMBER_STORED_BYTES = 17


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in an hour.

    Attributes:
        batch_writes: Writes of batches.
        snapshot_writes: Writes of Spark, which stores the state of a partition as a whole now and then.
        checkpoint_writes: Writes and listings of checkpoints, and of pruning after them.
        reads: All that reads.
    """

    batch_writes: float
    snapshot_writes: float
    checkpoint_writes: float
    reads: float

    @property
    def writes(self) -> float:
        """All that is paid as a write: writes, copies and listings."""
        return self.batch_writes + self.snapshot_writes + self.checkpoint_writes


def checkpoint_bytes(workload: Workload) -> float:
    """Return the size of a checkpoint: all state."""
    return workload.keys * _stored_key_bytes(workload) * coefficients.STORED_PER_BYTE.value


def kept_bytes(workload: Workload, rows_per_batch: float, interval_s: float) -> float:
    """Return what is in the job's folder: state, and changes that retained checkpoints need or that wait for pruning."""
    kept_s = workload.retained * workload.checkpoint_interval_s + 2 * coefficients.SNAPSHOT_INTERVAL_S.value
    changed = min(rows_per_batch, float(workload.keys)) * _stored_key_bytes(workload)
    changes = math.ceil(kept_s / interval_s) * changed
    return checkpoint_bytes(workload) * coefficients.KEPT_PER_STORED.value + changes


def local_bytes(workload: Workload) -> float:
    """Return what all pods together have of the state on their disks."""
    return checkpoint_bytes(workload) * coefficients.LOCAL_PER_STORED.value


def files(workload: Workload, partitions: int, interval_s: float) -> float:
    """Return how many files a checkpoint names: of each partition the changes since a snapshot, its state, and checksums."""
    changes = coefficients.SNAPSHOT_INTERVAL_S.value / interval_s
    of_state = 1 + checkpoint_bytes(workload) / partitions / coefficients.FILE_BYTES.value
    return partitions * 2 * (changes + of_state + 1)


def requests(workload: Workload, partitions: int, interval_s: float) -> Requests:
    """Return the requests of an hour."""
    batches, checkpoints = HOUR_S / interval_s, HOUR_S / workload.checkpoint_interval_s
    a_batch = coefficients.WRITES_A_BATCH.value + partitions * coefficients.WRITES_A_PARTITION.value
    snapshots = partitions * HOUR_S / coefficients.SNAPSHOT_INTERVAL_S.value
    return Requests(
        batch_writes=batches * a_batch,
        snapshot_writes=snapshots * coefficients.WRITES_A_SNAPSHOT.value,
        checkpoint_writes=checkpoints * coefficients.WRITES_A_CHECKPOINT.value,
        reads=batches * coefficients.READS_A_BATCH.value + checkpoints * coefficients.READS_A_CHECKPOINT.value,
    )


def requests_cost(workload: Workload, made: Requests) -> float:
    """Return the dollars that requests cost in a month."""
    prices = workload.prices
    an_hour = made.writes * prices.write_per_thousand + made.reads * prices.read_per_thousand
    return an_hour / 1000 * HOURS_A_MONTH


def storage_cost(workload: Workload, stored_bytes: float) -> float:
    """Return the dollars that what is stored costs in a month."""
    return stored_bytes / _GB * workload.prices.storage_gb_month


def _stored_key_bytes(workload: Workload) -> int:
    return _NUMBER_STORED_BYTES if workload.operator is StatefulOperator.VECTORIZED else workload.bytes_per_key
