"""One run: drivers, standbys, an operator and a network over one bucket, interleaved as a seed decides, and judged.

Everything of the protocol is the product's own code: claims, recovery, generations, the coordinator and its loop,
checkpoints, savepoints, pruning, the two-phase commit, standbys and what they carry ahead. Simulated are Spark,
Kubernetes and S3.
A run is over when an undisturbed driver has completed a checkpoint, or at the first broken invariant.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from unittest import mock

from faultrig import engine, faults, fibers, truth
from faultrig.world import World
from restores import a_restore
from simulation import invariants, moves, record
from simulation.bucket import Bucket
from simulation.drivers import QUERY, SimulatedDriver, Target, Wish
from simulation.interleaving import Interleaving
from statefulspark import errors
from statefulspark.checkpoint import savepoint
from statefulspark.contract import api, layout
from statefulspark.sinks.base import SinkContext

PARTITIONS = 1
UPLOADS = 0.6
CHANGED = ("numbers", "others")
BACKUPS = f"{faults.BUCKET}/backups"
_TOLD = 25


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold.

    Attributes:
        invariant: Its name.
        what: What was seen.
    """

    invariant: str
    what: str


class InvariantBrokenError(BaseException):
    """Ends a run; no error handling of the product sees it."""


@dataclass
class Judge:
    """Asks the invariants; implements the rig's `Watcher`."""

    facts: record.Record
    watched: frozenset[str]
    effects: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    shows_batches: bool = False

    def sees(self, process: faults.FaultyProcess, name: str, key: str, body: bytes = b"") -> None:
        """Judge an effect that is about to happen."""
        if name == "delete unchanged" or key == "ledger":
            return
        effect = self.facts.about(process, name, key, body)
        self.effects.append(f"{effect.who} {name}s {key}{'' if effect.takes_place else ', in vain'}")
        for rule in invariants.AT_EVERY_EFFECT:
            self.note(rule.__name__, rule(self.facts, effect))
        self.facts.note(effect)
        self._spend_look(effect)
        if isinstance(process, SimulatedDriver) and "/epochs/" in key and name == "create" and not effect.existed:
            process.head_at_claim = self.facts.committed.get(self.facts.in_use, 0)

    def shown(self, rows: list[truth.Row], context: SinkContext) -> None:
        """Judge rows that become visible."""
        shown = record.shown_of(rows, context)
        self.effects.append(f"epoch {shown.epoch} shows batch {shown.batch} of generation {shown.generation}")
        self.note("output_of_a_batch_is_visible_once", invariants.output_of_a_batch_is_visible_once(self.facts, shown))
        seen = invariants.output_is_visible_only_with_its_state(self.facts, shown, shows_batches=self.shows_batches)
        self.note("output_is_visible_only_with_its_state", seen)
        self.facts.note_shown(shown)

    def note(self, invariant: str, found: Iterable[str]) -> None:
        """Keep what breaks an invariant."""
        if invariant in self.watched:
            self.broken += [Broken(invariant, what) for what in found]

    def _spend_look(self, effect: record.Effect) -> None:
        """A look at the fence vouches for one write."""
        fiber = fibers.current()
        is_fenced = record.LogEntry.of(effect.key) is not None or effect.key.endswith("/_metadata.json")
        if fiber is not None and not effect.is_late and effect.verb == "create" and is_fenced:
            fiber.has_looked = False


class Simulation(World):
    """Lives one run; see the rig's world for what drivers see of it."""

    def __init__(self, seed: int, watched: Iterable[str] = invariants.NAMES) -> None:
        chance = random.Random(f"order {seed}")
        super().__init__(seed, chance.choice(("checkpoint", "checkpoint", "batch")))
        self.random = chance
        self.scheduler = Interleaving(chance)
        self.bucket = Bucket(faults.BUCKET, self.clock)
        self.network.server = self.network.truth = self.bucket
        self.record = record.Record(self.bucket, retained=chance.choice((1, 2, 3)))
        self.judge_of_effects = Judge(self.record, frozenset(watched), shows_batches=self.visible == "batch")
        self.network.watcher = self.judge_of_effects
        self.network.log = self.log
        self.target = Target(shown=self.judge_of_effects.shown)
        self.person = faults.FaultyProcess(self.scheduler, "a person", self.network)
        self.processes: list[SimulatedDriver] = []
        self.faults: list[faults.Fault] = []
        """They strike whoever makes the request."""
        self.highest_before_the_end = 0
        self._unique = random.Random(f"unique {seed}")
        self._judged: set[str] = set()

    @contextlib.contextmanager
    def entered(self) -> Iterator[Simulation]:
        """See the rig's; unique names come from the seed, too, so that a run can be told again."""
        with (
            mock.patch.object(truth, "PARTITIONS", PARTITIONS),
            mock.patch.object(engine, "UPLOADS", UPLOADS),
            mock.patch.object(uuid, "uuid4", self._new_name),
            super().entered(),
        ):
            yield self

    def _new_name(self) -> uuid.UUID:
        return uuid.UUID(int=self._unique.getrandbits(128), version=4)

    @property
    def broken(self) -> list[Broken]:
        """What is broken so far."""
        return self.judge_of_effects.broken

    @property
    def last(self) -> SimulatedDriver:
        """The driver that was started last."""
        return self.processes[-1]

    @property
    def driver(self) -> SimulatedDriver | None:
        """The driver that was started, or activated, last."""
        return self.drivers[-1] if self.drivers else None  # type: ignore[return-value]

    def end(self) -> None:
        """End every process."""
        for process in (*self.processes, self.person):
            process.is_dead = True
        self.scheduler.reap()

    def run(self, script: Sequence[moves.Move]) -> None:
        """Make moves, then let everything come to an end, and judge; return at the first broken invariant."""
        for move in script:
            self.log(str(move))
            self._make(move)
            self._let_run(move.steps)
            if self.broken:
                return
        self._finish()

    def cut_of(self, driver: SimulatedDriver) -> truth.Cut:
        """Return the cut of a driver's newest checkpoint."""
        assert driver.plan is not None
        assert driver.last_checkpoint is not None
        path = f"{record.ROOT}/{layout.query_root(driver.plan.generation, QUERY)}"
        return truth.read_cut(self.bucket, path, driver.last_checkpoint.batches[QUERY])

    def story(self) -> str:
        """Tell what happened: the moves and faults, and the last effects."""
        told = [*self.journal, f"the last {_TOLD} effects:", *self.judge_of_effects.effects[-_TOLD:]]
        return "\n  ".join(told)

    # Moves

    def _make(self, move: moves.Move) -> None:
        made = {
            moves.Kind.START: self._start,
            moves.Kind.RIVAL: self._start_rival,
            moves.Kind.KILL: self._kill,
            moves.Kind.FREEZE: self._freeze,
            moves.Kind.WAKE: self._wake,
            moves.Kind.STOP: self._stop,
            moves.Kind.BATCHES: self._batches,
            moves.Kind.CHECKPOINT: self._checkpoint,
            moves.Kind.AGE: self._age,
            moves.Kind.SAVEPOINT: self._savepoint,
            moves.Kind.STANDBY: self._stand_by,
            moves.Kind.LOOK: self._look,
            moves.Kind.ACTIVATE: self._activate,
            moves.Kind.CHANGE: self._change,
            moves.Kind.GO_BACK: self._go_back,
            moves.Kind.DISPOSE: self._dispose,
            moves.Kind.DELIVER: self._deliver,
            moves.Kind.WAIT: self._wait,
        }
        if move.fault is not None:
            self.faults.append(replace(move.fault))
        else:
            made[move.kind](move.choice)

    def _start(self, choice: int) -> None:
        """Start a driver where none runs, as an operator does that believes the old one to be gone."""
        if self.driver is None or self.driver.has_ended or self.driver.is_frozen:
            self._begin(self._plain(), choice)

    def _start_rival(self, choice: int) -> None:
        for number in range(1 + choice % 4 // 3):
            self._begin(self._plain(), choice + number)

    def _begin(self, wish: Wish, choice: int) -> None:
        """Start a driver; every second one under an epoch that an operator has assigned."""
        driver = self._created()
        self.drivers.append(driver)
        driver.must_begin_at = self._asked_for(wish)
        driver.begin(wish, self._assigned() if choice % 2 else None)

    def _assigned(self) -> int:
        return self.record.newest_epoch + 1

    def _kill(self, choice: int) -> None:
        del choice
        if self.driver is not None:
            self.driver.kill()
            self.scheduler.reap()

    def _freeze(self, choice: int) -> None:
        del choice
        if self.driver is not None and not self.driver.has_ended:
            self.driver.is_frozen = self.driver.is_disturbed = True

    def _wake(self, choice: int) -> None:
        sleepers = self._sleepers
        if sleepers:
            woken = sleepers[choice % len(sleepers)]
            woken.is_frozen = False
            woken.granted[QUERY] = woken.granted.get(QUERY, 0) + 1
            woken.note_change()

    def _stop(self, choice: int) -> None:
        request = api.StopRequest(request_id=self._next(), savepoint=choice % 4 > 0)
        self._request(lambda driver: driver.loop.request_stop(request))

    def _batches(self, choice: int) -> None:
        for driver in self.drivers:
            driver.granted[QUERY] = min(driver.granted.get(QUERY, 0) + 1 + choice % 3, 4)

    def _checkpoint(self, choice: int) -> None:
        request = api.CheckpointRequest(request_id=self._next())
        self._request(lambda driver: driver.loop.request_checkpoint(request), choice)

    def _age(self, choice: int) -> None:
        self._batches(choice)
        self._let_run(None)
        self._checkpoint(0)
        self._let_run(None)
        self._wait(1)

    def _savepoint(self, choice: int) -> None:
        request = api.SavepointRequest(request_id=self._next(), location=BACKUPS if choice % 3 == 0 else None)
        self._request(lambda driver: driver.loop.request_savepoint(request), choice)

    def _request(self, ask: Callable[[SimulatedDriver], object], choice: int = 0) -> None:
        running = [driver for driver in self.drivers if driver.is_up]
        if running:
            asked = running[-1 - choice % 2 % len(running)]
            ask(asked)  # type: ignore[arg-type]
            asked.note_change()

    def _stand_by(self, choice: int) -> None:
        standby = self._created()
        standby.stand_by(replace(self._plain(), sources=CHANGED if choice % 2 else self._plain().sources))

    @property
    def _standbys(self) -> list[SimulatedDriver]:
        waiting = (one for one in self.processes if not one.is_dead and hasattr(one, "standby"))
        return [one for one in waiting if one.control.activation is None]

    def _look(self, choice: int) -> None:
        del choice
        for standby in self._standbys:
            if standby.is_at_rest:
                standby.spawn("look", standby.standby.refresh)

    def _activate(self, choice: int) -> None:
        ready = [standby for standby in self._standbys if standby.is_at_rest]
        if ready:
            chosen = ready[choice % len(ready)]
            with contextlib.suppress(errors.PreconditionFailedError):  # It has refused the state.
                chosen.activate(api.ActivateRequest(request_id=self._next(), epoch=self._assigned()))
                self.drivers.append(chosen)

    def _change(self, choice: int) -> None:
        self._begin(replace(self._plain(), is_changed=True), choice)

    def _go_back(self, choice: int) -> None:
        usable = [one for one in self.record.snapshots.values() if one.key not in self.record.overtaken]
        if usable and self.visible == "checkpoint":
            chosen = sorted(usable, key=lambda one: one.key)[choice % len(usable)]
            folder = chosen.key.removesuffix("/_metadata.json")
            name = f"checkpoint:{chosen.id}" if chosen.is_checkpoint else f"{faults.BUCKET}/{folder}"
            self._begin(replace(self._plain(), restore=a_restore(snapshot=name, nonce=self._next())), choice)

    def _asked_for(self, wish: Wish) -> int | None:
        """Return the record at which a restore has to begin; None if it need not, or cannot."""
        if wish.restore.snapshot is None:
            return None
        self.record.has_gone_back = True
        found = [one for one in self.record.snapshots.values() if self._names(wish.restore.snapshot, one)]
        return found[0].offset if found else None

    def _names(self, reference: str, snapshot: record.Snapshot) -> bool:
        is_by_number = snapshot.is_checkpoint and reference == f"checkpoint:{snapshot.id}"
        return is_by_number or snapshot.key == f"{reference.removeprefix(f'{faults.BUCKET}/')}/_metadata.json"

    def _dispose(self, choice: int) -> None:
        """Delete a savepoint, as a person does on the command line or an operator for its object."""
        savepoints = sorted(key for key, one in self.record.snapshots.items() if not one.is_checkpoint)
        if savepoints:
            folder = savepoints[choice % len(savepoints)].removesuffix("/_metadata.json")
            self.person.spawn("dispose", lambda: self._disposed(folder))

    def _disposed(self, folder: str) -> None:
        with contextlib.suppress(errors.StatefulSparkError):
            savepoint.dispose(self.person.store(), folder)

    def _deliver(self, choice: int) -> None:
        if self.network.late:
            self.network.deliver(choice % len(self.network.late))

    def _wait(self, choice: int) -> None:
        self.clock.forward(moves.WAITS_S[choice % len(moves.WAITS_S)])

    # The run

    def _let_run(self, steps: int | None) -> None:
        until = self.scheduler.steps + steps if steps is not None else None
        self.scheduler.run(lambda: bool(self.broken) or (until is not None and self.scheduler.steps >= until))
        self._judge_starts()

    def _judge_starts(self) -> None:
        for driver in self.processes:
            if QUERY in driver.found and driver.name not in self._judged:
                self._judged.add(driver.name)
                for rule in invariants.OF_A_START:
                    self.judge_of_effects.note(rule.__name__, rule(self.record, driver))

    def _finish(self) -> None:
        """End all faults, let whoever sleeps wake beside a successor, start once more, and judge."""
        self.log("the faults end")
        self.faults.clear()
        for process in self.processes:
            process.outage = 0
        if self._sleepers or self.network.late:
            self._work()
        while self._sleepers:
            self._wake(0)
        self._let_run(None)
        while self.network.late:
            self._deliver(0)
        self._work()
        for rule in invariants.AT_REST:
            self.judge_of_effects.note(rule.__name__, rule(self))

    def _work(self) -> None:
        """Start a driver, and let it run batches and complete a checkpoint."""
        self._begin(self._plain(), 1)
        self._let_run(None)
        self._batches(1)
        self._let_run(None)
        self.highest_before_the_end = self.record.newest_checkpoint
        self._checkpoint(0)
        self._let_run(None)

    @property
    def _sleepers(self) -> list[SimulatedDriver]:
        return [process for process in self.processes if process.is_frozen and not process.has_ended]

    def _created(self) -> SimulatedDriver:
        name = f"process {len(self.processes) + 1}"
        process = SimulatedDriver(self.scheduler, name, self.network, "a")
        process.faults = self.faults
        self.processes.append(process)
        return process

    def _plain(self) -> Wish:
        return Wish("a", "out", self.target, visible=self.visible, retained=self.record.retained)
