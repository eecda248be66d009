"""Compares a query's state with the plan of a changed job: state is kept, moved, added, dropped or refused. Pure.

Operators are matched by uid; Spark's own operators, which have none, by name and order (Flink A.149 to A.151: an id that is
generated from the topology is valid only while the topology is unchanged). Sources are matched by name. Every check that is
possible before Spark runs a batch is made here, so that an incompatible job is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract import lost_state
from statefulspark.contract.manifest import OperatorEntry, QueryEntry, SourceEntry
from statefulspark.evolution import definitions, parallelism, rewrite, sources


@dataclass(frozen=True, slots=True)
class Evolution:
    """The changes of one query's state.

    Attributes:
        query: The restored query.
        planned: The query as it would run.
        operators: New operator id by old one, for operators that are kept.
        added: Operators that start with empty state.
        dropped: Operators whose state is dropped.
        lines: See `rewrite.Rewrite`.
        dropped_sources: Sources whose position is dropped.
        partitions: New number of state partitions; None keeps the present number.
        warnings: Accepted changes that the user should know, a sentence each.
        state_changes: Changes of single states of keyed operators, a sentence each; see `keyed_states`.
        is_begun_anew: Whether the query has committed nothing, and has begun to read other sources.
    """

    query: QueryEntry
    planned: plans.PlannedQuery
    operators: Mapping[int, int]
    added: tuple[plans.PlannedOperator, ...]
    dropped: tuple[OperatorEntry, ...]
    lines: tuple[int | None, ...]
    dropped_sources: tuple[SourceEntry, ...]
    partitions: int | None
    warnings: tuple[str, ...] = ()
    state_changes: tuple[str, ...] = ()
    is_begun_anew: bool = False

    @property
    def rewrite(self) -> rewrite.Rewrite:
        """How the query's files change."""
        identity = rewrite.Rewrite.identity(self.query)
        logs = identity.source_logs if self.keeps_sources else sources.logs(self.query, self.planned, self.lines)
        return rewrite.Rewrite(self.operators, self.lines, logs)

    @property
    def keeps_sources(self) -> bool:
        """Whether every source keeps its line in the offset log."""
        return self.lines == tuple(range(len(self.query.offsets)))

    @property
    def is_empty(self) -> bool:
        """Whether the state can be used unchanged."""
        moved = any(old != new for old, new in self.operators.items())
        is_changed = moved or self.added or self.dropped or self.partitions or self.is_begun_anew
        return not is_changed and self.keeps_sources

    @property
    def lost(self) -> tuple[lost_state.LostState, ...]:
        """The operators and sources that the job no longer has."""
        query = f"of query {self.query.uid!r}"
        return (
            *(lost_state.LostState(part.uid, f"operator {part.uid!r} {query}") for part in self.dropped),
            *(lost_state.LostState(part.name, f"source {part.name!r} {query}") for part in self.dropped_sources),
        )

    @property
    def new_sources(self) -> tuple[str, ...]:
        """Names of the sources that start where their options say."""
        names = self.planned.source_entries
        return tuple(names[index].name for index, line in enumerate(self.lines) if line is None)

    @property
    def empty(self) -> tuple[str, ...]:
        """The operators and sources that start without state, as named in errors."""
        query = f"of query {self.query.uid!r}"
        return (
            *(f"operator {operator.entry_uid!r} {query}" for operator in self.added),
            *(f"source {name!r} {query}" for name in self.new_sources),
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every change as a sentence."""
        uid = f"query {self.query.uid!r}"
        by_id = {operator.operator_id: operator for operator in self.query.operators}
        moved = [by_id[old].uid for old, new in self.operators.items() if old != new]
        sentences = [
            *(f"{uid}: operator {name!r} has another position in the plan" for name in moved),
            *(f"{uid}: operator {operator.entry_uid!r} is new and starts empty" for operator in self.added),
            *(f"{uid}: the state of operator {operator.uid!r} is dropped" for operator in self.dropped),
            *(f"{uid}: the position of source {source.name!r} is dropped" for source in self.dropped_sources),
        ]
        if not self.keeps_sources:
            sentences += [
                f"{uid}: source {name!r} is new and starts where its options say" for name in self.new_sources
            ]
            old_order = [line for line in self.lines if line is not None]
            sentences += [f"{uid}: sources have another order"] if old_order != sorted(old_order) else []
        if self.partitions:
            sentences.append(
                f"{uid}: state is spread over {self.partitions} partitions instead of {plans.partitions_of(self.query)}"
            )
        if self.is_begun_anew:
            sentences.append(
                f"{uid}: its sources have changed before its first commit; its first batch is planned anew, and they start "
                "where their options say"
            )
        return (*sentences, *self.state_changes)


def compare(
    queries: Iterable[QueryEntry],
    planned: Iterable[plans.PlannedQuery],
    *,
    label: str,
    drop_state: Collection[str] = (),
    begun_otherwise: Collection[str] = (),
) -> tuple[Evolution, ...]:
    """Compare the state of a job with its plan; changes nothing.

    Args:
        queries: The restored queries that the job has.
        planned: Every query of the job.
        label: Name of the snapshot in errors.
        drop_state: Uids of state that may be dropped if the job no longer has it.
        begun_otherwise: Uids of queries that have committed nothing, and have begun to read other sources.

    Returns:
        The changes of each restored query, in the order of the job.

    Raises:
        SpecRejectedError: See `evolve`, and `NonRestoredState`.
    """
    restored = {query.uid: query for query in queries}
    plans_of_job = tuple(planned)
    for plan in plans_of_job:
        sources.require_distinct(plan)
        parallelism.require_enough_groups(plan, restored.get(plan.uid))
    evolutions = tuple(
        evolve(restored[plan.uid], plan, is_begun_anew=plan.uid in begun_otherwise)
        for plan in plans_of_job
        if plan.uid in restored
    )
    lost_state.require_permission(
        (part for evolution in evolutions for part in evolution.lost),
        drop_state,
        holds=f"{label} holds state of",
        remedy="Give the job back those uids and source names",
    )
    return evolutions


def evolve(query: QueryEntry, planned: plans.PlannedQuery, *, is_begun_anew: bool = False) -> Evolution:
    """Compare a query's state with its plan.

    Args:
        query: The restored query; a query that has committed nothing fits every plan.
        planned: The query as it would run.
        is_begun_anew: Whether it leaves what Spark has planned for it before its first commit.

    Returns:
        The changes of its state. `compare` decides whether dropped state is allowed.

    Raises:
        SpecRejectedError: `OperatorsAmbiguous`, `KeyChanged`, `ValueChanged`, `OutputModeChanged`, `WindowChanged`,
            `AggregationChanged`, `JoinChanged`, `MaxParallelismChanged`, `MaxParallelismExceeded`, `TimeZoneChanged`,
            `SourcesAmbiguous`; the message names uid, both values and what to do.
    """
    if query.batch_id < 0:
        unmoved = tuple(range(len(query.offsets)))
        return Evolution(query, planned, {}, (), (), unmoved, (), None, is_begun_anew=is_begun_anew)
    pairs = _pairs(query, planned)
    for old, new in pairs:
        _require_same(query, old, new)
    was, now = query.time_zone, planned.time_zone
    if query.operators and was is not None and now is not None and was != now:
        # Another time zone would move the bounds of days and windows in the state; Spark does not notice.
        raise errors.SpecRejectedError(
            "TimeZoneChanged",
            f"The state of query {query.uid!r} was written with spark.sql.session.timeZone={was} and the job sets {now}; "
            f"days, hours and windows in it would not be the same. Set {was} again, or start fresh.",
        )
    matched_ids = {old.operator_id for old, _ in pairs}
    continued = {new.operator_id for _, new in pairs}
    lines = sources.match(query, planned)
    return Evolution(
        query=query,
        planned=planned,
        operators={old.operator_id: new.operator_id for old, new in pairs},
        added=tuple(operator for operator in planned.operators if operator.operator_id not in continued),
        dropped=tuple(operator for operator in query.operators if operator.operator_id not in matched_ids),
        lines=lines,
        dropped_sources=sources.dropped(query, lines),
        partitions=parallelism.changed_partitions(query, planned),
        warnings=tuple(
            sentence
            for old, new in pairs
            for sentence in definitions.warnings(_where(query, old), old.definition, new.definition)
        ),
    )


def require_spreadable(evolutions: Iterable[Evolution]) -> None:
    """Refuse another number of partitions for state that Spark would move to where it is not looked for.

    Spark's repartition (4.2.0) moves a group by the hash of its key. It does so with the one group of all rows, too, which
    its operator looks for in the first partition: it would begin with empty state, and nothing would say so.

    Args:
        evolutions: The changes of queries whose state Spark repartitions; a canonical savepoint is not among them.

    Raises:
        SpecRejectedError: `PartitionsChanged`, naming the operator and both numbers.
    """
    for evolution in evolutions:
        for operator in evolution.query.operators:
            is_kept = operator.operator_id in evolution.operators
            if evolution.partitions is not None and is_kept and plans.has_one_group(operator):
                raise errors.SpecRejectedError(
                    "PartitionsChanged",
                    f"The state of {_where(evolution.query, operator)} is one group of all rows, which cannot be moved with "
                    f"the rest of the state to {parallelism.SHUFFLE_PARTITIONS}={evolution.partitions}. Leave the setting "
                    f"out, or set it to {plans.partitions_of(evolution.query)}. The canonical savepoint of an aggregation "
                    "can be restored with another number.",
                )


def require_state_for_all(evolutions: Iterable[Evolution], planned: Iterable[plans.PlannedQuery], label: str) -> None:
    """Refuse to start a query, an operator or a source without state, as a rollback must: the job has run with all of them.

    A query that has never committed a batch has no state to lose.

    Args:
        evolutions: The changes of each restored query.
        planned: Every query of the job.
        label: Name of the snapshot in errors.

    Raises:
        SpecRejectedError: `StateAbsent`: names what the snapshot has no state of.
    """
    restored = {evolution.query.uid: evolution for evolution in evolutions}
    absent = [f"query {plan.uid!r}" for plan in planned if plan.uid not in restored]
    absent += [name for evolution in restored.values() for name in evolution.empty]
    if absent:
        raise errors.SpecRejectedError(
            "StateAbsent",
            f"{label} holds no state of {', '.join(absent)}. This version of the job ran with that state, and a later "
            "version without it wrote the snapshot. Restore an older snapshot, which has the state, by name.",
        )


def _pairs(query: QueryEntry, planned: plans.PlannedQuery) -> tuple[tuple[OperatorEntry, plans.PlannedOperator], ...]:
    """Return each operator of the snapshot that the plan has too, with the planned operator."""
    by_uid = {operator.uid: operator for operator in planned.operators if operator.uid is not None}
    named = [
        (old, by_uid[old.uid]) for old in query.operators if not plans.has_generated_uid(old) and old.uid in by_uid
    ]
    engines = [old for old in query.operators if plans.has_generated_uid(old)]
    nameless = [new for new in planned.operators if new.uid is None]
    for name in dict.fromkeys(old.name for old in engines):
        olds = [old for old in engines if old.name == name]
        news = [new for new in nameless if new.name == name]
        named += _paired_by_order(query, olds, news)
    return tuple(named)


def _paired_by_order(
    query: QueryEntry, olds: Sequence[OperatorEntry], news: Sequence[plans.PlannedOperator]
) -> list[tuple[OperatorEntry, plans.PlannedOperator]]:
    """Match operators of one kind by their keys if these are distinct, else by order."""
    old_keys, new_keys = [(old.key, old.value) for old in olds], [(new.key, new.value) for new in news]
    tells_apart = None not in [key for key, _ in old_keys] and len({*old_keys}) == len(olds)
    if tells_apart and len({*new_keys}) == len(news) and ({*old_keys} <= {*new_keys} or {*new_keys} <= {*old_keys}):
        by_key = {(new.key, new.value): new for new in news}
        return [(old, by_key[(old.key, old.value)]) for old in olds if (old.key, old.value) in by_key]
    if not news or len(olds) == len(news):
        return list(zip(olds, news, strict=False))
    raise errors.SpecRejectedError(
        "OperatorsAmbiguous",
        f"Query {query.uid!r} had {len(olds)} operators {olds[0].name!r} and has {len(news)} now, and they cannot be "
        f"matched: Spark's own operators have no uid, and their keys are {_keys(old_keys)} and "
        f"{_keys(new_keys)}. Move the new one into a query with a uid of its own, use ss.keyed_process, which has one, or "
        f"start the query empty under another uid, and add {query.uid!r} to restore.dropState.",
    )


def _keys(keys: Sequence[tuple[str | None, str | None]]) -> str:
    return " / ".join(f"({key or 'unknown'})" for key, _ in keys)


def _require_same(query: QueryEntry, old: OperatorEntry, new: plans.PlannedOperator) -> None:
    """Refuse an operator that cannot read its state."""
    where = _where(query, old)
    checks = (
        ("KeyChanged", "a key of type", old.key, new.key),
        ("ValueChanged", "values of type", old.value, new.value),
        ("OutputModeChanged", "the output mode and clock", old.mode, new.mode),
    )
    for reason, what, was, now in checks:
        if was is not None and now is not None and was != now:
            raise errors.SpecRejectedError(
                reason,
                f"The state of {where} was written with {what} ({was}) and the job declares ({now}), with which it cannot "
                "be read. Set it back, restore a canonical savepoint with a conversion, or give the operator another uid "
                f"and add {old.uid!r} to restore.dropState, which starts it empty.",
            )
    definitions.require_same_meaning(where, old.definition, new.definition)
    parallelism.require_same_groups(query.uid, old, new.max_parallelism)


def _where(query: QueryEntry, operator: OperatorEntry) -> str:
    return f"operator {operator.uid!r} of query {query.uid!r}"
