"""Which scenarios share a world, and when what came out is as it may be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faults import local, matrix
from faults.scenario import Expectation, Scenario
from load import compare
from load.compare import Fault, Finding
from statefulspark.cli import main

EXACT, REPEATS, STOPS = Expectation.EXACT, Expectation.REPEATS, Expectation.STOPS


def a_scenario(name: str, *, stays: bool) -> Scenario:
    return Scenario(name, lambda world: None, leaves_job_running=stays)


def found(*findings: Finding) -> compare.Comparison:
    return compare.Comparison(findings, rows=9, values=1)


def test_scenarios_that_leave_the_job_running_share_worlds_and_the_others_have_one_each() -> None:
    one, two, three = (a_scenario(name, stays=True) for name in ("one", "two", "three"))
    alone = a_scenario("alone", stays=False)

    assert matrix.groups_of((one, alone, two, three), 2) == ((one, two), (three,), (alone,))
    assert matrix.groups_of((one, alone, two), 1) == ((one,), (two,), (alone,))


def test_scenarios_whose_state_is_in_packs_share_worlds_with_one_another_only() -> None:
    one, two, three = (a_scenario(name, stays=True) for name in ("one", "two", "three"))
    packed = replace(two, packs_all=True)

    assert matrix.groups_of((one, packed, three), 2) == ((one, three), (packed,))


def test_scenarios_with_executors_share_worlds_with_one_another_only() -> None:
    one, two, three = (a_scenario(name, stays=True) for name in ("one", "two", "three"))
    spread = replace(two, has_executors=True)

    assert matrix.groups_of((one, spread, three), 2) == ((one, three), (spread,))


@pytest.mark.parametrize(
    ("comparison", "may_be"),
    [
        pytest.param(found(), {EXACT, REPEATS, STOPS}, id="nothing was found"),
        pytest.param(found(Finding(Fault.REPEATED, "ledger", "key", 5)), {REPEATS}, id="a sink that keeps repeats"),
        pytest.param(found(Finding(Fault.REPEATED, "confirmed", "key", 5)), set(), id="a sink that withdraws repeats"),
        pytest.param(found(Finding(Fault.LOST, "ledger", "key", 5)), {STOPS}, id="a row is lost"),
        pytest.param(compare.Comparison((), rows=0, values=0), {EXACT, REPEATS}, id="nothing ever came out"),
        pytest.param(found(Finding(Fault.DIFFERENT, "ledger", "key", 5)), set(), id="a row is different"),
        pytest.param(found(Finding(Fault.STALE, "state", "key", 5)), set(), id="state is stale"),
    ],
)
def test_what_a_scenario_may_lead_to(comparison: compare.Comparison, may_be: set[Expectation]) -> None:
    assert {one for one in Expectation if matrix.is_as_expected(comparison, one)} == may_be | {Expectation.MEASURED}


@pytest.mark.parametrize("point", [one for one in local.MEETINGS if one.request], ids=lambda point: point.name)
def test_a_meeting_asks_for_a_command_that_there_is(point: local.Point) -> None:
    words = [*point.request, "--detach", "--url", "http://127.0.0.1:1", "--token", "x"]

    assert main.build_parser(words[0]).parse_args(words)
