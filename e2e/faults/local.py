"""The scenarios that need no cluster: processes are killed, the object store misbehaves, files are damaged, drivers meet.

Each is a function of the world under load; `SCENARIOS` has them by name. What kills or breaks something says when it began
(`hurt`) and when it was over (`heal`). Changes of the job and executors have modules of their own; `every` has them all.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from load import outputs

from faults import stored
from faults import world as worlds
from faults.loaded import LoadedWorld, ScenarioError
from faults.s3proxy import Fault, Harm, Side
from faults.scenario import Expectation, Scenario
from faults.world import World


@dataclass(frozen=True, slots=True)
class Point:
    """A request by which the protocol has a step of its own.

    Attributes:
        name: Of the step.
        method: Of the request.
        path: A pattern that its path has.
        in_start: Whether only a start makes it.
        request: Command that leads to it; empty where a running job comes to it by itself.
    """

    name: str
    method: str
    path: str
    in_start: bool = False
    request: tuple[str, ...] = ()


POINTS = (
    Point("epoch", "PUT", r"/epochs/\d+\.json", in_start=True),
    Point("fence", "PUT", r"/_sink\.json", in_start=True),
    Point("plan", "PUT", r"/offsets/\d+$"),
    Point("state", "PUT", r"/state/\d+/\d+/.*\.(changelog|delta|zip)$"),
    Point("staged", "PUT", r"/staged/.*\.parquet"),
    Point("prepared", "PUT", r"/prepared/"),
    Point("commit", "PUT", r"/commits/\d+$"),
    Point("manifest", "PUT", worlds.MANIFEST),
    Point("shown", "PUT", r"/_commits/\d+\.json"),
    Point("noted", "PUT", r"/sinks/.*/marker\.json"),
    Point("table", "PUT", r"/warehouse/.*\.metadata\.json"),
    Point("prune", "POST", r"[?&]delete"),
)


def calm(world: LoadedWorld) -> None:
    """Nothing happens."""
    world.hurt()
    world.wait(10)


def driver_killed_at_random(world: LoadedWorld) -> None:
    """The driver is killed three times, at moments that follow from the seed."""
    for _ in range(3):
        world.wait(world.chance.uniform(0.5, 8.0))
        world.hurt()
        world.kill()
        world.until_commits(2)


def killed_once(world: LoadedWorld) -> None:
    """The driver is killed at a moment that follows from the seed."""
    world.wait(world.chance.uniform(3.0, 8.0))
    world.hurt()
    world.kill()
    world.wait(_ON_ITS_WAY_S)
    world.until_each_commits()


def driver_killed_at(point: Point, side: Side, world: World) -> None:
    """The driver is killed before a request reaches the store, or when it has happened and was not answered."""
    hold = world.proxy.hold(point.method, point.path, side)
    if point.in_start:
        die(world)
    if point.request:
        world.call(*point.request, "--no-wait")
    world.until_held(hold)
    world.hurt()
    die(world)
    hold.drop()
    world.until_commits(2)


def worker_killed(world: World) -> None:
    """A Python worker that has keyed state is killed, twice."""
    for _ in range(2):
        workers = world.until_workers()
        world.hurt()
        worlds.kill(world.chance.choice(workers))
        world.until_commits(3)


def jvm_killed(world: World) -> None:
    """Spark's JVM is killed, and the driver's Python process lives."""
    (jvm,) = worlds.pids_below(world.driver.pid, "java")[:1]
    world.hurt()
    worlds.kill(jvm)
    world.until_commits(2)


def s3_breaks(seconds: float, faults: tuple[Fault, ...], world: LoadedWorld) -> None:
    """The store misbehaves for a while."""
    world.hurt()
    with world.proxy.breaking(*faults):
        world.wait(seconds)
    world.heal()
    world.until_commits(2)


def s3_breaks_in_bursts(fault: Fault, world: LoadedWorld) -> None:
    """The store misbehaves five times for some seconds, and works as long in between; all of it follows from the seed."""
    world.hurt()
    for _ in range(5):
        with world.proxy.breaking(fault):
            world.wait(world.chance.uniform(1.0, 4.0))
        world.wait(world.chance.uniform(1.0, 4.0))
    world.heal()
    world.until_commits(2)


def s3_flickers(fault: Fault, world: World) -> None:
    """The store misbehaves for a while, during which the driver is killed and starts."""
    world.hurt()
    with world.proxy.breaking(fault):
        world.wait(5)
        world.kill()
        world.wait(25)
    world.heal()
    world.until_commits(2)


def answers_lost_at(point: Point, world: World) -> None:
    """A request happens, and its answer is lost: for a start's by a start that is forced, three times for the others."""
    times = 1 if point.in_start else 3
    name = world.proxy.arm(Fault(Harm.LOSE_ANSWER, point.method, point.path, times=times))
    world.hurt()
    if point.in_start:
        world.kill()
    world.until(lambda: world.proxy.has_struck(name), f"answers of {point.name} were lost")
    world.heal()
    world.until_commits(2)


def state_damaged(damage: Callable[[Path], None], files: Callable[[Path], tuple[Path, ...]], world: World) -> None:
    """The driver dies, and the newest file of state that no checkpoint has named yet is damaged.

    A slow query may have committed nothing since the newest checkpoint, whose files are not the ones to damage here.
    """
    hold = world.proxy.hold("PUT", worlds.MANIFEST, Side.BEFORE)
    world.until_held(hold)
    world.until_commits(4)
    world.until(lambda: bool(files(world.root)), "there is state that no checkpoint names")
    with world.unattended():
        die(world)
        hold.drop()
        damage(max(files(world.root), key=stored.changed_at))
        world.hurt()
    world.until_commits(2)


def checkpointed_state_damaged(damage: Callable[[Path], None], world: World) -> None:
    """The driver dies, and a file of state is damaged that the newest checkpoint names and the one before does not.

    A slow query may be in several checkpoints with the same batch. Damage to a file of all that are retained leaves none to
    go back to, and a person is asked then.
    """
    while True:
        hold = world.proxy.hold("PUT", worlds.MANIFEST, Side.BEFORE)
        world.until_held(hold)
        files = stored.state_of_newest_checkpoint(world.root)
        if files:
            break
        hold.let_go()
    with world.unattended():
        die(world)
        hold.drop()
        damage(max(files, key=stored.changed_at))
        world.hurt()
    world.until_commits(2)


def manifest_damaged(damage: Callable[[Path], None], world: World) -> None:
    """The driver dies, and the newest checkpoint's manifest is damaged."""
    world.until_checkpoint()
    with world.unattended():
        die(world)
        damage(max(world.root.glob(stored.MANIFESTS), key=stored.changed_at))
        world.hurt()
    world.until_commits(2)


def two_drivers_at(point: Point, world: World) -> None:
    """A driver falls asleep in the middle of a request, another one takes over, and the first wakes up and goes on.

    One of the two has to end: the first, which was replaced; or the second, if the first slept before it had claimed an
    epoch, and claims the next one when it wakes up. A start that slept for longer than a request may take ends for that.
    """
    accepted = (worlds.FENCED, worlds.UNREACHABLE) if point.in_start else (worlds.FENCED,)
    with world.unattended():
        first = world.driver
        if point.in_start:
            die(world)
        hold = world.proxy.hold(point.method, point.path, Side.BEFORE)
        if point.in_start:
            world.start()
        if point.request:
            world.call(*point.request, "--no-wait")
        world.until_held(hold)
        first.pause()
        world.hurt()
        proxy = world.new_proxy()
        second = world.new_driver(proxy)
        before = world.proxy
        world.replace_driver(second, proxy)
        world.start()
        world.until_commits(4)
        hold.let_go()
        first.resume()
        world.until(
            lambda: not (first.runs and second.runs), "one of two drivers notices that it was replaced and ends"
        )
        replaced = second if first.runs else first
        world.note_exit(replaced)
        if replaced.exit_code not in accepted:
            raise ScenarioError(f"the replaced driver ended with {replaced.exit_code}, not as one that is fenced")
        if replaced is second:
            world.replace_driver(first, before)
        world.heal()
    world.until_commits(4)


def savepoints_while(fault: Fault | None, world: World) -> None:
    """Savepoints are asked for while the store misbehaves, or while a Python worker with keyed state is killed."""
    world.hurt()
    for _ in range(3):
        world.until_commits()
        with world.proxy.breaking(*([fault] if fault else [])), contextlib.suppress(ScenarioError):
            world.call("savepoint", "create", "--no-wait")
            if fault is None:
                worlds.kill(world.chance.choice(world.until_workers()))
            world.wait(world.chance.uniform(2.0, 5.0))
    world.heal()
    world.until_commits(2)


def input_expired(world: World) -> None:
    """The broker drops what the job has not read while the driver is dead, as it does with records that are too old."""
    world.until(lambda: len(outputs.read_ledger(world.places)) > _ROWS_BEFORE, f"{_ROWS_BEFORE} rows are out")
    world.hurt()
    world.lose_input()


def target_killed(name: str, world: World) -> None:
    """What sinks write to is killed three times, at moments that follow from the seed, and is back after some seconds."""
    for _ in range(3):
        world.wait(world.chance.uniform(0.5, 6.0))
        world.hurt()
        world.kill_target(name, away_s=world.chance.uniform(0.0, 8.0))
        world.heal()
        world.until_commits(3)


def disk_full(world: World) -> None:
    """Spark's local disk is full for a while."""
    disk = world.disk
    assert disk is not None, "the scenario has a disk"
    world.hurt()
    filler = disk / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(b"0" * 65536)
            file.flush()
    world.wait(15)
    filler.unlink()
    world.heal()
    world.until_commits(2)


def clock_jumps(world: World) -> None:
    """The clock of every process goes four minutes ahead, and later six back."""
    world.hurt()
    for offset_s in (240, -120, 0):
        world.set_clock(offset_s)
        world.until_commits(4)
    world.heal()


def die(world: LoadedWorld) -> None:
    world.kill()
    world.until(world.is_dead, "the driver is dead")


def scenario(
    name: str,
    act: Callable[..., None],
    *arguments: object,
    expects: Expectation = Expectation.EXACT,
    is_long: bool = False,
) -> Scenario[World]:
    """Name a function of the world with its other arguments; unless it says otherwise, the job goes on as it was."""
    stays = expects is Expectation.EXACT and not is_long
    return Scenario(name, functools.partial(act, *arguments), expects, is_long=is_long, leaves_job_running=stays)


def many(name: str, act: Callable[[World], None], count: int) -> Iterator[Scenario[World]]:
    """Name the same several times, for a distribution: each has its row, and they may follow each other in one world."""
    for number in range(1, count + 1):
        yield Scenario(f"{name}-{number:02}", act, is_long=True, leaves_job_running=True)


def _s3(name: str, seconds: float, *faults: Fault) -> Scenario[World]:
    return scenario(name, s3_breaks, seconds, faults)


_ROWS_BEFORE = 300
"""How many the ledger has to show before its input is dropped."""
RUNS = 20
"""For a distribution."""
ANOTHER = ("--conf", "spark.ui.showConsoleProgress=false")
"""A version that does the same."""
_ON_ITS_WAY_S = 2.0
"""A commit that a dead driver had sent has happened by then, and the next driver has none yet."""
BUSY = Fault(Harm.BUSY, share=0.25)
_HARMS: dict[str, Callable[[Path], None]] = {
    "truncated": stored.truncate,
    "bit-flipped": stored.flip_a_bit,
    "missing": Path.unlink,
}
REQUESTED = (
    Point("savepoint", "PUT", r"/savepoints/[^/]+/_metadata\.json", request=("savepoint", "create")),
    Point("stop", "PUT", r"/savepoints/[^/]+/_metadata\.json", request=("stop", "--savepoint")),
)
MEETINGS = (*POINTS, *REQUESTED)

PACK = Point("pack", "PUT", r"/packs/.*\.pack$")
"""Large changes of keyed state, beside the state store."""

SCENARIOS: tuple[Scenario[World], ...] = (
    Scenario("calm", calm),
    scenario("driver-killed-at-random", driver_killed_at_random),
    *(
        scenario(f"driver-killed-{side.value}-{point.name}", driver_killed_at, point, side)
        for point in (*POINTS, *REQUESTED)
        for side in Side
    ),
    *many("killed", killed_once, RUNS),
    scenario("worker-killed", worker_killed),
    scenario("jvm-killed", jvm_killed),
    _s3("s3-gone-for-20-s", 20, Fault(Harm.REFUSE)),
    _s3("s3-slow", 15, Fault(Harm.SLOW, delay_s=0.4)),
    _s3("s3-busy", 20, Fault(Harm.BUSY, share=0.5)),
    scenario("s3-busy-in-bursts", s3_breaks_in_bursts, Fault(Harm.BUSY)),
    _s3("s3-throttled", 20, Fault(Harm.THROTTLE, share=0.5)),
    _s3("s3-cut", 15, Fault(Harm.CUT, share=0.2)),
    _s3("s3-answers-lost", 15, Fault(Harm.LOSE_ANSWER, "PUT", share=0.3)),
    _s3("s3-wrong-credentials", 15, Fault(Harm.SPOIL_SIGNATURE)),
    _s3("s3-silent", 15, Fault(Harm.SILENT)),
    scenario("s3-behind-an-ingress-that-lost-it", s3_flickers, Fault(Harm.NOT_FOUND, share=0.3)),
    *(scenario(f"answer-lost-{point.name}", answers_lost_at, point) for point in POINTS),
    *(
        scenario(f"newest-state-{harm}", state_damaged, act, stored.state_of_no_checkpoint)
        for harm, act in _HARMS.items()
    ),
    *(
        scenario(f"checkpointed-state-{harm}", checkpointed_state_damaged, act, expects=Expectation.REPEATS)
        for harm, act in _HARMS.items()
    ),
    *(scenario(f"newest-manifest-{harm}", manifest_damaged, act) for harm, act in _HARMS.items()),
    *(scenario(f"two-drivers-at-{point.name}", two_drivers_at, point) for point in MEETINGS),
    Scenario("input-expired", input_expired, Expectation.STOPS),
    scenario("savepoints-while-s3-is-busy", savepoints_while, BUSY),
    scenario("savepoints-while-answers-are-lost", savepoints_while, Fault(Harm.LOSE_ANSWER, "PUT", share=0.3)),
    scenario("savepoints-while-workers-die", savepoints_while, None),
    scenario("kafka-killed", target_killed, "kafka"),
    scenario("postgres-killed", target_killed, "postgres"),
    Scenario("disk-full", disk_full, disk_bytes=96 << 20),
    Scenario("clock-jumps", clock_jumps, has_own_clock=True),
    scenario("s3-gone-for-5-min", s3_breaks, 300, (Fault(Harm.REFUSE),), is_long=True),
)
OF_PACKS = (
    *(scenario(f"driver-killed-{side.value}-pack", driver_killed_at, PACK, side) for side in Side),
    scenario("answer-lost-pack", answers_lost_at, PACK),
    scenario("two-drivers-at-pack", two_drivers_at, PACK),
    # A start cannot tell from names that the newest pack of a committed batch is gone (ADR 28). The next batch finds it out,
    # and the job falls back behind rows that Kafka shows already.
    *(
        scenario(f"newest-pack-{harm}", state_damaged, act, stored.packs_of_no_checkpoint, expects=Expectation.REPEATS)
        for harm, act in _HARMS.items()
    ),
)
"""Those that only state in packs can have."""
