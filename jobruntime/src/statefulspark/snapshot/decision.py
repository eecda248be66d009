"""Where a driver starts: the decision, without any I/O.

Never empty because something failed: empty state needs proof that there is none, or somebody's explicit word. A restore
that was asked for happens once: the generation it made remembers it, and so do the generations that follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord
from statefulspark.snapshot import generations

CHECKPOINT_PREFIX = "checkpoint:"


class Intent(StrEnum):
    """What the start does, before it is known which snapshot verifies."""

    EMPTY = "empty"
    """Start with empty state in a new generation."""
    RESTORE = "restore"
    """Restore the snapshot that was asked for."""
    RECOVER = "recover"
    """Go on from the newest state there is."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What storage holds and what somebody asked for.

    Attributes:
        restore: What was asked for.
        current: The generation in use, None before the first.
        unfinished_generation: True if files of a generation without a record exist.
        checkpoints: Number of completed checkpoints.
        savepoints: Number of completed savepoints in the job's own root.
        uri: Names the root in errors.
        record_problem: Why the record of the generation in use cannot be read, None if it can.
        traces: What tells that the job has had state here, where there is no generation; see `beginnings`.
    """

    restore: RestoreConfig
    current: GenerationRecord | None
    unfinished_generation: bool
    checkpoints: int
    savepoints: int
    uri: str
    record_problem: str | None = None
    traces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to start from, in the order of preference.

    Attributes:
        checkpoint_id: A checkpoint; None stands for the generation's own beginning, or for `savepoint`.
        generation: Generation of the checkpoint or of the beginning.
        savepoint: URI of the savepoint that the oldest ancestor was made from.
    """

    checkpoint_id: int | None
    generation: int
    savepoint: str | None = None


def decide(situation: Situation) -> Intent:
    """Decide what the start does.

    Raises:
        StateUnknownError: `StateWithoutCheckpoint`: there is state, and none of it is known to be complete.
            `StateMissing`: there was state, and none is left.
            `RestoreUnknown`: it cannot be told whether the restore that is asked for has been done.
    """
    asked = situation.restore.once_key
    if asked is not None and situation.record_problem is not None:
        raise errors.StateUnknownError(
            "RestoreUnknown",
            f"{situation.record_problem} It says whether the restore {asked!r} was done, so it cannot be told what to do. "
            "Ask for no restore to go on from the newest checkpoint.",
        )
    done = situation.current.restore_id if situation.current else None
    if asked is not None and not situation.restore.is_done(done):
        return Intent.EMPTY if situation.restore.fresh else Intent.RESTORE
    if situation.current is not None:
        return Intent.RECOVER
    leftovers = _leftovers(situation)
    if leftovers:
        raise errors.StateUnknownError(
            "StateWithoutCheckpoint",
            f"{situation.uri} holds {leftovers} and no usable generation, so it cannot be told what the job's state is. "
            "Restore from a snapshot by name, or ask for a fresh start.",
        )
    if situation.traces:
        raise errors.StateUnknownError(
            "StateMissing",
            f"{situation.uri} has held state, as {situation.traces[0]} tells, and neither {layout.GENERATIONS}/ nor "
            f"{layout.CHECKPOINTS}/ holds any of it now. Put them back, restore a savepoint by name, or ask for empty state "
            "with restore.freshState (on the command line --fresh).",
        )
    return Intent.EMPTY


def skipped_restore(wish: RestoreConfig, *, restored_from: str | None) -> str:
    """Say that a restore is not done because it was done before, and how to ask for it again.

    Args:
        wish: What is asked for.
        restored_from: What the job goes on from instead.
    """
    what = "The start with empty state" if wish.fresh else f"The restore of {wish.snapshot}"
    name = f", under the name {wish.id!r}" if wish.id is not None else ""
    state = restored_from or "the beginning of its generation"
    return (
        f"{what} was done before{name}, and a restart does not repeat it: the job goes on from {state}. To do it once more, "
        "add --again, or give the wish a new name: --restore-id, or restore.id in a configuration file."
    )


def candidates(known: generations.Generations, checkpoints: Mapping[int, int]) -> tuple[Candidate, ...]:
    """Order what a recovery may start from: along the line of ancestors of the generation in use, newest first.

    Checkpoints that were left behind by an earlier restore are not on that line and are never returned.

    Args:
        known: The generations.
        checkpoints: Generation of each completed checkpoint, by its id.
    """
    found: list[Candidate] = []
    record, highest = known.current, max(checkpoints, default=0)
    while record is not None:
        own = [number for number, where in checkpoints.items() if where == record.generation and number <= highest]
        found += [Candidate(number, record.generation) for number in sorted(own, reverse=True)]
        found.append(Candidate(None, record.generation))
        source = record.source or ""
        if record.parent_generation is None:
            found += [Candidate(None, record.generation, source)] if source else []
            break
        highest = int(source.removeprefix(CHECKPOINT_PREFIX)) if source.startswith(CHECKPOINT_PREFIX) else highest
        parent = known.record(record.parent_generation)
        if parent is None:
            found += _of_vanished_parent(record, checkpoints, highest)
        record = parent
    return tuple(found)


def _of_vanished_parent(record: GenerationRecord, checkpoints: Mapping[int, int], highest: int) -> list[Candidate]:
    own = [number for number, where in checkpoints.items() if where == record.parent_generation and number <= highest]
    return [Candidate(number, record.parent_generation or 0) for number in sorted(own, reverse=True)]


def _leftovers(situation: Situation) -> str:
    found = [
        f"{situation.checkpoints} checkpoints" if situation.checkpoints else "",
        f"{situation.savepoints} savepoints" if situation.savepoints else "",
        "files of an unfinished generation" if situation.unfinished_generation else "",
    ]
    return ", ".join(word for word in found if word)
