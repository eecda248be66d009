"""State of a canonical savepoint as a table, without an engine; `functions` does that for state without keys.

Every file is checked against its SHA-256 before it is used. Parts are read one after the other, so that a limit keeps a
large state from being read whole. Values that have no plain column (mixtures of types) come as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from statefulspark import errors
from statefulspark.canonical import documents, field_names, parts, rows, values
from statefulspark.checkpoint import segments, transfer
from statefulspark.contract.manifest import Manifest, QueryEntry
from statefulspark.state import typetext

T = TypeVar("T")
_ORDINAL = "ordinal"
"""Column with the order of the rows of Spark's own operators."""
_FLOATS = {"double": (pa.int64(), pa.float64()), "float": (pa.int32(), pa.float32())}


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to see.

    Attributes:
        uid: Of an operator or function; `query/uid` where several queries have it.
        state: One of its states; may be left out if it has one.
        key: Only this key, as text; the columns of a key of several are separated by commas.
        limit: At most this many rows.
    """

    uid: str
    state: str | None = None
    key: str | None = None
    limit: int | None = None

    def names(self, query: QueryEntry, uid: str) -> bool:
        """Tell whether an operator of a query is meant."""
        return self.uid in (uid, f"{query.uid}/{uid}")


def find(manifest: Manifest, wish: Wish) -> tuple[QueryEntry, str]:
    """Find whose state is meant.

    Returns:
        The query, and the uid of its operator or function.

    Raises:
        SpecRejectedError: `StateNotFound`: nothing has this uid, or several queries do; the message names what there is.
    """
    owners = [(query, uid) for query in manifest.queries for uid in uids_of(query) if wish.names(query, uid)]
    if len(owners) == 1:
        return owners[0]
    present = ", ".join(f"{query.uid}/{uid}" for query in manifest.queries for uid in uids_of(query)) or "none"
    what = "no operator" if not owners else "several operators"
    raise errors.SpecRejectedError(
        "StateNotFound", f"The {manifest.label} holds {what} with the uid {wish.uid!r}; it holds state of: {present}."
    )


def uids_of(query: QueryEntry) -> tuple[str, ...]:
    """Return the uids of everything with state in a query."""
    sources = (name.uid for file in query.files if (name := segments.of_key(file.path)) is not None)
    return (*(one.uid for one in query.operators), *(one.uid for one in query.operator_states), *sources)


def read_operator(place: transfer.SnapshotLocation, query: QueryEntry, wish: Wish, uid: str) -> pa.Table:
    """Read the state of an operator in a canonical savepoint.

    Raises:
        SpecRejectedError: `StateNotFound`.
        SnapshotCorruptError: `CanonicalMissing`, `CanonicalUnreadable`.
    """
    key = place.key(query, documents.QUERY_DOCUMENT)
    document = documents.QueryDocument.parse(place.store.read(key), f"{place.store.uri}/{key}")
    operator = document.operator(uid)
    if operator is None:
        raise state_missing(wish, ())
    folder = place.key(query, "")[:-1]

    def read(files: tuple[documents.PartFile, ...]) -> Iterator[pa.Table]:
        found = (with_floats(parts.read(place.store, folder, file), operator.key_types) for file in files)
        return (_filtered(table, wish) for table in found)

    if operator.is_keyed:
        state = _choose({state.name: state for state in operator.states}, wish)
        tables = (_plain(table, state) for table in read(state.files))
    else:
        tables = (_plain(table) for table in read(_choose(_families(operator), wish)))
    return _together(list(_limited(tables, wish.limit)))


def states_of(place: transfer.SnapshotLocation, query: QueryEntry, uid: str) -> tuple[str, ...]:
    """Return the names of an operator's states in a canonical savepoint."""
    key = place.key(query, documents.QUERY_DOCUMENT)
    operator = documents.QueryDocument.parse(place.store.read(key), f"{place.store.uri}/{key}").operator(uid)
    if operator is None:
        return ()
    return tuple(state.name for state in operator.states) if operator.is_keyed else tuple(_families(operator))


def _families(operator: documents.OperatorState) -> dict[str, tuple[documents.PartFile, ...]]:
    several = len(operator.stores) > 1
    return {
        f"{store.name}/{family.name}" if several else family.name: family.files
        for store in operator.stores
        for family in store.families
    }


def _choose(states: dict[str, T], wish: Wish) -> T:
    if wish.state is None and len(states) == 1:
        return next(iter(states.values()))
    if wish.state is None or wish.state not in states:
        raise state_missing(wish, tuple(states))
    return states[wish.state]


def state_missing(wish: Wish, names: tuple[str, ...]) -> errors.SpecRejectedError:
    """Return the error for a state that does not exist, or was not chosen; it names those there are."""
    asked = "no state was named" if wish.state is None else f"it has no state {wish.state!r}"
    return errors.SpecRejectedError(
        "StateNotFound", f"Operator {wish.uid!r} has these states: {', '.join(names) or 'none'}; {asked}."
    )


def with_floats(table: pa.Table, key_types: Sequence[str]) -> pa.Table:
    """Return a table in which columns of keys that are stored as the bits of floats and doubles are numbers again."""
    for name, kind in zip(rows.key_names(len(key_types)), key_types, strict=True):
        bits, number = _FLOATS.get(kind, (None, None))
        if bits is None or not pa.types.is_integer(table.schema.field(name).type):
            continue
        chunks = [chunk.cast(bits).view(number) for chunk in table.column(name).chunks]
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array(chunks, number))
    return table


def _filtered(table: pa.Table, wish: Wish) -> pa.Table:
    if wish.key is None:
        return table
    names = [name for name in table.column_names if name == rows.KEY or name.startswith(f"{rows.KEY}_")]
    columns = [table.column(name).to_pylist() for name in names]
    wanted = wish.key.split(",") if len(names) > 1 else [wish.key]
    kept = [[_shown(part) for part in key] == wanted for key in zip(*columns, strict=True)]
    return table.filter(pa.array(kept, pa.bool_()))


def _shown(part: object) -> str:
    if isinstance(part, dict) and len(part) == 1:
        return _shown(next(iter(part.values())))
    return "null" if part is None else str(part)


def _plain(table: pa.Table, state: documents.KeyedState | None = None) -> pa.Table:
    """Turn columns in the state's own encoding into JSON text, name fields, and leave out what is for the restore only."""
    if _ORDINAL in table.column_names:
        table = table.drop_columns([_ORDINAL])
    for index, field in enumerate(table.schema):
        declared = typetext.UNKNOWN if state is None else field_names.type_of_column(state, field.name)
        table = table.set_column(index, field.name, _shown_column(table.column(index), field, declared))
    return table.replace_schema_metadata(None)


def _shown_column(column: pa.ChunkedArray, field: pa.Field, declared: typetext.Type) -> pa.ChunkedArray:
    written = (field.metadata or {}).get(values.METADATA_KEY)
    if written is not None and json.loads(written) == values.MSGPACK:
        found = values.to_values(column, values.MSGPACK)
        return pa.chunked_array([[text(field_names.name_parts(value, declared)) for value in found]], pa.string())
    named = field_names.name_fields(column.type, declared)
    return column if named == column.type else pa.chunked_array([chunk.view(named) for chunk in column.chunks], named)


def text(value: object) -> str:
    """Return a value as JSON text; what JSON does not know is written as Python shows it."""
    return json.dumps(value, default=str, ensure_ascii=False)


def _limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    left = limit
    for table in tables:
        yield table if left is None else table.slice(0, left)
        left = None if left is None else left - min(left, table.num_rows)
        if left == 0:
            return


def _together(tables: list[pa.Table]) -> pa.Table:
    """Put parts together; a column that has different types in them becomes JSON text."""
    if not tables:
        return pa.table({})
    mixed = {
        name for name in tables[0].column_names if len({str(table.schema.field(name).type) for table in tables}) > 1
    }
    bare = [pa.table({name: _as_text(table, name, mixed) for name in table.column_names}) for table in tables]
    return pa.concat_tables(bare)


def _as_text(table: pa.Table, name: str, mixed: set[str]) -> pa.ChunkedArray | pa.Array:
    column = table.column(name)
    if name not in mixed or pa.types.is_string(column.type):
        return column
    return pa.array([text(value) for value in column.to_pylist()], pa.string())
