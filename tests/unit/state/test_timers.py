"""Timers of a key group: once per key and moment, in order, exactly once, whatever happens to batches and workers."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import chunks, functions, mapstate, tables, timers, valuestate

EVENT, PROCESSING = timers.TimeDomain.EVENT_TIME, timers.TimeDomain.PROCESSING_TIME
BOTH = frozenset(timers.TimeDomain)
AT = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
Fired = list[tuple[int, object, timers.TimeDomain | None]]


def _worker(domains: frozenset[timers.TimeDomain] = BOTH) -> Worker:
    return Worker(lambda _: None, new_ids(), domains=domains)


def _set(*wanted: tuple[object, int], domain: timers.TimeDomain = EVENT, delete: bool = False) -> object:
    def work(context: functions.BatchContext) -> None:
        change = context.timers.delete if delete else context.timers.set
        for key, at_ms in wanted:
            context.enter(key)
            change(timers.moment(at_ms), domain=domain.value)

    return work


def _fire(worker: Worker, log: MemoryLog, *, now_ms: int = 0, watermark_ms: int = timers.NO_WATERMARK_MS) -> Fired:
    fired: Fired = []

    def work(context: functions.BatchContext) -> None:
        fired.extend((at_ms, context.key, timers.TimeDomain(context.time_domain)) for at_ms in context.due())

    worker.run(log, work, now_ms=now_ms, watermark_ms=watermark_ms)
    return fired


def test_a_timer_fires_once_at_its_moment_in_order_and_not_before() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("b", 20), ("a", 10), (None, 30), (("c", 1), 20)))  # type: ignore[arg-type]
    assert _fire(worker, log, watermark_ms=9) == []
    assert _fire(worker, log, watermark_ms=20) == [(10, "a", EVENT), (20, "b", EVENT), (20, ("c", 1), EVENT)]
    assert _fire(worker, log, watermark_ms=29) == []
    assert _fire(worker, log, watermark_ms=30) == [(30, None, EVENT)]
    assert _fire(worker, log, watermark_ms=99) == []


def test_a_timer_is_kept_once_per_key_and_moment() -> None:
    worker, log = _worker(), MemoryLog()
    for _ in range(2):
        worker.run(log, _set(("a", 10), ("a", 10), ("a", 11)))  # type: ignore[arg-type]
    assert [at_ms for at_ms, _, _ in _fire(worker, log, watermark_ms=50)] == [10, 11]


def test_a_deleted_timer_does_not_fire_and_deleting_an_absent_one_is_fine() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("a", 10), ("a", 11)))  # type: ignore[arg-type]
    worker.run(log, _set(("a", 10), ("a", 77), ("z", 1), delete=True))  # type: ignore[arg-type]
    assert [at_ms for at_ms, _, _ in _fire(worker, log, watermark_ms=50)] == [11]


def test_the_two_domains_are_independent() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("a", 10)))  # type: ignore[arg-type]
    worker.run(log, _set(("a", 10), domain=PROCESSING))  # type: ignore[arg-type]
    assert _fire(worker, log, now_ms=9, watermark_ms=10) == [(10, "a", EVENT)]
    assert _fire(worker, log, now_ms=10, watermark_ms=10) == [(10, "a", PROCESSING)]


def test_timers_survive_a_worker_that_is_lost_and_an_attempt_that_is_not_committed() -> None:
    log, ids = MemoryLog(), new_ids()
    worker = Worker(lambda _: None, ids, domains=BOTH)
    worker.run(log, _set(("a", 10), ("b", 20)))  # type: ignore[arg-type]
    lost = log.attempt()
    assert _fire(worker, lost, watermark_ms=15) == [(10, "a", EVENT)]
    assert _fire(worker, log, watermark_ms=15) == [(10, "a", EVENT)]
    again = Worker(lambda _: None, ids, domains=BOTH)
    assert _fire(again, log, watermark_ms=25) == [(20, "b", EVENT)]


def test_a_timer_that_a_callback_sets_in_the_past_fires_in_the_same_batch() -> None:
    worker, log, fired = _worker(), MemoryLog(), []
    worker.run(log, _set(("a", 10)))  # type: ignore[arg-type]

    def work(context: functions.BatchContext) -> None:
        for at_ms in context.due():
            fired.append(at_ms)
            if at_ms < 13:
                context.timers.set(timers.moment(at_ms + 1), domain="event-time")

    worker.run(log, work, watermark_ms=12)
    assert fired == [10, 11, 12]
    assert _fire(worker, log, watermark_ms=13) == [(13, "a", EVENT)]


def test_nothing_fires_before_there_is_a_watermark() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("a", -5)))  # type: ignore[arg-type]
    assert _fire(worker, log) == []
    assert _fire(worker, log, watermark_ms=1) == [(-5, "a", EVENT)]


def test_a_key_group_is_woken_for_its_earliest_timer() -> None:
    worker, log, wakes = _worker(), MemoryLog(), []

    def work(context: functions.BatchContext) -> None:
        wakes.append((context.next_wake_ms(EVENT), context.next_wake_ms(PROCESSING)))

    worker.run(log, work, now_ms=100)
    worker.run(log, _set(("a", 70), ("b", 50)))  # type: ignore[arg-type]
    worker.run(log, work, now_ms=100, watermark_ms=10)
    assert wakes == [(None, None), (50, 101)]


@pytest.mark.parametrize("domain", timers.TimeDomain)
def test_a_timer_of_a_domain_that_was_not_declared_is_refused(domain: timers.TimeDomain) -> None:
    worker = _worker(BOTH - {domain})
    with pytest.raises(errors.SpecRejectedError, match=f'timers="{domain.value}"'):
        worker.run(MemoryLog(), _set(("a", 1), domain=domain))  # type: ignore[arg-type]


def test_a_timer_needs_a_key() -> None:
    with pytest.raises(errors.SpecRejectedError, match="There is no current key here"):
        _worker().run(MemoryLog(), lambda context: context.timers.set(AT, domain="event-time"))


@pytest.mark.parametrize("moment", [datetime.datetime(2026, 1, 1), 1000, 1.5, "now", True, None])
def test_what_is_no_moment_is_refused(moment: object) -> None:
    with pytest.raises(errors.SpecRejectedError, match="is no moment: pass a datetime with a time zone"):
        timers.milliseconds(moment)  # type: ignore[arg-type]


def test_a_moment_is_rounded_up_to_a_millisecond() -> None:
    assert timers.milliseconds(AT) == 1000
    assert timers.milliseconds(AT + datetime.timedelta(microseconds=1)) == 1001


@pytest.mark.parametrize("at_ms", [-1, 0, 1, 1_770_000_000_123, 253_402_300_799_999])
def test_a_moment_in_milliseconds_is_that_moment_again(at_ms: int) -> None:
    assert timers.milliseconds(timers.moment(at_ms)) == at_ms


@pytest.mark.parametrize(
    ("at_ms", "moment"),
    [
        (253_402_300_800_000, timers.MAX_WATERMARK),
        (timers.MAX_WATERMARK_MS, timers.MAX_WATERMARK),
        (-(2**63), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)),
    ],
)
def test_a_moment_that_no_datetime_can_be_is_the_first_or_the_last(at_ms: int, moment: datetime.datetime) -> None:
    assert timers.moment(at_ms) == moment


def test_a_row_is_late_once_the_watermark_has_reached_its_time() -> None:
    worker, late = _worker(), []
    for watermark_ms in (timers.NO_WATERMARK_MS, 999, 1000):
        worker.run(MemoryLog(), lambda context: late.append(context.is_late(AT)), watermark_ms=watermark_ms)
    assert late == [False, False, True]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans()), max_size=6),
            st.integers(0, 6),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_any_history_of_timers_equals_a_set(steps: list[tuple[list[tuple[str, int, bool]], int, bool]]) -> None:
    ids, log = new_ids(), MemoryLog()
    workers = [Worker(lambda _: None, ids, domains=BOTH) for _ in range(2)]
    model: set[tuple[int, str]] = set()
    watermark_ms = 0
    for number, (changes, advance, commits) in enumerate(steps):
        watermark_ms += advance
        after, fired, expected = set(model), [], []
        for key, at_ms, delete in changes:
            (after.discard if delete else after.add)((at_ms, key))
        expected = sorted(timer for timer in after if timer[0] <= watermark_ms)

        def work(
            context: functions.BatchContext, changes: object = changes, fired: list[tuple[int, object]] = fired
        ) -> None:
            for key, at_ms, delete in changes:  # type: ignore[attr-defined]
                context.enter(key)
                change = context.timers.delete if delete else context.timers.set
                change(timers.moment(at_ms), domain="event-time")
            fired.extend((at_ms, context.key) for at_ms in context.due())

        attempt = log.attempt()
        workers[number % 2].run(attempt, work, watermark_ms=watermark_ms)
        assert sorted(fired, key=repr) == sorted(expected, key=repr)
        assert [at_ms for at_ms, _ in fired] == sorted(at_ms for at_ms, _ in fired)
        if commits:
            log.adopt(attempt)
            model = after - set(expected)


def test_the_heap_does_not_grow_with_timers_that_are_moved_for_ever() -> None:
    table = timers.TimerTable()
    table.rows["a"] = {}
    for at_ms in range(20_000):
        table.rows["a"] = {at_ms: None}
        table.push(at_ms, "a")
    assert len(table._heap) <= 1100
    assert table.peek() == (19_999, "a")


def test_timers_that_are_read_all_at_once_are_in_order_with_those_after_them() -> None:
    table = timers.TimerTable()
    table.apply({key: mapstate.MapChange(replaced=True, puts={100 - key: None, 200 + key: None}) for key in range(50)})
    table.apply({49: mapstate.MapChange(replaced=False, puts={7: None}, removed={51}), 48: tables.DELETED})

    in_order: list[object] = []
    while (first := table.peek()) is not None:
        in_order.append(first)
        del table.rows[first[1]][first[0]]  # type: ignore[attr-defined]  # rows are dicts

    kept = [(100 - key, key) for key in range(48)] + [(200 + key, key) for key in range(50) if key != 48]
    assert in_order == sorted([(7, 49), *kept])


def test_timers_are_stored_as_a_map_state_that_no_user_state_can_be_named_like() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("a", 10)))  # type: ignore[arg-type]
    (chunk,) = [chunks.decode(blob, "x") for _, blob in log.chunks.values()]
    assert [(section.meta.name, section.meta.kind.value) for section in chunk.sections] == [
        ("_timer_state/event_user-timers", mapstate.MAP.value)
    ]
    with pytest.raises(errors.SpecRejectedError, match="is not a valid state name"):
        valuestate.ValueStateDescriptor("_timer_state/event_user-timers")


def test_timers_that_would_never_fire_are_refused() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("a", 10)))  # type: ignore[arg-type]
    for domains in (frozenset(), frozenset({PROCESSING})):
        with pytest.raises(errors.SpecRejectedError, match="has event-time timers, which would not fire"):
            _worker(domains).run(log.attempt(), lambda _: None)
    assert _fire(worker, log, watermark_ms=10) == [(10, "a", EVENT)]
    _worker(frozenset()).run(log.attempt(), lambda _: None)


def _listed(worker: Worker, log: MemoryLog, key: object, **named: object) -> list[tuple[datetime.datetime, ...]]:
    listed: list[tuple[datetime.datetime, ...]] = []

    def work(context: functions.BatchContext) -> None:
        context.enter(key)
        listed.append(context.timers.list(**named))  # type: ignore[arg-type]

    worker.run(log, work)
    return listed


def test_the_timers_of_a_key_are_listed_earliest_first_and_by_domain() -> None:
    worker, log = _worker(), MemoryLog()
    worker.run(log, _set(("a", 20), ("a", 10), ("b", 5)))  # type: ignore[arg-type]
    worker.run(log, _set(("a", 30), domain=PROCESSING))  # type: ignore[arg-type]

    assert _listed(worker, log, "a", domain="event-time") == [(timers.moment(10), timers.moment(20))]
    assert _listed(worker, log, "a", domain="processing-time") == [(timers.moment(30),)]
    assert _listed(worker, log, "c", domain="event-time") == [()]


@pytest.mark.parametrize("domain", timers.TimeDomain)
def test_an_operator_with_one_clock_need_not_name_it(domain: timers.TimeDomain) -> None:
    worker, log = _worker(frozenset({domain})), MemoryLog()

    def work(context: functions.BatchContext) -> None:
        context.enter("a")
        context.timers.set(AT)
        context.timers.set(AT + datetime.timedelta(seconds=1))
        context.timers.delete(AT)

    worker.run(log, work)

    assert _listed(worker, log, "a") == [(AT + datetime.timedelta(seconds=1),)]


def test_an_operator_with_both_clocks_has_to_name_one() -> None:
    with pytest.raises(ValueError, match='name the clock: domain="event-time" or domain="processing-time"') as refused:
        _listed(_worker(), MemoryLog(), "a")

    assert getattr(refused.value, "reason", None) == "TimerDomainMissing"


def test_an_operator_without_timers_says_how_to_declare_them() -> None:
    with pytest.raises(ValueError, match=r'declared with no timers\. Declare them: keyed_process.*timers="event-time"'):
        _listed(_worker(frozenset()), MemoryLog(), "a")


@pytest.mark.parametrize(
    ("watermark_ms", "moment"),
    [(timers.NO_WATERMARK_MS, None), (1000, AT), (timers.MAX_WATERMARK_MS, timers.MAX_WATERMARK)],
    ids=["none yet", "a moment", "the end of event time"],
)
def test_the_watermark_is_a_moment_or_none(watermark_ms: int, moment: datetime.datetime | None) -> None:
    seen: list[object] = []

    _worker().run(MemoryLog(), lambda context: seen.append(context.watermark), watermark_ms=watermark_ms)

    assert seen == [moment]
