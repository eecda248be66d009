"""The Arrow types of Spark's types, with the time zone that a caller names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas import types as arrow_types

from statefulspark.sparkinternals import releases

if TYPE_CHECKING:
    from pyspark.sql import types as spark_types


def to_arrow_type(kind: spark_types.DataType, *, timezone: str) -> pa.DataType:
    """Return the Arrow type of a type; until 4.1 PySpark knows UTC alone (SPARK-54903)."""
    if releases.installed() >= (4, 2):
        return arrow_types.to_arrow_type(kind, timezone=timezone)
    return _in_zone(arrow_types.to_arrow_type(kind), timezone)


def to_arrow_schema(schema: spark_types.StructType, *, timezone: str) -> pa.Schema:
    """Return the Arrow schema of columns."""
    if releases.installed() >= (4, 2):
        return arrow_types.to_arrow_schema(schema, timezone=timezone)
    return pa.schema([_field_in_zone(field, timezone) for field in arrow_types.to_arrow_schema(schema)])


def _in_zone(kind: pa.DataType, timezone: str) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, tz=timezone)
    if pa.types.is_struct(kind):
        return pa.struct([_field_in_zone(field, timezone) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_zone(kind.key_type, timezone), _field_in_zone(kind.item_field, timezone))
    if pa.types.is_list(kind):
        return pa.list_(_field_in_zone(kind.value_field, timezone))
    return kind


def _field_in_zone(field: pa.Field, timezone: str) -> pa.Field:
    return field.with_type(_in_zone(field.type, timezone))
