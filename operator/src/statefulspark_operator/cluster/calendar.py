"""Cron expressions as calendars: the only module that imports `cronsim` (docs/adr/0022).

When clocks change, it does as cron does: a moment in the hour that is skipped comes once after it, one in the hour that is
repeated is taken once.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import cronsim
from statefulspark import errors

from statefulspark_operator.lifecycle.savepoints.schedule import Calendar


@functools.lru_cache(maxsize=1024)
def read(cron: str, time_zone: str) -> Calendar:
    """Return the calendar of a cron expression; it is parsed once, and not in each pass over its job.

    Args:
        cron: Five fields, as in a CronJob.
        time_zone: Name of the time zone in which it is meant.

    Raises:
        SpecRejectedError: `ScheduleInvalid`: the expression or the time zone is unknown, or the moment never comes.
    """
    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, OSError, ValueError) as error:
        raise errors.SpecRejectedError(
            "ScheduleInvalid", f"{time_zone!r} is no time zone; name one such as Europe/Berlin or Etc/UTC."
        ) from error

    def first_after(at: datetime) -> datetime:
        return next(cronsim.CronSim(cron, at.astimezone(zone))).astimezone(UTC)

    if len(cron.split()) != 5:
        raise errors.SpecRejectedError("ScheduleInvalid", f"{cron!r} has not five fields, as in '0 3 * * *'.")
    try:
        next(cronsim.CronSim(cron, datetime(2000, 1, 1, tzinfo=zone)))
    except (cronsim.CronSimError, StopIteration) as error:
        raise errors.SpecRejectedError(
            "ScheduleInvalid", f"{cron!r} is no cron expression, or its day never comes: {error}."
        ) from error
    return first_after
