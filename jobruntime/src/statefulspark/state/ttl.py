"""Time to live: how long an entry of keyed state lives, what renews it, who may still see it, and who cleans it up.

The configuration says how the running job treats its state. It is never part of a snapshot: only whether entries carry
the time of their last renewal is. Time is processing time: the moment at which Spark planned the batch, the same for
every task and for every replay of the batch.
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
    """Reading it, too."""
    DISABLED = "Disabled"
    """Nothing: the state is kept as if it had no time to live."""


class TtlVisibility(enum.Enum):
    """Whether an expired entry that is still stored may be returned."""

    NEVER_RETURN_EXPIRED = "NeverReturnExpired"
    """It is as if it were absent."""
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "ReturnExpiredIfNotCleanedUp"
    """It is returned once more, and deleted by that read."""


class TtlChange(enum.Enum):
    """What happens when a stored state was written without a time to live and is declared with one, or the reverse."""

    REFUSE = "refuse"
    """The job fails with a sentence that names the state."""
    MIGRATE = "migrate"
    """Switched on, every entry lives from now on; switched off, every entry is kept for good, expired ones too."""


@dataclass(frozen=True, slots=True)
class IncrementalCleanup:
    """Looking for expired entries a few at a time.

    Attributes:
        count: Entries that one step looks at.
        run_for_every_record: Step for every processed record, too, and not only for every access to the state.
    """

    count: int
    run_for_every_record: bool


@dataclass(frozen=True, slots=True, init=False)
class Ttl:
    """Time to live, in processing time, per value, list element or map entry.

    An entry is expired when its last renewal plus the duration is now or earlier. Expired entries are deleted when they
    are read and, unless that is switched off, when a key group is written in full; more can be asked for with
    `cleanup_incrementally` and `cleanup_full_snapshot`. The configuration is no part of a snapshot: it may change at
    every start, except between having one and having none.

    Attributes:
        duration: How long an entry lives.
        update: What renews it.
        visibility: Whether an expired entry may be seen.
        incremental: Cleaning up a few entries at a time; None for not at all.
        in_background: Whether expired entries are dropped when a key group is compacted.
        full_snapshot: Whether canonical savepoints leave expired entries out.
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
                "TtlTooLong", f"The time to live cannot be represented: {error}. Leave it out to keep state for good."
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
        """The duration in whole milliseconds, one at least."""
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
        """Return a copy that looks at some entries at each access to the state and deletes the expired ones.

        Args:
            count: Entries that one step looks at; all entries of the task's partition are looked at in turn.
            run_for_every_record: Step for every processed record, too.

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
        """Return a copy with which canonical savepoints leave expired entries out. The running state keeps them."""
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
