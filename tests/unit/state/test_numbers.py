"""Numbers by integer key as arrays give what the same state gives as Python objects, in memory and in storage."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyedstate import MemoryLog, Worker, new_ids
from statefulspark import errors
from statefulspark.state import aggregatingstate, cache, chunks, functions, heads, numbers

EAGER = heads.Policy(fan_in=2, max_size_amplification=3.0, small_run_bytes=64)
REDUCES: dict[str, Callable[..., object]] = {"add": operator.add, "min": min, "max": max}
LARGE = 2**63 - 1
INTEGERS = st.one_of(st.integers(-9, 9), st.sampled_from([LARGE, -LARGE - 1, LARGE - 5, 2**40]))
FLOATS = st.one_of(st.floats(-9, 9), st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e308]))
KEYS = st.one_of(st.integers(0, 6), st.sampled_from([-1, 300, 2**40, LARGE, -LARGE - 1]))


class Bench:
    """One key group of a vectorised function with one reducing state, over batches."""

    def __init__(self, reduce: Callable[..., object], kind: type, *, arrays: bool = True, **options: object) -> None:
        self.log = MemoryLog()
        self.handle: aggregatingstate.ReducingState[object]
        self._descriptor = aggregatingstate.ReducingStateDescriptor("s", reduce, kind)
        self._ids = new_ids()
        self._arrays = arrays
        self._options = options
        self.restart()

    def restart(self) -> None:
        """Lose what the worker has in memory."""
        self.worker = Worker(self._declare, self._ids, is_vectorized=self._arrays, **self._options)  # type: ignore[arg-type]

    def _declare(self, context: functions.BatchContext) -> None:
        self.handle = context.declare(self._descriptor)

    def add(self, keys: object, values: object, *, is_lost: bool = False) -> list[object]:
        """Run a batch; one that is lost leaves nothing in the log."""
        results: list[object] = []

        def work(context: functions.BatchContext) -> None:
            context.enter_group(list, lambda column: column.to_pylist())
            folded = self.handle.add_many(keys, values)  # type: ignore[call-overload]
            results.extend(folded.to_pylist() if isinstance(folded, pa.Array | pa.ChunkedArray) else folded)

        attempt = self.log.attempt()
        known = keys.to_pylist() if isinstance(keys, pa.Array) else keys
        self.worker.run(attempt, work, policy=EAGER, keys=known)  # type: ignore[arg-type]
        if not is_lost:
            self.log.adopt(attempt)
        return results

    def stored(self) -> dict[object, object]:
        """Return the state, read from the log alone."""
        rows: dict[object, object] = {}
        head = self.log.head()
        for run in head.runs if head else ():
            chunk = chunks.decode(self.log.chunks[run.version][1], "test")
            rows.update({key: cell for section in chunk.sections for key, cell in section.changes.items()})
        return rows

    def forms(self) -> list[type]:
        """Return what each section of the chunks is read as."""
        head = self.log.head()
        stored = (chunks.decode(self.log.chunks[run.version][1], "test") for run in (head.runs if head else ()))
        return [type(section.content) for chunk in stored for section in chunk.sections]


def _same(found: object, expected: object) -> bool:
    """Tell whether two are equal with their types, NaN and -0.0 included."""
    return repr(found) == repr(expected)


BATCHES = st.lists(
    st.tuples(st.dictionaries(KEYS, INTEGERS, max_size=8), st.sampled_from(["columns", "lists", "lost", "restart"])),
    max_size=6,
)


@pytest.mark.parametrize("name", REDUCES)
@settings(max_examples=60)
@given(batches=BATCHES)
def test_integers_as_columns_equal_integers_as_objects(name: str, batches: list[tuple[dict[int, int], str]]) -> None:
    columns, objects = Bench(REDUCES[name], int), Bench(REDUCES[name], int, arrays=False)
    for batch, how in batches:
        keys, values = list(batch), list(batch.values())
        if how == "restart":
            columns.restart()
        if how == "lost":
            with contextlib.suppress(errors.SpecRejectedError):  # too large for a column
                columns.add(pa.array(keys, pa.int64()), pa.array(values, pa.int64()), is_lost=True)
        expected = objects.add(keys, values)
        too_large = any(value is not None and not -LARGE - 1 <= value <= LARGE for value in expected)  # type: ignore[operator]
        if how == "lists" or too_large:
            found = columns.add(keys, values)
        else:
            found = columns.add(pa.array(keys, pa.int64()), pa.array(values, pa.int64()))
        assert found == expected
    assert columns.stored() == objects.stored()


@pytest.mark.parametrize("name", REDUCES)
@settings(max_examples=60)
@given(batches=st.lists(st.tuples(st.dictionaries(KEYS, FLOATS, max_size=8), st.booleans()), max_size=6))
def test_floats_as_columns_equal_floats_as_objects(name: str, batches: list[tuple[dict[int, float], bool]]) -> None:
    columns, objects = Bench(REDUCES[name], float), Bench(REDUCES[name], float, arrays=False)
    for batch, restarts in batches:
        if restarts:
            columns.restart()
        keys, values = list(batch), list(batch.values())
        found = columns.add(pa.array(keys, pa.int64()), pa.array(values, pa.float64()))
        assert _same(found, objects.add(keys, values))
    assert _same(sorted(columns.stored().items()), sorted(objects.stored().items()))  # type: ignore[type-var]


def test_the_way_of_arrays_is_taken_and_stored() -> None:
    bench = Bench(operator.add, int)
    assert bench.add(pa.array([3, 1], pa.int32()), pa.array([10, 20], pa.uint32())) == [10, 20]
    assert bench.add(pa.chunked_array([[1], [2]]), pa.chunked_array([[5], [6]])) == [25, 6]
    assert set(bench.forms()) == {numbers.Numbers}
    assert bench.stored() == {3: 10, 1: 25, 2: 6}


@pytest.mark.parametrize(
    ("keys", "values", "expected"),
    [
        (pa.array([1, None]), pa.array([1, 2]), [1, 2]),
        (pa.array([1, 2]), pa.array([1, None]), [1, None]),
        (pa.array([1, 1]), pa.array([1, 2]), [1, 3]),
        (pa.array(["a", "b"]), pa.array([1, 2]), [1, 2]),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([1]), [1]),
        (pa.array([1]), pa.array([2**62], pa.uint64()), [2**62]),
    ],
)
def test_other_columns_are_folded_as_objects(keys: pa.Array, values: pa.Array, expected: list[object]) -> None:
    bench = Bench(operator.add, int)
    assert bench.add(keys, values) == expected
    assert bench.forms() == [dict]


def test_a_sum_beyond_64_bits_goes_on_as_objects() -> None:
    bench = Bench(operator.add, int)
    assert bench.add(pa.array([1, 2]), pa.array([LARGE, 5])) == [LARGE, 5]
    assert bench.add([1, 2], [1, 1]) == [2**63, 6]
    assert bench.stored() == {1: 2**63, 2: 6}
    with pytest.raises(errors.SpecRejectedError, match="9223372036854775809, which does not fit 64 bits; pass lists"):
        bench.add(pa.array([1]), pa.array([1]))
    assert bench.add(pa.array([2]), pa.array([1])) == [7]


def test_a_float_state_with_integers_keeps_them() -> None:
    bench = Bench(operator.add, float)
    bench.add([1], [7])
    assert _same(bench.add(pa.array([2]), pa.array([0.5])), [0.5])
    assert _same(bench.stored()[1], 7)


def test_state_of_arrays_is_read_row_by_row_after_a_change_of_the_function() -> None:
    bench = Bench(operator.add, int)
    bench.add(pa.array([1, 2]), pa.array([10, 20]))
    read: list[object] = []

    def work(context: functions.BatchContext) -> None:
        context.enter(1)
        handle.add(5)
        read.append(handle.get())

    def declare(context: functions.BatchContext) -> None:
        nonlocal handle
        handle = context.reducing_state("s", operator.add, int)

    handle: aggregatingstate.ReducingState[int]
    Worker(declare, new_ids()).run(bench.log, work)
    assert read == [15]
    assert bench.stored() == {1: 15, 2: 20}
    bench.restart()
    assert bench.add(pa.array([1, 2]), pa.array([1, 1])) == [16, 21]


def test_a_group_on_disk_gives_and_takes_arrays(tmp_path: Path) -> None:
    bench = Bench(operator.add, int, memory_bytes=0, disk=cache.DiskViews(tmp_path / "views"))
    truth: dict[int, int] = {}
    for batch in range(12):
        keys = [(batch * 7 + number) % 40 for number in range(25)]
        truth.update({key: truth.get(key, 0) + batch for key in keys})
        assert bench.add(pa.array(keys), pa.array([batch] * 25)) == [truth[key] for key in keys]
    assert bench.stored() == truth


def test_a_group_on_disk_that_is_written_in_full_stays_arrays(tmp_path: Path) -> None:
    bench = Bench(operator.add, int, memory_bytes=0, disk=cache.DiskViews(tmp_path / "views"))
    keys = pa.array(range(100))
    for number in range(12):
        assert bench.add(keys, keys) == [key * (number + 1) for key in range(100)]
        assert set(bench.forms()) == {numbers.Numbers}


def test_memory_is_counted_as_it_is() -> None:
    count = 10_000
    arrays, objects = Bench(operator.add, int), Bench(operator.add, int, arrays=False)
    arrays.add(pa.array(range(count)), pa.array(range(count)))
    objects.add(list(range(count)), list(range(count)))
    assert arrays.worker.cache.held_bytes == 17 * count
    assert objects.worker.cache.held_bytes > 200 * count


def test_a_group_that_fits_into_memory_as_arrays_is_not_read_from_disk_after_a_restart(tmp_path: Path) -> None:
    """As objects it would take ten times as much."""
    count = 10_000
    disk = cache.DiskViews(tmp_path / "views")
    bench = Bench(operator.add, int, memory_bytes=40 * count, disk=disk)
    keys = pa.array(range(count))
    bench.add(keys, keys)
    bench.restart()

    bench.add(keys.slice(0, 5), keys.slice(0, 5))

    assert bench.worker.cache.held_bytes == 17 * count
    assert not disk.folder.exists()


def test_columns_are_narrow() -> None:
    def body(keys: list[int], values: list[float]) -> list[object]:
        kind = pa.float64() if isinstance(values[0], float) else pa.int64()
        read = numbers.read_columns(pa.array(keys), pa.array(values, kind), type(values[0]))
        assert read is not None
        return [column[0] for column in read[0].pack()]

    assert body([1, -128], [127, 0]) == ["<i1", "<i1"]
    assert body([1, 128], [-32768, 0]) == ["<i2", "<i2"]
    assert body([1, 2**31 - 1], [2**31, 0]) == ["<i4", "<i8"]
    assert body([LARGE, -LARGE - 1], [0.5, 1.0]) == ["<i8", "<f8"]


@pytest.mark.parametrize(
    ("keys", "values", "sentence"),
    [
        (["<i1", b"\2\1"], ["<i1", b"\1\1"], "not in ascending order"),
        (["<i1", b"\1\1"], ["<i1", b"\1\1"], "not in ascending order"),
        (["<i1", b"\1\2"], ["<i1", b"\1"], "differ in length"),
        (["<f8", b"\0" * 8], ["<i1", b"\1"], "type '<f8' is unknown"),
        (["|O", b"\1"], ["<i1", b"\1"], "type '|O' is unknown"),
        (["<i2", b"\1"], ["<i1", b"\1"], "buffer size"),
        (["<i1", b"\1"], ["v", "<i1", b"\1"], "too many values"),
    ],
)
def test_damaged_columns_are_an_error(keys: list[object], values: list[object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("|", "[|]")):
        numbers.Numbers.unpack(keys, values)


def test_columns_outside_a_table_are_refused() -> None:
    bench = Bench(operator.add, int)
    with pytest.raises(errors.SpecRejectedError, match="inside process_table"):
        bench.worker.run(bench.log, lambda _: bench.handle.add_many(pa.array([1]), pa.array([1])))  # type: ignore[arg-type,func-returns-value]


@pytest.mark.parametrize(
    ("keys", "values", "sentence"),
    [
        (pa.array([1, 2]), pa.array([1]), "Int64Array of 2, Int64Array of 1"),
        (pa.array([1]), pa.array([1, 2]), "Int64Array of 1, Int64Array of 2"),
        (pa.array([1]), [1], "Int64Array of 1, list of 1"),
        ([1], pa.array([1]), "list of 1, Int64Array of 1"),
    ],
)
def test_columns_that_do_not_fit_are_refused(keys: object, values: object, sentence: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=sentence):
        Bench(operator.add, int).add(keys, values)
