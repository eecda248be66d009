"""A start refuses native state that the installed Spark would misread, and says what is stored, and what to do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import OperatorEntry, SnapshotFormat
from statefulspark.recovery import plan, recovery, stored_formats
from statefulspark.sparkinternals import releases
from statefulspark.testing import stores

MERGE = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
LISTS = OperatorEntry(
    uid="transformWithStateInPandasExec-0", operator_id=0, name="transformWithStateInPandasExec", partitions=2
)


JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
JOIN = OperatorEntry(uid="symmetricHashJoin-0", operator_id=0, name="symmetricHashJoin", partitions=2)


def a_start_from_lists(
    *, written_by: str | None = None, operator: OperatorEntry = LISTS, pinned: str = MERGE, form: str = "2"
) -> plan.StartPlan:
    """The start of a job whose state is lists of Spark's, pinned in the form that began with 4.2, or another operator's."""
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()
    job.checkpoint(query)
    offsets = job.store.read(f"{query.path}/offsets/0").decode().splitlines()
    offsets[1] = json.dumps({"batchWatermarkMs": 0, "conf": {pinned: form}})
    start_plan = recovery.plan_recovery(job.store, restore=RestoreConfig())
    job.store.write(f"{query.path}/offsets/0", "\n".join(offsets).encode())
    assert start_plan.head is not None
    assert start_plan.restored is not None
    head = replace(start_plan.head, location=replace(start_plan.head.location, cache=None))
    queries = tuple(entry.model_copy(update={"operators": (operator,)}) for entry in start_plan.queries)
    versions = {"pyspark": written_by} if written_by is not None else {}
    manifest = start_plan.restored.model_copy(update={"versions": versions})
    return replace(start_plan, head=head, queries=queries, restored=manifest)


def test_an_older_spark_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.1.4")
    with pytest.raises(errors.SpecRejectedError) as refused:
        stored_formats.require_readable(a_start_from_lists(written_by="4.3.0"))
    assert refused.value.reason == "SparkOlderThanState"
    assert refused.value.message == (
        "The state of 'transformWithStateInPandasExec-0' in query 'delays' of checkpoint 1, written by PySpark 4.3.0, "
        f"has list elements without a comma between them, which began with Spark 4.2 ({MERGE}=2, SPARK-55131). PySpark "
        "4.1.4 is installed, and would take it for something else. Start the job with PySpark 4.2 or newer; or give the "
        "query another uid, and name the old one in restore.dropState, to start it empty."
    )


def test_a_spark_that_knows_the_form_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.2.0")
    stored_formats.require_readable(a_start_from_lists())


def test_a_canonical_savepoint_keeps_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.1.4")
    start_plan = a_start_from_lists()
    assert start_plan.head is not None
    assert start_plan.restored is not None
    canonical = start_plan.restored.model_copy(update={"format": SnapshotFormat.CANONICAL})
    with pytest.raises(errors.SpecRejectedError, match="SparkOlderThanState"):
        stored_formats.require_readable(replace(start_plan, head=replace(start_plan.head, manifest=canonical)))


@pytest.mark.parametrize(
    ("form", "changed", "is_refused"),
    [
        pytest.param("4", {"delays": 8}, True, id="a join by time cannot be spread"),
        pytest.param("4", {}, False, id="its number of partitions stays"),
        pytest.param("4", {"other": 8}, False, id="another query is spread"),
        pytest.param("3", {"delays": 8}, False, id="an older form is spread"),
    ],
)
def test_state_that_spark_rewrites_wrongly_keeps_its_partitions(
    form: str, changed: dict[str, int], is_refused: bool
) -> None:
    start_plan = a_start_from_lists(operator=JOIN, pinned=JOIN_FORMAT, form=form)
    if not is_refused:
        stored_formats.require_spreadable(start_plan, changed)
        return
    with pytest.raises(errors.SpecRejectedError) as refused:
        stored_formats.require_spreadable(start_plan, changed)
    assert refused.value.reason == "PartitionsChanged"
    assert refused.value.message == (
        "The state of 'symmetricHashJoin-0' in query 'delays' has the rows of a join by their times "
        f"({JOIN_FORMAT}=4), which Spark cannot spread over another number of partitions. Leave "
        "spark.sql.shuffle.partitions=8 out; or give the query another uid, and name the old one in restore.dropState, to "
        "start it empty."
    )


def test_a_query_without_state_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.1.4")
    start_plan = a_start_from_lists()
    assert start_plan.head is not None
    nowhere = replace(start_plan.head.location, store=stores.MemoryStore())
    nothing = tuple(entry.model_copy(update={"batch_id": -1}) for entry in start_plan.queries)
    stored_formats.require_readable(
        replace(start_plan, head=replace(start_plan.head, location=nowhere), queries=nothing)
    )


def test_the_spark_that_wrote_a_snapshot_is_named_if_another_one_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.3.0")
    restored = a_start_from_lists(written_by="4.2.0").restored
    sentence = "Checkpoint 1 was written by PySpark 4.2.0, and PySpark 4.3.0 is installed."
    assert stored_formats.other_spark(restored) == sentence


def test_nothing_is_named_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.3.0")
    assert stored_formats.other_spark(None) is None
    assert stored_formats.other_spark(a_start_from_lists().restored) is None
    assert stored_formats.other_spark(a_start_from_lists(written_by="4.3.0").restored) is None


def test_whoever_has_no_spark_is_told_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise errors.InternalError("SparkMissing", "PySpark is not installed.")

    monkeypatch.setattr(releases, "version", missing)
    assert stored_formats.other_spark(a_start_from_lists(written_by="4.3.0").restored) is None
