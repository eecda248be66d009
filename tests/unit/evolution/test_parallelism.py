"""Key groups are fixed for the life of the state, partitions are not (Flink A.63 to A.67)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import OperatorEntry, QueryEntry
from statefulspark.evolution import parallelism

SETTING = "spark.sql.shuffle.partitions"


def planned(*, partitions: int | None = None, groups: int | None = 128) -> plans.PlannedQuery:
    return a_planned_query(a_planned_operator("mean", max_parallelism=groups), uid="delays", partitions=partitions)


@pytest.mark.parametrize(
    ("groups", "declared"),
    [
        pytest.param(64, 64, id="the same number"),
        pytest.param(64, None, id="an operator of the engine has no number"),
        pytest.param(None, 64, id="a snapshot that does not know the number, or a canonical one"),
    ],
)
def test_it_is_accepted(groups: int | None, declared: int | None) -> None:
    parallelism.require_same_groups("delays", an_operator(max_parallelism=groups), declared)


def test_another_number_is_refused_with_both_and_the_way_out() -> None:
    """A.67."""
    with pytest.raises(errors.SpecRejectedError) as refused:
        parallelism.require_same_groups("delays", an_operator(max_parallelism=128), 64)
    assert refused.value.reason == "MaxParallelismChanged"
    assert "operator 'mean' of query 'delays' has 128 key groups and the job declares 64" in refused.value.message
    assert "max_parallelism=128" in refused.value.message
    assert "canonical" in refused.value.message


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param(None, None, id="nobody asked, so the state stays where it is"),
        pytest.param(2, None, id="as many as there are"),
        pytest.param(5, 5, id="more"),
        pytest.param(1, 1, id="fewer"),
        pytest.param(128, 128, id="one per key group"),
    ],
)
def test_partitions_wanted(asked: int | None, wanted: int | None) -> None:
    assert parallelism.changed_partitions(a_query("delays", an_operator()), planned(partitions=asked)) == wanted


def test_a_query_without_state_has_nothing_to_spread() -> None:
    assert parallelism.changed_partitions(a_query(), replace(planned(), operators=(), partitions=9)) is None


@pytest.mark.parametrize(
    ("restored", "sentence"),
    [
        pytest.param(
            a_query("delays", an_operator(max_parallelism=128)),
            "The state of operator 'mean' of query 'delays' can not be restored with spark.sql.shuffle.partitions=130: its "
            "maximum parallelism is 128, and a partition holds whole key groups. Set spark.sql.shuffle.partitions to 128 "
            "or less.",
            id="than the state has",
        ),
        pytest.param(
            a_query("delays", an_operator(max_parallelism=None)),
            "The state of operator 'mean' of query 'delays' can not be restored with spark.sql.shuffle.partitions=130: its "
            "maximum parallelism is 128, and a partition holds whole key groups. Set spark.sql.shuffle.partitions to 128 "
            "or less, or max_parallelism=256, which a canonical savepoint can be restored with.",
            id="than a canonical savepoint had",
        ),
        pytest.param(
            None,
            "The job gives operator 'mean' of query 'delays' max_parallelism=128 and asks for "
            "spark.sql.shuffle.partitions=130; a partition holds whole key groups. Leave max_parallelism out, which makes "
            "it 256, or set spark.sql.shuffle.partitions to 128 or less.",
            id="than a job without state gives, which is told nothing of state",
        ),
    ],
)
def test_more_partitions_than_key_groups_are_refused(restored: QueryEntry | None, sentence: str) -> None:
    """A.66."""
    with pytest.raises(errors.SpecRejectedError) as refused:
        parallelism.require_enough_groups(planned(partitions=130), restored)

    assert (refused.value.reason, refused.value.message) == ("MaxParallelismExceeded", sentence)


@pytest.mark.parametrize(
    "restored", [None, a_query("delays", an_operator(max_parallelism=128))], ids=["without state", "with state"]
)
def test_as_many_partitions_as_key_groups_are_allowed(restored: QueryEntry | None) -> None:
    """A.66."""
    parallelism.require_enough_groups(planned(partitions=128), restored)


@pytest.mark.parametrize(
    ("batch_id", "told"),
    [
        pytest.param(0, "The state of operator 'mean'", id="the first batch has state"),
        pytest.param(-1, "The job gives operator 'mean'", id="a query without a batch has none"),
    ],
)
def test_only_a_query_with_a_batch_has_state_that_can_not_be_restored(batch_id: int, told: str) -> None:
    restored = a_query("delays", an_operator(max_parallelism=None)).model_copy(update={"batch_id": batch_id})

    with pytest.raises(errors.SpecRejectedError, match=told):
        parallelism.require_enough_groups(planned(partitions=130), restored)


@pytest.mark.parametrize(
    ("restored", "way_out"),
    [
        pytest.param(None, "Leave max_parallelism out, which makes it 32768, or set", id="without state"),
        pytest.param(
            a_query("delays", an_operator(max_parallelism=None)),
            "or max_parallelism=32768, which",
            id="with canonical state",
        ),
    ],
)
def test_the_largest_number_of_key_groups_is_a_way_out_for_as_many_partitions(
    restored: QueryEntry | None, way_out: str
) -> None:
    with pytest.raises(errors.SpecRejectedError, match=way_out):
        parallelism.require_enough_groups(planned(partitions=32_768), restored)


def test_an_operator_after_one_that_contradicts_its_state_is_looked_at_too() -> None:
    asked = planned(partitions=130)
    (first,) = asked.operators
    second = replace(first, operator_id=1, uid="sum")

    with pytest.raises(errors.SpecRejectedError, match="operator 'sum' of query 'delays'"):
        parallelism.require_enough_groups(
            replace(asked, operators=(first, second)), a_query("delays", an_operator(max_parallelism=512))
        )


@pytest.mark.parametrize(
    ("batch_id", "known"), [(0, {"mean": 64, "sum": None}), (-1, {})], ids=["after a batch", "before any"]
)
def test_a_job_goes_on_with_the_key_groups_of_its_own_operators(batch_id: int, known: dict[str, int | None]) -> None:
    """A.64: the number is kept; the engine's operators have none."""
    unknown = an_operator().model_copy(update={"uid": "sum", "operator_id": 1})
    engines = OperatorEntry(uid="dedupe-2", operator_id=2, name="dedupe", partitions=2)
    query = a_query("delays", an_operator(max_parallelism=64), unknown, engines).model_copy(
        update={"batch_id": batch_id}
    )

    assert plans.key_groups([query]) == known


def test_a_number_that_contradicts_the_state_is_refused_for_that_and_not_for_the_partitions() -> None:
    parallelism.require_enough_groups(planned(partitions=130), a_query("delays", an_operator(max_parallelism=512)))


def test_more_partitions_than_there_can_be_key_groups_are_refused_without_a_way_that_is_none() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"\. Set spark\.sql\.shuffle\.partitions to 32768") as refused:
        parallelism.require_enough_groups(planned(partitions=40_000, groups=32_768), None)

    assert "Leave max_parallelism out" not in refused.value.message


@pytest.mark.parametrize(("settings", "asked"), [({}, None), ({SETTING: "7"}, 7), ({"spark.x": "1"}, None)])
def test_partitions_asked_for(settings: dict[str, str], asked: int | None) -> None:
    assert parallelism.requested_partitions(settings) == asked


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "2.5"])
def test_a_number_of_partitions_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=SETTING):
        parallelism.requested_partitions({SETTING: text})
