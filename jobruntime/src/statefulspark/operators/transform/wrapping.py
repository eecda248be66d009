"""What `processor` runs per key group: a stateful function of Spark's, as a function of our keyed operator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statefulspark import errors, usercode
from statefulspark import state as keyed_state

if TYPE_CHECKING:
    from statefulspark.operators.transform import handle


@dataclass(frozen=True, slots=True)
class Called:
    """What a processor is given for one key.

    Attributes:
        key: The key as our state has it.
        spark_key: The key as the processor gets it, a tuple.
        items: Rows, or frames.
    """

    key: object
    spark_key: tuple[object, ...]
    items: list[object]


class _UserCode:
    """Says that what its block raises is the user's; a class of its own since it is entered for each key."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin a call."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """End a call.

        Raises:
            UserCodeError: `FunctionFailed`: what the call raised, unless that is an error of ours.
        """
        if isinstance(error, Exception) and not isinstance(error, errors.StatefulSparkError):
            raise usercode.user_code_error(
                error, reason="FunctionFailed", message=usercode.in_one_line(error)
            ) from error


USER_CODE = _UserCode()
"""Stands around one call of the user's code, and the reading of what that returned."""


class WrappedFunction(keyed_state.KeyedProcessFunction):
    """Is given the rows of each key, then fires the timers that are due.

    Attributes:
        parse_schema: Reads a schema that is given as DDL; set on workers, which have no Spark session to ask.
    """

    parse_schema: handle.ParseSchema

    @property
    @abstractmethod
    def name(self) -> str:
        """What the user wrote, as errors name it."""

    @property
    def deleted(self) -> frozenset[str]:
        """States to delete before anything else."""
        return frozenset()

    @property
    def deleted_for_good(self) -> bool:
        """Whether none of them is declared anew."""
        return True

    def initialize(self, ctx: keyed_state.KeyedContext, given: Iterable[Called]) -> None:
        """Hand over initial state, where there can be any."""

    @abstractmethod
    def rows(self, ctx: keyed_state.KeyedContext, given: Iterable[Called]) -> list[object]:
        """Hand over the rows of each key, and return what came out."""

    @abstractmethod
    def fire(self, ctx: keyed_state.KeyedContext) -> list[object]:
        """Fire the timers of the bound key group that are due, and return what came out."""

    @abstractmethod
    def is_overdue(self) -> bool:
        """Tell whether timers of the bound key group are due and wait for the next batch."""
