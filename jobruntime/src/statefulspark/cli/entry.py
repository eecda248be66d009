"""The process of the command: Ctrl-C while it is still importing ends it with a sentence instead of a stack of imports."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""


def main() -> int:
    """Run the command with the arguments of the process; returns its exit code, or ends the process with it.

    Python does not take itself apart, as threads of Arrow and of s3fs still run: a command that had printed all its rows has
    ended with `terminate called without an active exception`, and the code of an abort
    (github.com/apache/arrow/issues/34314).
    """
    try:
        # The imports take a third of a second.
        from statefulspark.cli import main as command

        code = command.main()
        if "pyspark" not in sys.modules:  # Spark's virtual machine is ended by what Python does at its end.
            os._exit(code)
        return code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted before anything was done.\n")
        return INTERRUPTED
