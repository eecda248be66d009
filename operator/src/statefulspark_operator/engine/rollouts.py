"""Which changes of jobs run, and which wait for their turn: what `lifecycle/rollout.py` decides from, kept up to date.

The operator derives from a job's status what the job means for the others: after each pass, and before the first pass from
the cache. Memory alone holds two things: a change that may begin, until its pass has recorded it, and the order of those
that wait.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.lifecycle import rollout
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import Queued


@dataclass(slots=True)
class Rollouts:
    """The upgrades of all jobs.

    Attributes:
        limit: Number of upgrades that may run at once; None for any number, of any image.
        is_complete: Whether all jobs were noted that existed when this operator began.
    """

    limit: int | None = None
    is_complete: bool = False
    _members: dict[JobKey, rollout.Member] = field(default_factory=dict)
    _waiting: dict[JobKey, Reason] = field(default_factory=dict)
    _tally: rollout.Tally | None = None
    """What all of them come to; None if one of them has changed since it was counted."""

    def missing(self, existing: frozenset[JobKey]) -> frozenset[JobKey]:
        """Return the jobs that have not been noted yet.

        Args:
            existing: All jobs.
        """
        return existing - self._members.keys()

    def ask(self, key: JobKey, image: str, now: datetime) -> Queued | None:
        """Return why the change of a job waits; None lets it begin, and counts it until its next `note`.

        Args:
            key: The job.
            image: The image that it asks for.
            now: UTC.
        """
        if self.limit is None:
            return None
        before = self._members.get(key)
        job = rollout.Member(
            key.namespace, image, stable_with=before.stable_with if before is not None else frozenset()
        )
        self._keep(key, job)
        if self._tally is None:
            self._tally = rollout.tally(
                {f"{other.namespace}/{other.name}": kept for other, kept in self._members.items()}
            )
        queued = rollout.queue(key.name, job, self._tally, limit=self.limit, now=now)
        if queued is None:
            self._keep(key, dataclasses.replace(job, upgrades_since=now))
        return queued

    def note(
        self, key: JobKey, image: str, status: StatefulSparkJobStatus, queued: Queued | None = None
    ) -> tuple[JobKey, ...]:
        """Note what a job has come to, and return those that wait and whose turn it may be now.

        Args:
            key: The job.
            image: The image that its spec has.
            status: Its status.
            queued: Why its change waits; None if it does not.
        """
        before, after = self._members.get(key), rollout.member(key.namespace, image, status)
        self._keep(key, after)
        if queued is None:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = queued.reason
        if before is None:
            return ()
        has_ended = before.upgrades_since is not None and after.upgrades_since is None
        is_news = (before.stable_with, before.failure) != (after.stable_with, after.failure)
        return self._next() if has_ended or is_news else ()

    def forget(self, key: JobKey) -> tuple[JobKey, ...]:
        """Drop a job that does not exist any more, and return those whose turn it may be now."""
        self._waiting.pop(key, None)
        self._tally = None
        return self._next() if self._members.pop(key, None) is not None else ()

    def _keep(self, key: JobKey, job: rollout.Member) -> None:
        if self._members.get(key) != job:
            self._members[key], self._tally = job, None

    def _next(self) -> tuple[JobKey, ...]:
        """Return the first ones that wait, those of the namespaces with the fewest upgrades before the others."""
        running = Counter(key.namespace for key, member in self._members.items() if member.upgrades_since is not None)
        return tuple(sorted(self._waiting, key=lambda key: running[key.namespace])[: self.limit])

    @property
    def running(self) -> int:
        """Number of upgrades that run."""
        return sum(member.upgrades_since is not None for member in tuple(self._members.values()))

    @property
    def waiting(self) -> Counter[str]:
        """Number of jobs whose change waits, by the reason in PascalCase."""
        return Counter(reason.word for reason in tuple(self._waiting.values()))
