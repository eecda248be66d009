"""What keyed state costs in seconds of a core, by who spends them: warm batches of two sizes, and the first after a restart.

    python -m bench.keyed_cost [--keys 4000000 --small 200000 --large 1000000 --batches 4] [--s3] [--conf NAME=VALUE]

A count per key beside bytes that do not compress. The job sees every key once, then batches of random keys of both sizes;
when Spark's maintenance has uploaded the newest snapshots, it is ended, and started again in another process. Seconds say
little on a busy machine, so seconds of a core are counted: of the driver (and of looking), the JVM and the workers, and
inside the JVM by the names of its threads. With `--s3` the state is on an S3 server, whose time is left out. A setting is
measured by two runs, one with `--conf`, for example `--conf spark.statefulspark.keyedState.packs=false`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import s3server
import statefulspark as ss
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from statefulspark.contract import config
from statefulspark.engine import gateway, settings
from statefulspark.storage import StorageOptions

from bench import contenders, keyed_state, machine, processor_time, workload

FILL_BATCHES = 10
AFTER_RESTART = 2
SETTLES_S = 25.0
"""A little more than the interval of Spark's maintenance."""
_SEED = 7
_THREADS_SHOWN = 12


def _batches(chosen: argparse.Namespace) -> dict[str, workload.Keys]:
    """Return the keys of all batches by name, in order; a name is that of its phase and a number."""
    random = np.random.default_rng(_SEED)
    made = {
        f"fill-{first}": np.arange(first, chosen.keys, FILL_BATCHES, dtype=np.int64) for first in range(FILL_BATCHES)
    }
    for phase, rows, count in (
        ("small", chosen.small, chosen.batches),
        ("large", chosen.large, chosen.batches),
        ("again", chosen.small, AFTER_RESTART),
    ):
        made |= {f"{phase}-{number}": random.integers(0, chosen.keys, rows) for number in range(count)}
    return made


def _write(folder: Path, batches: Mapping[str, workload.Keys]) -> None:
    """Write each batch into a folder of its own."""
    for name, keys in batches.items():
        (folder / name).mkdir(parents=True)
        for part, share in enumerate(np.array_split(keys, workload.FILES_PER_BATCH)):
            parquet.write_table(pa.table({"key": share}), folder / name / f"{part}.parquet")


def _run(chosen: argparse.Namespace) -> list[machine.Json]:
    """Run some batches, one after the other; return what each has used and what it has counted."""
    watch, spent = processor_time.Watch(os.getpid(), by_thread=True), Counter[str]()
    # A driver starts its JVM with these; without them the compiler takes most of a start.
    conf = {"spark.driver.extraJavaOptions": " ".join(gateway.START_OPTIONS)}
    conf |= dict(pair.split("=", 1) for pair in chosen.conf)
    if chosen.s3:
        conf |= {name: value for name, value in _job_conf().items() if ".s3a." in name}
    spark, counted = keyed_state.session(conf), list[int]()
    source: Path = chosen.work / "source"
    source.mkdir(exist_ok=True)
    rows = spark.readStream.schema("key bigint").option("recursiveFileLookup", "true").parquet(str(source))
    options = StorageOptions.from_env() if chosen.s3 else StorageOptions(allow_local_files=True)
    with keyed_state.as_in_a_job(spark, chosen.checkpoint, options):
        query = ss.keyed_process(
            rows,
            key="key",
            function=contenders.Count(contenders.Counter(chosen.value_bytes)),
            uid="count",
            schema=contenders.SCHEMA,
            cache_bytes=1 << 40,
        )

    def count(batch: DataFrame, _: int) -> None:
        counted.append((batch.select(sql.sum("count")).first() or (0,))[0])

    stream = query.writeStream.outputMode("update").foreachBatch(count)
    running = stream.option("checkpointLocation", chosen.checkpoint).start()
    laps: list[machine.Json] = []
    for name in chosen.one.split(","):
        began_s = time.monotonic()
        (chosen.work / "input" / name).rename(source / name)
        running.processAllAvailable()
        now = Counter(watch.used_by_name())
        used = {who: round(used_s, 2) for who, used_s in (now - spent).items()}
        laps.append({"batch": name, "took_s": time.monotonic() - began_s, "used_s": used, "counted": counted[-1]})
        spent = now
    time.sleep(SETTLES_S)
    running.stop()
    spark.stop()
    return laps


def _job_conf() -> dict[str, str]:
    """Return the settings of a job whose storage is S3, with endpoint and credentials from the environment."""
    job = config.JobConfig(name="bench", storage=config.StorageConfig(uri="s3://bench/bench"))
    return settings.spark_conf(job, StorageOptions.from_env())


def _in_process(chosen: argparse.Namespace, folder: Path, names: Sequence[str], checkpoint: str) -> list[machine.Json]:
    figures = folder / "figures.json"
    command = [sys.executable, "-m", "bench.keyed_cost", "--one", ",".join(names), "--work", str(folder)]
    command += ["--checkpoint", checkpoint, "--json", str(figures), "--value-bytes", str(chosen.value_bytes)]
    command += [*(["--s3"] if chosen.s3 else []), *(f"--conf={pair}" for pair in chosen.conf)]
    with (folder / "log").open("ab") as log:
        subprocess.run(command, check=True, cwd=machine.ROOT, stdout=log, stderr=log)
    laps: list[machine.Json] = json.loads(figures.read_text())
    return laps


@contextlib.contextmanager
def _storage(chosen: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield where the state is kept; an S3 server is reached by the environment."""
    if not chosen.s3:
        yield f"file://{folder}/checkpoint"
        return
    with s3server.running(folder / "s3") as server:
        os.environ["AWS_ACCESS_KEY_ID"] = s3server.ACCESS_KEY
        os.environ["AWS_SECRET_ACCESS_KEY"] = s3server.SECRET_KEY
        os.environ["AWS_ENDPOINT_URL"] = server.endpoint
        yield f"s3a://{server.new_bucket()}/checkpoint"


def _measure(chosen: argparse.Namespace) -> int:
    batches = _batches(chosen)
    names = list(batches)
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as temporary:
        folder = Path(temporary)
        _write(folder / "input", batches)
        with _storage(chosen, folder) as checkpoint:
            laps = _in_process(chosen, folder, names[:-AFTER_RESTART], checkpoint)
            laps += _in_process(chosen, folder, names[-AFTER_RESTART:], checkpoint)
    where = "S3" if chosen.s3 else "a local file system"
    print(f"{machine.described()}; local[2]; {chosen.keys:,} keys with {chosen.value_bytes} bytes on {where}")
    _print(laps)
    machine.finish(chosen.json, {"chosen": vars(chosen), "batches": laps})
    wrong = _wrong(batches, laps)
    if wrong:
        print(f"The counts of {', '.join(wrong)} differ from what they should be.", file=sys.stderr)
    return 1 if wrong else 0


def _wrong(batches: Mapping[str, workload.Keys], laps: Sequence[machine.Json]) -> list[str]:
    """Return the batches whose counts are not those of all rows so far with the keys of the batch."""
    wrong: list[str] = []
    counts = np.zeros(1 + max(int(keys.max()) for keys in batches.values()), np.int64)
    for (name, keys), lap in zip(batches.items(), laps, strict=True):
        np.add.at(counts, keys, 1)
        if int(counts[np.unique(keys)].sum()) != lap["counted"]:
            wrong.append(name)
    return wrong


def _print(laps: Sequence[machine.Json]) -> None:
    """Print a column for each phase: seconds of a core for one batch, by who spent them."""
    phases: dict[str, list[machine.Json]] = {}
    for lap in laps:
        phase, _, number = str(lap["batch"]).partition("-")
        phases.setdefault("restart" if (phase, number) == ("again", "0") else phase, []).append(lap)
    mean = {phase: _mean_s(those) for phase, those in phases.items()}
    everyone = Counter[str]()
    for used in mean.values():
        everyone.update(used)
    roles = [role.value for role in processor_time.Role]
    threads = [name for name, _ in everyone.most_common() if name not in roles][:_THREADS_SHOWN]
    machine.table(
        ["seconds of a core a batch", *phases],
        [
            ["(seconds on the clock)", *(f"{_took_s(those):.1f}" for those in phases.values())],
            ["all", *(f"{sum(used[role] for role in roles):.1f}" for used in mean.values())],
            *([name, *(f"{used[name]:.1f}" for used in mean.values())] for name in (*roles, *threads)),
        ],
    )


def _took_s(laps: Sequence[machine.Json]) -> float:
    return statistics.mean(cast("float", lap["took_s"]) for lap in laps)


def _mean_s(laps: Sequence[machine.Json]) -> Counter[str]:
    total = Counter[str]()
    for lap in laps:
        total.update(cast("dict[str, float]", lap["used_s"]))
    return Counter({who: used_s / len(laps) for who, used_s in total.items()})


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and fail when a result is wrong."""
    parser = machine.parser("keyed_cost", __doc__)
    parser.add_argument("--keys", type=int, default=4_000_000, help="number of keys that have state")
    parser.add_argument("--small", type=int, default=200_000, help="rows of the smaller batches")
    parser.add_argument("--large", type=int, default=1_000_000, help="rows of the larger batches")
    parser.add_argument("--batches", type=int, default=4, help="batches of each size")
    parser.add_argument("--value-bytes", type=int, default=200, help="size of a key's state")
    parser.add_argument("--s3", action="store_true", help="keep the state on an S3 server")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if not chosen.one:
        return _measure(chosen)
    chosen.json.write_text(json.dumps(_run(chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
