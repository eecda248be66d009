"""The function of the load's job, without Spark: what it yields for the generator's events is what the checker computes."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from load import compare, events, truth
from statefulspark import testing
from statefulspark.state import timers

JOB = Path(__file__).resolve().parents[3] / "e2e" / "load" / "jobs" / "ledger.py"
COUNT, KEYS, SEED, BATCH = 400, 4, 5, 30
BETWEEN_BATCHES = timedelta(milliseconds=700)


def the_job() -> dict[str, object]:
    return runpy.run_path(str(JOB), run_name="ledger")


def in_batches(sent: list[events.Event]) -> Iterator[list[events.Event]]:
    rest = iter(sent)
    while batch := list(itertools.islice(rest, BATCH)):
        yield batch


def live(job: dict[str, object]) -> list[compare.Row]:
    """Run all events through the function, with a restart in the middle, until no timer is left."""
    function: Any = job["Ledger"]
    harness = testing.KeyedHarness(function(), key="key", timers="both")
    columns = [column.split()[0] for column in function.schema.split(",")]
    found: list[object] = []
    steps = [*itertools.islice(events.steps(SEED, keys=KEYS), COUNT), events.closing(COUNT)]
    for number, batch in enumerate(in_batches([one for step in steps for one in (step.event, *step.copies)])):
        found += harness.feed(*map(asdict, batch))
        found += harness.advance_time(BETWEEN_BATCHES)
        if number == 5:
            harness.restart()
    found += harness.advance_watermark(timers.moment(max(step.event.at_ms for step in steps)))
    found += harness.advance_time(timedelta(seconds=5))
    return [dict(zip(columns, row, strict=True)) for row in found if isinstance(row, tuple)]


def the_truth() -> truth.Truth:
    steps = [*itertools.islice(events.steps(SEED, keys=KEYS), COUNT), events.closing(COUNT)]
    sent = [one for step in steps for one in (step.event, *step.copies)]
    return truth.compute(sent, {})


def test_every_row_is_what_the_checker_says_and_every_event_is_in_one_report() -> None:
    rows, known = live(the_job()), the_truth()

    found = compare.compare(known, compare.Results(ledger=rows, unreported={}))

    assert [
        one.sentence for one in found.findings if one.output in ("ledger", "periods", "remembered", "reports")
    ] == []
    kinds = {str(row["row"]) for row in rows}
    assert kinds == {"event", "period", "report"}


def test_a_version_that_is_broken_raises_in_its_first_batch() -> None:
    function = the_job()["Ledger"]
    assert isinstance(function, type)
    harness = testing.KeyedHarness(function(is_broken=True), key="key", timers="both")

    with pytest.raises(ValueError, match="does not work"):
        harness.feed(asdict(next(events.steps(SEED, keys=KEYS)).event))
