"""A random life of a job: starts, batches, snapshots, faults, damage, zombies and rivals, as a seed decides.

Each cycle begins with a start or goes on with the driver that runs, does a few things while faults are armed, and ends at
rest: a healthy driver completes a checkpoint, and the oracle compares everything with the truth.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from faultrig import damage, drivers, faults
from faultrig.world import World
from restores import a_restore

STARTS = {
    "plain": 8,
    "changed job": 1,
    "older checkpoint": 2,
    "older savepoint": 2,
    "after a stop": 2,
    "damage": 3,
    "elsewhere": 1,
    "moved root": 1,
    "copied root": 1,
    "fresh state": 1,
}
"""Ways to begin a cycle, with their weights."""
GOING_BACK = ("older checkpoint", "older savepoint", "fresh state")
DEEDS = {"batches": 5, "checkpoint": 4, "savepoint": 1, "savepoint elsewhere": 1, "rival": 1, "wake": 3, "deliver": 2}
"""What is done while faults are armed, with their weights."""
PLACES = (
    "",
    "",
    "",
    "_metadata.json",
    "_metadata.json",
    "reserved.json",
    "generation.json",
    "savepoints/",
    "/commits/",
    "/offsets/",
    "_commits/",
    "/prepared/",
    "ledger",
    "state/",
    "prune/",
    "data/",
)
"""Parts of keys at which faults strike."""
BROKEN_STARTS = 4
"""Starts in a row that may go wrong before one is left alone."""


class Life:
    """Cycles of one job in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.wish = world.wish()
        self.driver: drivers.Driver | None = None
        self.done: Counter[str] = Counter()
        self.left: set[str] = set()
        """Keys of manifests of futures that were left; a files sink does not promise to bring their rows back."""
        self.goes_back = False
        """Whether the start may be refused by a sink that shows each batch."""
        self._numbers = itertools.count(1)

    def run(self, cycles: int) -> None:
        """Live so many cycles.

        Raises:
            AssertionError: Something is wrong; it tells the seed and the story.
        """
        for number in range(1, cycles + 1):
            self.world.log(f"-- cycle {number}")
            self.cycle()

    def cycle(self) -> None:
        self.world.clock.forward(self.random.choice([1, 30, 120, 4000]))
        self.world.lag(self.random.choice([0, 0, 0, 5, 20]))
        if self.driver is None or not self.driver.is_up or self.random.random() < 0.5:
            self._begin()
        for _ in range(self.random.randint(1, 4)):
            if self.driver is None or not self.driver.is_up or self.driver.is_frozen:
                break
            if self.random.random() < 0.6:
                self._arm(self.driver, 40)
            self._do(self._choice(DEEDS))
            self.world.judge()
        self._settle()

    # Starts

    def _begin(self) -> None:
        way = self._choice(STARTS)
        self.done[way] += 1
        self.world.log(f"begins: {way}")
        expected, wounds = self._prepare(way)
        self.goes_back = way in GOING_BACK
        self._start(expected, wounds)
        word_is_over = self.wish.restore.model_copy(update={"repeat_output_of": ()})
        self.wish = replace(self.wish, is_changed=False, restore=word_is_over)

    def _prepare(self, way: str) -> tuple[dict[str, int] | None, list[damage.Damage]]:
        """Bring about what a start is about; return where it must go on, if that is known."""
        if way == "after a stop":
            return self._stopped(), []
        if self.driver is not None:
            self._end_driver()
        if way == "older checkpoint":
            numbers = self.world.checkpoints(self.wish.area, self.wish.name)
            return self._restored([f"checkpoint:{number}" for number in numbers]), []
        if way == "older savepoint":
            return self._restored(self.world.savepoints), []
        if way == "elsewhere":
            return self._elsewhere(), []
        if way in ("moved root", "copied root"):
            return self._in_another_root(way), []
        if way == "fresh state":
            self.wish = replace(self.wish, restore=a_restore(empty=True, nonce=f"wish-{next(self._numbers)}"))
            self.world.bases[self.wish.output] = dict.fromkeys(drivers.QUERIES, 0)
            return dict.fromkeys(drivers.QUERIES, 0), []
        if way == "damage":
            return None, self._damaged()
        self.wish = replace(self.wish, is_changed=way == "changed job")
        return None, []

    def _end_driver(self) -> None:
        assert self.driver is not None
        if self.driver.is_up and not self.driver.is_frozen:
            self.world.kill(self.driver) if self.random.random() < 0.7 else self.world.freeze(self.driver)

    def _stopped(self) -> dict[str, int] | None:
        if self.driver is None or not self.driver.is_up or self.driver.is_frozen:
            return None
        uri = self.world.stop(self.driver)
        if uri is None or not self.driver.has_ended or self.random.random() < 0.5:
            return None
        return self._restored([uri])

    def _restored(self, references: list[str]) -> dict[str, int] | None:
        usable = self._usable(references)
        if not usable:
            return None
        chosen = self.random.choice(usable)
        self.wish = replace(self.wish, restore=a_restore(snapshot=chosen, nonce=f"wish-{next(self._numbers)}"))
        return self.world.offsets(chosen, self.wish.area, self.wish.name)

    def _usable(self, references: list[str]) -> list[str]:
        """Return those of no future that was left, and of savepoints those whose own files are whole."""
        damaged = tuple(self.world.oracle.damaged)
        folders = {one: f"{self._key(one).removesuffix('_metadata.json')}files/" for one in references}
        return [
            one
            for one, files in folders.items()
            if self._key(one) not in self.left and not any(key.startswith(files) for key in damaged)
        ]

    def _elsewhere(self) -> dict[str, int] | None:
        """Start another job from a savepoint: another root, other sinks."""
        usable = self._usable(self.world.savepoints)
        if not usable:
            return None
        number, chosen = next(self._numbers), self.random.choice(usable)
        offsets = self.world.offsets(chosen)
        output = f"out-{number}"
        self.world.bases[output] = offsets
        restore = a_restore(snapshot=chosen, nonce=f"wish-{number}")
        self.wish = self.world.wish(
            f"area-{number}", output=output, book=f"book-{number}", restore=restore, name=f"flights-{number}"
        )
        self.left.update(self._key(one) for one in self.world.savepoints if one != chosen)
        return offsets

    def _in_another_root(self, way: str) -> dict[str, int]:
        """Go on in a copy of the root, in front of the same sinks; whoever still runs in the old one is gone, or a rival."""
        target = f"{way.split()[0]}-{next(self._numbers)}"
        head = self.world.head(self.wish.area, self.wish.name)
        self.world.copy_area(self.wish.area, target)
        if way == "moved root":
            for driver in self.world.drivers:
                driver.is_dead |= driver.wish.area == self.wish.area
            self.world.scheduler.reap()
            self.world.remove_area(self.wish.area)
        self.wish = replace(self.wish, area=target)
        return head

    def _damaged(self) -> list[damage.Damage]:
        target = self.random.choice(list(damage.TARGETS))
        if target == "generation" and self.wish.restore.once_key:
            return []  # Whether that restore was done cannot be told then: the start stops, as it should.
        found = damage.inflict(self.world.network, self.wish.root, self.random, target)
        if found is None:
            return []
        self.world.log(f"{found.key} is {found.way}")
        self.world.oracle.damaged.add(found.key)
        return [found]

    def _start(self, expected: dict[str, int] | None, wounds: list[damage.Damage]) -> None:
        for attempt in range(BROKEN_STARTS + 1):
            head = self.world.head(self.wish.area, self.wish.name) if expected is None and not wounds else None
            broken = attempt < BROKEN_STARTS and self.random.random() < 0.4
            driver = self.world.begin(self.wish, arm=lambda one, broken=broken: self._arm(one, 30) if broken else None)
            if self.world.until_up(driver):
                self.driver = driver
                self._judge_start(driver, expected, head)
                return
            if not driver.has_ended and not driver.is_frozen:
                self.world.fail(f"{driver.name} neither runs nor ends")
            if wounds and driver.failure is not None and not driver.is_disturbed:
                self._heal(wounds, driver)
            elif self._is_refused_by_a_sink(driver) and self.goes_back:
                self._say_the_word()
            elif not wounds and not driver.is_disturbed:
                self._require_excuse(driver)
        self.world.fail(f"no driver comes up: {driver.outcome}")

    def _is_refused_by_a_sink(self, driver: drivers.Driver) -> bool:
        """Tell whether a sink that shows each batch has shown some that the snapshot does not contain."""
        return driver.wish.visible == "batch" and driver.failure is not None and driver.failure.reason == "SinkAhead"

    def _say_the_word(self) -> None:
        self.world.log("with the word")
        self.done["with the word"] += 1
        self.wish = replace(
            self.wish, restore=self.wish.restore.model_copy(update={"repeat_output_of": (drivers.LEDGER,)})
        )

    def _heal(self, wounds: list[damage.Damage], driver: drivers.Driver) -> None:
        """Undo damage that a start refuses to go on with; it says so by its reason."""
        self.world.log(f"the damage is undone, since {driver.outcome}")
        self.done["damage that is refused"] += 1
        self.world.clock.forward(5)
        for one in wounds:
            one.undo(self.world.network)
            self.world.oracle.damaged.discard(one.key)
        wounds.clear()

    def _require_excuse(self, driver: drivers.Driver) -> None:
        """A start that fails without a reason of its own has to be explained by somebody else."""
        others = [one for one in self.world.drivers if one is not driver and one.wish.root == driver.wish.root]
        if not any(one.is_disturbed and not one.has_ended for one in others):
            self.world.fail(f"{driver.name} does not come up: {driver.outcome}")

    def _judge_start(
        self, driver: drivers.Driver, expected: dict[str, int] | None, head: dict[str, int] | None
    ) -> None:
        if expected is not None and driver.found != expected:
            self.world.fail(f"{driver.name} begins at {driver.found} instead of {expected}")
        if head is not None and any(driver.found[uid] < offset for uid, offset in head.items()):
            self.world.fail(f"{driver.name} begins at {driver.found}, and {head} was committed")
        numbers = [f"checkpoint:{one}" for one in self.world.checkpoints(self.wish.area, self.wish.name)]
        for reference in (*numbers, *self.world.savepoints):
            if self._is_beyond(reference, driver.found):
                self.left.add(self._key(reference))

    def _is_beyond(self, reference: str, found: dict[str, int]) -> bool:
        if self._key(reference) in self.world.oracle.damaged:
            return True
        offsets = self.world.offsets(reference, self.wish.area, self.wish.name)
        return any(offsets[uid] > found[uid] for uid in found)

    def _key(self, reference: str) -> str:
        if not reference.startswith("checkpoint:"):
            return f"{reference.removeprefix(f'{faults.BUCKET}/')}/_metadata.json"
        return f"{self.wish.root}/checkpoints/{int(reference.removeprefix('checkpoint:')):08d}/_metadata.json"

    # Deeds

    def _do(self, deed: str) -> None:
        self.done[deed] += 1
        driver = self.driver
        assert driver is not None
        if deed == "batches":
            self.world.batches(driver, self.random.randint(1, 4))
        elif deed == "checkpoint":
            self.world.checkpoint(driver)
        elif deed.startswith("savepoint"):
            self.world.savepoint(driver, f"{faults.BUCKET}/backups" if deed.endswith("elsewhere") else None)
        elif deed == "rival":
            self._meet_a_rival(driver)
        elif deed == "wake":
            self._wake()
        else:
            self.world.deliver()

    def _meet_a_rival(self, older: drivers.Driver) -> None:
        """Start a second driver while the first one works; the first one has to notice."""
        newer = self.world.begin(self.wish)
        for driver in (older, newer):
            for uid in drivers.QUERIES:
                driver.granted[uid] = driver.granted.get(uid, 0) + 2
        self.world.rest()
        self.world.log(f"{older.name}: {older.outcome}; {newer.name}: {newer.outcome}")
        self._require_ended(older)
        self.driver = newer

    def _wake(self) -> None:
        for zombie in [one for one in self.world.drivers if one.is_frozen and not one.has_ended]:
            self._grant(zombie)
            self.world.wake(zombie)
            self.world.log(f"{zombie.name}: {zombie.outcome}")
            self._require_ended(zombie)

    def _grant(self, driver: drivers.Driver) -> None:
        for uid in drivers.QUERIES:
            driver.granted[uid] = driver.granted.get(uid, 0) + 1

    def _require_ended(self, older: drivers.Driver) -> None:
        newest = max(one.epoch for one in self.world.drivers if one.wish.root == older.wish.root)
        if older.epoch < newest and not older.has_ended and not older.is_frozen:
            self.world.fail(f"{older.name} goes on under epoch {older.epoch}, and epoch {newest} exists")

    def _arm(self, driver: drivers.Driver, within: int) -> None:
        kind = self.random.choice(list(faults.Kind))
        place = self.random.choice(PLACES)
        name = self.random.choice(["", "delete"]) if kind in (faults.Kind.DELAY, faults.Kind.REPEAT) else ""
        driver.arm(kind, self.random.randint(0, 3 if place else within), place, name)

    # The end of a cycle

    def _settle(self) -> None:
        if self.driver is not None and self.driver.is_up and not self.driver.is_frozen:
            self.driver.faults.clear()
            self.world.lag(0)
            has_run = self.world.batches(self.driver)
            if has_run:
                self.world.judge_shown(self.driver)
            if has_run and self.world.completes_a_checkpoint(self.driver):
                self.world.judge_sinks(self.driver)
                self.world.judge()
                return
            if not self.driver.is_disturbed and not self.driver.has_ended:
                self.world.fail(f"{self.driver.name} neither completes a checkpoint nor ends")
            self._require_reason(self.driver)
        self._start_undisturbed()
        assert self.driver is not None
        self.world.settle(self.driver)

    def _require_reason(self, driver: drivers.Driver) -> None:
        if not driver.is_disturbed:
            self._require_excuse(driver)

    def _start_undisturbed(self) -> None:
        for _ in range(3):
            head = self.world.head(self.wish.area, self.wish.name)
            self.driver = self.world.begin(self.wish)
            if self.world.until_up(self.driver):
                self._judge_start(self.driver, None, head)
                return
            self._require_excuse(self.driver)
        self.world.fail(f"no driver comes up: {self.driver.outcome}")

    def _choice(self, weights: dict[str, int]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]
