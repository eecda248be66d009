"""The rules, one module per concern, one function per question.

A rule looks at a situation whose status has been brought up to date, and answers with a decision or with None when its
question does not apply. The order of `RULES` is part of the design: the first that matches decides.
"""

from __future__ import annotations

from collections.abc import Callable

from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.rules import deletion, failure, operation, ownership, progress, start, suspension
from statefulspark_operator.lifecycle.rules import upgrade as upgrade_rules
from statefulspark_operator.lifecycle.situation import Situation

Rule = Callable[[Situation], Decision | None]

RULES: tuple[Rule, ...] = (
    deletion.delete,  # A deleted resource is let go, whatever else is true of it.
    ownership.add_finalizer,  # Nothing is created before it can be cleaned up.
    ownership.remove_stray,  # At most one driver: one of another epoch goes first.
    failure.account_for_end,  # An end is written down before anything is made of it.
    ownership.reject,  # Without any good spec there is nothing to carry out.
    operation.end_stopped_driver,  # A driver that has its savepoint must end, not go on.
    operation.follow,  # A request under way is followed to its end.
    suspension.suspend,  # Wanted: nothing runs.
    upgrade_rules.replace_driver,  # Wanted: another revision, or another state, than what runs.
    start.drop_superseded,  # A recorded start that nobody wants any more.
    start.resume_start,  # A recorded start whose pod is missing.
    start.stay_stalled,
    start.stay_finished,
    start.back_off,
    start.await_storage,  # "Cannot tell" is not "absent".
    start.refuse_missing_savepoint,
    start.start,  # Nothing runs and something should.
    progress.await_end,
    progress.show_waiting,
    progress.show_unschedulable,
    progress.await_start,
    progress.take_savepoint,
    progress.run,
)
