"""The command line `kubectl statefulspark`: flags in, exit code out.

kubectl finds the plugin as `kubectl-statefulspark` on PATH and passes everything behind its name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from statefulspark import errors

from statefulspark_operator.kubectl import codes, flags
from statefulspark_operator.kubectl.codes import PluginExit
from statefulspark_operator.kubectl.terminal import Terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process when omitted.

    Returns:
        The exit code.
    """
    arguments = flags.build_parser().parse_args(argv)
    from statefulspark_operator.kubectl import commands  # `--help` does not wait for the cluster's libraries.

    try:
        return commands.run(arguments)
    except errors.StatefulSparkError as error:
        Terminal().note(f"error: {error.message}")
        return codes.exit_code(error)
    except KeyboardInterrupt:
        return PluginExit.INTERRUPTED
    except BrokenPipeError:  # The reader of a pipe, for example `head`, has seen enough.
        sys.stderr.close()
        return PluginExit.DONE


if __name__ == "__main__":
    sys.exit(main())
