"""Restore of a native savepoint at another place, beyond the start of an empty job: what its state costs a start.

   python -m bench.restore [--keys 5000000 --value-bytes 200] [--turns 3] [--also NAME FOLDER]

It is our side of `flink_savepoint` without Flink. `--also` restores with the runtime of another folder in turns with this
one, such as `jobruntime/src` of an older checkout: what is beside each other in one run can be compared on a busy machine.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from dataclasses import asdict

from bench import flink_savepoint, machine
from bench.flink_savepoint import Figures

OURS = "this checkout"


def measure(side: flink_savepoint.OurSide, turns: int, sources: Mapping[str, str | None]) -> dict[str, Figures]:
    """Restore in turns, each time after an empty start of the same runtime."""
    figures = {name: Figures() for name in sources}
    side.fill()
    side.stop()
    for turn in range(turns):
        for name, folder in list(sources.items())[:: 1 if turn % 2 else -1]:
            side.figures = figures[name]
            side.restore(folder)
            print(f"{turn} {name}: {_beyond_s(figures[name])[-1]:.2f} s beyond an empty start", flush=True)
    return figures


def _beyond_s(figures: Figures) -> list[float]:
    return [full - none for full, none in zip(figures.restore_s, figures.empty_s, strict=True)]


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns, and print the medians."""
    parser = machine.parser("restore", __doc__)
    parser.add_argument("--keys", type=int, default=5_000_000, help="number of keys")
    parser.add_argument("--value-bytes", type=int, default=200, help="size of a key's state")
    parser.add_argument("--turns", type=int, default=3, help="restores of each")
    parser.add_argument("--also", nargs=2, action="append", default=[], metavar=("NAME", "FOLDER"),
                        help="one more: the runtime of this folder; repeatable")  # fmt: skip
    chosen = parser.parse_args(arguments)
    with machine.workplace() as (server, folder):
        side = flink_savepoint.OurSide(server, folder, chosen)
        try:
            figures = measure(side, chosen.turns, {OURS: None, **dict(chosen.also)})
        finally:
            side.end()
    print(f"{machine.described()}; {chosen.keys:,} keys of {chosen.value_bytes} bytes")
    machine.table(
        ("", "empty start, s", "restore, s", "beyond, s", "least", "most"),
        [
            (
                name,
                f"{statistics.median(one.empty_s):.2f}",
                f"{statistics.median(one.restore_s):.2f}",
                f"{statistics.median(_beyond_s(one)):.2f}",
                f"{min(_beyond_s(one)):.2f}",
                f"{max(_beyond_s(one)):.2f}",
            )
            for name, one in figures.items()
        ],
    )
    machine.finish(chosen.json, {name: asdict(one) for name, one in figures.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
