"""Evolution of state: the four outcomes, decided from what is stored with the state (A.13, A.14, A.17)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
from collections.abc import Callable
from typing import NamedTuple

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import aggregatingstate, evolution, functions, liststate, mapstate, ttl, valuestate
from statefulspark.state.types import conversions, typetext
from statefulspark.state.types.conversions import CodecCompatibility


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class MoreColors(enum.Enum):
    BLUE = 7
    RED = 8
    GREEN = 9


class FewerColors(enum.Enum):
    RED = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Flight(NamedTuple):
    carrier: str
    delay: int
    color: Color | None = None


class Reordered(NamedTuple):
    delay: int
    color: Color | None
    carrier: str


class Wider(NamedTuple):
    delay: float
    carrier: str
    airport: str = "JFK"


class Narrower(NamedTuple):
    carrier: int


@dataclasses.dataclass
class Trip:
    flights: list[Flight]
    by_day: dict[int, Flight]
    when: datetime.datetime
    price: decimal.Decimal = decimal.Decimal(0)
    tags: list[str] = dataclasses.field(default_factory=list)


class Celsius(conversions.Codec[float]):
    """Degrees, stored as tenths since version 2."""

    name = "degrees"
    version = 2

    def encode(self, value: float) -> object:
        return round(value * 10)

    def decode(self, stored: object) -> float:
        return stored / 10  # type: ignore[operator]

    def migrate(self, stored: object, version: int) -> object:
        assert version == 1
        return round(stored * 10)  # type: ignore[operator]


class OldCelsius(conversions.Codec[float]):
    """Degrees, as version 1 stored them; cannot read anything else."""

    name = "degrees"

    def encode(self, value: float) -> object:
        return value

    def decode(self, stored: object) -> float:
        return stored  # type: ignore[return-value]


class StaysOld(OldCelsius):
    """Version 3, which goes on with the form of version 1."""

    version = 3

    def compatibility(self, stored: conversions.CodecVersion) -> CodecCompatibility:
        return CodecCompatibility.RECONFIGURED if stored.version == 1 else CodecCompatibility.INCOMPATIBLE


class Bench:
    """One key group whose declaration changes, as at the start of another version of a job."""

    def __init__(self) -> None:
        self.log, self._ids = MemoryLog(), new_ids()

    def run(self, descriptor: object, work: Callable[..., object], *, new_worker: bool = True) -> object:
        results: list[object] = []

        def open_function(context: functions.BatchContext) -> None:
            self.handle = context.declare(descriptor)

        def on_key(context: functions.BatchContext) -> None:
            context.enter("k")
            results.append(work(self.handle))

        Worker(open_function, self._ids).run(self.log, on_key)
        return results[0]


def _value(declared: object) -> valuestate.ValueStateDescriptor:
    return valuestate.ValueStateDescriptor("s", declared)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Color, Color.BLUE),
        (Flight, Flight("AA", 3, Color.RED)),
        (Flight, Flight("AA", 3)),
        (
            Trip,
            Trip([Flight("AA", 1)], {2: Flight("B6", 2, Color.BLUE)}, datetime.datetime(2026, 1, 1), decimal.Decimal(2)),
        ),
        (list[Flight], [Flight("AA", 1), Flight("B6", 2)]),
        (dict[str, Flight | None], {"a": Flight("AA", 1), "b": None}),
        (Celsius(), 36.6),
        (tuple, (1, "a")),
        (datetime.timedelta, datetime.timedelta(days=1)),
    ],
)  # fmt: skip
def test_a17_values_of_own_types_come_back_equal_in_every_kind_of_state(declared: object, value: object) -> None:
    bench = Bench()
    for make, write, read in (
        (_value, lambda s: s.update(value), lambda s: s.get()),
        (lambda kind: liststate.ListStateDescriptor("l", kind), lambda s: s.add(value), lambda s: s.get()[0]),
        (
            lambda kind: mapstate.MapStateDescriptor("m", str, kind),
            lambda s: s.put("x", value),
            lambda s: s.items()[0][1],
        ),
        (
            lambda kind: aggregatingstate.ReducingStateDescriptor("r", lambda _, new: new, kind),
            lambda s: (s.add(value), s.add(value)),
            lambda s: s.get(),
        ),
    ):
        bench.run(make(declared), write)
        found = bench.run(make(declared), read)
        assert (found, type(found)) == (value, type(value))


CASES = [
    ("bigint", "int", CodecCompatibility.AS_IS),
    ("bigint", int, CodecCompatibility.AS_IS),
    ("bigint", None, CodecCompatibility.AS_IS),
    (None, "bigint", CodecCompatibility.AS_IS),
    ("string", str, CodecCompatibility.AS_IS),
    ("timestamp", datetime.datetime, CodecCompatibility.AS_IS),
    ("decimal(10,2)", decimal.Decimal, CodecCompatibility.AS_IS),
    ("bigint", "double", CodecCompatibility.AFTER_MIGRATION),
    ("double", "bigint", CodecCompatibility.INCOMPATIBLE),
    ("bigint", "string", CodecCompatibility.INCOMPATIBLE),
    ("array<bigint>", list[int], CodecCompatibility.AS_IS),
    ("array<int>", "array<double>", CodecCompatibility.AFTER_MIGRATION),
    ("array<int>", "array<string>", CodecCompatibility.INCOMPATIBLE),
    ("map<string,int>", "map<string,double>", CodecCompatibility.AFTER_MIGRATION),
    ("map<string,int>", "map<int,int>", CodecCompatibility.INCOMPATIBLE),
    ("struct<a:int,b:string>", "struct<b:string, a:int>", CodecCompatibility.AS_IS),
    ("struct<a:int,b:string>", "struct<a:int>", CodecCompatibility.AFTER_MIGRATION),
    ("struct<a:int>", "struct<a:int,b:string>", CodecCompatibility.AFTER_MIGRATION),
    ("struct<a:int>", "struct<a:string>", CodecCompatibility.INCOMPATIBLE),
    ("mystery", "mystery", CodecCompatibility.AS_IS),
    ("mystery", "riddle", CodecCompatibility.INCOMPATIBLE),
    (Flight, Flight, CodecCompatibility.AS_IS),
    (Flight, Reordered, CodecCompatibility.RECONFIGURED),
    (Flight, Wider, CodecCompatibility.AFTER_MIGRATION),
    (Flight, Narrower, CodecCompatibility.INCOMPATIBLE),
    (None, Flight, CodecCompatibility.INCOMPATIBLE),
    (Color, MoreColors, CodecCompatibility.AS_IS),
    (Color, FewerColors, CodecCompatibility.INCOMPATIBLE),
    (Celsius(), Celsius(), CodecCompatibility.AS_IS),
    (OldCelsius(), Celsius(), CodecCompatibility.AFTER_MIGRATION),
    (OldCelsius(), StaysOld(), CodecCompatibility.RECONFIGURED),
    (Celsius(), OldCelsius(), CodecCompatibility.INCOMPATIBLE),
    ("double", Celsius(), CodecCompatibility.INCOMPATIBLE),
    (list[Flight], list[Reordered], CodecCompatibility.RECONFIGURED),
    (dict[str, Flight], dict[str, Wider], CodecCompatibility.AFTER_MIGRATION),
]


@pytest.mark.parametrize(("stored", "declared", "outcome"), CASES)
def test_a17_the_outcome_follows_from_the_stored_and_the_declared_type(
    stored: object, declared: object, outcome: CodecCompatibility
) -> None:
    was, now = typetext.canonical(stored), typetext.canonical(declared)
    assert evolution.compare(typetext.parse(was), typetext.parse(now), declared).outcome is outcome


def test_a_type_that_stays_as_it_is_rewrites_nothing() -> None:
    bench = Bench()
    bench.run(_value(Color), lambda s: s.update(Color.RED))
    before = dict(bench.log.chunks)
    assert bench.run(_value(MoreColors), lambda s: s.get()) is MoreColors.RED
    assert bench.log.chunks == before


def test_a_migrated_state_is_rewritten_at_once_and_read_by_the_new_version_only() -> None:
    bench = Bench()
    bench.run(_value(Flight), lambda s: s.update(Flight("AA", 3, Color.RED)))
    assert bench.run(_value(Wider), lambda s: s.get()) == Wider(3.0, "AA", "JFK")
    assert bench.log.head().version == 2  # type: ignore[union-attr]
    assert bench.run(_value(Wider), lambda s: s.get()) == Wider(3.0, "AA", "JFK")
    assert bench.log.head().version == 2  # type: ignore[union-attr]
    with pytest.raises(errors.SpecRejectedError, match="The field delay was float and is int"):
        bench.run(_value(Flight), lambda s: s.get())


class Leg(NamedTuple):
    carrier: str


class ColoredLeg(NamedTuple):
    carrier: str
    color: Color = Color.BLUE
    before: Flight | None = Flight("B6", 2, Color.RED)
    after: Flight | None = None


@dataclasses.dataclass
class TaggedLeg:
    carrier: str
    tags: list[Color] = dataclasses.field(default_factory=lambda: [Color.RED])


@pytest.mark.parametrize(
    ("declared", "value"),
    [(ColoredLeg, ColoredLeg("AA")), (TaggedLeg, TaggedLeg("AA"))],
    ids=["an enum and a record", "a list of an enum, made anew for each"],
)
def test_a_new_field_whose_default_is_of_an_own_type_ended_the_job_at_its_migration(
    declared: type, value: object
) -> None:
    bench = Bench()
    bench.run(_value(Leg), lambda s: s.update(Leg("AA")))

    assert bench.run(_value(declared), lambda s: s.get()) == value
    assert bench.run(_value(declared), lambda s: s.get()) == value


@pytest.mark.parametrize(
    ("stored", "declared", "before", "after"),
    [
        pytest.param(Flight | None, Wider | None, Flight("AA", 3), Wider(3.0, "AA", "JFK"), id="a value"),
        pytest.param(
            dict[str, Flight | None],
            dict[str, Wider | None],
            {"a": Flight("AA", 3), "b": None},
            {"a": Wider(3.0, "AA", "JFK"), "b": None},
            id="the values of a dict",
        ),
    ],
)
def test_a_new_field_of_a_record_that_may_be_none_had_no_default(
    stored: object, declared: object, before: object, after: object
) -> None:
    bench = Bench()
    bench.run(_value(stored), lambda s: s.update(before))

    assert bench.run(_value(declared), lambda s: s.get()) == after


def test_a_reconfigured_state_goes_on_in_its_stored_form_and_can_be_rolled_back() -> None:
    bench = Bench()
    bench.run(_value(Flight), lambda s: s.update(Flight("AA", 3, Color.RED)))
    before = dict(bench.log.chunks)
    assert bench.run(_value(Reordered), lambda s: s.get()) == Reordered(3, Color.RED, "AA")
    assert bench.log.chunks == before
    bench.run(_value(Reordered), lambda s: s.update(Reordered(4, None, "B6")))
    assert bench.run(_value(Flight), lambda s: s.get()) == Flight("B6", 4, None)


def test_a_codec_migrates_what_its_older_version_stored() -> None:
    bench = Bench()
    bench.run(liststate.ListStateDescriptor("s", OldCelsius()), lambda s: s.update([1.5, 20.0]))
    assert bench.run(liststate.ListStateDescriptor("s", Celsius()), lambda s: s.get()) == [1.5, 20.0]
    assert bench.run(liststate.ListStateDescriptor("s"), lambda s: s.get()) == [15, 200]


def test_migration_and_a_switched_time_to_live_go_together() -> None:
    bench = Bench()
    bench.run(_value(int), lambda s: s.update(3))
    results: list[object] = []

    def open_function(context: functions.BatchContext) -> None:
        bench.handle = context.value_state("s", float, ttl=ttl.Ttl("1h"))

    def on_key(context: functions.BatchContext) -> None:
        context.enter("k")
        results.append(bench.handle.get())  # type: ignore[attr-defined]

    worker = Worker(open_function, lambda: "x1", ttl_change=ttl.TtlChange.MIGRATE)
    worker.run(bench.log, on_key, now_ms=5)
    assert (results, type(results[0])) == ([3.0], float)


def test_a14_the_type_of_the_keys_of_a_map_never_changes_and_that_of_its_values_may() -> None:
    bench = Bench()
    bench.run(mapstate.MapStateDescriptor("s", str, int), lambda s: s.put("a", 1))
    assert bench.run(mapstate.MapStateDescriptor("s", str, float), lambda s: s.items()) == [("a", 1.0)]
    with pytest.raises(errors.SpecRejectedError, match="The type of the keys of a map can never change"):
        bench.run(mapstate.MapStateDescriptor("s", int, float), lambda s: s.items())


def test_a14_the_type_of_a_key_never_changes() -> None:
    evolution.check_key_type("string, bigint", "string, bigint", "u")
    evolution.check_key_type("", "string", "u")
    with pytest.raises(errors.SpecRejectedError, match=r"new key type \(bigint\) must be compatible with the previous"):
        evolution.check_key_type("int", "bigint", "u")


def test_a13_both_types_are_named_when_one_operator_declares_a_name_twice() -> None:
    def declare(context: functions.BatchContext) -> None:
        context.declare(_value(Color))
        context.declare(_value(Flight))

    with pytest.raises(errors.SpecRejectedError, match=r"Was \[ValueState<enum<RED,BLUE>>\], registered with \[Value"):
        Worker(declare, new_ids()).run(MemoryLog(), lambda _: None)


@pytest.mark.parametrize(
    ("declared", "value", "sentence"),
    [
        (int, "1", "given a value of type str, and is declared as int"),
        ("double", "x", "given a value of type str, and is declared as double"),
        (bool, 1, "given a value of type int, and is declared as bool"),
        ("array<bigint>", (1,), "given a value of type tuple, and is declared as array<bigint>"),
        (Flight, ("AA", 1), "declared as Flight got"),
        (Color, "RED", "declared as Color got 'RED'"),
        (Rights, Rights.READ | Rights.WRITE, r"declared as Rights got <Rights.*has no name of its own"),
        (Rights, Rights(0), r"declared as Rights got <Rights: 0>.*has no name of its own"),
    ],
)
def test_a_value_of_another_type_than_declared_is_refused_when_it_is_written(
    declared: object, value: object, sentence: str
) -> None:
    for descriptor, write in (
        (_value(declared), lambda s: s.update(value)),
        (liststate.ListStateDescriptor("l", declared), lambda s: s.add(value)),  # type: ignore[arg-type]
        (mapstate.MapStateDescriptor("m", str, declared), lambda s: s.put("x", value)),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.SpecRejectedError, match=sentence):
            Bench().run(descriptor, write)


@pytest.mark.parametrize("declared", [3, list, "array<array<bigint>>", "timestamp_ntz"])
def test_types_are_text_or_types(declared: object) -> None:
    if declared == 3:
        with pytest.raises(errors.SpecRejectedError, match="3 is not a valid state type"):
            _value(declared).type_text  # noqa: B018 - it raises
    else:
        assert typetext.parse(typetext.canonical(declared)).family != "opaque"
