"""The errors of a harness whose job does not do what the test requests."""

from __future__ import annotations


class JobTestError(AssertionError):
    """The job ended, did not get done, or cannot do what was asked; the message says what to do."""
