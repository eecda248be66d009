"""What is done to the plain job: the scenarios of `faults.local` that have a meaning without us, under the same names.

A kill is put where it matters to Spark, as the kills of ours are put where they matter to our protocol. Where the job cannot
go on, a person does the least that people do, and the row says what.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from faults import local, s3proxy, stored
from faults.plain import files
from faults.plain.world import PlainWorld
from faults.s3proxy import Fault, Harm, Side
from faults.scenario import Expectation, Scenario

TABLES = ("windows", "replaced")
ALONE = ("two-drivers-at-plan", "two-drivers-at-commit")
"""They may leave something behind that shows later."""
GO_BACK = "go back to the version before"
NEEDS_ANOTHER_LOCATION = f"{GO_BACK}; the new one needs a new checkpoint location"


def commits_of(query: str) -> str:
    """Return the pattern of a query's commit log."""
    return rf"/checkpoints/{query}/commits/\d+$"


def killed_before_commit(world: PlainWorld) -> None:
    """The driver is killed when every sink has the rows of a batch, and no commit log has the batch."""
    holds = [*(_held_with_rows(world, table) for table in TABLES), _held(world, "ledger"), _held(world, "confirmed")]
    _killed_while_held(world, holds)


def killed_after_plan(world: PlainWorld) -> None:
    """The driver is killed when the plan of a batch is written, and nothing of the batch has happened."""
    hold = world.proxy.hold("PUT", r"/checkpoints/ledger/offsets/\d+$", Side.AFTER)
    world.until_held(hold)
    _killed_while_held(world, [hold])


def killed_after_commit(world: PlainWorld) -> None:
    """The driver is killed when the ledger's batch is committed, and does not know it."""
    hold = world.proxy.hold("PUT", commits_of("ledger"), Side.AFTER)
    world.until_held(hold)
    _killed_while_held(world, [hold])


def _held(world: PlainWorld, query: str) -> s3proxy.Hold:
    hold = world.proxy.hold("PUT", commits_of(query), Side.BEFORE)
    world.until_held(hold)
    return hold


def _held_with_rows(world: PlainWorld, table: str) -> s3proxy.Hold:
    """Hold the commit of a batch that has written rows into a table; most batches close no window."""
    while True:
        before = world.rows_in(table)
        hold = _held(world, table)
        if world.rows_in(table) > before:
            return hold
        hold.let_go()


def _killed_while_held(world: PlainWorld, holds: list[s3proxy.Hold]) -> None:
    world.hurt()
    local.die(world)
    for hold in holds:
        hold.drop()
    world.stuck()


def state_damaged(damage: Callable[[Path], None], world: PlainWorld) -> None:
    """The driver dies, and the changes are damaged that the ledger's newest committed batch has made to its state."""
    checkpoint = world.checkpoint("ledger")
    with world.unattended():
        local.die(world)
        batch = files.newest_batch(checkpoint)
        damage(files.newest_state(checkpoint))
        world.hurt()
    if world.stuck():
        world.help(
            "delete this batch and those after it from the logs of offsets and commits",
            lambda: _forget(checkpoint, batch),
        )


def _forget(checkpoint: Path, batch: int) -> None:
    files.forget_batches(checkpoint, batch)


def two_drivers_at(path: str, world: PlainWorld) -> None:
    """A driver falls asleep in the middle of a request, another one takes over, and the first wakes up and goes on.

    When the first has ended, or has gone on for a while, it is away for good, and the second is started once more, so that
    what the two have left on storage is what counts.
    """
    hold = world.proxy.hold("PUT", path, Side.BEFORE)
    with world.unattended():
        first = world.driver
        world.until_held(hold)
        first.pause()
        world.hurt()
        proxy = world.new_proxy()
        world.replace_driver(world.new_driver(proxy), proxy)
        world.start()
        world.until_commits(12, within_s=500.0)
        hold.let_go()
        first.resume()
        world.heal()
    world.wait(20.0)
    world.gone_for_good(first)
    world.kill()
    world.until_each_commits()


def upgraded(flags: tuple[str, ...], advice: str, world: PlainWorld) -> None:
    """Another version of the job is started; if it cannot run, a person goes back to the one before."""
    world.hurt()
    world.change_to(*flags)
    if world.stuck():
        world.help(advice, lambda: None)


def upgraded_once(world: PlainWorld) -> None:
    """The version ends as the kubelet ends a pod, and another one that does the same is started."""
    world.hurt()
    world.change_to(*local.ANOTHER)
    world.until_each_commits()


def with_one_more_source(world: PlainWorld) -> None:
    """A version is started that reads a second topic."""
    upgraded(("--more", world.more_events()), NEEDS_ANOTHER_LOCATION, world)


def _many(name: str, act: Callable[[PlainWorld], None]) -> Iterator[Scenario[PlainWorld]]:
    for number in range(1, local.RUNS + 1):
        yield Scenario(f"{name}-{number:02}", act, Expectation.MEASURED, is_long=True, leaves_job_running=True)


def _measured(name: str, act: Callable[..., None], *arguments: object) -> Scenario[PlainWorld]:
    stays = name not in ALONE
    return Scenario(name, functools.partial(act, *arguments), Expectation.MEASURED, leaves_job_running=stays)


ALL = (
    _measured("calm", local.calm),
    _measured("driver-killed-before-commit", killed_before_commit),
    _measured("s3-gone-for-20-s", local.s3_breaks, 20, (Fault(Harm.REFUSE),)),
    _measured("rescale", upgraded, ("--conf", "spark.sql.shuffle.partitions=3"), NEEDS_ANOTHER_LOCATION),
    _measured("newest-state-truncated", state_damaged, stored.truncate),
    _measured("driver-killed-at-random", local.driver_killed_at_random),
    _measured("rollback", upgraded, ("--trigger", "nonsense"), GO_BACK),
    _measured("s3-busy", local.s3_breaks, 20, (Fault(Harm.BUSY, share=0.5),)),
    _measured("newest-state-missing", state_damaged, Path.unlink),
    _measured("s3-answers-lost", local.s3_breaks, 15, (Fault(Harm.LOSE_ANSWER, "PUT", share=0.3),)),
    _measured("driver-killed-after-plan", killed_after_plan),
    _measured("driver-killed-after-commit", killed_after_commit),
    _measured("two-drivers-at-plan", two_drivers_at, r"/checkpoints/ledger/offsets/\d+$"),
    _measured("upgrade-new-aggregate", upgraded, ("--aggregate",), NEEDS_ANOTHER_LOCATION),
    _measured("upgrade-new-source", with_one_more_source),
    *_many("killed", local.killed_once),
    *_many("upgraded", upgraded_once),
    _measured("two-drivers-at-commit", two_drivers_at, commits_of("ledger")),
)
"""Every scenario, in the order in which the matrix runs them."""
