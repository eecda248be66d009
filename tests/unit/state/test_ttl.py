"""Time to live: who renews, who sees, who cleans up, and what a change of the declaration does (A.18-A.32, B.12)."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import keyedstate
import pytest
from statefulspark import errors
from statefulspark.state import (
    aggregatingstate,
    chunks,
    functions,
    heads,
    kinds,
    liststate,
    mapstate,
    ttl,
    valuestate,
)

HOUR = 3_600_000
FULL = heads.Policy(fan_in=2, max_size_amplification=0.0)
NEVER = heads.Policy(fan_in=1000, max_size_amplification=1000.0)


SHOWN_AND_RENEWED = ttl.Ttl(
    "1h",
    update=ttl.TtlUpdate.ON_READ_AND_WRITE,
    visibility=ttl.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
)


class Bench(keyedstate.Bench):
    """A key group whose chunks are not compacted unless a test says so."""

    def __init__(self, descriptor: object, change: ttl.TtlChange = ttl.TtlChange.REFUSE) -> None:
        super().__init__(descriptor, change, policy=NEVER)

    def stored(self) -> list[object]:
        """Keys in the newest chunk."""
        chunk = chunks.decode(self.log.chunks[max(self.log.chunks)][1], "test")
        return [key for section in chunk.sections for key, change in section.changes.items()]


KINDS = {
    "value": (valuestate.ValueStateDescriptor, lambda s: s.update(1), lambda s: s.get(), None),
    "reducing": (lambda name, ttl: aggregatingstate.ReducingStateDescriptor(name, max, ttl=ttl), lambda s: s.add(1),
                 lambda s: s.get(), None),
    "list": (liststate.ListStateDescriptor, lambda s: s.add(1), lambda s: s.get(), []),
    "map": (mapstate.MapStateDescriptor, lambda s: s.put(1, 1), lambda s: s.get(1), None),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a23_an_entry_of_every_kind_is_expired_at_the_boundary_and_gone_after_the_read(kind: str) -> None:
    make, write, read, empty = KINDS[kind]
    bench = Bench(make("s", ttl=ttl.Ttl("1h")))
    bench.at(0, write)
    assert bench.at(HOUR - 1, read) != empty
    assert bench.at(HOUR, read) == empty
    assert bench.at(0, read) == empty, "the read deleted it, so that an earlier clock does not bring it back"


@pytest.mark.parametrize("kind", KINDS)
def test_a21_a22_an_expired_entry_of_every_kind_may_be_shown_once(kind: str) -> None:
    make, write, read, empty = KINDS[kind]
    shown = ttl.Ttl("1h", visibility=ttl.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    bench = Bench(make("s", ttl=shown))
    bench.at(0, write)
    first, second = bench.at(5 * HOUR, read), bench.at(5 * HOUR, read)
    assert (first != empty, second == empty) == (True, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a20_reading_renews_entries_of_every_kind_when_asked_to(kind: str) -> None:
    make, write, read, empty = KINDS[kind]
    bench = Bench(make("s", ttl=ttl.Ttl("1h", update=ttl.TtlUpdate.ON_READ_AND_WRITE)))
    bench.at(0, write)
    for hour in range(1, 5):
        assert bench.at(hour * (HOUR - 1), read) != empty
    assert bench.at(9 * HOUR, read) == empty


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("life", [None, SHOWN_AND_RENEWED], ids=["for good", "for an hour"])
def test_a_state_exists_until_it_is_cleared_and_asking_changes_nothing(kind: str, life: ttl.Ttl | None) -> None:
    make, write, _, _ = KINDS[kind]
    bench = Bench(make("s", ttl=life))
    before = bench.at(0, lambda s: s.exists())
    bench.at(0, write)
    bench.forget()
    asked = [bench.at(now_ms, lambda s: s.exists()) for now_ms in (0, HOUR - 1, HOUR, 0)]
    bench.at(0, lambda s: s.clear())

    assert (before, asked) == (False, [True, True, life is None, True])
    assert bench.at(0, lambda s: s.exists()) is False


@pytest.mark.parametrize("kind", KINDS)
def test_a20_without_a_time_to_live_an_entry_stays(kind: str) -> None:
    make, write, read, empty = KINDS[kind]
    bench = Bench(make("s", ttl=None))
    bench.at(0, write)
    assert bench.at(10**15, read) != empty


def test_a23_the_longest_time_to_live_never_ends() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=ttl.Ttl("999999999d")))
    bench.at(2**62, lambda s: s.update(1))
    assert bench.at(2**62 + 8 * 10**16, lambda s: s.get()) == 1
    assert bench.at(2**63 - 1, lambda s: s.get()) is None


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: ttl.Ttl("0"), "TTL is expected to be positive. Found: 0:00:00"),
        (lambda: ttl.Ttl("99999999999d"), "The time to live '99999999999d' is too long"),
        (lambda: ttl.Ttl("7 days"), "The time to live '7 days' must be a number with a unit"),
        (lambda: ttl.Ttl("1d", cleanup_for_every_record=True), "pass cleanup_incrementally, too"),
        (lambda: ttl.Ttl("1d", update="OnRead"), "allowed are TtlUpdate.ON_CREATE_AND_WRITE"),  # type: ignore[arg-type]
        (
            lambda: ttl.Ttl("1d", cleanup_incrementally=0),
            "Number of incrementally cleaned up state entries should be",
        ),
    ],
)
def test_a19_a31_what_cannot_be_is_refused_with_flinks_sentence(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=sentence):
        build()


def test_less_than_a_millisecond_is_a_millisecond() -> None:
    assert ttl.Ttl("0.5ms").duration == datetime.timedelta(microseconds=500)
    assert ttl.Ttl("0.5ms").duration_ms == 1


def _fill(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.at(0, lambda s: s.update("old"), key=number)


def test_a28_expired_entries_stay_in_the_state_until_somebody_cleans_up() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=ttl.Ttl("1h", cleanup_in_background=False)))
    _fill(bench, 5)
    bench.at(2 * HOUR, lambda s: s.update("new"), key="new", policy=FULL)
    assert len(bench.stored()) == 6


def test_a30_compaction_drops_expired_entries_by_default() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=ttl.Ttl("1h")))
    _fill(bench, 5)
    bench.at(2 * HOUR, lambda s: s.update("new"), key="new", policy=FULL)
    assert bench.stored() == ["new"]


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_a31_each_access_looks_at_the_next_entries_and_deletes_the_expired(kind: str) -> None:
    make, write, read, _ = KINDS[kind]
    life = ttl.Ttl("1h", cleanup_in_background=False, cleanup_incrementally=2)
    bench = Bench(make("s", ttl=ttl.Ttl("1h")))
    for number in range(6):
        bench.at(0, write, key=number)
    bench.declare(make("s", ttl=life))
    bench.at(2 * HOUR, read, key="none")
    left = Bench(make("s", ttl=life))
    left.log = bench.log
    remaining = []
    for number in range(6):
        shown = ttl.Ttl("1h", visibility=ttl.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
        left.declare(make("s", ttl=shown))
        remaining.append(left.at(2 * HOUR, read, key=number) not in (None, []))
    assert remaining.count(False) == 2


@pytest.mark.parametrize("every_record", [True, False])
def test_a31_records_count_as_accesses_only_when_asked_to(every_record: bool) -> None:
    life = ttl.Ttl("1h", cleanup_in_background=False, cleanup_incrementally=1, cleanup_for_every_record=every_record)
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=life))
    _fill(bench, 8)
    written = bench._worker.run(bench.log, lambda context: context.clean(9), now_ms=2 * HOUR)
    assert (written.delta_bytes > 0) is every_record
    bench.at(2 * HOUR, lambda s: s.update("new"), key="new", policy=FULL)
    assert len(bench.stored()) == (1 if every_record else 8)


def test_a29_an_export_leaves_out_what_is_expired_and_the_live_state_keeps_it() -> None:
    group = chunks.Chunk(
        chunks.ChunkKind.FULL,
        (
            chunks.Section(
                kinds.StateMeta("value", valuestate.VALUE, "any", has_ttl=True),
                {"old": (1, 0), "new": (2, 10)},
            ),
            chunks.Section(
                kinds.StateMeta("list", liststate.LIST, "array<any>", has_ttl=True),
                {"old": liststate.ListChange(0, [(1, 0)]), "both": liststate.ListChange(0, [(1, 0), (2, 10)])},
            ),
            chunks.Section(
                kinds.StateMeta("map", mapstate.MAP, "map<any,any>", has_ttl=True),
                {"both": mapstate.MapChange(replaced=True, puts={"a": (1, 0), "b": (None, 10)})},
            ),
            chunks.Section(kinds.StateMeta("other", valuestate.VALUE, "any", has_ttl=True), {"old": (1, 0)}),
            chunks.Section(kinds.StateMeta("plain", valuestate.VALUE, "any", has_ttl=False), {"old": 1}),
        ),
    )
    before = chunks.encode(group)
    exported = chunks.without_expired(group, {"value": 5, "list": 5, "map": 5, "plain": 5, "gone": 5}, now_ms=5)
    assert {section.meta.name: section.changes for section in exported.sections} == {
        "value": {"new": (2, 10)},
        "list": {"both": liststate.ListChange(0, [(2, 10)])},
        "map": {"both": mapstate.MapChange(replaced=True, puts={"b": (None, 10)})},
        "other": {"old": (1, 0)},
        "plain": {"old": 1},
    }
    assert chunks.encode(group) == before


def test_a29_the_times_to_live_of_a_function_can_be_read_for_an_export() -> None:
    life = ttl.Ttl("1d", cleanup_full_snapshot=True)

    class Function(functions.KeyedProcessFunction):
        def open(self, ctx: functions.BatchContext) -> None:
            self.one = ctx.value_state("one", ttl=life)
            self.two = ctx.list_state("two")

        def close(self) -> None:
            raise AttributeError("what open() left out")

    function = Function()
    assert functions.declarations_of(function, "uid").lifetimes == {"one": life}
    assert not hasattr(function, "one")


def test_a25_everything_but_having_a_time_to_live_may_change_between_runs() -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=ttl.Ttl("1h")))
    bench.at(0, lambda s: s.update(1))
    for life in (
        ttl.Ttl("9h", update=ttl.TtlUpdate.ON_READ_AND_WRITE, cleanup_incrementally=1),
        ttl.Ttl("5h", visibility=ttl.TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP, cleanup_full_snapshot=True),
    ):
        bench.declare(valuestate.ValueStateDescriptor("s", ttl=life))
        assert bench.at(3 * HOUR, lambda s: s.get()) == 1


@pytest.mark.parametrize(("first", "second"), [(None, ttl.Ttl("1h")), (ttl.Ttl("1h"), None)])
def test_a26_switching_a_time_to_live_on_or_off_is_refused_by_name(
    first: ttl.Ttl | None, second: ttl.Ttl | None
) -> None:
    bench = Bench(valuestate.ValueStateDescriptor("s", ttl=first))
    bench.at(0, lambda s: s.update(1))
    bench.declare(valuestate.ValueStateDescriptor("s", ttl=second))
    with pytest.raises(errors.SpecRejectedError, match=r"State 's' was written with.* a time to live .*ttl_change"):
        bench.at(0, lambda s: s.get())


@pytest.mark.parametrize("kind", KINDS)
def test_b12_switched_on_by_choice_entries_live_from_the_restore_on(kind: str) -> None:
    make, write, read, empty = KINDS[kind]
    bench = Bench(make("s", ttl=None))
    bench.at(0, write)
    bench.declare(make("s", ttl=ttl.Ttl("1h")), ttl.TtlChange.MIGRATE)
    assert bench.at(50 * HOUR, read) != empty
    bench.declare(make("s", ttl=ttl.Ttl("1h")))
    assert bench.at(51 * HOUR - 1, read) != empty
    assert bench.at(51 * HOUR, read) == empty


@pytest.mark.parametrize("kind", KINDS)
def test_b12_switched_off_by_choice_entries_stay_for_good(kind: str) -> None:
    make, write, read, empty = KINDS[kind]
    bench = Bench(make("s", ttl=ttl.Ttl("1h")))
    bench.at(0, write)
    bench.declare(make("s", ttl=None), ttl.TtlChange.MIGRATE)
    assert bench.at(50 * HOUR, read) != empty
    bench.declare(make("s", ttl=None))
    assert bench.at(99 * HOUR, read) != empty


def test_a27_a_map_with_a_time_to_live_may_hold_none() -> None:
    bench = Bench(mapstate.MapStateDescriptor("s", ttl=ttl.Ttl("1h")))
    bench.at(0, lambda s: s.put("a", None))
    assert bench.at(1, lambda s: ("a" in s, s.get("a"), s.items())) == (True, None, [("a", None)])
    assert bench.at(HOUR, lambda s: "a" in s) is False
