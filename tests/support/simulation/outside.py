"""A run in which the world around the job goes back, comes twice, or is copied; judged by the rows that a reader sees.

Before each move everything is backed up, so that an accident (`accidents`) can bring back the bucket, the target or both.
Rows carry the life of the store in which they were written: a bucket that was put back, and a second site, begin a new life,
so rows of two histories are told apart although their generations and batches have the same numbers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from faultrig import faults, ledger, oracle, truth
from machines import files_sink
from simulation import accidents, drivers, invariants, moves
from simulation.bucket import Bucket
from simulation.drivers import NAMED, QUERY, SINK, SimulatedDriver, Wish
from simulation.sites import OUTPUT, Bodies, Content, Moment, Site, Stored
from simulation.world import Judge, Simulation
from statefulspark.contract import api, layout
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.rights import SinkRight
from statefulspark.recovery import damage

if TYPE_CHECKING:
    from statefulspark.contract.manifest import QueryEntry
    from statefulspark.driver.loop import JobLoop
    from statefulspark.driver.starting import start_parts
    from statefulspark.sinks.base import TwoPhaseSink

STARTS = 12
"""A start that finds its epoch taken, or itself replaced, is tried again as an operator does."""
STEPS = (2, 15, 60, None, None, None, None, None)
"""Steps of the scheduler after a move; mostly everybody rests."""
LAST = frozenset(
    (
        "second_site_awakes",
        "sink_failover_between_two_sites",
        "take_over_left_in_two_manifests",
        "job_renamed_from_savepoint",
        "both_sites_ran",
        "whole_job_moved",
        "state_deleted_output_kept",
        "moved_job_started_at_old_place",
    )
)
"""Accidents after which backups are no longer those of the job that goes on."""
EXPIRED_S = 15 * 60
"""How long a store accepts a request after it was signed."""
DISTANCE = 5
"""How many moves ago the newest backup may be."""


class Target(StrEnum):
    """What the sink writes to."""

    FILES = "files that can be withdrawn"
    STAGED = "a database, rows wait in files of the job"
    INLINE = "a database, rows wait in the transaction"


TARGETS = (Target.FILES, Target.STAGED, Target.STAGED, Target.INLINE)


@dataclass(frozen=True)
class OutsideWish(Wish):
    """How a driver is started; see the simulation's.

    Attributes:
        target: What its sink writes to.
    """

    target: Target = Target.STAGED

    @property
    def sink(self) -> TwoPhaseSink:
        if self.target is Target.FILES:
            return files_sink(f"{faults.BUCKET}/{OUTPUT}", compression="none", visible=self.visible)
        return ledger.LedgerSink(self.ledger, self.visible) if self.target is Target.STAGED else super().sink


class OutsideDriver(SimulatedDriver):
    """A driver whose rows tell in which life of its store they were written."""

    life = 0

    @property
    def refusal(self) -> tuple[str, str]:
        """The reason and the message with which it has ended; empty if it has not."""
        ended = self.failure or self.ending
        return (ended.reason or "", ended.message) if ended is not None else ("", "")

    def _assembled(self, parts: start_parts.Parts) -> JobLoop:
        loop = super()._assembled(parts)
        self.place += f"/life {self.life}"
        return loop


@dataclass
class Onlooker(Judge):
    """Keeps what happens for the story; rows are looked at when everybody rests.

    Attributes:
        planned: What was written last under each key of an offset log, also if it is pruned.
    """

    planned: dict[str, bytes] = field(default_factory=dict)

    def sees(self, process: faults.FaultyProcess, name: str, key: str, body: bytes = b"") -> None:
        """See the rig's watcher."""
        if "/offsets/" in key and body:
            self.planned[key] = body
        self.effects.append(f"{process.name} (epoch {process.epoch}) {name}s {key}")


class Outside(Simulation):
    """Lives one run."""

    def __init__(self, seed: int, watched: Iterable[str] = invariants.OUTSIDE_NAMES) -> None:
        super().__init__(seed)
        self.judge_of_effects = self.onlooker = Onlooker(self.record, frozenset(watched))
        self.network.watcher = self.judge_of_effects
        self.kind = self.random.choice(TARGETS)
        self.target = drivers.Target()
        self.shared: dict[str, Stored] = {}
        self.site = Site(self.bucket, self.network, Bodies(self.shared))
        self.sites = [self.site]
        self.oracle = oracle.Oracle(self.bucket)
        self.moments: list[Moment] = []
        self.sound = 0
        """How many of them are from before the first accident, when state and target belonged together."""
        self.followed_from = 0
        """How many are from before something was put back."""
        self.lives = 0
        self.life_of = {id(self.site): 0}
        self.area, self.name = "a", "flights"
        self.restore = RestoreConfig()
        """What the resource asks for; it stays in the manifest when it has been done."""
        self.words: dict[str, int] = {}
        """The record from which on rows may come again, by the name of the request that says so."""
        self.said: set[str] = set()
        """Requests to take the sink over; each counts once."""
        self.given: set[SinkRight] = set()
        """The rights that a person has given since the first of the refusals that followed each other."""
        self.given_up: set[int] = set()
        """The records whose loss a person has accepted."""
        self.is_torn = False
        """Whether drivers ran on while the bucket went back, so that it may have later objects without earlier ones."""
        self.wrong: list[str] = []
        """What an accident has seen that must not be."""
        self.backup: str | None = None
        """URI of the copy of a savepoint that stays if the state goes."""
        self.promised = ""
        """The page that says that the steps end with a running job."""

    # What an accident does

    def moment(self, choice: int) -> Moment:
        """Return a backup of any age, of a time before the first accident."""
        sound = self.moments[: self.sound]
        return sound[2 + choice % (len(sound) - 2)] if len(sound) > 2 else sound[-1]

    def recent(self, choice: int) -> Moment:
        """Return what a replica that lags may have; since it follows its primary, nothing that was put back before."""
        followed = self.moments[self.followed_from :] or [self.now()]
        return followed[-1 - choice % min(DISTANCE, len(followed))]

    def now(self) -> Moment:
        """Back everything up."""
        content = Content(tuple(self.target.rows), dict(self.target.markers), dict(self.shared), dict(self.words))
        return Moment(dict(self.site.bodies.own), content)

    def put_state_back(self, state: dict[str, Stored]) -> None:
        """Give the bucket other objects; what was on its way to the old ones is gone.

        Since the bucket may not know of it any more, a restore that was done is taken out of the manifest.
        """
        self.site.bodies.own = dict(state)
        self.followed_from = len(self.moments)
        self.restore = RestoreConfig()
        self.network.late.clear()
        self.begin_a_life()

    def begin_a_life(self) -> None:
        """Tell rows that are written in this site from now on apart from all others."""
        self.lives += 1
        self.life_of[id(self.site)] = self.lives

    def put_both_back(self, moment: Moment) -> None:
        """Give the bucket and the target what they had at one moment, when some words had not been said yet."""
        self.put_state_back(dict(moment.state))
        self.put_sink_back(moment.content)
        self.words = dict(moment.content.words)

    def put_sink_back(self, content: Content) -> None:
        """Give the target the rows and markers of another moment; what was said of the state is still true."""
        self.followed_from = len(self.moments)
        self.target.rows[:] = content.rows
        self.target.markers.clear()
        self.target.markers.update(content.markers)
        self.shared.clear()
        self.shared.update(content.objects)

    def remove_rows(self, offset: int) -> None:
        """Remove the rows of a table from a record on, as a person does; a folder withdraws them itself."""
        self.target.rows[:] = [row for row in self.target.rows if row[0] < offset]

    def give_up(self, first: int, end: int) -> None:
        """Note that a person has accepted the loss of records."""
        self.given_up |= set(range(first, end))

    def take_the_sink(self, restore: RestoreConfig, *given: SinkRight) -> None:
        """Ask for a restore from now on, with rights for the sink, under a name for which none was used."""
        repeated, lost = (NAMED if right in given else () for right in (SinkRight.REPEAT, SinkRight.LOSE))
        asked = {"repeat_output_of": repeated, "lose_output_of": lost, "takes_over_as": self.word("the sink")}
        self.restore = restore.model_copy(update=asked)

    def move_root(self, area: str, name: str) -> None:
        """Copy the folder of the job with a tool that deletes what its new place had before, and go on there."""
        own, old, new = self.site.bodies.own, f"{self.area}/default/{self.name}/", f"{area}/default/{name}/"
        kept = {key: stored for key, stored in own.items() if not key.startswith(new)}
        moved = {new + key.removeprefix(old): stored for key, stored in own.items() if key.startswith(old)}
        self.site.bodies.own = kept | moved
        self.area, self.name = area, name

    def suspect_damage(self) -> None:
        """Note what a driver does whose query could not load its state: the next start compares every file."""
        driver = next((one for one in reversed(self.processes) if one.plan is not None), None)
        if driver is not None and driver.plan is not None:
            store = self.site.bucket.child(f"{self.area}/default/{self.name}")
            batch = max(driver.committed.values(), default=-1)
            generation = driver.plan.generation
            damage.note(store, QUERY, batch, "It passed.", generation=generation, epoch=driver.epoch)

    def copied(self, savepoint: str) -> str:
        """Copy a savepoint with any tool, which keeps nothing but bytes; return the URI of the copy."""
        old, new = f"{savepoint.removeprefix(f'{faults.BUCKET}/')}/", f"backups/{self._next()}"
        own = self.site.bodies.own
        own |= {f"{new}/{key.removeprefix(old)}": stored for key, stored in own.items() if key.startswith(old)}
        return f"{faults.BUCKET}/{new}"

    def let_requests_expire(self) -> None:
        """Wait before the target is put back or emptied, as the page says; a folder gets no request of before any more.

        Requests to the state may come later still: nobody needs to wait for them.
        """
        self.clock.forward(EXPIRED_S)
        self.drop_requests(f"{OUTPUT}/")

    def drop_requests(self, *keys: str) -> None:
        """Lose the requests to what begins with some keys that are on their way."""
        for site in self.sites:
            site.network.late[:] = [late for late in site.network.late if not late.key.startswith(keys)]

    def open_site(self, state: dict[str, Stored]) -> None:
        """Go on at another site that has a copy of the bucket, and the same URIs.

        Since the copy may be from before a restore or a right was carried out, neither is in the manifest of that site.
        """
        self.restore = RestoreConfig()
        bucket = Bucket(faults.BUCKET, self.clock)
        network = faults.Network(bucket, bucket, self.judge_of_effects, self.log)
        self.site = Site(bucket, network, Bodies(self.shared, state))
        self.sites.append(self.site)
        self.begin_a_life()

    def kill_all(self) -> None:
        """End every driver of this site, as a person makes sure before touching its state."""
        for process in self.processes:
            if process.network is self.site.network:
                process.kill()
        self.scheduler.reap()

    def started(self, restore: RestoreConfig | None = None, *, stays: bool = True) -> OutsideDriver:
        """Start a driver and let everybody run until they rest.

        Args:
            restore: What the manifest asks for from now on; None for what it has asked for before.
            stays: Whether it stays in the manifest.
        """
        kept = self.restore
        self.restore = kept if restore is None else restore
        self._begin(self._plain(), 1)
        self.restore = self.restore if stays else kept
        self._let_run(None)
        return cast("OutsideDriver", self.last)

    def take_over(self, word: str) -> SimulatedDriver:
        """Start a driver that takes the sink over, as the manifest of this site asks from now on."""
        self.allow_again(word, 0)
        driver = self.started(RestoreConfig(repeat_output_of=NAMED))
        if word not in self.said and QUERY in driver.found:
            self.said.add(word)
            self.site.taken_over_at = driver.found[QUERY]
        return driver

    def tried(self) -> OutsideDriver:
        """Start a driver, once more while it finds itself replaced, and let it run batches and complete a checkpoint."""
        for _ in range(STARTS):
            driver = self.started()
            self.live_on()
            self.log(f"{driver.name} is started: {driver.outcome}")
            if invariants.is_settled(driver) or invariants.is_refused(driver):
                break
        return driver

    def promise(self, page: str, driver: SimulatedDriver) -> None:
        """Note which page says that its steps end with a running job, if the job ran before them."""
        self.promised = page if invariants.is_settled(driver) else ""

    def up(self) -> SimulatedDriver:
        """Return the driver that runs; start one if none does."""
        driver = self.driver
        return driver if driver is not None and driver.is_up and not driver.is_frozen else self.started()

    def run_batches(self, choice: int) -> None:
        """Let some batches run."""
        self._batches(choice)
        self._let_run(None)

    def live_on(self, times: int = 1) -> None:
        """Let batches run, and complete a checkpoint."""
        for number in range(times):
            self.run_batches(number)
            self._checkpoint(0)
            self._let_run(None)

    def newest_checkpoint(self) -> int | None:
        """Return the newest checkpoint that the driver has taken, by its status; None if it has taken none."""
        driver = self.up()
        checkpoint = None if driver.loop is None or driver.has_ended else driver.loop.status().last_checkpoint
        return checkpoint.id if checkpoint else None

    def checkpoints_of(self, epoch: int) -> list[int]:
        """Return the completed checkpoints that an epoch has taken, as storage lists them."""
        return [
            number
            for number in self.checkpoints(self.area, self.name)
            if self.manifest(f"checkpoint:{number}", self.area, self.name).epoch == epoch
        ]

    def taken(self) -> str | None:
        """Take a savepoint of the driver that runs; return its URI if it was made."""
        driver = self.up()
        if driver.loop is None or driver.has_ended:
            return None
        request = api.SavepointRequest(request_id=self._next())
        driver.loop.request_savepoint(request)
        driver.note_change()
        self._let_run(None)
        made = driver.loop.operation(request.request_id)
        completed = made is not None and made.state is api.OperationState.COMPLETED and made.snapshot is not None
        return made.snapshot.location if completed else None  # type: ignore[union-attr]

    def stopped(self) -> str | None:
        """Stop the driver that runs with a savepoint; return its URI if it was made."""
        driver = self.up()
        if driver.loop is None or driver.has_ended:
            return None
        driver.loop.request_stop(api.StopRequest(request_id=self._next()))
        driver.note_change()
        self._let_run(None)
        made = driver.ending.snapshot if driver.ending else None
        return made.location if made else None

    def word(self, what: str) -> str:
        """Return a name for a request that was never made before."""
        return f"{what}, {self._next()}"

    def allow_again(self, word: str, offset: int) -> None:
        """Note what a person has said: from a record on rows may come again, once for each request.

        A sink that withdraws takes back what comes again.
        """
        if not self.withdraws:
            self.words.setdefault(word, offset)

    def require_beyond(self, driver: SimulatedDriver, shown: int) -> None:
        """Note that a start has gone back although nobody has said so, or not for the first time."""
        begun = driver.found.get(QUERY, shown)
        if begun < shown:
            self.wrong.append(f"{driver.name} goes back to {begun} without a word, and {shown} records were visible")

    def shows_beyond(self, offset: int) -> bool:
        """Tell whether readers have seen rows after a record that nobody takes back: a start from it is refused."""
        return not self.withdraws and self.visible == "batch" and self.number_shown() > offset

    def offset_of(self, reference: str) -> int:
        """Return how many records a snapshot has."""
        return self.offsets(reference, self.area, self.name)[QUERY]

    def snapshot_up_to(self, records: int) -> str | None:
        """Return the newest checkpoint that has no more than so many records; None if there is none."""
        references = [f"checkpoint:{number}" for number in sorted(self.checkpoints(self.area, self.name))]
        return next((one for one in reversed(references) if self.offset_of(one) <= records), None)

    def begins_at(self, driver: OutsideDriver) -> int:
        """Return the record from which a driver goes on, or would have if it had not been refused."""
        restored = _restored_by(driver)
        return int(json.loads(restored.offsets[0])["offset"]) if restored is not None and restored.offsets else 0

    def restored_root(self, driver: OutsideDriver) -> str | None:
        """Return the key of the query whose state a driver goes on from, or would have; None if it has found none."""
        restored = _restored_by(driver)
        if restored is None:
            return None
        source = driver.sought.source
        if source is None:
            return f"{driver.wish.root}/{restored.path}"
        store = source.location.store.uri.removeprefix(f"{faults.BUCKET}/")
        return f"{store}/{source.location.key(restored, '').rstrip('/')}"

    def without_file(self, driver: OutsideDriver, first: int) -> set[int]:
        """Return the records from one on whose rows no file of the folder has, of the state that a driver goes on from."""
        restored, root = _restored_by(driver), self.restored_root(driver)
        if root is None or restored is None:
            return set()
        rows = truth.read_cut(self.site.bucket, root, restored.batch_id).rows
        waiting = self.oracle.waiting(OUTPUT, root, SINK)
        return {row[0] for row in rows if row[0] >= first and row not in waiting}

    def end_of(self, batch: int, generation: int, driver: OutsideDriver) -> int | None:
        """Return how many records there are up to a batch of a generation; None if it was never planned.

        Its own log tells, or that of the state that a driver goes on from, or who has seen it before it was pruned.
        """
        own = f"{self.area}/default/{self.name}/{layout.query_root(generation, QUERY)}"
        for root in (own, self.restored_root(driver)):
            if root is not None and self.site.bucket.info(f"{root}/offsets/{batch}") is not None:
                return truth.read_offset(self.site.bucket, root, batch)
        body = self.onlooker.planned.get(f"{own}/offsets/{batch}")
        return None if body is None else truth.parse_offset(body, batch)

    # What is seen at the end

    @property
    def running_sites(self) -> list[Site]:
        """The sites that nobody has stopped."""
        return [site for site in self.sites if not site.is_stopped]

    @property
    def withdraws(self) -> bool:
        """Whether the sink takes back what the state does not contain."""
        return self.kind is Target.FILES

    def number_shown(self, last_batch: int | None = None) -> int:
        """Return up to which record a reader sees rows; in a folder, perhaps only of batches up to one."""
        return max((number + 1 for number, _ in self.rows_shown(last_batch)), default=0)

    def rows_shown(self, last_batch: int | None = None) -> list[truth.Row]:
        """Return what a reader of the target sees; in a folder, perhaps only of batches up to one."""
        return self.oracle.visible(OUTPUT, last_batch) if self.withdraws else list(self.target.rows)

    def repeats(self) -> tuple[int, ...]:
        """Return the records from which on rows may be visible once more: a person or a start has said so."""
        told = (one for one in self.processes if one.plan is not None and one.plan.fallback is not None)
        fallbacks = [one.found[QUERY] for one in told if QUERY in one.found and not self.withdraws]
        return (*self.words.values(), *fallbacks)

    @property
    def seam(self) -> int:
        """The record before which a folder may be of two histories: who takes it over withdraws batches of the other."""
        return max(site.taken_over_at for site in self.sites) if self.withdraws else 0

    def newest_of(self, site: Site) -> SimulatedDriver:
        """Return the driver that was started last at a site."""
        return next(one for one in reversed(self.processes) if one.network is site.network)

    def cut_of(self, driver: SimulatedDriver) -> truth.Cut:
        """See the base; at the site of the driver."""
        assert driver.plan is not None
        assert driver.last_checkpoint is not None
        path = f"{driver.wish.root}/{layout.query_root(driver.plan.generation, QUERY)}"
        return truth.read_cut(driver.network.truth, path, driver.last_checkpoint.batches[QUERY])

    # The run

    def _make(self, move: moves.Move) -> None:
        self.moments.append(self.now())
        if move.kind is moves.Kind.ACCIDENT:
            self.promised = ""
            self.sound = self.sound or len(self.moments)
            accidents.ACCIDENTS[move.name](self, move.choice)
        else:
            super()._make(move)

    def _assigned(self) -> int:
        epochs = f"{self.area}/default/{self.name}/epochs"
        names = [name.removesuffix(".json") for name in self.site.bucket.list_names(epochs)]
        return max((int(name) for name in names if name.isdigit()), default=0) + 1

    def _created(self) -> OutsideDriver:
        driver = OutsideDriver(self.scheduler, f"process {len(self.processes) + 1}", self.site.network, self.area)
        driver.life, driver.faults = self.life_of[id(self.site)], self.faults
        self.processes.append(driver)
        return driver

    def _plain(self) -> OutsideWish:
        return OutsideWish(
            self.area,
            OUTPUT,
            self.target,
            self.restore,
            name=self.name,
            visible=self.visible,
            retained=self.record.retained,
            target=self.kind,
        )

    def _judge_starts(self) -> None:
        """Nothing: where a start begins is judged by the rows."""

    def _finish(self) -> None:
        """End all faults, let whoever sleeps wake, let each site work, and judge."""
        self.log("the faults end")
        self.faults.clear()
        for process in self.processes:
            process.outage = 0
        while self._sleepers:
            self._wake(0)
        self._let_run(None)
        for site in self.sites:
            while site.network.late:
                site.network.deliver()
        for site in self.running_sites:
            self.site = site
            self.tried()
        for rule in invariants.OUTSIDE:
            self.judge_of_effects.note(rule.__name__, rule(self))


def _restored_by(driver: OutsideDriver) -> QueryEntry | None:
    """Return the query whose state a driver goes on from, or would have; None if it has found none."""
    return next((query for query in driver.sought.queries if query.uid == QUERY), None)


def script_of(seed: int, *names: str) -> tuple[moves.Move, ...]:
    """Return the moves of a seed in which accidents happen to a job that has lived for a while."""
    chance = random.Random(f"outside {seed} {' '.join(names)}")
    script = [_usual(chance, moves.Kind.START), _usual(chance, moves.Kind.AGE), *_some(chance, chance.randint(2, 5))]
    for name in names:
        script.append(moves.Move(moves.Kind.ACCIDENT, chance.randrange(60), chance.choice(STEPS), name=name))
        script += _some(chance, chance.randint(1, 4))
    return tuple(script)


def mixture_of(seed: int, accidents: Sequence[str]) -> tuple[moves.Move, ...]:
    """Return the moves of a seed in which some of the accidents happen, one after the other."""
    chance = random.Random(f"mixture {seed}")
    names = chance.choices(accidents, k=chance.choice((2, 2, 3)))
    last = [name for name in names if name in LAST][:1]
    return script_of(seed, *(name for name in names if name not in LAST), *last)


def _some(chance: random.Random, count: int) -> list[moves.Move]:
    kinds = chance.choices(list(moves.USUAL), list(moves.USUAL.values()), k=count)
    return [_usual(chance, kind) for kind in kinds]


def _usual(chance: random.Random, kind: moves.Kind) -> moves.Move:
    return replace(moves.one(kind, chance), steps=0 if kind is moves.Kind.FAULT else chance.choice(STEPS))
