"""The types of a key's columns, which determine its hash: an `int` and an equal `bigint` are in different groups. Pure."""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Iterator, Sequence
from typing import cast

from statefulspark import errors
from statefulspark.state import keygroups

_CANDIDATES: dict[type, tuple[str, ...]] = {
    str: ("string",),
    bytes: ("binary",),
    bool: ("boolean",),
    int: ("bigint", "int"),
    datetime.date: ("date",),
    datetime.datetime: ("timestamp",),
    type(None): ("string",),
}
SAMPLE = 200
"""Number of keys that are compared with their groups: enough to distinguish types, and fast."""


def parse(text: str | None) -> tuple[str, ...] | None:
    """Parse the types in a manifest, for example `string, decimal(10,2)`; None if they are not known."""
    if text is None:
        return None
    depth, parts = 0, [""]
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts)


def resolve_types(
    operator: str,
    sample: Sequence[tuple[object, int]],
    *,
    declared: tuple[str, ...] | None,
    max_parallelism: int,
) -> tuple[str, ...]:
    """Find the types with which keys hash to the groups that contain them.

    Args:
        operator: Uid of the operator, for the error.
        sample: Keys with their groups.
        declared: The recorded types; None tries the types that fit the values.
        max_parallelism: Number of key groups.

    Raises:
        SnapshotCorruptError: `KeyGroupsDiffer`: no types fit.
    """
    candidates: Iterator[tuple[str, ...]] = iter((declared,)) if declared else _candidates(sample)
    for types in candidates:
        keys = ((parts(key, len(types)), group) for key, group in sample[:SAMPLE])
        if all(keygroups.key_group(key, types, max_parallelism) == group for key, group in keys):
            return types
    tried = ", ".join(declared) if declared else "any type of the values"
    raise errors.SnapshotCorruptError(
        "KeyGroupsDiffer",
        f"Keys of operator {operator!r} are not in the groups that they hash to with key type ({tried}) and "
        f"max_parallelism={max_parallelism}, so nothing was written. Let the job that wrote the state take the savepoint.",
    )


def parts(key: object, count: int) -> tuple[keygroups.KeyPart, ...]:
    """Return a key's columns."""
    return cast("tuple[keygroups.KeyPart, ...]", (key,) if count == 1 else key)


def _candidates(sample: Sequence[tuple[object, int]]) -> Iterator[tuple[str, ...]]:
    if not sample:
        return iter((("string",),))
    keys = [key if isinstance(key, tuple) else (key,) for key, _ in sample]
    kinds = [
        next((type(part) for part in column if part is not None), type(None)) for column in zip(*keys, strict=True)
    ]
    if decimal.Decimal in kinds:
        return iter(())
    return itertools.product(*(_CANDIDATES.get(kind, ()) for kind in kinds))
