"""Time to live of keyed state: duration, renewal, visibility of expired entries, and cleanup.

The configuration belongs to the running job and is never part of a snapshot, which stores only whether entries have the
time of their last renewal. Time is processing time: the moment at which Spark planned the batch, the same for every task
and every replay of the batch.

An entry is expired when its last renewal is at or before the cutoff: the current time minus the time to live. Incremental
cleanup checks a few at a time, with each access or record, in turn over all key groups (A.31).
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from statefulspark import errors
from statefulspark.state import tables


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
            raise errors.InvalidArgumentError(
                "TtlTooLong", f"The time to live cannot be represented: {error}. Omit it to keep state forever."
            ) from error
        if duration <= datetime.timedelta(0):
            raise errors.InvalidArgumentError("TtlNotPositive", f"TTL is expected to be positive. Found: {duration}.")
        for name, value, kind in (("update", update, TtlUpdate), ("visibility", visibility, TtlVisibility)):
            if not isinstance(value, kind):
                allowed = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
                raise errors.InvalidArgumentError("TtlInvalid", f"TTL {name} is {value!r}; allowed are {allowed}.")
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
            InvalidArgumentError: The number is not positive.
        """
        if count <= 0:
            raise errors.InvalidArgumentError(
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


class CleanupRound:
    """One round of incremental cleanup over the key groups of a partition, each of them once.

    Args:
        groups: The key groups.

    Attributes:
        pending_entries: Number of entries still to check for past accesses; they are in key groups without rows.
    """

    __slots__ = ("_groups", "_remaining", "pending_entries")

    def __init__(self, groups: Iterable[int] = ()) -> None:
        self._groups = dict.fromkeys(groups)
        self._remaining = dict(self._groups)
        self.pending_entries = 0

    def is_due(self, group: int) -> bool:
        """Tell whether a key group is still to be checked; a group outside the round always is."""
        return group in self._remaining or group not in self._groups

    def finish(self, group: int) -> None:
        """Record that all entries of a key group were checked."""
        self._remaining.pop(group, None)

    def next_due(self) -> int | None:
        """Return the next key group of the round; None if no entries are pending or there are no groups."""
        if self.pending_entries <= 0:
            return None
        if not self._remaining:
            self._remaining = dict(self._groups)
        return next(iter(self._remaining), None)


class Cleaner:
    """Incremental cleanup of one state: checks a few entries at a time, in turn, and deletes expired ones (A.31).

    The position in a key group is kept with its table in memory; a worker that rebuilds the table starts at the beginning.
    After the last entry of a key group, the round decides which group is next.

    Args:
        count: Number of entries that one step checks.
        duration_ms: The time to live.

    Attributes:
        round: The key groups that are due, and the number of entries that steps could not check.
    """

    __slots__ = ("_count", "_duration_ms", "_group", "_is_due", "_table", "round")

    def __init__(self, count: int, duration_ms: int) -> None:
        self._count = count
        self._duration_ms = duration_ms
        self._table: tables.Table
        self._group = 0
        self._is_due = False
        self.round = CleanupRound()

    def bind(self, table: tables.Table, group: int) -> None:
        """Switch to another key group."""
        self._table, self._group, self._is_due = table, group, self.round.is_due(group)

    def step(self, now_ms: int) -> None:
        """Check the next entries of the key group; entries that it lacks become pending."""
        self.round.pending_entries += self._scan(self._count, now_ms)

    def clean_pending(self, now_ms: int) -> None:
        """Check pending entries. A key group counts as one entry at least, so that empty groups end the loop."""
        pending = self.round.pending_entries
        self.round.pending_entries = min(self._scan(pending, now_ms), pending - 1)

    def _scan(self, count: int, now_ms: int) -> int:
        """Check the next entries; return how many of `count` were not available."""
        if not self._is_due:
            return count
        table, cutoff_ms = self._table, now_ms - self._duration_ms
        for remaining in range(count, 0, -1):
            key = _next_key(table)
            if key is None:
                self.round.finish(self._group)
                self._is_due = self.round.is_due(self._group)
                key = _next_key(table) if self._is_due else None
            if key is None:
                return remaining
            self._check(table, key[0], cutoff_ms)
        return 0

    @staticmethod
    def _check(table: tables.Table, key: object, cutoff_ms: int) -> None:
        row = table.rows.get(key)
        if row is None:
            return
        alive_row = table.alive(row, cutoff_ms)  # type: ignore[arg-type]  # a row of this table
        if alive_row is row or (
            alive_row is not None and len(cast("list[object]", alive_row)) == len(cast("list[object]", row))
        ):
            return
        if alive_row is None:
            del table.rows[key]
        else:
            table.rows[key] = alive_row
        table.touch_row(key)


def _next_key(table: tables.Table) -> tuple[object] | None:
    """Return the next key to check in a table; None at the end, after which the next round starts."""
    if table.cursor is None:
        # A copy, because the table changes meanwhile. It is made once per round over all keys.
        table.cursor = iter([(key,) for key in table.rows])
    key = next(table.cursor, None)
    if key is None:
        table.cursor = None
    return key
