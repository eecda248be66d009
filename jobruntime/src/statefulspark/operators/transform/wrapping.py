"""Base class for stateful functions of Spark that run as functions of our keyed operator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from statefulspark import errors, usercode
from statefulspark import state as keyed_state
from statefulspark.state import functions

if TYPE_CHECKING:
    from statefulspark.operators.transform import handle


class KeyedInput(NamedTuple):
    """The input of a processor for one key; a tuple for speed, because there is one for each key.

    Attributes:
        key: The state key.
        spark_key: The key for the processor, a tuple.
        items: Rows, or frames.
    """

    key: object
    spark_key: tuple[object, ...]
    items: list[object]


class _UserCode:
    """Marks errors of its block as errors of user code; a class for speed, because it is entered for each key."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Start a call."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """End a call.

        Raises:
            UserCodeError: `FunctionFailed`: for any exception except a StatefulSparkError.
        """
        if isinstance(error, Exception) and not isinstance(error, errors.StatefulSparkError):
            raise usercode.user_code_error(
                error, reason="FunctionFailed", message=usercode.format_error(error)
            ) from error


USER_CODE = _UserCode()
"""Wraps one call of user code, including the iteration over its result."""


class WrappedFunction(keyed_state.KeyedProcessFunction):
    """Processes the rows of each key, then fires due timers.

    Attributes:
        parse_schema: Parses a DDL schema; set on workers, which have no Spark session for this.
        kept: Returns what is kept of a yielded Row or frame, which user code may change after that; set on workers.
    """

    parse_schema: handle.ParseSchema
    kept: Callable[[object], object]

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the user's function or processor in errors."""

    @property
    def deleted(self) -> frozenset[str]:
        """States to delete before anything else."""
        return frozenset()

    @property
    def is_deletion_final(self) -> bool:
        """Whether none of them is declared again."""
        return True

    def initialize(self, ctx: functions.BatchContext, given: Iterable[KeyedInput]) -> None:
        """Pass initial state to the processor, if supported."""

    @abstractmethod
    def rows(self, ctx: functions.BatchContext, given: Iterable[KeyedInput]) -> list[object]:
        """Pass the rows of each key to the user code, and return the output."""

    @abstractmethod
    def fire(self, ctx: functions.BatchContext) -> list[object]:
        """Fire the due timers of the bound key group, and return the output."""
