"""Many jobs in one small world, in front of one operator: a cluster in memory with little room, and images that do not work.

It is `jobworld` as often as there are jobs, with one cluster, one cache and one clock. Time is a number that the test moves.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import StrEnum

from fakecluster import FakeGateway
from jobworld import SPEC, START, FakeDriver, JobWorld
from statefulspark.contract.api import JobState, StandbyState, StandbyStatus
from statefulspark_operator.api import names
from statefulspark_operator.api.status import RevisionOutcome
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine.memory import Memories, SavepointLists
from statefulspark_operator.engine.rollouts import Rollouts
from statefulspark_operator.engine.starts import Starts
from statefulspark_operator.lifecycle.pace import Pace

NAMESPACE = "demo"


class Trouble(StrEnum):
    """What is wrong with an image."""

    UNPULLABLE = "it cannot be pulled"
    CRASHES = "its driver ends with an error, and its standby refuses"


class FleetWorld:
    """The jobs, and what happened to them.

    Attributes:
        jobs: The jobs by name.
        bad: What is wrong with which image.
        most_down: The most jobs that had no running driver at once, since `watch` was called.
        down: The jobs that had none at some time since.
        most_upgrading: The most upgrades that ran at once since.
        standby_room: Number of standbys that nodes have room for.
        started: How many drivers were started in which second since, without standbys that took over.
    """

    def __init__(
        self,
        count: int,
        *,
        limit: int | None,
        strategy: str = "Warm",
        standby_room: int = 30,
        spread: int = 1,
        pace: Pace | None = None,
    ) -> None:
        """Create the jobs.

        Args:
            count: How many.
            limit: `--max-concurrent-upgrades`.
            strategy: Of their upgrades.
            standby_room: Number of standbys that nodes have room for.
            spread: Number of namespaces.
            pace: How many drivers may start in a time.
        """
        self.pace = pace
        self.time, self.limit, self.standby_room = START, limit, standby_room
        self.bad: dict[str, Trouble] = {}
        self.cluster = FakeGateway(lambda: self.time)
        self._runner = asyncio.Runner()
        spec: Resource = {**json.loads(json.dumps(SPEC)), "upgrade": {"strategy": strategy}}
        self._spec = spec
        self.jobs: dict[JobKey, JobWorld] = {}
        self.watch()
        for number in range(count):
            self._create(JobKey(f"{NAMESPACE}-{number % spread}", f"job-{number}"))
        self.cluster.on_event = self._watch
        self.replace_operator()

    def _create(self, key: JobKey) -> JobWorld:
        world = JobWorld(copy.deepcopy(self._spec), key=key, shared_cluster=self.cluster)
        self.jobs[key] = world
        world.time, world._runner, world.on_start = self.time, self._runner, self._start
        return world

    def add(self, keys: Iterable[JobKey]) -> None:
        """Create further jobs, as `kubectl apply` of a whole folder does."""
        for key in keys:
            world = self._create(key)
            self.cluster.on_event, self.cluster.written = self._watch, self._cache.update_written
            self._connect(world)
            self._watch("ADDED", copy.deepcopy(self.cluster.objects[resources.JOB.name, key.namespace, key.name]))

    def lose_drivers(self, keys: Iterable[JobKey]) -> None:
        """End the drivers of jobs in the same moment, as the end of their nodes does."""
        for key in keys:
            self.jobs[key].kill_driver()

    def replace_operator(self) -> None:
        """Start another operator: it remembers nothing, and its watches list everything."""
        self._cache, self.rollouts, self.starts = cache.Cache(), Rollouts(self.limit), Starts(self.pace)
        self._memories, self._listings = Memories(), SavepointLists()
        self.cluster.written = self._cache.update_written
        for world in self.jobs.values():
            self._connect(world)
        for resource in self.cluster.objects.values():
            self._watch("ADDED", copy.deepcopy(resource))

    def _connect(self, world: JobWorld) -> None:
        world.world = dataclasses.replace(
            world._ports(),
            cache=self._cache,
            rollouts=self.rollouts,
            starts=self.starts,
            memories=self._memories,
            listings=self._listings,
            wake=self._wake,
        )

    def watch(self) -> None:
        """Begin to count anew."""
        self.started: Counter[int] = Counter()
        self.most_down, self.most_upgrading = 0, 0
        self.down: set[JobKey] = set()

    def change(self, change: Resource) -> None:
        """Change the spec of every job at once, as `kubectl apply` of a whole folder does."""
        for key in self.jobs:
            self.cluster.change_spec(key, change)

    def run(self, seconds: int) -> None:
        """Let everything work for a while."""
        for _ in range(seconds):
            for world in self.jobs.values():
                for _ in range(4):
                    world.reconcile_if_due()
            self._pass_time()

    def run_until(self, condition: Callable[[], bool], *, within_s: int) -> int:
        """Let everything work until something is true; return how long it took."""
        for second in range(within_s):
            if condition():
                return second
            self.run(1)
        raise AssertionError(f"not reached within {within_s} s: {self.reasons()}, {self.states()}")

    def reasons(self) -> Counter[str]:
        """Return how many jobs have which reason of `Ready`."""
        conditions = (condition for world in self.jobs.values() for condition in world.status.conditions)
        return Counter(condition.reason for condition in conditions if condition.type.value == "Ready")

    def states(self) -> Counter[str]:
        """Return how many jobs have an upgrade in which state."""
        upgrades = (world.status.upgrade for world in self.jobs.values())
        return Counter(upgrade.state.value for upgrade in upgrades if upgrade is not None)

    def images(self) -> Counter[str]:
        """Return how many running drivers have which image."""
        return Counter(self._image_of(pod) for pod in self.cluster.pods() if self._is_up(pod))

    def is_stable(self) -> bool:
        """Tell whether every job runs, and its first revision is stable."""
        places = ((resources.JOB.name, key.namespace, key.name) for key in self.jobs)
        histories = (resources.items(self.cluster.objects[place], "status", "history") for place in places)
        return all(history and history[0]["outcome"] == RevisionOutcome.STABLE.value for history in histories)

    def _pass_time(self) -> None:
        self.time += timedelta(seconds=1)
        for pod in list(self.cluster.pods()):
            self._tend(pod)
        for world in self.jobs.values():
            world.time = self.time
            for driver in world.drivers.running.values():
                driver.tick(self.time)
        up = {self._key_of(pod) for pod in self.cluster.pods() if self._is_up(pod)}
        down = self.jobs.keys() - up
        self.down |= down
        self.most_down = max(self.most_down, len(down))
        self.most_upgrading = max(self.most_upgrading, self.rollouts.running)

    def _tend(self, pod: Resource) -> None:
        world = self.jobs[self._key_of(pod)]
        world.time = self.time
        is_standby = resources.text(pod, "metadata", "labels", names.LABEL_ROLE) == names.ROLE_STANDBY
        world.has_room = lambda _name: not is_standby or self._standbys() < self.standby_room
        is_new = resources.text(pod, "metadata", "name") not in world.drivers.running
        if is_new and self.bad.get(self._image_of(pod)) is Trouble.UNPULLABLE and world.has_room(""):
            self._show_unpulled(pod)
        else:
            world._tend(pod)

    def _show_unpulled(self, pod: Resource) -> None:
        waiting: Resource = {"reason": "ImagePullBackOff", "message": "manifest unknown: not found"}
        container: Resource = {"name": names.DRIVER_CONTAINER, "state": {"waiting": waiting}}
        shown: Resource = {"phase": "Pending", "containerStatuses": [container]}
        if resources.section(pod, "status") != shown:
            pod["status"] = shown
            self.cluster.show(pod)

    def _start(self, driver: FakeDriver) -> None:
        if driver.standby is None:
            self.started[round((self.time - START).total_seconds())] += 1
        pod = next(pod for pod in self.cluster.pods() if resources.text(pod, "metadata", "uid") == driver.uid)
        if self.bad.get(self._image_of(pod)) is not Trouble.CRASHES:
            return
        if driver.standby is not None:
            driver.refusal = StandbyStatus(state=StandbyState.REFUSED, reason="BadJob", message="job.py raises.")
        else:
            driver.end(13, "BadJob", "job.py raises.")

    def _standbys(self) -> int:
        """Return how many standbys are on nodes."""
        drivers = (driver for world in self.jobs.values() for driver in world.drivers.running.values())
        names_of = {driver.uid for driver in drivers if driver.standby is not None and driver.exit_code is None}
        return sum(resources.text(pod, "metadata", "uid") in names_of for pod in self.cluster.pods())

    def _is_up(self, pod: Resource) -> bool:
        driver = self.jobs[self._key_of(pod)].drivers.running.get(resources.text(pod, "metadata", "name"))
        return (
            driver is not None
            and driver.uid == resources.text(pod, "metadata", "uid")
            and driver.exit_code is None
            and driver.standby is None
            and driver.state is JobState.RUNNING
        )

    @staticmethod
    def _image_of(pod: Resource) -> str:
        return str(resources.items(pod, "spec", "containers")[0]["image"])

    @staticmethod
    def _key_of(pod: Resource) -> JobKey:
        job = resources.text(pod, "metadata", "labels", names.LABEL_JOB)
        return JobKey(resources.text(pod, "metadata", "namespace"), job)

    def _watch(self, event: str, resource: Resource) -> None:
        if resources.text(resource, "kind") not in {kind.name for kind in cache.KINDS}:
            return
        is_own = self._cache.is_own_write(resource)
        if event == "DELETED":
            self._cache.remove(resource)
        else:
            self._cache.update(resource)
        key = cache.job_of(resource)
        if key in self.jobs and (event == "DELETED" or not is_own):
            self._wake(key)

    def _wake(self, key: JobKey) -> None:
        self.jobs[key].wake()
