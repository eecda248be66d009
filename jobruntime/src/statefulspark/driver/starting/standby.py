"""A standby: a driver up to the point where it needs the right to write, which goes on from there when it is activated.

It runs the steps of a check (`start`): Spark starts, the newest state is found, the queries are built and compared with it.
Then it follows the checkpoints of the running driver with one small listing every few seconds, and compares again. An
activation claims the epoch and does the rest of a start with what is prepared; what it finds behind its claim counts, and
nothing that was read before.

If this version's plan differs, it carries the state ahead into a generation that it reserves (`state_ahead`), so that the
activation copies only what came since.

What depends on this version of the job refuses, and is looked at again when there is a newer checkpoint: a person reads why
from the status. What depends on the world (storage that is away, files that vanish while they are read) is told and tried
again. Nothing else is written before the claim, but for what executors share during a rehearsal (`rehearsals`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from statefulspark import clock, errors, failures, launch
from statefulspark.checkpoint import catalog, progress
from statefulspark.contract import api, config, layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.declaration import JobDefinition
from statefulspark.driver import serve
from statefulspark.driver.starting import claim, controls, rehearsals, start, start_parts, state_ahead
from statefulspark.engine import gateway, session, settings
from statefulspark.planning import read_ahead

if TYPE_CHECKING:
    from statefulspark.driver.loop import JobLoop
    from statefulspark.driver.status import Ending
    from statefulspark.recovery.copies import Carried
    from statefulspark.recovery.plan import StartPlan

LOOK_INTERVAL_S = 2.0
"""Time between two looks for a newer checkpoint; an activation does not wait for it."""

_REFUSALS = frozenset({ExitCode.USAGE, ExitCode.BAD_JOB, ExitCode.INCOMPATIBLE_STATE, ExitCode.SNAPSHOT_NOT_FOUND})
"""Ends of a start that an unchanged start would repeat."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkSteps:
    """The steps of a standby that need Spark; tests replace them.

    Attributes:
        build: Calls the query functions for a state, and plans the queries.
        compare: Compares a built job with its state.
        rehearse: Makes the queries of a job warm; ends early when the job is activated.
        is_cold: Tells whether that has to be done again, because the processes that it was done on have been replaced.
        read_ahead: Reads the files of its newest state to this machine; ends early when the job is activated.
        require_engine: Raises if Spark has ended.
        carry_ahead: Copies its newest state into the generation that a changed plan needs; ends early likewise.
        carried: Ends that, and returns what was copied.
    """

    build: Callable[[StartPlan], start_parts.Built]
    compare: Callable[[config.JobConfig, start_parts.JobRoot, StartPlan, start_parts.Built], start_parts.Comparison]
    rehearse: Callable[[start_parts.Comparison], None]
    is_cold: Callable[[], bool]
    read_ahead: Callable[[start_parts.Comparison], None]
    require_engine: Callable[[], None]
    carry_ahead: Callable[[start_parts.Comparison], object]
    carried: Callable[[], Carried | None]


def run(job: JobDefinition, job_config: config.JobConfig) -> int:
    """Stand by until activated, and then run the job until it ends.

    Args:
        job: What the job file declares.
        job_config: How to run it.

    Returns:
        One of `contract.exit_codes`.

    Raises:
        StatefulSparkError: Spark could not be started; or the job, after the activation.
    """
    control = controls.StandbyControl(job_config, clock.utc_now())
    with serve.serving(control, job_config):
        start.require_queries(job, job_config)
        control.steps.begin("Waiting for Spark")
        spark = session.build(job_config, settings.storage_options(job_config.storage))
        root = claim.open_root(job_config)
        ahead = read_ahead.ReadAhead(spark)
        beside = functools.partial(state_ahead.until_activated, control)
        carrier = state_ahead.Carrying(root.store, job_config.owner_id, control.is_activated, beside=beside)
        rehearsed = rehearsals.Rehearsals(spark, control, rehearsal=job_config.rehearsal)
        spark_steps = SparkSteps(
            build=lambda start_plan: start.build_queries(job, job_config, spark, start_plan),
            compare=lambda now_config, where, plan, built: start.compare(now_config, where, spark, plan, built),
            rehearse=rehearsed.rehearse,
            is_cold=rehearsed.has_cold_executors,
            read_ahead=functools.partial(state_ahead.keep, control, ahead),
            require_engine=_require_jvm,
            carry_ahead=functools.partial(state_ahead.carry, control, carrier, ahead),
            carried=carrier.end,
        )
        standby = Standby(job.query_uids, job_config, root, control, spark_steps)
        request = standby.until_activated()
        ahead.offer()
        parts = activate(standby, request, begin_step=control.steps.begin)
        ending = start.start(parts, functools.partial(_drive, control, request), begin_step=control.steps.begin)
    location = ending.snapshot.location if ending.snapshot else None
    return launch.finish(ending.code, ending.reason, ending.message, location)


class Standby:
    """Prepares, and follows the newest state until it is activated."""

    def __init__(
        self,
        query_uids: Sequence[str],
        job_config: config.JobConfig,
        root: start_parts.JobRoot,
        control: controls.StandbyControl,
        spark_steps: SparkSteps,
    ) -> None:
        """Begin without anything prepared.

        Args:
            query_uids: The queries of the job.
            job_config: How to run it.
            root: Its root, not claimed.
            control: Told how far it is, and asked for an activation.
            spark_steps: The steps that need Spark.
        """
        self.query_uids = query_uids
        self.job_config = job_config
        self._root = root
        self._control = control
        self.spark_steps = spark_steps
        self._compared: start_parts.Comparison | None = None
        self._built: tuple[_BuildInputs, start_parts.Built] | None = None
        self._seen: int | None = None

    def until_activated(self) -> api.ActivateRequest:
        """Return the request that activates it.

        Raises:
            InternalError: Spark has ended, or a bug.
        """
        while (request := self._control.activation) is None:
            self.spark_steps.require_engine()
            self.refresh()
            self._control.wait(LOOK_INTERVAL_S)
        return request

    def refresh(self) -> None:
        """Compare with the newest state, if that is new; tell what came of it."""
        newest: int | None = None
        try:
            newest = catalog.newest_checkpoint(self._root.store)
            if newest != self._seen:
                self._follow(newest)
                self._seen = newest
            elif self._compared is not None:
                self._prepare(self._compared, is_new=False)
        except errors.StatefulSparkError as error:
            if failures.is_a_bug(error):
                raise
            # If this version of the job is the reason, looking again at the same state does not help.
            is_of_job = isinstance(error, errors.UserCodeError | errors.FormatVersionError)
            if not is_of_job and failures.classify_error(error).code not in _REFUSALS:
                _log.warning("standing by, and trying again", extra={"reason": error.reason, "why": error.message})
                self._control.report_failure(error)
                return
            _log.error("this version cannot start", extra={"reason": error.reason, "why": error.message})
            self._seen, self._compared = newest, None
            self._control.refuse(error)

    def built_for(self, start_plan: StartPlan) -> start_parts.Built:
        """Return the job built for a state; it is built again only if it would become another one."""
        inputs = _BuildInputs.of(start_plan, self.query_uids)
        if self._built is None or self._built[0] != inputs:
            self._built = (inputs, self.spark_steps.build(start_plan))
        return self._built[1]

    def _follow(self, newest: int) -> None:
        compared = self._compared_again(newest)
        is_known = compared is not None
        if compared is None:
            self._compared = None
            self._control.report_warming()
            begin_step = self._control.steps.begin
            start_plan = start.find(self.query_uids, self.job_config, self._root, begin_step=begin_step)
            if self._control.is_activated():
                return
            begin_step("Comparing the job with its state")
            compared = self.spark_steps.compare(self.job_config, self._root, start_plan, self.built_for(start_plan))
            if self._control.is_activated():
                return
        self._control.steps.begin("Reading state ahead")
        self.spark_steps.read_ahead(compared)
        self._prepare(compared, is_new=not is_known)
        self._compared = compared
        self._control.report_ready(compared.start_plan.restored_from, clock.utc_now())

    def _prepare(self, compared: start_parts.Comparison, *, is_new: bool) -> None:
        """Do what a driver would have to do after its start otherwise, as far as it has not been done."""
        if is_new or self.spark_steps.is_cold():
            self.spark_steps.rehearse(compared)
        self._control.steps.begin("Carrying state ahead")
        self.spark_steps.carry_ahead(compared)

    def _compared_again(self, newest: int) -> start_parts.Comparison | None:
        """Compare with a later checkpoint of the same generation, which is read alone; None if all has to be looked at."""
        if self._compared is None or not newest:
            return None
        before = self._compared.start_plan
        manifest = catalog.read_manifest(self._root.store, layout.checkpoint(newest))
        after = replace(
            before,
            queries=manifest.queries,
            restored=manifest,
            restored_from=manifest.label,
            master_states=manifest.master_states,
        )
        is_same = manifest.generation == before.generation and _BuildInputs.of(
            after, self.query_uids
        ) == _BuildInputs.of(before, self.query_uids)
        return self.spark_steps.compare(self.job_config, self._root, after, self._compared.built) if is_same else None


def activate(
    standby: Standby, request: api.ActivateRequest, *, begin_step: progress.BeginStep = progress.ignore_steps
) -> start_parts.Parts:
    """Do the rest of a start: claim, find, compare and prepare.

    Args:
        standby: What is prepared.
        request: The epoch, and where to start.
        begin_step: Begins each step.

    Raises:
        StatefulSparkError: The job could not be started; its state is unchanged.
    """
    started_at = clock.utc_now()
    job_config = apply_restore(standby.job_config, request)
    begin_step("Claiming the job")
    root = claim.claim(job_config, started_at, epoch=request.epoch)
    return take_over(standby, job_config, root, started_at, begin_step=begin_step)


def take_over(
    standby: Standby,
    job_config: config.JobConfig,
    root: start_parts.JobRoot,
    started_at: datetime,
    *,
    begin_step: progress.BeginStep = progress.ignore_steps,
) -> start_parts.Parts:
    """Do what a start does behind its claim, with what is prepared.

    Args:
        standby: What is prepared.
        job_config: How to run the job, and where to start.
        root: Its root, claimed.
        started_at: UTC.
        begin_step: Begins each step.
    """
    root = replace(root, author=replace(root.claimed_by, carried=standby.spark_steps.carried()))
    start_plan = start.find(standby.query_uids, job_config, root, begin_step=begin_step)
    begin_step("Comparing the job with its state")
    compared = standby.spark_steps.compare(job_config, root, start_plan, standby.built_for(start_plan))
    start.raise_fence(root, compared.spark)
    return start.prepare(
        job_config, replace(compared, root=replace(root, seen=None)), started_at, begin_step=begin_step
    )


def apply_restore(job_config: config.JobConfig, request: api.ActivateRequest) -> config.JobConfig:
    """Return the configuration with the restore of an activation."""
    return job_config if request.restore is None else job_config.model_copy(update={"restore": request.restore})


@dataclass(frozen=True, slots=True)
class _BuildInputs:
    """What the queries of a job are built with, beside its file and configuration."""

    key_groups: Mapping[str, Mapping[str, int]]
    partitions: Mapping[str, int]

    @classmethod
    def of(cls, start_plan: StartPlan, query_uids: Sequence[str]) -> _BuildInputs:
        """Return what a state gives to them."""
        return cls(
            {uid: start_plan.key_groups_of(uid) for uid in query_uids},
            {uid: start_plan.partitions_of(uid) for uid in query_uids},
        )


def _require_jvm() -> None:
    if gateway.has_ended():
        raise errors.InternalError("JvmEnded", "Spark's JVM has ended while it stood by; its output says why.")


def _drive(
    control: controls.StandbyControl, request: api.ActivateRequest, loop: JobLoop, _: config.JobConfig
) -> Ending:
    control.hand_over(loop, request)
    return serve.drive(loop)
