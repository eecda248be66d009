"""What an operator's state depends on and its types do not show: windows, functions, watermarks, joins. Pure.

Spark compares the types of keys and values with those in the state, and nothing else: a job whose windows have another
length goes on with old and new windows side by side, and one that computes a maximum where it computed a sum of the same
type takes the sums for maxima. What was declared is therefore kept with the operator, aspect by aspect, and compared at the
next start: what would mix two meanings in one state is refused, and what only changes what comes later is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from statefulspark import errors


class Aspect(StrEnum):
    """One thing that was declared; the key in manifests."""

    WINDOW = "window"
    """Length, slide and start of time windows that are part of the key."""
    FUNCTIONS = "functions"
    """Aggregate functions, in order."""
    JOIN_TYPE = "joinType"
    COLUMNS = "columns"
    """Names of the key's columns."""
    GAP = "gap"
    """Of session windows."""
    WATERMARK = "watermark"
    """How late rows may be."""
    CONDITION = "condition"
    """Of a join."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    what: str
    because: str


_REFUSED: Mapping[Aspect, _Refusal] = {
    Aspect.WINDOW: _Refusal(
        "WindowChanged",
        "windows of",
        "windows of both kinds would lie side by side, and none would have all of its rows",
    ),
    Aspect.FUNCTIONS: _Refusal(
        "AggregationChanged", "the functions", "what one has computed would be taken for what another has"
    ),
    Aspect.JOIN_TYPE: _Refusal(
        "JoinChanged", "a join of type", "rows in the state would be given out, or left out, by the other type's rules"
    ),
}
_TOLD: Mapping[Aspect, str] = {
    Aspect.COLUMNS: (
        "is keyed by ({now}) instead of ({was}); if these are other columns and not only other names, its state mixes both"
    ),
    Aspect.GAP: (
        "has a session gap of {now} instead of {was}; sessions that are open keep the end that the old gap gave them"
    ),
    Aspect.WATERMARK: (
        "has the watermark ({now}) instead of ({was}); what was reached stays, and rows dropped as late do not come back"
    ),
    Aspect.CONDITION: (
        "joins where {now} instead of where {was}; rows that left the state under the old condition are not found again"
    ),
}


def require_same_meaning(where: str, was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse an operator whose state would mix two meanings.

    Args:
        where: Names the operator and its query.
        was: What was declared when the state was written, by aspect; what is absent was not known.
        now: What the job declares.

    Raises:
        SpecRejectedError: `WindowChanged`, `AggregationChanged` or `JoinChanged`; the message names both and the way out.
    """
    for aspect in _differing(was, now):
        refusal = _REFUSED.get(aspect)
        if refusal is not None:
            raise errors.SpecRejectedError(
                refusal.reason,
                f"The state of {where} was written with {refusal.what} ({was[aspect]}) and the job declares "
                f"({now[aspect]}): {refusal.because}. Spark would not notice. Set it back, or give the query another uid "
                "and set allowNonRestoredState, which starts it empty.",
            )


def warnings(where: str, was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is worth knowing of a change that does not mix anything, a sentence per aspect."""
    return tuple(
        f"{where} {_TOLD[aspect].format(was=was[aspect], now=now[aspect])}"
        for aspect in _differing(was, now)
        if aspect in _TOLD
    )


def _differing(was: Mapping[str, str], now: Mapping[str, str]) -> Iterable[Aspect]:
    return (aspect for aspect in Aspect if aspect in was and aspect in now and was[aspect] != now[aspect])
