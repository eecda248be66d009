"""Time to live of keyed state: duration, renewal, visibility of expired entries, and cleanup.

The configuration belongs to the running job and is never part of a snapshot, which stores only whether entries have the
time of their last renewal. Time is processing time: the moment at which Spark planned the batch, the same for every task
and every replay of the batch.

An entry is expired when its last renewal is at or before the cutoff: the current time minus the time to live. Incremental
cleanup checks a few at a time, with each access or record, in turn over all key groups (A.31).
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from statefulspark import durations, errors
from statefulspark.state import tables


class TtlUpdate(enum.Enum):
    """What renews the life of an entry."""

    ON_CREATE_AND_WRITE = "OnCreateAndWrite"
    """Creating and writing it."""
    ON_READ_AND_WRITE = "OnReadAndWrite"
    """Creating, writing and reading it."""


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


@dataclass(frozen=True, slots=True, init=False)
class Ttl:
    """Time to live, in processing time, per value, list element or map entry.

    An entry is expired when its last renewal plus the duration is now or earlier. Expired entries are deleted when they
    are read. The configuration is not part of a snapshot: it may change at every start, except that adding or removing a
    time to live needs `ttl_change`.

    Attributes:
        duration: How long an entry lives.
        update: What renews it.
        visibility: Whether an expired entry may be seen.
        cleanup_incrementally: Number of entries that each access to the state checks, and deletes if they are expired. All
            entries of the task's partition are checked in turn. None: accesses check no others.
        cleanup_for_every_record: Whether each processed record checks as many entries, too.
        cleanup_in_background: Whether expired entries are dropped when a key group is written in full.
        cleanup_full_snapshot: Whether canonical savepoints omit expired entries. The running state keeps them.
    """

    duration: datetime.timedelta
    update: TtlUpdate
    visibility: TtlVisibility
    cleanup_incrementally: int | None
    cleanup_for_every_record: bool
    cleanup_in_background: bool
    cleanup_full_snapshot: bool

    def __init__(
        self,
        duration: datetime.timedelta | str,
        *,
        update: TtlUpdate = TtlUpdate.ON_CREATE_AND_WRITE,
        visibility: TtlVisibility = TtlVisibility.NEVER_RETURN_EXPIRED,
        cleanup_incrementally: int | None = None,
        cleanup_for_every_record: bool = False,
        cleanup_in_background: bool = True,
        cleanup_full_snapshot: bool = False,
    ) -> None:
        """Describe a time to live.

        Args:
            duration: How long an entry lives: a timedelta, or text such as `7d`.
            update: See attributes, as for the others.
            visibility: See attributes.
            cleanup_incrementally: See attributes.
            cleanup_for_every_record: See attributes; it needs `cleanup_incrementally`.
            cleanup_in_background: See attributes.
            cleanup_full_snapshot: See attributes.

        Raises:
            InvalidArgumentError: `DurationInvalid`, `TtlNotPositive`, `TtlInvalid` or `TtlCleanupInvalid`.
        """
        length = durations.of(duration, "time to live")
        if not length:
            raise errors.InvalidArgumentError("TtlNotPositive", f"TTL is expected to be positive. Found: {length}.")
        for name, value, kind in (("update", update, TtlUpdate), ("visibility", visibility, TtlVisibility)):
            if not isinstance(value, kind):
                allowed = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
                raise errors.InvalidArgumentError("TtlInvalid", f"TTL {name} is {value!r}; allowed are {allowed}.")
        if cleanup_incrementally is not None and cleanup_incrementally <= 0:
            raise errors.InvalidArgumentError(
                "TtlCleanupInvalid",
                f"Number of incrementally cleaned up state entries should be positive. Found: {cleanup_incrementally}.",
            )
        if cleanup_for_every_record and cleanup_incrementally is None:
            raise errors.InvalidArgumentError(
                "TtlCleanupInvalid",
                "cleanup_for_every_record needs the number of entries to check; pass cleanup_incrementally, too.",
            )
        object.__setattr__(self, "duration", length)
        object.__setattr__(self, "update", update)
        object.__setattr__(self, "visibility", visibility)
        object.__setattr__(self, "cleanup_incrementally", cleanup_incrementally)
        object.__setattr__(self, "cleanup_for_every_record", cleanup_for_every_record)
        object.__setattr__(self, "cleanup_in_background", cleanup_in_background)
        object.__setattr__(self, "cleanup_full_snapshot", cleanup_full_snapshot)

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
