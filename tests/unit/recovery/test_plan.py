"""The plan of a start as data: what it says of restored state, and how it changes before it is carried out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from manifests import a_generation, a_manifest, a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark.checkpoint import plans, transfer
from statefulspark.contract.manifest import OperatorEntry, QueryEntry, SnapshotFormat
from statefulspark.recovery.plan import Candidate, StartMode, StartPlan, declare_queries, move_to_new_generation
from statefulspark.testing import stores

PLACE = transfer.SnapshotLocation(stores.MemoryStore())
RECORD = a_generation(3)


def of_generation_3(uid: str = "q", *operators: OperatorEntry, batch_id: int = 4) -> QueryEntry:
    return a_query(uid, *operators, batch_id=batch_id, path=f"generations/00000003/{uid}")


def plan_of(*queries: QueryEntry, mode: StartMode = StartMode.CONTINUE) -> StartPlan:
    return StartPlan(mode, 3, queries=queries)


def planned(uid: str, *, groups: int = 256) -> plans.PlannedQuery:
    return a_planned_query(a_planned_operator("mean", max_parallelism=groups), uid=uid)


def test_the_partitions_of_a_query_are_those_of_its_operator_with_most() -> None:
    plan = plan_of(
        of_generation_3("q", an_operator("a", partitions=2), an_operator("b", partitions=5)),
        of_generation_3("r", an_operator("a", partitions=7)),
        of_generation_3("s"),
    )

    assert [plan.partitions_of(uid) for uid in ("q", "r", "s", "unknown")] == [5, 7, 0, 0]


def test_the_key_groups_of_a_query_are_what_its_state_has_and_128_where_that_is_not_told() -> None:
    plan = plan_of(
        of_generation_3("q", an_operator("a", max_parallelism=256), an_operator("b")),
        of_generation_3("r", an_operator("c", max_parallelism=64)),
    )

    assert (plan.key_groups_of("q"), plan.key_groups_of("unknown")) == ({"a": 256, "b": 128}, {})


@pytest.mark.parametrize(
    ("form", "groups"),
    [
        pytest.param(SnapshotFormat.CANONICAL, 256, id="a canonical savepoint tells what it had"),
        pytest.param(SnapshotFormat.NATIVE, 64, id="of a native one the queries tell"),
    ],
)
def test_the_key_groups_of_a_restored_snapshot_are_those_of(form: SnapshotFormat, groups: int) -> None:
    manifest = a_manifest(queries=[of_generation_3("q", an_operator("a", max_parallelism=256))]).model_copy(
        update={"format": form}
    )
    source = Candidate("one", manifest.queries, PLACE, manifest=manifest)

    plan = replace(
        plan_of(of_generation_3("q", an_operator("a", max_parallelism=64)), mode=StartMode.COPY), source=source
    )

    assert plan.key_groups_of("q") == {"a": groups}
    assert replace(plan, source=replace(source, manifest=None)).key_groups_of("q") == {"a": 64}


def test_each_query_starts_after_its_batch() -> None:
    assert plan_of(of_generation_3("q"), of_generation_3("r", batch_id=-1)).start_batches == {"q": 4, "r": -1}


@pytest.mark.parametrize(
    ("queries", "holds"),
    [
        pytest.param((), False, id="no query"),
        pytest.param((of_generation_3(batch_id=-1),), False, id="nothing committed"),
        pytest.param((of_generation_3(batch_id=0),), True, id="one batch committed"),
        pytest.param((of_generation_3(batch_id=-1), of_generation_3("r")), True, id="one of two queries"),
    ],
)
def test_a_candidate_holds_state_once_a_query_has_committed(queries: tuple[QueryEntry, ...], holds: bool) -> None:
    assert Candidate("checkpoint 1", queries, PLACE).holds_state is holds


def test_a_plan_that_would_continue_copies_its_head_instead_and_says_what_changes() -> None:
    head = Candidate("checkpoint 1", (of_generation_3(),), PLACE)
    plan = replace(plan_of(of_generation_3()), head=head, note_restore=RECORD)

    moved = move_to_new_generation(plan, ("operator added",))

    expected = replace(
        plan, mode=StartMode.COPY, generation=4, source=head, note_restore=None, changes=("operator added",)
    )
    assert moved == expected


@pytest.mark.parametrize("mode", [StartMode.COPY, StartMode.EMPTY])
def test_any_other_plan_goes_where_it_went(mode: StartMode) -> None:
    plan = plan_of(mode=mode)

    assert move_to_new_generation(plan, ("operator added",)) == replace(plan, changes=("operator added",))


def test_queries_without_state_are_declared_in_the_record_that_is_continued() -> None:
    known = of_generation_3("r", an_operator("mean", max_parallelism=64), batch_id=-1)
    record = RECORD.model_copy(update={"queries": (of_generation_3("q"), known)})
    plan = replace(plan_of(of_generation_3("q", batch_id=0), of_generation_3("r", batch_id=-1)), record=record)

    noted = declare_queries(plan, [planned("q"), planned("r"), planned("s")]).note_restore

    assert noted is not None
    assert noted.model_copy(update={"queries": ()}) == RECORD
    assert [(query.uid, query.batch_id, query.path) for query in noted.queries] == [
        ("q", 4, "generations/00000003/q"),
        ("r", -1, "generations/00000003/r"),
        ("s", -1, "generations/00000003/s"),
    ]
    assert [[one.max_parallelism for one in query.operators] for query in noted.queries] == [[], [256], [256]]


def test_what_is_declared_joins_a_restore_that_is_noted_too() -> None:
    restored = RECORD.model_copy(update={"carried_out": ("wish",)})
    plan = replace(plan_of(), record=RECORD, note_restore=restored)

    noted = declare_queries(plan, [planned("q")]).note_restore

    assert noted is not None
    assert (noted.carried_out, [query.uid for query in noted.queries]) == (("wish",), ["q"])


def test_nothing_is_noted_where_the_record_says_it_already() -> None:
    plan = replace(plan_of(), record=RECORD)
    once = declare_queries(plan, [planned("q")])
    assert once.note_restore is not None

    again = replace(plan_of(), record=once.note_restore)

    assert declare_queries(again, [planned("q")]) is again


@pytest.mark.parametrize("mode", [StartMode.COPY, StartMode.EMPTY])
def test_a_new_generation_is_described_elsewhere(mode: StartMode) -> None:
    plan = replace(plan_of(mode=mode), record=RECORD)

    assert declare_queries(plan, [planned("q")]) is plan


def test_without_a_record_there_is_nothing_to_note_in() -> None:
    plan = plan_of()

    assert declare_queries(plan, [planned("q")]) is plan
