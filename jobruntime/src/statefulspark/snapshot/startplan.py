"""Where a driver starts, and who starts it: what `recovery` finds out, and what is carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from statefulspark.contract.manifest import GenerationRecord, Manifest, QueryEntry
from statefulspark.snapshot import base, descent


class StartMode(StrEnum):
    """How a start gets its checkpoint roots."""

    EMPTY = "empty"
    """A new generation without files."""
    CONTINUE = "continue"
    """The generation in use, as it is."""
    COPY = "copy"
    """A new generation, filled with copies of the base's files."""


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Where a driver starts.

    Attributes:
        mode: How it gets there.
        generation: The generation to run in; for EMPTY and COPY a proposal until `carry_out` has reserved one.
        queries: What is restored, by query; with paths inside `generation` once carried out.
        restored_from: `checkpoint 41`, a savepoint's URI, or None for empty state.
        restored: Manifest of what is restored; None for empty state and for a generation's own beginning.
        fallback: Why something older than the newest state is used, None if it is not.
        next_snapshot_id: The number for the next snapshot.
        checkpoint_ids: The job's completed checkpoints, ascending; with the salvaged one, once that is settled.
        salvage: All queries of the generation in use, if they committed batches that no checkpoint covers; `carry_out`
            completes them as a checkpoint.
        restore_id: The latest restore that was asked for, done with this start or before.
        source: Where the base's files are.
        note_restore: The record of the generation in use with this restore noted, if it is done without a copy.
        head: The generation in use as something to copy from, if the start would continue in it.
        unfinished: Generations that a dead driver left half made; `settle` makes sure that they stay so.
        obsolete_notes: Keys of notes on damage that is past.
        claim: The snapshot that the job takes for its own with this start.
        changes: What is changed on the way into a new generation, in sentences.
        descent: Where the state of `generation` comes from; for COPY and EMPTY known once carried out.
    """

    mode: StartMode
    generation: int
    queries: tuple[QueryEntry, ...] = ()
    restored_from: str | None = None
    restored: Manifest | None = None
    fallback: str | None = None
    next_snapshot_id: int = 1
    checkpoint_ids: tuple[int, ...] = ()
    salvage: tuple[QueryEntry, ...] = ()
    restore_id: str | None = None
    source: base.Base | None = None
    note_restore: GenerationRecord | None = None
    head: base.Base | None = None
    unfinished: tuple[int, ...] = ()
    obsolete_notes: tuple[str, ...] = ()
    claim: base.Base | None = None
    changes: tuple[str, ...] = ()
    descent: descent.Descent | None = None

    @property
    def start_batches(self) -> Mapping[str, int]:
        """Last committed batch by query uid; a query that is not named starts empty."""
        return {query.uid: query.batch_id for query in self.queries}


@dataclass(frozen=True, slots=True)
class Author:
    """Who carries a plan out; goes into the manifest of a salvaged checkpoint and the record of a generation."""

    namespace: str
    job: str
    epoch: int
    now: datetime
    revision: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    owner_id: str = "local"
    lineages: descent.Lineages = field(default_factory=descent.Lineages)


def in_new_generation(plan: StartPlan, changes: tuple[str, ...]) -> StartPlan:
    """Return a plan that copies what the start would have continued in, so that it can be changed on the way.

    Args:
        plan: Any; one that copies already, or starts empty, goes on doing that.
        changes: What is changed, in sentences.
    """
    if plan.mode is not StartMode.CONTINUE:
        return replace(plan, changes=changes)
    return replace(
        plan,
        mode=StartMode.COPY,
        generation=plan.generation + 1,
        source=plan.head,
        note_restore=None,
        changes=changes,
    )
