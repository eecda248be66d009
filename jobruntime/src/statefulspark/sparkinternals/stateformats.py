"""Forms of state that an older release of Spark does not know, and what a release reads that has not written the state.

Spark pins the form of a query's state by settings, in the metadata of each entry of its offset log. A release ignores a
pinned setting that it does not know, and takes the state for one in the older form: it would read other values than were
written, or fail in the first batch. So a start compares what is pinned with the installed release. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from statefulspark.sparkinternals import releases

_KEYS_IN_ORDER = 4
"""As many names of columns keep their order in a small set of Scala."""


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """A stateful operator as a snapshot describes it.

    Attributes:
        uid: Its uid, for people.
        name: Spark's name of it.
        key: Types of its key's columns, separated by commas; None if they are not known.
        is_own: Whether it is one of this library, whose state has no lists of Spark's.
    """

    uid: str
    name: str
    key: str | None
    is_own: bool


@dataclass(frozen=True, slots=True)
class StateFormat:
    """A form of state that began with a release.

    Attributes:
        setting: Spark's setting, which the offset log pins.
        since: The first release that knows it.
        ticket: Spark's ticket.
        older: The values that mean the form which older releases read; the first is what they write.
        what: What has another form, for people.
        concerns: Whether an operator's state has that form.
        is_rewritten: Whether Spark's offline rewriter, which restores canonical savepoints and changes the number of
            partitions, writes this form as a query reads it.
    """

    setting: str
    since: releases.Release
    ticket: str
    older: tuple[str, ...]
    what: str
    concerns: Callable[[StoredOperator], bool]
    is_rewritten: bool = True


def _has_lists(operator: StoredOperator) -> bool:
    return operator.name.startswith("transformWithState") and not operator.is_own


def _has_many_keys(operator: StoredOperator) -> bool:
    return operator.name.startswith("dedupe") and (operator.key is None or operator.key.count(",") >= _KEYS_IN_ORDER)


def _joins(operator: StoredOperator) -> bool:
    return operator.name == "symmetricHashJoin"


FORMATS: Final = (
    StateFormat(
        "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion",
        (4, 2),
        "SPARK-55131",
        ("1",),
        "list elements without a comma between them",
        _has_lists,
    ),
    StateFormat(
        "spark.sql.streaming.join.stateFormatVersion",
        (4, 3),
        "SPARK-55144",
        ("2", "1", "3"),
        "the rows of a join by their times",
        _joins,
        is_rewritten=False,
    ),
    StateFormat(
        "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
        (4, 3),
        "SPARK-57489",
        ("false",),
        "the columns of a key in the order in which they were named",
        _has_many_keys,
    ),
)
"""Forms that differ; the values of `older` that a new query gets are in `readable_settings`."""


def readable_settings() -> dict[str, str]:
    """Return the settings by which a new query's state has forms that every supported release reads."""
    return {form.setting: form.older[0] for form in FORMATS}


def unreadable(
    pinned: Mapping[str, str], operators: Iterable[StoredOperator]
) -> Iterator[tuple[StateFormat, StoredOperator]]:
    """Yield each form of an operator's state that the installed release takes for another one.

    Args:
        pinned: Spark's settings in an entry of the offset log.
        operators: The operators of the query.
    """
    for form, operator in _newer(pinned, operators):
        if releases.installed() < form.since:
            yield form, operator


def rewritten_wrongly(
    pinned: Mapping[str, str], operators: Iterable[StoredOperator]
) -> Iterator[tuple[StateFormat, StoredOperator]]:
    """Yield each form of an operator's state that Spark's offline rewriter writes so that no query reads it.

    Args:
        pinned: Spark's settings in an entry of the offset log.
        operators: The operators of the query.
    """
    for form, operator in _newer(pinned, operators):
        if not form.is_rewritten:
            yield form, operator


def _newer(
    pinned: Mapping[str, str], operators: Iterable[StoredOperator]
) -> Iterator[tuple[StateFormat, StoredOperator]]:
    """Yield each form of an operator's state that the oldest supported release does not know."""
    newer = [form for form in FORMATS if pinned.get(form.setting, form.older[0]) not in form.older]
    for operator in operators:
        yield from ((form, operator) for form in newer if form.concerns(operator))
