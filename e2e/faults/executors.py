"""Executors on two nodes of their own, under load: killed, asleep, sent away, their nodes lost; and what others have.

The nodes are workers of a standalone Spark on two addresses of this machine, so executors are processes of their own, whose
tasks reach storage, broker and database as they do in pods. What Kubernetes adds, `e2e/scenarios` has on a real cluster.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from faults import changes, local, tasks
from faults import world as worlds
from faults.loaded import ScenarioError
from faults.scenario import Scenario
from faults.surroundings import HOSTS
from faults.world import World

ONE_MORE = "127.0.0.4"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_ASLEEP_S = 15.0
_MOVED_AT_MOST = 0.1
"""Of the tasks with state, between two batches of a job that nothing disturbs."""
_BATCHES = 60
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "3",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.efficiency.enabled": "false",
}
_DECOMMISSION = {"spark.decommission.enabled": "true"}


def executors_killed(word: str, world: World) -> None:
    """A process of an executor is killed three times, at moments and on nodes that follow from the seed."""
    for _ in range(3):
        world.wait(world.chance.uniform(0.5, 6.0))
        pids = world.nodes.pids(world.chance.choice(HOSTS), word)
        world.hurt()
        if pids:
            worlds.kill(world.chance.choice(pids))
        world.until_commits(3)


def all_executors_killed(world: World) -> None:
    """Every executor is killed at once."""
    world.hurt()
    for pid in _everywhere(world, _EXECUTOR):
        worlds.kill(pid)
    world.until_commits(3)


def executor_asleep(settings: dict[str, str], world: World) -> None:
    """An executor with its workers stands still for a while, in which another may have a copy of its tasks, and goes on."""
    _start_with(world, settings)
    host = world.chance.choice(HOSTS)
    pids = world.nodes.pids(host, _EXECUTOR) + world.nodes.pids(host, worlds.WORKER)
    world.hurt()
    _send(pids, signal.SIGSTOP)
    world.wait(_ASLEEP_S)
    _send(pids, signal.SIGCONT)
    world.heal()
    world.until_commits(3)
    _start_with(world, {})


def executor_decommissioned(world: World) -> None:
    """An executor is told that its node goes: it takes no more tasks, and ends."""
    _start_with(world, _DECOMMISSION)
    pids = world.nodes.pids(world.chance.choice(HOSTS), _EXECUTOR)
    world.hurt()
    _send(pids, signal.SIGPWR)
    world.until_commits(6)
    _start_with(world, {})


def node_lost(world: World) -> None:
    """Both nodes are lost in turn, with everything on them, and come back after a while."""
    for host in HOSTS:
        world.wait(world.chance.uniform(0.5, 5.0))
        world.hurt()
        world.nodes.lose(host)
        world.wait(world.chance.uniform(0.0, 10.0))
        world.nodes.bring_back(host)
        world.heal()
        world.until_commits(4)


def node_added(world: World) -> None:
    """A node is lost for good, and a third one has its executor from then on; later it is the other way round."""
    lost = world.chance.choice(HOSTS)
    for away, here in ((lost, ONE_MORE), (ONE_MORE, lost)):
        world.hurt()
        world.nodes.lose(away)
        world.nodes.bring_back(here)
        world.heal()
        world.until_commits(6)


def tasks_stay(world: World) -> None:
    """Nothing happens, and the tasks of a partition go to the executor that has its state."""
    log = Path(tempfile.mkdtemp(prefix="events-", dir=world.folder))
    settings = {"enabled": "true", "dir": log.as_uri(), "compress": "false", "rolling.enabled": "false"}
    _start_with(world, {f"spark.eventLog.{name}": value for name, value in settings.items()})
    world.until_commits(_BATCHES)
    _start_with(world, {})
    found = tasks.moves(line for path in sorted(log.iterdir()) for line in path.read_text().splitlines())
    if found.executors < len(HOSTS) or found.share > _MOVED_AT_MOST:
        raise ScenarioError(f"of {found.followed} tasks with state {found.moved} moved, on {found.executors} executors")


def _start_with(world: World, settings: dict[str, str]) -> None:
    """Have the driver start again with some settings more than it has by itself."""
    world.keep(*(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")))
    local.die(world)
    world.attend()
    world.until_commits(3)


def _everywhere(world: World, word: str) -> list[int]:
    return [pid for host in HOSTS for pid in world.nodes.pids(host, word)]


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _scenario(name: str, act: Callable[..., None], *arguments: object) -> Scenario[World]:
    return replace(local.scenario(name, act, *arguments), has_executors=True)


_ALSO_ON_EXECUTORS = (
    "calm",
    "driver-killed-at-random",
    "driver-killed-before-commit",
    "driver-killed-after-state",
    "two-drivers-at-commit",
    "s3-busy",
    "s3-answers-lost",
    "s3-gone-for-20-s",
    "newest-state-missing",
    "upgrade",
    "rescale",
    "rollback",
    "handover",
    "upgrade-while-drivers-die",
    "rescale-while-drivers-die",
    "handover-while-drivers-die",
    "20-upgrades",
)
"""What others have on the driver's own workers, and has to go the same way."""
OWN: tuple[Scenario[World], ...] = (
    _scenario("executor-killed", executors_killed, _EXECUTOR),
    _scenario("executors-worker-killed", executors_killed, worlds.WORKER),
    _scenario("all-executors-killed", all_executors_killed),
    _scenario("executor-asleep", executor_asleep, {}),
    _scenario("executor-asleep-and-overtaken", executor_asleep, _SPECULATION),
    _scenario("executor-decommissioned", executor_decommissioned),
    _scenario("both-nodes-lost-in-turn", node_lost),
    _scenario("another-node-instead", node_added),
    _scenario("tasks-stay-where-their-state-is", tasks_stay),
)
SCENARIOS = (
    *OWN,
    *(
        replace(one, name=f"{one.name}-on-executors", has_executors=True)
        for one in (*local.SCENARIOS, *changes.SCENARIOS)
        if one.name in _ALSO_ON_EXECUTORS
    ),
)
