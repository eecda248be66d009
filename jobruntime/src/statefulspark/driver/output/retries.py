"""Repeats acts while they fail temporarily: with growing waits, until a deadline if there is one."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from statefulspark import errors
from statefulspark.checkpoint import progress
from statefulspark.contract.api import Progress

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 15.0
"""Between two attempts; the wait doubles."""
REFUSED_WAIT_S = 5.0
"""Between two attempts of a start whose credentials are refused."""
STOP_TIMEOUT_S = 60.0
"""How long a stopping job tries to commit, and a starting job tries to open its sinks and commit."""
NO_DEADLINE_S = math.inf

_log = logging.getLogger(__name__)


class Retries:
    """The attempts of one thread; other threads may read its message, set its deadline, and end its waiting."""

    def __init__(self) -> None:
        """Begin without a deadline."""
        self._deadline_s = NO_DEADLINE_S
        self._closing = threading.Event()
        self._tell: Callable[[str | None], None] = _nobody
        self.message: str | None = None
        """Why an act is being repeated, for people; None while none fails."""

    def tell(self, who: Callable[[str | None], None] | None) -> None:
        """Call a function with each new message from now on; None: no more."""
        self._tell = who or _nobody

    def limit(self) -> None:
        """Repeat for at most `STOP_TIMEOUT_S` from now on."""
        self._deadline_s = time.monotonic() + STOP_TIMEOUT_S

    def lift_limit(self) -> None:
        """Repeat for as long as it takes from now on."""
        self._deadline_s = NO_DEADLINE_S

    def cancel(self) -> None:
        """Make an act that waits for its next attempt fail now."""
        self._closing.set()

    def run(self, act: Callable[[], None]) -> None:
        """Call a function; call it again while it raises `TransientError`, and for a while if credentials are refused.

        Raises:
            TransientError: It failed when the deadline had passed, or its waiting was ended.
            CredentialsRefusedError: They were refused until the deadline, or until their grace time had passed.
        """
        wait_s, grace = FIRST_WAIT_S, _Grace()
        while True:
            try:
                act()
            except (errors.TransientError, errors.CredentialsRefusedError) as error:
                self._say(f"Committing is retried: {error.message}")
                _log.warning("committing failed and is retried", extra={"why": str(error), "wait_s": wait_s})
                if grace.is_over(error) or time.monotonic() >= self._deadline_s or self._closing.wait(wait_s):
                    raise
                wait_s = min(wait_s * 2, MAX_WAIT_S)
            else:
                self._say(None)
                return

    def _say(self, message: str | None) -> None:
        if message != self.message:
            self.message = message
            self._tell(message)


class _Grace:
    """How long refused credentials are asked for again; it begins with the first refusal in a row."""

    def __init__(self) -> None:
        self._end_s = NO_DEADLINE_S

    def is_over(self, error: errors.StatefulSparkError) -> bool:
        """Take the next error, and tell whether credentials have been refused for longer than they may."""
        now_s, is_refused = time.monotonic(), isinstance(error, errors.CredentialsRefusedError)
        self._end_s = min(self._end_s, now_s + errors.CredentialsRefusedError.GRACE_S) if is_refused else NO_DEADLINE_S
        return now_s >= self._end_s


def while_refused(act: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Call a function; call it again while it says that credentials are refused, for their grace time.

    Args:
        act: What is called.
        tell: Called with what is waited for.

    Raises:
        CredentialsRefusedError: They are refused for longer.
    """
    grace, is_refused = _Grace(), True
    while is_refused:
        try:
            act()
        except errors.CredentialsRefusedError as error:
            if grace.is_over(error):
                raise
            tell(f"Refused, and tried again: {error.message}")
            _log.warning("credentials are refused, and tried again", extra={"why": str(error)})
            time.sleep(REFUSED_WAIT_S)
        else:
            is_refused = False


class RetriedStep:
    """A step of a start whose acts are repeated while they fail: meanwhile the step is called by what it waits for."""

    def __init__(self, begin_step: progress.BeginStep, name: str) -> None:
        """Begin the step.

        Args:
            begin_step: The steps of the start.
            name: What it does, as the beginning of a sentence.
        """
        self._at, self._name = begin_step, name
        self._report = begin_step(name)

    def tell(self, message: str | None) -> None:
        """Take the message of `Retries`."""
        self._report = self._at(self._name if message is None else message.removesuffix("."))

    def report(self, counted: Progress) -> None:
        """Take how far the step is."""
        self._report(counted)


def _nobody(_: str | None) -> None:
    """Take a message that nobody waits for."""
