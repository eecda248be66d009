"""Random lives of upgrades with a changed plan: standbys carry state ahead while everything goes wrong, and take over.

A failure tells the seed and the story. Each upgrade adds a source to the job, so that its plan differs from the state's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from faultrig import drivers, faults
from faultrig.world import World
from restores import a_restore
from statefulspark.contract import layout
from statefulspark.contract.config import RestoreConfig

SEEDS = range(16)
UPGRADES = 3
DEEDS = {"batches": 5, "checkpoint": 4, "look": 5, "fault": 3, "another standby": 1, "restart": 1, "time": 2, "late": 2}
"""What happens while a standby waits, with their weights."""
PEACE = {deed: DEEDS[deed] for deed in ("batches", "checkpoint", "look")}


@dataclass
class Upgrades:
    """One job that is upgraded again and again.

    Attributes:
        world: Where it lives.
        driver: The driver that runs.
        sources: The sources of the running revision.
        deeds: What may happen.
    """

    world: World
    driver: drivers.Driver
    sources: tuple[str, ...] = ("numbers",)
    deeds: Mapping[str, int] = field(default_factory=lambda: DEEDS)

    def upgrade(self) -> None:
        """Prepare a standby, let things happen, and let it take over; if it cannot, start its revision cold."""
        self.next = (*self.sources, f"source {len(self.sources)}")
        self.standby = self.world.stand_by(self.world.wish(sources=self.next))
        for _ in range(self.world.random.randint(2, 9)):
            self._do(self.world.random.choices(list(self.deeds), list(self.deeds.values()))[0])
            self.world.judge()
        self._take_over()
        self.sources = self.next
        self.world.settle(self.driver, count=2)

    def end(self) -> None:
        """Let everybody go on who was frozen, and every late request arrive; judge what is left."""
        for one in self.world.drivers:
            if one.is_frozen:
                self.world.wake(one)
        self.world.deliver()
        self.world.settle(self.driver, count=1)
        self.world.kill(self.driver)
        self.driver = self.world.start(self.world.wish(sources=self.sources))
        self.world.settle(self.driver, count=2)

    def _do(self, deed: str) -> None:
        acts: dict[str, Callable[[], object]] = {
            "batches": lambda: self.world.batches(self.driver, self.world.random.randint(1, 3)),
            "checkpoint": lambda: self.world.checkpoint(self.driver),
            "look": self._look,
            "fault": self._break,
            "another standby": self._another_standby,
            "restart": self._restart,
            "time": lambda: self.world.clock.forward(self.world.random.choice([1, 70, 700])),
            "late": self.world.deliver,
        }
        acts[deed]()

    def _look(self) -> None:
        if not self.standby.is_dead and not self.standby.is_frozen:
            self.world.look(self.standby)

    def _break(self) -> None:
        self.standby.arm(self.world.random.choice(list(faults.Kind)), after=self.world.random.randint(0, 12))

    def _another_standby(self) -> None:
        if self.world.random.random() < 0.5:
            self.world.kill(self.standby)
        self.standby = self.world.stand_by(self.world.wish(sources=self.next))

    def _restart(self) -> None:
        self.world.kill(self.driver)
        self.driver = self.world.start(self.world.wish(sources=self.sources))

    def _take_over(self) -> None:
        restore = None
        if self.world.random.random() < 0.7:
            self.world.batches(self.driver, 1)
            savepoint = self.world.stop(self.driver)
            restore = a_restore(snapshot=savepoint, nonce=f"upgrade {len(self.next)}") if savepoint else None
        self.world.kill(self.driver)
        if "fault" in self.deeds and self.world.random.random() < 0.5:
            self._break()
        standby = self.standby
        if not standby.is_dead and not standby.is_frozen and self._is_activated(standby, restore):
            self.driver = standby
            return
        self.world.kill(standby) if not standby.is_frozen else None
        self.driver = self.world.start(self.world.wish(sources=self.next, restore=restore))
        assert self.driver.is_up, self.driver.outcome

    def _is_activated(self, standby: drivers.Driver, restore: RestoreConfig | None) -> bool:
        epochs = self.world.bucket.list_names(f"{standby.wish.root}/{layout.EPOCHS}")
        newest = max(layout.parse_number(name) or 0 for name in epochs)
        is_up = self.world.activate(standby, epoch=newest + 1, restore=restore)
        return is_up and not standby.is_frozen


@pytest.fixture(params=SEEDS)
def lived(request: pytest.FixtureRequest) -> Iterator[Upgrades]:
    with World(request.param).entered() as world:
        driver = world.start()
        world.settle(driver, count=2)
        yield Upgrades(world, driver)


def test_upgrades_that_carry_state_ahead_lose_nothing_and_repeat_nothing(lived: Upgrades) -> None:
    for _ in range(UPGRADES):
        lived.upgrade()
    lived.end()


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_lives_in_peace_go_on_in_the_generation_that_was_carried_ahead(seed: int) -> None:
    """A rule that never lets a start take what was carried would leave everything above true, and nothing gained."""
    with World(seed).entered() as world:
        lives = Upgrades(world, world.start(), deeds=PEACE)
        world.settle(lives.driver, count=2)
        for _ in range(UPGRADES):
            lives.upgrade()
            assert lives.driver.plan is not None
            key = f"{lives.driver.wish.root}/{layout.generation_reservation(lives.driver.plan.generation)}"
            assert json.loads(world.bucket.read(key)).get("standby")
