"""The stored form of operator state: one JSON document per function, with the lists of all its subtasks.

```
{"formatVersion": 1, "uid": "out", "parallelism": 2, "states": [
  {"name": "buffered", "mode": "SPLIT_DISTRIBUTE", "type": "array<any>",
   "parts": [{"values": [1, 2]}, {"values": []}], "subtasks": [0, 1]}]}
```
`parts` are the distinct contents, `subtasks` has the index of the content of each subtask: equal copies of a union or a
broadcast are stored once. A part of plain JSON elements is stored as `values`, readable for tools; any other as `msgpack`,
base64 of the codec of keyed state. Reading never runs code. Equal state has equal bytes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, cast

from pydantic import Field, ValidationError

from statefulspark import errors
from statefulspark.contract import base, formats
from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, OperatorStateMeta, Part, SubtaskState
from statefulspark.state.types import codec

_PLAIN_INT_LIMIT = 2**53
"""Other JSON readers convert larger integers to floating point."""


class PartRecord(base.WireModel):
    """The elements of a state in one subtask; exactly one of the two fields is set."""

    values: tuple[object, ...] | None = None
    msgpack: str | None = None


class StateRecord(base.WireModel):
    """One named state."""

    name: str
    mode: Mode
    type: str
    parts: tuple[PartRecord, ...]
    """The distinct contents; entries of a broadcast state are pairs."""
    subtasks: tuple[int, ...]
    """For each subtask the index of its content in `parts`."""


class OperatorRecord(base.SealedDocument):
    """The whole state of one function."""

    FORMAT: ClassVar = formats.OPERATOR_STATE
    format_version: int = formats.OPERATOR_STATE.writes

    uid: str
    parallelism: int = Field(ge=1)
    states: tuple[StateRecord, ...] = ()


def encode(uid: str, state: OperatorState) -> bytes:
    """Write an operator's state.

    Args:
        uid: The function's uid.
        state: Its state.

    Returns:
        UTF-8 JSON; equal for equal state.

    Raises:
        SpecRejectedError: `StateValueTypeUnsupported` or `StateValueUnsupported`: an element cannot be stored; the error
            names the state.
    """
    states = [_encode_state(state.states[name]) for name in sorted(state.states)]
    version = formats.OPERATOR_STATE.writes
    document = {"formatVersion": version, "uid": uid, "parallelism": state.parallelism, "states": states}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def decode(body: bytes, source: str, *, uid: str | None = None) -> OperatorState:
    """Read an operator's state.

    Args:
        body: A document that `encode` of this or an earlier release wrote.
        source: Its origin, for the error.
        uid: The expected uid; None accepts any.

    Raises:
        SnapshotCorruptError: `DocumentUnreadable` or `OperatorStateDamaged`.
        FormatVersionError: This release cannot read its version.
    """
    record = OperatorRecord.parse(body, source)
    if uid is not None and record.uid != uid:
        raise _damaged(source, f"it is the state of {record.uid!r}, not of {uid!r}")
    try:
        states = {state_record.name: _decode_state(state_record, record.parallelism) for state_record in record.states}
    except (ValueError, IndexError, TypeError, ValidationError) as error:
        raise _damaged(source, str(error)) from error
    return OperatorState(record.parallelism, states)


def detached(states: Mapping[str, SubtaskState]) -> dict[str, SubtaskState]:
    """Return the states of a subtask as they would be read again, which later changes of its function do not reach.

    Raises:
        SpecRejectedError: As `encode`.
    """
    return {name: replace(state, part=_unpack(_pack(name, state.part))) for name, state in states.items()}


def _pack(name: str, part: Part) -> bytes:
    with codec.naming(name):
        return codec.pack(codec.pack_column(part))


def _unpack(packed: bytes) -> Part:
    column = codec.unpack(packed)
    if not isinstance(column, list):
        raise ValueError("a content is not a column")
    return tuple(codec.unpack_column(column))


def _encode_state(state: NamedState) -> dict[str, object]:
    bodies: dict[bytes, int] = {}
    contents: list[dict[str, object]] = []
    subtasks = []
    for part in state.parts:
        packed = _pack(state.meta.name, part)
        if packed not in bodies:
            bodies[packed] = len(contents)
            values = list(part)
            if state.meta.mode is Mode.BROADCAST:
                values = [list(cast("tuple[object, object]", pair)) for pair in part]
            is_plain = _is_plain(values)
            contents.append({"values": values} if is_plain else {"msgpack": base64.b64encode(packed).decode()})
        subtasks.append(bodies[packed])
    return {
        "name": state.meta.name,
        "mode": state.meta.mode.value,
        "type": state.meta.type_text,
        "parts": contents,
        "subtasks": subtasks,
    }


def _is_plain(value: object) -> bool:
    """Tell whether every JSON reader returns exactly this value."""
    kind = type(value)
    if kind in (bool, type(None), str):
        return True
    if kind is int:
        return abs(cast("int", value)) <= _PLAIN_INT_LIMIT
    if kind is float:
        return math.isfinite(cast("float", value))
    if kind is list:
        return all(map(_is_plain, cast("list[object]", value)))
    if kind is dict:
        entries = cast("dict[object, object]", value)
        return all(type(key) is str for key in entries) and all(map(_is_plain, entries.values()))
    return False


def _decode_state(stored: StateRecord, parallelism: int) -> NamedState:
    meta = OperatorStateMeta(stored.name, stored.mode, stored.type)
    parts = [_decode_part(stored.mode, part) for part in stored.parts]
    if len(stored.subtasks) != parallelism or any(not 0 <= index < len(parts) for index in stored.subtasks):
        raise ValueError(f"state {stored.name!r} does not have a content for each of {parallelism} subtasks")
    return NamedState(meta, tuple(parts[index] for index in stored.subtasks))


def _decode_part(mode: Mode, stored: PartRecord) -> Part:
    if stored.msgpack is not None:
        return _unpack(base64.b64decode(stored.msgpack, validate=True))
    if stored.values is None:
        raise ValueError("a content has neither values nor msgpack")
    if mode is Mode.BROADCAST:
        return tuple((entry, value) for entry, value in cast("tuple[tuple[object, object], ...]", stored.values))
    return stored.values


def _damaged(source: str, why: str) -> errors.SnapshotCorruptError:
    return errors.SnapshotCorruptError(
        "OperatorStateDamaged", f"{source} cannot be used: {why}. Start from an older snapshot."
    )
