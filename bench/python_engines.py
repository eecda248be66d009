"""The keyed count in Bytewax and Pathway beside ours: updates a second of the clock and of a core, and a restart's price.

   python -m bench.python_engines [--keys 200000 --value-bytes 200 --rows 200000 --batches 8 --warm 4] [--json FILE]

All count the same rows (`bench/workload.py`), keep the same bytes for a key, on the local disk, and have two workers.
Results are checked. `bytewax` has its recovery on, `pathway` its persistence; what each keeps is said in `bench/engines`.
`plain` and `vectorized` are ours, run by `bench.keyed_state`, and make each batch durable. Rows before the warm ones are
not counted. Each of the others is then started again on what it has persisted, for one more batch: seconds until its
first updated count is out. Those of Bytewax grow with the square of the keys: a million keys take minutes. A restart of
ours: `bench.restart`.

Processor time is that of all processes, from the last warm row until the last result is out, and until everything is
persisted: a count of Bytewax that ends writes every key once more, and one that goes on is somewhere between the two.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import processes

from bench import machine, processor_time, workload

HOME = machine.ROOT / "build" / "engines"
PYTHON = HOME / "venv" / "bin" / "python"
_SCRIPTS = Path(__file__).resolve().parent / "engines"
_LIMIT_S = 3600
_OURS = ("plain", "vectorized")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that is measured beside ours.

    Attributes:
        script: What counts in it.
        flags: How it gets its two workers.
    """

    script: str
    flags: Sequence[str]


ENGINES = {
    "bytewax": Engine("bytewax_count.py", ("--processes", "2")),
    "bytewax-threads": Engine("bytewax_count.py", ("--threads", "2")),
    "pathway": Engine("pathway_count.py", ("--threads", "2")),
}
_DEFAULT = ("bytewax", "pathway", *_OURS)


def require() -> None:
    """Refuse to go on without the engines.

    Raises:
        SystemExit: It says how to get them.
    """
    if not PYTHON.exists():
        raise SystemExit("Bytewax and Pathway are not here; run `make engines` first.")


def expected(work: workload.Workload) -> tuple[workload.Check, workload.Check]:
    """Return what the counts of all keys come to at the end, and those of the keys of one more batch after it."""
    counts = np.zeros(work.keys, np.int64)
    for batch in range(work.batches):
        counts += np.bincount(work.keys_of(batch), minlength=work.keys)
    touched = np.flatnonzero(counts)
    before = workload.check_of(touched, counts[touched])
    more = work.keys_of(work.batches)
    counts += np.bincount(more, minlength=work.keys)
    touched = np.unique(more)
    return before, workload.check_of(touched, counts[touched])


def _measure_engine(
    name: str, chosen: argparse.Namespace, checks: tuple[workload.Check, workload.Check]
) -> machine.Json:
    """Count, then start again on what is persisted and count one more batch."""
    rows, warm_rows = chosen.rows * (chosen.batches - chosen.warm), chosen.rows * chosen.warm
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
        flags = ["--warm-rows", str(warm_rows), "--rows", str(rows)]
        figures = _count(name, chosen, Path(folder), flags, checks[0])
        flags = ["--first", str(warm_rows + rows), "--rows", str(chosen.rows), "--resume"]
        resumed = _count(name, chosen, Path(folder), flags, checks[1])
    rates = {
        "rows_per_s": rows / cast(float, figures["updates_s"]),
        "rows_per_core_s": rows / cast(float, figures["processor_of_updates_s"]),
        "durable_rows_per_core_s": rows / cast(float, figures["processor_s"]),
    }
    return {**figures, **rates, "resumed": resumed}


def _count(
    name: str, chosen: argparse.Namespace, folder: Path, flags: list[str], check: workload.Check
) -> machine.Json:
    """Run one count of an engine and return its figures.

    Raises:
        SystemExit: It has failed, or its counts are wrong.
    """
    command = [str(PYTHON), str(_SCRIPTS / ENGINES[name].script), "--folder", str(folder), "--keys", str(chosen.keys)]
    command += ["--batch", str(chosen.rows), "--value-bytes", str(chosen.value_bytes), *ENGINES[name].flags, *flags]
    command += ["--interval-s", str(chosen.interval_s), *(["--compressible"] if chosen.compressible else [])]
    ended = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=_LIMIT_S)
    if ended.returncode != 0:
        raise SystemExit(f"{name} failed:\n{(ended.stdout + ended.stderr)[-3000:]}")
    figures: machine.Json = json.loads(ended.stdout.splitlines()[-1])
    seen = workload.Check(*(cast(int, figures[part]) for part in ("keys", "rows", "checksum")))
    if seen != check:
        raise SystemExit(f"{name} counted {seen} instead of {check}.")
    return figures


def _measure_ours(name: str, chosen: argparse.Namespace) -> machine.Json:
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "bench.keyed_state", "--only", name, "--json", str(file)]
        command += ["--rows", str(chosen.rows), "--keys", str(chosen.keys), "--batches", str(chosen.batches)]
        command += ["--value-bytes", str(chosen.value_bytes), *(["--compressible"] if chosen.compressible else [])]
        used_s = _used_by_ours(name, command, Path(folder) / "log", chosen)
        batches_s: list[float] = json.loads(file.read_text())["contenders"][name]["batches_s"]
    rows, took_s = chosen.rows * (chosen.batches - chosen.warm), sum(batches_s[chosen.warm :])
    rates = {"rows_per_s": rows / took_s, "rows_per_core_s": rows / used_s, "durable_rows_per_core_s": rows / used_s}
    return {**rates, "batches_s": batches_s, "updates_s": took_s, "durable_s": took_s, "processor_s": used_s}


def _used_by_ours(name: str, command: list[str], log: Path, chosen: argparse.Namespace) -> float:
    """Run ours and return the seconds of a core from the last warm batch to the last; it checks every batch itself."""
    process = processes.Process(name, log)
    process.launch(command)
    watch = processor_time.Watch(process.pid)
    moments = []
    for batch in (chosen.warm, chosen.batches):
        line = f"batch {batch} of {chosen.batches} done"
        process.wait_until(lambda line=line: line in process.output, line, _LIMIT_S)  # type: ignore[misc]
        moments.append(time.time())
    code = process.wait_end(_LIMIT_S)
    samples = watch.end()
    if code != 0:
        raise SystemExit(f"{name} failed:\n{process.tail}")
    before_s, after_s = (sum(processor_time.used_s(samples, moment).values()) for moment in moments)
    return after_s - before_s


def _rows_of_table(figures: dict[str, machine.Json]) -> list[list[str]]:
    lines = []
    for name, measured in figures.items():
        resumed = cast("machine.Json", measured.get("resumed", {}))
        persisted = cast("int | None", measured.get("persisted_bytes"))
        lines.append(
            [
                name,
                f"{cast(float, measured['rows_per_s']):,.0f}",
                f"{cast(float, measured['rows_per_core_s']):,.0f}",
                f"{cast(float, measured['durable_rows_per_core_s']):,.0f}",
                f"{cast(float, measured['durable_s']):.1f} s",
                "-" if persisted is None else f"{persisted / 1e6:,.1f}",
                f"{cast(float, resumed['first_s']):.1f} s" if resumed else "-",
            ]
        )
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure one after the other, print a table, and fail when a result is wrong."""
    parser = machine.parser("python_engines", __doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a batch")
    parser.add_argument("--keys", type=int, default=200_000, help="number of keys the rows are drawn from")
    parser.add_argument("--batches", type=int, default=8, help="batches in all")
    parser.add_argument(
        "--warm", type=int, default=4, help="batches that fill the state and are not counted, 1 at least"
    )
    parser.add_argument("--value-bytes", type=int, default=200, help="size of a key's state, 8 at least")
    parser.add_argument("--interval-s", type=float, default=10.0, help="seconds between what the others persist")
    workload.add_compressible(parser)
    parser.add_argument("--only", metavar="NAME,…", help=f"some of {', '.join([*ENGINES, *_OURS])}")
    chosen = parser.parse_args(arguments)
    names = chosen.only.split(",") if chosen.only else list(_DEFAULT)
    if ENGINES.keys() & set(names):
        require()
    checks = expected(workload.Workload(chosen.rows, chosen.keys, chosen.batches, chosen.value_bytes))
    figures: dict[str, machine.Json] = {}
    for name in names:
        figures[name] = _measure_engine(name, chosen, checks) if name in ENGINES else _measure_ours(name, chosen)
        print(f"{name} measured: {cast(float, figures[name]['rows_per_s']):,.0f} updates/s", flush=True)
    print(
        f"{machine.described()}; {chosen.keys:,} keys, {checks[0].pairs:,} touched, "
        f"{chosen.value_bytes} bytes a value{', compressible' if chosen.compressible else ''}"
    )
    header = (
        "",
        "updates/s",
        "updates/s of a core",
        "until all is durable",
        "until durable",
        "MB persisted",
        "first update after a restart",
    )
    machine.table(header, _rows_of_table(figures))
    machine.finish(chosen.json, {"expected": [asdict(check) for check in checks], "contenders": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
