"""What `sizing` measures: one job at a number of keys, from its first row to a start with other partitions.

The job is `blobs`: row by row in Python, one value of random bytes for each key, on two cores with two partitions and S3 on
the same machine. Every key comes once; then batches of two sizes with keys drawn at random, which tell what a batch
costs and what a row does; then small batches and a checkpoint every few seconds, in which requests are counted in the
server's own log; then a savepoint, a driver that is killed and started again, and one that is started with twice the
partitions.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as parquet
import s3server

from bench import machine, processor_time

VALUE_BYTES = 100
PARTITIONS = 2
FILL_ROWS = 250_000
SMALL_ROWS, LARGE_ROWS, TRICKLED_ROWS = 20_000, 200_000, 1_000
BATCHES = 6
"""Of each size, after one that warms up."""
COUNTED_BATCHES = 30
CHECKPOINT_INTERVAL_S = 5
MAINTENANCE_INTERVAL_S = 10
"""Spark looks for state to snapshot this often; a minute unless told otherwise, which no run has time for."""
EMPTY_WORKERS_BYTES = 424_000_000
"""Memory of all Python workers without state: what they had with the fewest keys, less what the model gives those."""
UID = "blobs"
_KIND = re.compile(r" s3_(\w+) (\S+)")
_SEED = 20


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured at one number of keys.

    Attributes:
        keys: Keys that have state.
        value_bytes: Size of the value of each.
        small_batch_s: Median of a batch of `SMALL_ROWS`.
        large_batch_s: Median of a batch of `LARGE_ROWS`.
        small_batch_core_s: Processor time of such a batch, on average; what others do on the machine is not in it.
        large_batch_core_s: The same for `LARGE_ROWS`.
        workers_bytes: Memory of all Python workers together; what processes share counts in parts.
        jvm_bytes: Memory of the JVM.
        driver_bytes: Memory of the driver's own process.
        checkpoint_bytes: Size of all files of a checkpoint.
        stored_bytes: Everything in the job's folder, with three retained checkpoints.
        local_bytes: What is in Spark's local directory.
        load: Processes that wanted a core, over a minute, at the end of the batches: how busy the machine was.
        requests: Requests while small batches and checkpoints went on, by operation and what they are for.
        batches: Batches in that time.
        checkpoints: Checkpoints in that time.
        window_s: That time.
        savepoint_s: From its request to its completion.
        restart_s: From the start of the process to its first commit, after it was killed.
        restart_core_s: Processor time until then.
        rescale_s: As `restart_s`, with twice the partitions, for which state is rewritten.
        rescale_core_s: Processor time until then.
    """

    keys: int
    value_bytes: int
    small_batch_s: float
    large_batch_s: float
    small_batch_core_s: float
    large_batch_core_s: float
    workers_bytes: int
    jvm_bytes: int
    driver_bytes: int
    checkpoint_bytes: int
    stored_bytes: int
    local_bytes: int
    load: float
    requests: dict[str, int]
    batches: int
    checkpoints: int
    window_s: float
    savepoint_s: float
    restart_s: tuple[float, ...]
    restart_core_s: tuple[float, ...]
    rescale_s: float
    rescale_core_s: float

    def to_json(self) -> machine.Json:
        """Return it as a JSON object."""
        return asdict(self)


class Feed:
    """Puts input in place, a file for each batch."""

    def __init__(self, folder: Path, keys: int) -> None:
        """Feed a folder with keys from 0 up to a number."""
        folder.mkdir(parents=True)
        self.folder, self.files = folder, 0
        self._keys = keys
        self._random = np.random.default_rng(_SEED)

    def fill(self) -> None:
        """Write every key once."""
        for first in range(0, self._keys, FILL_ROWS):
            self._write(np.arange(first, min(self._keys, first + FILL_ROWS), dtype=np.int64))

    def touch(self, rows: int) -> None:
        """Write rows with keys drawn at random."""
        self._write(self._random.integers(0, self._keys, rows, dtype=np.int64))

    def _write(self, keys: npt.NDArray[np.int64]) -> None:
        hidden = self.folder / f".{self.files}"
        parquet.write_table(pa.table({"key": keys}), hidden)
        hidden.rename(self.folder / f"{self.files:06}.parquet")
        self.files += 1


class Run:
    """One job at one number of keys."""

    def __init__(self, server: s3server.S3Server, folder: Path, keys: int) -> None:
        """Prepare input and driver; nothing runs yet."""
        self._server, self._keys = server, keys
        self._bucket = server.new_bucket()
        self._feed, self._local = Feed(folder / "input", keys), folder / "local"
        self._driver = machine.Driver(
            "blobs.py",
            f"s3://{self._bucket}/state",
            server,
            folder / "driver.log",
            parameters={
                "input": self._feed.folder,
                "value_bytes": VALUE_BYTES,
                "output": f"s3://{server.new_bucket('output')}/out",
            },
            flags=[
                "--checkpoint-interval", f"{CHECKPOINT_INTERVAL_S}s", "--conf", "spark.driver.memory=2g",
                "--conf", f"spark.sql.streaming.stateStore.maintenanceInterval={MAINTENANCE_INTERVAL_S}s",
                "--conf", f"spark.local.dir={self._local}",
            ],
        )  # fmt: skip
        self._root = server.objects / self._bucket / "state" / "default" / UID

    def measure(self) -> Measured:
        """Measure everything, one after the other."""
        try:
            return self._measured()
        finally:
            self._driver.kill()

    def _measured(self) -> Measured:
        self._feed.fill()
        self._driver.start("--conf", f"spark.sql.shuffle.partitions={PARTITIONS}")
        self._wait_for_all()
        small_s, small_core_s = self._batch_s(SMALL_ROWS)
        large_s, large_core_s = self._batch_s(LARGE_ROWS)
        self._wait_for_snapshots()
        requests, batches, checkpoints, window_s = self._counted()
        held = processor_time.memory_bytes(self._driver.pid)
        checkpoint_bytes = self._checkpoint_bytes()
        stored_bytes, local_bytes, load = _size_bytes(self._root), _size_bytes(self._local), os.getloadavg()[0]
        self._driver.post("/v1/savepoints", {"requestId": "savepoint"})
        began_s, ended_s = machine.times_s(self._driver.operation("savepoint"))
        restarts = [self._started_s(PARTITIONS) for _ in range(2)]
        rescale_s, rescale_core_s = self._started_s(2 * PARTITIONS)
        return Measured(
            keys=self._keys,
            value_bytes=VALUE_BYTES,
            small_batch_s=small_s,
            large_batch_s=large_s,
            small_batch_core_s=small_core_s,
            large_batch_core_s=large_core_s,
            workers_bytes=held[processor_time.Role.WORKERS],
            jvm_bytes=held[processor_time.Role.JVM],
            driver_bytes=held[processor_time.Role.DRIVER],
            checkpoint_bytes=checkpoint_bytes,
            stored_bytes=stored_bytes,
            local_bytes=local_bytes,
            load=load,
            requests=requests,
            batches=batches,
            checkpoints=checkpoints,
            window_s=window_s,
            savepoint_s=ended_s - began_s,
            restart_s=tuple(took_s for took_s, _ in restarts),
            restart_core_s=tuple(core_s for _, core_s in restarts),
            rescale_s=rescale_s,
            rescale_core_s=rescale_core_s,
        )

    def _wait_for_all(self) -> None:
        self._driver.wait_committed(UID, self._feed.files - 1)

    def _batch_s(self, rows: int) -> tuple[float, float]:
        """Return the median seconds of batches with so many rows, and the processor seconds of one.

        One comes when the one before is committed.
        """
        self._touched_s(rows)
        before_s = processor_time.now_s(self._driver.pid)
        took = [self._touched_s(rows) for _ in range(BATCHES)]
        return statistics.median(took), (processor_time.now_s(self._driver.pid) - before_s) / BATCHES

    def _touched_s(self, rows: int) -> float:
        self._feed.touch(rows)
        self._wait_for_all()
        return machine.wait_for(self._duration_s, "the newest batch is measured")

    def _duration_s(self) -> float | None:
        query = self._query()
        is_measured = int(cast("int", query["batchId"])) == self._feed.files - 1 and query.get("batchSince") is None
        return cast("int", query["batchDurationMs"]) / 1000 if is_measured else None

    def _query(self) -> machine.Json:
        status = self._driver.get("/v1/status") or {}
        return cast("list[machine.Json]", status["queries"])[0]

    def _wait_for_snapshots(self) -> None:
        """Touch keys until Spark has made a snapshot of each partition's whole state."""
        filled = self._feed.files

        def look() -> bool | None:
            self._feed.touch(TRICKLED_ROWS)
            self._wait_for_all()
            newest = [self._newest_snapshot(partition) for partition in range(PARTITIONS)]
            return True if min(newest) >= filled else None

        machine.wait_for(look, "Spark has made a snapshot of the state")

    def _newest_snapshot(self, partition: int) -> int:
        found = self._root.glob(f"generations/*/*/state/0/{partition}/*.zip")
        return max((int(file.name.split("_")[0]) for file in found), default=0)

    def _counted(self) -> tuple[dict[str, int], int, int, float]:
        """Return the requests of small batches, one a second: with their number, the checkpoints meanwhile, the seconds."""
        before, began_s, checkpoints = len(self._server.requests()), time.monotonic(), self._checkpoints()
        for _ in range(COUNTED_BATCHES):
            next_s = time.monotonic() + 1
            self._feed.touch(TRICKLED_ROWS)
            self._wait_for_all()
            time.sleep(max(0.0, next_s - time.monotonic()))
        lines = [line for line in self._server.requests()[before:] if self._bucket in line]
        window_s = time.monotonic() - began_s
        return (
            dict(collections.Counter(map(_kind, lines))),
            COUNTED_BATCHES,
            self._checkpoints() - checkpoints,
            window_s,
        )

    def _checkpoints(self) -> int:
        status = self._driver.get("/v1/status") or {}
        return cast("dict[str, int]", status["checkpoints"])["completed"]

    def _checkpoint_bytes(self) -> int:
        status = self._driver.get("/v1/status") or {}
        return cast("dict[str, int]", status["lastCheckpoint"])["sizeBytes"]

    def _started_s(self, partitions: int) -> tuple[float, float]:
        """Kill the driver, start it, and return seconds and processor seconds until its next commit, of a small batch."""
        time.sleep(2 * CHECKPOINT_INTERVAL_S)
        self._driver.kill()
        self._feed.touch(TRICKLED_ROWS)
        batch = self._feed.files - 1
        self._driver.start("--conf", f"spark.sql.shuffle.partitions={partitions}")
        watch = processor_time.Watch(self._driver.pid)
        took_s = machine.wait_for(lambda: self._commit_s(batch), "the new driver has committed")
        used_s = processor_time.used_s(watch.end(), self._driver.started_at_s + took_s)
        self._wait_for_all()
        return took_s, sum(used_s.values())

    def _commit_s(self, batch: int) -> float | None:
        if not self._driver.process.runs:
            raise SystemExit(f"The driver has ended:\n{self._driver.process.tail}")
        found = [file.stat().st_mtime for file in self._root.glob(f"generations/*/{UID}/commits/{batch}")]
        return max(found) - self._driver.started_at_s if found else None


def measure(keys: int) -> Measured:
    """Measure a number of keys, in a place of its own."""
    with machine.workplace() as (server, folder):
        return Run(server, folder, keys).measure()


def _size_bytes(folder: Path) -> int:
    """Return what the files of a folder take, while some of them may go."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def _kind(line: str) -> str:
    """Return the operation of a request, and what it is for: a file of a batch, of state, or of snapshots."""
    match = _KIND.search(line)
    assert match is not None, line
    operation, key = match.groups()
    parts = key.removeprefix("state/").split("/")
    return f"{operation} {_what(parts)}"


def _what(parts: list[str]) -> str:
    """Return what a key below the storage root is for."""
    below = parts[2:] if parts[:1] == ["default"] else parts
    if below[:1] != ["generations"] or len(below) < 4:
        return below[0] if below and below[0] else "-"
    folder, name = below[3], below[-1]
    suffix = name.partition(".")[2] if folder == "state" else ""
    return f"{folder} *.{suffix}" if suffix else folder
