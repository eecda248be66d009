"""How many key groups restored state has, by operator: as its manifest says, or its canonical savepoint (A.60, A.67)."""

from __future__ import annotations

import pytest
from manifests import a_manifest, a_query, an_operator
from startsituations import a_start_plan
from statefulspark.canonical import skeleton
from statefulspark.checkpoint import transfer
from statefulspark.contract.manifest import QueryEntry, SnapshotFormat
from statefulspark.recovery.plan import Candidate, StartMode, StartPlan
from statefulspark.testing import stores


def with_groups(uid: str = "q", *, batch_id: int = 3, groups: int | None = 256) -> QueryEntry:
    operators = (an_operator("mean", name="tws", max_parallelism=groups), an_operator("tws-1", 1, name="tws"))
    return a_query(uid, *operators, batch_id=batch_id)


@pytest.mark.parametrize(
    ("query", "known"),
    [
        pytest.param(with_groups(), {"mean": 256}, id="state with a number"),
        pytest.param(with_groups(groups=None), {"mean": 128}, id="state of before manifests told it"),
        pytest.param(with_groups(batch_id=-1), {}, id="no state, so it is derived again"),
        pytest.param(with_groups("another"), {}, id="state of another query"),
    ],
)
def test_what_is_restored_says(query: QueryEntry, known: dict[str, int]) -> None:
    assert a_start_plan(query).key_groups_of("q") == known


def test_a_canonical_savepoint_says_what_it_had_though_another_number_may_be_chosen() -> None:
    manifest = a_manifest(queries=[with_groups()]).model_copy(update={"format": SnapshotFormat.CANONICAL})
    place = transfer.SnapshotLocation(stores.MemoryStore("memory://bucket"), "savepoints/one")
    source = Candidate("one", manifest.queries, place, manifest=manifest)
    queries = tuple(skeleton.without_canonical_files(query) for query in manifest.queries)
    plan = StartPlan(StartMode.COPY, 2, queries=queries, source=source)

    assert [operator.max_parallelism for operator in plan.queries[0].operators] == [None, None]
    assert plan.key_groups_of("q") == {"mean": 256}
