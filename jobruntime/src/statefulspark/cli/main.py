"""Entry point of the command: runs the verb, and turns its error into a message and an exit code."""

from __future__ import annotations

import argparse
import difflib
import importlib
import itertools
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any, NoReturn

from statefulspark import errors, failures
from statefulspark._version import __version__
from statefulspark.cli import options, terminal
from statefulspark.contract import formats
from statefulspark.contract.exit_codes import ExitCode

INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""

_COMMANDS = ("init", "run", "checkpoint", "savepoint", "state", "doctor", "status", "stop", "code", "size")
"""Modules beside this one; each adds its own parser."""

_EPILOG = """\
examples:
  Make a job, and try it on this machine:
    statefulspark init my-job && cd my-job
    statefulspark run job.py --dev

  List the checkpoints of a job:
    statefulspark checkpoint list --root s3://bucket/prefix/default/words

  Take a savepoint of a job in the cluster:
    kubectl port-forward pod/words-driver-7 8090 &
    STATEFULSPARK_TOKEN=... statefulspark savepoint create --name before-upgrade

`statefulspark COMMAND --help` shows the flags and examples of a command.

exit codes:
  0 done   1 failed   2 wrong flags   15 no such snapshot   16 storage or driver unreachable
  17 broken or unknown; `run` has more
"""


class _Parser(argparse.ArgumentParser):
    """Reports wrong flags in one sentence that names `--help` of the command, and the flag that was meant.

    Flags are never abbreviated: `--restore` would mean `--restore-uri`, until another flag begins alike.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 -- argparse's own
        super().__init__(allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401
        """Refuse what a command does not know; argparse leaves that to the parser of all commands."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
            close = (difflib.get_close_matches(flag, self._option_string_actions, 1) for flag in flags)
            similar = list(dict.fromkeys(itertools.chain.from_iterable(close)))
            hint = f" (did you mean {' and '.join(similar)}?)" if similar else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        terminal.note(f"error: {message}; see `{self.prog} --help`.")
        raise SystemExit(ExitCode.USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments without the program's name; those of the process when omitted.

    Returns:
        The exit code.

    Raises:
        SystemExit: For `--help` and for wrong flags.
    """
    argv = sys.argv[1:] if arguments is None else list(arguments)
    # What follows `--` belongs to the job file of `run`; argparse would mix it with the arguments before.
    own = argv[: argv.index("--")] if argv[:1] == ["run"] and "--" in argv else argv
    args = build_parser(argv[0] if argv else None).parse_args(own)
    args.of_job_file = argv[len(own) + 1 :]
    try:
        code = int(args.handle(args))
        sys.stdout.flush()
        return code
    except errors.StatefulSparkError as error:
        terminal.note(f"error: {error.message}")
        return failures.classify_error(error).code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # The reader of the pipe has ended.
        return _without_output()
    except OSError as error:
        terminal.note(f"error: {error}.")
        return _without_output()


def _without_output() -> ExitCode:
    """Drop what is still buffered; without this, Python would report the error again when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.FAILED


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command.

    Args:
        command: The only command that is needed, so that the modules of the others are not imported; all if it is omitted
            or unknown.
    """
    parser: argparse.ArgumentParser = _Parser(
        prog="statefulspark",
        description="Run PySpark streaming jobs that keep their state, and manage their checkpoints and savepoints.",
        epilog=_EPILOG,
        formatter_class=options.Help,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in (command,) if command in _COMMANDS else _COMMANDS:
        importlib.import_module(f"statefulspark.cli.{name}").add_parser(commands)
    version = commands.add_parser(
        "version",
        help="print versions",
        description="Print the versions of this release, of its manifests (format), of Python and of PySpark.",
        epilog="example:\n  statefulspark version",
        formatter_class=options.Help,
    )
    version.set_defaults(handle=_version)
    return parser


def _version(_: argparse.Namespace) -> int:
    try:
        pyspark = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        pyspark = "not installed"
    terminal.write(f"statefulspark {__version__}")
    terminal.write(f"format {formats.MANIFEST.writes}")
    terminal.write(f"python {platform.python_version()}")
    terminal.write(f"pyspark {pyspark}")
    return ExitCode.FINISHED


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
