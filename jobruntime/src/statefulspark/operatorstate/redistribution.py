"""Redistributes state to another number of subtasks, as Flink does. Pure.

Elements are never divided; the order of the old subtasks is kept, but user code should not rely on it (A.33-A.41 of
Flink's semantics).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import assert_never

from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, Part


def redistribute(state: OperatorState, parallelism: int) -> OperatorState:
    """Redistribute an operator's state to its subtasks.

    With an unchanged parallelism every subtask gets its own split lists and its own broadcast map; a union is always
    redistributed, because every subtask gets all of it.

    Args:
        state: The stored state.
        parallelism: New number of subtasks, at least 1.
    """
    assigned = {}
    for name, named_state in state.states.items():
        match named_state.meta.mode:
            case Mode.SPLIT:
                parts = split(named_state.parts, parallelism)
            case Mode.UNION:
                parts = union(named_state.parts, parallelism)
            case Mode.BROADCAST:
                parts = broadcast(named_state.parts, parallelism)
            case _:
                assert_never(named_state.meta.mode)
        assigned[name] = NamedState(named_state.meta, parts)
    return OperatorState(parallelism, assigned)


def split(parts: Sequence[Part], parallelism: int) -> tuple[Part, ...]:
    """Divide the concatenation of all lists evenly: the first `total % parallelism` subtasks get one element more."""
    if len(parts) == parallelism:
        return tuple(parts)
    elements = tuple(chain.from_iterable(parts))
    size, remainder = divmod(len(elements), parallelism)
    bounds = [index * size + min(index, remainder) for index in range(parallelism + 1)]
    return tuple(elements[start:end] for start, end in pairwise(bounds))


def union(parts: Sequence[Part], parallelism: int) -> tuple[Part, ...]:
    """Assign the concatenation of all lists to every subtask."""
    return (tuple(chain.from_iterable(parts)),) * parallelism


def broadcast(parts: Sequence[Part], parallelism: int) -> tuple[Part, ...]:
    """Assign a copy to every subtask: its own if it had one, else one of the others in turn."""
    return tuple(parts[index % len(parts)] for index in range(parallelism)) if parts else ((),) * parallelism
