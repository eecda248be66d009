"""The stateful operators and sources in the plan of a query, in the engine's order. Pure.

Spark's files identify an operator only by its folder and a source only by its line in the offset log. So the plan is
written into every manifest and every generation's record, and compared with the new plan at the next start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from statefulspark.contract.manifest import KeyedStateEntry, OperatorEntry, QueryEntry, SourceEntry


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """A stateful operator of a plan.

    Attributes:
        operator_id: Its position in the plan, which is its folder below `state/`.
        name: Spark's name for it.
        uid: The uid that the user gave; None for Spark's own operators.
        max_parallelism: Number of key groups; None for Spark's own operators.
        key: Types of the key's columns; None if they are not known.
        value: Types of the value's columns; None if they are not known.
        mode: Output mode if the state depends on it, with the time mode if it has timers: `update, ProcessingTime`.
        definition: Other properties on which the state depends; see `definitions`.
        states: The states that a keyed operator of this runtime declares; None if they are not known.
    """

    operator_id: int
    name: str
    uid: str | None = None
    max_parallelism: int | None = None
    key: str | None = None
    value: str | None = None
    mode: str | None = None
    definition: Mapping[str, str] = field(default_factory=dict, hash=False)
    states: tuple[KeyedStateEntry, ...] | None = None

    @property
    def entry_uid(self) -> str:
        """The uid under which manifests name it."""
        return self.uid or engine_uid(self.name, self.operator_id)


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source of a plan.

    Attributes:
        description: What it reads, from its format and options.
        given_name: The name that the user gave, or None.
        relation: Number of the relation in the plan, from 0; a stream that is used twice is one relation on two lines.
    """

    description: str
    given_name: str | None = None
    relation: int = 0


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query as it would run.

    Attributes:
        uid: Its uid.
        operators: Its stateful operators by id ascending.
        sources: Its sources in the order of the offset log.
        time_zone: Time zone of the session.
        partitions: The requested number of state partitions; None keeps the number of the state.
    """

    uid: str
    operators: tuple[PlannedOperator, ...] = ()
    sources: tuple[PlannedSource, ...] = ()
    time_zone: str | None = None
    partitions: int | None = None

    @property
    def source_entries(self) -> tuple[SourceEntry, ...]:
        """The sources as manifests name them."""
        return named(self.sources)


def engine_uid(name: str, operator_id: int) -> str:
    """Return the generated uid of an operator without a uid from the user."""
    return f"{name}-{operator_id}"


def has_generated_uid(operator: OperatorEntry) -> bool:
    """Tell whether the uid of a snapshot's operator is generated."""
    return operator.uid == engine_uid(operator.name, operator.operator_id)


def named(sources: Iterable[PlannedSource]) -> tuple[SourceEntry, ...]:
    """Give every relation a unique name: the given one or the description, with a number from the second on."""
    names: dict[int, str] = {}
    counts: dict[str, int] = {}
    entries = []
    for source in sources:
        name = source.given_name or source.description
        if source.relation not in names:
            counts[name] = counts.get(name, 0) + 1
            names[source.relation] = name if counts[name] == 1 else f"{name}#{counts[name]}"
        entries.append(SourceEntry(name=names[source.relation], description=source.description, log=source.relation))
    return tuple(entries)


def annotate(entry: QueryEntry, planned: PlannedQuery | None) -> QueryEntry:
    """Add the plan to the entry of a query.

    Args:
        entry: The query's closure, written by the job that has this plan.
        planned: The plan; None leaves the entry as it is.
    """
    if planned is None:
        return entry
    by_id = {operator.operator_id: operator for operator in planned.operators}
    sources = planned.source_entries
    return entry.model_copy(
        update={
            "operators": tuple(_annotated(operator, by_id.get(operator.operator_id)) for operator in entry.operators),
            "sources": sources if len(sources) == len(entry.offsets) else (),
            "time_zone": planned.time_zone,
        }
    )


def declared(planned: PlannedQuery, path: str) -> QueryEntry:
    """Describe a query that has not committed anything yet."""
    operators = tuple(
        OperatorEntry(
            uid=operator.entry_uid,
            operator_id=operator.operator_id,
            name=operator.name,
            partitions=0,
            max_parallelism=operator.max_parallelism,
            key=operator.key,
            value=operator.value,
            mode=operator.mode,
            definition=dict(operator.definition),
            states=operator.states,
        )
        for operator in planned.operators
    )
    return QueryEntry(
        uid=planned.uid,
        batch_id=-1,
        path=path,
        operators=operators,
        sources=planned.source_entries,
        time_zone=planned.time_zone,
    )


def has_one_group(operator: OperatorEntry) -> bool:
    """Tell whether all rows are one group of an operator; Spark keeps it in the first partition, whatever their number."""
    return operator.key == "" or operator.name == "globalLimit"


def partitions_of(query: QueryEntry) -> int:
    """Return over how many partitions a query's state is spread, 0 if none of it is."""
    return max((operator.partitions for operator in query.operators if not has_one_group(operator)), default=0)


def key_groups(restored: Iterable[QueryEntry]) -> dict[str, int | None]:
    """Return the number of key groups in restored state of keyed operators of this runtime, by uid; None if unknown."""
    return {
        operator.uid: operator.max_parallelism
        for query in restored
        if query.batch_id >= 0
        for operator in query.operators
        if not has_generated_uid(operator)
    }


def inherit(entries: Iterable[QueryEntry], previous: Iterable[QueryEntry]) -> tuple[QueryEntry, ...]:
    """Copy what only a driver knows from an earlier manifest of the generation to closures that were made without one."""
    by_uid = {entry.uid: entry for entry in previous}
    inherited = []
    for entry in entries:
        before = by_uid.get(entry.uid)
        if before is None:
            inherited.append(entry)
            continue
        operators = {operator.uid: operator for operator in before.operators}
        fits = len(before.sources) == len(entry.offsets) or not entry.offsets
        update = {
            "operators": tuple(_annotated(operator, operators.get(operator.uid)) for operator in entry.operators),
            "sources": before.sources if fits else (),
            "time_zone": before.time_zone,
            "sinks": before.sinks,
        }
        inherited.append(entry.model_copy(update=update))
    return tuple(inherited)


def _annotated(operator: OperatorEntry, description: PlannedOperator | OperatorEntry | None) -> OperatorEntry:
    if description is None:
        return operator
    return operator.model_copy(
        update={
            "max_parallelism": description.max_parallelism,
            "key": description.key,
            "value": description.value,
            "mode": description.mode,
            "definition": dict(description.definition),
            "states": description.states,
        }
    )
