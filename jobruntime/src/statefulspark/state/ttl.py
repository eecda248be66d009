"""Time to live of keyed state: duration, renewal, visibility of expired entries, and cleanup.

The configuration belongs to the running job and is never part of a snapshot, which stores only whether entries have the
time of their last renewal. Time is processing time: the moment at which Spark planned the batch, the same for every task
and every replay of the batch.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from dataclasses import dataclass

from statefulspark import errors


class TtlUpdate(enum.Enum):
    """What renews the life of an entry."""

    ON_CREATE_AND_WRITE = "OnCreateAndWrite"
    """Creating and writing it."""
    ON_READ_AND_WRITE = "OnReadAndWrite"
    """Creating, writing and reading it."""
    DISABLED = "Disabled"
    """Nothing: the state has no time to live."""


class TtlVisibility(enum.Enum):
    """Whether an expired entry that is still stored may be returned."""

    NEVER_RETURN_EXPIRED = "NeverReturnExpired"
    """It reads as absent."""
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "ReturnExpiredIfNotCleanedUp"
    """It is returned once, and deleted by that read."""


class TtlChange(enum.Enum):
    """Handling of a stored state that was written without a time to live and is declared with one, or the reverse."""

    REFUSE = "refuse"
    """The job fails with an error that names the state."""
    MIGRATE = "migrate"
    """When enabled, the time to live of every entry starts now; when disabled, all entries are kept, expired ones too."""


@dataclass(frozen=True, slots=True)
class IncrementalCleanup:
    """Incremental cleanup of expired entries.

    Attributes:
        count: Entries that one step checks.
        run_for_every_record: Also run a step for every processed record, not only for every access to the state.
    """

    count: int
    run_for_every_record: bool


@dataclass(frozen=True, slots=True, init=False)
class Ttl:
    """Time to live, in processing time, per value, list element or map entry.

    An entry is expired when its last renewal plus the duration is now or earlier. Expired entries are deleted when they
    are read and, unless disabled, when a key group is written in full; `cleanup_incrementally` and
    `cleanup_full_snapshot` add more cleanup. The configuration is not part of a snapshot: it may change at every start,
    except that enabling or disabling it needs `ttl_change`.

    Attributes:
        duration: How long an entry lives.
        update: What renews it.
        visibility: Whether an expired entry may be seen.
        incremental: Incremental cleanup; None disables it.
        in_background: Whether expired entries are dropped when a key group is compacted.
        full_snapshot: Whether canonical savepoints omit expired entries.
    """

    duration: datetime.timedelta
    update: TtlUpdate
    visibility: TtlVisibility
    incremental: IncrementalCleanup | None
    in_background: bool
    full_snapshot: bool

    def __init__(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
        update: TtlUpdate = TtlUpdate.ON_CREATE_AND_WRITE,
        visibility: TtlVisibility = TtlVisibility.NEVER_RETURN_EXPIRED,
    ) -> None:
        try:
            duration = datetime.timedelta(
                days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
            )
        except (OverflowError, ValueError) as error:
            raise errors.SpecRejectedError(
                "TtlTooLong", f"The time to live cannot be represented: {error}. Omit it to keep state forever."
            ) from error
        if duration <= datetime.timedelta(0):
            raise errors.SpecRejectedError("TtlNotPositive", f"TTL is expected to be positive. Found: {duration}.")
        for name, value, kind in (("update", update, TtlUpdate), ("visibility", visibility, TtlVisibility)):
            if not isinstance(value, kind):
                allowed = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
                raise errors.SpecRejectedError("TtlInvalid", f"TTL {name} is {value!r}; allowed are {allowed}.")
        object.__setattr__(self, "duration", duration)
        object.__setattr__(self, "update", update)
        object.__setattr__(self, "visibility", visibility)
        object.__setattr__(self, "incremental", None)
        object.__setattr__(self, "in_background", True)
        object.__setattr__(self, "full_snapshot", False)

    @property
    def duration_ms(self) -> int:
        """The duration in whole milliseconds, at least 1."""
        return max(1, self.duration // datetime.timedelta(milliseconds=1))

    @property
    def shows_expired(self) -> bool:
        """Whether an expired entry is returned by the read that deletes it."""
        return self.visibility is TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

    @property
    def renews_on_read(self) -> bool:
        """Whether reading an entry renews it."""
        return self.update is TtlUpdate.ON_READ_AND_WRITE

    def cleanup_incrementally(self, count: int, *, run_for_every_record: bool = False) -> Ttl:
        """Return a copy that checks some entries at each access to the state and deletes the expired ones.

        Args:
            count: Entries that one step checks; all entries of the task's partition are checked in turn.
            run_for_every_record: Also run a step for every processed record.

        Raises:
            SpecRejectedError: The number is not positive.
        """
        if count <= 0:
            raise errors.SpecRejectedError(
                "TtlCleanupInvalid",
                f"Number of incrementally cleaned up state entries should be positive. Found: {count}.",
            )
        return self._with("incremental", IncrementalCleanup(count, run_for_every_record))

    def cleanup_full_snapshot(self) -> Ttl:
        """Return a copy with which canonical savepoints omit expired entries. The running state keeps them."""
        return self._with("full_snapshot", True)  # noqa: FBT003 - the value of an attribute

    def cleanup_in_background(self) -> Ttl:
        """Return a copy that drops expired entries when a key group is compacted, which is the default."""
        return self._with("in_background", True)  # noqa: FBT003 - the value of an attribute

    def disable_cleanup_in_background(self) -> Ttl:
        """Return a copy that keeps expired entries when a key group is compacted."""
        return self._with("in_background", False)  # noqa: FBT003 - the value of an attribute

    def _with(self, attribute: str, value: object) -> Ttl:
        copy = object.__new__(Ttl)
        for field in dataclasses.fields(self):
            object.__setattr__(copy, field.name, getattr(self, field.name))
        object.__setattr__(copy, attribute, value)
        return copy


def enabled(ttl: Ttl | None) -> Ttl | None:
    """Return a time to live that is in force, None when there is none or it is disabled."""
    return None if ttl is None or ttl.update is TtlUpdate.DISABLED else ttl
