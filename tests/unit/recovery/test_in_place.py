"""When the restore of a stop's savepoint goes on in the generation in use, and when it is copied back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from manifests import a_generation, a_manifest, a_query, an_operator
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, Manifest, SnapshotFormat, SnapshotKind
from statefulspark.contract.notes import DamageNote
from statefulspark.recovery import damage, in_place
from statefulspark.recovery.in_place import InUse, LogEnd
from statefulspark.recovery.plan import StartMode

ROOT = "s3://bucket/state/default/flights"
OWN, OTHER = "lineage-a", "lineage-b"
AT_3 = LogEnd(3, 3)


def in_use(record: GenerationRecord | None = None) -> InUse:
    return InUse(record or a_generation(2, lineage=OWN), ROOT)


def of_a_stop(**changes: object) -> Manifest:
    fields: dict[str, object] = {"kind": SnapshotKind.SAVEPOINT, "generation": 2, "lineage": OWN, "root": ROOT}
    return a_manifest(9, [a_query()], **{**fields, **changes})


@pytest.mark.parametrize(
    ("manifest", "where", "why"),
    [
        pytest.param(of_a_stop(), in_use(), None, id="taken in the generation in use"),
        pytest.param(None, in_use(), "only a savepoint", id="the beginning of a generation"),
        pytest.param(of_a_stop(kind=SnapshotKind.CHECKPOINT), in_use(), "only a savepoint", id="a checkpoint"),
        pytest.param(of_a_stop(format=SnapshotFormat.CANONICAL), in_use(), "canonical savepoint", id="canonical"),
        pytest.param(of_a_stop(job="trains"), in_use(), "job default/trains", id="of another job"),
        pytest.param(of_a_stop(namespace="x"), in_use(), "job x/flights", id="of another namespace"),
        pytest.param(of_a_stop(lineage=OTHER), in_use(), "another root", id="of another lineage"),
        pytest.param(of_a_stop(generation=1), in_use(), "generation 1, and the job is in", id="of an older generation"),
        pytest.param(of_a_stop(generation=3), in_use(), "generation 3, and the job is in", id="of a later generation"),
    ],
)
def test_a_snapshot_that_was_not_taken_in_the_generation_in_use_is_copied(
    manifest: Manifest | None, where: InUse, why: str | None
) -> None:
    told = in_place.why_other_state(manifest, where)

    assert (told is None) if why is None else (why in (told or ""))


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        pytest.param({"delays": AT_3}, None, id="at the cut"),
        pytest.param({"delays": LogEnd(4, 4)}, "at batch 4", id="further"),
        pytest.param({"delays": LogEnd(2, 2)}, "at batch 2", id="behind"),
        pytest.param({"delays": LogEnd(3, 2)}, "at batch 2", id="its last batch is only planned"),
        pytest.param({"delays": LogEnd(4, 3)}, "planned batch 4", id="a batch is planned after the cut"),
        pytest.param({}, "at batch -1", id="its files are gone"),
        pytest.param({"delays": AT_3, "new": LogEnd(0, -1)}, "'new' has run since", id="another query has run"),
    ],
)
def test_a_generation_that_is_not_at_the_cut_of_its_savepoint_is_left(
    ends: Mapping[str, LogEnd], why: str | None
) -> None:
    told = in_place.why_other_cut([a_query("delays", an_operator())], ends)

    assert (told is None) if why is None else (why in (told or ""))


def test_a_query_that_never_committed_stays_in_place() -> None:
    assert in_place.why_other_cut([a_query("delays", batch_id=-1)], {}) is None


def stopped(job: Job, location: str | None = None) -> tuple[FakeQuery, str]:
    """Run a job up to a stop with savepoint."""
    job.boot()
    query = FakeQuery(job.store, 1)
    for _ in range(3):
        query.run_batch()
    return query, job.savepoint(query, location=location, lineage=job.lineages.lineage).uri


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({}, id="plain"),
        pytest.param({"repeat_output_of": ("q/out",)}, id="repeating the output of a sink"),
        pytest.param({"drop_state": ("other",)}, id="allowing state to be dropped"),
        *(pytest.param({"claim_mode": mode}, id=mode.value) for mode in ClaimMode),
    ],
)
@pytest.mark.parametrize("location", [None, "memory://bucket/backups"], ids=["in the root", "elsewhere"])
def test_after_a_stop_the_job_goes_on_in_its_generation(
    job: Job, wish: Mapping[str, object], location: str | None
) -> None:
    _, uri = stopped(job, location)

    restore = a_restore(uri, **wish)
    why_copied = job.plan(restore).why_copied
    plan = job.boot(restore)

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.CONTINUE, 1, {"delays": 2})
    assert why_copied is None
    assert job.boot().restored_from is not None


def test_without_a_wish_it_goes_on_as_well_and_the_savepoint_stays_for_a_rollback(job: Job) -> None:
    query, uri = stopped(job)
    plan = job.boot()
    query.run_batch()

    why_copied = job.plan(a_restore(snapshot=uri, nonce="back")).why_copied
    back = job.boot(a_restore(snapshot=uri, nonce="back"))

    assert (plan.mode, plan.generation) == (StartMode.CONTINUE, 1)
    assert (back.mode, back.generation, dict(back.start_batches)) == (StartMode.COPY, 2, {"delays": 2})
    assert why_copied == "query 'delays' is at batch 3, and the savepoint at batch 2"


def test_a_dropped_query_is_left_behind_in_a_new_generation(job: Job) -> None:
    _, uri = stopped(job)
    job.epoch += 1
    job.hold_epoch()

    plan = job.plan(a_restore(snapshot=uri, drop_state=("delays",)), query_uids=["other"])

    assert (plan.mode, plan.queries) == (StartMode.COPY, ())


def note_damage(job: Job, query: FakeQuery) -> None:
    note = DamageNote(
        generation=1, epoch=job.epoch, query=query.uid, batch_id=query.batch, said="Corruption", noted_at=job.clock.now
    )
    damage.write(job.store, note)


def damage_the_head(job: Job, query: FakeQuery) -> None:
    job.store.write(f"{query.path}/commits/{query.batch}", b"not Spark's")


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        pytest.param(note_damage, "could not load", id="Spark could not load it"),
        pytest.param(damage_the_head, "commits/2", id="its log is damaged"),
    ],
)
def test_the_savepoint_replaces_a_generation_that_is_damaged_at_the_same_cut(
    job: Job, harm: Callable[[Job, FakeQuery], None], why: str
) -> None:
    """Who asks for a savepoint by name after damage wants its files, and not the damaged ones once more."""
    query, uri = stopped(job)
    harm(job, query)

    why_copied = job.plan(a_restore(snapshot=uri)).why_copied
    plan = job.boot(a_restore(snapshot=uri))

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 2, {"delays": 2})
    assert why in (why_copied or "")


@pytest.mark.parametrize(
    ("ends", "has_gone_on"),
    [
        pytest.param({"delays": AT_3}, False, id="at the cut"),
        pytest.param({"delays": LogEnd(5, 5)}, True, id="further"),
        pytest.param({"delays": LogEnd(4, 3)}, True, id="a batch is planned after the cut"),
        pytest.param({"delays": AT_3, "new": LogEnd(0, -1)}, True, id="another query has run"),
        pytest.param({"delays": LogEnd(3, 2)}, False, id="the last batch of the cut is lost"),
        pytest.param({"delays": LogEnd(2, 2), "new": LogEnd(7, 7)}, False, id="one is further, and one is behind"),
        pytest.param({}, False, id="its files are gone"),
    ],
)
def test_a_job_has_gone_on_after_its_savepoint_if_it_has_all_of_that_and_more(
    ends: Mapping[str, LogEnd], has_gone_on: bool
) -> None:
    assert in_place.has_gone_on([a_query("delays", an_operator())], ends) is has_gone_on


def of_the_stop(uri: str) -> RestoreConfig:
    return a_restore(snapshot=uri, nonce="uid-upgrade-2-1-1", after_stop=True)


@pytest.mark.parametrize("covered", [False, True], ids=["in no checkpoint", "in a checkpoint"])
def test_a_start_after_a_stop_goes_on_from_what_the_driver_committed_after_its_savepoint(
    job: Job, covered: bool
) -> None:
    query, uri = stopped(job)
    query.run_batch()
    if covered:
        job.checkpoint(query)

    plan = job.boot(of_the_stop(uri))

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.CONTINUE, 1, {"delays": 3})
    assert plan.restore_skipped is not None
    assert "went on after the stop" in plan.restore_skipped
    assert job.boot(of_the_stop(uri)).restore_skipped is not None
    query.run_batch()
    assert dict(job.boot(of_the_stop(uri)).start_batches) == {"delays": 4}


def test_a_start_after_a_stop_that_ended_the_job_is_at_the_savepoint(job: Job) -> None:
    _, uri = stopped(job)

    plan = job.boot(of_the_stop(uri))

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.CONTINUE, {"delays": 2})
    assert (plan.restored_from, plan.restore_skipped) == (uri, None)


def test_a_start_after_a_stop_goes_on_in_a_generation_that_was_made_since(job: Job) -> None:
    query, uri = stopped(job)
    query.run_batch()
    changed = job.boot(changes=("the plan has changed",))
    FakeQuery(job.store, changed.generation, batch=3).run_batch()

    plan = job.boot(of_the_stop(uri))

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.CONTINUE, 2, {"delays": 4})


def test_a_start_after_a_stop_whose_last_batch_is_lost_is_from_the_savepoint(job: Job) -> None:
    _, uri = stopped(job)
    job.store.delete_many(["generations/00000001/delays/commits/2"])

    plan = job.boot(of_the_stop(uri))

    assert (plan.mode, dict(plan.start_batches), plan.restored_from) == (StartMode.COPY, {"delays": 2}, uri)


def test_a_start_after_a_stop_with_a_savepoint_of_another_root_is_from_the_savepoint(job: Job) -> None:
    job.boot()
    query = FakeQuery(job.store, 1)
    query.run_batch()
    elsewhere = job.savepoint(query, lineage=OTHER).uri
    query.run_batch()

    plan = job.boot(of_the_stop(elsewhere))

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.COPY, {"delays": 0})
