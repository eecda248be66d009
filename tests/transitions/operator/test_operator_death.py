"""The operator dies after each single thing it does, in every scenario, and another one goes on.

Nothing may differ at the end: one driver, from the right state, and never two drivers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from jobworld import FakeDriver, JobWorld, OperatorDiedError
from statefulspark.contract.api import StandbyState, StandbyStatus
from statefulspark.contract.manifest import SnapshotKind
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle.steps import CARRIED_OUT

READY = StandbyStatus(state=StandbyState.READY)


class Death:
    """Lets the operator die after its n-th deed, once."""

    def __init__(self, world: JobWorld, after: int | None) -> None:
        self.deeds = 0
        self._after = after
        world.cluster.after_write = self._count
        world.drivers.after_request = self._count

    def _count(self, _what: str) -> None:
        self.deeds += 1
        if self.deeds == self._after:
            raise OperatorDiedError


def until(world: JobWorld, condition: Callable[[], bool]) -> None:
    """Let the world run until something is true; an operator that died is replaced by the next pass."""
    for _ in range(200):
        if condition():
            return
        try:
            world.run(1)
        except OperatorDiedError:
            world.replace_operator()
            world.pass_time()
    raise AssertionError(f"not reached: {world.status!r}, events {world.reasons}")


def has_run(world: JobWorld, epoch: int) -> bool:
    status = world.status
    return status.phase is Phase.RUNNING and (status.epoch or 0) >= epoch and status.last_checkpoint is not None


def start(world: JobWorld) -> None:
    until(world, lambda: has_run(world, 1))


def crash(world: JobWorld) -> None:
    start(world)
    world.kill_driver()
    until(world, lambda: has_run(world, 2))
    assert world.driver.restored_from is not None


def upgrade(world: JobWorld) -> None:
    start(world)
    rows = world.driver.rows
    world.change({"image": "registry.example/flights:2"})
    until(world, lambda: world.status.upgrade is not None and world.status.upgrade.state in CARRIED_OUT)
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert savepoint.rows >= rows
    assert world.driver.restored_from == f"savepoint {savepoint.id}"
    assert sum(found.kind is SnapshotKind.SAVEPOINT for found in world.storage.snapshots) == 1


def has_in_upgrade(world: JobWorld, *states: UpgradeState) -> bool:
    return world.status.upgrade is not None and world.status.upgrade.state in states


def warm_upgrade(world: JobWorld) -> None:
    world.change({"upgrade": {"strategy": "Warm"}})
    start(world)
    old = world.driver
    world.change({"image": "registry.example/flights:2"})
    until(world, lambda: has_in_upgrade(world, *CARRIED_OUT))
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert savepoint.rows == old.rows
    assert (world.driver.pod, world.driver.restored_from) == ("flights-standby-1", f"savepoint {savepoint.id}")
    assert [request.epoch for request in world.driver.activations] in ([2], [2, 2])
    assert sum(found.kind is SnapshotKind.SAVEPOINT for found in world.storage.snapshots) == 1


def write_code(world: JobWorld, text: str) -> None:
    place = ("ConfigMap", "demo", "code")
    meta: Resource = {"name": "code", "namespace": "demo"}
    if place in world.cluster.objects:
        world.cluster.objects[place]["data"] = {"flights.py": text}
    else:
        world.cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"flights.py": text}})


def other_code(world: JobWorld) -> None:
    write_code(world, "first")
    source: Resource = {"configMap": {"name": "code", "key": "flights.py"}}
    world.change({"upgrade": {"strategy": "Warm"}, "job": {"file": None, "source": source}})
    start(world)
    old = world.driver
    write_code(world, "second")
    until(world, lambda: has_in_upgrade(world, *CARRIED_OUT))
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert (savepoint.rows, world.driver.restored_from) == (old.rows, f"savepoint {savepoint.id}")
    kept = [name for kind, _, name in world.cluster.objects if kind == "ConfigMap" and "-code-" in name]
    assert len(kept) == 2


def blocked_upgrade(world: JobWorld) -> None:
    world.change({"upgrade": {"strategy": "Warm"}})
    start(world)

    def refuse(driver: FakeDriver) -> None:
        driver.refusal = StandbyStatus(state=StandbyState.REFUSED, reason="BadJob", message="NameError")

    world.on_start = refuse
    world.change({"image": "registry.example/flights:2"})
    until(world, lambda: has_in_upgrade(world, UpgradeState.BLOCKED) and not world.standbys)
    assert (world.driver.epoch, world.driver.stop_id, world.driver.exit_code) == (1, None, None)
    assert len(world.drivers.running) == 2


def rolled_back_upgrade(world: JobWorld) -> None:
    world.change({"upgrade": {"strategy": "Warm"}})
    start(world)
    world.change({"image": "registry.example/flights:2"})
    until(world, lambda: world.driver.pod == "flights-standby-1" and world.driver.epoch == 2)
    world.driver.end(14, "NonRestoredState", "it does not fit")
    until(world, lambda: has_in_upgrade(world, UpgradeState.ROLLED_BACK) and has_run(world, 3))
    assert world.driver.pod == "flights-driver-3"
    assert world.storage.repeated == []
    assert [record.outcome.value for record in world.status.history] == ["RolledBack", "Running"]


def _failed_upgrade(world: JobWorld, *, withdraws: bool) -> None:
    """The new revision fails after some batches, and its state does not fit the old one."""
    start(world)
    world.change({"image": "registry.example/flights:2"})
    until(world, lambda: sum(epoch == 2 for _, epoch in world.storage.output) > 3)

    def refuse(driver: FakeDriver) -> None:
        driver.refuses_newest, driver.withdraws = "NonRestoredState", withdraws

    world.on_start = refuse
    world.driver.end(13, "BadJob", "it fails")
    until(world, lambda: has_in_upgrade(world, UpgradeState.ROLLED_BACK))


def rolled_back_to_its_savepoint(world: JobWorld) -> None:
    _failed_upgrade(world, withdraws=True)
    until(world, lambda: has_run(world, 4))
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert world.driver.restored_from == f"savepoint {savepoint.id}"
    assert world.storage.repeated == []


def rolled_back_by_a_person(world: JobWorld) -> None:
    _failed_upgrade(world, withdraws=False)
    until(world, lambda: world.status.phase is Phase.STALLED)
    savepoint = world.storage.latest(SnapshotKind.SAVEPOINT)
    assert savepoint is not None
    assert world.storage.repeated == []
    world.change({"restore": {"source": {"uri": savepoint.location}, "repeatOutputOf": ["delays/out"]}})
    until(world, lambda: has_run(world, 5))
    assert world.driver.restored_from == f"savepoint {savepoint.id}"


def takeover(world: JobWorld) -> None:
    world.change({"driver": {"standby": True}})
    start(world)
    until(world, lambda: any(driver.status().standby == READY for driver in world.standbys))
    world.kill_driver()
    until(world, lambda: has_run(world, 2))
    assert world.driver.pod == "flights-standby-1"
    assert (world.driver.restored_from or "").startswith("checkpoint")
    until(world, lambda: len(world.standbys) == 1)


def suspend_and_resume(world: JobWorld) -> None:
    start(world)
    world.change({"suspend": True})
    until(world, lambda: world.status.phase is Phase.SUSPENDED and world.driver.exit_code is not None)
    world.change({"suspend": False})
    until(world, lambda: has_run(world, 2))
    assert (world.driver.restored_from or "").startswith("savepoint")


def delete(world: JobWorld) -> None:
    world.change({"deletionPolicy": "Savepoint"})
    start(world)
    world.delete()
    until(world, lambda: not world.exists)
    assert world.storage.snapshots[-1].kind is SnapshotKind.SAVEPOINT


SCENARIOS: tuple[Callable[[JobWorld], None], ...] = (
    start,
    crash,
    upgrade,
    warm_upgrade,
    other_code,
    blocked_upgrade,
    rolled_back_upgrade,
    rolled_back_to_its_savepoint,
    rolled_back_by_a_person,
    takeover,
    suspend_and_resume,
    delete,
)


def _deaths() -> Iterator[object]:
    for scenario in SCENARIOS:
        world = JobWorld()
        death = Death(world, None)
        scenario(world)
        for deed in range(1, death.deeds + 1):
            yield pytest.param(scenario, deed, id=f"{scenario.__name__}, death after deed {deed}")


@pytest.mark.parametrize(("scenario", "deed"), list(_deaths()))
def test_an_operator_that_dies_anywhere_is_replaced_without_harm(
    scenario: Callable[[JobWorld], None], deed: int
) -> None:
    world = JobWorld()
    Death(world, deed)

    scenario(world)

    assert world.most_live_pods == 1
    epochs = [driver.epoch for driver in world.drivers.running.values() if driver.standby is None]
    assert len(epochs) == len(set(epochs))


def test_the_scenarios_have_deeds_to_die_after() -> None:
    world = JobWorld()
    death = Death(world, None)
    upgrade(world)
    assert death.deeds > 20
