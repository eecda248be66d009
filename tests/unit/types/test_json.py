"""Every value of every type as JSON, for Kafka, for `jsonb` and for people: what Spark's `to_json` says, as recorded."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import types
from statefulspark import rowvalues
from statefulspark.cli import state as state_command
from statefulspark.sinks.kafka import records
from statefulspark.sinks.postgres import columntypes
from typematrix import kinds, printed, reading

Texts = Callable[[kinds.Column], list[str]]


def differing(written: Texts) -> dict[str, list[tuple[object, object]]]:
    """Return, by column, the values that differ from what Spark prints, and Spark's."""
    found = {}
    for column in kinds.columns():
        texts = printed.recorded()[column.name]
        ours = [reading.OURS.value(column.kind, json.loads(text)) for text in written(column)]
        pairs = zip(ours, (reading.SPARK.read(column.kind, text) for text in texts), strict=True)
        if wrong := [pair for pair in pairs if pair[0] != pair[1]]:
            found[column.name] = wrong
    return found


def test_every_type_of_spark_is_in_the_matrix() -> None:
    assert frozenset() == kinds.UNLISTED
    assert list(printed.recorded()) == [column.name for column in kinds.columns()]


def test_a_record_of_kafka_has_what_spark_prints() -> None:
    def written(column: kinds.Column) -> list[str]:
        (batch,) = records.encode(iter([column.batch()]), records.JsonSerializer(key=column.name))
        return [json.dumps(json.loads(value)[column.name]) for value in batch.column("value").to_pylist()]

    assert differing(written) == {}


def test_the_key_of_a_record_is_its_value_in_the_record() -> None:
    for column in kinds.columns():
        (batch,) = records.encode(iter([column.batch()]), records.JsonSerializer(key=column.name))
        for key, value in batch.select(["key", "value"]).to_pylist() and zip(
            batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
        ):
            inside = value.decode().removeprefix(f"{{{json.dumps(column.name)}:").removesuffix("}")
            if isinstance(column.kind, types.BinaryType) or inside == "null":
                continue
            assert key.decode() == (json.loads(inside) if inside.startswith('"') else inside), column.name


def test_a_binary_key_is_its_bytes() -> None:
    (column,) = (column for column in kinds.leaves() if isinstance(column.kind, types.BinaryType))
    (batch,) = records.encode(iter([column.batch()]), records.JsonSerializer(key=column.name))
    assert batch.column("key").to_pylist() == column.values.to_pylist()


def test_a_serializer_gets_the_values_of_functions() -> None:
    rows: list[object] = []

    def serialize(row: object) -> records.KafkaRecord:
        rows.append(row)
        return records.KafkaRecord(b"")

    for column in kinds.columns():
        rows.clear()
        list(records.encode(iter([column.batch()]), serialize))
        expected = [{column.name: value} for value in rowvalues.shortest(column.values, column.name)]
        assert repr(rows) == repr(expected), column.name


def test_a_cell_of_jsonb_has_what_spark_prints() -> None:
    def written(column: kinds.Column) -> list[str]:
        cells = [cell for (cell,) in columntypes.rows(column.batch(), {column.name: "jsonb"})]
        is_json = isinstance(column.kind, types.StringType)  # Then it is written as it is.
        return [json.dumps(cell) if is_json else str(cell or "null") for cell in cells]

    assert differing(written) == {}


def test_state_that_is_printed_has_what_spark_prints() -> None:
    def written(column: kinds.Column) -> list[str]:
        lines = (
            state_command.render(pa.table([column.values], names=["c"]), state_command.StateOutput.JSON)
            .removesuffix("\n")
            .split("\n")
        )
        return [json.dumps(json.loads(line)["c"]) for line in lines]

    assert differing(written) == {}


def test_state_in_a_table_has_a_line_for_each_value() -> None:
    for column in kinds.columns():
        text = state_command.render(pa.table([column.values], names=["c"]), state_command.StateOutput.TEXT)
        assert len(text.splitlines()) == len(column.values) + 1, column.name
        assert text.replace("\n", " ").isprintable(), column.name
