"""Functions with state: initialised, snapshotted, restored at another parallelism, told of checkpoints."""

from __future__ import annotations

import enum
import threading
from datetime import UTC, datetime

import pytest
import statefulspark as ss
from statefulspark import errors, operatorstate
from statefulspark.operatorstate import record, subtasks
from statefulspark.operatorstate.model import OperatorState

AT = operatorstate.FunctionSnapshotContext(checkpoint_id=5, when=datetime.fromtimestamp(1_700_000_000, UTC))


class BufferingSink(operatorstate.SinkFunction[object], operatorstate.CheckpointedFunction):
    """The buffering sink of Flink's documentation."""

    def __init__(self) -> None:
        self.buffered: list[object] = []
        self.seen: list[operatorstate.FunctionInitializationContext] = []

    def invoke(self, value: object) -> None:
        self.buffered.append(value)

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.seen.append(context)
        self.state = context.operator_state_store.list_state("buffered-elements")
        if context.is_restored:
            self.buffered.extend(self.state)

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        self.state.clear()
        self.state.add_all(self.buffered)


class CounterSource(operatorstate.ListCheckpointed[int]):
    """The counter of Flink's documentation, as far as its state goes."""

    def __init__(self) -> None:
        self.offset = 0
        self.restored: list[list[int]] = []
        self.asked: list[tuple[int, datetime]] = []

    def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
        self.asked.append((checkpoint_id, when))
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        self.restored.append(state)
        for offset in state:
            self.offset = offset


def through_storage(taken: OperatorState) -> OperatorState:
    return record.decode(record.encode("out", taken), "memory", uid="out")


def started(function: operatorstate.SinkFunction[object], parallelism: int, restored: OperatorState | None = None):  # type: ignore[no-untyped-def]
    made = subtasks.Subtasks("out", function, parallelism)
    made.initialize(restored, 4 if restored else None)
    return made


def test_a42_a43_the_first_start_initialises_every_subtask_without_state() -> None:
    made = started(BufferingSink(), 2)

    contexts = [function.seen[0] for function in made.functions]
    assert [(one.subtask_index, one.parallelism, one.is_restored, one.restored_checkpoint_id) for one in contexts] == [
        (0, 2, False, None),
        (1, 2, False, None),
    ]


def test_a45_the_buffering_sink_gets_back_what_it_held() -> None:
    made = started(BufferingSink(), 2)
    made.functions[0].buffered += ["a", "b", "c"]
    made.functions[1].buffered += ["d"]

    again = started(BufferingSink(), 2, through_storage(made.snapshot(AT)))

    assert [function.buffered for function in again.functions] == [["a", "b", "c"], ["d"]]
    assert again.functions[0].seen[0].restored_checkpoint_id == 4


def test_a34_a40_more_subtasks_share_the_elements_and_an_empty_one_is_restored_too() -> None:
    made = started(BufferingSink(), 1)
    made.functions[0].buffered += ["e1", "e2"]

    again = started(BufferingSink(), 3, through_storage(made.snapshot(AT)))

    assert [function.buffered for function in again.functions] == [["e1"], ["e2"], []]
    assert [function.seen[0].is_restored for function in again.functions] == [True, True, True]


def test_a46_a_list_checkpointed_function_is_asked_for_its_list_and_given_its_share() -> None:
    made = subtasks.Subtasks("counter", CounterSource(), 2)
    made.initialize(None, None)
    made.functions[0].offset, made.functions[1].offset = 56800, 56400
    taken = made.snapshot(AT)

    fewer = subtasks.Subtasks("counter", CounterSource(), 1)
    fewer.initialize(taken, 4)
    more = subtasks.Subtasks("counter", CounterSource(), 3)
    more.initialize(taken, 4)

    assert made.functions[0].restored == []
    assert made.functions[1].asked == [(5, AT.when)]
    assert fewer.functions[0].restored == [[56800, 56400]]  # A.41
    assert [function.restored for function in more.functions] == [[[56800]], [[56400]], [[]]]  # A.40


@pytest.mark.parametrize("answer", [None, [1, None]], ids=["no list", "an element that is None"])
def test_a_function_that_returns_no_list_is_refused_by_name(answer: object) -> None:
    class Forgetful(CounterSource):
        def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
            return answer  # type: ignore[return-value]

    made = subtasks.Subtasks("counter", Forgetful(), 1)
    made.initialize(None, None)

    with pytest.raises(errors.SpecRejectedError, match="snapshot 5 of function 'counter'"):
        made.snapshot(AT)


Call = tuple[object, ...]
"""The method of the store and its arguments."""


class Modes(operatorstate.SinkFunction[object], operatorstate.CheckpointedFunction):
    """Declares states as it is told to."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls
        self.handles: list[object] = []

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.handles = [getattr(context.operator_state_store, name)(*what) for name, *what in self.calls]

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        pass


def test_a37_a38_unions_and_broadcasts_reach_every_subtask() -> None:
    calls = (
        ("union_list_state", "offsets"),
        ("broadcast_state", "rules"),
        ("broadcast_state", "limits"),
    )
    made = started(Modes(*calls), 2)
    for index, function in enumerate(made.functions):
        function.handles[0].add(index)
        function.handles[1].put("rule", "on")

    again = started(Modes(*calls), 3, through_storage(made.snapshot(AT)))

    assert [function.handles[0].get() for function in again.functions] == [[0, 1]] * 3
    assert [function.handles[1].items() for function in again.functions] == [[("rule", "on")]] * 3
    assert [function.handles[2].is_empty() for function in again.functions] == [True] * 3


A39 = r"Incompatible state assignment modes\. Was \[SPLIT_DISTRIBUTE\], registered with \[UNION\]\."
LIST, UNION = ("list_state", "one"), ("union_list_state", "one")


def test_a39_one_name_in_two_modes_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match=A39) as caught:
        started(Modes(LIST, UNION), 1)

    assert caught.value.reason == "StateModeIncompatible"
    assert "function 'out'" in caught.value.message


def test_a39_a_restored_name_in_another_mode_is_refused() -> None:
    taken = started(Modes(LIST), 2).snapshot(AT)

    with pytest.raises(errors.SpecRejectedError, match=A39):
        started(Modes(UNION), 2, taken)


def test_a39_subtasks_that_declare_a_state_differently_are_refused() -> None:
    made = started(Modes(LIST), 2)
    other = started(Modes(UNION), 1)

    with pytest.raises(errors.SpecRejectedError, match=A39):
        subtasks.gather([made.snapshot_subtask(0, AT), other.snapshot_subtask(0, AT)])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param(("list_state", "no name"), "StateNameInvalid", id="no name"),
        pytest.param(("list_state", "two", str), "StateTypeIncompatible", id="another type"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(call: Call, reason: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        started(Modes(("list_state", "two", int), call), 1)

    assert caught.value.reason == reason


def test_asking_twice_for_a_state_gives_the_same_handle() -> None:
    made = started(Modes(LIST, LIST), 1)

    assert made.functions[0].handles[0] is made.functions[0].handles[1]


def test_restored_state_that_nobody_asks_for_is_written_again() -> None:
    made = started(Modes(LIST), 1)
    made.functions[0].handles[0].add("kept")

    silent = started(Modes(), 1, made.snapshot(AT))
    asking = started(Modes(LIST), 1, silent.snapshot(AT))

    assert asking.functions[0].handles[0].get() == ["kept"]


@pytest.mark.parametrize("kind", ["list_state", "union_list_state", "broadcast_state"])
def test_restored_state_that_nobody_asks_for_is_the_same_after_any_number_of_starts(kind: str) -> None:
    made = started(Modes((kind, "one")), 2)
    for function in made.functions:
        if kind == "broadcast_state":
            function.handles[0].put("kept", 1)
        else:
            function.handles[0].add("kept")
    taken = made.snapshot(AT)
    for parallelism in (2, 2, 3, 1, 4, 2):
        taken = started(Modes(), parallelism, through_storage(taken)).snapshot(AT)

    again = started(Modes((kind, "one")), 2, taken)

    whole = ["kept", "kept"]
    expected = {
        "list_state": [["kept"], ["kept"]],
        "union_list_state": [whole, whole],
        "broadcast_state": [["kept"]] * 2,
    }
    assert [list(function.handles[0]) for function in again.functions] == expected[kind]


def test_other_restored_state_of_a_function_that_is_list_checkpointed_now_is_kept() -> None:
    made = started(Modes(LIST), 1)
    made.functions[0].handles[0].add("kept")
    listed = subtasks.Subtasks("out", CounterSource(), 1)
    listed.initialize(made.snapshot(AT), 4)

    asking = started(Modes(LIST), 1, listed.snapshot(AT))

    assert asking.functions[0].handles[0].get() == ["kept"]


def test_lists_behave_as_keyed_lists_do() -> None:
    handle = operatorstate.OperatorListState[int]()

    handle.add_all([])
    assert handle.get() == []
    handle.add(1)
    handle.add_all([2, 3])
    assert list(handle) == [1, 2, 3]
    handle.update([9])
    assert handle.get() == [9]
    handle.update([])
    assert len(handle) == 0
    with pytest.raises(errors.SpecRejectedError, match=r"You cannot add null to a ListState\."):
        handle.add(None)  # type: ignore[arg-type]
    with pytest.raises(errors.SpecRejectedError, match=r"List of values to add cannot be null\."):
        handle.update(None)  # type: ignore[arg-type]


def test_broadcast_maps_behave_as_keyed_maps_do() -> None:
    handle = operatorstate.BroadcastState[str, int | None]()

    handle.put("a", 1)
    handle.put_all({"b": None, "c": 3})
    handle.remove("c")
    handle.remove("absent")
    assert (handle.get("a"), handle.get("b"), handle.get("c")) == (1, None, None)
    assert "b" in handle
    assert "c" not in handle
    assert handle["a"] == 1
    assert sorted(handle) == ["a", "b"]
    assert len(handle) == 2
    assert handle.values() == [1, None]
    handle.clear()
    assert handle.is_empty()


class Failing(operatorstate.SinkFunction[object], operatorstate.CheckpointedFunction, operatorstate.CheckpointListener):
    """Fails in one method."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.told: list[tuple[str, int]] = []

    def _at(self, where: str) -> None:
        if where == self.where:
            raise ValueError("no luck")

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self._at("initialize")

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        self._at("snapshot")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._at("complete")
        self.told.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._at("aborted")
        self.told.append(("aborted", checkpoint_id))


@pytest.mark.parametrize(
    ("where", "reason", "sentence"),
    [
        pytest.param(
            "initialize", "StateInitializationFailed", "Could not initialize state of function 'out'", id="initialize"
        ),
        pytest.param(
            "snapshot", "SnapshotFailed", "Could not complete snapshot 5 of function 'out'", id="A.111 snapshot"
        ),
        pytest.param(
            "complete", "NotifyFailed", r"notify_checkpoint_complete\(5\) of function 'out'", id="A.47 complete"
        ),
        pytest.param("aborted", "NotifyFailed", r"notify_checkpoint_aborted\(5\) of function 'out'", id="aborted"),
    ],
)
def test_what_a_function_raises_names_it_and_what_it_was_doing(where: str, reason: str, sentence: str) -> None:
    def live() -> None:
        made = started(Failing(where), 2)
        made.snapshot(AT)
        made.notify_complete(5)
        made.notify_aborted(5)

    raised = r" \(Failing\) raised ValueError: no luck"
    with pytest.raises(errors.StatefulSparkError, match=sentence + raised) as caught:
        live()

    assert caught.value.reason == reason


def test_a47_listeners_are_told_in_every_subtask() -> None:
    made = started(Failing("nowhere"), 2)

    made.notify_complete(5)
    made.notify_aborted(6)

    assert [function.told for function in made.functions] == [[("complete", 5), ("aborted", 6)]] * 2


def test_a_function_is_copied_for_every_subtask() -> None:
    prototype = BufferingSink()

    made = started(prototype, 2)
    made.functions[0].invoke("x")

    assert (prototype.buffered, made.functions[1].buffered) == ([], [])


class Both(BufferingSink, operatorstate.ListCheckpointed[int]):
    """Checkpointed in two ways."""


class Uncopyable(BufferingSink):
    """Holds what cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda: started(Both(), 1), "FunctionInvalid", id="checkpointed in two ways"),
        pytest.param(lambda: started(Uncopyable(), 1), "FunctionNotCopyable", id="holds a lock"),
        pytest.param(
            lambda: operatorstate.DriverSink(BufferingSink), "FunctionInvalid", id="a class instead of an instance"
        ),
        pytest.param(
            lambda: operatorstate.DriverSink(BufferingSink(), parallelism=0), "ParallelismInvalid", id="no subtask"
        ),
        pytest.param(
            lambda: operatorstate.DriverSink(BufferingSink(), parallelism=True), "ParallelismInvalid", id="a flag"
        ),
    ],
)
def test_functions_that_cannot_run_are_refused(make, reason: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(errors.SpecRejectedError) as caught:
        make()

    assert caught.value.reason == reason


def test_a_job_file_finds_everything_in_two_public_modules() -> None:
    assert {*dir(ss.driver), *dir(ss.sinks)} >= set(operatorstate.__all__)


class Level(enum.Enum):
    """A type of the user's own."""

    LOW = 1
    HIGH = 2


class Celsius(ss.codecs.Codec[float]):
    """A codec that wrote whole tenths first, and text since."""

    name = "celsius"
    version = 2

    def encode(self, value: float) -> object:
        return f"{value:.1f}"

    def decode(self, stored: object) -> float:
        return float(str(stored))

    def migrate(self, stored: object, version: int) -> object:
        return f"{int(str(stored)) / 10:.1f}"


class CelsiusBefore(Celsius):
    """Its first version."""

    version = 1

    def encode(self, value: float) -> object:
        return round(value * 10)

    def decode(self, stored: object) -> float:
        return int(str(stored)) / 10


def holding(call: Call, *values: object) -> OperatorState:
    made = started(Modes(call), 1)
    for value in values:
        made.functions[0].handles[0].add(value)
    return through_storage(made.snapshot(AT))


@pytest.mark.parametrize(
    ("before", "now", "values", "expected"),
    [
        pytest.param(Level, Level, [Level.HIGH], [Level.HIGH], id="an enum"),
        pytest.param(int, float, [7], [7.0], id="wider numbers"),
        pytest.param(None, int, [7], [7], id="a type given later"),
        pytest.param(
            CelsiusBefore(),
            Celsius(),
            [21.5],
            [21.5],
            id="a codec's new version",
        ),
    ],
)
def test_elements_follow_the_types_that_a_job_declares(
    before: object, now: object, values: list[object], expected: list[object]
) -> None:
    made = started(Modes(("list_state", "one", now)), 1, holding(("list_state", "one", before), *values))

    found = made.functions[0].handles[0].get()
    again = started(Modes(("list_state", "one", now)), 1, through_storage(made.snapshot(AT)))

    assert (found, [type(one) for one in found]) == (expected, [type(one) for one in expected])
    assert again.functions[0].handles[0].get() == expected


def test_a14_an_incompatible_type_is_refused_by_both_names() -> None:
    taken = holding(("list_state", "one", str), "x")

    with pytest.raises(errors.SpecRejectedError, match=r"array<str>.*array<int>") as caught:
        started(Modes(("list_state", "one", int)), 1, taken)

    assert caught.value.reason == "StateTypeIncompatible"
