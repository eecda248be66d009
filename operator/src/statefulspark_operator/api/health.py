"""`spec.health`: how long a job may do nothing before people are told, and before it is restarted."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from statefulspark_operator.api.base import ApiModel, ChangeCost, Duration


class Health(ApiModel):
    """When a job that makes no progress is not ready, and when it is restarted."""

    progress_timeout: Annotated[Duration, ChangeCost.RELOAD] = timedelta(minutes=5)
    """A job is not Ready, and its condition `Progressing` is false, after a batch has been running, or its driver has not
    answered, for longer than this. Default 5m."""
    stall_timeout: Annotated[Duration, ChangeCost.RELOAD] = timedelta(hours=1)
    """The driver is restarted after a batch has been running, or the driver has not answered, for longer than this. It must
    be longer than the longest batch, for example the first one after an outage of a source. Default 1h."""
