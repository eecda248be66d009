"""The marker of a sink, stored in the sink's target system: what it has committed, and the driver that opened it last.

A marker is changed in the same transaction as the rows, so that both are committed or neither. It has one position for each
generation of each lineage: the last batch that was committed there. A batch is covered by a commit of its own generation
only. Who opens the sink leaves lineage, epoch and claim in it: a driver that finds another one there has been replaced, or
meets another copy of its state. `standing` compares, this module decides, and `marker_errors` refuses. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Self

from statefulspark import errors
from statefulspark.contract import base, formats
from statefulspark.contract.manifest import Position
from statefulspark.sinks import marker_errors, standing
from statefulspark.sinks.standing import SinkLineage, Standing

if TYPE_CHECKING:
    from statefulspark.sinks.base import SinkContext

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


Judge = Callable[[Marker | None, "SinkContext", str], Marker]
"""Returns the marker that a driver may go on with in front of a target, or raises: `open_marker`, `require_newest`."""


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
        if relation is Standing.MARKER_MISSING and not own.rights.issuperset(standing.FOR_UNKNOWN_ROWS):
            raise marker_errors.missing_error(context, where, withdraws=withdraws)
        return _begun_after(expected.committed, context)
    stored = _beyond(stored.known_to(context), context)
    if relation is Standing.EQUAL or (withdraws and relation in (Standing.STATE_BEHIND, Standing.WENT_BACK_ON_PURPOSE)):
        return stored.opened_by(context)
    if relation is Standing.WENT_BACK_ON_PURPOSE:
        return _going_on(stored, context).opened_by(context)
    if relation is Standing.SINK_BEHIND_HEALABLE:
        raise marker_errors.behind_error(stored, context, where, withdraws=withdraws)
    if relation is Standing.REPLACED:
        raise marker_errors.replaced_error(stored, context, where)
    if not own.rights.issuperset(standing.needed_rights(relation, stored, context, withdraws=withdraws)):
        raise marker_errors.refusal(relation, stored, context, where, withdraws=withdraws)
    if relation in (Standing.FOREIGN, Standing.OTHER_COPY):
        return _begun_after(standing.beginning_beside_others(stored, context, withdraws=withdraws), context)
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
        raise marker_errors.missing_error(context, where, is_running=True)
    if reached.lineage != context.descent.lineage:
        raise marker_errors.SinkTakenOverError(
            f"The job at {reached.root or 'another root'} has taken {where} over, so the one at "
            f"{context.descent.root or 'this root'} must not write there any more."
        )
    if reached.epoch > context.committing_epoch or standing.opener(reached, context) is not Standing.EQUAL:
        raise marker_errors.replaced_error(reached, context, where)
    if standing.has_another(reached, context):
        raise marker_errors.opened_elsewhere_error(reached, context, where, withdraws=False, is_running=True)
    reached = reached.known_to(context)
    if standing.lacks(reached, context.expected.committed, context):
        raise marker_errors.behind_error(reached, context, where, is_running=True)
    return reached


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
