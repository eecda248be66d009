"""The memory of savepoints and stops by request id."""

from __future__ import annotations

import threading

import pytest
from fakecontrol import a_summary
from statefulspark.contract import api
from statefulspark.driver import status


def test_a_request_id_begins_one_operation() -> None:
    known = status.Operations()

    first, is_new = known.begin("a", api.OperationKind.SAVEPOINT)
    again, is_new_again = known.begin("a", api.OperationKind.SAVEPOINT)

    assert (is_new, is_new_again) == (True, False)
    assert first == again == api.Operation(request_id="a", kind="Savepoint", state=api.OperationState.IN_PROGRESS)


def test_one_of_many_callers_at_once_begins_it() -> None:
    known = status.Operations()
    barrier = threading.Barrier(8)
    begun: list[bool] = []

    def call() -> None:
        barrier.wait()
        begun.append(known.begin("a", api.OperationKind.SAVEPOINT)[1])

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(begun) == [False] * 7 + [True]


def test_how_an_operation_ended_is_remembered() -> None:
    known = status.Operations()
    known.begin("good", api.OperationKind.SAVEPOINT)
    known.begin("bad", api.OperationKind.STOP)

    known.complete("good", a_summary())
    known.fail("bad", "CHECKPOINT_EXPIRED", "too slow")

    assert known.get("good") == api.Operation(
        request_id="good", kind="Savepoint", state=api.OperationState.COMPLETED, snapshot=a_summary()
    )
    assert known.get("bad") == api.Operation(
        request_id="bad",
        kind="Stop",
        state=api.OperationState.FAILED,
        reason="CHECKPOINT_EXPIRED",
        message="too slow",
    )


def test_how_far_an_operation_is_is_told_until_it_ends() -> None:
    known = status.Operations()
    known.begin("a", api.OperationKind.SAVEPOINT)
    copied = api.Progress(unit="files", done=3, total=12, done_bytes=30, total_bytes=100)

    known.report("a", copied)
    under_way = known.get("a")
    known.complete("a", a_summary())
    known.report("a", copied)

    assert under_way is not None
    assert under_way.progress == copied
    assert known.get("a") == api.Operation(
        request_id="a", kind="Savepoint", state=api.OperationState.COMPLETED, snapshot=a_summary()
    )


@pytest.mark.parametrize("key", ["periodic", "drain", "unheard-of"])
def test_what_nobody_asked_for_is_not_an_operation(key: str) -> None:
    known = status.Operations()

    known.complete(key, a_summary())

    assert known.get(key) is None


def test_old_ended_operations_are_forgotten_and_running_ones_never() -> None:
    known = status.Operations()
    known.begin("running", api.OperationKind.SAVEPOINT)
    for number in range(status.MAX_RETAINED + 5):
        known.begin(str(number), api.OperationKind.SAVEPOINT)
        known.complete(str(number), a_summary())

    assert known.get("running") is not None
    assert known.get("0") is None
    assert known.get(str(status.MAX_RETAINED + 4)) is not None
