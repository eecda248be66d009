"""Runs scenarios one after the other and writes a row for each; those that have passed before are left out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from load import compare

from faults import row, world
from faults.scenario import Expectation, Scenario

Say = Callable[[str], None]


def run(
    scenarios: Sequence[Scenario], *, folder: Path, report: row.Report, seed: int, load: world.Load, say: Say
) -> bool:
    """Run scenarios and tell whether all of them ended as they have to.

    Args:
        scenarios: In this order.
        folder: Gets logs, and what the servers store.
        report: Gets a row for each.
        seed: Of everything random.
        load: How much is sent.
        say: Told of every row.
    """
    rows = []
    with world.serving(folder / "servers") as servers:
        for scenario in scenarios:
            found = play(scenario, servers, folder / scenario.name, seed=seed, load=load)
            report.add(found)
            rows.append(found)
            say(sentence(found))
    return all(found.passed for found in rows)


def play(scenario: Scenario, servers: world.Servers, folder: Path, *, seed: int, load: world.Load) -> row.Row:
    """Run one scenario and return its row; whatever goes wrong is in the row."""
    begun_s = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    with world.local_things(folder, disk_bytes=scenario.disk_bytes, has_own_clock=scenario.has_own_clock) as local:
        place = world.World(servers, folder, name=scenario.name, seed=seed, load=load, local=local)
        try:
            found = _play(scenario, place, begun_s)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the matrix goes on with the next one
            found = place.told(compare.Comparison((), 0, 0), passed=False, took_s=time.monotonic() - begun_s)
            found = replace(found, findings=(f"{type(error).__name__}: {str(error)[:900]}",))
        finally:
            place.close()
    return replace(found, at=datetime.now(UTC).isoformat(timespec="seconds"))


def _play(scenario: Scenario, place: world.World, begun_s: float) -> row.Row:
    place.begin()
    scenario.act(place)
    place.until_commits()
    savepoint = place.finish()
    comparison = place.compared(savepoint)
    return place.told(
        comparison, passed=is_as_expected(comparison, scenario.expects), took_s=time.monotonic() - begun_s
    )


def is_as_expected(comparison: compare.Comparison, expects: Expectation) -> bool:
    """Tell whether outputs and state look as they may."""
    if expects is Expectation.EXACT:
        return comparison.is_exact
    return all(
        finding.fault in (compare.Fault.REPEATED, compare.Fault.REORDERED) and finding.output != "confirmed"
        for finding in comparison.findings
    )


def sentence(found: row.Row) -> str:
    """Return a row for a terminal."""
    ended = "as it must" if found.passed else "OTHERWISE"
    counts = f"lost {found.lost}, repeated {found.repeated}, wrong {found.wrong}"
    commit = "" if found.first_commit_s is None else f", first commit after {found.first_commit_s:.1f} s"
    again = f", replayed {found.replayed}" if found.replayed else ""
    exits = f", exits {' '.join(found.exits)}" if found.exits else ""
    run = f"{found.scenario} (seed {found.seed}, {found.took_s:.0f} s)"
    lines = [f"{run}: {ended}: {counts} of {found.rows}{commit}{again}{exits}"]
    return "\n    ".join([*lines, *found.findings])
