"""`make faults-plain`: run the scenarios of plain PySpark, or some of them, and go on where an earlier run ended."""

from __future__ import annotations

import sys

from faults import commandline
from faults.plain import acts
from faults.plain.world import PlainWorld

if __name__ == "__main__":
    sys.exit(commandline.main("faults.plain", acts.ALL, PlainWorld))
