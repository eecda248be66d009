"""Recoveries and upgrades of a job under load, beside plain PySpark: how long each of 20 kept a query from committing.

    make faults FAULTS="--scenario killed- --scenario upgraded- --scenario handed-over- --together 5"
    make faults-plain FAULTS="--scenario killed- --scenario upgraded- --together 5"
    PYTHONPATH=e2e:tests/support python -m bench.recoveries build/faults/report.jsonl build/faults.plain/report.jsonl

Both have the same load and S3 server, and the same that starts a driver again when it has ended. Times compare only where
both had the machine for themselves. Five runs share a world: a driver that lives for less than a minute compacts no
state, so each start after such a life replays more, with plain PySpark as here.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from faults import row

from bench import downtime_picture, machine

PICTURE = machine.ROOT / "docs" / "images" / "recoveries.png"
KINDS = {
    "killed": "driver killed",
    "upgraded": "upgrade: stop, and start of another version",
    "handed-over": "upgrade: a standby takes over",
}


def pauses(rows: Iterable[row.Row]) -> Mapping[str, Sequence[float]]:
    """Return the pauses by kind; a run that did not end as it must, or did not go on, has none."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for one in rows:
        kind, _, number = one.scenario.rpartition("-")
        if kind in found and number.isdigit() and one.passed and one.pause_s is not None:
            found[kind].append(one.pause_s)
    return found


def main() -> None:
    """Print a line for each kind, and draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m bench.recoveries", description=__doc__.splitlines()[0])
    parser.add_argument("ours", type=Path, help="report of make faults")
    parser.add_argument("plain", type=Path, help="report of make faults-plain")
    chosen = parser.parse_args()
    reports = {"ours": chosen.ours, "plain PySpark": chosen.plain}
    measured = {name: pauses(row.newest(row.Report(file).rows())) for name, file in reports.items()}
    drawn = {
        f"{KINDS[kind]}, {name}": measured[name][kind] for kind in KINDS for name in measured if measured[name][kind]
    }
    machine.table(
        ("", "runs", "median", "p95", "most"),
        [
            (
                name,
                len(times),
                *(f"{value:.1f} s" for value in (statistics.median(times), machine.percentile(times, 95), max(times))),
            )
            for name, times in drawn.items()
        ],
    )
    downtime_picture.draw(drawn, PICTURE)
    print(f"The picture is {PICTURE}.")


if __name__ == "__main__":
    main()
