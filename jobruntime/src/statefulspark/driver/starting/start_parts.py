"""What a start has made, stage by stage: the root that it claims, the job that it builds, compares and prepares. Data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from statefulspark import errors
from statefulspark.checkpoint import plans, read_cache
from statefulspark.contract import config
from statefulspark.declaration import QueryOutputs
from statefulspark.driver.running import hooks
from statefulspark.engine import jvm
from statefulspark.operators import functions
from statefulspark.operators.keyed import registry
from statefulspark.planning import carry
from statefulspark.recovery.plan import Author, SettledPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from statefulspark.evolution.comparison import Evolution
    from statefulspark.recovery.plan import ReadyState, StartPlan
    from statefulspark.storage import ObjectStore, StorageOptions


@dataclass(frozen=True, slots=True)
class JobRoot:
    """The location of the job's state, and the driver that may write it.

    Attributes:
        store: The job's root.
        options: How workers reach it.
        author: The epoch of the claim and who holds it; None for a reader.
        seen: What was read from the root since the claim; dropped before the job is built.
    """

    store: ObjectStore
    options: StorageOptions
    author: Author | None = None
    seen: read_cache.ReadCache | None = None

    @property
    def claimed_by(self) -> Author:
        """The author; only writers ask for it."""
        if self.author is None:
            raise errors.InternalError(
                "NotClaimed", f"{self.store.uri} was not claimed; this process must not write to it."
            )
        return self.author

    @property
    def epoch(self) -> int:
        """The epoch under which it was claimed."""
        return self.claimed_by.epoch


@dataclass(frozen=True, slots=True)
class BuiltQuery:
    """A query as its function returned it, not started yet."""

    uid: str
    output: DataStreamWriter | QueryOutputs
    stream: carry.Stream
    """What it writes."""
    planned: plans.PlannedQuery
    """Its state, as its plan describes it."""
    operators: tuple[registry.Operator, ...] = ()
    """Its keyed operators, as declared."""


@dataclass(frozen=True, slots=True)
class Built:
    """What the job file's functions returned.

    Attributes:
        queries: Its queries, not started yet.
        functions: Its functions and sources on the driver.
        master_hooks: Its master hooks, none of them called yet.
    """

    queries: tuple[BuiltQuery, ...]
    functions: functions.JobFunctions
    master_hooks: hooks.JobHooks


@dataclass(frozen=True, slots=True)
class Comparison:
    """A job whose queries can restore all of its state.

    Attributes:
        root: Where the state is.
        spark: The session.
        start_plan: Where the job continues.
        built: The job.
        changes: How the state of each restored query changes, by uid.
    """

    root: JobRoot
    spark: SparkSession
    start_plan: StartPlan
    built: Built
    changes: Mapping[str, Evolution]

    @property
    def settled_plan(self) -> SettledPlan:
        """The plan, settled; only a driver that has claimed the root asks for it."""
        if not isinstance(self.start_plan, SettledPlan):
            raise errors.InternalError("NotClaimed", f"{self.root.store.uri} was not claimed; its plan is not settled.")
        return self.start_plan


@dataclass(frozen=True, slots=True)
class Parts:
    """What a start has read and built so far.

    Attributes:
        job_config: How to run the job.
        root: The location of its state, and the epoch.
        plan: What was restored, in which generation.
        built: Its queries, bound to what their functions restore.
        spark: The session.
        fence: The fence, which is up.
        started_at: When the driver started.
        declared: Functions and sources of the job that have state.
        master_hooks: Hooks that take part in its checkpoints.
        shows_first_batches: Whether a checkpoint is taken as soon as each query has committed a batch; a test of a job says
            when one is taken.
    """

    job_config: config.JobConfig
    root: JobRoot
    plan: ReadyState
    built: tuple[BuiltQuery, ...]
    spark: SparkSession
    fence: jvm.Fence
    started_at: datetime
    declared: functions.JobFunctions
    master_hooks: hooks.JobHooks = field(default_factory=hooks.JobHooks)
    shows_first_batches: bool = True
