"""Keyed state: one keyed count in ten ways, side by side in one run on two cores, results checked equal.

    python -m bench.keyed_state [--rows 200000 --keys 200000] [--skewed] [--value-bytes 200] [--only NAME,…] [--json FILE]

`floor` shuffles and goes through Python without any state, `jvm` is Spark's `groupBy().count()`, `plain`, `ttl`, `timers`
and `vectorized` are ours, `processor` is `ss.compat.transform_with_state` with the processor that `spark-rows` runs,
`spark-rows` is `transformWithState`, `spark-pandas` `transformWithStateInPandas`, `spark-groups`
`applyInPandasWithState`. Rows from as many keys as rows touch 63% of them in a batch: 200,000 of 200,000 are 126,000
keys; 1,000,000 of 2,000,000 are 787,000.
Every contender has a process of its own, so that none pays for the memory of another, and the same files. They take turns,
batch by batch, and are stopped in between: what a shared machine gains or loses in these minutes, it does for all. The first
batches warm up and are not counted. The only action on what comes out of a batch is the aggregation that checks it, the same
for all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from statefulspark.engine import gateway, settings
from statefulspark.operators.keyed import packedlog, registry
from statefulspark.storage import StorageOptions

from bench import contenders, machine, turns, workload

_STATE = "spark.sql.streaming.stateStore"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Each file of a batch is a partition of its own.
    "spark.sql.files.openCostInBytes": str(1 << 30),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    **settings.worker_settings(),
    # As the runtime has it. Without it Hadoop starts some eighty processes a batch (readlink, chmod) to write local files.
    "spark.sql.streaming.checkpointFileManagerClass": settings.FILE_MANAGER,
    "spark.driver.extraClassPath": gateway.own_class_path(),
    f"{_STATE}.providerClass": _PROVIDER,
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.checkpointFormatVersion": "2",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    f"{_STATE}.maintenanceInterval": "20s",
    # Who waits for its turn is not lost.
    "spark.network.timeout": "6h",
    "spark.sql.streaming.noDataProgressEventInterval": "6h",
}
_LOCAL = StorageOptions(allow_local_files=True)
_OURS = "plain"


def session(more: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Return a session on two cores, with keyed state in RocksDB as the runtime sets it up, and with more settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(machine.ROOT), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in {**_SETTINGS, **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextlib.contextmanager
def as_in_a_job(spark: SparkSession, checkpoint: str, options: StorageOptions = _LOCAL) -> Iterator[None]:
    """Declare operators as a job does, whose large changes go into packs; the query is started afterwards, by this thread.

    Args:
        spark: The session.
        checkpoint: Hadoop URI of the query's checkpoint root.
        options: How workers reach it.
    """
    with registry.collecting(registry.OperatorRegistry(), query_uid="bench", options=options):
        yield
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or "200")
    packedlog.tell_tasks(spark, checkpoint, epoch=1, partitions=partitions)


class _Source:
    """A stream that gets one batch after the other.

    Args:
        work: Folder of the contender.
        files: The files of all batches, which stay there.
    """

    def __init__(self, work: Path, files: Path) -> None:
        self._work, self._files, self._folder = work, files, work / "source"
        self._folder.mkdir()

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the stream."""
        reader = spark.readStream.schema("key bigint").option("recursiveFileLookup", "true")
        return reader.parquet(str(self._folder))

    def add(self, batch: int) -> None:
        """Add the rows of a batch, all at once."""
        name = f"{batch:05}"
        coming = self._work / name
        coming.mkdir()
        for file in self._files.glob(f"{name}-*.parquet"):
            (coming / file.name).hardlink_to(file)
        coming.rename(self._folder / name)


def _counter(chosen: argparse.Namespace) -> contenders.Counter:
    return contenders.Counter(chosen.value_bytes, compressible=chosen.compressible)


def _measure_one(contender: contenders.Contender, chosen: argparse.Namespace) -> machine.Json:
    """Run a contender, a batch each turn; return seconds and stages of each, and the checks of what came out."""
    spark, checks = session(), []

    def check(batch: DataFrame, _: int) -> None:
        # The only action on the batch: what it costs beyond the operator is one aggregation of its output.
        folded = sql.pow((sql.col("key") * 31 + sql.col("count")) % 1_000_003, 2).cast("bigint")
        found = batch.select(sql.count("*"), sql.sum("count"), sql.sum(folded)).first()
        if found is not None and found[0]:  # a batch without rows fires timers
            checks.append(workload.Check(*found))

    source = _Source(chosen.work, chosen.input)
    checkpoint = f"file://{chosen.work}/checkpoint"
    with as_in_a_job(spark, checkpoint):
        query = contender.build(source.stream(spark), _counter(chosen))
    stream = query.writeStream.outputMode("append" if not contender.counts else "update").foreachBatch(check)
    running = stream.option("checkpointLocation", checkpoint).start()
    for batch, _ in enumerate(turns.mine()):
        # A look for rows that was stopped in the middle ends, and is not measured.
        running.processAllAvailable()
        source.add(batch)
        running.processAllAvailable()
    progress = [json.loads(one.json) for one in running.recentProgress if one.numInputRows]
    running.stop()
    spark.stop()
    return {
        "batches_s": [one["batchDuration"] / 1000 for one in progress],
        "stages_ms": [one["durationMs"] for one in progress],
        "state": [one["stateOperators"][0]["customMetrics"] if one["stateOperators"] else {} for one in progress],
        "checks": [asdict(one) for one in checks],
    }


def _take_turns(names: list[str], chosen: argparse.Namespace, folder: Path) -> dict[str, machine.Json]:
    """Run contenders side by side, each in a process of its own, and return what each has measured."""
    with contextlib.ExitStack() as stack:
        players = {name: stack.enter_context(_player(name, chosen, folder)) for name in names}
        for batch in range(chosen.batches):
            for name, player in players.items():
                if batch < chosen.slow_batches or not contenders.CONTENDERS[name].is_slow:
                    player.turn()
            print(f"batch {batch + 1} of {chosen.batches} done", file=sys.stderr, flush=True)
        for player in players.values():
            player.end()
        return {name: json.loads((folder / name / "figures.json").read_text()) for name in names}


@contextlib.contextmanager
def _player(name: str, chosen: argparse.Namespace, folder: Path) -> Iterator[turns.Player]:
    work = folder / name
    work.mkdir()
    command = [sys.executable, "-m", "bench.keyed_state", "--one", name, "--work", str(work)]
    command += ["--input", str(folder / "input"), "--json", str(work / "figures.json")]
    command += ["--value-bytes", str(chosen.value_bytes), *(["--compressible"] if chosen.compressible else [])]
    with turns.player(name, command, work / "log") as player:
        yield player


def _is_equal(name: str, found: list[dict[str, int]], expected: list[workload.Check]) -> bool:
    if not contenders.CONTENDERS[name].counts:
        return len(found) > 0
    return [workload.Check(**one) for one in found] == expected[: len(found)] and len(found) > 0


def _compare(chosen: argparse.Namespace) -> int:
    work = workload.Workload(chosen.rows, chosen.keys, chosen.batches, chosen.value_bytes, chosen.skewed)
    names = chosen.only.split(",") if chosen.only else list(contenders.CONTENDERS)
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
        work.write(Path(folder) / "input")
        expected = list(work.checks())
        figures = _take_turns(names, chosen, Path(folder))
    unequal = [name for name in names if not _is_equal(name, figures[name]["checks"], expected)]  # type: ignore[arg-type]
    medians_s = {name: _median_s(figures[name]["batches_s"]) for name in names}  # type: ignore[arg-type]
    _print(chosen, work, expected, medians_s)
    machine.finish(
        chosen.json,
        {"workload": asdict(work), "unequal": unequal, "median_s": medians_s, "contenders": figures},
    )
    if unequal:
        print(f"The results of {', '.join(unequal)} differ from what they should be.", file=sys.stderr)
    return 1 if unequal else 0


def _median_s(batches_s: list[float]) -> float:
    """Return the median of the warm batches: those after the first third, two at most."""
    return round(statistics.median(batches_s[min(2, len(batches_s) // 3) or 1 :] or batches_s), 3)


def _print(
    chosen: argparse.Namespace, work: workload.Workload, expected: list[workload.Check], medians_s: dict[str, float]
) -> None:
    kind = "skewed" if work.skewed else "uniform"
    print(f"{machine.described()}; local[2]")
    print(
        f"{work.rows:,} rows a batch, {expected[-1].pairs:,} of {work.keys:,} keys ({kind}), "
        f"{work.value_bytes or 'few'} bytes a value, median of warm batches of {work.batches}"
    )

    def ratio(median_s: float, base: str) -> str:
        return f"{median_s / medians_s[base]:.2f}" if base in medians_s else "-"

    machine.table(
        ["", "s/batch", "rows/s", "/ floor", "/ jvm", "/ plain"],
        [
            [
                name,
                f"{median_s:.2f}",
                f"{work.rows / median_s:,.0f}",
                ratio(median_s, "floor"),
                ratio(median_s, "jvm"),
                ratio(median_s, _OURS),
            ]
            for name, median_s in medians_s.items()
        ],
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and fail when a result is wrong."""
    parser = machine.parser("keyed_state", __doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows per batch")
    parser.add_argument("--keys", type=int, default=200_000, help="number of keys the rows are drawn from")
    parser.add_argument("--batches", type=int, default=8, help="batches per contender; the first two warm up")
    parser.add_argument("--slow-batches", type=int, default=3, help="the same for Spark's own Python operators")
    parser.add_argument("--value-bytes", type=int, default=0, help="size of a key's state; 0 for a number")
    workload.add_compressible(parser)
    parser.add_argument("--skewed", action="store_true", help="half of the rows go to a thousandth of the keys")
    parser.add_argument("--only", metavar="NAME,…", help=f"some of {', '.join(contenders.CONTENDERS)}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if not chosen.one:
        return _compare(chosen)
    figures = _measure_one(contenders.CONTENDERS[chosen.one], chosen)
    chosen.json.write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
