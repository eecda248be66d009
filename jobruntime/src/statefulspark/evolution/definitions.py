"""Properties of an operator on which its state depends besides types: windows, functions, watermarks, joins. Pure.

Spark compares only the types of keys and values with the state: a job with another window length would continue with old
and new windows side by side, and a job that computes a maximum instead of a sum of the same type would use the sums as
maxima. So the declared aspects are stored with the operator and compared at the next start: a change that would mix two
meanings in one state is refused, and a change that affects only later data is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from statefulspark import errors


class Aspect(StrEnum):
    """A declared property; its value is the key in manifests."""

    WINDOW = "window"
    """Length, slide and start of time windows that are part of the key."""
    FUNCTIONS = "functions"
    """Aggregate functions, in order."""
    JOIN_TYPE = "joinType"
    COLUMNS = "columns"
    """Names of the key's columns."""
    GAP = "gap"
    """Gap of session windows."""
    WATERMARK = "watermark"
    """Allowed lateness of rows."""
    CONDITION = "condition"
    """Condition of a join."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    what: str
    because: str


_REFUSED: Mapping[Aspect, _Refusal] = {
    Aspect.WINDOW: _Refusal(
        "WindowChanged",
        "windows of",
        "windows of both kinds would exist side by side, and none would contain all of its rows",
    ),
    Aspect.FUNCTIONS: _Refusal(
        "AggregationChanged", "the functions", "results of the old functions would be used as results of the new ones"
    ),
    Aspect.JOIN_TYPE: _Refusal(
        "JoinChanged", "a join of type", "rows in the state would be emitted or dropped by the rules of the other type"
    ),
}
_WARNINGS: Mapping[Aspect, str] = {
    Aspect.COLUMNS: (
        "is keyed by ({now}) instead of ({was}); unless the columns were only renamed, its state mixes both keys"
    ),
    Aspect.GAP: ("has a session gap of {now} instead of {was}; open sessions keep the end of the old gap"),
    Aspect.WATERMARK: (
        "has the watermark ({now}) instead of ({was}); the reached watermark stays, and late rows stay dropped"
    ),
    Aspect.CONDITION: (
        "joins where {now} instead of where {was}; rows that the old condition removed from the state stay removed"
    ),
}


def require_same_meaning(where: str, was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse an operator whose state would mix two meanings.

    Args:
        where: Name of the operator and its query.
        was: The values when the state was written, by aspect; unknown aspects are absent.
        now: The values that the job declares.

    Raises:
        SpecRejectedError: `WindowChanged`, `AggregationChanged` or `JoinChanged`; it names both values and what to do.
    """
    for aspect in _differing(was, now):
        refusal = _REFUSED.get(aspect)
        if refusal is not None:
            raise errors.SpecRejectedError(
                refusal.reason,
                f"The state of {where} was written with {refusal.what} ({was[aspect]}) and the job declares "
                f"({now[aspect]}): {refusal.because}. Spark would not notice. Set it back, or give the query another uid "
                "and add the old one to restore.dropState, which starts it empty.",
            )


def warnings(where: str, was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the warnings about changes that do not mix two meanings, a sentence per aspect."""
    return tuple(
        f"{where} {_WARNINGS[aspect].format(was=was[aspect], now=now[aspect])}"
        for aspect in _differing(was, now)
        if aspect in _WARNINGS
    )


def _differing(was: Mapping[str, str], now: Mapping[str, str]) -> Iterable[Aspect]:
    return (aspect for aspect in Aspect if aspect in was and aspect in now and was[aspect] != now[aspect])
