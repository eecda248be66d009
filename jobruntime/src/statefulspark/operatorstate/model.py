"""The model of operator state: named states, each with one part per subtask.

Data classes only. `redistribution` redistributes parts, `record` has their stored form.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from dataclasses import dataclass

ANY_TYPE = "any"
"""The type text of a state, or a part of a type, without declared type; it is compatible with every type."""
Part = tuple[object, ...]
"""The elements of a state in one subtask, in order; for a broadcast state its entries as (key, value)."""


class Mode(enum.Enum):
    """How a state is redistributed to subtasks; the names are Flink's."""

    SPLIT = "SPLIT_DISTRIBUTE"
    """The lists of all subtasks are concatenated and divided evenly."""
    UNION = "UNION"
    """Every subtask gets the complete list."""
    BROADCAST = "BROADCAST"
    """Every subtask has the same map."""


@dataclass(frozen=True, slots=True)
class OperatorStateMeta:
    """The metadata of a state.

    Attributes:
        name: Unique within the operator.
        mode: Its redistribution mode.
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

    meta: OperatorStateMeta
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

    def subtask_states(self, index: int) -> dict[str, SubtaskState]:
        """Return the states of one subtask by name, as copies: functions change elements in place."""
        return {
            name: SubtaskState(state.meta, copy.deepcopy(state.parts[index])) for name, state in self.states.items()
        }


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """One subtask's part of a state."""

    meta: OperatorStateMeta
    part: Part
