"""What a marker has, and when a lost one leaves a batch in doubt: pure rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sinkcontexts import OWN, a_marker, a_sink_context, at
from statefulspark import errors
from statefulspark.contract.manifest import Position, SinkOpening
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import marker, marker_errors
from statefulspark.sinks.kafka import sink as kafka
from statefulspark.sinks.marker import Marker, open_marker, require_newest
from statefulspark.sinks.standing import NOTHING_EXPECTED, Expected, SinkLineage, Standing, compare
from statefulspark.testing import stores

NOW = datetime(2026, 1, 31, tzinfo=UTC)
DAY = timedelta(days=1)
OPENED = Expected(was_opened=True)
CONTEXT = a_sink_context(generation=2, batch_id=5, epoch=3, committing_epoch=4, staging_uri="file:///tmp/staging")


@pytest.mark.parametrize(
    ("committed", "covered"),
    [
        pytest.param((at(2, 4),), False, id="the batch before"),
        pytest.param((at(2, 5),), True, id="the batch itself"),
        pytest.param((at(2, 6),), True, id="a later batch"),
        pytest.param((at(1, 9),), False, id="a later batch of the generation before"),
        pytest.param((at(3, 9),), False, id="a later batch of a newer generation"),
        pytest.param((at(2, 6), at(3, 1)), True, id="a later batch, and another generation since"),
        pytest.param((at(2, 9, "other"),), False, id="a later batch of that generation in another lineage"),
        pytest.param((), False, id="nothing"),
    ],
)
def test_a_batch_is_covered_by_a_commit_of_its_own_generation_alone(
    committed: tuple[Position, ...], covered: bool
) -> None:
    assert a_marker(*committed).covers(CONTEXT) is covered


def test_what_an_ancestor_of_its_first_lineage_had_prepared_is_of_another_sink() -> None:
    descent = SinkLineage("new", 1, cuts=(at(2, 5, "older"), at(2, 5, OWN)))
    context = replace(CONTEXT, descent=descent)
    assert a_marker(lineage="new", origin="new").covers(context)
    assert not a_marker(lineage="new", origin=OWN).covers(context)
    assert not a_marker(lineage="new", origin="older").covers(context)


@pytest.mark.parametrize("withdraws", [True, False], ids=["files", "others"])
@pytest.mark.parametrize(
    ("known", "kept_after"),
    [
        pytest.param(None, None, id="nothing was committed yet"),
        pytest.param(at(2, 4), None, id="what was committed is kept"),
        pytest.param(at(2, 4), at(2, 2), id="what was committed is not kept any more"),
    ],
)
def test_a_sink_that_began_after_a_state_that_had_opened_it_lacks_what_that_state_knows(
    known: Position | None, kept_after: Position | None, withdraws: bool
) -> None:
    descent = SinkLineage("new", 2, cuts=(at(2, 5),))
    began_later = a_marker(lineage="new", origin="new", epoch=3)
    knows = Expected(known, kept_after, was_opened=True, origin=OWN)
    context = replace(CONTEXT, descent=descent, expected=knows)
    if known is not None:
        with pytest.raises(marker_errors.SinkBehindError) as behind:
            open_marker(began_later, context, "the target", withdraws=withdraws)
        assert behind.value.is_healable is (kept_after is None)
        context = replace(context, expected=replace(knows, committed=kept_after))
    if kept_after is None:
        assert not open_marker(began_later, context, "the target", withdraws=withdraws).covers(context)


@pytest.mark.parametrize("withdraws", [True, False], ids=["files", "others"])
def test_an_opening_by_right_that_comes_twice_leaves_what_the_driver_has_committed_since(withdraws: bool) -> None:
    context = replace(CONTEXT, descent=SinkLineage(OWN, 2, rights=frozenset(SinkRight)))
    opened = open_marker(a_marker(at(2, 9), epoch=3), context, "the target", withdraws=withdraws)
    since = opened.counting(at(2, 6))

    assert open_marker(since, context, "the target", withdraws=withdraws) == since


def test_a_sink_that_began_in_a_state_of_its_own_is_not_sent_what_an_ancestor_had_prepared_for_another() -> None:
    descent = SinkLineage("new", 1, cuts=(at(2, 5),))
    own = Expected(at(2, 5), None, was_opened=True, origin="new")
    context = replace(CONTEXT, descent=descent, expected=own)
    assert open_marker(a_marker(lineage="new", origin="new", epoch=3), context, "the table").covers(context)


def test_a_commit_moves_the_position_of_its_generation_to_the_end_and_leaves_the_driver_that_made_it() -> None:
    before = a_marker(at(2, 1), at(1, 8), epoch=3)
    assert before.after(CONTEXT) == a_marker(at(1, 8), at(2, 5), epoch=4)


def test_a_marker_remembers_the_latest_generations_and_refuses_to_guess_about_others() -> None:
    full = a_marker(*(at(number, 9) for number in range(1, 60)))
    for number in range(1, 60):
        full = full.counting(at(number, 9))
    assert full.committed == tuple(at(number, 9) for number in range(60 - marker.REMEMBERED, 60))
    assert len(full.to_json()) < 4096
    assert full.covers(replace(CONTEXT, generation=59))
    assert not full.covers(replace(CONTEXT, generation=60, descent=SinkLineage(OWN, 60)))
    with pytest.raises(errors.StateUnknownError, match="generation 2 of batch 5 is none of them") as refused:
        full.covers(CONTEXT)
    assert refused.value.reason == "SinkHistoryForgotten"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(a_marker(epoch=5), id="a newer epoch"),
        pytest.param(a_marker(epoch=4, claim="another"), id="the same epoch of another copy"),
        pytest.param(a_marker(epoch=1, lineage="other"), id="a job at another root"),
    ],
)
def test_a_sink_that_another_driver_has_opened_is_not_written_to(other: Marker) -> None:
    assert require_newest(a_marker(epoch=4), CONTEXT, "the topic clicks") == a_marker(epoch=4)
    assert require_newest(a_marker(epoch=3), CONTEXT, "the topic clicks") == a_marker(epoch=3)
    with pytest.raises(errors.FencedError, match=r"(the topic clicks now|taken the topic clicks over)"):
        require_newest(other, CONTEXT, "the topic clicks")


@pytest.mark.parametrize(
    ("written", "committed", "cuts", "expected"),
    [
        pytest.param(((5, 1), (6, 2)), at(2, 6), (), Standing.EQUAL, id="its opener wrote the batch"),
        pytest.param(((5, 1), (6, 3)), at(2, 6), (), Standing.OTHER_COPY, id="a later driver wrote it"),
        pytest.param(((5, 3), (6, 3)), at(2, 5), (), Standing.OTHER_COPY, id="a later driver wrote one before"),
        pytest.param(((5, 1), (6, 3)), at(2, 5), (), Standing.SINK_BEHIND_HEALABLE, id="the sink lacks what it wrote"),
        pytest.param(((4, 3), (6, 2)), at(1, 4), (), Standing.OTHER_COPY, id="it is of an older generation"),
        pytest.param(((5, 3), (6, 3)), at(2, 6), (at(1, 6, "other"),), Standing.EQUAL, id="it is of another root"),
    ],
)
def test_a_sink_that_has_a_batch_of_a_driver_after_its_last_opener_has_another_one(
    written: tuple[tuple[int, int], ...], committed: Position, cuts: tuple[Position, ...], expected: Standing
) -> None:
    stored = a_marker(committed, epoch=2)
    known = Expected(at(2, 6) if committed.generation == 2 else None, was_opened=True, written=written)
    descent = SinkLineage(OWN, 2, cuts=cuts, line=(at(1, 4),))
    context = replace(CONTEXT, batch_id=6, descent=descent, expected=known, claim_of=lambda _epoch: stored.claim)

    assert compare(stored, context) is expected


def began_after(*positions: Position) -> tuple[SinkOpening, ...]:
    """Return the openings of epochs 1, 2, and so on."""
    return tuple(SinkOpening(epoch=epoch, after=after) for epoch, after in enumerate(positions, start=1))


@pytest.mark.parametrize(
    ("opener", "committed", "openings", "expected"),
    [
        pytest.param(
            1, (at(1, 6),), began_after(at(1, -1), at(1, 4)), Standing.OTHER_COPY, id="more than the next found"
        ),
        pytest.param(1, (at(1, 4),), began_after(at(1, -1), at(1, 4)), Standing.EQUAL, id="as much as the next found"),
        pytest.param(1, (at(1, 2),), began_after(at(1, -1), at(1, 4)), Standing.EQUAL, id="less than the next found"),
        pytest.param(2, (at(1, 6),), began_after(at(1, -1), at(1, 4)), Standing.EQUAL, id="nobody has opened it since"),
        pytest.param(1, (), began_after(at(1, -1), at(1, -1)), Standing.EQUAL, id="nothing"),
        pytest.param(1, (at(1, 6),), began_after(at(1, -1), at(2, 4)), Standing.EQUAL, id="the next made a generation"),
        pytest.param(2, (at(2, 6),), began_after(at(1, -1), at(2, 4), at(2, 5)), Standing.OTHER_COPY, id="a later one"),
        pytest.param(
            1, (at(1, 6, "other"),), began_after(at(1, 4), at(1, 4)), Standing.EQUAL, id="it is of another root"
        ),
    ],
)
def test_a_sink_that_has_more_than_the_driver_after_its_last_opener_began_with_is_of_another_life(
    opener: int, committed: tuple[Position, ...], openings: tuple[SinkOpening, ...], expected: Standing
) -> None:
    stored = a_marker(*committed, epoch=opener)
    descent = SinkLineage(OWN, 2, cuts=(at(1, 6, "other"),), line=(at(1, 6),))
    context = replace(CONTEXT, batch_id=8, descent=descent, claim_of=lambda _epoch: stored.claim)
    context = replace(context, expected=Expected(was_opened=True, openings=openings))

    assert compare(stored, context) is expected
    if expected is Standing.EQUAL:
        assert require_newest(stored, context, "the table") == stored
    else:
        with pytest.raises(errors.SpecRejectedError, match="has other batches than") as refused:
            open_marker(stored, context, "the table")
        with pytest.raises(errors.SpecRejectedError, match="start again: the refusal then names the right") as stopped:
            require_newest(stored, context, "the table")
        assert {refused.value.reason, stopped.value.reason} == {"SinkOpenedElsewhere"}


def test_a_commit_to_a_sink_that_lost_what_it_had_is_stopped_and_says_what() -> None:
    context = replace(CONTEXT, expected=Expected(at(2, 4), at(2, 1), was_opened=True))
    require_newest(a_marker(at(2, 4), epoch=4), context, "the table")
    with pytest.raises(
        marker_errors.SinkBehindError, match=r"the table has batch 2 \(generation 2\).*it had batch 4"
    ) as behind:
        require_newest(a_marker(at(2, 2), epoch=4), context, "the table")
    with pytest.raises(marker_errors.SinkBehindError) as further:
        require_newest(a_marker(at(2, 0), epoch=4), context, "the table")
    assert (behind.value.is_healable, further.value.is_healable) == (True, False)


def test_a_start_says_which_rows_the_job_has_no_more_and_a_driver_that_runs_says_that_a_start_does() -> None:
    """It still has what it prepared after `kept_after`, and the newest snapshot may name more than the driver knows."""
    context = replace(CONTEXT, batch_id=4, expected=Expected(at(2, 4), at(2, 3), was_opened=True))
    gone = r"no longer has the rows after batch 1 \(generation 2\) up to batch 3 \(generation 2\)"
    told = rf"{gone}\. .* what comes after them"
    of_folder = rf"{gone}, nor those of later batches whose files are not in the folder\. "

    with pytest.raises(marker_errors.SinkBehindError, match=told):
        open_marker(a_marker(at(2, 1), epoch=3), context, "the table")
    with pytest.raises(marker_errors.SinkBehindError, match=of_folder):
        open_marker(a_marker(at(2, 1), epoch=3), context, "the folder", withdraws=True)
    with pytest.raises(marker_errors.SinkBehindError, match="if it is started again, the refusal names those"):
        require_newest(a_marker(at(2, 1), epoch=4), context, "the table")


def test_a_start_names_no_rows_of_a_sink_that_went_back_to_batches_which_the_state_does_not_contain() -> None:
    """Nobody can tell which of the state's own rows are there: its batches with these numbers may have been others."""
    descent = SinkLineage(OWN, 2, line=(at(1, 3),), went_back=2)
    context = replace(CONTEXT, batch_id=4, descent=descent, expected=Expected(at(2, 4), at(2, 3), was_opened=True))
    gone = r"no longer has the rows up to batch 3 \(generation 2\) that are missing there: batch 9 \(generation 1\) is"

    with pytest.raises(marker_errors.SinkBehindError, match=gone):
        open_marker(a_marker(at(1, 9), epoch=3), context, "the table")


@pytest.mark.parametrize("withdraws", [False, True], ids=["others", "files"])
def test_a_start_that_misses_a_marker_gives_up_the_files_that_its_folder_has_lost(withdraws: bool) -> None:
    context = replace(CONTEXT, expected=Expected(at(2, 4), was_opened=True))

    with pytest.raises(errors.StateUnknownError) as missing:
        open_marker(None, context, "the folder", withdraws=withdraws)

    assert missing.value.reason == "SinkMarkerMissing"
    assert "what this state has after batch 4 (generation 2)" in missing.value.message
    assert (", nor those of later batches whose files are not in the folder" in missing.value.message) is withdraws


def test_a_commit_to_a_sink_without_a_marker_is_stopped() -> None:
    with pytest.raises(errors.StateUnknownError, match="has no marker in the table") as missing:
        require_newest(None, CONTEXT, "the table")
    assert missing.value.reason == "SinkMarkerMissing"


def test_a_sink_that_was_opened_and_had_committed_nothing_is_missed_if_its_marker_is_gone() -> None:
    assert compare(None, CONTEXT) is Standing.NEW
    assert compare(None, replace(CONTEXT, expected=Expected(was_opened=True))) is Standing.MARKER_MISSING


WENT_BACK = SinkLineage(OWN, 3, line=(at(2, 4), at(1, 3)), went_back=2)
BESIDE = SinkLineage(OWN, 3, line=(at(2, 4), at(1, 3)), rights=frozenset(SinkRight))


@pytest.mark.parametrize("descent", [WENT_BACK, BESIDE], ids=["it went back on purpose", "somebody has said so"])
@pytest.mark.parametrize(
    ("committed", "reached"),
    [
        pytest.param((at(1, 9),), (at(1, 9), at(3, -1)), id="it is older than the restore, and has nothing since"),
        pytest.param((at(3, 2), at(1, 9)), (at(1, 9), at(3, 2)), id="it has a part of what was committed since"),
        pytest.param((at(3, 8), at(1, 9)), (at(1, 9), at(3, 5)), id="it has more than the state"),
    ],
)
def test_a_sink_of_another_branch_goes_on_with_what_it_has_of_the_drivers_generation(
    descent: SinkLineage, committed: tuple[Position, ...], reached: tuple[Position, ...]
) -> None:
    context = replace(CONTEXT, generation=3, descent=descent)
    assert open_marker(a_marker(*committed), context, "the table").committed == reached


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(a_marker(at(2, 5), epoch=4, claim="another"), id="another copy of the state"),
        pytest.param(a_marker(at(2, 5), lineage="theirs", origin="theirs"), id="another history"),
    ],
)
@pytest.mark.parametrize(
    ("known", "kept_after", "reached"),
    [
        pytest.param(at(2, 3), at(2, 1), (at(1, 6), at(2, 3)), id="it has what the state knows to be committed"),
        pytest.param(at(2, 8), at(2, 6), (at(1, 6), at(2, 6)), id="it lacks that: what is kept is sent again"),
        pytest.param(at(1, 4), at(1, 2), (at(1, 2),), id="it lacks what is of an older generation"),
        pytest.param(None, None, (), id="the state knows of nothing: all that it has prepared is sent"),
    ],
)
def test_of_a_sink_that_is_taken_over_from_others_the_state_alone_says_what_was_committed(
    stored: Marker, known: Position | None, kept_after: Position | None, reached: tuple[Position, ...]
) -> None:
    descent = SinkLineage(OWN, 2, line=(at(1, 6),), rights=frozenset(SinkRight))
    context = replace(CONTEXT, batch_id=9, descent=descent, expected=Expected(known, kept_after, was_opened=True))
    opened = open_marker(stored, context, "the table")
    assert (opened.committed, opened.epoch, opened.lineage) == (reached, 4, OWN)


def test_a_folder_that_others_have_written_to_is_sent_all_that_the_state_has_since_they_withdraw() -> None:
    context = replace(CONTEXT, expected=Expected(at(2, 4), at(2, 2), was_opened=True), descent=BESIDE)
    opened = open_marker(a_marker(at(2, 9), epoch=4, claim="another"), context, "the folder", withdraws=True)
    assert opened.committed == (at(1, 3), at(2, 2))


def test_what_an_ancestor_had_prepared_for_a_sink_without_a_commit_is_sent_by_whoever_takes_it_over() -> None:
    descent = SinkLineage("new", 1, cuts=(at(2, 5),), rights=frozenset(SinkRight))
    context = replace(CONTEXT, descent=descent, expected=Expected(was_opened=True))
    assert not open_marker(None, context, "the table").covers(context)


@pytest.mark.parametrize(
    ("noted", "known", "expected"),
    [
        pytest.param(None, NOTHING_EXPECTED, None, id="neither: the first start"),
        pytest.param(
            a_marker(at(1, 3)), NOTHING_EXPECTED, a_marker(at(1, 3), lost_at=NOW), id="the note: the marker was lost"
        ),
        pytest.param(None, OPENED, a_marker(epoch=4, lost_at=NOW), id="the snapshot knows that there was one"),
        pytest.param(
            None, replace(OPENED, committed=at(1, 2)), a_marker(at(1, 2), epoch=4, lost_at=NOW), id="and what it had"
        ),
        pytest.param(
            a_marker(at(1, 3)),
            replace(OPENED, committed=at(1, 2)),
            a_marker(at(1, 3), lost_at=NOW),
            id="both: the note is newer",
        ),
    ],
)
def test_without_kafkas_marker_the_note_counts_or_else_the_snapshot(
    noted: Marker | None, known: Expected, expected: Marker | None
) -> None:
    context = replace(CONTEXT, expected=known)
    assert kafka.recovered_marker(noted, context, NOW) == expected


@pytest.mark.parametrize("once", [(at(1, 3), None), (None, at(1, 3))], ids=["by the note", "by the snapshot"])
@pytest.mark.parametrize(
    ("after_lost_marker", "expected"), [("commit", a_marker(at(1, 2))), ("skip", a_marker(at(1, 3))), ("fail", None)]
)
def test_kafkas_marker_that_went_back_is_never_taken_silently(
    once: tuple[Position | None, ...], after_lost_marker: str, expected: Marker | None
) -> None:
    sink = kafka.KafkaSink("clicks", bootstrap_servers="kafka:9092", after_lost_marker=after_lost_marker)
    newer = kafka.settled_marker(sink, a_marker(at(1, 4)), once, CONTEXT)
    assert newer == a_marker(at(1, 4)), "the note may be late"
    if expected is not None:
        assert kafka.settled_marker(sink, a_marker(at(1, 2)), once, CONTEXT) == expected
        return
    with pytest.raises(errors.StateUnknownError, match="has gone back: it lacks batch 3") as lost:
        kafka.settled_marker(sink, a_marker(at(1, 2)), once, CONTEXT)
    assert lost.value.reason == "KafkaMarkerLost"


@pytest.mark.parametrize(
    ("lost_at", "staged_at", "in_doubt"),
    [
        pytest.param(None, NOW - 30 * DAY, False, id="the marker was never lost"),
        pytest.param(NOW, NOW - 2 * DAY, True, id="staged so early that its commit may be forgotten"),
        pytest.param(NOW, NOW - DAY / 2, False, id="staged so late that its commit would be remembered"),
        pytest.param(NOW, NOW + DAY, False, id="staged after the loss"),
    ],
)
def test_only_a_batch_whose_commit_may_be_forgotten_is_in_doubt(
    lost_at: datetime | None, staged_at: datetime, in_doubt: bool
) -> None:
    assert kafka.is_in_doubt(a_marker(lost_at=lost_at), staged_at, DAY) is in_doubt


def test_names_in_other_systems_keep_jobs_apart_whose_names_run_together() -> None:
    first, second = replace(CONTEXT, job="a-b/c"), replace(CONTEXT, job="a/b-c")
    assert first.transactional_id != second.transactional_id


def test_a_note_of_a_driver_that_was_replaced_does_not_take_the_position_back() -> None:
    store = stores.MemoryStore()
    newer = a_marker(at(1, 8), epoch=3)
    kafka.write_note(store, a_marker(at(1, 4), epoch=2))
    kafka.write_note(store, newer)

    kafka.write_note(store, a_marker(at(1, 5), epoch=2))

    assert Marker.parse(store.read(kafka.NOTE), kafka.NOTE) == newer


def test_a_note_of_a_later_release_stays_and_is_told_by_its_version() -> None:
    store = stores.MemoryStore()
    store.write(kafka.NOTE, b'{"formatVersion":2,"position":"elsewhere"}')

    with pytest.raises(errors.FormatVersionError, match=f"{kafka.NOTE} has format version 2"):
        kafka.write_note(store, a_marker(at(1, 5), epoch=2))

    assert store.read(kafka.NOTE) == b'{"formatVersion":2,"position":"elsewhere"}'


def test_a_note_that_is_overtaken_between_the_look_and_the_write_stays_away() -> None:
    store = stores.MemoryStore()
    kafka.write_note(store, a_marker(at(1, 4), epoch=2))
    newer = a_marker(at(1, 8), epoch=3)

    class Overtaken(stores.FaultyStore):
        def replace(self, key: str, body: bytes, *, etag: str) -> None:
            kafka.write_note(store, newer)
            super().replace(key, body, etag=etag)

    kafka.write_note(Overtaken(store), a_marker(at(1, 5), epoch=2))

    assert Marker.parse(store.read(kafka.NOTE), kafka.NOTE) == newer
