"""The operator's memory of each job between two passes.

When its copies were compared with the API server, and what a pass saw that had nothing to do. Everything here may be lost at
any time; it costs reads. It is never the reason for an action, but for what a driver has said of an operation that ended:
that stays so, and whoever has forgotten it learns it from the pod's end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from statefulspark.contract.api import JobStatus, Operation, OperationState

from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle.decision import STEADY
from statefulspark_operator.lifecycle.situation import DriverSilent, OperationAbsent, Rejection

TRUSTED_FOR = timedelta(minutes=5)
"""How long a watch's copies are used before they are compared with the API server: a watch does not tell everything."""
LONGEST_LOOK = timedelta(seconds=30)
"""The longest time between two looks at a driver whose job has nothing to do."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts of a pass, as far as they can change without one.

    Attributes:
        versions: Identities and versions of the job, its pods and its namespace's savepoint objects.
        driver: The driver's answer, as text: it is kept for as long as it stays the same.
        standby: The standby's answer, as text.
    """

    versions: tuple[tuple[str, str], ...]
    driver: str
    standby: str

    @classmethod
    def of(
        cls,
        versions: Iterable[tuple[str, str]],
        driver: JobStatus | DriverSilent | None,
        standby: JobStatus | DriverSilent | None,
    ) -> Self:
        """Make it of what was looked at, in any order."""
        return cls(tuple(sorted(versions)), _as_text(driver), _as_text(standby))


def _as_text(answer: JobStatus | DriverSilent | None) -> str:
    return answer.to_json() if isinstance(answer, JobStatus) else repr(answer)


@dataclass(frozen=True, slots=True)
class LookedAtCode:
    """What a look at code outside of the image found.

    Attributes:
        asked: What names the code, as text.
        outcome: Its checksum, or why it cannot run.
        at: When.
        is_final: Whether the same look can find nothing else.
        changes: Number of changes that the watch of a ConfigMap had shown before the look; None without an open watch.
    """

    asked: str
    outcome: str | Rejection
    at: datetime
    is_final: bool = False
    changes: int | None = None

    def is_current(self, now: datetime, changes: int | None) -> bool:
        """Tell whether it need not be looked at again.

        Args:
            now: UTC.
            changes: Number of changes that the watch has shown by now; None without an open watch.
        """
        if self.is_final:
            return True
        if changes is not None:
            return changes == self.changes and now - self.at < TRUSTED_FOR
        return now - self.at < LONGEST_LOOK

    @property
    def may_sleep(self) -> bool:
        """Whether somebody tells if another look would find something else."""
        return self.is_final or self.changes is not None


@dataclass(slots=True)
class JobMemory:
    """What is remembered of one job.

    Attributes:
        trusted_until: Until when the watches' copies are used; None before the first pass.
        settled: What a pass saw that had nothing to do, and that would have nothing to do later either.
        settled_until: Until when that holds whatever the time is.
        looks: Number of looks since then that saw the same.
        longest_look: The longest time between two of them while a driver runs.
        revision: The stored spec that was read last, by its name; it never changes.
        tidied: What the job had come to when its unneeded objects were removed last; None before the first time.
        has_failed: Whether the actions of the last pass failed, which its status says.
        code: What was found of the job's code, if it is not in the image.
        ended: The operation whose end a driver has told last.
        is_followed: Whether the last pass was made from what the API server says, and did nothing but record a step, such as
            an end: the one that follows at once may start from the copies, which were compared a moment ago.
        applied: Versions of the objects that were applied last, by the job's identity, kind and name.
    """

    trusted_until: datetime | None = None
    settled: Seen | None = None
    settled_until: datetime | None = None
    looks: int = 0
    longest_look: timedelta = LONGEST_LOOK
    revision: tuple[str, Resource] | None = None
    tidied: tuple[object, ...] | None = None
    has_failed: bool = False
    code: LookedAtCode | None = None
    ended: Operation | None = None
    is_followed: bool = False
    applied: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def trust(self, key: JobKey, now: datetime) -> None:
        """Note that the copies were compared; jobs are spread, so that their next comparisons do not come at once."""
        self.trusted_until = now + TRUSTED_FOR * (0.8 + zlib.crc32(str(key).encode()) % 1000 / 2500)

    def distrust(self) -> None:
        """Have everything read from the API server in the next pass."""
        self.trusted_until = datetime.min.replace(tzinfo=self.trusted_until.tzinfo if self.trusted_until else None)
        self.settled = None

    def hear(self, answer: Operation | OperationAbsent | None) -> None:
        """Keep what a driver says of an operation, if it has ended: a driver that has stopped may say it only once."""
        if isinstance(answer, Operation) and answer.state is not OperationState.IN_PROGRESS:
            self.ended = answer

    def recall(self, request_id: str) -> Operation | None:
        """Return an operation that has ended; None if no driver has said so."""
        return self.ended if self.ended is not None and self.ended.request_id == request_id else None

    def doubt_code(self) -> None:
        """Have code looked at again that may have changed."""
        if self.code is not None and not self.code.is_final:
            self.code = None

    def settle(self, seen: Seen, until: datetime, longest_look: timedelta) -> None:
        """Note what a pass saw that had nothing to do; a pass that sees the same again lets the looks go on as they were."""
        self.looks = self.looks if self.settled == seen else 0
        self.settled, self.settled_until, self.longest_look = seen, until, longest_look

    def unsettle(self) -> None:
        """Note that there is, or will be, something to do."""
        self.settled = None

    def is_settled(self, seen: Seen, now: datetime) -> bool:
        """Tell whether a look sees what the pass saw that had nothing to do."""
        return (
            self.settled is not None
            and self.settled_until is not None
            and now < self.settled_until
            and self.settled == seen
        )

    def next_look(self, now: datetime) -> timedelta:
        """Return the time until the next look at a driver, which grows while nothing changes."""
        wait = min(STEADY * (1 << min(self.looks, 8)), self.longest_look)
        self.looks += 1
        return min(wait, self.settled_until - now) if self.settled_until is not None else wait


@dataclass(slots=True)
class Memories:
    """The memory of every job."""

    _jobs: dict[JobKey, JobMemory] = field(default_factory=dict)

    def of(self, key: JobKey) -> JobMemory:
        """Return the memory of a job."""
        return self._jobs.setdefault(key, JobMemory())

    def forget(self, key: JobKey) -> None:
        """Drop the memory of a job that does not exist any more."""
        self._jobs.pop(key, None)
