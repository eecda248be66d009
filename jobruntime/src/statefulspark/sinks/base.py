"""What a sink is: it writes one batch, and writing the same batch again changes nothing.

Spark may run a batch twice (a driver died between the output and the commit). Two attempts at one batch have the same
input, so a sink that replaces what an earlier attempt at that batch number made visible delivers each record once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from statefulspark.storage import StorageOptions


class Sink(Protocol):
    """Writes batches in two steps: parts on the workers, one commit on the driver.

    Guaranteed by the runtime: `commit` is called with the parts of exactly one attempt at a batch, and batches are
    committed in order. Not guaranteed: that a part that was written is ever committed.
    """

    def write_part(self, batches: Iterator[pa.RecordBatch], batch_id: int, options: StorageOptions) -> bytes | None:
        """Write one partition's rows on a worker.

        Args:
            batches: The partition's rows, possibly none.
            batch_id: The batch they belong to.
            options: How to reach the job's object store.

        Returns:
            What the commit needs to know of the part; None if there were no rows.
        """
        ...

    def commit(self, parts: tuple[bytes, ...], batch_id: int, epoch: int, options: StorageOptions) -> None:
        """Make the batch's parts visible on the driver, replacing an earlier attempt at the same batch."""
        ...
