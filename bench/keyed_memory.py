"""Keyed state beyond the memory of a worker: the same keyed count with all of it in memory, and with little memory.

    python -m bench.keyed_memory [--keys 10000000 --rows 200000 --value-bytes 200 --memory-mb 512 --timers] [--json FILE]

Each contender first sees every key once, then batches of random keys, which are counted; then it is ended and started
again as a driver starts, with archived classes and Python workers that are warm while the query is planned, and the first
batch after that builds what it needs from Spark's state store. `memory` has no limit, `disk` may
keep tables of half of `--memory-mb`, and `chunks` the same without a disk: it builds key groups from Spark's state store
in every batch (`--with-chunks`). With `--timers` each key has a timer besides, which is never due. Peaks are the anonymous
memory of the largest Python worker, before and after the restart; pages of the files on disk are the system's cache, which
takes them back when memory is short. Written is what went into Spark's state store, against what the batches changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import statefulspark as ss
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark.engine import warming

from bench import contenders, keyed_state, machine, workload

FILL_BATCHES = 10
AFTER_RESTART = 3
NAMES = ("memory", "disk", "chunks")
_KEY_BYTES = 9


class Memory(workload.Workload):
    """All keys once, and then the rows of the workload."""

    def keys_of(self, batch: int) -> workload.Keys:
        """Return the key of each row of a batch: the first ones go through all keys."""
        if batch < FILL_BATCHES:
            return np.arange(batch, self.keys, FILL_BATCHES, dtype=np.int64)
        return super().keys_of(batch)


def _query(rows: DataFrame, name: str, chosen: argparse.Namespace) -> DataFrame:
    cache_bytes = 1 << 40 if name == "memory" else chosen.memory_mb << 19
    disk_bytes = 0 if name == "chunks" else None
    count = contenders.TimedCount if chosen.timers else contenders.Count
    return ss.keyed_process(
        rows,
        key="key",
        function=count(contenders.Counter(chosen.value_bytes)),
        timers="event-time" if chosen.timers else None,
        uid="count",
        schema="key bigint, count bigint",
        cache_bytes=cache_bytes,
        disk_bytes=disk_bytes,
    )


def _input(spark: SparkSession, folder: Path, batches: int) -> DataFrame:
    """Return a stream that reads the first batches, one after the other."""
    source = spark.readStream.schema("key bigint").option("maxFilesPerTrigger", workload.FILES_PER_BATCH)
    names = ",".join(f"{batch:05}" for batch in range(batches))
    return source.parquet(f"{folder}/{{{names}}}-*.parquet")


def _peak_bytes(ended: threading.Event, found: list[int]) -> None:
    """Look at the Python workers below this process four times a second; keep the largest anonymous memory of one."""
    while not ended.wait(0.25):
        for pid in _descendants():
            lines = _status(pid)
            if "python" in lines.get("Name", ""):
                found.append(int(lines.get("RssAnon", "0 kB").split()[0]) << 10)
        found[:] = [max(found, default=0)]


def _status(pid: str) -> dict[str, str]:
    try:
        text = (Path("/proc") / pid / "status").read_text()
    except OSError:  # it has ended
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _descendants() -> Iterator[str]:
    waiting = _children("self")
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(_children(pid))


def _children(pid: str) -> list[str]:
    try:
        return [
            child
            for task in (Path("/proc") / pid / "task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:  # it has ended
        return []


def _java_options(archive: Path) -> dict[str, str]:
    """Use the classes that an earlier process of the contender has archived, or archive them: an image brings as much."""
    use = "SharedArchiveFile" if archive.exists() else "ArchiveClassesAtExit"
    return {"spark.driver.extraJavaOptions": f"-XX:{use}={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"}


def _stop(spark: SparkSession) -> None:
    """End Spark and its JVM, which archives classes as its last act."""
    gateway = cast("Any", spark.sparkContext._gateway)
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=300)


def _run(name: str, chosen: argparse.Namespace) -> machine.Json:
    """Run a contender over the batches up to one; return seconds, state metrics and checks of each, and the peak."""
    ended, peak, checks = threading.Event(), list[int](), list[machine.Json]()
    sampler = threading.Thread(target=_peak_bytes, args=(ended, peak))
    sampler.start()

    def check(batch: DataFrame, _: int) -> None:
        folded = sql.pow((sql.col("key") * 31 + sql.col("count")) % 1_000_003, 2).cast("bigint")
        found = batch.select(sql.count("*"), sql.sum("count"), sql.sum(folded)).first()
        if found is not None:
            checks.append(asdict(workload.Check(*found)))

    spark = keyed_state.session(_java_options(chosen.checkpoint.with_suffix(".jsa")))
    warming.start_workers(spark)
    checkpoint = f"file://{chosen.checkpoint}"
    with keyed_state.as_in_a_job(spark, checkpoint):
        query = _query(_input(spark, chosen.input, chosen.batches), name, chosen)
    stream = query.writeStream.outputMode("update").foreachBatch(check)
    running = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    running.awaitTermination()
    progress = [json.loads(one.json) for one in running.recentProgress if one.numInputRows]
    _stop(spark)
    ended.set()
    sampler.join()
    return {
        "batches_s": [one["batchDuration"] / 1000 for one in progress],
        "state": [one["stateOperators"][0]["customMetrics"] for one in progress],
        "checks": checks,
        "peak_bytes": max(peak, default=0),
    }


def _in_process(name: str, chosen: argparse.Namespace, folder: Path, batches: int) -> machine.Json:
    figures = folder / "figures.json"
    command = [sys.executable, "-m", "bench.keyed_memory", "--one", name, "--input", str(folder / "input")]
    command += ["--checkpoint", str(folder / name), "--batches", str(batches), "--json", str(figures)]
    command += ["--value-bytes", str(chosen.value_bytes), "--memory-mb", str(chosen.memory_mb)]
    command += ["--timers"] if chosen.timers else []
    subprocess.run(command, check=True, cwd=machine.ROOT)
    found: machine.Json = json.loads(figures.read_text())
    return found


def _measured(name: str, chosen: argparse.Namespace, folder: Path, work: Memory) -> machine.Json:
    """Run a contender, end it, and start it again for the last batches."""
    first = _in_process(name, chosen, folder, work.batches - AFTER_RESTART)
    again = _in_process(name, chosen, folder, work.batches)
    batches_s, restart_s = cast("list[float]", first["batches_s"]), cast("list[float]", again["batches_s"])
    states = cast("list[dict[str, int]]", first["state"])
    checks = [workload.Check(**one) for run in (first, again) for one in cast("list[dict[str, int]]", run["checks"])]
    changed_bytes = sum(one.pairs for one in checks[: len(states)]) * (chosen.value_bytes + _KEY_BYTES)
    warm_s = statistics.median(batches_s[FILL_BATCHES + 1 :])
    return {
        "is_right": checks == list(work.checks()),
        "fill_s": sum(batches_s[:FILL_BATCHES]),
        "warm_s": warm_s,
        "first_after_restart_s": restart_s[0],
        "rebuilt_keys_per_s": work.keys / max(0.001, restart_s[0] - warm_s),
        "write_amplification": sum(one["rocksdbTotalBytesWritten"] for one in states) / changed_bytes,
        "peak_bytes": first["peak_bytes"],
        "peak_after_restart_bytes": again["peak_bytes"],
        "batches_s": batches_s,
        "after_restart_s": restart_s,
    }


def _compare(chosen: argparse.Namespace) -> int:
    work = Memory(chosen.rows, chosen.keys, FILL_BATCHES + chosen.batches + AFTER_RESTART, chosen.value_bytes)
    names = NAMES if chosen.with_chunks else NAMES[:2]
    found: dict[str, machine.Json] = {}
    for name in names:
        # One after the other, since each needs disk for all of its state.
        with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
            work.write(Path(folder) / "input")
            found[name] = _measured(name, chosen, Path(folder), work)
    print(f"{machine.described()}; local[2]")
    print(
        f"{work.keys:,} keys with {work.value_bytes} bytes{' and a timer' * chosen.timers}, {work.rows:,} rows a batch, "
        f"tables limited to {chosen.memory_mb // 2} MiB a worker but for 'memory'"
    )
    machine.table(
        ["", "s/batch", "/ memory", "first after restart", "keys/s", "peak", "peak after restart", "written / changed"],
        [[name, *_row(one, found["memory"])] for name, one in found.items()],
    )
    machine.finish(chosen.json, {"workload": asdict(work), "memory_mb": chosen.memory_mb, "contenders": found})
    wrong = [name for name, one in found.items() if not one["is_right"]]
    if wrong:
        print(f"The results of {', '.join(wrong)} differ from what they should be.", file=sys.stderr)
    return 1 if wrong else 0


def _row(one: machine.Json, base: machine.Json) -> list[str]:
    numbers: dict[str, float] = {name: value for name, value in one.items() if isinstance(value, int | float)}
    return [
        f"{numbers['warm_s']:.2f}",
        f"{numbers['warm_s'] / float(str(base['warm_s'])):.2f}",
        f"{numbers['first_after_restart_s']:.1f} s",
        f"{numbers['rebuilt_keys_per_s']:,.0f}",
        f"{numbers['peak_bytes'] / 2**20:,.0f} MiB",
        f"{numbers['peak_after_restart_bytes'] / 2**20:,.0f} MiB",
        f"{numbers['write_amplification']:.1f}",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and fail when a result is wrong."""
    parser = machine.parser("keyed_memory", __doc__)
    parser.add_argument("--keys", type=int, default=10_000_000, help="number of keys that have state")
    parser.add_argument("--rows", type=int, default=200_000, help="rows per batch")
    parser.add_argument("--batches", type=int, default=8, help="batches of random keys; the first one warms up")
    parser.add_argument("--value-bytes", type=int, default=200, help="size of a key's state")
    parser.add_argument("--memory-mb", type=int, default=512, help="memory of a Python worker")
    parser.add_argument("--timers", action="store_true", help="set a timer for each key")
    parser.add_argument("--with-chunks", action="store_true", help="measure without a disk, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if not chosen.one:
        return _compare(chosen)
    chosen.json.write_text(json.dumps(_run(chosen.one, chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
