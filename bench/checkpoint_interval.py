"""Throughput with a checkpoint every second against none: the same counting job, in turns.

Rows per second are taken from Spark's own progress over the time after the warm-up.
"""

from __future__ import annotations

import statistics
import sys

from bench import machine

UID = "counts"
WARM_BATCHES = 8


def rows_per_second(interval: str, seconds: float, rows: int, keys: int) -> tuple[float, int]:
    """Run the job for a while; return its rows per second and how many checkpoints it completed meanwhile."""
    with machine.workplace() as (server, folder):
        driver = machine.Driver(
            "counting.py",
            f"s3://{server.new_bucket()}/state",
            server,
            folder / "driver.log",
            parameters={"rows": rows, "keys": keys},
            flags=["--checkpoint-interval", interval],
        )
        driver.start()
        try:
            rate = driver.batches_per_second(UID, after=WARM_BATCHES, seconds=seconds)
            counts = (driver.get("/v1/status") or {}).get("checkpoints")
            completed = counts["completed"] if isinstance(counts, dict) else 0
            return rate * rows, completed
        finally:
            driver.end()


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns and compare."""
    parser = machine.parser("checkpoint_interval", __doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="length of each run after its warm-up")
    parser.add_argument("--turns", type=int, default=3, help="runs of each kind")
    parser.add_argument("--rows", type=int, default=100_000, help="rows per batch")
    parser.add_argument("--keys", type=int, default=50_000, help="number of keys")
    chosen = parser.parse_args(arguments)
    found: dict[str, list[float]] = {"1h": [], "1s": []}
    completed = 0
    for _ in range(chosen.turns):
        for interval, speeds in found.items():
            speed, completed = rows_per_second(interval, chosen.seconds, chosen.rows, chosen.keys)
            speeds.append(speed)
    none, every_second = (statistics.median(found[interval]) for interval in ("1h", "1s"))
    machine.table(
        ("checkpoints", "rows/s", "of none"),
        [("none", f"{none:,.0f}", "1.00"), ("every second", f"{every_second:,.0f}", f"{every_second / none:.2f}")],
    )
    print(f"{completed} checkpoints in the last run (goal: within 5 %)")
    machine.finish(chosen.json, {"rows_per_s": found, "ratio": every_second / none, "checkpoints": completed})
    return 0


if __name__ == "__main__":
    sys.exit(main())
