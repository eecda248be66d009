"""Restart to first commit of a job with state, against a bare Spark streaming start without any.

Ours: a driver with state is killed and started again; measured from the start of the process to its next commit, claim,
recovery, restore from S3 and Python workers included, with the archive that the image brings. The job has run long enough
that Spark has made a snapshot of all its state, as a job that has run for minutes has. Bare: a PySpark script with one
aggregation on the local disk, without state, started as PySpark does. In turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import machine, state_size

BARE = machine.JOBS / "bare_start.py"
ARCHIVE = Path(os.environ.get("STATEFULSPARK_JVM_ARCHIVE") or machine.ROOT / "build" / "jvm.jsa")
TRAINING = machine.ROOT / "jobruntime" / "image" / "train_archive.py"


def bare_s() -> float:
    """Return the seconds of a bare start, from the start of the process to its first commit."""
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.time()
        command = [sys.executable, str(BARE), folder]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        took_s = machine.wait_for(lambda: _committed_after_s(Path(folder), began_s), "a bare start has committed")
        process.kill()
        process.wait()
        return took_s


def _committed_after_s(folder: Path, began_s: float) -> float | None:
    commit = folder / "checkpoint" / "commits" / "0"
    return commit.stat().st_mtime - began_s if commit.exists() else None


def ours_s(size_mb: int, turns: int, *, with_bare: list[float]) -> list[float]:
    """Return the seconds of restarts with state; a bare start is measured before each."""
    took = []
    with machine.workplace() as (server, folder):
        feeder = state_size.Feeder(folder / "input")
        feeder.fill(size_mb)
        driver = machine.Driver(
            "blobs.py",
            f"s3://{(bucket := server.new_bucket())}/state",
            server,
            folder / "driver.log",
            parameters={
                "input": feeder.folder,
                "value_bytes": state_size.VALUE_BYTES,
                "output": f"s3://{server.new_bucket()}/out",
            },
            flags=["--checkpoint-interval", "1s"],
            env={"STATEFULSPARK_JVM_ARCHIVE": str(ARCHIVE)},
        )
        commits = server.objects / bucket / "state" / "default" / "blobs" / "generations"
        driver.start()
        driver.wait_committed(state_size.UID, feeder.files - 1)
        _wait_for_snapshots(feeder, commits)
        for _ in range(turns):
            for _ in range(5):
                feeder.write(range(state_size.TOUCHED_KEYS))
            last = feeder.files - 1
            driver.wait_committed(state_size.UID, last)
            time.sleep(3)
            driver.kill()
            with_bare.append(bare_s())
            feeder.write(range(state_size.TOUCHED_KEYS))
            driver.start()
            took.append(
                machine.wait_for(lambda: _next_commit_s(commits, last + 1, driver.started_at_s), "a commit")  # noqa: B023
            )
        driver.kill()
    return took


def _wait_for_snapshots(feeder: state_size.Feeder, generations: Path) -> None:
    """Touch keys until each partition has a snapshot of the whole state."""
    filled = feeder.files

    def look() -> bool | None:
        feeder.write(range(state_size.TOUCHED_KEYS))
        time.sleep(1)
        found = [
            max((int(file.name.split("_")[0]) for file in generations.glob(f"*/*/state/0/{one}/*.zip")), default=0)
            for one in range(2)
        ]
        return True if min(found) >= filled else None

    machine.wait_for(look, "Spark has made a snapshot of the state")


def _next_commit_s(generations: Path, batch: int, began_s: float) -> float | None:
    found = list(generations.glob(f"*/{state_size.UID}/commits/{batch}"))
    return found[0].stat().st_mtime - began_s if found else None


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns and compare."""
    parser = machine.parser("restart", __doc__)
    parser.add_argument("--size", type=int, default=200, metavar="MB", help="size of the state")
    parser.add_argument("--turns", type=int, default=5, help="restarts; the first is not counted")
    chosen = parser.parse_args(arguments)
    if not ARCHIVE.exists():
        subprocess.run([sys.executable, str(TRAINING), str(ARCHIVE)], check=True)
    bare: list[float] = []
    ours = ours_s(chosen.size, chosen.turns, with_bare=bare)
    medians = [statistics.median(times[1:]) for times in (bare, ours)]
    machine.table(
        ("start to first commit", "median", "of bare"),
        [
            ("bare Spark, no state, no S3", f"{medians[0]:.1f} s", "1.00"),
            (f"ours, {chosen.size} MB of state on S3", f"{medians[1]:.1f} s", f"{medians[1] / medians[0]:.2f}"),
        ],
    )
    print("(goal: faster than bare)")
    machine.finish(chosen.json, {"bare_s": bare, "ours_s": ours, "ratio": medians[1] / medians[0]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
