"""A start that goes back behind what a sink has shown batch by batch: refused by name, and done only with the word."""

from __future__ import annotations

import itertools

import pytest
import sinkdrivers
from manifests import NEW_YEAR
from restores import a_restore
from sinkcontexts import a_marker, a_sink_context, a_written_query, at
from sinkdrivers import NAMED, QUERY, Driver
from snapshots import Clock, Job
from statefulspark import errors
from statefulspark.checkpoint import lineage_records
from statefulspark.contract import config
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.manifest import Ancestor, GenerationRecord, Position, QueryEntry
from statefulspark.driver.starting import sink_comparison, start_parts
from statefulspark.recovery import generations, history, recovery
from statefulspark.recovery.plan import StartMode, StartPlan
from statefulspark.sinks import marker
from statefulspark.sinks.standing import SinkLineage
from statefulspark.storage import StorageOptions
from statefulspark.testing import stores
from toldsinks import FakeSink, MarkedSink

_wishes = itertools.count(1)


@pytest.fixture
def bucket() -> stores.MemoryStore:
    return stores.MemoryStore("memory://bucket", Clock())


def to(snapshot: str, *, takes_over: bool = False) -> RestoreConfig:
    return a_restore(snapshot=snapshot, nonce=f"wish-{next(_wishes)}", repeat_output_of=NAMED if takes_over else ())


def start(bucket: stores.MemoryStore, sink: FakeSink, restore: RestoreConfig | None = None) -> Driver:
    return Driver(bucket, Clock(), restore, sink=sink)


def shown_up_to_batch_4(bucket: stores.MemoryStore, sink: FakeSink) -> str:
    """Run five batches that a sink shows, with a checkpoint after the second; return the checkpoint."""
    driver = start(bucket, sink)
    driver.batch(2)
    driver.show()
    checkpoint = driver.checkpoint()
    driver.batch(3)
    driver.show()
    return f"checkpoint:{checkpoint.id}"


def compare(bucket: stores.MemoryStore, sink: object, restore: RestoreConfig) -> StartPlan:
    """Do what a check does with sinks; return the plan if they have nothing against it."""
    store = bucket.child("default/flights")
    job_config = config.JobConfig(
        name="flights", storage=config.StorageConfig(uri="s3://bucket"), restore=restore, owner_id="uid"
    )
    start_plan = recovery.plan_recovery(
        store, restore=restore, open_store=lambda uri: Job(Clock()).on(bucket).open_store(uri)
    )
    root = start_parts.JobRoot(store, StorageOptions())
    outputs = {QUERY: a_written_query(sink)}
    sink_comparison.require_contained(job_config, root, start_plan, outputs)
    return start_plan


def test_an_older_checkpoint_is_refused_with_the_sink_the_batch_and_the_word(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    older = shown_up_to_batch_4(bucket, sink)

    with pytest.raises(errors.SpecRejectedError) as raised:
        start(bucket, sink, to(older))

    assert raised.value.reason == "SinkAhead"
    for part in ("sink 'out'", "has batch 4 (generation 1)", "continue after batch 1", "--restore-repeat-output-of"):
        assert part in raised.value.message
    assert sink.shown == [f"1/{batch}" for batch in range(5)]


def test_with_the_word_what_follows_the_checkpoint_is_shown_once_more_and_nothing_is_lost(
    bucket: stores.MemoryStore,
) -> None:
    sink = MarkedSink()
    older = shown_up_to_batch_4(bucket, sink)
    driver = start(bucket, sink, to(older, takes_over=True))
    driver.batch()
    driver.show()
    following = start(bucket, sink)
    following.batch()
    following.show()

    assert sink.shown == [*(f"1/{batch}" for batch in range(5)), "2/2", "2/3"]


def test_the_word_counts_for_the_restarts_after_it_before_anything_was_shown(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    older = shown_up_to_batch_4(bucket, sink)
    start(bucket, sink, to(older, takes_over=True))
    driver = start(bucket, sink)
    driver.batch()
    driver.show()

    assert sink.shown[-1] == "2/2"


def test_a_sink_that_shows_checkpoints_goes_back_as_before(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink(visible="checkpoint")
    older = shown_up_to_batch_4(bucket, sink)
    driver = start(bucket, sink, to(older))
    driver.batch()
    driver.checkpoint()

    assert sink.shown == ["1/0", "1/1", "2/2"]


def test_the_newest_state_is_no_way_back_whatever_it_is_restored_from(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    shown_up_to_batch_4(bucket, sink)
    driver = start(bucket, sink)
    driver.batch()
    driver.show()
    place = driver.savepoint()
    copied = start(bucket, sink, to(place))
    again = start(bucket, sink, to(place))
    again.batch()
    again.show()

    assert (copied.plan.generation, again.plan.generation) == (1, 1) or again.plan.generation > 1
    assert sink.shown[-1] == f"{again.plan.generation}/6"


def test_a_left_branch_is_not_gone_back_to_behind_what_the_other_one_showed(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    older = shown_up_to_batch_4(bucket, sink)
    driver = start(bucket, sink)
    forward = driver.savepoint()
    other = start(bucket, sink, to(older, takes_over=True))
    other.batch()
    other.show()

    with pytest.raises(errors.SpecRejectedError, match=r"has batch 2 \(generation 2\)"):
        start(bucket, sink, to(forward))


def test_empty_state_is_refused_in_front_of_what_was_shown(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    shown_up_to_batch_4(bucket, sink)

    with pytest.raises(errors.SpecRejectedError, match="continue from the beginning"):
        start(bucket, sink, a_restore(empty=True, nonce="anew"))


def test_a_files_sink_withdraws_what_the_checkpoint_does_not_contain(bucket: stores.MemoryStore) -> None:
    """It needs no word: nothing is there twice."""
    driver = Driver(bucket, Clock(), visible="batch")
    driver.batch(2)
    older = driver.checkpoint()
    driver.batch(3)
    driver.show()
    before = sinkdrivers.visible(bucket)
    following = Driver(bucket, Clock(), to(f"checkpoint:{older.id}"), visible="batch")
    opened = sinkdrivers.visible(bucket)
    following.batch()
    following.show()

    assert before == sinkdrivers.expected((1, 5))
    assert opened == sinkdrivers.expected((1, 2))
    assert sinkdrivers.visible(bucket) == sinkdrivers.expected((1, 2), (2, 1))


def test_a_check_says_it_before_anything_is_stopped_and_changes_nothing(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    older = shown_up_to_batch_4(bucket, sink)
    before = {info.key: info.etag for info in bucket.list("")}, sink.marker

    with pytest.raises(
        errors.SpecRejectedError, match=r"sink .out. cannot go on: memory://target has batch 4"
    ) as raised:
        compare(bucket, sink, to(older))

    assert raised.value.reason == "SinkAhead"
    assert ({info.key: info.etag for info in bucket.list("")}, sink.marker) == before


def test_a_start_that_is_refused_leaves_the_generation_in_use_as_it_is(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    older = shown_up_to_batch_4(bucket, sink)
    with pytest.raises(errors.SpecRejectedError):
        compare(bucket, sink, to(older))
    driver = start(bucket, sink)
    driver.batch()
    driver.show()

    assert sink.shown == [f"1/{batch}" for batch in range(6)]


@pytest.mark.parametrize(
    ("sink", "restore"),
    [
        pytest.param(MarkedSink(visible="checkpoint"), to("checkpoint:1"), id="a sink that shows checkpoints"),
        pytest.param(MarkedSink(), to("checkpoint:1", takes_over=True), id="with the word"),
        pytest.param(MarkedSink(), RestoreConfig(), id="the newest state"),
        pytest.param(
            FakeSink(visible="batch"), to("checkpoint:1"), id="a sink that cannot tell, and is asked at its opening"
        ),
    ],
)
def test_a_check_has_nothing_against(bucket: stores.MemoryStore, sink: FakeSink, restore: RestoreConfig) -> None:
    shown_up_to_batch_4(bucket, sink)
    assert compare(bucket, sink, restore).queries[0].uid == QUERY


def test_damage_that_leads_back_behind_what_was_shown_is_refused(bucket: stores.MemoryStore) -> None:
    """Without a word from anybody, the next driver would copy the checkpoint."""
    sink = MarkedSink()
    shown_up_to_batch_4(bucket, sink)
    for info in bucket.child("default/flights").list("generations/00000001"):
        if info.key.endswith("/commits/4") or info.key.endswith("/commits/3"):
            bucket.child("default/flights").write(info.key, b"rotten")

    with pytest.raises(errors.SpecRejectedError) as raised:
        start(bucket, sink)
    assert raised.value.reason == "SinkAhead"


def test_commits_that_were_lost_are_not_taken_for_batches_that_never_were(bucket: stores.MemoryStore) -> None:
    sink = MarkedSink()
    shown_up_to_batch_4(bucket, sink)
    store = bucket.child("default/flights")
    lost = [info.key for info in store.list("generations") if info.key.endswith(("/4", "/3"))]
    store.delete_many(lost)

    with pytest.raises(errors.SpecRejectedError, match="continue after batch 2"):
        start(bucket, sink)


# What a generation descends from

OWN = "own"


def made_from(number: int, cut: Ancestor | None, **changes: object) -> GenerationRecord:
    given = {"source": "s3://b/savepoint" if cut else None, "lineage": OWN, "cut": cut} | changes
    return GenerationRecord(generation=number, created_at=NEW_YEAR, epoch=10 * number, **given)  # type: ignore[arg-type]


def cut_at(generation: int, batch: int, lineage: str = OWN) -> Ancestor:
    return Ancestor(lineage=lineage, generation=generation, batches={QUERY: batch})


FIRST = made_from(1, None)
BACK = {"goes_back": True}
HISTORIES = [
    pytest.param((FIRST,), history.History(begun_in=(10,)), id="it began empty"),
    pytest.param(
        (FIRST, made_from(2, cut_at(1, 5))),
        history.History((cut_at(1, 5),), begun_in=(20, 10)),
        id="a cut of the one before",
    ),
    pytest.param(
        (FIRST, made_from(2, cut_at(1, 5), source=None)),
        history.History((cut_at(1, 5),), begun_in=(20, 10)),
        id="a cut before the first checkpoint, which has no name",
    ),
    pytest.param(
        (FIRST, made_from(2, cut_at(1, 5)), made_from(3, cut_at(2, 7))),
        history.History((cut_at(2, 7), cut_at(1, 5)), begun_in=(30, 20, 10)),
        id="a chain",
    ),
    pytest.param(
        (FIRST, made_from(2, cut_at(1, 5)), made_from(3, cut_at(1, 9))),
        history.History((cut_at(1, 9),), begun_in=(30, 10)),
        id="the branch in between is left out",
    ),
    pytest.param(
        (made_from(4, cut_at(3, 7)),),
        history.History((cut_at(3, 7),), 3, begun_in=(40,)),
        id="the record of its parent is gone",
    ),
    pytest.param((made_from(4, cut_at(3, 7, "other")),), history.History(begun_in=(40,)), id="a cut of another root"),
    pytest.param(
        (FIRST, made_from(2, cut_at(1, 5), **BACK), made_from(3, cut_at(2, 7))),
        history.History((cut_at(2, 7), cut_at(1, 5)), went_back=2, begun_in=(30, 20, 10)),
        id="an older one went back",
    ),
    pytest.param(
        (FIRST, made_from(2, cut_at(1, 5), **BACK), made_from(3, cut_at(2, 7), **BACK)),
        history.History((cut_at(2, 7), cut_at(1, 5)), went_back=3, begun_in=(30, 20, 10)),
        id="both went back",
    ),
    pytest.param(
        (made_from(2, None, **BACK),), history.History(went_back=2, begun_in=(20,)), id="empty state that was asked for"
    ),
    pytest.param(
        (made_from(4, cut_at(3, 7, "other"), **BACK),),
        history.History(went_back=4, begun_in=(40,)),
        id="a savepoint of another root",
    ),
]


@pytest.mark.parametrize(("records", "expected"), HISTORIES)
def test_a_generation_descends_from(records: tuple[GenerationRecord, ...], expected: history.History) -> None:
    every = generations.Generations(records, records[-1].generation)
    assert history.trace(every, records[-1].generation) == expected


def test_a_generation_of_the_driver_itself_is_not_one_that_an_earlier_driver_has_begun() -> None:
    line = history.History(begun_in=(30, 20, 10))

    assert [line.begun_before(epoch) for epoch in (31, 30, 11, 10)] == [30, 20, 10, 0]


def test_a_generation_without_a_readable_record_is_taken_to_contain_what_was_before_it() -> None:
    every = generations.Generations((FIRST,), 1, unreadable={1: "damaged"})
    assert history.trace(every, 1) == history.History(known_from=1)


PLANS = [
    pytest.param(StartPlan(StartMode.CONTINUE, 3, fallback="damage"), False, id="it goes on in its generation"),
    pytest.param(StartPlan(StartMode.COPY, 3, changes=("rescaled",)), False, id="a copy of the newest state"),
    pytest.param(StartPlan(StartMode.COPY, 3, why_copied="it is older"), True, id="a snapshot that was asked for"),
    pytest.param(StartPlan(StartMode.COPY, 3, fallback="damage"), True, id="damage"),
    pytest.param(StartPlan(StartMode.EMPTY, 3), True, id="empty state"),
]


@pytest.mark.parametrize(("plan", "goes_back"), PLANS)
def test_a_start_goes_back(plan: StartPlan, goes_back: bool) -> None:
    assert history.goes_back(plan) is goes_back


LINE = SinkLineage(OWN, 4, cuts=(at(2, 8, "old"), at(2, 3, OWN)), line=(at(3, 7, OWN), at(1, 5, OWN)), known_from=1)
SHOWN = [
    pytest.param(at(4, 9, OWN), True, id="the restored batch"),
    pytest.param(at(4, 10, OWN), False, id="a later one of the same generation"),
    pytest.param(at(3, 7, OWN), True, id="the end of the part of an ancestor that is contained"),
    pytest.param(at(3, 8, OWN), False, id="what follows it there"),
    pytest.param(at(2, 3, OWN), True, id="what came back through another root"),
    pytest.param(at(2, 4, OWN), False, id="a branch that was left"),
    pytest.param(at(2, -1, OWN), True, id="a branch that showed nothing"),
    pytest.param(at(2, 8, "old"), True, id="the end of what was taken over"),
    pytest.param(at(1, 99, "old"), True, id="an older generation of it"),
    pytest.param(at(2, 9, "old"), False, id="what follows it in the other root"),
    pytest.param(at(3, 0, "old"), False, id="a later generation of it"),
    pytest.param(at(9, 9, "foreign"), False, id="another matter"),
]


@pytest.mark.parametrize(("committed", "is_contained"), SHOWN)
def test_a_batch_is_contained(committed: Position, is_contained: bool) -> None:
    assert LINE.contains(committed, at(4, 9, OWN)) is is_contained


def test_what_is_older_than_every_record_counts_as_contained() -> None:
    line = SinkLineage(OWN, 4, line=(at(3, 7, OWN),), known_from=3)
    assert line.contains(at(2, 99, OWN), at(4, 9, OWN))


def test_a_sink_that_withdraws_is_opened_behind_what_it_has_shown() -> None:
    stored = a_marker(at(3, 8, OWN), lineage=OWN, origin=OWN)
    context = a_sink_context(generation=4, batch_id=9, epoch=2, lineage=OWN, descent=LINE)

    assert marker.open_marker(stored, context, "the folder", withdraws=True).newest == stored.newest
    with pytest.raises(errors.SpecRejectedError, match="the folder has batch 8"):
        marker.open_marker(stored, context, "the folder")


def test_a_cut_names_the_batches_of_every_query() -> None:
    descent = lineage_records.Descent(OWN, 3, "s3://b/team/flights")
    queries = (QueryEntry(uid=QUERY, path="p", batch_id=5), QueryEntry(uid="counts", path="q", batch_id=-1))
    assert descent.cut(queries).batches == {QUERY: 5, "counts": -1}


def test_empty_state_withdraws_the_output_of_a_job_that_began_at_a_later_batch(bucket: stores.MemoryStore) -> None:
    """A job that was started elsewhere from a savepoint has no commit of batch 0."""
    first = Driver(bucket, Clock())
    first.batch(2)
    place = first.savepoint()
    begun = Driver(bucket, Clock(), to(place), root="other", output="other-output", visible="batch")
    begun.batch(2)
    begun.show()
    before = sinkdrivers.visible(bucket, "other-output")
    Driver(bucket, Clock(), a_restore(empty=True, nonce="anew"), root="other", output="other-output", visible="batch")

    assert [value for value, _ in before] == list(range(6, 12))
    assert sinkdrivers.visible(bucket, "other-output") == []
