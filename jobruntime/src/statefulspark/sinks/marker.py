"""The marker of a sink, stored in the sink's target system: what it has committed, and the driver that opened it last.

A marker is changed in the same transaction as the rows, so that both are committed or neither. It has one position for each
generation of each lineage: the last batch that was committed there. A batch is covered by a commit of its own generation
only. Who opens the sink leaves lineage, epoch and claim in it: a driver that finds another one there has been replaced, or
meets another copy of its state. `standing` compares; this module refuses by name, and is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, ClassVar, Self

from statefulspark import errors
from statefulspark.contract import base, formats, layout, rights
from statefulspark.contract.manifest import Position
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import standing
from statefulspark.sinks.standing import SinkLineage, Standing

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext

FOR_UNKNOWN_ROWS: tuple[SinkRight, ...] = (SinkRight.REPEAT, SinkRight.LOSE)
"""The rights to go on in front of a sink if it is unknown which rows are there."""
REMEMBERED = 24
"""How many generations a marker remembers, the latest ones: Kafka's brokers take 4,096 bytes."""


class Marker(base.StoredDocument):
    """What a sink has committed, and the driver that opened it last."""

    FORMAT: ClassVar = formats.MARKER
    format_version: int = formats.MARKER.writes
    lineage: str
    """Lineage that opened the sink last."""
    root: str = ""
    """URI of its root, for people."""
    epoch: int
    """Epoch of the driver that opened it."""
    claim: str
    """The claim of that epoch, as in its record on storage."""
    origin: str
    """Lineage in which the sink began: what ancestors of that lineage had prepared belongs to another sink."""
    committed: tuple[Position, ...] = ()
    """The last batch of each generation, by the time of the commit, the newest last."""
    lost_at: base.UtcDatetime | None = None
    """Time at which a lost marker was detected; see `sinks.kafka.sink`."""

    @classmethod
    def beginning(cls, context: SinkContext) -> Self:
        """Return the marker of a new sink, with nothing committed."""
        own = context.descent
        begun = cls(
            lineage=own.lineage,
            root=own.root,
            epoch=context.committing_epoch,
            claim=context.claim,
            origin=own.lineage,
        )
        return begun if context.expected.elsewhere is None else begun.counting(context.expected.elsewhere)

    @property
    def newest(self) -> Position | None:
        """The last committed batch; None if nothing was committed."""
        return self.committed[-1] if self.committed else None

    def has(self, position: Position, descent: SinkLineage) -> bool:
        """Tell whether a batch has been committed, or belongs to the sink of an ancestor."""
        reached = next((last for last in self.committed if _generation(last) == _generation(position)), None)
        if reached is not None and position.batch_id <= reached.batch_id:
            return True
        began, batch = descent.order(_beginning(self.origin)), descent.order(position)
        return began is not None and batch is not None and batch[0] < began[0]

    def known_to(self, context: SinkContext) -> Self:
        """Return the marker with the older of two origins: its own, and the one that the context's state knows.

        If its own is later, the target was put back to before the sink, and another beginning of the job has made the sink
        anew. So it lacks what the ancestors of that beginning had committed, and is sent what they had prepared.
        """
        origin, order = context.expected.origin, context.descent.order
        if origin is None:
            return self
        own, of_state = order(_beginning(self.origin)), order(_beginning(origin))
        is_later = own is not None and of_state is not None and own > of_state
        return self.model_copy(update={"origin": origin}) if is_later else self

    def covers(self, context: SinkContext) -> bool:
        """Tell whether the context's batch needs no commit.

        Raises:
            StateUnknownError: `SinkHistoryForgotten`: its generation is so old that the marker may have forgotten it.
        """
        if self.known_to(context).has(context.position, context.descent):
            return True
        generations = {_generation(last) for last in self.committed}
        own = (context.descent.lineage, context.descent.generation)
        if len(generations) >= REMEMBERED and _generation(context.position) not in {*generations, own}:
            raise errors.StateUnknownError(
                "SinkHistoryForgotten",
                f"The sink {context.uid!r} remembers {REMEMBERED} generations, and generation {context.generation} of batch "
                f"{context.batch_id} is none of them, so it is unknown whether it was committed. Start from newer state.",
            )
        return False

    def opened_by(self, context: SinkContext) -> Self:
        """Return the marker after the context's driver has opened the sink, with the same positions."""
        own = context.descent
        opener = {"epoch": context.committing_epoch, "claim": context.claim}
        return self.model_copy(update={"lineage": own.lineage, "root": own.root, **opener})

    def counting(self, position: Position) -> Self:
        """Return the marker that has a generation up to a batch and no further."""
        others = tuple(last for last in self.committed if _generation(last) != _generation(position))
        return self.model_copy(update={"committed": (*others, position)[-REMEMBERED:]})

    def after(self, context: SinkContext) -> Self:
        """Return the marker after the commit of the context's batch."""
        return self.counting(context.position).opened_by(context)


def right(context: SinkContext, *needed: SinkRight) -> str:
    """Return rights to go on in front of a sink all the same, as a person gives them."""
    sinks = [layout.sink_name(context.query_uid, context.uid)]
    return rights.described(dict.fromkeys(needed, sinks))


Judge = Callable[[Marker | None, "SinkContext", str], Marker]
"""Returns the marker that a driver may go on with in front of a target, or raises: `open_marker`, `require_newest`."""


class SinkTakenOverError(errors.FencedError):
    """A job at another root has opened the sink, by right: its state descends from this one, or somebody said so."""


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
        """Create it; see `_behind_error`."""
        super().__init__(reason, message)
        self.marker = marker
        self.loss = loss
        self.is_healable = is_healable


def is_healed(error: errors.StatefulSparkError) -> bool:
    """Tell whether the driver mends what an error says: it commits again what the sink lacks."""
    return isinstance(error, SinkBehindError) and error.is_healable


def open_marker(stored: Marker | None, context: SinkContext, where: str, *, withdraws: bool = False) -> Marker:
    """Return the marker for a driver that opens a sink, or reject the start.

    Args:
        stored: The marker in the sink; None if the sink was never opened.
        context: Context of the driver; its batch is the one after which the job continues.
        where: The sink's target, for the error.
        withdraws: Whether the sink withdraws commits after the restored snapshot.

    Raises:
        FencedError: A newer driver of this root has opened the sink.
        SpecRejectedError: `SinkAhead`: it has output after the restored snapshot, which would be repeated. `SinkTaken`: it
            has output of state that this start does not descend from. `SinkOpenedElsewhere`: a driver that storage does not
            know has opened it.
        StateUnknownError: `SinkMarkerMissing`.
        SinkBehindError: `SinkBehind`: it lacks batches; the caller commits them again, if it can.
    """
    if stored is not None and stored == stored.opened_by(context):
        return stored  # The request comes twice, and the driver may have committed since.
    stored = context.continues or stored
    relation = standing.compare(stored, context)
    expected, own = context.expected, context.descent
    if stored is None:
        if relation is Standing.MARKER_MISSING and not own.rights.issuperset(FOR_UNKNOWN_ROWS):
            raise missing_error(context, where, withdraws=withdraws)
        return _begun_after(expected.committed, context)
    stored = _beyond(stored.known_to(context), context)
    if relation is Standing.EQUAL or (withdraws and relation in (Standing.STATE_BEHIND, Standing.WENT_BACK_ON_PURPOSE)):
        return stored.opened_by(context)
    if relation is Standing.WENT_BACK_ON_PURPOSE:
        return _going_on(stored, context).opened_by(context)
    if relation is Standing.SINK_BEHIND_HEALABLE:
        raise _behind_error(stored, context, where, withdraws=withdraws)
    if relation is Standing.REPLACED:
        raise _replaced_error(stored, context, where)
    if not own.rights.issuperset(_needed(relation, stored, context, withdraws=withdraws)):
        raise _refusal(relation, stored, context, where, withdraws=withdraws)
    if relation in (Standing.FOREIGN, Standing.OTHER_COPY):
        return _begun_after(_beginning_beside_others(stored, context, withdraws=withdraws), context)
    if expected.kept_after is not None and standing.lacks(stored, expected.kept_after, context):
        stored = stored.counting(expected.kept_after)
    return (_going_on(stored, context) if standing.is_ahead(stored, context) else stored).opened_by(context)


def require_newest(reached: Marker | None, context: SinkContext, where: str) -> Marker:
    """Check before a commit that a sink is as the driver left it, or further.

    Args:
        reached: The marker; None if there is none.
        context: Context of the driver that commits, with what it knows to be committed.
        where: The sink's target, for the error.

    Returns:
        The marker.

    Raises:
        SinkTakenOverError: A job at another root has opened the sink.
        FencedError: Another driver of this lineage has. Whether it is a newer one, storage tells. A sink that has forgotten
            this driver, and names an older one, costs a GET.
        SpecRejectedError: `SinkOpenedElsewhere`: it has gone back to another life of this root.
        StateUnknownError: `SinkMarkerMissing`.
        SinkBehindError: `SinkBehind`: the sink lacks batches that were committed to it.
    """
    if reached is None:
        raise missing_error(context, where, is_running=True)
    if reached.lineage != context.descent.lineage:
        raise SinkTakenOverError(
            f"The job at {reached.root or 'another root'} has taken {where} over, so the one at "
            f"{context.descent.root or 'this root'} must not write there any more."
        )
    if reached.epoch > context.committing_epoch or standing.opener(reached, context) is not Standing.EQUAL:
        raise _replaced_error(reached, context, where)
    if standing.has_another(reached, context):
        raise opened_elsewhere_error(reached, context, where, withdraws=False, is_running=True)
    reached = reached.known_to(context)
    if standing.lacks(reached, context.expected.committed, context):
        raise _behind_error(reached, context, where, is_running=True)
    return reached


def _needed(relation: Standing, stored: Marker, context: SinkContext, *, withdraws: bool) -> tuple[SinkRight, ...]:
    """Return the rights to go on in front of a sink all the same."""
    if relation in (Standing.FOREIGN, Standing.OTHER_COPY):
        after = _beginning_beside_others(stored, context, withdraws=withdraws)
        return FOR_UNKNOWN_ROWS if standing.lacks(stored, after, context) else (SinkRight.REPEAT,)
    repeated = (SinkRight.REPEAT,) if standing.would_repeat(stored, context) and not withdraws else ()
    return (*repeated, SinkRight.LOSE) if relation is Standing.SINK_BEHIND else repeated


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
    after, needed, has = context.expected.committed, FOR_UNKNOWN_ROWS, ""
    if stored is not None:
        after = _beginning_beside_others(stored, context, withdraws=withdraws)
        needed = _needed(Standing.OTHER_COPY, stored, context, withdraws=withdraws)
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
        + _by_right(context, where, committed, FOR_UNKNOWN_ROWS, withdraws=withdraws, is_running=is_running),
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


def _behind_error(
    reached: Marker, context: SinkContext, where: str, *, withdraws: bool = False, is_running: bool = False
) -> SinkBehindError:
    """Return the error for a sink that has lost what it had; see `missing_error`. Rows of one that withdraws wait in it."""
    expected, newest = context.expected, reached.newest
    needed = _needed(Standing.SINK_BEHIND, reached, context, withdraws=withdraws)
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


def described(position: Position | None) -> str:
    """Return a batch for people."""
    if position is None:
        return "nothing"
    batch = "nothing" if position.batch_id < 0 else f"batch {position.batch_id}"
    return f"{batch} (generation {position.generation})"


def _replaced_error(stored: Marker, context: SinkContext, where: str) -> errors.FencedError:
    return errors.FencedError(
        f"Epoch {stored.epoch} writes to {where} now. Epoch {context.committing_epoch} must not write there any more."
    )


def _refusal(
    relation: Standing, stored: Marker, context: SinkContext, where: str, *, withdraws: bool
) -> errors.StatefulSparkError:
    """Return the error of a start that nobody has told to go on anyway."""
    if relation is Standing.OTHER_COPY:
        return opened_elsewhere_error(stored, context, where, withdraws=withdraws)
    if relation is Standing.SINK_BEHIND:
        return _behind_error(stored, context, where, withdraws=withdraws)
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
    after = _beginning_beside_others(stored, context, withdraws=withdraws)
    needed = _needed(relation, stored, context, withdraws=withdraws)
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


def _beginning_beside_others(stored: Marker, context: SinkContext, *, withdraws: bool) -> Position | None:
    """Return the batch after which a sink goes on that has other rows under the numbers of the state's batches.

    What the state had committed there is there, unless the marker lacks it or the others have withdrawn it. Whatever else
    the state has prepared is committed, perhaps once more.
    """
    expected = context.expected
    is_there = not withdraws and not standing.lacks(stored, expected.committed, context)
    return expected.committed if is_there else expected.kept_after


def _begun_after(position: Position | None, context: SinkContext) -> Marker:
    """Return the marker of a sink that begins after a batch of the state, or with all that the state has for it."""
    own, begun = context.descent, Marker.beginning(context)
    if not context.expected.was_opened:
        return begun
    if position is None:
        return begun.model_copy(update={"origin": own.cuts[0].lineage if own.cuts else own.lineage})
    return begun.model_copy(update={"committed": _ends_up_to(position, context), "origin": position.lineage})


def _ends_up_to(position: Position, context: SinkContext) -> tuple[Position, ...]:
    """Return the last batch of each generation that the state descends from, up to a batch of it, the newest last.

    Nothing tells where each older generation of another root ends. The state has what it committed in them up to the batch.
    """
    own, kept_after, ends = context.descent, context.expected.kept_after, list[Position]()
    if kept_after is not None and _generation(kept_after) != _generation(position):
        ends.append(kept_after)
        is_of_ancestor = kept_after.lineage == position.lineage != own.lineage
        between = range(kept_after.generation, position.generation) if is_of_ancestor else ()
        ends += [position.model_copy(update={"generation": generation}) for generation in between]
    before = own.order(position)
    for cut in own.cuts:
        order = own.order(cut)
        if before is not None and order is not None and order[:2] < before[:2]:
            ends.append(cut)
    if position.lineage == own.lineage:
        ends += [last for last in reversed(own.line) if last.generation < position.generation]
    return tuple({_generation(end): end for end in (*ends, position)}.values())[-REMEMBERED:]


def _beyond(stored: Marker, context: SinkContext) -> Marker:
    """Return the marker of a sink that comes back to a target, after what it has committed to another one since."""
    elsewhere = context.expected.elsewhere
    if elsewhere is None or stored.has(elsewhere, context.descent):
        return stored
    others = tuple(last for last in stored.committed if _generation(last) != _generation(elsewhere))
    is_newest = others == stored.committed[:-1]
    committed = (*others, elsewhere) if is_newest else (elsewhere, *others)
    return stored.model_copy(update={"committed": committed[-REMEMBERED:]})


def _going_on(stored: Marker, context: SinkContext) -> Marker:
    """Return the marker of a sink that goes on in the driver's generation after what is on another branch.

    It has of this generation what it had, up to the restored batch: the sink may be older than the restore that made the
    generation, and lack what was committed since.
    """
    own = context.position
    had = max((last.batch_id for last in stored.committed if _generation(last) == _generation(own)), default=-1)
    return stored.counting(own.model_copy(update={"batch_id": min(had, own.batch_id)}))


def _generation(position: Position) -> tuple[str, int]:
    return position.lineage, position.generation


def _beginning(lineage: str) -> Position:
    return Position(lineage=lineage, generation=0, batch_id=0)
