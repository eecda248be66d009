"""What is done to a job on purpose: upgrades, rollbacks, other partitions, handovers, moves; under each trouble, too.

A change stops the driver with a savepoint, as the operator does, and starts the next one; if the driver ends otherwise,
because of the trouble, the next one is started all the same. A handover has a standby that takes over.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from faults import local
from faults import world as worlds
from faults.loaded import ScenarioError
from faults.s3proxy import Fault, Harm
from faults.scenario import Scenario
from faults.world import World

Change = Callable[[World], None]

AT_ONCE = ("--parameter", "visible=batch")
RESCALED = ("--conf", "spark.sql.shuffle.partitions=3")
SLOWER = ("--parameter", "trigger=2s")
CANNOT_START = ("--parameter", "trigger=nonsense")
DOES_NOT_FIT = ("--parameter", "accounts=others")
RAISES = ("--parameter", "broken=yes")
ONE_MORE_AGGREGATE = ("--parameter", "aggregate=yes")
_GONE_FOR_S = 20.0
_DEATHS = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes on while a job is changed.

    Attributes:
        name: As a scenario's name goes on after `while`.
        during: Goes on while the block runs.
    """

    name: str
    during: Callable[[World], AbstractContextManager[None]]


def upgraded(flags: tuple[str, ...], world: World) -> None:
    """The job is stopped with a savepoint and started again, with other flags and then with those it had."""
    for some in (flags, ()):
        _upgraded_to(world, *some)


def _upgraded_to(world: World, *flags: str) -> None:
    world.keep(*flags)
    world.stop_or_die()
    world.start()
    world.attend()
    world.until_commits(3)


def with_one_more_source(world: World) -> None:
    """A version is started that reads a second topic, and then one that does not any more, whose user says so."""
    _upgraded_to(world, "--parameter", f"more={world.more_events()}")
    _upgraded_to(world, "--restore-drop-state", "more")


def rolled_back(flags: tuple[str, ...], world: World) -> None:
    """A new version of the job ends by itself, and the old one goes on from the newest state, as an operator does it."""
    world.stop_or_die()
    world.start(*flags)
    world.note_end()
    world.start()
    world.attend()
    world.until_commits(2)


def handed_over(flags: tuple[str, ...], world: World) -> None:
    """A standby with other flags takes over, and then one with those that the job had."""
    for some in (flags, ()):
        world.keep(*some)
        standby = world.stand_by(*some)
        world.stop_or_die()
        world.take_over(standby)
        world.until_commits(3)


def changed(change: Change, trouble: Trouble | None, world: World) -> None:
    """The job is changed while something goes on, or in peace."""
    world.hurt()
    if trouble is None:
        change(world)
    else:
        with trouble.during(world):
            change(world)
    world.until_up()
    world.heal()
    world.until_commits(2)


def restored_elsewhere(world: World) -> None:
    """The job is stopped with a savepoint and goes on from it in another root of state."""
    world.hurt()
    _go_on_elsewhere(world, world.stop_with_savepoint())


def relocated(world: World) -> None:
    """The savepoint of a stop is copied to another place, disposed of, and the job goes on from the copy in another root."""
    world.hurt()
    savepoint, copy = world.stop_with_savepoint(), f"s3://{world.bucket}/moved/savepoint"
    world.on_storage("savepoint", "copy", savepoint, copy)
    world.on_storage("savepoint", "dispose", savepoint)
    _go_on_elsewhere(world, copy)


def _go_on_elsewhere(world: World, savepoint: str) -> None:
    world.replace_driver(world.new_driver(world.proxy, storage="elsewhere"))
    world.start("--restore-uri", savepoint)
    world.attend()
    world.until_commits(3)


def changed_without_a_savepoint(flags: tuple[str, ...], world: World) -> None:
    """The driver is killed and started with other flags, killed again and started with those it had, four times in all."""
    world.hurt()
    for some in (flags, (), flags, ()):
        world.wait(world.chance.uniform(0.5, 4.0))
        with world.unattended():
            local.die(world)
            world.start(*some)
        world.until_commits(4)


def upgraded_many_times(count: int, world: World) -> None:
    """The job is stopped with a savepoint and started again, many times."""
    world.hurt()
    for _ in range(count):
        world.stop_with_savepoint()
        world.start()
        world.attend()
        world.until_commits(1)


def upgraded_once(world: World) -> None:
    """The job is stopped with a savepoint and another version is started."""
    world.hurt()
    world.stop_or_die()
    world.start(*local.ANOTHER)
    world.attend()
    world.until_each_commits()


def handed_over_once(world: World) -> None:
    """A standby of another version takes over."""
    standby = world.stand_by(*local.ANOTHER)
    world.hurt()
    world.stop_or_die()
    world.take_over(standby)
    world.until_each_commits()


@contextmanager
def harmed(fault: Fault, world: World) -> Iterator[None]:
    """The store misbehaves."""
    with world.proxy.breaking(fault):
        yield


@contextmanager
def store_gone(world: World) -> Iterator[None]:
    """The store is gone from a moment that follows from the seed, for a while."""
    with again_and_again(world, _one_outage, times=1):
        yield


@contextmanager
def again_and_again(world: World, act: Callable[[World, random.Random], None], *, times: int) -> Iterator[None]:
    """Something is done at moments that follow from the seed, some times at most, while the block runs."""
    chance, over = random.Random(world.chance.random()), threading.Event()

    def run() -> None:
        for _ in range(times):
            if over.wait(chance.uniform(1.0, 12.0)):
                return
            with suppress(ScenarioError):
                act(world, chance)

    doing = threading.Thread(target=run, daemon=True)
    doing.start()
    try:
        yield
    finally:
        over.set()
        doing.join()


def _one_outage(world: World, _chance: random.Random) -> None:
    with world.proxy.breaking(Fault(Harm.REFUSE)):
        world.wait(_GONE_FOR_S)


def _kill_a_worker(world: World, chance: random.Random) -> None:
    workers = world.worker_pids
    if workers:
        worlds.kill(chance.choice(workers))


def _kill_the_driver(world: World, _chance: random.Random) -> None:
    world.kill()


def _kill_the_broker(world: World, chance: random.Random) -> None:
    world.kill_target("kafka", away_s=chance.uniform(0.0, 8.0))


def _kill_the_database(world: World, chance: random.Random) -> None:
    world.kill_target("postgres", away_s=chance.uniform(0.0, 8.0))


def _harm(name: str, fault: Fault) -> Trouble:
    return Trouble(name, functools.partial(harmed, fault))


def _repeatedly(name: str, act: Callable[[World, random.Random], None]) -> Trouble:
    return Trouble(name, functools.partial(again_and_again, act=act, times=_DEATHS))


TROUBLES = (
    _harm("s3-is-busy", local.BUSY),
    _harm("s3-is-slow", Fault(Harm.SLOW, delay_s=0.3)),
    _harm("s3-cuts", Fault(Harm.CUT, share=0.1)),
    _harm("answers-are-lost", Fault(Harm.LOSE_ANSWER, "PUT", share=0.15)),
    Trouble("s3-is-gone-for-20-s", store_gone),
    _repeatedly("workers-die", _kill_a_worker),
    _repeatedly("drivers-die", _kill_the_driver),
    _repeatedly("kafka-is-killed", _kill_the_broker),
    _repeatedly("postgres-is-killed", _kill_the_database),
)
CHANGES: dict[str, Change] = {
    "upgrade": functools.partial(upgraded, SLOWER),
    "rescale": functools.partial(upgraded, RESCALED),
    "rollback": functools.partial(rolled_back, CANNOT_START),
    "handover": functools.partial(handed_over, SLOWER),
}
_MORE: dict[str, Change] = {
    "rollback-from-state-that-does-not-fit": functools.partial(rolled_back, DOES_NOT_FIT),
    "rollback-from-code-that-raises": functools.partial(rolled_back, RAISES),
    "upgrade-new-aggregate": functools.partial(rolled_back, ONE_MORE_AGGREGATE),
    "rescale-by-a-handover": functools.partial(handed_over, RESCALED),
}

SCENARIOS: tuple[Scenario[World], ...] = (
    *(local.scenario(name, changed, change, None) for name, change in (CHANGES | _MORE).items()),
    *(
        local.scenario(f"{name}-while-{trouble.name}", changed, change, trouble)
        for name, change in CHANGES.items()
        for trouble in TROUBLES
    ),
    local.scenario("visibility-changed-while-s3-is-busy", changed, functools.partial(upgraded, AT_ONCE), TROUBLES[0]),
    local.scenario("visibility-changed-by-kills", changed_without_a_savepoint, AT_ONCE),
    Scenario("upgrade-new-source", functools.partial(changed, with_one_more_source, None)),
    Scenario("restored-elsewhere", restored_elsewhere),
    Scenario("relocated", relocated),
    *local.many("upgraded", upgraded_once, local.RUNS),
    *local.many("handed-over", handed_over_once, local.RUNS),
    local.scenario("20-upgrades", upgraded_many_times, 20, is_long=True),
    local.scenario("50-upgrades", upgraded_many_times, 50, is_long=True),
)
