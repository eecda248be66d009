"""A run under the real operator: its passes decide who starts, stops, stands by and takes over, between any two requests.

Kubernetes is the one of the operator's own tests (`jobworld`); behind each pod is a driver of the simulation, and what the
operator reads of storage it reads with its own reader from the bucket that the drivers write to. A pass is a fiber, so
drivers go on in the middle of it, and an operator may die there.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import jobworld
from faultrig import faults, fibers
from simulation import invariants, moves, purging, record
from simulation.drivers import QUERY, SimulatedDriver
from simulation.runs import Outcome
from simulation.world import Simulation
from statefulspark.contract import api
from statefulspark.contract.config import RestoreConfig
from statefulspark_operator.api import names
from statefulspark_operator.api.status import UpgradeState
from statefulspark_operator.cluster import resources, storage_reader
from statefulspark_operator.cluster.driver_api import DriverAccess
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent, OperationAbsent

if TYPE_CHECKING:
    from statefulspark.storage import ObjectStore
    from statefulspark_operator.cluster.resources import Resource

KILLED = 137
JOBS = "s3://rig/jobs"
_RESOURCE = (resources.JOB.name, jobworld.KEY.namespace, jobworld.KEY.name)
LONGEST_S = 120
"""The time in which a job has to settle after all faults, of which the operator's backoff is the most."""
WRONG_REVISION = "a revision that cannot go on"
PUT_BACK = "the resource is put back"
MADE_ANEW = "the resource is made anew"
LOST_STOP = "the savepoint of a stop is complete, and its driver does not learn it"


@dataclass(frozen=True, slots=True)
class Happenings:
    """What happens between the operator's passes.

    Attributes:
        weights: Each, with its weight.
        rounds: How often something happens.
    """

    weights: Mapping[str, int]
    rounds: int


USUAL = Happenings(
    {"seconds": 14, "upgrade": 3, "kill": 2, "partition": 2, "wake": 2, "operator dies": 2, "fault": 5, "work": 8}, 40
)
WRONG_REVISIONS = Happenings(
    {WRONG_REVISION: 4, "seconds": 4, "upgrade": 2, "kill": 1, "operator dies": 1, "fault": 1, "work": 8}, 12
)
"""New revisions meet a record that they cannot take."""
OLDER_RESOURCES = Happenings({PUT_BACK: 4, MADE_ANEW: 1, "seconds": 4, "work": 4}, 4)
"""A backup of the API server is put back, or the resource is pruned and applied again."""
LOST_STOPS = Happenings({LOST_STOP: 4, "seconds": 3, "work": 4}, 5)
"""A driver goes on although what it was stopped with is complete, and dies later."""
KILLS = 0.7
"""How many of these drivers die; the others are told to end by the operator."""
BACKOFF = timedelta(minutes=2)
PATIENCE = 12
"""How often a revision that cannot go on is looked at until it is given up."""


@dataclass(frozen=True)
class _Jobs:
    """The folder of all jobs, as the operator opens it; there is one job, wherever the drivers have it."""

    process: faults.FaultyProcess

    def child(self, prefix: str) -> ObjectStore:
        del prefix
        return self.process.store(record.ROOT)


@dataclass
class Played:
    """A driver's process as the kubelet and the operator see it: `jobworld.FakeDriver` with a real one inside."""

    pod: str
    uid: str
    epoch: int
    process: SimulatedDriver
    is_standby: bool
    drained: bool = False
    operations: dict[str, api.Operation] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        return not self.process.is_frozen

    @property
    def exit_code(self) -> int | None:
        ended = self.process.ending or self.process.failure
        if ended is not None:
            return int(ended.code)
        return KILLED if self.process.is_dead else None

    @property
    def exit_report(self) -> str:
        ended = self.process.ending or self.process.failure
        snapshot = self.process.ending.snapshot if self.process.ending else None
        return json.dumps(
            {
                "exitCode": self.exit_code,
                "reason": ended.reason if ended else "Killed",
                "message": ended.message if ended else "",
                "snapshot": snapshot.location if snapshot else None,
            }
        )

    @property
    def standby(self) -> api.StandbyStatus | None:
        return self.status().standby

    @property
    def state(self) -> api.JobState:
        return self.status().state

    def status(self) -> api.JobStatus:
        if self.process.loop is not None:
            return self.process.loop.status()
        if self.is_standby and hasattr(self.process, "control"):
            return self.process.control.status()
        state = api.JobState.STANDBY if self.is_standby else api.JobState.STARTING
        return api.JobStatus(
            job=jobworld.KEY.name,
            namespace=jobworld.KEY.namespace,
            state=state,
            epoch=self.epoch,
            started_at=jobworld.START,
            standby=api.StandbyStatus(state=api.StandbyState.WARMING) if self.is_standby else None,
        )

    def tick(self, now: datetime) -> None:
        """Nothing: the scheduler lets it run."""

    def drain(self, now: datetime, deadline: datetime) -> None:
        """SIGTERM; a process that does not run a job yet ends at once."""
        del now, deadline
        if self.process.loop is None:
            self.process.kill()
        elif not self.drained:
            self.drained = True
            self.process.loop.drain()
            self.process.note_change()

    def activate(self, request: api.ActivateRequest) -> DriverSilent | None:
        if self.epoch:
            return None if request.epoch == self.epoch else DriverSilent("409 AlreadyActivated")
        if not hasattr(self.process, "control") or not self.process.is_at_rest:
            return DriverSilent("it does not answer yet")
        if self.process.control.status().standby.state is api.StandbyState.REFUSED:  # type: ignore[union-attr]
            return DriverSilent("409 StandbyRefused")
        self.epoch = request.epoch
        self.process.activate(request)
        return None


class PlayedDrivers(jobworld.FakeDrivers):
    """The drivers' HTTP APIs."""

    async def operation(
        self, pod: DriverPod, access: DriverAccess, request_id: str, *, wait_s: int = 0
    ) -> api.Operation | OperationAbsent | None:
        del access, wait_s
        driver = self._find(pod)
        if driver is None or driver.process.loop is None:  # type: ignore[attr-defined]
            return None
        return driver.process.loop.operation(request_id) or OperationAbsent()  # type: ignore[attr-defined]

    async def stop(self, pod: DriverPod, access: DriverAccess, request: api.StopRequest) -> DriverSilent | None:
        del access
        return self._asked(pod, lambda loop: loop.request_stop(request))

    async def savepoint(
        self, pod: DriverPod, access: DriverAccess, request: api.SavepointRequest
    ) -> DriverSilent | None:
        del access
        return self._asked(pod, lambda loop: loop.request_savepoint(request))

    def _asked(self, pod: DriverPod, ask: Callable[..., object]) -> DriverSilent | None:
        driver = self._find(pod)
        if driver is None or driver.process.loop is None:  # type: ignore[attr-defined]
            return DriverSilent("no answer")
        ask(driver.process.loop)  # type: ignore[attr-defined]
        driver.process.note_change()  # type: ignore[attr-defined]
        return None


class Cluster(jobworld.JobWorld):
    """Kubernetes, its kubelet, and the operator in it."""

    def __init__(self, simulation: Operated, spec: Resource) -> None:
        self.simulation = simulation
        self.operator = simulation.new_operator()
        super().__init__(spec=spec)

    def _ports(self) -> Ports:
        self.drivers = PlayedDrivers(self.drivers.running)
        operator = self.operator

        def opened(uri: str, options: object) -> object:
            del options
            return _Jobs(operator) if uri == JOBS else operator.store(uri.removeprefix(f"{faults.BUCKET}/"))

        reader = storage_reader.SnapshotStorageReader(opened, purging.AtOnce())  # type: ignore[arg-type]
        return Ports(self.cluster, self.drivers, reader, now=lambda: self.time, new_token=lambda: "token")

    def replace_operator(self) -> None:
        """The operator dies, also in the middle of a pass, and another one begins."""
        self.operator.is_dead = True
        self.simulation.scheduler.reap()
        self.operator = self.simulation.new_operator()
        super().replace_operator()

    def _start(self, pod: Resource, name: str) -> None:
        labels = resources.section(pod, "metadata", "labels")
        is_standby = labels[names.LABEL_ROLE] == names.ROLE_STANDBY
        epoch = 0 if is_standby else int(str(labels[names.LABEL_EPOCH]))
        config_map = self.cluster.objects[
            ("ConfigMap", jobworld.KEY.namespace, names.config_of(jobworld.KEY.name, name, epoch))
        ]
        config = json.loads(resources.text(config_map, "data", "job.json"))
        restore = RestoreConfig.model_validate(config.get("restore") or {})
        revision = int(config.get("parameters", {}).get("revision", 0))
        process = self.simulation.run_pod(restore, epoch, revision)
        uid = resources.text(pod, "metadata", "uid")
        self.drivers.running[name] = Played(name, uid, epoch, process, is_standby)  # type: ignore[assignment]
        resources.section(pod, "spec")["nodeName"] = "node-2" if is_standby else "node-1"
        pod["status"] = {"phase": "Running", "podIP": "10.0.0.1", "conditions": []}
        self.cluster.show(pod)


class Operated(Simulation):
    """A run in which the operator decides."""

    def __init__(self, seed: int, spec: Resource, happenings: Happenings) -> None:
        super().__init__(seed)
        self._happenings = happenings
        self._operators = 0
        self._spec = spec
        self._script = random.Random(f"cluster {seed}")
        self._passing: fibers.Fiber | None = None
        self._revision = 0
        self._revisions: dict[str, int] = {}

    def new_operator(self) -> faults.FaultyProcess:
        """Return the process of another operator."""
        self._operators += 1
        return faults.FaultyProcess(self.scheduler, f"operator {self._operators}", self.network)

    def run_pod(self, restore: RestoreConfig, epoch: int, revision: int) -> SimulatedDriver:
        """Run what is in a pod: a driver under the epoch of its label, or a standby."""
        process = self._created()
        self._revisions[process.name] = revision
        wish = replace(self._plain(), restore=restore, is_changed=revision > 0)
        if epoch:
            process.begin(wish, epoch)
        else:
            process.stand_by(wish)
        return process

    @property
    def last(self) -> SimulatedDriver:
        """The driver of the newest epoch."""
        return max(self.processes, key=lambda process: process.epoch)

    def live(self) -> None:
        """Let the operator, the cluster and the drivers live, and judge; return at the first broken invariant."""
        self.cluster = Cluster(self, self._spec)
        weights = self._happenings.weights
        for _ in range(self._happenings.rounds):
            move = self._script.choices(list(weights), list(weights.values()))[0]
            self.log(move)
            self._happens(move)
            self._second(self._script.choice((5, 20, 60, None)))
            if self.broken:
                return
        self._settle()

    def end(self) -> None:
        """See the base."""
        self.cluster.operator.is_dead = True
        super().end()

    def _happens(self, move: str) -> None:
        running = [one for one in self.cluster.drivers.running.values() if one.exit_code is None]
        chosen = self._script.choice(running) if running else None
        if move == "work":
            self._work_on()
        elif move == "upgrade":
            self._upgrade()
        elif move == WRONG_REVISION:
            self._upgrade()
            self._fail()
        elif move == PUT_BACK:
            self._put_back_what_was()
        elif move == MADE_ANEW:
            self._make_anew()
        elif move == LOST_STOP:
            self._lose_stop()
        elif move == "operator dies":
            self.cluster.replace_operator()
        elif move == "fault":
            self.faults.append(moves.a_fault(self._script))
        elif move == "kill" and chosen is not None:
            chosen.process.kill()  # type: ignore[attr-defined]
            self.scheduler.reap()
        elif move == "partition" and chosen is not None:
            self._lose(chosen)  # type: ignore[arg-type]
        elif move == "wake":
            self._wake(self._script.randrange(60))

    def _upgrade(self) -> None:
        self._revision += 1
        self.cluster.change({"job": {**self._spec["job"], "parameters": {"revision": str(self._revision)}}})  # type: ignore[dict-item]

    def _fail(self) -> None:
        """Let each driver of the new revision run batches and end, until the operator goes back or asks."""
        for _ in range(PATIENCE):
            self._second(None)
            if self.broken or not self.processes:
                return
            if self._revisions[self.last.name] == self._revision and self.last.is_up:
                self.last.granted[QUERY] = self._script.randint(1, 3)
                self._let_run(None)
                self.last.kill()
                self.scheduler.reap()
            self.cluster.time += BACKOFF

    def _put_back_what_was(self) -> None:
        """Back the resource up while it is upgraded, upgrade it some more times, and put the backup back; no pod is left."""
        self._wait(lambda: bool(self.processes) and self.last.is_up)
        self._upgrade()
        self._wait(lambda: self.cluster.status.restore is not None)
        backup = copy.deepcopy(self.cluster.cluster.objects[_RESOURCE])
        for _ in range(self._script.choice((0, 1, 2))):
            self._wait(lambda: self._is_upgraded)
            self._upgrade()
            self._second(None)
        self._wait(lambda: self._is_upgraded)
        for lost in self.cluster.drivers.running.values():
            lost.process.kill()  # type: ignore[attr-defined]
            self.cluster.cluster.drop_pod(jobworld.KEY.namespace, lost.pod)
        self.scheduler.reap()
        self.cluster.cluster.objects[_RESOURCE] = backup
        self.cluster.cluster.show(backup)
        self.cluster.replace_operator()

    @property
    def _is_upgraded(self) -> bool:
        upgrade = self.cluster.status.upgrade
        return upgrade is None or upgrade.state in (UpgradeState.STABLE, UpgradeState.ROLLED_BACK)

    def _wait(self, until: Callable[[], bool]) -> None:
        """Let everybody work until something holds, or not for so long that it never will."""
        for second in range(LONGEST_S // 4):
            if self.broken or until():
                return
            if second % 3 == 0:
                self._work_on()
            self._second(None)

    def _lose_stop(self) -> None:
        """Upgrade, lose the answer of the stop's savepoint, let the old driver go on; some drivers die then."""
        self._wait(lambda: bool(self.processes) and self.last.is_up)
        lost = faults.Fault(faults.Kind.LOSE, 0, "-upgrade/_metadata.json", "create")
        self.faults.append(lost)
        self._upgrade()
        self._wait(lambda: lost not in self.faults)
        for _ in range(self._script.randint(2, 6)):
            self._work_on()
            self._second(None)
        if self._script.random() < KILLS and self.processes and self.last.is_up:
            self.last.kill()
            self.scheduler.reap()

    def _make_anew(self) -> None:
        """Delete the resource, which leaves its state, and apply its manifest again with the word that takes it over."""
        spec = self.cluster.cluster.objects[_RESOURCE]["spec"]
        self.cluster.delete()
        self._wait(lambda: not self.cluster.exists and self.cluster.cluster.pods() == [])
        storage = {**spec["storage"], "ownership": "TakeOver"}  # type: ignore[index, call-overload, dict-item]
        self.cluster.spec = {**spec, "storage": storage, "restore": {}}  # type: ignore[dict-item]
        self.cluster.apply()

    def _lose(self, lost: Played) -> None:
        """Lose a node: the process sleeps, or goes on where nobody sees it, and its pod is deleted by force."""
        lost.process.is_frozen = lost.process.is_disturbed = self._script.random() < 0.5
        self.cluster.cluster.drop_pod(jobworld.KEY.namespace, lost.pod)

    def _work_on(self) -> None:
        for process in self.processes:
            process.granted[QUERY] = min(process.granted.get(QUERY, 0) + 2, 4)
        self._ask_for_checkpoints()

    def _ask_for_checkpoints(self) -> None:
        for process in self.processes:
            if process.loop is not None and not process.has_ended:
                process.loop.request_checkpoint(api.CheckpointRequest(request_id=self._next()))
            process.note_change()

    def _second(self, steps: int | None) -> None:
        """Let the kubelet look, the operator begin a pass if the one before has ended, and everybody run."""
        self.cluster.pass_time()
        self.clock.now = self.cluster.time
        if self._passing is None or self._passing.is_done:
            self._passing = self.cluster.operator.spawn("pass", self.cluster.reconcile_if_due)
        for standby in self._standbys:
            if standby.is_at_rest and standby.control.activation is None:
                standby.spawn("look", standby.standby.refresh)
        self._let_run(steps)

    def _settle(self) -> None:
        """End all faults, let whoever sleeps wake, and wait until a driver of the newest epoch has made a checkpoint."""
        self.log("the faults end")
        self.faults.clear()
        for process in (*self.processes, self.cluster.operator):
            process.outage = 0
        while self._sleepers:
            self._wake(0)
        while self.network.late:
            self._deliver(0)
        self.highest_before_the_end = self.record.newest_checkpoint
        for second in range(LONGEST_S):
            if second % PATIENCE == 0 and self.cluster.status.stalled is not None:
                self._upgrade()  # A person has looked, and brings a revision that works.
            self._work_on()
            self._second(None)
            if self.broken:
                return
            if self._is_settled:
                break
        self._work_on()
        self._let_run(None)
        self._ask_for_checkpoints()
        self._let_run(None)
        for rule in invariants.AT_REST:
            self.judge_of_effects.note(rule.__name__, rule(self))

    @property
    def _is_settled(self) -> bool:
        if not self.processes:
            return False
        last = self.last
        newest = last.last_checkpoint
        return last.is_up and newest is not None and newest.id > self.highest_before_the_end


def run(seed: int, happenings: Happenings = USUAL) -> Outcome:
    """Live the run of a seed."""
    warm = random.Random(f"spec {seed}").random() < 0.5
    spec = {**jobworld.SPEC, "storage": {**jobworld.SPEC["storage"], "uri": JOBS}}  # type: ignore[dict-item]
    spec |= {"driver": {"standby": True}, "upgrade": {"strategy": "Warm"}} if warm else {}
    with Operated(seed, json.loads(json.dumps(spec)), happenings).entered() as world:
        assert isinstance(world, Operated)
        world.live()
        return Outcome(world.broken[0] if world.broken else None, world.scheduler.steps, world.story())
