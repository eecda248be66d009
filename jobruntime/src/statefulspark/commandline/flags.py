"""Options with the same meaning in several executables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from statefulspark.commandline import commands, values

DEFAULT_TIMEOUT = timedelta(minutes=10)

TIMEOUT = commands.option("--timeout", type=values.DURATION, metavar="DURATION",
                          help="wait at most this long, 10m when omitted; the operation itself continues")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiting:
    """Whether and how long a command waits.

    Attributes:
        wait: Whether it waits.
        timeout: The longest wait; None for the default.
    """

    wait: bool
    timeout: timedelta | None

    def limit(self) -> timedelta | None:
        """Return the longest wait; None does not wait."""
        return (self.timeout or DEFAULT_TIMEOUT) if self.wait else None


waiting = commands.bundle(
    "waits",
    Waiting,
    commands.option("--wait/--no-wait", default=True, show_default=True,
                    help="wait until it is done, or return as soon as it is requested"),
    TIMEOUT,
)  # fmt: skip
"""Adds `--wait` and `--timeout`; the command gets `waits`."""
