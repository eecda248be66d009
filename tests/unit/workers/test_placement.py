"""Which process a task goes to."""

from __future__ import annotations

import pytest
from statefulspark.workers import placement

WAIT, NEW = placement.Wanted.PATIENCE, placement.Wanted.PROCESS


def _homes(state: dict[str, int], busy: dict[str, int], idle: str) -> placement.Homes[str]:
    """Return processes of which some have the state of a partition, and some work on one; the others are idle.

    The first of the idle ones has been so longest.
    """
    found: placement.Homes[str] = placement.Homes()
    for now_s, process in enumerate([*busy, *idle]):
        found.add(process, float(now_s))
        if process in state:
            found.starts(process, f"q/{state[process]}")
            found.ends(process, float(now_s))
    for process, partition in busy.items():
        found.starts(process, f"q/{partition}")
    return found


@pytest.mark.parametrize(
    ("state", "busy", "idle", "waited_s", "chosen"),
    [
        pytest.param({}, {}, "", 0.0, NEW, id="none"),
        pytest.param({}, {"a": 1}, "", 0.0, NEW, id="all-busy"),
        pytest.param({}, {"a": 1}, "bc", 0.0, "b", id="idle-longest"),
        pytest.param({"c": 7}, {"a": 1}, "bc", 0.0, "c", id="its-state"),
        pytest.param({"b": 1, "c": 2}, {}, "bcd", 0.0, "d", id="nobody-elses-home"),
        pytest.param({"b": 1, "c": 2}, {}, "cb", 0.0, "c", id="homes-only"),
        pytest.param({"a": 7}, {"a": 7}, "b", 0.0, WAIT, id="its-state-is-about-to-be-idle"),
        pytest.param({"a": 7}, {"a": 7}, "b", placement.PATIENCE_S, "b", id="but-is-not"),
        pytest.param({"a": 7}, {"a": 1}, "b", 0.0, "b", id="its-state-is-busy-with-others"),
        pytest.param({"a": 7}, {"a": 1}, "", 0.0, NEW, id="and-all-are-busy"),
    ],
)
def test_a_task_of_partition_seven_goes_to(
    state: dict[str, int], busy: dict[str, int], idle: str, waited_s: float, chosen: object
) -> None:
    assert _homes(state, busy, idle).choose("q/7", waited_s) == chosen


def test_state_that_moved_has_its_home_where_it_is() -> None:
    found = _homes({"a": 7}, {}, "ab")
    found.starts("b", "q/7")
    found.ends("b", 9.0)
    assert found.choose("q/7", 0.0) == "b"


def test_what_has_gone_is_nobodys_home() -> None:
    found = _homes({"a": 7}, {}, "ab")
    found.forget("a")
    assert (found.choose("q/7", 0.0), found.processes) == ("b", ["b"])


def test_who_had_nothing_to_do_for_long() -> None:
    found = _homes({}, {"a": 1}, "bc")
    assert found.idle_since(1.5) == ["b"]
