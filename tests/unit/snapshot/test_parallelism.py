"""The number of key groups travels with the state and cannot change under it (Flink A.67)."""

from __future__ import annotations

import pytest
from statefulspark import errors
from statefulspark.contract.manifest import OperatorEntry, QueryEntry
from statefulspark.snapshot import parallelism


def a_query(*, groups: int | None = None, uid: str = "delays", operator: str = "mean") -> QueryEntry:
    entry = OperatorEntry(uid=operator, operator_id=0, name="transformWithState", partitions=2, max_parallelism=groups)
    return QueryEntry(uid=uid, batch_id=4, path=f"generations/00000001/{uid}", operators=(entry,))


def test_a_closure_gets_the_declared_number() -> None:
    assert parallelism.annotate(a_query(), {"mean": 64}) == a_query(groups=64)


def test_an_operator_of_the_engine_stays_without_a_number() -> None:
    assert parallelism.annotate(a_query(operator="stateStoreSave-0"), {"mean": 64}) == a_query(
        operator="stateStoreSave-0"
    )


def test_a_salvaged_closure_inherits_the_number_of_the_checkpoint_before() -> None:
    assert parallelism.inherit([a_query()], [a_query(groups=64)]) == (a_query(groups=64),)


def test_a_query_that_is_new_inherits_nothing() -> None:
    assert parallelism.inherit([a_query(uid="new")], [a_query(groups=64)]) == (a_query(uid="new"),)


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param({"delays": {"mean": 128}}, id="the same number"),
        pytest.param({"delays": {}}, id="an operator that left the job is for the check of uids"),
        pytest.param({}, id="a query that left the job is for the check of uids"),
    ],
)
def test_it_is_accepted(declared: dict[str, dict[str, int]]) -> None:
    parallelism.require_unchanged([a_query(groups=128)], declared)


def test_another_number_is_refused_with_both_and_the_way_out() -> None:
    with pytest.raises(errors.SpecRejectedError) as refused:
        parallelism.require_unchanged([a_query(groups=128)], {"delays": {"mean": 64}})
    assert refused.value.reason == "MaxParallelismChanged"
    assert "operator 'mean' of query 'delays' has 128 key groups and the job declares 64" in refused.value.message
    assert "max_parallelism=128" in refused.value.message
