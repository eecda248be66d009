"""Compares the single states of keyed operators with a changed job. Pure.

The types in manifests are compared with the declared types before anything runs. Key groups are migrated one by one, so a
group that was not used since an earlier change may still hold types that the manifest no longer names; it is compared again
when a batch first reads it, by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from statefulspark import errors
from statefulspark.contract.manifest import KeyedStateEntry
from statefulspark.evolution.comparison import Evolution
from statefulspark.state import evolution, kinds

Declarations = Mapping[str, tuple[evolution.Declaration, ...] | None]
"""Declared states by operator uid; None where they are not known before the first batch."""


def meta_of(entry: KeyedStateEntry) -> kinds.StateMeta:
    """Return the description of a state in chunks."""
    return kinds.StateMeta(entry.name, kinds.named(entry.kind, entry.name), entry.type, entry.has_ttl)


def entry_of(meta: kinds.StateMeta) -> KeyedStateEntry:
    """Return the description of a state in manifests."""
    return KeyedStateEntry(name=meta.name, kind=meta.kind.value, type=meta.type_text, has_ttl=meta.has_ttl)


def compare(change: Evolution, declared: Declarations) -> Evolution:
    """Compare the states of a query's keyed operators with the declarations of the job.

    Args:
        change: The changes of the query.
        declared: The states of the job.

    Returns:
        The same changes, with those of single states.

    Raises:
        SpecRejectedError: `StateTypeIncompatible`, `StateTtlIncompatible`: a state cannot be migrated; the message names
            query, operator, state and both types.
    """
    operators = [operator for operator in change.query.operators if operator.operator_id in change.operators]
    changes: list[str] = []
    warnings: list[str] = []
    for operator in operators:
        if operator.states is None or operator.uid not in declared:
            continue
        where = f"operator {operator.uid!r} of query {change.query.uid!r}"
        states = declared[operator.uid]
        if states is None:
            warnings.append(
                f"{where}: it could not be opened on the driver; its types are compared when the first batch reads them"
            )
            continue
        changes += _changes(operator.states, states, where)
        names = {declaration.meta.name for declaration in states}
        warnings += [
            f"{where}: state {entry.name!r} is no longer declared; what it holds is kept until it is declared again"
            for entry in operator.states
            if entry.name not in names
        ]
    return replace(change, state_changes=tuple(changes), warnings=(*change.warnings, *warnings))


def _changes(
    entries: Iterable[KeyedStateEntry], declared: Iterable[evolution.Declaration], where: str
) -> Iterator[str]:
    stored = {entry.name: meta_of(entry) for entry in entries}
    for declaration in declared:
        name = declaration.meta.name
        if name not in stored:
            yield f"{where}: state {name!r} is new and starts empty"
        if name not in stored or stored[name] == declaration.meta:
            continue
        try:
            resolution = evolution.resolve(stored[name], declaration)
        except errors.SpecRejectedError as error:
            raise errors.SpecRejectedError(error.reason, f"{where}: {error.message}") from error
        if resolution.convert is not None:
            was, now = stored[name].type_text, declaration.meta.type_text
            yield f"{where}: state {name!r} is migrated from {was} to {now}, each key group when it is next used"
        if resolution.ttl_change:
            verb = "gets a time to live" if resolution.ttl_change == "on" else "loses its time to live"
            yield f"{where}: state {name!r} {verb}"
