"""What types do not show: a change that would mix two meanings in one state is refused, any other is told (A.149)."""

from __future__ import annotations

import pytest
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import QueryEntry
from statefulspark.evolution import comparison, definitions

_NAME = "stateStoreSave"


def the_state(**definition: str) -> QueryEntry:
    return a_query("q", an_operator(f"{_NAME}-0", name=_NAME, key="string", definition=definition))


def the_job(**definition: str) -> plans.PlannedQuery:
    return a_planned_query(a_planned_operator(None, name=_NAME, key="string", definition=definition))


@pytest.mark.parametrize(
    ("was", "now", "reason"),
    [
        ({"window": "10 minutes"}, {"window": "5 minutes"}, "WindowChanged"),
        ({"functions": "sum, count"}, {"functions": "max, count"}, "AggregationChanged"),
        ({"functions": "sum, count"}, {"functions": "count, sum"}, "AggregationChanged"),
        ({"joinType": "Inner"}, {"joinType": "LeftOuter"}, "JoinChanged"),
    ],
    ids=["another window", "another function", "functions in another order", "another join"],
)
def test_what_would_mix_two_meanings_is_refused_with_both_and_the_way_out(
    was: dict[str, str], now: dict[str, str], reason: str
) -> None:
    with pytest.raises(errors.SpecRejectedError, match="Set it back, or give the query another uid") as refused:
        comparison.evolve(the_state(**was), the_job(**now))

    assert refused.value.reason == reason
    for value in (*was.values(), *now.values(), "'q'"):
        assert value in refused.value.message


@pytest.mark.parametrize("aspect", [definitions.Aspect.COLUMNS, definitions.Aspect.GAP, definitions.Aspect.WATERMARK,
                                    definitions.Aspect.CONDITION])  # fmt: skip
def test_what_only_changes_what_comes_later_is_told_by_name(aspect: definitions.Aspect) -> None:
    found = comparison.evolve(the_state(**{aspect.value: "old"}), the_job(**{aspect.value: "new"}))

    assert found.is_empty
    (sentence,) = found.warnings
    assert "operator 'stateStoreSave-0' of query 'q'" in sentence
    assert "old" in sentence
    assert "new" in sentence


def test_every_aspect_is_either_refused_or_told() -> None:
    for aspect in definitions.Aspect:
        was, now = {aspect.value: "old"}, {aspect.value: "new"}
        refused = False
        try:
            definitions.require_same_meaning("x", was, now)
        except errors.SpecRejectedError:
            refused = True
        assert refused is not bool(definitions.warnings("x", was, now))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"window": "10 minutes"}, {"window": "10 minutes"}),
        ({}, {"window": "10 minutes"}),
        ({"window": "10 minutes"}, {}),
        ({"of a later release": "a"}, {"of a later release": "b"}),
    ],
    ids=["the same", "not known then", "not known now", "an aspect that is not known here"],
)
def test_what_is_the_same_or_not_known_is_neither_refused_nor_told(was: dict[str, str], now: dict[str, str]) -> None:
    assert comparison.evolve(the_state(**was), the_job(**now)).warnings == ()


def test_what_was_declared_goes_into_manifests_and_is_inherited() -> None:
    planned = the_job(window="10 minutes")

    annotated = plans.annotate(the_state(), planned)
    (inherited,) = plans.inherit([the_state()], [annotated])

    assert annotated.operators[0].definition == {"window": "10 minutes"}
    assert inherited.operators == annotated.operators
    assert plans.declared(planned, "p").operators[0].definition == {"window": "10 minutes"}
