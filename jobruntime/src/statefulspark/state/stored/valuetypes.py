"""Checks that values have the declared type of their state, when they are written, one column at a time.

Only the outermost type is checked, at the speed of C, so that the job that writes a wrong value fails, and not the job
that restores it. Integers are of any size; a float state also accepts integers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import cast

from statefulspark import errors
from statefulspark.state.handles.kindtypes import StateMeta
from statefulspark.state.memory import tables
from statefulspark.state.types import codec, typetext

_ALLOWED: dict[str, frozenset[str]] = {
    "integer": frozenset({"int"}),
    "float": frozenset({"float", "int"}),
    "string": frozenset({"str"}),
    "binary": frozenset({"bytes"}),
    "boolean": frozenset({"bool"}),
    "date": frozenset({"datetime.date"}),
    "timestamp": frozenset({"datetime.datetime"}),
    "time": frozenset({"datetime.time"}),
    "interval": frozenset({"datetime.timedelta"}),
    "decimal": frozenset({"decimal.Decimal"}),
    "uuid": frozenset({"uuid.UUID"}),
    "array": frozenset({"list"}),
    "map": frozenset({"dict"}),
    "struct": frozenset({"dict"}),
    "record": frozenset({"tuple"}),
    "enum": frozenset({"str"}),
}


@functools.lru_cache(maxsize=1024)
def _allowed(type_text: str) -> frozenset[str] | None:
    """Return names of the Python types that a type accepts, None for all storable types."""
    return _ALLOWED.get(typetext.parse(type_text).family)


@functools.lru_cache(maxsize=1024)
def _element(type_text: str, container: str) -> str:
    kind = typetext.parse(type_text)
    return kind.arguments[-1].text if kind.family == container and kind.arguments else typetext.ANY


def check(state: StateMeta, changes: tables.Changes) -> None:
    """Reject values that do not have the declared type.

    Args:
        state: The declared state.
        changes: The changes to write.

    Raises:
        SpecRejectedError: A value has another type; the message names the state and both types.
    """
    shape = state.kind.shape
    declared_type = _element(state.type_text, shape.container) if shape.container else state.type_text
    allowed = _allowed(declared_type)
    if allowed is not None:
        cells = shape.cells(changes)
        _check_cells(state.name, declared_type, allowed, _unwrapped(cells) if state.has_ttl else cells)


def _unwrapped(cells: Iterable[object]) -> Iterable[object]:
    return (cell if cell is tables.DELETED else cast("tuple[object, int]", cell)[0] for cell in cells)


def _check_cells(name: str, declared_type: str, allowed: frozenset[str], values: Iterable[object]) -> None:
    for kind in set(map(type, values)):
        if kind in (type(None), tables.Deleted) or codec.type_name(kind) in allowed:
            continue
        raise errors.SpecRejectedError(
            "StateValueTypeUnsupported",
            f"State '{name}' was given a value of type {codec.type_name(kind)}, and is declared as {declared_type}. Convert "
            "the value, or declare another type; without a type, the state accepts every value that can be stored.",
        )
