"""The ways in which a driver is replaced, each done once to a job that runs, and the time without output that it cost.

A pause lasts from the last output that was visible before to the first of the next driver, by the times that are on storage.
What a new driver makes visible of the one before it does not end a pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from demo import kubectl, timeline
from demo.resources import Document
from demo.timeline import MarkKind
from oracle import results
from statefulspark.recovery import generations

from testbed import waiting
from testbed.job import FILE, FOLDER, Job, Seen

BROKEN = f"{FOLDER}/raises.py"
INTERVAL_S = 3.0
"""The checkpoint interval of the testbed's job."""
CALM_BATCHES = 4
READ_BACK = 50
"""Batches before a mark that are read; reading all of an hour again and again would take what the next driver needs."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One replacement.

    Attributes:
        pause_s: Seconds without output.
        longest_gap_s: The longest time between two outputs while nothing was replaced, of a version that cannot start.
    """

    pause_s: float
    longest_gap_s: float | None = None


def warm(job: Job) -> Turn:
    """Change the spec; the standby of the new revision takes over."""
    return _upgrade(job, "Warm", _another_turn())


def replan(job: Job) -> Turn:
    """Give the job one more operator with state; the standby of that revision carries the state ahead. Then take it away.

    Raises:
        AssertionError: The job went on with nothing that a standby had carried ahead.
    """
    turn = _upgrade(job, "Warm", _with_operators(2))
    assert _is_carried(job), f"Its generation was made by no standby; {job.see().message}"
    _upgrade(job, "Warm", _with_operators(1))
    return turn


def cold(job: Job) -> Turn:
    """Change the spec; the driver stops, and then another one starts."""
    return _upgrade(job, "Cold", _another_turn())


def kill(job: Job) -> Turn:
    """Delete the driver's pod without grace; another driver starts."""
    return _killed(job, MarkKind.KILLED)


def hot(job: Job) -> Turn:
    """Delete the pod of a driver whose standby is ready."""
    job.change(driver={"standby": True})
    waiting.until(job.see, _has_standby, "a standby is ready")
    turn = _killed(job, MarkKind.KILLED_GUARDED)
    job.change(driver={"standby": False})
    return turn


def bad(job: Job) -> Turn:
    """Apply a version that cannot start, until it is refused; then go back.

    Raises:
        AssertionError: The running driver was touched.
    """
    since = settle(job)
    driver, marks = job.driver_pod(), [_mark(MarkKind.BROKEN)]
    job.change(upgrade={"strategy": "Warm"}, job={"file": BROKEN})
    waiting.until(job.see, lambda seen: _upgrade_state(seen) == "Blocked", "the version is refused")
    marks.append(_mark(MarkKind.BLOCKED))
    job.wait_batch(job.committed() + CALM_BATCHES)
    job.change(job={"file": FILE})
    waiting.until(job.see, lambda seen: _upgrade_state(seen) != "Blocked", "it is taken back")
    assert job.driver_pod() == driver, f"{driver} was replaced by {job.driver_pod()}."
    history = timeline.Timeline(commits(job, since), tuple(marks))
    gap_s = history.bad_upgrade_gap_s() or 0.0
    return Turn(max(0.0, gap_s - 2 * INTERVAL_S), gap_s)


def kill_of(job: Job, image: str) -> Turn:
    """Kill the driver of another job, which runs from another image, while this one is suspended."""
    job.change(suspend=True)
    waiting.until(job.see, lambda seen: seen.phase == "Suspended", "Suspended")
    other = Job(job.bed, f"{job.namespace}-{time.time_ns()}")
    other.prepare()
    other.apply(image=image)
    try:
        return kill(other)
    finally:
        other.forget()
        job.change(suspend=False)


KINDS: Mapping[str, Callable[[Job], Turn]] = {
    "warm": warm,
    "replan": replan,
    "hot": hot,
    "kill": kill,
    "bad": bad,
    "cold": cold,
}
"""By name, in the order in which they take turns."""


def settle(job: Job) -> int:
    """Wait until the job has no upgrade on its way, and gives out batch after batch; return from where on to read them."""
    job.wait_running()
    waiting.until(job.see, lambda seen: _upgrade_state(seen) in (None, "Stable", "Aborted"), "no upgrade")
    job.wait_batch(job.committed() + CALM_BATCHES)
    job.wait_checkpoint()
    return job.committed() - READ_BACK


def commits(job: Job, after_batch: int) -> tuple[timeline.CommitPoint, ...]:
    """Return what is visible of the batches after one, in the order of time."""
    found = results.read_commits(job.output, after_batch)
    points = (timeline.CommitPoint(one.committed_at, "numbers", one.batch_id, one.epoch, one.rows) for one in found)
    return tuple(sorted(points, key=lambda point: point.at))


def _upgrade(job: Job, mode: str, change: Document) -> Turn:
    since = settle(job)
    mark = _mark(MarkKind.CHANGED)
    job.change(**change, upgrade={"strategy": mode})
    return _ended(job, mark, since)


def _another_turn() -> Document:
    """Return a change that needs a restart, and nothing else."""
    return {"sparkConf": {"spark.statefulspark.turn": str(time.time_ns())}}


def _with_operators(count: int) -> Document:
    """Return a change to a plan with so many operators with state; what it has no longer may be dropped."""
    return {"job": {"parameters": {"operators": str(count)}}, "restore": {"dropState": ["latest"]}}


def _killed(job: Job, kind: MarkKind) -> Turn:
    since = settle(job)
    mark, pod = _mark(kind), job.driver_pod()
    job.kube.delete_pod_now(pod)
    return _ended(job, mark, since)


def _ended(job: Job, mark: timeline.Mark, since: int) -> Turn:
    def pause() -> timeline.Pause | None:
        return timeline.Timeline(commits(job, since), (mark,)).pause(mark.kind)

    found = waiting.until(
        pause, lambda seen: seen is not None, "output of the next driver", explain=lambda: str(job.see())
    )
    assert found is not None
    return Turn(round(found.seconds, 3))


def _mark(kind: MarkKind) -> timeline.Mark:
    return timeline.Mark(datetime.now(UTC), kind, kind.value)


def _is_carried(job: Job) -> bool:
    """Tell whether a standby has begun the generation in use."""
    current = generations.read_all(job.state).current
    reservation = generations.read_reservation(job.state, current.generation) if current else None
    return reservation is not None and reservation.standby is not None


def _has_standby(seen: Seen) -> bool:
    return kubectl.text(seen.status, "standby", "state") == "Ready"


def _upgrade_state(seen: Seen) -> str | None:
    return kubectl.text(seen.status, "upgrade", "state")


def bare_spark(job: Job) -> Turn:
    """Start plain PySpark in a pod like a driver's, until its first batch is done: the time that no start is below.

    Raises:
        AssertionError: It has failed.
    """
    name = f"bare-{time.time_ns()}"
    limits = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "3Gi"}}
    container = {
        "name": "spark",
        "image": job.bed.chosen.job_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", _BARE],
        "resources": limits,
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    began_at = datetime.now(UTC)
    job.kube.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}])
    ended = ("Succeeded", "Failed")
    phase = waiting.until(lambda: _phase(job, name), lambda phase: phase in ended, f"{name} has ended")
    log = job.kube.call("logs", name)
    assert phase == "Succeeded", log
    job.kube.delete_pod_now(name)
    first_at = datetime.fromtimestamp(float(log.split("first batch at ")[1].split()[0]), UTC)
    return Turn(round((first_at - began_at) / timedelta(seconds=1), 3))


def _phase(job: Job, pod: str) -> str:
    return job.kube.call("get", "pod", pod, "--output", "jsonpath={.status.phase}")


_BARE = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 300).load()
counted = source.groupBy((source.value % 3).alias("key")).count()
query = counted.writeStream.format("noop").outputMode("update").option("checkpointLocation", "/tmp/bare").start()
while query.lastProgress is None:
    time.sleep(0.05)
print("first batch at", time.time(), flush=True)
query.stop()
"""
