"""What a shell completes behind `kubectl statefulspark`: commands, options, and the names that the API server has.

kubectl runs the executable `kubectl_complete-statefulspark` with the words so far, the last of which is being completed, and
reads a candidate per line and a directive (`plugin.SetupPluginCompletion` of kubectl 1.26).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from click.shell_completion import ShellComplete

from statefulspark_operator.kubectl import program

_NO_FILES = ":4"
"""Cobra's directive: the shell does not complete names of files instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print what the last argument can be.

    Args:
        argv: The words behind `kubectl statefulspark`; those of the process when omitted.
    """
    *words, incomplete = list(sys.argv[1:] if argv is None else argv) or [""]
    completed = ShellComplete(program.program, {}, program.NAME, "").get_completions(words, incomplete)
    lines = [
        f"{item.value}\t{item.help}" if item.help else str(item.value) for item in completed if item.type == "plain"
    ]
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, _NO_FILES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
