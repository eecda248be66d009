"""The command `statefulspark`, and a person who uses it: a job that runs is ended with Ctrl-C when its first rows are seen.

    python lookingon.py run job.py --dev

It ends with 0 if the job was drained; every other command ends as it does by itself.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import processes
from driverprocess import COMMAND

ROW = re.compile(r"^\|.*\d\|$", re.MULTILINE)
_PATIENCE_S = 240.0


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    command = [*COMMAND, *arguments]
    if arguments[0] != "run" or "--check" in arguments:
        return subprocess.run(command, check=False).returncode
    job = processes.Process("the job", Path("job.log"))
    job.launch(command)
    job.wait_until(lambda: ROW.search(job.output) is not None, "a row is seen", _PATIENCE_S)
    job.send(signal.SIGINT)
    code = job.wait_end(_PATIENCE_S)
    print(job.output)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
