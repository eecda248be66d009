"""`make demo`: real flights through a stateful job on this machine, compared with the truth.

It needs Python and Java, no Kubernetes and no root. Exits with 0 when nothing is lost, repeated or different; with 1 when
something is, or when the demo could not go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from demo import console, process
from oracle import truth
from oracle.compare import Comparison, compare
from statefulspark import errors

from demo_local import drivers, feed, output, story

_PREPARE = Path("examples", "flights", "prepare.py")
_PREPARE_TIMEOUT_S = 300.0


def main() -> int:
    """Run the demo and return the process's exit code."""
    chosen = _parse()
    show = console.Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folders = drivers.Folders.below(chosen.folder.resolve())
    starts = drivers.Drivers(folders, chosen.files_per_batch)
    try:
        return _run(folders, starts, show)
    except errors.StatefulSparkError as error:
        show.end_status()
        print(f"\n{error.message}\nAll logs are in {folders.logs}.", file=sys.stderr)
    except KeyboardInterrupt:
        show.end_status()
        print("\nInterrupted.", file=sys.stderr)
    finally:
        starts.end_all()
    return 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("build", "demo-local"), help="for input, state, output and logs"
    )
    parser.add_argument("--files-per-batch", type=int, default=4, help="days of flights in each batch (default: 4)")
    return parser.parse_args()


def _run(folders: drivers.Folders, starts: drivers.Drivers, show: console.Console) -> int:
    began = time.monotonic()
    shutil.rmtree(folders.state.parent, ignore_errors=True)
    show.title("The flights of 2013 from New York, and the truth about them, computed without Spark")
    with ThreadPoolExecutor() as beside:
        computed = beside.submit(lambda: truth.compute(truth.raw_flights()))
        prepare = [sys.executable, str(_PREPARE), folders.held.as_uri(), "--allow-local-files"]
        show.say(process.run(prepare, timeout_s=_PREPARE_TIMEOUT_S).strip())
        expected = computed.result()
    days = feed.Feed(folders.held, folders.input)
    told = story.Story(expected.flights, show, starts, output.Output(folders.output), days, datetime.now(UTC))
    days.start()
    try:
        told.play()
    finally:
        days.end()
    show.title("Every result is compared with the truth")
    batches = told.seen.batches()
    comparison = compare(expected, aircraft=batches["aircraft"], carriers=batches["carriers"])
    report = _report(told, comparison, time.monotonic() - began)
    for line in _sentences(report, comparison):
        show.say(line)
    path = folders.state.parent / "report.json"
    path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    show.say(f"\nReport: {path}")
    return 0 if comparison.is_exact else 1


def _report(told: story.Story, comparison: Comparison, seconds: float) -> dict[str, object]:
    return {
        "flights": told.total,
        "lost": comparison.lost,
        "repeated": comparison.repeated,
        "different": comparison.different,
        "valuesCompared": comparison.fields,
        "firstRowAfterSeconds": round(told.first_row_s, 1),
        "withoutOutputSeconds": {step: round(pause, 1) for step, pause in told.pauses.items()},
        "rowsTakenBack": told.withdrawn,
        "seconds": round(seconds, 1),
    }


def _sentences(report: dict[str, object], comparison: Comparison) -> list[str]:
    lines = [
        f"  {comparison.keys:,} keys and {comparison.fields:,} values compared",
        f"  lost       {comparison.lost:>7,}",
        f"  repeated   {comparison.repeated:>7,}",
        f"  different  {comparison.different:>7,}",
        "  seconds without output:",
    ]
    pauses = report["withoutOutputSeconds"]
    assert isinstance(pauses, dict)
    lines += [f"    {step:<26} {pause:>6.1f}" for step, pause in pauses.items()]
    lines.append(f"  {report['rowsTakenBack']:,} flights of version 2 were taken back, and counted again by version 1")
    lines.append(f"  first row after {report['firstRowAfterSeconds']} s, all of it in {report['seconds']} s")
    return [*lines, *(f"  ! {example}" for example in comparison.examples)]


if __name__ == "__main__":
    sys.exit(main())
