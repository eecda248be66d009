"""How far a job's schedule has been carried out, and which moment's savepoint is to be made now. Pure.

A moment is handled when its object exists, or when it was missed; so an operator that ends in between makes it once.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark.contract.api import JobState

from statefulspark_operator.api.savepoint_schedule import SavepointSchedule, SavepointScheduleStatus
from statefulspark_operator.api.spark_savepoint import scheduled_name
from statefulspark_operator.lifecycle.savepoints.schedule import Timetable, look
from statefulspark_operator.lifecycle.situation import Situation


def due(situation: Situation) -> datetime | None:
    """Return the moment whose savepoint is to be made now; None if there is none, or no driver to take it."""
    looked, driver_status = _look(situation), situation.driver_status
    if situation.job.deletion_requested_at is not None:
        return None
    if looked is None or looked.due is None or driver_status is None or driver_status.state is not JobState.RUNNING:
        return None
    return None if _is_made(situation, looked.due) else looked.due


def current(situation: Situation) -> SavepointScheduleStatus | None:
    """Return how far the schedule has been carried out; None if the spec has none."""
    looked, schedule = _look(situation), _schedule(situation)
    if looked is None or schedule is None:
        return None
    before = _recorded(situation, schedule)
    if looked.due is not None and not _is_made(situation, looked.due):
        return before.model_copy(update={"next_at": looked.next_at})
    missed = before.missed + looked.missed
    return before.model_copy(update={"handled_at": looked.handled, "next_at": looked.next_at, "missed": missed})


def _look(situation: Situation) -> Timetable | None:
    schedule = _schedule(situation)
    if schedule is None or situation.calendar is None:
        return None
    since = min(_recorded(situation, schedule).handled_at, situation.now)
    return look(situation.calendar, since=since, now=situation.now, deadline=schedule.starting_deadline)


def _schedule(situation: Situation) -> SavepointSchedule | None:
    return situation.spec.savepoint.schedule if situation.spec is not None else None


def _recorded(situation: Situation, schedule: SavepointSchedule) -> SavepointScheduleStatus:
    """Return the record of this schedule; a new one begins now, and has missed nothing."""
    recorded, name = situation.status.savepoint_schedule, f"{schedule.cron} {schedule.time_zone}"
    if recorded is not None and recorded.schedule == name:
        return recorded
    return SavepointScheduleStatus(schedule=name, handled_at=situation.now, next_at=situation.now)


def _is_made(situation: Situation, moment: datetime) -> bool:
    name = scheduled_name(situation.job.name, moment)
    return any(savepoint.name == name for savepoint in situation.savepoints)
