"""The process of the command: Ctrl-C while it is still importing ends it with a sentence instead of a stack of imports."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""


def main() -> int:
    """Run the command with the arguments of the process; returns its exit code, or ends the process with it."""
    try:
        # The imports take a third of a second.
        from statefulspark.cli import main as command

        return command.end_with(command.main())
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted before anything was done.\n")
        return INTERRUPTED
