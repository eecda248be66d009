"""Savepoint and restore of the same state in Flink with RocksDB and here: both in their native format, in turns.

   python -m bench.flink_savepoint [--keys 5000000 --value-bytes 200] [--turns 3] [--json FILE]

Both keep random bytes for each key. Flink writes to the local disk and reads from it; ours copies on a local S3 server and
restores from that. Measured, as medians:

- take: from trigger to complete, while rows trickle;
- gap: the longest time without progress meanwhile: in Flink the longest in which a task processes no row, ours the longest
  between two commits (beside each, the same without a savepoint);
- stop: the same for a stop with savepoint: until complete, and from the last row or commit until then;
- restore: in Flink from submitting the job to its first row, read with its state; ours from the start of the process to the
  first commit. The start of the process is measured beside it, without any state: Flink's cluster and an empty job there, an
  empty job here. What is above it is what the state costs.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import s3server

from bench import machine, restart, state_size
from bench.flink import process

_FILL_ROWS = 500_000
_QUIET_S = 5
_UID = state_size.UID


@dataclass(slots=True)
class Figures:
    """What was measured on one side, in seconds; one of each per turn."""

    take_s: list[float] = field(default_factory=list)
    gap_s: list[float] = field(default_factory=list)
    gap_quiet_s: list[float] = field(default_factory=list)
    stop_s: list[float] = field(default_factory=list)
    pause_s: list[float] = field(default_factory=list)
    restore_s: list[float] = field(default_factory=list)
    empty_s: list[float] = field(default_factory=list)
    process_s: list[float] = field(default_factory=list)

    def median(self, name: str) -> float | None:
        """Return the median of a figure; None if it does not apply."""
        found: list[float] = getattr(self, name)
        return statistics.median(found) if found else None


class FlinkSide:
    """A Flink cluster with the state in its RocksDB."""

    def __init__(self, flink: process.Flink, folder: Path, chosen: argparse.Namespace) -> None:
        """Use a cluster without a job."""
        self._flink = flink
        self._savepoints = f"file://{folder}/savepoints"
        self._size = (chosen.keys, chosen.value_bytes)
        self._last = ""
        self.figures = Figures(process_s=[flink.started_s])

    def fill(self) -> None:
        """Start the job and wait until every key has its bytes."""
        self._flink.ask("start", *self._size)

    def take(self) -> None:
        """Take a savepoint."""
        self.figures.gap_quiet_s.append(_seconds(self._flink.ask("quiet", _QUIET_S), "gap_s"))
        taken = self._flink.ask("savepoint", self._savepoints)
        self.figures.take_s.append(_seconds(taken, "took_s"))
        self.figures.gap_s.append(_seconds(taken, "gap_s"))

    def stop(self) -> None:
        """End the job with a savepoint."""
        taken = self._flink.ask("stop", self._savepoints)
        self.figures.stop_s.append(_seconds(taken, "took_s"))
        self.figures.pause_s.append(_seconds(taken, "pause_s"))
        self._last = str(taken["path"])

    def restore(self) -> None:
        """Start from that savepoint, and from nothing."""
        empty = self._flink.ask("restore", *self._size, "-")
        self._flink.ask("cancel")
        restored = self._flink.ask("restore", *self._size, self._last)
        self._flink.ask("cancel")
        if restored["new_keys"] != 0:
            raise SystemExit(f"Flink went on without its state: {restored}")
        self.figures.empty_s.append(_seconds(empty, "first_record_s"))
        self.figures.restore_s.append(_seconds(restored, "first_record_s"))


class OurSide:
    """Our job, with its state on a local S3 server."""

    def __init__(self, server: s3server.S3Server, folder: Path, chosen: argparse.Namespace) -> None:
        """Use a server."""
        self._server = server
        self._folder = folder
        self._chosen = chosen
        self._feeder = state_size.Feeder(folder / "input")
        self._few_rows = state_size.Feeder(folder / "few")
        self._few_rows.write(range(state_size.TOUCHED_KEYS))
        self._taken = 0
        self._last = ""
        self._bucket, self._driver = self._new_driver(self._feeder)
        self.figures = Figures()

    def fill(self) -> None:
        """Start the job and wait until every key has its bytes."""
        for first in range(0, self._chosen.keys, _FILL_ROWS):
            self._feeder.write(range(first, min(self._chosen.keys, first + _FILL_ROWS)))
        self._driver.start()
        self._driver.wait_committed(_UID, self._feeder.files - 1)
        self._feeder.trickle()
        self._driver.wait_committed(_UID, self._feeder.files + 10)

    def take(self) -> None:
        """Take a savepoint."""
        now_s = time.time()
        time.sleep(_QUIET_S)
        self.figures.gap_quiet_s.append(self._longest_gap_s(now_s, time.time()))
        self._taken += 1
        self._driver.post("/v1/savepoints", {"requestId": f"savepoint-{self._taken}"})
        began_s, ended_s = machine.times_s(self._driver.operation(f"savepoint-{self._taken}"))
        self._driver.wait_committed(_UID, self._driver.committed(_UID) + 1)
        self.figures.take_s.append(ended_s - began_s)
        self.figures.gap_s.append(self._longest_gap_s(began_s, ended_s))

    def stop(self) -> None:
        """End the job with a savepoint."""
        self._driver.post("/v1/stop", {"requestId": "stop", "savepoint": True})
        stopped = self._driver.operation("stop")
        self._driver.wait_end()
        began_s, ended_s = machine.times_s(stopped)
        self.figures.stop_s.append(ended_s - began_s)
        self.figures.pause_s.append(ended_s - max(self._commits_s(self._bucket)))
        self._last = str(stopped["location"])

    def restore(self, sources: str | None = None) -> None:
        """Start from that savepoint in a new place, and from nothing.

        Args:
            sources: Folder of the runtime's modules; those of this checkout when omitted.
        """
        self.figures.empty_s.append(self._started_s(self._few_rows, sources=sources))
        self.figures.restore_s.append(self._started_s(self._feeder, "--restore-uri", self._last, sources=sources))

    def end(self) -> None:
        """End what runs."""
        self._feeder.end()
        self._driver.end()

    def _started_s(self, feeder: state_size.Feeder, *flags: str, sources: str | None) -> float:
        bucket, driver = self._new_driver(feeder)
        if sources is not None:
            driver.env = {**driver.env, "PYTHONPATH": sources}
        driver.start(*flags)
        try:
            commits = machine.wait_for(lambda: self._commits_s(bucket) or None, "a job has committed")
            return min(commits) - driver.started_at_s
        finally:
            driver.kill()

    def _new_driver(self, feeder: state_size.Feeder) -> tuple[str, machine.Driver]:
        bucket = self._server.new_bucket()
        return bucket, machine.Driver(
            "blobs.py",
            f"s3://{bucket}/state",
            self._server,
            self._folder / "driver.log",
            parameters={
                "input": feeder.folder,
                "value_bytes": self._chosen.value_bytes,
                "output": f"s3://{self._server.new_bucket()}/out",
            },
            flags=["--checkpoint-interval", "1h", "--conf", "spark.driver.memory=2g"],
            env={"STATEFULSPARK_JVM_ARCHIVE": str(restart.ARCHIVE)} if restart.ARCHIVE.exists() else {},
        )

    def _commits_s(self, bucket: str) -> list[float]:
        """Return when the batches were committed that this place knows; those that a restore copied are older."""
        generations = self._server.objects / bucket / "state" / "default" / "blobs" / "generations"
        copied = {path.parent for path in generations.glob("*/generation.json")}
        commits = list(generations.glob(f"*/{_UID}/commits/[0-9]*"))
        ready_s = {folder: (folder / "generation.json").stat().st_mtime for folder in copied}
        times_s = [(path.parents[2], path.stat().st_mtime) for path in commits]
        return sorted(time_s for folder, time_s in times_s if time_s > ready_s.get(folder, float("inf")))

    def _longest_gap_s(self, from_s: float, to_s: float) -> float:
        times_s = self._commits_s(self._bucket)
        pairs = itertools.pairwise(times_s)
        return max((after - before for before, after in pairs if after >= from_s and before <= to_s), default=0.0)


def _seconds(answer: machine.Json, name: str) -> float:
    return cast(float, answer[name])


def _measure(chosen: argparse.Namespace) -> tuple[Figures, Figures]:
    with (
        machine.workplace() as (server, folder),
        tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as beside,
        process.running(process.ROCKSDB, Path(beside)) as flink,
    ):
        sides: tuple[FlinkSide, OurSide] = (FlinkSide(flink, Path(beside), chosen), OurSide(server, folder, chosen))
        try:
            steps: list[Callable[[], None]] = [side.fill for side in sides]
            steps += [side.take for _ in range(chosen.turns) for side in sides]
            steps += [side.stop for side in sides]
            steps += [side.restore for _ in range(chosen.turns) for side in sides]
            for step in steps:
                step()
        finally:
            sides[1].end()
        return sides[0].figures, sides[1].figures


_ROWS = {
    "take a savepoint": "take_s",
    "gap meanwhile": "gap_s",
    "gap without one": "gap_quiet_s",
    "stop with savepoint": "stop_s",
    "pause of a stop": "pause_s",
    "restore": "restore_s",
    "start of an empty job": "empty_s",
}


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns and compare."""
    parser = machine.parser("flink_savepoint", __doc__)
    parser.add_argument("--keys", type=int, default=5_000_000, help="number of keys")
    parser.add_argument("--value-bytes", type=int, default=200, help="size of a key's state")
    parser.add_argument("--turns", type=int, default=3, help="savepoints and restores of each")
    chosen = parser.parse_args(arguments)
    process.require()
    flink, ours = _measure(chosen)
    medians = {name: (flink.median(part), ours.median(part)) for name, part in _ROWS.items()}
    restores, empties = medians["restore"], medians["start of an empty job"]
    if None not in (*restores, *empties):
        above = tuple(cast(float, full) - cast(float, none) for full, none in zip(restores, empties, strict=True))
        medians["restore above the start"] = (above[0], above[1])
    print(f"{machine.described()}; {chosen.keys:,} keys of {chosen.value_bytes} bytes")
    machine.table(
        ("", "Flink", "ours", "ours / Flink"),
        [
            (name, f"{theirs:.2f} s", f"{own:.2f} s", f"{own / theirs:.2f}" if theirs > 0 else "-")
            for name, (theirs, own) in medians.items()
            if theirs is not None and own is not None
        ],
    )
    print(f"(start of Flink's cluster, beside: {flink.process_s[0]:.1f} s; ours has its start in it)")
    machine.finish(
        chosen.json,
        {"flink": asdict(flink), "ours": asdict(ours), "medians": medians, "settings": process.ROCKSDB},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
