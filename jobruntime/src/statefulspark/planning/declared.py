"""The parts of an operator's declaration that its types do not show, read from Spark's physical plan (Spark 4.2).

In a physical plan a time window is arithmetic: start and end of a window are computed from the event time, with length,
slide and start as numbers. They are read from these expressions, because no other part of the plan contains them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from statefulspark.evolution.definitions import Aspect

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_AGGREGATES = frozenset({"HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec", "MergingSessionsExec"})
_PROJECTIONS = frozenset({"ProjectExec", "ExpandExec"})
_IDS = re.compile(r"#\d+L?(-T\d+ms)?")
_LENGTH = re.compile(r"END\) - \d+\) \+ (\d+)")
_SLIDE = re.compile(r"\) % (\d+)\)")
_START = re.compile(r"LongType\) - (\d+)\) %")
_GAP = re.compile(r"precisetimestampconversion\(\w+ \+ (?P<gap>.+?), TimestampType, LongType\)")
_US_PER_S = 1_000_000


def describe_aggregation(node: JavaObject, keys: JavaObject) -> dict[str, str]:
    """Return the declaration of an aggregation: functions, names of the key's columns, window or gap, watermark."""
    child = node.child()
    definition: dict[str, str] = {}
    if _kind(child) in _AGGREGATES:
        functions = (expression.aggregateFunction().prettyName() for expression in _each(child.aggregateExpressions()))
        definition[Aspect.FUNCTIONS] = ", ".join(str(name) for name in functions)
    metadata = {str(key.name()): str(key.metadata().json()) for key in _each(keys)}
    if any('"spark.timeWindow":true' in text for text in metadata.values()):
        definition |= _first(node, window_text, Aspect.WINDOW)
    if _kind(node).startswith("SessionWindow"):
        definition |= _first(node, gap_text, Aspect.GAP)
    return _without_empty(definition | describe_keys(node, keys))


def describe_keys(node: JavaObject, keys: JavaObject) -> dict[str, str]:
    """Return the declaration that all operators with a key have: the names of the key's columns, and the watermark.

    Spark calls a column that is computed for the key `_groupingexpression`; the computation itself is not known here.
    """
    names = ", ".join(str(key.name()) for key in _each(keys))
    return _without_empty({Aspect.COLUMNS: names, Aspect.WATERMARK: _watermark(node)})


def describe_join(node: JavaObject) -> dict[str, str]:
    """Return the declaration of a join: its type, columns, condition and watermarks."""
    sides = zip(_each(node.leftKeys()), _each(node.rightKeys()), strict=True)
    condition = node.condition().full()
    return _without_empty(
        {
            Aspect.JOIN_TYPE: str(node.joinType().toString()),
            Aspect.COLUMNS: ", ".join(f"{left.sql()} = {right.sql()}" for left, right in sides),
            Aspect.CONDITION: str(condition.get().sql()) if condition.isDefined() else "nothing else",
            Aspect.WATERMARK: _watermark(node),
        }
    )


def window_text(expressions: str) -> str | None:
    """Return the windows that a plan's expressions compute, for example `600 s every 180 s from 60 s`, or None."""
    length, slide, start = (pattern.search(expressions) for pattern in (_LENGTH, _SLIDE, _START))
    if length is None or slide is None:
        return None
    text = _seconds(length[1])
    if slide[1] != length[1]:
        text += f" every {_seconds(slide[1])}"
    return text + (f" from {_seconds(start[1])}" if start is not None and start[1] != "0" else "")


def gap_text(expressions: str) -> str | None:
    """Return the gap of the session windows that a plan's expressions compute, for example `7 minutes`, or None."""
    bare = _IDS.sub("", expressions)
    match = _GAP.search(bare)
    return match["gap"] if match is not None and "session_window" in bare else None


def _first(node: JavaObject, read: Callable[[str], str | None], aspect: Aspect) -> dict[str, str]:
    """Return the aspect as the closest descendant states it."""
    for descendant in _descendants(node):
        text = read(str(descendant.expressions().toString())) if _kind(descendant) in _PROJECTIONS else None
        if text is not None:
            return {aspect: text}
    return {}


def _watermark(node: JavaObject) -> str:
    marks = {
        f"{descendant.eventTime().name()} {descendant.delay().toString()}"
        for descendant in _descendants(node)
        if _kind(descendant) == "EventTimeWatermarkExec"
    }
    return ", ".join(sorted(marks))


def _descendants(node: JavaObject) -> Iterator[JavaObject]:
    for child in _each(node.children()):
        yield child
        yield from _descendants(child)


def _each(seq: JavaObject) -> Iterator[JavaObject]:
    return (seq.apply(index) for index in range(seq.size()))


def _kind(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())


def _without_empty(definition: dict[str, str]) -> dict[str, str]:
    return {str(aspect): text for aspect, text in definition.items() if text}


def _seconds(microseconds: str) -> str:
    return f"{int(microseconds) / _US_PER_S:g} s"
