"""Who owns a snapshot that a job starts from: NoClaim and Claim (Flink A.170 to A.172), wherever it lies."""

from __future__ import annotations

from datetime import timedelta

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs, savepoint, verify
from statefulspark.contract.config import ClaimMode, RestoreConfig
from statefulspark.recovery.plan import ReadyState, StartMode
from statefulspark.retention import pruning, rules
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

GRACE_S = 60
POLICY = rules.PrunePolicy(retained=2, grace=timedelta(seconds=GRACE_S))
BACKUPS = "memory://bucket/backups"


@pytest.fixture
def source() -> Job:
    """Return another job with a checkpoint 1 and a savepoint 2, both at batch 3."""
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(4):
        query.run_batch()
    query.upload_snapshots(1)
    job.checkpoint(query)
    job.savepoint(query, location=BACKUPS)
    return job


def another_job(source: Job, name: str = "copy") -> Job:
    """Return a new job on the same bucket."""
    job = Job(source.clock)
    job.bucket, job.store = source.bucket, source.bucket.child(f"default/{name}")
    return job


SNAPSHOTS = {
    "savepoint": f"{BACKUPS}/default.flights-00000002",
    "retained checkpoint": "memory://bucket/default/flights/checkpoints/00000001",
}
each_snapshot = pytest.mark.parametrize("uri", SNAPSHOTS.values(), ids=SNAPSHOTS)


def run_for_a_while(job: Job, plan: ReadyState, checkpoints: int) -> FakeQuery:
    """Go on from a plan: batches, checkpoints and prunings."""
    query = FakeQuery(job.store, plan.generation, batch=3, seed=7)
    for _ in range(checkpoints):
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)
        prune_once(job)
    return query


def prune_once(job: Job) -> rules.PrunePlan:
    return pruning.run(job.store, POLICY, job.clock.now, open_store=job.open_store)


def names(store: ObjectStore, folder: str) -> list[str]:
    return [info.key for info in store.list(folder)]


@each_snapshot
def test_what_is_not_claimed_is_never_touched(source: Job, uri: str) -> None:
    """A.170."""
    before = source.bucket.list("")
    job = another_job(source)

    run_for_a_while(job, job.boot(a_restore(snapshot=uri)), checkpoints=5)

    assert [info for info in source.bucket.list("") if not info.key.startswith("default/copy/")] == list(before)


def test_no_claim_is_the_default() -> None:
    assert RestoreConfig().claim_mode is ClaimMode.NO_CLAIM


@each_snapshot
@pytest.mark.parametrize("mode", list(ClaimMode))
def test_the_original_may_be_deleted_as_soon_as_the_start_has_copied_it(source: Job, uri: str, mode: ClaimMode) -> None:
    """In Flink only after the first own checkpoint (A.170); here the generation is complete before Spark starts."""
    job = another_job(source)
    job.boot(a_restore(snapshot=uri, claim_mode=mode))
    source.bucket.delete_many([info.key for info in source.bucket.list("") if "default/copy/" not in info.key])

    again = job.boot(a_restore(snapshot=uri, claim_mode=mode))

    assert (again.mode, dict(again.start_batches)) == (StartMode.CONTINUE, {"delays": 3})
    assert verify.verify_queries(job.store, again.queries, deep=True).ok


@each_snapshot
def test_several_jobs_may_start_from_what_is_not_claimed(source: Job, uri: str) -> None:
    plans = [another_job(source, name).boot(a_restore(snapshot=uri)) for name in ("one", "two")]

    assert [dict(plan.start_batches) for plan in plans] == [{"delays": 3}] * 2


@each_snapshot
def test_of_two_jobs_that_claim_a_snapshot_one_is_refused_by_name(source: Job, uri: str) -> None:
    wish = a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM)
    another_job(source, "one").boot(wish)
    two = another_job(source, "two")

    with pytest.raises(errors.SpecRejectedError, match="memory://bucket/default/one") as raised:
        two.boot(wish)

    assert raised.value.reason == "SnapshotClaimed"
    assert epochs.newest(two.store) == 1
    assert names(two.store, "generations") == []


@each_snapshot
def test_a_claimed_snapshot_is_deleted_once_enough_checkpoints_followed(source: Job, uri: str) -> None:
    """A.170, A.172: it counts as a checkpoint, and goes when it is beyond the retained number."""
    job = another_job(source)
    folder = uri.removeprefix("memory://bucket/")
    run_for_a_while(job, job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM)), POLICY.retained - 1)
    kept = names(source.bucket, folder)

    query = FakeQuery(job.store, 1, batch=3 + POLICY.retained - 1, seed=9)
    query.ids = {}
    query.run_batch()
    query.upload_snapshots()
    job.checkpoint(query)
    prune_once(job)

    assert f"{folder}/_metadata.json" in kept
    assert names(source.bucket, folder) == []


def go_on(job: Job, query: FakeQuery, checkpoints: int) -> None:
    """Go on in the same generation: batches, checkpoints and prunings."""
    for _ in range(checkpoints):
        query.run_batch()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)
        prune_once(job)


def test_a_savepoint_that_was_claimed_in_place_waits_for_the_checkpoints_that_follow_it() -> None:
    """A.172: those of before the restore are of the same generation, and do not count."""
    job = Job()
    query = FakeQuery(job.store, job.boot().generation)
    go_on(job, query, POLICY.retained + 1)
    uri = job.savepoint(query, location=BACKUPS, lineage=job.lineages.lineage).uri

    plan = job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM))
    go_on(job, query, POLICY.retained - 1)
    kept = names(job.bucket, "backups")
    go_on(job, query, 1)

    assert plan.mode is StartMode.CONTINUE
    assert f"{uri}/_metadata.json".removeprefix("memory://bucket/") in kept
    assert names(job.bucket, "backups") == []


def test_a_claimed_snapshot_is_deleted_after_a_stop_that_came_before_enough_checkpoints(source: Job) -> None:
    """A.172: a start that goes on in place keeps the claim of the start that made the generation."""
    job = another_job(source)
    uri = SNAPSHOTS["savepoint"]
    plan = job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM))
    query = FakeQuery(job.store, plan.generation, batch=3, seed=7)
    query.run_batch()
    query.upload_snapshots()
    at_the_stop = job.savepoint(query, job="copy", lineage=job.lineages.lineage).uri

    again = job.boot(a_restore(snapshot=at_the_stop))
    go_on(job, query, POLICY.retained)

    assert again.mode is StartMode.CONTINUE
    assert names(source.bucket, uri.removeprefix("memory://bucket/")) == []


def test_checkpoints_whose_state_nobody_has_loaded_do_not_replace_a_claimed_snapshot(source: Job) -> None:
    job = another_job(source)
    uri = SNAPSHOTS["savepoint"]
    plan = job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM))
    query = FakeQuery(job.store, plan.generation, batch=3, seed=7)
    query.run_batch()
    query.upload_snapshots()
    untried = job.checkpoint(query).model_copy(update={"untried": ("arrivals",)})
    for number in range(2, 2 + POLICY.retained):
        catalog.write_checkpoint(job.store, untried.model_copy(update={"id": number}))

    prune_once(job)

    assert f"{uri}/_metadata.json".removeprefix("memory://bucket/") in names(source.bucket, "backups")


def test_of_a_claimed_checkpoint_the_files_stay_with_the_job_that_made_them(source: Job) -> None:
    """A.171: CLAIM of a retained checkpoint owns `chk-x`, and not the old job's directory."""
    job = another_job(source)
    uri = SNAPSHOTS["retained checkpoint"]
    files = names(source.store, "generations")

    run_for_a_while(job, job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM)), POLICY.retained)

    assert names(source.store, "checkpoints") == []
    assert names(source.store, "generations") == files


def test_what_a_person_has_put_beside_a_claimed_savepoint_stays_and_its_own_files_go(source: Job) -> None:
    job = another_job(source)
    uri = SNAPSHOTS["savepoint"]
    folder = uri.removeprefix("memory://bucket/")
    source.bucket.write(f"{folder}/README.txt", b"Before the great change.")

    run_for_a_while(job, job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM)), POLICY.retained + 1)

    assert names(source.bucket, folder) == [f"{folder}/README.txt"]


def test_a_claimed_savepoint_may_be_disposed_of_by_hand(source: Job) -> None:
    job = another_job(source)
    uri = SNAPSHOTS["savepoint"]
    plan = job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM))

    savepoint.dispose(source.bucket, uri.removeprefix("memory://bucket/"))
    run_for_a_while(job, plan, POLICY.retained + 1)

    assert names(source.bucket, "backups") == []
    assert dict(job.boot().start_batches) == {"delays": 3 + POLICY.retained + 1}


def test_without_a_way_to_open_its_place_a_claimed_snapshot_stays(source: Job) -> None:
    job = another_job(source)
    uri = SNAPSHOTS["savepoint"]
    plan = job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM))
    query = FakeQuery(job.store, plan.generation, batch=3, seed=7)
    for _ in range(3):
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)

    planned = pruning.run(job.store, POLICY, job.clock.now)

    assert planned.delete_claimed == ()
    assert "backups/default.flights-00000002/_claim.json" in names(source.bucket, "backups")


@pytest.mark.parametrize("operations", [{"read"}, {"delete"}], ids=["is gone", "may not be deleted from"])
def test_a_bucket_that_does_not_let_its_claimed_snapshot_go_does_not_keep_the_job_from_pruning(
    source: Job, operations: set[str]
) -> None:
    job = another_job(source)
    plan = job.boot(a_restore(snapshot=SNAPSHOTS["savepoint"], claim_mode=ClaimMode.CLAIM))
    query = FakeQuery(job.store, plan.generation, batch=3, seed=7)

    def open_store(uri: str) -> ObjectStore:
        return stores.FaultyStore(
            job.open_store(uri), stores.Plan(fail_at=frozenset(range(1, 100)), only=frozenset(operations))
        )

    for _ in range(POLICY.retained + 2):
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)
        job.clock.forward(2 * GRACE_S)
        planned = pruning.run(job.store, POLICY, job.clock.now, open_store=open_store)

    assert planned.delete_files
    assert f"{SNAPSHOTS['savepoint']}/_metadata.json".removeprefix("memory://bucket/") in names(
        source.bucket, "backups"
    )


def test_a_dry_run_names_the_claimed_snapshot_and_why_it_goes(source: Job) -> None:
    job = another_job(source)
    uri = SNAPSHOTS["savepoint"]
    plan = job.boot(a_restore(snapshot=uri, claim_mode=ClaimMode.CLAIM))
    query = FakeQuery(job.store, plan.generation, batch=3, seed=7)
    for _ in range(2):
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query)

    lines = pruning.plan(job.store, POLICY, job.clock.now, open_store=job.open_store).lines

    assert f"delete {uri}: claimed, and followed by as many checkpoints as are retained" in lines


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata.json"])
def test_a_snapshot_is_named_by_its_folder_or_by_its_manifest(source: Job, suffix: str) -> None:
    """A.165: either form is accepted."""
    plan = another_job(source).boot(a_restore(snapshot=SNAPSHOTS["savepoint"] + suffix))

    assert plan.restored_from == SNAPSHOTS["savepoint"]


@pytest.mark.parametrize(
    ("uri", "reason", "words"),
    [
        (f"{BACKUPS}/nothing", "SnapshotNotFound", "there is no memory://bucket/backups/nothing/_metadata.json"),
        (BACKUPS, "SnapshotNotFound", "there is no memory://bucket/backups/_metadata.json"),
        ("memory://bucket/garbage", "DocumentUnreadable", "memory://bucket/garbage/_metadata.json"),
        ("memory://bucket/cut", "DocumentUnreadable", "memory://bucket/cut/_metadata.json"),
    ],
)
def test_what_is_no_snapshot_is_refused_before_anything_is_made(source: Job, uri: str, reason: str, words: str) -> None:
    """A.166: a missing path, a folder without metadata, and garbage have a sentence each; all at the start."""
    source.bucket.write("garbage/_metadata.json", b"\x00\x01\x02")
    body = source.bucket.read("backups/default.flights-00000002/_metadata.json")
    source.bucket.write("cut/_metadata.json", body[: len(body) // 2])
    job = another_job(source)

    with pytest.raises(errors.StatefulSparkError) as raised:
        job.boot(a_restore(snapshot=uri))

    assert raised.value.reason == reason
    assert words in raised.value.message
    assert names(job.store, "generations") == []
