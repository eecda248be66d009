"""What a harness raises when the job that it runs does not do what the test asks of it."""

from __future__ import annotations


class JobTestError(AssertionError):
    """The job ended, did not get done, or cannot do what was asked; the message says what to do."""
