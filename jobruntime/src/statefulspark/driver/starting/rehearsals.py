"""Rehearsals of a standby: each query runs over a few rows of its sources, on the processes of its first batch.

In the driver's own process that is done once. Executors in other pods come and go, so it is done again when there are others
than those it was done on. It waits for the first as long as a pod takes to start; one that has no room comes later or never,
and a standby is ready without.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from statefulspark import failures, usercode
from statefulspark.checkpoint import catalog
from statefulspark.contract import config
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.driver.starting import start_parts, state_ahead
from statefulspark.engine import session, warming
from statefulspark.planning import rehearsal, rehearsal_folder, state_copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.contract.manifest import Manifest
    from statefulspark.driver.starting import controls
    from statefulspark.planning.rehearsal_folder import RehearsalFolder
    from statefulspark.storage import ObjectStore

LONGEST_S = 180.0
"""Time for all queries of a job: an upgrade waits for its standby, and executors that were lost may not come back."""
START_S = 30.0
"""Time in which an executor registers if there is room for it, as long as Spark itself waits for some before a job."""
GRACE_S = 10.0
"""Time in which what goes on for a rehearsal ends by itself after an activation."""
_POLL_S = 0.1
_log = logging.getLogger(__name__)


class Rehearsals:
    """The rehearsals of a standby."""

    def __init__(
        self,
        spark: SparkSession,
        control: controls.StandbyControl,
        *,
        rehearsal: config.Rehearsal = config.Rehearsal.ROWS,
        longest_s: float = LONGEST_S,
        start_s: float = START_S,
        grace_s: float = GRACE_S,
    ) -> None:
        """Begin cold, as soon as there is a session.

        Args:
            spark: The session.
            control: Told which queries are warm, and asked for an activation, at which a rehearsal ends early.
            rehearsal: What is run.
            longest_s: Time for all queries.
            start_s: Time from now on in which the first executor registers.
            grace_s: Time after an activation from which on what is still read for a rehearsal is cancelled.
        """
        self._spark = spark
        self._control = control
        self._has_rows = rehearsal is config.Rehearsal.ROWS
        self._longest_s = longest_s
        self._grace_s = grace_s
        self._starting_until_s = time.monotonic() + start_s
        self._warm_executors: frozenset[str] = frozenset()

    def has_cold_executors(self) -> bool:
        """Tell whether there are executors in other processes on which nothing was rehearsed, and has to be."""
        return self._has_rows and self._is_elsewhere and not session.executors(self._spark) <= self._warm_executors

    def rehearse(self, compared: start_parts.Comparison) -> None:
        """Run every query of a job on samples, as far as there is time; return at once when the job is activated.

        Raises:
            UserCodeError: `FunctionRaised`: a function of the job raised on rows of its own source.
        """
        warming.touch_storage(self._spark, session.hadoop_uri(compared.root.store.uri))
        if not self._has_rows:
            _log.info("nothing is rehearsed, since only plans are asked for")
            return
        if self._is_elsewhere:
            self._control.steps.begin("Waiting for an executor to rehearse on")
            while not (executors := session.executors(self._spark)):
                if self._control.is_activated() or time.monotonic() >= self._starting_until_s:
                    break
                self._control.wait(_POLL_S)
            self._warm_executors = executors
            if not self._warm_executors:
                _log.info("nothing is rehearsed, since no executor has registered yet")
                return
        ends_at_s = time.monotonic() + self._longest_s

        def stops() -> bool:
            return self._control.is_activated() or time.monotonic() >= ends_at_s

        for query in compared.built.queries:
            outcome = rehearsal.RehearsalOutcome() if stops() else self._rehearsed(query, compared, stops)
            if self._control.is_activated():
                return
            judge(query.uid, outcome, self._control)

    @property
    def _is_elsewhere(self) -> bool:
        return session.has_executors_elsewhere(self._spark)

    def _rehearsed(
        self, query: start_parts.BuiltQuery, compared: start_parts.Comparison, stops: Callable[[], bool]
    ) -> rehearsal.RehearsalOutcome:
        """Return how the rehearsal of a query ended; it has not run if it was stopped."""
        outcomes: list[rehearsal.RehearsalOutcome] = []
        context = self._spark.sparkContext
        group = f"rehearsal-{uuid.uuid4().hex}"

        def work() -> None:
            context.setJobGroup(group, f"rehearsal of {query.uid}")
            outcomes.append(self._run(query, compared, stops))

        state_ahead.until(stops, work)
        if outcomes:
            return outcomes[0]
        if self._control.is_activated():  # The samples are small, and a job that is cancelled logs stacks.
            later = threading.Timer(self._grace_s, lambda: None if outcomes else context.cancelJobGroup(group))
            later.daemon = True
            later.start()
        else:
            context.cancelJobGroup(group)
        return rehearsal.RehearsalOutcome()

    def _run(
        self, query: start_parts.BuiltQuery, compared: start_parts.Comparison, stops: Callable[[], bool]
    ) -> rehearsal.RehearsalOutcome:
        store, stream = compared.root.store, query.stream
        folder = rehearsal_folder.open_folder(self._spark, store)
        report = self._control.steps.begin(f"Rehearsing query {query.uid!r}")
        outcome = rehearsal.rehearse(stream.frame, stream.mode, folder, stops=stops, report=report)
        restore = _state_of(query, compared, stops) if outcome.has_run and not stops() else None
        if restore is not None:
            folder = rehearsal_folder.open_folder(self._spark, store)
            report = self._control.steps.begin(f"Rehearsing query {query.uid!r} on its state")
            on_state = rehearsal.rehearse(
                stream.frame, stream.mode, folder, stops=stops, restore=restore, report=report
            )
            why = failures.essence(on_state.failure) if on_state.failure else None
            _log.info("rehearsed on state", extra={"query": query.uid, "has_run": on_state.has_run, "why": why})
        return outcome


def judge(query_uid: str, outcome: rehearsal.RehearsalOutcome, control: controls.StandbyControl) -> None:
    """Tell what came of a rehearsal.

    Raises:
        UserCodeError: `FunctionRaised`: a function of the job raised on rows of its own source.
    """
    text = outcome.failure
    if outcome.has_run:
        control.report_warm(query_uid)
    elif text is None:
        _log.info("a query is not rehearsed", extra={"query": query_uid})
    elif outcome.has_rows and failures.calls_of_job(text):
        failure = failures.classify_query(query_uid, text, fenced=False)
        message = f"On rows of its own sources: {failure.message} {usercode.CORRECT_IT}"
        raise usercode.user_code_error(RuntimeError(text), reason="FunctionRaised", message=message)
    else:
        _log.warning("a rehearsal failed", extra={"query": query_uid, "why": failures.essence(text)})


def _state_of(
    query: start_parts.BuiltQuery, compared: start_parts.Comparison, stops: Callable[[], bool]
) -> Callable[[RehearsalFolder], None] | None:
    """Return what copies the state that a query goes on from, unchanged; None if it has none, or too much of it.

    Nothing is concluded from a failure of a run on it: the first rows of a source, which the state may have counted long
    ago, are no input that the job would get.
    """
    restored, change = compared.start_plan.restored, compared.changes.get(query.uid)
    if restored is None or restored.kind is not SnapshotKind.CHECKPOINT or change is None or not change.is_empty:
        return None
    if not state_copy.is_small_enough(change.query):
        return None
    return functools.partial(_copy_newest, query.uid, compared.root.store, restored, stops)


def _copy_newest(
    uid: str, store: ObjectStore, restored: Manifest, stops: Callable[[], bool], folder: RehearsalFolder
) -> None:
    entry = state_copy.entry_in(store, catalog.newest_checkpoint(store), restored, uid)
    state_copy.fill(store, entry, folder, stops=stops)
