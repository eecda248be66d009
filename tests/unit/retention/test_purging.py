"""All state of a job is deleted on purpose: the fence stays, and a later job of the name starts empty behind it."""

from __future__ import annotations

import itertools

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs
from statefulspark.contract import layout
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.recovery import generations
from statefulspark.recovery.plan import ReadyState, StartMode
from statefulspark.retention import owners, purging
from statefulspark.storage.port import DeletedObjects, ObjectStore
from statefulspark.testing import stores

ASKER = owners.Asker("default", "flights", "uid")


def running(job: Job, plan: ReadyState, batches: int = 3) -> FakeQuery:
    query = FakeQuery(job.store, plan.generation, batch=plan.start_batches.get("delays", -1))
    for number in range(plan.next_snapshot_id, plan.next_snapshot_id + batches):
        query.run_batch()
        query.upload_snapshots()
        job.checkpoint(query, number=number)
    return query


@pytest.fixture
def query(job: Job) -> FakeQuery:
    """A job with two generations, three epochs, six checkpoints and a savepoint."""
    running(job, job.boot())
    query = running(job, job.boot(a_restore(empty=True, nonce="once")))
    job.savepoint(query)
    job.boot()
    return query


def give_to(job: Job, owner_id: str) -> None:
    """Write the document of an owner, as a driver does at its start."""
    record = OwnerRecord(namespace="default", job="flights", owner_id=owner_id, created_at=job.clock.now)
    job.store.write(layout.OWNER, record.to_json().encode())


def purge(job: Job, store: ObjectStore | None = None) -> DeletedObjects:
    return purging.purge(store or job.store, asker=ASKER, holder="the operator", now=job.clock.now)


def keys(job: Job) -> list[str]:
    return [info.key for info in job.store.list("")]


def test_only_the_record_of_the_deletion_is_left(job: Job, query: FakeQuery) -> None:
    before = job.store.list("")

    deleted = purge(job)

    assert deleted == DeletedObjects.count(before)
    assert keys(job) == ["epochs/00000004.json"]
    assert job.store.list("")[0].size_bytes < 400
    assert purging.is_purged(job.store)
    assert purge(job) == DeletedObjects()
    assert keys(job) == ["epochs/00000004.json"]


def test_a_folder_that_nothing_was_ever_in_stays_empty(job: Job) -> None:
    assert purging.is_purged(job.store)

    assert purge(job) == DeletedObjects()

    assert keys(job) == []


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_driver_of_any_epoch_is_fenced(job: Job, query: FakeQuery, epoch: int) -> None:
    purge(job)

    with pytest.raises(errors.FencedError):
        epochs.require_current(job.store, epoch)


def test_a_later_job_starts_empty_with_numbers_that_nobody_has_used(job: Job, query: FakeQuery) -> None:
    before = job.lineages.lineage
    purge(job)

    plan = job.boot()

    assert (plan.mode, job.epoch, plan.generation, plan.next_snapshot_id) == (StartMode.EMPTY, 5, 3, 8)
    assert job.lineages.lineage not in (None, before)
    running(job, plan)
    again = job.boot()
    assert (again.mode, again.generation, again.restored_from) == (StartMode.CONTINUE, 3, "checkpoint 10")


def test_a_restore_of_the_deleted_state_is_forgotten_with_it(job: Job, query: FakeQuery) -> None:
    purge(job)

    assert job.boot(a_restore(empty=True, nonce="once")).restore_skipped is None


def test_state_of_a_later_job_that_is_lost_is_missed(job: Job, query: FakeQuery) -> None:
    purge(job)
    running(job, job.boot())
    for folder in (layout.GENERATIONS, layout.CHECKPOINTS):
        job.store.delete_folder(folder)

    with pytest.raises(errors.StateUnknownError) as raised:
        job.boot()

    assert raised.value.reason == "StateMissing"


def test_a_second_deletion_counts_on(job: Job, query: FakeQuery) -> None:
    purge(job)
    running(job, job.boot())
    purge(job)

    plan = job.boot()

    assert keys(job)[0] != "epochs/00000004.json"
    assert (job.epoch, plan.generation, plan.next_snapshot_id) == (7, 4, 11)


def test_a_deletion_right_after_another_one_forgets_no_number(job: Job, query: FakeQuery) -> None:
    purge(job)
    give_to(job, "uid")
    epochs.claim(job.store, assigned=None, holder="pod", claim_id="dies", now=job.clock.now)
    purge(job)

    plan = job.boot()

    assert (job.epoch, plan.generation, plan.next_snapshot_id) == (7, 3, 8)


def test_wherever_a_deletion_dies_nobody_starts_from_a_half_and_it_can_be_repeated(job: Job, query: FakeQuery) -> None:
    whole = {key: job.store.read(key) for key in keys(job)}
    for number in itertools.count(1):
        job.store.delete_folder("")
        for key, body in whole.items():
            job.store.write(key, body)
        plan = stores.Plan(crash_before=number, only=frozenset({"create", "delete"}))
        try:
            purge(job, stores.FaultyStore(job.store, plan))
        except stores.CrashPoint:
            _require_whole_or_nothing(job)
            purge(job)
            assert keys(job) == ["epochs/00000004.json"]
            continue
        break
    assert number > 20


def _require_whole_or_nothing(job: Job) -> None:
    """The earlier epochs and the lineage go first: while one is there, nothing of the state is gone."""
    if any(key in keys(job) for key in (*map(layout.epoch, (1, 2, 3)), layout.lineage(1))):
        plan = job.plan()
        assert (plan.restored_from, plan.fallback) == ("checkpoint 6", None)
    elif any(key.endswith("generation.json") for key in keys(job)):
        with pytest.raises(errors.StateUnknownError, match="was deleted on purpose"):
            job.plan()
    else:
        assert job.plan().mode is StartMode.EMPTY


def test_state_that_is_put_back_is_gone_on_with_and_a_part_of_it_is_not_passed_over(job: Job, query: FakeQuery) -> None:
    whole = {key: job.store.read(key) for key in keys(job)}
    purge(job)
    for key, body in whole.items():
        if not key.startswith((layout.EPOCHS, layout.LINEAGES)):
            job.store.write(key, body)

    with pytest.raises(
        errors.StateUnknownError, match=r"deleted on purpose, and generations/00000002/generation\.json"
    ):
        job.boot()

    for key, body in whole.items():
        if not key.startswith(layout.EPOCHS):
            job.store.write(key, body)
    assert job.boot().restored_from == "checkpoint 6"


def test_what_a_sleeper_writes_afterwards_does_not_stop_a_later_job(job: Job, query: FakeQuery) -> None:
    """Its manifest made the later job refuse: `NoCheckpointVerifies`."""
    manifest = layout.checkpoint_manifest(6)
    late = {
        manifest: job.store.read(manifest),
        f"{query.path}/commits/3": b"v1\n{}",
        "damage/00000002-00000003.json": b"{}",
    }
    purge(job)
    for key, body in late.items():
        job.store.write(key, body)

    first = job.boot()
    assert (first.mode, first.generation) == (StartMode.EMPTY, 3)
    own = running(job, first)
    for key, body in late.items():
        job.store.write(key, body)
    again = job.boot()

    assert (again.generation, again.start_batches, again.fallback) == (3, {"delays": own.batch}, None)


def test_a_manifest_of_another_lineage_makes_no_generation_of_this_one(job: Job, query: FakeQuery) -> None:
    """Somebody has deleted the folder by hand, and a driver that nobody has stopped completes a checkpoint."""
    number, manifest = 9, layout.checkpoint_manifest(6)
    written = catalog.read_manifest(job.store, layout.checkpoint(6))
    foreign = written.model_copy(update={"generation": number, "lineage": "0" * 32})
    job.store.delete_folder("")
    own = running(job, job.boot())
    job.store.write(manifest, foreign.sealed())
    generations.reserve(
        job.store, above=number - 1, holder=generations.reservation(1, claim_id="claim", now=job.clock.now)
    )

    plan = job.boot()

    assert (plan.generation, plan.start_batches) == (1, {"delays": own.batch})


def test_a_driver_that_slept_in_its_claim_takes_no_number_that_is_free_again(job: Job, query: FakeQuery) -> None:
    def claims(store: ObjectStore) -> int:
        return epochs.claim(store, assigned=None, holder="sleeper", claim_id="sleeper", now=job.clock.now)

    waking = stores.FaultyStore(job.store, stores.Plan())
    create = waking.create

    def later(key: str, body: bytes) -> None:
        epochs.claim(job.store, assigned=6, holder="pod", claim_id="next", now=job.clock.now)
        purge(job)
        create(key, body)

    waking.create = later  # type: ignore[method-assign]

    with pytest.raises(errors.FencedError, match="was deleted"):
        claims(waking)
    assert keys(job) == ["epochs/00000007.json"]


def test_a_driver_that_claims_meanwhile_is_fenced_by_the_deletion(job: Job, query: FakeQuery) -> None:
    racing = stores.FaultyStore(job.store, stores.Plan())
    create, drivers = racing.create, iter(range(2))

    def later(key: str, body: bytes) -> None:
        if next(drivers, None) is not None:
            epochs.claim(job.store, assigned=None, holder="pod", claim_id=key, now=job.clock.now)
        create(key, body)

    racing.create = later  # type: ignore[method-assign]

    purge(job, racing)

    assert keys(job) == ["epochs/00000006.json"]


def test_drivers_that_keep_starting_are_named(job: Job, query: FakeQuery) -> None:
    racing = stores.FaultyStore(job.store, stores.Plan())
    create = racing.create

    def later(key: str, body: bytes) -> None:
        epochs.claim(job.store, assigned=None, holder="pod", claim_id=key, now=job.clock.now)
        create(key, body)

    racing.create = later  # type: ignore[method-assign]
    before = len(keys(job))

    with pytest.raises(errors.PreconditionFailedError, match="keep claiming epochs"):
        purge(job, racing)
    assert len(keys(job)) > before


def test_a_folder_of_another_owner_stays_whole_and_its_driver_is_not_fenced(job: Job, query: FakeQuery) -> None:
    give_to(job, "the uid in the other cluster")
    before = job.store.list("")

    with pytest.raises(
        errors.SpecRejectedError, match="belongs to default/flights with uid the uid in the other"
    ) as kept:
        purge(job)

    assert kept.value.reason == "StateKept"
    assert job.store.list("") == before


@pytest.mark.parametrize("body", [None, b"{damaged"], ids=["no document", "a damaged document"])
def test_a_folder_whose_owner_cannot_be_told_stays(job: Job, query: FakeQuery, body: bytes | None) -> None:
    job.store.delete_many([layout.OWNER])
    if body is not None:
        job.store.write(layout.OWNER, body)
    before = job.store.list("")

    with pytest.raises(errors.SpecRejectedError, match="StateKept"):
        purge(job)

    assert job.store.list("") == before


def test_a_folder_that_is_taken_over_during_the_claim_stays(job: Job, query: FakeQuery) -> None:
    racing = stores.FaultyStore(job.store, stores.Plan())
    create = racing.create

    def later(key: str, body: bytes) -> None:
        give_to(job, "who has taken it over")
        create(key, body)

    racing.create = later  # type: ignore[method-assign]

    with pytest.raises(errors.SpecRejectedError, match="who has taken it over"):
        purge(job, racing)
    assert catalog.list_snapshots(job.store)


def test_a_folder_without_a_driver_that_has_kept_code_only_can_go(job: Job) -> None:
    job.store.write(layout.code("0" * 64, "flights.py"), b"print()")

    assert purge(job).objects == 1
    assert keys(job) == []
