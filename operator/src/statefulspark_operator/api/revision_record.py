"""The history in the status of a `StatefulSparkJob`: which revisions there were, and how each turned out."""

from __future__ import annotations

from enum import StrEnum

from statefulspark.contract.base import UtcDatetime

from statefulspark_operator.api.base import ApiModel


class RevisionOutcome(StrEnum):
    """How a revision turned out."""

    RUNNING = "Running"
    """It is the job's first revision, and has not completed enough checkpoints to be stable."""
    REPLACED = "Replaced"
    """It was the job's first revision, and another one became stable before it did."""
    STABLE = "Stable"
    """It completed enough checkpoints."""
    ROLLED_BACK = "RolledBack"
    """It failed before it was stable, and the revision before it was started again."""
    BLOCKED = "Blocked"
    """Its standby refused or could not start; it never ran."""


class RevisionRecord(ApiModel):
    """One revision in the history."""

    revision: str
    """The revision; its spec is in the ControllerRevision `<job>-<revision>`."""
    image: str
    """Its image."""
    snapshot: str | None = None
    """The savepoint that it started from."""
    outcome: RevisionOutcome
    """How it turned out."""
    at: UtcDatetime
    """When that was observed."""
