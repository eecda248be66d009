"""All functions of a job: declared, refused, restored at the right batch, told of the right checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from manifests import a_manifest, a_query
from sinkcontexts import a_written_query
from startsituations import a_start_plan
from statefulspark import errors, operatorstate, storage
from statefulspark.checkpoint import batch_records
from statefulspark.contract import layout
from statefulspark.contract.layout import SegmentName
from statefulspark.contract.manifest import OperatorStateEntry, QueryEntry
from statefulspark.operators import functions, refusals
from statefulspark.operators.functions import registry
from statefulspark.operatorstate import record
from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, OperatorStateMeta
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.sources import rendezvous, segmentfile
from statefulspark.testing import stores


class Remembering(
    operatorstate.SinkFunction[object], operatorstate.CheckpointedFunction, operatorstate.CheckpointListener
):
    """Tells what it was restored with, and which checkpoints it heard of."""

    seen: list[tuple[object, ...]] = []  # noqa: RUF012 - shared by all copies on purpose

    def initialize_state(self, context: operatorstate.FunctionInitializationContext) -> None:
        state = context.operator_state_store.list_state("values")
        self.seen.append(("restored", context.restored_checkpoint_id, state.get()))

    def snapshot_state(self, context: operatorstate.FunctionSnapshotContext) -> None:
        pass

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.seen.append(("complete", checkpoint_id))


class Position(operatorstate.SourceFunction[int], operatorstate.ListCheckpointed[int]):
    """Tells what it was restored with."""

    def run(self, ctx: operatorstate.SourceContext[int]) -> None:
        pass

    def cancel(self) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
        return []

    def restore_state(self, state: list[int]) -> None:
        Remembering.seen.append(("position", state))


class Stream:
    """As much of a DataFrame as is touched before a query starts."""

    @property
    def writeStream(self) -> Stream:  # noqa: N802 - Spark's name
        return self

    def outputMode(self, mode: str) -> Stream:  # noqa: N802 - Spark's name
        return self

    def foreachBatch(self, function: object) -> Stream:  # noqa: N802 - Spark's name
        return self


@dataclass
class Place:
    """A job's state in memory."""

    store: storage.ObjectStore
    options: storage.StorageOptions
    epoch: int = 2


@pytest.fixture
def place() -> Place:
    Remembering.seen = []
    return Place(stores.MemoryStore(), storage.StorageOptions())


def state_of(name: str, *values: object) -> OperatorState:
    return OperatorState(1, {name: NamedState(OperatorStateMeta(name, Mode.SPLIT), (values,))})


def write_record(place: Place, batch: int, *values: object, query: str = "q", uid: str = "out") -> None:
    log = batch_records.BatchRecordLog(place.store, layout.query_root(1, query))
    name = batch_records.RecordName(batch_records.RecordKind.OPERATOR_STATE, uid, batch, 1)
    log.write(name, record.encode(uid, state_of("values", *values)))


def write_segment(place: Place, number: int, position: int) -> SegmentName:
    name = SegmentName("counter", number, 1)
    body = record.encode("counter", state_of("list-checkpointed", position))
    root = place.store.child(layout.query_root(1, "q"))
    root.write(name.key, segmentfile.encode(name, pa.schema([("n", pa.int64())]), [[(1,)]], body))
    root.write(f"offsets/{number}", f'v1\n{{}}\n{{"uid":"counter","segment":{number},"epoch":1}}'.encode())
    return name


def declared_functions(*, sink: str | None = "out", source: str | None = None) -> functions.JobFunctions:
    declared = functions.JobFunctions()
    if source:
        with declared.collecting("q"):
            schema = pa.schema([("n", pa.int64())])
            registry.building().registry.add(registry.DeclaredSource(source, "q", Position(), 1, schema, 10))
    if sink:
        declared.declare("q", a_written_query(operatorstate.DriverSink(Remembering()), sink, frame=Stream()))
    return declared


def test_a138_a_sink_function_gets_its_state_after_the_last_committed_batch(place: Place) -> None:
    write_record(place, 3, "three")
    write_record(place, 5, "five")
    write_record(place, 8, "of a batch that was never committed")

    started = declared_functions().bind(place, a_start_plan(a_query("q", batch_id=7)))

    assert Remembering.seen == [("restored", None, ["five"])]
    assert list(started) == ["q"]


def test_a43_a144_the_functions_of_every_query_hear_which_snapshot_was_restored(place: Place) -> None:
    """Each is given its own state, as of the batch that its own query has committed."""
    entries = [a_query(uid, batch_id=batch) for uid, batch in (("q", 7), ("p", 3))]
    for batch in (3, 7):
        write_record(place, batch, f"q {batch}")
        write_record(place, batch, f"p {batch}", query="p", uid="other")
    declared = declared_functions()
    declared.declare("p", a_written_query(operatorstate.DriverSink(Remembering()), "other", frame=Stream()))
    plan = StartPlan(
        StartMode.CONTINUE,
        1,
        queries=tuple(entries),
        restored=a_manifest(41, entries),
        next_snapshot_id=42,
    )

    declared.bind(place, plan)

    assert Remembering.seen == [("restored", 41, ["q 7"]), ("restored", 41, ["p 3"])]
    assert declared.next_checkpoint_id() == 42


def test_a52_a_source_goes_on_after_the_newest_planned_batch(place: Place) -> None:
    write_segment(place, 7, 70)
    write_segment(place, 8, 80)  # Planned and not committed: it runs again, with this very segment.

    declared = declared_functions(sink=None, source="counter")
    declared.bind(place, a_start_plan(a_query("q", batch_id=7)))
    declared.close()

    assert Remembering.seen == [("position", [80])]


class Unstable(Position):
    """Emits a row, and cannot say where it is."""

    def run(self, ctx: operatorstate.SourceContext[int]) -> None:
        with ctx.checkpoint_lock:
            ctx.collect(1)

    def snapshot_state(self, checkpoint_id: int, when: datetime) -> list[int]:
        raise OSError("disk full")


def ask_until_it_fails(client: rendezvous.FeedClient) -> None:
    while True:  # The first answers may come before there is a row.
        client.latest(client.initial())


def test_a107_a_source_whose_state_cannot_be_taken_is_remembered_with_its_reason(place: Place) -> None:
    declared = functions.JobFunctions()
    with declared.collecting("q"):
        sources = registry.building().registry
        sources.add(registry.DeclaredSource("counter", "q", Unstable(), 1, pa.schema([("n", pa.int64())]), 10))
    declared.bind(place, a_start_plan(a_query("q", batch_id=-1)))
    client = rendezvous.FeedClient(port=sources.rendezvous.port, token=sources.rendezvous.token, feed="q/counter")

    with pytest.raises(errors.StatefulSparkError, match="disk full") as raised:
        ask_until_it_fails(client)
    refusal = declared.refusals.take("q")
    declared.close()

    assert refusal == refusals.Refusal("operator:counter", raised.value.message)


def test_a43_functions_start_empty_where_nothing_is_stored(place: Place) -> None:
    declared = declared_functions(source="counter")
    declared.bind(place, a_start_plan(a_query("q", batch_id=-1)))
    declared.close()

    assert Remembering.seen == [("restored", None, [])]


@pytest.mark.parametrize(
    ("sink", "source", "lost"),
    [
        pytest.param("out", "counter", None, id="everything has its place"),
        pytest.param("other", "counter", "function 'out'", id="a sink has another uid"),
        pytest.param(None, "counter", "function 'out'", id="the sink left"),
        pytest.param("out", None, "source 'counter'", id="the source left"),
    ],
)
def test_a_function_that_left_the_job_is_named(sink: str | None, source: str | None, lost: str | None) -> None:
    entry = QueryEntry(
        uid="q",
        batch_id=4,
        path="generations/00000001/q",
        offsets=('{"uid":"counter","segment":5,"epoch":1}', '{"kafka":{"0":1}}'),
        operator_states=(OperatorStateEntry(uid="out", path="operator-state/out/x.json", batch_id=4),),
    )
    declared = declared_functions(sink=sink, source=source)
    if lost is None:
        declared.require_place([entry])
    else:
        with pytest.raises(errors.SpecRejectedError, match=f"{lost} of query 'q'") as caught:
            declared.require_place([entry])
        assert caught.value.reason == "NonRestoredState"
    declared.close()


def test_every_function_takes_part_in_checkpoints_with_its_query() -> None:
    declared = declared_functions(source="counter")

    assert declared.participants == {"operator:counter": "q", "operator:out": "q"}
    declared.close()


def test_one_uid_for_two_functions_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match="'out'") as caught:
        declared_functions(source="out")

    assert caught.value.reason == "OperatorUidTaken"


def test_a48_a_sink_hears_of_a_checkpoint_up_to_the_batch_that_it_holds(place: Place) -> None:
    declared = declared_functions()
    declared.bind(place, a_start_plan(a_query("q", batch_id=-1), next_snapshot_id=5))
    run = declared._sinks["q"].run
    assert declared.next_checkpoint_id() == 5
    for batch in (0, 1):
        run.begin(batch)
        run.end(operatorstate.FunctionSnapshotContext(declared.next_checkpoint_id(), datetime.fromtimestamp(0, UTC)))
    declared.snapshot_begun(5)  # Batch 1 is not committed yet.
    assert declared.next_checkpoint_id() == 6

    for checkpoint, batch in ((5, 0), (6, 1)):
        declared.snapshot_covers(checkpoint, [a_query("q", batch_id=batch)])
        declared.notify_complete(checkpoint)

    assert [one for one in Remembering.seen if one[0] == "complete"] == [("complete", 6)]
