"""Adds the field names to records for display: storage holds records as tuples, and the names in the state's type."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from statefulspark.canonical import rows
from statefulspark.contract.manifest import KeyedStateEntry
from statefulspark.state import kinds
from statefulspark.state.types import typetext


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
