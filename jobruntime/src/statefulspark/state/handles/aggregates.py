"""The function of an aggregating state, over accumulators, as Flink's `AggregateFunction`."""

from __future__ import annotations

from typing import Protocol, TypeVar

Acc = TypeVar("Acc")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class AggregateFunction(Protocol[In_contra, Acc, Out_co]):
    """Aggregation of an aggregating state: `create`, then `add` for each value, `result` on a read."""

    def create(self) -> Acc:
        """Return an empty accumulator."""

    def add(self, accumulator: Acc, value: In_contra) -> Acc:
        """Return the accumulator with the value added."""

    def result(self, accumulator: Acc) -> Out_co:
        """Return the result of an accumulator."""
