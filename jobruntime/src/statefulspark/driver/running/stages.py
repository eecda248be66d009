"""The progress of a long batch: its running stage with the tasks, or Spark's own message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def running_stage(handle: StreamingQuery) -> str | None:
    """Return what a query does now, as the end of a sentence; None if Spark does not tell.

    A batch that runs no stage waits in the driver: for a source, for a sink, for the state's schemas. Cost: some calls of
    the JVM.
    """
    tracker = handle._jsq.sparkSession().sparkContext().statusTracker()
    active = set(tracker.getActiveStageIds())
    jobs = set(tracker.getActiveJobIds()) & set(tracker.getJobIdsForGroup(handle.runId))
    details = (tracker.getJobInfo(job) for job in sorted(jobs))
    stages = {stage for job in details if job.isDefined() for stage in job.get().stageIds()}
    for stage in sorted(stages & active):
        info = tracker.getStageInfo(stage)
        if info.isDefined():
            tasks = f"{info.get().numCompletedTasks()} of {info.get().numTasks()} tasks have ended"
            return f"stage {stage} ({info.get().name()}), {tasks}"
    return handle._jsq.status().message() or None
