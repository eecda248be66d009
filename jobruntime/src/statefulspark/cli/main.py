"""The program `statefulspark`: its commands, and what all of them have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from statefulspark import errors
from statefulspark.commandline import commands

NAME = "statefulspark"
_EPILOG = """\
examples:
  Make a job, and try it on this machine:
    statefulspark init my-job && cd my-job
    statefulspark run job.py --dev

  List the checkpoints of a job:
    statefulspark checkpoint list --storage s3://bucket/prefix --job default/words

  Take a savepoint of a job in the cluster:
    kubectl port-forward pod/words-driver-7 8090 &
    STATEFULSPARK_TOKEN=... statefulspark savepoint create --name before-upgrade

`statefulspark COMMAND --help` shows the options and examples of a command.

exit codes:
  0 done   1 failed   2 wrong options   15 no such snapshot   16 storage or driver unreachable
  17 broken or unknown; `run` has more
"""
_MODULES = {
    "init": "make a folder with a job that runs",
    "run": "run a job file as a driver",
    "checkpoint": "show a job's checkpoints, or take one",
    "savepoint": "take and manage savepoints",
    "state": "read the state in a snapshot",
    "doctor": "explain a storage folder: its contents, its damage, and what could be freed",
    "status": "show the status of a running driver",
    "stop": "stop a running job, optionally with a savepoint",
    "code": "",
    "size": "how large a job has to be: partitions, pods, memory, storage, cost",
    "completion": "print the completion of a shell",
    "version": "print versions",
}
"""The commands, each a module beside this one, and what the help says of them; one that people do not call has no line."""

program = commands.LazyGroup(
    name=NAME,
    help="Run PySpark streaming jobs that keep their state, and manage their checkpoints and savepoints.",
    epilog=_EPILOG,
    modules={name: (f"statefulspark.cli.{name}", line) for name, line in _MODULES.items()},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments without the program's name; those of the process when omitted.

    Returns:
        The exit code.
    """
    return commands.execute(program, NAME, arguments, _exit_code)


def _exit_code(error: errors.StatefulSparkError) -> int:
    from statefulspark import failures

    return failures.classify_error(error).code


def end_with(code: int) -> int:
    """End the process; returns the code where Python has to end it.

    Otherwise Python does not take itself apart, as threads of Arrow and of s3fs still run: a command that had printed all
    its rows has ended with `terminate called without an active exception`, and the code of an abort
    (github.com/apache/arrow/issues/34314).
    """
    if "pyspark" not in sys.modules:  # Spark's virtual machine is ended by what Python does at its end.
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(end_with(main()))
