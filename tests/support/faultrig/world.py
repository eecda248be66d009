"""The whole rig: one bucket, one ledger, any number of drivers one after the other or at once, and the oracle over them.

Scenarios are written with the verbs of `World`; whatever they do is kept in the journal, so that a failure can be told.
Time stands still until a scenario moves it.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from unittest import mock

from faultrig import drivers, faults, fibers, ledger, oracle, truth, workers
from snapshots import Clock
from statefulspark import clock, storage, threads
from statefulspark.checkpoint import catalog
from statefulspark.contract import api, layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import Manifest
from statefulspark.driver.output import retries
from statefulspark.recovery import generations
from statefulspark.storage.port import ObjectStore
from statefulspark.testing.lagging import LaggingStore
from statefulspark.testing.stores import MemoryStore

Wish = drivers.Wish


class World:
    """Everything there is.

    Args:
        seed: Decides the order of everything.
        visible: When the batches of sinks are visible.
    """

    def __init__(self, seed: int = 0, visible: str = "checkpoint") -> None:
        self.seed = seed
        self.visible = visible
        self.random = random.Random(seed)
        self.clock = Clock()
        self.scheduler = fibers.Scheduler(self.random)
        self.bucket = MemoryStore(faults.BUCKET, self.clock)
        self.oracle = oracle.Oracle(self.bucket)
        self.journal: list[str] = []
        self.network = faults.Network(self.bucket, self.bucket, self.oracle, self.journal.append)
        self.drivers: list[drivers.Driver] = []
        self.ledgers: dict[str, ledger.Ledger] = {}
        self.bases: dict[str, dict[str, int]] = {}
        """First record of each query that goes to the sinks of an output."""
        self.savepoints: list[str] = []
        self.removed: set[str] = set()
        """Areas that were removed; what arrives there late is nobody's any more."""
        self._requests = 0

    @contextlib.contextmanager
    def entered(self) -> Iterator[World]:
        """Let the product reach this bucket by its URIs, tell this time, and wait for nothing."""
        with (
            mock.patch.object(storage, "open_store", self.open_store),
            mock.patch.object(clock, "utc_now", self.clock),
            mock.patch.object(retries, "FIRST_WAIT_S", 0.0),
            mock.patch.object(threads, "beside", workers.at_once),
        ):
            try:
                yield self
            finally:
                self.end()

    def open_store(self, uri: str, options: object = None) -> ObjectStore:
        """Open a folder of the bucket as the process that asks reaches it."""
        del options
        prefix = uri.replace("s3a://", "s3://", 1).removeprefix(faults.BUCKET).strip("/")
        fiber = fibers.current()
        if fiber is None:
            return self.bucket.child(prefix)
        assert isinstance(fiber.process, faults.FaultyProcess)
        return fiber.process.store(prefix)

    def end(self) -> None:
        """End every process."""
        for driver in self.drivers:
            driver.is_dead = True
        self.scheduler.reap()

    # Verbs

    def log(self, line: str) -> None:
        self.journal.append(line)

    def lag(self, operations: int) -> None:
        """Let listings show what there was some operations ago; 0 ends that."""
        self.network.server = LaggingStore(self.bucket, operations) if operations else self.bucket

    def wish(
        self,
        area: str = "a",
        *,
        output: str = "out",
        book: str = "book",
        restore: RestoreConfig | None = None,
        is_changed: bool = False,
        name: str = "flights",
        sources: tuple[str, ...] = ("numbers",),
    ) -> Wish:
        target = self.ledgers.setdefault(book, ledger.Ledger(name=book))
        return Wish(area, output, target, restore or RestoreConfig(), is_changed, name, self.visible, sources)

    def begin(
        self, wish: Wish | None = None, *, arm: Callable[[drivers.Driver], None] = lambda _: None
    ) -> drivers.Driver:
        """Start a driver; it has done nothing when this returns."""
        wish = wish or self.wish()
        driver = self._new_driver(wish)
        self.log(f"{driver.name} starts in {wish.area}, {wish.restore.model_dump(exclude_defaults=True) or 'as it is'}")
        arm(driver)
        driver.begin(wish)
        return driver

    def stand_by(self, wish: Wish | None = None) -> drivers.Driver:
        """Start a standby and let it look once."""
        wish = wish or self.wish()
        driver = self._new_driver(wish)
        driver.stand_by(wish)
        self.rest()
        self.log(f"{driver.name} stands by in {wish.area}: {driver.control.status().standby}")
        return driver

    def look(self, standby: drivers.Driver) -> None:
        """Let a standby look for a newer checkpoint."""
        standby.spawn("look", standby.standby.refresh)
        self.rest()
        self.log(f"{standby.name} looks: {standby.control.status().standby}")

    def activate(self, driver: drivers.Driver, epoch: int, restore: RestoreConfig | None = None) -> bool:
        """Make a standby the driver and let it come up; tell whether it did."""
        self.log(f"{driver.name} is activated with epoch {epoch}")
        driver.activate(api.ActivateRequest(request_id=f"take-{epoch}", epoch=epoch, restore=restore))
        return self.until_up(driver)

    def _new_driver(self, wish: Wish) -> drivers.Driver:
        self.bases.setdefault(wish.output, dict.fromkeys(drivers.QUERIES, 0))
        driver = drivers.Driver(self.scheduler, f"driver {len(self.drivers) + 1}", self.network, wish.area)
        self.drivers.append(driver)
        self.removed.discard(wish.area)
        return driver

    def start(self, wish: Wish | None = None) -> drivers.Driver:
        """Start a driver and let it come up."""
        driver = self.begin(wish)
        self.until_up(driver)
        return driver

    def until_up(self, driver: drivers.Driver) -> bool:
        """Run until a driver's queries run; tell whether they do."""
        self.scheduler.run(lambda: driver.has_ended or (driver.is_up and len(driver.found) == len(driver.queries)))
        if driver.is_up:
            self.log(f"{driver.name} is up: epoch {driver.epoch}, {driver.place}, from {driver.found}")
        else:
            self.log(f"{driver.name} is not up: {driver.outcome}")
        return driver.is_up

    def batches(self, driver: drivers.Driver, count: int = 1) -> bool:
        """Let every query run so many batches; tell whether they did."""
        for uid in drivers.QUERIES:
            driver.granted[uid] = driver.granted.get(uid, 0) + count
        self.scheduler.run(lambda: driver.has_ended or driver.is_frozen)
        self.log(f"{driver.name} ran {count} batches: {driver.outcome}")
        return driver.is_up and not driver.is_frozen

    def checkpoint(self, driver: drivers.Driver) -> api.Operation | None:
        """Ask for a checkpoint and wait for it, and for what follows from it."""
        assert driver.loop is not None
        return self._ask(driver, lambda: driver.loop.request_checkpoint(api.CheckpointRequest(request_id=self._next())))

    def savepoint(self, driver: drivers.Driver, location: str | None = None) -> str | None:
        """Ask for a savepoint; return its URI if it was made."""
        request = api.SavepointRequest(request_id=self._next(), location=location)
        return self._made(self._ask(driver, lambda: driver.loop.request_savepoint(request)))

    def stop(self, driver: drivers.Driver, *, savepoint: bool = True) -> str | None:
        """Ask for a stop; return the URI of its snapshot if it was made."""
        request = api.StopRequest(request_id=self._next(), savepoint=savepoint)
        made = self._ask(driver, lambda: driver.loop.request_stop(request))
        return self._made(made) if savepoint else None

    def kill(self, driver: drivers.Driver) -> None:
        self.log(f"{driver.name} is killed")
        driver.kill()
        self.scheduler.reap()

    def freeze(self, driver: drivers.Driver) -> None:
        self.log(f"{driver.name} is frozen")
        driver.is_frozen = driver.is_disturbed = True

    def wake(self, driver: drivers.Driver) -> None:
        """Wake a frozen driver and let it go on until it rests or has ended."""
        self.log(f"{driver.name} wakes")
        driver.is_frozen = False
        self.rest()

    def rest(self) -> None:
        """Run until nobody can go on."""
        self.scheduler.run()

    def deliver(self) -> None:
        """Let every late request arrive."""
        while self.network.late:
            self.log("a late request arrives")
            self.network.deliver()

    def copy_area(self, source: str, target: str) -> None:
        """Copy a root elsewhere, as any tool does."""
        self.log(f"{source} is copied to {target}")
        for info in self.bucket.list(source):
            self.bucket.write(f"{target}{info.key[len(source) :]}", self.bucket.read(info.key))
        for excused in (self.oracle.damaged, self.oracle.overtaken):
            excused |= {f"{target}{key[len(source) :]}" for key in excused if key.startswith(f"{source}/")}

    def remove_area(self, area: str) -> None:
        """Delete a folder; a root that is made there later counts its epochs anew."""
        self.log(f"{area} is removed")
        self.removed.add(area)
        for driver in self.drivers:
            driver.epoch = 0 if driver.wish.area == area else driver.epoch
        self.bucket.delete_many([info.key for info in self.bucket.list(area)])
        self.savepoints = [uri for uri in self.savepoints if not uri.startswith(f"{faults.BUCKET}/{area}/")]

    def rot(self, key: str, old: bytes, new: bytes) -> None:
        """Change bytes of an object below its etag."""
        info = self.bucket.info(key)
        assert info is not None
        body = self.bucket.read(key)
        assert old in body
        self.log(f"{key} rots")
        self.network.rotten[key] = info
        self.bucket.write(key, body.replace(old, new))

    # What is found

    def checkpoints(self, area: str = "a", name: str = "flights") -> list[int]:
        """Return the numbers of the completed checkpoints of an area."""
        store = self.bucket.child(f"{area}/default/{name}")
        names = store.list_names(layout.CHECKPOINTS)
        numbers = [layout.parse_number(one) for one in names]
        return [number for number in numbers if number and store.info(layout.checkpoint_manifest(number))]

    def cut(self, driver: drivers.Driver, uid: str) -> truth.Cut:
        """Return the newest checkpoint's cut of a query."""
        assert driver.plan is not None
        batch = oracle.expected_batches(driver).get(uid, -1)
        return self.oracle.cut_of(driver.wish.root, driver.plan.generation, uid, batch)

    def offsets(self, reference: str, area: str = "a", name: str = "flights") -> dict[str, int]:
        """Return how far each query is in a snapshot."""
        queries = self.manifest(reference, area, name).queries
        return {one.uid: int(json.loads(one.offsets[0])["offset"]) if one.offsets else 0 for one in queries}

    def manifest(self, reference: str, area: str = "a", name: str = "flights") -> Manifest:
        """Return the manifest of a snapshot: `checkpoint:<id>` of an area, or a savepoint's URI."""
        root = f"{area}/default/{name}"
        folder = reference.removeprefix(f"{faults.BUCKET}/")
        if reference.startswith("checkpoint:"):
            folder = f"{root}/{layout.checkpoint(int(reference.removeprefix('checkpoint:')))}"
        return catalog.read_manifest(self.bucket, folder)

    def head(self, area: str = "a", name: str = "flights") -> dict[str, int]:
        """Return how far each query has committed in the generation in use."""
        root = f"{area}/default/{name}"
        store = self.bucket.child(root)
        records = generations.read_all(store).records
        path = f"{root}/{layout.generation(records[-1].generation)}" if records else root
        found = {}
        for uid in drivers.QUERIES:
            names = self.bucket.list_names(f"{path}/{uid}/commits")
            newest = max((int(one) for one in names if one.isdigit()), default=-1)
            found[uid] = truth.read_offset(self.bucket, f"{path}/{uid}", newest) if newest >= 0 else 0
        return found

    def settle(self, driver: drivers.Driver, *, count: int = 1) -> None:
        """Run batches and a checkpoint undisturbed, and judge everything.

        Raises:
            AssertionError: Something is wrong.
        """
        driver.faults.clear()
        self.lag(0)
        self.batches(driver, count)
        self.judge_shown(driver)
        if not self.completes_a_checkpoint(driver):
            self.fail(f"{driver.name} cannot complete a checkpoint: {driver.outcome}")
        self.judge_sinks(driver)
        self.judge()

    def completes_a_checkpoint(self, driver: drivers.Driver) -> bool:
        """Ask for a checkpoint, and tell whether it was made."""
        made = self.checkpoint(driver) if driver.is_up else None
        return made is not None and made.state is api.OperationState.COMPLETED and driver.is_up

    def judge_sinks(self, driver: drivers.Driver) -> None:
        """Compare both sinks with the newest checkpoint of a driver that rests."""
        base = self.bases[driver.wish.output]
        try:
            totals, entries = self.cut(driver, drivers.TOTALS), self.cut(driver, drivers.ENTRIES)
        except truth.StateDamagedError as error:
            self.oracle.violations.append(f"the newest checkpoint of {driver.name} cannot be loaded: {error}")
            return
        self.oracle.judge_state(drivers.TOTALS, totals)
        self.oracle.judge_state(drivers.ENTRIES, entries)
        self.oracle.judge_files(driver.wish.output, totals, base[drivers.TOTALS])
        self.oracle.judge_ledger(driver.wish.ledger.rows, entries, base[drivers.ENTRIES])

    def judge_shown(self, driver: drivers.Driver) -> None:
        """Compare sinks that show each batch with the last committed batches of a driver that rests, checkpoint or not."""
        if driver.wish.visible != "batch" or driver.has_lost_a_race or not driver.is_up:
            return
        assert driver.plan is not None
        base = self.bases[driver.wish.output]
        cuts = {
            uid: self.oracle.cut_of(driver.wish.root, driver.plan.generation, uid, batch)
            for uid, batch in driver.committed.items()
        }
        self.oracle.judge_files(driver.wish.output, cuts[drivers.TOTALS], base[drivers.TOTALS])
        self.oracle.judge_ledger(driver.wish.ledger.rows, cuts[drivers.ENTRIES], base[drivers.ENTRIES])

    def judge(self) -> None:
        """Check what holds at every moment.

        Raises:
            AssertionError: Something is wrong.
        """
        for output, base in self.bases.items():
            self.oracle.judge_reader(output, base[drivers.TOTALS])
        roots = {driver.wish.root for driver in self.drivers if driver.wish.area not in self.removed}
        self.savepoints = [uri for uri in self.savepoints if self.open_store(uri).info("_metadata.json")]
        self.oracle.judge_snapshots(sorted(roots), self.savepoints)
        for driver in self.drivers:
            self.oracle.violations += driver.violations
            self.oracle.violations += driver.bugs
            if driver.failure and driver.failure.reason == "InternalError":
                self.oracle.violations.append(f"{driver.name}: {driver.outcome}")
        self._judge_currency()
        if self.oracle.violations:
            self.fail("; ".join(self.oracle.violations))

    def _judge_currency(self) -> None:
        """Check that no epoch was claimed twice, and that who was replaced has noticed."""
        claimed = [(driver.wish.root, driver.epoch) for driver in self.drivers if driver.epoch]
        twice = {one for one in claimed if claimed.count(one) > 1}
        if twice:
            self.oracle.violations.append(f"claimed twice: {sorted(twice)}")

    def fail(self, why: str) -> None:
        """Fail with everything that is needed to see it again."""
        story = "\n  ".join(self.journal)
        raise AssertionError(f"{why}\nseed {self.seed} (PYTHONHASHSEED matters too), and this happened:\n  {story}")

    def _next(self) -> str:
        self._requests += 1
        return f"request-{self._requests}"

    def _made(self, operation: api.Operation | None) -> str | None:
        if operation is None or operation.snapshot is None:
            return None
        if operation.state is api.OperationState.COMPLETED:
            self.savepoints.append(operation.snapshot.location)
        return operation.snapshot.location

    def _ask(self, driver: drivers.Driver, ask: Callable[[], api.Operation]) -> api.Operation | None:
        assert driver.loop is not None
        request_id = ask().request_id
        driver.note_change()
        self.scheduler.run(lambda: driver.is_frozen)
        ended = driver.loop.operation(request_id)
        told = f"{ended.state} {ended.reason or ''} {ended.message or ''}" if ended else "unknown"
        self.log(f"{driver.name}, {ended.kind if ended else ''} {request_id}: {told}; {driver.outcome}")
        return ended
