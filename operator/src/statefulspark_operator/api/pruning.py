"""The pruning of a job without a driver, in the status of a `StatefulSparkJob`."""

from __future__ import annotations

from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel


class PruningStatus(ApiModel):
    """Files in the job's folder that no snapshot needs, while no driver runs that would remove them."""

    epoch: int
    """Epoch of the driver that has ended."""
    looked_at: UtcDatetime
    """When the folder was looked through last."""
    unused_files: int = 0
    """Number of files that no snapshot needs, and that are still there."""
    unused_bytes: int = 0
    """Their size."""
    remove_at: UtcDatetime | None = None
    """When they may be removed; absent if there are none."""
    freed_files: int = 0
    """Number of files that were removed since the resource was created."""
    freed_bytes: int = 0
    """Their size."""
