"""Deals state out to another number of subtasks, as Flink does. Pure.

Elements are the finest unit and are never divided; the order of the old subtasks is kept, though user code should not
rely on it (A.33-A.41 of Flink's semantics).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import assert_never

from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, Part


def redistribute(state: OperatorState, parallelism: int) -> OperatorState:
    """Deal an operator's state out to its subtasks.

    With an unchanged parallelism every subtask gets back its own split lists and its own broadcast map; a union is
    always dealt out anew, since every subtask gets all of it.

    Args:
        state: As it was written.
        parallelism: Number of subtasks now, at least 1.
    """
    dealt = {name: NamedState(one.meta, _deal(one, parallelism)) for name, one in state.states.items()}
    return OperatorState(parallelism, dealt)


def split(parts: Sequence[Part], parallelism: int) -> tuple[Part, ...]:
    """Divide the concatenation of all lists evenly: the first `total % parallelism` subtasks get one element more."""
    if len(parts) == parallelism:
        return tuple(parts)
    whole = tuple(chain.from_iterable(parts))
    size, longer = divmod(len(whole), parallelism)
    bounds = [index * size + min(index, longer) for index in range(parallelism + 1)]
    return tuple(whole[start:end] for start, end in pairwise(bounds))


def union(parts: Sequence[Part], parallelism: int) -> tuple[Part, ...]:
    """Give every subtask the concatenation of all lists."""
    return (tuple(chain.from_iterable(parts)),) * parallelism


def broadcast(parts: Sequence[Part], parallelism: int) -> tuple[Part, ...]:
    """Give every subtask a copy: its own where it had one, else one of the others in turn."""
    return tuple(parts[index % len(parts)] for index in range(parallelism)) if parts else ((),) * parallelism


def _deal(state: NamedState, parallelism: int) -> tuple[Part, ...]:
    match state.meta.mode:
        case Mode.SPLIT:
            return split(state.parts, parallelism)
        case Mode.UNION:
            return union(state.parts, parallelism)
        case Mode.BROADCAST:
            return broadcast(state.parts, parallelism)
        case _:
            assert_never(state.meta.mode)
