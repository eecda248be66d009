"""Values that no table stores; a worker refuses them before the batch is committed. Pure.

A batch that Spark has committed is sent as it was staged, with whatever code. So a row that the table refuses then needs a
start from the checkpoint before it. A row that a worker refuses needs corrected code alone. Workers check what a value tells
by itself: nulls, lengths, ranges, and the form of UUIDs, JSON and enums. The server judges keys, checks, triggers and the
rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NoReturn, cast

import pyarrow as pa
import pyarrow.compute as compute

from statefulspark import errors, rowvalues
from statefulspark.sinks.postgres.columntypes import ARRAY_MARK, JSON, TableColumn

_HEADER_BYTES = 4
"""What PostgreSQL adds to the length or the precision in a type's modifier."""
_UUID = r"(?i)^(\{[0-9a-f]{4}(-?[0-9a-f]{4}){7}\}|[0-9a-f]{4}(-?[0-9a-f]{4}){7})$"
_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")
_SHOWN = 60
_EXACT = Context(prec=1100)
"""PostgreSQL's numbers have a precision of 1,000 digits at most."""


def storable(batch: pa.RecordBatch, table: Mapping[str, TableColumn]) -> pa.RecordBatch:
    """Return a batch; refuse rows that the table never stores.

    Args:
        batch: The rows.
        table: Columns of the table by name, as of the start; empty if they are unknown.

    Raises:
        SpecRejectedError: `RowUnsupported`, with the column, the first such value and the limit.
    """
    for column, field in zip(batch.columns, batch.schema, strict=True):
        rowvalues.require_forms(column, field.name)
        problem = next(_problems(column, table.get(field.name)), None)
        if problem is not None:
            raise errors.SpecRejectedError(
                "RowUnsupported",
                f"The column {field.name!r} has {problem}. Correct the code or filter such rows; the same batch runs again "
                "with the code of the next start.",
            )
    return batch


def _problems(column: pa.Array, target: TableColumn | None) -> Iterator[str]:
    for part in rowvalues.leaves(column):
        if rowvalues.is_text(part.type) and compute.any(compute.match_substring(part, "\0")).as_py():
            yield "a text with the character NUL (\\u0000), which PostgreSQL does not store"
    if target is None:
        return
    if target.is_not_null and column.null_count:
        yield "a null, and the table's column is NOT NULL"
    if target.is_key and column.null_count:
        yield (
            "a null, and upsert_by names it: a null is equal to nothing there, so the row would replace none; create the "
            "index with NULLS NOT DISTINCT (PostgreSQL 15), or give the column a value in place of null"
        )
    kind, values = target.type.removeprefix(ARRAY_MARK), column
    while kind != target.type and (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        values = values.flatten()
    if rowvalues.is_text(values.type):
        yield from _text_problems(values, kind, target)
    elif kind == "numeric" and target.modifier >= _HEADER_BYTES:
        yield from _number_problems(values, target.modifier - _HEADER_BYTES)


def _text_problems(values: pa.Array, kind: str, target: TableColumn) -> Iterator[str]:
    if kind in {"varchar", "bpchar"} and target.modifier >= _HEADER_BYTES:
        longest = target.modifier - _HEADER_BYTES
        # PostgreSQL cuts off spaces at the end that have no room.
        lengths = compute.utf8_length(compute.utf8_rtrim(values, characters=" "))
        for value in _first(values, compute.greater(lengths, longest)):
            yield f"{_shown(value)}, a text of {len(value)} characters, and the table's column takes {longest}"
    elif kind == "uuid":
        for value in _first(values, compute.invert(compute.match_substring_regex(values, _UUID))):
            yield f"{_shown(value)}, which is not a UUID"
    elif target.labels:
        labels = pa.array(target.labels, values.type)
        outside = compute.and_(compute.invert(compute.is_in(values, labels)), compute.is_valid(values))
        for value in _first(values, outside):
            yield f"{_shown(value)}, and the table's enum has {', '.join(target.labels)}"
    elif kind in JSON:
        problems = (_json_problem(value, kind) for value in values.drop_null().to_pylist())
        yield from filter(None, problems)


def _json_problem(text: str, kind: str) -> str | None:
    """Return why a column of `json` or `jsonb` does not store a text; the latter reads escapes, too."""
    no_text = f"{_shown(text)}, which has \\u0000 or half a surrogate pair, and jsonb stores neither"
    try:
        parsed = json.loads(text, parse_constant=_refuse, parse_int=str)
        if kind == "jsonb" and "\\u" in text:
            if _NUL.search(text):
                return no_text
            json.dumps(parsed, ensure_ascii=False).encode()
    except RecursionError:
        return f"{_shown(text)}, which nests deeper than Python reads"
    except UnicodeEncodeError:
        return no_text
    except ValueError:
        return f"{_shown(text)}, which is not JSON"
    return None


def _number_problems(values: pa.Array, modifier: int) -> Iterator[str]:
    precision, scale = modifier >> 16, (modifier & 0x7FF ^ 1024) - 1024
    limit, step = Decimal(1).scaleb(precision - scale), Decimal(1).scaleb(-scale)
    large = compute.greater_equal(compute.abs(compute.cast(values, pa.float64(), safe=False)), float(limit - step))
    for value in values.filter(large).to_pylist():
        number = Decimal(str(value))
        if abs(number) >= limit or abs(number.quantize(step, ROUND_HALF_UP, _EXACT)) >= limit:
            yield f"the number {value}, and the table's column is numeric({precision},{scale})"


def _first(values: pa.Array, is_wrong: pa.Array) -> list[str]:
    return cast("list[str]", values.filter(is_wrong)[:1].to_pylist())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")
