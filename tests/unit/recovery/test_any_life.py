"""Any interleaving of batches, uploads, checkpoints, savepoints, restores, deaths and prunes.

After each step every retained snapshot verifies and the job would start where it stands; in the end every one of them can
be restored, and storage holds no more than a bounded multiple of what is retained
(docs/recovery.md, "What is deleted, and when"; A.105, A.106, A.175.)
"""

from __future__ import annotations

import contextlib
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from restores import a_restore
from snapshots import Clock, Job
from sparkroot import FakeQuery
from statefulspark.checkpoint import batch_records, catalog, closure, savepoint, verify
from statefulspark.contract import layout
from statefulspark.contract.config import ClaimMode
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.recovery.plan import ReadyState
from statefulspark.retention import pruning, rules
from statefulspark.testing import stores

GRACE_S = 60
RETAINED = 2
ELSEWHERE = "memory://bucket/backups"
WRITES = frozenset({"write", "create", "copy", "delete"})
ages = st.sampled_from([None, timedelta(seconds=5 * GRACE_S)])
OPERATOR_STATE = batch_records.RecordKind.OPERATOR_STATE
deaths = st.one_of(st.none(), st.integers(1, 45))


class Life(RuleBasedStateMachine):
    """One job: what its driver does, what kills it, and what its owner asks for."""

    @initialize(max_age=ages)
    def begin(self, max_age: timedelta | None) -> None:
        self.policy = rules.PrunePolicy(RETAINED, timedelta(seconds=GRACE_S), max_age)
        self.job = Job(Clock())
        self.wishes = 0
        self.savepoints: list[str] = []
        self.open_uploads: list[int] = []
        self.begun: int | None = None
        self.state: batch_records.RecordName | None = None
        self.query = FakeQuery(self.job.store, self.job.boot().generation)

    # What Spark does

    @rule(failed_attempts=st.integers(0, 1), changes_state=st.booleans())
    def batch(self, failed_attempts: int, changes_state: bool) -> None:
        if changes_state:  # of a function without keys, whose record is durable before Spark commits the batch
            self.state = batch_records.RecordName(OPERATOR_STATE, "function", self.query.batch + 1, self.job.epoch)
            batch_records.BatchRecordLog(self.job.store, self.query.path).write(self.state, b"{}")
        self.query.run_batch(failed_attempts=failed_attempts)
        self.open_uploads = [*self.open_uploads[-2:], self.query.batch]

    @rule()
    def batch_that_is_not_committed(self) -> None:
        self.query.attempt(self.query.plan_batch())

    @rule(kept_ssts=st.integers(0, 3))
    def begin_upload(self, kept_ssts: int) -> None:
        if self.open_uploads and self.begun is None:
            self.begun = self.open_uploads.pop(0)
            self.query.upload_ssts(self.begun, kept_ssts=kept_ssts)

    @rule()
    def finish_upload(self) -> None:
        if self.begun is not None:
            self.query.finish_upload(self.begun)
            self.begun = None

    @rule(seconds=st.integers(1, 4 * GRACE_S))
    def wait(self, seconds: int) -> None:
        self.job.clock.forward(seconds)

    # What the driver does, and dies of

    @rule(death=deaths)
    def checkpoint(self, death: int | None) -> None:
        if not self.dies(death, lambda job: job.checkpoint(self.query)):
            return
        self.restart()

    @rule(death=deaths, is_elsewhere=st.booleans())
    def take_savepoint(self, death: int | None, is_elsewhere: bool) -> None:
        if self.query.batch < 0:
            return
        location = ELSEWHERE if is_elsewhere else None
        if self.dies(death, lambda job: self.savepoints.append(job.savepoint(self.query, location=location).uri)):
            self.restart()

    @rule(death=deaths)
    def prune(self, death: int | None) -> None:
        if self.dies(death, self.pruned):
            self.restart()

    @rule(death=deaths)
    def restart(self, death: int | None = None) -> None:
        """A driver starts where the one before stood; the first may die in it."""
        stood = (self.query.generation, self.query.batch)
        self.dies(death, lambda job: job.boot())
        plan = self.job.boot()
        assert (plan.generation, plan.start_batches.get("delays", -1)) == stood
        self.begun = None

    # What its owner asks for

    @rule(death=deaths, choice=st.integers(0, 5), mode=st.sampled_from(ClaimMode))
    def restore(self, death: int | None, choice: int, mode: ClaimMode) -> None:
        """Restore any snapshot; the first driver that is asked to may die in it, and the wish stays."""
        own = [f"checkpoint:{ref.id}" for ref in catalog.list_snapshots(self.job.store) if ref.kind == "checkpoint"]
        snapshots = [*own, *self.existing_savepoints()]
        if not snapshots:
            return
        self.wishes += 1
        named = snapshots[choice % len(snapshots)]
        wish = a_restore(snapshot=named, claim_mode=mode, nonce=str(self.wishes))
        self.dies(death, lambda job: job.boot(wish))
        self.goes_on(self.job.boot(wish))

    @rule(choice=st.integers(0, 5))
    def dispose(self, choice: int) -> None:
        found = self.existing_savepoints()
        if found:
            parent, _, name = found[choice % len(found)].rpartition("/")
            savepoint.dispose(self.job.open_store(parent), name)

    # Helpers

    def dies(self, death: int | None, act: object) -> bool:
        """Perform something; tell whether it killed the driver."""
        plan = stores.Plan(crash_after=death, only=WRITES)
        dying = self.job.on(stores.FaultyStore(self.job.bucket, plan))
        with contextlib.suppress(stores.CrashPoint):
            act(dying)  # type: ignore[operator]
            self.job.epoch = dying.epoch
            return False
        return True

    def pruned(self, job: Job) -> object:
        return pruning.run(job.store, self.policy, job.clock.now, open_store=job.open_store)

    def goes_on(self, plan: ReadyState) -> None:
        batch = plan.start_batches.get("delays", -1)
        if (plan.generation, batch) != (self.query.generation, self.query.batch):
            self.query = self.query.continue_in(plan.generation, batch)
            keys = [file.path for query in plan.queries for file in query.files]
            self.state = batch_records.newest(keys, OPERATOR_STATE, at_batch=batch).get("function")
        self.open_uploads, self.begun = [], None

    def existing_savepoints(self) -> list[str]:
        return [uri for uri in self.savepoints if self.job.open_store(uri).info("_metadata.json")]

    def snapshots(self) -> dict[str, Manifest]:
        refs = catalog.list_snapshots(self.job.store)
        own = {ref.folder: catalog.read_manifest(self.job.store, ref.folder) for ref in refs}
        uris = self.existing_savepoints()
        return own | {uri: catalog.read_manifest(self.job.open_store(uri), "") for uri in uris}

    @invariant()
    def every_snapshot_verifies(self) -> None:
        for name, manifest in self.snapshots().items():
            is_uri = name.startswith("memory:")
            store = self.job.open_store(name) if is_uri else self.job.store
            root = name if not is_uri and manifest.kind is SnapshotKind.SAVEPOINT else ""
            report = verify.verify(store, manifest, root=root)
            assert report.ok, f"{name}: {report.sentence}"

    @invariant()
    def the_head_can_be_closed_over(self) -> None:
        entry = closure.close_over(self.job.store, self.query.path, self.query.batch)
        records = {file.path for file in entry.files if batch_records.parse_key(file.path)}
        assert self.state is None or self.state.key in records

    def teardown(self) -> None:
        """Restore every snapshot in a world of its own; then clean up, and see what is left."""
        assert isinstance(self.job.bucket, stores.MemoryStore)
        for name, manifest in self.snapshots().items():
            world = Job(Clock(self.job.clock.now), self.job.epoch).on(self.job.bucket.copy())
            uri = name if name.startswith("memory:") else f"{self.job.store.uri}/{name}"
            plan = world.boot(a_restore(snapshot=uri, nonce="last"))
            assert plan.start_batches == {query.uid: query.batch_id for query in manifest.queries}
            assert verify.verify_queries(world.store, plan.queries, deep=True).ok
        self.job.clock.forward(1)
        self.job.boot()
        for _ in range(RETAINED + 1):
            self.query.run_batch()
            self.query.upload_snapshots()
            self.job.checkpoint(self.query)
            self.job.clock.forward(2 * GRACE_S)
            self.pruned(self.job)
        self.job.clock.forward(24 * 3600)  # What a restore has left behind stays for a day.
        self.query.run_batch()
        self.pruned(self.job)
        self.job.clock.forward(GRACE_S)
        self.pruned(self.job)
        held = [info.key for info in self.job.store.list(layout.GENERATIONS)]
        records = [key for key in held if key.count("/") == 2]
        assert len(held) - len(records) <= FILES_PER_CHECKPOINT * (RETAINED + 2), "\n".join(held)
        for folder in catalog.list_all(self.job.store).unfinished:
            left = [(info.key, info.size_bytes) for info in self.job.store.list(folder)]
            assert left == [(layout.snapshot_manifest(folder), 0)], (
                "only the mark of a savepoint that was given up stays"
            )


FILES_PER_CHECKPOINT = 24
"""Two partitions with a state snapshot, a few SST files and a changelog each, their checksums, and the logs."""

TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=30)
