"""Master hooks: code on the driver that a checkpoint asks first, and that gets its answer back when the job is restored.

A hook stands for a system outside of the job that has to take part in its checkpoints: it marks a position there, or takes a
snapshot of its own, and returns a few bytes by which it finds that again. Flink's `MasterTriggerRestoreHook`. This module
knows no Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

DEFAULT_TIMEOUT_S = 60.0


class MasterHook(ABC):
    """Asked at each checkpoint and savepoint, before the queries are; give an instance to `job.hook`.

    All methods run on the driver, off the job's own thread. Methods of one hook never run at the same time.
    """

    @property
    @abstractmethod
    def identifier(self) -> str:
        """Name under which its state is kept; unique in the job and never changed afterwards."""

    @abstractmethod
    def trigger(self, checkpoint_id: int, timestamp: int) -> bytes | None:
        """Take part in a checkpoint.

        Batches may be committed between this call and the point where the checkpoint ends: what is returned describes that
        point or an earlier one, never a later one. The checkpoint may be given up afterwards.

        Args:
            checkpoint_id: Its number; never used twice.
            timestamp: When it was triggered, in milliseconds since 1970.

        Returns:
            What `restore` gets back; kept in the manifest, so keep it small. None keeps nothing.

        Raises:
            Exception: Any; the checkpoint is declined with its text.
        """

    @abstractmethod
    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Go back to a checkpoint, before any query starts.

        Args:
            checkpoint_id: The checkpoint for which `trigger` returned the state. A job that goes on after the newest
                committed batch gets the state of the checkpoint before it. Without state it is the number of what is
                restored, and 0 where that is not known.
            state: What `trigger` had returned; None where what is restored holds nothing of this hook.

        Raises:
            Exception: Any; the job does not start.
        """

    def reset(self) -> None:  # noqa: B027 - most hooks have nothing to forget
        """Begin anew: the job starts with empty state. Flink calls it at the same moment."""

    def close(self) -> None:  # noqa: B027 - most hooks have nothing to give back
        """The job has ended, for whatever reason; nothing is called afterwards."""


@dataclass(frozen=True, slots=True)
class HookDefinition:
    """A hook of the job.

    Attributes:
        identifier: Of the hook.
        hook: The hook itself.
        timeout_s: How long it may take to answer.
    """

    identifier: str
    hook: MasterHook
    timeout_s: float = DEFAULT_TIMEOUT_S
