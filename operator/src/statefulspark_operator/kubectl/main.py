"""The command line `kubectl statefulspark`: options in, exit code out.

kubectl finds the plugin as `kubectl-statefulspark` on PATH and passes everything behind its name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from statefulspark.commandline import commands

from statefulspark_operator.kubectl import codes, program


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process when omitted.

    Returns:
        The exit code.
    """
    return commands.execute(program.program, program.NAME, argv, codes.exit_code)


if __name__ == "__main__":
    sys.exit(main())
