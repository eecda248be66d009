"""The keyed scope: the current key, shared by all handles of an operator.

Outside a key the scope's key is `NO_KEY`, and every access to state is rejected with Flink's message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from statefulspark import errors
from statefulspark.state.memory import numbers


class NoKey:
    """The key outside `process`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY: Final = NoKey()


class KindLabel(Protocol):
    """What messages say of a kind of state."""

    @property
    def value(self) -> str:
        """Its stored name."""


class StateLabel(Protocol):
    """What messages say of a state; its stored metadata has it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> KindLabel:
        """Its kind."""


ToObjects = Callable[[numbers.ArrowColumn], list[object]]


class Scope:
    """Current key and times, shared by all handles of an operator.

    Attributes:
        key: The current key, or NO_KEY.
        now_ms: Processing time of the batch, milliseconds since 1970 in UTC.
        watermark_ms: Watermark of the batch in milliseconds since 1970.
        to_objects: Converts a column to Python values while a whole key group is processed and no single key; otherwise
            None.
    """

    __slots__ = ("key", "now_ms", "to_objects", "watermark_ms")

    def __init__(self) -> None:
        self.to_objects: ToObjects | None = None
        self.key: object = NO_KEY
        self.now_ms = 0
        self.watermark_ms = -(2**63)

    def require_key(self, state: StateLabel) -> object:
        """Return the current key.

        Raises:
            SpecRejectedError: There is none.
        """
        if self.key is NO_KEY:
            raise errors.SpecRejectedError(
                "KeyedStateOutsideKey",
                f"Keyed state '{state.name}' with type {state.kind.value} can only be used on a 'keyed stream', i.e., "
                "after a 'keyBy()' operation. There is no current key here: use the state inside process(), not in "
                "open() or close().",
            )
        return self.key

    def require_group(self, state: StateLabel) -> ToObjects:
        """Return the function that converts columns of the current key group to Python values.

        Raises:
            SpecRejectedError: There is none.
        """
        if self.to_objects is None:
            raise errors.SpecRejectedError(
                "KeyedStateOutsideTable",
                f"The state '{state.name}' of many keys can only be used inside process_table() of a "
                "VectorizedProcessFunction.",
            )
        return self.to_objects
