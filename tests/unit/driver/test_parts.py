"""The parts of a partition that the sinks of a query write side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from sinkcontexts import a_sink_context
from statefulspark import errors
from statefulspark.declaration import Selection
from statefulspark.driver.output import parts
from statefulspark.sinks.base import SinkContext

Batches = Iterator[pa.RecordBatch]
MANY = 20


class Sink:
    """Describes what it stages by its rows."""

    def __init__(self, write: Callable[[Batches], bytes | None]) -> None:
        self._write = write

    def write_part(self, batches: Batches, context: SinkContext) -> bytes | None:
        del context
        return self._write(batches)


def numbers(batches: Batches) -> bytes | None:
    values = [row for batch in batches for row in batch.to_pylist()]
    return repr(values).encode() if values else None


def a_partition(batches: int = 2) -> Batches:
    for number in range(batches):
        rows = range(number * 3, number * 3 + 3)
        yield pa.RecordBatch.from_pydict(
            {"n": list(rows), "word": [f"w{row}" for row in rows], "is_even": [row % 2 == 0 for row in rows]}
        )


def written(batches: Batches, *sinks: tuple[Callable[[Batches], bytes | None], Selection | None]) -> dict[int, bytes]:
    context = a_sink_context()
    writers = [parts.PartWriter(Sink(write), context, selection) for write, selection in sinks]  # type: ignore[arg-type]
    return {row["sink"]: row["part"] for batch in parts.write_parts(batches, writers) for row in batch.to_pylist()}


def test_each_sink_gets_its_rows_and_columns() -> None:
    first = written(
        a_partition(),
        (numbers, Selection((0, 1))),
        (numbers, Selection((1,), condition=2)),
        (numbers, Selection((1, 0))),
    )
    assert first == {
        0: repr([{"n": n, "word": f"w{n}"} for n in range(6)]).encode(),
        1: repr([{"word": f"w{n}"} for n in range(0, 6, 2)]).encode(),
        2: repr([{"word": f"w{n}", "n": n} for n in range(6)]).encode(),
    }


def test_a_sink_whose_part_is_no_bytes_is_named() -> None:
    def described(batches: Batches) -> Any:
        return {"rows": len(list(batches))}

    with pytest.raises(errors.UserCodeError, match=r"write_part\(\) of sink .* raised TypeError: it returned dict"):
        written(a_partition(), (described, None))


def test_a_single_sink_gets_the_batches_as_they_are() -> None:
    seen: list[pa.RecordBatch] = []
    given = list(a_partition())

    assert written(iter(given), (seen.extend, None)) == {}
    assert all(got is batch for got, batch in zip(seen, given, strict=True))


def test_a_sink_that_gets_no_row_stages_nothing_beside_one_that_does() -> None:
    nothing = pa.RecordBatch.from_pydict({"n": [1], "is_chosen": [False]})
    assert set(written(iter([nothing]), (numbers, Selection((0,))), (numbers, Selection((0,), condition=1)))) == {0}


@pytest.mark.parametrize("failing", [0, 1])
def test_a_sink_that_fails_ends_the_others_with_its_error(failing: int) -> None:
    ended: list[BaseException] = []

    def failing_sink(batches: Batches) -> bytes | None:
        next(batches)
        raise errors.TransientError("BrokerUnavailable", "The broker did not answer.")

    def waiting(batches: Batches) -> bytes | None:
        try:
            return numbers(batches)
        except BaseException as error:
            ended.append(error)
            raise

    sinks = [(waiting, None), (waiting, None)]
    sinks[failing] = (failing_sink, None)
    with pytest.raises(errors.TransientError, match="The broker did not answer"):
        written(a_partition(MANY), *sinks)
    assert ["The broker did not answer" in str(error) for error in ended] == [True]


def test_a_partition_that_cannot_be_read_is_staged_by_no_sink() -> None:
    def cut() -> Batches:
        yield from a_partition()
        raise OSError("The shuffle is gone.")

    staged: list[bytes | None] = []
    with pytest.raises(OSError, match="The shuffle is gone"):
        written(cut(), *[(lambda batches: staged.append(numbers(batches)), None)] * 2)
    assert staged == []


def test_a_sink_that_leaves_rows_holds_up_nobody() -> None:
    assert set(written(a_partition(MANY), (lambda batches: b"enough", None), (numbers, None))) == {0, 1}


def test_no_sink_is_more_than_two_batches_behind_what_was_read() -> None:
    read = written_slowly = 0
    furthest = 0
    may_go_on = threading.Semaphore(0)

    def reading() -> Batches:
        nonlocal read
        for batch in a_partition(MANY):
            read += 1
            yield batch
            may_go_on.release()

    def slow(batches: Batches) -> bytes | None:
        nonlocal written_slowly, furthest
        for _ in batches:
            may_go_on.acquire(timeout=0.05)
            written_slowly += 1
            furthest = max(furthest, read - written_slowly)
        return b"all"

    assert set(written(reading(), (slow, None), (lambda batches: repr(sum(1 for _ in batches)).encode(), None))) == {
        0,
        1,
    }
    assert (read, written_slowly) == (MANY, MANY)
    assert furthest <= 2
