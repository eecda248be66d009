"""Where a driver starts, on storage (docs/recovery.md, "What a start does")."""

from __future__ import annotations

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, closure, plans, savepoint, verify
from statefulspark.contract import api, layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import GenerationRecord, Trigger
from statefulspark.recovery import generations, recovery, restore
from statefulspark.recovery.plan import ReadyState, StartMode, declare_queries
from statefulspark.testing import stores


def test_the_first_start_is_empty_in_generation_1(job: Job) -> None:
    plan = job.start()

    assert (plan.mode, plan.generation, plan.restored_from, plan.next_snapshot_id) == (StartMode.EMPTY, 1, None, 1)


def test_a_start_before_the_first_commit_goes_on_in_the_same_generation(job: Job) -> None:
    FakeQuery(job.store, job.start().generation).plan_batch()

    plan = job.start()

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.CONTINUE, 1, {"delays": -1})


def test_planning_writes_nothing(job: Job) -> None:
    job.running(3)
    before = job.store.list("")

    job.plan()

    assert job.store.list("") == before


def test_a_start_at_the_newest_checkpoint_goes_on_in_its_generation(job: Job) -> None:
    job.checkpoint(job.running(3))

    plan = job.start()

    assert (plan.mode, plan.generation, plan.restored_from) == (StartMode.CONTINUE, 1, "checkpoint 1")
    assert (dict(plan.start_batches), plan.next_snapshot_id, plan.fallback) == ({"delays": 2}, 2, None)
    assert plan.checkpoint_ids == (1,)


def test_a_planned_batch_that_was_not_committed_does_not_count(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.attempt(query.plan_batch())

    assert dict(job.start().start_batches) == {"delays": 2}


def test_committed_batches_after_the_checkpoint_become_the_next_checkpoint(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()

    plan = job.start()

    salvaged = catalog.read_manifest(job.store, layout.checkpoint(2))
    assert (plan.mode, plan.restored_from, plan.next_snapshot_id) == (StartMode.CONTINUE, "checkpoint 2", 3)
    assert plan.checkpoint_ids == (1, 2)
    assert (salvaged.trigger, salvaged.queries[0].batch_id) == (Trigger.RECOVERY, 3)
    assert verify.verify(job.store, salvaged, deep=True).ok


def test_committed_batches_without_any_checkpoint_become_the_first(job: Job) -> None:
    job.running(3)

    plan = job.start()

    assert (plan.mode, plan.restored_from, dict(plan.start_batches)) == (
        StartMode.CONTINUE,
        "checkpoint 1",
        {"delays": 2},
    )


def test_each_query_is_salvaged_at_its_own_newest_batch(job: Job) -> None:
    first = job.running(3)
    second = FakeQuery(job.store, 1, uid="arrivals")
    second.run_batch()
    job.checkpoint(first, second)
    first.run_batch()

    assert dict(job.start().start_batches) == {"arrivals": 0, "delays": 3}


@pytest.mark.parametrize("name", ["commits/3", "offsets/4"])
def test_an_empty_newest_log_entry_is_left_behind_for_the_checkpoint(job: Job, name: str) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()
    query.plan_batch()
    job.store.write(f"{query.path}/{name}", b"")

    plan = job.start()

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.COPY, {"delays": 2})
    assert name in (plan.fallback or "")


@pytest.mark.parametrize("damage", ["truncated", "missing", "swapped"])
def test_a_checkpoint_that_does_not_verify_makes_way_for_the_one_before(job: Job, damage: str) -> None:
    query = job.running(3)
    query.upload_snapshots()
    job.checkpoint(query)
    query.run_batch()
    query.upload_snapshots()
    job.checkpoint(query)
    spoil(job, f"{query.path}/state/0/1/4_{query.ids[3]['0'][1][0]}.zip", damage)

    plan = job.start()

    assert (plan.mode, plan.generation, plan.restored_from) == (StartMode.COPY, 2, "checkpoint 1")
    assert "checkpoint 2 does not verify" in (plan.fallback or "")
    assert f"4_{query.ids[3]['0'][1][0]}.zip" in (plan.fallback or "")


def test_a_sound_newer_batch_is_salvaged_although_the_checkpoint_before_it_is_broken(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()
    query.upload_snapshots()
    spoil(job, f"{query.path}/state/0/1/1_{query.ids[0]['0'][1][0]}.changelog", "missing")

    plan = job.start()

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.CONTINUE, {"delays": 3})


def test_state_that_does_not_verify_never_leads_to_an_empty_start(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    spoil(job, f"{query.path}/offsets/2", "missing")

    with pytest.raises(errors.SnapshotCorruptError, match="offsets/2") as raised:
        job.start()

    assert raised.value.reason == "NoCheckpointVerifies"


def test_a_damaged_first_batch_without_a_checkpoint_never_leads_to_an_empty_start(job: Job) -> None:
    query = job.running(1)
    job.store.write(f"{query.path}/commits/0", b"")

    with pytest.raises(errors.SnapshotCorruptError) as raised:
        job.start()

    assert raised.value.reason == "NoCheckpointVerifies"


@pytest.mark.parametrize("left", ["checkpoints", "generations", "savepoints"])
def test_leftovers_without_a_usable_generation_never_lead_to_an_empty_start(job: Job, left: str) -> None:
    query = job.running(3)
    job.checkpoint(query)
    take_savepoint(job, query)
    doomed = [info.key for info in job.store.list("") if not info.key.startswith(f"{left}/")]
    job.store.delete_many([*doomed, layout.generation_record(1)])

    with pytest.raises(errors.StateUnknownError) as raised:
        job.start()

    assert raised.value.reason == "StateWithoutCheckpoint"


@pytest.mark.parametrize("number", range(1, 12))
def test_a_failing_store_is_an_error_and_never_an_empty_start(job: Job, number: int) -> None:
    job.checkpoint(job.running(3))
    faulty = stores.FaultyStore(job.store, stores.Plan(fail_at=frozenset({number})))

    with pytest.raises(errors.TransientError):
        job.plan(store=faulty)


def test_a_driver_that_slept_through_a_takeover_cannot_complete_its_restore(job: Job) -> None:
    """Its successor was asked for something else and runs in generation 1; a later start must find that one."""
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()
    job.checkpoint(query)
    query.run_batch()
    sleeper = job.author()
    plan = restore.settle(job.store, job.plan(a_restore(snapshot="checkpoint:1")), sleeper)
    successors: list[ReadyState] = []

    def wake_up_too_late(copied: api.Progress) -> None:
        if copied.done and not successors:
            successors.append(job.boot())
            query.run_batch()

    with pytest.raises(errors.SnapshotCorruptError, match="CopyIncomplete"):
        restore.carry_out(job.store, plan, sleeper, begin_step=lambda _: wake_up_too_late)
    with pytest.raises(errors.PreconditionFailedError, match="GenerationExists"):
        generations.publish(job.store, GenerationRecord(generation=2, created_at=sleeper.now, epoch=sleeper.epoch))
    again = job.boot()

    assert (again.mode, again.generation, dict(again.start_batches)) == (StartMode.CONTINUE, 1, {"delays": 2})


def test_a_driver_that_slept_through_a_takeover_cannot_complete_its_savepoint(job: Job) -> None:
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()
    request = job.savepoint_request(1)
    place = savepoint.resolve_target(job.store, request)
    entry = closure.close_over(job.store, query.path, 0)
    successors: list[ReadyState] = []

    def wake_up_too_late(copied: api.Progress) -> None:
        if copied.done and not successors:
            successors.append(job.boot())

    with pytest.raises(errors.FencedError):
        savepoint.take_savepoint(
            job.store, [entry], request, place, completed_at=job.clock, on_progress=wake_up_too_late
        )

    assert [ref.label for ref in catalog.list_snapshots(job.store)] == ["checkpoint 2"]  # the successor's


def test_an_older_driver_that_completes_a_checkpoint_in_between_makes_the_start_look_again(job: Job) -> None:
    query = FakeQuery(job.store, job.boot().generation)
    query.run_batch()

    class Overtaken(stores.FaultyStore):
        """The older driver completes the checkpoint that the newcomer is about to salvage."""

        def create(self, key: str, body: bytes) -> None:
            if key == layout.checkpoint_manifest(1) and job.store.info(key) is None:
                query.run_batch()
                job.checkpoint(query)
            super().create(key, body)

    plan = recovery.find_start(Overtaken(job.store), job.author(), restore=RestoreConfig())

    assert (plan.restored_from, dict(plan.start_batches)) == ("checkpoint 1", {"delays": 1})
    assert catalog.next_snapshot_id(job.store) == 2


def test_what_a_dead_driver_left_in_its_scratch_folder_is_removed_at_the_next_start(job: Job) -> None:
    job.boot()
    job.store.write("scratch/00000001/delays/metadata", b"{}")
    job.store.write("scratch/00000009/delays/metadata", b"of a newer driver")

    job.boot()

    assert [info.key for info in job.store.list("scratch")] == ["scratch/00000009/delays/metadata"]


@pytest.mark.parametrize(
    ("seconds", "is_left"), [pytest.param(600, True, id="not sooner"), pytest.param(601, False, id="and then")]
)
def test_what_a_rehearsal_that_was_killed_has_left_is_removed_after_ten_minutes_of_silence(
    job: Job, seconds: int, is_left: bool
) -> None:
    job.boot()
    folder = layout.rehearsal("ab12")
    job.store.write(f"{folder}/source-0/part-0.parquet", b"rows")
    job.clock.forward(60)
    job.store.write(f"{folder}/checkpoint/offsets/0", b"v1")
    job.clock.forward(seconds)

    job.boot()

    left = [info.key for info in job.store.list("scratch")]
    assert left == ([f"{folder}/checkpoint/offsets/0", f"{folder}/source-0/part-0.parquet"] if is_left else [])


def test_an_asked_for_checkpoint_is_restored_into_a_new_generation(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()
    job.checkpoint(query)

    plan = job.start(a_restore(snapshot="checkpoint:1"))

    assert (plan.mode, plan.generation, plan.restored_from) == (StartMode.COPY, 2, "checkpoint 1")
    assert dict(plan.start_batches) == {"delays": 2}
    assert verify.verify_queries(job.store, plan.queries, deep=True).ok


def test_a_restore_happens_once(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()
    job.checkpoint(query)
    wish = a_restore(snapshot="checkpoint:1")
    moved = query.continue_in(job.start(wish).generation, 2)

    before_its_first_commit = job.start(wish)
    moved.run_batch()
    after_a_commit = job.start(wish)

    assert (before_its_first_commit.mode, before_its_first_commit.generation) == (StartMode.CONTINUE, 2)
    assert before_its_first_commit.restored_from == "checkpoint 1"
    assert (after_a_commit.mode, dict(after_a_commit.start_batches)) == (StartMode.CONTINUE, {"delays": 3})


def test_a_fallback_after_a_restore_does_not_repeat_the_restore(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    wish = a_restore(snapshot="checkpoint:1")
    moved = query.continue_in(job.start(wish).generation, 2)
    moved.run_batch()
    job.checkpoint(moved)
    spoil(job, f"{moved.path}/commits/3", "missing")
    fallen_back = job.start(wish)

    again = job.start(wish)

    assert (fallen_back.mode, fallen_back.generation) == (StartMode.COPY, 3)
    assert (again.mode, again.generation) == (StartMode.CONTINUE, 3)


def test_a_checkpoint_left_behind_by_a_restore_is_no_fallback(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()
    job.checkpoint(query)
    moved = query.continue_in(job.start(a_restore(snapshot="checkpoint:1")).generation, 2)
    spoil(job, f"{moved.path}/metadata", "missing")

    plan = job.start()

    assert (plan.generation, plan.restored_from, dict(plan.start_batches)) == (3, "checkpoint 1", {"delays": 2})


def test_a_fresh_start_needs_a_word_and_happens_once(job: Job) -> None:
    job.checkpoint(job.running(3))
    wish = a_restore(empty=True)

    first, second = job.start(wish), job.start(wish)

    assert (first.mode, first.generation, first.restored_from, first.next_snapshot_id) == (StartMode.EMPTY, 2, None, 2)
    assert (second.mode, second.generation) == (StartMode.CONTINUE, 2)


def test_a_snapshot_that_does_not_exist_is_named_with_those_that_do(job: Job) -> None:
    job.checkpoint(job.running(3))

    with pytest.raises(errors.SpecRejectedError, match="these checkpoints: 1") as raised:
        job.start(a_restore(snapshot="checkpoint:7"))

    assert raised.value.reason == "SnapshotNotFound"


@pytest.mark.parametrize(
    "uri", ["memory://bucket/default/flights/savepoints/00000009", "memory://bucket/elsewhere/nothing"]
)
def test_a_savepoint_that_does_not_exist_is_named(job: Job, uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=uri) as raised:
        job.start(a_restore(snapshot=uri))

    assert raised.value.reason == "SnapshotNotFound"


def test_an_asked_for_snapshot_that_is_broken_is_refused(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    spoil(job, f"{query.path}/metadata", "missing")

    with pytest.raises(errors.SnapshotCorruptError, match="metadata") as raised:
        job.start(a_restore(snapshot="checkpoint:1"))

    assert raised.value.reason == "SnapshotBroken"


@pytest.mark.parametrize("location", [None, "memory://bucket/backups"])
def test_a_savepoint_is_restored_from_wherever_it_lies(job: Job, location: str | None) -> None:
    query = job.running(3)
    uri = take_savepoint(job, query, location)
    query.run_batch()

    plan = job.start(a_restore(snapshot=uri))

    assert (plan.mode, plan.generation, plan.restored_from) == (StartMode.COPY, 2, uri)
    assert verify.verify_queries(job.store, plan.queries, deep=True).ok


def test_a_savepoint_taken_at_the_stop_is_continued_in_place_without_a_copy(job: Job) -> None:
    query = job.running(3)
    job.checkpoint(query)
    query.run_batch()
    wish = a_restore(snapshot=take_savepoint(job, query, "memory://bucket/backups"))
    watched = stores.FaultyStore(job.store)

    plan = job.start(wish, store=watched)
    query.run_batch()
    again = job.start(wish)

    assert (plan.mode, plan.generation, plan.restored_from) == (StartMode.CONTINUE, 1, wish.snapshot)
    assert dict(plan.start_batches) == {"delays": 3}
    assert not [operation for operation in watched.operations if operation.name == "copy"]
    assert (again.mode, dict(again.start_batches)) == (StartMode.CONTINUE, {"delays": 4})


@pytest.mark.parametrize("since", ["a batch was planned", "a file was damaged", "another query was added"])
def test_a_savepoint_is_copied_back_when_the_generation_has_changed_since(job: Job, since: str) -> None:
    query = job.running(3)
    uri = take_savepoint(job, query)
    if since == "a batch was planned":
        query.plan_batch()
    elif since == "a file was damaged":
        spoil(job, f"{query.path}/offsets/2", "swapped")
    else:
        FakeQuery(job.store, 1, uid="arrivals").run_batch()

    plan = job.start(a_restore(snapshot=uri))

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 2, {"delays": 2})


def test_another_job_starts_from_a_checkpoint_by_its_uri(job: Job) -> None:
    job.checkpoint(job.running(3))
    store = job.bucket.child("default/copy")

    plan = job.start(a_restore(snapshot=f"{job.store.uri}/checkpoints/00000001"), store=store)

    assert (plan.generation, dict(plan.start_batches)) == (1, {"delays": 2})
    assert verify.verify_queries(store, plan.queries, deep=True).ok


def test_schema_paths_point_into_the_new_generation(job: Job) -> None:
    job.checkpoint(job.running(3))

    plan = job.start(a_restore(snapshot="checkpoint:1"))

    body = job.store.read(f"{layout.query_root(plan.generation, 'delays')}/state/0/_metadata/v2/0").decode()
    assert f"{job.store.uri}/generations/00000002/delays/state/0/_stateSchema/default/0_" in body
    assert "s3a://somewhere" not in body


def test_a_query_that_left_the_job_is_refused_by_name(job: Job) -> None:
    job.checkpoint(job.running(3))

    with pytest.raises(errors.SpecRejectedError, match=r"'delays'.*add 'delays' to restore\.dropState") as raised:
        job.start(query_uids=["arrivals"])

    assert raised.value.reason == "NonRestoredState"


def test_a_query_that_may_be_dropped_is_left_out_by_a_new_generation(job: Job) -> None:
    first, second = job.running(3), FakeQuery(job.store, 1, uid="arrivals")
    second.run_batch()
    job.checkpoint(first, second)
    first.run_batch()

    with pytest.raises(errors.SpecRejectedError, match="state of query 'arrivals', which"):
        job.start(RestoreConfig(drop_state=("delays", "other")), query_uids=["delays"])
    plan = job.start(RestoreConfig(drop_state=("arrivals",)), query_uids=["delays"])

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 2, {"delays": 3})
    assert not job.store.list(layout.query_root(2, "arrivals"))
    assert catalog.list_snapshots(job.store)[0].id == 2


def test_a_start_that_drops_a_query_keeps_what_is_committed_before_its_first_checkpoint(job: Job) -> None:
    first, second = job.running(3), FakeQuery(job.store, 1, uid="arrivals")
    second.run_batch()
    job.checkpoint(first, second)
    first.run_batch()
    drops = RestoreConfig(drop_state=("arrivals",))
    plan = job.start(drops, query_uids=["delays"])
    first.continue_in(plan.generation, 3).run_batch()

    again = job.start(drops, query_uids=["delays"])

    assert (again.mode, again.fallback, dict(again.start_batches)) == (StartMode.CONTINUE, None, {"delays": 4})
    numbers = {number: catalog.read_manifest(job.store, layout.checkpoint(number)).generation for number in (1, 2, 3)}
    assert numbers == {1: 1, 2: 1, 3: 2}


def test_a_query_that_a_later_version_added_is_kept_aside_and_never_under_another_name(job: Job) -> None:
    first, second = job.running(3), FakeQuery(job.store, 1, uid="arrivals")
    second.run_batch()
    job.checkpoint(first, second)
    back = RestoreConfig(keep_aside=True)

    with pytest.raises(errors.SpecRejectedError, match="state of query 'arrivals', which"):
        job.start(back, query_uids=["delays", "renamed"])
    plan = job.start(back, query_uids=["delays"])

    assert [part.uid for part in plan.kept_aside] == ["arrivals"]
    assert (plan.mode, dict(plan.start_batches)) == (StartMode.COPY, {"delays": 2})


def test_a_half_copied_generation_is_never_used_and_its_number_is_skipped(job: Job) -> None:
    job.checkpoint(job.running(3))
    wish = a_restore(snapshot="checkpoint:1")
    plan = job.plan(wish)
    crashing = stores.FaultyStore(job.store, stores.Plan(crash_before=9))
    with pytest.raises(stores.CrashPoint):
        restore.carry_out(crashing, restore.settle(crashing, plan, job.author()), job.author())

    again = job.start(wish)

    assert (again.mode, again.generation) == (StartMode.COPY, 3)
    assert verify.verify_queries(job.store, again.queries, deep=True).ok


def test_two_drivers_never_fill_the_same_generation(job: Job) -> None:
    job.checkpoint(job.running(3))
    plan = restore.settle(job.store, job.plan(a_restore(snapshot="checkpoint:1")), job.author())

    numbers = {restore.carry_out(job.store, plan, job.author()).generation for _ in range(3)}

    assert numbers == {2, 3, 4}


def test_of_two_drivers_that_salvage_the_slower_one_looks_again(job: Job) -> None:
    job.running(3)
    plan = job.plan()
    restore.settle(job.store, plan, job.author())

    with pytest.raises(errors.PreconditionFailedError, match="another process"):
        restore.settle(job.store, plan, job.author())


def test_a_start_that_dies_at_any_write_is_repeated_without_loss(job: Job) -> None:
    """Every crash point of salvage and of restore, each one run."""
    for wish in (RestoreConfig(), a_restore(snapshot="checkpoint:1")):
        for number in range(1, 60):
            fresh = Job()
            query = fresh.running(3)
            fresh.checkpoint(query)
            query.run_batch()
            crashing = stores.FaultyStore(
                fresh.store, stores.Plan(crash_after=number, only=frozenset({"create", "write", "copy"}))
            )
            try:
                fresh.start(wish, store=crashing)
            except stores.CrashPoint:
                again = fresh.start(wish)
                assert dict(again.start_batches) == {"delays": 2 if wish.snapshot else 3}
                assert verify.verify_queries(fresh.store, again.queries, deep=True).ok


def spoil(job: Job, key: str, damage: str) -> None:
    """Damage one file."""
    body = job.store.read(key)
    if damage == "missing":
        job.store.delete_many([key])
    else:
        job.store.write(key, body[:-1] if damage == "truncated" else body[:-1] + bytes([body[-1] ^ 1]))


def take_savepoint(job: Job, query: FakeQuery, location: str | None = None) -> str:
    """Take a savepoint and return its URI."""
    return job.savepoint(query, location=location).uri


def declared(uid: str, *, groups: int) -> plans.PlannedQuery:
    operator = plans.PlannedOperator(0, "transformWithStateInPandasExec", uid="mean", max_parallelism=groups)
    return plans.PlannedQuery(uid, (operator,))


def start_declaring(job: Job, *planned: plans.PlannedQuery) -> ReadyState:
    """Do what a driver does whose job has these queries."""
    job.epoch += 1
    job.hold_epoch()
    plan = declare_queries(restore.settle(job.store, job.plan(), job.author()), planned)
    path = f"generations/{plan.generation:08d}"
    entries = tuple(plans.declared(one, f"{path}/{one.uid}") for one in planned)
    return restore.carry_out(job.store, plan, job.author(), finish=lambda _, queries: queries or entries)


def key_groups(plan: ReadyState) -> dict[str, int | None]:
    return {query.uid: operator.max_parallelism for query in plan.queries for operator in query.operators}


def test_batches_of_a_query_that_is_new_in_a_generation_keep_their_key_groups_without_a_checkpoint(job: Job) -> None:
    first = FakeQuery(job.store, start_declaring(job, declared("delays", groups=128)).generation)
    first.run_batch()
    job.checkpoint(first)
    start_declaring(job, declared("delays", groups=128), declared("arrivals", groups=512))
    FakeQuery(job.store, 1, uid="arrivals").run_batch()

    assert key_groups(job.start())["arrivals"] == 512


def test_a_start_that_declares_other_key_groups_before_the_first_commit_is_the_one_that_counts(job: Job) -> None:
    start_declaring(job, declared("delays", groups=128))
    start_declaring(job, declared("delays", groups=512))
    FakeQuery(job.store, 1).run_batch()

    assert key_groups(job.start()) == {"delays": 512}


def test_a_start_that_declares_what_the_generation_has_writes_nothing(job: Job) -> None:
    query = FakeQuery(job.store, start_declaring(job, declared("delays", groups=128)).generation)
    assert declare_queries(job.plan(), [declared("delays", groups=128)]).note_restore is None
    query.run_batch()
    job.checkpoint(query)

    assert declare_queries(job.plan(), [declared("delays", groups=128)]).note_restore is None


def test_a_start_that_is_asked_for_again_is_done_again_and_not_by_the_restart_after_it(job: Job) -> None:
    wish = a_restore(empty=True)
    job.start(wish)
    again = job.start(wish.again(job.clock.now))

    assert (again.mode, again.generation, again.restore_skipped) == (StartMode.EMPTY, 2, None)
    assert (job.start(wish).generation, job.start(wish.again(job.clock.now)).generation) == (2, 2)
    assert job.start(wish.again(job.clock.forward(1))).generation == 3
