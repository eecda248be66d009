"""What a pass does: the status to record first, the actions to perform then, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from statefulspark_operator.api.status import Phase, StatefulSparkJobStatus
from statefulspark_operator.lifecycle.actions import Action
from statefulspark_operator.lifecycle.reason import Reason

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=1)
"""While somebody waits for a step to end."""
STEADY = timedelta(seconds=5)
"""While the job runs: how often its progress is looked at."""
LATER = timedelta(seconds=15)
"""While only a change from outside, which wakes the job anyway, is likely to help."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of the first rule that matched.

    Attributes:
        reason: Why.
        message: One sentence for people about this job now.
        phase: The job's state in one word.
        status: The status to record before anything is done; phase, message and conditions are filled in later.
        actions: What to do, in this order; the rest is dropped when one fails.
        requeue_after: When to look again if nothing wakes the job before.
    """

    reason: Reason
    message: str
    phase: Phase
    status: StatefulSparkJobStatus
    actions: tuple[Action, ...] = ()
    requeue_after: timedelta = LATER
