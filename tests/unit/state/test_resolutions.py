"""How stored state is taken over by what is declared: whole resolutions, values that are rewritten, and each refusal."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import NamedTuple

import pytest
from statefulspark import errors
from statefulspark.state import aggregatingstate, evolution, kinds, liststate, mapstate, ttl, valuestate
from statefulspark.state.types import conversions, typetext
from statefulspark.state.types.conversions import CodecCompatibility

_KEY_OF_A_MAP = "The type of the keys of a map can never change."
_VALUE, _LIST, _MAP = valuestate.VALUE, liststate.LIST, mapstate.MAP


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pale(enum.Enum):
    BLUE = 2


class Tenths(conversions.Codec[float]):
    """Stored as tenths; version 1 stored units."""

    name = "degrees"
    version = 2

    def migrate(self, stored: object, version: int) -> object:
        return (stored * 10, version)  # type: ignore[operator]


class Units(conversions.Codec[float]):
    """Version 1."""

    name = "degrees"


class Lenient(conversions.Codec[float]):
    """Version 3: goes on in any older form."""

    name = "degrees"
    version = 3

    def compatibility(self, stored: conversions.CodecVersion) -> CodecCompatibility:
        return (
            CodecCompatibility.RECONFIGURED
            if (stored.name, stored.version) == ("degrees", 1)
            else CodecCompatibility.INCOMPATIBLE
        )


class Undecided(conversions.Codec[float]):
    """Cannot say whether it reads what is stored."""

    name = "degrees"
    version = 4

    def compatibility(self, stored: conversions.CodecVersion) -> CodecCompatibility:
        raise KeyError(stored.version)


class Clumsy(Tenths):
    """Says that it migrates, and fails."""

    def migrate(self, stored: object, version: int) -> object:
        raise ZeroDivisionError(f"{stored} of version {version}")


class Flight(NamedTuple):
    carrier: str
    delay: int


class Late(NamedTuple):
    delay: float
    carrier: str


class Swapped(NamedTuple):
    delay: int
    carrier: str


@dataclasses.dataclass
class Day:
    flight: Flight
    count: int
    color: Color


@dataclasses.dataclass
class LateDay:
    airport: str
    flight: Late
    color: Color


class Named(NamedTuple):
    carrier: str
    delay: int
    color: Color = Color.BLUE


@dataclasses.dataclass
class NamedDay:
    flight: Named | None
    count: int
    color: Color


@dataclasses.dataclass
class SwappedDay:
    flight: Swapped
    count: int
    color: Color


@dataclasses.dataclass
class SwappedDayAndMore:
    flight: Swapped
    count: int
    color: Color
    airport: str


@dataclasses.dataclass
class PaleDay:
    flight: Flight
    count: int
    color: Pale


def _compare(stored: object, declared: object) -> evolution.Verdict:
    was, now = (typetext.parse(typetext.canonical(kind)) for kind in (stored, declared))
    return evolution.compare(was, now, declared)


@pytest.mark.parametrize(
    ("stored", "declared", "before", "after"),
    [
        pytest.param("bigint", "double", 3, 3.0, id="a whole number"),
        pytest.param("bigint", "double", None, None, id="no number"),
        pytest.param("array<bigint>", "array<double>", [1, None], [1.0, None], id="numbers of a list"),
        pytest.param("map<string,int>", "map<string,double>", {"a": 1, "b": None}, {"a": 1.0, "b": None}, id="of a map"),
        pytest.param(
            "struct<a:int,b:string,gone:int>",
            "struct<new:int,b:string,a:double>",
            {"a": 1, "b": "x", "gone": 3},
            {"a": 1.0, "b": "x", "new": None},
            id="a struct loses a field, gets one, and keeps the others",
        ),
        pytest.param("struct<a:int,b:int>", "struct<a:double,b:int>", {"a": None, "b": 2}, {"a": None, "b": 2},
                     id="one field of a struct"),
        pytest.param(Flight, Late, ("AA", 3), (3.0, "AA"), id="a record in another order"),
        pytest.param(Flight, Late, ("AA", None), (None, "AA"), id="a field that is none stays none"),
        pytest.param(Day, LateDay, (("AA", 3), 7, "RED"), (None, (3.0, "AA"), "RED"), id="a record in a record"),
        pytest.param(list[Flight], list[Late], [("AA", 3), None], [(3.0, "AA"), None], id="records of a list"),
        pytest.param(dict[str, Flight], dict[str, Late], {"a": ("AA", 3)}, {"a": (3.0, "AA")}, id="records of a dict"),
        pytest.param(dict[str, list[Flight]], dict[str, list[Late]], {"a": [("AA", 3)]}, {"a": [(3.0, "AA")]},
                     id="records of lists of a dict"),
        pytest.param(Flight, Named, ("AA", 3), ("AA", 3, "BLUE"), id="a new field of a record has its default"),
        pytest.param(Flight | None, Named | None, ("AA", 3), ("AA", 3, "BLUE"), id="of a record that may be none"),
        pytest.param(list[Flight], list[Named], [("AA", 3)], [("AA", 3, "BLUE")], id="of a record in a list"),
        pytest.param(Day, NamedDay, (("AA", 3), 7, "RED"), (("AA", 3, "BLUE"), 7, "RED"), id="of a record in a record"),
        pytest.param(Units(), Tenths(), 4, (40, 1), id="a codec, which is told the version"),
    ],
)  # fmt: skip
def test_a17_a_migration_rewrites(stored: object, declared: object, before: object, after: object) -> None:
    verdict = _compare(stored, declared)

    assert verdict.outcome is CodecCompatibility.AFTER_MIGRATION
    assert verdict.convert is not None
    assert repr(verdict.convert(before)) == repr(after), "1 and 1.0 are equal, and not the same"


def test_what_a_codec_raises_is_a_failure_of_the_job_and_names_codec_and_method() -> None:
    verdict = _compare(Units(), Clumsy())
    assert verdict.convert is not None

    with pytest.raises(
        errors.UserCodeError, match=r"^FunctionFailed: migrate\(\) of the codec degrees .*4 of version 1"
    ) as failed:
        verdict.convert(4)
    with pytest.raises(
        errors.UserCodeError, match=r"^FunctionFailed: compatibility\(\) of the codec degrees "
    ) as unsure:
        _compare(Units(), Undecided())

    assert isinstance(failed.value.raised, ZeroDivisionError)
    assert isinstance(unsure.value.raised, KeyError)


@pytest.mark.parametrize(
    ("stored", "declared", "why"),
    [
        pytest.param("double", "bigint", "", id="a fraction as a whole number"),
        pytest.param("riddle", "mystery", "", id="unknown types"),
        pytest.param("map<string,int>", "map<int,int>", _KEY_OF_A_MAP, id="keys of a map"),
        pytest.param("array<string,int>", "array<string>", "", id="another number of parts"),
        pytest.param("array<int>", "array<string>", "", id="elements of a list"),
        pytest.param(Color, Pale, "The member RED is gone.", id="a member of an enum"),
        pytest.param(None, Flight, "Values of any type cannot be read as record<carrier:str,delay:int>.", id="a record"),
        pytest.param(None, Color, "Values of any type cannot be read as enum<RED,BLUE>.", id="an enum"),
        pytest.param("any", "codec<x,1>", "Values of any type cannot be read as codec<x,1>.", id="a codec's text"),
        pytest.param("double", Units(), "It was not written by the codec degrees.", id="no codec"),
        pytest.param("enum<degrees,1>", Units(), "It was not written by the codec degrees.", id="an enum of that name"),
        pytest.param("codec<degrees>", Units(), "It was not written by the codec degrees.", id="a codec without version"),
        pytest.param("codec<a,1,2>", Units(), "It was not written by the codec degrees.", id="with too much"),
        pytest.param("codec<degrees,x>", Units(), "It was not written by the codec degrees.", id="with another version"),
        pytest.param(Tenths(), Units(), "The codec degrees 1 does not read degrees 2.", id="a newer codec"),
        pytest.param(Day, PaleDay, "The field color was enum<RED,BLUE> and is enum<BLUE>. The member RED is gone.",
                     id="a field says why"),
        pytest.param("struct<a:int>", "struct<a:string>", "The field a was int and is string.", id="a field of a struct"),
        pytest.param(Day, SwappedDayAndMore,
                     "One field keeps its old form while others change; change one field at a time.",
                     id="one field reconfigured and another new"),
    ],
)  # fmt: skip
def test_a17_what_does_not_fit_says_why(stored: object, declared: object, why: str) -> None:
    assert _compare(stored, declared) == evolution.Verdict(CodecCompatibility.INCOMPATIBLE, None, why)


@pytest.mark.parametrize(
    ("stored", "declared", "outcome"),
    [
        pytest.param(Day, Day, CodecCompatibility.AS_IS, id="the same"),
        pytest.param(Day, SwappedDay, CodecCompatibility.RECONFIGURED, id="a record in it in another order"),
        pytest.param(
            list[Flight], list[Swapped], CodecCompatibility.RECONFIGURED, id="records of a list in another order"
        ),
        pytest.param(Units(), Lenient(), CodecCompatibility.RECONFIGURED, id="a codec that says so"),
        pytest.param(Flight, None, CodecCompatibility.AS_IS, id="declared without a type"),
        pytest.param("any", "bigint", CodecCompatibility.AS_IS, id="any value, checked when it is written"),
        pytest.param(
            "struct<a:int,b:int>", "struct<b:int,a:int>", CodecCompatibility.AS_IS, id="fields of a struct have names"
        ),
    ],
)
def test_a17_what_fits_rewrites_nothing(stored: object, declared: object, outcome: CodecCompatibility) -> None:
    assert _compare(stored, declared) == evolution.Verdict(outcome)


def _meta(type_text: str = "bigint", kind: kinds.StateKind = _VALUE, *, ttl: bool = False) -> kinds.StateMeta:
    return kinds.StateMeta("s", kind, type_text, has_ttl=ttl)


_MIGRATE = ttl.TtlChange.MIGRATE


@pytest.mark.parametrize(
    ("stored", "declared", "change", "rewrites"),
    [
        pytest.param(_meta(), _meta(), "", False, id="the same"),
        pytest.param(_meta(), _meta(ttl=True), "on", True, id="switched on"),
        pytest.param(_meta(ttl=True), _meta(), "off", True, id="switched off"),
    ],
)
def test_b12_a_time_to_live_that_is_switched_by_choice_is_rewritten(
    stored: kinds.StateMeta, declared: kinds.StateMeta, change: str, rewrites: bool
) -> None:
    found = evolution.resolve(stored, evolution.Declaration(declared, "bigint", _MIGRATE))

    assert found == evolution.Resolution(declared, None, typetext.parse("bigint"), change)
    assert found.rewrites is rewrites


def test_a_migrated_state_is_written_down_as_it_is_declared() -> None:
    declared = _meta("array<double>", _LIST, ttl=True)

    found = evolution.resolve(_meta("array<bigint>", _LIST), evolution.Declaration(declared, "double", _MIGRATE))

    assert (found.meta, found.kind, found.ttl_change) == (declared, typetext.parse("double"), "on")
    assert found.rewrites
    assert found.convert is not None
    assert repr(found.convert(3)) == "3.0"


def test_a_reconfigured_state_is_written_down_as_it_was() -> None:
    stored, declared = _meta("codec<degrees,1>", ttl=True), _meta("codec<degrees,3>")

    found = evolution.resolve(stored, evolution.Declaration(declared, Lenient(), _MIGRATE))

    assert found == evolution.Resolution(_meta("codec<degrees,1>"), None, typetext.parse("codec<degrees,1>"), "off")


@pytest.mark.parametrize(
    ("type_text", "kind", "value"),
    [
        ("bigint", _VALUE, "bigint"),
        ("array<bigint>", _VALUE, "array<bigint>"),
        ("array<bigint>", _LIST, "bigint"),
        ("any", _LIST, "any"),
        ("map<string,bigint>", _MAP, "bigint"),
    ],
)
def test_the_type_of_values_is_what_one_of_them_has(type_text: str, kind: kinds.StateKind, value: str) -> None:
    assert evolution.value_type(_meta(type_text, kind)) == typetext.parse(value)


@pytest.mark.parametrize(
    ("stored", "declared", "reason", "message"),
    [
        pytest.param(
            _meta(),
            _meta("array<bigint>", _LIST),
            "StateTypeIncompatible",
            "Incompatible key/value state types. Was [ValueState<bigint>], registered with [ListState<array<bigint>>]. "
            "State 's' was written with the first; declare it so again, or give the new one another name.",
            id="A.13 another kind",
        ),
        pytest.param(
            _meta(),
            _meta("string"),
            "StateTypeIncompatible",
            "Incompatible key/value state types. Was [ValueState<bigint>], registered with [ValueState<string>]. "
            "State 's' was written with the first; declare it so again, or give the new one another name.",
            id="A.14 another type",
        ),
        pytest.param(
            _meta("map<string,int>", _MAP),
            _meta("map<bigint,int>", _MAP),
            "StateTypeIncompatible",
            "Incompatible key/value state types. Was [MapState<map<string,int>>], registered with "
            f"[MapState<map<bigint,int>>]. {_KEY_OF_A_MAP} State 's' was written with the first; declare it so again, or "
            "give the new one another name.",
            id="A.14 another type of the keys of a map",
        ),
        pytest.param(
            _meta(ttl=True),
            _meta(),
            "StateTtlIncompatible",
            "State 's' was written with a time to live and is declared without one. Declare it as it was, give it another "
            "name, or ask for the change with keyed_process(…, ttl_change=TtlChange.MIGRATE).",
            id="A.26 switched off",
        ),
        pytest.param(
            _meta(),
            _meta(ttl=True),
            "StateTtlIncompatible",
            "State 's' was written without a time to live and is declared with one. Declare it as it was, give it another "
            "name, or ask for the change with keyed_process(…, ttl_change=TtlChange.MIGRATE).",
            id="A.26 switched on",
        ),
    ],
)
def test_state_that_cannot_be_taken_over_is_refused_with_both_sides(
    stored: kinds.StateMeta, declared: kinds.StateMeta, reason: str, message: str
) -> None:
    with pytest.raises(errors.SpecRejectedError) as refused:
        evolution.resolve(stored, evolution.Declaration(declared, declared.type_text))

    assert (refused.value.reason, refused.value.message) == (reason, message)


def test_a14_the_keys_of_a_map_are_looked_at_for_themselves() -> None:
    """Values that migrate say nothing of the keys."""
    stored, declared = _meta("map<string,int>", _MAP), _meta("map<string,double>", _MAP)

    assert evolution.resolve(stored, evolution.Declaration(declared)).convert is not None


def test_a14_a_map_whose_keys_were_not_known_may_be_given_types() -> None:
    declared = _meta("map<string,int>", _MAP)

    assert evolution.resolve(_meta("any", _MAP), evolution.Declaration(declared)).meta == declared


@pytest.mark.parametrize(("stored", "declared"), [("int", "int"), ("", "int"), ("int", "")])
def test_a14_keys_of_the_same_or_an_unknown_type_fit(stored: str, declared: str) -> None:
    evolution.check_key_type(stored, declared, "sums")


def test_a14_keys_of_another_type_are_refused_by_reason() -> None:
    with pytest.raises(errors.SpecRejectedError, match="operator 'sums' was written with the latter") as refused:
        evolution.check_key_type("int", "bigint", "sums")

    assert refused.value.reason == "StateKeyTypeIncompatible"


@pytest.mark.parametrize(
    ("declare", "type_text"),
    [
        pytest.param(lambda: valuestate.ValueStateDescriptor("s", int), "int", id="a value"),
        pytest.param(lambda: liststate.ListStateDescriptor("s", int), "array<int>", id="a list"),
        pytest.param(lambda: mapstate.MapStateDescriptor("s", str, int), "map<str,int>", id="a map"),
        pytest.param(lambda: aggregatingstate.ReducingStateDescriptor("s", max, int), "int", id="a reducing state"),
        pytest.param(lambda: mapstate.MapStateDescriptor("s"), "map<any,any>", id="nothing declared"),
    ],
)
def test_a_declared_type_is_written_down(declare: Callable[[], kinds.Descriptor], type_text: str) -> None:
    assert declare().type_text == type_text


@pytest.mark.parametrize("name", ["s", "_s", "S9_.-", "s" * 128])
def test_a_name_for_a_state_is_allowed(name: str) -> None:
    assert valuestate.ValueStateDescriptor(name).name == name


@pytest.mark.parametrize("name", ["", "9s", "-s", "s s", "größe", "s" * 129])
@pytest.mark.parametrize("build", [
    valuestate.ValueStateDescriptor, liststate.ListStateDescriptor, mapstate.MapStateDescriptor,
    lambda name: aggregatingstate.ReducingStateDescriptor(name, max),
    lambda name: aggregatingstate.AggregatingStateDescriptor(name, None),
], ids=["value", "list", "map", "reducing", "aggregating"])  # fmt: skip
def test_a_name_that_is_none_is_refused_for_every_kind(build: Callable[[str], object], name: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=f"^StateNameInvalid: '{name}' is not a valid state name"):
        build(name)
