"""A root that was copied over an older life of itself: `aws s3 sync` without `--delete`, after a failover and back.

Later batches and checkpoints of the older life lie behind those of the newer one, under numbers that it has not reached.
Nothing is made of both: what a driver of the other life has written does not count, and the start says so.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest
from restores import a_restore
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark.checkpoint import catalog, epochs, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import QueryEntry
from statefulspark.recovery.plan import StartMode
from statefulspark.storage import port
from statefulspark.storage.port import ObjectInfo
from statefulspark.testing import stores


class SignedStore(stores.FaultyStore):
    """A store whose log entries tell the claim of their driver, as those that Spark writes do."""

    def __init__(self, wrapped: stores.MemoryStore, claims: dict[str, str] | None = None) -> None:
        super().__init__(wrapped)
        self.memory = wrapped
        self.claims: dict[str, str] = claims if claims is not None else {}
        self.claim = ""

    def info(self, key: str) -> ObjectInfo | None:
        found = super().info(key)
        return replace(found, claim=self.claims.get(self._full_key(key))) if found is not None else None

    def write(self, key: str, body: bytes) -> None:
        super().write(key, body)
        if "/offsets/" in key or "/commits/" in key:
            self.claims[self._full_key(key)] = self.claim

    def child(self, prefix: str) -> SignedStore:
        return SignedStore(self.memory.child(prefix), self.claims)

    def _full_key(self, key: str) -> str:
        return port.join_key(self.memory._prefix, key)


@dataclass
class Life:
    """One life of a root: its own drivers and batches, the same numbers."""

    job: Job
    store: SignedStore
    bucket: SignedStore
    query: FakeQuery = field(init=False)

    def start(self) -> None:
        """Start a driver, which goes on after the newest batch."""
        self.job.boot()
        self.store.claim = epochs.read(self.store, self.job.epoch).claim_id

    def run(self, batches: int, *, checkpoints_after: Collection[int] = ()) -> None:
        """Run batches, and take a checkpoint after some of them, counted from 1."""
        for number in range(1, batches + 1):
            self.query.run_batch()
            if number in checkpoints_after:
                self.query.upload_snapshots()
                self.job.checkpoint(self.query)

    def state_files(self) -> frozenset[str]:
        """Return the state files of a partition that the root has."""
        folder = self.query.path
        return frozenset(info.key.removeprefix(f"{folder}/") for info in self.store.list(f"{folder}/state/0/0"))

    def fork(self) -> Life:
        """Copy the root, as it is, to another server under the same address."""
        bucket = SignedStore(self.bucket.memory.copy(self.job.clock), dict(self.bucket.claims))
        other = a_life_of(self.job.on(bucket))
        other.query = replace(self.query, store=other.store, seed=2, step=90, ids=dict(self.query.ids), ssts={})
        return other

    def overlay(self, other: Life) -> None:
        """Copy another life over this one, and delete nothing."""
        self.bucket.memory._objects.bodies.update(other.bucket.memory._objects.bodies)
        self.bucket.claims.update(other.bucket.claims)


def a_life_of(job: Job) -> Life:
    assert isinstance(job.bucket, SignedStore)
    job.store = job.bucket.child("default/flights")
    return Life(job, job.store, job.bucket)


@dataclass
class Lives:
    """The life that was left, and the one that is copied over it, from a checkpoint at batch 2 on."""

    older: Life
    newer: Life


@pytest.fixture
def lives() -> Lives:
    job = Job()
    older = a_life_of(job.on(SignedStore(stores.MemoryStore("memory://bucket", job.clock))))
    older.start()
    older.query = FakeQuery(older.store)
    older.run(3, checkpoints_after=[3])
    return Lives(older, older.fork())


@pytest.mark.parametrize("restarts", [0, 1, 3], ids=["", "the older one restarts", "the older one restarts more often"])
@pytest.mark.parametrize(
    ("older", "older_checkpoints", "newer", "newer_checkpoints"),
    [
        pytest.param(6, (), 3, (), id="no checkpoint since the fork"),
        pytest.param(6, (), 3, (1,), id="a checkpoint of the newer one, and batches after it"),
        pytest.param(6, (), 3, (3,), id="the newer one ended with a checkpoint"),
        pytest.param(6, (1,), 3, (3,), id="as many checkpoints in both"),
        pytest.param(1, (), 3, (3,), id="the older one ended soon"),
        pytest.param(0, (), 3, (3,), id="the older one ended at once"),
    ],
)
def test_a_start_goes_on_in_the_life_that_was_copied(
    lives: Lives,
    older: int,
    older_checkpoints: tuple[int, ...],
    newer: int,
    newer_checkpoints: tuple[int, ...],
    restarts: int,
) -> None:
    for _ in range(restarts):
        lives.older.start()
    lives.older.run(older, checkpoints_after=older_checkpoints)
    lives.newer.start()
    lives.newer.run(newer, checkpoints_after=newer_checkpoints)
    of_newer = lives.newer.state_files()
    lives.older.overlay(lives.newer)

    plan = lives.older.job.boot()

    assert _state_files(plan.queries[0]) <= of_newer
    is_mixed = older > newer or restarts > 1
    assert (plan.mode is StartMode.COPY) is ("another life" in (plan.fallback or "")) is is_mixed
    assert verify.verify_queries(lives.older.store, plan.queries, deep=True).ok


@pytest.mark.parametrize(
    "restarts",
    [
        pytest.param(0, id="its driver has a lower epoch than that of the newer life"),
        pytest.param(1, id="its driver has the same epoch"),
        pytest.param(3, id="its driver has a higher epoch"),
    ],
)
def test_a_whole_checkpoint_of_the_older_life_is_told_by_the_claim_of_its_epoch(lives: Lives, restarts: int) -> None:
    """It has a higher number than those of the newer life, and needs no file of it."""
    for _ in range(restarts):
        lives.older.start()
    lives.older.run(20, checkpoints_after=(1, 5, 20))
    lives.newer.start()
    lives.newer.run(3, checkpoints_after=(3,))
    of_newer = lives.newer.state_files()
    lives.older.overlay(lives.newer)

    plan = lives.older.job.boot()

    assert _state_files(plan.queries[0]) <= of_newer
    assert "another life of this root" in (plan.fallback or "")


def test_what_is_written_after_the_lives_were_told_apart_counts(lives: Lives) -> None:
    """The next epochs follow one of the older life, so their driver begins a generation."""
    for _ in range(3):
        lives.older.start()
    lives.newer.start()
    lives.newer.run(3, checkpoints_after=(3,))
    lives.older.overlay(lives.newer)
    job = lives.older.job
    again = FakeQuery(job.store, job.boot().generation)
    again.batch = 5
    lives.older.query = again
    lives.older.store.claim = job.claim_id
    lives.older.run(2, checkpoints_after=(1,))

    plan = job.boot()

    assert (plan.mode, plan.fallback, dict(plan.start_batches)) == (StartMode.CONTINUE, None, {"delays": 7})


def test_a_checkpoint_whose_epoch_storage_has_lost_counts(lives: Lives) -> None:
    """A replica that lags may have it without the record; the number is claimed again."""
    life = lives.older
    life.start()
    life.run(3, checkpoints_after=(3,))
    life.store.delete_many([layout.epoch(2)])

    plan = life.job.boot()

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.COPY, {"delays": 5})
    assert "has lost epochs/00000002.json" in (plan.fallback or "")


def test_a_request_that_only_the_older_life_has_carried_out_is_not_carried_out_again(lives: Lives) -> None:
    """It has begun a generation for it, which does not count."""
    fresh = a_restore(empty=True, nonce="fresh")
    lives.older.job.boot(fresh)
    lives.newer.start()
    lives.newer.run(3, checkpoints_after=(3,))
    lives.older.overlay(lives.newer)

    plan = lives.older.job.boot(fresh)

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 3, {"delays": 5})
    assert "Generation 2 was begun by epoch 2 of another life of this root" in (plan.fallback or "")
    assert plan.restore_skipped is not None


@pytest.mark.parametrize("body", [b"", None], ids=["cannot be read", "is gone"])
def test_a_generation_whose_reservation_does_not_tell_who_began_it_counts(lives: Lives, body: bytes | None) -> None:
    lives.older.job.boot(a_restore(empty=True, nonce="fresh"))
    lives.newer.start()
    lives.newer.run(3, checkpoints_after=(3,))
    lives.older.overlay(lives.newer)
    reservation = layout.generation_reservation(2)
    lives.older.store.delete_many([reservation])
    if body is not None:
        lives.older.store.write(reservation, body)

    plan = lives.older.job.boot()

    assert (plan.mode, plan.generation, plan.fallback) == (StartMode.CONTINUE, 2, None)


def test_a_generation_whose_epoch_storage_has_lost_counts(lives: Lives) -> None:
    """The number is claimed again; so its driver goes on in a generation of its own, which its claim fits."""
    job = lives.older.job
    job.boot(a_restore(snapshot="checkpoint:1", nonce="once more"))
    job.store.delete_many([layout.epoch(2)])

    plan, following = job.boot(), job.boot()

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 3, {"delays": 2})
    assert "has lost epochs/00000002.json, in which generation 2 was begun" in (plan.fallback or "")
    assert (following.mode, following.generation, following.fallback) == (StartMode.CONTINUE, 3, None)


def test_a_batch_that_the_older_life_had_planned_is_not_run(lives: Lives) -> None:
    """Spark would read the older life's range after the newer life's rows."""
    lives.newer.start()
    lives.newer.run(3, checkpoints_after=(3,))
    lives.older.run(3)
    lives.older.query.plan_batch()
    lives.older.overlay(lives.newer)

    plan = lives.older.job.boot()

    assert (plan.mode, dict(plan.start_batches)) == (StartMode.COPY, {"delays": 5})
    assert "offsets/6 was written by a driver of another life" in (plan.fallback or "")


def test_what_several_drivers_of_one_life_wrote_counts(lives: Lives) -> None:
    life = lives.older
    for _ in range(3):
        life.start()
        life.run(2)
        life.query.plan_batch()

    plan = life.job.boot()

    assert (plan.mode, plan.fallback, dict(plan.start_batches)) == (StartMode.CONTINUE, None, {"delays": 8})


@pytest.mark.parametrize(
    ("more", "is_lost"),
    [
        pytest.param(0, False, id="a checkpoint of its successor has all of its batches"),
        pytest.param(1, False, id="its successor has committed them since"),
        pytest.param(1, True, id="the commit of one is lost"),
    ],
)
def test_a_checkpoint_that_a_replaced_driver_completes_late_is_missed_only_if_the_start_lacks_a_batch(
    lives: Lives, more: int, is_lost: bool
) -> None:
    life = lives.older
    life.start()
    replaced = life.job.epoch, life.job.claim_id
    life.start()
    life.run(2, checkpoints_after=(2,))
    life.run(more)
    late = life.job.checkpoint(life.query)
    life.store.delete_many([layout.checkpoint_manifest(late.id)])
    epoch, claim = replaced
    catalog.write_checkpoint(life.store, late.model_copy(update={"epoch": epoch, "claim": claim}))
    if is_lost:
        life.store.delete_many([f"{life.query.path}/commits/5"])

    plan = life.job.boot()

    assert dict(plan.start_batches) == {"delays": 4 + more - is_lost}
    told = f"checkpoint {late.id} is of epoch {epoch} of another life" in (plan.fallback or "")
    assert (plan.fallback is not None, told) == (is_lost, is_lost)


def test_entries_that_do_not_tell_their_driver_count(lives: Lives) -> None:
    """A tool may copy no metadata."""
    lives.older.start()
    lives.older.run(3)
    lives.older.bucket.claims.clear()

    assert dict(lives.older.job.boot().start_batches) == {"delays": 5}


def test_an_epoch_that_cannot_be_read_accuses_nobody(lives: Lives) -> None:
    life = lives.older
    for _ in range(2):
        life.start()
        life.run(3)
    life.store.write(layout.epoch(2), b"{")

    plan = life.job.boot()

    assert (plan.fallback, dict(plan.start_batches)) == (None, {"delays": 8})


def _state_files(query: QueryEntry) -> frozenset[str]:
    return frozenset(file.path for file in query.files if file.path.startswith("state/0/0/"))
