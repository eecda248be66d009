"""One start of a driver, step by step as on the page of `driver.start`: everything is the product's own but Spark.

The two queries of the job count numbered records: `totals` writes to a files sink, `entries` to a ledger.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from faultrig import engine, fibers, ledger, workers
from machines import files_sink
from statefulspark import clock, errors, failures
from statefulspark.checkpoint import plans
from statefulspark.contract import api, config
from statefulspark.declaration import Output, QueryOutputs
from statefulspark.driver.running import hooks
from statefulspark.driver.starting import assemble, claim, controls, standby, start, start_parts, state_ahead
from statefulspark.driver.status import Ending
from statefulspark.operators import functions
from statefulspark.planning import carry
from statefulspark.recovery.plan import ReadyState, StartPlan, move_to_new_generation

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from statefulspark.driver.loop import JobLoop

TOTALS, ENTRIES = "totals", "entries"
QUERIES = (TOTALS, ENTRIES)
SINKS = {TOTALS: "out", ENTRIES: "book"}
LEDGER = f"{ENTRIES}/{SINKS[ENTRIES]}"
"""The sink that withdraws nothing."""
RETAINED = 3
_TOTAL = plans.PlannedOperator(0, "transformWithStateInPandasExec", uid="total")


@dataclass(frozen=True)
class Wish:
    """How a driver is started.

    Attributes:
        area: Folder of the bucket in which the job's root is.
        output: Folder of the files sink.
        ledger: Target of the other sink.
        restore: What was asked for.
        is_changed: Whether the job's plan has changed, so that its state moves into a new generation.
        name: The job's name.
        visible: When the batches of both sinks are visible.
        sources: The sources of both queries, of which all but the first never have a record.
    """

    area: str
    output: str
    ledger: ledger.Ledger
    restore: config.RestoreConfig = field(default_factory=config.RestoreConfig)
    is_changed: bool = False
    name: str = "flights"
    visible: str = "checkpoint"
    sources: tuple[str, ...] = ("numbers",)

    @property
    def job_config(self) -> config.JobConfig:
        return config.JobConfig(
            name=self.name,
            owner_id="uid",
            storage=config.StorageConfig(uri=f"s3://rig/{self.area}", ownership=config.OwnershipMode.TAKE_OVER),
            checkpoint=config.CheckpointConfig(
                interval=config.MAX_PAUSE,
                min_pause=config.MAX_PAUSE,
                retention=config.RetentionConfig(count=RETAINED),
                tolerable_failures=20,
            ),
            restore=self.restore,
        )

    @property
    def root(self) -> str:
        return f"{self.area}/default/{self.name}"


class Driver(engine.EngineProcess):
    """A driver process, from its start to its end."""

    wish: Wish
    queries: tuple[str, ...] = QUERIES
    control: controls.StandbyControl
    standby: standby.Standby
    loop: JobLoop | None = None
    sought: StartPlan
    """Where it would go on, from the step that finds that; a sink may refuse it."""
    plan: ReadyState | None = None
    ending: Ending | None = None
    failure: failures.Failure | None = None

    def stand_by(self, wish: Wish) -> None:
        """Prepare without a claim; `activate` makes it the driver."""
        self.wish = wish
        self.spawn("standby", self._stand_by)

    def activate(self, request: api.ActivateRequest) -> None:
        """Become the driver; what it does then is up to the scheduler."""
        self.control.request_activation(request)
        self.spawn("main", lambda: self._main(lambda: self._activated(request)))

    def begin(self, wish: Wish, epoch: int | None = None) -> None:
        """Start, under the epoch that an operator has assigned; what it does then is up to the scheduler."""
        self.wish = wish
        self.spawn("main", lambda: self._main(lambda: self._start(epoch)))

    @property
    def is_up(self) -> bool:
        return self.loop is not None and not self.has_ended

    @property
    def has_ended(self) -> bool:
        return self.is_dead or self.ending is not None or self.failure is not None

    @property
    def outcome(self) -> str:
        """How it ended, in words."""
        if self.ending is not None:
            return f"{self.ending.code.name} {self.ending.reason}: {self.ending.message}"
        if self.failure is not None:
            return f"{self.failure.code.name} {self.failure.reason}: {self.failure.message}"
        if self.bugs:
            return self.bugs[0]
        return "killed" if self.is_dead else "frozen" if self.is_frozen else "running"

    @property
    def committed(self) -> dict[str, int]:
        """The last batch that each of its queries has committed."""
        return {query.uid: query.committed_batch for query in self.loop._queries.queries} if self.loop else {}

    @property
    def has_lost_a_race(self) -> bool:
        """Whether a driver that was replaced committed a batch that this one ran too."""
        return self.loop is not None and any(query.lost_races for query in self.loop._queries.queries)

    @property
    def last_checkpoint(self) -> api.SnapshotSummary | None:
        return self.loop.status().last_checkpoint if self.loop else None

    def _main(self, start_up: Callable[[], JobLoop]) -> None:
        try:
            self.ending = start_up().run()
        except errors.StatefulSparkError as error:
            self.failure = failures.classify_error(error)
        finally:
            self.is_dead = True

    def _start(self, epoch: int | None) -> JobLoop:
        job_config, started_at = self.wish.job_config, clock.utc_now()
        root = self._claimed(job_config, started_at, epoch)
        found = self.sought = start.find(self.queries, job_config, root)
        if self.wish.is_changed:
            found = move_to_new_generation(found, ("The job has changed.",))
        spark = cast("SparkSession", engine.Session(self))
        start.raise_fence(root, spark)
        built = self._build(spark)
        return self._assembled(
            start.prepare(job_config, start.compare(job_config, root, spark, found, built), started_at)
        )

    def _claimed(
        self, job_config: config.JobConfig, started_at: datetime, epoch: int | None = None
    ) -> start_parts.JobRoot:
        root = claim.claim(job_config, started_at, epoch=epoch)
        self.epoch = root.epoch
        fibers.here().has_looked = True  # There was no newer epoch when this one was created.
        return root

    def _stand_by(self) -> None:
        """Look once, as a standby does every few seconds."""
        job_config, spark = self.wish.job_config, cast("SparkSession", engine.Session(self))
        self.control = controls.StandbyControl(job_config, clock.utc_now())
        root = claim.open_root(job_config)
        carrier = state_ahead.Carrying(
            root.store, job_config.owner_id, self.control.is_activated, beside=workers.at_once
        )
        spark_steps = standby.SparkSteps(
            build=lambda _: self._build(spark),
            compare=lambda now, root, plan, built: start.compare(now, root, spark, plan, built),
            rehearse=lambda _: None,
            is_cold=lambda: False,
            read_ahead=lambda _: None,
            require_engine=lambda: None,
            carry_ahead=carrier.refresh,
            carried=carrier.end,
        )
        self.standby = standby.Standby(self.queries, job_config, root, self.control, spark_steps)
        self.standby.refresh()

    def _activated(self, request: api.ActivateRequest) -> JobLoop:
        job_config, started_at = standby.apply_restore(self.wish.job_config, request), clock.utc_now()
        root = self._claimed(job_config, started_at, request.epoch)
        loop = self._assembled(standby.take_over(self.standby, job_config, root, started_at))
        self.control.hand_over(loop, request)
        return loop

    def _build(self, spark: SparkSession) -> start_parts.Built:
        queries = tuple(self._built(uid, cast("DataFrame", engine.Frame(spark))) for uid in self.queries)  # type: ignore[arg-type]
        return start_parts.Built(queries, functions.JobFunctions(), hooks.JobHooks())

    def _assembled(self, parts: start_parts.Parts) -> JobLoop:
        self.plan = parts.plan
        self.place = f"{self.wish.area}/{self.plan.generation}"
        loop = assemble.assemble(parts)
        # Every checkpoint is the scheduler's: none comes with a first commit.
        cycle = loop._cycle
        cycle._coordinator = dataclasses.replace(cycle._coordinator, first_commits=frozenset(), is_overdue=False)
        workers.install(loop, self)
        self.loop = loop
        return loop

    def _built(self, uid: str, frame: DataFrame) -> start_parts.BuiltQuery:
        visible = self.wish.visible
        files = files_sink(f"s3://rig/{self.wish.output}", compression="none", visible=visible)
        sink = files if uid == TOTALS else ledger.LedgerSink(self.wish.ledger, visible)
        output = QueryOutputs(frame, (Output(frame, sink, SINKS[uid], "update", None),), (None,))
        planned = plans.PlannedQuery(uid, (_TOTAL,), tuple(map(plans.PlannedSource, self.wish.sources)))
        return start_parts.BuiltQuery(uid, output, carry.Stream(frame, "update"), planned)
