"""`make faults`: run the matrix, or some of its scenarios, and go on where an earlier run ended."""

from __future__ import annotations

import sys

from faults import commandline, every, world

if __name__ == "__main__":
    sys.exit(commandline.main("faults", every.ALL, world.World))
