"""Reads keyed state of a canonical savepoint as a table, without an engine; `functions` reads operator state.

Every file is compared with its SHA-256 before it is used. Parts are read one after the other, so that a limit avoids
reading a large state completely. Columns with mixed types are returned as JSON text.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import pyarrow as pa

from statefulspark import errors, jsontext, rowvalues
from statefulspark.canonical import documents, parts, rows, values
from statefulspark.checkpoint import transfer
from statefulspark.contract import layout
from statefulspark.contract.manifest import KeyedStateEntry, Manifest, QueryEntry
from statefulspark.state import kinds
from statefulspark.state.types import typetext

T = TypeVar("T")
_ORDINAL = "ordinal"
"""Column with the order of the rows of Spark's own operators."""
_FLOATS = {"double": (pa.int64(), pa.float64()), "float": (pa.int32(), pa.float32())}


@dataclass(frozen=True, slots=True)
class StateSelection:
    """The state to read.

    Attributes:
        uid: Uid of an operator or function; `query/uid` if several queries have it.
        state: One of its states; may be omitted if there is only one.
        key: Only this key, as text; the columns of a key with several columns are separated by commas.
        limit: Maximum number of rows.
    """

    uid: str
    state: str | None = None
    key: str | None = None
    limit: int | None = None

    def matches(self, query: QueryEntry, uid: str) -> bool:
        """Tell whether an operator of a query is selected."""
        return self.uid in (uid, f"{query.uid}/{uid}")


def find(manifest: Manifest, selection: StateSelection) -> tuple[QueryEntry, str]:
    """Find the selected operator or function.

    Returns:
        The query, and the uid of its operator or function.

    Raises:
        SpecRejectedError: `StateNotFound`: no query or several queries have this uid; the message names the existing ones.
    """
    owners = [(query, uid) for query in manifest.queries for uid in uids_of(query) if selection.matches(query, uid)]
    if len(owners) == 1:
        return owners[0]
    present = ", ".join(f"{query.uid}/{uid}" for query in manifest.queries for uid in uids_of(query)) or "none"
    what = "no operator" if not owners else "several operators"
    raise errors.SpecRejectedError(
        "StateNotFound",
        f"The {manifest.label} holds {what} with the uid {selection.uid!r}; it holds state of: {present}.",
    )


def uids_of(query: QueryEntry) -> tuple[str, ...]:
    """Return the uids of all operators, functions and sources with state in a query."""
    sources = (name.uid for file in query.files if (name := layout.parse_segment_key(file.path)) is not None)
    return (
        *(operator.uid for operator in query.operators),
        *(state.uid for state in query.operator_states),
        *sources,
    )


def read_operator(
    location: transfer.SnapshotLocation, query: QueryEntry, selection: StateSelection, uid: str
) -> pa.Table:
    """Read the state of an operator in a canonical savepoint.

    Raises:
        SpecRejectedError: `StateNotFound`.
        SnapshotCorruptError: `CanonicalMissing`, `CanonicalUnreadable`.
    """
    key = location.key(query, documents.QUERY_DOCUMENT)
    document = documents.QueryDocument.parse(location.store.read(key), f"{location.store.uri}/{key}")
    operator = document.operator(uid)
    if operator is None:
        raise state_missing(selection, ())
    folder = location.key(query, "")[:-1]

    def read(files: tuple[documents.ParquetFile, ...]) -> Iterator[pa.Table]:
        tables = (restore_floats(parts.read(location.store, folder, file), operator.key_types) for file in files)
        return (_filtered(table, selection) for table in tables)

    if operator.is_keyed:
        # A state without entries has no files, and one that was not migrated in all key groups is there once for each type.
        declared = (state for entry in query.operators if entry.uid == uid for state in entry.states or ())
        name = _choose({state.name: state.name for state in (*declared, *operator.states)}, selection)
        chosen = (state for state in operator.states if state.name == name)
        tables = (_for_display(table, state) for state in chosen for table in read(state.files))
    else:
        several = len(operator.stores) > 1
        families = {
            f"{store.name}/{family.name}" if several else family.name: family.files
            for store in operator.stores
            for family in store.families
        }
        tables = (_for_display(table) for table in read(_choose(families, selection)))
    return _concatenated(list(_limited(tables, selection.limit)))


def _choose(states: dict[str, T], selection: StateSelection) -> T:
    if selection.state is None and len(states) == 1:
        return next(iter(states.values()))
    if selection.state is None or selection.state not in states:
        raise state_missing(selection, tuple(states))
    return states[selection.state]


def state_missing(selection: StateSelection, names: tuple[str, ...]) -> errors.SpecRejectedError:
    """Return the error for a state that does not exist or was not named; it names the existing states."""
    asked = "no state was named" if selection.state is None else f"it has no state {selection.state!r}"
    return errors.SpecRejectedError(
        "StateNotFound", f"Operator {selection.uid!r} has these states: {', '.join(names) or 'none'}; {asked}."
    )


def restore_floats(table: pa.Table, key_types: Sequence[str]) -> pa.Table:
    """Convert key columns that hold the bits of floats and doubles back to numbers."""
    for name, kind in zip(rows.key_names(len(key_types)), key_types, strict=True):
        bits, number = _FLOATS.get(kind, (None, None))
        if bits is None or not pa.types.is_integer(table.schema.field(name).type):
            continue
        chunks = [chunk.cast(bits).view(number) for chunk in table.column(name).chunks]
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array(chunks, number))
    return table


def _filtered(table: pa.Table, selection: StateSelection) -> pa.Table:
    if selection.key is None:
        return table
    names = [name for name in table.column_names if name == rows.KEY or name.startswith(f"{rows.KEY}_")]
    columns = [rowvalues.values(table.column(name), name) for name in names]
    mask = [",".join(map(_key_text, key)) == selection.key for key in zip(*columns, strict=True)]
    return table.filter(pa.array(mask, pa.bool_()))


def _key_text(part: object) -> str:
    if isinstance(part, dict):
        return ",".join(map(_key_text, part.values()))
    return "null" if part is None else str(part)


def _for_display(table: pa.Table, state: documents.KeyedState | None = None) -> pa.Table:
    """Convert msgpack columns to JSON text, add field names, and drop the column that only a restore needs."""
    if _ORDINAL in table.column_names:
        table = table.drop_columns([_ORDINAL])
    for index, field in enumerate(table.schema):
        declared = typetext.UNKNOWN if state is None else type_of_column(state, field.name)
        column, written = table.column(index), (field.metadata or {}).get(values.METADATA_KEY)
        shape: values.Shape = json.loads(written) if written is not None else ""
        shown = _type_with_nulls(column.type, shape)
        if shown != column.type:
            column = pa.chunked_array([pa.array(column.to_pylist(), shown)])
        if shape == values.MSGPACK:
            decoded = values.read_array(column, values.MSGPACK)
            column = pa.chunked_array([[jsontext.dumps(name_parts(value, declared)) for value in decoded]], pa.string())
        elif (named := name_fields(column.type, declared)) != column.type:
            column = pa.chunked_array([chunk.view(named) for chunk in column.chunks], named)
        table = table.set_column(index, field.name, column)
    return table.replace_schema_metadata(None)


def _type_with_nulls(kind: pa.DataType, shape: values.Shape) -> pa.DataType:
    """Return the type of a column whose parts without any value fit those of other files, whatever type these have."""
    if isinstance(shape, str):
        return pa.null() if shape == values.NULL else kind
    name, *children = shape
    if name == "tuple":
        fields = zip(kind, children, strict=True)
        return pa.struct([field.with_type(_type_with_nulls(field.type, child)) for field, child in fields])
    if name == "list":
        return pa.list_(_type_with_nulls(kind.value_type, children[0]))
    return pa.map_(kind.key_type, _type_with_nulls(kind.item_type, children[0]))


def _limited(tables: Iterator[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    remaining = limit
    for table in tables:
        yield table if remaining is None else table.slice(0, remaining)
        remaining = None if remaining is None else remaining - min(remaining, table.num_rows)
        if remaining == 0:
            return


def _concatenated(tables: list[pa.Table]) -> pa.Table:
    """Concatenate parts; a column with different types in them becomes JSON text, one that a part lacks is null there."""
    if not tables:
        return pa.table({})
    fields: dict[str, list[pa.Field]] = {}
    for field in itertools.chain.from_iterable(table.schema for table in tables):
        fields.setdefault(field.name, []).append(field)
    mixed = {name for name, of_parts in fields.items() if not _fit(of_parts)}
    bare = []
    for table in tables:
        columns = dict(zip(table.column_names, table.columns, strict=True))
        for name in mixed & columns.keys():
            if not pa.types.is_string(columns[name].type):
                texts = [jsontext.dumps(value) for value in rowvalues.values(columns[name], name)]
                columns[name] = pa.array(texts, pa.string())
        bare.append(pa.table(columns))
    return pa.concat_tables(bare, promote_options="default")


def _fit(fields: Sequence[pa.Field]) -> bool:
    try:
        pa.unify_schemas([pa.schema([field]) for field in fields])
    except pa.ArrowException:
        return False
    return True


def type_of_column(state: KeyedStateEntry, column: str) -> typetext.Type:
    """Return the declared type of a column of a state; `any` if none was declared."""
    declared, kind = typetext.parse(state.type), kinds.named(state.kind, state.name)
    if not kind.container:
        return declared if column == rows.VALUE else typetext.UNKNOWN
    if declared.family != kind.container or not declared.arguments:
        return typetext.UNKNOWN
    if column == rows.VALUE:
        return declared.arguments[-1]
    return declared.arguments[0] if kind.has_entry_keys and column == kind.column else typetext.UNKNOWN


def name_fields(stored: pa.DataType, declared: typetext.Type) -> pa.DataType:
    """Return the same type with named fields of records; parts that do not match the declaration are unchanged."""
    parts = declared.arguments
    if pa.types.is_struct(stored) and len(parts) == len(declared.names) == stored.num_fields:
        fields = (name_fields(stored.field(number).type, part) for number, part in enumerate(parts))
        return pa.struct(list(zip(declared.names, fields, strict=True)))
    if pa.types.is_list(stored) and declared.family == "array" and parts:
        return pa.list_(name_fields(stored.value_type, parts[0]))
    if pa.types.is_map(stored) and declared.family == "map" and parts:
        return pa.map_(stored.key_type, name_fields(stored.item_type, parts[-1]))
    return stored


def name_parts(value: object, declared: typetext.Type) -> object:
    """Return the value with records as dicts; parts that do not match the declaration are unchanged."""
    parts = declared.arguments
    if isinstance(value, tuple) and len(parts) == len(declared.names) == len(value):
        fields = zip(declared.names, value, parts, strict=True)
        return {name: name_parts(field, part) for name, field, part in fields}
    if isinstance(value, list) and declared.family == "array" and parts:
        return [name_parts(element, parts[0]) for element in cast("list[object]", value)]
    if isinstance(value, dict) and declared.family == "map" and parts:
        return {key: name_parts(item, parts[-1]) for key, item in cast("dict[object, object]", value).items()}
    return value
