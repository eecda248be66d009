"""A sink function from batch to batch: state and rows are one cut, also when batches run again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from statefulspark import errors, operatorstate
from statefulspark.operatorstate import batches, record
from statefulspark.operatorstate.model import OperatorState


class Buffering(operatorstate.SinkFunction[int], operatorstate.CheckpointedFunction, operatorstate.CheckpointListener):
    """Flushes at a threshold, and fails at a chosen row."""

    outside: list[list[int]] = []  # noqa: RUF012 - what the function did outside, which no restore undoes

    def __init__(self, threshold: int = 100) -> None:
        self.threshold = threshold
        self.buffered: list[int] = []
        self.events: list[str] = []

    def open(self) -> None:
        self.events.append("open")

    def close(self) -> None:
        self.events.append("close")

    def invoke(self, value: int) -> None:
        if value < 0:
            raise ValueError(f"row {value}")
        self.buffered.append(value)
        if len(self.buffered) >= self.threshold:
            self.outside.append(self.buffered)
            self.buffered = []

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.state = context.operator_state_store.list_state("buffered")
        self.restored = context.is_restored
        self.buffered = self.state.get()

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        self.state.update(self.buffered)


def at(batch: int) -> operatorstate.FunctionSnapshotContext:
    return operatorstate.FunctionSnapshotContext(batch + 1, datetime.fromtimestamp(batch, UTC))


def a_buffering_run(restored: OperatorState | None = None, parallelism: int = 1) -> batches.SinkRun:
    Buffering.outside = []
    sink = operatorstate.DriverSink(Buffering(3), parallelism=parallelism)
    return batches.SinkRun("out", sink, restored=restored, checkpoint_id=None)


def deliver(run: batches.SinkRun, batch: int, *rows: int) -> bytes | None:
    run.begin(batch)
    for row in rows:
        run.invoke(row % 2, row)
    return run.end(at(batch))


def lists(body: bytes | None) -> list[list[object]] | None:
    if body is None:
        return None
    return [list(part) for part in record.decode(body, "memory").states["buffered"].parts]


def test_what_is_buffered_after_a_batch_is_its_record() -> None:
    run = a_buffering_run()

    assert lists(deliver(run, 0, 1, 2)) == [[1, 2]]
    assert lists(deliver(run, 1, 3, 4)) == [[4]]
    assert Buffering.outside == [[1, 2, 3]]


def test_a_batch_that_changes_nothing_writes_nothing() -> None:
    run = a_buffering_run()

    assert lists(deliver(run, 0)) == [[]]  # The first of an epoch always: an attempt before it may have left a record.
    assert deliver(run, 1) is None
    assert lists(deliver(run, 2, 7)) == [[7]]
    assert deliver(run, 3) is None


def test_rows_are_dealt_to_subtasks_by_their_partition() -> None:
    run = a_buffering_run(parallelism=2)

    assert lists(deliver(run, 0, 1, 2, 4)) == [[2, 4], [1]]


def test_a_batch_that_fails_is_undone_when_it_runs_again() -> None:
    run = a_buffering_run()
    deliver(run, 0, 1)

    run.begin(1)
    run.invoke(0, 2)
    with pytest.raises(
        errors.StatefulSparkError, match=r"invoke\(\) of function 'out' \(Buffering\) raised ValueError: row -1"
    ):
        run.invoke(0, -1)

    assert lists(deliver(run, 1, 2)) == [[1, 2]]


def test_a_batch_that_ended_and_was_not_committed_is_undone_when_it_runs_again() -> None:
    run = a_buffering_run()
    deliver(run, 0, 1)
    deliver(run, 1, 2)

    assert lists(deliver(run, 1, 2)) == [[1, 2]]
    assert lists(deliver(run, 2, 3)) == [[]]


def test_a_batch_that_runs_again_and_changes_nothing_still_replaces_what_the_first_attempt_left() -> None:
    run = a_buffering_run()
    deliver(run, 0, 1)
    assert lists(deliver(run, 1, 2)) == [[1, 2]]

    assert lists(deliver(run, 1)) == [[1]]


def test_a_restored_run_goes_on_with_what_it_held() -> None:
    body = deliver(a_buffering_run(), 0, 1, 2)
    assert body is not None

    again = a_buffering_run(record.decode(body, "memory"), parallelism=2)

    assert lists(deliver(again, 1, 4)) == [[1, 4], [2]]


def test_the_first_attempt_at_the_first_batch_is_undone_to_the_very_beginning() -> None:
    run = a_buffering_run()
    run.begin(0)
    run.invoke(0, 1)

    run.begin(0)

    assert lists(run.end(at(0))) == [[]]


@pytest.mark.parametrize("attempted", [None, 5], ids=["before its first batch", "in the middle of one"])
def test_rows_of_a_batch_that_an_older_driver_committed_do_not_vanish_from_the_state(attempted: int | None) -> None:
    """It goes on after a batch that the function has not seen: the state would lack its rows for good."""
    run = batches.SinkRun("out", operatorstate.DriverSink(Buffering()), restored=None, checkpoint_id=None, committed=4)
    if attempted is not None:
        run.begin(attempted)

    with pytest.raises(errors.StateUnknownError, match="Batch 6 begins, but function 'out' has its state of batch 4"):
        run.begin(6)


def test_a_batch_that_an_older_driver_committed_when_it_had_ended_here_is_gone_on_from() -> None:
    """Both had the same rows; of the two records the one of the newer driver counts."""
    run = batches.SinkRun("out", operatorstate.DriverSink(Buffering()), restored=None, checkpoint_id=None, committed=4)
    deliver(run, 5, 1)

    assert lists(deliver(run, 6, 2)) == [[1, 2]]


def test_functions_are_opened_and_closed_with_every_copy() -> None:
    run = a_buffering_run()
    first = run._subtasks.functions[0]
    run.begin(0)
    run.begin(0)
    second = run._subtasks.functions[0]
    run.close()

    assert first is not second
    assert (first.events, second.events) == (["open", "close"], ["open", "close"])  # type: ignore[attr-defined]


class Plain(operatorstate.SinkFunction[int]):
    """Has no state, and fails where it is told to."""

    def __init__(self, where: str = "") -> None:
        self.where = where

    def open(self) -> None:
        if self.where == "open":
            raise OSError("no door")

    def invoke(self, value: int) -> None:
        pass

    def close(self) -> None:
        raise OSError("stuck")


def test_a_function_without_state_leaves_no_record_and_goes_on() -> None:
    run = batches.SinkRun("out", operatorstate.DriverSink(Plain()), restored=None, checkpoint_id=None)

    assert deliver(run, 0, 1) is None
    assert deliver(run, 1, 1) is None
    run.close()  # What closing raises is logged.


def test_a_function_that_cannot_be_opened_is_told_by_its_uid() -> None:
    with pytest.raises(
        errors.StatefulSparkError, match=r"open\(\) of function 'out' \(Plain\) raised OSError: no door"
    ):
        batches.SinkRun("out", operatorstate.DriverSink(Plain("open")), restored=None, checkpoint_id=None)


class Rules(operatorstate.BroadcastSinkFunction[tuple[str, int]], operatorstate.CheckpointedFunction):
    """Lets rows pass that the rules allow; a rule reaches every subtask."""

    def __init__(self) -> None:
        self.passed: list[int] = []

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.allowed = context.operator_state_store.broadcast_state("allowed")

    def invoke_broadcast(self, value: tuple[str, int]) -> None:
        self.allowed.put(value[1], "allowed")

    def invoke(self, value: tuple[str, int]) -> None:
        if value[1] in self.allowed:
            self.passed.append(value[1])

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        pass


def test_a38_broadcast_rows_reach_every_subtask_and_new_ones_have_them_after_a_restore() -> None:
    sink = operatorstate.DriverSink(Rules(), parallelism=2, broadcast="kind = 'rule'")
    run = batches.SinkRun("rules", sink, restored=None, checkpoint_id=None)
    run.begin(0)
    run.invoke_broadcast(("rule", 7))
    for partition in (0, 1):
        run.invoke(partition, ("row", 7))
        run.invoke(partition, ("row", 8))
    body = run.end(at(0))
    assert body is not None
    passed = [function.passed for function in run._subtasks.functions]  # type: ignore[attr-defined]

    wider = operatorstate.DriverSink(Rules(), parallelism=5, broadcast="kind = 'rule'")
    again = batches.SinkRun("rules", wider, restored=record.decode(body, "memory"), checkpoint_id=1)

    assert passed == [[7], [7]]
    assert [function.allowed.keys() for function in again._subtasks.functions] == [[7]] * 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "broadcast"),
    [
        pytest.param(Rules(), None, id="a broadcast function without a condition"),
        pytest.param(Plain(), "true", id="a condition without a broadcast function"),
    ],
)
def test_a_broadcast_input_needs_a_function_for_it(
    function: operatorstate.SinkFunction[object], broadcast: str | None
) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        operatorstate.DriverSink(function, broadcast=broadcast)

    assert caught.value.reason == "FunctionInvalid"


class Counts(operatorstate.BroadcastSinkFunction[int], operatorstate.CheckpointedFunction):
    """Its states have dicts, which it changes in place."""

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.state = context.operator_state_store.broadcast_state("counts")
        if not context.is_restored:
            self.state.put("all", {"n": 0})

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        pass

    def invoke(self, value: int) -> None:
        raise ValueError(f"row {value}")

    def invoke_broadcast(self, value: int) -> None:
        self.state["all"]["n"] += value


def a_counting_run(restored: OperatorState | None = None) -> batches.SinkRun:
    sink = operatorstate.DriverSink(Counts(), parallelism=2, broadcast="true")
    return batches.SinkRun("out", sink, restored=restored, checkpoint_id=None)


def count(run: batches.SinkRun, batch: int, value: int) -> OperatorState:
    run.begin(batch)
    run.invoke_broadcast(value)
    body = run.end(at(batch))
    assert body is not None
    return record.decode(body, "a test")


def test_subtasks_that_change_restored_elements_in_place_do_not_change_those_of_others() -> None:
    restored = count(a_counting_run(), 0, 1)

    after = count(a_counting_run(restored), 1, 1)

    assert after.states["counts"].parts == ((("all", {"n": 2}),),) * 2


def test_a_batch_that_runs_again_does_not_see_elements_that_its_first_attempt_changed_in_place() -> None:
    run = a_counting_run(count(a_counting_run(), 0, 1))
    run.begin(1)
    run.invoke_broadcast(5)
    with pytest.raises(errors.StatefulSparkError):
        run.invoke(0, -1)

    after = count(run, 1, 1)

    assert after.states["counts"].parts == ((("all", {"n": 2}),),) * 2
