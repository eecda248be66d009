"""Time to live and timers in detail: every setting, every shape of entry, every refusal by reason (A.18-A.32)."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import cells, chunks, functions, grouptables, kinds, liststate, mapstate, tables, timers, ttl


@pytest.mark.parametrize("given", ["1m2s", datetime.timedelta(seconds=62)])
def test_a18_a_time_to_live_is_text_or_a_timedelta(given: datetime.timedelta | str) -> None:
    life = ttl.Ttl(given)

    assert life.duration == datetime.timedelta(seconds=62)
    assert (life.duration_ms, type(life.duration_ms)) == (62_000, int)


def test_a18_what_is_not_asked_for_is_flinks_default() -> None:
    life = ttl.Ttl("1d")

    assert (life.update, life.visibility) == (
        ttl.TtlUpdate.ON_CREATE_AND_WRITE,
        ttl.TtlVisibility.NEVER_RETURN_EXPIRED,
    )
    assert (life.cleanup_incrementally, life.cleanup_for_every_record) == (None, False)
    assert (life.cleanup_in_background, life.cleanup_full_snapshot) == (True, False)


@pytest.mark.parametrize(
    ("build", "reason", "message"),
    [
        pytest.param(
            lambda: ttl.Ttl("99999999999d"),
            "DurationInvalid",
            "The time to live '99999999999d' is too long; write a shorter one.",
            id="longer than any time",
        ),
        pytest.param(
            lambda: ttl.Ttl(datetime.timedelta(seconds=-1)),
            "DurationInvalid",
            "The time to live -1 day, 23:59:59 must not be negative.",
            id="before now",
        ),
        pytest.param(
            lambda: ttl.Ttl("0"), "TtlNotPositive", "TTL is expected to be positive. Found: 0:00:00.", id="A.19 nothing"
        ),
        pytest.param(
            lambda: ttl.Ttl("1d", update="never"),  # type: ignore[arg-type]
            "TtlInvalid",
            "TTL update is 'never'; allowed are TtlUpdate.ON_CREATE_AND_WRITE, TtlUpdate.ON_READ_AND_WRITE.",
            id="no way of renewal",
        ),
        pytest.param(
            lambda: ttl.Ttl("1d", visibility="never"),  # type: ignore[arg-type]
            "TtlInvalid",
            "TTL visibility is 'never'; allowed are TtlVisibility.NEVER_RETURN_EXPIRED, ",
            id="no visibility",
        ),
        pytest.param(
            lambda: ttl.Ttl("1d", cleanup_incrementally=0),
            "TtlCleanupInvalid",
            "Number of incrementally cleaned up state entries should be positive. Found: 0.",
            id="A.31 no entry",
        ),
    ],
)
def test_a19_a_refusal_has_a_reason_and_names_the_setting(
    build: Callable[[], object], reason: str, message: str
) -> None:
    with pytest.raises(errors.SpecRejectedError) as refused:
        build()

    assert refused.value.reason == reason
    assert refused.value.message.startswith(message)


OLD, NEW = (1, 5), (2, 6)
"""Cells that were renewed at 5 ms and at 6 ms; the cutoff below is 5 ms."""


@pytest.mark.parametrize(
    ("table", "row", "left"),
    [
        pytest.param(cells.CellTable, OLD, None, id="an old value"),
        pytest.param(cells.CellTable, NEW, NEW, id="a new value"),
        pytest.param(liststate.ListTable, [OLD, OLD], None, id="a list of old ones"),
        pytest.param(liststate.ListTable, [OLD, NEW], [NEW], id="a list of both"),
        pytest.param(liststate.ListTable, [NEW, NEW], [NEW, NEW], id="a list of new ones"),
        pytest.param(mapstate.MapTable, {"a": OLD}, None, id="a map of old ones"),
        pytest.param(mapstate.MapTable, {"a": OLD, "b": NEW}, {"b": NEW}, id="a map of both"),
        pytest.param(mapstate.MapTable, {"b": NEW}, {"b": NEW}, id="a map of new ones"),
    ],
)
def test_a31_what_is_expired_is_deleted_and_written_and_nothing_else(
    table: type[cells.CellTable | liststate.ListTable | mapstate.MapTable], row: object, left: object
) -> None:
    """The one key is looked at twice, since the step is longer than the table."""
    cleaned, dropped = table(), table()
    cleaned.rows["k"] = row
    dropped.rows["k"] = row
    cleaner = ttl.Cleaner(9, 5)
    cleaner.round = ttl.CleanupRound([0])
    cleaner.bind(cleaned, 0)

    cleaner.step(10)
    cleaner.step(10)
    group = grouptables.GroupTables()
    group.tables["s"] = dropped
    group.drop_expired({"s": 5})

    assert cleaned.rows == dropped.rows == ({} if left is None else {"k": left})
    assert bool(cleaned.take_changes()) is (left != row)
    assert not dropped.take_changes()


def _a_cleaner(of_round: ttl.CleanupRound, *keys: str, count: int = 1) -> tuple[ttl.Cleaner, cells.CellTable]:
    """Return a cleaner that looks at key group 0, whose entries are all expired at 10 ms, and their table."""
    table = cells.CellTable()
    table.rows.update(dict.fromkeys(keys, OLD))
    cleaner = ttl.Cleaner(count, 5)
    cleaner.round = of_round
    cleaner.bind(table, 0)
    return cleaner, table


def test_a31_entries_that_a_step_paid_for_and_did_not_find_are_owed() -> None:
    cleaner, table = _a_cleaner(ttl.CleanupRound([0]), "a", count=9)
    table.rows["b"] = NEW

    cleaner.step(10)

    assert (dict(table.rows), cleaner.round.pending_entries, cleaner.round.is_due(0)) == ({"b": NEW}, 7, False)


def test_a31_a_key_group_that_was_looked_at_waits_for_the_others_and_its_accesses_pay_for_them() -> None:
    others = ttl.CleanupRound([0, 1])
    others.finish(0)
    cleaner, table = _a_cleaner(others, "a", "b", count=3)

    cleaner.step(10)

    assert (dict(table.rows), others.pending_entries) == ({"a": OLD, "b": OLD}, 3)


def test_a31_a_key_group_without_a_round_is_looked_at_again_from_the_front_and_owes_nothing() -> None:
    cleaner, table = _a_cleaner(ttl.CleanupRound(), "a", "b", count=3)
    table.rows.update(dict.fromkeys(("a", "b"), (1, 9)))

    cleaner.step(10)

    assert cleaner.round.pending_entries == 0


def test_a31_what_is_owed_is_paid_in_another_key_group_and_an_empty_one_costs_one_entry() -> None:
    group, table = _a_cleaner(ttl.CleanupRound([0]), "a", "b")
    empty, _ = _a_cleaner(ttl.CleanupRound([0]))
    group.round.pending_entries = empty.round.pending_entries = 3

    group.clean_pending(10)
    empty.clean_pending(10)

    assert (dict(table.rows), group.round.pending_entries, empty.round.pending_entries) == ({}, 1, 2)


def test_a31_each_key_group_has_its_turn_before_the_first_has_it_again() -> None:
    turns = ttl.CleanupRound([4, 7])
    assert turns.next_due() is None

    turns.pending_entries = 1
    seen = [turns.next_due()]
    turns.finish(4)
    seen.append(turns.next_due())
    turns.finish(7)
    seen.append(turns.next_due())

    assert seen == [4, 7, 4]


@pytest.mark.parametrize(
    ("engine_ms", "watermark_ms"),
    [
        pytest.param(-1, timers.NO_WATERMARK_MS, id="before there is one"),
        pytest.param(0, timers.NO_WATERMARK_MS, id="the engine's word for none"),
        pytest.param(1, 1, id="the first there can be"),
        pytest.param(253_402_300_799_998, 253_402_300_799_998, id="the last in time"),
        pytest.param(253_402_300_799_999, timers.MAX_WATERMARK_MS, id="the end of time"),
    ],
)
def test_functions_see_flinks_watermark_where_the_engine_has_none_or_the_end_of_time(
    engine_ms: int, watermark_ms: int
) -> None:
    assert timers.watermark_of(engine_ms) == watermark_ms


def test_a29_an_export_keeps_its_kind_and_what_is_left_of_each_entry() -> None:
    meta = kinds.StateMeta("map", mapstate.MAP, "map<any,any>", has_ttl=True)
    change = mapstate.MapChange(replaced=False, puts={"a": OLD, "b": NEW}, removed=frozenset({"c"}))
    group = chunks.Chunk(chunks.ChunkKind.DELTA, (chunks.Section(meta, {"k": change, "gone": tables.DELETED}),))

    exported = chunks.without_expired(group, {"map": 5}, now_ms=10)

    left = mapstate.MapChange(replaced=False, puts={"b": NEW}, removed=frozenset({"c"}))
    assert exported == chunks.Chunk(
        chunks.ChunkKind.DELTA, (chunks.Section(meta, {"k": left, "gone": tables.DELETED}),)
    )


_BOTH = frozenset(timers.TimeDomain)


def _on(work: Callable[[functions.BatchContext], None], domains: frozenset[timers.TimeDomain] = _BOTH) -> None:
    Worker(lambda _: None, new_ids(), domains=domains).run(MemoryLog(), work)


@pytest.mark.parametrize("domain", timers.TimeDomain)
def test_deleting_a_timer_is_refused_like_setting_it(domain: timers.TimeDomain) -> None:
    def delete(context: functions.BatchContext) -> None:
        context.timers.delete(timers.moment(1), domain=domain.value)

    with pytest.raises(
        errors.SpecRejectedError, match=f"uses {domain.value} timers, and its operator was declared with no timers"
    ):
        _on(delete, frozenset())
    with pytest.raises(errors.SpecRejectedError, match="There is no current key here"):
        _on(delete)


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        (timers.TimeDomain.EVENT_TIME, "_timer_state/event_user-timers"),
        (timers.TimeDomain.PROCESSING_TIME, "_timer_state/processing_user-timers"),
    ],
)
def test_timers_are_written_down_as_they_always_were(domain: timers.TimeDomain, name: str) -> None:
    """State on storage has this for ever."""
    log = MemoryLog()

    def work(context: functions.BatchContext) -> None:
        context.enter("a")
        for at_ms in (10, 20):
            context.timers.set(timers.moment(at_ms), domain=domain.value)

    Worker(lambda _: None, new_ids(), domains=_BOTH).run(log, work)

    (chunk,) = [chunks.decode(blob, "x") for _, blob in log.chunks.values()]
    meta = kinds.StateMeta(name, timers.TIMERS, "map<bigint,any>", has_ttl=False)
    assert chunk.sections == (
        chunks.Section(meta, {"a": mapstate.MapChange(replaced=True, puts={10: None, 20: None})}),
    )
    assert timers.meta_of(domain) == meta
    assert meta.kind.value == "MapState"
