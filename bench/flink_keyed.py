"""The keyed count in Flink beside ours: updates a second, one after the other on two cores, results checked equal.

   python -m bench.flink_keyed [--keys 5000000 --value-bytes 200 --rows 1000000 --batches 12 --warm 8] [--json FILE]

All count the same rows (`bench/workload.py`), keep the same bytes for a key, and run as two tasks. `flink-rocksdb` and
`flink-heap` are Java, `pyflink` is Python with RocksDB, in the JVM's process, and `pyflink-process` the same in processes of
its own; their settings are in `bench/flink/process.py`. They take no checkpoints, but for `flink-rocksdb-durable`: an
incremental one every ten seconds, while ours makes every batch durable. `plain` and `vectorized` are ours, run by
`bench.keyed_state`. Rows before the warm ones are not counted. PyFlink runs only where `--only` names it, and wants fewer
rows: `--rows 200000 --batches 8 --warm 4 --only flink-rocksdb,plain,pyflink`.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np

from bench import machine, workload
from bench.flink import process

_OURS = ("plain", "vectorized")
_DURABLE_INTERVAL = "10s"


def _in_java(settings: process.Settings, heap: str) -> Callable[[argparse.Namespace, Path], machine.Json]:
    def count(chosen: argparse.Namespace, folder: Path) -> machine.Json:
        with process.running(settings, folder, heap=heap) as flink:
            payload = "compressible" if chosen.compressible else "random"
            return flink.ask("count", chosen.keys, *_rows(chosen, chosen.batches), chosen.value_bytes, payload)

    return count


def _in_python(settings: process.Settings) -> Callable[[argparse.Namespace, Path], machine.Json]:
    def count(chosen: argparse.Namespace, folder: Path) -> machine.Json:
        warm_rows, rows = _rows(chosen, chosen.batches)
        return process.pyflink_count(
            keys=chosen.keys,
            warm_rows=warm_rows,
            rows=rows,
            value_bytes=chosen.value_bytes,
            compressible=chosen.compressible,
            settings=settings,
            folder=folder,
        )

    return count


def _rows(chosen: argparse.Namespace, batches: int) -> tuple[int, int]:
    return chosen.rows * chosen.warm, chosen.rows * (batches - chosen.warm)


_DURABLE = {**process.ROCKSDB, "execution.checkpointing.interval": _DURABLE_INTERVAL}
FLINK: dict[str, Callable[[argparse.Namespace, Path], machine.Json]] = {
    "flink-rocksdb": _in_java(process.ROCKSDB, "2g"),
    "flink-rocksdb-durable": _in_java(_DURABLE, "2g"),
    "flink-heap": _in_java(process.HEAP, "6g"),
    "pyflink": _in_python(process.PYFLINK),
    "pyflink-process": _in_python(process.PYFLINK_PROCESS),
}
_DEFAULT = ("flink-heap", "flink-rocksdb", "flink-rocksdb-durable", *_OURS)


def _expected(chosen: argparse.Namespace) -> workload.Check:
    """Return what all keys and their counts must come to at the end."""
    work = workload.Workload(chosen.rows, chosen.keys, chosen.batches, chosen.value_bytes)
    counts = np.zeros(chosen.keys, np.int64)
    for batch in range(chosen.batches):
        counts += np.bincount(work.keys_of(batch), minlength=chosen.keys)
    touched = np.flatnonzero(counts)
    return workload.check_of(touched, counts[touched])


def _measure_flink(name: str, chosen: argparse.Namespace, expected: workload.Check) -> machine.Json:
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
        found = FLINK[name](chosen, Path(folder))
    seen = workload.Check(*(cast(int, found[part]) for part in ("keys", "rows", "checksum")))
    if seen != expected:
        raise SystemExit(f"{name} counted {seen} instead of {expected}.")
    warm_rows, rows = _rows(chosen, chosen.batches)
    warm_s, updates_s = cast(float, found["warm_s"]), cast(float, found["updates_s"])
    return {**found, "rows_per_s": rows / updates_s, "warm_rows_per_s": warm_rows / warm_s}


def _measure_ours(name: str, chosen: argparse.Namespace) -> machine.Json:
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "bench.keyed_state", "--only", name, "--json", str(file)]
        for flag in ("rows", "keys", "batches", "value_bytes"):
            command += [f"--{flag.replace('_', '-')}", str(getattr(chosen, flag))]
        command += ["--compressible"] if chosen.compressible else []
        # It checks every batch, and fails if a result is not what the workload says.
        subprocess.run(command, check=True, cwd=machine.ROOT, stdout=subprocess.DEVNULL)
        batches_s: list[float] = json.loads(file.read_text())["contenders"][name]["batches_s"]
    warm_rows, rows = _rows(chosen, chosen.batches)
    return {
        "batches_s": batches_s,
        "rows_per_s": rows / sum(batches_s[chosen.warm :]),
        "warm_rows_per_s": warm_rows / sum(batches_s[: chosen.warm]),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure one after the other, print a table, and fail when a result is wrong."""
    parser = machine.parser("flink_keyed", __doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a batch of ours")
    parser.add_argument("--keys", type=int, default=5_000_000, help="number of keys the rows are drawn from")
    parser.add_argument("--batches", type=int, default=12, help="batches in all")
    parser.add_argument("--warm", type=int, default=8, help="batches that fill the state and are not counted")
    parser.add_argument("--value-bytes", type=int, default=200, help="size of a key's state, 8 at least")
    workload.add_compressible(parser)
    parser.add_argument("--only", metavar="NAME,…", help=f"some of {', '.join([*FLINK, *_OURS])}")
    chosen = parser.parse_args(arguments)
    process.require()
    names = chosen.only.split(",") if chosen.only else _DEFAULT
    expected = _expected(chosen)
    figures: dict[str, machine.Json] = {}
    for name in names:
        measure = functools.partial(_measure_flink, expected=expected) if name in FLINK else _measure_ours
        figures[name] = measure(name, chosen)
        print(f"{name} measured: {cast(float, figures[name]['rows_per_s']):,.0f} updates/s", flush=True)
    print(
        f"{machine.described()}; {chosen.keys:,} keys, {expected.pairs:,} touched, "
        f"{chosen.value_bytes} bytes a value{', compressible' if chosen.compressible else ''}"
    )
    rates = {name: cast(float, one["rows_per_s"]) for name, one in figures.items()}
    machine.table(
        ("", "updates/s", "while filling", *(f"/ {base}" for base in rates)),
        [
            (
                name,
                f"{rate:,.0f}",
                f"{cast(float, figures[name]['warm_rows_per_s']):,.0f}",
                *(f"{rate / base:.2f}" for base in rates.values()),
            )
            for name, rate in rates.items()
        ],
    )
    settings = {
        "rocksdb": process.ROCKSDB,
        "durable": _DURABLE,
        "heap": process.HEAP,
        "pyflink": process.PYFLINK,
        "pyflink-process": process.PYFLINK_PROCESS,
    }
    machine.finish(chosen.json, {"expected": asdict(expected), "contenders": figures, "settings": settings})
    return 0


if __name__ == "__main__":
    sys.exit(main())
