"""Checkpoints and savepoints against the size of the state: their cost must not grow with it.

For each size a job is filled with random bytes and then gets a small batch a second. Measured, as medians: how long a
checkpoint takes from trigger to completion; the pause of a stop with savepoint (from the barrier to the complete savepoint,
of which everything that does not change was copied before); how long a savepoint and such a stop take in all; and the
longest time between two commits, without and with a savepoint being taken: there the server copies on the same disk.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as parquet

from bench import machine, state_size_picture

VALUE_BYTES = 10_000
FILL_BATCH_BYTES = 100_000_000
TOUCHED_KEYS = 20
UID = "blobs"


class Feeder:
    """Puts the job's input in place, a file per batch."""

    def __init__(self, folder: Path) -> None:
        """Feed a folder."""
        self.folder = folder
        folder.mkdir(parents=True)
        self.files = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._trickle, daemon=True)

    def write(self, keys: range) -> None:
        """Write one file; it appears whole."""
        hidden = self.folder / f".{self.files}"
        parquet.write_table(pa.table({"key": pa.array(keys, pa.int64())}), hidden)
        hidden.rename(self.folder / f"{self.files:06}.parquet")
        self.files += 1

    def fill(self, size_mb: int) -> None:
        """Write files that name every key of a state of this size once."""
        keys, step = size_mb * 1_000_000 // VALUE_BYTES, FILL_BATCH_BYTES // VALUE_BYTES
        for first in range(0, keys, step):
            self.write(range(first, min(keys, first + step)))

    def trickle(self) -> None:
        """Touch a few keys twice a second from now on."""
        self._thread.start()

    def end(self) -> None:
        """Stop touching."""
        self._ending.set()

    def _trickle(self) -> None:
        while not self._ending.wait(0.5):
            self.write(range(TOUCHED_KEYS))


def measure(size_mb: int, rounds: int) -> machine.Json:
    """Measure one size."""
    with machine.workplace() as (server, folder):
        feeder = Feeder(folder / "input")
        feeder.fill(size_mb)
        driver = machine.Driver(
            "blobs.py",
            f"s3://{server.new_bucket()}/state",
            server,
            folder / "driver.log",
            parameters={
                "input": feeder.folder,
                "value_bytes": VALUE_BYTES,
                "output": f"s3://{server.new_bucket()}/out",
            },
            flags=["--checkpoint-interval", "1h", "--conf", "spark.driver.memory=2g"],
        )
        driver.start()
        try:
            driver.wait_committed(UID, feeder.files - 1)
            feeder.trickle()
            driver.wait_committed(UID, feeder.files + 10)
            return _measured(driver, rounds)
        finally:
            feeder.end()
            driver.end()


def _measured(driver: machine.Driver, rounds: int) -> machine.Json:
    checkpoints = [_take(driver, "checkpoints", f"checkpoint-{number}") for number in range(rounds)]
    quiet_gap_s = _longest_gap_s(driver, lambda: time.sleep(5))
    savepoints: list[machine.Json] = []
    gap_s = _longest_gap_s(
        driver, lambda: savepoints.extend(_take(driver, "savepoints", f"savepoint-{n}") for n in range(2))
    )
    driver.post("/v1/stop", {"requestId": "stop", "savepoint": True})
    stopped = driver.operation("stop")
    driver.wait_end()
    return {
        "state_bytes": checkpoints[-1]["sizeBytes"],
        "checkpoint_s": statistics.median(_took_s(one) for one in checkpoints),
        "checkpoint_phases_ms": [one.get("phasesMs") for one in checkpoints],
        "savepoint_s": statistics.median(_took_s(one) for one in savepoints),
        "gap_quiet_s": quiet_gap_s,
        "gap_savepoint_s": gap_s,
        "stop_s": _took_s(stopped),
        "pause_s": sum(cast(dict[str, int], stopped["phasesMs"]).values()) / 1000,
        "stop_phases_ms": stopped["phasesMs"],
    }


def _take(driver: machine.Driver, what: str, request_id: str) -> machine.Json:
    driver.post(f"/v1/{what}", {"requestId": request_id})
    return driver.operation(request_id)


def _took_s(snapshot: machine.Json) -> float:
    began_s, ended_s = machine.times_s(snapshot)
    return ended_s - began_s


def _longest_gap_s(driver: machine.Driver, work: object) -> float:
    """Return the longest time between two commits while some work is done."""
    ended = threading.Event()

    def run() -> None:
        assert callable(work)
        work()
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    batch, since, longest = driver.committed(UID), time.monotonic(), 0.0
    while not ended.wait(0.02):
        now_batch = driver.committed(UID)
        if now_batch != batch:
            batch, since = now_batch, time.monotonic()
        longest = max(longest, time.monotonic() - since)
    return longest


def main(arguments: list[str] | None = None) -> int:
    """Measure every size and compare the largest with the smallest."""
    parser = machine.parser("state_size", __doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[10, 200, 2000], metavar="MB", help="sizes of the state"
    )
    parser.add_argument("--rounds", type=int, default=7, help="checkpoints per size")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the seconds there, as PNG")
    chosen = parser.parse_args(arguments)
    found: dict[int, machine.Json] = {}
    for size in chosen.sizes:
        began_s = time.monotonic()
        found[size] = measure(size, chosen.rounds)
        print(f"{size} MB measured after {time.monotonic() - began_s:.0f} s", flush=True)
    columns = ("checkpoint_s", "pause_s", "savepoint_s", "gap_quiet_s", "gap_savepoint_s", "stop_s")
    machine.table(
        ("state", "checkpoint", "pause", "savepoint", "commit gap", "gap while saving", "stop with savepoint"),
        [(f"{size} MB", *(f"{cast(float, one[name]):.2f} s" for name in columns)) for size, one in found.items()],
    )
    if chosen.picture is not None:
        drawn = {size: {name: cast(float, one[name]) for name in columns} for size, one in found.items()}
        state_size_picture.draw(drawn, chosen.picture)
    times = [cast(float, one["checkpoint_s"]) for one in found.values()]
    pauses = [cast(float, one["pause_s"]) for one in found.values()]
    print(f"Checkpoints: slowest {max(times) / min(times):.2f}x the fastest (goal: at most 1.5x)")
    print(f"Pauses: longest {max(pauses) / min(pauses):.2f}x the shortest (goal: flat)")
    machine.finish(
        chosen.json,
        {
            "sizes_mb": found,
            "checkpoint_ratio": max(times) / min(times),
            "pause_ratio": max(pauses) / min(pauses),
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
