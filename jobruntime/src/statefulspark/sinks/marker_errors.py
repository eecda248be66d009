"""How a sink refuses a driver: each error says what is in the target, what the state knows, and how a person goes on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.contract import layout, rights
from statefulspark.contract.manifest import Position
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import standing
from statefulspark.sinks.standing import Standing

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext
    from statefulspark.sinks.marker import Marker


class SinkTakenOverError(errors.FencedError):
    """A job at another root has opened the sink, by right: its state descends from this one, or a person gave the right."""


class SinkBehindError(errors.StateUnknownError):
    """A sink lacks batches that it had committed; nothing was written.

    The driver commits them again if it has their transactions; else it ends with this error.

    Operator action: bring back the rows that the sink has lost, or accept the loss as the message says.

    Attributes:
        marker: What the sink has.
        loss: What it lacks, as a sentence.
        is_healable: Whether the driver has the transactions of all batches that it lacks.
    """

    def __init__(self, reason: str, message: str, *, marker: Marker, loss: str, is_healable: bool) -> None:
        """Create it; see `behind_error`."""
        super().__init__(reason, message)
        self.marker = marker
        self.loss = loss
        self.is_healable = is_healable


def is_healed(error: errors.StatefulSparkError) -> bool:
    """Tell whether the driver mends what an error says: it commits again what the sink lacks."""
    return isinstance(error, SinkBehindError) and error.is_healable


def refusal(
    relation: Standing, stored: Marker, context: SinkContext, where: str, *, withdraws: bool
) -> errors.StatefulSparkError:
    """Return the error of a start that lacks a right which it needs to go on."""
    if relation is Standing.OTHER_COPY:
        return opened_elsewhere_error(stored, context, where, withdraws=withdraws)
    if relation is Standing.SINK_BEHIND:
        return behind_error(stored, context, where, withdraws=withdraws)
    own, lineage, its_root = context.descent, stored.lineage, stored.root or "an unknown root"
    if relation is not Standing.FOREIGN:
        newest = stored.newest
        since = f"after batch {context.batch_id}" if context.batch_id >= 0 else "from the beginning"
        of_whom = "" if newest is None or newest.lineage == own.lineage else f" of the job at {its_root}"
        return errors.SpecRejectedError(
            "SinkAhead",
            f"The sink {context.uid!r} cannot go on: {where} has {described(newest)}{of_whom}, which the restored "
            f"state does not contain. The job would continue {since}, and write the rows in between again, perhaps others. "
            f"Start from the newest state; or remove those rows and start with {right(context, SinkRight.REPEAT)}, which "
            "keeps what is there and writes after it; or give the sink its own uid or target.",
        )
    root = own.root or "this root"
    after = standing.beginning_beside_others(stored, context, withdraws=withdraws)
    needed = standing.needed_rights(relation, stored, context, withdraws=withdraws)
    if stored.root == root:
        origin = f"the state that was at {root} before (lineage {lineage}; it was deleted, or replaced)"
        remedy = (
            "Restore that state, or start from a savepoint of it by restore.source (on the command line --restore-uri)"
        )
    else:
        origin = f"the state at {its_root} (lineage {lineage}), from which the state at {root} does not descend"
        remedy = "Start from that state by restore.source (on the command line --restore-uri)"
    return errors.SpecRejectedError(
        "SinkTaken",
        f"The sink {context.uid!r} cannot start: {where} has output of {origin}. {remedy}; or give the sink "
        f"its own uid or target. {_by_right(context, where, after, needed, withdraws=withdraws, is_running=False)}",
    )


def opened_elsewhere_error(
    stored: Marker | None, context: SinkContext, where: str, *, withdraws: bool, is_running: bool = False
) -> errors.SpecRejectedError:
    """Return the error for a sink that was opened by a driver which storage does not know.

    Args:
        stored: The marker; None if the sink does not tell it.
        context: Context of the driver.
        where: The sink's target.
        withdraws: Whether the sink withdraws commits.
        is_running: Whether the driver has opened the sink before. The next start may know less of it.
    """
    after, needed, has = context.expected.committed, standing.FOR_UNKNOWN_ROWS, ""
    if stored is not None:
        after = standing.beginning_beside_others(stored, context, withdraws=withdraws)
        needed = standing.needed_rights(Standing.OTHER_COPY, stored, context, withdraws=withdraws)
        # A folder that lacks batches is said to have those of the state.
        of_whom = "" if withdraws and SinkRight.LOSE in needed else " of the other driver"
        has = f", which has {described(stored.newest)}{of_whom}"
    root = context.descent.root or "this root"
    opener = "another driver" if stored is None else f"epoch {stored.epoch} of this state (claim {stored.claim})"
    what = f"{where} was opened by {opener}, which {root} does not know"
    if stored is not None and standing.has_another(stored, context):
        what = f"{where} was opened by {opener}, and has other batches than {root}, which a later epoch wrote there"
    if stored is not None and stored == stored.opened_by(context):
        # A start that had the right was not finished. The next one opens the sink, and is refused only by this commit.
        what, is_running = (
            f"{where} has a newer generation of batch {context.batch_id}, which {root} does not know",
            False,
        )
    return errors.SpecRejectedError(
        "SinkOpenedElsewhere",
        f"The sink {context.uid!r} cannot go on: {what}; this driver is epoch {context.committing_epoch}. Either the "
        "state was put back to an older moment, or another copy of it runs elsewhere. Stop the other copy, and start from "
        f"the newest state. {_by_right(context, where, after, needed, withdraws=withdraws, is_running=is_running, has=has)}",
    )


def missing_error(
    context: SinkContext, where: str, *, withdraws: bool = False, is_running: bool = False
) -> errors.StateUnknownError:
    """Return the error for a sink that had a marker and has none.

    Args:
        context: Context of the driver.
        where: The sink's target.
        withdraws: Whether the sink withdraws commits: the rows that it has not published wait in it.
        is_running: Whether the driver has opened the sink before. The next start may know less of it.
    """
    committed = context.expected.committed
    had = "been opened" if committed is None else f"committed {described(committed)}"
    return errors.StateUnknownError(
        "SinkMarkerMissing",
        f"The sink {context.uid!r} has no marker in {where}, although it had {had}. So it is unknown which rows are there. "
        f"Restore {where} together with the marker {context.transactional_id!r}, both of one moment: beside an older "
        "marker, rows are written again. "
        + _by_right(context, where, committed, standing.FOR_UNKNOWN_ROWS, withdraws=withdraws, is_running=is_running),
    )


def behind_error(
    reached: Marker, context: SinkContext, where: str, *, withdraws: bool = False, is_running: bool = False
) -> SinkBehindError:
    """Return the error for a sink that has lost what it had; see `missing_error`. Rows of one that withdraws wait in it."""
    expected, newest = context.expected, reached.newest
    needed = standing.needed_rights(Standing.SINK_BEHIND, reached, context, withdraws=withdraws)
    gone = f"after {described(newest)} up to {described(expected.kept_after)}"
    if standing.is_ahead(reached, context):
        gone = (
            f"up to {described(expected.kept_after)} that are missing there: {described(newest)} is not in this state"
        )
    if withdraws:
        gone += _lost_files(where)
    if is_running:
        gone = "of all batches in between; if it is started again, the refusal names those that it has not"
    loss = (
        f"The sink {context.uid!r} has lost what it had: {where} has {described(newest)}, and this state knows "
        f"that it had {described(expected.committed)}. It was restored from a backup, or a replica that lags has taken its "
        "place."
    )
    return SinkBehindError(
        "SinkBehind",
        f"{loss} The job no longer has the rows {gone}. Restore them from a newer copy of the target; or start from a "
        f"snapshot that is as old as the target; or start with {right(context, *needed)}, which goes on without them, and "
        "writes what comes after them.",
        marker=reached,
        loss=loss,
        is_healable=not standing.lacks(reached, expected.kept_after, context),
    )


def replaced_error(stored: Marker, context: SinkContext, where: str) -> errors.FencedError:
    """Return the error for a driver whose successor has opened the sink."""
    return errors.FencedError(
        f"Epoch {stored.epoch} writes to {where} now. Epoch {context.committing_epoch} must not write there any more."
    )


def _by_right(
    context: SinkContext,
    where: str,
    after: Position | None,
    needed: Collection[SinkRight],
    *,
    withdraws: bool,
    is_running: bool,
    has: str = "",
) -> str:
    """Return how to go on by rights of the sink, and which rows then come again or are missing."""
    if is_running:
        return "Or start again: the refusal then names the right, and the batch after which the sink goes on with it."
    rest = f" Rows up to there are in {where}{has}: they do not come again." if after is not None else ""
    if SinkRight.LOSE in needed:
        lost = _lost_files(where) if withdraws else ""
        rest = f" Rows up to there do not come again, also those that are missing in {where}{has}{lost}."
    return (
        f"Or start with {right(context, *needed)} to go on from this state: the sink then writes what this state has after "
        f"{described(after)}, also the rows of it that are there already.{rest}"
    )


def _lost_files(where: str) -> str:
    """Return which more rows a sink does not get again, if the rows that wait for a checkpoint wait in it."""
    return f", nor those of later batches whose files are not in {where}"


def right(context: SinkContext, *needed: SinkRight) -> str:
    """Return rights to go on in front of a sink all the same, as a person gives them."""
    sinks = [layout.sink_name(context.query_uid, context.uid)]
    return rights.described(dict.fromkeys(needed, sinks))


def described(position: Position | None) -> str:
    """Return a batch for people."""
    if position is None:
        return "nothing"
    batch = "nothing" if position.batch_id < 0 else f"batch {position.batch_id}"
    return f"{batch} (generation {position.generation})"
