"""The answers of `statefulspark size` against what is measured: one job with different numbers of keys.

For each number of keys `sizing_runs` measures the job; that is set beside what `statefulspark.sizing` says for it on two
cores. It takes several minutes for each, and what is measured is in the file of `--json` at once; `--measured FILE` compares
such files again, one beside the other.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from statefulspark import sizing
from statefulspark.sizing import coefficients, layout, objects, times

from bench import machine, sizing_runs

KEY_BYTES = 9


def compared(found: machine.Json) -> dict[str, tuple[float, float]]:
    """Return each figure of a run as it was predicted and as it was measured."""
    keys, value_bytes = cast("int", found["keys"]), cast("int", found["value_bytes"])
    asked = sizing.Workload(keys=keys, bytes_per_key=value_bytes + KEY_BYTES, rows_per_s=1)
    row_core_s = layout.rate(asked).row_core_s
    measured = {name: float(str(found[name])) for name in ("small_batch_s", "large_batch_s", "workers_bytes")}
    stored, kept = float(str(found["checkpoint_bytes"])), float(str(found["stored_bytes"]))
    partitions = sizing_runs.PARTITIONS
    writes = coefficients.WRITES_A_BATCH.value + partitions * coefficients.WRITES_A_PARTITION.value
    return {
        "small batch, s": (_batch_s(sizing_runs.SMALL_ROWS, row_core_s), measured["small_batch_s"]),
        "large batch, s": (_batch_s(sizing_runs.LARGE_ROWS, row_core_s), measured["large_batch_s"]),
        "state in memory, MB": (
            layout.state_bytes(asked) / 1e6,
            (measured["workers_bytes"] - sizing_runs.EMPTY_WORKERS_BYTES) / 1e6,
        ),
        "checkpoint, MB": (objects.checkpoint_bytes(asked) / 1e6, stored / 1e6),
        "in the job's folder, MB": (
            (objects.checkpoint_bytes(asked) * coefficients.KEPT_PER_STORED.value + _changed_bytes(asked)) / 1e6,
            kept / 1e6,
        ),
        "writes a batch": (
            writes,
            _batch_writes(cast("dict[str, int]", found["requests"])) / float(str(found["batches"])),
        ),
        "restart, s": (times.restart_s(asked, partitions), statistics.mean(cast("list[float]", found["restart_s"]))),
        "other partitions, s": (times.rescale_s(asked, partitions), float(str(found["rescale_s"]))),
    }


def _batch_s(rows: int, row_core_s: float) -> float:
    return coefficients.BATCH_S.value + rows * row_core_s / sizing_runs.PARTITIONS


def _changed_bytes(asked: sizing.Workload) -> float:
    """Return what the batches of a run have changed, which its retained checkpoints still name."""
    rows = (sizing_runs.SMALL_ROWS, sizing_runs.LARGE_ROWS)
    return sum((1 + sizing_runs.BATCHES) * min(each, asked.keys) * asked.bytes_per_key for each in rows)


def _batch_writes(requests: dict[str, int]) -> int:
    kinds = ("sources", "offsets", "commits", "prepared", "state *.changelog", "state *.changelog.crc")
    return sum(requests.get(f"PutObject {kind}", 0) for kind in kinds)


def main(arguments: list[str] | None = None) -> int:
    """Measure each number of keys, and print it beside the model."""
    parser = machine.parser("sizing", __doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000, 4_000_000], help="numbers of keys")
    parser.add_argument(
        "--measured", type=Path, nargs="+", metavar="FILE", help="compare the runs of these files, and run nothing"
    )
    chosen = parser.parse_args(arguments)
    runs: list[machine.Json] = []
    for found in _read(chosen.measured) if chosen.measured else _measured(chosen.keys):
        runs.append(found)
        _print(found)
        machine.finish(chosen.json, {"runs": runs})
    return 0


def _measured(numbers: Sequence[int]) -> Iterator[machine.Json]:
    for keys in numbers:
        yield sizing_runs.measure(keys).to_json()


def _read(files: Sequence[Path]) -> Iterator[machine.Json]:
    """Yield the runs of files that `--json` has written."""
    for file in files:
        yield from json.loads(file.read_text())["runs"]


def _print(found: machine.Json) -> None:
    print(f"\n{found['keys']:,} keys of {found['value_bytes']} bytes, load {found['load']:.0f}")
    rows = [
        (name, f"{model:,.2f}", f"{measured:,.2f}", f"{model / measured - 1:+.0%}")
        for name, (model, measured) in compared(found).items()
    ]
    machine.table(("", "model", "measured", "error"), rows)


if __name__ == "__main__":
    sys.exit(main())
