"""Runs scenarios one after the other and writes a row for each; those that have passed before are left out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from load import compare

from faults import row, world
from faults.scenario import Expectation, Scenario

Say = Callable[[str], None]
Group = tuple[Scenario, ...]
_EXAMPLES_MAX = 8


def run(groups: Sequence[Group], *, folder: Path, report: row.Report, seed: int, load: world.Load, say: Say) -> bool:
    """Run scenarios and tell whether all of them ended as they have to.

    Args:
        groups: In this order; the scenarios of one happen one after the other in one world.
        folder: Gets logs, and what the servers store.
        report: Gets a row for each scenario.
        seed: Of everything random.
        load: How much is sent.
        say: Told of every row.
    """
    is_good = True
    with world.serving(folder / "servers") as servers:
        for group in groups:
            for found in play(group, servers, folder / group[0].name, seed=seed, load=load, say=say):
                report.add(found)
                say(sentence(found))
                is_good = is_good and found.passed
    return is_good


def groups_of(scenarios: Sequence[Scenario], size: int) -> tuple[Group, ...]:
    """Put scenarios together that may follow each other in one world; the others stay alone."""
    together = [one for one in scenarios if one.leaves_job_running]
    alone = [(one,) for one in scenarios if not one.leaves_job_running]
    return (*(tuple(together[place : place + size]) for place in range(0, len(together), size)), *alone)


def play(
    group: Group, servers: world.Servers, folder: Path, *, seed: int, load: world.Load, say: Say
) -> tuple[row.Row, ...]:
    """Run scenarios in one world, and return their rows; what goes wrong is in the row of the one that it happened to.

    What came out is compared once, at the end, so a difference is in all rows of the group. When a scenario could not go
    on, those after it have no row, and nobody knows of those before it unless the job can still be brought to its end.
    """
    shutil.rmtree(folder, ignore_errors=True)
    first = group[0]
    rows: list[row.Row] = []
    with world.local_things(folder, disk_bytes=first.disk_bytes, has_own_clock=first.has_own_clock) as local:
        place = world.World(servers, folder, name=first.name, seed=seed, load=load, local=local)
        try:
            place.begin()
            for scenario in group:
                rows.append(_act(scenario, place))
                say(f"  {scenario.name}: over after {rows[-1].took_s:.0f} s, and not compared yet")
                if rows[-1].findings:
                    break
            judged = _judge(rows, group, place)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the matrix goes on with the next group
            judged = tuple(replace(found, findings=(_told(error),)) for found in rows or [place.figures(first.name)])
        finally:
            place.close()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return tuple(replace(found, at=at) for found in judged)


def _act(scenario: Scenario, place: world.World) -> row.Row:
    place.begin_act()
    try:
        scenario.act(place)
        place.until_commits()
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - it becomes the scenario's row
        return replace(place.figures(scenario.name), findings=(_told(error),))
    return place.figures(scenario.name)


def _judge(rows: Sequence[row.Row], group: Group, place: world.World) -> tuple[row.Row, ...]:
    found = place.compared(place.finish())
    told = tuple(finding.sentence for finding in found.findings[:_EXAMPLES_MAX])
    return tuple(
        replace(
            one,
            passed=not one.findings and is_as_expected(found, scenario.expects),
            lost=found.count(compare.Fault.LOST),
            repeated=found.count(compare.Fault.REPEATED),
            wrong=found.count(compare.Fault.REORDERED, compare.Fault.DIFFERENT, compare.Fault.STALE),
            rows=found.rows,
            findings=one.findings + told,
        )
        for one, scenario in zip(rows, group, strict=False)
    )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:900]}"


def is_as_expected(comparison: compare.Comparison, expects: Expectation) -> bool:
    """Tell whether outputs and state look as they may."""
    if expects is Expectation.EXACT:
        return comparison.is_exact
    return all(
        finding.fault is compare.Fault.REPEATED and finding.output != "confirmed" for finding in comparison.findings
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
