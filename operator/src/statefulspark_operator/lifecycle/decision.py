"""The result of a pass: the status to record first, the actions to perform then, and the delay until the next pass."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from statefulspark_operator.api.status import Phase, StatefulSparkJobStatus
from statefulspark_operator.lifecycle.actions import Action
from statefulspark_operator.lifecycle.reason import Reason

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=1)
"""While a step is in progress."""
QUICK = timedelta(milliseconds=200)
"""While a standby waits for the running driver's stop: until it takes over, the job stands still."""
STEADY = timedelta(seconds=5)
"""While the job runs: the interval at which its progress is observed."""
LATER = timedelta(seconds=15)
"""While only an external change can help, which also wakes the job."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of the first rule that matched.

    Attributes:
        reason: Reason for the decision.
        message: One sentence for people about the current state of the job.
        phase: The job's state in one word.
        status: The status to record before any action; phase, message and conditions are set later.
        actions: The actions, in this order; if one fails, the remaining ones are dropped.
        requeue_after: Delay until the next pass if no event wakes the job before.
    """

    reason: Reason
    message: str
    phase: Phase
    status: StatefulSparkJobStatus
    actions: tuple[Action, ...] = ()
    requeue_after: timedelta = LATER
