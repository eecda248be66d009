"""Throughput against executors: one keyed job with as many partitions as executors, each with one core.

Executors are processes of a standalone Spark on this machine, on addresses of their own, with state and checkpoints on a
real S3 server. They share the machine's cores with one another, the driver and that server: where there are not more cores
than executors, more of them cannot be faster. Rows per second are those of committed batches after the warm-up, in turns.

    PYTHONPATH=tests/support python -m bench.executors --picture executors.png
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import s3server
import standalone

from bench import executors_picture, machine

UID = "counts"
WARM_BATCHES = 6
_MEMORY, _HEAP = "1500m", "1g"
_JAVA = "-XX:+UseSerialGC"


def rows_per_second(executors: int, seconds: float, rows: int, keys: int) -> float:
    """Run the job on so many executors for a while, and return its rows per second."""
    hosts = tuple(f"127.0.0.{number + 2}" for number in range(executors))
    with (
        machine.workplace() as (server, folder),
        standalone.cluster(_made(folder / "nodes"), hosts=hosts, memory=_MEMORY) as cluster,
    ):
        driver = machine.Driver(
            "spreading.py",
            f"s3://{server.new_bucket()}/state",
            server,
            folder / "driver.log",
            parameters={"rows": rows, "keys": keys, "partitions": executors},
            flags=["--checkpoint-interval", "5s", "--master", cluster.url, *_settings(executors)],
            env={"SPARK_LOCAL_IP": "127.0.0.1"},
        )
        driver.start()
        try:
            return driver.batches_per_second(UID, after=WARM_BATCHES, seconds=seconds) * rows
        finally:
            driver.end()


def _settings(executors: int) -> list[str]:
    chosen = {
        "sql.shuffle.partitions": str(executors),
        "cores.max": str(executors),
        "executor.cores": "1",
        "executor.memory": _HEAP,
        "executor.extraJavaOptions": _JAVA,
        "executorEnv.AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY,
        "executorEnv.AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY,
    }
    return [word for name, value in chosen.items() for word in ("--conf", f"spark.{name}={value}")]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns and compare."""
    parser = machine.parser("executors", __doc__)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4], help="numbers of executors")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each run after its warm-up")
    parser.add_argument("--turns", type=int, default=3, help="runs of each number")
    parser.add_argument("--rows", type=int, default=200_000, help="rows per batch")
    parser.add_argument("--keys", type=int, default=200_000, help="number of keys")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the figures there, as PNG")
    chosen = parser.parse_args(arguments)
    found: dict[int, list[float]] = {number: [] for number in chosen.executors}
    for turn in range(chosen.turns):
        for number, speeds in found.items():
            speeds.append(rows_per_second(number, chosen.seconds, chosen.rows, chosen.keys))
            print(f"turn {turn + 1}, {number} executors: {speeds[-1]:,.0f} rows/s", file=sys.stderr, flush=True)
    medians = {number: statistics.median(speeds) for number, speeds in found.items()}
    fewest = min(medians)
    print(machine.described())
    machine.table(
        ("executors", "rows/s", f"of {fewest}", "least", "most"),
        [
            (
                number,
                f"{median:,.0f}",
                f"{median / medians[fewest]:.2f}",
                *(f"{end(found[number]):,.0f}" for end in (min, max)),
            )
            for number, median in medians.items()
        ],
    )
    machine.finish(chosen.json, {"rows_per_s": found, "rows": chosen.rows, "keys": chosen.keys})
    if chosen.picture is not None:
        executors_picture.draw(found, chosen.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
