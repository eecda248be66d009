"""Work beside the job's loop: in order within a lane, and waited for only where it should be."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest
from statefulspark import errors
from statefulspark.driver.snapshots.background import Background, Lane

_WAIT_S = 20.0
_ENDS_DURING_A_SAVEPOINT = """
import threading
from statefulspark.driver.snapshots.background import Background, Lane

begun = threading.Event()
def copy():
    begun.set()
    threading.Event().wait()
background = Background(lambda message: None)
background.submit(Lane.SAVEPOINT, copy, on_done=print, on_failed=print)
begun.wait()
background.close(wait=True)
"""


class Rig:
    """A background whose outcomes arrive where a test waits for them."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.outcomes: list[object] = []
        self.background = Background(self.posted.put)

    def submit(self, lane: Lane, work: Callable[[], object]) -> None:
        self.background.submit(lane, work, on_done=self.outcomes.append, on_failed=self.outcomes.append)

    def handle(self, count: int) -> None:
        for _ in range(count):
            self.posted.get(timeout=_WAIT_S)()


def test_the_work_of_a_lane_is_done_in_order() -> None:
    rig = Rig()

    for number in range(20):
        rig.submit(Lane.CHECKPOINT, lambda number=number: number)
    rig.handle(20)

    assert rig.outcomes == list(range(20))


def test_lanes_do_not_wait_for_each_other() -> None:
    rig, copied = Rig(), threading.Event()

    rig.submit(Lane.SAVEPOINT, lambda: copied.wait(_WAIT_S))
    rig.submit(Lane.CHECKPOINT, lambda: "checkpoint")
    rig.handle(1)
    copied.set()
    rig.handle(1)

    assert rig.outcomes == ["checkpoint", True]


def test_an_expected_failure_is_an_outcome_and_any_other_ends_the_loop() -> None:
    rig, failure = Rig(), errors.TransientError("StorageUnreachable", "x")

    def fail(error: Exception) -> object:
        raise error

    rig.submit(Lane.ANNOUNCE, lambda: fail(failure))
    rig.submit(Lane.ANNOUNCE, lambda: fail(ZeroDivisionError("bug")))
    rig.handle(1)

    assert rig.outcomes == [failure]
    with pytest.raises(ZeroDivisionError, match="bug"):
        rig.handle(1)


def test_an_end_waits_for_the_work_that_has_begun_and_drops_the_rest() -> None:
    rig, begun, go_on = Rig(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert go_on.wait(_WAIT_S)
        return "done"

    rig.submit(Lane.CHECKPOINT, work)
    rig.submit(Lane.CHECKPOINT, lambda: "dropped")
    assert begun.wait(_WAIT_S)
    threading.Timer(0.05, go_on.set).start()
    rig.background.close(wait=True)

    rig.handle(1)
    assert rig.outcomes == ["done"]
    assert rig.posted.empty()


def test_the_end_of_a_process_does_not_wait_for_a_savepoint_whose_store_says_nothing() -> None:
    command = [sys.executable, "-c", _ENDS_DURING_A_SAVEPOINT]

    assert subprocess.run(command, timeout=_WAIT_S, check=False).returncode == 0
