"""What becomes of the single states of keyed operators, from what manifests and functions say (A.13, A.14, A.25)."""

from __future__ import annotations

import pytest
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark import errors
from statefulspark.contract.manifest import KeyedStateEntry
from statefulspark.evolution import comparison, keyed_states
from statefulspark.state import functions, liststate, mapstate, timers, ttl, valuestate

_NAME = "transformWithStateInPandasExec"
WHERE = "operator 'sums' of query 'q'"


class Declares(functions.KeyedProcessFunction):
    """Declares what it is given."""

    def __init__(self, *states: valuestate.ValueStateDescriptor | liststate.ListStateDescriptor) -> None:
        self._states = states

    def open(self, ctx: functions.BatchContext) -> None:
        for state in self._states:
            ctx.declare(state)


def changed(
    stored: tuple[KeyedStateEntry, ...] | None,
    *states: valuestate.ValueStateDescriptor | liststate.ListStateDescriptor,
    ttl_change: ttl.TtlChange = ttl.TtlChange.REFUSE,
    known: bool = True,
) -> comparison.Evolution:
    query = a_query("q", an_operator("sums", states=stored))
    change = comparison.evolve(query, a_planned_query(a_planned_operator("sums")))
    declared = functions.declarations_of(Declares(*states), "sums", ttl_change=ttl_change)
    return keyed_states.compare(change, {"sums": declared.states if known else None})


def value(type_: str = "int", *, has_ttl: bool = False) -> KeyedStateEntry:
    return KeyedStateEntry(name="n", kind="ValueState", type=type_, has_ttl=has_ttl)


DAY = ttl.Ttl("1d")


@pytest.mark.parametrize(
    ("stored", "declared", "migrates", "told"),
    [
        pytest.param((value(),), valuestate.ValueStateDescriptor("n", int), False, (), id="the same"),
        pytest.param(
            (value(),),
            valuestate.ValueStateDescriptor("n", float),
            False,
            (f"{WHERE}: state 'n' is migrated from int to float, each key group when it is next used",),
            id="migrated",
        ),
        pytest.param(
            (),
            valuestate.ValueStateDescriptor("n", int),
            False,
            (f"{WHERE}: state 'n' is new and starts empty",),
            id="new",
        ),
        pytest.param(
            (value(),),
            valuestate.ValueStateDescriptor("n", int, ttl=DAY),
            True,
            (f"{WHERE}: state 'n' gets a time to live",),
            id="time to live on",
        ),
        pytest.param(
            (value(has_ttl=True),),
            valuestate.ValueStateDescriptor("n", int),
            True,
            (f"{WHERE}: state 'n' loses its time to live",),
            id="time to live off",
        ),
    ],
)
def test_each_change_is_told_in_a_sentence(
    stored: tuple[KeyedStateEntry, ...],
    declared: valuestate.ValueStateDescriptor,
    migrates: bool,
    told: tuple[str, ...],
) -> None:
    change = ttl.TtlChange.MIGRATE if migrates else ttl.TtlChange.REFUSE

    found = changed(stored, declared, ttl_change=change)

    assert found.sentences == told
    assert found.warnings == ()
    assert found.is_empty


@pytest.mark.parametrize(
    ("stored", "declared", "reason", "told"),
    [
        pytest.param(value(), valuestate.ValueStateDescriptor("n", str), "StateTypeIncompatible", "<str>", id="type"),
        pytest.param(
            value(), liststate.ListStateDescriptor("n", int), "StateTypeIncompatible", "[ListState<", id="kind"
        ),
        pytest.param(
            value(), valuestate.ValueStateDescriptor("n", int, ttl=DAY), "StateTtlIncompatible", "MIGRATE", id="ttl"
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_operator_and_both_sides(
    stored: KeyedStateEntry, declared: valuestate.ValueStateDescriptor, reason: str, told: str
) -> None:
    with pytest.raises(errors.SpecRejectedError, match=WHERE) as refused:
        changed((stored,), declared)

    assert refused.value.reason == reason
    assert told in refused.value.message


def test_a_state_that_is_no_longer_declared_is_told_and_kept() -> None:
    found = changed((value(),))

    assert found.warnings == (
        f"{WHERE}: state 'n' is no longer declared; what it holds is kept until it is declared again",
    )


def test_states_of_a_snapshot_that_does_not_name_them_are_left_to_the_first_batch() -> None:
    assert changed(None, valuestate.ValueStateDescriptor("n", str)).sentences == ()


def test_a_function_that_the_driver_could_not_open_is_told() -> None:
    (warning,) = changed((value(),), valuestate.ValueStateDescriptor("n", str), known=False).warnings

    assert "compared when the first batch reads them" in warning


def test_timers_are_told_from_a_map_by_their_name() -> None:
    """Both are stored as maps; only the name says which table holds them."""
    entry = keyed_states.entry_of(timers.meta_of(timers.TimeDomain.EVENT_TIME))

    assert entry.kind == mapstate.MAP.value
    assert keyed_states.meta_of(entry) == timers.meta_of(timers.TimeDomain.EVENT_TIME)
    assert keyed_states.meta_of(entry).kind is timers.TIMERS
