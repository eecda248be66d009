"""Runs scenarios one after the other and writes a row for each; those that have passed before are left out."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from load import compare

from faults import row, surroundings
from faults.loaded import LoadedWorld
from faults.scenario import Expectation, Scenario

Say = Callable[[str], None]
Place = TypeVar("Place", bound=LoadedWorld)
Group = tuple[Scenario[Place], ...]
_EXAMPLES_MAX = 8


def run(
    groups: Sequence[Group[Place]],
    *,
    folder: Path,
    report: row.Report,
    seed: int,
    load: surroundings.Load,
    say: Say,
    kind: type[Place],
) -> bool:
    """Run scenarios and tell whether all of them ended as they have to.

    Args:
        groups: In this order; the scenarios of one happen one after the other in one world.
        folder: Gets logs, and what the servers store.
        report: Gets a row for each scenario.
        seed: Of everything random.
        load: How much is sent.
        say: Told of every row.
        kind: What runs the job.
    """
    is_good = True
    with surroundings.serving(folder / "servers") as servers:
        for group in groups:
            for found in play(group, servers, folder / group[0].name, seed=seed, load=load, say=say, kind=kind):
                report.add(found)
                say(sentence(found))
                is_good = is_good and found.passed
    return is_good


def groups_of(scenarios: Sequence[Scenario[Place]], size: int) -> tuple[Group[Place], ...]:
    """Put scenarios together that may follow each other in one world; the others stay alone."""
    alone = [(one,) for one in scenarios if not one.leaves_job_running]
    groups: list[Group[Place]] = []
    for kind in itertools.product((False, True), repeat=2):
        together = [one for one in scenarios if one.leaves_job_running and (one.has_executors, one.packs_all) == kind]
        groups += [tuple(together[place : place + size]) for place in range(0, len(together), size)]
    return (*groups, *alone)


def play(
    group: Group[Place],
    servers: surroundings.Servers,
    folder: Path,
    *,
    seed: int,
    load: surroundings.Load,
    say: Say,
    kind: type[Place],
) -> tuple[row.Row, ...]:
    """Run scenarios in one world, and return their rows; what goes wrong is in the row of the one that it happened to.

    What came out is compared once, at the end, so a difference is in all rows of the group. When a scenario could not go
    on, those after it have no row, and nobody knows of those before it unless the job can still be brought to its end.
    """
    shutil.rmtree(folder, ignore_errors=True)
    first = group[0]
    rows: list[row.Row] = []
    with surroundings.local_things(
        folder, disk_bytes=first.disk_bytes, has_own_clock=first.has_own_clock, has_executors=first.has_executors
    ) as local:
        local = replace(local, packs_all=first.packs_all)
        place = kind(servers, folder, name=first.name, seed=seed, load=load, local=local)
        try:
            place.begin()
            for scenario in group:
                rows.append(_act(scenario, place))
                say(f"  {scenario.name}: over after {rows[-1].took_s:.0f} s, and not compared yet")
                if rows[-1].findings:
                    break
            judged = _judge(rows, group, place)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the matrix goes on with the next group
            judged = tuple(
                replace(found, findings=(*found.findings, _told(error)))
                for found in rows or [place.figures(first.name)]
            )
        finally:
            place.close()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return tuple(replace(found, at=at) for found in judged)


def _act(scenario: Scenario[Place], place: Place) -> row.Row:
    place.begin_act()
    try:
        scenario.act(place)
        place.until_settled()
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - it becomes the scenario's row
        return replace(place.figures(scenario.name), findings=(_told(error),))
    return place.figures(scenario.name)


def _judge(rows: Sequence[row.Row], group: Group[Place], place: Place) -> tuple[row.Row, ...]:
    found = place.finish()
    told = tuple(finding.sentence for finding in found.findings[:_EXAMPLES_MAX])
    judged = tuple(
        replace(
            one,
            passed=not one.findings and is_as_expected(found, scenario.expects),
            lost=found.count(compare.Fault.LOST),
            wrong=found.count(compare.Fault.REORDERED, compare.Fault.DIFFERENT, compare.Fault.STALE),
            rows=found.rows,
            findings=one.findings + told,
        )
        for one, scenario in zip(rows, group, strict=False)
    )
    if len(judged) > 1 and group[0].expects is Expectation.MEASURED:
        return judged  # each has counted its own repeats; what is lost or wrong is known of the world alone
    repeated, outputs = found.count(compare.Fault.REPEATED), row.by_output(found.findings)
    return tuple(replace(one, repeated=repeated, outputs=outputs) for one in judged)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:900]}"


def is_as_expected(comparison: compare.Comparison, expects: Expectation) -> bool:
    """Tell whether outputs and state look as they may."""
    if expects is Expectation.MEASURED:
        return True
    if expects is Expectation.EXACT:
        return comparison.is_exact
    if expects is Expectation.STOPS:
        return comparison.rows > 0 and all(finding.fault is compare.Fault.LOST for finding in comparison.findings)
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
