"""A job file with a mistake in it."""

import statefulspark as ss

job = ss.Job("totals")
limits = {"small": 10}
limit = limits["large"]
