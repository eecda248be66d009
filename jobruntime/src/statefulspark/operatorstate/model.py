"""What an operator's state is: named states, each with one part per subtask.

Values only. How parts are dealt out is in `redistribution`, how they are written down in `record`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

ANY_TYPE = "any"
"""Written for a state, or a part of its type, that was declared without one; it fits every type."""
Part = tuple[object, ...]
"""The elements that one subtask holds of a state, in order; of a broadcast state its entries as (key, value)."""


class Mode(enum.Enum):
    """How a state is dealt out to subtasks; the names are Flink's."""

    SPLIT = "SPLIT_DISTRIBUTE"
    """The lists of all subtasks make one list, which is divided evenly."""
    UNION = "UNION"
    """Every subtask gets the complete list."""
    BROADCAST = "BROADCAST"
    """Every subtask holds the same map."""


@dataclass(frozen=True, slots=True)
class StateMeta:
    """What is known of a state beside its elements.

    Attributes:
        name: Unique within the operator.
        mode: How it is dealt out.
        type_text: Declared type, as `descriptors` write it.
    """

    name: str
    mode: Mode
    type_text: str = f"array<{ANY_TYPE}>"


@dataclass(frozen=True, slots=True)
class NamedState:
    """One state of an operator.

    Attributes:
        meta: Name, mode and type.
        parts: One per subtask, in the order of their indexes.
    """

    meta: StateMeta
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class OperatorState:
    """All states of one operator, of all its subtasks.

    Attributes:
        parallelism: Number of subtasks.
        states: By name, each with `parallelism` parts.
    """

    parallelism: int
    states: Mapping[str, NamedState]

    def of_subtask(self, index: int) -> dict[str, SubtaskState]:
        """Return what one subtask holds, by name of the state."""
        return {name: SubtaskState(state.meta, state.parts[index]) for name, state in self.states.items()}


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """One subtask's part of a state."""

    meta: StateMeta
    part: Part
