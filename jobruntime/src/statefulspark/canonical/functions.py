"""State without keys as a table: of functions on the driver (lists, unions, broadcasts) and of stateful sources.

It is written down in the same way in every kind of snapshot, so that no engine is needed.
"""

from __future__ import annotations

import pyarrow as pa

from statefulspark import errors
from statefulspark.canonical import reading
from statefulspark.checkpoint import segments, transfer
from statefulspark.contract.manifest import QueryEntry
from statefulspark.operatorstate import record
from statefulspark.operatorstate.model import OperatorState
from statefulspark.sources import segmentfile

_COLUMNS = pa.schema([("state", pa.string()), ("mode", pa.string()), ("subtask", pa.int32()), ("element", pa.string())])


def read(place: transfer.SnapshotLocation, query: QueryEntry, wish: reading.Wish, uid: str) -> pa.Table | None:
    """Read the state of a function or stateful source; None if the uid is neither's.

    Args:
        place: Where the snapshot is.
        query: The query that it belongs to.
        wish: Which of its states, and how much; all of them if none is named.
        uid: Its uid.

    Returns:
        One row per element: `state`, `mode`, `subtask`, and `element` as JSON text. A union is what each subtask gave to it;
        an entry of a broadcast is a pair, and every subtask has all of them.

    Raises:
        SpecRejectedError: `StateNotFound`, naming its states.
        SnapshotCorruptError: The file is missing or damaged; the error names it.
    """
    entry = next((one for one in query.operator_states if one.uid == uid), None)
    if entry is not None:
        source, body = _read(place, query, entry.path)
        return _table(record.decode(body, source, uid=uid), wish)
    found = next((file.path for file in query.files if _is_segment_of(file.path, uid)), None)
    if found is None:
        return None
    source, body = _read(place, query, found)
    state = segmentfile.decode(body, source, uid=uid).state
    return _table(OperatorState(1, {}) if state is None else record.decode(state, source), wish)


def _read(place: transfer.SnapshotLocation, query: QueryEntry, path: str) -> tuple[str, bytes]:
    """Return the name of a file for errors, and its content."""
    key = place.key(query, path)
    source = f"{place.store.uri}/{key}"
    try:
        return source, place.store.read(key)
    except errors.ObjectNotFoundError as error:
        raise errors.SnapshotCorruptError(
            "SnapshotBroken", f"{source} does not exist; `statefulspark doctor` says which snapshots are whole."
        ) from error


def _is_segment_of(path: str, uid: str) -> bool:
    name = segments.of_key(path)
    return name is not None and name.uid == uid


def _table(state: OperatorState, wish: reading.Wish) -> pa.Table:
    if wish.state is not None and wish.state not in state.states:
        raise reading.state_missing(wish, tuple(state.states))
    found = [
        {"state": name, "mode": one.meta.mode.value, "subtask": subtask, "element": reading.text(element)}
        for name, one in state.states.items()
        if wish.state in (None, name)
        for subtask, part in enumerate(one.parts)
        for element in part
    ]
    return pa.Table.from_pylist(found[: wish.limit], schema=_COLUMNS)
