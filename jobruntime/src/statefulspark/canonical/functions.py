"""Operator state as a table: of functions on the driver (lists, unions, broadcasts) and of stateful sources.

Every kind of snapshot stores it in the same format, so no engine is needed.
"""

from __future__ import annotations

import pyarrow as pa

from statefulspark import errors, jsontext
from statefulspark.canonical import reading
from statefulspark.checkpoint import transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.operatorstate import record
from statefulspark.operatorstate.model import OperatorState
from statefulspark.sources import segmentfile

_COLUMNS = pa.schema([("state", pa.string()), ("mode", pa.string()), ("subtask", pa.int32()), ("element", pa.string())])


def read(
    location: transfer.SnapshotLocation, query: QueryEntry, selection: reading.StateSelection, uid: str
) -> pa.Table | None:
    """Read the state of a function or stateful source; None if the uid belongs to neither.

    Args:
        location: Location of the snapshot.
        query: Its query.
        selection: The state to read, and a limit; all states if none is named.
        uid: Uid of the function or source.

    Returns:
        One row per element: `state`, `mode`, `subtask`, and `element` as JSON text. A union has the elements that each
        subtask added; an entry of a broadcast is a pair, and every subtask has all entries.

    Raises:
        SpecRejectedError: `StateNotFound`, naming its states.
        SnapshotCorruptError: The file is missing or damaged; the error names it.
    """
    entry = next((state_entry for state_entry in query.operator_states if state_entry.uid == uid), None)
    if entry is not None:
        source, body = _read(location, query, entry.path)
        return _table(record.decode(body, source, uid=uid), selection)
    names = ((file.path, layout.parse_segment_key(file.path)) for file in query.files)
    segment_path = next((path for path, name in names if name is not None and name.uid == uid), None)
    if segment_path is None:
        return None
    source, body = _read(location, query, segment_path)
    state = segmentfile.decode(body, source, uid=uid).state
    return _table(OperatorState(1, {}) if state is None else record.decode(state, source), selection)


def _read(location: transfer.SnapshotLocation, query: QueryEntry, path: str) -> tuple[str, bytes]:
    """Return the URI of a file, for errors, and its content."""
    key = location.key(query, path)
    source = f"{location.store.uri}/{key}"
    try:
        return source, location.store.read(key)
    except errors.ObjectNotFoundError as error:
        raise errors.SnapshotCorruptError(
            "SnapshotBroken", f"{source} does not exist; `statefulspark doctor` lists the complete snapshots."
        ) from error


def _table(state: OperatorState, selection: reading.StateSelection) -> pa.Table:
    if selection.state is not None and selection.state not in state.states:
        raise reading.state_missing(selection, tuple(state.states))
    rows = [
        {"state": name, "mode": function_state.meta.mode.value, "subtask": subtask, "element": jsontext.dumps(element)}
        for name, function_state in state.states.items()
        if selection.state in (None, name)
        for subtask, part in enumerate(function_state.parts)
        for element in part
    ]
    return pa.Table.from_pylist(rows[: selection.limit], schema=_COLUMNS)
