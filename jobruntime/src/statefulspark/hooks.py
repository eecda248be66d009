"""Master hooks: code on the driver that each checkpoint calls first, and that gets its state back when the job is restored.

A hook represents an external system that takes part in the job's checkpoints: it marks a position there, or takes a
snapshot of its own, and returns a few bytes that identify it. Flink's `MasterTriggerRestoreHook`. This module does not
use Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, timedelta

DEFAULT_TIMEOUT = timedelta(minutes=1)


class MasterHook(ABC):
    """Called at each checkpoint and savepoint, before the queries take part; give an instance to `job.hook`.

    All methods run on the driver, in threads of their own. Methods of one hook never run at the same time.
    """

    @property
    @abstractmethod
    def uid(self) -> str:
        """Name under which its state is stored; unique in the job and never changed afterwards."""

    @abstractmethod
    def trigger(self, checkpoint_id: int, when: datetime) -> bytes | None:
        """Take part in a checkpoint.

        Batches may be committed between this call and the cut of the checkpoint: the returned state must describe that cut
        or an earlier point, never a later one. The checkpoint may be aborted afterwards.

        Args:
            checkpoint_id: Its number; never used twice.
            when: The moment at which it was triggered, in UTC.

        Returns:
            The state for `restore`; it is stored in the manifest, so it should be small. None stores nothing.

        Raises:
            Exception: Any; the checkpoint is declined with its text.
        """

    @abstractmethod
    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """Restore a checkpoint, before any query starts.

        Args:
            checkpoint_id: The checkpoint for which `trigger` returned the state. A job that continues after the newest
                committed batch gets the state of the checkpoint before it. Without state it is the number of the
                restored snapshot, or 0 if that is unknown.
            state: The state that `trigger` returned; None if the restored snapshot has no state of this hook.

        Raises:
            Exception: Any; the job does not start.
        """

    def reset(self) -> None:  # noqa: B027 - most hooks have nothing to reset
        """Reset the hook, because the job starts with empty state. Flink calls it at the same moment."""

    def close(self) -> None:  # noqa: B027 - most hooks have nothing to close
        """Close the hook after the job has ended, for any reason; no method is called afterwards."""


@dataclass(frozen=True, slots=True)
class HookDefinition:
    """A hook of the job.

    Attributes:
        uid: The uid of the hook.
        hook: The hook itself.
        timeout: Longest duration of a call.
    """

    uid: str
    hook: MasterHook
    timeout: timedelta = DEFAULT_TIMEOUT
