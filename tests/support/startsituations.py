"""Builders of what a start has found on storage, and of what it has decided."""

from __future__ import annotations

from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, QueryEntry
from statefulspark.recovery.plan import Situation, StartMode, StartPlan


def a_start_situation(
    restore: RestoreConfig | None = None,
    current: GenerationRecord | None = None,
    *,
    unfinished: bool = False,
    checkpoints: int = 0,
    savepoints: int = 0,
    problem: str | None = None,
) -> Situation:
    """Build what is on storage, nothing unless it is said."""
    asked = restore or RestoreConfig()
    carried_out = current.carried_out if current else ()
    return Situation(asked, current, unfinished, checkpoints, savepoints, "memory://test", problem, carried_out)


def a_start_plan(*queries: QueryEntry, **changes: object) -> StartPlan:
    """Build the plan of a job that goes on in generation 1."""
    return StartPlan(StartMode.CONTINUE, 1, queries=queries, **changes)  # type: ignore[arg-type]
