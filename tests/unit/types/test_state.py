"""Every value of every type in state: it comes back as it was, in each kind of state, as a key, and out of a savepoint."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
import statefulspark as ss
from pyarrow import parquet
from pyspark.sql import types
from statefulspark import errors
from statefulspark.canonical import values as canonical
from statefulspark.operators.keyed import operator
from statefulspark.operators.transform import keys as transform_keys
from statefulspark.operators.transform import operator as transform_operator
from statefulspark.operatorstate import model, record
from statefulspark.state import rows
from statefulspark.state.types import codec, keyforms
from statefulspark.testing import KeyedHarness
from typematrix import kinds

VALUES = {column.name: rows.read_values(pa.chunked_array([column.values])) for column in kinds.columns()}
IN_UTC = "zoneinfo.ZoneInfo(key='UTC')"


def shown(value: object) -> str:
    """Return the text that tells a value and its type; Arrow and storage have an object each for UTC."""
    return repr(value).replace(IN_UTC, "datetime.timezone.utc")


KEYS = tuple(column for column in kinds.columns() if operator.is_plain_key(column.kind))


def test_values_are_stored_as_they_are() -> None:
    for name, values in VALUES.items():
        assert shown(codec.unpack(codec.pack(values))) == shown(values), name


def test_values_of_the_elements_of_operator_state_come_back() -> None:
    for name, values in VALUES.items():
        meta = model.OperatorStateMeta("s", model.Mode.SPLIT, "any")
        state = model.OperatorState(1, {"s": model.NamedState(meta, (tuple(values),))})
        read = record.decode(record.encode("f", state), "a test")
        assert shown(read.states["s"].parts[0]) == shown(tuple(values)), name


def test_columns_of_canonical_savepoints_give_the_values_back() -> None:
    for name, values in VALUES.items():
        shape = canonical.infer(values)
        array, buffer = canonical.make_array(values, shape), io.BytesIO()
        parquet.write_table(pa.table([array], schema=pa.schema([canonical.field("c", array, shape)])), buffer)
        read = parquet.read_table(buffer)
        column = read.column("c")
        restored = canonical.read_array(column, canonical.shape_of(read.schema.field("c"), "a test"))
        assert shown(restored) == shown(values), name


class Everything(ss.KeyedProcessFunction):
    """Keeps what it gets in each kind of state, and yields what it has kept before."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.value = ctx.value_state("value")
        self.list = ctx.list_state("list")
        self.map = ctx.map_state("map")
        self.by_value = ctx.map_state("by_value")

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[str]:
        yield shown((self.value.get(), list(self.list.get()), dict(self.map.items()), dict(self.by_value.items())))
        value = rows[0]["value"]
        self.value.update(value)
        self.list.update([(value,), [value]])
        self.map.put("k", value)
        if rows[0]["is_key"]:
            self.by_value.put(value, 1)


def test_state_of_each_kind_has_its_values_after_a_restart() -> None:
    harness = KeyedHarness(Everything(), key="id")
    batch = [
        {"id": f"{name} {number}", "value": value, "is_key": name in {column.name for column in KEYS}}
        for name, values in VALUES.items()
        for number, value in enumerate(values)
    ]
    harness.feed(*batch)
    in_memory = harness.feed(*batch)
    harness.restart()
    stored = harness.feed(*batch)

    assert stored == in_memory
    for row, seen in zip(batch, stored, strict=True):
        value = row["value"]
        (by_value,) = [keyforms.entry_form(value)] if row["is_key"] else [None]
        entries = {by_value: 1} if row["is_key"] else {}
        assert seen == shown((value, [(value,), [value]], {"k": value}, entries)), row["id"]


SOON = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)


class Counted(ss.KeyedProcessFunction):
    """Counts the rows of a key, and tells the count once more by a timer."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self.count = ctx.value_state("count", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[tuple[str, int]]:
        self.count.update((self.count.get() or 0) + len(rows))
        ctx.timers.set(SOON)
        yield shown(key), self.count.get() or 0

    def on_timer(self, when: datetime.datetime, ctx: ss.KeyedContext) -> Iterator[tuple[str, int]]:
        yield shown(ctx.key), self.count.get() or 0


@pytest.mark.parametrize("key", ["k", ("k", "other")], ids=["key", "composite key"])
def test_a_key_finds_its_state_and_its_timers_after_a_restart(key: str | tuple[str, ...]) -> None:
    for column in KEYS:
        harness = KeyedHarness(Counted(), key=key, timers="event-time")
        values = rows.read_keys(pa.table({"k": column.values}), ["k"])
        assert len(set(values)) == len(values), column.name
        batch = [{"k": value, "other": 1} for value in values]

        first = harness.feed(*batch)
        harness.restart()
        second = harness.feed(*batch)
        fired = harness.advance_watermark(SOON)

        expected = [shown(value if isinstance(key, str) else (value, 1)) for value in values]
        assert first == [(text, 1) for text in expected], column.name
        assert second == [(text, 2) for text in expected], column.name
        assert sorted(fired) == sorted(second), column.name  # type: ignore[type-var]  # pairs


def test_keys_of_sparks_operators_come_back_as_they_are_grouped() -> None:
    for column in kinds.columns():
        if not transform_operator._is_key(column.kind):
            continue
        found = transform_keys.read_keys(pa.table({"k": column.values}), ["k"], [column.kind])
        stored = codec.unpack(codec.pack(found))
        assert stored == found, column.name
        assert len(set(found)) == len(set(map(shown, found))), column.name
        given = [transform_keys.values_of(key, [column.kind])[0] for key in found]
        again = [transform_keys.values_of(key, [column.kind])[0] for key in stored]  # type: ignore[attr-defined]
        assert shown(again) == shown(given), column.name


def test_values_without_a_form_in_python_are_refused_with_their_column() -> None:
    for column in kinds.columns():
        for value in column.beyond or ():
            with pytest.raises(errors.SpecRejectedError, match=f"The column '{column.name}'") as refused:
                rows.read_rows(pa.table([pa.array([value])], names=[column.name]))
            assert refused.value.reason == "RowUnsupported"
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])
    with pytest.raises(errors.SpecRejectedError, match="The column 'text'") as refused:
        rows.read_rows(pa.table([broken], names=["text"]))
    assert refused.value.reason == "RowUnsupported"


def test_a_text_of_a_million_characters_is_a_value_and_a_key() -> None:
    harness = KeyedHarness(Everything(), key="value")
    row = {"value": kinds.LONG_TEXT, "is_key": True}
    harness.feed(row)
    harness.restart()
    text = kinds.LONG_TEXT
    assert harness.feed(row) == [shown((text, [(text,), [text]], {"k": text}, {text: 1}))]


def test_a_declared_type_takes_the_values_of_its_columns() -> None:
    class Declared(ss.KeyedProcessFunction):
        def __init__(self, text: str) -> None:
            self.text = text

        def open(self, ctx: ss.KeyedContext) -> None:
            self.value = ctx.value_state("value", self.text)

        def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterator[str]:
            yield shown(self.value.get())
            self.value.update(rows[0]["value"])

    for column in kinds.columns():
        harness = KeyedHarness(Declared(column.kind.simpleString()), key="id")
        batch = [{"id": number, "value": value} for number, value in enumerate(VALUES[column.name])]
        harness.feed(*batch)
        harness.restart()
        assert harness.feed(*batch) == [shown(row["value"]) for row in batch], column.name
    assert isinstance(kinds.columns()[0].kind, types.NullType)
