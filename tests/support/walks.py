"""A random life of one job: what people, drivers, nodes, storage and the operator itself do to it, and what must hold.

A step is a name and a number; a `Walk` carries out steps in a `JobWorld` and checks its promises every second. The revision
of `BAD_IMAGE` cannot start: its standby refuses, its driver ends at once with a job file that raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta

from jobworld import KEY, FakeDriver, JobWorld, OperatorDiedError
from statefulspark.contract.api import JobState, StandbyState, StandbyStatus
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api import names
from statefulspark_operator.api.status import OperationPhase, Phase, UpgradeState, UpgradeStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.lifecycle import steps
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

BAD_IMAGE = "registry.example/flights:bad"
IMAGES = ("registry.example/flights:1", "registry.example/flights:2", "registry.example/flights:3", BAD_IMAGE)
POLICIES = ("Wait", "UseLatestCheckpoint", "Abort")
SETTLES_WITHIN_S = 1800
REFUSAL = StandbyStatus(state=StandbyState.REFUSED, reason="BadJob", message="flights.py, line 7: NameError")

Step = tuple[str, int]


class Walk:
    """One walk through a world."""

    def __init__(self) -> None:
        self.world = JobWorld()
        self.world.change(
            {"upgrade": {"strategy": "Warm", "savepointTimeout": "60s"}, "health": {"restartAfter": "10m"}}
        )
        self.world.on_start = self._start
        self.world.cluster.before_write = self._before_write
        self.world.cluster.after_write = self._count
        self.world.drivers.before_request = self._before_request
        self.world.drivers.after_request = self._count
        self.dies_in: int | None = None
        self.dies_after: UpgradeState | None = None
        """What is recorded in this state of the upgrade is the last that the operator does."""
        self.epoch = 0
        self.by_epoch: dict[int, str] = {}
        self.recorded: set[str] = set()
        self.excused: set[str] = set()
        self.overtaken: set[int] = set()
        """Epochs whose driver was asked for a savepoint while a stop went on that nobody waited for any more."""
        self.is_deleted = False
        self.has_killed_a_standby = False

    def take(self, step: Step) -> None:
        """Carry out one step."""
        name, number = step
        STEPS[name](self, number)

    def run(self, seconds: int) -> None:
        """Let everything work; an operator that died is replaced."""
        for _ in range(seconds):
            try:
                self.world.run(1)
            except OperatorDiedError:
                self.world.pass_time()
            self.check()

    def check(self) -> None:
        """Check what must hold at any time."""
        seen: dict[object, str] = {}
        for pod in self.world.cluster.pods():
            labels = resources.section(pod, "metadata", "labels")
            if labels[names.LABEL_ROLE] == names.ROLE_DRIVER:
                name = resources.text(pod, "metadata", "name")
                assert seen.setdefault(labels[names.LABEL_EPOCH], name) == name, "two drivers with one epoch"
        for driver in self.world.drivers.running.values():
            if driver.standby is None:
                assert self.by_epoch.setdefault(driver.epoch, driver.pod) == driver.pod, "two drivers had one epoch"
            if driver.state is JobState.RUNNING and driver.restored_from is None and driver.epoch > 1:
                older = [found for found in self.world.storage.snapshots if found.epoch < driver.epoch]
                assert not older, f"{driver.pod} started empty"
        if not self.world.exists:
            return
        status = self.world.status
        assert (status.epoch or 0) >= self.epoch, "an epoch fell"
        self.epoch = status.epoch or 0
        if status.last_savepoint is not None and status.last_savepoint.location is not None:
            self.recorded.add(status.last_savepoint.location)
        if status.operation is not None and status.operation.location is not None:
            self.recorded.add(status.operation.location)

    def reach(self, state: UpgradeState, *, within_s: int = 90) -> bool:
        """Let everything work until the upgrade is in a state; an operator that would go on in the same pass dies there."""
        self.dies_after = state
        try:
            for _ in range(within_s):
                for _ in range(4):
                    with contextlib.suppress(OperatorDiedError):
                        self.world.reconcile_if_due()
                    if self._is_upgrade(state):
                        return True
                self.world.pass_time()
                self.check()
            return False
        finally:
            self.dies_after = None

    def _is_upgrade(self, state: UpgradeState | None) -> bool:
        return self.world.status.upgrade is not None and self.world.status.upgrade.state is state

    def die_before_the_next_request(self) -> None:
        """Let the operator record what it is going to do, and die."""
        self.dies_in = 1
        with contextlib.suppress(OperatorDiedError):
            self.world.reconcile_if_due()

    def settle(self) -> None:
        """Take away everything that disturbs, and require that the job comes to rest."""
        self.dies_in = None
        self.world.storage.unreadable = None
        self.world.lost_nodes.clear()
        self.world.has_room = lambda _pod: True
        for driver in self.world.drivers.running.values():
            driver.answers, driver.savepoints_fail, driver.savepoints_take = True, False, timedelta(0)
        for _ in range(SETTLES_WITHIN_S):
            if self.is_settled():
                break
            self.run(1)
        assert self.is_settled(), self._described()
        self._check_savepoints()

    def is_settled(self) -> bool:
        """Tell whether nothing is left to be done."""
        if self.is_deleted:
            return not self.world.exists
        status = self.world.status
        upgrade, operation = status.upgrade, status.operation
        if operation is not None and operation.state is OperationPhase.REQUESTED:
            return False
        if self._spec("suspend") is True:
            return status.phase is Phase.SUSPENDED and not self._live_drivers()
        if status.stalled is not None:
            return status.phase is Phase.STALLED and self._spec("image") == BAD_IMAGE and not self._live_drivers()
        is_over = upgrade is None or upgrade.state in (steps.OVER - {UpgradeState.FIRST_CHECKPOINT})
        is_wanted = self._image_of(self.world.driver.pod) == self._spec("image")
        has_cause = self._spec("image") == BAD_IMAGE or self.has_killed_a_standby
        is_withheld = upgrade is not None and upgrade.state in steps.WITHHELD and has_cause
        is_withheld |= self._is_aborted(upgrade)
        is_alone = len(self._live_drivers()) == 1 and self.world.driver.state is JobState.RUNNING
        is_alone &= self.world.driver.hangs_since is None
        return status.phase is Phase.RUNNING and is_over and is_alone and (is_wanted or is_withheld)

    def _is_aborted(self, upgrade: UpgradeStatus | None) -> bool:
        """Tell whether the spec as it is was given up by its own word."""
        job = self.world.cluster.objects[(resources.JOB.name, KEY.namespace, KEY.name)]
        if upgrade is None or upgrade.state is not UpgradeState.ABORTED:
            return False
        policy = resources.text(job, "spec", "upgrade", "onSavepointFailure")
        return policy == "Abort" and upgrade.generation == resources.number(job, "metadata", "generation")

    def _check_savepoints(self) -> None:
        """Every savepoint of a stop was in the status, unless its driver was killed before anybody could know of it."""
        for found in self.world.storage.snapshots:
            if found.kind is SnapshotKind.SAVEPOINT and self.world.exists and found.epoch not in self.overtaken:
                assert found.location in self.recorded | self.excused, f"{found} was never recorded"

    def _described(self) -> str:
        status = self.world.status if self.world.exists else None
        return f"not settled: {self.world.reasons[-12:]} {status!r}"

    def _live_drivers(self) -> list[FakeDriver]:
        return [found for found in self.world.drivers.running.values() if found.exit_code is None and not found.standby]

    def _spec(self, field: str) -> object:
        job = self.world.cluster.objects[(resources.JOB.name, KEY.namespace, KEY.name)]
        return resources.section(job, "spec").get(field)

    def _image_of(self, pod: str) -> object:
        found = self.world.cluster.objects.get(("Pod", KEY.namespace, pod), {})
        containers = resources.items(found, "spec", "containers")
        return containers[0]["image"] if containers else None

    def _start(self, driver: FakeDriver) -> None:
        if self._image_of(driver.pod) != BAD_IMAGE:
            return
        driver.refusal = REFUSAL
        if driver.standby is None:
            driver.end(13, "BadJob", "flights.py, line 7: NameError")

    def _count(self, _what: str) -> None:
        if self.dies_in is None:
            return
        self.dies_in -= 1
        if self.dies_in <= 0:
            self.dies_in = None
            raise OperatorDiedError

    def _before_write(self, what: str) -> None:
        if self.dies_after is not None and what == f"status {KEY.name}" and self._is_upgrade(self.dies_after):
            raise OperatorDiedError
        if what.startswith("delete Pod "):
            self._spare(what.removeprefix("delete Pod "))

    def _before_request(self, what: str) -> None:
        if what.startswith("stop "):
            self._spare(what.removeprefix("stop "))

    def _spare(self, pod: str) -> None:
        """Fail if a driver that works is about to be stopped for a revision that cannot start."""
        driver = self.world.drivers.running.get(pod)
        job = self.world.cluster.objects[(resources.JOB.name, KEY.namespace, KEY.name)]
        if driver is None or driver.standby is not None or "deletionTimestamp" in resources.section(job, "metadata"):
            return
        is_newest = driver.epoch == self.world.storage.newest_epoch
        works = driver.state is JobState.RUNNING and driver.exit_code is None and is_newest and driver.answers
        works = works and driver.hangs_since is None
        if not works or self._spec("suspend") is True or self._spec("image") != BAD_IMAGE:
            return
        assert self._image_of(pod) == BAD_IMAGE or not self.world.has_room("x"), f"{pod} is stopped for a bad revision"


def _wait(walk: Walk, number: int) -> None:
    walk.run(number)


def _image(walk: Walk, number: int) -> None:
    walk.world.change({"image": IMAGES[number % len(IMAGES)]})


def _restart(walk: Walk, number: int) -> None:
    walk.world.change({"restartNonce": str(number)})


def _savepoint(walk: Walk, number: int) -> None:
    walk.overtaken |= {driver.epoch for driver in walk._live_drivers() if driver.stop_id is not None}
    walk.world.ask_for_savepoint(f"walk-{number}")


def _suspend(walk: Walk, number: int) -> None:
    walk.world.change({"suspend": number % 2 == 0})


def _mode(walk: Walk, number: int) -> None:
    walk.world.change({"driver": {"standby": number % 2 == 0}})


def _kill(walk: Walk, _number: int) -> None:
    running = [found for found in walk.world.drivers.running.values() if found.standby is None]
    if not running:
        return
    driver = walk.world.driver
    if driver.last_savepoint is not None:
        walk.excused.add(driver.last_savepoint.location)
    walk.world.kill_driver()


def _fail(walk: Walk, number: int) -> None:
    for driver in walk._live_drivers()[-1:]:
        if driver.last_savepoint is not None:
            walk.excused.add(driver.last_savepoint.location)
        driver.end(1 if number % 2 else 137, "QueryFailed", "it failed")


def _drain(walk: Walk, _number: int) -> None:
    for driver in walk._live_drivers()[-1:]:
        place = ("Pod", KEY.namespace, driver.pod)
        if place in walk.world.cluster.objects:
            walk.world.cluster.remove(place)


def _kill_standby(walk: Walk, number: int) -> None:
    for standby in walk.world.standbys[-1:]:
        standby.exit_code = 137
        walk.has_killed_a_standby = True
        if number % 2:
            walk.world.cluster.drop_pod(KEY.namespace, standby.pod)


def _silence(walk: Walk, number: int) -> None:
    for driver in walk._live_drivers()[-1:]:
        driver.answers = False
        walk.run(number)
        driver.answers = True


def _linger(walk: Walk, _number: int) -> None:
    for driver in walk._live_drivers()[-1:]:
        driver.lingers = True


def _hang(walk: Walk, _number: int) -> None:
    for driver in walk._live_drivers()[-1:]:
        driver.hangs_since = walk.world.time


def _break_savepoints(walk: Walk, number: int) -> None:
    for driver in walk._live_drivers()[-1:]:
        driver.savepoints_fail = number % 2 == 0


def _slow_savepoints(walk: Walk, number: int) -> None:
    """They are waited for a minute."""
    for driver in walk._live_drivers()[-1:]:
        driver.savepoints_take = timedelta(seconds=6 * number)


def _policy(walk: Walk, number: int) -> None:
    walk.world.change({"upgrade": {"onSavepointFailure": POLICIES[number % len(POLICIES)]}})


def _lose_node(walk: Walk, number: int) -> None:
    if number % 3 == 0:
        walk.world.lost_nodes.clear()
    else:
        walk.world.lost_nodes.add(f"node-{1 + number % 2}")


def _fill(walk: Walk, number: int) -> None:
    walk.world.has_room = (lambda pod: "standby" not in pod) if number % 2 == 0 else (lambda _pod: True)


def _storage(walk: Walk, number: int) -> None:
    unreachable = StorageUnreadable("StorageUnreachable", "s3://state does not answer.")
    walk.world.storage.unreadable = unreachable if number % 2 == 0 else None


def _operator_dies(walk: Walk, number: int) -> None:
    walk.dies_in = 1 + number % 12


def _operator_is_away(walk: Walk, number: int) -> None:
    walk.world.pass_time(number)
    walk.check()


def _delete(walk: Walk, number: int) -> None:
    if number < 25 or walk.is_deleted:
        return
    walk.world.delete()
    walk.is_deleted = True


def _unless_deleted(step: Callable[[Walk, int], None]) -> Callable[[Walk, int], None]:
    def take(walk: Walk, number: int) -> None:
        if walk.world.exists:
            step(walk, number)

    return take


STEPS: Mapping[str, Callable[[Walk, int], None]] = {
    "wait": _wait,
    "change the image": _unless_deleted(_image),
    "restart": _unless_deleted(_restart),
    "savepoint": _unless_deleted(_savepoint),
    "suspend or resume": _unless_deleted(_suspend),
    "hot standby or none": _unless_deleted(_mode),
    "kill the driver": _kill,
    "the driver fails": _fail,
    "delete the driver's pod": _drain,
    "the standby ends": _kill_standby,
    "the driver is silent": _silence,
    "the driver lingers": _linger,
    "a batch hangs": _hang,
    "savepoints fail or work": _break_savepoints,
    "savepoints take their time": _slow_savepoints,
    "failed savepoints are waited for or not": _unless_deleted(_policy),
    "a node is lost or back": _lose_node,
    "no room or room": _fill,
    "storage is away or back": _storage,
    "the operator dies soon": _operator_dies,
    "the operator is away": _operator_is_away,
    "delete": _unless_deleted(_delete),
}
"""Each step, by what happens; its number says how much, or which."""
