"""Keyed state on real Spark equals a dict, through restarts, failures and dead workers."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from keyedstream import FileStream
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark import errors, state, usercode
from statefulspark.operators import keyed
from statefulspark.state import keygroups

pytestmark = pytest.mark.spark
# Functions of a job file are copied to the workers by value; those of this module have to be, too.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEMA = "carrier string, flight bigint, day int, delay bigint"
OUTPUT = "key string, rows bigint, total bigint, delays bigint, days int, pid int"


class Delays(state.KeyedProcessFunction):
    """Keeps one state of every kind, and fails once at a chosen key when it is told to."""

    def __init__(self, marker: Path | None = None, how: str = "raise") -> None:
        self._marker = str(marker) if marker else None
        self._how = how

    def open(self, ctx: state.KeyedContext) -> None:
        self.rows = ctx.value_state("rows", "bigint")
        self.total = ctx.reducing_state("total", lambda one, two: one + two)
        self.delays = ctx.list_state("delays", int)
        self.days = ctx.map_state("days", int, int)

    def process(self, key: object, rows: Iterable[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        self._fail_once(key)
        count = self.rows.get() or 0
        for row in rows:
            count += 1
            self.total.add(row.delay)
            if row.delay is not None and row.delay > 50:
                self.delays.add(row.delay)
            self.days.put(row["day"], row.flight)
        if count % 11 == 0:
            self.days.clear()
        self.rows.update(count)
        yield repr(key), count, self.total.get(), sum(self.delays), len(self.days.keys()), os.getpid()

    def _fail_once(self, key: object) -> None:
        if self._marker is None or key != "c3" or os.path.exists(self._marker):
            return
        with open(self._marker, "w") as file:
            file.write("failed")
        if self._how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("bad delay")


class Truth:
    """What `Delays` gives, computed without Spark."""

    def __init__(self) -> None:
        self.rows: Counter[object] = Counter()
        self.total: dict[object, int] = {}
        self.delays: Counter[object] = Counter()
        self.days: dict[object, dict[int, int]] = {}

    def add(self, key: object, rows: list[tuple[object, ...]]) -> tuple[object, ...]:
        days = self.days.setdefault(key, {})
        for _, flight, day, delay in rows:
            self.rows[key] += 1
            if delay is not None:
                self.total[key] = self.total.get(key, 0) + delay
                self.delays[key] += delay if delay > 50 else 0
            days[day] = flight
        if self.rows[key] % 11 == 0:
            days.clear()
        return repr(key), self.rows[key], self.total.get(key), self.delays[key], len(days)


KEYS = {
    "by-carrier": ("carrier",),
    "by-flight": ("flight",),
    "by-both": ("carrier", "day"),
}
_POSITIONS = {"carrier": 0, "flight": 1, "day": 2}


def _key(columns: tuple[str, ...], row: tuple[object, ...]) -> object:
    parts = tuple(row[_POSITIONS[column]] for column in columns)
    return parts[0] if len(parts) == 1 else parts


def _batch(chance: random.Random, size: int) -> list[tuple[object, ...]]:
    carriers = [None, *(f"c{number}" for number in range(12))]
    return [
        (
            chance.choice(carriers),
            chance.choice([None, 0, -7, 2**62 + 1, *range(20)]),
            chance.randrange(5),
            chance.choice([None, *range(-20, 100)]),
        )
        for _ in range(size)
    ]


def _expected(batches: list[list[tuple[object, ...]]], columns: tuple[str, ...]) -> list[set[tuple[object, ...]]]:
    truth, expected = Truth(), []
    for rows in batches:
        grouped: dict[object, list[tuple[object, ...]]] = {}
        for row in rows:
            grouped.setdefault(_key(columns, row), []).append(row)
        expected.append({truth.add(key, group) for key, group in grouped.items()})
    return expected


def _by_carrier(rows: DataFrame, function: Delays) -> DataFrame:
    return keyed.keyed_process(rows, key="carrier", function=function, uid="carriers", schema=OUTPUT, max_parallelism=8)


def _emitted(stream: FileStream) -> list[set[tuple[object, ...]]]:
    return [{tuple(row)[:5] for row in stream.batches[number]} for number in sorted(stream.batches)]


def test_three_operators_in_one_query_equal_a_dict_through_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Keys: string, long and composite, each with nulls; restarted twice from the same checkpoint root."""
    chance = random.Random(3)
    batches = [_batch(chance, size) for size in (200, 1, 150, 120)]
    stream = FileStream(spark, tmp_path, SCHEMA)

    def build(rows: DataFrame) -> DataFrame:
        parts = [
            keyed.keyed_process(
                rows, key=list(columns), function=Delays(), uid=uid, schema=OUTPUT, max_parallelism=8
            ).withColumn("uid", sql.lit(uid))
            for uid, columns in KEYS.items()
        ]
        return parts[0].union(parts[1]).union(parts[2])

    for some in (batches[:2], batches[2:3], batches[3:]):
        for rows in some:
            stream.feed(rows)
        stream.run(build)

    for uid, columns in KEYS.items():
        emitted = [
            {tuple(row)[:5] for row in stream.batches[number] if row.uid == uid} for number in range(len(batches))
        ]
        assert emitted == _expected(batches, columns)


@pytest.mark.parametrize("how", ["raise", "die"])
def test_a_batch_that_fails_half_way_changes_nothing(spark: SparkSession, tmp_path: Path, how: str) -> None:
    """The function fails, or its worker process dies, once, after other keys of the batch were worked on."""
    chance = random.Random(5)
    batches = [_batch(chance, 100) for _ in range(2)]
    stream = FileStream(spark, tmp_path, SCHEMA)
    marker = tmp_path / "failed"
    stream.feed(batches[0])
    stream.run(lambda rows: _by_carrier(rows, Delays()))
    stream.feed(batches[1])
    failures = stream.run_through_failures(lambda rows: _by_carrier(rows, Delays(marker, how)))

    assert marker.exists()
    assert failures
    if how == "raise":
        assert "Delays.process() of keyed operator 'carriers' failed for key 'c3': ValueError: bad delay" in failures[0]
        (*_, users) = usercode.parse_frames(failures[0])
        assert (Path(users.file).name, users.name) == (Path(__file__).name, "_fail_once")
        assert users.source == 'raise ValueError("bad delay")'
    assert _emitted(stream) == _expected(batches, ("carrier",))


def test_workers_that_die_between_batches_are_replaced_and_state_is_rebuilt(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(9)
    batches = [_batch(chance, 100) for _ in range(3)]
    stream = FileStream(spark, tmp_path, SCHEMA)
    pids: list[set[int]] = []
    for number, rows in enumerate(batches):
        stream.feed(rows)
        stream.run_through_failures(lambda rows: _by_carrier(rows, Delays()))
        pids.append({row.pid for row in stream.batches[number]})
        for pid in pids[-1]:
            os.kill(pid, signal.SIGKILL)

    assert not pids[0] & pids[1]
    assert not pids[1] & pids[2]
    assert _emitted(stream) == _expected(batches, ("carrier",))


def test_key_groups_found_in_python_are_the_ones_that_spark_uses(spark: SparkSession) -> None:
    chance = random.Random(11)
    texts = [None, "", "a", "ab", "abc", "abcd", "Grüße", *(os.urandom(chance.randrange(9)).hex() for _ in range(40))]
    types = ["string", "bigint", "int", "boolean", "date", "timestamp", "binary", "decimal(10,2)", "decimal(38,3)"]
    day, moment = datetime.date(2000, 1, 1), datetime.datetime(2000, 1, 1)
    keys = [
        (
            text,
            chance.choice([None, 0, -1, 2**63 - 1, -(2**63), chance.getrandbits(40)]),
            chance.choice([None, 0, -1, 2**31 - 1, -(2**31), chance.getrandbits(20)]),
            chance.choice([None, True, False]),
            chance.choice([None, day - datetime.timedelta(days=chance.getrandbits(15))]),
            chance.choice([None, moment - datetime.timedelta(microseconds=chance.getrandbits(50))]),
            None if text is None else text.encode(),
            chance.choice([None, decimal.Decimal(chance.getrandbits(24)) / 100, decimal.Decimal("-0.01")]),
            chance.choice([None, decimal.Decimal(chance.getrandbits(90)) / 8, decimal.Decimal("-12.125")]),
        )
        for text in texts
    ]
    names = [f"k{number}" for number in range(len(types))]
    frame = spark.createDataFrame(keys, ", ".join(map(" ".join, zip(names, types, strict=True))))
    single = [sql.pmod(sql.hash(name), sql.lit(128)) for name in names]
    found = [tuple(row) for row in frame.select(*single, sql.pmod(sql.hash(*names), sql.lit(100))).collect()]

    assert found == [
        (
            *(keygroups.key_group((part,), (kind,), 128) for part, kind in zip(key, types, strict=True)),
            keygroups.key_group(key, types, 100),
        )
        for key in keys
    ]


class Wrong(state.KeyedProcessFunction):
    """Yields a row that does not fit."""

    def __init__(self, row: object) -> None:
        self._row = row

    def process(self, key: object, rows: Iterable[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        return [self._row]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (("a", "b"), "yielded a value that does not fit column 'n' of type int64"),
        (("a",), "which is not a row of (key, n)"),
        ({"nokey": 1}, "which is not a row of (key, n)"),
    ],
)
def test_output_that_does_not_fit_the_schema_is_an_error_that_says_why(
    spark: SparkSession, tmp_path: Path, row: object, sentence: str
) -> None:
    stream = FileStream(spark, tmp_path, SCHEMA)
    stream.feed([("a", 1, 1, 1)])
    with pytest.raises(StreamingQueryException) as caught:
        stream.run(
            lambda rows: keyed.keyed_process(
                rows, key="carrier", function=Wrong(row), uid="wrong", schema="key string, n bigint"
            )
        )
    assert sentence in str(caught.value)


def test_names_on_storage_carry_the_uid(spark: SparkSession, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path, SCHEMA)
    stream.feed([("a", 1, 1, 1)])
    stream.run(lambda rows: _by_carrier(rows, Delays()))
    reader = spark.read.format("statestore").option("path", str(stream.checkpoint))
    heads = reader.option("stateVarName", "head_carriers").load().select("value.version", "value.base").collect()
    assert [tuple(head) for head in heads] == [(1, 1)]


def test_partitions_have_equally_many_key_groups(spark: SparkSession, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path, SCHEMA)
    stream.feed([(f"carrier {number}", 1, 1, 1) for number in range(200)])
    stream.run(lambda rows: _by_carrier(rows, Delays()))

    reader = spark.read.format("statestore").option("path", str(stream.checkpoint))
    heads = reader.option("stateVarName", "head_carriers").load().select("partition_id", "key.key_group").collect()
    partitions = len({partition for partition, _ in heads})
    groups = sorted(keygroups.marked(standing) for _, standing in heads)
    assert (partitions > 1, groups) == (True, list(range(8)))
    assert all(keygroups.marked(standing) % partitions == partition for partition, standing in heads)


class Remembers(state.KeyedProcessFunction):
    """Tells what it remembers of a key, expired or not as long as it is stored, and renews it."""

    def __init__(self, *, cleans: bool) -> None:
        shown = state.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
        self._life = state.Ttl(
            "1ms",
            visibility=shown,
            cleanup_in_background=False,
            cleanup_incrementally=10 if cleans else None,
            cleanup_for_every_record=cleans,
        )

    def open(self, ctx: state.KeyedContext) -> None:
        self.last = ctx.value_state("last", "bigint", ttl=self._life)

    def process(self, key: object, rows: Sequence[state.InputRow], ctx: state.KeyedContext) -> Iterable[object]:
        yield key, self.last.get()
        self.last.update(len(rows))


def test_records_of_other_keys_clean_up_all_expired_keys_of_the_partition(spark: SparkSession, tmp_path: Path) -> None:
    """A.31: also those in key groups that get no rows."""

    def run(*, cleans: bool) -> set[tuple[object, ...]]:
        stream.run(
            lambda rows: keyed.keyed_process(
                rows, key="carrier", function=Remembers(cleans=cleans), uid="last", schema="key string, last bigint"
            )
        )
        return {tuple(row) for row in stream.batches[max(stream.batches)]}

    stream = FileStream(spark, tmp_path, SCHEMA)
    hundred = [(f"carrier {number}", 1, 1, 1) for number in range(100)]
    stream.feed(hundred)
    run(cleans=False)
    stream.feed([(f"another {number % 4}", 1, 1, 1) for number in range(160)])
    run(cleans=True)
    stream.feed(hundred)

    assert run(cleans=False) == {(key, None) for key, *_ in hundred}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"uid": "Bad Uid"}, "'Bad Uid' is not a valid operator uid"),
        ({"uid": "x" * 64}, "1 to 63 lower-case letters"),
        ({"key": "nothing"}, "key column 'nothing', but its input has only carrier"),
        ({"key": "ratio"}, "key column 'ratio' of type double"),
        ({"key": []}, "has no key column"),
        ({"function": Delays}, "Pass an instance, not the class"),
        ({"max_parallelism": 40000}, "between 1 and 32768. Found: 40000"),
        ({"schema": ""}, "needs an output schema"),
    ],
)
def test_arguments_that_cannot_work_are_refused_when_the_query_is_built(
    spark: SparkSession, arguments: dict[str, object], sentence: str
) -> None:
    frame = spark.createDataFrame([("a", 0.5)], "carrier string, ratio double")
    valid: dict[str, object] = {"key": "carrier", "function": Delays(), "uid": "carriers", "schema": OUTPUT}
    with pytest.raises(errors.SpecRejectedError) as caught:
        keyed.keyed_process(frame, **{**valid, **arguments})  # type: ignore[arg-type]
    assert sentence in caught.value.message


def test_two_operators_of_a_job_with_one_uid_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, 1, 1)], SCHEMA)
    registry = keyed.OperatorRegistry()
    with keyed.collecting(registry, query_uid="one"):
        _by_carrier(frame, Delays())
    with (
        keyed.collecting(registry, query_uid="two"),
        pytest.raises(errors.SpecRejectedError, match="'carriers' is used twice: by Delays in query 'one' and by"),
    ):
        _by_carrier(frame, Delays())
    assert (
        registry.operators_of("one")
        == registry.operators
        == (keyed.Operator("carriers", "one", 8, ("carrier",), "string", "Delays"),)
    )
