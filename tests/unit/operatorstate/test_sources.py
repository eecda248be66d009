"""Stateful sources without Spark: rows and state are one cut, whatever the source and the stream are doing."""

from __future__ import annotations

import contextlib
import runpy
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from statefulspark import errors, operatorstate, storage
from statefulspark.contract import layout
from statefulspark.contract.layout import SegmentName
from statefulspark.operatorstate import record, subtasks
from statefulspark.sources import feed, rendezvous, running, segmentfile
from statefulspark.storage.authorities import Authority
from statefulspark.testing import stores

SCHEMA = pa.schema([("n", pa.int64())])
AT = operatorstate.FunctionSnapshotContext(1, datetime.fromtimestamp(0, UTC))
PATIENCE_S = 20.0


class Counter(operatorstate.SourceFunction[int], operatorstate.ListCheckpointed[int], operatorstate.CheckpointListener):
    """The counter source of Flink's documentation."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.offset = 0
        self.stop_at = stop_at
        self.running = True
        self.told: list[int] = []

    def run(self, ctx: operatorstate.SourceContext[int]) -> None:
        while self.running and self.offset != self.stop_at:
            with ctx.checkpoint_lock:
                ctx.collect(self.offset)
                self.offset += 1

    def cancel(self) -> None:
        self.running = False

    def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        for offset in state:
            self.offset = offset

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.told.append(-checkpoint_id)


@pytest.fixture
def closing() -> Iterator[list[running.RunningSource]]:
    made: list[running.RunningSource] = []
    yield made
    for source in made:
        source.close()


def a_source(
    function: operatorstate.SourceFunction[object],
    closing: list[running.RunningSource],
    *,
    parallelism: int = 1,
    capacity: int = 50,
    columns: tuple[str, ...] = ("n",),
) -> running.RunningSource:
    made = subtasks.Subtasks("counter", function, parallelism)
    made.initialize(None, None)
    source = running.RunningSource(made, columns=columns, capacity=capacity)
    closing.append(source)
    return source


def wait_for_rows(source: running.RunningSource) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not source.wait_for_rows(0.2):
        assert time.monotonic() < deadline_s, "no rows"


def test_a50_every_cut_holds_exactly_the_rows_that_its_state_counts(closing: list[running.RunningSource]) -> None:
    source = a_source(Counter(), closing, parallelism=2, capacity=7)
    source.start()
    taken: list[list[int]] = [[], []]

    for _ in range(200):
        wait_for_rows(source)
        cut = source.cut(AT)
        assert cut.state is not None
        offsets = [part[0] for part in cut.state.states[subtasks.LIST_CHECKPOINTED].parts]
        for index, rows in enumerate(cut.rows):
            taken[index] += [row[0] for row in rows]  # type: ignore[misc]
            assert taken[index] == list(range(offsets[index]))  # type: ignore[arg-type]


def test_the_example_counts_on_from_what_was_cut(closing: list[running.RunningSource]) -> None:
    example = runpy.run_path(
        str(Path(__file__).resolve().parents[3] / "examples" / "operator_state" / "counter_source.py")
    )
    taken: list[object] = []
    state = None

    for _ in range(3):
        made = subtasks.Subtasks("counter", example["CounterSource"](0.0), 1)
        made.initialize(state, None)
        source = running.RunningSource(made, columns=("subtask", "number"), capacity=50)
        closing.append(source)
        source.start()
        wait_for_rows(source)
        cut = source.cut(AT)
        taken, state = [*taken, *cut.rows[0]], cut.state

    assert taken == [(0, number) for number in range(len(taken))]
    assert len(taken) >= 3


class Positions(operatorstate.SourceFunction[int], operatorstate.CheckpointedFunction):
    """Its state is a dict, which it changes in place."""

    def __init__(self) -> None:
        self.positions = {"partition-0": 0}

    def run(self, ctx: operatorstate.SourceContext[int]) -> None:
        ctx.collect(0)

    def cancel(self) -> None:
        pass

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        self.state = context.operator_state_store.list_state("positions")
        self.state.update([self.positions])

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        pass


def test_a_state_that_is_changed_in_place_after_its_cut_is_that_of_the_cut(
    closing: list[running.RunningSource],
) -> None:
    made = subtasks.Subtasks("positions", Positions(), 1)
    made.initialize(None, None)
    source = running.RunningSource(made, columns=("n",), capacity=50)
    closing.append(source)

    cut = source.cut(AT)
    made.functions[0].positions["partition-0"] = 7

    assert cut.state is not None
    assert cut.state.states["positions"].parts == (({"partition-0": 0},),)


class LettingIn:
    """The lock of a source's only subtask, which goes on with its source whenever the runtime has left it."""

    def __init__(self, held: running.CheckpointLock, counter: Counter) -> None:
        self._lock = held
        self._counter = counter

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        with self._lock.held():
            yield
            before = self._counter.offset
        deadline_s = time.monotonic() + PATIENCE_S
        while self._counter.offset == before:
            assert time.monotonic() < deadline_s, "the source does not go on"
            time.sleep(0)

    def __getattr__(self, name: str) -> object:
        return getattr(self._lock, name)


def test_a50_nothing_is_emitted_between_the_state_of_a_cut_and_its_rows(closing: list[running.RunningSource]) -> None:
    """With room in the buffer, so that nothing but the lock holds the source back."""
    source = a_source(Counter(), closing, capacity=10**9)
    (counter,) = source._function.functions
    source._locks = tuple(LettingIn(one, counter) for one in source._locks)  # type: ignore[misc, arg-type]
    source.start()

    taken = 0
    for _ in range(5):
        wait_for_rows(source)
        cut = source.cut(AT)
        taken += len(cut.rows[0])
        assert cut.state is not None
        assert cut.state.states[subtasks.LIST_CHECKPOINTED].parts == ((taken,),)


def test_a133_a_source_that_is_ahead_waits_outside_the_lock(closing: list[running.RunningSource]) -> None:
    source = a_source(Counter(), closing, capacity=5)
    source.start()
    wait_for_rows(source)
    time.sleep(0.05)

    rows = source.cut(AT).rows[0]

    assert len(rows) <= 5


def test_a_critical_section_is_never_divided_though_it_exceeds_the_buffer(closing: list[running.RunningSource]) -> None:
    class Pairs(Counter):
        def run(self, ctx: operatorstate.SourceContext[int]) -> None:
            while self.running:
                with ctx.checkpoint_lock:
                    self.offset += 2  # Before the emission, which the lock allows as well.
                    with ctx.checkpoint_lock:
                        ctx.collect(self.offset - 2)
                    ctx.collect(self.offset - 1)

    source = a_source(Pairs(), closing, capacity=1)
    source.start()
    seen: list[object] = []

    for _ in range(50):
        wait_for_rows(source)
        cut = source.cut(AT)
        seen += [row[0] for row in cut.rows[0]]
        assert cut.state is not None
        assert seen == list(range(cut.state.states[subtasks.LIST_CHECKPOINTED].parts[0][0]))  # type: ignore[call-overload]


def test_a51_cancel_ends_a_source_that_waits_for_room(closing: list[running.RunningSource]) -> None:
    source = a_source(Counter(), closing, capacity=1)
    source.start()
    wait_for_rows(source)

    source.close()

    assert source.is_finished


def test_the_runtime_may_enter_the_lock_of_a_full_buffer_and_user_code_below_it_too() -> None:
    full = running.CheckpointLock(1)
    with full:
        full.add((1,))

    with full.held(), full:
        assert full.take() == [(1,)]


def test_a_source_that_ends_keeps_its_rows_and_state(closing: list[running.RunningSource]) -> None:
    source = a_source(Counter(stop_at=3), closing)
    source.start()
    while not source.is_finished:
        time.sleep(0.01)

    cut = source.cut(AT)

    assert cut.rows == ([(0,), (1,), (2,)],)
    assert not source.wait_for_rows(0)


def test_a47_listeners_of_a_source_are_told_under_their_lock(closing: list[running.RunningSource]) -> None:
    source = a_source(Counter(), closing, parallelism=2, capacity=1)
    source.start()
    wait_for_rows(source)

    source.notify_complete(4)
    source.notify_aborted(5)

    assert [function.told for function in source._function.functions] == [[4, -5]] * 2  # type: ignore[attr-defined]


class Emitting(operatorstate.SourceFunction[object]):
    """Emits what it is given, then raises if it is told to."""

    def __init__(self, *rows: object, failing: bool = False) -> None:
        self.rows = rows
        self.failing = failing

    def run(self, ctx: operatorstate.SourceContext[object]) -> None:
        for row in self.rows:
            ctx.collect(row)
        if self.failing:
            raise OSError("socket closed")

    def cancel(self) -> None:
        pass


TWO = ("n", "text")


@pytest.mark.parametrize(
    ("row", "columns", "expected"),
    [
        pytest.param((1, "a"), TWO, (1, "a"), id="a tuple"),
        pytest.param([1, "a"], TWO, (1, "a"), id="a list"),
        pytest.param({"text": "a"}, TWO, (None, "a"), id="a dict, what it lacks is null"),
        pytest.param(5, ("n",), (5,), id="a single value"),
        pytest.param([5], ("n",), ([5],), id="a list as the value of the only column"),
        pytest.param((5,), ("n",), (5,), id="a tuple of one"),
    ],
)
def test_rows_may_be_written_in_several_ways(
    row: object, columns: tuple[str, ...], expected: tuple[object, ...], closing: list[running.RunningSource]
) -> None:
    source = a_source(Emitting(row), closing, columns=columns)
    source.start()
    wait_for_rows(source)

    assert source.cut(AT).rows == ([expected],)


@pytest.mark.parametrize("row", [(1,), (1, "a", 2), {"n": 1, "other": 2}, 7], ids=["short", "long", "unknown", "bare"])
def test_a_row_that_does_not_fit_the_schema_fails_the_source(row: object, closing: list[running.RunningSource]) -> None:
    source = a_source(Emitting(row), closing, columns=TWO)
    source.start()

    with pytest.raises(
        errors.SpecRejectedError, match=r"run\(\) of subtask 0 of function 'counter'.*columns n, text"
    ) as caught:
        wait_for_rows(source)

    assert caught.value.reason == "SourceRowInvalid"


def test_what_a_source_raises_reaches_the_stream(closing: list[running.RunningSource]) -> None:
    source = a_source(Emitting(1, failing=True), closing)
    source.start()

    def look() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            source.wait_for_rows(0.1)

    with pytest.raises(errors.StatefulSparkError, match=r"'counter' \(Emitting\) raised OSError: socket closed"):
        look()


# Segments


NAME = SegmentName("counter", 7, 3)


def test_a_segment_holds_rows_by_subtask_and_the_state() -> None:
    body = segmentfile.encode(NAME, SCHEMA, [[(1,), (2,)], [], [(3,)]], b"{}")

    segment = segmentfile.decode(body, "here", uid="counter")

    assert segment.header.subtasks == (0, 2)
    assert [batch.to_pydict() for batch in segment.rows_of(0)] == [{"n": [1, 2]}]
    assert segment.rows_of(1) == ()
    assert segment.state == b"{}"


def test_a_segment_of_a_source_without_state_has_none() -> None:
    assert segmentfile.decode(segmentfile.encode(NAME, SCHEMA, [[(1,)]], None), "here").state is None


def test_a_value_that_does_not_fit_its_column_is_refused_by_the_column() -> None:
    with pytest.raises(errors.SpecRejectedError, match="does not fit type int64 of column 'n'"):
        segmentfile.encode(NAME, SCHEMA, [[("five",)]], None)


GOOD = segmentfile.encode(NAME, SCHEMA, [[(1,)]], b"{}")


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        pytest.param(b"", "counter", id="empty"),
        pytest.param(GOOD[:-20], "counter", id="cut short"),
        pytest.param(b"\x80\x04" + GOOD, "counter", id="something else"),
        pytest.param(GOOD, "other", id="of another source"),
    ],
)
def test_a_damaged_segment_is_told(body: bytes, uid: str) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="s3://b/7"):
        segmentfile.decode(body, "s3://b/7", uid=uid)


def test_names_of_segments() -> None:
    assert NAME.key == "source-segments/counter/00000007-00000003.arrow"
    assert layout.parse_segment_key(NAME.key) == NAME
    assert layout.parse_source_offset('{"uid": "counter", "segment": 7, "epoch": 3}') == NAME
    assert layout.segment_keys(['{"logOffset":4}', "-", "12", '{"uid":"counter","segment":7,"epoch":3}']) == (NAME.key,)
    assert layout.segment_keys(['{"uid":"counter","segment":0,"epoch":0}']) == ()


@pytest.mark.parametrize(
    "line", ["-", "[]", '{"uid":"../x","segment":1,"epoch":1}', '{"uid":"a","segment":"1","epoch":1}']
)
def test_other_offsets_are_not_taken_for_segments(line: str) -> None:
    assert layout.parse_source_offset(line) is None


@pytest.mark.parametrize(
    "key", ["offsets/1", "source-segments/a/1-1.arrow", "source-segments/a/b/00000001-00000001.arrow"]
)
def test_other_files_are_not_taken_for_segments(key: str) -> None:
    assert layout.parse_segment_key(key) is None


# The feed


def a_feed(
    store: storage.ObjectStore,
    closing: list[running.RunningSource],
    function: operatorstate.SourceFunction[object] | None = None,
    *,
    epoch: int = 3,
    position: SegmentName | None = None,
) -> feed.SourceFeed:
    return feed.SourceFeed(
        a_source(function or Counter(), closing, parallelism=2),
        store=store,
        schema=SCHEMA,
        epoch=epoch,
        position=position or layout.first_position("counter"),
        next_checkpoint_id=lambda: 9,
    )


def rows_at(store: storage.ObjectStore, name: SegmentName) -> list[object]:
    return [value for batch in feed.read(store, name).batches for value in batch.to_pydict()["n"]]


def test_the_same_segment_is_answered_until_spark_goes_on_from_it(closing: list[running.RunningSource]) -> None:
    store = stores.MemoryStore()
    fed = a_feed(store, closing, Counter(stop_at=5))

    first = fed.latest(fed.initial(), wait_s=PATIENCE_S)
    again = fed.latest(fed.initial(), wait_s=0)

    assert first == again == SegmentName("counter", 1, 3)
    assert [info.key for info in store.list("source-segments")] == [first.key]


def test_without_rows_the_offset_stays_and_nothing_is_written(closing: list[running.RunningSource]) -> None:
    store = stores.MemoryStore()
    fed = a_feed(store, closing, Counter(stop_at=0))

    assert fed.latest(fed.initial(), wait_s=0.05) == fed.initial()
    assert store.list("") == ()


def test_segments_follow_each_other_without_gap_or_repetition(closing: list[running.RunningSource]) -> None:
    store = stores.MemoryStore()
    fed = a_feed(store, closing)
    position, seen = fed.initial(), []

    for number in range(1, 20):
        position = fed.latest(position, wait_s=PATIENCE_S)
        assert position == SegmentName("counter", number, 3)
        seen += rows_at(store, position)

    ends = record.decode(feed.read(store, position).state or b"", "memory").states[subtasks.LIST_CHECKPOINTED].parts
    assert sorted(seen) == sorted([*range(ends[0][0]), *range(ends[1][0])])  # type: ignore[call-overload, type-var]


def test_a_place_names_the_subtasks_that_have_rows_also_of_another_drivers_segment(
    closing: list[running.RunningSource],
) -> None:
    store = stores.MemoryStore()
    store.write(NAME.key, segmentfile.encode(NAME, SCHEMA, [[], [(3,)]], None))
    fed = a_feed(store, closing, epoch=4, position=NAME)

    assert fed.locate(SegmentName("counter", 6, 3), NAME) == feed.SegmentLocation(store.uri, NAME.key, "counter", (1,))
    assert fed.locate(NAME, NAME) is None


def test_an_offset_that_is_ahead_of_the_state_is_refused(closing: list[running.RunningSource]) -> None:
    fed = a_feed(stores.MemoryStore(), closing, position=NAME)

    with pytest.raises(errors.StateUnknownError, match="after segment 9 of epoch 4"):
        fed.latest(SegmentName("counter", 9, 4), wait_s=0)


def test_a_segment_that_is_gone_is_told(closing: list[running.RunningSource]) -> None:
    fed = a_feed(stores.MemoryStore(), closing)

    with pytest.raises(
        errors.SnapshotCorruptError, match=r"source-segments/counter/00000007-00000003\.arrow is missing"
    ):
        fed.locate(layout.first_position("counter"), NAME)


# The socket


@pytest.fixture
def meeting() -> Iterator[rendezvous.Rendezvous]:
    made = rendezvous.Rendezvous()
    yield made
    made.close()


def test_a_client_gets_offsets_and_places(
    meeting: rendezvous.Rendezvous, closing: list[running.RunningSource], tmp_path: Path
) -> None:
    authority = Authority("the file ca.crt", "-----BEGIN CERTIFICATE-----", "ca.crt")
    options = storage.StorageOptions(access_key="a", secret_key="b", allow_local_files=True, authority=authority)
    store = storage.open_store(tmp_path.as_uri(), options)
    meeting.offer("q/counter", a_feed(store, closing), options)
    client = rendezvous.FeedClient(port=meeting.port, token=meeting.token, feed="q/counter")

    start = client.initial()
    end = client.latest(start)
    while end == start:
        end = client.latest(start)
    found = client.locate(start, end)

    assert start == {"uid": "counter", "segment": 0, "epoch": 0}
    assert end == {"uid": "counter", "segment": 1, "epoch": 3}
    assert found is not None
    assert found[0].key == "source-segments/counter/00000001-00000003.arrow"
    assert found[1] == options
    assert client.locate(end, end) is None


@pytest.mark.parametrize(
    ("token", "name", "reason"),
    [
        pytest.param("wrong", "q/counter", "TokenWrong", id="a wrong token"),
        pytest.param(None, "q/other", "SourceUnknown", id="a source of another driver"),
    ],
)
def test_a_client_that_has_no_business_here_is_refused(
    meeting: rendezvous.Rendezvous, token: str | None, name: str, reason: str
) -> None:
    client = rendezvous.FeedClient(port=meeting.port, token=token or meeting.token, feed=name)

    with pytest.raises(errors.StatefulSparkError) as caught:
        client.initial()

    assert caught.value.reason == reason


def test_what_a_source_raises_reaches_the_client(
    meeting: rendezvous.Rendezvous, closing: list[running.RunningSource]
) -> None:
    meeting.offer("q/counter", a_feed(stores.MemoryStore(), closing, Emitting(failing=True)), storage.StorageOptions())
    client = rendezvous.FeedClient(port=meeting.port, token=meeting.token, feed="q/counter")
    threads_before = threading.active_count()

    def ask() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            client.latest(client.initial())

    with pytest.raises(errors.StatefulSparkError, match="socket closed") as caught:
        ask()

    assert caught.value.reason == "SourceFailed"
    assert threading.active_count() < threads_before + 50


def test_a_source_that_exits_fails_and_does_not_count_as_finished(closing: list[running.RunningSource]) -> None:
    class Exiting(Counter):
        def run(self, ctx: operatorstate.SourceContext[int]) -> None:
            sys.exit("no such topic")

    fed = a_feed(stores.MemoryStore(), closing, Exiting())

    with pytest.raises(errors.UserCodeError, match=r"'counter'.*raised SystemExit: no such topic") as caught:
        fed.latest(fed.initial(), wait_s=PATIENCE_S)

    assert caught.value.reason == "SourceFailed"


def test_a_segment_that_could_not_be_written_is_written_by_the_next_question(
    closing: list[running.RunningSource],
) -> None:
    store = stores.FaultyStore(stores.MemoryStore(), stores.Plan(fail_at=frozenset({1}), only=frozenset({"write"})))
    fed = a_feed(store, closing, Counter(stop_at=5))

    with pytest.raises(errors.TransientError):
        fed.latest(fed.initial(), wait_s=PATIENCE_S)
    while not fed.source.is_finished:
        time.sleep(0.01)

    position, seen = fed.initial(), []
    while len(seen) < 10:
        position = fed.latest(position, wait_s=0.2)
        seen += rows_at(store, position)
    assert sorted(seen) == sorted([*range(5), *range(5)])  # type: ignore[type-var]


def test_a48_a_source_hears_of_a_checkpoint_that_holds_its_segments(closing: list[running.RunningSource]) -> None:
    fed = a_feed(stores.MemoryStore(), closing)
    first = fed.latest(fed.initial(), wait_s=PATIENCE_S)
    fed.latest(first, wait_s=PATIENCE_S)

    fed.covers(9, 1)
    fed.notify_complete(9)  # Holds segment 1; segment 2 was taken under the number 9, too.
    fed.covers(10, 2)
    fed.notify_complete(10)
    fed.notify_aborted(11)

    assert [function.told for function in fed.source._function.functions] == [[10, -11]] * 2  # type: ignore[attr-defined]


def test_damage_is_told_as_damage_across_the_socket(
    meeting: rendezvous.Rendezvous, closing: list[running.RunningSource]
) -> None:
    meeting.offer("q/counter", a_feed(stores.MemoryStore(), closing), storage.StorageOptions())
    client = rendezvous.FeedClient(port=meeting.port, token=meeting.token, feed="q/counter")

    with pytest.raises(errors.SnapshotCorruptError, match="is missing"):
        client.locate(layout.first_position("counter").offset, NAME.offset)
