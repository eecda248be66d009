"""A whole start, from the claim to queries that run: what it asks of storage twice, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from faultrig import fibers
from faultrig.world import World
from statefulspark.testing import stores

ROOT = "a/default/flights/"
QUESTIONS = {"read": "read", "list": "list", "list_names": "list"}
_T = TypeVar("_T")


class DriversOwn(stores.FaultyStore):
    """Writes down what the thread of the driver asks; Spark's queries read beside it."""

    def _perform(self, name: str, key: str, act: Callable[[], _T]) -> _T:
        fiber = fibers.current()
        return super()._perform(name, key, act) if fiber is not None and fiber.name == "main" else act()


def asked_again(world: World) -> set[str]:
    """Return what a driver that goes on after a death reads, or lists, more than once until its queries run."""
    driver = world.start()
    world.settle(driver, count=3)
    world.batches(driver)
    world.kill(driver)
    own = DriversOwn(world.bucket)
    world.network.server = own
    world.start()
    world.network.server = world.bucket
    asked = [(QUESTIONS[one.name], one.key.removeprefix(ROOT)) for one in own.operations if one.name in QUESTIONS]
    return {f"{name} {key}" for (name, key), times in Counter(asked).items() if times > 1}


def test_a_start_asks_again_only_for_what_it_is_about_to_act_on_behind_the_fence(world: World) -> None:
    again = asked_again(world)

    # Transactions are read when they are committed, and not handed on from the plan for that long.
    assert {what for what in again if "/prepared/" not in what} == {
        # Whoever was replaced may have prepared a batch, or planned one, until it saw this epoch.
        "list generations",
        # Whose batches and checkpoints these are; the claim has looked before.
        "list epochs",
        "read epochs/00000001.json",
        "read generations/00000001/totals/offsets/3",
        "read generations/00000001/entries/offsets/3",
        # Sinks are compared with what the state descends from, and their openers with the claims on storage.
        "read generations/00000001/generation.json",
        "read out/_sink.json",
        *(f"read out/_commits/{batch:08}.json" for batch in range(3)),
    }
