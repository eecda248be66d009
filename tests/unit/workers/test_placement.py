"""Which process a task goes to."""

from __future__ import annotations

import pytest
from statefulspark.workers import placement

WAIT, NEW = placement.Unassigned.WAIT, placement.Unassigned.NEW_PROCESS


def _processes(state: dict[str, int], busy: dict[str, int], idle: str) -> placement.ProcessTable[str]:
    """Return processes of which some have the state of a partition, and some work on one; the others are idle.

    The first of the idle ones has been so longest.
    """
    processes: placement.ProcessTable[str] = placement.ProcessTable()
    for now_s, process in enumerate([*busy, *idle]):
        processes.add(process, float(now_s))
        if process in state:
            processes.starts(process, f"q/{state[process]}")
            processes.ends(process, float(now_s))
    for process, partition in busy.items():
        processes.starts(process, f"q/{partition}")
    return processes


@pytest.mark.parametrize(
    ("state", "busy", "idle", "waited_s", "chosen"),
    [
        pytest.param({}, {}, "", 0.0, NEW, id="none"),
        pytest.param({}, {"a": 1}, "", 0.0, NEW, id="all-busy"),
        pytest.param({}, {"a": 1}, "bc", 0.0, "b", id="idle-longest"),
        pytest.param({"c": 7}, {"a": 1}, "bc", 0.0, "c", id="its-state"),
        pytest.param({"b": 1, "c": 2}, {}, "bcd", 0.0, "d", id="without-state-of-others"),
        pytest.param({"b": 1, "c": 2}, {}, "cb", 0.0, "c", id="all-have-state"),
        pytest.param({"a": 7}, {"a": 7}, "b", 0.0, WAIT, id="its-state-is-about-to-be-idle"),
        pytest.param({"a": 7}, {"a": 7}, "b", placement.LOCALITY_WAIT_S, "b", id="but-is-not"),
        pytest.param({"a": 7}, {"a": 1}, "b", 0.0, "b", id="its-state-is-busy-with-others"),
        pytest.param({"a": 7}, {"a": 1}, "", 0.0, NEW, id="and-all-are-busy"),
    ],
)
def test_a_task_of_partition_seven_goes_to(
    state: dict[str, int], busy: dict[str, int], idle: str, waited_s: float, chosen: object
) -> None:
    assert _processes(state, busy, idle).choose("q/7", waited_s) == chosen


def test_state_that_moved_belongs_to_the_process_that_has_it_now() -> None:
    processes = _processes({"a": 7}, {}, "ab")
    processes.starts("b", "q/7")
    processes.ends("b", 9.0)
    assert processes.choose("q/7", 0.0) == "b"


def test_a_process_that_ended_has_no_state() -> None:
    processes = _processes({"a": 7}, {}, "ab")
    processes.forget("a")
    assert (processes.choose("q/7", 0.0), processes.processes) == ("b", ["b"])


def test_the_processes_that_have_been_idle_for_long() -> None:
    processes = _processes({}, {"a": 1}, "bc")
    assert processes.idle_since(1.5) == ["b"]
