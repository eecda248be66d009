"""A version of the flights job that must not go live: it fails while it is loaded. The running version does not notice.

statefulspark run examples/flights/flights_broken.py --dev --check
"""

from __future__ import annotations

import statefulspark as ss

job = ss.Job("flights")

DELAYED_MIN_IN = {"winter": 15, "spring": 10}
DELAYED_MIN = DELAYED_MIN_IN["summer"]
