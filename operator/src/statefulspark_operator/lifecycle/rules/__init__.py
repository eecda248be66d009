"""The rules, one module per concern, one function per question.

A rule reads a situation with an updated status, and returns a decision, or None if the answer to its question is no. The
order of `RULES` is part of the design: the first rule that returns a decision is applied.
"""

from __future__ import annotations

from collections.abc import Callable

from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.rules import (
    deletion,
    executors,
    failure,
    handover,
    health,
    operation,
    ownership,
    progress,
    rollback,
    savepoints,
    standby,
    start,
    suspension,
)
from statefulspark_operator.lifecycle.rules import upgrade as upgrade_rules
from statefulspark_operator.lifecycle.situation import Situation

Rule = Callable[[Situation], Decision | None]

RULES: tuple[Rule, ...] = (
    deletion.delete,  # A deleted resource is released, whatever its other state.
    ownership.add_finalizer,  # Nothing is created before its cleanup is ensured.
    ownership.remove_stray,  # At most one driver: one of another epoch is removed first.
    failure.account_for_end,  # An end is recorded before any other rule uses it.
    ownership.reject,  # Without a valid spec there is nothing to carry out.
    standby.repeat_activation,  # A standby that was chosen must hear of it.
    handover.release_driver,  # A standby takes over as soon as the stop is complete.
    executors.remove_orphans,  # Before the next driver asks for its own.
    operation.end_stopped_driver,  # A driver that has completed its stop must end.
    operation.follow,  # A running request is followed to its end.
    health.restart_stalled,  # A savepoint or stop has its own timeout.
    rollback.roll_back,  # A revision that has failed its trial is not started again.
    rollback.stall_for_rollback,
    rollback.go_to_savepoint,  # The newest state comes first; it repeats nothing.
    rollback.ask_for_decision,
    standby.remove_unwanted,  # Before anything that may create another one.
    suspension.suspend,  # The spec requests that no driver runs.
    handover.block,  # A revision that cannot start never touches the running one.
    handover.fall_back,
    handover.prepare,
    handover.note_ready,
    upgrade_rules.replace_driver,  # The spec requests another revision or another state.
    start.drop_superseded,  # A recorded start that the spec no longer requests.
    start.drop_lost_standby,
    start.resume_start,  # A recorded start whose pod is missing.
    start.stay_stalled,
    start.stay_finished,
    start.back_off,
    start.await_storage,  # "Cannot tell" is not "absent".
    start.refuse_missing_savepoint,
    savepoints.await_named,  # Never from anything else than the spec names.
    start.start,  # No driver runs, and the spec requests one.
    progress.await_end,
    progress.show_waiting,
    progress.show_unschedulable,
    progress.show_untrusted,
    progress.await_start,
    progress.take_savepoint,
    savepoints.take,  # One at a time: a running request, and every stop, comes before.
    standby.resume_creation,  # After all that the job itself needs: it may fail for long.
    handover.await_standby,
    standby.keep,
    progress.run,
)
